"""Loss inference (section 4.6, section 9 #15): which holes count as lost after a SACK.

What counts as evidence. A clear bit at or below the highest number known received means "missing
when this SACK was made". It is used only when the SACK is not older than one already seen (its
rcvd_bytes did not go back): then everything known received had arrived before it was made. A
number that no SACK reported, because that SACK was lost, is never a hole.

A hole counts as lost
  same_ev  at once, when a later packet on the same EV and DSCP had arrived: one FIFO path;
  guard    when a BDP of packets beyond it had arrived, and it has been out for longer than any
           round trip lately took. The second condition changes nothing on a quiet fabric (the
           guard alone takes more than a round trip) and keeps a plane whose queues are longer
           than a BDP, or a host that was not scheduled for a while, from looking like loss;
  age      when it has been out for several times the longest round trip and a few packets beyond
           it had arrived: the guard may be out of reach when most of a window is lost.
A retransmission never counts as lost here: at most one fast retransmit per hole.

Before that, a hole that has been out for longer than round trips take makes its EV *suspect*: new
packets prefer other EVs. A dead path so costs about one packet per EV instead of one per turn.
"""

from __future__ import annotations

from typing import Final

from hosts.core import constants as c
from hosts.core.sendwindow import ORDER, OUT, RETX, SUSPECT, SendWindow

EPOCH_BASE_RTTS: Final = 4  # the highest RTT is kept for one to two epochs
SUSPECT_MARGIN: Final = 4  # base RTT / this, beyond the highest RTT
SACK_BITS: Final = 64


class HighestRtt:
    """The highest RTT sample of the last epochs, over all planes: what delays one plane's packets
    without the others' (a long queue, a host that reads one port before the other) delays samples
    somewhere too."""

    __slots__ = ("_current", "_epoch_end", "_previous", "value")

    def __init__(self) -> None:
        self._current = 0
        self._previous = 0
        self._epoch_end = 0
        self.value = 0

    def add(self, rtt_ns: int, now: int, base_rtt_ns: int) -> None:
        if now >= self._epoch_end:
            self._previous = self._current
            self._current = 0
            self._epoch_end = now + EPOCH_BASE_RTTS * base_rtt_ns
            self.value = max(self._previous, rtt_ns)
        if rtt_ns > self._current:
            self._current = rtt_ns
            self.value = max(self.value, rtt_ns)


def guard_limit(acked: int, guard: int) -> int:
    """Offsets below this have at least `guard` acknowledged numbers beyond them; 0: none has."""
    if acked.bit_count() < guard:
        return 0
    low, high = 0, acked.bit_length()  # count at low >= guard, at high < guard
    while high - low > 1:
        middle = (low + high) // 2
        if (acked >> middle).bit_count() >= guard:
            low = middle
        else:
            high = middle
    return low


def infer(
    window: SendWindow, usual: int, base: int, guard: int, base_rtt_ns: int, now: int
) -> list[tuple[int, str]]:
    """(sequence number, rule) of holes that count as lost, oldest first. Marks suspects.

    usual: the highest recent RTT; base: first number of the bitmap of a SACK that is evidence (see
    the module).
    """
    flag, mask, una = window.flag, window.mask, window.unack_psn
    sent_at, entries = window.sent_at, window.entry
    hits = bool(window.order_hits)
    if not hits:
        i = una & mask
        if flag[i] & (OUT | RETX) == OUT and now - sent_at[i] <= usual:
            return []  # the oldest hole is young: so are all
    low = max(base - una, 0)
    high = min(base + SACK_BITS - 1, window.highest) - una
    if high < low:
        return []
    holes = ~window.acked & ((1 << (high + 1)) - (1 << low))
    if not holes:
        return []
    limit = guard_limit(window.acked, guard)
    few = guard_limit(window.acked, c.LOSS_GUARD_MIN_PACKETS)
    suspicious = usual + base_rtt_ns // SUSPECT_MARGIN
    ancient = c.LOSS_AGE_RTTS * usual
    lost: list[tuple[int, str]] = []
    while holes:
        bit = holes & -holes
        holes ^= bit
        offset = bit.bit_length() - 1
        seq = una + offset
        i = seq & mask
        f = flag[i]
        if not f & OUT:
            continue
        age = now - sent_at[i]
        if not f & RETX:
            if f & ORDER:
                lost.append((seq, "same_ev"))
                continue
            if offset < limit and age > usual:
                lost.append((seq, "guard"))
                continue
            if offset < few and age > ancient:
                lost.append((seq, "age"))
                continue
        if not f & SUSPECT and age > suspicious:
            flag[i] = f | SUSPECT
            entries[i].suspect = True
    if hits:
        window.order_hits = [
            seq
            for seq in window.order_hits
            if seq >= una and flag[seq & mask] & ORDER and (seq, "same_ev") not in lost
        ]
    return lost
