"""SRv6 encapsulation (reference sections 1 and 3.1): which outer addresses an EV stands for.

In the SRv6 modes every packet is IPv6 in IPv6. The outer destination is a uSID container (32-bit
locator block and up to six 16-bit uSIDs, F3216) that names the links to take; with `segments`
one SRH segment (or more) follows. An `Encap` is data, and a pure function from the 32-bit EV
to those addresses; `EncapTemplate` is a `FlowTemplate` that puts them in front.

Two kinds:

UsidEncap   the algorithm of section 3.1: copy bits of the EV into a template of the address.
            Costs nothing per EV and is right for any EV.
TableEncap  addresses by EV, written out.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from hosts.wire.constants import (
    ETHERNET_BYTES,
    IPV6_BYTES,
    NEXT_HEADER_IPV6,
    NEXT_HEADER_ROUTING,
    P_KEY,
    ROUTING_TYPE_SRH,
    UDP_PORT,
    EvPacking,
)
from hosts.wire.template import FlowTemplate, ip_bytes

_SRH: Final = struct.Struct("!BBBBBBH")
SRH_BYTES: Final = 8
ADDRESS_BYTES: Final = 16
SEGMENTS_MAX: Final = 4
"""More than the reference's one; a bound on what a configuration may ask for."""
KEPT_PATHS: Final = 4096
"""Packed outer headers kept per template, by EV."""


class SrPath(NamedTuple):
    """Where the packets of one EV go: the outer destination, then the segments of the SRH in the
    order they are visited. No segments: no SRH."""

    da: bytes  # 16 bytes
    segments: tuple[bytes, ...] = ()


class Insert(NamedTuple):
    """Copies EV bits [ev_shift, ev_shift + width) to address bits from addr_shift on (bit 0 is the
    last of the 128). The EV bits are ored in: the template has zeros there."""

    ev_shift: int
    width: int
    addr_shift: int


class Encap(Protocol):
    """EV to outer addresses. `src`: outer source, None: the inner one."""

    @property
    def src(self) -> bytes | None: ...

    def path(self, ev: int) -> SrPath: ...


@dataclass(frozen=True, slots=True)
class UsidTemplate:
    """One 128-bit container: `base` with EV bits inserted."""

    base: bytes
    inserts: tuple[Insert, ...] = ()

    def __post_init__(self) -> None:
        if len(self.base) != ADDRESS_BYTES:
            raise ValueError(f"usid base: {len(self.base)} bytes, need {ADDRESS_BYTES}")
        for i in self.inserts:
            if not (i.width >= 1 and 0 <= i.ev_shift <= 32 - i.width):
                raise ValueError(f"usid insert {tuple(i)}: the EV has 32 bits")
            if not 0 <= i.addr_shift <= 128 - i.width:
                raise ValueError(f"usid insert {tuple(i)}: the address has 128 bits")

    def address(self, ev: int) -> bytes:
        value = int.from_bytes(self.base, "big")
        for ev_shift, width, addr_shift in self.inserts:
            value |= (ev >> ev_shift & (1 << width) - 1) << addr_shift
        return value.to_bytes(ADDRESS_BYTES, "big")


@dataclass(frozen=True, slots=True)
class UsidEncap:
    """The algorithmic map; `segments`: templates of the SRH's segments, in visiting order."""

    da: UsidTemplate
    segments: tuple[UsidTemplate, ...] = ()
    src: bytes | None = None

    def __post_init__(self) -> None:
        _check(self.src, len(self.segments))

    def path(self, ev: int) -> SrPath:
        return SrPath(self.da.address(ev), tuple(s.address(ev) for s in self.segments))


@dataclass(frozen=True, slots=True)
class TableEncap:
    """Paths by EV. An EV that is not in the table (an answer to a stranger) takes one of them."""

    paths: Mapping[int, SrPath]
    src: bytes | None = None

    def __post_init__(self) -> None:
        if not self.paths:
            raise ValueError("encap: an empty table names no path")
        for ev, path in self.paths.items():
            _check(self.src, len(path.segments))
            if any(len(a) != ADDRESS_BYTES for a in (path.da, *path.segments)):
                raise ValueError(f"encap: EV {ev:#x}: outer addresses are IPv6")

    def path(self, ev: int) -> SrPath:
        found = self.paths.get(ev)
        if found is None:
            keys = list(self.paths)
            found = self.paths[keys[ev % len(keys)]]
        return found


def _check(src: bytes | None, segments: int) -> None:
    if src is not None and len(src) != ADDRESS_BYTES:
        raise ValueError(f"encap src: {len(src)} bytes, need {ADDRESS_BYTES}")
    if segments > SEGMENTS_MAX:
        raise ValueError(f"encap: {segments} SRH segments, at most {SEGMENTS_MAX}")


def usid_container(block: bytes | str | int, usids: Sequence[int]) -> bytes:
    """An F3216 address: a 32-bit locator block (a number, or the first four bytes of an address)
    and up to six uSIDs, zero-filled. Raises ValueError."""
    if isinstance(block, int):
        head = block.to_bytes(4, "big")
    else:
        head = ip_bytes(block)[:4]
    if len(usids) > 6 or not all(0 <= u <= 0xFFFF for u in usids):
        raise ValueError(f"usids {list(usids)}: up to six 16-bit values")
    return head + b"".join(u.to_bytes(2, "big") for u in usids) + bytes(12 - 2 * len(usids))


def outer_headers(path: SrPath, src: bytes, hop_limit: int) -> bytes:
    """What comes between the outer payload length and the inner packet: next header, hop limit,
    source, destination and, with segments, the SRH. The first segment is active in the
    destination already, so the SRH lists only those after it (reduced form)."""
    if not path.segments:
        return bytes((NEXT_HEADER_IPV6, hop_limit)) + src + path.da
    count = len(path.segments)
    srh = _SRH.pack(NEXT_HEADER_IPV6, 2 * count, ROUTING_TYPE_SRH, count, count - 1, 0, 0)
    return b"".join(
        (bytes((NEXT_HEADER_ROUTING, hop_limit)), src, path.da, srh, *reversed(path.segments))
    )


class EncapTemplate(FlowTemplate):
    """A `FlowTemplate` whose frames travel inside outer IPv6 headers.

    Traffic class and flow label of the outer header are the inner ones (section 9 #31); the iCRC
    covers the inner packet only (#22). All builders work as in the plain template.
    """

    __slots__ = ("_heads", "_outer_src", "encap")

    def __init__(
        self,
        src_mac: str | bytes,
        dst_mac: str | bytes,
        src_ip: str | bytes,
        dst_ip: str | bytes,
        udp_port: int = UDP_PORT,
        *,
        encap: Encap,
        packing: EvPacking = EvPacking.LABEL_HIGH,
        hop_limit: int = 64,
        p_key: int = P_KEY,
    ) -> None:
        super().__init__(
            src_mac, dst_mac, src_ip, dst_ip, udp_port,
            packing=packing, hop_limit=hop_limit, p_key=p_key,
        )  # fmt: skip
        if not self._v6:
            raise ValueError(f"SRv6 carries IPv6: {src_ip!r} is an IPv4 address")
        self._plain_v6 = False  # every builder ends in _frame
        self.encap = encap
        self._outer_src = encap.src if encap.src is not None else self.src_ip
        self._heads: dict[int, bytes] = {}

    def forget(self, ev: int) -> None:
        """The way of this EV has changed."""
        self._heads.pop(ev, None)

    def _frame(self, tc: int, ev: int, w0: int, w1: int, w2: int, rest: bytes) -> bytes:
        frame = super()._frame(tc, ev, w0, w1, w2, rest)
        head = self._heads.get(ev)
        if head is None:
            if len(self._heads) >= KEPT_PATHS:
                self._heads.clear()
            head = outer_headers(self.encap.path(ev), self._outer_src, self._hop_limit)
            self._heads[ev] = head
        inner = memoryview(frame)[ETHERNET_BYTES:]
        carried = len(inner) + len(head) - (IPV6_BYTES - 6)
        return b"".join((self._eth, inner[:4], carried.to_bytes(2, "big"), head, inner))


def flow_template(
    src_mac: str | bytes,
    dst_mac: str | bytes,
    src_ip: str | bytes,
    dst_ip: str | bytes,
    udp_port: int = UDP_PORT,
    *,
    packing: EvPacking = EvPacking.LABEL_HIGH,
    hop_limit: int = 64,
    p_key: int = P_KEY,
    encap: Encap | None = None,
) -> FlowTemplate:
    """A plain or an SRv6 template, as `encap` says."""
    if encap is None:
        return FlowTemplate(
            src_mac, dst_mac, src_ip, dst_ip, udp_port,
            packing=packing, hop_limit=hop_limit, p_key=p_key,
        )  # fmt: skip
    return EncapTemplate(
        src_mac, dst_mac, src_ip, dst_ip, udp_port,
        encap=encap, packing=packing, hop_limit=hop_limit, p_key=p_key,
    )  # fmt: skip
