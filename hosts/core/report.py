"""What an endpoint tells about itself when asked: EV tables and counters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hosts.core.events import EvState, QpState

if TYPE_CHECKING:
    from hosts.core.qp import Qp


@dataclass(frozen=True, slots=True)
class EvInfo:
    """One entropy value of a QP as the controller sees it."""

    ev: int
    port: int
    plane: int
    state: EvState
    role: str  # "active", "backup" or "out" (neither: ASSUMED_BAD or DENIED)
    drops: int  # losses that spoke against it


@dataclass(frozen=True, slots=True)
class QpStats:
    """Counters of a QP; bytes are payload bytes. Times in ns, windows in bytes."""

    qpn: int
    state: QpState
    sent_packets: int = 0  # data packets, retransmissions included
    sent_bytes: int = 0
    retransmitted_packets: int = 0
    lost_inferred: int = 0
    nacks_received: int = 0
    rtos: int = 0
    acked_bytes: int = 0  # posted bytes whose message completed
    delivered_packets: int = 0  # as responder: new data packets accepted
    delivered_bytes: int = 0  # as responder: unique payload bytes placed
    duplicate_packets: int = 0  # as responder
    trimmed_packets: int = 0  # as responder
    sacks_sent: int = 0
    sacks_received: int = 0
    probes_sent: int = 0
    probes_answered: int = 0
    cwnd: int = 0
    inflight: int = 0
    base_rtt_ns: int = 0
    rtt_ns: int = 0  # newest sample; 0 before the first
    rtt_mean_ns: int = 0  # smoothed
    outstanding_packets: int = 0
    qpcc: str = "IDLE"  # section 5.5
    ev_counts: dict[str, int] = field(default_factory=dict)  # by state, over all roles


@dataclass(frozen=True, slots=True)
class EndpointStats:
    """Counters of the endpoint. drops: received frames not used, by cause."""

    frames_received: int
    frames_sent: int
    bytes_sent: int
    drops: dict[str, int]  # "not_mrc", "icrc", "unknown_qp", "bad_state", "opcode", ...
    qps: dict[int, QpStats]

    def total(self, name: str) -> int:
        """Sum of one counter over all QPs."""
        return sum(getattr(q, name) for q in self.qps.values())


def ev_table(qp: Qp) -> list[EvInfo]:
    """All EVs of a QP, by plane."""
    return [
        EvInfo(e.ev, e.port, e.plane, e.state, e.role, e.drops)
        for plane in qp.evs.planes.values()
        for e in (*plane.active, *plane.backup, *plane.out)
    ]


def qp_stats(qp: Qp) -> QpStats:
    """The counters of one QP."""
    parts = qp.parts
    if parts is None:
        return QpStats(qp.qpn, qp.state, ev_counts=qp.evs.counts())
    requestor, responder, prober = parts.requestor, parts.responder, parts.prober
    cc = parts.destination.cc
    return QpStats(
        qpn=qp.qpn,
        state=qp.state,
        sent_packets=requestor.sent_packets,
        sent_bytes=requestor.sent_bytes,
        retransmitted_packets=requestor.retransmitted,
        lost_inferred=requestor.lost_inferred,
        nacks_received=requestor.nacks,
        rtos=requestor.rtos,
        acked_bytes=requestor.acked_bytes,
        delivered_packets=responder.delivered_packets,
        delivered_bytes=responder.delivered_bytes,
        duplicate_packets=responder.duplicates,
        trimmed_packets=responder.trimmed,
        sacks_sent=responder.sacks,
        sacks_received=requestor.sacks,
        probes_sent=prober.sent,
        probes_answered=prober.answered,
        cwnd=int(cc.cwnd),
        inflight=cc.inflight,
        base_rtt_ns=cc.base_rtt_ns,
        rtt_ns=cc.rtt_ns,
        rtt_mean_ns=int(cc.rtt_mean_ns),
        outstanding_packets=requestor.window.unacked(),
        qpcc=requestor.qpcc_state.name,
        ev_counts=qp.evs.counts(),
    )
