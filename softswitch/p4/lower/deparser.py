"""The deparser: the order of the headers, and what else bmv2 runs there."""

from __future__ import annotations

from typing import Any

from softswitch.p4 import ast
from softswitch.p4.lower import values as v
from softswitch.p4.lower.base import Context
from softswitch.p4.lower.checksums import ChecksumLowering
from softswitch.p4.lower.model import Primitive, Statement
from softswitch.p4.lower.storage import SCALARS

_ONLY = "bmv2's deparser can only emit headers"


class DeparserLowering(ChecksumLowering):
    """bmv2 lays out the headers first and runs the few primitives it allows before emitting."""

    def deparser(self, instance: v.Instance) -> None:
        """The whole deparser."""
        decl = self.block_decl(instance)
        assert isinstance(decl, ast.ControlDecl)
        control = self.instantiate(instance, (instance.name,), "deparser")
        control.env.update(self.block_env(instance, [v.Packet(), self.headers_value]))
        body: list[Statement] = []
        ctx = Context(
            env=control.env, where="deparser", path=control.path, out=body, control=control
        )
        self.model.deparser_span = decl.span
        self._deparser_control(decl, ctx)
        for stmt in body:
            if not isinstance(stmt, Primitive):
                raise self.fail(stmt.span, f"{_ONLY}: no conditions")
            self.model.deparser_ops.append(stmt)

    def _deparser_control(self, decl: ast.ControlDecl, ctx: Context) -> None:
        for local in decl.locals:
            if isinstance(local, ast.VarDecl) and local.init is not None:
                place = ctx.env[local]
                self.assign(place, self.value(local.init, ctx), ctx, local.span)
        self._deparser_body(decl.body, ctx)
        for stmt in ctx.out:
            # The headers are laid out before any of this runs.
            if isinstance(stmt, Primitive) and stmt.op.startswith(
                ("assign", "add_header", "remove_header", "push", "pop")
            ):
                target = stmt.parameters[0]
                if target.get("type") != "field" or target["value"][0] != SCALARS:
                    raise self.fail(stmt.span, f"{_ONLY}: it cannot change them")

    def _deparser_body(self, block: ast.BlockStmt, ctx: Context) -> bool:
        """Lower the statements; False once `return` or `exit` ends the deparser."""
        for stmt in block.body:
            if isinstance(stmt, (ast.ReturnStmt, ast.ExitStmt)):
                return False
            if isinstance(stmt, ast.BlockStmt):
                if not self._deparser_body(stmt, ctx):
                    return False
                continue
            call = stmt.call if isinstance(stmt, ast.CallStmt) else None
            if isinstance(call, ast.Call) and call.kind == "apply":
                decl, inner = self.enter_control(call, ctx, _ONLY)
                self._deparser_control(decl, inner)
            elif isinstance(stmt, (ast.IfStmt, ast.SwitchStmt, ast.ForStmt, ast.ForInStmt)):
                if not isinstance(stmt, ast.IfStmt) or not isinstance(stmt.cond.value, bool):
                    raise self.fail(stmt, f"{_ONLY}: no conditions")
                live = stmt.yes if stmt.cond.value else stmt.no
                if live is not None and not self._deparser_body(
                    ast.BlockStmt(live.span, [live]), ctx
                ):
                    return False
            else:
                self.stmt(stmt, ctx)
        return True

    def emit_packet(self, e: ast.Call, args: dict[str, Any], ctx: Context) -> v.Value:
        expr = args["hdr"]
        if expr is None:
            raise self.fail(e, "emit needs a header")
        self._emit_value(self.value(expr, ctx), e)
        return v.Nothing()

    def _emit_value(self, value: v.Value, e: ast.Call) -> None:
        order = self.model.deparser_order
        if isinstance(value, v.Header):
            order.append(value.name)
        elif isinstance(value, v.Aggregate):
            for item in value.items.values():
                self._emit_value(item, e)
        elif isinstance(value, v.Stack):
            for i in range(value.type.size):
                self._emit_value(self.element(value, i), e)
        elif isinstance(value, v.Union):
            order.extend(f"{value.name}.{name}" for name in value.type.fields)
        elif isinstance(value, v.HeaderLiteral) and value.fields is None:
            return
        else:
            raise self.fail(e, "only headers can be emitted")
