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

from typing import TYPE_CHECKING, Final

from hosts.core import constants as c
from hosts.core.cc.registry import make_cc
from hosts.core.config import EndpointConfig, PeerInfo, QpConfig
from hosts.core.connect import (
    destination_key,
    flows_to,
    negotiate,
    own_info,
    path_figures,
)
from hosts.core.control import Control
from hosts.core.controls import Controls
from hosts.core.errors import EndpointError
from hosts.core.ev.evset import EvSet
from hosts.core.ev.state import EvInput
from hosts.core.events import (
    Event,
    PortStatus,
    QpState,
    QpStateChange,
    Status,
)
from hosts.core.interop import TrimLengths
from hosts.core.link import Link
from hosts.core.memory import DirectPlacement, MemoryRegion, MemoryTable
from hosts.core.nic import Nic
from hosts.core.probes import Prober
from hosts.core.profiles import Profiles
from hosts.core.qp import Parts, Qp, QpInput, next_state
from hosts.core.qpcc import Destination, Scheduler
from hosts.core.receiver import ReceiveBuffer
from hosts.core.report import EndpointStats, EvInfo, QpStats, qp_stats
from hosts.core.requestor import Requestor
from hosts.core.responder import Responder
from hosts.core.reverse_ev import ReverseEvs
from hosts.core.timers import NEVER, Timer, Timers
from hosts.wire.constants import PSN_MASK, QPN_ENDPOINT, QPN_FIRST, UDP_PORTS, Opcode
from hosts.wire.entropy import join_ev
from hosts.wire.frame import parse

if TYPE_CHECKING:
    from random import Random

    from hosts.wire.parse import Packet

__all__ = ["Endpoint", "EndpointError", "EndpointStats", "EvInfo", "QpStats"]

_SACK: Final = int(Opcode.SACK)
_NACK: Final = int(Opcode.NACK)
_ACK: Final = int(Opcode.ACK)
_PROBE: Final = int(Opcode.PROBE)
_LAST_DATA: Final = int(Opcode.WRITE_ONLY_IMM)  # known opcodes up to this one carry data
_SENDABLE: Final = (QpState.RTR, QpState.RTS)


class Endpoint(Controls):
    """See the module. Not thread-safe; no call blocks or reads a clock.

    profiles: EV and CC profiles, and what a controller does to them.
    """

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
        self._p_key = config.interop.p_key
        self._check_icrc = config.check_icrc
        self._udp_ports = UDP_PORTS | {config.udp_port}
        self._buffer = ReceiveBuffer(config.receiver, now)
        ops_timer = Timer(self._timers, self._serve_ops)
        self._control = Control(config, self._nic, rng, self._on_peer_mask, ops_timer)
        self._ops_timer = ops_timer
        self.profiles = Profiles(config, self._qps, rng)
        dscp = config.dscp
        self._trims = {dscp.trimmed: False, dscp.trimmed_lasthop: True}
        self._trim_lengths = config.interop.trim_lengths is TrimLengths.REWRITTEN

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
        qp = self._qps.get(packet.dqp)
        parts = qp.parts if qp is not None else None
        data = packet.opcode <= _LAST_DATA
        lasthop = None
        if data:
            lasthop = (self._trims if parts is None else parts.trims).get(packet.dscp)
        if lasthop is None:
            if not packet.length_ok:
                return self._drop("length")
            if self._check_icrc and not packet.icrc_ok():
                return self._drop("icrc")
        elif self._trim_lengths and not packet.length_rewritten:
            return self._drop("trim_length")
        if packet.p_key != self._p_key:
            return self._drop("p_key")
        if qp is None:
            if packet.dqp != QPN_ENDPOINT:
                return self._drop("unknown_qp")
            if not self._control.receive(port, packet, now):
                return self._drop("endpoint_op")
            return None
        if parts is None or qp.state not in _SENDABLE:
            return self._drop("bad_state")
        if packet.src_ip not in parts.peer_ips:
            return self._drop("source")
        packing = parts.link.agreement.peer_packing
        if packing is not self._packing:
            packet.ev = join_ev(packet.flow_label, packet.sport, packing)
        if not data:
            return self._receive_control(qp, parts, packet, now)
        responder = parts.responder
        if lasthop is None:
            responder.on_data(packet, now)
        else:
            responder.on_trimmed(packet, lasthop, now)
        if responder.ack_pending and not qp.owes_ack:
            qp.owes_ack = True
            self._owed.append(qp)
        return None

    def frames_to_send(self, now: int) -> list[tuple[int, bytes]]:
        """(port, frame) that leave now, at most what the ports' line rate allows."""
        if self._owed:
            for qp in self._owed:
                qp.owes_ack = False
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

    def next_turn(self, now: int) -> int:
        """When the driver must serve timers, hand out events or send: `now`, or later. After a
        frame that has no such consequence this replaces those calls and `next_deadline`.
        `timers.NEVER`: only when a frame arrives."""
        timer = self._timers.due
        if now >= timer or self._events or self._owed:
            return now
        frame = self._nic.next_turn(now, self._scheduler.any_ready)
        return frame if frame < timer else timer

    def on_deadline(self, now: int) -> None:
        """Serve timers due at `now`; harmless when none is."""
        if now >= self._timers.due:
            self._timers.serve(now)

    def events(self) -> list[Event]:
        """Events since the last call."""
        events = self._events
        if events:
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
        qpn = self._next_qpn
        self._next_qpn += 1
        return self._make_qp(qpn, config if config is not None else QpConfig())

    def _make_qp(self, qpn: int, config: QpConfig) -> PeerInfo:
        values = self.profiles.evs_for(config)
        self.profiles.cc_of(config)
        evs = EvSet(
            values.chosen,
            self._rng,
            qpn=qpn,
            min_active=values.min_active,
            table=self._ev_faults,
            report=self._events_append,
            report_skip=config.ev.report_skip,
            events=values.events,
            selector=config.ev.selector,
        )
        psn = config.first_psn
        psn = self._rng.getrandbits(24) if psn is None else psn & PSN_MASK
        qp = Qp(qpn, config, psn, evs, values.kind, values.paths, self._timers)
        self._qps[qpn] = qp
        if config.ev.profile is not None:
            self.profiles.ev[config.ev.profile].users.add(qpn)
            for entry in [evs.by_ev[ev] for ev in evs.by_ev if ev in values.denied]:
                evs.feed(entry, EvInput.DENY, 0)
        return own_info(self.config, config, qpn, psn, values.kind)

    def connect_qp(self, qpn: int, peer: PeerInfo, now: int) -> None:
        """INIT -> RTR -> RTS. Raises EndpointError, also when the interop profiles do not fit."""
        self.ready_to_receive(qpn, peer, now)
        self.ready_to_send(qpn, now)

    def ready_to_receive(self, qpn: int, peer: PeerInfo, now: int) -> None:
        """INIT -> RTR: agree with the peer; data is taken from now on."""
        qp = self._qp(qpn)
        if next_state(qp.state, QpInput.RTR) is None:
            raise EndpointError(f"qp {qpn}: cannot connect in state {qp.state.name}")
        qp.agreement = negotiate(self.config, qp, peer)
        qp.peer = peer
        qp.parts = self._parts(qp, peer)
        self._control.add(qp, qp.parts.peer_ips)
        for wr_id in qp.receives:
            qp.parts.responder.post_recv(wr_id)
        qp.receives.clear()
        self._remask(qp, now)
        self._move(qp, QpInput.RTR, "connect", now)
        self._control.greet(qp, now)

    def ready_to_send(self, qpn: int, now: int) -> None:
        """RTR -> RTS: writes may be posted."""
        self._move(self._qp(qpn), QpInput.RTS, "connect", now)

    def fail_qp(self, qpn: int, now: int) -> None:
        """Any state -> ERROR: flush."""
        self._fail(self._qp(qpn), Status.FLUSHED, "asked for", now)

    def reset_qp(self, qpn: int, now: int) -> None:
        """ERROR -> RESET: all that was known of the peer is forgotten."""
        qp = self._qp(qpn)
        self._move(qp, QpInput.RESET, "reset", now)
        self._forget(qp)

    def init_qp(self, qpn: int, now: int, config: QpConfig | None = None) -> PeerInfo:
        """RESET -> INIT, with new attributes or the old ones; the first PSN is drawn or given."""
        qp = self._qp(qpn)
        if next_state(qp.state, QpInput.INIT) is None:
            raise EndpointError(f"qp {qpn}: cannot initialise in state {qp.state.name}")
        info = self._make_qp(qpn, config if config is not None else qp.config)
        self._events.append(QpStateChange(now, qpn, QpState.RESET, QpState.INIT, "init"))
        return info

    def destroy_qp(self, qpn: int, now: int) -> None:
        """Flush what is outstanding and forget the QP."""
        qp = self._qp(qpn)
        if qp.state is not QpState.ERROR:
            self._fail(qp, Status.FLUSHED, "destroyed", now)
        self._forget(qp)
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
        if not c.MESSAGE_BYTES_MIN <= len(view) <= c.MESSAGE_BYTES_MAX:
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
            self._remask(qp, now)
        self._wake_all()
        self._control.tell_peers(now)

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

    def _serve_ops(self, now: int) -> None:
        ops = self._control.ops
        ops.on_deadline(now)
        due = ops.next_deadline()
        if due is not None:
            self._ops_timer.at(due)

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
        if not parts.destination.seeded and qp.state is QpState.RTS:
            parts.destination.seeded = True
            self._seed_base_rtt(parts, now)
        return parts.wake()

    def _wake(self, requestor: Requestor) -> None:
        """Something changed for this one, and perhaps for its destination's window."""
        woken = self._scheduler.wake(requestor)
        if requestor.destination.parked:
            woken = self._scheduler.release(requestor.destination) or woken
        if woken:
            self._nic.wake()

    def _wake_destination(self, destination: Destination) -> None:
        for requestor in destination.requestors:
            self._scheduler.wake(requestor)
        self._scheduler.release(destination)
        self._nic.wake()

    def _wake_all(self) -> None:
        for destination in self._destinations.values():
            self._wake_destination(destination)

    def _seed_base_rtt(self, parts: Parts, now: int) -> None:
        """One probe in the control class to a new destination (section 5.3)."""
        port, ev = parts.reverse.next()
        destination = parts.destination

        def answer(rtt_ns: int | None, _: int) -> None:
            if rtt_ns is not None:
                destination.cc.seed_base_rtt(rtt_ns)

        self._control.probe(parts.link, port, ev, answer, now, parts.prober.timeout_ns)

    def _parts(self, qp: Qp, peer: PeerInfo) -> Parts:
        """Build what a QP consists of; the congestion control is the destination's."""
        config, agreement = self.config, qp.agreement
        assert agreement is not None
        link = Link(
            config,
            qp.config,
            qp.qpn,
            peer,
            agreement,
            flows_to(config, qp, peer, agreement),
            self._nic,
            qp.timer,
            self._rng,
            self._events_append,
            lambda status, why, now: self._fail(qp, status, why, now),
        )
        cc = self.profiles.cc_of(qp.config)
        key = destination_key(peer, qp.config.cc_profile, cc)
        destination = self._destinations.get(key)
        if destination is None:
            destination = Destination(make_cc(cc, path_figures(config, cc, peer)), cc)
            self._destinations[key] = destination
        prober = Prober(link, qp.evs, destination)
        reverse = ReverseEvs(qp.evs, self._rng, self._control.prober(link, prober), qp.timer)
        requestor = Requestor(link, qp.first_psn, qp.evs, destination, prober, reverse)
        destination.requestors.append(requestor)
        responder = Responder(link, reverse, self._memory, self._placement, self._buffer)
        return Parts(
            link,
            destination,
            requestor,
            responder,
            prober,
            reverse,
            lambda: self._wake(requestor),
        )

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
            qp.parts.responder.flush(now)
            self._wake(qp.parts.requestor)  # others may have the window

    def _forget(self, qp: Qp) -> None:
        """Take a QP that is over out of everything that knows it."""
        qp.timer.cancel()
        if qp.parts is not None:
            qp.parts.destination.requestors.remove(qp.parts.requestor)
            self._control.remove(qp, qp.parts.peer_ips)
        qp.parts = None
        if qp.config.ev.profile in self.profiles.ev:
            self.profiles.ev[qp.config.ev.profile].users.discard(qp.qpn)

    def _remask(self, qp: Qp, now: int) -> None:
        """Apply what is known of our ports and the peer's to the planes of a QP."""
        parts = qp.parts
        if parts is None:
            return
        mask = self._control.peer_mask(parts.peer_ips)
        for port, tx in self._nic.ports.items():
            reachable = port in parts.link.flows.ports and mask >> (port - 1) & 1
            was = qp.evs.planes[port].masked
            qp.evs.set_masked(port, not (tx.up and reachable))
            if was and not qp.evs.planes[port].masked and qp.state is not QpState.ERROR:
                parts.prober.unmasked(port, now)
        parts.reverse.refresh_ports()

    def _on_peer_mask(self, qp: Qp, mask: int, now: int) -> None:
        self._events.append(PortStatus(now, qp.qpn, 0, mask != 0, mask))
        self._remask(qp, now)
        if qp.parts is not None:
            qp.parts.wake()
