"""Did the MRC controller name each fault, nothing else, and how soon?

Events of type `incident` from the controller carry `kind` (opened, changed, closed), `number`
and `suspects`; an incident whose suspects are one link or switch names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from drills.events import Event
from drills.phases import Outage


@dataclass(frozen=True, slots=True)
class Naming:
    """Outcome over all faults."""

    not_named: tuple[str, ...]
    """Targets."""
    misnamed: tuple[str, ...]
    """What incidents named instead (or as well), each incident once."""
    slowest_ns: int | None
    """From the fault to its name; None when one was not named or there was none."""

    def metrics(self) -> dict[str, float | int | None]:
        """By the names of drills.measures."""
        return {
            "faults_not_named": len(self.not_named),
            "faults_misnamed": len(self.misnamed),
            "naming_ms": None if self.slowest_ns is None else self.slowest_ns / 1e6,
        }


def judge_naming(events: Iterable[Event], outages: Sequence[Outage], grace: int) -> Naming:
    """`events` sorted by time. `grace`: ns after a repair in which its losses may still be
    noticed."""
    incidents = [event for event in events if event.type == "incident"]
    times: list[int] = []
    missing: list[str] = []
    for outage in outages:
        named = next((e.t for e in incidents if _names(e, outage, grace)), None)
        if named is None:
            missing.append(outage.target)
        else:
            times.append(named - outage.start)
    last: dict[int, Event] = {}
    first: dict[int, int] = {}
    for event in incidents:
        last[event["number"]] = event
        first.setdefault(event["number"], event.t)
    wrong = [
        " or ".join(event["suspects"])
        for number, event in last.items()
        if not any(
            list(event["suspects"]) == [outage.target] and outage.covers(first[number], grace)
            for outage in outages
        )
    ]
    slowest = max(times) if times and not missing else None
    return Naming(tuple(missing), tuple(wrong), slowest)


def _names(event: Event, outage: Outage, grace: int) -> bool:
    return (
        event["kind"] != "closed"
        and list(event["suspects"]) == [outage.target]
        and outage.covers(event.t, grace)
    )
