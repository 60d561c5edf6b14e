"""Real time for the runner: a monotonic clock, and waits that end at a moment or when a named
condition holds. Nothing sleeps: a wait is a poll on a pipe that interrupts it when written."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable

POLL_NS = 5_000_000


class ConditionTimeout(Exception):
    """A condition did not come true in time. The text names it."""


class Waiter:
    """Waits on CLOCK_MONOTONIC; `wake` (from a signal handler or thread) ends a wait early."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._read, select.POLLIN)

    def now(self) -> int:
        """Nanoseconds, the clock of all events."""
        return time.monotonic_ns()

    def wake(self) -> None:
        """End the wait that is going on, or the next one."""
        os.write(self._write, b"\0")

    def until(self, deadline: int) -> None:
        """Return at `deadline`, or when woken."""
        while (left := deadline - self.now()) > 0:
            # poll counts whole milliseconds: round up, late rather than spinning.
            if self._poll.poll((left + 999_999) // 1_000_000):
                os.read(self._read, 4096)
                return

    def for_condition(
        self, name: str, holds: Callable[[], bool], timeout_ns: int, every_ns: int = POLL_NS
    ) -> None:
        """Return once `holds()`; raises ConditionTimeout with `name` after the time-out."""
        end = self.now() + timeout_ns
        while not holds():
            now = self.now()
            if now >= end:
                raise ConditionTimeout(f"{name}: not within {timeout_ns / 1e9:g} s")
            self.until(min(end, now + every_ns))

    def close(self) -> None:
        os.close(self._read)
        os.close(self._write)
