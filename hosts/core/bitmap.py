"""The receive bitmap of a responder (sections 4.2, 4.5): what has arrived, as one integer.

Bit i of `bits` is sequence number cack + 1 + i. Bit 0 is therefore always clear: when that packet
arrives, cack moves past it and past everything received behind it.
"""

from __future__ import annotations

from typing import Final

from hosts.core.constants import SACK_BITMAP_BITS

_MASK64: Final = (1 << SACK_BITMAP_BITS) - 1


class ReceiveBitmap:
    """Received sequence numbers above a cumulative one, and the SACK window that sweeps them."""

    __slots__ = ("bits", "cack_psn", "lowest_unsacked_psn", "max_rcv_psn")

    def __init__(self, first: int) -> None:
        """first: the first sequence number expected; cack starts one below."""
        self.cack_psn = first - 1
        self.bits = 0
        self.max_rcv_psn = first - 1
        self.lowest_unsacked_psn = first

    def has(self, seq: int) -> bool:
        offset = seq - self.cack_psn - 1
        return offset < 0 or self.bits >> offset & 1 == 1

    def add(self, seq: int) -> int:
        """Note the arrival of a number above cack; by how many cack moved. Idempotent."""
        if seq > self.max_rcv_psn:  # noqa: PLR1730  (hot)
            self.max_rcv_psn = seq
        offset = seq - self.cack_psn - 1
        if offset:
            self.bits |= 1 << offset
            return 0
        bits = self.bits >> 1
        moved = 1
        if bits & 1:
            run = (~bits & (bits + 1)).bit_length() - 1  # trailing ones
            bits >>= run
            moved += run
        self.bits = bits
        self.cack_psn += moved
        return moved

    @property
    def rx_ooo_count(self) -> int:
        """Packets held above the first gap."""
        return self.bits.bit_count()

    def sack_window(self) -> tuple[int, int]:
        """(base, 64 bits) of the next SACK, and move the sweep on (section 4.5)."""
        first = self.cack_psn + 1
        base = self.lowest_unsacked_psn
        base = max(base, first)
        if base + SACK_BITMAP_BITS - 1 > self.max_rcv_psn:
            base = max(self.max_rcv_psn - SACK_BITMAP_BITS + 1, first)
        window = self.bits >> (base - first) & _MASK64
        following = base + SACK_BITMAP_BITS
        self.lowest_unsacked_psn = following if following <= self.max_rcv_psn else first
        return base, window
