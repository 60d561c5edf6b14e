"""P4Data of digests: the flat values of the engine as the type that the P4Info gives them.

The engine (like bmv2) gives a digest as its leaf fields in order; the P4Info says which
struct, tuple or header they make up (P4Runtime spec, "Representation of Arbitrary P4 Types").
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from p4.v1 import p4data_pb2

from softswitch.p4rt import bytestrings
from softswitch.p4rt.status import invalid

_Fill: TypeAlias = Callable[[Any, Iterator[int]], None]
"""Takes as many values as a type has leaves and fills a P4Data with them."""

MAX_DEPTH = 16


class DataCodec:
    """Encodes values of one P4 type. INVALID_ARGUMENT when the type is not one of ours."""

    def __init__(self, type_spec: Any, type_info: Any, what: str) -> None:
        self._info = type_info
        self._what = what
        self.leaves = 0
        """Values that make up one datum."""
        self._fill = self._build(type_spec, 0)

    def encode(self, values: tuple[int, ...]) -> bytes:
        """Body of P4Data; ValueError when the number of values is not `leaves`."""
        if len(values) != self.leaves:
            raise ValueError(f"{self._what}: {len(values)} values for {self.leaves} fields")
        out = p4data_pb2.P4Data()
        self._fill(out, iter(values))
        return bytes(out.SerializeToString())

    def _build(self, spec: Any, depth: int) -> _Fill:
        if depth > MAX_DEPTH:
            raise invalid(f"{self._what}: types nested deeper than {MAX_DEPTH}")
        form = spec.WhichOneof("type_spec")
        if form == "bitstring":
            return self._bits(spec.bitstring)
        if form == "bool":
            return self._leaf(lambda out, value: setattr(out, "bool", bool(value)))
        if form == "new_type":
            new = self._named(self._info.new_types, spec.new_type.name)
            if new.HasField("original_type"):
                return self._build(new.original_type, depth + 1)
            return self._leaf(_set_bits)
        if form == "serializable_enum":
            return self._leaf(
                lambda out, value: setattr(out, "enum_value", bytestrings.encode(value))
            )
        if form == "enum":
            names = [
                member.name for member in self._named(self._info.enums, spec.enum.name).members
            ]
            return self._leaf(lambda out, value: setattr(out, "enum", _name(names, value)))
        if form == "error":
            names = list(self._info.error.members)
            return self._leaf(lambda out, value: setattr(out, "error", _name(names, value)))
        if form == "struct":
            members = self._named(self._info.structs, spec.struct.name).members
            parts = [self._build(member.type_spec, depth + 1) for member in members]
            return lambda out, values: _members(out.struct.members, parts, values, out.struct)
        if form == "tuple":
            parts = [self._build(member, depth + 1) for member in spec.tuple.members]
            return lambda out, values: _members(out.tuple.members, parts, values, out.tuple)
        if form == "header":
            return self._header(self._named(self._info.headers, spec.header.name))
        raise invalid(f"{self._what}: data of type {form or 'unset'} is not supported")

    def _named(self, types: Any, name: str) -> Any:
        found = types.get(name)  # [] would add it to the P4Info
        if found is None:
            raise invalid(f"{self._what}: type {name} is not in the P4Info")
        return found

    def _leaf(self, put: Callable[[Any, int], None]) -> _Fill:
        self.leaves += 1
        return lambda out, values: put(out, next(values))

    def _bits(self, bits: Any) -> _Fill:
        form = bits.WhichOneof("type_spec")
        if form == "bit":
            return self._leaf(_set_bits)
        if form == "int":
            width = bits.int.bitwidth
            return self._leaf(lambda out, value: setattr(out, "bitstring", _signed(value, width)))
        raise invalid(f"{self._what}: varbit data is not supported")

    def _header(self, header: Any) -> _Fill:
        count = len(header.members)
        self.leaves += count

        def fill(out: Any, values: Iterator[int]) -> None:
            out.header.is_valid = True
            for _ in range(count):
                out.header.bitstrings.append(bytestrings.encode(next(values)))

        return fill


def _set_bits(out: Any, value: int) -> None:
    out.bitstring = bytestrings.encode(value)


def _signed(value: int, width: int) -> bytes:
    return bytestrings.encode_signed(value - (1 << width) if value >> (width - 1) else value)


def _name(names: list[str], value: int) -> str:
    return names[value] if value < len(names) else str(value)


def _members(into: Any, parts: list[_Fill], values: Iterator[int], holder: Any) -> None:
    holder.SetInParent()
    for fill in parts:
        fill(into.add(), values)
