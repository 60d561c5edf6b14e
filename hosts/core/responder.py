"""The receiving half of a QP: data packets to memory, SACKs and NACKs back (sections 4.2 - 4.5)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from hosts.core import constants as c
from hosts.core.bitmap import ReceiveBitmap
from hosts.core.events import RecvCompletion, Status
from hosts.core.memory import PlacementError, TrackingError
from hosts.core.messages import (
    FIRST,
    LAST_IMM,
    MIDDLE,
    ONLY_IMM,
    STARTS,
    Arrival,
    Reassembly,
    Verdict,
)
from hosts.core.psn import PSN_HALF, unwrap
from hosts.wire.constants import (
    MPR_UNIT,
    NOMINAL_OVERHEAD,
    PDCID_MASK,
    PSN_MASK,
    Ecn,
    NackReason,
    PathFeedback,
    Syndrome,
)
from hosts.wire.headers import Aeth, Neth

if TYPE_CHECKING:
    from collections.abc import Callable

    from hosts.core.link import Link
    from hosts.core.memory import MemoryTable, Placement
    from hosts.core.receiver import ReceiveBuffer
    from hosts.core.reverse_ev import ReverseEvs
    from hosts.wire.parse import Packet

_CE: Final = int(Ecn.CE)
_SKIP_ONCE: Final = int(PathFeedback.SKIP_ONCE)
_NONE: Final = int(PathFeedback.NONE)


class Responder:
    """See the module; names are those of table 7-5. `ack_pending`: a transport ACK is owed
    (`flush_ack`). `mpr`: the window that SACKs advertise when the MPR is dynamic."""

    __slots__ = (
        "_accept_below",
        "_arrivals",
        "_buffer",
        "_complete_psn",
        "_limited",
        "_link",
        "_memory",
        "_min_add",
        "_placement",
        "_pmtu",
        "_reassembly",
        "_receives",
        "_reverse",
        "_sack_threshold",
        "_svc_time",
        "_track",
        "ack_pending",
        "bitmap",
        "delivered_bytes",
        "delivered_packets",
        "duplicates",
        "dynamic",
        "max_psn_range",
        "mpr",
        "nacks",
        "rx_rcvd_bytes",
        "sack_trigger_cnt",
        "sacks",
        "trimmed",
    )

    def __init__(
        self,
        link: Link,
        reverse: ReverseEvs,
        memory: MemoryTable,
        placement: Placement,
        buffer: ReceiveBuffer,
    ) -> None:
        first = link.peer.psn
        interop = link.config.interop
        self._link = link
        self._reverse = reverse
        self._memory = memory
        self._placement = placement
        self._buffer = buffer
        self._pmtu = min(link.config.pmtu, link.peer.pmtu)
        self.mpr = link.qp.mpr
        self.max_psn_range = link.qp.mpr * MPR_UNIT
        self._accept_below = self.max_psn_range - (not interop.accept_inclusive)
        self.dynamic = link.qp.dynamic_mpr and link.peer.dynamic_mpr
        self._svc_time = link.qp.svc_time
        receiver = link.config.receiver
        self._track: Callable[[], None] | None = getattr(placement, "track", None)
        self._limited = (
            receiver.drain_bps is not None
            or receiver.ooo_packets is not None
            or receiver.open_messages is not None
            or self._track is not None
        )
        self._arrivals: dict[int, Arrival] = {}  # accepted above the first gap
        self._reassembly = Reassembly(self._pmtu)
        self._receives: deque[int] = deque()
        self._sack_threshold = interop.sack_threshold
        self._min_add = interop.sack_min_add
        self.sack_trigger_cnt = 0
        self._complete_psn = first - 1
        self.ack_pending = False
        self.bitmap = ReceiveBitmap(first)
        self.rx_rcvd_bytes = 0  # nominal bytes of new, untrimmed packets
        self.delivered_packets = self.delivered_bytes = self.duplicates = 0
        self.trimmed = self.sacks = self.nacks = 0

    def post_recv(self, wr_id: int) -> None:
        self._receives.append(wr_id)

    @property
    def cack_psn(self) -> int:
        """Everything up to here has arrived (a number that does not wrap)."""
        return self.bitmap.cack_psn

    # --- data ----------------------------------------------------------------------------------

    def on_data(self, packet: Packet, now: int) -> None:
        """A whole data packet (iCRC checked). Order of checks: section 4.3."""
        bitmap = self.bitmap
        cack = bitmap.cack_psn
        offset = (packet.psn - cack - 1) & PSN_MASK
        if offset >= self._accept_below:
            self._outside(packet, offset, now)
            return
        seq = cack + 1 + offset
        if bitmap.bits >> offset & 1:
            self.duplicates += 1
            self.send_sack(packet, seq, now)
            return
        payload = packet.payload
        length = len(payload)
        if self._limited:
            reason = self._short_of(packet, offset, length, now)
            if reason is not None:
                self._nack(packet, reason)
                if reason is NackReason.UNEXP_EVENT:
                    self._link.fail(Status.LOCAL_ERROR, "cannot track what arrives", now)
                return
        self._reverse.on_inbound(now)
        moved = bitmap.add(seq)
        size = packet.udp_length + NOMINAL_OVERHEAD
        self.rx_rcvd_bytes += size
        least = self._min_add
        self.sack_trigger_cnt += size if size > least else least
        if (
            self.sack_trigger_cnt >= self._sack_threshold
            or packet.a
            or packet.rtx
            or packet.ecn == _CE
        ):
            self.send_sack(packet, seq, now)
        opcode = packet.opcode
        if not self._accept(packet, opcode, payload, length, now):
            return
        self.delivered_packets += 1
        self.delivered_bytes += length
        arrival = (
            opcode, packet.msn, packet.rqmsn, length, packet.va, packet.r_key, packet.dmalen,
            packet.imm,
        )  # fmt: skip
        if not moved:
            self._arrivals[seq] = arrival
            return
        if not self._deliver(seq, arrival, now) or moved == 1:
            return
        arrivals = self._arrivals
        for following in range(seq + 1, seq + moved):
            if not self._deliver(following, arrivals.pop(following), now):
                return

    def _outside(self, packet: Packet, offset: int, now: int) -> None:
        """A PSN that is not in the window: an old duplicate, or out of range (section 4.2)."""
        if offset >= PSN_HALF:
            self.duplicates += 1
            seq = self.bitmap.cack_psn + 1 + offset - (PSN_MASK + 1)
            self.send_sack(packet, seq, now)
            self.ack_pending = True
        elif self._link.config.interop.oor_nack:
            self._nack(packet, NackReason.PSN_OOR_WINDOW)

    def _short_of(self, packet: Packet, offset: int, length: int, now: int) -> NackReason | None:
        """What the host lacks to take a new packet, if anything. The packet that fills the first
        gap needs no tracking, and opens no message beyond the first."""
        receiver = self._link.config.receiver
        if self._track is not None:
            try:
                self._track()
            except TrackingError:
                return NackReason.UNEXP_EVENT
        if offset:
            most = receiver.ooo_packets
            if most is not None and self.bitmap.rx_ooo_count >= most:
                return NackReason.NO_BITMAP
            open_messages = receiver.open_messages
            ahead = (packet.msn - self._reassembly.completed) & 0xFFFF
            if open_messages is not None and ahead >= open_messages:
                return NackReason.NO_RESOURCE
        if not self._buffer.admit(length, now):
            return NackReason.NO_PKT_BUFFER
        return None

    def _accept(
        self, packet: Packet, opcode: int, payload: memoryview, length: int, now: int
    ) -> bool:
        """The RETH check and the payload to its place; False: the QP failed."""
        pmtu = self._pmtu
        if length != pmtu and (length > pmtu or length == 0 or opcode in (FIRST, MIDDLE)):
            return self._refuse(Syndrome.NAK_INVALID_REQUEST, "wrong payload length", now)
        reach = packet.dmalen if opcode in STARTS and packet.dmalen > length else length
        region = self._memory.find(packet.r_key, packet.va, reach)
        if region is None:
            return self._refuse(Syndrome.NAK_REMOTE_ACCESS, "R_Key, permission or bounds", now)
        if opcode in (LAST_IMM, ONLY_IMM):
            ahead = (packet.rqmsn - self._reassembly.imms) & 0xFFFF
            if ahead >= self._link.qp.write_imm_limit:
                return self._refuse(c.WRITE_IMM_LIMIT_SYNDROME, "WriteIMM limit", now)
        try:
            self._placement.place(region, packet.va, payload)
        except PlacementError as error:
            return self._refuse(Syndrome.NAK_REMOTE_OPERATION, str(error), now)
        return True

    def _deliver(self, seq: int, arrival: Arrival, now: int) -> bool:
        """In-order half for a number that cack just passed; False: the QP failed."""
        reassembly = self._reassembly
        verdict = reassembly.feed(arrival)
        if verdict is Verdict.OPEN:
            return True
        if verdict is Verdict.MALFORMED:
            return self._refuse(Syndrome.NAK_INVALID_REQUEST, "malformed message", now)
        if verdict is Verdict.COMPLETE_IMM:
            if not self._receives:
                return self._refuse(Syndrome.NAK_INVALID_REQUEST, "receive queue empty", now)
            self._link.report(
                RecvCompletion(
                    now,
                    self._link.qpn,
                    self._receives.popleft(),
                    Status.SUCCESS,
                    reassembly.imm,
                    reassembly.length,
                )
            )
        self._complete_psn = seq
        self.ack_pending = True
        return True

    def _refuse(self, syndrome: Syndrome, why: str, now: int) -> bool:
        """Transport NAK, and this QP is over (section 4.9)."""
        self.ack_pending = False
        self._ack(syndrome)
        self._link.fail(Status.LOCAL_ERROR, why, now)
        return False

    def flush(self, now: int) -> None:
        """The QP failed: receive work requests are flushed, what waits in order is forgotten."""
        self.ack_pending = False
        self._arrivals.clear()
        link = self._link
        while self._receives:
            link.report(
                RecvCompletion(now, link.qpn, self._receives.popleft(), Status.FLUSHED, 0, 0)
            )

    # --- trimmed packets -----------------------------------------------------------------------

    def on_trimmed(self, packet: Packet, lasthop: bool, now: int) -> None:
        """Section 4.8: only BTH was checked."""
        self.trimmed += 1
        bitmap = self.bitmap
        seq = unwrap(packet.psn, bitmap.cack_psn)
        if bitmap.has(seq):
            self.send_sack(packet, seq, now)
            return
        if seq - bitmap.cack_psn > self.max_psn_range or not self._link.qp.trim_nack:
            return
        self._nack(packet, NackReason.TRIMMED_LASTHOP if lasthop else NackReason.TRIMMED)

    # --- what goes back ------------------------------------------------------------------------

    def send_sack(self, packet: Packet, seq: int, now: int, pr: int = 0, probe_id: int = 0) -> None:
        """A SACK triggered by `packet`, sequence number `seq` (section 4.5); also the answer to a
        reliability probe."""
        link, bitmap = self._link, self.bitmap
        self.sack_trigger_cnt = 0
        self.sacks += 1
        base, bits = bitmap.sack_window()
        cack = bitmap.cack_psn
        if pr:
            offset = probe_id
        else:
            offset = seq - cack
            if not c.ACK_PSN_OFFSET_MIN <= offset <= c.ACK_PSN_OFFSET_MAX:
                offset = c.ACK_PSN_OFFSET_MIN if offset < 0 else c.ACK_PSN_OFFSET_MAX
        port, ev = self._reverse.next()
        peth = packet.peth
        stamp = packet.tx_timestamp if peth is None else peth.tx_timestamp
        if self._svc_time:
            stamp = self._add_service_time(
                stamp, packet.tsr if peth is None else peth.tsr, port, now
            )
        mpr = 0
        if self.dynamic:
            mpr = self._buffer.window(self.mpr, self._pmtu, now)
        penalty = restore = 0
        if self._buffer.limited:
            penalty, restore = self._buffer.feedback(now)
        peer_qpn = link.peer.qpn
        link.nic.control(
            port,
            link.flows[port].sack(
                link.config.dscp.control,
                ev,
                peer_qpn,
                packet.rtx,
                _SKIP_ONCE if packet.ecn == _CE else _NONE,
                pr,
                offset,
                packet.ev,
                link.qpn & PDCID_MASK,
                peer_qpn & PDCID_MASK,
                cack & PSN_MASK,
                mpr,
                base - cack,
                bits,
                stamp,
                min(bitmap.rx_ooo_count, 0x7FFF),
                restore,
                penalty,
                (self.rx_rcvd_bytes + 255 >> 8) & 0xFFFFFF,
            ),
        )

    def _add_service_time(self, stamp: int, tsr: int, port: int, now: int) -> int:
        """The stamp later by how long we keep the packet (#24); only 128 ns ticks are ours to
        change."""
        if tsr:
            return stamp
        link = self._link
        stay = link.nic.departure(port, now) - now
        return (stamp + stay // link.config.tick_ns) & 0xFFFF

    def on_probe(self, packet: Packet, now: int) -> None:
        """A reliability probe: a SACK at once (section 4.7)."""
        if packet.peth is not None:
            self.send_sack(packet, self.bitmap.cack_psn, now, 1, packet.peth.probe_id)

    def _nack(self, packet: Packet, reason: NackReason) -> None:
        link = self._link
        self.nacks += 1
        port, ev = self._reverse.next()
        link.nic.control(
            port,
            link.flows[port].nack(
                link.config.dscp.control,
                ev,
                link.peer.qpn,
                Neth(
                    reason,
                    packet.ev,
                    packet.psn,
                    packet.tx_timestamp,
                    spdcid=link.qpn & PDCID_MASK,
                    dpdcid=link.peer.qpn & PDCID_MASK,
                    cc_type=link.config.interop.neth_cc_type,
                ),
            ),
        )

    def flush_ack(self) -> None:
        """One transport ACK for all that completed since the last (section 4.4)."""
        self.ack_pending = False
        self._ack(Syndrome.ACK)

    def _ack(self, syndrome: Syndrome) -> None:
        link = self._link
        port, ev = self._reverse.next()
        link.nic.control(
            port,
            link.flows[port].ack(
                link.config.dscp.control,
                ev,
                link.peer.qpn,
                self._complete_psn & PSN_MASK,
                Aeth(syndrome, self._reassembly.completed & 0xFFFFFF),
            ),
        )
