"""PSN arithmetic (reference: Conventions).

On the wire a PSN has 24 bits. Inside, requestor and responder count with plain integers that
never wrap ("sequence numbers"); `unwrap` goes from the wire to them.
"""

from __future__ import annotations

from typing import Final

from hosts.wire.constants import PSN_MASK

PSN_HALF: Final = 1 << 23


def psn_diff(a: int, b: int) -> int:
    """a - b modulo 2**24 as a signed number, -2**23 .. 2**23 - 1."""
    d = (a - b) & PSN_MASK
    return d - 0x1000000 if d & PSN_HALF else d


def psn_after(a: int, b: int) -> bool:
    """Whether `a` is after `b`: (a - b) mod 2**24 in 1 .. 2**23 - 1."""
    return 0 < (a - b) & PSN_MASK < PSN_HALF


def unwrap(psn: int, near: int) -> int:
    """The sequence number with these 24 low bits that is closest to `near`."""
    d = (psn - near) & PSN_MASK
    return near + (d - 0x1000000 if d & PSN_HALF else d)


def wrap(seq: int) -> int:
    """The PSN of a sequence number."""
    return seq & PSN_MASK
