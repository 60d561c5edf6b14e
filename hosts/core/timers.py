"""Whose timers are due: a heap with one live entry per owner (a QP, or the endpoint's operations).

Parts note when they want to be called; nobody takes a wish back. An owner's `due` is therefore a
lower bound, made exact again when it is served: a call too early now and then instead of a look at
every timer for every packet. An owner without wishes costs nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Final

NEVER: Final = 1 << 62


class Timers:
    """The heap. `due`: when `serve` must be called at the latest; NEVER: nothing is wanted."""

    __slots__ = ("_heap", "_order", "due")

    def __init__(self) -> None:
        self.due = NEVER
        self._heap: list[tuple[int, int, Timer]] = []
        self._order = 0

    def push(self, when: int, timer: Timer) -> None:
        self._order += 1
        heapq.heappush(self._heap, (when, self._order, timer))
        self.due = min(self.due, when)

    def serve(self, now: int) -> None:
        """Call every owner that is due."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            when, _, timer = heapq.heappop(heap)
            if timer.due == when:
                timer.due = NEVER
                timer.serve(now)
        while heap and heap[0][2].due != heap[0][0]:
            heapq.heappop(heap)
        self.due = heap[0][0] if heap else NEVER


class Timer:
    """One owner's entry. `serve(now)` must ask again for what it still wants."""

    __slots__ = ("_timers", "due", "serve")

    def __init__(self, timers: Timers, serve: Callable[[int], None]) -> None:
        self._timers = timers
        self.due = NEVER
        self.serve = serve

    def at(self, when: int) -> None:
        """Call me at `when` or before."""
        if when < self.due:
            self.due = when
            self._timers.push(when, self)

    def cancel(self) -> None:
        """Never again."""
        self.due = -1
