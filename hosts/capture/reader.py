"""Packets of a pcap or pcapng file, with the layer at which each begins.

Scapy reads the files (both formats, both byte orders, compressed ones too); this module says
what of a packet is Ethernet, IP or neither.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hosts.wire.constants import ETHERTYPE_IPV4, ETHERTYPE_IPV6
from hosts.wire.decode import Start

# https://www.tcpdump.org/linktypes.html
LINKTYPE_ETHERNET = 1
LINKTYPES_RAW_IP = frozenset({12, 14, 101, 228, 229})
LINKTYPE_LINUX_SLL = 113
LINKTYPE_LINUX_SLL2 = 276
# Where the two "cooked" headers of `tcpdump -i any` keep the EtherType, and their length.
_COOKED = {LINKTYPE_LINUX_SLL: (14, 16), LINKTYPE_LINUX_SLL2: (0, 20)}

MAGICS = (
    b"\xd4\xc3\xb2\xa1",
    b"\xa1\xb2\xc3\xd4",
    b"\x4d\x3c\xb2\xa1",
    b"\xa1\xb2\x3c\x4d",
    b"\x0a\x0d\x0d\x0a",
    b"\x1f\x8b",  # gzip
)


class CaptureError(ValueError):
    """A file that is no capture, or is damaged; str() names it."""


@dataclass(frozen=True)
class Captured:
    """One packet: its number from 1, when (ns since the epoch, or None), where, and its bytes."""

    number: int
    time_ns: int | None
    interface: str | None
    data: bytes
    start: Start | None
    """None: neither Ethernet nor IP (ARP in a cooked capture, or a foreign link type)."""
    wire_length: int
    """Bytes on the wire; more than len(data) when the capture was cut (snap length)."""


def is_capture(head: bytes) -> bool:
    """Whether a file that begins with these bytes is a pcap, a pcapng, or a compressed one."""
    return head.startswith(MAGICS)


def read_capture(path: Path) -> Iterator[Captured]:
    """Every packet in file order. Raises CaptureError, also in the middle of a damaged file."""
    from scapy.error import Scapy_Exception
    from scapy.utils import RawPcapReader

    number = 0
    try:
        with RawPcapReader(str(path)) as reader:
            for data, meta in reader:
                number += 1
                yield _captured(number, bytes(data), meta, reader)
    except (Scapy_Exception, EOFError, ValueError, TypeError, IndexError, KeyError) as error:
        where = f" after packet {number}" if number else ""
        raise CaptureError(f"{path}: not a readable pcap or pcapng{where}: {error}") from None
    except OSError as error:
        raise CaptureError(f"{path}: {error.strerror or error}") from None


def _captured(number: int, data: bytes, meta: Any, reader: Any) -> Captured:
    linktype = getattr(meta, "linktype", getattr(reader, "linktype", None))
    time_ns = _time_ns(meta, nano=getattr(reader, "nano", False))
    name = getattr(meta, "ifname", None)
    if isinstance(name, bytes):
        name = name.decode(errors="replace")
    start: Start | None = None
    if linktype == LINKTYPE_ETHERNET:
        start = "frame"
    elif linktype in LINKTYPES_RAW_IP:
        start = "ip"
    elif linktype in _COOKED:
        at, size = _COOKED[linktype]
        kind = int.from_bytes(data[at : at + 2], "big")
        start = "ip" if kind in (ETHERTYPE_IPV4, ETHERTYPE_IPV6) else None
        data = data[size:]
    return Captured(number, time_ns, name, data, start, int(getattr(meta, "wirelen", len(data))))


def _time_ns(meta: Any, *, nano: bool) -> int | None:
    if hasattr(meta, "sec"):  # pcap: `usec` holds nanoseconds in a file of that kind
        return int(meta.sec) * 10**9 + int(meta.usec) * (1 if nano else 1000)
    high, low = getattr(meta, "tshigh", None), getattr(meta, "tslow", None)
    if high is None or low is None:
        return None
    return ((int(high) << 32) + int(low)) * 10**9 // int(meta.tsresol)
