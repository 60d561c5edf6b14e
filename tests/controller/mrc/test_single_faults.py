"""One fault is one incident with its name, whatever the order in which hosts tell; two are two."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable

import pytest

from controller.mrc.watch import IncidentEvent
from tests.controller.mrc.hosts import SECOND, STEP, Hosts, Manner, fabric
from topologies.plan import Plan

FABRICS = {name: fabric(name) for name in ("one-plane", "two-plane", "three-uplinks")}
MANY_PLANES = fabric("eight-plane-small")
SLOW_HOSTS = Manner(stalls=0.1, stall=8 * STEP, notice=6 * STEP)
SINGLE = [
    (name, part)
    for name, plan in FABRICS.items()
    for part in (*plan.links, *plan.switches)
    if name != "three-uplinks" or "p0" in part  # its planes are alike
]


def names(events: Iterable[IncidentEvent]) -> list[tuple[str, ...]]:
    """What each incident was taken for in the end, by number: what a drill judges."""
    last = {event.incident.number: event.incident for event in events}
    return [tuple(sorted(last[number].suspects)) for number in sorted(last)]


def links_of(plan: Plan, switch: str) -> list[str]:
    return [port.link for _, port in sorted(plan.switches[switch].ports.items())]


def fail(
    hosts: Hosts, broken: Collection[str], ns: int = 3 * SECOND // 2, share: float = 1.0
) -> list[IncidentEvent]:
    hosts.broken = dict.fromkeys(broken, share)
    return hosts.run(ns)


@pytest.mark.parametrize(("name", "part"), SINGLE)
def test_every_link_and_every_switch(name: str, part: str) -> None:
    plan = FABRICS[name]
    hosts = Hosts(plan, SINGLE.index((name, part)))
    expected = hosts.class_of(part)
    events = hosts.run(SECOND)
    start = hosts.now
    events += fail(hosts, [part])
    first = next(e for e in events if tuple(sorted(e.incident.suspects)) == expected)
    assert first.t - start <= SECOND
    events += fail(hosts, [], 3 * SECOND)
    assert names(events) == [expected]
    assert hosts.watch.incidents == ()


@pytest.mark.parametrize(
    "part", sorted(MANY_PLANES.switches)[::8] + sorted(MANY_PLANES.links)[::12]
)
def test_among_eight_planes(part: str) -> None:
    hosts = Hosts(MANY_PLANES, 1)
    events = hosts.run(SECOND) + fail(hosts, [part]) + fail(hosts, [], 3 * SECOND)
    assert names(events) == [hosts.class_of(part)]
    assert hosts.watch.incidents == ()


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("part", [*FABRICS["two-plane"].links, *FABRICS["two-plane"].switches])
def test_hosts_that_tell_late_and_all_at_once(part: str, seed: int) -> None:
    hosts = Hosts(FABRICS["two-plane"], seed, SLOW_HOSTS)
    events = hosts.run(SECOND) + fail(hosts, [part], 2 * SECOND) + fail(hosts, [], 4 * SECOND)
    assert names(events) == [(part,)]
    assert hosts.watch.incidents == ()


@pytest.mark.parametrize("part", [*FABRICS["two-plane"].links, *FABRICS["two-plane"].switches])
def test_a_fifth_is_lost(part: str) -> None:
    hosts = Hosts(FABRICS["two-plane"], 7)
    events = hosts.run(SECOND) + fail(hosts, [part], share=0.2) + fail(hosts, [], 4 * SECOND)
    assert names(events) == [(part,)]


@pytest.mark.parametrize("t0", [0, 1])
@pytest.mark.parametrize("t1", ["p0t1-0", "p1t1-1"])
def test_a_pinned_link_becomes_the_switch_when_the_other_side_is_heard(t1: str, t0: int) -> None:
    """The hosts of one T0 say nothing for longer than a name must stand."""
    plan = FABRICS["two-plane"]
    hosts = Hosts(plan, 3)
    events = hosts.run(SECOND)
    hosts.silent = set(list(plan.hosts)[2 * t0 : 2 * t0 + 2])
    events += fail(hosts, [t1], 5 * SECOND // 2)
    hosts.silent = set()
    events += hosts.run(SECOND)
    assert [i.suspects for i in hosts.watch.incidents] == [(t1,)]
    events += fail(hosts, [], 4 * SECOND)
    assert names(events) == [(t1,)]


PAIRS = [
    (switch, pair)
    for switch in ("p0t0-1", "p1t1-0")
    for pair in itertools.combinations(links_of(FABRICS["three-uplinks"], switch), 2)
][::3]


@pytest.mark.parametrize("apart", [0, 4 * SECOND])
@pytest.mark.parametrize(("switch", "pair"), PAIRS)
def test_two_links_of_a_switch_that_delivers_over_others(
    switch: str, pair: tuple[str, str], apart: int
) -> None:
    hosts = Hosts(FABRICS["three-uplinks"], 11)
    events = hosts.run(SECOND)
    if apart:
        events += fail(hosts, pair[:1], apart)
    events += fail(hosts, pair, 4 * SECOND)
    assert {i.suspects for i in hosts.watch.incidents} == {pair[:1], pair[1:]}
    events += fail(hosts, [], 4 * SECOND)
    assert sorted(names(events)) == sorted([pair[:1], pair[1:]])
    assert hosts.watch.incidents == ()


@pytest.mark.parametrize("switch", ["p0t1-0", "p1t1-1"])
def test_the_second_of_two_links_fails_long_after_the_first(switch: str) -> None:
    """The first stays a link. The second can't be told from the switch: no way is left that
    crosses one and not the other."""
    one, other = links_of(FABRICS["two-plane"], switch)
    hosts = Hosts(FABRICS["two-plane"], 2)
    events = hosts.run(SECOND) + fail(hosts, [one], 10 * SECOND)
    events += fail(hosts, [one, other], 3 * SECOND)
    assert names(events) == [(one,), (other, switch)]


def test_one_link_is_mended_while_the_other_fails() -> None:
    one, other = links_of(FABRICS["three-uplinks"], "p0t1-1")[:2]
    hosts = Hosts(FABRICS["three-uplinks"], 4)
    events = hosts.run(SECOND) + fail(hosts, [one], 3 * SECOND)
    events += fail(hosts, [other], 3 * SECOND)
    assert [i.suspects for i in hosts.watch.incidents] == [(other,)]
    events += fail(hosts, [], 3 * SECOND)
    assert names(events) == [(one,), (other,)]


@pytest.mark.parametrize("gap", [0, 3 * STEP, 30 * STEP])
def test_links_to_the_same_place_in_two_planes(gap: int) -> None:
    """Planes are judged apart, however alike."""
    broken = ["p0t0-0:p0t1-1", "p1t0-0:p1t1-1"]
    hosts = Hosts(FABRICS["two-plane"], 6)
    events = hosts.run(SECOND) + fail(hosts, broken[:1], gap)
    events += fail(hosts, broken, 2 * SECOND) + fail(hosts, [], 3 * SECOND)
    assert sorted(names(events)) == [(name,) for name in broken]


@pytest.mark.parametrize(("tier", "evs"), [(0, 6), (1, 64)])
def test_a_switch_of_whose_links_few_are_used(tier: int, evs: int) -> None:
    """Two connections in a wide fabric, no loops: few links of a T0's 64, or a T1's two, are
    used. What they all cross is named together."""
    plan = fabric("eight-plane-wide")
    src, dst = next(iter(plan.hosts)), list(plan.hosts)[-1]
    flows = [(src, dst), (dst, src)]
    hosts = Hosts(plan, 5, Manner(loops=False), flows=flows, evs=evs, packets=8 * evs)
    crossed = {name for way in hosts.ways() for name in way}
    switch = next(n for n, s in plan.switches.items() if s.tier == tier and n in crossed)
    used = crossed.intersection(links_of(plan, switch))
    assert len(used) <= (13, 2)[tier]
    events = hosts.run(SECOND) + fail(hosts, [switch]) + fail(hosts, [], 5 * SECOND)
    assert names(events) == [hosts.class_of(switch)]
    assert hosts.watch.incidents == ()


def test_what_nobody_tells_apart_is_closed_too() -> None:
    """A host alone under its T0."""
    hosts = Hosts(FABRICS["one-plane"], 8)
    events = hosts.run(SECOND) + fail(hosts, ["p0t0-1"]) + fail(hosts, [], 3 * SECOND)
    assert [e.kind for e in events] == ["opened", "closed"]
    assert names(events) == [("h1:p0t0-1", "p0t0-1")]


def test_losses_that_are_long_ago_do_not_end_an_incident() -> None:
    """All EVs over the fault given up, and no loops: nothing says that it is over."""
    hosts = Hosts(FABRICS["two-plane"], 3, Manner(loops=False), flows=[("h0", "h2")])
    events = hosts.run(SECOND) + fail(hosts, ["p0t1-0"], 90 * SECOND)
    assert [e.kind for e in events] == ["opened"]
    assert [i.closed for i in hosts.watch.incidents] == [None]
    assert [e.kind for e in fail(hosts, [], 8 * SECOND)] == ["closed"]
