"""SRv6 uSIDs from positions, and back (RFC 9800, format F3216; reference 3.1).

A destination address is a container: a 32-bit locator block and up to six 16-bit uSIDs, filled
up with zeroes. Every switch has one uSID, every switch port one that means something to that
switch only::

    15  14 | 13 ..... 9 | 8 ............ 0
    kind   | plane      | number              default widths; the spec can choose others

kind t0 and t1: the switch of that index (uN). kind port: that port of the switch that reads it
(uA). A uSID is never 0, which ends the list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network
from typing import Literal

SidKind = Literal["t0", "t1", "port"]
USID_BITS = 16
CONTAINER_USIDS = 6


@dataclass(frozen=True)
class Sid:
    """What a uSID stands for."""

    kind: SidKind
    plane: int
    number: int
    """Index of the switch, or number of the port."""

    def __str__(self) -> str:
        if self.kind == "port":
            return f"port {self.number}"
        return f"p{self.plane}{self.kind}-{self.number}"


@dataclass(frozen=True)
class UsidBlocks:
    """The numbering of a fabric. ``block``: the 32 bits of the locator block."""

    block: int
    t0: int
    t1: int
    port: int
    plane_bits: int
    number_bits: int

    @property
    def size(self) -> int:
        """uSIDs of one kind."""
        return 1 << self.plane_bits + self.number_bits

    def usid(self, sid: Sid) -> int:
        """The 16 bits. Raises ValueError when plane or number does not fit."""
        if not 0 <= sid.plane < 1 << self.plane_bits or not 0 <= sid.number < 1 << self.number_bits:
            raise ValueError(f"{sid} of plane {sid.plane} does not fit a uSID")
        base: int = getattr(self, sid.kind)
        return base | sid.plane << self.number_bits | sid.number

    def sid(self, usid: int) -> Sid | None:
        """The inverse; None for a number that no kind has."""
        rest = usid & self.size - 1
        kinds: tuple[SidKind, ...] = ("t0", "t1", "port")
        for kind in kinds:
            if usid - rest == getattr(self, kind):
                return Sid(kind, rest >> self.number_bits, rest & (1 << self.number_bits) - 1)
        return None

    def prefix(self, usid: int) -> IPv6Network:
        """The /48 of block and uSID: what a switch matches."""
        return IPv6Network((self.block << 96 | usid << 80, 48))

    def container(self, usids: Sequence[int]) -> IPv6Address:
        """The address of a list. Raises ValueError when it is longer than six."""
        if len(usids) > CONTAINER_USIDS:
            raise ValueError(f"{len(usids)} uSIDs do not fit a container of {CONTAINER_USIDS}")
        value = self.block
        for usid in usids:
            value = value << USID_BITS | usid
        return IPv6Address(value << USID_BITS * (CONTAINER_USIDS - len(usids)))

    def usids(self, address: IPv6Address | str | int) -> tuple[int, ...] | None:
        """The list in an address; None when it is outside the block."""
        value = int(IPv6Address(address))
        if value >> 96 != self.block:
            return None
        found = []
        for place in range(CONTAINER_USIDS):
            usid = value >> 80 - USID_BITS * place & 0xFFFF
            if usid == 0:
                break
            found.append(usid)
        return tuple(found)

    def __str__(self) -> str:
        return str(IPv6Network((self.block << 96, 32)))


def address_shift(place: int) -> int:
    """Bit of an address at which the uSID in a place of the list starts (place 0 is first)."""
    return 80 - USID_BITS * place
