"""Passing arguments: copy-in/copy-out, or by reference where nobody can tell the difference."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from softswitch.p4 import ast
from softswitch.p4 import types as t
from softswitch.p4.check.nodes import typed
from softswitch.p4.diagnostics import Span
from softswitch.p4.lower import values as v
from softswitch.p4.lower.base import Context, Env
from softswitch.p4.lower.expr import ExprLowering
from softswitch.p4.lower.model import Statement
from softswitch.p4.walk import walk

Bound = list[tuple[ast.Param, ast.Expr | None]]


@dataclass
class Place:
    """An lvalue evaluated once: storage, and the bits of it when it is a slice."""

    value: v.Value
    type: t.Type
    bits: tuple[int, int] | None = None  # high, low
    held: v.Value | None = None  # what it held when a later argument changed things


@dataclass
class Passed:
    """Bindings of the parameters, and what has to be copied back afterwards."""

    env: Env = field(default_factory=dict)
    back: list[tuple[Place, v.Value]] = field(default_factory=list)


class InlineLowering(ExprLowering):
    """Argument passing and assignment to lvalue expressions."""

    def assign_to(self, target: ast.Expr, source: v.Value, ctx: Context, span: Span) -> None:
        """target = source for any lvalue, slices included."""
        self.store(self.place_of(target, ctx), source, ctx, span)

    def place_of(self, target: ast.Expr, ctx: Context) -> Place:
        """Evaluate an lvalue; calls in its indexes happen here, once."""
        if not isinstance(target, ast.Slice):
            return Place(self.value(target, ctx), typed(target))
        high, low = target.hi, target.lo
        base = target.base
        while isinstance(base, ast.Slice):
            high, low, base = high + base.lo, low + base.lo, base.base
        return Place(self.value(base, ctx), typed(target), (high, low))

    def load(self, place: Place, span: Span) -> v.Value:
        """What a place holds now."""
        if place.bits is None:
            return place.value
        if not isinstance(place.value, v.Leaf):
            raise self.fail(span, "this value cannot be sliced")
        return v.slice_of(place.value, *place.bits)

    def fix(self, place: Place, ctx: Context, span: Span) -> Place:
        """The same place even when the variables in its index change."""
        value = place.value
        element = value.element if isinstance(value, v.IndexedField) else value
        indexed = (v.IndexedHeader, v.IndexedMember, v.IndexedUnion)
        if not isinstance(element, indexed) or isinstance(element.index, v.Const):
            return place
        fixed = replace(element, index=self.save(element.index, ctx, span))
        if isinstance(value, v.IndexedField):
            assert not isinstance(fixed, v.IndexedUnion)
            return Place(
                v.IndexedField(fixed, value.index, value.type, value.name), place.type, place.bits
            )
        return Place(fixed, place.type, place.bits)

    def store(self, place: Place, source: v.Value, ctx: Context, span: Span) -> None:
        """place = source"""
        if place.bits is None:
            if isinstance(place.value, v.NextHeader):
                raise self.fail(span, "'next' can only be extracted into")
            self.assign(place.value, source, ctx, span)
            return
        high, low = place.bits
        whole = place.value
        if not isinstance(whole, v.Leaf) or not isinstance(source, v.Leaf):
            raise self.fail(span, "this slice cannot be assigned to")
        source = self.settle(source, ctx, span)
        type_ = t.bits(v.width(whole.type))
        part = t.bits(high - low + 1)
        hole = ((1 << type_.width) - 1) ^ (((1 << part.width) - 1) << low)
        kept = v.binary("&", v.cast(whole, type_), v.Const(hole, type_), type_)
        wide = v.cast(v.cast(source, part), type_)
        moved = v.binary("<<", wide, v.Const(low, t.bits(32)), type_) if low else wide
        joined = v.binary("|", kept, moved, type_)
        self.assign(whole, v.cast(joined, whole.type), ctx, span)

    def pass_arguments(
        self,
        bound: Bound,
        ctx: Context,
        span: Span,
        isolated: bool,
        force_copy: bool = False,
        body: ast.Node | None = None,
    ) -> Passed:
        """Evaluate the arguments of an inlined call; `body` is what it runs, when known.

        isolated: the callee sees its parameters only (controls, parsers, functions), so an
        argument that overlaps no written one can stand for the parameter itself. An action
        sees its control's variables: everything is copied.
        """
        passed = Passed()
        values: list[tuple[ast.Param, Place | None]] = []
        for param, expr in bound:
            effects: list[Statement] = []
            inner = ctx.into(effects)
            place: Place | None = None
            if expr is not None and "out" in param.direction:
                place = self.fix(self.place_of(expr, inner), inner, expr.span)
            elif expr is not None:
                place = Place(self.value(expr, inner), typed(expr))
            if effects:
                values = [self._pin(item, ctx, span) for item in values]
                ctx.out.extend(effects)
            values.append((param, place))
        named: list[object] | None = None
        if body is not None:
            named = [n.decl for n in walk(body) if isinstance(n, ast.Name)]
        for n, (param, place) in enumerate(values):
            others = [x for m, x in enumerate(values) if m != n]
            unused = named is not None and param.direction == "inout" and param not in named
            reached = not isolated and _may_reach(named or [], bound[n][1])
            if unused and not reached and self._untouched(param, place, others):
                # Nothing to copy either way. More than speed: an element of a stack that a
                # run-time index puts past its end must not be touched, bmv2 ends there.
                continue
            safe = isolated and not force_copy and self._untouched(param, place, others)
            if force_copy and "out" not in param.direction and place is not None:
                passed.env[param] = self._own(param, place.value, ctx, span)
            else:
                passed.env[param] = self._pass_one(param, place, safe, ctx, span, passed)
        return passed

    def _pin(
        self, item: tuple[ast.Param, Place | None], ctx: Context, span: Span
    ) -> tuple[ast.Param, Place | None]:
        param, place = item
        if place is not None and param.direction == "in" and _storable(place.value):
            return param, Place(self.copy(place.value, ctx, span), place.type)
        if place is not None and param.direction == "inout" and place.held is None:
            return param, replace(place, held=self.copy(self.load(place, span), ctx, span))
        return item

    def _untouched(
        self,
        param: ast.Param,
        place: Place | None,
        others: list[tuple[ast.Param, Place | None]],
    ) -> bool:
        """Does nothing but the parameter itself change the place until the call is over?"""
        changed = place is not None and place.held is not None
        return not changed and not self._aliased(param, place, others)

    def _aliased(
        self,
        param: ast.Param,
        place: Place | None,
        others: list[tuple[ast.Param, Place | None]],
    ) -> bool:
        if place is None:
            return False
        mine = v.places(place.value)
        for other, found in others:
            if "out" not in param.direction and "out" not in other.direction:
                continue
            if found is not None and v.overlap(mine, v.places(found.value)):
                return True
        return False

    def _own(self, param: ast.Param, value: v.Value, ctx: Context, span: Span) -> v.Value:
        """The value in a variable of the parameter, even a constant: it may change."""
        if not _storable(value):
            return value
        name = self.storage.unique(param.name, True)
        place = self.storage.variable(name, param.type or t.UNKNOWN, span)
        self.assign(place, value, ctx, span)
        return place

    def _pass_one(
        self,
        param: ast.Param,
        place: Place | None,
        safe: bool,
        ctx: Context,
        span: Span,
        passed: Passed,
    ) -> v.Value:
        type_ = param.type or t.UNKNOWN
        if param.direction == "" or (param.direction == "in" and place is not None):
            assert place is not None
            value = place.value
            if not _storable(value) or isinstance(value, v.Const):
                return value
            if safe and _is_storage(value):
                return value
            if param.direction == "" and not isinstance(value, v.Leaf):
                return value
            return self.copy(value, ctx, span, param.name)
        if safe and place is not None and place.bits is None and _is_storage(place.value):
            if param.direction == "out":
                self.invalidate(place.value, ctx, span)
            return place.value
        inside = self.storage.variable(self.storage.unique(param.name, True), type_, span)
        if param.direction == "inout" and place is not None:
            now = place.held if place.held is not None else self.load(place, span)
            self.assign(inside, now, ctx, span)
        elif param.direction == "out":
            self.invalidate(inside, ctx, span)
        if place is not None:
            passed.back.append((place, inside))
        return inside

    def copy_back(self, passed: Passed, ctx: Context, span: Span) -> None:
        """The copy-out half of a call."""
        for place, source in passed.back:
            if isinstance(source, v.Leaf) and place.type != source.type:
                source = v.cast(source, place.type)
            self.store(place, source, ctx, span)


def _may_reach(named: list[object], argument: ast.Expr | None) -> bool:
    """May a body that names these declarations get at the variable an argument is part of?

    Only plain variables are sure to be no more than they say: a body can call actions and
    apply tables, which name others.
    """
    root: object = argument
    while isinstance(root, (ast.Member, ast.Index, ast.Slice)):
        root = root.base
    variables = (ast.Param, ast.VarDecl, ast.ConstDecl)
    return (
        not isinstance(root, ast.Name)
        or root.decl in named
        or not all(isinstance(decl, variables) for decl in named)
    )


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
