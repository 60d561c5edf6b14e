"""The parts of a fabric spec that say how an EV names its way (structured and srv6 modes).

All of it has defaults computed from the size of the fabric; `evlayout` and `usid` are what it
becomes.
"""

from __future__ import annotations

from ipaddress import AddressValueError, IPv6Network, NetmaskValueError
from typing import Literal

from pydantic import Field, field_validator

from topologies.addressing import FABRIC_PREFIX
from topologies.ecmp import EvOrder
from topologies.evlayout import EV_BITS, HALF, EvLayout, bits_for
from topologies.units import Bits, format_bits
from topologies.usid import USID_BITS, UsidBlocks
from topologies.yamlspec import Bool, FieldError, Int, SpecModel, Str, shown

Mode = Literal["ecmp", "structured", "srv6"]
MODES: tuple[Mode, ...] = ("ecmp", "structured", "srv6")


class EvFieldsSpec(SpecModel):
    """Widths of an EV's fields (topologies/evlayout.py); what is not given is just enough."""

    uplink: Bits | None = None
    plane: Bits | None = None


class UsidSpec(SpecModel):
    """How uSIDs are numbered (topologies/usid.py): first uSID of each kind, and widths."""

    t0: Int = Field(default=0x4000, ge=0, le=0xFFFF)
    t1: Int = Field(default=0x8000, ge=0, le=0xFFFF)
    port: Int = Field(default=0xC000, ge=0, le=0xFFFF)
    plane_bits: Bits = 5
    number_bits: Bits = 9


class Srv6Spec(SpecModel):
    """The SRv6 encapsulation."""

    block: Str = "fd53:4944::/32"
    """Locator block of all uSIDs ("SID")."""
    srh: Bool = False
    """Carry the last uSID, the port that faces the host, in an SRH."""
    usid: UsidSpec = UsidSpec()

    @field_validator("block")
    @classmethod
    def _block(cls, block: str) -> str:
        try:
            network = IPv6Network(block)
        except (AddressValueError, NetmaskValueError, ValueError):
            raise ValueError(
                f"{shown(block)} is not an IPv6 prefix; write for example 'fd53:4944::/32'"
            ) from None
        if network.prefixlen != 32:
            raise ValueError(f"must be a /32 (F3216), found a /{network.prefixlen}")
        if network.overlaps(FABRIC_PREFIX) or network.is_multicast or network.is_link_local:
            raise ValueError(
                f"{network} is not free; hosts have their addresses in {FABRIC_PREFIX}"
            )
        return str(network)

    @property
    def blocks(self) -> UsidBlocks:
        """As numbers."""
        usid = self.usid
        return UsidBlocks(
            int(IPv6Network(self.block).network_address) >> 96,
            usid.t0,
            usid.t1,
            usid.port,
            usid.plane_bits,
            usid.number_bits,
        )


def layout_of(fields: EvFieldsSpec, order: EvOrder, planes: int, uplinks: int) -> EvLayout:
    """The EV layout of a fabric, with what the spec leaves out."""
    return EvLayout(
        fields.uplink if fields.uplink is not None else bits_for(uplinks),
        fields.plane if fields.plane is not None else bits_for(planes),
        order,
    )


def check_layout(fields: EvFieldsSpec, order: EvOrder, planes: int, uplinks: int) -> None:
    """Raises FieldError (below the fabric spec) when the fields can't name every way."""
    layout = layout_of(fields, order, planes, uplinks)
    for name, width, count, what in (
        ("uplink", layout.uplink_bits, uplinks, "t1_per_plane"),
        ("plane", layout.plane_bits, planes, "planes"),
    ):
        at = ("ev", "fields", name)
        if width > HALF:
            raise FieldError(at, f"must be at most {format_bits(HALF)}, found {format_bits(width)}")
        if count > 1 << width:
            raise FieldError(
                at,
                f"{format_bits(width)} tell {1 << width} apart and {what} is {count}; "
                f"use {format_bits(bits_for(count))}",
                near=(what,),
            )
    if layout.uplink_bits + layout.plane_bits > EV_BITS:
        raise FieldError(("ev", "fields"), f"the fields have more than {EV_BITS} bits together")


def check_room(
    layout: EvLayout, planes: int, uplinks: int, counts: dict[str, int]
) -> tuple[str, str] | None:
    """(key of ``ev``, problem) when the EVs wanted per plane are more than the tags tell apart."""
    wanted = sum(counts.values()) // planes
    room = layout.room(uplinks)
    if wanted <= room:
        return None
    biggest = max(counts, key=lambda key: counts[key])
    return biggest, (
        f"{sum(counts.values())} EVs are wanted and the fields leave room for {room * planes} "
        f"({uplinks} uplinks x {1 << layout.tag.width} tags x {planes} planes)"
    )


def check_usids(srv6: Srv6Spec, planes: int, highest: int) -> None:
    """Raises FieldError when the numbering can't name every switch and port. ``highest``: the
    largest index of a switch or number of a port."""
    usid = srv6.usid
    place = ("srv6", "usid")
    if usid.plane_bits + usid.number_bits > USID_BITS - 2:
        raise FieldError(
            (*place, "number_bits"),
            f"plane_bits + number_bits must be at most {USID_BITS - 2}: three kinds share a uSID",
            near=(*place, "plane_bits"),
        )
    for name, width, count in (
        ("plane_bits", usid.plane_bits, planes),
        ("number_bits", usid.number_bits, highest + 1),
    ):
        if count > 1 << width:
            raise FieldError(
                (*place, name),
                f"{format_bits(width)} are not enough for {count} numbers; "
                f"use {format_bits(bits_for(count))}",
            )
    size = srv6.blocks.size
    seen: dict[int, str] = {}
    for name in ("t0", "t1", "port"):
        base: int = getattr(usid, name)
        if base == 0:
            raise FieldError((*place, name), "0 ends a uSID list and can't begin a kind")
        if base % size:
            raise FieldError((*place, name), f"{base:#06x} is not a multiple of {size:#06x}")
        if base in seen:
            raise FieldError((*place, name), f"{base:#06x} is already where {seen[base]} begins")
        seen[base] = name
