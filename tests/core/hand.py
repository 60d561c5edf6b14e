"""One endpoint whose peer is the test, and a congestion control that notes what it hears."""

from __future__ import annotations

from hosts.core.cc.fixed import FixedProfile, FixedWindow
from hosts.core.config import CcConfig, RtoConfig
from hosts.core.ev.evset import EvSet
from hosts.core.events import NackReceived
from hosts.wire.constants import NackReason, Opcode
from hosts.wire.frame import FlowTemplate, Packet, parse
from hosts.wire.headers import Neth
from tests.core.duo import Duo, endpoint, qp_config


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
        self.peer_first = other.query_qp(self.duo.qpns[1]).first_psn
        self.mine = self.me.register_memory(1 << 12)
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
