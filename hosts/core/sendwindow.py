"""What a requestor has in the network: rings indexed by sequence number, and what was SACKed.

All arrays have one slot per sequence number modulo a power of two that is larger than any window,
so a slot is only reused long after its packet was acknowledged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hosts.core.ev.evset import EvEntry
    from hosts.core.messages import SendMessage

# Bits of `flag`. 0: never sent, or acknowledged.
OUT = 1  # a copy is in the network
LOST = 2  # given up (loss, time-out, NACK); waits to be sent again
RETX = 4  # the newest copy is a retransmission: no second fast retransmit
SUSPECT = 8  # missing for longer than a round trip takes; its EV is suspect
ORDER = 16  # a later packet on the same EV and DSCP was SACKed
TIMED = 32  # its timer is in the heap (`rto`), not implied by its place in the window


class SendWindow:
    """Sequence numbers [una, next): una is the oldest not acknowledged cumulatively.

    acked      bit i: una + i is acknowledged (bit 0 is always clear)
    highest    highest sequence number known received
    order_hits numbers that got ORDER and are still out
    undone     bytes of packets that counted as lost and proved received, since last taken
    """

    __slots__ = (
        "acked",
        "copies",
        "entry",
        "flag",
        "full_size",
        "highest",
        "lost_count",
        "mask",
        "message",
        "next",
        "order_hits",
        "prev",
        "sent_at",
        "una",
        "undone",
    )

    def __init__(self, first: int, window: int, full_size: int) -> None:
        """window: most sequence numbers ever outstanding; full_size: nominal size of a packet."""
        size = 1 << (2 * window - 1).bit_length()
        self.mask = size - 1
        self.una = first
        self.next = first
        self.highest = first - 1
        self.acked = 0
        self.lost_count = 0
        self.undone = 0
        self.full_size = full_size
        self.flag = bytearray(size)
        self.copies = bytearray(size)
        self.sent_at: list[int] = [0] * size
        self.prev: list[int] = [-1] * size  # the packet before it on its EV, while still out
        self.entry: list[EvEntry] = [None] * size  # type: ignore[list-item]
        self.message: list[SendMessage] = [None] * size  # type: ignore[list-item]
        self.order_hits: list[int] = []

    def size_of(self, seq: int) -> int:
        """Nominal size of a packet that was sent."""
        message = self.message[seq & self.mask]
        return message.last_size if seq == message.last_seq else self.full_size

    def holds(self, seq: int) -> bool:
        """Whether the rings still speak of this number."""
        return self.next - self.mask <= seq < self.next

    def unacked(self) -> int:
        return self.next - self.una - self.acked.bit_count()

    def out_bytes(self) -> int:
        """Upper bound of the bytes in the network."""
        return (self.unacked() - self.lost_count) * self.full_size

    def acknowledge(self, cack: int, base: int, bits: int) -> int:
        """Take a SACK (cack < next); how many numbers it acknowledged for the first time."""
        flag, mask, una = self.flag, self.mask, self.una
        fresh = 0
        if cack >= una:
            for seq in range(una, cack + 1):
                f = flag[seq & mask]
                if f:
                    self._ack(seq, f)
                    fresh += 1
            moved = cack + 1 - una
            acked = self.acked >> moved
            una = cack + 1
            if acked & 1:  # what we know beyond what this SACK's cack says
                run = (~acked & (acked + 1)).bit_length() - 1
                acked >>= run
                una += run
            self.acked = acked
            self.una = una
            self.highest = max(self.highest, una - 1)
        if bits:
            shift = base - una
            bits = bits << shift if shift >= 0 else bits >> -shift
            bits &= (1 << max(self.next - una, 0)) - 1
            new = bits & ~self.acked
            if new:
                self.acked |= new
                top = una + new.bit_length() - 1
                self.highest = max(self.highest, top)
                while new:
                    low = new & -new
                    seq = una + low.bit_length() - 1
                    self._ack(seq, flag[seq & mask])
                    fresh += 1
                    new ^= low
                if self.acked & 1:
                    acked = self.acked
                    run = (~acked & (acked + 1)).bit_length() - 1
                    self.acked = acked >> run
                    self.una = una + run
        return fresh

    def _ack(self, seq: int, f: int) -> None:
        i = seq & self.mask
        self.flag[i] = 0
        if f & LOST:
            self.lost_count -= 1
            self.undone += self.size_of(seq)
        entry = self.entry[i]
        entry.suspect = False
        sent_at = self.sent_at[i]
        if sent_at > entry.proven and f & OUT:
            entry.proven = sent_at
        p = self.prev[i]
        if p >= self.una and not f & RETX:
            i = p & self.mask
            f = self.flag[i]
            if f & OUT and not f & (RETX | ORDER):
                self.flag[i] = f | ORDER
                self.order_hits.append(p)
