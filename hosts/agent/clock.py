"""The monotonic clock, exact sleeping, and how late we were."""

from __future__ import annotations

import ctypes
import os
import time

now_ns = time.monotonic_ns

POLLIN = 1


def set_timer_slack(slack_ns: int = 1) -> None:
    """Let timers of this thread expire on time; the default slack is 50 us."""
    try:
        with open("/proc/self/timerslack_ns", "w") as file:
            file.write(str(slack_ns))
    except OSError:  # an old kernel or no /proc: timers are a little late, lateness shows it
        pass


def set_realtime(priority: int = 1) -> bool:
    """Run before ordinary processes (SCHED_RR); False where that is not allowed.

    On a busy machine this is the difference between timers 0.2 ms and 5 ms late. The kernel keeps
    5 % of the time for others, and the loop sleeps whenever it has nothing to do.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(priority))
    except OSError:
        return False
    return True


class _PollFd(ctypes.Structure):
    _fields_ = (("fd", ctypes.c_int), ("events", ctypes.c_short), ("revents", ctypes.c_short))


class _TimeSpec(ctypes.Structure):
    _fields_ = (("tv_sec", ctypes.c_long), ("tv_nsec", ctypes.c_long))


class Poller:
    """Waits for readable descriptors until a moment in nanoseconds: ppoll(2).

    Python's own epoll rounds time-outs up to milliseconds, longer than ten packets.
    """

    def __init__(self) -> None:
        self._ppoll = ctypes.CDLL(None, use_errno=True).ppoll
        self._ppoll.argtypes = (
            ctypes.c_void_p,
            ctypes.c_ulong,
            ctypes.c_void_p,
            ctypes.c_void_p,
        )
        self._timeout = _TimeSpec()
        self._timeout_at = ctypes.addressof(self._timeout)
        self._fds: list[int] = []
        self._array: ctypes.Array[_PollFd] = (_PollFd * 0)()
        self._array_at = 0

    def add(self, fd: int) -> None:
        self._set([*self._fds, fd])

    def remove(self, fd: int) -> None:
        self._set([other for other in self._fds if other != fd])

    def _set(self, fds: list[int]) -> None:
        self._fds = fds
        self._array = (_PollFd * len(fds))(*(_PollFd(fd, POLLIN, 0) for fd in fds))
        self._array_at = ctypes.addressof(self._array) if fds else 0

    def wait(self, until: int | None) -> list[int]:
        """Readable (or failed) descriptors, as soon as there is one or at `until` (monotonic
        nanoseconds; None: without end; the past: at once)."""
        timeout_at: int | None = None
        if until is not None:
            left = until - now_ns()
            self._timeout.tv_sec, self._timeout.tv_nsec = (
                divmod(left, 1_000_000_000) if left > 0 else (0, 0)
            )
            timeout_at = self._timeout_at
        found = self._ppoll(self._array_at, len(self._fds), timeout_at, None)
        if found > 0:
            return [entry.fd for entry in self._array if entry.revents]
        if found < 0 and ctypes.get_errno() != 4:  # EINTR
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
        return []


class Lateness:
    """How long after their deadlines timers were served, nanoseconds."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0
        self.max = 0
        self.recent_max = 0
        self._by_bits = [0] * 64

    def add(self, late: int) -> None:
        self.count += 1
        self.total += late
        self._by_bits[late.bit_length()] += 1
        if late > self.recent_max:
            self.recent_max = late
            self.max = max(self.max, late)

    def take_recent_max(self) -> int:
        """The maximum since the last call."""
        recent, self.recent_max = self.recent_max, 0
        return recent

    def quantile(self, share: float) -> int:
        """An upper bound (a power of two) of that share of all; 0 when there were none."""
        left = self.count * share
        for bits, count in enumerate(self._by_bits):
            left -= count
            if left <= 0 and count:
                return min(1 << bits, self.max)
        return self.max

    def report(self) -> dict[str, int]:
        return {
            "timers": self.count,
            "late_max_ns": self.max,
            "late_mean_ns": self.total // self.count if self.count else 0,
            "late_p99_ns": self.quantile(0.99),
        }
