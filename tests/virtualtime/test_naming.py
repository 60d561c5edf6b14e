"""The MRC controller names every kind of fault, on the fabric of the catalogue's drill."""

from __future__ import annotations

from pathlib import Path

import pytest

from drills.catalog import find
from drills.format import Drill, load_drill
from drills.runner import run_drill
from topologies.spec import load_spec
from virtualtime.profile import ProfileName, figures, scaled_drill
from virtualtime.testbed import VirtualTestbed

S = 10**9


def one_fault(index: int) -> Drill:
    """The catalogue's drill cut down to one of its faults, after a quiet second."""
    whole = load_drill(find("named-faults"))
    fault = whole.timeline[index]
    span = fault.until - fault.at
    timeline = [fault.model_copy(update={"at": S, "until": S + span})]
    return whole.model_copy(update={"timeline": timeline, "duration": 3 * S // 2 + span})


@pytest.mark.slow
@pytest.mark.parametrize(("index", "profile"), [(1, "lab"), (4, "real")], ids=["dark", "damaging"])
def test_a_fault_is_named(index: int, profile: ProfileName, tmp_path: Path) -> None:
    drill = one_fault(index)
    chosen = figures(load_spec("two-plane"), profile)
    with VirtualTestbed(
        chosen.plan, tempo=chosen.tempo, run_id="t", run_dir=tmp_path, seed=2, mrc=True
    ) as bed:
        summary = run_drill(scaled_drill(drill, chosen.tempo), bed, tmp_path, seed=2)
    metrics = summary.metrics
    assert (metrics["faults_not_named"], metrics["faults_misnamed"]) == (0, 0)
    named_ms = metrics["naming_ms"]
    assert named_ms is not None
    assert named_ms * chosen.tempo < 1000  # of lab time
    assert summary.verdict == "pass", summary.why
