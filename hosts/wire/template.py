"""Whole frames from a per-peer template: Ethernet / IPv6 or IPv4 / UDP / BTH / ... / iCRC.

One `FlowTemplate` per (local port, peer address). Everything constant is packed once; per
length, the CRC of the constant start is kept, so a frame costs one `struct` pack, the CRC of
what changes, and one join.
"""

from __future__ import annotations

import struct
from ipaddress import ip_address
from typing import Final
from zlib import crc32

from hosts.wire.constants import (
    BTH_BYTES,
    ETHERTYPE_IPV4,
    ETHERTYPE_IPV6,
    ICRC_BYTES,
    IPV4_BYTES,
    NEXT_HEADER_UDP,
    OPCODE_MRC,
    P_KEY,
    UDP_BYTES,
    UDP_PORT,
    EvPacking,
    Opcode,
)
from hosts.wire.entropy import split_ev
from hosts.wire.headers import Aeth, Buffer, Eeth, Erth, Neth, Peth
from hosts.wire.icrc import MaskDelta

# Ethernet + label word + payload length + (next header, hop limit, addresses) + UDP + BTH
_V6: Final = struct.Struct("!14sIH34sHHHHIII")
_V6_DATA: Final = struct.Struct("!14sIH34sHHHHIIIHHHHQII")
_V6_SACK: Final = struct.Struct("!14sIH34sHHHHIIIHHIHHIHhQHHI")
_TAIL: Final = struct.Struct("!HHHHIII")  # UDP + BTH
_DATA_EXT: Final = struct.Struct("!HHHHQII")
_DATA_EXT_NO_TSETH: Final = struct.Struct("!HHQII")
_SACK_EXT: Final = struct.Struct("!HHIHHIHhQHHI")
_V6_START: Final = b"\xff" * 8 + b"\x6f\xff\xff\xff"
_PADS: Final = (b"", b"\0\0\0", b"\0\0", b"\0")  # by payload length modulo 4

_BARE: Final = UDP_BYTES + BTH_BYTES + ICRC_BYTES
_DATA: Final = _BARE + _DATA_EXT.size
_SACK: Final = _BARE + _SACK_EXT.size


def mac_bytes(mac: str | bytes) -> bytes:
    """Six bytes of a MAC address. Raises ValueError."""
    raw = mac if isinstance(mac, bytes) else bytes.fromhex(mac.replace(":", ""))
    if len(raw) != 6:
        raise ValueError(f"not a MAC address: {mac!r}")
    return raw


def ip_bytes(address: str | bytes) -> bytes:
    """4 or 16 bytes of an IP address. Raises ValueError."""
    return ip_address(address).packed


class FlowTemplate:
    """Frames from one local port to one peer address.

    All builders return a complete frame. Arguments are trusted to fit their fields
    (`struct.error` otherwise); `ev` must be a 32-bit value, and with IPv4 or packing LABEL20
    what does not fit raises ValueError.
    """

    __slots__ = (
        "_addresses",
        "_crc",
        "_dport",
        "_eth",
        "_hop_limit",
        "_ip_sum",
        "_packing",
        "_plain_v6",
        "_v6",
        "_w0",
        "dst_ip",
        "src_ip",
    )

    def __init__(
        self,
        src_mac: str | bytes,
        dst_mac: str | bytes,
        src_ip: str | bytes,
        dst_ip: str | bytes,
        udp_port: int = UDP_PORT,
        *,
        packing: EvPacking = EvPacking.LABEL_HIGH,
        hop_limit: int = 64,
        p_key: int = P_KEY,
    ) -> None:
        self.src_ip = ip_bytes(src_ip)
        self.dst_ip = ip_bytes(dst_ip)
        if len(self.src_ip) != len(self.dst_ip):
            raise ValueError(f"IP versions differ: {src_ip!r} and {dst_ip!r}")
        self._v6 = len(self.src_ip) == 16
        self._packing = packing
        self._plain_v6 = self._v6 and packing == EvPacking.LABEL_HIGH
        ethertype = ETHERTYPE_IPV6 if self._v6 else ETHERTYPE_IPV4
        self._eth = mac_bytes(dst_mac) + mac_bytes(src_mac) + ethertype.to_bytes(2, "big")
        self._addresses = bytes((NEXT_HEADER_UDP, hop_limit)) + self.src_ip + self.dst_ip
        self._hop_limit = hop_limit
        self._dport = udp_port
        self._w0 = p_key
        words = struct.unpack("!4H", self.src_ip + self.dst_ip) if not self._v6 else ()
        self._ip_sum = 0x4500 + 0x4000 + (hop_limit << 8 | NEXT_HEADER_UDP) + sum(words)
        self._crc: dict[int, tuple[int, int]] = {}

    # -- data ---------------------------------------------------------------------------------

    def data(
        self,
        opcode: int,
        dscp: int,
        ecn: int,
        ev: int,
        dqp: int,
        psn: int,
        a: int,
        rtx: int,
        rqmsn: int,
        msn: int,
        tx_timestamp: int | None,
        va: int,
        r_key: int,
        dmalen: int,
        payload: Buffer,
        imm: int | None = None,
        tsr: int = 0,
    ) -> bytes:
        """A WRITE packet: METH, TSETH (absent when tx_timestamp is None), RETH, ImmDt (when
        `imm` is given), payload. `va` is this packet's address, `dmalen` the message's length."""
        size = len(payload)
        w0 = opcode << 24 | (-size & 3) << 20 | self._w0
        w2 = a << 31 | rtx << 29 | psn
        if self._plain_v6 and tx_timestamp is not None and imm is None:
            length = _DATA + size + (-size & 3)
            head = _V6_DATA.pack(
                self._eth,
                0x60000000 | dscp << 22 | ecn << 20 | ev >> 16,
                length,
                self._addresses,
                ev & 0xFFFF,
                self._dport,
                length,
                0,
                w0,
                dqp,
                w2 | 0x10000000,
                rqmsn,
                msn,
                tx_timestamp,
                tsr << 15 | 1,
                va,
                r_key,
                dmalen,
            )
            start, delta = self._crc.get(length) or self._start_crc(length)
            if size & 3:
                payload = b"".join((payload, _PADS[size & 3]))
            crc = crc32(payload, crc32(head[54:], start)) ^ delta
            return b"".join((head, payload, crc.to_bytes(4, "little")))
        if tx_timestamp is None:
            ext = _DATA_EXT_NO_TSETH.pack(rqmsn, msn, va, r_key, dmalen)
        else:
            w2 |= 0x10000000
            ext = _DATA_EXT.pack(rqmsn, msn, tx_timestamp, tsr << 15 | 1, va, r_key, dmalen)
        if imm is not None:
            ext += imm.to_bytes(4, "big")
        rest = b"".join((ext, payload, _PADS[size & 3]))
        return self._frame(dscp << 2 | ecn, ev, w0, dqp, w2, rest)

    # -- control ------------------------------------------------------------------------------

    def sack(
        self,
        dscp: int,
        ev: int,
        dqp: int,
        rtx: int,
        m: int,
        pr: int,
        ack_psn_offset: int,
        entropy: int,
        spdcid: int,
        dpdcid: int,
        cack_psn: int,
        mpr: int,
        sack_offset: int,
        sack_bitmap: int,
        tx_timestamp: int,
        ooo_count: int,
        restore_cwnd: int,
        rcv_cwnd_pen: int,
        rcvd_bytes: int,
    ) -> bytes:
        """Reliability SACK: SETH + CC_STATE. With pr=1 give the probe id as ack_psn_offset.
        BTH.psn is cack_psn; rcvd_bytes in units of 256 bytes, already modulo 2**24."""
        w0 = Opcode.SACK << 24 | self._w0
        if not self._plain_v6:
            ext = _SACK_EXT.pack(
                m << 5 | pr << 1,
                ack_psn_offset & 0xFFFF,
                entropy,
                spdcid,
                dpdcid,
                cack_psn,
                mpr,
                sack_offset,
                sack_bitmap,
                tx_timestamp,
                ooo_count,
                restore_cwnd << 31 | rcv_cwnd_pen << 24 | rcvd_bytes,
            )
            return self._frame(dscp << 2, ev, w0, dqp, rtx << 29 | cack_psn, ext)
        head = _V6_SACK.pack(
            self._eth,
            0x60000000 | dscp << 22 | ev >> 16,
            _SACK,
            self._addresses,
            ev & 0xFFFF,
            self._dport,
            _SACK,
            0,
            w0,
            dqp,
            rtx << 29 | cack_psn,
            m << 5 | pr << 1,
            ack_psn_offset & 0xFFFF,
            entropy,
            spdcid,
            dpdcid,
            cack_psn,
            mpr,
            sack_offset,
            sack_bitmap,
            tx_timestamp,
            ooo_count,
            restore_cwnd << 31 | rcv_cwnd_pen << 24 | rcvd_bytes,
        )
        start, delta = self._crc.get(_SACK) or self._start_crc(_SACK)
        return head + (crc32(head[54:], start) ^ delta).to_bytes(4, "little")

    def nack(self, dscp: int, ev: int, dqp: int, neth: Neth) -> bytes:
        """Reliability NACK; BTH.psn is neth.nack_psn."""
        return self.control(Opcode.NACK, dscp, 0, ev, dqp, neth.nack_psn, neth.pack())

    def ack(self, dscp: int, ev: int, dqp: int, psn: int, aeth: Aeth) -> bytes:
        """Transport ACK or NAK (section 4.4)."""
        return self.control(Opcode.ACK, dscp, 0, ev, dqp, psn, aeth.pack())

    def probe(self, dscp: int, ecn: int, ev: int, dqp: int, peth: Peth, psn: int = 0) -> bytes:
        """Reliability probe request (section 4.7); BTH.psn is 0, or what some repeat there."""
        return self.control(Opcode.PROBE, dscp, ecn, ev, dqp, psn, peth.pack())

    def endpoint_request(self, dscp: int, ecn: int, ev: int, request_id: int, erth: Erth) -> bytes:
        """Endpoint request (section 6), matched by its 16-bit id."""
        return self.control(
            Opcode.ENDPOINT_REQUEST, dscp, ecn, ev, 2, request_id & 0xFFFF, erth.pack()
        )

    def endpoint_response(self, dscp: int, ev: int, request_id: int, eeth: Eeth) -> bytes:
        """Answer to an endpoint request, echoing its id."""
        return self.control(
            Opcode.ENDPOINT_RESPONSE, dscp, 0, ev, 2, request_id & 0xFFFF, eeth.pack()
        )

    def control(
        self,
        opcode: int,
        dscp: int,
        ecn: int,
        ev: int,
        dqp: int,
        psn: int,
        ext: bytes,
        *,
        a: int = 0,
        rtx: int = 0,
    ) -> bytes:
        """Any packet whose extension headers (a multiple of 4 bytes) are given packed."""
        if opcode >> 5 != OPCODE_MRC:
            raise ValueError(f"opcode {opcode:#x} is not an MRC opcode")
        return self._frame(
            dscp << 2 | ecn, ev, opcode << 24 | self._w0, dqp, a << 31 | rtx << 29 | psn, ext
        )

    # -- inside -------------------------------------------------------------------------------

    def _frame(self, tc: int, ev: int, w0: int, w1: int, w2: int, rest: bytes) -> bytes:
        """BTH words and all that follows BTH, without iCRC, to a frame."""
        label, sport = split_ev(ev, self._packing)
        length = _BARE + len(rest)
        start, delta = self._crc.get(length) or self._start_crc(length)
        tail = _TAIL.pack(sport, self._dport, length, 0, w0, w1, w2) + rest
        if self._v6:
            ip = struct.pack("!IH34s", 0x60000000 | tc << 20 | label, length, self._addresses)
        else:
            if label and (self._packing != EvPacking.LABEL20 or label > 0xFFFF):
                raise ValueError(f"EV {ev:#x}: IPv4 carries only its source port half")
            ip = self._ipv4(tc, IPV4_BYTES + length)
        crc = crc32(tail, start) ^ delta
        return b"".join((self._eth, ip, tail, crc.to_bytes(4, "little")))

    def _ipv4(self, tos: int, total: int) -> bytes:
        """IPv4 header without options: id 0, don't fragment."""
        folded = self._ip_sum + tos + total
        folded = (folded & 0xFFFF) + (folded >> 16)
        folded = (folded & 0xFFFF) + (folded >> 16)
        return (
            struct.pack(
                "!BBHHHBBH",
                0x45,
                tos,
                total,
                0,
                0x4000,
                self._hop_limit,
                NEXT_HEADER_UDP,
                folded ^ 0xFFFF,
            )
            + self._addresses[2:]
        )

    def _start_crc(self, length: int) -> tuple[int, int]:
        """CRC of the masked IP header for a UDP length, and the tail's mask delta; kept."""
        if self._v6:
            start = (
                _V6_START
                + length.to_bytes(2, "big")
                + bytes((NEXT_HEADER_UDP, 0xFF))
                + self._addresses[2:]
            )
        else:
            start = b"".join(
                (
                    b"\xff" * 8 + b"\x45\xff",
                    (IPV4_BYTES + length).to_bytes(2, "big"),
                    b"\0\0\x40\0\xff\x11\xff\xff",
                    self._addresses[2:],
                )
            )
        entry = crc32(start), MaskDelta.of(length - ICRC_BYTES)
        self._crc[length] = entry
        return entry
