"""Values of a test as match values and arguments: what a text means for a key of some width."""

from __future__ import annotations

import re

from softswitch.engine.types import Exact, Lpm, MatchValue, Optional_, Range, Ternary, Valid
from softswitch.stf.parse import number
from softswitch.stf.shape import Key

_BITS = {"0x": 4, "0b": 1, "0o": 3}
_RANGE = re.compile(r"(?P<low>[^.>-]+)(?:\.\.|->)(?P<high>[^.>-]+)\Z")


class ValueProblem(Exception):
    """A value that does not fit what it is for. One line."""


def integer(text: str, width: int, what: str) -> int:
    """A number that fits into `width` bits. ValueProblem."""
    value = number(text)
    if value is None:
        lower = text.lower()
        if "*" in text:
            raise ValueProblem(f"{what}: '{text}' has don't-care digits; a number is needed")
        if lower in ("true", "false"):
            return int(lower == "true")
        raise ValueProblem(f"{what}: '{text}' is not a number")
    return fitting(value, width, what)


def fitting(value: int, width: int, what: str) -> int:
    """`value`, when it fits into `width` bits. ValueProblem."""
    if value >> width:
        raise ValueProblem(f"{what}: {value:#x} does not fit into {width} bits")
    return value


def _digits(text: str, width: int, what: str) -> tuple[int, int, int]:
    """(value, mask, bits that digits say nothing about at the low end) of 0x12**."""
    bits = _BITS.get(text[:2].lower())
    digits = text[2:]
    if bits is None or not digits:
        raise ValueProblem(f"{what}: '{text}' is not a number (don't-care digits need 0x or 0b)")
    value = number(text[:2] + digits.replace("*", "0"))
    if value is None:
        raise ValueProblem(f"{what}: '{text}' is not a number")
    mask = 0
    for digit in digits:
        mask = mask << bits | (0 if digit == "*" else (1 << bits) - 1)
    trailing = (len(digits) - len(digits.rstrip("*"))) * bits
    fitting(value, width, what)
    return value, mask & (1 << width) - 1, trailing


def default(key: Key) -> MatchValue:
    """What a key field is that a test does not mention: anything, where that can be said;
    0 otherwise, as in p4c's runner."""
    match key.match:
        case "lpm":
            return Lpm(0, 0)
        case "ternary":
            return Ternary(0, 0)
        case "optional":
            return Optional_(None)
        case "range":
            return Range(0, (1 << key.width) - 1)
        case "valid":
            return Valid(False)
        case _:
            return Exact(0)


def match_value(text: str, key: Key, table: str) -> MatchValue:
    """The text for one key field. ValueProblem names table, field and what is wrong."""
    what = f"table {table}, field {key.name}"
    width = key.width
    match key.match:
        case "lpm":
            return _lpm(text, width, what)
        case "ternary" | "optional":
            return _ternary(text, key, what)
        case "range":
            found = _RANGE.match(text)
            if found is None:
                value = integer(text, width, what)
                return Range(value, value)
            low, high = (integer(found[name], width, what) for name in ("low", "high"))
            if low > high:
                raise ValueProblem(f"{what}: the range {text} is empty")
            return Range(low, high)
        case "valid":
            return Valid(bool(integer(text, 1, what)))
        case "exact":
            if "&&&" in text or "/" in text or ".." in text:
                raise ValueProblem(f"{what}: '{text}': the field is matched exactly")
            return Exact(integer(text, width, what))
        case _:
            raise ValueProblem(f"{what}: match kind {key.match} is not known")


def _lpm(text: str, width: int, what: str) -> MatchValue:
    if "&&&" in text:
        raise ValueProblem(f"{what}: '{text}': the field is matched by prefix: VALUE/LENGTH")
    value_text, slash, length_text = text.partition("/")
    if slash:
        length = number(length_text)
        if length is None or length > width:
            raise ValueProblem(f"{what}: prefix length '{length_text}' is not 0..{width}")
        return Lpm(integer(value_text, width, what), length)
    if "*" not in text:
        return Lpm(integer(text, width, what), width)
    value, _mask, trailing = _digits(text, width, what)
    if "*" in text.rstrip("*"):
        raise ValueProblem(f"{what}: '{text}' is not a prefix: '*' can only be at its end")
    return Lpm(value, max(0, width - trailing))


def _ternary(text: str, key: Key, what: str) -> MatchValue:
    width = key.width
    if key.match == "optional" and text in ("*", "_", "default"):
        return Optional_(None)
    value_text, ampersands, mask_text = text.partition("&&&")
    if ampersands:
        value, mask = integer(value_text, width, what), integer(mask_text, width, what)
    elif "/" in text:
        value_text, _, length_text = text.partition("/")
        length = number(length_text)
        if length is None or length > width:
            raise ValueProblem(f"{what}: prefix length '{length_text}' is not 0..{width}")
        value = integer(value_text, width, what)
        mask = ((1 << length) - 1) << (width - length)
    elif text == "*":
        value = mask = 0
    elif text[:2].lower() in _BITS:
        # As p4c's runner has it: digits that are not written are not compared.
        value, mask, _ = _digits(text, width, what)
    else:
        value, mask = integer(text, width, what), (1 << width) - 1
    if key.match == "optional":
        if mask == 0:
            return Optional_(None)
        if mask != (1 << width) - 1 and "*" in text:
            raise ValueProblem(f"{what}: '{text}': an optional field is compared whole or not")
        return Optional_(value)
    return Ternary(value & mask, mask)
