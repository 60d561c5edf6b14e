"""Sentences of the reference that an answer made by hand shows best; the names quote them."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from hosts.core.cc.fixed import FixedProfile, FixedWindow
from hosts.core.config import (
    CcConfig,
    ConfigError,
    EvConfig,
    PeerInfo,
    QpConfig,
    RtoConfig,
)
from hosts.core.ev.evset import EvSet
from hosts.core.ev.format import EvFormat, EvKind
from hosts.core.ev.profile import EvMode, ProfileInput, ProfileSpec
from hosts.core.ev.state import EvInput
from hosts.core.events import Completion, EvState, LossInferred, NackReceived, Status
from hosts.wire.constants import EvPacking, NackReason, Opcode
from hosts.wire.frame import FlowTemplate, Packet, parse
from hosts.wire.headers import Aeth, Eeth, Neth
from tests.core.duo import Duo, endpoint, qp_config

GOOD, SKIP, BAD, DENIED = EvState.GOOD, EvState.SKIP, EvState.ASSUMED_BAD, EvState.DENIED


class Spy(FixedWindow):
    """Notes what it is told."""

    __slots__ = ("heard", "lost", "lowered")

    def __init__(self, figures) -> None:
        super().__init__(figures, FixedProfile(64_000))
        self.heard: list[tuple[int, int | None, bool]] = []
        self.lowered: list[int | None] = []
        self.lost: list[int] = []

    def on_sack(self, n, rtt_ns, marked, penalty, restore, now) -> None:
        self.heard.append((n, rtt_ns, marked))
        super().on_sack(n, rtt_ns, marked, penalty, restore, now)

    def on_loss(self, size, now) -> None:
        self.lost.append(size)
        super().on_loss(size, now)

    def on_nack(self, size, trimmed, rtt_ns, now) -> None:
        self.lowered.append(rtt_ns)
        super().on_nack(size, trimmed, rtt_ns, now)


class Hand:
    """One endpoint; its peer is this test."""

    def __init__(self, ports: int = 2, **qp) -> None:
        self.me, other = endpoint(0, ports), endpoint(1, ports)
        qp.setdefault("rto", RtoConfig(t=12))
        self.duo = Duo(self.me, other, qp_config(**qp))
        self.qpn = self.duo.qpns[0]
        self.now = 0
        self.parts = self.me.query_qp(self.qpn).parts
        destination = self.parts.destination
        self.cc = Spy(destination.cc.figures)
        destination.use(self.cc, CcConfig("fixed"))
        self.first = self.me.query_qp(self.qpn).first_psn
        self.back = FlowTemplate(
            bytes(6), bytes(6), other.config.ports[0].ip, self.me.config.ports[0].ip
        )

    @property
    def evs(self) -> EvSet:
        return self.me.query_qp(self.qpn).evs

    def write(self, size: int, count: int = 1) -> list[Packet]:
        for i in range(count):
            self.duo.write(bytes(size), wr_id=i)
        return self.data()

    def data(self) -> list[Packet]:
        return [p for p in self.sent() if p.opcode <= Opcode.WRITE_ONLY_IMM]

    def sent(self) -> list[Packet]:
        """What leaves within 50 us."""
        packets: list[Packet | None] = []
        for _ in range(50):
            packets += [parse(f) for _, f in self.me.frames_to_send(self.now)]
            self.now += 1000
            self.me.on_deadline(self.now)
        assert None not in packets
        return packets

    def nack(self, packet: Packet, reason: NackReason, stamp: int = 0) -> None:
        neth = Neth(reason, packet.ev, packet.psn, stamp)
        self.me.receive(1, self.back.nack(46, 5, self.qpn, neth), self.now)

    def sack(self, cack: int = -1, bits: int = 0, **fields) -> None:
        """`cack`, `bits` counted from the first PSN."""
        sack = dict.fromkeys(
            (
                *("rtx", "m", "pr", "ack_psn_offset", "entropy", "spdcid", "dpdcid", "mpr"),
                *("tx_timestamp", "ooo_count", "restore_cwnd", "rcv_cwnd_pen", "rcvd_bytes"),
            ),
            0,
        )
        sack |= {"dscp": 46, "ev": 5, "dqp": self.qpn, "cack_psn": self.first + cack & 0xFFFFFF}
        sack |= {"sack_offset": 1, "sack_bitmap": bits >> (cack + 1)} | fields
        self.me.receive(1, self.back.sack(**sack), self.now)

    def probe(self) -> Packet:
        """Makes it send a reliability probe."""
        self.parts.prober.refresh(self.now)
        return next(p for p in self.sent() if p.opcode == Opcode.PROBE)

    def answer(self, probe: Packet, m: int = 0) -> None:
        assert probe.peth is not None
        self.sack(m=m, pr=1, ack_psn_offset=probe.peth.probe_id, entropy=probe.ev)

    def nacks(self) -> list[NackReceived]:
        return [e for e in self.me.events() if isinstance(e, NackReceived)]


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


# --- 3.4: rotation -------------------------------------------------------------------------------


def small_set(count: int) -> EvSet:
    return EvSet({1: (list(range(1, count + 1)), [])}, Random(1), qpn=1, min_active=0)


def test_the_only_ev_carries_its_own_retransmission_though_it_was_skipped():
    evs = small_set(1)
    only = evs.pick(1, 0)
    evs.feed(only, EvInput.NACK_TRIMMED, 0)
    assert evs.pick_again(1, 0, only, 0) is only


def test_when_all_are_suspect_they_share_the_load():
    evs = small_set(4)
    for entry in evs.by_ev.values():
        entry.suspect = True
    assert len({evs.pick(1, 0).ev for _ in range(4)}) == 4


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


def test_port_status_is_told_once_when_answered():
    hand = Hand()
    hand.me.set_port(2, False, 0)
    (request,) = [p for p in hand.sent() if p.erth is not None and p.erth.op == 0]
    hand.me.receive(1, hand.back.endpoint_response(46, 5, request.psn, Eeth(0, 0)), hand.now)
    while hand.now < 20_000_000:
        assert not [p for p in hand.sent() if p.erth is not None and p.erth.op == 0]
        hand.me.on_deadline(hand.now)


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
    packet = next(p for p in hand.write(200, 2) if p.src_ip[-1] == 1)
    hand.nack(packet, NackReason.TRIMMED_LASTHOP)
    (again,) = hand.data()
    assert again.src_ip[-1] == 2
    assert again.ev != packet.ev


def test_a_time_out_speaks_against_its_ev_and_sends_a_probe():
    hand = Hand(1, rto=RtoConfig(t=6, linear=1, exp=4), ev=EvConfig(backup=0))
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
