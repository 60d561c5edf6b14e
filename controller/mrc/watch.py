"""From evidence to incidents: what fails now, how sure that is, and when it is over.

Two windows look at the same observations: a short one for cuts, which must be named within a
second, and a long one for a link that loses one packet in a hundred. The name of a fault follows
what is known: the first losses on one link of a switch that went dark accuse the link, those on
the next one the switch. A name that has stood for a short window is beyond doubt, and the fault
is set apart: what crosses it says nothing about the rest any more, and tells when it is over.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from controller.mrc.evidence import Evidence
from controller.mrc.flows import EvKey, FlowView, Way
from controller.mrc.localise import Verdict, localise
from topologies.paths import path_of
from topologies.plan import Plan

CERTAINTY = 0.999
"""An incident is opened when something is wrong with this probability."""
ENOUGH = 0.9
"""Least confidence, of the suspects together, at which they are named; of one: beyond doubt."""
LEAST_LOST = 2
"""One lost packet accuses nobody."""
PORT_DOWN_WEIGHT = 50
"""A port without carrier weighs as much as so many lost packets."""
CLEAN = 8
"""An incident is over when so many packets crossed in a row that, by its loss, this many of
them would have been lost (by chance: e^-8)."""


@dataclass(frozen=True)
class WatchTimes:
    """ns."""

    fast: int = 10**9
    """The short window."""
    slow: int = 60 * 10**9
    """The long window."""


@dataclass
class Incident:
    """A fault, or what is taken for one."""

    number: int
    suspects: tuple[str, ...]
    """One, or those that the evidence does not tell apart; links and switches by name."""
    confidence: float
    """Probability that it is one of them."""
    loss: float
    """Share lost of what crosses it."""
    opened: int
    """ns"""
    named: int = 0
    """Since when it has had these suspects. ns"""
    closed: int | None = None
    pinned: bool = False
    """Named beyond doubt, and set apart."""
    _seen: list[float] = field(default_factory=lambda: [0.0, 0.0], repr=False)
    """Sent and lost across it since it was pinned, up to the last loss."""
    _clean: float = field(default=0.0, repr=False)
    """Crossed unharmed since then."""
    _last_loss: int = field(default=0, repr=False)

    def crossed(self, sent: float, lost: float, now: int) -> None:
        """Packets that crossed a pinned incident's component."""
        if not lost:
            self._clean += sent
            return
        self._seen[0] += self._clean + sent
        self._seen[1] += lost
        self.loss = self._seen[1] / self._seen[0]
        self._clean = 0.0
        self._last_loss = now

    def is_over(self, now: int, wait: int) -> bool:
        """Whether enough has crossed unharmed, for at least `wait` ns."""
        return now - self._last_loss >= wait and self._clean * self.loss >= CLEAN

    def describe(self) -> str:
        """`p0t0-0:p0t1-0 (99 %, loses 100 %)`."""
        names = " or ".join(self.suspects)
        return f"{names} ({self.confidence:.0%} sure, loses {self.loss:.1%})"


@dataclass(frozen=True)
class IncidentEvent:
    """Something about an incident changed."""

    kind: Literal["opened", "changed", "closed"]
    incident: Incident
    t: int


class FaultWatch:
    """Takes observations from all hosts, gives incidents. Times in ns, never going back."""

    def __init__(self, plan: Plan, times: WatchTimes | None = None) -> None:
        self._plan = plan
        self._times = times or WatchTimes()
        self._windows = (Evidence(self._times.fast, 10), Evidence(self._times.slow, 30))
        self._flows: dict[str, FlowView] = {}
        self._open: list[Incident] = []
        self._count = 0

    @property
    def incidents(self) -> tuple[Incident, ...]:
        """Those that are open, oldest first."""
        return tuple(self._open)

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
        self, name: str, plane: int, ev: int, state: str, now: int, drops: int = 1
    ) -> None:
        """An EV changed its state: ASSUMED_BAD accuses its way, a recovery vouches for it.

        `drops`: packets lost on it. Events of a flow nobody announced are ignored.
        """
        flow = self._flows.get(name)
        if flow is None:
            return
        way = flow.state((plane, ev), state)
        if state == "ASSUMED_BAD":
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
        self._observe(way, sent, lost, now)

    def port(self, host: str, plane: int, up: bool, now: int) -> None:
        """A NIC port's carrier, told at each change and as often as somebody looks."""
        nic = self._plan.host(host).nics[plane]
        weight = PORT_DOWN_WEIGHT
        self._observe((nic.link, nic.switch), weight, 0 if up else weight, now)

    def _way(self, src: str, dst: str, plane: int, ev: int) -> Way:
        path = path_of(self._plan, src, dst, plane, ev)
        return (*path.links, *path.switches)

    def _observe(self, way: Way, sent: float, lost: float, now: int) -> None:
        for incident in self._open:
            if incident.pinned and not set(incident.suspects).isdisjoint(way):
                incident.crossed(sent, lost, now)
                return
        for window in self._windows:
            window.add(way, sent, lost, now)

    # -- judgement

    def tick(self, now: int) -> list[IncidentEvent]:
        """Judge what is known; call it every tenth of the short window or so."""
        over = [i for i in self._open if i.pinned and i.is_over(now, self._times.fast)]
        events = [self._close(incident, now) for incident in over]
        verdict = self._verdict(now)
        doubtful = next((i for i in self._open if not i.pinned), None)
        if verdict is None:
            if doubtful is not None:
                events.append(self._close(doubtful, now))
            return events
        names = tuple(s.component for s in verdict.best)
        confidence = sum(s.confidence for s in verdict.best)
        if confidence < ENOUGH:
            return events
        if doubtful is None:
            self._count += 1
            loss = verdict.best[0].loss
            doubtful = Incident(self._count, names, confidence, loss, now, now)
            self._open.append(doubtful)
            events.append(IncidentEvent("opened", doubtful, now))
        else:
            changed = doubtful.suspects != names
            if changed and self._is_another(doubtful.suspects, names):
                self._pin(doubtful, now)  # what is left of the evidence will name the new one
                return events
            doubtful.suspects, doubtful.confidence = names, confidence
            doubtful.loss = verdict.best[0].loss
            if changed:
                doubtful.named = now
                events.append(IncidentEvent("changed", doubtful, now))
        if len(names) == 1 and now - doubtful.named >= self._times.fast:
            self._pin(doubtful, now)
        return events

    def _is_another(self, before: tuple[str, ...], names: tuple[str, ...]) -> bool:
        """Whether a fault that had one name, and these, are two: in other planes. Within a plane
        new evidence may show that the fault is something else than was thought at first."""
        planes = {self._plane(name) for name in names}
        return len(before) == 1 and self._plane(before[0]) not in planes

    def _plane(self, name: str) -> int:
        link = self._plan.links.get(name)
        return self._plan.switch(link.b.node if link is not None else name).plane

    def _verdict(self, now: int) -> Verdict | None:
        """Of the window that is surer, when either finds a fault."""
        found = []
        for window in self._windows:
            summary = window.summary(now)
            if summary.total.lost >= LEAST_LOST:
                verdict = localise(summary)
                if verdict.is_fault(CERTAINTY):
                    found.append(verdict)
        return max(found, key=_sureness, default=None)

    def _pin(self, incident: Incident, now: int) -> None:
        incident.pinned = True
        incident.crossed(1, incident.loss, now)
        self._exclude_known()

    def _exclude_known(self) -> None:
        known = [name for i in self._open if i.pinned for name in i.suspects]
        for window in self._windows:
            window.exclude(known)

    def _close(self, incident: Incident, now: int) -> IncidentEvent:
        incident.closed = now
        self._open.remove(incident)
        self._exclude_known()
        return IncidentEvent("closed", incident, now)


def _sureness(verdict: Verdict) -> tuple[int, float]:
    """Fewer names first, then more confidence."""
    return -len(verdict.best), sum(s.confidence for s in verdict.best)
