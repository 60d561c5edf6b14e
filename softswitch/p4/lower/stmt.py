"""Statements of actions, controls, functions and parser states."""

from __future__ import annotations

from abc import abstractmethod

from softswitch.p4 import ast, fold
from softswitch.p4 import types as t
from softswitch.p4.check.nodes import typed
from softswitch.p4.lower import values as v
from softswitch.p4.lower.base import Context
from softswitch.p4.lower.inline import Place
from softswitch.p4.lower.loops import LoopLowering
from softswitch.p4.lower.model import Apply, Exit, Leave, Statement


class StmtLowering(LoopLowering):
    """`body` lowers a block into ctx.out."""

    def body(self, block: ast.BlockStmt, ctx: Context) -> None:
        for stmt in block.body:
            self.stmt(stmt, ctx)

    def stmt(self, s: ast.Stmt, ctx: Context) -> None:
        """One statement."""
        self.step(s.span)
        if isinstance(s, ast.BlockStmt):
            self.body(s, ctx)
        elif isinstance(s, ast.DeclStmt):
            self.declare(s.decl, ctx)
        elif isinstance(s, ast.AssignStmt):
            self._assign_stmt(s, ctx)
        elif isinstance(s, ast.CallStmt):
            assert isinstance(s.call, ast.Call)
            unused = self.call(s.call, ctx)
            # A lookahead nobody reads still fails when the packet is too short.
            for leaf in v.leaves(unused):
                if isinstance(leaf, v.Lookahead):
                    self.save(leaf, ctx, s.span)
        elif isinstance(s, ast.IfStmt):
            self._if(s, ctx)
        elif isinstance(s, ast.SwitchStmt):
            if s.table is not None:
                self._switch_action(s, ctx)
            else:
                self._switch_value(s, ctx)
        elif isinstance(s, ast.ReturnStmt):
            if s.expr is not None and ctx.result is not None:
                value = self.value(s.expr, ctx)
                self.assign(ctx.result, value, ctx, s.span)
            if ctx.leave is None:
                raise self.fail(s, "'return' cannot be used here")
            if ctx.returned is not None:
                self.assign(ctx.returned, v.Const(1, t.BOOL), ctx, s.span)
            ctx.out.append(Leave(s.span, ctx.leave))
        elif isinstance(s, (ast.ForStmt, ast.ForInStmt)):
            self.loop(s, ctx)
        elif isinstance(s, (ast.BreakStmt, ast.ContinueStmt)):
            block = ctx.broken if isinstance(s, ast.BreakStmt) else ctx.continued
            if block is None:
                raise self.fail(s, "there is no loop to leave")
            ctx.out.append(Leave(s.span, block))
        elif isinstance(s, ast.ExitStmt):
            for passed in reversed(ctx.frames):
                self.copy_back(passed, ctx, s.span)
            ctx.out.append(Exit(s.span))
            if ctx.in_action and ctx.outer_block is not None:
                ctx.out.append(Leave(s.span, ctx.outer_block))

    def _assign_stmt(self, s: ast.AssignStmt, ctx: Context) -> None:
        # The left side is evaluated first: calls in an index happen before the right side.
        place = self.place_of(s.left, ctx)
        effects: list[Statement] = []
        inner = ctx.into(effects)
        right = s.right
        if isinstance(right, ast.Binary) and right.left is s.left:
            source = self._updated(place, right, inner)  # a op= b
        else:
            source = self.value(right, inner)
        if effects:
            place = self.fix(place, ctx, s.span)
            ctx.out.extend(effects)
        self.store(place, source, ctx, s.span)

    def _updated(self, place: Place, e: ast.Binary, ctx: Context) -> v.Value:
        """place OP right"""
        left = self.load(place, e.span)
        if not isinstance(left, v.Leaf):
            raise self.fail(e, f"'{e.op}' cannot be applied to this value")
        effects: list[Statement] = []
        right = self.leaf(e.right, ctx.into(effects))
        if effects:
            left = self.save(left, ctx, e.span)
            ctx.out.extend(effects)
        try:
            return v.binary(e.op, left, right, typed(e))
        except fold.FoldError as error:
            raise self.fail(e, str(error)) from None

    def declare(self, decl: ast.Decl, ctx: Context) -> None:
        """A local variable or constant."""
        if isinstance(decl, ast.VarDecl):
            assert decl.type is not None
            name = self.storage.unique(decl.name, numbered=True)
            place = self.storage.variable(name, decl.type, decl.span)
            if decl.init is not None:
                source = self.value(decl.init, ctx)
                ctx.env[decl] = place
                self.assign(place, source, ctx, decl.span)
            else:
                ctx.env[decl] = place
                self.invalidate(place, ctx, decl.span)

    # ---- branches

    def _if(self, s: ast.IfStmt, ctx: Context) -> None:
        cond = s.cond
        negate = False
        while isinstance(cond, ast.Unary) and cond.op == "!":
            cond, negate = cond.operand, not negate
        if isinstance(s.cond.value, bool):
            live = s.yes if s.cond.value else s.no
            if live is not None:
                self.stmt(live, ctx)
            return
        yes: list[Statement] = []
        no: list[Statement] = []
        self.stmt(s.yes, ctx.into(yes))
        if s.no is not None:
            self.stmt(s.no, ctx.into(no))
        if negate:
            yes, no = no, yes
        if isinstance(cond, ast.Member) and isinstance(typed(cond.base), t.TApplyResult):
            if cond.member == "miss":
                yes, no = no, yes
            self.apply_branch(cond.base, ctx, yes, no)
            return
        test = self.leaf(cond, ctx)
        self.branch(test, s.cond.span, yes, no, ctx)

    @abstractmethod
    def apply_branch(
        self, call: ast.Expr, ctx: Context, hit: list[Statement], miss: list[Statement]
    ) -> None:
        """Apply a table and branch on hit or miss."""

    def apply_member(self, e: ast.Member, ctx: Context) -> v.Value:
        if e.member == "action_run":
            raise self.fail(e, "'action_run' can be used in a switch only")
        result = self.storage.temporary(t.BOOL, e.span)
        hit: list[Statement] = []
        miss: list[Statement] = []
        wanted = int(e.member == "hit")
        self.assign(result, v.Const(wanted, t.BOOL), ctx.into(hit), e.span)
        self.assign(result, v.Const(1 - wanted, t.BOOL), ctx.into(miss), e.span)
        self.apply_branch(e.base, ctx, hit, miss)
        return result

    def _groups(self, s: ast.SwitchStmt) -> list[tuple[list[ast.Expr], ast.BlockStmt]]:
        """Cases with the labels that fall through to them."""
        groups: list[tuple[list[ast.Expr], ast.BlockStmt]] = []
        labels: list[ast.Expr] = []
        for case in s.cases:
            labels += case.labels
            if case.body is not None:
                groups.append((labels, case.body))
                labels = []
        return groups

    def _switch_value(self, s: ast.SwitchStmt, ctx: Context) -> None:
        key = self.leaf(s.expr, ctx)
        if not isinstance(key, v.Const):
            key = self.save(key, ctx, s.span, "switch")
        groups = self._groups(s)
        rest: list[Statement] = []
        for labels, block in groups:
            if any(isinstance(x, ast.DefaultExpr) for x in labels):
                self.stmt(block, ctx.into(rest))
        for labels, block in reversed(groups):
            if any(isinstance(x, ast.DefaultExpr) for x in labels):
                continue
            test: v.Leaf = v.Const(0, t.BOOL)
            for label in labels:
                value = self.leaf(label, ctx)
                test = v.binary("||", test, v.binary("==", key, value, t.BOOL), t.BOOL)
            yes: list[Statement] = []
            self.stmt(block, ctx.into(yes))
            chain: list[Statement] = []
            self.branch(test, block.span, yes, rest, ctx.into(chain))
            rest = chain
        ctx.out.extend(rest)

    def _switch_action(self, s: ast.SwitchStmt, ctx: Context) -> None:
        call = s.expr
        assert isinstance(call, ast.Member)
        statement = self.make_apply(call.base, ctx)
        statement.cases = []
        for labels, block in self._groups(s):
            body: list[Statement] = []
            self.stmt(block, ctx.into(body))
            for label in labels:
                if isinstance(label, ast.DefaultExpr):
                    statement.default = body
                else:
                    assert isinstance(label, ast.Name)
                    statement.cases.append((self.action_name(label.decl, ctx), body))
        ctx.out.append(statement)

    @abstractmethod
    def make_apply(self, call: ast.Expr, ctx: Context) -> Apply:
        """The statement that applies the table of `t.apply()`; key preparation is emitted."""

    @abstractmethod
    def action_name(self, decl: ast.ActionDecl, ctx: Context) -> str:
        """Control-plane name of an action seen from here."""
