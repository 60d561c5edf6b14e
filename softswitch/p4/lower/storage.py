"""Where values live: header instances, stacks, unions, and the `scalars` metadata."""

from __future__ import annotations

from softswitch.p4 import ast
from softswitch.p4 import types as t
from softswitch.p4.diagnostics import Reporter, Span
from softswitch.p4.lower.model import HeaderInstance, Model
from softswitch.p4.lower.values import (
    Aggregate,
    Field,
    Header,
    Json,
    Stack,
    Union,
    Value,
    signed,
    width,
)

SCALARS = "scalars"
STANDARD = "standard_metadata"
_MAX_INSTANCES = 20_000


def control_plane_name(decl: ast.Decl) -> str:
    """The @name of a declaration, else its own name."""
    annotation = decl.annotation("name")
    if annotation and annotation.args and isinstance(annotation.args[0], ast.StringLit):
        return annotation.args[0].text
    return decl.name


def flat_fields(type_: t.TStruct, nested: bool) -> list[tuple[tuple[str, ...], str, t.Type]]:
    """(path, flat name, type) of the parts of a struct or header.

    When a part is itself a struct, every name becomes _path_to_part<N>, as p4c has it.
    """
    parts: list[tuple[tuple[str, ...], t.Type]] = []

    def walk(path: tuple[str, ...], part: t.Type) -> None:
        if isinstance(part, t.TStruct) and part.kind == "struct":
            for name, inner in part.fields.items():
                walk((*path, name), inner)
        else:
            parts.append((path, part))

    for name, inner in type_.fields.items():
        walk((name,), inner)
    any_struct = any(len(path) > 1 for path, _ in parts)
    if not any_struct or not nested:
        return [(path, ".".join(path), part) for path, part in parts]
    return [(p, "_" + "_".join(p) + str(n), part) for n, (p, part) in enumerate(parts)]


class Storage:
    """Allocates instances in the model; names are unique."""

    def __init__(self, model: Model, reporter: Reporter) -> None:
        self.model = model
        self.reporter = reporter
        self.scalars: list[list[object]] = []
        self._names: set[str] = set()
        self._types: dict[tuple[str, tuple[t.Type, ...]], str] = {}
        self._type_json: dict[str, Json] = {}
        self._header_ids = 0
        self._varbit_types: dict[int, str] = {}
        scalars_type: Json = {"name": "scalars_0", "id": 0, "fields": self.scalars}
        model.header_types.append(scalars_type)
        self._instance(SCALARS, "scalars_0", True)

    # ---- names

    def unique(self, name: str, numbered: bool = False) -> str:
        """`name`, or `name_0`, `name_1`... when taken (always, when numbered)."""
        if not numbered and name not in self._names:
            self._names.add(name)
            return name
        n = 0
        while f"{name}_{n}" in self._names:
            n += 1
        self._names.add(f"{name}_{n}")
        return f"{name}_{n}"

    # ---- scalars

    def scalar(self, name: str, type_: t.Type, span: Span) -> Field:
        """A new field of `scalars` (name already unique)."""
        kind = t.base(type_)
        if isinstance(kind, t.TVarbit):
            return self._varbit(name, kind)
        self.scalars.append([name, width(type_), signed(type_)])
        if len(self.scalars) > _MAX_INSTANCES:
            raise self.reporter.fail(span, "the program needs too many variables")
        return Field(SCALARS, name, type_)

    def temporary(self, type_: t.Type, span: Span, name: str = "tmp") -> Field:
        return self.scalar(self.unique(name), type_, span)

    def _varbit(self, name: str, kind: t.TVarbit) -> Field:
        type_name = f"$varbit{kind.width}"
        if kind.width not in self._varbit_types:
            self._varbit_types[kind.width] = type_name
            self.model.header_types.append(
                {
                    "name": type_name,
                    "id": len(self.model.header_types),
                    "fields": [["field", "*"]],
                    "max_length": (kind.width + 7) // 8,
                }
            )
        self._instance(name, type_name, True)
        return Field(name, "field", kind)

    def finish(self) -> None:
        """Pad `scalars` to bytes."""
        bits = sum(int(str(f[1])) for f in self.scalars)
        if bits % 8:
            self.scalars.append([self.unique("_padding", True), 8 - bits % 8, False])

    # ---- variables of any type

    def variable(self, name: str, type_: t.Type, span: Span) -> Value:
        """Storage for a local variable (name already unique)."""
        kind = t.base(type_)
        if isinstance(kind, t.TStruct) and kind.kind == "struct":
            items = {
                n: self.variable(self.unique(f"{name}.{n}"), f, span)
                for n, f in kind.fields.items()
            }
            return Aggregate(kind, items)
        if isinstance(kind, t.TTuple):
            parts: dict[str, Value] = {
                str(i): self.variable(self.unique(f"{name}.{i}"), f, span)
                for i, f in enumerate(kind.items)
            }
            return Aggregate(kind, parts)
        if isinstance(kind, (t.TStruct, t.TStack)):
            return self.headers(name, kind, span)
        return self.scalar(name, type_, span)

    # ---- headers

    def headers(self, name: str, type_: t.Type, span: Span) -> Value:
        """A header, union or stack instance."""
        if isinstance(type_, t.TStack):
            return self._stack(name, type_, span)
        assert isinstance(type_, t.TStruct)
        if type_.kind == "header_union":
            self._union(name, type_, span)
            return Union(name, type_)
        self._instance(name, self.header_type(type_, span), False)
        return Header(name, type_)

    def _instance(self, name: str, type_name: str, metadata: bool) -> int:
        ident = self._header_ids
        self._header_ids += 1
        self._names.add(name)
        self.model.headers.append(HeaderInstance(name, type_name, metadata, ident))
        return ident

    def _stack(self, name: str, type_: t.TStack, span: Span) -> Stack:
        if self._header_ids > _MAX_INSTANCES:
            raise self.reporter.fail(span, "the program needs too many headers")
        element = type_.element
        assert isinstance(element, t.TStruct)
        ids: list[int] = []
        if element.kind == "header_union":
            for i in range(type_.size):
                ids.append(self._union(f"{name}[{i}]", element, span))
            self.model.union_stacks.append(
                {
                    "name": name,
                    "id": len(self.model.union_stacks),
                    "union_type": element.name,
                    "size": type_.size,
                    "header_union_ids": ids,
                }
            )
        else:
            type_name = self.header_type(element, span)
            ids = [self._instance(f"{name}[{i}]", type_name, False) for i in range(type_.size)]
            self.model.stacks.append(
                {
                    "name": name,
                    "id": len(self.model.stacks),
                    "header_type": type_name,
                    "size": type_.size,
                    "header_ids": ids,
                }
            )
        return Stack(name, type_)

    def _union(self, name: str, type_: t.TStruct, span: Span) -> int:
        if not any(u["name"] == type_.name for u in self.model.union_types):
            members = [
                [n, self.header_type(f, span)]
                for n, f in type_.fields.items()
                if isinstance(f, t.TStruct)
            ]
            self.model.union_types.append(
                {"name": type_.name, "id": len(self.model.union_types), "headers": members}
            )
        ids = [
            self._instance(f"{name}.{n}", self.header_type(f, span), False)
            for n, f in type_.fields.items()
            if isinstance(f, t.TStruct)
        ]
        ident = len(self.model.unions)
        self.model.unions.append(
            {
                "name": name,
                "id": ident,
                "union_type": type_.name,
                "header_ids": ids,
                "pi_omit": True,
            }
        )
        return ident

    def header_type(self, type_: t.TStruct, span: Span) -> str:
        """Register a header type; returns its name in the JSON."""
        key = (type_.name, type_.args)
        if key in self._types:
            return self._types[key]
        name = control_plane_name(type_.decl)
        taken = {h["name"] for h in self.model.header_types}
        base, n = name, 0
        while name in taken:
            name, n = f"{base}_{n}", n + 1
        self._types[key] = name
        fields: list[list[object]] = []
        total, varbits = 0, 0
        for _, flat, part in flat_fields(type_, True):
            kind = t.base(part)
            if isinstance(kind, t.TVarbit):
                varbits += 1
                total += kind.width
                fields.append([flat, "*"])
                continue
            bits = width(part)
            total += bits
            fields.append([flat, bits, signed(part)])
        if varbits > 1:
            raise self.reporter.fail(
                type_.decl.span, f"header '{type_}' has more than one varbit field"
            )
        if total % 8:
            raise self.reporter.fail(
                type_.decl.span,
                f"header '{type_}' has {total} bits: bmv2 needs whole bytes "
                f"({8 - total % 8} bits are missing)",
            )
        entry: Json = {"name": name, "id": len(self.model.header_types), "fields": fields}
        if varbits:
            entry["max_length"] = total // 8
        self.model.header_types.append(entry)
        self._type_json[name] = entry
        return name

    def fields_of(self, type_: t.TStruct) -> dict[tuple[str, ...], tuple[str, int, t.Type]]:
        """path -> (name in the JSON, index, type) of the fields of a header."""
        return {
            path: (flat, n, part) for n, (path, flat, part) in enumerate(flat_fields(type_, True))
        }
