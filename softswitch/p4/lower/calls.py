"""Calls: built-in methods, functions, actions, sub-controls and sub-parsers."""

from __future__ import annotations

from abc import abstractmethod

from softswitch.p4 import ast
from softswitch.p4 import types as t
from softswitch.p4.check.nodes import typed
from softswitch.p4.lower import values as v
from softswitch.p4.lower.base import MAX_DEPTH, Context
from softswitch.p4.lower.inline import InlineLowering
from softswitch.p4.lower.model import Block
from softswitch.p4.walk import walk


class CallLowering(InlineLowering):
    """Dispatches on the kind of call the checker found."""

    def call(self, e: ast.Call, ctx: Context) -> v.Value:
        self.step(e.span)
        if ctx.depth > MAX_DEPTH:
            raise self.fail(e, "calls nested too deeply")
        if e.kind == "builtin":
            return self._builtin(e, ctx)
        if e.kind == "function":
            return self._function(e, ctx)
        if e.kind == "extern_function":
            return self.extern_function(e, ctx)
        if e.kind == "extern_method":
            return self._extern_method(e, ctx)
        if e.kind == "action":
            self.call_action(e, ctx)
            return v.Nothing()
        if e.kind == "apply":
            return self._apply(e, ctx)
        raise self.fail(e, "this call is not supported here")

    # ---- provided elsewhere

    @abstractmethod
    def extern_function(self, e: ast.Call, ctx: Context) -> v.Value:
        """A function of the architecture (in lower.externs)."""

    @abstractmethod
    def extern_object(self, e: ast.Call, instance: v.Value, method: str, ctx: Context) -> v.Value:
        """A method of an extern instance (in lower.externs)."""

    @abstractmethod
    def apply_table(self, e: ast.Call, ctx: Context) -> v.Value:
        """`t.apply()` as a statement (in lower.tables)."""

    @abstractmethod
    def apply_control(self, e: ast.Call, instance: v.Instance, ctx: Context) -> None:
        """`c.apply(...)` of another control (in lower.instances)."""

    @abstractmethod
    def apply_parser(self, e: ast.Call, instance: v.Instance, ctx: Context) -> None:
        """`p.apply(...)` of another parser (in lower.parser)."""

    @abstractmethod
    def direct_instance(self, e: ast.Call, type_: t.TBlock, ctx: Context) -> v.Instance:
        """`C.apply(...)` on a type: an instance of its own."""

    @abstractmethod
    def call_action(self, e: ast.Call, ctx: Context) -> None:
        """A direct call of an action."""

    @abstractmethod
    def body(self, block: ast.BlockStmt, ctx: Context) -> None:
        """The statements of a block, in a scope (in lower.stmt)."""

    # ---- methods

    def _builtin(self, e: ast.Call, ctx: Context) -> v.Value:
        func = e.func
        assert isinstance(func, ast.Member)
        base = self.value(func.base, ctx)
        if e.target == "isValid":
            return self.valid(base, e)
        if e.target in ("setValid", "setInvalid"):
            if not isinstance(base, v.HeaderValue):
                raise self.fail(e, f"{e.target}() cannot be called here")
            base = self.concrete(base, ctx, e.span)
            op = "add_header" if e.target == "setValid" else "remove_header"
            if isinstance(base, v.IndexedMember):
                self.for_member(
                    base,
                    ctx,
                    e.span,
                    lambda h, c: self.emit(c, e.span, op, v.wrapped(v.header_json(h))),
                )
                return v.Nothing()
            self.emit(ctx, e.span, op, v.wrapped(v.header_json(base)))
            return v.Nothing()
        if e.target in ("push_front", "pop_front"):
            if not isinstance(base, v.Stack) or e.args[0].expr is None:
                raise self.fail(e, f"{e.target}() cannot be called here")
            count = self.leaf(e.args[0].expr, ctx)
            kind = "header_union_stack" if t.is_union(base.type.element) else "header_stack"
            assert isinstance(count, v.Const)
            self.emit(
                ctx,
                e.span,
                "push" if e.target == "push_front" else "pop",
                {"type": kind, "value": base.name},
                {"type": "hexstr", "value": v.hexstr(count.value)},
            )
            return v.Nothing()
        raise self.fail(e, f"'{e.target}' is not supported here")

    def _extern_method(self, e: ast.Call, ctx: Context) -> v.Value:
        func = e.func
        assert isinstance(func, ast.Member)
        return self.extern_object(e, self.value(func.base, ctx), func.member, ctx)

    def _apply(self, e: ast.Call, ctx: Context) -> v.Value:
        if isinstance(e.target, t.TTable):
            return self.apply_table(e, ctx)
        func = e.func
        assert isinstance(func, ast.Member)
        if isinstance(func.base, ast.TypeExpr):
            assert isinstance(e.target, t.TBlock)
            instance: v.Value = self.direct_instance(e, e.target, ctx)
        else:
            instance = self.value(func.base, ctx)
        if not isinstance(instance, v.Instance) or not isinstance(instance.type, t.TBlock):
            raise self.fail(e, "this cannot be applied")
        if isinstance(instance.type.decl, ast.ControlDecl):
            self.apply_control(e, instance, ctx)
        else:
            self.apply_parser(e, instance, ctx)
        return v.Nothing()

    # ---- functions

    def _function(self, e: ast.Call, ctx: Context) -> v.Value:
        function = e.target
        assert isinstance(function, ast.FunctionDecl)
        assert function.body is not None
        passed = self.pass_arguments(e.bound, ctx, e.span, isolated=True, body=function.body)
        inner = Context(
            env=dict(passed.env),
            where=ctx.where,
            path=ctx.path,
            out=ctx.out,
            in_action=ctx.in_action,
            outer_block=ctx.outer_block,
            depth=ctx.depth + 1,
            control=ctx.control,
        )
        returns = typed(e)
        last = function.body.body[-1] if function.body.body else None
        if isinstance(last, ast.ReturnStmt) and _count_returns(function.body) == 1:
            head = ast.BlockStmt(function.body.span, function.body.body[:-1])
            self.body(head, inner)
            result: v.Value = v.Nothing()
            if last.expr is not None:
                result = self.value(last.expr, inner)
                if passed.back:
                    result = self.copy(result, ctx, e.span)
        else:
            result = v.Nothing()
            if not isinstance(returns, t.TVoid):
                name = self.storage.unique("retval")
                result = self.storage.variable(name, returns, e.span)
            block = Block(e.span, [])
            inner.out = block.body
            inner.leave = block
            inner.result = result
            self.body(function.body, inner)
            ctx.out.append(block)
        self.copy_back(passed, ctx, e.span)
        return result


def _count_returns(stmt: ast.Stmt) -> int:
    return sum(isinstance(node, ast.ReturnStmt) for node in walk(stmt))
