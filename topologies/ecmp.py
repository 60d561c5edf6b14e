"""Which uplink a switch picks for an entropy value: the data plane's hash, in Python.

Exactly the formula of p4src/README.md ("Which uplink a packet takes"); the tests compare it
with that file's vectors and with the compiled pipeline. All values are plain ints.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Literal

EvOrder = Literal["label-high", "sport-high"]

_MASK = 0xFFFFFFFF
_M1 = 0x85EBCA6B
_M2 = 0xC2B2AE35
_M3 = 0x9E3779B1


def split_ev(ev: int, order: EvOrder = "label-high") -> tuple[int, int]:
    """A 32-bit EV as (flow label, UDP source port); label bits 19:16 are zero (reference 3.1)."""
    if not 0 <= ev <= _MASK:
        raise ValueError(f"an EV has 32 bits, found {ev:#x}")
    high, low = ev >> 16, ev & 0xFFFF
    return (high, low) if order == "label-high" else (low, high)


def join_ev(flow_label: int, sport: int, order: EvOrder = "label-high") -> int:
    """The inverse of split_ev; label bits 19:16 are ignored."""
    label = flow_label & 0xFFFF
    return label << 16 | sport if order == "label-high" else sport << 16 | label


def fold(address: int) -> int:
    """The XOR of the four 32-bit words of an IPv6 address."""
    return (address >> 96 ^ address >> 64 ^ address >> 32 ^ address) & _MASK


def flow_hash(salt: int, src: int, dst: int, flow_label: int, sport: int) -> int:
    """The 32-bit hash of a packet: salt of the switch, addresses (128 bits), label, port."""
    ev = (flow_label & 0xFFFF) << 16 | sport
    h = ((salt ^ fold(src)) * _M1) & _MASK
    h ^= h >> 13
    h = ((h ^ fold(dst) ^ flow_label >> 16) * _M2) & _MASK
    h ^= h >> 16
    h = ((h ^ ev) * _M3) & _MASK
    h ^= h >> 15
    h = (h * _M1) & _MASK
    return h ^ h >> 16


def pick(h: int, live: Sequence[int]) -> int | None:
    """The member the selector takes for a hash; None when no member is live."""
    if not live:
        return None
    return live[zlib.crc32(h.to_bytes(4, "big")) % len(live)]
