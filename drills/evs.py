"""What became of the entropy values: which had to be demoted, which were, which came back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from drills.events import Event
from drills.phases import Flow, Outage, Phases
from drills.view import FabricView

BAD = "ASSUMED_BAD"
USABLE = frozenset({"GOOD", "SKIP"})
STATES = ("GOOD", "SKIP", "ASSUMED_BAD", "DENIED")

Key = tuple[str, int, int]
"""An EV of a run: (flow id, plane, ev)."""


@dataclass(frozen=True, slots=True)
class EvChange:
    """An EV changed its state at its requestor."""

    t: int
    key: Key
    old: str
    new: str
    reason: str


@dataclass(frozen=True, slots=True)
class EvEntry:
    """A row of an EV table as read from an endpoint."""

    key: Key
    state: str
    role: str


@dataclass(frozen=True)
class EvVerdict:
    """Sets of EVs, judged against the links that were faulty."""

    demoted: frozenset[Key]
    """Became ASSUMED_BAD at any time."""
    wrongly_demoted: frozenset[Key]
    """Became ASSUMED_BAD although no faulty link was on their way at that time."""
    not_demoted: frozenset[Key]
    """Carried data over a faulty link and were still in use when it was repaired."""
    not_recovered: frozenset[Key]
    """Still ASSUMED_BAD at the end."""
    crossing: frozenset[Key]
    """Active EVs whose way crosses a faulty link."""


def flow_of(flows: Iterable[Flow], event: Event) -> Flow | None:
    """The flow whose requestor reported `event`."""
    for flow in flows:
        if flow.src == event.src and flow.qpn == event.get("qpn"):
            return flow
    return None


def changes(events: Iterable[Event], flows: Sequence[Flow]) -> list[EvChange]:
    """State changes of all requestors' EVs, by time."""
    found: list[EvChange] = []
    for event in events:
        if event.type != "ev_state":
            continue
        flow = flow_of(flows, event)
        if flow is not None:
            key = (flow.id, int(event["plane"]), int(event["ev"]))
            reason = str(event.get("reason", ""))
            found.append(EvChange(event.t, key, str(event["from"]), str(event["to"]), reason))
    return found


def tables(events: Iterable[Event], flows: Sequence[Flow]) -> list[tuple[int, list[EvEntry]]]:
    """EV tables read during the run as (time, entries of one flow)."""
    found: list[tuple[int, list[EvEntry]]] = []
    for event in events:
        if event.type != "ev_table":
            continue
        entries = [
            EvEntry((event["flow"], int(plane), int(ev)), str(state), str(role))
            for plane, ev, state, role in event["evs"]
        ]
        found.append((event.t, entries))
    return found


class Crossing:
    """Which EVs cross which faulty links, and whether the switches themselves avoid them."""

    def __init__(self, view: FabricView, flows: Sequence[Flow]) -> None:
        self._view = view
        self._flows: Mapping[str, Flow] = {flow.id: flow for flow in flows}
        self._ways: dict[Key, tuple[tuple[str, bool], ...]] = {}

    def way(self, key: Key) -> tuple[tuple[str, bool], ...]:
        """(link, upward) of an EV's way with all links up."""
        if key not in self._ways:
            flow_id, plane, ev = key
            flow = self._flows[flow_id]
            steps = self._view.directed(flow.src, flow.dst, plane, ev)
            self._ways[key] = tuple((link.name, upward) for link, upward in steps)
        return self._ways[key]

    def crosses(self, key: Key, outage: Outage) -> bool:
        """True when the EV's way has a faulty link in it, in its own direction."""
        return any(link in outage.links for link, _upward in self.way(key))

    def must_demote(self, key: Key, outage: Outage) -> bool:
        """True when the endpoint itself has to leave the EV: it crosses a faulty link and no
        switch avoids it. Failover groups avoid a dead uplink (there are others to choose
        from); nothing avoids a dead downlink, the only one to that T0. A NIC's own port that
        is down is known at both ends, and its plane is left without giving up any EV."""
        down = outage.kind == "link_down"
        guarded = self._view.failover_groups and down
        return any(
            link in outage.links
            and not (upward and guarded)
            and not (down and self._view.links[link].a.is_host)
            for link, upward in self.way(key)
        )


def _active_at(found: Sequence[tuple[int, list[EvEntry]]], since: int, until: int) -> set[Key]:
    """EVs that were active and usable in any table read in (since, until]."""
    return {
        entry.key
        for t, entries in found
        if since <= t <= until
        for entry in entries
        if entry.role == "active" and entry.state in USABLE
    }


def judge_evs(events: Sequence[Event], phases: Phases, crossing: Crossing, grace: int) -> EvVerdict:
    """Compare what became ASSUMED_BAD with what crossed a faulty link.

    `grace`: nanoseconds after a repair in which losses from before it may still be noticed.
    EV tables are read by the runner right before every fault and right before its repair.
    """
    moves = changes(events, phases.flows)
    read = tables(events, phases.flows)
    state: dict[Key, str] = {}
    demoted: set[Key] = set()
    wrongly: set[Key] = set()
    for move in moves:
        state[move.key] = move.new
        if move.new != BAD:
            continue
        demoted.add(move.key)
        if not any(
            outage.covers(move.t, grace) and crossing.crosses(move.key, outage)
            for outage in phases.outages
        ):
            wrongly.add(move.key)
    crossed: set[Key] = set()
    missed: set[Key] = set()
    for outage in phases.outages:
        before = [t for t, _entries in read if t <= outage.start]
        since = max(before) if before else outage.start
        # Tables of several flows are read one after the other: take a generous second.
        at_fault = _active_at(read, since - 1_000_000_000, outage.start)
        # On a computed clock a fault takes no time: what was read at that instant was before it.
        at_repair = _active_at(read, outage.confirmed + 1, outage.repaired)
        for key in at_fault | at_repair:
            if not crossing.crosses(key, outage):
                continue
            crossed.add(key)
            if not crossing.must_demote(key, outage):
                continue
            left = any(
                move.key == key and move.new == BAD and outage.covers(move.t, grace)
                for move in moves
            )
            if key in at_repair or not left:
                missed.add(key)
    return EvVerdict(
        demoted=frozenset(demoted),
        wrongly_demoted=frozenset(wrongly),
        not_demoted=frozenset(missed),
        not_recovered=frozenset(key for key in demoted if state[key] == BAD),
        crossing=frozenset(crossed),
    )
