"""What a report draws: readings turned into points over seconds of the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from drills.capacity import goodput_capacity
from drills.events import Event
from drills.evs import STATES, changes, tables
from drills.goodput import series
from drills.judge import DEAD
from drills.ledger import EGRESS_CAUSES
from drills.phases import Phases
from drills.view import FabricView, direction_name

IDLE_SHARE = 0.02
"""A direction that carried less than this share of its rate has only acknowledgements."""

Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Timeline:
    """The frame of all pictures. Times are seconds since the workload started."""

    first: float
    last: float
    outages: tuple[tuple[float, float, str], ...]
    goodput: Points
    """(time, payload bits per second)."""
    capacity: Points
    """Steps: (since when, payload bits per second)."""


@dataclass(frozen=True)
class EvCounts:
    """EVs of one plane by state over time; `states[name][i]` holds from `times[i]` on."""

    plane: int
    times: tuple[float, ...]
    states: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class PortTimeline:
    """One direction of a link."""

    name: str
    depth: Points
    """(time, deepest queue since the reading before, in packets)."""
    marks: Points
    """(time, marks per second)."""
    note: str
    harm: int = 0
    """Frames marked, trimmed or lost."""


def told(ports: Sequence[PortTimeline], most: int) -> tuple[list[PortTimeline], int]:
    """The `most` directions that tell most (what harmed frames, then the deepest queues), in
    their order, and how many are left out."""

    def weight(port: PortTimeline) -> tuple[int, float]:
        return port.harm, max((depth for _t, depth in port.depth), default=0.0)

    chosen = sorted(ports, key=weight, reverse=True)[:most]
    kept = {id(port) for port in chosen}
    return [port for port in ports if id(port) in kept], len(ports) - len(chosen)


def origin(events: Sequence[Event]) -> int:
    """When the workload started, on the clock of the events."""
    for event in events:
        if event.type == "phase" and event["name"] == "start":
            return event.t
    return events[0].t if events else 0


def timeline_of(everything: Sequence[Event], phases: Phases, view: FabricView) -> Timeline:
    """The frame: faults, goodput, capacity."""
    zero = origin(everything)

    def seconds(t: int) -> float:
        return (t - zero) / 1e9

    delivered = series(everything, {f.dst for f in phases.flows}, "delivered_bytes")
    pairs = [(f.src, f.dst) for f in phases.flows]
    edges = {phases.steady, phases.stop}
    for outage in phases.outages:
        edges |= {outage.start, outage.end}
    steps: list[tuple[float, float]] = []
    for edge in sorted(edges):
        down = {
            link
            for o in phases.outages
            if o.kind in DEAD and o.start <= edge < o.end
            for link in o.links
        }
        steps.append((seconds(edge), goodput_capacity(view, pairs, down)))
    steps[0] = (0.0, steps[0][1])
    return Timeline(
        first=0.0,
        last=seconds(phases.stop),
        outages=tuple(
            (seconds(o.start), seconds(o.end), f"{o.target} {o.kind.replace('link_', '')}")
            for o in phases.outages
        ),
        goodput=tuple(
            (seconds(t), rate * 8) for t, rate in delivered.rates() if zero <= t <= phases.stop
        ),
        capacity=tuple(steps),
    )


def ev_counts(everything: Sequence[Event], phases: Phases) -> list[EvCounts]:
    """States over time per plane: the first table of every flow, then every change."""
    zero = origin(everything)
    state: dict[tuple[str, int, int], str] = {}
    seen: set[str] = set()
    for _t, entries in tables(everything, phases.flows):
        if entries and entries[0].key[0] not in seen:
            seen.add(entries[0].key[0])
            state.update({entry.key: entry.state for entry in entries})
    found: list[EvCounts] = []
    moves = changes(everything, phases.flows)
    for plane in sorted({key[1] for key in state}):
        mine = {key: value for key, value in state.items() if key[1] == plane}
        counts = {name: sum(1 for v in mine.values() if v == name) for name in STATES}
        times = [0.0]
        rows = {name: [counts[name]] for name in STATES}
        for move in moves:
            if move.key[1] != plane or move.new not in counts:
                continue
            old = mine.get(move.key)
            if old in counts:
                counts[old] -= 1
            mine[move.key] = move.new
            counts[move.new] += 1
            times.append(max(0.0, (move.t - zero) / 1e9))
            for name in STATES:
                rows[name].append(counts[name])
        times.append((phases.stop - zero) / 1e9)
        for name in STATES:
            rows[name].append(rows[name][-1])
        found.append(EvCounts(plane, tuple(times), {name: tuple(rows[name]) for name in STATES}))
    return found


def _rates(points: Sequence[tuple[float, int]]) -> Points:
    return tuple((t1, (v1 - v0) / (t1 - t0)) for (t0, v0), (t1, v1) in pairwise(points) if t1 > t0)


def port_timelines(
    everything: Sequence[Event], phases: Phases, view: FabricView
) -> list[PortTimeline]:
    """Every direction of a link whose sender is a switch and that carried at least IDLE_SHARE
    of its rate, marked or lost something, in the order of the fabric's links, upward first."""
    zero = origin(everything)
    readings: dict[str, list[Event]] = {}
    for event in everything:
        if event.type == "ports" and event.t <= phases.stop:
            readings.setdefault(event.src, []).append(event)
    found: list[PortTimeline] = []
    for upward in (True, False):
        for link in view.links.values():
            sender = link.a if upward else link.b
            if sender.is_host or sender.node not in readings:
                continue
            port = str(sender.port)
            depth: list[tuple[float, float]] = []
            marks: list[tuple[float, int]] = []
            drops: dict[str, int] = {}
            first_drops: dict[str, int] | None = None
            trims: list[int] = []
            sent: list[tuple[int, int]] = []
            for event in readings[sender.node]:
                t = (event.t - zero) / 1e9
                values = event["ports"].get(port)
                if values:
                    depth.append((t, values["depth_max"]))
                    sent.append((event.t, values["tx_bytes"]))
                    first_drops = first_drops if first_drops is not None else values["drops"]
                    drops = values["drops"]
                if event.get("marks") is not None:
                    marks.append((t, event["marks"].get(port, 0)))
                    trims.append(event["trims"].get(port, 0))
            deepest = max((d for _t, d in depth), default=0)
            marked = marks[-1][1] - marks[0][1] if marks else 0
            before = first_drops or {}
            lost = sum(n - before.get(c, 0) for c, n in drops.items() if c in EGRESS_CAUSES)
            trimmed = trims[-1] - trims[0] if trims else 0
            span = sent[-1][0] - sent[0][0] if sent else 0
            bits = 8 * (sent[-1][1] - sent[0][1]) if sent else 0
            busy = bits * 1e9 >= IDLE_SHARE * link.rate_bps * span > 0
            if not busy and not marked and not lost:
                continue
            words = [f"max {deepest:.0f}"]
            words += [f"{marked:,} marks"] if marked else []
            words += [f"{trimmed:,} trimmed"] if trimmed else []
            words += [f"{lost:,} lost"] if lost else []
            found.append(
                PortTimeline(
                    direction_name(link, upward),
                    tuple(depth),
                    _rates(marks),
                    ", ".join(words),
                    marked + trimmed + lost,
                )
            )
    return found
