"""The NIC's ports as serialisers: a port is free when its last frame has left at line rate.

The host paces its own ports, so nothing queues behind it and the EV of a packet is chosen when it
really leaves (section 3.3). Control frames wait in a short line of their own and go first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from hosts.core.config import PortConfig
from hosts.core.timers import NEVER

if TYPE_CHECKING:
    from hosts.core.qpcc import Scheduler

CONTROL_LINE: Final = 4096
_NS_BITS: Final = 8_000_000_000
_FREE_AT: Final = attrgetter("free_at")


class TxPort:
    """One port. `free_at`: when the last frame handed out has left."""

    __slots__ = ("backlog", "bit", "control", "dropped", "frames", "free_at", "octets", "port",
                 "rate_bps", "starved", "up")  # fmt: skip

    def __init__(self, config: PortConfig, now: int) -> None:
        self.port = config.port
        self.bit = 1 << config.port
        self.rate_bps = config.rate_bps
        self.up = config.up
        self.free_at = now
        self.backlog = False  # had more to send when it was busy: may make up for lateness
        self.starved = False  # there was nothing for it when it was free: asked again when woken
        self.control: deque[bytes] = deque()
        self.frames = 0
        self.octets = 0
        self.dropped = 0


class Nic:
    """All ports; `transmit` is the sending half of `frames_to_send`."""

    __slots__ = ("_ahead", "_catch_up", "_exact", "_first_free", "_order", "_starved", "_waiting",
                 "ports")  # fmt: skip

    def __init__(
        self, configs: Sequence[PortConfig], now: int, catch_up_ns: int = 0, ahead_ns: int = 0
    ) -> None:
        self.ports = {c.port: TxPort(c, now) for c in configs}
        self._order = list(self.ports.values())
        self._catch_up = catch_up_ns
        self._ahead = ahead_ns
        self._exact = not (catch_up_ns or ahead_ns)
        # Only kept when exact: when the first port that is up is free; whether one is starved.
        self._first_free = min([t.free_at for t in self._order if t.up], default=NEVER)
        self._starved = False
        self._waiting = 0  # control frames in line

    def control(self, port: int, frame: bytes) -> None:
        """Put a control frame in line. Frames of a port that is down, or too many, are dropped."""
        tx = self.ports[port]
        if not tx.up or len(tx.control) >= CONTROL_LINE:
            tx.dropped += 1
            return
        tx.control.append(frame)
        self._waiting += 1

    def transmit(self, now: int, scheduler: Scheduler) -> list[tuple[int, bytes]]:
        """(port, frame) that leave at `now`: control first, then what the scheduler gives for a
        free port; the port that has been free longest first."""
        out: list[tuple[int, bytes]] = []
        if self._exact:
            if now < self._first_free or not (self._waiting or scheduler.any_ready):
                return out
            free: list[TxPort] = []
            first_free = NEVER
            for tx in self._order:
                if tx.up:
                    if tx.free_at <= now:
                        free.append(tx)
                    elif tx.free_at < first_free:
                        first_free = tx.free_at
            if len(free) > 1:
                free.sort(key=_FREE_AT)
            for tx in free:
                if tx.control:
                    frame: bytes | None = tx.control.popleft()
                    self._waiting -= 1
                elif scheduler.any_ready:
                    frame = scheduler.next_data(tx, now)
                    if frame is None:
                        tx.starved = self._starved = True
                else:
                    frame = None
                if frame is not None:
                    size = len(frame)
                    tx.starved = False
                    tx.free_at = now - (-size * _NS_BITS // tx.rate_bps)
                    tx.frames += 1
                    tx.octets += size
                    out.append((tx.port, frame))
                if tx.free_at < first_free:  # noqa: PLR1730  (hot)
                    first_free = tx.free_at
            if out:
                self._first_free = first_free
            return out
        return self._transmit_late(now, scheduler, out)

    def _transmit_late(
        self, now: int, scheduler: Scheduler, out: list[tuple[int, bytes]]
    ) -> list[tuple[int, bytes]]:
        """The same where frames may leave early, and a late driver may catch up."""
        if not self._waiting and not scheduler.any_ready:
            for port in self._order:
                if port.free_at <= now:
                    port.backlog = False
            return out
        horizon = now + self._ahead
        earliest = now - self._catch_up
        ports = self._order
        blocked = 0
        while True:
            first: TxPort | None = None
            free_at = horizon + 1
            for candidate in ports:
                if candidate.free_at < free_at and candidate.up and not candidate.bit & blocked:
                    first = candidate
                    free_at = candidate.free_at
            if first is None:
                return out
            tx = first
            start = free_at
            if start < now:
                if not tx.backlog:
                    start = now
                elif start < earliest:
                    start = earliest
            frame: bytes | None
            if tx.control:
                frame = tx.control.popleft()
                self._waiting -= 1
            else:
                frame = scheduler.next_data(tx, start if start > now else now)
                if frame is None:
                    tx.backlog = False
                    tx.starved = True
                    blocked |= tx.bit
                    continue
            size = len(frame)
            tx.backlog = True
            tx.starved = False
            # Rounded up: a port must never be faster than its line, however little.
            tx.free_at = start - (-size * _NS_BITS // tx.rate_bps)
            tx.frames += 1
            tx.octets += size
            out.append((tx.port, frame))

    def next_free(self, data_ready: bool) -> int | None:
        """When the next frame can leave, given whether there is data for any port; None: nothing
        waits. With `ahead_ns` the ring is refilled when it is half empty."""
        best: int | None = None
        if not data_ready and not self._waiting:
            return None
        if data_ready and self._exact and not self._starved:
            return self._first_free if self._first_free < NEVER else None
        for tx in self._order:
            wanted = tx.control or (data_ready and not tx.starved)
            if wanted and tx.up and (best is None or tx.free_at < best):
                best = tx.free_at
        return None if best is None else best - self._ahead // 2

    def next_turn(self, now: int, data_ready: bool) -> int:
        """When `transmit` is to be called, `now` at the earliest; NEVER: nothing waits."""
        if not (data_ready or self._waiting):
            return NEVER if self._exact else now
        if not self._exact or now >= self._first_free:
            return now
        frame = self.next_free(data_ready)
        return NEVER if frame is None else frame

    def departure(self, port: int, now: int) -> int:
        """When a control frame put in line now will start to leave."""
        tx = self.ports[port]
        waiting = sum(map(len, tx.control)) * _NS_BITS // tx.rate_bps if tx.control else 0
        return max(now, tx.free_at) + waiting

    def wake(self) -> None:
        """There is something new to send: ports that had nothing are asked again."""
        if self._starved or not self._exact:
            self._starved = False
            for tx in self._order:
                tx.starved = False

    def set_up(self, port: int, up: bool, now: int) -> None:
        tx = self.ports[port]
        tx.up = up
        tx.backlog = False
        tx.free_at = max(tx.free_at, now)
        if not up:
            tx.dropped += len(tx.control)
            self._waiting -= len(tx.control)
            tx.control.clear()
        self._first_free = min([t.free_at for t in self._order if t.up], default=NEVER)

    @property
    def frames(self) -> int:
        return sum(tx.frames for tx in self._order)

    @property
    def octets(self) -> int:
        return sum(tx.octets for tx in self._order)
