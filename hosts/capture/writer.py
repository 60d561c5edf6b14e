"""pcapng with interface names, host names and comments.

Written here and not with Scapy's writer, which knows no name resolution block: Wireshark shows
a drill's hosts by name only with one. Blocks: draft-ietf-opsawg-pcapng, sections 4.1 to 4.5.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, ip_address
from typing import BinaryIO

from hosts.capture.reader import LINKTYPE_ETHERNET

LINKTYPE_RAW = 101

_SECTION_HEADER = 0x0A0D0D0A
_BYTE_ORDER_MAGIC = 0x1A2B3C4D
_INTERFACE = 1
_NAME_RESOLUTION = 4
_ENHANCED_PACKET = 6

# Option codes (3.5, 4.1, 4.2, 4.3).
_OPT_COMMENT = 1
_SHB_USERAPPL = 4
_IF_NAME = 2
_IF_DESCRIPTION = 3
_IF_TSRESOL = 9
_EPB_FLAGS = 2
# Record types of a name resolution block (4.5).
_NRB_IPV4 = 1
_NRB_IPV6 = 2

TSRESOL_NS = 9
SNAPLEN = 0  # no limit

INBOUND, OUTBOUND = 1, 2
"""Values of `packet(direction=)`: epb_flags, bits 0-1."""


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) & 3)


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("<HH", code, len(value)) + _padded(value)


def _options(pairs: Iterable[tuple[int, bytes]]) -> bytes:
    out = b"".join(_option(code, value) for code, value in pairs)
    return out + bytes(4) if out else b""


class PcapngWriter:
    """Writes one section. Times are integer nanoseconds; interfaces are named at first use."""

    def __init__(self, file: BinaryIO, *, application: str = "mrclab", comment: str = "") -> None:
        self._file = file
        self._interfaces: dict[tuple[str, int], int] = {}
        options = [(_SHB_USERAPPL, application.encode())]
        if comment:
            options.append((_OPT_COMMENT, comment.encode()))
        body = struct.pack("<IHHq", _BYTE_ORDER_MAGIC, 1, 0, -1) + _options(options)
        self._block(_SECTION_HEADER, body)

    def names(self, hosts: Mapping[str, str]) -> None:
        """Host names by address (text, IPv4 or IPv6). Raises ValueError for a bad address."""
        records = b""
        for text, name in hosts.items():
            address = ip_address(text)
            kind = _NRB_IPV4 if isinstance(address, IPv4Address) else _NRB_IPV6
            records += _option(kind, address.packed + name.encode() + b"\0")
        if records:
            self._block(_NAME_RESOLUTION, records + bytes(4))

    def interface(self, name: str, linktype: int = LINKTYPE_ETHERNET, description: str = "") -> int:
        """Number of the interface of that name, described in the file when it is new."""
        key = (name, linktype)
        if key not in self._interfaces:
            options = [(_IF_NAME, name.encode())]
            if description:
                options.append((_IF_DESCRIPTION, description.encode()))
            options.append((_IF_TSRESOL, bytes([TSRESOL_NS])))
            body = struct.pack("<HHI", linktype, 0, SNAPLEN) + _options(options)
            self._block(_INTERFACE, body)
            self._interfaces[key] = len(self._interfaces)
        return self._interfaces[key]

    def packet(
        self,
        interface: int,
        time_ns: int,
        data: bytes | memoryview,
        *,
        wire_length: int | None = None,
        direction: int | None = None,
        comment: str = "",
    ) -> None:
        """One packet seen at an interface. `wire_length`: when `data` is only its beginning."""
        size = len(data)
        options = []
        if direction is not None:
            options.append((_EPB_FLAGS, struct.pack("<I", direction)))
        if comment:
            options.append((_OPT_COMMENT, comment.encode()))
        head = struct.pack(
            "<IIIII",
            interface,
            time_ns >> 32,
            time_ns & 0xFFFFFFFF,
            size,
            size if wire_length is None else wire_length,
        )
        self._block(_ENHANCED_PACKET, head + _padded(bytes(data)) + _options(options))

    def _block(self, kind: int, body: bytes) -> None:
        length = struct.pack("<I", len(body) + 12)
        self._file.write(struct.pack("<I", kind) + length + body + length)
