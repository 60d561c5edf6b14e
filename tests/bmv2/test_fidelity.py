"""The verdict on a run on bmv2: judged by what can be measured, and says what cannot."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from drills.events import Event
from tests.drills.synthetic import SyntheticRun
from topologies.bmv2ctl import UNKNOWN

MS = 1_000_000


def as_bmv2(waited_ns: int) -> Any:
    """Turn the samples of switches into what bmv2's side channel gives."""

    def edit(events: list[Event]) -> list[Event]:
        return [
            replace(
                event,
                data={
                    **event.data,
                    "late_p99_ns": None,
                    "late_max_ns": None,
                    "waited_p99_ns": waited_ns,
                    "waited_max_ns": waited_ns,
                    "unknown": list(UNKNOWN),
                },
            )
            if event.type == "ports"
            else event
            for event in events
        ]

    return edit


def test_a_run_on_bmv2_can_pass_and_says_what_it_does_not_know() -> None:
    summary = SyntheticRun(edit=as_bmv2(1 * MS)).judged()
    assert summary.verdict == "pass"
    assert summary.fidelity.startswith("ok; not known: ")
    for what in UNKNOWN:
        assert what in summary.fidelity
    names = [reading["name"] for reading in summary.fidelity_readings]
    assert names[:2] == ["switch threads waited, p99", "switch threads waited, worst"]


@pytest.mark.parametrize("waited_ms", [50, 500])
def test_threads_that_wait_for_a_cpu_make_it_void(waited_ms: int) -> None:
    summary = SyntheticRun(edit=as_bmv2(waited_ms * MS)).judged()
    assert summary.verdict == "void"
    assert "switch threads waited" in summary.why[0]
