"""Published behaviour of MRC at real figures, on fabrics small enough for a test. The drills of
the catalogue do the same at full size (docs/virtual-time.md)."""

from __future__ import annotations

import pytest

from drills.capacity import wire_capacity
from drills.view import view_of
from tests.virtualtime.conftest import delivered, one_flow
from topologies.plan import Plan
from topologies.spec import load_spec

US = 1_000
PAYLOAD = 4096 / 4198


def rate(testbed, host: str, span_us: int) -> float:
    """Goodput in bits per second over the next while."""
    world = testbed.world
    before = delivered(testbed, host)
    world.run(world.now + span_us * US)
    return (delivered(testbed, host) - before) * 8e6 / span_us


def test_a_connection_fills_its_line(tiny, bed) -> None:
    """Published: about 770 of 800 Gb/s, 96 %."""
    with bed(tiny(planes=8, active=64)) as testbed:
        one_flow(testbed, "h0", "h1")
        testbed.world.run(testbed.world.now + 30 * US)
        share = rate(testbed, "h1", 60) / 800e9
        assert 0.96 < share <= PAYLOAD + 0.001
        assert not sum(ctl.stats()["totals"]["dropped"] for ctl in testbed.ctl.values())


def test_one_nic_port_of_eight_lost_leaves_seven(tiny, bed) -> None:
    """Published: 87.5 %."""
    with bed(tiny(planes=8, active=64)) as testbed:
        one_flow(testbed, "h0", "h1")
        testbed.world.run(testbed.world.now + 30 * US)
        whole = rate(testbed, "h1", 40)
        testbed.links.cut("h0:p3t0-0")
        testbed.world.run(testbed.world.now + 30 * US)
        left = rate(testbed, "h1", 40)
        assert left / whole == pytest.approx(7 / 8, abs=0.01)
        testbed.links.repair("h0:p3t0-0")
        testbed.world.run(testbed.world.now + 60 * US)
        assert rate(testbed, "h1", 40) == pytest.approx(whole, rel=0.02)


def test_an_uplink_lost_costs_its_share_and_no_more(tiny, bed) -> None:
    """Two racks of two hosts, two planes of four uplinks: as many up as needed twice over, so
    that losing one of the rack's eight costs nothing that the other seven can't carry."""
    spec = tiny(planes=2, t1=4, hosts=2, mode="structured", active=32)
    with bed(spec) as testbed:
        for src, dst in (("h0", "h2"), ("h1", "h3")):
            one_flow(testbed, src, dst)
        testbed.world.run(testbed.world.now + 40 * US)
        whole = rate(testbed, "h2", 60)
        testbed.links.cut("p0t0-0:p0t1-0")
        testbed.world.run(testbed.world.now + 80 * US)
        left = rate(testbed, "h2", 60)
        assert left / whole > 0.97


def test_the_arithmetic_of_the_published_share() -> None:
    """A rack of eight planes with 32 uplinks each: one lost is 1/256, 0.4 %, of its capacity."""
    plan = Plan.from_spec(load_spec("eight-plane-wide"))
    view = view_of(plan)
    flows = [(f"h{i}", f"h{i + 32}") for i in range(32)]
    whole = wire_capacity(view, flows)
    left = wire_capacity(view, flows, {"p0t0-0:p0t1-0"})
    assert 1 - left / whole == pytest.approx(1 / 256)
    assert 1 - left / whole == pytest.approx(0.004, abs=0.0002)
