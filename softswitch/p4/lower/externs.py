"""v1model's extern functions and objects -> bmv2 primitives."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from softswitch.p4 import ast, fold
from softswitch.p4 import types as t
from softswitch.p4.check.nodes import typed
from softswitch.p4.diagnostics import Span
from softswitch.p4.lower import values as v
from softswitch.p4.lower.base import Context
from softswitch.p4.lower.calls import CallLowering
from softswitch.p4.lower.model import Digest, Statement
from softswitch.p4.lower.storage import control_plane_name
from softswitch.p4.walk import walk

_PIPELINES = ("ingress", "egress")


class ExternLowering(CallLowering):
    """One method per primitive."""

    def extern_function(self, e: ast.Call, ctx: Context) -> v.Value:
        name = e.target.name
        args = {p.name: x for p, x in e.bound}
        method = getattr(self, f"_fn_{name}", None)
        if method is None:
            raise self.fail(e, f"extern function '{name}' is not supported")
        if ctx.where not in _PIPELINES and name not in _ANYWHERE:
            raise self.fail(
                e, f"'{name}' can be called in ingress and egress only, not in {ctx.where}"
            )
        self.model.calls_externs |= ctx.where != "parser"
        found = self._in_order(e, lambda: method(e, args, ctx))
        return found if isinstance(found, v.Value) else v.Nothing()

    held = False
    """Does an argument of the call at hand run code? Then the others are copied as they come."""

    def _in_order(self, e: ast.Call, make: Callable[[], Any]) -> Any:
        """Lower a call so that its arguments are read from left to right."""
        outer = self.held
        given = [a.expr for a in e.args if a.expr is not None]
        calls = (n for n in walk(*given) if isinstance(n, ast.Call))
        self.held = any(n.kind == "function" for n in calls)
        try:
            return make()
        finally:
            self.held = outer

    def arg(self, expr: ast.Expr | None, ctx: Context, span: Span) -> v.Leaf:
        """A numeric argument, as a plain field, constant or action data."""
        if expr is None:
            raise self.fail(span, "'_' is not supported here")
        found = self.simple(self.leaf(expr, ctx), ctx, expr.span)
        return self.save(found, ctx, span) if self.held and isinstance(found, v.Field) else found

    def constant_arg(self, expr: ast.Expr | None, ctx: Context, span: Span) -> int:
        """An argument that has to be a compile-time number."""
        if expr is not None:
            found = self.leaf(expr, ctx)
            if isinstance(found, v.Const):
                return found.value
        raise self.fail(expr or span, "this argument has to be a constant")

    def symbol(self, expr: ast.Expr | None, span: Span) -> str:
        """The name of an enum member given as argument."""
        if expr is None or not isinstance(expr.value, fold.Symbol):
            raise self.fail(expr or span, "this argument has to be a constant")
        return expr.value.name

    def place(self, expr: ast.Expr | None, type_: t.Type, ctx: Context, span: Span) -> tuple[
        v.Leaf, ast.Expr | None
    ]:  # fmt: skip
        """Where an `out` argument goes: the field, or a temporary to copy from afterwards."""
        if expr is not None and not isinstance(expr, ast.Slice):
            found = self.value(expr, ctx)
            if isinstance(found, v.Field):
                return found, None
        return self.storage.temporary(type_, span), expr

    def finish(self, place: v.Leaf, expr: ast.Expr | None, ctx: Context, span: Span) -> None:
        if expr is not None:
            self.assign_to(expr, v.retype(place, typed(expr)), ctx, span)

    # ---- functions

    def _fn_mark_to_drop(self, e: ast.Call, args: dict[str, ast.Expr], ctx: Context) -> None:
        self.emit(ctx, e.span, "mark_to_drop", {"type": "header", "value": "standard_metadata"})

    def _fn_truncate(self, e: ast.Call, args: dict[str, ast.Expr], ctx: Context) -> None:
        length = self.arg(args["length"], ctx, e.span)
        self.emit(ctx, e.span, "truncate", v.parameter(length))

    def _fn_random(self, e: ast.Call, args: dict[str, ast.Expr], ctx: Context) -> None:
        low = self.arg(args["lo"], ctx, e.span)
        high = self.arg(args["hi"], ctx, e.span)
        place, back = self.place(args["result"], e.type_values[0], ctx, e.span)
        self.emit(
            ctx, e.span, "modify_field_rng_uniform",
            v.parameter(place), v.parameter(low), v.parameter(high),
        )  # fmt: skip
        self.finish(place, back, ctx, e.span)

    def _fn_hash(self, e: ast.Call, args: dict[str, ast.Expr], ctx: Context) -> None:
        algorithm = self.symbol(args["algo"], e.span)
        base = self.arg(args["base"], ctx, e.span)
        inputs = self.inputs(self.value(args["data"], ctx), ctx, e.span, allow_temporaries=True)
        maximum = self.arg(args["max"], ctx, e.span)
        name = self.calculation(algorithm, inputs, False, None)
        place, back = self.place(args["result"], e.type_values[0], ctx, e.span)
        self.emit(
            ctx, e.span, "modify_field_with_hash_based_offset",
            v.parameter(place), v.parameter(base),
            {"type": "calculation", "value": name}, v.parameter(maximum),
        )  # fmt: skip
        self.finish(place, back, ctx, e.span)

    def inputs(
        self, value: v.Value, ctx: Context, span: Span, allow_temporaries: bool
    ) -> list[v.Json]:
        """The fields a calculation reads, in order."""
        found: list[v.Json] = []
        for leaf in self.flatten(value, span):
            if isinstance(leaf, v.Const):
                bits = v.width(leaf.type)
                value_ = leaf.value & ((1 << bits) - 1)
                found.append({"type": "hexstr", "value": v.hexstr(value_, bits), "bitwidth": bits})
                continue
            if not isinstance(leaf, v.Field) or (self.held and allow_temporaries):
                if not allow_temporaries:
                    raise self.fail(
                        span, "checksums are computed over fields, not over expressions"
                    )
                leaf = self.save(leaf, ctx, span)
            found.append({"type": "field", "value": [leaf.header, leaf.name]})
        return found

    def flatten(self, value: v.Value, span: Span) -> list[v.Leaf]:
        """All numbers in a value, in declaration order."""
        if isinstance(value, v.Leaf):
            return [value]
        if isinstance(value, v.Aggregate):
            return [x for item in value.items.values() for x in self.flatten(item, span)]
        if isinstance(value, v.HeaderValue):
            parts = [self.part(value, [n], ast.BoolLit(span, True)) for n in value.type.fields]
            return [x for p in parts for x in self.flatten(p, span)]
        if isinstance(value, v.Stack):
            parts = [self.element(value, i) for i in range(value.type.size)]
            return [x for p in parts for x in self.flatten(p, span)]
        raise self.fail(span, "this value cannot be used here")

    def calculation(
        self, algorithm: str, inputs: list[v.Json], payload: bool, span: Span | None
    ) -> str:
        """Register a named calculation."""
        name = self.storage.unique("calc")
        entry: v.Json = {"name": name, "id": len(self.model.calculations)}
        if span is not None:
            entry["source_info"] = span
        entry["algo"] = algorithm
        entry["input"] = inputs + ([{"type": "payload", "value": None}] if payload else [])
        self.model.calculations.append(entry)
        return name

    def _fn_digest(self, e: ast.Call, args: dict[str, ast.Expr], ctx: Context) -> None:
        receiver = self.arg(args["receiver"], ctx, e.span)
        type_ = t.base(e.type_values[0])
        data = self.value(args["data"], ctx)
        decl = type_.decl if isinstance(type_, t.TStruct) else None
        name = f"digest_{len(self.model.digests)}"
        if decl is not None and isinstance(type_, t.TStruct) and type_.kind == "struct":
            name = control_plane_name(decl)
        ident = self._field_list(self.model.learn_lists, name, data, ctx, e.span)
        if all(d.name != name for d in self.model.digests):
            self.model.digests.append(Digest(name, type_, decl))
        self.emit(
            ctx, e.span, "generate_digest",
            v.parameter(receiver), {"type": "hexstr", "value": v.hexstr(ident)},
        )  # fmt: skip

    def _field_list(
        self, into: list[v.Json], name: str, data: v.Value | None, ctx: Context, span: Span
    ) -> int:
        elements: list[v.Json] = []
        for leaf in self.flatten(data, span) if data is not None else []:
            place = leaf if isinstance(leaf, v.Field) else self.save(leaf, ctx, span)
            elements.append(v.to_json(place, v.DATA))
        ident = len(into) + 1
        into.append({"id": ident, "name": name, "source_info": span, "elements": elements})
        return ident

    def _preserved(self, index: int, span: Span) -> int:
        """Id of the list of metadata fields tagged @field_list(index)."""
        name = f"field_list{index}"
        for entry in self.model.field_lists:
            if entry["name"] == name:
                return int(entry["id"])
        if index:  # with 0 people say that nothing is to be kept
            message = f"no metadata field is tagged @field_list({index})"
            self.reporter.warn(span, message, "ignore")
        ident = len(self.model.field_lists) + 1
        self.model.field_lists.append({"id": ident, "name": name, "elements": []})
        return ident

    def _clone(self, e: ast.Call, args: dict[str, ast.Expr], ident: int, ctx: Context) -> None:
        kind = self.symbol(args["type"], e.span)
        wanted = "ingress" if kind == "I2E" else "egress"
        if ctx.where != wanted:
            raise self.fail(e, f"a clone of type {kind} can be made in {wanted} only")
        session = self.arg(args["session"], ctx, e.span)
        self.emit(
            ctx, e.span, f"clone_{wanted}_pkt_to_egress",
            v.parameter(session), {"type": "hexstr", "value": v.hexstr(ident)},
        )  # fmt: skip

    def _fn_clone(self, e: ast.Call, args: dict[str, ast.Expr], ctx: Context) -> None:
        ident = self._field_list(self.model.field_lists, self.storage.unique("fl"), None, ctx,
                                 e.span)  # fmt: skip
        self._clone(e, args, ident, ctx)

    def _fn_clone_preserving_field_list(
        self, e: ast.Call, args: dict[str, ast.Expr], ctx: Context
    ) -> None:
        index = self.constant_arg(args["index"], ctx, e.span)
        self._clone(e, args, self._preserved(index, e.span), ctx)

    def _listed_fields(self, e: ast.Call, data: ast.Expr | None, ctx: Context) -> int:
        """Id of a list of the metadata an old-style copy keeps: those fields, by name."""
        self.reporter.warn(
            e.span,
            f"'{e.target.name}' keeps the fields themselves, as they are when the packet is "
            f"copied; write '{e.target.name.rstrip('3')}_preserving_field_list'",
            "deprecated",
        )
        value = self.value(data, ctx) if data is not None else None
        leaves = self.flatten(value, e.span) if value is not None else []
        for leaf in leaves:
            if not isinstance(leaf, (v.Field, v.Const)):
                raise self.fail(e, "only metadata fields can be kept, not what is computed")
        name = self.storage.unique("fl")
        kept = v.Aggregate(
            t.UNKNOWN, {str(n): x for n, x in enumerate(leaves) if isinstance(x, v.Field)}
        )
        return self._field_list(self.model.field_lists, name, kept, ctx, e.span)

    def _fn_clone3(self, e: ast.Call, args: dict[str, ast.Expr], ctx: Context) -> None:
        self._clone(e, args, self._listed_fields(e, args["data"], ctx), ctx)

    def _fn_resubmit(self, e: ast.Call, args: dict[str, ast.Expr], ctx: Context) -> None:
        self._only_in(e, ctx, "ingress")
        ident = self._listed_fields(e, args["data"], ctx)
        self.emit(ctx, e.span, "resubmit", {"type": "hexstr", "value": v.hexstr(ident)})

    def _fn_recirculate(self, e: ast.Call, args: dict[str, ast.Expr], ctx: Context) -> None:
        self._only_in(e, ctx, "egress")
        ident = self._listed_fields(e, args["data"], ctx)
        self.emit(ctx, e.span, "recirculate", {"type": "hexstr", "value": v.hexstr(ident)})

    def _only_in(self, e: ast.Call, ctx: Context, where: str) -> None:
        if ctx.where != where:
            raise self.fail(e, f"'{e.target.name}' can be called in {where} only")

    def _again(
        self, e: ast.Call, args: dict[str, ast.Expr], ctx: Context, op: str, where: str
    ) -> None:
        self._only_in(e, ctx, where)
        index = self.constant_arg(args["index"], ctx, e.span)
        ident = self._preserved(index, e.span)
        self.emit(ctx, e.span, op, {"type": "hexstr", "value": v.hexstr(ident)})

    def _fn_resubmit_preserving_field_list(
        self, e: ast.Call, args: dict[str, ast.Expr], ctx: Context
    ) -> None:
        self._again(e, args, ctx, "resubmit", "ingress")

    def _fn_recirculate_preserving_field_list(
        self, e: ast.Call, args: dict[str, ast.Expr], ctx: Context
    ) -> None:
        self._again(e, args, ctx, "recirculate", "egress")

    def _check(self, e: ast.Call, args: dict[str, ast.Expr], ctx: Context, op: str) -> None:
        cond = self.leaf(args["check"], ctx)
        self.emit(ctx, e.span, op, v.parameter(cond, v.DATA))

    def _fn_assert(self, e: ast.Call, args: dict[str, ast.Expr], ctx: Context) -> None:
        self._check(e, args, ctx, "assert")

    def _fn_assume(self, e: ast.Call, args: dict[str, ast.Expr], ctx: Context) -> None:
        self._check(e, args, ctx, "assume")

    def _fn_log_msg(self, e: ast.Call, args: dict[str, ast.Expr], ctx: Context) -> None:
        text = args["msg"].value
        if not isinstance(text, str):
            raise self.fail(e, "the message has to be a string literal")
        data = args.get("data")
        values: list[v.Json] = []
        if data is not None:
            for leaf in self.flatten(self.value(data, ctx), e.span):
                values.append(v.parameter(self.simple(leaf, ctx, e.span)))
        self.emit(
            ctx, e.span, "log_msg",
            {"type": "string", "value": text}, {"type": "parameters_vector", "value": values},
        )  # fmt: skip

    def _fn_static_assert(self, e: ast.Call, args: dict[str, ast.Expr], ctx: Context) -> v.Value:
        cond = self.leaf(args["check"], ctx)
        if not isinstance(cond, v.Const):
            raise self.fail(e, "static_assert needs a compile-time condition")
        if not cond.value:
            message = args.get("message")
            text = f": {message.value}" if message is not None else ""
            raise self.fail(e, f"static_assert failed{text}")
        return v.Const(1, t.BOOL)

    def _fn_verify(self, e: ast.Call, args: dict[str, ast.Expr], ctx: Context) -> None:
        if ctx.where != "parser":
            raise self.fail(e, "'verify' can be called in a parser only")
        cond = self.leaf(args["check"], ctx)
        error = self.leaf(args["toSignal"], ctx)
        self.emit(ctx, e.span, "verify", v.to_json(cond, v.BOOLEAN), v.to_json(error, v.DATA))

    # ---- objects

    def extern_object(self, e: ast.Call, instance: v.Value, method: str, ctx: Context) -> v.Value:
        args = {p.name: x for p, x in e.bound}
        if isinstance(instance, v.Packet):
            return self.packet(e, method, args, ctx)
        if not isinstance(instance, v.Instance) or not isinstance(instance.type, t.TExtern):
            raise self.fail(e, "this method cannot be called here")
        kind = instance.type.decl.name
        handler = getattr(self, f"_obj_{kind}", None)
        if handler is None:
            raise self.fail(e, f"extern '{kind}' is not supported")
        if ctx.where not in _PIPELINES:
            raise self.fail(
                e, f"'{kind}' can be used in ingress and egress only, not in {ctx.where}"
            )
        instance.used = True
        self._in_order(e, lambda: handler(e, instance, method, args, ctx))
        return v.Nothing()

    @abstractmethod
    def packet(
        self, e: ast.Call, method: str, args: dict[str, ast.Expr | None], ctx: Context
    ) -> v.Value:
        """packet_in (in lower.parser) and packet_out."""

    def _obj_counter(
        self, e: ast.Call, obj: v.Instance, method: str, args: dict[str, ast.Expr], ctx: Context
    ) -> None:
        index = self.arg(args["index"], ctx, e.span)
        self._check_index(obj, index, e)
        self.emit(
            ctx, e.span, "count", {"type": "counter_array", "value": obj.name},
            v.parameter(index),
        )  # fmt: skip

    def _check_index(self, obj: v.Instance, index: v.Leaf, e: ast.Call) -> None:
        size = obj.args.get("size")
        if isinstance(index, v.Const) and isinstance(size, v.Const) and index.value >= size.value:
            self.reporter.warn(
                e.span,
                f"index {index.value} is outside '{obj.name}' of size {size.value}",
                "overflow",
            )

    def _obj_direct_counter(
        self, e: ast.Call, obj: v.Instance, method: str, args: dict[str, ast.Expr], ctx: Context
    ) -> None:
        """bmv2 counts whenever the table matches; the call itself does nothing."""

    def _obj_meter(
        self, e: ast.Call, obj: v.Instance, method: str, args: dict[str, ast.Expr], ctx: Context
    ) -> None:
        index = self.arg(args["index"], ctx, e.span)
        self._check_index(obj, index, e)
        place, back = self.place(args["result"], e.type_values[0], ctx, e.span)
        self.emit(
            ctx, e.span, "execute_meter", {"type": "meter_array", "value": obj.name},
            v.parameter(index), v.parameter(place),
        )  # fmt: skip
        self.finish(place, back, ctx, e.span)

    def _obj_direct_meter(
        self, e: ast.Call, obj: v.Instance, method: str, args: dict[str, ast.Expr], ctx: Context
    ) -> None:
        found = self.value(args["result"], ctx)
        if not isinstance(found, v.Field):
            raise self.fail(e, "the colour of a direct meter has to go to a field")
        old = self.model.direct_meters.get(obj)
        if old is not None and old != found:
            raise self.fail(e, f"'{obj.name}' is read into two different fields")
        self.model.direct_meters[obj] = found

    def _obj_register(
        self, e: ast.Call, obj: v.Instance, method: str, args: dict[str, ast.Expr], ctx: Context
    ) -> None:
        array = {"type": "register_array", "value": obj.name}
        assert isinstance(obj.type, t.TExtern)
        element = obj.type.args[0]
        if method == "read":
            index = self.arg(args["index"], ctx, e.span)
            self._check_index(obj, index, e)
            place, back = self.place(args["result"], element, ctx, e.span)
            self.emit(ctx, e.span, "register_read", v.parameter(place), array, v.parameter(index))
            self.finish(place, back, ctx, e.span)
            return
        effects: list[Statement] = []
        index = self.arg(args["index"], ctx, e.span)
        value = self.arg(args["value"], ctx.into(effects), e.span)
        ctx.out.extend(effects)
        self._check_index(obj, index, e)
        self.emit(ctx, e.span, "register_write", array, v.parameter(index), v.parameter(value))


_ANYWHERE = frozenset(("verify", "log_msg", "assert", "assume", "static_assert"))
