"""Passing arguments: copy-in/copy-out, or by reference where nobody can tell the difference."""

from __future__ import annotations

from dataclasses import dataclass, field

from softswitch.p4 import ast
from softswitch.p4 import types as t
from softswitch.p4.check.expr import _type
from softswitch.p4.diagnostics import Span
from softswitch.p4.lower import values as v
from softswitch.p4.lower.base import Context, Env
from softswitch.p4.lower.expr import ExprLowering
from softswitch.p4.lower.model import Statement

Bound = list[tuple[ast.Param, ast.Expr | None]]


@dataclass
class Passed:
    """Bindings of the parameters, and what has to be copied back afterwards."""

    env: Env = field(default_factory=dict)
    back: list[tuple[ast.Expr, v.Value]] = field(default_factory=list)


class InlineLowering(ExprLowering):
    """Argument passing and assignment to lvalue expressions."""

    def assign_to(self, target: ast.Expr, source: v.Value, ctx: Context, span: Span) -> None:
        """target = source for any lvalue, slices included."""
        if isinstance(target, ast.Slice):
            self._assign_slice(target, source, ctx, span)
            return
        self.assign(self.value(target, ctx), source, ctx, span)

    def _assign_slice(
        self, target: ast.Slice, source: v.Value, ctx: Context, span: Span
    ) -> None:
        high, low = target.hi, target.lo
        base = target.base
        while isinstance(base, ast.Slice):
            high, low, base = high + base.lo, low + base.lo, base.base
        place = self.value(base, ctx)
        if not isinstance(place, v.Leaf) or not isinstance(source, v.Leaf):
            self.fail(span, "this slice cannot be assigned to")
        source = self.settle(source, ctx, span)
        type_ = t.bits(v.width(place.type))
        part = t.bits(high - low + 1)
        hole = ((1 << type_.width) - 1) ^ (((1 << part.width) - 1) << low)
        kept = v.binary("&", v.cast(place, type_), v.Const(hole, type_), type_)
        wide = v.cast(v.cast(source, part), type_)
        moved = v.binary("<<", wide, v.Const(low, t.bits(32)), type_) if low else wide
        joined = v.binary("|", kept, moved, type_)
        self.assign(place, v.cast(joined, place.type), ctx, span)

    def pass_arguments(
        self, bound: Bound, ctx: Context, span: Span, isolated: bool, force_copy: bool = False
    ) -> Passed:
        """Evaluate the arguments of an inlined call.

        isolated: the callee sees its parameters only (controls, parsers, functions), so an
        argument that overlaps no written one can stand for the parameter itself. An action
        sees its control's variables: everything is copied.
        """
        passed = Passed()
        values: list[tuple[ast.Param, ast.Expr | None, v.Value | None]] = []
        for param, expr in bound:
            effects: list[Statement] = []
            inner = ctx.into(effects)
            value: v.Value | None = None
            if expr is not None and not isinstance(expr, ast.Slice):
                value = self.value(expr, inner)
            elif isinstance(expr, ast.Slice) and param.direction in ("", "in", "inout"):
                value = self.value(expr, inner)
            if effects:
                values = [self._pin(item, ctx, span) for item in values]
                ctx.out.extend(effects)
            values.append((param, expr, value))
        for n, (param, expr, value) in enumerate(values):
            others = [x for m, x in enumerate(values) if m != n]
            safe = isolated and not force_copy and not self._aliased(param, value, others)
            passed.env[param] = self._pass_one(param, expr, value, safe, ctx, span, passed)
        return passed

    def _pin(
        self, item: tuple[ast.Param, ast.Expr | None, v.Value | None], ctx: Context, span: Span
    ) -> tuple[ast.Param, ast.Expr | None, v.Value | None]:
        param, expr, value = item
        if value is not None and param.direction == "in" and _storable(value):
            return param, expr, self.copy(value, ctx, span)
        return item

    def _aliased(
        self,
        param: ast.Param,
        value: v.Value | None,
        others: list[tuple[ast.Param, ast.Expr | None, v.Value | None]],
    ) -> bool:
        if value is None:
            return False
        mine = v.places(value)
        for other, expr, found in others:
            if "out" not in param.direction and "out" not in other.direction:
                continue
            if found is None and expr is None:
                continue
            if found is None or mine & v.places(found):
                return True
        return False

    def _pass_one(
        self,
        param: ast.Param,
        expr: ast.Expr | None,
        value: v.Value | None,
        safe: bool,
        ctx: Context,
        span: Span,
        passed: Passed,
    ) -> v.Value:
        type_ = param.type or t.UNKNOWN
        if param.direction == "" or (param.direction == "in" and value is not None):
            assert value is not None
            if not _storable(value) or isinstance(value, v.Const):
                return value
            if safe and _is_storage(value):
                return value
            if param.direction == "" and not isinstance(value, v.Leaf):
                return value
            return self.copy(value, ctx, span, self._local_name(param.name))
        if safe and value is not None and _is_storage(value):
            if param.direction == "out":
                self.invalidate(value, ctx, span)
            return value
        place = self.storage.variable(self.storage.unique(param.name, True), type_, span)
        if param.direction == "inout" and value is not None:
            self.assign(place, value, ctx, span)
        elif param.direction == "out":
            self.invalidate(place, ctx, span)
        if expr is not None:
            passed.back.append((expr, place))
        return place

    @staticmethod
    def _local_name(name: str) -> str:
        return name

    def copy_back(self, passed: Passed, ctx: Context, span: Span) -> None:
        """The copy-out half of a call."""
        for expr, place in passed.back:
            source = place
            if isinstance(source, v.Leaf) and _type(expr) != source.type:
                source = v.cast(source, _type(expr))
            self.assign_to(expr, source, ctx, span)


def _storable(value: v.Value) -> bool:
    """Is it data (rather than an extern, a packet, a string)?"""
    return not isinstance(value, (v.Instance, v.Packet, v.Text, v.ValueSet, v.Nothing))


def _is_storage(value: v.Value) -> bool:
    """Does reading it later give what is read now, unless someone writes to it?"""
    if isinstance(value, v.Aggregate):
        return all(_is_storage(x) for x in value.items.values())
    return isinstance(
        value, (v.Field, v.Const, v.ActionData, v.Header, v.Stack, v.Union, v.IndexedHeader)
    )
