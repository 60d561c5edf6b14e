"""The receiving half of a QP: data packets to memory, SACKs and NACKs back (sections 4.2 - 4.5)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from hosts.core import constants as c
from hosts.core.bitmap import ReceiveBitmap
from hosts.core.events import RecvCompletion, Status
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
from hosts.core.psn import unwrap
from hosts.wire.constants import (
    MPR_UNIT,
    NOMINAL_OVERHEAD,
    PSN_MASK,
    Ecn,
    NackReason,
    PathFeedback,
    Syndrome,
)
from hosts.wire.headers import Aeth, Neth

if TYPE_CHECKING:
    from hosts.core.link import Link
    from hosts.core.memory import MemoryTable, Placement
    from hosts.core.reverse_ev import ReverseEvs
    from hosts.wire.parse import Packet

_CE = int(Ecn.CE)
_SKIP_ONCE = int(PathFeedback.SKIP_ONCE)
_NONE = int(PathFeedback.NONE)


class Responder:
    """See the module. `ack_pending`: a transport ACK is owed (`flush_ack`)."""

    __slots__ = (
        "_arrivals",
        "_complete_seq",
        "_flush",
        "_link",
        "_mask",
        "_memory",
        "_mpr",
        "_placement",
        "_pmtu",
        "_reassembly",
        "_receives",
        "_reverse",
        "_sack_count",
        "_threshold",
        "ack_pending",
        "bitmap",
        "delivered_bytes",
        "delivered_packets",
        "duplicates",
        "rcvd_bytes",
        "sacks",
        "trimmed",
    )

    def __init__(
        self,
        link: Link,
        reverse: ReverseEvs,
        memory: MemoryTable,
        placement: Placement,
    ) -> None:
        first = link.peer.psn
        self._link = link
        self._reverse = reverse
        self._memory = memory
        self._placement = placement
        self._pmtu = min(link.config.pmtu, link.peer.pmtu)
        self._mpr = link.qp.mpr * MPR_UNIT
        size = 1 << self._mpr.bit_length()
        self._mask = size - 1
        self._arrivals: list[Arrival | None] = [None] * size
        self._reassembly = Reassembly(self._pmtu)
        self._receives: deque[int] = deque()
        self._threshold = link.config.sack_threshold
        self._sack_count = 0
        self._complete_seq = first - 1
        self.ack_pending = False
        self.bitmap = ReceiveBitmap(first)
        self.rcvd_bytes = 0  # nominal bytes of new, untrimmed packets
        self.delivered_packets = self.delivered_bytes = self.duplicates = 0
        self.trimmed = self.sacks = 0

    def post_recv(self, wr_id: int) -> None:
        self._receives.append(wr_id)

    # --- data ----------------------------------------------------------------------------------

    def on_data(self, packet: Packet, now: int) -> None:
        """A whole data packet (iCRC checked). Order of checks: section 4.3."""
        bitmap = self.bitmap
        cack = bitmap.cack
        seq = unwrap(packet.psn, cack)
        offset = seq - cack - 1
        if offset < 0:
            self.duplicates += 1
            self.send_sack(packet, seq, now)
            self.ack_pending = True
            return
        if offset >= self._mpr:
            self._nack(packet, NackReason.PSN_OOR_WINDOW, now)
            return
        if bitmap.bits >> offset & 1:
            self.duplicates += 1
            self.send_sack(packet, seq, now)
            return
        self._reverse.on_inbound(now)
        payload = packet.payload
        length = len(payload)
        opcode = packet.opcode
        moved = bitmap.add(seq)
        size = packet.udp_length + NOMINAL_OVERHEAD
        self.rcvd_bytes += size
        self._arrivals[seq & self._mask] = (
            opcode, packet.msn, packet.rqmsn, length, packet.va, packet.r_key, packet.dmalen,
            packet.imm,
        )  # fmt: skip
        trigger = packet.a or packet.rtx or packet.ecn == _CE
        self._sack_count += size if size > c.SACK_MIN_ADD_BYTES else c.SACK_MIN_ADD_BYTES
        if trigger or self._sack_count >= self._threshold:
            self.send_sack(packet, seq, now)
        if not self._accept(packet, opcode, payload, length, now):
            return
        self.delivered_packets += 1
        self.delivered_bytes += length
        if moved and not self._deliver(cack + 1, cack + moved, now):
            return

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
                return self._refuse(Syndrome.NAK_INVALID_REQUEST, "WriteIMM limit", now)
        self._placement.place(region, packet.va, payload)
        return True

    def _deliver(self, first: int, last: int, now: int) -> bool:
        """In-order half for what cack just passed; False: the QP failed."""
        arrivals, mask, reassembly = self._arrivals, self._mask, self._reassembly
        for seq in range(first, last + 1):
            arrival = arrivals[seq & mask]
            assert arrival is not None
            verdict = reassembly.feed(arrival)
            if verdict is Verdict.OPEN:
                continue
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
            self._complete_seq = seq
            self.ack_pending = True
        return True

    def _refuse(self, syndrome: Syndrome, why: str, now: int) -> bool:
        """Transport NAK, and this QP is over (section 4.9)."""
        link = self._link
        self.ack_pending = False
        port, ev = self._reverse.next()
        link.nic.control(
            port,
            link.flows[port].ack(
                link.config.dscp.control,
                ev,
                link.peer.qpn,
                self._complete_seq & PSN_MASK,
                Aeth(syndrome, self._reassembly.completed & 0xFFFFFF),
            ),
        )
        link.fail(Status.LOCAL_ERROR, why, now)
        return False

    # --- trimmed packets -----------------------------------------------------------------------

    def on_trimmed(self, packet: Packet, lasthop: bool, now: int) -> None:
        """Section 4.8: only BTH was checked."""
        self.trimmed += 1
        bitmap = self.bitmap
        seq = unwrap(packet.psn, bitmap.cack)
        if bitmap.has(seq):
            self.send_sack(packet, seq, now)
            return
        if seq - bitmap.cack > self._mpr or not self._link.qp.trim_nack:
            return
        self._nack(packet, NackReason.TRIMMED_LASTHOP if lasthop else NackReason.TRIMMED, now)

    # --- what goes back ------------------------------------------------------------------------

    def send_sack(self, packet: Packet, seq: int, now: int, pr: int = 0, probe_id: int = 0) -> None:
        """A SACK triggered by `packet`, sequence number `seq` (section 4.5); also the answer to a
        reliability probe."""
        link, bitmap = self._link, self.bitmap
        self._sack_count = 0
        self.sacks += 1
        base, bits = bitmap.sack_window()
        cack = bitmap.cack
        if pr:
            offset = probe_id
        else:
            offset = seq - cack
            if not c.ACK_PSN_OFFSET_MIN <= offset <= c.ACK_PSN_OFFSET_MAX:
                offset = c.ACK_PSN_OFFSET_MIN if offset < 0 else c.ACK_PSN_OFFSET_MAX
        port, ev = self._reverse.next()
        link.nic.control(
            port,
            link.flows[port].sack(
                link.config.dscp.control,
                ev,
                link.peer.qpn,
                packet.rtx,
                _SKIP_ONCE if packet.ecn == _CE else _NONE,
                pr,
                offset,
                packet.ev,
                link.qpn & 0xFFFF,
                link.peer.qpn & 0xFFFF,
                cack & PSN_MASK,
                link.qp.mpr if link.qp.dynamic_mpr and link.peer.dynamic_mpr else 0,
                base - cack,
                bits,
                packet.peth.tx_timestamp if packet.peth is not None else packet.tx_timestamp,
                min(bitmap.ooo_count, 0x7FFF),
                0,
                0,
                (self.rcvd_bytes + 255 >> 8) & 0xFFFFFF,
            ),
        )

    def on_probe(self, packet: Packet, now: int) -> None:
        """A reliability probe: a SACK at once (section 4.7)."""
        if packet.peth is not None:
            self.send_sack(packet, self.bitmap.cack, now, 1, packet.peth.probe_id)

    def _nack(self, packet: Packet, reason: NackReason, now: int) -> None:
        link = self._link
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
                    spdcid=link.qpn & 0xFFFF,
                    dpdcid=link.peer.qpn & 0xFFFF,
                ),
            ),
        )

    def flush_ack(self) -> None:
        """One transport ACK for all that completed since the last (section 4.4)."""
        self.ack_pending = False
        completed = self._reassembly.completed
        if not completed:
            return
        link = self._link
        port, ev = self._reverse.next()
        link.nic.control(
            port,
            link.flows[port].ack(
                link.config.dscp.control,
                ev,
                link.peer.qpn,
                self._complete_seq & PSN_MASK,
                Aeth(Syndrome.ACK, completed & 0xFFFFFF),
            ),
        )
