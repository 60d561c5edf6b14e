"""Frames to packets: every byte string is survivable (reference sections 1-3).

`parse` reads what is there and judges nothing but "is it MRC at all": unknown opcodes, wrong
lengths and bad iCRCs are attributes, because the endpoint counts each of them, and because a
trimmed packet legitimately has no iCRC, a stale length and maybe no RETH.
"""

from __future__ import annotations

import struct
from typing import Final

from hosts.wire.constants import (
    ETHERTYPE_IPV4,
    ETHERTYPE_IPV6,
    NEXT_HEADER_IPV6,
    NEXT_HEADER_ROUTING,
    NEXT_HEADER_UDP,
    NOMINAL_OVERHEAD,
    UDP_PORTS,
    EvPacking,
    Opcode,
)
from hosts.wire.entropy import join_ev
from hosts.wire.headers import Aeth, Buffer, CcState, Eeth, Erth, Neth, Peth, Seth
from hosts.wire.icrc import icrc_ip

_V6_FROM_TYPE: Final = struct.Struct("!HIHBB16s16sHHHHBBHII")  # ethertype ... BTH, from byte 12
_UDP_BTH: Final = struct.Struct("!HHHHBBHII")
_V6: Final = struct.Struct("!IHBB16s16s")
_V4: Final = struct.Struct("!BBHHHBBH4s4s")
_DATA: Final = struct.Struct("!HHHHQII")  # METH, TSETH, RETH
_METH: Final = struct.Struct("!HH")
_RETH: Final = struct.Struct("!QII")
_WORD: Final = struct.Struct("!I")
_EMPTY: Final = memoryview(b"")

# What follows BTH, by opcode.
_DATA_KIND: Final = 1
_IMM_KIND: Final = 2
_ACK: Final = 3
_REQUEST: Final = 4
_RESPONSE: Final = 5
_SACK: Final = 6
_NACK: Final = 7
_PROBE: Final = 8
_KIND: Final = [0] * 256
for _op in (Opcode.WRITE_FIRST, Opcode.WRITE_MIDDLE, Opcode.WRITE_LAST, Opcode.WRITE_ONLY):
    _KIND[_op] = _DATA_KIND
_KIND[Opcode.WRITE_LAST_IMM] = _KIND[Opcode.WRITE_ONLY_IMM] = _IMM_KIND
_KIND[Opcode.ACK] = _ACK
_KIND[Opcode.ENDPOINT_REQUEST] = _REQUEST
_KIND[Opcode.ENDPOINT_RESPONSE] = _RESPONSE
_KIND[Opcode.SACK] = _SACK
_KIND[Opcode.NACK] = _NACK
_KIND[Opcode.PROBE] = _PROBE
_EXT_BYTES: Final = {_ACK: 4, _REQUEST: 16, _RESPONSE: 36, _SACK: 36, _NACK: 20, _PROBE: 16}


class Packet:
    """One received packet. Valid as long as the buffer it was parsed from.

    known       BTH.opcode is one of section 2.1; False: nothing after BTH was read
    headers_ok  all the opcode's headers are there (a trimmed packet may lack RETH)
    has_tseth   TSETH is there; tx_timestamp and tsr are 0 otherwise
    length_ok   captured, IP and UDP lengths agree and hold headers, pad and iCRC
    payload     data between headers and pad; empty unless headers_ok and length_ok
    rqmsn ... dmalen are 0 and imm None where the header is absent; seth, cc_state, neth, peth,
    erth, eeth, aeth are None unless the opcode carries them and headers_ok.

    What a plain data packet never has is a default of the class: half of a receiver's time goes
    into filling these objects.
    """

    __slots__ = (
        "a",
        "dmalen",
        "dqp",
        "dscp",
        "dst_ip",
        "ecn",
        "ev",
        "flags",
        "frame",
        "ip_offset",
        "length_ok",
        "msn",
        "opcode",
        "p_key",
        "payload",
        "psn",
        "r_key",
        "rqmsn",
        "rtx",
        "src_ip",
        "tsr",
        "tx_timestamp",
        "udp_length",
        "udp_offset",
        "va",
    )

    frame: Buffer
    ip_offset: int
    udp_offset: int
    src_ip: bytes
    dst_ip: bytes
    dscp: int
    ecn: int
    udp_length: int
    ev: int
    opcode: int
    flags: int
    p_key: int
    dqp: int
    a: int
    rtx: int
    psn: int
    length_ok: bool
    rqmsn: int
    msn: int
    tx_timestamp: int
    tsr: int
    va: int
    r_key: int
    dmalen: int
    payload: memoryview

    known: bool = True
    headers_ok: bool = True
    has_tseth: bool = True
    imm: int | None = None
    aeth: Aeth | None = None
    seth: Seth | None = None
    cc_state: CcState | None = None
    neth: Neth | None = None
    peth: Peth | None = None
    erth: Erth | None = None
    eeth: Eeth | None = None

    @property
    def ts(self) -> int:
        """BTH.ts: TSETH is present."""
        return self.frame[self.udp_offset + 16] >> 4 & 1

    @property
    def sport(self) -> int:
        return self.frame[self.udp_offset] << 8 | self.frame[self.udp_offset + 1]

    @property
    def dport(self) -> int:
        return self.frame[self.udp_offset + 2] << 8 | self.frame[self.udp_offset + 3]

    @property
    def flow_label(self) -> int:
        """Of the innermost IPv6 header; 0 on IPv4."""
        frame, ip = self.frame, self.ip_offset
        if frame[ip] >> 4 == 4:
            return 0
        return (frame[ip + 1] & 15) << 16 | frame[ip + 2] << 8 | frame[ip + 3]

    @property
    def hop_limit(self) -> int:
        """Of the innermost IP header."""
        ip = self.ip_offset
        return self.frame[ip + (8 if self.frame[ip] >> 4 == 4 else 7)]

    @property
    def tver(self) -> int:
        return self.flags & 15

    @property
    def nominal_size(self) -> int:
        """Bytes this packet counts for (section 5.1)."""
        return self.udp_length + NOMINAL_OVERHEAD

    @property
    def src_mac(self) -> bytes:
        return bytes(self.frame[6:12])

    @property
    def length_rewritten(self) -> bool:
        """Whether the UDP length says what was captured: a switch that trimmed may repair it."""
        end = self.udp_offset + self.udp_length
        return end == len(self.frame) or end <= len(self.frame) <= 60

    def icrc_ok(self) -> bool:
        """Whether the lengths hold and the iCRC is right. Costs a pass over the packet."""
        if not self.length_ok:
            return False
        end = self.udp_offset + self.udp_length - 4
        sent = int.from_bytes(self.frame[end : end + 4], "little")
        return icrc_ip(self.frame, self.ip_offset, self.udp_offset, end) == sent


class OtherPacket(Packet):
    """Any packet but a plain data packet: all the fields that those have not."""

    __slots__ = (
        "aeth",
        "cc_state",
        "eeth",
        "erth",
        "has_tseth",
        "headers_ok",
        "imm",
        "known",
        "neth",
        "peth",
        "seth",
    )

    def __init__(self) -> None:
        self.known = self.headers_ok = True
        self.has_tseth = False
        self.imm = None
        self.aeth = None
        self.seth = None
        self.cc_state = None
        self.neth = None
        self.peth = None
        self.erth = None
        self.eeth = None


def parse(
    frame: Buffer,
    packing: EvPacking = EvPacking.LABEL_HIGH,
    ports: frozenset[int] = UDP_PORTS,
) -> Packet | None:
    """The MRC packet in an Ethernet frame, or None when it holds none: not UDP over IPv6 (plain,
    or inside IPv6 with or without SRH) or over IPv4, another UDP port, a fragment, cut before
    the end of BTH, or an opcode that is not MRC's. Never raises, whatever the bytes."""
    size = len(frame)
    if size < 54:
        return None
    if size >= 74:
        (
            ethertype,
            word,
            plen,
            next_header,
            _,
            src,
            dst,
            sport,
            dport,
            ulen,
            _,
            opcode,
            flags,
            p_key,
            w1,
            w2,
        ) = _V6_FROM_TYPE.unpack_from(frame, 12)
        plain = ethertype == ETHERTYPE_IPV6 and next_header == NEXT_HEADER_UDP and word >> 28 == 6
    else:
        plain = False
    if plain:
        ip = 14
        udp = 54
        tc = word >> 20 & 0xFF
        label = word & 0xFFFFF
        room = plen
    else:
        outer = _find_udp(frame, size)
        if outer is None:
            return None
        ip, udp, room, tc, label, src, dst = outer
        if size < udp + 20:
            return None
        sport, dport, ulen, _, opcode, flags, p_key, w1, w2 = _UDP_BTH.unpack_from(frame, udp)
    if dport not in ports or opcode >> 5 != 6:
        return None

    kind = _KIND[opcode]
    at = udp + 20
    packet: Packet
    if kind == _DATA_KIND and w2 & 0x10000000 and size >= at + 24:  # the common case, inlined
        packet = Packet()
        (
            packet.rqmsn,
            packet.msn,
            packet.tx_timestamp,
            tail,
            packet.va,
            packet.r_key,
            packet.dmalen,
        ) = _DATA.unpack_from(frame, at)
        packet.tsr = tail >> 15
        at += 24
    else:
        other = packet = OtherPacket()
        other.rqmsn = other.msn = other.tx_timestamp = other.tsr = 0
        other.va = other.r_key = other.dmalen = 0
        other.known = kind != 0
        if kind in (_DATA_KIND, _IMM_KIND):
            at = _read_data(other, frame, at, size, w2 >> 28 & 1, kind == _IMM_KIND)
        else:
            at = _read_control(other, frame, at, size, kind)
    packet.frame = frame
    packet.ip_offset = ip
    packet.udp_offset = udp
    packet.src_ip = src
    packet.dst_ip = dst
    packet.dscp = tc >> 2
    packet.ecn = tc & 3
    packet.udp_length = ulen
    if packing == 0:
        packet.ev = (label & 0xFFFF) << 16 | sport
    else:
        packet.ev = join_ev(label, sport, packing)
    packet.opcode = opcode
    packet.flags = flags
    packet.p_key = p_key
    packet.dqp = w1 & 0xFFFFFF
    packet.a = w2 >> 31
    packet.rtx = w2 >> 29 & 1
    packet.psn = w2 & 0xFFFFFF
    end = udp + ulen
    pad = flags >> 4 & 3
    if packet.headers_ok and ulen == room and end <= size and at + pad + 4 <= end:
        packet.length_ok = True
        packet.payload = memoryview(frame)[at : end - 4 - pad]
    else:
        packet.length_ok = False
        packet.payload = _EMPTY
    return packet


def _read_data(packet: OtherPacket, frame: Buffer, at: int, size: int, ts: int, imm: bool) -> int:
    """METH, [TSETH], RETH, [ImmDt] as far as they were captured; the offset after them."""
    packet.headers_ok = False
    if size < at + 4:
        return at
    packet.rqmsn, packet.msn = _METH.unpack_from(frame, at)
    at += 4
    if ts:
        if size < at + 4:
            return at
        packet.tx_timestamp, tail = _METH.unpack_from(frame, at)
        packet.tsr = tail >> 15
        packet.has_tseth = True
        at += 4
    if size < at + 16:
        return at
    packet.va, packet.r_key, packet.dmalen = _RETH.unpack_from(frame, at)
    at += 16
    if imm:
        if size < at + 4:
            return at
        (packet.imm,) = _WORD.unpack_from(frame, at)
        at += 4
    packet.headers_ok = True
    return at


def _read_control(packet: OtherPacket, frame: Buffer, at: int, size: int, kind: int) -> int:
    """The extension header of a control opcode; the offset after it."""
    after = at + _EXT_BYTES.get(kind, 0)
    packet.headers_ok = kind != 0 and size >= after
    if not packet.headers_ok:
        return after
    if kind == _SACK:
        packet.seth = Seth.unpack(frame, at)
        packet.cc_state = CcState.unpack(frame, at + 28)
    elif kind == _NACK:
        packet.neth = Neth.unpack(frame, at)
    elif kind == _ACK:
        packet.aeth = Aeth.unpack(frame, at)
    elif kind == _PROBE:
        packet.peth = Peth.unpack(frame, at)
    elif kind == _REQUEST:
        packet.erth = Erth.unpack(frame, at)
    else:
        packet.eeth = Eeth.unpack(frame, at)
    return after


_Found = tuple[int, int, int, int, int, bytes, bytes]


def _find_udp(frame: Buffer, size: int) -> _Found | None:
    """(ip offset, udp offset, UDP bytes by the IP length, tc, label, src, dst) of the
    innermost IP packet: IPv4, or IPv6 once encapsulated in IPv6 (section 1).

    Switches mark and trim by the outer header: the DSCP of an encapsulated packet is the outer one,
    and it is CE when either header is (RFC 6040)."""
    ethertype = frame[12] << 8 | frame[13]
    ip = 14
    if ethertype == ETHERTYPE_IPV4:
        return _ipv4(frame, ip, size)
    if ethertype != ETHERTYPE_IPV6 or size < ip + 40:
        return None
    header = frame[ip + 6]
    if header == NEXT_HEADER_UDP:
        return _ipv6(frame, ip, size)
    after = ip + 40
    if header == NEXT_HEADER_ROUTING:
        if size < after + 8:
            return None
        header = frame[after]
        after += 8 + 8 * frame[after + 1]
    found = _ipv6(frame, after, size) if header == NEXT_HEADER_IPV6 else None
    if found is None:
        return None
    inner, outer = found[3], (frame[ip] << 8 | frame[ip + 1]) >> 4 & 0xFF
    tc = outer & 0xFC | (3 if outer & 3 == 3 else inner & 3)
    return (*found[:3], tc, *found[4:])


def _ipv6(frame: Buffer, ip: int, size: int) -> _Found | None:
    if size < ip + 40:
        return None
    word, plen, header, _, src, dst = _V6.unpack_from(frame, ip)
    if word >> 28 != 6 or header != NEXT_HEADER_UDP:
        return None
    return ip, ip + 40, plen, word >> 20 & 0xFF, word & 0xFFFFF, src, dst


def _ipv4(frame: Buffer, ip: int, size: int) -> _Found | None:
    version, tos, total, _, fragment, _, protocol, _, src, dst = _V4.unpack_from(frame, ip)
    header = (version & 15) * 4
    if version >> 4 != 4 or header < 20 or protocol != NEXT_HEADER_UDP or fragment & 0x3FFF:
        return None
    return ip, ip + header, total - header, tos, 0, src, dst
