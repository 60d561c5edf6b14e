"""The invariant CRC (reference section 1): CRC-32 over eight 0xFF bytes, the IP header with
mutable fields set to ones, UDP with checksum set to ones, BTH with byte 4 set to ones, and
everything up to the last pad byte. On the wire the four bytes go least significant first.

Only the innermost IP packet is covered: pass the buffer from its first byte.
"""

from __future__ import annotations

from typing import Final
from zlib import crc32

from hosts.wire.headers import Buffer

_ONES8: Final = b"\xff" * 8
_V6_START: Final = _ONES8 + b"\x6f\xff\xff\xff"  # version, then traffic class and flow label masked


def icrc_ipv6(packet: Buffer, ip: int, udp: int, end: int) -> int:
    """iCRC of an IPv6 packet: IP header at `ip`, UDP at `udp`, last pad byte before `end`."""
    view = memoryview(packet)
    # Flow label and hop limit aside, the IP header of a flow's packets differs in length only.
    key = bytes(view[ip + 4 : ip + 7]) + view[ip + 8 : udp]
    start = _starts.get(key)
    if start is None:
        if len(_starts) >= STARTS_MAX:
            _starts.clear()
        start = _starts[key] = crc32(b"".join((_V6_START, key[:3], b"\xff", key[3:])))
    head = b"".join((view[udp : udp + 6], b"\xff\xff", view[udp + 8 : udp + 12], b"\xff"))
    return crc32(view[udp + 13 : end], crc32(head, start))


STARTS_MAX: Final = 4096
_starts: dict[bytes, int] = {}
"""CRC of masked IPv6 headers, by (lengths, addresses). Emptied when strangers have filled it."""


def icrc_ipv4(packet: Buffer, ip: int, udp: int, end: int) -> int:
    """iCRC of an IPv4 packet (options, if any, are covered as they are)."""
    head = b"".join(
        (
            _ONES8,
            packet[ip : ip + 1],
            b"\xff",
            packet[ip + 2 : ip + 8],
            b"\xff",
            packet[ip + 9 : ip + 10],
            b"\xff\xff",
            packet[ip + 12 : udp + 6],
            b"\xff\xff",
            packet[udp + 8 : udp + 12],
            b"\xff",
        )
    )
    return crc32(packet[udp + 13 : end], crc32(head))


def icrc_ip(packet: Buffer, ip: int, udp: int, end: int) -> int:
    """iCRC of the IP packet at `ip`, whichever version its first half byte says."""
    if packet[ip] >> 4 == 4:
        return icrc_ipv4(packet, ip, udp, end)
    return icrc_ipv6(packet, ip, udp, end)


class MaskDelta:
    """XOR that turns the CRC of a tail (UDP onward, checksum 0 and var_res 0, the only values
    we send) into the CRC of the same tail with those three bytes set to ones.

    CRC-32 is affine over GF(2), so the delta depends on the length alone.
    """

    @staticmethod
    def of(length: int) -> int:
        """Delta for a tail of `length` bytes (at least 13)."""
        mask = bytearray(length)
        mask[6] = mask[7] = mask[12] = 0xFF
        return crc32(mask) ^ crc32(bytes(length))
