"""Lab figures and real figures."""

from __future__ import annotations

import pytest

from drills.catalog import catalog_names, find
from drills.format import load_drill
from mrclab.errors import UserError
from topologies.spec import load_spec
from virtualtime.profile import figures, scaled_drill

US = 1_000


def test_the_real_profile_takes_the_scale_back() -> None:
    spec = load_spec("two-plane")
    lab, real = figures(spec, "lab"), figures(spec, "real")
    assert (lab.tempo, real.tempo) == (1, spec.time_scale)
    assert lab.plan.spec == spec
    assert real.plan.spec.link.rate == 100_000_000_000
    assert real.plan.spec.link.delay == 1 * US
    assert real.plan.spec.time_scale == 1
    # What is counted in packets or in round trips stays.
    assert real.plan.spec.thresholds == spec.thresholds
    assert real.plan.spec.base_rtt_ns() == pytest.approx(spec.base_rtt_ns() / 2000, rel=1e-3)
    assert real.plan.spec.rto_ns == spec.rto_ns // 2000
    assert list(real.plan.links) == list(lab.plan.links)


def test_a_fabric_at_real_figures_stays_as_it_is() -> None:
    real = figures(load_spec("two-plane"), "real").plan.spec
    again = figures(real, "real")
    assert again.tempo == 1
    assert again.plan.spec == real


def test_figures_that_no_link_has_are_refused(tiny) -> None:
    spec = tiny().model_copy(update={"time_scale": 100_000})
    with pytest.raises(UserError, match="5000 Gb/s"):
        figures(spec, "real")


@pytest.mark.parametrize("name", catalog_names())
def test_a_drill_is_scaled_whole(name: str) -> None:
    drill = load_drill(find(name))
    scaled = scaled_drill(drill, 2000)
    assert scaled.duration == drill.duration // 2000
    assert scaled.warmup == drill.warmup // 2000
    assert [(f.at, f.until) for f in scaled.timeline] == [
        (f.at // 2000, f.until // 2000) for f in drill.timeline
    ]
    assert scaled.workload == drill.workload
    # What is written to the run directory is read again when it is judged again.
    stored = scaled.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert type(drill).model_validate(stored).timeline == scaled.timeline
