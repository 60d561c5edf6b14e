"""A switch that went dark and was taken for two links of it: the evidence of that run, again."""

from __future__ import annotations

from itertools import groupby

from controller.mrc.mapper import plan_loops
from controller.mrc.watch import FaultWatch, IncidentEvent
from tests.controller.mrc.hosts import MS, SECOND, fabric

PLAN = fabric("two-plane")
DARK = "p1t1-1"
FAULT = 10 * SECOND
TELLS_LATER = {"h0": 145, "h1": 145, "h2": 192, "h3": 192}
"""ms after the fault at which a host's lost loop probes were first heard of."""
POLLS = (98, 145, 192, 240, 290, 340, 390, 440, 490)
"""ms after the fault."""
GIVEN_UP = (
    (83, "h0", 2424632721),
    (83, "h0", 1670116572),
    (83, "h0", 209901371),
    (83, "h0", 1800458879),
    (83, "h0", 2120536262),
    (83, "h0", 2300498217),
    (83, "h0", 1027786570),
    (83, "h0", 1119676491),
    (87, "h3", 4102609292),
    (87, "h3", 1166015096),
    (87, "h3", 2339164774),
    (87, "h3", 694147005),
    (87, "h3", 1937368064),
    (87, "h3", 2278217667),
    (87, "h3", 525321836),
    (87, "h3", 3073634897),
    (125, "h0", 3908554163),
    (129, "h3", 2295980654),
    (175, "h0", 1677711817),
    (175, "h0", 4265080114),
    (175, "h0", 1814550605),
    (179, "h3", 4206095324),
    (179, "h3", 2731729198),
    (179, "h3", 3831061537),
    (179, "h3", 1542578682),
)
"""(ms after the fault, host, EV of plane 1) as the hosts gave them up."""


def test_a_dark_switch_is_one_incident() -> None:
    watch = FaultWatch(PLAN)
    loops = [loop for loop in plan_loops(PLAN) if loop.plane == 1]
    peers = {"h0": "h2", "h3": "h1"}
    for host, peer in peers.items():
        watch.flow(host, host, peer, [(1, ev) for _, who, ev in GIVEN_UP if who == host])
    events: list[IncidentEvent] = []

    def poll(now: int, after: int) -> None:
        heard = list(given.get(after, ()))
        for host in PLAN.hosts:
            for _, who, ev in heard:
                if who == host:
                    watch.ev_state(host, 1, ev, "ASSUMED_BAD", now)
            for loop in loops:
                if loop.host == host:
                    dead = DARK in loop.way and after >= TELLS_LATER[host]
                    silent = DARK in loop.way and 0 <= after < TELLS_LATER[host]
                    watch.loop(loop.way, 0 if silent else 3, 3 if dead else 0, now)
            if host in peers:
                watch.traffic(host, 8, now)
        events.extend(watch.tick(now))

    def heard_at(item: tuple[int, str, int]) -> int:
        return next(at for at in POLLS if at >= item[0])

    given = {at: list(items) for at, items in groupby(GIVEN_UP, heard_at)}
    for tick in range(20):
        poll(FAULT - (20 - tick) * 50 * MS, -1)
    assert events == []
    seen = []
    for after in POLLS:
        poll(FAULT + after * MS, after)
        seen.append([(i.number, i.suspects) for i in watch.incidents])
    links = ("p1t0-0:p1t1-1", "p1t0-1:p1t1-1")
    assert seen[:2] == [[(1, links)], [(1, links[:1])]]  # as in that run
    assert {e.incident.number for e in events} == {1}
    assert seen[-1] == [(1, (DARK,))], seen
