"""Endpoint operations of an endpoint (section 6): EV probes and port status, both directions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from hosts.core import constants as c
from hosts.core.config import EndpointConfig
from hosts.core.endpoint_ops import Answer, EndpointOps
from hosts.core.nic import Nic
from hosts.core.reverse_ev import Probe
from hosts.core.timers import Timers
from hosts.wire.constants import Ecn, EndpointOp, Opcode
from hosts.wire.frame import FlowTemplate
from hosts.wire.headers import Eeth, Erth

if TYPE_CHECKING:
    from random import Random

    from hosts.core.link import Link
    from hosts.core.probes import Prober
    from hosts.core.qp import Qp
    from hosts.wire.parse import Packet

STRANGERS_MAX = 256
"""Frame templates kept for those who probe us without having a QP here."""
ALL_PORTS = 0xFFFFFFFF

PeerMask = Callable[["Qp", int, int], None]


class Control:
    """Sends and answers D8/D9. Peers are known by their addresses."""

    __slots__ = ("_config", "_masks", "_nic", "_on_mask", "_ports", "_qps", "_strangers", "ops")

    def __init__(
        self,
        config: EndpointConfig,
        nic: Nic,
        qps: Mapping[int, Qp],
        rng: Random,
        on_mask: PeerMask,
        timers: Timers,
    ) -> None:
        self._config = config
        self._nic = nic
        self._qps = qps
        self._on_mask = on_mask
        self._ports = {p.port: p for p in config.ports}
        self._masks: dict[frozenset[bytes], int] = {}
        self._strangers: dict[tuple[int, bytes], FlowTemplate] = {}
        self.ops = EndpointOps(rng.getrandbits(16), timers)

    # --- requests ------------------------------------------------------------------------------

    def probe(
        self, link: Link, port: int, ev: int, answer: Answer, now: int, timeout_ns: int
    ) -> None:
        """An EV probe on one EV, in the control class."""
        request = self.ops.open(answer, now, timeout_ns)
        erth = Erth(EndpointOp.EV_PROBE, 0, link.timestamp(now))
        self._request(link, port, ev, request, erth)

    def prober(self, link: Link, prober: Prober) -> Probe:
        """What a reverse EV set uses to test an EV."""

        def probe(port: int, ev: int, success: Callable[[], None], now: int) -> None:
            def answer(rtt_ns: int | None, _: int) -> None:
                if rtt_ns is not None:
                    success()

            self.probe(link, port, ev, answer, now, prober.timeout_ns)

        return probe

    def tell_peers(self, now: int) -> None:
        """Our ports changed: one status update to every peer (once per set of addresses)."""
        told: set[frozenset[bytes]] = set()
        for qp in self._qps.values():
            if qp.parts is not None and qp.parts.peer_ips not in told:
                told.add(qp.parts.peer_ips)
                self._tell(qp, c.PORT_STATUS_TRIES, now)

    def local_mask(self) -> int:
        """Bit k-1: port k is up (#28)."""
        return sum(1 << (port - 1) for port, tx in self._nic.ports.items() if tx.up)

    def _tell(self, qp: Qp, tries: int, now: int) -> None:
        parts = qp.parts
        if parts is None or tries <= 0:
            return
        mask = self.local_mask()

        def answer(rtt_ns: int | None, at: int) -> None:
            if rtt_ns is None and mask == self.local_mask():
                self._tell(qp, tries - 1, at)

        port, ev = parts.reverse.next()
        request = self.ops.open(answer, now, parts.prober.timeout_ns)
        erth = Erth(EndpointOp.PORT_STATUS_UPDATE, mask, parts.link.timestamp(now))
        self._request(parts.link, port, ev, request, erth)

    def _request(self, link: Link, port: int, ev: int, request: int, erth: Erth) -> None:
        flow = link.flows.get(port)
        if flow is not None:
            frame = flow.endpoint_request(self._config.dscp.control, Ecn.NOT_ECT, ev, request, erth)
            self._nic.control(port, frame)

    # --- what arrives --------------------------------------------------------------------------

    def receive(self, port: int, packet: Packet, now: int) -> bool:
        """A request or a response; False when it is neither or nobody waits for it."""
        if packet.opcode == Opcode.ENDPOINT_RESPONSE:
            return self.ops.on_response(packet.psn & 0xFFFF, now)
        erth = packet.erth
        if packet.opcode != Opcode.ENDPOINT_REQUEST or erth is None:
            return False
        known = self._peer(packet.src_ip)
        if erth.op == EndpointOp.PORT_STATUS_UPDATE:
            self._peer_status(packet.src_ip, erth.port_status_mask, now)
        elif erth.op != EndpointOp.EV_PROBE:
            return False
        if known is not None and known.parts is not None:
            flow = known.parts.link.flows.get(port) or self._stranger(port, packet.src_ip)
            ev = known.parts.reverse.of_port(port)
        else:
            flow, ev = self._stranger(port, packet.src_ip), packet.ev
        response = Eeth(erth.op, erth.tx_timestamp)
        frame = flow.endpoint_response(self._config.dscp.control, ev, packet.psn & 0xFFFF, response)
        self._nic.control(port, frame)
        return True

    def peer_mask(self, peer_ips: frozenset[bytes]) -> int:
        """What a peer last said of its ports; all usable when it said nothing."""
        return self._masks.get(peer_ips, ALL_PORTS)

    def _peer(self, ip: bytes) -> Qp | None:
        for qp in self._qps.values():
            if qp.parts is not None and ip in qp.parts.peer_ips:
                return qp
        return None

    def _peer_status(self, ip: bytes, mask: int, now: int) -> None:
        for qp in self._qps.values():
            if qp.parts is not None and ip in qp.parts.peer_ips:
                self._masks[qp.parts.peer_ips] = mask
                self._on_mask(qp, mask, now)

    def _stranger(self, port: int, ip: bytes) -> FlowTemplate:
        flow = self._strangers.get((port, ip))
        if flow is None:
            if len(self._strangers) >= STRANGERS_MAX:
                self._strangers.clear()
            config, local = self._config, self._ports[port]
            flow = FlowTemplate(
                local.mac,
                local.gateway_mac,
                local.ip,
                ip,
                config.udp_port,
                packing=config.ev_packing,
                hop_limit=config.hop_limit,
            )
            self._strangers[port, ip] = flow
        return flow
