"""What a P4Info promises, prepared for validation: every request is checked against this.

`Schema.build` also checks the P4Info against the bmv2 JSON it came with, so that a
mismatched pair is refused when it is pushed and not entry by entry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from p4.config.v1 import p4info_pb2

from softswitch.engine.types import ActionCall
from softswitch.p4rt import bytestrings, wire
from softswitch.p4rt.jsonnames import JsonNames
from softswitch.p4rt.matching import FieldSpec, KeyCodec
from softswitch.p4rt.p4data import DataCodec
from softswitch.p4rt.packetio import ControllerHeader
from softswitch.p4rt.status import Code, P4RTError, invalid
from softswitch.p4rt.translation import StringSpace, Translations

_KINDS = {
    p4info_pb2.MatchField.EXACT: wire.EXACT,
    p4info_pb2.MatchField.LPM: wire.LPM,
    p4info_pb2.MatchField.TERNARY: wire.TERNARY,
    p4info_pb2.MatchField.RANGE: wire.RANGE,
    p4info_pb2.MatchField.OPTIONAL: wire.OPTIONAL,
}


@dataclass(frozen=True, slots=True)
class ParamSpec:
    """An action parameter. `width` in bits; `strings`: it is translated to strings."""

    id: int
    name: str
    width: int
    strings: StringSpace | None = None


class ActionSpec:
    """An action: checks and translates its arguments both ways."""

    __slots__ = ("_plain", "_positions", "id", "name", "params")

    def __init__(self, action_id: int, name: str, params: Sequence[ParamSpec]) -> None:
        self.id = action_id
        self.name = name
        self.params = tuple(params)
        self._positions = {param.id: index for index, param in enumerate(self.params)}
        self._plain = all(param.strings is None for param in self.params)

    def decode(self, params: Sequence[tuple[int, bytes]]) -> ActionCall:
        """Arguments in program order; INVALID_ARGUMENT for missing, extra or too wide ones."""
        specs = self.params
        count = len(specs)
        if len(params) == count and self._plain:
            # The usual case: all of them, in order.
            args = []
            for spec, (param_id, data) in zip(specs, params, strict=True):
                if param_id != spec.id:
                    break
                value = int.from_bytes(data, "big")
                if not data or value >> spec.width:
                    bytestrings.decode(data, spec.width, f"action {self.name}: {spec.name}")
                args.append(value)
            else:
                return ActionCall(self.name, tuple(args))
        return self._decode_unordered(params)

    def _decode_unordered(self, params: Sequence[tuple[int, bytes]]) -> ActionCall:
        values: list[int | None] = [None] * len(self.params)
        for param_id, data in params:
            index = self._positions.get(param_id)
            if index is None:
                raise invalid(f"action {self.name}: there is no parameter id {param_id}")
            spec = self.params[index]
            if values[index] is not None:
                raise invalid(f"action {self.name}: {spec.name} is given twice")
            what = f"action {self.name}: {spec.name}"
            if spec.strings is not None:
                values[index] = spec.strings.to_plane(data, what)
            else:
                values[index] = bytestrings.decode(data, spec.width, what)
        args = []
        for spec, value in zip(self.params, values, strict=True):
            if value is None:
                raise invalid(f"action {self.name}: {spec.name} (id {spec.id}) is missing")
            args.append(value)
        return ActionCall(self.name, tuple(args))

    def encode(self, args: Sequence[int]) -> bytes:
        """Body of p4.v1.Action with canonical arguments."""
        parts = [wire.field_varint(1, self.id)]
        for spec, value in zip(self.params, args, strict=True):
            strings = spec.strings
            data = bytestrings.encode(value) if strings is None else strings.to_sdn(value)
            parts.append(
                wire.field_bytes(4, wire.field_varint(2, spec.id) + wire.field_bytes(3, data))
            )
        return b"".join(parts)


@dataclass(slots=True)
class TableSpec:
    """A table: key, actions and what hangs on it."""

    id: int
    name: str
    key: KeyCodec
    actions: dict[int, ActionSpec]
    table_only: frozenset[int]
    default_only: frozenset[int]
    const_default: bool
    initial_default: tuple[int, ActionCall] | None
    profile_id: int
    direct_counter: bool
    direct_meter: bool
    meter_kind: int
    """MeterSpec.Type of the direct meter."""
    size: int
    idle_timeout: bool
    is_const: bool
    has_initial_entries: bool
    actions_by_name: dict[str, ActionSpec] = field(default_factory=dict)

    def decode_action(self, raw: wire.RawAction, default: bool = False) -> ActionCall:
        """Check an action for this table (`default`: as the default action)."""
        spec = self.actions.get(raw.action_id)
        if spec is None:
            raise invalid(f"table {self.name}: action id {raw.action_id} is not one of its actions")
        if default and spec.id in self.table_only:
            raise P4RTError(
                Code.PERMISSION_DENIED,
                f"table {self.name}: {spec.name} is @tableonly, not for the default entry",
            )
        if not default and spec.id in self.default_only:
            raise P4RTError(
                Code.PERMISSION_DENIED,
                f"table {self.name}: {spec.name} is @defaultonly, not for entries",
            )
        return spec.decode(raw.params)


@dataclass(slots=True)
class ProfileSpec:
    """An action profile or selector."""

    id: int
    name: str
    selector: bool
    size: int
    max_group_size: int
    sum_of_members: bool
    max_member_weight: int
    table_ids: tuple[int, ...]


@dataclass(slots=True)
class ArraySpec:
    """A counter, meter or register array. `type_spec` of registers only."""

    id: int
    name: str
    size: int
    width: int = 0
    kind: str = "bit"
    """bit, int, bool or enum: how P4Data carries a cell."""
    meter_kind: int = 0
    """MeterSpec.Type of a meter."""


@dataclass(slots=True)
class ValueSetSpec:
    """A parser value set."""

    id: int
    name: str
    size: int
    key: KeyCodec


@dataclass(slots=True)
class DigestSpec:
    """A digest and how its data is encoded."""

    id: int
    name: str
    codec: DataCodec


class Schema:
    """Everything of a P4Info by id."""

    _translations: Translations

    def __init__(self) -> None:
        self.actions: dict[int, ActionSpec] = {}
        self.tables: dict[int, TableSpec] = {}
        self.profiles: dict[int, ProfileSpec] = {}
        self.counters: dict[int, ArraySpec] = {}
        self.meters: dict[int, ArraySpec] = {}
        self.registers: dict[int, ArraySpec] = {}
        self.value_sets: dict[int, ValueSetSpec] = {}
        self.digests: dict[int, DigestSpec] = {}
        self.packet_in = ControllerHeader()
        self.packet_out = ControllerHeader()

    @classmethod
    def build(
        cls,
        p4info: Any,
        program: Mapping[str, Any],
        ports: Callable[[], Mapping[int, str]] = dict,
    ) -> Schema:
        """From a P4Info and the JSON of the same program; INVALID_ARGUMENT if they differ.

        `ports`: interface names, for ports that are translated to strings.
        """
        schema = cls()
        _check_ids(p4info)
        json = JsonNames(program)
        schema._translations = translations = Translations(p4info.type_info, ports)
        for action in p4info.actions:
            name = action.preamble.name
            widths = json.actions.get(name, [])
            params = [
                ParamSpec(
                    item.id,
                    item.name,
                    item.bitwidth,
                    translations.strings(item, widths[index] if index < len(widths) else 0),
                )
                for index, item in enumerate(action.params)
            ]
            schema.actions[action.preamble.id] = ActionSpec(action.preamble.id, name, params)
        direct_counters = {item.preamble.id for item in p4info.direct_counters}
        direct_meters = {item.preamble.id: item.spec.type for item in p4info.direct_meters}
        for table in p4info.tables:
            spec = schema._table(table, json, direct_counters, direct_meters)
            schema.tables[spec.id] = spec
        for profile in p4info.action_profiles:
            schema._profile(profile, json)
        for counter in p4info.counters:
            schema._array(schema.counters, counter, json.counters, "counter")
        for meter in p4info.meters:
            spec_array = schema._array(schema.meters, meter, json.meters, "meter")
            spec_array.meter_kind = meter.spec.type
        for register in p4info.registers:
            spec_array = schema._array(schema.registers, register, json.registers, "register")
            _register_type(spec_array, register.type_spec, json)
        for value_set in p4info.value_sets:
            preamble = value_set.preamble
            fields = [schema._field(item, {}, json) for item in value_set.match]
            key = KeyCodec(preamble.name, fields, "value set")
            schema.value_sets[preamble.id] = ValueSetSpec(
                preamble.id, preamble.name, value_set.size, key
            )
        for digest in p4info.digests:
            preamble = digest.preamble
            codec = DataCodec(digest.type_spec, p4info.type_info, f"digest {preamble.name}")
            leaves = json.learn_lists.get(preamble.name)
            if leaves is not None and leaves != codec.leaves:
                raise invalid(f"digest {preamble.name}: P4Info and bmv2 JSON differ in fields")
            schema.digests[preamble.id] = DigestSpec(preamble.id, preamble.name, codec)
        for header in p4info.controller_packet_metadata:
            if header.preamble.name == "packet_in":
                schema.packet_in = schema._header(header.metadata, json)
            elif header.preamble.name == "packet_out":
                schema.packet_out = schema._header(header.metadata, json)
        return schema

    def preinitialized(self) -> dict[str, int]:
        """Name -> size of tables with `entries` that are not const ("Preinitialized tables")."""
        return {
            table.name: table.size
            for table in self.tables.values()
            if table.has_initial_entries and not table.is_const
        }

    def _header(self, metadata: Any, json: JsonNames) -> ControllerHeader:
        strings = {
            item.id: space for item in metadata if (space := self._translations.strings(item))
        }
        widths: Mapping[int, int] = {}
        if any(self._translations.is_translated(item) for item in metadata):
            found = json.header_widths([item.name for item in metadata])
            if found is None:
                raise invalid("P4Info: a packet header with translated fields is not in the JSON")
            widths = {item.id: width for item, width in zip(metadata, found, strict=True)}
            for item in metadata:
                self._translations.strings(item, widths[item.id])
        return ControllerHeader(metadata, widths, strings)

    def _table(
        self, table: Any, json: JsonNames, direct_counters: set[int], direct_meters: dict[int, int]
    ) -> TableSpec:
        name = table.preamble.name
        described = json.tables.get(name)
        if described is None:
            raise invalid(f"table {name} of the P4Info is not in the bmv2 JSON")
        keys = [key for key in described.get("key", []) if key.get("match_type") != "selector"]
        if len(keys) != len(table.match_fields):
            raise invalid(
                f"table {name}: the P4Info has {len(table.match_fields)} match fields, "
                f"the bmv2 JSON {len(keys)}"
            )
        fields = [
            self._field(item, key, json) for item, key in zip(table.match_fields, keys, strict=True)
        ]
        actions: dict[int, ActionSpec] = {}
        scopes: dict[int, set[int]] = {1: set(), 2: set()}
        known = set(described.get("actions", []))
        for ref in table.action_refs:
            action = self.actions.get(ref.id)
            if action is None:
                raise invalid(f"table {name}: action id {ref.id} is not in the P4Info")
            if action.name not in known:
                raise invalid(f"table {name}: action {action.name} is not in the bmv2 JSON")
            if len(json.actions.get(action.name, ())) != len(action.params):
                raise invalid(f"action {action.name}: P4Info and bmv2 JSON differ in parameters")
            actions[ref.id] = action
            if ref.scope in scopes:
                scopes[ref.scope].add(ref.id)
        initial: tuple[int, ActionCall] | None = None
        if table.initial_default_action.action_id:
            default = table.initial_default_action
            action = self.actions.get(default.action_id)
            if action is not None:
                params = [(item.param_id, item.value) for item in default.arguments]
                initial = (action.id, action.decode(params))
        elif table.const_default_action_id in self.actions:
            action = self.actions[table.const_default_action_id]
            if not action.params:
                initial = (action.id, ActionCall(action.name))
        resources = set(table.direct_resource_ids)
        return TableSpec(
            id=table.preamble.id,
            name=name,
            key=KeyCodec(name, fields),
            actions=actions,
            table_only=frozenset(scopes[1]),
            default_only=frozenset(scopes[2]),
            const_default=bool(table.const_default_action_id),
            initial_default=initial,
            profile_id=table.implementation_id,
            direct_counter=bool(resources & direct_counters),
            direct_meter=bool(resources & direct_meters.keys()),
            meter_kind=next((direct_meters[x] for x in resources if x in direct_meters), 0),
            size=table.size,
            idle_timeout=table.idle_timeout_behavior != p4info_pb2.Table.NO_TIMEOUT,
            is_const=table.is_const_table,
            has_initial_entries=table.has_initial_entries or bool(described.get("entries")),
            actions_by_name={action.name: action for action in actions.values()},
        )

    def _field(self, item: Any, key: Mapping[str, Any], json: JsonNames) -> FieldSpec:
        kind = _KINDS.get(item.match_type)
        if kind is None or item.WhichOneof("match") == "other_match_type":
            raise invalid(f"match field {item.name}: match kind is not supported")
        strings = self._translations.strings(item, json.field_width(key.get("target")))
        if strings is not None and kind not in (wire.EXACT, wire.OPTIONAL):
            raise invalid(
                f"match field {item.name}: translated to strings, so it must be exact or optional"
            )
        validity = key.get("match_type") == "valid"
        return FieldSpec(item.id, item.name, item.bitwidth, kind, validity, strings)

    def _profile(self, profile: Any, json: JsonNames) -> None:
        preamble = profile.preamble
        if preamble.name not in json.profiles:
            raise invalid(f"action profile {preamble.name} of the P4Info is not in the bmv2 JSON")
        has_semantics = "sum_of_members" in profile.DESCRIPTOR.fields_by_name
        by_members = has_semantics and profile.HasField("sum_of_members")
        self.profiles[preamble.id] = ProfileSpec(
            id=preamble.id,
            name=preamble.name,
            selector=profile.with_selector,
            size=profile.size,
            max_group_size=profile.max_group_size,
            sum_of_members=by_members,
            max_member_weight=profile.sum_of_members.max_member_weight if by_members else 0,
            table_ids=tuple(profile.table_ids),
        )

    def _array(
        self, into: dict[int, ArraySpec], item: Any, known: Mapping[str, Any], what: str
    ) -> ArraySpec:
        name = item.preamble.name
        if name not in known:
            raise invalid(f"{what} {name} of the P4Info is not in the bmv2 JSON")
        spec = ArraySpec(item.preamble.id, name, item.size)
        into[spec.id] = spec
        return spec


def _register_type(spec: ArraySpec, type_spec: Any, json: JsonNames) -> None:
    """Width and P4Data kind of a register's cells."""
    spec.width = json.register_widths.get(spec.name, 0)
    which = type_spec.WhichOneof("type_spec")
    if which == "bitstring":
        bits = type_spec.bitstring
        form = bits.WhichOneof("type_spec")
        if form == "int":
            spec.kind = "int"
            spec.width = bits.int.bitwidth
        elif form == "bit":
            spec.width = bits.bit.bitwidth
        else:
            spec.kind = "other"
    elif which == "bool":
        spec.kind = "bool"
        spec.width = spec.width or 1
    elif which == "serializable_enum":
        spec.kind = "enum"
    elif which is not None and which != "new_type":
        spec.kind = "other"


def _check_ids(p4info: Any) -> None:
    """Ids are unique and not 0 over all objects with a preamble."""
    seen: dict[int, str] = {}
    for group in (
        p4info.tables,
        p4info.actions,
        p4info.action_profiles,
        p4info.counters,
        p4info.direct_counters,
        p4info.meters,
        p4info.direct_meters,
        p4info.registers,
        p4info.value_sets,
        p4info.digests,
    ):
        for item in group:
            preamble = item.preamble
            if preamble.id == 0:
                raise invalid(f"P4Info: {preamble.name}: id 0")
            if preamble.id in seen:
                raise invalid(
                    f"P4Info: {preamble.name} and {seen[preamble.id]} share id {preamble.id}"
                )
            seen[preamble.id] = preamble.name
