"""When things happened: the run cut into before, during and after the faults."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from drills.events import DRILL, Event


@dataclass(frozen=True, slots=True)
class Window:
    """A half-open span of time in nanoseconds."""

    start: int
    end: int

    @property
    def length(self) -> int:
        return max(0, self.end - self.start)

    def __contains__(self, t: object) -> bool:
        return isinstance(t, int) and self.start <= t < self.end


@dataclass(frozen=True, slots=True)
class Outage:
    """One fault, from when it was asked for until its repair was read back.

    `start` is taken before the call that makes the fault, `repaired` before the call that
    heals it and `end` after the healed state was read back.
    """

    kind: str
    target: str
    links: tuple[str, ...]
    start: int
    confirmed: int
    repaired: int
    end: int

    def covers(self, t: int, grace: int = 0) -> bool:
        """True while packets may be lost to this fault, or its losses still be noticed."""
        return self.start <= t <= self.end + grace


@dataclass(frozen=True, slots=True)
class Flow:
    """A flow of the workload: the QP at the source and the QP at the destination."""

    id: str
    src: str
    dst: str
    qpn: int
    peer_qpn: int


@dataclass(frozen=True, slots=True)
class Phases:
    """The course of a run as recorded by the runner."""

    steady: int
    """The workload has been running long enough to be measured."""
    stop: int
    """The workload was told to stop."""
    outages: tuple[Outage, ...]
    flows: tuple[Flow, ...]

    @property
    def before(self) -> Window:
        return Window(self.steady, self.outages[0].start if self.outages else self.stop)

    @property
    def during(self) -> Window:
        """From the first fault until the last repair."""
        if not self.outages:
            return Window(self.stop, self.stop)
        return Window(self.outages[0].start, max(outage.end for outage in self.outages))

    @property
    def after(self) -> Window:
        return Window(self.during.end, self.stop)


class IncompleteRun(Exception):
    """The record lacks something that a finished run has."""


def _drill(events: Iterable[Event], kind: str) -> list[Event]:
    return [event for event in events if event.src == DRILL and event.type == kind]


def phases_of(events: Sequence[Event]) -> Phases:
    """Read the phases from the runner's events. Raises IncompleteRun."""
    marks = {event["name"]: event.t for event in _drill(events, "phase")}
    for needed in ("steady", "stop", "end"):
        if needed not in marks:
            raise IncompleteRun(f"the run has no phase '{needed}': it did not finish")
    open_faults: dict[int, Event] = {}
    outages: list[Outage] = []
    for event in _drill(events, "fault"):
        if event["action"] == "invoke":
            open_faults[event["index"]] = event
            continue
        begun = open_faults.pop(event["index"], None)
        if begun is None:
            raise IncompleteRun(f"fault {event['index']} was healed but never made")
        outages.append(
            Outage(
                kind=begun["fault"],
                target=begun["target"],
                links=tuple(begun["links"]),
                start=begun.t,
                confirmed=begun["confirmed"],
                repaired=event.t,
                end=event["confirmed"],
            )
        )
    for begun in open_faults.values():
        outages.append(
            Outage(
                kind=begun["fault"],
                target=begun["target"],
                links=tuple(begun["links"]),
                start=begun.t,
                confirmed=begun["confirmed"],
                repaired=marks["stop"],
                end=marks["stop"],
            )
        )
    flows = tuple(
        Flow(event["id"], event["from"], event["to"], event["qpn"], event["peer_qpn"])
        for event in _drill(events, "flow")
    )
    return Phases(
        steady=marks["steady"],
        stop=marks["stop"],
        outages=tuple(sorted(outages, key=lambda outage: outage.start)),
        flows=flows,
    )
