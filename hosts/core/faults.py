"""Ways to break the endpoint on purpose, injected through `EndpointConfig.faults`.

For tests and drills only: a drill must fail when the endpoint is wrong, and these objects make it
wrong without a test hook in the code under test. Each replaces one policy object.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from hosts.core.ev.state import TRANSITIONS, EvTable
from hosts.core.events import EvState
from hosts.core.memory import (
    DirectPlacement,
    MemoryRegion,
    Placement,
    PlacementError,
    TrackingError,
)


@dataclass(frozen=True, slots=True)
class Faults:
    """Policies that replace the endpoint's own; None keeps the right one. `placement` makes one
    policy per endpoint, because a wrong one may hold packets back."""

    ev_table: EvTable | None = None
    placement: Callable[[], Placement] | None = None


class LatePlacement:
    """Acknowledge before placing: the newest `depth` payloads are held back, so whoever looks at
    the memory after a completion finds it incomplete."""

    def __init__(self, depth: int = 16) -> None:
        self._depth = depth
        self._held: deque[tuple[MemoryRegion, int, bytes]] = deque()
        self._direct = DirectPlacement()

    def place(self, region: MemoryRegion, va: int, payload: memoryview) -> None:
        self._held.append((region, va, bytes(payload)))
        if len(self._held) > self._depth:
            held_region, held_va, held = self._held.popleft()
            self._direct.place(held_region, held_va, memoryview(held))


class FailingPlacement(DirectPlacement):
    """The host fails to place a payload after `good` that went well."""

    def __init__(self, good: int) -> None:
        self._good = good

    def place(self, region: MemoryRegion, va: int, payload: memoryview) -> None:
        if self._good == 0:
            raise PlacementError("internal failure, asked for by a fault")
        self._good -= 1
        super().place(region, va, payload)


class FailingTracking(DirectPlacement):
    """The responder loses track after `good` packets."""

    def __init__(self, good: int) -> None:
        self._good = good

    def track(self) -> None:
        if self._good == 0:
            raise TrackingError("internal failure, asked for by a fault")
        self._good -= 1


def never_demote() -> EvTable:
    """A state table in which nothing leads to ASSUMED_BAD."""
    return EvTable({k: v for k, v in TRANSITIONS.items() if v != EvState.ASSUMED_BAD})


PLACEMENTS: dict[str, Callable[[], Placement]] = {
    "ack_before_placing": LatePlacement,
    "fail_placing": lambda: FailingPlacement(100),
    "fail_tracking": lambda: FailingTracking(100),
}
FAULTS: Final = ("never_demote", *PLACEMENTS)


def named(names: Iterable[str]) -> Faults | None:
    """Faults by name, as drills give them; None for no name.

    Raises ValueError naming the unknown fault and the known ones.
    """
    wanted = set(names)
    unknown = wanted - set(FAULTS)
    if unknown:
        raise ValueError(f"unknown fault {min(unknown)!r}; known: {', '.join(FAULTS)}")
    if not wanted:
        return None
    return Faults(
        ev_table=never_demote() if "never_demote" in wanted else None,
        placement=next((PLACEMENTS[n] for n in PLACEMENTS if n in wanted), None),
    )
