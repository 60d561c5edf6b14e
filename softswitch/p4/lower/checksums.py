"""The two checksum controls: lists of checksums, each with a condition."""

from __future__ import annotations

from typing import Any

from softswitch.p4 import ast
from softswitch.p4 import types as t
from softswitch.p4.lower import values as v
from softswitch.p4.lower.base import Context
from softswitch.p4.lower.inline import Passed
from softswitch.p4.lower.parser import ParserLowering


class ChecksumLowering(ParserLowering):
    """bmv2 computes checksums over fields, at fixed points; it runs no code there."""

    headers_value: v.Value
    meta_value: v.Value

    def block_decl(self, instance: v.Instance) -> ast.ParserDecl | ast.ControlDecl:
        """What an instance of a parser or control was declared as."""
        assert isinstance(instance.type, t.TBlock)
        return instance.type.decl

    def block_env(self, instance: v.Instance, values: list[v.Value]) -> dict[Any, v.Value]:
        """The parameters of a block with these values."""
        decl = self.block_decl(instance)
        if len(decl.params) != len(values):
            raise self.fail(decl, f"'{decl.name}' has the wrong number of parameters")
        env: dict[Any, v.Value] = dict(zip(decl.params, values, strict=True))
        return env

    def checksums(self, instance: v.Instance, verify: bool) -> None:
        """All checksums of a control."""
        decl = self.block_decl(instance)
        assert isinstance(decl, ast.ControlDecl)
        where = "verify" if verify else "compute"
        control = self.instantiate(instance, (instance.name,), where)
        control.env.update(self.block_env(instance, [self.headers_value, self.meta_value]))
        ctx = Context(env=control.env, where=where, path=control.path, control=control)
        self._checksum_locals(decl, ctx)
        self._checksum_block(decl.body, v.Const(1, t.BOOL), ctx, verify)

    def _checksum_locals(self, decl: ast.ControlDecl, ctx: Context) -> None:
        for local in decl.locals:
            if isinstance(local, ast.VarDecl) and local.init is not None:
                raise self.fail(local, "bmv2 computes nothing but checksums here: no variables")

    def _checksum_block(self, stmt: ast.Stmt, cond: v.Leaf, ctx: Context, verify: bool) -> None:
        """The checksums below a statement, which runs when `cond` holds."""
        prefix = "verify" if verify else "update"
        allowed = (f"{prefix}_checksum", f"{prefix}_checksum_with_payload")
        if isinstance(stmt, ast.BlockStmt):
            for inner in stmt.body:
                self._checksum_block(inner, cond, ctx, verify)
            return
        if isinstance(stmt, ast.EmptyStmt):
            return
        if isinstance(stmt, ast.IfStmt):
            test = self._checksum_condition(stmt.cond, ctx)
            both = v.binary("&&", cond, test, t.BOOL)
            self._checksum_block(stmt.yes, both, ctx, verify)
            if stmt.no is not None:
                other = v.binary("&&", cond, v.unary("!", test, t.BOOL), t.BOOL)
                self._checksum_block(stmt.no, other, ctx, verify)
            return
        call = stmt.call if isinstance(stmt, ast.CallStmt) else None
        if isinstance(call, ast.Call) and call.kind == "apply":
            decl, inner_ctx = self.enter_control(call, ctx, "only checksums can be computed here")
            self._checksum_locals(decl, inner_ctx)
            self._checksum_block(decl.body, cond, inner_ctx, verify)
            return
        if (
            not isinstance(call, ast.Call)
            or call.kind != "extern_function"
            or call.target.name not in allowed
        ):
            raise self.fail(stmt, f"only calls of {allowed[0]} and {allowed[1]} can stand here")
        self._checksum(call, cond, ctx, verify)

    def enter_control(
        self, call: ast.Call, ctx: Context, reason: str
    ) -> tuple[ast.ControlDecl, Context]:
        """A control applied inside a control that runs no code: where its body is read."""
        assert isinstance(call.func, ast.Member)
        if isinstance(call.func.base, ast.TypeExpr):
            assert isinstance(call.target, t.TBlock)
            instance = self.direct_instance(call, call.target, ctx)
        else:
            found = self.value(call.func.base, ctx)
            assert isinstance(found, v.Instance)
            instance = found
        decl = self.block_decl(instance)
        assert isinstance(decl, ast.ControlDecl)
        if ctx.depth > 16:
            raise self.fail(call, "controls nested too deeply")
        out: list[Any] = []
        outer = ctx.into(out)
        passed: Passed = self.pass_arguments(call.bound, outer, call.span, isolated=True)
        if passed.back or out:
            raise self.fail(call, f"arguments of this control would need code: {reason}")
        env = dict(passed.env)
        if instance.control is not None:
            env = {**instance.control.env, **env}
        for (param, _), own in zip(call.bound, decl.params, strict=True):
            env[own] = passed.env[param]
        inner = Context(
            env=env, where=ctx.where, path=ctx.path, out=ctx.out, depth=ctx.depth + 1,
            control=instance.control or ctx.control,
        )  # fmt: skip
        return decl, inner

    def _checksum_condition(self, e: ast.Expr, ctx: Context) -> v.Leaf:
        found = self.leaf(e, ctx)
        if ctx.out:
            raise self.fail(e, "this condition is too complex for bmv2")
        return found

    def _checksum(self, call: ast.Call, when: v.Leaf, ctx: Context, verify: bool) -> None:
        args = {p.name: x for p, x in call.bound}
        self.model.calls_externs = True
        algorithm = self.symbol(args["algo"], call.span)
        for expr in (args["condition"], args["data"], args["checksum"]):
            if expr is None:
                raise self.fail(call, "'_' is not supported here")
        assert args["condition"] is not None
        assert args["data"] is not None
        assert args["checksum"] is not None
        inputs = self.inputs(self.value(args["data"], ctx), ctx, call.span, False)
        payload = call.target.name.endswith("_with_payload")
        name = self.calculation(algorithm, inputs, payload, call.span)
        target = self.value(args["checksum"], ctx)
        if not isinstance(target, v.Field):
            raise self.fail(args["checksum"], "the checksum has to be a field")
        if v.overlap(v.places(target), v.places(when)):
            raise self.fail(call, "the 'if' around this depends on the checksum it computes")
        cond = self._checksum_condition(args["condition"], ctx)
        cond = v.binary("&&", when, cond, t.BOOL)
        self.model.checksums.append(
            {
                "name": self.storage.unique("cksum"),
                "id": len(self.model.checksums),
                "source_info": call.span,
                "target": [target.header, target.name],
                "type": "generic",
                "calculation": name,
                "verify": verify,
                "update": not verify,
                "if_cond": v.to_json(cond, v.BOOLEAN),
            }
        )
