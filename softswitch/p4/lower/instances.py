"""Instances of externs and controls, their actions, and applying sub-controls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from softswitch.p4 import ast
from softswitch.p4 import types as t
from softswitch.p4.lower import values as v
from softswitch.p4.lower.base import Context, Env
from softswitch.p4.lower.inline import Passed
from softswitch.p4.lower.keys import KeyLowering
from softswitch.p4.lower.model import (
    Action,
    ActionParam,
    Block,
    CallAction,
    Table,
)
from softswitch.p4.lower.storage import control_plane_name

MAX_SIZE = 1 << 31


@dataclass(eq=False)
class ControlInstance:
    """A control with everything it declares, for one instance."""

    instance: v.Instance
    decl: ast.ControlDecl
    path: tuple[str, ...]
    env: Env
    where: str
    actions: dict[ast.ActionDecl, Action] = field(default_factory=dict)
    tables: dict[ast.TableDecl, Table] = field(default_factory=dict)
    children: dict[ast.Node, ControlInstance] = field(default_factory=dict)
    externs: list[v.Instance] = field(default_factory=list)
    direct: list[ControlInstance] = field(default_factory=list)
    special: list[Action] = field(default_factory=list)  # actions bound per table
    applied: int = 0
    shared: dict[Action, None] = field(default_factory=dict)  # top-level actions it uses


def join_name(path: tuple[str, ...], name: str) -> str:
    """Control-plane name of something declared below a path; `.x` is absolute."""
    return name[1:] if name.startswith(".") else ".".join((*path, name))


class InstanceLowering(KeyLowering):
    """Instantiation, actions and their direct calls."""

    # ---- instances

    def make_instance(
        self, decl: ast.InstanceDecl, path: tuple[str, ...], env: Env, where: str
    ) -> v.Instance:
        """An extern or block instance with its constructor arguments evaluated."""
        assert decl.type is not None
        instance = v.Instance(
            join_name(path, control_plane_name(decl)), decl.type, decl.span, {}, decl,
            decl.annotations,
        )  # fmt: skip
        self.fill_args(instance, decl.bound, env, where, path)
        return instance

    def fill_args(
        self,
        instance: v.Instance,
        bound: list[tuple[ast.Param, ast.Expr | None]],
        env: Env,
        where: str,
        path: tuple[str, ...],
    ) -> None:
        ctx = Context(env=env, where=where, path=path)
        for param, expr in bound:
            if expr is None:
                continue
            if isinstance(expr, ast.Call) and expr.kind == "ctor":
                assert expr.target is not None
                inner = v.Instance(join_name(path, param.name), expr.target, expr.span)
                self.fill_args(inner, expr.bound, env, where, path)
                instance.args[param.name] = inner
                continue
            instance.args[param.name] = self.value(expr, ctx)
        size = instance.args.get("size")
        if isinstance(size, v.Const) and not 0 <= size.value < MAX_SIZE:
            raise self.fail(instance.span, f"size {size.value} is out of range")

    def instantiate(
        self, instance: v.Instance, path: tuple[str, ...], where: str, depth: int = 0
    ) -> ControlInstance:
        """Evaluate the declarations of a control."""
        assert isinstance(instance.type, t.TBlock)
        decl = instance.type.decl
        assert isinstance(decl, ast.ControlDecl)
        if depth > 32:
            raise self.fail(decl, "controls nested too deeply")
        control = ControlInstance(instance, decl, path, {}, where)
        for param in decl.ctor_params:
            if param.name in instance.args:
                control.env[param] = instance.args[param.name]
        for local in decl.locals:
            self.step(local.span)
            if isinstance(local, ast.VarDecl):
                assert local.type is not None
                name = self.storage.unique(local.name, numbered=True)
                control.env[local] = self.storage.variable(name, local.type, local.span)
            elif isinstance(local, ast.InstanceDecl):
                made = self.make_instance(local, path, control.env, where)
                control.env[local] = made
                if isinstance(made.type, t.TBlock):
                    inner = tuple(made.name.split("."))
                    control.children[local] = self.instantiate(made, inner, where, depth + 1)
                    made.control = control.children[local]
                else:
                    control.externs.append(made)
        return control

    def direct_instance(self, e: ast.Call, type_: t.TBlock, ctx: Context) -> v.Instance:
        """`C.apply(...)` makes an instance of its own, named after the type."""
        name = control_plane_name(type_.decl)
        instance = v.Instance(join_name(ctx.path, name), type_, e.span)
        if isinstance(type_.decl, ast.ControlDecl):
            parent: ControlInstance = ctx.control
            control = self.instantiate(instance, (*ctx.path, name), ctx.where, ctx.depth)
            parent.direct.append(control)
            instance.control = control
        return instance

    def apply_control(self, e: ast.Call, instance: v.Instance, ctx: Context) -> None:
        """Inline a sub-control."""
        control: ControlInstance | None = instance.control
        if control is None:
            made = self.instantiate(instance, tuple(instance.name.split(".")), ctx.where, ctx.depth)
            instance.control = made
            ctx.control.direct.append(made)
            control = made
        assert isinstance(e.target, (t.TBlock, t.TArch))
        bound = self._rebind(e, control.decl)
        # Tables and actions of an instance refer to one set of parameters, so an instance
        # that is applied more than once needs them in storage of its own.
        several = self._apply_sites(instance, ctx) > 1
        if several and control.applied:
            passed = self._pass_again(bound, control, ctx, e)
        else:
            passed = self.pass_arguments(bound, ctx, e.span, True, force_copy=several)
            control.env.update(passed.env)
        control.applied += 1
        self.run_control(control, replace(ctx, frames=(*ctx.frames, passed)))
        self.copy_back(passed, ctx, e.span)

    def _rebind(
        self, e: ast.Call, decl: ast.ControlDecl
    ) -> list[tuple[ast.Param, ast.Expr | None]]:
        """Pair the arguments with the parameters of the control that really runs."""
        if [p for p, _ in e.bound] == decl.params:
            return e.bound
        return [(p, x) for p, (_, x) in zip(decl.params, e.bound, strict=True)]

    def _apply_sites(self, instance: v.Instance, ctx: Context) -> int:
        if instance.decl is None or ctx.control is None:
            return 1
        count = 0

        def walk(node: ast.Node) -> None:
            nonlocal count
            if isinstance(node, ast.Call) and node.kind == "apply":
                func = node.func
                if isinstance(func, ast.Member) and isinstance(func.base, ast.Name):
                    base = ctx.env.get(func.base.decl)
                    count += base is instance
            if isinstance(node, ast.Stmt):
                for child in _children(node):
                    walk(child)

        walk(ctx.control.decl.body)
        return max(count, 1)

    def _pass_again(
        self,
        bound: list[tuple[ast.Param, ast.Expr | None]],
        control: ControlInstance,
        ctx: Context,
        e: ast.Call,
    ) -> Passed:
        passed = Passed()
        for param, expr in bound:
            place = control.env[param]
            if param.direction in ("", "in", "inout") and expr is not None:
                if isinstance(place, (v.Leaf, v.Aggregate, v.HeaderValue, v.Stack, v.Union)):
                    self.assign(place, self.value(expr, ctx), ctx, e.span)
            elif param.direction == "out":
                self.invalidate(place, ctx, e.span)
            if "out" in param.direction and expr is not None:
                passed.back.append((self.place_of(expr, ctx), place))
        return passed

    def run_control(self, control: ControlInstance, ctx: Context) -> None:
        """Initialise the variables of a control and lower its apply block."""
        block = Block(control.decl.body.span, [])
        inner = Context(
            env=control.env,
            where=control.where,
            path=control.path,
            out=block.body,
            leave=block,
            depth=ctx.depth + 1,
            frames=ctx.frames,
            control=control,
        )
        for local in control.decl.locals:
            if isinstance(local, ast.VarDecl):
                place = control.env[local]
                if local.init is not None:
                    self.assign(place, self.value(local.init, inner), inner, local.span)
                elif ctx.depth > 0:
                    self.invalidate(place, inner, local.span)
        self.body(control.decl.body, inner)
        ctx.out.append(block)

    # ---- actions

    def action_name(self, decl: ast.ActionDecl, ctx: Context) -> str:
        return self.get_action(decl, ctx).name

    def get_action(self, decl: ast.ActionDecl, ctx: Context) -> Action:
        """The action as an object of its own, lowered on first use."""
        control: ControlInstance = ctx.control
        own = decl in control.decl.locals
        cache = control.actions if own else self.global_actions
        if decl not in cache:
            path = control.path if own else ()
            cache[decl] = self._make_action(decl, path, control, {})
        if not own:
            control.shared[cache[decl]] = None
        return cache[decl]

    global_actions: dict[ast.ActionDecl, Action]

    def _make_action(
        self,
        decl: ast.ActionDecl,
        path: tuple[str, ...],
        control: ControlInstance,
        directed: Env,
        passed: Passed | None = None,
    ) -> Action:
        name = join_name(path, control_plane_name(decl))
        action = Action(name, decl, [], [], decl.span)
        action.id = len(self.model.actions)
        self.model.actions.append(action)
        env = dict(control.env)
        env.update(directed)
        for param in decl.params:
            if param.direction:
                continue
            assert param.type is not None
            index = len(action.params)
            action.params.append(ActionParam(control_plane_name(param), param.type, param))
            env[param] = v.ActionData(index, param.type)
        block = Block(decl.span, action.body)
        ctx = Context(
            env=env,
            where=control.where,
            path=control.path,
            out=action.body,
            leave=block,
            in_action=True,
            outer_block=block,
            frames=(passed,) if passed is not None else (),
            control=control,
        )
        if not any(p.direction and p not in directed for p in decl.params):
            self.body(decl.body, ctx)
        action.body = [block]
        block.body = ctx.out
        return action

    def call_action(self, e: ast.Call, ctx: Context) -> None:
        """A direct call: an action without parameters is shared, others are inlined."""
        decl = e.target
        assert isinstance(decl, ast.ActionDecl)
        control: ControlInstance = ctx.control
        if not ctx.in_action and not ctx.called and not decl.params:
            ctx.out.append(CallAction(e.span, self.get_action(decl, ctx)))
            return
        if not ctx.in_action and not ctx.called:
            self._note_called(decl, control)
        passed = self.pass_arguments(e.bound, ctx, e.span, isolated=False, body=decl.body)
        block = Block(e.span, [])
        env = dict(ctx.env)
        env.update(passed.env)
        inner = Context(
            env=env,
            where=ctx.where,
            path=ctx.path,
            out=block.body,
            leave=block,
            in_action=ctx.in_action,
            outer_block=ctx.outer_block,
            depth=ctx.depth + 1,
            called=True,
            frames=(*ctx.frames, passed),
            control=control,
        )
        self.body(decl.body, inner)
        ctx.out.append(block)
        self.copy_back(passed, ctx, e.span)

    def _note_called(self, decl: ast.ActionDecl, control: ControlInstance) -> None:
        """P4Info lists an action even when only direct calls, which are inlined, use it."""
        if decl in control.actions:
            return
        own = decl in control.decl.locals
        name = join_name(control.path if own else (), control_plane_name(decl))
        action = Action(name, decl, [], [], decl.span)
        if own:
            control.special.append(action)
        else:
            control.shared[action] = None


def _children(stmt: ast.Stmt) -> Sequence[ast.Node]:
    if isinstance(stmt, ast.BlockStmt):
        return list(stmt.body)
    if isinstance(stmt, ast.IfStmt):
        return [stmt.yes] + ([stmt.no] if stmt.no is not None else [])
    if isinstance(stmt, ast.SwitchStmt):
        return [c.body for c in stmt.cases if c.body is not None]
    if isinstance(stmt, ast.CallStmt):
        return [stmt.call]
    return []
