"""What a receiving host can take, and how it says so (sections 2.4, 4.2, 5.4).

A model of the buffer between NIC and memory, shared by all QPs of an endpoint: payload fills it and
leaves it at the host's rate. The fuller it is, the higher the penalty that SACKs carry and the
smaller the window of QPs with a dynamic MPR; when it is full, packets are refused.

Without a drain rate it is always empty. How a receiver derives `rcv_cwnd_pen` is open in the
reference; here it grows linearly from `penalty_from` of the buffer to 127 at a full one, and once
one was sent, every later SACK without a penalty has restore_cwnd set.
"""

from __future__ import annotations

from typing import Final

from hosts.core import constants as c
from hosts.core.config import ReceiverConfig
from hosts.wire.constants import MPR_UNIT

_NS_BITS: Final = 8_000_000_000


class ReceiveBuffer:
    """See the module. `limited`: whether it can ever be anything but empty."""

    __slots__ = ("_at", "_config", "_level", "forced_penalty", "limited", "penalised")

    def __init__(self, config: ReceiverConfig, now: int) -> None:
        self._config = config
        self._level = 0.0
        self._at = now
        self.forced_penalty = 0  # at least this one, by the controller
        self.limited = config.drain_bps is not None
        self.penalised = False

    def level(self, now: int) -> float:
        """Bytes in the buffer."""
        rate = self._config.drain_bps
        if rate is not None and now > self._at:
            self._level = max(0.0, self._level - (now - self._at) * rate / _NS_BITS)
            self._at = now
        return self._level

    def admit(self, size: int, now: int) -> bool:
        """Take a payload in, or not."""
        if not self.limited:
            return True
        if self.level(now) + size > self._config.buffer_bytes:
            return False
        self._level += size
        return True

    def force(self, penalty: int) -> None:
        """Ask senders for at least this penalty (0..127); 0: only what the buffer says."""
        self.forced_penalty = penalty
        self.limited = penalty > 0 or self._config.drain_bps is not None or self.penalised

    def feedback(self, now: int) -> tuple[int, int]:
        """(rcv_cwnd_pen, restore_cwnd) of the next SACK."""
        config = self._config
        first = config.penalty_from * config.buffer_bytes
        over = (self.level(now) - first) / (config.buffer_bytes - first)
        penalty = max(self.forced_penalty, min(c.PENALTY_MAX, int(over * c.PENALTY_MAX)), 0)
        if penalty:
            self.penalised = True
            return penalty, 0
        return 0, int(self.penalised)

    def window(self, mpr: int, pmtu: int, now: int) -> int:
        """A dynamic MPR: what the free buffer holds, at least one unit, at most `mpr`."""
        if self._config.drain_bps is None:
            return mpr
        free = self._config.buffer_bytes - self.level(now)
        return max(1, min(mpr, int(free) // (pmtu * MPR_UNIT)))
