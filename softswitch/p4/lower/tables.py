"""Tables: keys, actions, properties, entries; applying them."""

from __future__ import annotations

from softswitch.p4 import ast
from softswitch.p4 import types as t
from softswitch.p4.check.nodes import typed
from softswitch.p4.lower import values as v
from softswitch.p4.lower.base import Context
from softswitch.p4.lower.instances import (
    MAX_SIZE,
    ControlInstance,
    InstanceLowering,
    join_name,
)
from softswitch.p4.lower.keys import key_name
from softswitch.p4.lower.model import (
    Action,
    Apply,
    BlockInfo,
    Key,
    Statement,
    Table,
    TableAction,
    TableEntry,
)
from softswitch.p4.lower.storage import control_plane_name

_MATCH_KINDS = frozenset(("exact", "lpm", "ternary", "range", "optional", "selector"))


class TableLowering(InstanceLowering):
    """A table becomes an object on first use."""

    def make_apply(self, call: ast.Expr, ctx: Context) -> Apply:
        assert isinstance(call, ast.Call)
        assert isinstance(call.target, t.TTable)
        table = self.get_table(call.target.decl, ctx)
        if ctx.in_action:
            what = "a loop" if ctx.broken is not None else "an action"
            raise self.fail(call, f"a table cannot be applied in {what}: bmv2 has no cycles")
        ctx.out.extend(table.prepare)
        return Apply(call.span, table)

    def apply_table(self, e: ast.Call, ctx: Context) -> v.Value:
        ctx.out.append(self.make_apply(e, ctx))
        return v.Nothing()

    def apply_branch(
        self, call: ast.Expr, ctx: Context, hit: list[Statement], miss: list[Statement]
    ) -> None:
        statement = self.make_apply(call, ctx)
        statement.hit, statement.miss = hit, miss
        ctx.out.append(statement)

    def get_table(self, decl: ast.TableDecl, ctx: Context) -> Table:
        """The table as an object, lowered on first use."""
        control: ControlInstance = ctx.control
        if decl not in control.tables:
            control.tables[decl] = self._make_table(decl, ctx)
        return control.tables[decl]

    def _make_table(self, decl: ast.TableDecl, ctx: Context) -> Table:
        name = join_name(ctx.path, control_plane_name(decl))
        table = Table(name, decl, decl.span)
        table.has_key = bool(decl.key)
        table.hidden = decl.annotation("hidden") is not None
        inner = ctx.into(table.prepare)
        self._keys(table, decl, inner)
        self._table_actions(table, decl, ctx)
        self._table_properties(table, decl, ctx)
        self._entries(table, decl, ctx)
        return table

    def _keys(self, table: Table, decl: ast.TableDecl, ctx: Context) -> None:
        lpm = 0
        for element in decl.key or []:
            kind = element.match_kind
            if kind not in _MATCH_KINDS:
                raise self.fail(
                    element.match_span, f"match kind '{kind}' is not supported by v1model"
                )
            mask: int | None = None
            expr = element.expr
            if kind == "selector":
                for leaf in self.flatten(self.value(expr, ctx), expr.span):
                    table.selector.append(self._key_place(leaf, ctx, expr))
                continue
            name = key_name(element)
            if name is None:
                raise self.fail(
                    expr, 'this key needs a name: add @name("...") after the match kind'
                )
            found = self.value(expr, ctx)
            if (
                isinstance(found, v.Op)
                and found.op == "&"
                and isinstance(found.right, v.Const)
                and isinstance(found.left, v.Field)
                and v.width(found.left.type) == v.width(typed(expr))
            ):
                mask, found = found.right.value, found.left
            if not isinstance(found, v.Leaf):
                raise self.fail(expr, "this value cannot be a key")
            lpm += kind == "lpm"
            if lpm > 1:
                raise self.fail(element, f"table '{decl.name}' has more than one lpm key")
            target = self._key_place(found, ctx, expr)
            table.keys.append(Key(name, kind, target, mask, typed(expr), element))

    def _key_place(self, leaf: v.Leaf, ctx: Context, expr: ast.Expr) -> v.Leaf:
        if isinstance(leaf, v.Field):
            return leaf
        return self.save(leaf, ctx, expr.span, "key")

    def _table_actions(self, table: Table, decl: ast.TableDecl, ctx: Context) -> None:
        for ref in decl.actions or []:
            assert ref.decl is not None
            notes = {a.name for a in ref.annotations}
            if {"defaultonly", "tableonly"} <= notes:
                raise self.fail(ref, "@defaultonly and @tableonly exclude each other")
            action = self._action_for(ref, ctx)
            table.actions.append(
                TableAction(action, ref, "defaultonly" in notes, "tableonly" in notes)
            )
        if decl.default_action is not None:
            default = decl.default_action
            table.default_action = self._listed(table, default)
            table.default_args = self._args(default, ctx)
            table.default_const = decl.default_const
            return
        table.default_given = False
        no_action = self.no_action()
        action = self.get_action(no_action, ctx)
        if all(a.action is not action for a in table.actions):
            table.actions.append(TableAction(action, None, default_only=True))
        table.default_action = action

    def no_action(self) -> ast.ActionDecl:
        """core.p4's NoAction."""
        for decl in self.checked.program.decls:
            if isinstance(decl, ast.ActionDecl) and decl.name == "NoAction":
                return decl
        raise self.fail(
            self.checked.main, "a table without default_action needs core.p4's NoAction"
        )

    def _action_for(self, ref: ast.ActionRef, ctx: Context) -> Action:
        decl = ref.decl
        assert decl is not None
        if not any(p.direction for p in decl.params):
            return self.get_action(decl, ctx)
        # Directed parameters are bound in the table's list: an action of its own.
        control: ControlInstance = ctx.control
        prologue: list[Statement] = []
        pass_ctx = Context(
            env=ctx.env, where=ctx.where, path=ctx.path, out=prologue, in_action=True,
            control=control,
        )  # fmt: skip
        passed = self.pass_arguments(ref.bound, pass_ctx, ref.span, isolated=False)
        path = control.path if decl in control.decl.locals else ()
        action = self._make_action(decl, path, control, passed.env, passed)
        epilogue: list[Statement] = []
        self.copy_back(passed, pass_ctx.into(epilogue), ref.span)
        action.body = [*prologue, *action.body, *epilogue]
        if path:
            control.special.append(action)
        else:
            control.shared[action] = None
        return action

    def _listed(self, table: Table, ref: ast.ActionRef) -> Action:
        for item in table.actions:
            if item.ref is not None and item.ref.decl is ref.decl:
                return item.action
        raise self.fail(ref, f"action '{ref.name}' is not in the list of the table")

    def _args(self, ref: ast.ActionRef, ctx: Context) -> list[int]:
        values: list[int] = []
        for param, expr in ref.bound:
            if expr is None:
                raise self.fail(ref, f"parameter '{param.name}' has no value")
            bits = v.width(param.type or t.UNKNOWN)
            values.append(self.number(expr, ctx) & ((1 << bits) - 1))
        return values

    def _table_properties(self, table: Table, decl: ast.TableDecl, ctx: Context) -> None:
        for prop in decl.properties:
            if prop.name == "size":
                table.declared_size = self.number(prop.expr, ctx)
                table.size = table.declared_size or 1024
                if table.size >= MAX_SIZE:
                    raise self.fail(prop.expr, f"size {table.size} is out of range")
            elif prop.name == "support_timeout":
                table.support_timeout = bool(prop.expr.value)
            elif prop.name == "implementation":
                table.profile = self._attached(prop, table, ctx)
            elif prop.name == "counters":
                table.counter = self._attached(prop, table, ctx)
                self._exclusive(table.counter, "counters", table, prop)
            elif prop.name == "meters":
                table.meter = self._attached(prop, table, ctx)
                self._exclusive(table.meter, "meters", table, prop)
        selector = table.profile is not None and _extern(table.profile) == "action_selector"
        if selector and not table.selector:
            raise self.fail(decl, f"table '{decl.name}' has an action selector but no selector key")
        if table.selector and not selector:
            self.reporter.warn(
                decl.span,
                f"table '{decl.name}' has selector keys but no action selector",
                "ignore-prop",
            )
            table.selector, table.prepare = [], [] if not table.keys else table.prepare
        if table.profile is not None and decl.default_action is not None:
            self.reporter.warn(
                decl.default_action.span,
                "bmv2 ignores default_action on a table with an action profile or selector",
                "bmv2",
            )

    def _attached(self, prop: ast.Property, table: Table, ctx: Context) -> v.Instance:
        if isinstance(prop.expr, ast.Call) and prop.expr.kind == "ctor":
            name = f"{table.name}_{prop.name}"
            for note in reversed(prop.annotations):
                if note.name == "name" and note.args and isinstance(note.args[0], ast.StringLit):
                    name = note.args[0].text.lstrip(".")
            type_ = typed(prop.expr)
            made = v.Instance(name, type_, prop.expr.span, annotations=prop.annotations)
            self.fill_args(made, prop.expr.bound, ctx.env, ctx.where, ctx.path)
            ctx.control.externs.append(made)
            return made
        found = self.value(prop.expr, ctx)
        if not isinstance(found, v.Instance):
            raise self.fail(prop.expr, f"'{prop.name}' has to name an instance")
        found.used = True
        return found

    def _exclusive(self, instance: v.Instance, what: str, table: Table, prop: ast.Property) -> None:
        owner = self.attached.setdefault(instance, table)
        if owner is not table:
            raise self.fail(
                prop.expr, f"'{instance.name}' is already among the {what} of '{owner.name}'"
            )

    attached: dict[v.Instance, Table]

    def _entries(self, table: Table, decl: ast.TableDecl, ctx: Context) -> None:
        if decl.entries is None:
            return
        table.entries = []
        table.entries_const = decl.entries_const
        if table.profile is not None:
            raise self.fail(decl, f"table '{decl.name}': entries do not go with an action profile")
        elements = [e for e in decl.key or [] if e.match_kind != "selector"]
        explicit = self._priorities(decl)
        for n, entry in enumerate(decl.entries):
            keys = [
                self.entry_key(k, e, ctx)
                for k, e in zip(entry.keys, decl.key or [], strict=True)
                if e in elements
            ]
            action = self._listed(table, entry.action)
            args = self._args(entry.action, ctx)
            priority = explicit[n]
            table.entries.append(TableEntry(keys, action, args, priority, entry.const, entry.span))

    def _priorities(self, decl: ast.TableDecl) -> list[int]:
        """bmv2's priorities, the smallest first: order of the text unless given."""
        entries = decl.entries or []
        noted: list[int | None] = []
        for entry in entries:
            found: int | None = None
            for note in entry.annotations:
                if note.name == "priority" and note.args:
                    value = note.args[0]
                    if isinstance(value, ast.IntLit):
                        found = value.number
            noted.append(found)
        if any(e.priority is not None for e in entries):
            return self._explicit_priorities(decl, entries)
        return [x if x is not None else n + 1 for n, x in enumerate(noted)]

    def _explicit_priorities(self, decl: ast.TableDecl, entries: list[ast.Entry]) -> list[int]:
        """`priority = n:` with largest_priority_wins and priority_delta (spec 14.2.1.4)."""
        wins = decl.property("largest_priority_wins")
        largest = wins is None or bool(wins.expr.value)
        step_prop = decl.property("priority_delta")
        step = step_prop.expr.value if step_prop and isinstance(step_prop.expr.value, int) else 1
        values: list[int] = []
        current = 0
        first = entries[0].priority if entries else None
        if first is None and largest:
            current = (len(entries) - 1) * step + 1 + step
        for entry in entries:
            if entry.priority is not None and isinstance(entry.priority.value, int):
                current = entry.priority.value
            else:
                current = current - step if largest else current + step
            values.append(current)
        if not largest:
            return values
        order = sorted(set(values), reverse=True)
        rank = {value: n + 1 for n, value in enumerate(order)}
        return [rank[x] for x in values]

    # ---- what the control plane sees

    def collect(self, control: ControlInstance, info: BlockInfo) -> None:
        """Tables, actions and externs in the order they are declared, sub-controls in place."""
        info.shared.update(control.shared)
        extras = {id(a.decl): a for a in control.special}
        for local in control.decl.locals:
            if isinstance(local, ast.TableDecl) and local in control.tables:
                info.tables.append(control.tables[local])
            elif isinstance(local, ast.ActionDecl):
                if local in control.actions:
                    info.actions.append(control.actions[local])
                elif id(local) in extras:
                    info.actions.append(extras[id(local)])
            elif isinstance(local, ast.InstanceDecl) and local in control.children:
                self.collect(control.children[local], info)
        info.externs.extend(control.externs)
        for child in control.direct:
            self.collect(child, info)


def _extern(instance: v.Instance) -> str:
    return instance.type.decl.name if isinstance(instance.type, t.TExtern) else ""
