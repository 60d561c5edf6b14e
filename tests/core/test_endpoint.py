"""Two endpoints over a good fabric, and what happens when a user or a peer does wrong."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from hosts.core.config import CcConfig, ConfigError, EvConfig, PeerInfo, QpConfig, RtoConfig
from hosts.core.endpoint import Endpoint, EndpointError
from hosts.core.events import (
    Completion,
    EvProbeResult,
    EvState,
    PortStatus,
    QpState,
    QpStateChange,
    RecvCompletion,
    RtoExpired,
    Status,
)
from hosts.wire.constants import Ecn, NackReason, Opcode, Syndrome
from hosts.wire.frame import FlowTemplate, parse
from hosts.wire.headers import Erth, Neth
from tests.core.simnet import DSCP, MS, SEC, Sim, connect, set_tc

QP = QpConfig(cc=CcConfig(base_rtt_ns=10 * MS), rto=RtoConfig(t=6, linear=2, exp=2))


def pair(qp: QpConfig = QP, **sim):
    net = Sim(4, **sim)
    return net, connect(net, 0, 2, qp=qp)


def of(host, kind):
    return [e for e in host.events if isinstance(e, kind)]


def statuses(host):
    return [(e.wr_id, e.status) for e in of(host, Completion)]


def flow_packets(flow):
    """What the source put on its wires so far, parsed."""
    return [parse(f) for w in flow.sim.wires.values() for _, f in w.seen]


def sent(sim, host):
    """What a host would send now, parsed."""
    return [(port, parse(f)) for port, f in host.endpoint.frames_to_send(sim.now)]


# --- writes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 3, 4095, 4096, 4097, 100_000, 1 << 20])
def test_a_write_arrives_and_completes(length):
    sim, flow = pair()
    data = Random(1).randbytes(length)
    flow.write(7, data)
    sim.run(SEC, lambda: bool(flow.src.events and of(flow.src, Completion)))
    assert bytes(flow.region.memory[:length]) == data
    assert not any(flow.region.memory[length:])
    assert statuses(flow.src) == [(7, Status.SUCCESS)]
    assert flow.stats.retransmitted_packets == 0
    sim.run(sim.now + 100 * MS)
    assert -256 <= flow.stats.inflight <= 0
    assert flow.stats.qpcc == "IDLE"


def test_completions_come_in_posting_order_and_receives_in_sending_order():
    sim, flow = pair()
    for i in range(10):
        flow.dst.endpoint.post_recv(flow.peer_qpn, 100 + i)
    for i in range(20):
        flow.write(i, bytes(9000), i * 9000, imm=1000 + i if i % 2 else None)
    sim.run(SEC)
    assert statuses(flow.src) == [(i, Status.SUCCESS) for i in range(20)]
    received = of(flow.dst, RecvCompletion)
    assert [(e.wr_id, e.imm, e.length) for e in received] == [
        (100 + i, 1001 + 2 * i, 9000) for i in range(10)
    ]


def test_more_immediates_than_the_peer_allows_wait_their_turn():
    qp = replace(QP, write_imm_limit=2)
    sim, flow = pair(qp)
    for i in range(12):
        flow.dst.endpoint.post_recv(flow.peer_qpn, i)
    for i in range(12):
        flow.write(i, b"x", imm=i)
    sim.run(SEC)
    assert [e.imm for e in of(flow.dst, RecvCompletion)] == list(range(12))
    assert len(statuses(flow.src)) == 12


def test_both_ways_at_once():
    sim, flow = pair()
    back = flow.src.endpoint.register_memory(1 << 20)
    data, reply = Random(1).randbytes(1 << 20), Random(2).randbytes(1 << 20)
    flow.write(1, data)
    flow.dst.endpoint.post_write(flow.peer_qpn, 2, reply, back.va, back.rkey)
    sim.pump(flow.dst)
    sim.run(SEC)
    assert bytes(flow.region.memory) == data
    assert bytes(back.memory) == reply
    assert statuses(flow.src) == [(1, Status.SUCCESS)]
    assert statuses(flow.dst) == [(2, Status.SUCCESS)]


def test_many_qps_share_a_destination_and_its_line():
    sim = Sim(4)
    flows = [connect(sim, 0, 2, qp=QP) for _ in range(5)]
    data = [Random(i).randbytes(200_000) for i in range(5)]
    for i, flow in enumerate(flows):
        flow.write(i, data[i])
    done: list[int] = []
    sim.hosts[0].on_event = lambda e: done.append(e.now) if isinstance(e, Completion) else None
    sim.run(SEC)
    for i, flow in enumerate(flows):
        assert bytes(flow.region.memory[: len(data[i])]) == data[i]
    # Served round-robin, they finish together: not one fifth of the time after the other.
    assert done[-1] - done[0] < 10 * MS
    assert done[-1] < 65 * MS


def test_the_psn_wraps():
    qp = replace(QP, first_psn=0xFFFFFF - 20)
    sim, flow = pair(qp)
    data = Random(1).randbytes(1 << 20)
    flow.write(1, data)
    sim.run(SEC)
    assert bytes(flow.region.memory) == data
    assert statuses(flow.src) == [(1, Status.SUCCESS)]


def test_planes_carry_the_same_load():
    sim, flow = pair()
    flow.write(1, bytes(1 << 20))
    sim.run(SEC)
    carried = [sim.wires[f"h0>p{p}t0-0"].counts["in"] for p in (0, 1)]
    assert abs(carried[0] - carried[1]) <= 12  # a few control packets


def test_the_window_is_never_exceeded():
    qp = QpConfig(mpr=8, cc=CcConfig("fixed", 10 * MS, {"window_bytes": 1 << 30}))
    sim, flow = pair(qp)
    sim.every(cut=True)
    flow.write(1, bytes(1 << 20) * 6)
    sim.run(500 * MS)
    assert flow.stats.outstanding_packets == 8 * 128 - 1  # strict below cack + MPR (#7)


# --- what the requestor says on the wire ---------------------------------------------------------


def test_last_packet_asks_for_an_acknowledgement():
    sim, flow = pair()
    flow.src.endpoint.post_write(flow.qpn, 1, bytes(8192), flow.region.va, flow.region.rkey)
    packets = [p for _, p in sent(sim, flow.src)]
    assert [(p.opcode, p.a, p.ecn, p.dscp) for p in packets] == [
        (Opcode.WRITE_FIRST, 0, Ecn.ECT0, DSCP.trimmable),
        (Opcode.WRITE_LAST, 1, Ecn.ECT0, DSCP.trimmable),
    ]
    assert packets[1].psn == (packets[0].psn + 1) & 0xFFFFFF
    assert packets[1].va == packets[0].va + 4096


def test_without_trim_nack_at_the_peer_data_is_not_trimmable():
    sim, flow = pair(replace(QP, trim_nack=False))
    flow.src.endpoint.post_write(flow.qpn, 1, b"x", flow.region.va, flow.region.rkey)
    assert {p.dscp for _, p in sent(sim, flow.src)} == {DSCP.no_trim}


def answer(flow, kind: str, **fields) -> None:
    """A control packet of the target, made by hand, reaches the source."""
    back = FlowTemplate(bytes(6), bytes(6), flow.sim.ip(2, 0), flow.sim.ip(0, 0))
    if kind == "nack":
        frame = back.nack(46, 5, flow.qpn, Neth(**fields))
    else:
        sack = {
            "dscp": 46, "ev": 5, "dqp": flow.qpn, "rtx": 0, "m": 0, "pr": 0, "ack_psn_offset": 0,
            "entropy": 0, "spdcid": 0, "dpdcid": 0, "cack_psn": flow.mine.psn, "mpr": 0,
            "sack_offset": 1, "sack_bitmap": 0, "tx_timestamp": 0, "ooo_count": 0,
            "restore_cwnd": 0, "rcv_cwnd_pen": 0, "rcvd_bytes": 0,
        }  # fmt: skip
        sack.update(fields)
        frame = back.sack(**sack)
    flow.src.endpoint.receive(1, frame, flow.sim.now)


def test_dynamic_mpr_limits_new_psns_and_recalls_nothing():
    qp = QpConfig(
        mpr=32, dynamic_mpr=True, cc=CcConfig("fixed", 10 * MS, {"window_bytes": 1 << 30})
    )
    sim, flow = pair(qp)
    sim.every(cut=True)
    flow.write(1, bytes(1 << 20) * 8)
    sim.run(50 * MS)
    out = flow.stats.outstanding_packets
    assert 128 < out < 1024
    answer(flow, "sack", cack_psn=flow.mine.psn, mpr=1)
    sim.pump(flow.src)
    sim.run(100 * MS)
    assert flow.stats.outstanding_packets == out - 1  # the window shrank below what is out
    answer(flow, "sack", cack_psn=(flow.mine.psn + 1) & 0xFFFFFF, mpr=40)
    sim.pump(flow.src)
    sim.run(190 * MS)
    assert flow.stats.outstanding_packets > out


def test_a_window_nack_is_answered_after_a_base_rtt_and_counts_as_retry():
    sim, flow = pair()
    sim.every(cut=True)
    flow.write(1, b"x")
    ev = next(p.ev for p in flow_packets(flow) if p.opcode == Opcode.WRITE_ONLY)
    sim.run(10 * MS)
    fields = {"entropy": ev, "nack_psn": flow.mine.psn, "tx_timestamp": 0}
    answer(flow, "nack", nack_reason=NackReason.PSN_OOR_WINDOW, **fields)
    sim.pump(flow.src)
    assert flow.stats.retransmitted_packets == 0
    sim.run(21 * MS)
    assert flow.stats.retransmitted_packets == 1
    assert flow.src.endpoint._qps[flow.qpn].parts.requestor.rto.retries == 1


def test_a_trim_nack_is_answered_at_once_on_another_ev():
    sim, flow = pair()
    sim.every(cut=True)
    flow.write(1, b"x")
    first = next(p for p in flow_packets(flow) if p.opcode == Opcode.WRITE_ONLY)
    sim.run(10 * MS)
    fields = {"entropy": first.ev, "nack_psn": flow.mine.psn, "tx_timestamp": 0}
    answer(flow, "nack", nack_reason=NackReason.TRIMMED, **fields)
    (again,) = [p for _, p in sent(sim, flow.src) if p.opcode == Opcode.WRITE_ONLY]
    assert (again.rtx, again.dscp, again.psn) == (1, DSCP.trimmable_retx, flow.mine.psn)
    assert again.ev != first.ev
    table = {e.ev: e.state for e in flow.src.endpoint.ev_table(flow.qpn)}
    assert table[first.ev] is EvState.SKIP
    assert flow.src.endpoint._qps[flow.qpn].parts.requestor.rto.retries == 0


def test_unexpected_event_is_fatal():
    sim, flow = pair()
    sim.every(cut=True)
    flow.write(1, b"x")
    fields = {"entropy": 0, "nack_psn": flow.mine.psn, "tx_timestamp": 0}
    answer(flow, "nack", nack_reason=NackReason.UNEXP_EVENT, **fields)
    sim.pump(flow.src)
    assert statuses(flow.src) == [(1, Status.REMOTE_OPERATION_ERROR)]


def test_nacks_for_what_is_not_outstanding_are_ignored():
    _, flow = pair()
    fields = {"entropy": 0, "nack_psn": flow.mine.psn, "tx_timestamp": 0}
    answer(flow, "nack", nack_reason=NackReason.UNEXP_EVENT, **fields)
    assert flow.stats.state is QpState.RTS


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("va", "rkey", "length"), [(-1, 0, 10), (0, 1, 10), ((1 << 20) - 5, 0, 10), (0, 0, 2 << 20)]
)
def test_remote_access_error(va, rkey, length):
    sim, flow = pair()
    flow.src.endpoint.post_write(
        flow.qpn, 5, bytes(length), flow.region.va + va, flow.region.rkey ^ rkey
    )
    flow.src.endpoint.post_write(flow.qpn, 6, b"next", flow.region.va, flow.region.rkey)
    sim.pump(flow.src)
    sim.run(SEC)
    assert statuses(flow.src) == [(5, Status.REMOTE_ACCESS_ERROR), (6, Status.FLUSHED)]
    assert flow.stats.state is QpState.ERROR
    assert flow.peer_stats.state is QpState.ERROR
    with pytest.raises(EndpointError, match="cannot write in state ERROR"):
        flow.write(7, b"more")


def test_empty_receive_queue_is_an_error_not_a_wait():
    sim, flow = pair()
    flow.write(1, b"x", imm=3)
    sim.run(SEC)
    assert statuses(flow.src) == [(1, Status.REMOTE_INVALID_REQUEST)]
    assert flow.peer_stats.state is QpState.ERROR


def test_retries_are_exhausted_when_nothing_comes_back():
    sim, flow = pair()
    sim.every(cut=True)
    flow.write(1, b"x")
    flow.write(2, b"y")
    sim.run(10 * SEC)
    assert statuses(flow.src) == [(1, Status.RETRY_EXCEEDED), (2, Status.FLUSHED)]
    assert [e.reason for e in of(flow.src, QpStateChange)][-1] == "retry counter exceeded"
    first = [e for e in of(flow.src, RtoExpired) if e.psn == flow.mine.psn]
    base = QP.rto.base_ns(1000)
    gaps = [b.now - a.now for a, b in pairwise(first)]
    assert first[0].now == pytest.approx(base, rel=0.02)
    assert gaps == pytest.approx([base, base, 2 * base, 4 * base], rel=0.02)
    assert sim.hosts[0].endpoint.next_deadline() is None  # nothing is left to do


def test_a_lost_transport_ack_is_asked_for_again():
    sim, flow = pair()
    flow.write(1, b"x")
    sim.run(4 * MS)
    for wire in ("p0t0-1>p0t1-0", "p0t0-1>p0t1-1", "p1t0-1>p1t1-0", "p1t0-1>p1t1-1"):
        sim.wires[wire].cut = True  # nothing comes back: SACK and ACK are lost
    sim.run(30 * MS)
    sim.every(cut=False)
    sim.run(SEC)
    assert statuses(flow.src) == [(1, Status.SUCCESS)]
    assert flow.peer_stats.delivered_packets == 1
    assert flow.peer_stats.duplicate_packets >= 1


def test_only_the_transport_ack_is_lost():
    sim, flow = pair()
    wires = [w for n, w in sim.wires.items() if n.startswith(("p0t0-0>h0", "p1t0-0>h0"))]
    admit = type(wires[0]).admit

    class NoAck(type(wires[0])):  # type: ignore[misc]
        def admit(self, frame, now, rng):
            packet = parse(frame)
            if packet is not None and packet.opcode == Opcode.ACK and now < 20 * MS:
                return []
            return admit(self, frame, now, rng)

    for wire in wires:
        wire.__class__ = NoAck
    flow.write(1, b"x")
    sim.run(SEC)
    assert statuses(flow.src) == [(1, Status.SUCCESS)]
    assert flow.stats.retransmitted_packets == 1
    assert of(flow.src, RtoExpired) == []


def test_destroy_flushes():
    sim, flow = pair()
    flow.write(1, bytes(1 << 20))
    flow.src.endpoint.destroy_qp(flow.qpn, sim.now)
    assert [e.status for e in flow.src.endpoint.events() if isinstance(e, Completion)] == [
        Status.FLUSHED
    ]
    with pytest.raises(EndpointError, match="no such QP"):
        flow.src.endpoint.ev_table(flow.qpn)
    sim.run(SEC)


@pytest.mark.parametrize(
    ("verb", "message"),
    [
        (lambda e, q: e.post_write(q, 1, b"", 0, 0), "a write of 0 bytes"),
        (lambda e, q: e.post_write(q, 1, b"x", 1 << 64, 0), "out of range"),
        (lambda e, q: e.post_write(q, 1, b"x", 0, 0, imm=1 << 32), "does not fit 32 bits"),
        (lambda e, q: e.post_write(99, 1, b"x", 0, 0), "qp 99: no such QP"),
        (lambda e, q: e.connect_qp(q, PeerInfo(1, 1, {1: bytes(16)}), 0), "in state RTS"),
        (lambda e, q: e.set_port(9, True, 0), "port 9: no such port"),
        (lambda e, q: e.set_ev_denied(q, 0, True, 0), "no EV 0x00000000"),
        (lambda e, q: e.register_memory(b"constant"), "writable"),
        (lambda e, q: e.deregister_memory(4711), "no such region"),
    ],
)
def test_verbs_refuse_in_one_line(verb, message):
    _, flow = pair()
    with pytest.raises(EndpointError, match=message):
        verb(flow.src.endpoint, flow.qpn)


def test_write_before_connect_is_refused():
    endpoint = Sim(1).hosts[0].endpoint
    mine = endpoint.create_qp()
    with pytest.raises(EndpointError, match="cannot write in state INIT"):
        endpoint.post_write(mine.qpn, 1, b"x", 0, 0)


def test_unusable_settings_are_refused():
    endpoint = Sim(1).hosts[0].endpoint
    with pytest.raises(ConfigError, match="mpr 7: must be 8"):
        endpoint.create_qp(QpConfig(mpr=7))
    with pytest.raises(ConfigError, match="active 3: must divide"):
        endpoint.create_qp(QpConfig(ev=EvConfig(active=3)))
    with pytest.raises(ConfigError, match="peer psn"):
        PeerInfo(1, 1 << 24, {})


# --- frames that are not for us, or not right ----------------------------------------------------


def data_frame(flow, **change) -> bytes:
    """A good first packet of the flow, with changes."""
    template = FlowTemplate(
        bytes(6), bytes(6), change.pop("src_ip", flow.sim.ip(0, 0)), flow.sim.ip(2, 0)
    )
    fields = {
        "opcode": Opcode.WRITE_ONLY, "dscp": DSCP.trimmable, "ecn": 2, "ev": 0x10001,
        "dqp": flow.peer_qpn, "psn": flow.mine.psn, "a": 0, "rtx": 0, "rqmsn": 0, "msn": 0,
        "tx_timestamp": 5, "va": flow.region.va, "r_key": flow.region.rkey, "dmalen": 4,
        "payload": b"good",
    }  # fmt: skip
    fields.update(change)
    return template.data(**fields)


def deliver(flow, frame: bytes) -> None:
    flow.dst.endpoint.receive(1, frame, flow.sim.now)


def test_a_good_frame_is_taken():
    _, flow = pair()
    deliver(flow, data_frame(flow))
    assert bytes(flow.region.memory[:4]) == b"good"


@pytest.mark.parametrize(
    ("cause", "make"),
    [
        ("not_mrc", lambda f: b"\0" * 100),
        ("not_ours", lambda f: data_frame(f)[:38] + bytes(16) + data_frame(f)[54:]),
        ("icrc", lambda f: data_frame(f)[:-1] + bytes([data_frame(f)[-1] ^ 1])),
        ("length", lambda f: data_frame(f)[:-1]),
        ("unknown_qp", lambda f: data_frame(f, dqp=3)),
        ("source", lambda f: data_frame(f, src_ip=f.sim.ip(1, 0))),
        ("opcode", lambda f: data_frame(f, opcode=0xC0)),
    ],
)
def test_bad_frames_are_dropped_and_counted(cause, make):
    _, flow = pair()
    deliver(flow, make(flow))
    assert flow.dst.endpoint.stats().drops == {cause: 1}
    assert not any(flow.region.memory[:4])
    assert flow.dst.endpoint.frames_to_send(0) == []


@pytest.mark.parametrize("size", range(0, 106, 3))
def test_any_prefix_of_a_frame_is_survived(size):
    _, flow = pair()
    deliver(flow, data_frame(flow)[:size])
    assert sum(flow.dst.endpoint.stats().drops.values()) == 1


def reply(flow):
    """The packets the target sends within a millisecond."""
    packets = []
    for _ in range(20):
        flow.sim.now += 50_000
        packets += [p for _, p in sent(flow.sim, flow.dst)]
    return packets


def test_a_packet_beyond_the_window_is_nacked():
    _, flow = pair()
    deliver(flow, data_frame(flow, psn=(flow.mine.psn + 32 * 128) & 0xFFFFFF))
    (nack,) = reply(flow)
    assert (nack.opcode, nack.neth.nack_reason) == (Opcode.NACK, NackReason.PSN_OOR_WINDOW)


def test_the_top_of_the_window_is_accepted():
    _, flow = pair()
    deliver(flow, data_frame(flow, psn=(flow.mine.psn + 32 * 128 - 1) & 0xFFFFFF, a=1))
    (sack,) = reply(flow)
    assert (sack.opcode, sack.cc_state.ooo_count) == (Opcode.SACK, 1)


def test_an_old_duplicate_draws_sack_and_ack_and_writes_nothing():
    _, flow = pair()
    deliver(flow, data_frame(flow, a=1))
    assert {p.opcode for p in reply(flow)} == {Opcode.SACK, Opcode.ACK}
    flow.sim.now += MS
    deliver(flow, data_frame(flow, payload=b"evil", rtx=1))
    packets = reply(flow)
    assert {p.opcode for p in packets} == {Opcode.SACK, Opcode.ACK}
    assert next(p.rtx for p in packets if p.opcode == Opcode.SACK) == 1
    assert bytes(flow.region.memory[:4]) == b"good"


def test_ce_is_answered_at_once_with_skip_once():
    _, flow = pair()
    deliver(flow, set_tc(data_frame(flow), DSCP.trimmable, Ecn.CE))
    sack = next(p for p in reply(flow) if p.opcode == Opcode.SACK)
    assert (sack.seth.m, sack.seth.entropy) == (1, 0x10001)


@pytest.mark.parametrize(
    ("dscp", "reason"),
    [
        (DSCP.trimmed, NackReason.TRIMMED),
        (DSCP.trimmed_lasthop, NackReason.TRIMMED_LASTHOP),
    ],
)
def test_a_trimmed_packet_is_nacked_and_a_received_one_sacked(dscp, reason):
    _, flow = pair()
    trimmed = set_tc(data_frame(flow)[:98], dscp, 0)
    deliver(flow, trimmed)
    (nack,) = reply(flow)
    assert (nack.neth.nack_reason, nack.neth.entropy) == (reason, 0x10001)
    assert (nack.neth.nack_psn, nack.neth.tx_timestamp) == (flow.mine.psn, 5)
    deliver(flow, data_frame(flow))
    reply(flow)
    flow.sim.now += MS
    deliver(flow, trimmed)
    assert [p.opcode for p in reply(flow)] == [Opcode.SACK]


def test_too_many_immediates_in_flight_are_refused():
    _, flow = pair(replace(QP, write_imm_limit=4))
    late = data_frame(
        flow,
        opcode=Opcode.WRITE_ONLY_IMM,
        imm=1,
        psn=(flow.mine.psn + 4) & 0xFFFFFF,
        msn=4,
        rqmsn=4,
    )
    deliver(flow, late)
    nak = [p for p in reply(flow) if p.opcode == Opcode.ACK]
    assert [p.aeth.syndrome for p in nak] == [Syndrome.NAK_INVALID_REQUEST]


def test_sacks_and_acks_for_what_was_never_sent_are_ignored():
    _, flow = pair()
    back = FlowTemplate(bytes(6), bytes(6), flow.sim.ip(2, 0), flow.sim.ip(0, 0))
    flow.write(1, bytes(100))
    bogus = back.sack(46, 5, flow.qpn, 0, 0, 0, 0, 1, 0, 0, (flow.mine.psn + 500) & 0xFFFFFF,
                      0, 1, 0, 0, 0, 0, 0, 0)  # fmt: skip
    flow.src.endpoint.receive(1, bogus, flow.sim.now)
    assert flow.stats.outstanding_packets == 1
    flow.sim.run(SEC)
    assert statuses(flow.src) == [(1, Status.SUCCESS)]


# --- endpoint operations and ports ---------------------------------------------------------------


def test_ev_probe_measures_the_way():
    sim, flow = pair()
    ev = flow.src.endpoint.ev_table(flow.qpn)[0].ev
    flow.src.endpoint.probe_ev(flow.qpn, ev, sim.now)
    sim.pump(flow.src)
    sim.run(SEC)
    (result,) = of(flow.src, EvProbeResult)
    assert result.rtt_ns == pytest.approx(8 * MS, rel=0.02)
    sim.every(cut=True)
    flow.src.endpoint.probe_ev(flow.qpn, ev, sim.now, timeout_ns=20 * MS)
    sim.pump(flow.src)
    sim.run(2 * SEC)
    assert [r.rtt_ns for r in of(flow.src, EvProbeResult)] == [result.rtt_ns, None]


def test_an_unknown_prober_is_answered():
    sim, flow = pair()
    stranger = FlowTemplate(bytes(6), bytes(6), sim.ip(3, 0), sim.ip(2, 0))
    deliver(flow, stranger.endpoint_request(46, 0, 77, 4711, Erth(1, 0, 9)))
    (response,) = reply(flow)
    assert (response.opcode, response.psn, response.eeth.tx_timestamp) == (
        Opcode.ENDPOINT_RESPONSE, 4711, 9,
    )  # fmt: skip
    assert response.dst_ip == sim.ip(3, 0)


def test_local_port_down_moves_everything_to_the_other_and_tells_the_peer():
    sim, flow = pair()
    data = Random(3).randbytes(1 << 20)
    flow.write(1, data)
    sim.run(10 * MS)
    flow.src.endpoint.set_port(1, False, sim.now)
    sim.pump(flow.src)
    for plane in (0,):
        sim.wires[f"h0>p{plane}t0-0"].cut = True
        sim.wires[f"p{plane}t0-0>h0"].cut = True
    sim.run(2 * SEC)
    assert bytes(flow.region.memory) == data
    assert statuses(flow.src) == [(1, Status.SUCCESS)]
    told = [e for e in of(flow.dst, PortStatus) if e.qpn]
    assert told[-1].peer_mask == 0b10
    before = sim.wires["h0>p0t0-0"].counts["in"], sim.wires["h2>p0t0-1"].counts["in"]
    flow.write(2, data)
    sim.run(4 * SEC)
    after = sim.wires["h0>p0t0-0"].counts["in"], sim.wires["h2>p0t0-1"].counts["in"]
    assert before == after  # neither end uses the masked plane
    flow.src.endpoint.set_port(1, True, sim.now)
    sim.every(cut=False)
    sim.pump(flow.src)
    sim.run(4 * SEC + 100 * MS)
    flow.write(3, data)
    sim.run(6 * SEC)
    assert sim.wires["h0>p0t0-0"].counts["in"] > before[0] + 100


def test_denied_evs_carry_nothing():
    sim, flow = pair()
    endpoint = flow.src.endpoint
    victims = [e.ev for e in endpoint.ev_table(flow.qpn) if e.role == "active"][:100]
    for ev in victims:
        endpoint.set_ev_denied(flow.qpn, ev, True, sim.now)
    flow.write(1, bytes(1 << 20))
    used = set()
    enter = sim._enter

    def watch(host, port, frame):
        packet = parse(frame)
        if packet is not None and packet.dscp == DSCP.trimmable and len(frame) > 200:
            used.add(packet.ev)
        enter(host, port, frame)

    sim._enter = watch  # type: ignore[method-assign]
    sim.run(SEC)
    assert statuses(flow.src) == [(1, Status.SUCCESS)]
    assert not used & set(victims)
    table = {e.ev: e.state for e in endpoint.ev_table(flow.qpn)}
    assert {table[ev] for ev in victims} == {EvState.DENIED}


def test_endpoint_is_deterministic():
    def run() -> list[str]:
        sim, flow = pair(seed=5)
        sim.every(loss=0.01)
        flow.write(1, bytes(300_000))
        sim.run(2 * SEC)
        return [repr(e) for e in flow.src.events + flow.dst.events]

    assert run() == run()


def test_no_frame_leaves_before_the_port_is_free():
    _, flow = pair()
    assert isinstance(flow.src.endpoint, Endpoint)
    flow.src.endpoint.post_write(flow.qpn, 1, bytes(1 << 20), flow.region.va, flow.region.rkey)
    assert len(flow.src.endpoint.frames_to_send(0)) == 2
    due = flow.src.endpoint.next_deadline()
    assert due == 4198 * 8 * 10
    assert flow.src.endpoint.frames_to_send(due - 1) == []
    assert len(flow.src.endpoint.frames_to_send(due)) == 2
