"""Parser value sets: members of one or more fields, exact or masked.

A field may be exact, ternary, lpm or optional; the engine compares value and mask. Ranges would
need several members for one and are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from softswitch.engine import Engine
from softswitch.p4rt import wire
from softswitch.p4rt.journal import Journal
from softswitch.p4rt.schema import ValueSetSpec
from softswitch.p4rt.status import Code, P4RTError, invalid, unimplemented

MODIFY = 2


class ValueSets:
    """All value sets of a program."""

    def __init__(
        self,
        engine: Engine,
        specs: Mapping[int, ValueSetSpec],
        journal: Journal | None = None,
    ) -> None:
        self._engine = engine
        self._journal = journal or Journal()
        self._specs = specs
        self._members: dict[int, list[tuple[Any, ...]]] = {key: [] for key in specs}

    def _spec(self, wanted: int) -> ValueSetSpec:
        spec = self._specs.get(wanted)
        if spec is None:
            raise invalid(f"value set id {wanted} is not in the P4Info")
        return spec

    def write(self, update_type: int, entry: Any) -> None:
        """An update of ValueSetEntry: MODIFY replaces all members."""
        spec = self._spec(entry.value_set_id)
        if update_type != MODIFY:
            raise invalid(f"value set {spec.name}: only MODIFY is possible")
        if any(item.kind == wire.RANGE for item in spec.key.fields):
            raise unimplemented(f"value set {spec.name}: range fields are not supported")
        if spec.size and len(entry.members) > spec.size:
            raise P4RTError(
                Code.RESOURCE_EXHAUSTED,
                f"value set {spec.name}: {len(entry.members)} members, size is {spec.size}",
            )
        members: list[tuple[Any, ...]] = []
        for member in entry.members:
            matches = [_raw(spec, item) for item in member.match]
            key = tuple(spec.key.decode(matches))
            if key in members:
                raise P4RTError(
                    Code.ALREADY_EXISTS, f"value set {spec.name}: member {key} is given twice"
                )
            members.append(key)
        old = self._members[spec.id]
        self._put(spec, members)
        self._journal.note(lambda: self._put(spec, old))

    def _put(self, spec: ValueSetSpec, members: list[tuple[Any, ...]]) -> None:
        self._engine.value_set_set(spec.name, [_pack(spec, key) for key in members])
        self._members[spec.id] = members

    def read(self, entry: Any) -> Iterator[bytes]:
        """Bodies of Entity."""
        wanted = entry.value_set_id
        for spec in [self._spec(wanted)] if wanted else list(self._specs.values()):
            body = wire.field_varint(1, spec.id)
            for key in self._members[spec.id]:
                # ValueSetMember.match is field 1, TableEntry's is 2.
                match = b"".join(
                    wire.field_bytes(1, value)  # type: ignore[arg-type]
                    for _, value in wire.fields(spec.key.encode((*key, 0)))
                )
                body += wire.field_bytes(2, match)
            yield wire.field_bytes(10, body)


def _raw(spec: ValueSetSpec, match: Any) -> wire.RawMatch:
    """A FieldMatch message as `KeyCodec` takes it."""
    form = match.WhichOneof("field_match_type")
    if form == "exact":
        return wire.RawMatch(match.field_id, wire.EXACT, match.exact.value)
    if form == "ternary":
        pair = match.ternary.value, match.ternary.mask
        return wire.RawMatch(match.field_id, wire.TERNARY, *pair)
    if form == "lpm":
        return wire.RawMatch(match.field_id, wire.LPM, match.lpm.value, match.lpm.prefix_len)
    if form == "optional":
        return wire.RawMatch(match.field_id, wire.OPTIONAL, match.optional.value)
    raise invalid(f"value set {spec.name}: match of field {match.field_id} is {form or 'unset'}")


def _pack(spec: ValueSetSpec, key: tuple[Any, ...]) -> int | tuple[int, int]:
    """The fields back to back, as the engine takes them: a value, or value and mask."""
    value = mask = 0
    exact = True
    for item, part in zip(spec.key.fields, key, strict=True):
        full = (1 << item.width) - 1
        number, care = part, full
        if item.kind == wire.TERNARY:
            number, care = part
        elif item.kind == wire.LPM:
            number, care = part[0], full ^ (full >> part[1])
        elif part is None:
            number = care = 0
        value, mask = value << item.width | number, mask << item.width | care
        exact = exact and care == full
    return value if exact else (value, mask)
