"""The `sample` event: how the endpoint, its QPs and this process are doing, every 50 ms.

Counts are totals since the start; `late_ns` is the maximum since the last sample.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hosts.agent.driver import Driver
    from hosts.core.endpoint import QpStats


def sample(agent: Driver) -> dict[str, Any]:
    """One sample. cwnd and inflight are sums, rtt_ns the mean over QPs that have one."""
    stats = agent.endpoint.stats()
    qps = list(stats.qps.values())
    rtts = [qp.rtt_ns for qp in qps if qp.rtt_ns]
    states: dict[str, int] = {}
    for qp in qps:
        for state, count in qp.ev_counts.items():
            states[state] = states.get(state, 0) + count
    return {
        "type": "sample",
        "delivered_bytes": sum(qp.delivered_bytes for qp in qps),
        "acked_bytes": sum(qp.acked_bytes for qp in qps),
        "sent": sum(qp.sent_packets for qp in qps),
        "retransmitted": sum(qp.retransmitted_packets for qp in qps),
        "duplicates": sum(qp.duplicate_packets for qp in qps),
        "trimmed": sum(qp.trimmed_packets for qp in qps),
        "lost": sum(qp.lost_inferred for qp in qps),
        "cwnd": sum(qp.cwnd for qp in qps),
        "inflight": sum(qp.inflight for qp in qps),
        "rtt_ns": sum(rtts) // len(rtts) if rtts else 0,
        "ev_counts": states,
        "qps": {str(qp.qpn): _qp(qp) for qp in qps} if len(qps) > 1 else {},
        "tx": {str(port): nic.tx_packets for port, nic in agent.nics.items()},
        "rx": {str(port): nic.rx_packets for port, nic in agent.nics.items()},
        "sock_drops": sum(nic.sock_drops for nic in agent.nics.values()),
        "drops": dict(stats.drops),
        "late_ns": agent.lateness.take_recent_max(),
        "cpu_ns": agent.cpu_ns(),
    }


def _qp(qp: QpStats) -> dict[str, Any]:
    return {
        "state": qp.state.name,
        "delivered_bytes": qp.delivered_bytes,
        "sent": qp.sent_packets,
        "retransmitted": qp.retransmitted_packets,
        "cwnd": qp.cwnd,
        "inflight": qp.inflight,
        "rtt_ns": qp.rtt_ns,
    }
