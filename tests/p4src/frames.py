"""MRC frames by hand, independent of hosts/wire, so that both can be wrong only separately."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from ipaddress import IPv6Address

ETHERNET, IPV6, UDP, BTH = 14, 40, 8, 12


@dataclass(frozen=True)
class Seen:
    """What matters of a frame that came out."""

    dmac: int
    smac: int
    dscp: int
    ecn: int
    flow_label: int
    hop_limit: int
    source_port: int
    length: int
    payload_length: int
    rest: bytes
    """From the first byte after IPv6."""


def mrc(
    src: str,
    dst: str,
    *,
    ev: int = 0,
    upper: int = 0,
    dscp: int = 4,
    ecn: int = 2,
    hop_limit: int = 64,
    payload: int = 4096,
    psn: int = 0,
    opcode: int = 0xC7,
    port: int = 4791,
    ts: int = 1,
    dmac: int = 0x02AA_0000_0001,
    smac: int = 0x02BB_0000_0002,
) -> bytes:
    """A WRITE Middle; label = upper (4 bits) and EV[31:16], source port = EV[15:0]."""
    body = struct.pack("!BBHBBHI", opcode, 0, 0xFFFF, 0, 0, 7, 0x1000_0000 * ts | psn)
    body += struct.pack("!HH", 0, 5)
    if ts:
        body += struct.pack("!HH", 0x1234, 1)
    body += struct.pack("!QII", 0x1000, 0xCAFE, payload)
    body += bytes(i & 0xFF for i in range(payload)) + b"icrc"
    udp = struct.pack("!HHHH", ev & 0xFFFF, port, UDP + len(body), 0)
    return ipv6(src, dst, udp + body, 17, ev >> 16 | upper << 16, dscp, ecn, hop_limit, dmac, smac)


def ipv6(
    src: str,
    dst: str,
    body: bytes,
    next_header: int = 59,
    label: int = 0,
    dscp: int = 0,
    ecn: int = 0,
    hop_limit: int = 64,
    dmac: int = 0x02AA_0000_0001,
    smac: int = 0x02BB_0000_0002,
    version: int = 6,
) -> bytes:
    """Any IPv6 packet."""
    word = version << 28 | dscp << 22 | ecn << 20 | label
    header = struct.pack("!IHBB", word, len(body), next_header, hop_limit)
    header += IPv6Address(src).packed + IPv6Address(dst).packed
    return dmac.to_bytes(6, "big") + smac.to_bytes(6, "big") + b"\x86\xdd" + header + body


def see(frame: bytes) -> Seen:
    """Take a frame apart."""
    word, length, _next, hop_limit = struct.unpack_from("!IHBB", frame, ETHERNET)
    rest = frame[ETHERNET + IPV6 :]
    return Seen(
        int.from_bytes(frame[0:6], "big"),
        int.from_bytes(frame[6:12], "big"),
        word >> 22 & 0x3F,
        word >> 20 & 3,
        word & 0xFFFFF,
        hop_limit,
        struct.unpack_from("!H", rest)[0] if len(rest) >= 2 else 0,
        len(frame),
        length,
        rest,
    )


def encapsulated(
    inner: bytes,
    dst: str,
    *,
    src: str = "fd00::9",
    segment: str | None = None,
    segments_left: int = 1,
    dscp: int = 4,
    ecn: int = 2,
    hop_limit: int = 64,
) -> bytes:
    """An IPv6 packet (with its Ethernet header) inside another, with or without an SRH."""
    body, header = inner[ETHERNET:], 41
    if segment is not None:
        srh = struct.pack("!BBBBBBH", 41, 2, 4, segments_left, 0, 0, 0)
        body, header = srh + IPv6Address(segment).packed + body, 43
    label = int.from_bytes(inner[ETHERNET + 2 : ETHERNET + 4], "big")
    return ipv6(src, dst, body, header, label, dscp, ecn, hop_limit)


def destination(frame: bytes) -> str:
    """Destination address of the outermost IPv6 header."""
    return str(IPv6Address(frame[38:54]))
