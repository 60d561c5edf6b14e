"""Match keys: from FieldMatch messages to canonical tuples, and back.

A key is a tuple with one item per match field, in the order of the P4Info, and the
priority last. Items: int for exact, (value, prefix length) for lpm, (value, mask) for
ternary, (low, high) for range, int or None for optional. Two entries are the same entry
exactly when their keys are equal (P4Runtime spec, "Match Format").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from softswitch.engine.types import Exact, Lpm, MatchValue, Optional_, Range, Ternary, Valid
from softswitch.p4rt import bytestrings, wire
from softswitch.p4rt.status import P4RTError, invalid
from softswitch.p4rt.translation import StringSpace

Key: TypeAlias = tuple[Any, ...]

_KIND_NAMES = {
    wire.EXACT: "exact",
    wire.TERNARY: "ternary",
    wire.LPM: "lpm",
    wire.RANGE: "range",
    wire.OPTIONAL: "optional",
}


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """A match field: `width` in bits, `kind` a field number of FieldMatch.

    `validity`: bmv2's match kind `valid`, which P4Info shows as exact. `strings`: the field is
    translated to strings (exact and optional only).
    """

    id: int
    name: str
    width: int
    kind: int
    validity: bool = False
    strings: StringSpace | None = None


_Decode: TypeAlias = Callable[[bytes, Any], Any]


def _decoder(spec: FieldSpec, what: str) -> _Decode:
    """A function (first, second) -> key item, with everything looked up beforehand."""
    width = spec.width
    top = (1 << width) - 1
    from_bytes = int.from_bytes

    def fault(data: bytes) -> P4RTError:
        if not data:
            return invalid(f"{what}: empty byte string")
        return invalid(f"{what}: 0x{from_bytes(data, 'big'):x} does not fit in {width} bits")

    def exact(first: bytes, _: Any) -> int:
        value = from_bytes(first, "big")
        if not first or value > top:
            raise fault(first)
        return value

    def lpm(first: bytes, length: int) -> tuple[int, int]:
        value = from_bytes(first, "big")
        if not first or value > top:
            raise fault(first)
        if not 0 < length <= width:
            if length == 0:
                raise invalid(f"{what}: prefix length 0 is don't-care; omit the field")
            raise invalid(f"{what}: prefix length {length} is not in 1..{width}")
        if value & (top >> length):
            raise invalid(f"{what}: 0x{value:x} has bits set past its prefix length {length}")
        return value, length

    def ternary(first: bytes, second: bytes) -> tuple[int, int]:
        value = from_bytes(first, "big")
        if not first or value > top:
            raise fault(first)
        mask = from_bytes(second, "big")
        if not second or mask > top:
            raise fault(second)
        if mask == 0:
            raise invalid(f"{what}: mask 0 is don't-care; omit the field")
        if value & ~mask:
            raise invalid(f"{what}: 0x{value:x} has bits set that mask 0x{mask:x} leaves out")
        return value, mask

    def range_(first: bytes, second: bytes) -> tuple[int, int]:
        low = from_bytes(first, "big")
        if not first or low > top:
            raise fault(first)
        high = from_bytes(second, "big")
        if not second or high > top:
            raise fault(second)
        if low > high:
            raise invalid(f"{what}: low bound {low} exceeds high bound {high}")
        if low == 0 and high == top:
            raise invalid(f"{what}: the whole range is don't-care; omit the field")
        return low, high

    strings = spec.strings
    if strings is not None:
        space = strings
        return lambda first, _: space.to_plane(first, what)
    decoders: dict[int, _Decode] = {
        wire.EXACT: exact,
        wire.OPTIONAL: exact,
        wire.LPM: lpm,
        wire.TERNARY: ternary,
        wire.RANGE: range_,
    }
    return decoders[spec.kind]


class KeyCodec:
    """Translates the keys of one table (or value set)."""

    def __init__(self, table: str, fields: Sequence[FieldSpec], what: str = "table") -> None:
        self.table = f"{what} {table}"
        self.fields = tuple(fields)
        self.needs_priority = any(
            item.kind in (wire.TERNARY, wire.RANGE, wire.OPTIONAL) for item in self.fields
        )
        self._by_id: dict[int, tuple[int, int, _Decode]] = {}
        self._wildcards: list[Any] = []
        for index, item in enumerate(self.fields):
            label = item.name or f"field {item.id}"
            what_field = f"{self.table}: {label}"
            self._by_id[item.id] = (index, item.kind, _decoder(item, what_field))
            self._wildcards.append(_wildcard(item))
        self._match = [_engine_match(item) for item in self.fields]
        self._encode = [_encoder(item) for item in self.fields]

    def decode(self, matches: Sequence[wire.RawMatch]) -> list[Any]:
        """Key items (no priority); INVALID_ARGUMENT names the field that is wrong."""
        items: list[Any] = [_MISSING] * len(self.fields)
        for field_id, kind, first, second in matches:
            known = self._by_id.get(field_id)
            if known is None:
                raise invalid(f"{self.table}: there is no match field id {field_id}")
            index, wanted, decode = known
            if kind != wanted:
                raise self._kind_error(index, kind)
            if items[index] is not _MISSING:
                raise invalid(f"{self.table}: {self.fields[index].name} is given twice")
            items[index] = decode(first, second)
        if _MISSING in items:
            for index, item in enumerate(items):
                if item is _MISSING:
                    if self.fields[index].kind == wire.EXACT:
                        raise invalid(
                            f"{self.table}: exact match field {self.fields[index].name} is missing"
                        )
                    items[index] = self._wildcards[index]
        return items

    def key(self, matches: Sequence[wire.RawMatch], priority: int) -> Key:
        """Full key of an entry, priority checked."""
        items = self.decode(matches)
        if self.needs_priority:
            if priority <= 0:
                raise invalid(
                    f"{self.table}: priority {priority}: its ternary, range or optional "
                    "fields need one above 0"
                )
        elif priority:
            raise invalid(
                f"{self.table}: priority {priority}: must be 0, no field is ternary, "
                "range or optional"
            )
        items.append(priority)
        return tuple(items)

    def _kind_error(self, index: int, kind: int) -> P4RTError:
        item = self.fields[index]
        given = _KIND_NAMES.get(kind, "unset" if kind == 0 else "other")
        return invalid(
            f"{self.table}: {item.name} is {_KIND_NAMES[item.kind]}, the match is {given}"
        )

    def match_values(self, key: Key) -> tuple[MatchValue, ...]:
        """The key as the engine takes it."""
        return tuple([make(item) for make, item in zip(self._match, key, strict=False)])

    def from_engine(self, match: Sequence[MatchValue], priority: int) -> Key:
        """The key of an entry the engine had from the program."""
        items: list[Any] = []
        for spec, value in zip(self.fields, match, strict=True):
            items.append(_from_engine(spec, value))
        items.append(priority if self.needs_priority else 0)
        return tuple(items)

    def encode(self, key: Key) -> bytes:
        """The `match` fields (2) of TableEntry; don't-care fields are left out."""
        return b"".join([make(item) for make, item in zip(self._encode, key, strict=False)])


_MISSING: Any = object()


def _wildcard(spec: FieldSpec) -> Any:
    if spec.kind in (wire.LPM, wire.TERNARY):
        return (0, 0)
    if spec.kind == wire.RANGE:
        return (0, (1 << spec.width) - 1)
    return None


def _engine_match(spec: FieldSpec) -> Callable[[Any], MatchValue]:
    if spec.validity:
        return lambda item: Valid(bool(item))
    if spec.kind == wire.EXACT:
        return Exact
    if spec.kind == wire.OPTIONAL:
        return Optional_
    if spec.kind == wire.LPM:
        return lambda item: Lpm(*item)
    if spec.kind == wire.TERNARY:
        return lambda item: Ternary(*item)
    return lambda item: Range(*item)


def _from_engine(spec: FieldSpec, value: MatchValue) -> Any:
    """Key item of an engine match value; a wildcard in any spelling becomes ours."""
    top = (1 << spec.width) - 1
    match value:
        case Exact(number):
            if spec.kind == wire.LPM:
                return (number, spec.width)
            if spec.kind == wire.TERNARY:
                return (number, top)
            if spec.kind == wire.RANGE:
                return (number, number)
            return number
        case Valid(flag):
            return int(flag)
        case Lpm(number, length):
            return (number & ~(top >> length) if length else 0, length)
        case Ternary(number, mask):
            if spec.kind == wire.OPTIONAL:
                return number if mask else None
            return (number & mask, mask)
        case Range(low, high):
            return (low, high)
        case Optional_(number):
            return number


def _encoder(spec: FieldSpec) -> Callable[[Any], bytes]:
    head = wire.field_varint(1, spec.id)
    kind = spec.kind
    full = (0, (1 << spec.width) - 1)

    def wrap(body: bytes) -> bytes:
        return wire.field_bytes(2, head + wire.field_bytes(kind, body))

    encode = bytestrings.encode if spec.strings is None else spec.strings.to_sdn

    def single(item: int | None) -> bytes:
        return b"" if item is None else wrap(wire.field_bytes(1, encode(item)))

    def lpm(item: tuple[int, int]) -> bytes:
        value, length = item
        if not length:
            return b""
        body = wire.field_bytes(1, bytestrings.encode(value)) + wire.field_varint(2, length)
        return wrap(body)

    def pair(item: tuple[int, int]) -> bytes:
        first, second = item
        if (kind == wire.TERNARY and not second) or (kind == wire.RANGE and item == full):
            return b""
        return wrap(
            wire.field_bytes(1, bytestrings.encode(first))
            + wire.field_bytes(2, bytestrings.encode(second))
        )

    if kind in (wire.EXACT, wire.OPTIONAL):
        return single
    return lpm if kind == wire.LPM else pair
