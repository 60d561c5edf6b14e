"""What the reference says of EVs and ports (3, 6), shown by answers made by hand."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from hosts.core.config import ConfigError, EvConfig, QpConfig, RtoConfig
from hosts.core.ev.evset import EvSet
from hosts.core.ev.format import EvFormat, EvKind
from hosts.core.ev.profile import EvMode, ProfileInput, ProfileSpec
from hosts.core.ev.state import EvInput
from hosts.core.events import EvState
from hosts.wire.constants import EvPacking, Opcode
from hosts.wire.frame import Packet, parse
from hosts.wire.headers import Eeth, Erth
from tests.core.duo import endpoint, qp_config
from tests.core.hand import Hand

GOOD, SKIP, BAD, DENIED = EvState.GOOD, EvState.SKIP, EvState.ASSUMED_BAD, EvState.DENIED


# --- 3.4, 4.7: a SACK that answers a probe is a SACK ---------------------------------------------


def test_the_m_bit_of_a_probes_answer_reaches_the_congestion_control():
    hand = Hand()
    hand.write(100)
    for m, marked in ((0, False), (1, True), (3, False)):
        hand.answer(hand.probe(), m)
        assert hand.cc.heard[-1][1:] == (hand.cc.rtt_ns, marked)


@pytest.mark.parametrize(("m", "state"), [(0, GOOD), (1, SKIP), (2, BAD), (3, GOOD)])
def test_path_feedback_of_a_probe_moves_a_good_ev(m, state):
    hand = Hand()
    hand.write(100)
    probe = hand.probe()
    hand.answer(probe, m)
    assert hand.evs.by_ev[probe.ev].state is state


@pytest.mark.parametrize(("m", "state"), [(0, GOOD), (1, SKIP), (2, BAD)])
def test_path_feedback_of_a_trial_probe(m, state):
    hand = Hand()
    port = hand.write(100)[0].src_ip[-1]
    plane = hand.evs.planes[port]
    hand.evs.feed(plane.active[0], EvInput.LOSS, hand.now)
    probe = next(p for p in hand.sent() if p.opcode == Opcode.PROBE)
    entry = hand.evs.by_ev[probe.ev]
    assert entry.role == "backup"
    hand.answer(probe, m)
    assert (entry.state, entry.role) == (state, "out" if m == 2 else "active")
    assert plane.trials == (1 if m == 2 else 0)  # the next backup is tried


# --- 3.4: rotation -------------------------------------------------------------------------------


def small_set(count: int) -> EvSet:
    return EvSet({1: (list(range(1, count + 1)), [])}, Random(1), qpn=1, min_active=0)


def test_the_only_ev_carries_its_own_retransmission_though_it_was_skipped():
    evs = small_set(1)
    only = evs.pick(1, 0)
    evs.feed(only, EvInput.NACK_TRIMMED, 0)
    assert evs.pick_again(1, 0, only, 0) is only


def test_of_skipped_evs_a_retransmission_takes_another_than_its_old_one():
    for index in range(3):
        evs = small_set(3)
        entries = [evs.pick(1, 0) for _ in range(3)]
        for entry in entries:
            evs.feed(entry, EvInput.SACK_SKIP_ONCE, 0)
        assert evs.pick_again(1, 0, entries[index], 0) is not entries[index]
        assert [e.state for e in entries].count(GOOD) == 1  # at most one is restored


def test_when_all_are_suspect_they_share_the_load():
    evs = small_set(4)
    for entry in evs.by_ev.values():
        entry.suspect = True
    assert len({evs.pick(1, 0).ev for _ in range(4)}) == 4


# --- 3.4: recovery ------------------------------------------------------------------------------


def probes_of(hand: Hand, ev: int, until: int, answer: bool = False, m: int = 0) -> list[int]:
    """When reliability probes left on an EV."""
    found = []
    while hand.now < until:
        for port, frame in hand.me.frames_to_send(hand.now):
            packet = parse(frame)
            assert packet is not None
            if packet.opcode == Opcode.PROBE and packet.ev == ev:
                assert port == hand.evs.by_ev[ev].port
                found.append(hand.now)
                if answer:
                    hand.answer(packet, m)
        hand.now += 100_000
        hand.me.on_deadline(hand.now)
    return found


def test_recovery_probes_are_spaced_by_the_rto_doubling_to_100_ms():
    hand = Hand(rto=RtoConfig(t=12), ev=EvConfig(backup=0))  # 4.19 ms
    entry = hand.evs.planes[1].active[0]
    hand.evs.feed(entry, EvInput.LOSS, 0)
    times = probes_of(hand, entry.ev, 600_000_000)
    gaps = [b - a for a, b in pairwise([0, *times])]
    wanted = [4.2, 8.4, 16.8, 33.6, 67.1, 100, 100, 100, 100]
    assert [round(gap / 1e6, 1) for gap in gaps] == pytest.approx(wanted, abs=0.3)


def test_three_consecutive_answers_an_rto_apart_bring_an_ev_back():
    hand = Hand(rto=RtoConfig(t=12), ev=EvConfig(backup=0))
    entry = hand.evs.planes[1].active[0]
    hand.evs.feed(entry, EvInput.LOSS, 0)
    times = probes_of(hand, entry.ev, 100_000_000, answer=True)
    assert [round(t / 4.2e6) for t in times] == [1, 2, 3]
    assert entry.state is GOOD


@pytest.mark.parametrize(("m", "state"), [(0, GOOD), (1, SKIP), (2, BAD)])
def test_what_the_last_answer_says(m, state):
    """The third: NONE to GOOD, SKIP_ONCE to SKIP (#11); ALWAYS_SKIP is no success."""
    hand = Hand(rto=RtoConfig(t=12), ev=EvConfig(backup=0))
    entry = hand.evs.planes[1].active[0]
    hand.evs.feed(entry, EvInput.LOSS, 0)
    probes_of(hand, entry.ev, 10_000_000, answer=True)
    assert (entry.state, entry.successes) == (BAD, 2)
    probes_of(hand, entry.ev, 15_000_000, answer=True, m=m)
    assert entry.state is state
    assert entry.successes == (0 if m == 2 else 3)


def test_ev_probes_bring_an_ev_back_too():
    hand = Hand()
    entry = hand.evs.planes[1].active[0]
    hand.evs.feed(entry, EvInput.LOSS, 0)
    for _ in range(3):
        hand.me.probe_ev(hand.qpn, entry.ev, hand.now)
        (request,) = [p for p in hand.sent() if p.opcode == Opcode.ENDPOINT_REQUEST]
        assert (request.ev, request.dqp, request.psn >> 16) == (entry.ev, 2, 0)
        response = hand.back.endpoint_response(46, 5, request.psn, Eeth(0, 0))
        hand.me.receive(1, response, hand.now)  # op is advice only
    assert entry.state is GOOD


def test_a_recovered_ev_is_a_backup_when_its_place_is_taken():
    hand = Hand()
    plane = hand.evs.planes[1]
    entry = plane.active[0]
    hand.evs.feed(entry, EvInput.LOSS, 0)
    trial = next(p for p in hand.sent() if p.opcode == Opcode.PROBE and p.src_ip[-1] == 1)
    hand.answer(trial)
    assert hand.evs.by_ev[trial.ev] in plane.active
    hand.evs.feed(entry, EvInput.PROBE_OK, hand.now)
    assert entry in plane.backup


# --- 3.1, 3.2: values that the wire cannot carry -------------------------------------------------

ECMP16 = EvFormat("ecmp", EvKind.ECMP, (16,))
PAIR = EvFormat("pair", EvKind.STRUCTURED, (16, 16))


def explicit(end, values, fmt=ECMP16) -> QpConfig:
    spec = ProfileSpec("p", fmt, EvMode.EXPLICIT, ev_count=len(values), backup=0)
    end.profiles.create_ev(spec)
    end.profiles.move_ev("p", ProfileInput.LOAD)
    for index, value in enumerate(values):
        end.profiles.ev["p"].write(1, index, value)
    end.profiles.move_ev("p", ProfileInput.ENABLE)
    return qp_config(ev=EvConfig(profile="p"))


@pytest.mark.parametrize("packing", EvPacking)
@pytest.mark.parametrize("ipv4", [False, True])
def test_an_ecmp_value_is_the_source_port_in_every_packing(packing, ipv4):
    end = endpoint(0, 1, ipv4, ev_packing=packing)
    other = endpoint(1, 1, ipv4, ev_packing=packing)
    config = explicit(end, [0xC001, 0xC002])
    mine, theirs = end.create_qp(config), other.create_qp(qp_config())
    end.connect_qp(mine.qpn, theirs, 0)
    end.post_write(mine.qpn, 1, bytes(100), 0x10000000, 1)
    (packet,) = [parse(f, packing) for _, f in end.frames_to_send(0)]
    assert packet is not None
    assert packet.sport in (0xC001, 0xC002)


@pytest.mark.parametrize(
    ("packing", "ipv4", "bad"),
    [
        (EvPacking.LABEL20, False, 0x100000),
        (EvPacking.LABEL_HIGH, True, 0x10000),
        (EvPacking.SPORT_HIGH, True, 0x00000001),
        (EvPacking.LABEL20, True, 0x10000),
    ],
)
def test_values_that_do_not_fit_are_refused_when_the_qp_is_made(packing, ipv4, bad):
    end = endpoint(0, 1, ipv4, ev_packing=packing)
    good = 0x10000 if packing is EvPacking.SPORT_HIGH else 1
    ev = EvConfig(active=2, backup=0, values={1: [good, bad]})
    with pytest.raises(ConfigError, match=rf"EV {bad:#010x}"):
        end.create_qp(qp_config(ev=ev))
    if not ipv4:
        config = explicit(end, [good, bad], PAIR)
        with pytest.raises(ConfigError, match=rf"EV {bad:#010x}"):
            end.create_qp(config)


def test_an_ev_is_not_replaced_by_one_that_ipv4_cannot_carry():
    end = endpoint(0, 1, True)
    qpn = end.create_qp(qp_config(ev=EvConfig(active=1, backup=0, values={1: [5]}))).qpn
    with pytest.raises(Exception, match="0x00010000"):
        end.replace_ev(qpn, 5, 0x10000, 0)


def test_a_profile_is_edited_while_it_is_not_online():
    end = endpoint(0, 1)
    explicit(end, [1, 2])
    profile = end.profiles.ev["p"]
    wanted = ProfileSpec("p", ECMP16, EvMode.EXPLICIT, ev_count=2, backup=0, ev_min_active=1)
    with pytest.raises(ConfigError, match="ONLINE"):
        end.profiles.modify_ev(wanted)
    end.profiles.move_ev("p", ProfileInput.DISABLE)
    end.profiles.modify_ev(wanted)  # entries stay: nothing they depend on has changed
    assert profile.entries == {1: [1, 2]}
    longer = ProfileSpec("p", ECMP16, EvMode.EXPLICIT, ev_count=3, backup=0)
    end.profiles.modify_ev(longer)
    assert profile.entries == {1: [None, None, None]}


# --- 6: reverse EVs, ports -----------------------------------------------------------------------


@pytest.mark.parametrize("what", [EvInput.DENY, EvInput.LOSS])
def test_control_packets_leave_an_ev_that_is_denied_or_bad(what):
    hand = Hand()
    reverse = hand.parts.reverse
    for port, plane in hand.evs.planes.items():
        entry = hand.evs.by_ev[reverse.of_port(port)]
        hand.evs.feed(entry, what, hand.now)
        assert entry.state in (BAD, DENIED)
        assert hand.evs.by_ev[reverse.of_port(port)] in plane.active


def test_control_packets_leave_an_ev_that_is_replaced():
    hand = Hand()
    for port in (1, 2):
        old = hand.parts.reverse.of_port(port)
        hand.me.replace_ev(hand.qpn, old, 0x12340000 + port, hand.now)
        assert hand.parts.reverse.of_port(port) in hand.evs.by_ev


def test_a_late_sack_does_not_bring_back_a_denied_ev():
    hand = Hand()
    (packet,) = hand.write(100)
    hand.me.set_ev_denied(hand.qpn, packet.ev, True, hand.now)
    hand.sack(0, entropy=packet.ev)
    assert hand.parts.reverse.of_port(packet.src_ip[-1]) != packet.ev


@pytest.mark.parametrize("first", [0, 1])
def test_a_peer_learns_of_a_port_that_was_down_before_they_met(first):
    ends = endpoint(0), endpoint(1)
    ends[0].set_port(2, False, 0)
    infos = [end.create_qp(qp_config()) for end in ends]
    for side in (first, 1 - first):
        ends[side].connect_qp(infos[side].qpn, infos[1 - side], 0)
        for port, frame in ends[side].frames_to_send(0):
            ends[1 - side].receive(port, frame, 0)
    masked = {port: p.masked for port, p in ends[1].query_qp(infos[1].qpn).evs.planes.items()}
    assert masked == {1: False, 2: True}


# --- 6: port status -----------------------------------------------------------------------------


def test_port_status_is_told_three_times_with_new_ids():
    hand = Hand()
    hand.me.set_port(2, False, 0)
    ids = []
    while hand.now < 20_000_000:
        ids += [
            (p.psn, p.erth.port_status_mask)
            for p in hand.sent()
            if p.erth is not None and p.erth.op == 0
        ]
        hand.me.on_deadline(hand.now)
    assert len({i for i, _ in ids}) == len(ids) == 3
    assert {mask for _, mask in ids} == {1}


def test_an_old_port_status_is_not_repeated():
    """The port came back meanwhile: only the newer mask is told again."""
    hand = Hand()
    hand.me.set_port(2, False, 0)
    hand.sent()
    hand.me.set_port(2, True, hand.now)
    masks = []
    while hand.now < 20_000_000:
        masks += [p.erth.port_status_mask for p in hand.sent() if p.erth and p.erth.op == 0]
        hand.me.on_deadline(hand.now)
    assert masks == [3, 3, 3]


def test_port_status_is_told_once_when_answered():
    hand = Hand()
    hand.me.set_port(2, False, 0)
    (request,) = [p for p in hand.sent() if p.erth is not None and p.erth.op == 0]
    hand.me.receive(1, hand.back.endpoint_response(46, 5, request.psn, Eeth(0, 0)), hand.now)
    while hand.now < 20_000_000:
        assert not [p for p in hand.sent() if p.erth is not None and p.erth.op == 0]
        hand.me.on_deadline(hand.now)


# --- 6: reverse EVs -----------------------------------------------------------------------------


def inbound(hand: Hand, index: int) -> None:
    """A data packet arrives."""
    flow = hand.back
    frame = flow.data(
        Opcode.WRITE_ONLY, 4, 2, 7, hand.qpn, hand.peer_first + index & 0xFFFFFF, 0, 0, 0, index,
        7, hand.mine.va, hand.mine.rkey, 10, bytes(10),
    )  # fmt: skip
    hand.me.receive(1, frame, hand.now)


def requests(hand: Hand) -> list[Packet]:
    return [p for p in hand.sent() if p.opcode == Opcode.ENDPOINT_REQUEST]


def test_inbound_without_outbound_data_probes_an_ev_of_each_plane_every_rtt():
    hand = Hand()
    hand.cc.base_rtt_ns = 200_000
    assert requests(hand) == []
    seen: list[list[int]] = []
    for index in range(12):  # each takes 50 us
        inbound(hand, index)
        seen.append(sorted(p.src_ip[-1] for p in requests(hand)))
    assert [s for s in seen if s] == [[1, 2]] * 3
    assert [len(requests(hand)) for _ in range(8)][5:] == [0, 0, 0]  # nothing comes in any more


def test_outbound_data_needs_no_probes():
    hand = Hand()
    hand.cc.base_rtt_ns = 200_000
    found = []
    for index in range(12):
        hand.write(10)
        inbound(hand, index)
        found += requests(hand)
    assert found == []


def test_an_answer_replaces_the_reverse_ev_of_that_plane():
    hand = Hand()
    inbound(hand, 0)
    for probe in requests(hand):
        port = probe.src_ip[-1]
        other = hand.parts.reverse.of_port(3 - port)
        response = hand.back.endpoint_response(46, 5, probe.psn, Eeth(1, 0))
        hand.me.receive(1, response, hand.now)
        assert hand.parts.reverse.of_port(port) == probe.ev
        assert hand.parts.reverse.of_port(3 - port) == other


def test_with_data_both_ways_reverse_evs_are_those_of_sacked_packets():
    hand = Hand()
    for index, packet in enumerate(hand.write(10, 20)):
        hand.sack(index, entropy=packet.ev)
        assert hand.parts.reverse.of_port(packet.src_ip[-1]) == packet.ev


def test_qps_that_share_values_do_not_march_together():
    end = endpoint(0, 1)
    values = list(range(1, 33))
    orders = set()
    for _ in range(5):
        qpn = end.create_qp(qp_config(ev=EvConfig(32, 0, values={1: values}))).qpn
        evs = end.query_qp(qpn).evs
        orders.add(tuple(evs.pick(1, 0).ev for _ in values))
    assert len(orders) == 5
    assert {tuple(sorted(o)) for o in orders} == {tuple(values)}


# --- 7: classes ---------------------------------------------------------------------------------


def test_classes_of_probes_and_responses():
    """Reliability probes travel as data does, responses as control does."""
    hand = Hand()
    hand.write(10)
    dscp = hand.me.config.dscp
    probe = hand.probe()
    assert (probe.dscp, probe.ecn, probe.psn, probe.dqp) == (dscp.trimmable, 2, 0, hand.duo.qpns[1])
    request = hand.back.endpoint_request(dscp.trimmable, 2, 5, 0x1234, Erth(1, 0, 77))
    hand.me.receive(1, request, hand.now)
    (response,) = [p for p in hand.sent() if p.opcode == Opcode.ENDPOINT_RESPONSE]
    assert (response.dscp, response.ecn, response.psn, response.dqp) == (dscp.control, 0, 0x1234, 2)
    assert response.eeth.tx_timestamp == 77


def test_a_peer_without_trim_nack_gets_nothing_trimmable():
    hand = Hand(trim_nack=False)
    packets = hand.write(10, 3)
    hand.sack(-1, 0b110, entropy=packets[2].ev, ack_psn_offset=3, rcvd_bytes=2)
    hand.now = 5_000_000
    hand.me.on_deadline(hand.now)
    later = hand.sent()
    assert {p.opcode for p in later} >= {Opcode.WRITE_ONLY, Opcode.PROBE}
    data_class = [p for p in (*packets, *later) if p.opcode in (Opcode.WRITE_ONLY, Opcode.PROBE)]
    assert {p.dscp for p in data_class} == {hand.me.config.dscp.no_trim}
