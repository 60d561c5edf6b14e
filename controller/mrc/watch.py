"""From what hosts say to incidents: what fails now, how sure that is, and when it is over.

Two windows look at the same observations: a short one for cuts, which must be named within a
second, and a long one for a link that loses one packet in a hundred. Each plane is judged by
itself (plane.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import count

from controller.mrc.evidence import Counts, Way
from controller.mrc.flows import EvKey, FlowView
from controller.mrc.incident import Incident, IncidentEvent
from controller.mrc.plane import PlaneWatch, WatchTimes
from topologies.paths import path_of
from topologies.plan import Plan

__all__ = ["FaultWatch", "Incident", "IncidentEvent", "WatchTimes"]

PORT_DOWN_WEIGHT = 50
"""A port without carrier weighs as much as so many lost packets."""


class FaultWatch:
    """Takes observations from all hosts, gives incidents. Times in ns, never going back."""

    def __init__(self, plan: Plan, times: WatchTimes | None = None) -> None:
        self._plan = plan
        self._flows: dict[str, FlowView] = {}
        links_of: list[dict[str, list[str]]] = [{} for _ in range(plan.spec.planes)]
        for switch in plan.switches.values():
            ports = switch.ports.values()
            links_of[switch.plane][switch.name] = [port.link for port in ports]
        numbers = count(1)
        times = times or WatchTimes()
        self._planes = [
            PlaneWatch(links, times, lambda: next(numbers), partial(self._elsewhere, plane))
            for plane, links in enumerate(links_of)
        ]
        self._plane_of = {link.name: link.plane for link in plan.links.values()}

    @property
    def incidents(self) -> tuple[Incident, ...]:
        """Those that are open, oldest first."""
        found = (incident for plane in self._planes for incident in plane.open)
        return tuple(sorted(found, key=lambda incident: incident.number))

    # -- observations

    def flow(self, name: str, src: str, dst: str, evs: Iterable[EvKey]) -> None:
        """A connection and the (plane, EV) pairs in its rotation; again: more of them."""
        if name not in self._flows:
            self._flows[name] = FlowView(src, dst, self._way)
        self._flows[name].add(evs)

    def forget_flow(self, name: str) -> None:
        """The connection has ended."""
        self._flows.pop(name, None)

    def ev_state(
        self,
        name: str,
        plane: int,
        ev: int,
        state: str,
        now: int,
        drops: int = 1,
        *,
        expired: bool = False,
    ) -> None:
        """An EV changed its state: ASSUMED_BAD accuses its way, a recovery vouches for it.

        `drops`: packets lost on it. `expired`: because its timer ran out, which also happens when
        only the answers are lost, on whatever plane they took: while another plane fails, that
        accuses nobody. Events of a flow nobody announced are ignored.
        """
        flow = self._flows.get(name)
        if flow is None:
            return
        way = flow.state((plane, ev), state)
        if state == "ASSUMED_BAD":
            if expired and any(p.open for n, p in enumerate(self._planes) if n != plane):
                return
            self._observe(way, drops, drops, now)
        elif state == "GOOD":
            self._observe(way, 1, 0, now)

    def traffic(self, name: str, packets: int, now: int) -> None:
        """So many packets of the flow were acknowledged since the last call."""
        flow = self._flows.get(name)
        if flow is None or packets <= 0:
            return
        for way, share in flow.exposure(packets).items():
            self._observe(way, share, 0, now)

    def loop(self, way: Way, sent: int, lost: int, now: int) -> None:
        """Loop probes over these components."""
        self._observe(way, sent, lost, now, probed=True)

    def port(self, host: str, plane: int, up: bool, now: int) -> None:
        """A NIC port's carrier, told at each change and as often as somebody looks."""
        nic = self._plan.host(host).nics[plane]
        weight = PORT_DOWN_WEIGHT
        self._observe((nic.link, nic.switch), weight, 0 if up else weight, now)

    # -- judgement

    def tick(self, now: int) -> list[IncidentEvent]:
        """Judge what is known; call it every tenth of the short window or so."""
        return [event for plane in self._planes for event in plane.tick(now)]

    def _elsewhere(self, plane: int, window: int, now: int) -> Counts:
        others = [p.healthy(window, now) for n, p in enumerate(self._planes) if n != plane]
        return Counts(sum(c.sent for c in others), sum(c.lost for c in others))

    def _way(self, src: str, dst: str, plane: int, ev: int) -> Way:
        path = path_of(self._plan, src, dst, plane, ev)
        return (*path.links, *path.switches)

    def _observe(
        self, way: Way, sent: float, lost: float, now: int, *, probed: bool = False
    ) -> None:
        """The first component of every way is a link."""
        self._planes[self._plane_of[way[0]]].observe(way, sent, lost, now, probed=probed)
