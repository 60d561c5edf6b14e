"""Classes, trimming, marking, and the register that trimming trusts."""

from __future__ import annotations

import random

import pytest

from controller.program import TRIM_LENGTH
from tests.p4src import frames
from tests.p4src.switch import MS, PLAN
from topologies.paths import uplink_of

H0, H1, H2, H3 = (PLAN.hosts[f"h{i}"].nics[0].ipv6 for i in range(4))
RATE = 100_000_000
FULL = 14 + 40 + 8 + 12 + 4 + 4 + 16 + 4096 + 4
FRAME_NS = FULL * 8 * 10
KMIN, KMAX, TRIM, TRIM_LAST = 6, 24, 30, 45


def ev_to(switch, port: int) -> int:
    rng = random.Random(5)
    while True:
        ev = rng.getrandbits(32)
        if uplink_of(PLAN, switch.plan, "h0", "h2", ev) == port:
            return ev


def burst(switch, count: int, port: int = 3, **fields) -> list[bytes]:
    ev = ev_to(switch, port)
    return [frames.mrc(H0, H2, ev=ev, psn=n, **fields) for n in range(count)]


def psn_of(frame: bytes) -> int:
    return int.from_bytes(frame[14 + 40 + 8 + 9 : 14 + 40 + 8 + 12], "big")


def test_control_overtakes_data(make):
    switch = make(rate_bps=RATE)
    ev = ev_to(switch, 3)
    data = [frames.mrc(H0, H2, ev=ev, psn=n) for n in range(4)]
    control = [
        frames.mrc(H0, H2, ev=ev, psn=100 + n, dscp=dscp, payload=64)
        for n, dscp in enumerate((46, 12, 16))
    ]
    out = [psn_of(frame) for _port, frame in switch.send(1, *data, *control)]
    assert sorted(out[:2])[0] == 0
    assert out == [0, 100, 101, 102, 1, 2, 3]
    counters = switch.counters()[3]
    assert counters.forwarded["control"].packets == 3
    assert counters.transmitted["data"].packets == 4


@pytest.mark.parametrize("dscp", [4, 8])
def test_past_the_threshold_packets_are_trimmed_and_none_is_lost(make, dscp):
    switch = make(rate_bps=RATE)
    out = switch.send(1, *burst(switch, 60, dscp=dscp))
    assert len(out) == 60
    assert {port for port, _ in out} == {3}
    seen = [(psn_of(frame), frames.see(frame)) for _port, frame in out]
    cut = {psn: s for psn, s in seen if s.length < FULL}
    assert all(s.length == TRIM_LENGTH and s.dscp == 12 for s in cut.values())
    assert all(s.dscp == dscp for psn, s in seen if psn not in cut)
    # The first packet goes straight to the wire, then TRIM wait.
    assert sorted(cut) == list(range(len(seen) - len(cut), 60))
    assert len(seen) - len(cut) in (TRIM, TRIM + 1)
    counters = switch.counters()[3]
    assert counters.trimmed.packets == len(cut)
    assert counters.trimmed_lasthop.packets == 0
    assert counters.transmitted["control"].packets == len(cut)
    assert switch.engine.register_read("occupancy", 3) == 0


def test_a_trimmed_packet_keeps_its_headers_and_lengths(make):
    switch = make(rate_bps=RATE)
    sent = burst(switch, 40)
    out = switch.send(1, *sent)
    trimmed = next(frame for _port, frame in out if len(frame) == TRIM_LENGTH)
    original = sent[psn_of(trimmed)]
    assert trimmed[16:21] == original[16:21]
    assert trimmed[22:] == original[22:TRIM_LENGTH]
    assert frames.see(trimmed).payload_length == len(original) - 54


def test_the_last_hop_has_its_own_threshold_and_codepoint(make):
    switch = make("p0t0-1", rate_bps=RATE)
    sent = [frames.mrc(H0, H2, psn=n) for n in range(80)]
    out = switch.send(3, *sent)
    cut = [frame for _port, frame in out if len(frame) == TRIM_LENGTH]
    assert len(out) == 80
    assert 80 - len(cut) in (TRIM_LAST, TRIM_LAST + 1)
    assert {frames.see(frame).dscp for frame in cut} == {16}
    counters = switch.counters()[1]
    assert (counters.trimmed.packets, counters.trimmed_lasthop.packets) == (0, len(cut))


def test_trimmed_packets_are_not_trimmed_again(make):
    switch = make("p0t0-1", rate_bps=RATE)
    data = [frames.mrc(H0, H2, psn=n) for n in range(80)]
    trimmed = frames.mrc(H0, H2, psn=500, dscp=12)[:TRIM_LENGTH]
    out = switch.send(3, *data, trimmed)
    (frame,) = [f for _p, f in out if psn_of(f) == 500]
    assert frame[22:] == trimmed[22:]
    assert frames.see(frame).dscp == 12


def test_what_must_not_or_cannot_be_trimmed_is_not(make):
    switch = make(rate_bps=RATE, queue_limits=(200, 1000))
    whole = [*burst(switch, 60, dscp=0), *burst(switch, 60, payload=TRIM_LENGTH - 98 - 4)]
    out = switch.send(1, *whole)
    assert len(out) == 120
    assert switch.counters()[3].trimmed.packets == 0
    assert sorted(len(f) for _p, f in out) == sorted(len(f) for f in whole)


def test_the_register_is_right_again_after_tail_drops(make):
    switch = make(rate_bps=RATE)
    out = switch.send(1, *burst(switch, 150, dscp=0))
    dropped = 150 - len(out)
    assert dropped > 50
    counters = switch.counters()[3]
    assert counters.forwarded["data"].packets - counters.transmitted["data"].packets == dropped
    assert switch.engine.port_stats(3).drops["queue_full"] == dropped
    assert switch.engine.register_read("occupancy", 3) == 0
    assert len(switch.send(1, *burst(switch, TRIM))) == TRIM
    assert switch.counters()[3].trimmed.packets == 0


def test_a_port_that_died_with_packets_waiting_does_not_trim_for_ever(make):
    switch = make(rate_bps=RATE)
    switch.receive(1, *burst(switch, 25))
    switch.drain(switch.now + 2 * MS)
    switch.engine.set_port_up(3, False, switch.now)
    for _ in range(4):
        switch.send(1, *burst(switch, 20))
        switch.now += 10 * MS
    switch.engine.set_port_up(3, True, switch.now)
    switch.now += 200 * MS
    out = switch.send(1, *burst(switch, 10))
    assert len(out) == 10
    assert all(len(frame) == FULL for _port, frame in out)


def test_an_idle_port_is_not_mistaken_for_one_that_died(make):
    """Long silence, a control packet on the wire, then a burst: the queue is full although no
    data packet has left for seconds."""
    switch = make(rate_bps=RATE)
    switch.now += 5_000 * MS
    out = switch.send(1, *burst(switch, 1, dscp=46), *burst(switch, 60))
    assert sum(len(frame) == TRIM_LENGTH for _port, frame in out) == 60 - TRIM


def test_an_occupancy_that_does_not_move_is_believed_for_its_patience_only(make):
    switch = make(rate_bps=RATE)
    patience_us = 204_096  # ten times what 30 full frames take at 50 Mb/s
    for waited_us, trimmed in ((patience_us - 1_000, 10), (patience_us + 1_000, 0)):
        now_us = switch.now // 1_000
        (first,) = switch.send(1, *burst(switch, 1))
        assert len(first[1]) == FULL
        moved = switch.engine.register_read("moved_at", 3)
        assert 0 <= moved - now_us <= 1_000
        switch.engine.register_write("occupancy", 3, TRIM + 5)
        switch.now = (moved + waited_us) * 1_000
        out = switch.send(1, *burst(switch, 10))
        assert sum(len(frame) == TRIM_LENGTH for _port, frame in out) == trimmed
        switch.engine.register_write("occupancy", 3, 0)


# -- marking


def marks(out) -> list[bool]:
    return [frames.see(frame).ecn == 3 for _port, frame in out]


def test_nothing_is_marked_in_a_short_queue(make):
    switch = make(rate_bps=RATE)
    assert not any(marks(switch.send(1, *burst(switch, KMIN))))


def test_marks_follow_the_depth_that_a_packet_leaves_behind(make):
    """The first of N leaves at once, before the others come; N-2 wait behind the second."""
    switch = make(rate_bps=RATE)
    always = sometimes = 0
    rounds = 40
    between = range(KMIN + 1, KMAX)
    hits = dict.fromkeys(between, 0)
    for _ in range(rounds):
        marked = marks(switch.send(1, *burst(switch, TRIM, dscp=0)))
        for position, hit in enumerate(marked):
            depth = TRIM - 1 - position if position else 0
            if depth >= KMAX:
                assert hit
                always += 1
            elif depth <= KMIN:
                assert not hit
            else:
                hits[depth] += hit
                sometimes += hit
    expected = sum((depth - KMIN) / (KMAX - KMIN) for depth in between) * rounds
    assert always
    assert abs(sometimes - expected) < 5 * (expected / 2) ** 0.5
    assert hits[KMAX - 1] > hits[KMIN + 1]
    assert switch.counters()[3].marked.packets == always + sometimes


@pytest.mark.parametrize(("ecn", "marked"), [(0, False), (1, True), (2, True), (3, False)])
def test_only_ect_is_marked_and_ce_is_not_counted_again(make, ecn, marked):
    switch = make(rate_bps=RATE)
    out = switch.send(1, *burst(switch, TRIM, ecn=ecn, dscp=0))
    assert {frames.see(f).ecn for _p, f in out} == ({ecn, 3} if marked else {ecn})
    assert bool(switch.counters()[3].marked.packets) is marked


def test_ports_that_face_hosts_do_not_mark(make):
    switch = make("p0t0-1", rate_bps=RATE)
    out = switch.send(3, *[frames.mrc(H0, H2, psn=n) for n in range(40)])
    assert len(out) == 40
    assert not any(marks(out))


def test_control_packets_are_not_marked(make):
    switch = make(rate_bps=RATE)
    assert not any(marks(switch.send(1, *burst(switch, 60, dscp=46))))
    assert switch.counters()[3].transmitted["control"].packets == 60
