"""What a connection's EVs say about the fabric: one that is used and GOOD vouches for its way,
one that went ASSUMED_BAD accuses it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from controller.mrc.evidence import Way

EvKey = tuple[int, int]
"""(plane, EV)."""


@dataclass
class FlowView:
    """One direction of a QP, seen through its requestor's EV events."""

    src: str
    dst: str
    way_of: Callable[[str, str, int, int], Way]
    """(src, dst, plane, ev) -> components; called once per EV."""
    _ways: dict[EvKey, Way] = field(default_factory=dict)
    _bad: set[EvKey] = field(default_factory=set)
    _idle: set[EvKey] = field(default_factory=set)
    _using: dict[Way, int] = field(default_factory=dict)

    def add(self, evs: Iterable[EvKey]) -> None:
        """EVs that carry packets from now on, if they do not already."""
        for key in evs:
            if key not in self._ways:
                self._ways[key] = self.way_of(self.src, self.dst, *key)
                self._use(key, +1)

    def state(self, key: EvKey, state: str) -> Way:
        """An EV's new state, by the reference's name; its way. Unknown EVs are taken in."""
        self.add([key])
        was_used = key not in self._bad and key not in self._idle
        self._bad.discard(key)
        self._idle.discard(key)
        if state == "ASSUMED_BAD":
            self._bad.add(key)
        elif state == "DENIED":
            self._idle.add(key)
        is_used = state not in ("ASSUMED_BAD", "DENIED")
        if was_used != is_used:
            self._use(key, +1 if is_used else -1)
        return self._ways[key]

    def exposure(self, packets: float) -> Mapping[Way, float]:
        """How many of `packets` that arrived each way carried: EVs in rotation share equally."""
        count = sum(self._using.values())
        if not count:
            return {}
        return {way: packets * used / count for way, used in self._using.items()}

    def _use(self, key: EvKey, step: int) -> None:
        way = self._ways[key]
        left = self._using.get(way, 0) + step
        if left:
            self._using[way] = left
        else:
            self._using.pop(way, None)
