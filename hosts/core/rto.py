"""Retransmission timers (section 4.6): per packet, retries counted per connection.

First copies sent at the base interval need no timer object: they expire in window order, so a
pointer to the oldest one is enough. Everything else is in a heap.
"""

from __future__ import annotations

import heapq

from hosts.core import constants as c
from hosts.core.config import RtoConfig
from hosts.core.sendwindow import OUT, TIMED, SendWindow


class RtoTimers:
    """Which packets of a window are overdue.

    Retries count flights: a packet that was sent before the last retry was counted belongs to the
    same failure and does not count again.
    """

    __slots__ = ("_base", "_exp", "_heap", "_last_retry", "_linear", "_most", "_pointer", "_window",
                 "retries")  # fmt: skip

    def __init__(self, config: RtoConfig, time_scale: int, window: SendWindow) -> None:
        self._base = config.base_ns(time_scale)
        self._most = RtoConfig(c.RTO_T_MAX).base_ns(time_scale)
        self._linear = config.linear
        self._exp = config.exp
        self._window = window
        self._pointer = window.unack_psn
        self._heap: list[tuple[int, int, int]] = []
        self._last_retry = -1
        self.retries = 0

    @property
    def base_ns(self) -> int:
        return self._base

    @property
    def interval(self) -> int:
        """What a packet sent now gets."""
        return min(self._base << min(max(0, self.retries - self._linear), c.RTO_T_MAX), self._most)

    def arm(self, seq: int, sent_at: int) -> int:
        """A copy was sent that the pointer cannot speak for: a retransmission, or with back-off.
        When it is due."""
        self._window.flag[seq & self._window.mask] |= TIMED
        due = sent_at + self.interval
        heapq.heappush(self._heap, (due, seq, sent_at))
        return due

    @property
    def backed_off(self) -> bool:
        return self.retries > self._linear

    def progress(self) -> None:
        """cack advanced."""
        self.retries = 0

    def count_retry(self, sent_at: int, now: int) -> bool:
        """A packet sent then timed out or was refused; False when retries are exhausted."""
        if sent_at >= self._last_retry:
            self._last_retry = now
            self.retries += 1
        return self._exp >= c.RTO_EXP_UNLIMITED or self.retries <= self._linear + self._exp

    def _oldest(self) -> int | None:
        """The oldest packet the pointer speaks for."""
        window = self._window
        flag, mask, end = window.flag, window.mask, window.next
        p = max(self._pointer, window.unack_psn)
        while p < end and flag[p & mask] & (OUT | TIMED) != OUT:
            p += 1
        self._pointer = p
        return p if p < end else None

    def _valid(self, seq: int, sent_at: int) -> bool:
        window = self._window
        i = seq & window.mask
        return (
            seq >= window.unack_psn and window.sent_at[i] == sent_at and bool(window.flag[i] & OUT)
        )

    def next_due(self) -> int | None:
        heap = self._heap
        while heap and not self._valid(heap[0][1], heap[0][2]):
            heapq.heappop(heap)
        oldest = self._oldest()
        due = heap[0][0] if heap else None
        if oldest is not None:
            implied = self._window.sent_at[oldest & self._window.mask] + self._base
            if due is None or implied < due:
                return implied
        return due

    def expired(self, now: int) -> int | None:
        """One overdue number, or None. The caller marks it lost before asking again."""
        due = self.next_due()
        if due is None or due > now:
            return None
        if self._heap and self._heap[0][0] == due:
            return heapq.heappop(self._heap)[1]
        return self._oldest()
