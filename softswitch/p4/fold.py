"""Arithmetic on compile-time values, with the rules of the type it is done in (spec 8.5, 8.6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from softswitch.p4.types import TBits, Type, base


class FoldError(Exception):
    """A constant expression without a value (division by zero, negative shift...)."""


@dataclass(frozen=True)
class Symbol:
    """A member of an enum, an error or a match kind, as a compile-time value."""

    kind: str
    name: str


def wrap(value: int, type_: Type) -> int:
    """The value as that type holds it."""
    type_ = base(type_)
    if not isinstance(type_, TBits):
        return value
    value &= (1 << type_.width) - 1
    if type_.signed and value >> (type_.width - 1):
        value -= 1 << type_.width
    return value


def fits(value: int, type_: Type) -> bool:
    """Is the value unchanged by wrapping?"""
    return wrap(value, type_) == value


def clamp(value: int, type_: TBits) -> int:
    """Saturate to the range of the type."""
    if type_.signed:
        low, high = -(1 << (type_.width - 1)), (1 << (type_.width - 1)) - 1
    else:
        low, high = 0, (1 << type_.width) - 1
    return max(low, min(high, value))


def unary(op: str, value: Any, type_: Type) -> Any:
    """-x, +x, ~x, !x"""
    if op == "!":
        return not value
    result = {"-": -value, "+": value, "~": ~value}[op]
    return wrap(result, type_)


_MAX_BITS = 4096


def binary(op: str, left: Any, right: Any, type_: Type) -> Any:
    """Result of the operator on two values; type_ is the type of the result (of `left`)."""
    if op in ("==", "!="):
        return (left == right) == (op == "==")
    if op == "&&":
        return left and right
    if op == "||":
        return left or right
    if op in ("<", "<=", ">", ">="):
        return {
            "<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right,
        }[op]  # fmt: skip
    kind = base(type_)
    if op in ("|+|", "|-|"):
        if not isinstance(kind, TBits):
            raise FoldError(f"'{op}' needs fixed-width operands")
        return clamp(left + right if op == "|+|" else left - right, kind)
    if op in ("/", "%"):
        if right == 0:
            raise FoldError("division by zero")
        if left < 0 or right < 0:
            raise FoldError(f"'{op}' with a negative operand")
        return wrap(left // right if op == "/" else left % right, type_)
    if op in ("<<", ">>"):
        if right < 0:
            raise FoldError("shift by a negative amount")
        if op == ">>":
            return wrap(left >> min(right, _MAX_BITS * 2), type_)
        if isinstance(kind, TBits) and right >= kind.width:
            return 0
        if right > _MAX_BITS:
            raise FoldError("shift by an absurd amount")
        result = left << right
    else:
        result = {
            "+": left + right, "-": left - right, "*": left * right,
            "&": left & right, "|": left | right, "^": left ^ right,
        }[op]  # fmt: skip
    if not isinstance(kind, TBits) and abs(result).bit_length() > _MAX_BITS:
        raise FoldError("value too large")
    return wrap(result, type_)
