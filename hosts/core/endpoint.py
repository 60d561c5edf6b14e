"""The MRC endpoint: one NIC with its ports, memory and QPs, driven by five calls.

endpoint = Endpoint(config, random.Random(seed))
region = endpoint.register_memory(1 << 20)              # va, rkey to tell the peer
mine = endpoint.create_qp(QpConfig())                   # PeerInfo to tell the peer
endpoint.connect_qp(mine.qpn, peers_info, now)          # -> RTS
endpoint.post_write(mine.qpn, 1, source, remote_va, remote_rkey)

driver:  receive(port, frame, now) for each frame that came in,
         on_deadline(now) when next_deadline() has passed,
         then frames_to_send(now) and events(), then wait for a frame or next_deadline().
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosts.core import constants as c
from hosts.core.cc.base import PathFigures
from hosts.core.cc.registry import make_cc
from hosts.core.config import ConfigError, EndpointConfig, PeerInfo, QpConfig
from hosts.core.control import Control
from hosts.core.ev.evset import EvSet
from hosts.core.ev.profile import choose_evs
from hosts.core.ev.state import EvInput
from hosts.core.events import Event, EvProbeResult, PortStatus, QpState, QpStateChange, Status
from hosts.core.link import Link
from hosts.core.memory import DirectPlacement, MemoryRegion, MemoryTable
from hosts.core.messages import nominal_size
from hosts.core.nic import Nic
from hosts.core.probes import Prober
from hosts.core.qp import Parts, Qp, QpInput, next_state
from hosts.core.qpcc import Destination, Scheduler
from hosts.core.report import EndpointStats, EvInfo, QpStats, ev_table, qp_stats
from hosts.core.requestor import Requestor
from hosts.core.responder import Responder
from hosts.core.reverse_ev import ReverseEvs
from hosts.core.timers import NEVER, Timers
from hosts.wire.constants import (
    P_KEY,
    PSN_MASK,
    QPN_ENDPOINT,
    QPN_FIRST,
    UDP_PORTS,
    Opcode,
)
from hosts.wire.frame import FlowTemplate, parse

if TYPE_CHECKING:
    from random import Random

    from hosts.wire.parse import Packet

__all__ = ["Endpoint", "EndpointError", "EndpointStats", "EvInfo", "QpStats"]

_SACK, _NACK, _ACK, _PROBE = (
    int(Opcode.SACK),
    int(Opcode.NACK),
    int(Opcode.ACK),
    int(Opcode.PROBE),
)
_LAST_DATA = int(Opcode.WRITE_ONLY_IMM)  # known opcodes up to this one carry data
_SENDABLE = (QpState.RTR, QpState.RTS)


class EndpointError(Exception):
    """A verb that cannot be done as asked; str() says what and why in one line."""


class Endpoint:
    """See the module. Not thread-safe; no call blocks or reads a clock."""

    def __init__(self, config: EndpointConfig, rng: Random, now: int = 0) -> None:
        self.config = config
        self._rng = rng
        self._nic = Nic(config.ports, now, config.catch_up_ns, config.ahead_ns)
        self._scheduler = Scheduler()
        self._timers = Timers()
        self._memory = MemoryTable(rng)
        faults = config.faults
        self._placement = (
            faults.placement() if faults is not None and faults.placement else DirectPlacement()
        )
        self._ev_faults = faults.ev_table if faults is not None else None
        self._qps: dict[int, Qp] = {}
        self._next_qpn = QPN_FIRST
        self._destinations: dict[object, Destination] = {}
        self._events: list[Event] = []
        self._owed: list[Qp] = []  # QPs that owe a transport ACK
        self._drops: dict[str, int] = {}
        self._received = 0
        self._ips = {p.port: p.ip for p in config.ports}
        self._packing = config.ev_packing
        self._check_icrc = config.check_icrc
        self._udp_ports = UDP_PORTS | {config.udp_port}
        self._control = Control(config, self._nic, self._qps, rng, self._on_peer_mask, self._timers)
        dscp = config.dscp
        self._trims = {dscp.trimmed: False, dscp.trimmed_lasthop: True}

    # --- the five calls ------------------------------------------------------------------------

    def receive(self, port: int, frame: bytes | bytearray | memoryview, now: int) -> None:
        """A frame arrived on a port. The buffer may be reused after the call returns."""
        self._received += 1
        packet = parse(frame, self._packing, self._udp_ports)
        if packet is None:
            return self._drop("not_mrc")
        if packet.dst_ip != self._ips.get(port):
            return self._drop("not_ours")
        if packet.flags & 15:
            return self._drop("tver")
        if not packet.known:
            return self._drop("opcode")
        data = packet.opcode <= _LAST_DATA
        lasthop = self._trims.get(packet.dscp) if data else None
        if lasthop is None:
            if not packet.length_ok:
                return self._drop("length")
            if self._check_icrc and not packet.icrc_ok():
                return self._drop("icrc")
        if packet.p_key != P_KEY:
            return self._drop("p_key")
        qp = self._qps.get(packet.dqp)
        if qp is None:
            if packet.dqp != QPN_ENDPOINT:
                return self._drop("unknown_qp")
            if not self._control.receive(port, packet, now):
                return self._drop("endpoint_op")
            return None
        parts = qp.parts
        if parts is None or qp.state not in _SENDABLE:
            return self._drop("bad_state")
        if packet.src_ip not in parts.peer_ips:
            return self._drop("source")
        if not data:
            return self._receive_control(qp, parts, packet, now)
        responder = parts.responder
        if lasthop is None:
            responder.on_data(packet, now)
        else:
            responder.on_trimmed(packet, lasthop, now)
        if responder.ack_pending and qp not in self._owed:
            self._owed.append(qp)
        return None

    def frames_to_send(self, now: int) -> list[tuple[int, bytes]]:
        """(port, frame) that leave now, at most what the ports' line rate allows."""
        if self._owed:
            for qp in self._owed:
                if qp.parts is not None and qp.parts.responder.ack_pending:
                    qp.parts.responder.flush_ack()
            self._owed.clear()
        return self._nic.transmit(now, self._scheduler)

    def next_deadline(self) -> int | None:
        """When to call on_deadline (and frames_to_send) again; None: only when a frame arrives.

        Valid after frames_to_send; after any other call, call that first.
        """
        timer = self._timers.due
        frame = self._nic.next_free(self._scheduler.any_ready)
        if frame is not None and frame < timer:
            return frame
        return timer if timer < NEVER else None

    def on_deadline(self, now: int) -> None:
        """Serve timers due at `now`; harmless when none is."""
        timers = self._timers
        if now < timers.due:
            return
        ops = self._control.ops
        ops.on_deadline(now)
        for qp in list(self._qps.values()):
            parts = qp.parts
            if parts is None or qp.state is QpState.ERROR:
                continue
            requestor = parts.requestor
            due = requestor.next_deadline()
            if due is not None and due <= now:
                requestor.on_deadline(now)
                self._wake(parts.destination)
            parts.prober.on_deadline(now)
            parts.reverse.on_deadline(now, parts.destination.cc.base_rtt_ns, requestor.last_sent)
        timers.due = NEVER
        waiting = [ops.next_deadline()]
        for qp in self._qps.values():
            parts = qp.parts
            if parts is not None and qp.state is not QpState.ERROR:
                waiting += (
                    parts.requestor.next_deadline(),
                    parts.prober.next_deadline(),
                    parts.reverse.next_deadline(),
                )
        timers.due = min((due for due in waiting if due is not None), default=NEVER)

    def events(self) -> list[Event]:
        """Events since the last call."""
        events = self._events
        self._events = []
        return events

    # --- memory and queue pairs ----------------------------------------------------------------

    def register_memory(
        self, memory: int | bytearray | memoryview, *, remote_write: bool = True
    ) -> MemoryRegion:
        """Register zeroed memory of a length, or a writable buffer."""
        try:
            return self._memory.register(memory, remote_write)
        except ValueError as error:
            raise EndpointError(str(error)) from None

    def deregister_memory(self, rkey: int) -> None:
        try:
            self._memory.deregister(rkey)
        except KeyError:
            raise EndpointError(f"rkey {rkey:#x}: no such region") from None

    def create_qp(self, config: QpConfig | None = None) -> PeerInfo:
        """A QP in INIT; returns what the peer must be told. EVs are chosen now (see ev_table).

        Raises ConfigError.
        """
        config = config if config is not None else QpConfig()
        if not c.MPR_MIN <= config.mpr <= c.MPR_MAX:
            raise ConfigError(f"mpr {config.mpr}: must be {c.MPR_MIN}..{c.MPR_MAX}")
        qpn = self._next_qpn
        ports = [p.port for p in self.config.ports]
        ipv4 = len(self.config.ports[0].ip) == 4
        chosen = choose_evs(config.ev, ports, self._rng, self._packing, ipv4)
        floor = config.ev.min_active
        evs = EvSet(
            chosen,
            self._rng,
            qpn=qpn,
            min_active=int(config.ev.active * c.EV_MIN_ACTIVE_SHARE) if floor is None else floor,
            table=self._ev_faults,
            report=self._events_append,
            report_skip=config.ev.report_skip,
        )
        psn = config.first_psn
        psn = self._rng.getrandbits(24) if psn is None else psn & PSN_MASK
        self._qps[qpn] = Qp(qpn, config, psn, evs)
        self._next_qpn += 1
        return PeerInfo(
            qpn=qpn,
            psn=psn,
            ips=dict(self._ips),
            pmtu=self.config.pmtu,
            mpr=config.mpr,
            write_imm_limit=config.write_imm_limit,
            dynamic_mpr=config.dynamic_mpr,
            trim_nack=config.trim_nack,
        )

    def connect_qp(self, qpn: int, peer: PeerInfo, now: int) -> None:
        """INIT -> RTR -> RTS. Raises EndpointError."""
        qp = self._qp(qpn)
        if next_state(qp.state, QpInput.RTR) is None:
            raise EndpointError(f"qp {qpn}: cannot connect in state {qp.state.name}")
        if not set(peer.ips) & set(self._ips):
            raise EndpointError(f"qp {qpn}: the peer has no port in our planes")
        qp.parts = self._parts(qp, peer)
        for wr_id in qp.receives:
            qp.parts.responder.post_recv(wr_id)
        qp.receives.clear()
        self._remask(qp)
        self._move(qp, QpInput.RTR, "connect", now)
        self._move(qp, QpInput.RTS, "connect", now)

    def destroy_qp(self, qpn: int, now: int) -> None:
        """Flush what is outstanding and forget the QP."""
        qp = self._qp(qpn)
        if qp.state is not QpState.ERROR:
            self._fail(qp, Status.FLUSHED, "destroyed", now)
        if qp.parts is not None:
            qp.parts.destination.requestors.remove(qp.parts.requestor)
        del self._qps[qpn]

    def post_write(
        self,
        qpn: int,
        wr_id: int,
        source: bytes | bytearray | memoryview,
        remote_va: int,
        rkey: int,
        imm: int | None = None,
    ) -> None:
        """Write `source` (kept by reference until the completion) to the peer's memory.

        With `imm` it is a write with immediate. Raises EndpointError: QP not RTS, empty source.
        """
        qp = self._qp(qpn)
        if qp.state is not QpState.RTS or qp.parts is None:
            raise EndpointError(f"qp {qpn}: cannot write in state {qp.state.name}")
        view = memoryview(source).cast("B")
        if not 0 < len(view) <= c.MESSAGE_BYTES_MAX:
            raise EndpointError(f"qp {qpn}: a write of {len(view)} bytes (1 .. 2^32-1 allowed)")
        if not (remote_va >= 0 and remote_va + len(view) <= 1 << 64 and 0 <= rkey < 1 << 32):
            raise EndpointError(f"qp {qpn}: address {remote_va:#x}, key {rkey:#x}: out of range")
        if imm is not None and not 0 <= imm < 1 << 32:
            raise EndpointError(f"qp {qpn}: immediate {imm:#x} does not fit 32 bits")
        qp.parts.requestor.post(wr_id, view, remote_va, rkey, imm)
        if self._scheduler.wake(qp.parts.requestor):
            self._nic.wake()

    def post_recv(self, qpn: int, wr_id: int) -> None:
        """A receive work request: one is consumed by each write with immediate."""
        qp = self._qp(qpn)
        if qp.state is QpState.ERROR:
            raise EndpointError(f"qp {qpn}: cannot receive in state ERROR")
        if qp.parts is None:
            qp.receives.append(wr_id)
        else:
            qp.parts.responder.post_recv(wr_id)

    # --- control -------------------------------------------------------------------------------

    def set_port(self, port: int, up: bool, now: int) -> None:
        """A local port went down or came up: its EVs stop or start, peers are told."""
        if port not in self._nic.ports:
            raise EndpointError(f"port {port}: no such port")
        if self._nic.ports[port].up == up:
            return
        self._nic.set_up(port, up, now)
        self._events.append(PortStatus(now, 0, port, up))
        for qp in self._qps.values():
            self._remask(qp)
        self._wake_all()
        self._control.tell_peers(now)

    def set_ev_denied(self, qpn: int, ev: int, denied: bool, now: int) -> None:
        """Controller: any state -> DENIED, or DENIED -> GOOD."""
        qp = self._qp(qpn)
        entry = qp.evs.by_ev.get(ev)
        if entry is None:
            raise EndpointError(f"qp {qpn}: no EV {ev:#010x}")
        qp.evs.feed(entry, EvInput.DENY if denied else EvInput.ALLOW, now)

    def probe_ev(self, qpn: int, ev: int, now: int, timeout_ns: int | None = None) -> None:
        """Send an EV probe; an EvProbeResult event follows."""
        qp = self._qp(qpn)
        entry = qp.evs.by_ev.get(ev)
        if entry is None:
            raise EndpointError(f"qp {qpn}: no EV {ev:#010x}")
        if qp.parts is None:
            raise EndpointError(f"qp {qpn}: not connected")

        def answer(rtt_ns: int | None, at: int) -> None:
            self._events.append(EvProbeResult(at, qpn, ev, entry.plane, entry.port, rtt_ns))

        timeout = timeout_ns if timeout_ns is not None else qp.parts.prober.timeout_ns
        self._control.probe(qp.parts.link, entry.port, ev, answer, now, timeout)

    def ev_table(self, qpn: int) -> list[EvInfo]:
        """Every EV of a QP with its state."""
        return ev_table(self._qp(qpn))

    def stats(self) -> EndpointStats:
        """Counters; built on every call."""
        nic = self._nic
        drops = dict(self._drops)
        unsent = sum(tx.dropped for tx in nic.ports.values())
        if unsent:
            drops["control_unsent"] = unsent
        qps = {qpn: qp_stats(qp) for qpn, qp in self._qps.items()}
        return EndpointStats(self._received, nic.frames, nic.octets, drops, qps)

    def outstanding(self, qpn: int) -> int:
        """Posted writes not yet completed."""
        parts = self._qp(qpn).parts
        return 0 if parts is None else parts.requestor.outstanding

    # --- inside --------------------------------------------------------------------------------

    def _events_append(self, event: Event) -> None:
        self._events.append(event)

    def _drop(self, cause: str) -> None:
        self._drops[cause] = self._drops.get(cause, 0) + 1

    def _qp(self, qpn: int) -> Qp:
        qp = self._qps.get(qpn)
        if qp is None:
            raise EndpointError(f"qp {qpn}: no such QP")
        return qp

    def _receive_control(self, qp: Qp, parts: Parts, packet: Packet, now: int) -> None:
        requestor, opcode = parts.requestor, packet.opcode
        if opcode == _SACK:
            requestor.on_sack(packet, now)
        elif opcode == _PROBE:
            return parts.responder.on_probe(packet, now)
        elif opcode == _NACK:
            requestor.on_nack(packet, now)
        elif opcode == _ACK:
            requestor.on_ack(packet, now)
        else:
            return self._drop("opcode")
        destination = parts.destination
        if not destination.seeded and qp.state is QpState.RTS:
            destination.seeded = True
            self._seed_base_rtt(parts, now)
        return self._wake(destination)

    def _wake(self, destination: Destination) -> None:
        woken = False
        for requestor in destination.requestors:
            if self._scheduler.wake(requestor):
                woken = True
        if woken:
            self._nic.wake()

    def _wake_all(self) -> None:
        for destination in self._destinations.values():
            self._wake(destination)

    def _seed_base_rtt(self, parts: Parts, now: int) -> None:
        """One probe in the control class to a new destination (section 5.3)."""
        port, ev = parts.reverse.next()
        cc = parts.destination.cc

        def answer(rtt_ns: int | None, _: int) -> None:
            if rtt_ns is not None:
                cc.seed_base_rtt(rtt_ns)

        self._control.probe(parts.link, port, ev, answer, now, parts.prober.timeout_ns)

    def _parts(self, qp: Qp, peer: PeerInfo) -> Parts:
        """Build what a QP consists of; the congestion control is the destination's."""
        config = self.config
        shared = [p for p in config.ports if p.port in peer.ips]
        flows = {
            p.port: FlowTemplate(
                p.mac,
                p.gateway_mac,
                p.ip,
                peer.ips[p.port],
                config.udp_port,
                packing=config.ev_packing,
                hop_limit=config.hop_limit,
            )
            for p in shared
        }
        link = Link(
            config,
            qp.config,
            qp.qpn,
            peer,
            flows,
            self._nic,
            self._timers,
            self._rng,
            self._events_append,
            lambda status, why, now: self._fail(qp, status, why, now),
        )
        key = (
            tuple(sorted(peer.ips.items())),
            qp.config.cc.name,
            qp.config.cc.base_rtt_ns,
            tuple(sorted(qp.config.cc.params.items())),
        )
        destination = self._destinations.get(key)
        if destination is None:
            figures = PathFigures(
                mtu=nominal_size(min(config.pmtu, peer.pmtu)),
                rate_bps=sum(p.rate_bps for p in shared),
                base_rtt_ns=qp.config.cc.base_rtt_ns,
                time_scale=config.time_scale,
                trimming=peer.trim_nack,
            )
            destination = Destination(make_cc(qp.config.cc, figures))
            self._destinations[key] = destination
        prober = Prober(link, qp.evs, destination.cc)
        reverse = ReverseEvs(qp.evs, self._rng, self._control.prober(link, prober), self._timers)
        requestor = Requestor(link, qp.first_psn, qp.evs, destination, prober, reverse)
        destination.requestors.append(requestor)
        responder = Responder(link, reverse, self._memory, self._placement)
        return Parts(link, destination, requestor, responder, prober, reverse)

    def _move(self, qp: Qp, what: QpInput, why: str, now: int) -> None:
        new = next_state(qp.state, what)
        if new is None:
            raise EndpointError(f"qp {qp.qpn}: {what.value} is not possible in {qp.state.name}")
        self._events.append(QpStateChange(now, qp.qpn, qp.state, new, why))
        qp.state = new

    def _fail(self, qp: Qp, status: Status, why: str, now: int) -> None:
        """To ERROR: flush, drop what arrives (section 4.9)."""
        if qp.state is QpState.ERROR:
            return
        self._move(qp, QpInput.FAIL, why, now)
        if qp.parts is not None:
            self._scheduler.remove(qp.parts.requestor)
            local = status is Status.LOCAL_ERROR
            qp.parts.requestor.flush(Status.FLUSHED if local else status, now)

    def _remask(self, qp: Qp) -> None:
        """Apply what is known of our ports and the peer's to the planes of a QP."""
        parts = qp.parts
        if parts is None:
            return
        mask = self._control.peer_mask(parts.peer_ips)
        for port, tx in self._nic.ports.items():
            reachable = port in parts.link.flows and mask >> (port - 1) & 1
            qp.evs.set_masked(port, not (tx.up and reachable))
        parts.reverse.refresh_ports()

    def _on_peer_mask(self, qp: Qp, mask: int, now: int) -> None:
        self._events.append(PortStatus(now, qp.qpn, 0, mask != 0, mask))
        self._remask(qp)
        if qp.parts is not None:
            self._wake(qp.parts.destination)
