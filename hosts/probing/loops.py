"""Loop probing in the style of Clustermapper (reference, section 6), sans-I/O.

Each loop is probed once per interval, the loops evenly spread over it, so that a fault is seen
by some loop within a fraction of the interval and no burst disturbs the fabric. A probe is
lost when it has not come back by the first service of the timers after its timeout; one that
comes later still counts as lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from hosts.probing.frames import LoopTemplate, parse_loop


@dataclass(frozen=True)
class Loop:
    """A way out of one NIC port and back into it."""

    port: int
    template: LoopTemplate


@dataclass
class LoopCounts:
    """Probes whose fate is known, since the counts were last taken."""

    sent: int = 0
    lost: int = 0
    rtt_min_ns: int | None = None
    rtt_sum_ns: int = 0

    @property
    def rtt_mean_ns(self) -> int | None:
        """Of those that came back."""
        came = self.sent - self.lost
        return self.rtt_sum_ns // came if came else None


class LoopProber:
    """The five calls of a sans-I/O object; times in ns."""

    def __init__(self, loops: Sequence[Loop], interval_ns: int, timeout_ns: int, now: int) -> None:
        """Raises ValueError for an empty list, the same loop twice, or times below 1 ns."""
        if not loops:
            raise ValueError("no loop to probe")
        if len({loop.template.loop for loop in loops}) != len(loops):
            raise ValueError("a loop's number occurs twice")
        if interval_ns < len(loops) or timeout_ns < 1:
            raise ValueError(f"interval {interval_ns} ns, timeout {timeout_ns} ns: too short")
        self._loops = tuple(loops)
        self._gap = interval_ns // len(loops)
        self._timeout = timeout_ns
        self._next = now
        self._turn = 0
        self._sequence = 0
        # In order of sending, so also of expiry: (sequence, loop number, sent).
        self._waiting: deque[tuple[int, int, int]] = deque()
        self._unanswered: set[int] = set()
        self._ready: list[tuple[int, bytes]] = []
        self._counts: dict[int, LoopCounts] = {}

    def receive(self, port: int, frame: bytes | memoryview, now: int) -> bool:
        """Whether the frame was a loop probe (of whatever age); then nobody else wants it."""
        found = parse_loop(frame)
        if found is None:
            return False
        # Nothing expires here: after a hiccup of the host the answers wait in its buffers, and
        # that is no loss.
        if found.sequence in self._unanswered:
            self._unanswered.discard(found.sequence)
            counts = self._count(found.loop)
            counts.sent += 1
            rtt = max(0, now - found.sent_ns)
            counts.rtt_sum_ns += rtt
            if counts.rtt_min_ns is None or rtt < counts.rtt_min_ns:
                counts.rtt_min_ns = rtt
        return True

    def frames_to_send(self, now: int) -> list[tuple[int, bytes]]:
        """(port, frame) that leave now."""
        ready, self._ready = self._ready, []
        return ready

    def next_deadline(self) -> int:
        """When to call `on_deadline`."""
        if self._waiting:
            return min(self._next, self._waiting[0][2] + self._timeout)
        return self._next

    def on_deadline(self, now: int) -> None:
        """Send what is due. After a late call no burst makes up for it: the beat starts anew."""
        self._expire(now)
        if now < self._next:
            return
        loop = self._loops[self._turn]
        self._turn = (self._turn + 1) % len(self._loops)
        number = loop.template.loop
        self._ready.append((loop.port, loop.template.frame(self._sequence, now)))
        self._waiting.append((self._sequence, number, now))
        self._unanswered.add(self._sequence)
        self._sequence += 1
        self._next = max(self._next + self._gap, now + 1)
        if now - self._next > self._gap:
            self._next = now + self._gap

    def take(self) -> dict[int, LoopCounts]:
        """Counts by loop number since the last call."""
        counts, self._counts = self._counts, {}
        return counts

    def _count(self, number: int) -> LoopCounts:
        return self._counts.setdefault(number, LoopCounts())

    def _expire(self, now: int) -> None:
        waiting = self._waiting
        while waiting and (
            waiting[0][0] not in self._unanswered or waiting[0][2] + self._timeout <= now
        ):
            sequence, number, _ = waiting.popleft()
            if sequence in self._unanswered:
                self._unanswered.discard(sequence)
                counts = self._count(number)
                counts.sent += 1
                counts.lost += 1
