"""Loss inference (section 4.6, section 9 #15): which holes count as lost after a SACK.

What counts as evidence. A clear bit at or below the highest number known received means "missing
when this SACK was made". It is used only when the SACK is not older than one already seen (its
rcvd_bytes did not go back): then everything known received had arrived before it was made. A
number that no SACK reported, because that SACK was lost, is never a hole.

A hole counts as lost
  same_ev  at once, when a later packet on the same EV and DSCP had arrived: one FIFO path;
  guard    when a BDP of packets beyond it had arrived, and it has been out for longer than any
           round trip lately took on its plane. The second condition changes nothing on a fabric
           with even queues (the guard alone takes more than a round trip) and keeps a plane whose
           queues are longer than a BDP from being taken for dead.
A retransmission never counts as lost here: at most one fast retransmit per hole.

Before that, a hole that has been out for longer than round trips take makes its EV *suspect*: new
packets prefer other EVs. A dead path so costs about one packet per EV instead of one per turn.
"""

from __future__ import annotations

from hosts.core.sendwindow import ORDER, OUT, RETX, SUSPECT, SendWindow

EPOCH_BASE_RTTS = 4  # the highest RTT is kept for one to two epochs
SUSPECT_MARGIN = 4  # base RTT / this, beyond the highest RTT
SACK_BITS = 64


class HighestRtt:
    """The highest RTT samples of the last epochs, by port."""

    __slots__ = ("_epoch_end", "_now", "_overall", "_previous")

    def __init__(self) -> None:
        self._now: dict[int, int] = {}
        self._previous: dict[int, int] = {}
        self._overall = 0
        self._epoch_end = 0

    def add(self, port: int, rtt_ns: int, now: int, base_rtt_ns: int) -> None:
        if now >= self._epoch_end:
            self._previous = self._now
            self._now = {}
            self._overall = max(self._previous.values(), default=0)
            self._epoch_end = now + EPOCH_BASE_RTTS * base_rtt_ns
        if rtt_ns > self._now.get(port, 0):
            self._now[port] = rtt_ns
            self._overall = max(self._overall, rtt_ns)

    def of(self, port: int) -> int:
        """Of this port; of all when it had no sample."""
        return max(self._now.get(port, 0), self._previous.get(port, 0)) or self._overall


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
    window: SendWindow, highest_rtt: HighestRtt, base: int, guard: int, base_rtt_ns: int, now: int
) -> list[tuple[int, str]]:
    """(sequence number, rule) of holes that count as lost, oldest first. Marks suspects.

    base: first number of the bitmap of a SACK that is evidence (see the module).
    """
    flag, mask, una = window.flag, window.mask, window.una
    sent_at, entries = window.sent_at, window.entry
    hits = bool(window.order_hits)
    if not hits:
        i = una & mask
        if flag[i] & (OUT | RETX) == OUT and now - sent_at[i] <= highest_rtt.of(entries[i].port):
            return []  # the oldest hole is young: so are all
    low = max(base - una, 0)
    high = min(base + SACK_BITS - 1, window.highest) - una
    if high < low:
        return []
    holes = ~window.acked & ((1 << (high + 1)) - (1 << low))
    if not holes:
        return []
    limit = guard_limit(window.acked, guard)
    margin = base_rtt_ns // SUSPECT_MARGIN
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
        entry = entries[i]
        age = now - sent_at[i]
        usual = highest_rtt.of(entry.port)
        if not f & RETX:
            if f & ORDER:
                lost.append((seq, "same_ev"))
                continue
            if offset < limit and age > usual:
                lost.append((seq, "guard"))
                continue
        if not f & SUSPECT and age > usual + margin:
            flag[i] = f | SUSPECT
            entry.suspect = True
    if hits:
        window.order_hits = [
            seq for seq in window.order_hits
            if seq >= una and flag[seq & mask] & ORDER and (seq, "same_ev") not in lost
        ]  # fmt: skip
    return lost
