"""Packets of a pcap or pcapng file, with the layer at which each begins.

Scapy reads the files (both formats, both byte orders, compressed ones too); this module says
what of a packet is Ethernet, IP or neither.
"""

from __future__ import annotations

import logging
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

_PCAP_HEADER, _PCAP_RECORD = 24, 16  # bytes before the first packet, and before each
_INTERFACE_BLOCK = 1  # of a pcapng
MAX_PACKET = 65535  # of which Scapy reads packets
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
    """Bytes on the wire; more than `kept` when the capture was cut (snap length)."""
    kept: int
    """Bytes of it that the file holds."""


def is_capture(head: bytes) -> bool:
    """Whether a file that begins with these bytes is a pcap, a pcapng, or a compressed one."""
    return head.startswith(MAGICS)


def read_capture(path: Path) -> Iterator[Captured]:
    """Every packet in file order. Raises CaptureError, also in the middle of a damaged file."""
    from scapy.error import Scapy_Exception, log_runtime
    from scapy.utils import RawPcapReader

    number = 0
    log_runtime.setLevel(logging.ERROR)  # what it warns of is raised below, with the file's name
    try:
        with RawPcapReader(str(path)) as reader:
            _no_limit(reader)
            at = _PCAP_HEADER
            for data, meta in reader:
                number += 1
                kept = getattr(meta, "caplen", 0)
                if len(data) < min(kept, MAX_PACKET):
                    raise CaptureError(f"{path}: ends in the middle of packet {number}")
                at += _PCAP_RECORD + kept
                yield _captured(number, bytes(data), meta, reader)
            if not hasattr(reader, "blocktypes") and reader.f.tell() != at:
                raise CaptureError(f"{path}: ends in the middle of packet {number + 1}")
    except CaptureError:
        raise
    except (Scapy_Exception, EOFError, ValueError, TypeError, IndexError, KeyError) as error:
        where = f" after packet {number}" if number else ""
        raise CaptureError(f"{path}: not a readable pcap or pcapng{where}: {error}") from None
    except OSError as error:
        raise CaptureError(f"{path}: {error.strerror or error}") from None


def _no_limit(reader: Any) -> None:
    """Of simple packet blocks Scapy keeps no byte when the interface's snap length is 0, which
    means no limit (draft-ietf-opsawg-pcapng, 4.2 and 4.4)."""
    blocks = getattr(reader, "blocktypes", None)
    if blocks is None:
        return
    describe = blocks[_INTERFACE_BLOCK]

    def described(block: bytes, size: int) -> None:
        describe(block, size)
        linktype, snaplen, *rest = reader.interfaces[-1]
        reader.interfaces[-1] = (linktype, snaplen or MAX_PACKET, *rest)

    blocks[_INTERFACE_BLOCK] = described


def _captured(number: int, data: bytes, meta: Any, reader: Any) -> Captured:
    linktype = getattr(meta, "linktype", getattr(reader, "linktype", None))
    if isinstance(linktype, int):
        linktype &= 0xFFFF  # above: whether frames end with their check sequence
    time_ns = _time_ns(meta, nano=getattr(reader, "nano", False))
    name = getattr(meta, "ifname", None)
    kept = len(data)
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
    return Captured(number, time_ns, name, data, start, int(meta.wirelen), kept)


def _time_ns(meta: Any, *, nano: bool) -> int | None:
    if hasattr(meta, "sec"):  # pcap: `usec` holds nanoseconds in a file of that kind
        return int(meta.sec) * 10**9 + int(meta.usec) * (1 if nano else 1000)
    high, low = getattr(meta, "tshigh", None), getattr(meta, "tslow", None)
    if high is None or low is None:
        return None
    return ((int(high) << 32) + int(low)) * 10**9 // int(meta.tsresol)
