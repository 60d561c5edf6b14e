"""What the reference says of sending and loss (2.4, 4, 5), shown by answers made by hand."""

from __future__ import annotations

import pytest

from hosts.core.config import ConfigError, EvConfig, PeerInfo, RtoConfig
from hosts.core.ev.state import EvInput
from hosts.core.events import Completion, EvState, LossInferred, RecvCompletion, Status
from hosts.wire.constants import NackReason, Opcode
from hosts.wire.decode import decode
from hosts.wire.encode import encode
from hosts.wire.frame import FlowTemplate, parse
from hosts.wire.headers import Aeth, Eeth
from tests.core.duo import endpoint, qp_config
from tests.core.hand import Hand

GOOD, SKIP, BAD, DENIED = EvState.GOOD, EvState.SKIP, EvState.ASSUMED_BAD, EvState.DENIED


# --- 2.4, 4.6: NACKs -----------------------------------------------------------------------------


def test_a_nack_counts_though_its_ev_was_replaced_meanwhile():
    hand = Hand()
    (packet,) = hand.write(100)
    hand.me.replace_ev(hand.qpn, packet.ev, 0x12345678, hand.now)
    hand.nack(packet, NackReason.TRIMMED)
    (again,) = hand.data()
    assert (again.psn, again.rtx) == (packet.psn, 1)
    assert again.ev != packet.ev


def test_a_round_trip_is_measured_only_on_a_packet_sent_once():
    """One EV: the NACK cannot say of which copy it is."""
    hand = Hand(1, ev=EvConfig(active=1, backup=0, min_active=1))
    (packet,) = hand.write(100)
    hand.nack(packet, NackReason.TRIMMED)
    (again,) = hand.data()
    assert again.ev == packet.ev
    hand.nack(again, NackReason.TRIMMED)
    assert hand.cc.lowered[0] is not None
    assert hand.cc.lowered[1] is None


@pytest.mark.parametrize("reason", [NackReason.TRIMMED, NackReason.UNEXP_EVENT])
def test_nacks_for_what_was_acknowledged_are_ignored(reason):
    hand = Hand()
    packets = hand.write(100, 3)
    hand.sack(-1, 0b110, entropy=packets[2].ev, ack_psn_offset=3)
    hand.nack(packets[1], reason)
    assert hand.nacks() == []
    assert hand.evs.by_ev[packets[1].ev].state is GOOD
    assert hand.me.query_qp(hand.qpn).state.name == "RTS"


@pytest.mark.parametrize(
    ("reason", "state", "at_once", "retries"),
    [
        (NackReason.TRIMMED, SKIP, True, 0),
        (NackReason.TRIMMED_LASTHOP, GOOD, True, 0),
        (NackReason.NO_BITMAP, GOOD, False, 1),
        (NackReason.NO_PKT_BUFFER, GOOD, False, 1),
        (NackReason.NO_RESOURCE, GOOD, False, 1),
        (NackReason.PSN_OOR_WINDOW, GOOD, False, 1),
    ],
)
def test_table_of_nack_reasons(reason, state, at_once, retries):
    """Effect on the EV, when the packet goes again, and whether that is a retry."""
    hand = Hand()
    (packet,) = hand.write(100)
    hand.cc.base_rtt_ns = 200_000
    hand.nack(packet, reason)
    assert hand.evs.by_ev[packet.ev].state is state
    again = hand.data()
    assert bool(again) is at_once
    hand.now += 250_000
    hand.me.on_deadline(hand.now)
    again += hand.data()
    assert [(p.psn, p.rtx) for p in again] == [(packet.psn, 1)]
    assert hand.parts.requestor.rto.retries == retries


# --- 4.1: attributes -----------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [{"t": 25}, {"t": -1}, {"linear": 8}, {"exp": 26}, {"exp": -1}])
def test_timer_settings_have_the_references_limits(bad):
    with pytest.raises(ConfigError, match=f"rto.{next(iter(bad))}"):
        RtoConfig(**bad)


def test_a_peer_that_allows_no_immediates_is_refused():
    with pytest.raises(ConfigError, match="write_imm_limit"):
        PeerInfo(17, 0, {}, write_imm_limit=0)


def test_ev_probes_that_bring_an_ev_back_must_be_consecutive():
    hand = Hand()
    entry = hand.evs.planes[1].active[0]
    hand.evs.feed(entry, EvInput.LOSS, 0)
    for answered in (True, True, False, True, True):
        hand.parts.prober.on_ev_probe(entry, answered, 0)
    assert entry.state is BAD
    hand.parts.prober.on_ev_probe(entry, True, 0)
    assert entry.state is GOOD


# --- 4.2, 4.4: windows --------------------------------------------------------------------------


def test_dynamic_mpr_follows_the_newest_sack_up_to_what_was_exchanged():
    hand = Hand(mpr=16, dynamic_mpr=True)
    requestor = hand.parts.requestor
    hand.write(100, 4)
    hand.sack(0, mpr=9, rcvd_bytes=2)
    assert requestor.mpr == 9 * 128
    hand.sack(0, mpr=12, rcvd_bytes=1)  # older: reordered
    assert requestor.mpr == 9 * 128
    hand.sack(1, mpr=0, rcvd_bytes=3)  # unused
    assert requestor.mpr == 9 * 128
    hand.sack(2, mpr=255, rcvd_bytes=4)
    assert requestor.mpr == 16 * 128


def test_a_static_window_ignores_what_sacks_say():
    hand = Hand(mpr=16)
    hand.write(100)
    hand.sack(0, mpr=9)
    assert hand.parts.requestor.mpr == 16 * 128


def test_write_imms_in_flight_are_as_many_as_the_peer_allows():
    hand = Hand(write_imm_limit=3)
    for i in range(5):
        hand.duo.write(bytes(10), imm=i, wr_id=i)
    packets = hand.data()
    assert [(p.rqmsn, p.imm, p.a) for p in packets] == [(0, 0, 0), (1, 1, 0), (2, 2, 1)]
    assert not hand.parts.requestor.has_work()
    hand.sack(2)  # SACKed is not completed
    assert hand.data() == []
    ack = hand.back.ack(46, 5, hand.qpn, hand.first + 1 & 0xFFFFFF, Aeth(0x1F, 2))
    hand.me.receive(1, ack, hand.now)
    assert [p.rqmsn for p in hand.data()] == [3, 4]


def test_an_old_duplicate_draws_sack_and_ack_though_no_message_is_complete():
    hand = Hand()
    flow = FlowTemplate(
        bytes(6), bytes(6), hand.duo.ends[0].config.ports[0].ip, hand.duo.ends[1].config.ports[0].ip
    )
    target, region = hand.duo.ends[1], hand.duo.region
    frame = flow.data(
        Opcode.WRITE_FIRST, 4, 2, 0x10001, hand.duo.qpns[1], hand.first, 0, 0, 0, 0, 7, region.va,
        region.rkey, 1000, bytes(256),
    )  # fmt: skip
    target.receive(1, frame, 0)
    assert target.frames_to_send(0) == []
    target.receive(1, frame, 0)
    replies = [parse(f) for at in (0, 100_000) for _, f in target.frames_to_send(at)]
    found = {p.opcode: p for p in replies if p is not None}
    assert set(found) == {Opcode.SACK, Opcode.ACK}
    ack = found[Opcode.ACK]
    assert (ack.psn, ack.aeth) == (hand.first - 1 & 0xFFFFFF, Aeth(0x1F, 0))


def test_a_missing_ack_is_asked_for_with_the_last_packet_once_more():
    """After one RTO, a=1 and rtx=1; each time a retry, and the last retry is the end."""
    hand = Hand(rto=RtoConfig(t=6, linear=1, exp=1))
    packets = hand.write(100, 2)
    hand.sack(1)
    assert hand.data() == []
    for _ in range(2):
        hand.now += 140_000
        hand.me.on_deadline(hand.now)
        (again,) = hand.data()
        assert (again.psn, again.a, again.rtx) == (packets[1].psn, 1, 1)
        assert again.dscp == hand.me.config.dscp.trimmable_retx
        assert again.ev != packets[1].ev
    hand.now += 1_000_000
    hand.me.on_deadline(hand.now)
    done = [e for e in hand.me.events() if isinstance(e, Completion)]
    assert [e.status for e in done] == [Status.RETRY_EXCEEDED, Status.FLUSHED]


# --- 4.6: losses --------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["same_ev", "guard"])
def test_an_inferred_loss(rule):
    """EV to ASSUMED_BAD, the congestion control told, the oldest again before anything new: rtx=1,
    another EV, a new time stamp, the class of retransmissions."""
    count = 4 if rule == "same_ev" else 8
    evs = 2 if rule == "same_ev" else 8
    hand = Hand(1, ev=EvConfig(active=evs, backup=0, min_active=0))
    hand.cc.base_rtt_ns = 1000
    packets = hand.write(200, count)
    lost = packets[0]
    assert (packets[2].ev == lost.ev) is (rule == "same_ev")
    hand.now += 1_000_000
    hand.write(200)  # still waiting, or sent: newer in any case
    highest = 2 if rule == "same_ev" else 7
    hand.sack(-1, (1 << highest + 1) - 2, entropy=packets[highest].ev, ack_psn_offset=highest + 1,
              rcvd_bytes=4)  # fmt: skip
    inferred = [e for e in hand.me.events() if isinstance(e, LossInferred)]
    assert [(e.psn, e.ev) for e in inferred] == [(lost.psn, lost.ev)]
    assert inferred[0].rule == rule or rule == "guard"
    assert hand.evs.by_ev[lost.ev].state is BAD
    assert hand.cc.lost == [lost.nominal_size]
    hand.duo.write(bytes(200), wr_id=99)
    again, *new = hand.data()
    assert (again.psn, again.rtx, again.dscp) == (lost.psn, 1, hand.me.config.dscp.trimmable_retx)
    assert again.ev != lost.ev
    assert again.tx_timestamp != lost.tx_timestamp
    assert [p.rtx for p in new] == [0]


def test_a_hole_is_retransmitted_fast_only_once():
    hand = Hand(1, ev=EvConfig(active=2, backup=0, min_active=0))
    packets = hand.write(200, 8)
    hand.sack(-1, 0b100, entropy=packets[2].ev, ack_psn_offset=3, rcvd_bytes=1)
    assert [p.psn for p in hand.data()] == [packets[0].psn]
    hand.now += 1_000_000
    hand.sack(-1, 0b11111110, entropy=packets[7].ev, ack_psn_offset=8, rcvd_bytes=7)
    assert hand.data() == []


def test_a_retransmission_takes_another_plane_before_its_old_ev():
    hand = Hand(2, ev=EvConfig(active=2, backup=0, min_active=0))
    hand.parts.destination.seeded = True  # nothing else to send: port 1 is asked first
    packet = next(p for p in hand.write(200, 2) if p.src_ip[-1] == 1)
    hand.nack(packet, NackReason.TRIMMED_LASTHOP)
    (again,) = hand.data()
    assert again.src_ip[-1] == 2
    assert again.ev != packet.ev


def test_a_time_out_speaks_against_its_ev_and_sends_a_probe():
    hand = Hand(1, rto=RtoConfig(t=6, linear=1, exp=4), ev=EvConfig(backup=0))
    hand.cc.base_rtt_ns = 1_000_000  # no probe for want of news
    (packet,) = hand.write(200)
    hand.now = 70_000
    hand.me.on_deadline(hand.now)
    packets = hand.sent()
    assert hand.evs.by_ev[packet.ev].state is BAD
    assert hand.cc.lost == [packet.nominal_size]
    assert [(p.psn, p.rtx) for p in packets if p.opcode == Opcode.WRITE_ONLY] == [(packet.psn, 1)]
    assert any(p.opcode == Opcode.PROBE for p in packets)
    hand.me.set_port(packet.src_ip[-1], False, hand.now)  # from now on that explains its losses
    again = next(p for p in packets if p.rtx)
    entry = hand.evs.by_ev[again.ev]
    hand.now += 70_000
    hand.me.on_deadline(hand.now)
    assert len(hand.cc.lost) == 2
    assert entry.state is GOOD


def test_the_retry_counter_starts_anew_when_cack_advances():
    hand = Hand(rto=RtoConfig(t=6, linear=1, exp=4))
    hand.write(200, 3)
    hand.now = 70_000
    hand.me.on_deadline(hand.now)
    hand.sent()
    assert hand.parts.requestor.rto.retries == 1
    hand.sack(-1, 0b110)
    assert hand.parts.requestor.rto.retries == 1
    hand.sack(0)
    assert hand.parts.requestor.rto.retries == 0


def test_a_trimmed_packet_that_arrived_before_draws_a_sack():
    """4.8, with the trimmed copy's EV and without a bit of its payload."""
    hand = Hand()
    mine, target = hand.duo.ends
    region = hand.duo.region
    flow = FlowTemplate(bytes(6), bytes(6), mine.config.ports[0].ip, target.config.ports[0].ip)

    def packet(dscp: int, ev: int) -> bytes:
        return flow.data(
            Opcode.WRITE_ONLY, dscp, 2, ev, hand.duo.qpns[1], hand.first, 0, 0, 0, 0, 9, region.va,
            region.rkey, 256, bytes(256),
        )  # fmt: skip

    target.receive(1, packet(4, 1), 0)
    before = target.stats().qps[hand.duo.qpns[1]].delivered_bytes
    target.receive(1, packet(12, 2)[:120], 0)
    replies = [parse(f) for at in (0, 50_000, 100_000) for _, f in target.frames_to_send(at)]
    sacks = [p for p in replies if p is not None and p.seth is not None]
    assert [(p.seth.entropy, p.cc_state.tx_timestamp) for p in sacks] == [(2, 9)]
    assert target.stats().qps[hand.duo.qpns[1]].delivered_bytes == before


# --- 5.1: round trips ---------------------------------------------------------------------------


def stamped(hand: Hand, stamp: int) -> int:
    """The round trip that a reflected stamp tells."""
    return (hand.now // 128 - stamp & 0xFFFF) * 128


def test_rtt_of_a_packet_sent_once_or_of_a_retransmission_is_exact():
    hand = Hand(1, ev=EvConfig(active=1, backup=0, min_active=1))
    (first,) = hand.write(200)
    sent_at = hand.parts.requestor.window.sent_at
    i = hand.first & hand.parts.requestor.window.mask
    hand.nack(first, NackReason.TRIMMED)
    (again,) = hand.data()
    hand.now += 777
    fields = {"entropy": first.ev, "ack_psn_offset": 1}
    hand.sack(-1, tx_timestamp=first.tx_timestamp, **fields)  # of the first copy: by its stamp
    assert hand.cc.heard[-1][1] == stamped(hand, first.tx_timestamp)
    hand.sack(-1, rtx=1, tx_timestamp=again.tx_timestamp, **fields)
    assert hand.cc.heard[-1][1] == hand.now - sent_at[i]


def test_rtt_with_service_time_comes_from_the_stamp():
    """The peer added what it kept the packet for; our own table would count that too."""
    hand = Hand(svc_time=True)
    (packet,) = hand.write(200)
    stamp = packet.tx_timestamp + 20
    hand.sack(0, entropy=packet.ev, tx_timestamp=stamp)
    assert hand.cc.heard[-1][1] == stamped(hand, stamp)


def test_rtt_survives_the_wrap_of_the_stamp():
    hand = Hand(svc_time=True)
    hand.now = (1 << 16) * 128 * 3 - 1000
    (packet,) = hand.write(200)
    hand.now += 1_000_000
    hand.sack(0, entropy=packet.ev, tx_timestamp=packet.tx_timestamp)
    assert hand.cc.heard[-1][1] == stamped(hand, packet.tx_timestamp)
    assert 1_000_000 <= hand.cc.rtt_ns < 1_100_000


def test_received_bytes_count_once_and_wrap():
    hand = Hand()
    hand.write(200, 4)
    for rcvd, n in ((5, 1280), (5, 0), (3, 0), (9, 1024)):
        hand.sack(-1, rcvd_bytes=rcvd)
        assert hand.cc.heard[-1][0] == n
    hand.parts.requestor.rcvd = 0xFFFFFE
    hand.sack(-1, rcvd_bytes=1)
    assert hand.cc.heard[-1][0] == 3 * 256


# --- 5.3: sending -------------------------------------------------------------------------------


@pytest.mark.parametrize(("more", "count"), [(0, 60), (-1, 59), (300, 60)])
def test_a_packet_leaves_while_inflight_and_an_mtu_fit_cwnd(more, count):
    """And the one after which no other fits asks for an acknowledgement."""
    hand = Hand()
    hand.cc.cwnd = 60 * hand.cc.mtu + more
    packets = hand.write(256 * 100)
    packets += [p for p in hand.sent() if p.opcode <= Opcode.WRITE_ONLY_IMM]
    assert len(packets) == count
    assert hand.cc.inflight == count * hand.cc.mtu
    assert [p.a for p in packets] == [0] * (count - 1) + [1]


def test_below_the_sack_threshold_every_packet_asks():
    hand = Hand()
    hand.cc.cwnd = 16 * 1024 - 1
    assert {p.a for p in hand.write(256 * 10)} == {1}
    hand.sack(9, rcvd_bytes=(10 * hand.cc.mtu + 255) // 256)
    hand.cc.cwnd = 16 * 1024
    assert [p.a for p in hand.write(256 * 10)] == [0] * 9 + [1]


def test_the_first_answer_of_a_new_destination_is_followed_by_one_control_class_probe():
    hand = Hand()
    hand.write(200, 3)
    for cack in range(3):
        hand.sack(cack)
        probes = [p for p in hand.sent() if p.opcode == Opcode.ENDPOINT_REQUEST]
        assert len(probes) == (cack == 0)
        for probe in probes:
            assert (probe.erth.op, probe.dscp) == (1, hand.me.config.dscp.control)
            hand.now += 500
            sent_ago = hand.now
            hand.me.receive(1, hand.back.endpoint_response(46, 5, probe.psn, Eeth(1, 0)), hand.now)
            assert hand.cc.base_rtt_ns < sent_ago


def test_ready_qps_are_served_in_turns():
    """5.5: three QPs to one destination, each with much to send."""
    ends = endpoint(0, 1), endpoint(1, 1)
    qpns = []
    for _ in range(3):
        mine, theirs = ends[0].create_qp(qp_config()), ends[1].create_qp(qp_config())
        ends[0].connect_qp(mine.qpn, theirs, 0)
        qpns.append(theirs.qpn)
        ends[0].post_write(mine.qpn, 1, bytes(256 * 9), 0x10000000, 1)
    order = []
    for now in range(0, 100_000, 1000):
        order += [parse(f) for _, f in ends[0].frames_to_send(now)]
    data = [p.dqp for p in order if p is not None and p.opcode <= Opcode.WRITE_ONLY_IMM]
    assert data == qpns * 9


# --- 4.9: errors --------------------------------------------------------------------------------


def at_target(hand: Hand, **changes: int) -> bytes:
    """A good first packet to the target, with fields of BTH changed, iCRC right."""
    mine, target = (end.config.ports[0].ip for end in hand.duo.ends)
    region = hand.duo.region
    frame = FlowTemplate(bytes(6), bytes(6), mine, target).data(
        Opcode.WRITE_ONLY, 4, 2, 0x10001, hand.duo.qpns[1], hand.first, 0, 0, 0, 0, 7, region.va,
        region.rkey, 4, b"good",
    )  # fmt: skip
    packet = decode(frame)
    packet["bth"] |= changes
    del packet["icrc"]
    return encode(packet)


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"tver": 1}, "tver"),
        ({"p_key": 0x7FFF}, "p_key"),
        ({"opcode": 0xC0}, "opcode"),
        ({"opcode": 0xDF}, "opcode"),
        ({"dqp": 0}, "unknown_qp"),
        ({"dqp": 1}, "unknown_qp"),
        ({"dqp": 2}, "endpoint_op"),
        ({}, None),
        ({"m": 1, "se": 1, "var_res": 255, "r": 1, "inv_res": 15}, None),  # not looked at
    ],
)
def test_silent_drops(changes, cause):
    hand = Hand()
    target = hand.duo.ends[1]
    target.receive(1, at_target(hand, **changes), 0)
    assert target.stats().drops == ({} if cause is None else {cause: 1})
    assert bytes(hand.duo.region.memory[:4]) == (b"good" if cause is None else bytes(4))
    if cause is not None:
        assert target.frames_to_send(0) == []


def test_in_error_arrivals_are_dropped_and_work_is_flushed():
    hand = Hand()
    target, qpn = hand.duo.ends[1], hand.duo.qpns[1]
    target.post_recv(qpn, 5)
    target.fail_qp(qpn, 0)
    target.receive(1, at_target(hand), 0)
    assert target.stats().drops == {"bad_state": 1}
    assert target.frames_to_send(0) == []
    flushed = [e for e in target.events() if isinstance(e, RecvCompletion)]
    assert [(e.wr_id, e.status) for e in flushed] == [(5, Status.FLUSHED)]


@pytest.mark.parametrize(
    ("syndrome", "status"),
    [
        (0x61, Status.REMOTE_INVALID_REQUEST),
        (0x62, Status.REMOTE_ACCESS_ERROR),
        (0x63, Status.REMOTE_OPERATION_ERROR),
    ],
)
def test_a_nak_completes_the_first_with_its_cause_and_flushes_the_rest(syndrome, status):
    hand = Hand()
    hand.write(200, 3)
    ack = hand.back.ack(46, 5, hand.qpn, hand.first & 0xFFFFFF, Aeth(syndrome, 1))
    hand.me.receive(1, ack, hand.now)
    done = [(e.wr_id, e.status) for e in hand.me.events() if isinstance(e, Completion)]
    assert done == [(0, Status.SUCCESS), (1, status), (2, Status.FLUSHED)]
    assert hand.data() == []


def test_the_unused_syndrome_is_ignored():
    hand = Hand()
    hand.write(200)
    hand.me.receive(1, hand.back.ack(46, 5, hand.qpn, hand.first, Aeth(0x60, 0)), hand.now)
    assert hand.me.query_qp(hand.qpn).state.name == "RTS"


@pytest.mark.parametrize(
    ("at", "key", "length"),
    [(-1, 0, 4), ((1 << 16) - 3, 0, 4), (0, 1, 4), (0, 0, (1 << 16) + 1)],
)
def test_what_memory_does_not_allow_is_a_remote_access_error(at, key, length):
    """Below, past the end, another key, a message longer than the region."""
    hand = Hand()
    mine, target = (end.config.ports[0].ip for end in hand.duo.ends)
    region = hand.duo.region
    opcode = Opcode.WRITE_ONLY if length == 4 else Opcode.WRITE_FIRST
    payload = b"evil" if length == 4 else bytes(256)
    frame = FlowTemplate(bytes(6), bytes(6), mine, target).data(
        opcode, 4, 2, 1, hand.duo.qpns[1], hand.first, 1, 0, 0, 0, 7, region.va + at,
        region.rkey + key, length, payload,
    )  # fmt: skip
    end = hand.duo.ends[1]
    end.receive(1, frame, 0)
    replies = [parse(f) for now in (0, 50_000, 100_000) for _, f in end.frames_to_send(now)]
    found = [p for p in replies if p is not None]
    assert {p.opcode for p in found} == {Opcode.SACK, Opcode.ACK}  # received, and refused
    assert [p.aeth.syndrome for p in found if p.aeth is not None] == [0x62]
    assert not any(region.memory)
    assert end.query_qp(hand.duo.qpns[1]).state.name == "ERROR"
