"""What the parts of a QP share: who it is, how to reach the peer, where reports go."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from hosts.core.config import EndpointConfig, PeerInfo, QpConfig
from hosts.core.events import Event, Status
from hosts.core.interop import Agreement
from hosts.core.nic import Nic
from hosts.core.timers import Timer
from hosts.wire.encap import Encap, flow_template
from hosts.wire.frame import FlowTemplate

if TYPE_CHECKING:
    from random import Random


class Flows:
    """Frame templates by port, each made when its first frame is built.

    ports  where there can be one
    made   those that there are
    """

    __slots__ = ("_make", "made", "ports")

    def __init__(self, ports: frozenset[int], make: Callable[[int], FlowTemplate]) -> None:
        self.ports = ports
        self.made: dict[int, FlowTemplate] = {}
        self._make = make

    def __getitem__(self, port: int) -> FlowTemplate:
        flow = self.made.get(port)
        if flow is None:
            flow = self.made[port] = self._make(port)
        return flow

    def get(self, port: int) -> FlowTemplate | None:
        """None for a port from which the peer cannot be reached."""
        return self[port] if port in self.ports else None


def make_flows(
    config: EndpointConfig,
    peer_ips: Mapping[int, bytes],
    dport: int,
    encaps: Mapping[int, Encap],
) -> Flows:
    """Templates from our ports to a peer's. `encaps`: SRv6 by port, before what the endpoint has
    for the address."""
    local = {p.port: p for p in config.ports if p.port in peer_ips}

    def make(port: int) -> FlowTemplate:
        mine, ip = local[port], peer_ips[port]
        encap = encaps.get(port)
        if encap is None and config.encap is not None:
            encap = config.encap.get(ip)
        return flow_template(
            mine.mac,
            mine.gateway_mac,
            mine.ip,
            ip,
            dport,
            packing=config.ev_packing,
            hop_limit=config.hop_limit,
            p_key=config.interop.p_key,
            encap=encap,
        )

    return Flows(frozenset(local), make)


class Link:
    """One QP's surroundings.

    agreement  how we talk to the peer
    flows      frame templates to the peer, by our port
    timer      when to be called
    report     takes an event
    fail       (status, reason, now): the QP goes to ERROR
    """

    __slots__ = ("agreement", "config", "fail", "flows", "nic", "peer", "qp", "qpn", "report",
                 "rng", "timers")  # fmt: skip

    def __init__(
        self,
        config: EndpointConfig,
        qp: QpConfig,
        qpn: int,
        peer: PeerInfo,
        agreement: Agreement,
        flows: Flows,
        nic: Nic,
        timers: Timer,
        rng: Random,
        report: Callable[[Event], None],
        fail: Callable[[Status, str, int], None],
    ) -> None:
        self.config = config
        self.qp = qp
        self.qpn = qpn
        self.peer = peer
        self.agreement = agreement
        self.flows = flows
        self.nic = nic
        self.timers = timers
        self.rng = rng
        self.report = report
        self.fail = fail

    def timestamp(self, now: int) -> int:
        """TSETH stamp of a time."""
        return now // self.config.tick_ns & 0xFFFF
