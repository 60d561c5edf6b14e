"""Expressions -> values; side effects inside them are emitted first, left to right."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from softswitch.p4 import ast, fold
from softswitch.p4 import types as t
from softswitch.p4.check.nodes import typed
from softswitch.p4.diagnostics import Span
from softswitch.p4.lower import values as v
from softswitch.p4.lower.base import Context, LowerBase
from softswitch.p4.lower.model import Statement


class ExprLowering(LowerBase, ABC):
    """`value` evaluates, `place` gives the storage an lvalue names."""

    @abstractmethod
    def call(self, e: ast.Call, ctx: Context) -> v.Value:
        """Lower a call (in lower.calls)."""

    def leaf(self, e: ast.Expr, ctx: Context) -> v.Leaf:
        """An expression of a scalar type, usable as an operand."""
        found = self.value(e, ctx)
        if not isinstance(found, v.Leaf):
            raise self.fail(e, "a single number is needed here")
        return self.settle(found, ctx, e.span)

    def value(self, e: ast.Expr, ctx: Context) -> v.Value:
        """The value of any expression."""
        self.step(e.span)
        if e.value is not None and e.type is not None:
            return self.constant(e.value, e.type, e.span)
        if isinstance(e, ast.Name):
            return self._name(e, ctx)
        if isinstance(e, ast.Member):
            return self._member(e, ctx)
        if isinstance(e, ast.Index):
            return self._index(e, ctx)
        if isinstance(e, ast.Slice):
            base = self.value(e.base, ctx)
            if not isinstance(base, v.Leaf):
                raise self.fail(e, "this value cannot be sliced")
            return v.slice_of(base, e.hi, e.lo)
        if isinstance(e, ast.Unary):
            return v.unary(e.op, self.leaf(e.operand, ctx), typed(e))
        if isinstance(e, ast.Binary):
            return self._binary(e, ctx)
        if isinstance(e, ast.Ternary):
            return self._ternary(e, ctx)
        if isinstance(e, ast.Cast):
            return self._cast(e, ctx)
        if isinstance(e, ast.Call):
            return self.call(e, ctx)
        if isinstance(e, ast.ListExpr):
            return self._list(e, ctx)
        if isinstance(e, ast.StructExpr):
            return self._struct(e, ctx)
        if isinstance(e, ast.InvalidHeader):
            type_ = typed(e)
            if not isinstance(type_, t.TStruct):
                raise self.fail(e, "the type of '{#}' is not known here")
            return v.HeaderLiteral(type_, None)
        if isinstance(e, ast.DefaultExpr):
            return self.default(typed(e))
        raise self.fail(e, "this expression is not supported here")

    def constant(self, value: Any, type_: t.Type, span: Span) -> v.Value:
        """A compile-time value."""
        if isinstance(value, fold.Symbol):
            if value.kind == "error":
                return v.Const(self.error_codes[value.name], t.ERROR)
            enum = t.base(type_)
            assert isinstance(enum, t.TEnum)
            return v.Const(enum.members.index(value.name), type_)
        if isinstance(value, str):
            return v.Text(value)
        if isinstance(value, (bool, int)):
            return v.const(int(value), type_)
        if isinstance(value, dict):
            assert isinstance(type_, (t.TStruct, t.TRecord))
            fields = type_.fields if isinstance(type_, t.TStruct) else dict(type_.items)
            items = {n: self.constant(value[n], f, span) for n, f in fields.items()}
            if isinstance(type_, t.TStruct) and type_.kind == "header":
                return v.HeaderLiteral(type_, items)
            return v.Aggregate(type_, items)
        assert isinstance(value, list)
        if isinstance(type_, t.TTuple):
            parts = zip(value, type_.items, strict=True)
            items = {str(i): self.constant(x, f, span) for i, (x, f) in enumerate(parts)}
            return v.Aggregate(type_, items)
        if isinstance(type_, (t.TStack, t.TList)):
            made = tuple(self.constant(x, type_.element, span) for x in value)
            if isinstance(type_, t.TStack):
                return v.StackLiteral(type_, made)
            return v.Aggregate(type_, {str(i): x for i, x in enumerate(made)})
        raise self.fail(span, "this constant is not supported here")

    # ---- names and parts

    def _name(self, e: ast.Name, ctx: Context) -> v.Value:
        decl = e.decl
        found = ctx.env.get(decl) if not isinstance(decl, list) else None
        if found is None and not isinstance(decl, list):
            found = self.globals.get(decl)
        if found is not None:
            return found
        if isinstance(decl, ast.ConstDecl):
            return self.value(decl.init, ctx)
        raise self.fail(e, f"'{e.name}' cannot be used here")

    def _member(self, e: ast.Member, ctx: Context) -> v.Value:
        path: list[str] = [e.member]
        base_expr = e.base
        # Fields of structs inside headers are one flat name.
        while (
            isinstance(base_expr, ast.Member)
            and t.is_struct(typed(base_expr))
            and not isinstance(base_expr.base, ast.TypeExpr)
        ):
            path.insert(0, base_expr.member)
            base_expr = base_expr.base
        if isinstance(typed(e.base), t.TApplyResult):
            return self.apply_member(e, ctx)
        base = self.value(base_expr, ctx)
        return self.part(base, path, e)

    @abstractmethod
    def apply_member(self, e: ast.Member, ctx: Context) -> v.Value:
        """`t.apply().hit` as a value (in lower.tables)."""

    def part(self, base: v.Value, path: list[str], e: ast.Expr) -> v.Value:
        """base.path[0].path[1]..."""
        for n, name in enumerate(path):
            if isinstance(base, v.Aggregate):
                base = base.items[name]
            elif isinstance(base, v.HeaderLiteral):
                assert isinstance(base.type, t.TStruct)
                base = base.fields[name] if base.fields else self.default(base.type.fields[name])
            elif isinstance(base, v.NextHeader):
                raise self.fail(e, "fields of 'next' cannot be read: it is not extracted yet")
            elif isinstance(base, v.HeaderValue):
                return self.header_field(base, tuple(path[n:]))
            elif isinstance(base, v.Union):
                base = v.Header(f"{base.name}.{name}", _struct(base.type.fields[name]))
            elif isinstance(base, v.NextUnion):
                base = v.UnionMemberNext(base.stack, name, _struct(base.type.fields[name]))
            elif isinstance(base, v.IndexedUnion):
                member = _struct(base.type.fields[name])
                base = v.IndexedMember(base.stack, base.index, name, member)
            elif isinstance(base, v.LastUnion):
                base = v.UnionMemberLast(base.stack, name, _struct(base.type.fields[name]))
            elif isinstance(base, v.Stack):
                base = self._stack_member(base, name)
            elif isinstance(base, v.StackLiteral) and name == "size":
                base = v.Const(base.type.size, t.bits(32))
            else:
                raise self.fail(e, "this value has no parts")
        return base

    def _stack_member(self, stack: v.Stack, name: str) -> v.Value:
        element = _struct(stack.type.element)
        union = element.kind == "header_union"
        if name == "next":
            return v.NextUnion(stack, element) if union else v.NextHeader(stack, element)
        if name == "last":
            return v.LastUnion(stack, element) if union else v.LastHeader(stack, element)
        if name == "size":
            return v.Const(stack.type.size, t.bits(32))
        return v.Special("last_stack_index", stack.name, t.bits(32))

    def _index(self, e: ast.Index, ctx: Context) -> v.Value:
        base = self.value(e.base, ctx)
        index = self.leaf(e.index, ctx)
        if isinstance(base, v.Aggregate) and isinstance(index, v.Const):
            return base.items[str(index.value)]
        if isinstance(base, v.StackLiteral) and isinstance(index, v.Const):
            if index.value < len(base.items):
                return base.items[index.value]
            return self.default(base.type.element)
        if not isinstance(base, v.Stack):
            raise self.fail(e, "this value cannot be indexed at run time")
        if isinstance(index, v.Const):
            if not 0 <= index.value < base.type.size:
                raise self.fail(e, f"index {index.value} is outside the stack")
            return self.element(base, index.value)
        element = _struct(base.type.element)
        if element.kind == "header_union":
            return v.IndexedUnion(base, index, element)
        return v.IndexedHeader(base, index, element)

    # ---- operators

    def _operands(self, left: ast.Expr, right: ast.Expr, ctx: Context) -> tuple[v.Value, v.Value]:
        """Both sides; the left one is saved when evaluating the right one has effects."""
        a = self.value(left, ctx)
        if isinstance(a, v.Leaf):
            a = self.settle(a, ctx, left.span)
        effects: list[Statement] = []
        b = self.value(right, ctx.into(effects))
        if isinstance(b, v.Leaf):
            b = self.settle(b, ctx.into(effects), right.span)
        if effects:
            if _moves(a):
                a = self.copy(a, ctx, left.span)
            ctx.out.extend(effects)
        return a, b

    def _binary(self, e: ast.Binary, ctx: Context) -> v.Value:
        if e.op in ("&&", "||"):
            return self._short_circuit(e, ctx)
        left, right = self._operands(e.left, e.right, ctx)
        if e.op in ("==", "!=") and not (isinstance(left, v.Leaf) and isinstance(right, v.Leaf)):
            same = self.equal(left, right, e)
            return same if e.op == "==" else v.unary("!", same, t.BOOL)
        if not isinstance(left, v.Leaf) or not isinstance(right, v.Leaf):
            raise self.fail(e, f"'{e.op}' cannot be applied to these values")
        try:
            return v.binary(e.op, left, right, typed(e))
        except fold.FoldError as error:
            raise self.fail(e, str(error)) from None

    def _short_circuit(self, e: ast.Binary, ctx: Context) -> v.Value:
        left = self.leaf(e.left, ctx)
        effects: list[Statement] = []
        right = self.leaf(e.right, ctx.into(effects))
        if not effects:
            return v.binary(e.op, left, right, t.BOOL)
        result = self.storage.temporary(t.BOOL, e.span)
        inner = ctx.into(effects)
        self.assign(result, right, inner, e.right.span)
        other: list[Statement] = []
        self.assign(result, v.Const(int(e.op == "||"), t.BOOL), ctx.into(other), e.span)
        yes, no = (effects, other) if e.op == "&&" else (other, effects)
        self.branch(left, e.span, yes, no, ctx)
        return result

    def equal(self, left: v.Value, right: v.Value, e: ast.Expr) -> v.Leaf:
        """Equality of structs, tuples, headers and stacks, field by field."""
        if isinstance(left, v.Leaf) and isinstance(right, v.Leaf):
            return v.binary("==", left, right, t.BOOL)
        if isinstance(left, v.Aggregate) and isinstance(right, v.Aggregate):
            result: v.Leaf = v.Const(1, t.BOOL)
            for a, b in zip(left.items.values(), right.items.values(), strict=True):
                result = v.binary("&&", result, self.equal(a, b, e), t.BOOL)
            return result
        if isinstance(left, v.HeaderValue) and isinstance(right, v.HeaderValue):
            return self._equal_headers(left, right, e)
        if isinstance(left, v.Stack) and isinstance(right, v.Stack):
            result = v.Const(1, t.BOOL)
            for i in range(left.type.size):
                pair = self.equal(self.element(left, i), self.element(right, i), e)
                result = v.binary("&&", result, pair, t.BOOL)
            return result
        if isinstance(left, v.Union) and isinstance(right, v.Union):
            result = v.Const(1, t.BOOL)
            for name in left.type.fields:
                pair = self.equal(self.part(left, [name], e), self.part(right, [name], e), e)
                result = v.binary("&&", result, pair, t.BOOL)
            return result
        raise self.fail(e, "these values cannot be compared")

    def _equal_headers(self, a: v.HeaderValue, b: v.HeaderValue, e: ast.Expr) -> v.Leaf:
        valid_a, valid_b = self.valid(a, e), self.valid(b, e)
        both = v.binary("&&", valid_a, valid_b, t.BOOL)
        neither = v.binary(
            "&&", v.unary("!", valid_a, t.BOOL), v.unary("!", valid_b, t.BOOL), t.BOOL
        )
        if both != v.Const(0, t.BOOL):
            for name in a.type.fields:
                pair = self.equal(self.part(a, [name], e), self.part(b, [name], e), e)
                both = v.binary("&&", both, pair, t.BOOL)
        return v.binary("||", neither, both, t.BOOL)

    def valid(self, header: v.Value, e: ast.Expr) -> v.Leaf:
        """header.isValid()"""
        if isinstance(header, v.Header):
            return v.Field(header.name, "$valid$", t.BOOL)
        if isinstance(header, v.HeaderLiteral):
            return v.Const(int(header.fields is not None), t.BOOL)
        if isinstance(header, v.Union):
            result: v.Leaf = v.Const(0, t.BOOL)
            for name in header.type.fields:
                member = v.Field(f"{header.name}.{name}", "$valid$", t.BOOL)
                result = v.binary("||", result, member, t.BOOL)
            return result
        if isinstance(header, v.LastHeader):
            return v.StackField(header.stack.name, "$valid$", t.BOOL)
        if isinstance(header, (v.IndexedHeader, v.IndexedMember, v.IndexedUnion)):
            # Validity of each element, chosen by comparing the index.
            result = v.Const(0, t.BOOL)
            for i in range(header.stack.type.size):
                here = v.binary("==", header.index, v.const(i, header.index.type), t.BOOL)
                place = self.element(header.stack, i)
                if isinstance(header, v.IndexedMember):
                    place = self.part(place, [header.member], e)
                element = self.valid(place, e)
                both = v.binary("&&", here, element, t.BOOL)
                result = v.binary("||", result, both, t.BOOL)
            return result
        raise self.fail(e, "isValid() cannot be asked of this header")

    def _ternary(self, e: ast.Ternary, ctx: Context) -> v.Value:
        cond = self.leaf(e.cond, ctx)
        yes_out: list[Statement] = []
        no_out: list[Statement] = []
        yes = self.value(e.yes, ctx.into(yes_out))
        no = self.value(e.no, ctx.into(no_out))
        if isinstance(cond, v.Const):
            ctx.out.extend(yes_out if cond.value else no_out)
            return yes if cond.value else no
        plain = isinstance(yes, v.Leaf) and isinstance(no, v.Leaf)
        looks = isinstance(yes, v.Lookahead) or isinstance(no, v.Lookahead)
        if plain and not yes_out and not no_out and not looks:
            assert isinstance(yes, v.Leaf)
            assert isinstance(no, v.Leaf)
            return v.mux(cond, yes, no, typed(e))
        result = self.storage.variable(self.storage.unique("tmp"), typed(e), e.span)
        self.assign(result, yes, ctx.into(yes_out), e.yes.span)
        self.assign(result, no, ctx.into(no_out), e.no.span)
        self.branch(cond, e.span, yes_out, no_out, ctx)
        return result

    def _cast(self, e: ast.Cast, ctx: Context) -> v.Value:
        inner = self.value(e.operand, ctx)
        target = typed(e)
        if isinstance(inner, v.Leaf):
            kind = t.base(target)
            if isinstance(inner, v.Lookahead) and (
                not isinstance(kind, t.TBits) or kind.width != inner.width or kind.signed
            ):
                inner = self.settle(inner, ctx, e.span)
            return v.cast(inner, target)
        if isinstance(inner, v.Aggregate) and isinstance(target, t.TStruct):
            items = dict(zip(target.fields, inner.items.values(), strict=True))
            if target.kind == "header":
                return v.HeaderLiteral(target, items)
            return v.Aggregate(target, items)
        return inner

    def _list(self, e: ast.ListExpr, ctx: Context) -> v.Value:
        items = self._items(e.items, ctx)
        type_ = typed(e)
        if isinstance(type_, t.TStack):
            return v.StackLiteral(type_, tuple(items))
        return v.Aggregate(type_, {str(i): x for i, x in enumerate(items)})

    def _items(self, exprs: list[ast.Expr], ctx: Context) -> list[v.Value]:
        items: list[v.Value] = []
        for expr in exprs:
            effects: list[Statement] = []
            item = self.value(expr, ctx.into(effects))
            if effects:
                items = [self.copy(x, ctx, expr.span) if _moves(x) else x for x in items]
                ctx.out.extend(effects)
            items.append(item)
        return items

    def _struct(self, e: ast.StructExpr, ctx: Context) -> v.Value:
        values = self._items([x for _, x in e.fields], ctx)
        items = dict(zip([n for n, _ in e.fields], values, strict=True))
        type_ = typed(e)
        if isinstance(type_, t.TStruct) and type_.kind == "header":
            return v.HeaderLiteral(type_, items)
        return v.Aggregate(type_, items)


def _moves(value: v.Value) -> bool:
    return not isinstance(value, (v.Const, v.ActionData, v.Text))


def _struct(type_: t.Type) -> t.TStruct:
    assert isinstance(type_, t.TStruct)
    return type_
