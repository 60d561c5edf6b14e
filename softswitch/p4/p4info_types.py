"""The type section of P4Info: structs, enums, translated types."""

from __future__ import annotations

from typing import Any

from softswitch.p4 import ast, fold
from softswitch.p4 import types as t
from softswitch.p4.lower import values as v
from softswitch.p4.lower.model import Model
from softswitch.p4.lower.storage import control_plane_name


def type_name(type_: t.Type) -> str:
    """The name P4Info refers to a type by, for those that have one there."""
    return type_.name if isinstance(type_, (t.TNew, t.TEnum)) else ""


class TypeInfo:
    """Fills `type_info` with the types the rest of P4Info mentions."""

    def __init__(self, info: Any, model: Model) -> None:
        self.info = info
        self.model = model

    def control_width(self, type_: t.Type) -> int:
        """Bits of a value on P4Runtime; 0 for a type translated to a string."""
        if isinstance(type_, t.TNew):
            translation = _translation(type_.decl)
            if translation is not None:
                return translation[1]
        return v.width(type_)

    def note(self, type_: t.Type) -> None:
        """Describe a named type."""
        types = self.info.type_info
        if isinstance(type_, t.TNew) and type_.name not in types.new_types:
            entry = types.new_types[type_.name]
            translation = _translation(type_.decl)
            if translation is None:
                self._scalar(entry.original_type.bitstring, t.base(type_), entry.original_type)
            else:
                uri, bits = translation
                entry.translated_type.uri = uri
                if bits:
                    entry.translated_type.sdn_bitwidth = bits
                else:
                    entry.translated_type.sdn_string.SetInParent()
            for note in type_.decl.annotations:
                if note.name not in ("p4runtime_translation", "name"):
                    entry.annotations.append(shown(note))
            if not isinstance(type_.underlying, t.TNew):
                self.note(type_.underlying)
        elif isinstance(type_, t.TSerEnum) and type_.name not in types.serializable_enums:
            serial = types.serializable_enums[type_.name]
            bits = v.width(type_.underlying)
            serial.underlying_type.bitwidth = bits
            for name, value in type_.members.items():
                member = serial.members.add()
                member.name = name
                size = max(1, (bits + 7) // 8)
                member.value = (value & ((1 << bits) - 1)).to_bytes(size, "big")
        elif isinstance(type_, t.TEnum) and type_.name not in types.enums:
            enum = types.enums[type_.name]
            for name in type_.members:
                enum.members.add().name = name
        elif isinstance(type_, t.TError) and not types.HasField("error"):
            types.error.members.extend(name for name, _ in self.model.errors)

    def spec(self, spec: Any, type_: t.Type) -> None:
        """Fill a P4DataTypeSpec."""
        self.note(type_)
        if isinstance(type_, t.TNew):
            spec.new_type.name = type_.name
        elif isinstance(type_, t.TSerEnum):
            spec.serializable_enum.name = type_.name
        elif isinstance(type_, t.TEnum):
            spec.enum.name = type_.name
        elif isinstance(type_, t.TError):
            spec.error.SetInParent()
        elif isinstance(type_, t.TBool):
            spec.bool.SetInParent()
        elif isinstance(type_, t.TTuple):
            for item in type_.items:
                self.spec(spec.tuple.members.add(), item)
        elif isinstance(type_, t.TStruct):
            self._struct(spec, type_)
        elif isinstance(type_, t.TStack):
            assert isinstance(type_.element, t.TStruct)
            name = control_plane_name(type_.element.decl)
            target = spec.header_stack if t.is_header(type_.element) else spec.header_union_stack
            target.size = type_.size
            inner = target.header if t.is_header(type_.element) else target.header_union
            inner.name = name
            self._header(type_.element)
        else:
            self._scalar(spec.bitstring, type_, spec)

    def _struct(self, spec: Any, type_: t.TStruct) -> None:
        name = control_plane_name(type_.decl)
        if type_.kind == "struct":
            spec.struct.name = name
            if name not in self.info.type_info.structs:
                entry = self.info.type_info.structs[name]
                for field in type_.decl.fields:
                    member = entry.members.add()
                    member.name = control_plane_name(field)
                    self.spec(member.type_spec, type_.fields[field.name])
        elif type_.kind == "header":
            spec.header.name = name
            self._header(type_)
        else:
            spec.header_union.name = name

    def _header(self, type_: t.TStruct) -> None:
        name = control_plane_name(type_.decl)
        if type_.kind == "header" and name not in self.info.type_info.headers:
            entry = self.info.type_info.headers[name]
            for field in type_.decl.fields:
                member = entry.members.add()
                member.name = control_plane_name(field)
                self._scalar(member.type_spec, t.base(type_.fields[field.name]), None)

    def _scalar(self, spec: Any, type_: t.Type, outer: Any) -> None:
        kind = t.base(type_)
        if isinstance(kind, t.TVarbit):
            spec.varbit.max_bitwidth = kind.width
        elif isinstance(kind, t.TBits) and kind.signed:
            spec.int.bitwidth = kind.width
        else:
            spec.bit.bitwidth = v.width(kind)


def _translation(decl: ast.TypedefDecl) -> tuple[str, int] | None:
    """(uri, bits or 0 for a string) of @p4runtime_translation."""
    note = decl.annotation("p4runtime_translation")
    if note is None:
        return None
    uri, bits = "", 0
    if len(note.args) >= 2:
        first, second = note.args[:2]
        uri = first.text if isinstance(first, ast.StringLit) else ""
        bits = second.number if isinstance(second, ast.IntLit) else 0
    elif note.tokens:
        # ("uri", string) and ("uri", bit<32>) do not read as expressions.
        uri = note.tokens[0].strip('"')
        numbers = [x for x in note.tokens[1:] if x.isdigit()]
        bits = int(numbers[0]) if numbers else 0
    return uri, bits


def shown(note: ast.Annotation) -> str:
    """An annotation as P4Info shows it."""
    if not note.has_body:
        return f"@{note.name}"
    if note.args and all(isinstance(a, (ast.StringLit, ast.IntLit)) for a in note.args):
        parts = [
            f'"{a.text}"' if isinstance(a, ast.StringLit) else str(getattr(a, "number", ""))
            for a in note.args
        ]
        return f"@{note.name}({', '.join(parts)})"
    return f"@{note.name}({' '.join(note.tokens)})"


def annotation_constant(expr: ast.Expr, constants: dict[str, Any]) -> Any:
    """Value of an expression inside an annotation, None when it has none."""
    if expr.value is not None:
        return expr.value
    if isinstance(expr, ast.StringLit):
        return expr.text
    if isinstance(expr, ast.IntLit):
        return expr.number
    if isinstance(expr, ast.BoolLit):
        return expr.boolean
    if isinstance(expr, ast.Name):
        return constants.get(expr.name)
    if isinstance(expr, ast.Binary):
        left = annotation_constant(expr.left, constants)
        right = annotation_constant(expr.right, constants)
        if isinstance(left, int) and isinstance(right, int):
            try:
                return fold.binary(expr.op, left, right, t.INT)
            except (fold.FoldError, KeyError):
                return None
    return None
