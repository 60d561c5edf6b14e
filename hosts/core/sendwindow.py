"""What a requestor has in the network: rings indexed by sequence number, and what was SACKed.

All arrays have one slot per sequence number modulo a power of two that is at least twice what is
outstanding, so a slot is only reused long after its packet was acknowledged. They start small and
double when they must: most QPs never use the window that their peer allows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from hosts.core.ev.evset import EvEntry
    from hosts.core.messages import SendMessage

# Bits of `flag`. 0: never sent, or acknowledged.
OUT: Final = 1  # a copy is in the network
LOST: Final = 2  # given up (loss, time-out, NACK); waits to be sent again
RETX: Final = 4  # the newest copy is a retransmission: no second fast retransmit
SUSPECT: Final = 8  # missing for longer than a round trip takes; its EV is suspect
ORDER: Final = 16  # a later packet on the same EV and DSCP was SACKed
TIMED: Final = 32  # its timer is in the heap (`rto`), not implied by its place in the window

RING_MIN: Final = 256


class SendWindow:
    """Sequence numbers [unack_psn, next): the first is the oldest not acknowledged cumulatively
    (table 7-4; numbers that do not wrap).

    acked      bit i: unack_psn + i is acknowledged (bit 0 is always clear)
    highest    highest sequence number known received
    order_hits numbers that got ORDER and are still out
    undone     bytes of packets that counted as lost and proved received, since last taken
    """

    __slots__ = (
        "_most",
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
        "unack_psn",
        "undone",
    )

    def __init__(self, first: int, window: int, full_size: int) -> None:
        """window: most sequence numbers ever outstanding; full_size: nominal size of a packet."""
        self._most = 1 << (2 * window - 1).bit_length()
        size = min(RING_MIN, self._most)
        self.mask = size - 1
        self.unack_psn = first
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

    def grow(self) -> None:
        """Double the rings; called when half of them is outstanding."""
        old, size = self.mask + 1, min(2 * (self.mask + 1), self._most)
        if size == old:
            return
        mask = size - 1
        flag, copies = bytearray(size), bytearray(size)
        sent_at, prev = [0] * size, [-1] * size
        entry: list[EvEntry | None] = [None] * size
        message: list[SendMessage | None] = [None] * size
        # Slots that were never used hold None; nobody else ever reads them.
        old_entry = cast("list[EvEntry | None]", self.entry)
        old_message = cast("list[SendMessage | None]", self.message)
        for seq in range(max(self.next - old, 0), self.next):
            i, j = seq & self.mask, seq & mask
            flag[j], copies[j] = self.flag[i], self.copies[i]
            sent_at[j], prev[j] = self.sent_at[i], self.prev[i]
            entry[j], message[j] = old_entry[i], old_message[i]
        self.flag, self.copies, self.sent_at, self.prev = flag, copies, sent_at, prev
        self.entry = cast("list[EvEntry]", entry)
        self.message = cast("list[SendMessage]", message)
        self.mask = mask

    def size_of(self, seq: int) -> int:
        """Nominal size of a packet that was sent."""
        message = self.message[seq & self.mask]
        return message.last_size if seq == message.last_seq else self.full_size

    @property
    def max_psn_sent(self) -> int:
        return self.next - 1

    def holds(self, seq: int) -> bool:
        """Whether the rings still speak of this number."""
        return self.next - self.mask <= seq < self.next

    def unacked(self) -> int:
        return self.next - self.unack_psn - self.acked.bit_count()

    def out_bytes(self) -> int:
        """Upper bound of the bytes in the network."""
        return (self.unacked() - self.lost_count) * self.full_size

    def acknowledge(self, cack: int, base: int, bits: int) -> int:
        """Take a SACK (cack < next); how many numbers it acknowledged for the first time."""
        flag, mask, una = self.flag, self.mask, self.unack_psn
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
            self.unack_psn = una
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
                    self.unack_psn = una + run
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
        if p >= self.unack_psn and not f & RETX:
            i = p & self.mask
            f = self.flag[i]
            if f & OUT and not f & (RETX | ORDER):
                self.flag[i] = f | ORDER
                self.order_hits.append(p)
