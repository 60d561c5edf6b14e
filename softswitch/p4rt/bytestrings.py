"""Binary strings of P4Runtime and the integers they stand for.

Accepted: any length of at least one byte, big-endian, as long as the value fits the
width. Produced: the shortest string (P4Runtime spec, "Bytestrings").
"""

from __future__ import annotations

from softswitch.p4rt.status import invalid


def encode(value: int) -> bytes:
    """Canonical string of an unsigned integer; 0 is one zero byte."""
    return value.to_bytes((value.bit_length() + 7) // 8 or 1, "big")


def decode(data: bytes, width: int, what: str) -> int:
    """Unsigned integer of at most `width` bits; INVALID_ARGUMENT names `what` otherwise."""
    if not data:
        raise invalid(f"{what}: empty byte string")
    value = int.from_bytes(data, "big")
    if value >> width:
        raise invalid(f"{what}: 0x{value:x} does not fit in {width} bits")
    return value


def encode_signed(value: int) -> bytes:
    """Canonical two's complement string of an `int<W>` value."""
    bits = (value if value >= 0 else ~value).bit_length() + 1
    return value.to_bytes((bits + 7) // 8, "big", signed=True)


def decode_signed(data: bytes, width: int, what: str) -> int:
    """`int<W>` value; INVALID_ARGUMENT names `what` when it does not fit."""
    if not data:
        raise invalid(f"{what}: empty byte string")
    value = int.from_bytes(data, "big", signed=True)
    if not -(1 << (width - 1)) <= value < 1 << (width - 1):
        raise invalid(f"{what}: {value} does not fit in int<{width}>")
    return value
