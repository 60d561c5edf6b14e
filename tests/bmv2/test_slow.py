"""Slowing a fabric and a drill down as a whole."""

from __future__ import annotations

import pytest

from drills.catalog import catalog_names as drill_names
from drills.catalog import find
from drills.format import load_drill
from mrclab.cli import main
from mrclab.commands.slow import check_faults, slow_factor, slowed_drill, slowed_plan
from mrclab.errors import UserError
from topologies.plan import Plan
from topologies.slow import BMV2_SLOWER, slowed
from topologies.spec import catalog_names, load_spec

LINK = "p0t0-0:p0t1-0"
DRILL = """\
name: mine
title: mine
fabric: two-plane
workload:
  flows: [{{from: h0, to: h2}}]
  message: 64 KiB
duration: 4 s
timeline: [{fault}]
expect:
  bytes_missing: {{at_most: 0}}
"""


@pytest.mark.parametrize("name", catalog_names())
def test_a_slowed_fabric_holds_the_same_packets(name: str) -> None:
    spec = load_spec(name)
    slow = slowed(spec, 4)
    assert slow.thresholds == spec.thresholds
    assert slow.time_scale == 4 * spec.time_scale
    assert slow.link.rate == spec.link.rate // 4
    assert slow.link.delay == 4 * spec.link.delay
    assert abs(slow.bdp_bytes - spec.bdp_bytes) <= 1
    assert slowed(spec, 1) is spec


def test_too_slow() -> None:
    plan = Plan.from_spec(load_spec("two-plane"))
    with pytest.raises(UserError, match="--slow 1000: two-plane cannot be so slow"):
        slowed_plan(plan, 1000)


@pytest.mark.parametrize("name", drill_names())
def test_a_slowed_drill_has_longer_times(name: str) -> None:
    drill = load_drill(find(name))
    slow = slowed_drill(drill, 3)
    assert (slow.warmup, slow.duration) == (3 * drill.warmup, 3 * drill.duration)
    assert [(f.at, f.until) for f in slow.timeline] == [
        (3 * f.at, 3 * f.until) for f in drill.timeline
    ]
    assert slow.expect == drill.expect


def test_bmv2_is_slower_unless_told_otherwise() -> None:
    assert slow_factor(None, "builtin") == 1
    assert slow_factor(None, "bmv2") == BMV2_SLOWER
    assert slow_factor(7, "bmv2") == slow_factor(7, "builtin") == 7


@pytest.mark.parametrize(
    "fault",
    [
        f'{{fault: link_loss, link: "{LINK}", loss: 0.1, at: 1 s, until: 2 s}}',
        f'{{fault: link_corrupt, link: "{LINK}", corrupt: 0.1, at: 1 s, until: 2 s}}',
        f'{{fault: link_blackhole, link: "{LINK}", at: 1 s, until: 2 s}}',
    ],
)
def test_bmv2_refuses_what_it_cannot_do(
    fault: str, tmp_path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mrclab.commands.drill.check_switch", lambda switch: None)
    path = tmp_path / "mine.yaml"
    path.write_text(DRILL.format(fault=fault))
    assert main(["drill", str(path), "--switch", "bmv2"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "bmv2 does not have (it can only cut links); use --switch builtin" in err


def test_bmv2_can_cut(tmp_path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        DRILL.format(fault=f'{{fault: link_down, link: "{LINK}", at: 1 s, until: 2 s}}')
    )
    check_faults(load_drill(path), "bmv2")


@pytest.mark.parametrize("command", [["drill", "link-down"], ["up"]])
def test_bmv2_that_is_absent(command: list[str], tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main([*command, "--switch", "bmv2"]) == 2
    assert capsys.readouterr().err == (
        "lab: --switch bmv2: simple_switch_grpc is not on the PATH; install bmv2 or use "
        "--switch builtin\n"
    )
