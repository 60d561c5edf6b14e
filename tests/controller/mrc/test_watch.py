"""A fault in a fabric with traffic and loops: named in a second, right, and closed when mended."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from controller.mrc.evidence import Counts
from controller.mrc.plane import PlaneWatch, WatchTimes
from controller.mrc.watch import FaultWatch, IncidentEvent
from topologies.paths import path_of
from topologies.plan import Plan
from topologies.spec import load_spec

MS = 10**6
SECOND = 10**9
PLAN = Plan.from_spec(load_spec("two-plane"))
COMPONENTS = [*PLAN.links, *PLAN.switches]
FLOWS = [("h0", "h2"), ("h3", "h1")]
EVS = 64
STEP = 50 * MS
PACKETS = 100  # a flow's, per step


def loop_ways() -> Iterator[tuple[str, ...]]:
    for host in PLAN.hosts.values():
        for nic in host.nics:
            t0 = PLAN.switch(nic.switch)
            yield nic.link, t0.name
            for number in t0.uplinks:
                port = t0.ports[number]
                yield nic.link, t0.name, port.link, port.peer


class Fabric:
    """Hosts that report, over a fabric in which one component may lose."""

    def __init__(self, seed: int, *, loops: bool = True) -> None:
        self.rng = random.Random(seed)
        self.watch = FaultWatch(PLAN)
        self.now = 0
        self.broken: dict[str, float] = {}
        self.ways: dict[tuple[str, int, int], tuple[str, ...]] = {}
        self.bad: set[tuple[str, int, int]] = set()
        self.loops = list(loop_ways()) if loops else []
        for src, dst in FLOWS:
            keys = [(n % 2, self.rng.getrandbits(32)) for n in range(EVS)]
            self.watch.flow(f"{src}>{dst}", src, dst, keys)
            for plane, ev in keys:
                path = path_of(PLAN, src, dst, plane, ev)
                self.ways[f"{src}>{dst}", plane, ev] = (*path.links, *path.switches)

    def share(self, way: tuple[str, ...]) -> float:
        return max((self.broken.get(name, 0.0) for name in way), default=0.0)

    def step(self) -> list[IncidentEvent]:
        self.now += STEP
        for key, way in self.ways.items():
            name, plane, ev = key
            share = self.share(way)
            if key in self.bad:
                if self.rng.random() > share and self.rng.random() < 0.3:  # a probe came back
                    self.bad.discard(key)
                    self.watch.ev_state(name, plane, ev, "GOOD", self.now)
            elif any(self.rng.random() < share for _ in range(PACKETS // EVS)):
                self.bad.add(key)
                self.watch.ev_state(name, plane, ev, "ASSUMED_BAD", self.now)
        for src, dst in FLOWS:
            self.watch.traffic(f"{src}>{dst}", PACKETS, self.now)
        for way in self.loops:
            lost = sum(self.rng.random() < self.share(way) for _ in range(5))
            self.watch.loop(way, 5, lost, self.now)
        return self.watch.tick(self.now)

    def run(self, ns: int) -> list[IncidentEvent]:
        return [event for _ in range(ns // STEP) for event in self.step()]


@pytest.mark.parametrize("broken", COMPONENTS)
def test_a_cut_is_named_within_a_second_and_closed(broken: str) -> None:
    fabric = Fabric(5)
    assert fabric.run(SECOND) == []
    fabric.broken = {broken: 1.0}
    fabric.run(SECOND)
    (incident,) = fabric.watch.incidents
    assert incident.suspects == (broken,)
    assert incident.confidence > 0.9
    fabric.run(SECOND)
    assert fabric.watch.incidents == (incident,)
    assert incident.pinned
    fabric.broken = {}
    events = fabric.run(2 * SECOND)
    assert [e.kind for e in events] == ["closed"]
    assert fabric.watch.incidents == ()
    assert fabric.run(SECOND) == []


@pytest.mark.parametrize("broken", [n for n, link in PLAN.links.items() if link.kind == "host"])
def test_one_per_cent_on_a_nic_link(broken: str) -> None:
    fabric = Fabric(9)
    fabric.broken = {broken: 0.01}
    fabric.run(20 * SECOND)
    (incident,) = fabric.watch.incidents
    assert incident.suspects == (broken,)
    assert incident.loss == pytest.approx(0.01, rel=1)


def test_flows_alone_name_those_they_cannot_tell_apart() -> None:
    fabric = Fabric(3, loops=False)
    fabric.run(SECOND)
    fabric.broken = {"p1t0-0:p1t1-1": 1.0}
    fabric.run(SECOND)
    (incident,) = fabric.watch.incidents
    assert set(incident.suspects) == {"p1t0-0:p1t1-1", "p1t0-1:p1t1-1", "p1t1-1"}
    assert not incident.pinned
    assert incident.describe().startswith("p1t0-0:p1t1-1 or ")


def test_two_faults_one_after_the_other() -> None:
    fabric = Fabric(4)
    fabric.run(SECOND)
    fabric.broken = {"p0t1-0": 1.0}
    fabric.run(2 * SECOND)
    fabric.broken["h3:p1t0-1"] = 1.0
    fabric.run(2 * SECOND)
    assert [i.suspects for i in fabric.watch.incidents] == [("p0t1-0",), ("h3:p1t0-1",)]


LINKS = {n: [link for link in PLAN.links if n in link.split(":")] for n in PLAN.switches}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("switch", PLAN.switches)
def test_a_switch_whose_links_are_missed_one_after_the_other(switch: str, seed: int) -> None:
    """Hosts notice at different times: what looks like a cut link at first is the dark switch."""
    for first in LINKS[switch]:
        fabric = Fabric(seed)
        fabric.run(SECOND)
        fabric.broken = {first: 1.0}
        events = fabric.run(2 * STEP)
        fabric.broken = {switch: 1.0}
        events += fabric.run(SECOND - 2 * STEP)
        (incident,) = fabric.watch.incidents
        assert incident.suspects == (switch,)
        assert {e.incident.number for e in events} == {1}
        fabric.run(SECOND)
        assert incident.pinned
        fabric.broken = {}
        assert [e.kind for e in fabric.run(2 * SECOND)] == ["closed"]


@pytest.mark.parametrize("wait", [2 * SECOND, 60 * SECOND])
@pytest.mark.parametrize("switch", [n for n, s in PLAN.switches.items() if s.tier == 0])
def test_two_links_of_a_switch_one_after_the_other_are_two_faults(switch: str, wait: int) -> None:
    one, other = LINKS[switch][0], LINKS[switch][-1]
    fabric = Fabric(6)
    fabric.run(SECOND)
    fabric.broken = {one: 1.0}
    fabric.run(wait)
    fabric.broken[other] = 1.0
    fabric.run(2 * SECOND)
    assert [i.suspects for i in fabric.watch.incidents] == [(one,), (other,)]


@pytest.mark.parametrize("gap", [STEP, 6 * STEP, 15 * STEP])
def test_faults_in_two_planes_at_once_get_both_their_names(gap: int) -> None:
    fabric = Fabric(8)
    fabric.run(SECOND)
    fabric.broken = {"p0t0-1:p0t1-0": 1.0}
    fabric.run(gap)
    fabric.broken["p1t1-1"] = 1.0
    fabric.run(3 * SECOND)
    assert {i.suspects for i in fabric.watch.incidents} == {("p0t0-1:p0t1-0",), ("p1t1-1",)}


@pytest.mark.parametrize(("failing", "named"), [(True, 1), (False, 2)])
def test_expired_timers_accuse_nobody_while_answers_are_lost_elsewhere(
    failing: bool, named: int
) -> None:
    """A blackhole in plane 0 swallows SACKs too: packets of plane 1 time out that arrived."""
    fabric = Fabric(7)
    fabric.run(SECOND)
    fabric.broken = {"p0t0-1:p0t1-1": 1.0}
    fabric.run(6 * STEP)
    if not failing:
        fabric.broken = {}
        fabric.run(4 * SECOND)
    mine = [key for key in fabric.ways if key[0] == "h3>h1" and key[1] == 1]
    for name, plane, ev in mine[:16]:
        fabric.watch.ev_state(name, plane, ev, "ASSUMED_BAD", fabric.now, 3, expired=True)
    events = fabric.run(SECOND)
    assert max([e.incident.number for e in events], default=1) == named


def test_a_dark_port_is_the_link_unless_the_neighbours_are_dark_too() -> None:
    for dark, cause in ((["h0"], "h0:p0t0-0"), (["h0", "h1"], "p0t0-0")):
        watch = FaultWatch(PLAN)
        for host in PLAN.hosts:
            watch.port(host, 0, host not in dark, SECOND)
        (event,) = watch.tick(SECOND)
        assert event.incident.suspects == (cause,)


def test_strangers_are_ignored() -> None:
    watch = FaultWatch(PLAN)
    watch.ev_state("nobody", 0, 1, "ASSUMED_BAD", 5)
    watch.traffic("nobody", 10, 5)
    watch.flow("f", "h0", "h2", [(0, 1)])
    watch.forget_flow("f")
    watch.ev_state("f", 0, 1, "ASSUMED_BAD", 6, drops=50)
    assert watch.tick(7) == []


@pytest.mark.parametrize(("elsewhere", "named"), [(Counts(), []), (Counts(9000, 0), [("a",)])])
def test_other_planes_show_what_healthy_ways_lose(
    elsewhere: Counts, named: list[tuple[str, ...]]
) -> None:
    plane = PlaneWatch({"s": ["a", "b"]}, WatchTimes(), lambda: 1, lambda _window, _now: elsewhere)
    plane.observe(("a", "s"), 400, 5, 0, probed=True)
    plane.observe(("b", "s"), 400, 0, 0, probed=True)
    assert [event.incident.suspects for event in plane.tick(0)] == named
