"""Send window, loss inference and timers, without any network (section 4.6)."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from hosts.core.config import RtoConfig
from hosts.core.ev.evset import EvEntry
from hosts.core.loss import HighestRtt, guard_limit, infer
from hosts.core.messages import SendMessage
from hosts.core.rto import RtoTimers
from hosts.core.sendwindow import LOST, ORDER, OUT, RETX, SUSPECT, SendWindow

SIZE = 4184
RTT = 10_000


class Sender:
    """A window whose packets leave one per microsecond on EVs in turn."""

    def __init__(self, evs: int = 4, window: int = 512) -> None:
        self.window = SendWindow(0, window, SIZE)
        self.entries = [EvEntry(i, 1 + i % 2, "active") for i in range(evs)]
        source = memoryview(bytes(1 << 20))
        self.message = SendMessage(1, source, 0, 0, None, msn=0, rqmsn=0, first_seq=0, pmtu=1024)
        self.rtt = HighestRtt()
        self.rtt.add(RTT, 0, RTT)

    def send(self, count: int) -> None:
        w = self.window
        for _ in range(count):
            seq = w.next
            i = seq & w.mask
            entry = self.entries[seq % len(self.entries)]
            w.flag[i] = OUT
            w.copies[i] = 1
            w.sent_at[i] = seq * 1_000
            w.entry[i] = entry
            w.message[i] = self.message
            w.prev[i] = entry.last_seq if entry.last_seq >= w.unack_psn else -1
            entry.last_seq = seq
            w.next = seq + 1

    def sack(self, cack: int, base: int, received: set[int]) -> None:
        bits = sum(1 << (s - base) for s in received if 0 <= s - base < 64)
        self.window.acknowledge(cack, base, bits)

    def infer(self, base: int, guard: int, now: int):
        return infer(self.window, self.rtt.value, base, guard, RTT, now)


@settings(deadline=None, max_examples=50)
@given(st.integers())
def test_window_equals_a_set_whatever_order_sacks_come_in(seed):
    s = Sender(window=256)
    s.send(200)
    received: set[int] = set()
    cack = -1
    sacks = []
    shuffler = Random(seed)
    order = shuffler.sample(range(40), 40) + shuffler.sample(range(40, 150), 110)
    for seq in order:
        received.add(seq)
        while cack + 1 in received:
            cack += 1
        base = shuffler.randint(cack - 10, cack + 80)
        sacks.append((cack, base, set(received)))
    known: set[int] = set()
    sacks = sacks[::7]
    shuffler.shuffle(sacks)
    for cack, base, snapshot in sacks:
        s.sack(cack, base, snapshot)
        known |= set(range(cack + 1)) | {q for q in snapshot if 0 <= q - base < 64}
        w = s.window
        assert not w.acked & 1
        assert (
            set(range(w.unack_psn))
            | {w.unack_psn + i for i in range(w.acked.bit_length()) if w.acked >> i & 1}
            == known
        )
        assert w.unacked() == 200 - len(known)
        assert all(bool(w.flag[q & w.mask] & OUT) == (q not in known) for q in range(200))
        assert w.highest == max(known, default=-1)


def test_bits_beyond_what_was_sent_are_ignored():
    s = Sender()
    s.send(4)
    s.sack(1, 2, {2, 3, 4, 5})
    assert s.window.unack_psn == 4
    assert s.window.next == 4


def test_guard_limit():
    assert guard_limit(0b1110_0110, 3) == 5  # 5, 6 and 7 are beyond bit 4
    assert guard_limit(0b1110_0110, 6) == 0
    assert guard_limit(0, 3) == 0


def test_a_hole_is_lost_after_a_guard_of_packets_beyond_it():
    s = Sender(evs=100)
    s.send(60)
    s.sack(4, 5, set(range(6, 16)))
    assert s.infer(5, 11, now=30_000) == []
    s.sack(4, 5, set(range(6, 17)))
    assert s.infer(5, 11, now=30_000) == [(5, "guard")]


def test_the_guard_waits_for_the_longest_recent_round_trip():
    s = Sender(evs=100)
    s.send(60)
    s.sack(4, 5, set(range(6, 30)))
    slow = 60_000
    s.rtt.add(slow, 1, RTT)
    assert s.infer(5, 11, now=5_000 + slow) == []
    assert s.infer(5, 11, now=5_001 + slow) == [(5, "guard")]


def test_an_old_hole_needs_only_a_few_packets_beyond():
    s = Sender(evs=100)
    s.send(60)
    s.sack(4, 5, {6, 7})
    assert s.infer(5, 50, now=10_000_000) == []
    s.sack(4, 5, {6, 7, 8})
    assert s.infer(5, 50, now=5_000 + 3 * RTT) == []
    assert s.infer(5, 50, now=5_001 + 3 * RTT) == [(5, "age")]


def test_the_highest_rtt_is_forgotten_after_two_epochs():
    rtt = HighestRtt()
    rtt.add(50_000, 0, RTT)
    for now in range(5_000, 200_000, 5_000):
        rtt.add(RTT, now, RTT)
        assert rtt.value == (50_000 if now < 80_000 else RTT)


def test_same_ev_order_needs_no_guard():
    s = Sender(evs=4)
    s.send(20)
    s.sack(4, 5, {6, 7, 8, 9})  # 9 is on the EV of 5
    assert s.infer(5, 100, now=5_001) == [(5, "same_ev")]


def test_same_ev_order_waits_for_a_sack_that_covers_the_hole():
    s = Sender(evs=4)
    s.send(20)
    s.sack(4, 9, {9})
    assert s.window.flag[5] & ORDER
    assert s.infer(9, 100, now=6_000) == []
    s.sack(4, 5, {5, 9})  # it had arrived: the SACK that said so was lost
    assert s.infer(5, 100, now=6_000) == []


def test_a_number_no_sack_reported_is_not_a_hole():
    s = Sender(evs=100)
    s.send(200)
    s.sack(4, 80, set(range(80, 144)))
    assert s.infer(80, 11, now=10_000_000) == []


def test_a_retransmission_is_never_lost_fast():
    s = Sender(evs=4)
    s.send(60)
    s.window.flag[5] = OUT | RETX
    s.sack(4, 5, set(range(6, 50)))
    assert s.infer(5, 3, now=10_000_000) == []


def test_a_hole_older_than_a_round_trip_makes_its_ev_suspect_until_it_arrives():
    s = Sender(evs=100)
    s.send(60)
    s.sack(4, 5, {6, 7})
    assert s.infer(5, 50, now=5_000 + RTT + RTT // 4) == []
    assert not s.entries[5].suspect
    assert s.infer(5, 50, now=5_001 + RTT + RTT // 4) == []
    assert s.entries[5].suspect
    assert s.window.flag[5] & SUSPECT
    s.sack(5, 6, {6, 7})
    assert not s.entries[5].suspect


def test_late_arrival_of_what_counted_as_lost_is_undone():
    s = Sender()
    s.send(10)
    s.window.flag[3] = LOST
    s.window.lost_count = 1
    s.sack(5, 6, set())
    assert s.window.lost_count == 0
    assert s.window.undone == s.window.size_of(3) > 0


# --- timers --------------------------------------------------------------------------------------

BASE = 1024 << 3


def timers(linear: int = 2, exp: int = 3) -> tuple[Sender, RtoTimers]:
    s = Sender()
    return s, RtoTimers(RtoConfig(3, linear, exp), 1, s.window)


def test_rto_base_is_1024_ns_times_2_to_the_t_times_scale():
    assert RtoConfig(8).base_ns(1) == 262_144
    assert RtoConfig(8).base_ns(1000) == 262_144_000


def test_each_packet_has_its_own_timer():
    s, rto = timers()
    assert rto.next_due() is None
    s.send(3)
    assert rto.next_due() == BASE
    assert rto.expired(BASE - 1) is None
    assert rto.expired(BASE) == 0
    s.window.flag[0] = LOST
    assert rto.next_due() == 1_000 + BASE
    s.sack(1, 2, set())
    assert rto.next_due() == 2_000 + BASE


def test_retransmissions_back_off_after_the_linear_retries():
    s, rto = timers()
    s.send(1)
    now, waited = 0, []
    while True:
        due = rto.next_due()
        assert due is not None
        waited.append(due - now)
        now = due
        assert rto.expired(now) == 0
        s.window.flag[0] = LOST
        if not rto.count_retry(s.window.sent_at[0], now):
            break
        s.window.flag[0] = OUT | RETX
        s.window.sent_at[0] = now
        rto.arm(0, now)
    assert waited == [BASE, BASE, BASE, 2 * BASE, 4 * BASE, 8 * BASE]


def test_packets_of_one_flight_count_one_retry():
    s, rto = timers()
    s.send(3)
    for seq in range(3):
        rto.count_retry(s.window.sent_at[seq], BASE + seq * 1_000)
    assert rto.retries == 1
    rto.count_retry(BASE + 5_000, 2 * BASE)
    assert rto.retries == 2
    rto.progress()
    assert rto.retries == 0


def test_unlimited_retries():
    s, rto = timers(linear=7, exp=25)
    s.send(1)
    assert all(rto.count_retry(i * 10, i * 10 + 5) for i in range(200))
    assert rto.interval == RtoConfig(24).base_ns(1)  # 17.2 s is the longest
