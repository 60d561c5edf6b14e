"""Endpoint operations (section 6): connectionless, never retransmitted, matched by a 16-bit id."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from hosts.core.timers import Timer

Answer = Callable[["int | None", int], None]
"""(RTT in ns, or None when no answer came in time; now)"""


class EndpointOps:
    """Requests in wait of their answers. Sending is the caller's job: `open` gives the id."""

    __slots__ = ("_heap", "_id", "_pending", "_timers")

    def __init__(self, first_id: int, timers: Timer) -> None:
        self._timers = timers
        self._id = first_id & 0xFFFF
        self._pending: dict[int, tuple[int, Answer]] = {}
        self._heap: list[tuple[int, int]] = []

    def open(self, answer: Answer, now: int, timeout_ns: int) -> int:
        """Note a request sent now; its id."""
        self._id = (self._id + 1) & 0xFFFF
        old = self._pending.pop(self._id, None)
        self._pending[self._id] = (now, answer)
        heapq.heappush(self._heap, (now + timeout_ns, self._id))
        self._timers.at(now + timeout_ns)
        if old is not None:
            old[1](None, now)
        return self._id

    def on_response(self, request_id: int, now: int) -> bool:
        """An answer came; False when nothing waits for it."""
        pending = self._pending.pop(request_id, None)
        if pending is None:
            return False
        sent_at, answer = pending
        answer(max(1, now - sent_at), now)
        return True

    def next_deadline(self) -> int | None:
        heap = self._heap
        while heap and heap[0][1] not in self._pending:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def on_deadline(self, now: int) -> None:
        heap = self._heap
        while heap and heap[0][0] <= now:
            _, request_id = heapq.heappop(heap)
            pending = self._pending.get(request_id)
            if pending is not None:
                del self._pending[request_id]
                pending[1](None, now)
