"""Endpoint operations of an endpoint (section 6): EV probes and port status, both directions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from hosts.core import constants as c
from hosts.core.config import EndpointConfig
from hosts.core.endpoint_ops import Answer, EndpointOps
from hosts.core.interop import EethOpBits
from hosts.core.link import make_flows
from hosts.core.nic import Nic
from hosts.core.reverse_ev import Probe
from hosts.core.timers import Timer
from hosts.wire.constants import PORT_MASK_FIRST_PORT, Ecn, EndpointOp, Opcode
from hosts.wire.encap import SrPath, TableEncap
from hosts.wire.frame import FlowTemplate
from hosts.wire.headers import Eeth, Erth

if TYPE_CHECKING:
    from random import Random

    from hosts.core.link import Link
    from hosts.core.probes import Prober
    from hosts.core.qp import Qp
    from hosts.wire.parse import Packet

STRANGERS_MAX: Final = 256
"""Frame templates kept for those who probe us without having a QP here."""
ALL_PORTS: Final = 0xFFFFFFFF

PeerMask = Callable[["Qp", int, int], None]


class Control:
    """Sends and answers D8/D9. Peers are known by their addresses (`peers`: QPs by address)."""

    __slots__ = (
        "_config",
        "_early",
        "_masks",
        "_nic",
        "_on_mask",
        "_ports",
        "_strangers",
        "ops",
        "peers",
    )

    def __init__(
        self,
        config: EndpointConfig,
        nic: Nic,
        rng: Random,
        on_mask: PeerMask,
        timer: Timer,
    ) -> None:
        self._config = config
        self._nic = nic
        self._on_mask = on_mask
        self._ports = {p.port: p for p in config.ports}
        self._masks: dict[frozenset[bytes], int] = {}
        self._early: dict[bytes, int] = {}  # by address, of those we have no QP with yet
        self._strangers: dict[tuple[int, bytes, SrPath | None], FlowTemplate] = {}
        self.peers: dict[bytes, list[Qp]] = {}
        self.ops = EndpointOps(rng.getrandbits(16), timer)

    def add(self, qp: Qp, ips: frozenset[bytes]) -> None:
        """A QP was connected to a peer with these addresses."""
        for ip in ips:
            self.peers.setdefault(ip, []).append(qp)
            mask = self._early.pop(ip, None)
            if mask is not None:
                self._masks[ips] = mask

    def greet(self, qp: Qp, now: int) -> None:
        """A peer that is new to a QP: it is told when a port of ours is down already."""
        if not all(tx.up for tx in self._nic.ports.values()):
            self._tell(qp, c.PORT_STATUS_TRIES, now)

    def remove(self, qp: Qp, ips: Iterable[bytes]) -> None:
        for ip in ips:
            left = self.peers.get(ip)
            if left is not None and qp in left:
                left.remove(qp)
                if not left:
                    del self.peers[ip]

    # --- requests ------------------------------------------------------------------------------

    def probe(
        self, link: Link, port: int, ev: int, answer: Answer, now: int, timeout_ns: int
    ) -> None:
        """An EV probe on one EV, in the control class."""
        request = self.ops.open(answer, now, timeout_ns)
        erth = Erth(EndpointOp.EV_PROBE, 0, link.timestamp(now))
        self._request(link, port, ev, request, erth)

    def probe_path(
        self, port: int, dst: bytes, ev: int, path: SrPath | None, answer: Answer, now: int,
        timeout_ns: int,
    ) -> None:  # fmt: skip
        """An EV probe to any address, a QP there or not; with `path` along outer addresses. To our
        own address it is a loop through the fabric: the request itself is the answer."""
        request = self.ops.open(answer, now, timeout_ns)
        stamp = now // self._config.tick_ns & 0xFFFF
        erth = Erth(EndpointOp.EV_PROBE, 0, stamp)
        flow = self._stranger(port, dst, path, ev)
        dscp = self._config.dscp.control
        self._nic.control(port, flow.endpoint_request(dscp, Ecn.NOT_ECT, ev, request, erth))

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
        for qps in list(self.peers.values()):
            parts = qps[0].parts
            if parts is not None and parts.peer_ips not in told:
                told.add(parts.peer_ips)
                self._tell(qps[0], c.PORT_STATUS_TRIES, now)

    def local_mask(self) -> int:
        """Bit k-1: port k is up (#28)."""
        first = PORT_MASK_FIRST_PORT
        return sum(1 << (port - first) for port, tx in self._nic.ports.items() if tx.up)

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
        if packet.src_ip == packet.dst_ip:  # our own probe came home
            return self.ops.on_response(packet.psn & 0xFFFF, now)
        qps = self.peers.get(packet.src_ip)
        known = qps[0] if qps else None
        if erth.op == EndpointOp.PORT_STATUS_UPDATE:
            self._peer_status(packet.src_ip, erth.port_status_mask, now)
        elif erth.op != EndpointOp.EV_PROBE:
            return False
        if known is not None and known.parts is not None:
            flow = known.parts.link.flows.get(port) or self._stranger(port, packet.src_ip)
            ev = known.parts.reverse.of_port(port)
        else:
            flow, ev = self._stranger(port, packet.src_ip), packet.ev
        if self._config.interop.eeth_op_bits is EethOpBits.BITS_5_4:
            response = Eeth(0, erth.tx_timestamp, res1=erth.op)
        else:
            response = Eeth(erth.op, erth.tx_timestamp)
        frame = flow.endpoint_response(self._config.dscp.control, ev, packet.psn & 0xFFFF, response)
        self._nic.control(port, frame)
        return True

    def peer_mask(self, peer_ips: frozenset[bytes]) -> int:
        """What a peer last said of its ports; all usable when it said nothing."""
        return self._masks.get(peer_ips, ALL_PORTS)

    def describe_masks(self) -> list[dict[str, object]]:
        """What peers said, for whoever asks."""
        return [
            {"ips": sorted(str(ip_address(ip)) for ip in ips), "mask": mask}
            for ips, mask in self._masks.items()
        ]

    def _peer_status(self, ip: bytes, mask: int, now: int) -> None:
        if ip not in self.peers:
            if len(self._early) >= STRANGERS_MAX:
                self._early.clear()
            self._early[ip] = mask
            return
        for qp in self.peers.get(ip, ()):
            if qp.parts is not None:
                self._masks[qp.parts.peer_ips] = mask
                self._on_mask(qp, mask, now)

    def _stranger(
        self, port: int, ip: bytes, path: SrPath | None = None, ev: int = 0
    ) -> FlowTemplate:
        key = (port, ip, path)
        flow = self._strangers.get(key)
        if flow is None:
            if len(self._strangers) >= STRANGERS_MAX:
                self._strangers.clear()
            encaps = {} if path is None else {port: TableEncap({ev: path})}
            flow = make_flows(self._config, {port: ip}, self._config.udp_port, encaps)[port]
            self._strangers[key] = flow
        return flow
