"""A 32-bit entropy value in flow label and UDP source port, both ways (reference section 3.1)."""

from __future__ import annotations

from hosts.wire.constants import EvPacking


def split_ev(ev: int, packing: EvPacking = EvPacking.LABEL_HIGH) -> tuple[int, int]:
    """(flow label, UDP source port) that carry `ev`. Raises ValueError when `ev` does not fit."""
    if not 0 <= ev <= 0xFFFFFFFF:
        raise ValueError(f"EV {ev:#x} is not a 32-bit value")
    if packing == EvPacking.LABEL_HIGH:
        return ev >> 16, ev & 0xFFFF
    if packing == EvPacking.SPORT_HIGH:
        return ev & 0xFFFF, ev >> 16
    if ev > 0xFFFFF:
        raise ValueError(f"EV {ev:#x} does not fit the 20 bits of packing {packing.name}")
    return ev, ev & 0xFFFF


def join_ev(label: int, sport: int, packing: EvPacking = EvPacking.LABEL_HIGH) -> int:
    """The EV that a packet with this flow label and source port carries."""
    if packing == EvPacking.LABEL_HIGH:
        return (label & 0xFFFF) << 16 | sport
    if packing == EvPacking.SPORT_HIGH:
        return sport << 16 | label & 0xFFFF
    return label or sport  # IPv4 has no label: the 16 bits of the port remain
