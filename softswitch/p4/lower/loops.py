"""Loops: actions that jump back, or one copy of the body for every element of a list."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

from softswitch.p4 import ast
from softswitch.p4 import types as t
from softswitch.p4.lower import values as v
from softswitch.p4.lower.base import Context
from softswitch.p4.lower.externs import ExternLowering
from softswitch.p4.lower.model import Block, If, Leave, Loop, Statement, Together
from softswitch.p4.walk import walk


class LoopLowering(ExternLowering):
    """bmv2's pipelines have no cycles but its actions do: a control's loop becomes an action."""

    @abstractmethod
    def stmt(self, s: ast.Stmt, ctx: Context) -> None:
        """One statement (in lower.stmt)."""

    @abstractmethod
    def declare(self, decl: ast.Decl, ctx: Context) -> None:
        """A local declaration (in lower.stmt)."""

    def loop(self, s: ast.ForStmt | ast.ForInStmt, ctx: Context) -> None:
        """A whole loop."""
        ctx = replace(ctx, env=dict(ctx.env))
        if isinstance(s, ast.ForInStmt) and not isinstance(s.collection, ast.RangeExpr):
            self._each(s, ctx)
            return
        if ctx.in_action or ctx.where == "parser":
            self._repeat(s, ctx)
        else:
            self._together(s, ctx)

    def _repeat(self, s: ast.ForStmt | ast.ForInStmt, ctx: Context) -> None:
        if isinstance(s, ast.ForStmt):
            self._for(s, ctx)
        else:
            self._range(s, ctx)

    def _together(self, s: ast.ForStmt | ast.ForInStmt, ctx: Context) -> None:
        """A loop of a control, as an action of its own."""
        whole = Block(s.span, [])
        inner = replace(ctx, out=whole.body, in_action=True, outer_block=whole, leave=whole)
        if any(isinstance(node, ast.ReturnStmt) for node in walk(s)):
            inner.returned = self.storage.temporary(t.BOOL, s.span, "returned")
            self.assign(inner.returned, v.Const(0, t.BOOL), inner, s.span)
        self._repeat(s, inner)
        ctx.out.append(Together(s.span, [whole]))
        if inner.returned is not None and ctx.leave is not None:
            on: list[Statement] = []
            if ctx.returned is not None:
                self.assign(ctx.returned, v.Const(1, t.BOOL), ctx.into(on), s.span)
            on.append(Leave(s.span, ctx.leave))
            ctx.out.append(If(s.span, inner.returned, on, []))

    def _turn(self, body: ast.Stmt, ctx: Context, broken: Block) -> Block:
        """One turn of a loop; `continue` goes to its end."""
        turn = Block(body.span, [])
        self.stmt(
            body,
            replace(ctx, env=dict(ctx.env), out=turn.body, broken=broken, continued=turn),
        )
        return turn

    def _for(self, s: ast.ForStmt, ctx: Context) -> None:
        for stmt in s.init:
            self.stmt(stmt, ctx)
        broken = Block(s.span, [])
        test: list[Statement] = []
        cond = self.leaf(s.cond, ctx.into(test))
        if isinstance(cond, v.Const) and not cond.value and not test:
            return
        body: list[Statement] = [self._turn(s.body, ctx, broken)]
        for stmt in s.update:
            self.stmt(stmt, ctx.into(body))
        broken.body.append(Loop(s.span, test, cond, body))
        ctx.out.append(broken)

    def _range(self, s: ast.ForInStmt, ctx: Context) -> None:
        """The ends are evaluated once; the body may change its variable without effect."""
        ends = s.collection
        assert isinstance(ends, ast.RangeExpr)
        low, high = (self._kept(self.leaf(x, ctx), ctx, x) for x in (ends.left, ends.right))
        type_ = s.decl.type or t.UNKNOWN
        at = self.storage.temporary(type_, s.span, "at")
        self.assign(at, low, ctx, s.span)
        self.declare(s.decl, ctx)
        place = ctx.env[s.decl]
        broken = Block(s.span, [])
        body: list[Statement] = []
        self.assign(place, at, ctx.into(body), s.span)
        body.append(self._turn(s.body, ctx, broken))
        last = v.binary("==", at, high, t.BOOL)
        body.append(If(s.span, last, [Leave(s.span, broken)], []))
        self.assign(at, v.binary("+", at, v.const(1, type_), type_), ctx.into(body), s.span)
        broken.body.append(Loop(s.span, [], v.Const(1, t.BOOL), body))
        self.branch(v.binary("<=", low, high, t.BOOL), s.span, [broken], [], ctx)

    def _kept(self, leaf: v.Leaf, ctx: Context, e: ast.Expr) -> v.Leaf:
        return leaf if isinstance(leaf, v.Const) else self.save(leaf, ctx, e.span)

    def _each(self, s: ast.ForInStmt, ctx: Context) -> None:
        """Lists and stacks: the elements are read before the first turn."""
        found = self.value(s.collection, ctx)
        if isinstance(found, v.Stack):
            items = [self.element(found, i) for i in range(found.type.size)]
        elif isinstance(found, v.Aggregate):
            items = list(found.items.values())
        else:
            raise self.fail(s.collection, "this cannot be walked over")
        items = [self.copy(x, ctx, s.collection.span) for x in items]
        self.declare(s.decl, ctx)
        place = ctx.env[s.decl]
        broken = Block(s.span, [])
        for item in items:
            self.step(s.span)
            self.assign(place, item, ctx.into(broken.body), s.span)
            broken.body.append(self._turn(s.body, ctx, broken))
        ctx.out.append(broken)
