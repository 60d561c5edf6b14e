"""Model -> P4Info, the control plane's view of a program (P4Runtime 1.4, section 6)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from p4.config.v1 import p4info_pb2

from softswitch.p4 import ast
from softswitch.p4 import p4info_ids as ids
from softswitch.p4 import types as t
from softswitch.p4.bmv2json import enum_name, number
from softswitch.p4.diagnostics import Reporter
from softswitch.p4.lower import values as v
from softswitch.p4.lower.model import Action, Digest, Model, Table
from softswitch.p4.lower.storage import control_plane_name
from softswitch.p4.lower.values import Instance
from softswitch.p4.p4info_types import TypeInfo, annotation_constant, shown, type_name

_MATCH = {"exact": 2, "lpm": 3, "ternary": 4, "range": 5, "optional": 6}
_NOT_SHOWN = frozenset(
    ("name", "id", "brief", "description", "hidden", "tableonly", "defaultonly", "synth",
     "controller_header", "pkginfo", "platform_property", "max_group_size",
     "selector_size_semantics", "max_member_weight")
)  # fmt: skip
_PACKAGE_TEXTS = ("name", "version", "organization", "contact", "url", "arch")
_SCOPES = frozenset(("tableonly", "defaultonly"))
_KINDS = {
    "counter": ids.COUNTER,
    "direct_counter": ids.DIRECT_COUNTER,
    "meter": ids.METER,
    "direct_meter": ids.DIRECT_METER,
    "register": ids.REGISTER,
    "action_profile": ids.ACTION_PROFILE,
    "action_selector": ids.ACTION_PROFILE,
}
_UNITS = {"bytes": 1, "packets": 2, "packets_and_bytes": 3}


def write_p4info(model: Model, reporter: Reporter) -> Any:
    """The P4Info message of a program."""
    return _Writer(model, reporter).message()


def annotation_number(annotations: list[ast.Annotation], name: str) -> int | None:
    """The number in @name(number)."""
    for note in annotations:
        if note.name == name and note.args and isinstance(note.args[0], ast.IntLit):
            return note.args[0].number
    return None


def annotation_text(annotations: list[ast.Annotation], name: str) -> str | None:
    """The string in @name("string")."""
    for note in annotations:
        if note.name == name and note.args and isinstance(note.args[0], ast.StringLit):
            return note.args[0].text
    return None


class _Writer:
    def __init__(self, model: Model, reporter: Reporter) -> None:
        self.model = model
        self.reporter = reporter
        self.info = p4info_pb2.P4Info()
        self.ids = ids.Ids()
        self.types = TypeInfo(self.info, model)

    def message(self) -> Any:
        self._package()
        self._collect()
        self.ids.assign()
        self.aliases = ids.Aliases(self.ids.names())
        for block in self.model.blocks:
            for action in block.actions:
                self._action(action)
            for table in block.tables:
                self._table(table)
            for value_set in block.value_sets:
                self._value_set(*value_set)
        for instance in self._instances():
            self._extern(instance)
        for header in self.model.controller_headers:
            self._controller_header(header)
        for digest in self.model.digests:
            self._digest(digest)
        if self.info.tables or any(self._instances()) or self.model.calls_externs:
            self.info.type_info.SetInParent()
        return self.info

    def _instances(self) -> list[Instance]:
        groups = (self.model.global_externs, *(b.externs for b in self.model.blocks))
        return [i for group in groups for i in group]

    # ---- ids

    def _collect(self) -> None:
        for block in self.model.blocks:
            for action in block.actions:
                if action.decl is not None:
                    self._register(ids.ACTION, action.name, action.decl)
            for table in block.tables:
                if table.decl is not None:
                    self._register(ids.TABLE, table.name, table.decl)
            for name, _, _, decl in block.value_sets:
                self._register(ids.VALUE_SET, name, decl)
        for instance in self._instances():
            kind = _KINDS.get(_extern_name(instance))
            if kind is not None:
                fixed = annotation_number(instance.annotations, "id")
                self._report(self.ids.add(kind, instance.name, fixed), instance.span)
        for header in self.model.controller_headers:
            self._register(ids.CONTROLLER_HEADER, control_plane_name(header), header)
        for digest in self.model.digests:
            fixed = annotation_number(digest.decl.annotations, "id") if digest.decl else None
            self.ids.add(ids.DIGEST, digest.name, fixed)

    def _register(self, kind: int, name: str, decl: ast.Decl) -> None:
        fixed = annotation_number(decl.annotations, "id")
        self._report(self.ids.add(kind, name, fixed), decl.span)

    def _report(self, problem: str, span: Any) -> None:
        if problem:
            self.reporter.error(span, problem)

    def _preamble(
        self, preamble: Any, kind: int, name: str, annotations: list[ast.Annotation]
    ) -> None:
        preamble.id = self.ids[kind, name]
        preamble.name = name
        preamble.alias = self.aliases.of(name)
        self._annotations(preamble, annotations)
        self._documentation(preamble, annotations)

    def _annotations(
        self,
        message: Any,
        annotations: list[ast.Annotation],
        hidden: frozenset[str] = _NOT_SHOWN,
    ) -> None:
        for note in annotations:
            if note.name in hidden:
                continue
            if note.text.startswith(f"@{note.name}[") or (note.pairs and not note.args):
                self._structured(message, note)
                continue
            message.annotations.append(shown(note))

    def _structured(self, message: Any, note: ast.Annotation) -> None:
        entry = message.structured_annotations.add()
        entry.name = note.name
        if note.pairs:
            for key, expr in note.pairs:
                pair = entry.kv_pair_list.kv_pairs.add()
                pair.key = key
                self._annotation_value(pair.value, expr)
        else:
            entry.expression_list.SetInParent()
            for expr in note.args:
                self._annotation_value(entry.expression_list.expressions.add(), expr)

    def _annotation_value(self, message: Any, expr: ast.Expr) -> None:
        value = annotation_constant(expr, self.model.constants)
        if isinstance(value, bool):
            message.bool_value = value
        elif isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
            message.int64_value = value
        else:
            message.string_value = value if isinstance(value, str) else expr.span.text()

    def _documentation(self, message: Any, annotations: list[ast.Annotation]) -> None:
        for name in ("brief", "description"):
            text = annotation_text(annotations, name)
            if text is not None:
                setattr(message.doc, name, text)

    # ---- package

    def _package(self) -> None:
        package = self.info.pkg_info
        package.arch = "v1model"
        for note in self.model.annotations:
            if note.name == "pkginfo":
                for key, expr in note.pairs:
                    if key in _PACKAGE_TEXTS and isinstance(expr, ast.StringLit):
                        setattr(package, key, expr.text)
            elif note.name == "platform_property":
                for key, expr in note.pairs:
                    known = key in package.platform_properties.DESCRIPTOR.fields_by_name
                    if known and isinstance(expr, ast.IntLit):
                        setattr(package.platform_properties, key, expr.number & 0x7FFFFFFF)
            elif note.name not in _NOT_SHOWN:
                self._annotations(package, [note])
        self._documentation(package, self.model.annotations)

    # ---- actions and tables

    def _action(self, action: Action) -> None:
        decl = action.decl
        if decl is None or decl.annotation("hidden") is not None:
            return
        ident = self.ids[ids.ACTION, action.name]
        if any(a.preamble.id == ident for a in self.info.actions):
            return
        message = self.info.actions.add()
        self._preamble(message.preamble, ids.ACTION, action.name, decl.annotations)
        for param, number_ in zip(action.params, _param_ids(action), strict=True):
            entry = message.params.add()
            entry.id = number_
            entry.name = param.name
            self._annotations(entry, param.decl.annotations)
            self._documentation(entry, param.decl.annotations)
            self._width_and_type(entry, param.type)

    def _width_and_type(self, entry: Any, type_: t.Type) -> None:
        self.types.note(type_)
        bits = self.types.control_width(type_)
        if not isinstance(t.base(type_), t.TEnum):
            entry.bitwidth = bits
        name = type_name(type_)
        if name:
            entry.type_name.name = name

    def _table(self, table: Table) -> None:
        decl = table.decl
        if decl is None or table.hidden:
            return
        message = self.info.tables.add()
        self._preamble(message.preamble, ids.TABLE, table.name, decl.annotations)
        message.size = table.size
        self._default_action(message, table)
        for item in table.actions:
            ref = message.action_refs.add()
            ref.id = self.ids[ids.ACTION, item.action.name]
            if item.ref is None:
                ref.annotations.append("@defaultonly")
            else:
                self._annotations(ref, item.ref.annotations, _NOT_SHOWN - _SCOPES)
            if item.table_only:
                ref.scope = p4info_pb2.ActionRef.TABLE_ONLY
            elif item.default_only:
                ref.scope = p4info_pb2.ActionRef.DEFAULT_ONLY
        self._match_fields(message, table)
        if decl.entries is not None:
            message.is_const_table = table.entries_const
            message.has_initial_entries = bool(decl.entries)
        if table.profile is not None:
            message.implementation_id = self.ids[ids.ACTION_PROFILE, table.profile.name]
        if table.counter is not None:
            message.direct_resource_ids.append(self.ids[ids.DIRECT_COUNTER, table.counter.name])
            self._direct(self.info.direct_counters, ids.DIRECT_COUNTER, table.counter, message)
        if table.meter is not None:
            message.direct_resource_ids.append(self.ids[ids.DIRECT_METER, table.meter.name])
            self._direct(self.info.direct_meters, ids.DIRECT_METER, table.meter, message)
        if table.support_timeout:
            message.idle_timeout_behavior = p4info_pb2.Table.NOTIFY_CONTROL

    def _default_action(self, message: Any, table: Table) -> None:
        action = table.default_action
        if action is None:
            return
        ident = self.ids[ids.ACTION, action.name]
        if table.default_const:
            message.const_default_action_id = ident
        message.initial_default_action.action_id = ident
        numbers = _param_ids(action)
        for param, number_, value in zip(action.params, numbers, table.default_args, strict=False):
            argument = message.initial_default_action.arguments.add()
            argument.param_id = number_
            size = (v.width(param.type) + 7) // 8
            argument.value = value.to_bytes(max(1, size), "big")

    def _match_fields(self, message: Any, table: Table) -> None:
        assert table.decl is not None
        elements = table.decl.key or []
        numbers = ids.local_ids([annotation_number(e.annotations, "id") for e in elements])
        by_element = dict(zip(map(id, elements), numbers, strict=True))
        for key in table.keys:
            field = message.match_fields.add()
            field.id = by_element[id(key.element)]
            field.name = key.name
            self._annotations(field, key.element.annotations, _NOT_SHOWN - {"hidden"})
            self._documentation(field, key.element.annotations)
            field.match_type = _MATCH[key.match]
            self.types.note(key.type)
            field.bitwidth = self.types.control_width(key.type)
            if isinstance(key.type, t.TNew):
                field.type_name.name = key.type.name

    # ---- externs

    def _extern(self, instance: Instance) -> None:
        kind = _extern_name(instance)
        if kind == "counter":
            message = self.info.counters.add()
            self._preamble(message.preamble, ids.COUNTER, instance.name, instance.annotations)
            message.spec.unit = _UNITS.get(enum_name(instance, "type"), 0)
            message.size = number(instance, "size")
            self._index_type(message, instance, 0)
        elif kind == "meter":
            message = self.info.meters.add()
            self._preamble(message.preamble, ids.METER, instance.name, instance.annotations)
            message.spec.unit = _UNITS.get(enum_name(instance, "type"), 0)
            message.size = number(instance, "size")
            self._index_type(message, instance, 0)
        elif kind == "register":
            message = self.info.registers.add()
            self._preamble(message.preamble, ids.REGISTER, instance.name, instance.annotations)
            assert isinstance(instance.type, t.TExtern)
            self.types.spec(message.type_spec, instance.type.args[0])
            message.size = number(instance, "size")
            self._index_type(message, instance, 1)
        elif kind in ("action_profile", "action_selector"):
            self._profile(instance, kind)

    def _index_type(self, message: Any, instance: Instance, position: int) -> None:
        assert isinstance(instance.type, t.TExtern)
        if len(instance.type.args) > position:
            index = instance.type.args[position]
            self.types.note(index)
            name = type_name(index)
            if name:
                message.index_type_name.name = name

    def _profile(self, instance: Instance, kind: str) -> None:
        message = self.info.action_profiles.add()
        self._preamble(message.preamble, ids.ACTION_PROFILE, instance.name, instance.annotations)
        message.with_selector = kind == "action_selector"
        message.size = number(instance, "size")
        if message.with_selector:
            self._selector_limits(message, instance.annotations)
        names = [
            table.name
            for block in self.model.blocks
            for table in block.tables
            if table.profile is instance and not table.hidden
        ]
        for name in sorted(names):
            message.table_ids.append(self.ids[ids.TABLE, name])

    def _selector_limits(self, message: Any, annotations: list[ast.Annotation]) -> None:
        limit = annotation_number(annotations, "max_group_size")
        if limit is not None:
            message.max_group_size = limit
        semantics = (annotation_text(annotations, "selector_size_semantics") or "").lower()
        if semantics == "sum_of_weights":
            message.sum_of_weights.SetInParent()
        elif semantics == "sum_of_members":
            message.sum_of_members.SetInParent()
            weight = annotation_number(annotations, "max_member_weight")
            if weight is not None:
                message.sum_of_members.max_member_weight = weight

    def _direct(self, into: Any, kind: int, instance: Instance, table: Any) -> None:
        message = into.add()
        self._preamble(message.preamble, kind, instance.name, instance.annotations)
        message.spec.unit = _UNITS.get(enum_name(instance, "type"), 0)
        message.direct_table_id = table.preamble.id

    # ---- the rest

    def _value_set(self, name: str, size: int, type_: t.Type, decl: ast.ValueSetDecl) -> None:
        message = self.info.value_sets.add()
        self._preamble(message.preamble, ids.VALUE_SET, name, decl.annotations)
        message.size = size
        kind = type_ if isinstance(type_, t.TStruct) else t.base(type_)
        if not isinstance(kind, t.TStruct):
            field = message.match.add()
            field.id = 1
            field.bitwidth = v.width(kind)
            field.match_type = _MATCH["exact"]
            return
        fields = kind.decl.fields
        numbers = ids.local_ids([annotation_number(f.annotations, "id") for f in fields])
        for item, number_ in zip(fields, numbers, strict=True):
            field = message.match.add()
            field.id = number_
            field.name = control_plane_name(item)
            field.bitwidth = v.width(kind.fields[item.name])
            match = item.annotation("match")
            word = match.args[0].name if match and match.args and isinstance(
                match.args[0], ast.Name) else "exact"  # fmt: skip
            field.match_type = _MATCH.get(word, _MATCH["exact"])
            self._annotations(field, [a for a in item.annotations if a.name != "match"])
            self._documentation(field, item.annotations)

    def _controller_header(self, decl: ast.StructLike) -> None:
        name = annotation_text(decl.annotations, "controller_header")
        if name is None:
            self.reporter.error(decl.span, "@controller_header needs a name")
            return
        message = self.info.controller_packet_metadata.add()
        message.preamble.id = self.ids[ids.CONTROLLER_HEADER, control_plane_name(decl)]
        message.preamble.name = name
        message.preamble.alias = name
        note = decl.annotation("controller_header")
        assert note is not None
        message.preamble.annotations.append(shown(note))
        self._annotations(message.preamble, decl.annotations)
        assert isinstance(decl.type, t.TStruct)
        fields = [f for f in decl.fields if f.annotation("hidden") is None]
        numbers = ids.local_ids([annotation_number(f.annotations, "id") for f in fields])
        nested = any(t.is_struct(decl.type.fields[f.name]) for f in fields)
        for item, number_ in zip(fields, numbers, strict=True):
            for name, type_ in _scalars(control_plane_name(item), decl.type.fields[item.name]):
                entry = message.metadata.add()
                entry.id = len(message.metadata) if nested else number_
                entry.name = name
                self._annotations(entry, item.annotations)
                self._width_and_type(entry, type_)

    def _digest(self, digest: Digest) -> None:
        message = self.info.digests.add()
        annotations = digest.decl.annotations if digest.decl else []
        self._preamble(message.preamble, ids.DIGEST, digest.name, annotations)
        self.types.spec(message.type_spec, digest.type)


def _scalars(name: str, type_: t.Type) -> Iterator[tuple[str, t.Type]]:
    """The scalar fields of a field of a header: its own, or `field.part` of a struct's."""
    if isinstance(type_, t.TStruct):
        for part in type_.decl.fields:
            inner = type_.fields[part.name]
            yield from _scalars(f"{name}.{control_plane_name(part)}", inner)
    else:
        yield name, type_


def _param_ids(action: Action) -> list[int]:
    return ids.local_ids([annotation_number(p.decl.annotations, "id") for p in action.params])


def _extern_name(instance: Instance) -> str:
    return instance.type.decl.name if isinstance(instance.type, t.TExtern) else ""
