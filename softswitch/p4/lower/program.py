"""From `main` to the whole model: the six blocks of a v1model program."""

from __future__ import annotations

from typing import Any

from softswitch.p4 import ast
from softswitch.p4 import types as t
from softswitch.p4.check.program import Checked
from softswitch.p4.diagnostics import Reporter
from softswitch.p4.lower import values as v
from softswitch.p4.lower.base import Context
from softswitch.p4.lower.deparser import DeparserLowering
from softswitch.p4.lower.instances import ControlInstance
from softswitch.p4.lower.model import BlockInfo, Model, Pipeline, Statement
from softswitch.p4.lower.pipeline import PipelineBuilder
from softswitch.p4.lower.storage import SCALARS, STANDARD, control_plane_name, flat_fields

_BLOCKS = ("p", "vr", "ig", "eg", "ck", "dep")


def lower(checked: Checked, name: str, reporter: Reporter) -> Model:
    """The model of a checked program; `name` is shown in the JSON."""
    return ProgramLowering(checked, Model(name), reporter).run()


class ProgramLowering(DeparserLowering):
    """Builds the parts in p4c's order."""

    def __init__(self, checked: Checked, model: Model, reporter: Reporter) -> None:
        super().__init__(checked, model, reporter)
        self.global_actions = {}
        self.attached = {}
        self.state_names = set()
        self.parser_info = BlockInfo("parser")
        self.headers_type: t.TStruct
        self.meta_type: t.TStruct

    def run(self) -> Model:
        model = self.model
        for decl in self.checked.program.decls:
            if isinstance(decl, ast.InstanceDecl) and decl is not self.checked.main:
                instance = self.make_instance(decl, (), {}, "program")
                self.globals[decl] = instance
                if isinstance(instance.type, t.TExtern):
                    model.global_externs.append(instance)
        blocks = self._main_blocks()
        model.errors = list(self.error_codes.items())
        model.annotations = self.checked.main.annotations
        parser = blocks["p"]
        params = self.block_decl(parser).params
        if len(params) != 4:
            raise self.fail(self.checked.main, "this is not a v1model parser")
        self._global_values(params)
        self._parser(parser)
        self.checksums(blocks["vr"], verify=True)
        ingress = self._pipeline(blocks["ig"], "ingress")
        egress = self._pipeline(blocks["eg"], "egress")
        self.checksums(blocks["ck"], verify=False)
        self.deparser(blocks["dep"])
        for control, _, _ in (ingress, egress):
            info = BlockInfo(control.instance.name)
            self.collect(control, info)
            info.actions = [*info.shared, *info.actions]
            model.blocks.append(info)
        self._check_names()
        names = {table.name for block in model.blocks for table in block.tables}
        for _, pipeline, body in (ingress, egress):
            PipelineBuilder(model, self.storage, pipeline, names).build(body)
            model.pipelines.append(pipeline)
        model.blocks.insert(0, self.parser_info)
        for decl in self.checked.program.decls:
            if isinstance(decl, ast.ConstDecl):
                model.constants[decl.name] = decl.init.value
            if isinstance(decl, ast.StructLike) and decl.annotation("controller_header"):
                model.controller_headers.append(decl)
        self.storage.finish()
        return model

    def _check_names(self) -> None:
        """Tables, and actions, have names of their own on the control plane."""
        seen: dict[tuple[str, str], ast.Decl] = {}
        for block in self.model.blocks:
            named: list[tuple[str, str, ast.Decl | None]] = [
                ("table", x.name, x.decl) for x in block.tables
            ]
            named += [("action", x.name, x.decl) for x in block.actions]
            for kind, name, decl in named:
                if decl is None:
                    continue
                old = seen.setdefault((kind, name), decl)
                if old is not decl:
                    self.reporter.error(
                        decl.span, f"another {kind} is called '{name}' on the control plane too"
                    )

    def _main_blocks(self) -> dict[str, v.Instance]:
        main = self.checked.main
        type_ = main.type
        if not isinstance(type_, t.TArch) or type_.decl.kind != "package":
            raise self.fail(main, "'main' has to be an instance of V1Switch")
        if type_.decl.name != "V1Switch" or tuple(p.name for p in type_.decl.params) != _BLOCKS:
            raise self.fail(
                main.ref, f"the package is '{type_.decl.name}'; this compiler knows v1model's "
                "V1Switch",
            )  # fmt: skip
        blocks: dict[str, v.Instance] = {}
        for param, expr in main.bound:
            assert expr is not None
            if isinstance(expr, ast.Call) and expr.kind == "ctor":
                assert isinstance(expr.target, t.TBlock)
                made = v.Instance(expr.target.decl.name, expr.target, expr.span)
                self.fill_args(made, expr.bound, {}, "program", ())
                blocks[param.name] = made
                continue
            found = self.value(expr, Context(env={}, where="program", path=()))
            if not isinstance(found, v.Instance) or not isinstance(found.type, t.TBlock):
                raise self.fail(expr, f"'{param.name}' of V1Switch has to be a parser or control")
            blocks[param.name] = found
        return blocks

    # ---- headers and metadata

    def _global_values(self, params: list[ast.Param]) -> None:
        headers, meta, standard = (t.base(p.type or t.UNKNOWN) for p in params[1:])
        for type_, param in ((headers, params[1]), (meta, params[2]), (standard, params[3])):
            if not t.is_struct(type_):
                raise self.fail(param.ref, f"parameter '{param.name}' has to be a struct")
        assert isinstance(headers, t.TStruct)
        assert isinstance(meta, t.TStruct)
        assert isinstance(standard, t.TStruct)
        self.headers_type, self.meta_type = headers, meta
        self.standard = self._standard_metadata(standard)
        self.headers_value = self._headers(headers, params[1])
        self.meta_value = self._metadata(meta, params[2])

    def _standard_metadata(self, type_: t.TStruct) -> v.Aggregate:
        fields: list[list[Any]] = []
        items: dict[str, v.Value] = {}
        for decl in type_.decl.fields:
            field = type_.fields[decl.name]
            fields.append([decl.name, v.width(field), v.signed(field)])
            items[decl.name] = v.Field(STANDARD, decl.name, field)
            alias = decl.annotation("alias")
            if alias and alias.args and isinstance(alias.args[0], ast.StringLit):
                self.model.aliases.append([alias.args[0].text, [STANDARD, decl.name]])
        bits = sum(f[1] for f in fields)
        if bits % 8:
            fields.append(["_padding", 8 - bits % 8, False])
        self.model.header_types.append(
            {"name": STANDARD, "id": len(self.model.header_types), "fields": fields}
        )
        self.storage._instance(STANDARD, STANDARD, True)
        return v.Aggregate(type_, items)

    def _headers(self, type_: t.TStruct, param: ast.Param) -> v.Value:
        """Instances of the headers struct, named after its fields."""
        flat = flat_fields(type_, True)
        nested = any(len(path) > 1 for path, _, _ in flat)
        found: dict[tuple[str, ...], v.Value] = {}
        for path, name, part in flat:
            if not nested:
                decl = next(f for f in type_.decl.fields if f.name == path[0])
                name = control_plane_name(decl).lstrip(".")
            kind = t.base(part)
            if isinstance(kind, (t.TStruct, t.TStack)):
                found[path] = self.storage.headers(name, kind, param.span)
            else:
                unique = self.storage.unique(f"{type_.name}.{name}")
                found[path] = self.storage.scalar(unique, part, param.span)
        return _tree(type_, (), found)

    def _metadata(self, type_: t.TStruct, param: ast.Param) -> v.Value:
        """User metadata: fields of `scalars` called TYPE.field."""
        lists: dict[int, list[v.Json]] = {}
        found: dict[tuple[str, ...], v.Value] = {}
        for path, name, part in flat_fields(type_, True):
            kind = t.base(part)
            if isinstance(kind, (t.TStruct, t.TStack)):
                found[path] = self.storage.headers(self.storage.unique(name), kind, param.span)
            elif isinstance(kind, t.TTuple):
                unique = self.storage.unique(f"{type_.name}.{name}")
                found[path] = self.storage.variable(unique, part, param.span)
            else:
                unique = self.storage.unique(f"{type_.name}.{name}")
                found[path] = self.storage.scalar(unique, part, param.span)
            for index in self._list_indexes(type_, path):
                place = found[path]
                for leaf in self.flatten(place, param.span):
                    lists.setdefault(index, []).append(v.to_json(leaf, v.DATA))
        for index, elements in lists.items():
            self.model.field_lists.append(
                {
                    "id": len(self.model.field_lists) + 1,
                    "name": f"field_list{index}",
                    "elements": elements,
                }
            )
        return _tree(type_, (), found)

    def _list_indexes(self, type_: t.TStruct, path: tuple[str, ...]) -> list[int]:
        """The @field_list numbers of a metadata field or of a struct around it."""
        indexes: list[int] = []
        part: t.Type = type_
        for name in path:
            if not isinstance(part, t.TStruct):
                break
            decl = next(f for f in part.decl.fields if f.name == name)
            note = decl.annotation("field_list")
            for arg in note.args if note else []:
                number = self._annotation_number(arg)
                if number is None:
                    raise self.fail(arg, "@field_list needs numbers")
                indexes.append(number)
            part = part.fields[name]
        return list(dict.fromkeys(indexes))

    def _annotation_number(self, e: ast.Expr) -> int | None:
        if isinstance(e, ast.IntLit):
            return e.number
        if isinstance(e, ast.Name):
            for decl in self.checked.program.decls:
                if isinstance(decl, ast.ConstDecl) and decl.name == e.name:
                    value = decl.init.value
                    return value if isinstance(value, int) else None
        if isinstance(e, ast.Member) and isinstance(e.base, ast.TypeExpr):
            for decl in self.checked.program.decls:
                named = isinstance(decl, ast.EnumDecl) and decl.name == e.base.ref.name
                if named and isinstance(decl, ast.EnumDecl) and isinstance(decl.type, t.TSerEnum):
                    return decl.type.members.get(e.member)
        if isinstance(e, ast.Cast):
            return self._annotation_number(e.operand)
        return None

    # ---- blocks

    def _parser(self, instance: v.Instance) -> None:
        name = instance.name
        parser = self.instantiate_parser(instance, (name,), "")
        parser.env.update(
            self.block_env(
                instance, [v.Packet(), self.headers_value, self.meta_value, self.standard]
            )
        )
        self.model.init_state = self.lower_parser(parser)
        order = {s.name: n for n, s in enumerate(parser.decl.states)}
        self.model.states.sort(key=lambda s: order.get(s.name, len(order)))

    def _pipeline(
        self, instance: v.Instance, where: str
    ) -> tuple[ControlInstance, Pipeline, list[Statement]]:
        decl = self.block_decl(instance)
        control = self.instantiate(instance, tuple(instance.name.split(".")), where)
        control.env.update(
            self.block_env(instance, [self.headers_value, self.meta_value, self.standard])
        )
        body: list[Statement] = []
        ctx = Context(env=control.env, where=where, path=control.path, out=body, control=control)
        self.run_control(control, ctx)
        return control, Pipeline(where, decl.span), body


def _tree(
    type_: t.TStruct, path: tuple[str, ...], found: dict[tuple[str, ...], v.Value]
) -> v.Aggregate:
    """Flat values back in the shape of the struct."""
    items: dict[str, v.Value] = {}
    for name, part in type_.fields.items():
        here = (*path, name)
        if here in found:
            items[name] = found[here]
        else:
            assert isinstance(part, t.TStruct)
            items[name] = _tree(part, here, found)
    return v.Aggregate(type_, items)


__all__ = ["SCALARS", "lower"]
