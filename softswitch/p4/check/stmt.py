"""Statements, parser states, tables (spec sections 11 to 14)."""

from __future__ import annotations

import contextlib

from softswitch.p4 import ast
from softswitch.p4 import types as t
from softswitch.p4.check.loops import LoopChecker
from softswitch.p4.check.never import check_entries, check_select
from softswitch.p4.check.nodes import done, typed
from softswitch.p4.check.selects import parts_of, repeatable, spread_key, spread_set
from softswitch.p4.diagnostics import Stop, did_you_mean
from softswitch.p4.walk import same_source

_PROPERTIES = (
    "size", "implementation", "counters", "meters", "support_timeout", "largest_priority_wins",
    "priority_delta", "default_idle_timeout_for_const_entries",
)  # fmt: skip


class StmtChecker(LoopChecker):
    """Checks bodies; an error in one statement does not stop the next."""

    def block(self, block: ast.BlockStmt) -> None:
        """A `{ ... }` with a scope of its own."""
        with self.scoped():
            for stmt in block.body:
                self.statement(stmt)

    def statement(self, s: ast.Stmt) -> None:
        try:
            self._statement(s)
        except Stop:
            # A failed declaration still declares its name, or every use is an error too.
            if isinstance(s, ast.DeclStmt) and s.decl.name not in self.scope.names:
                if isinstance(s.decl, (ast.VarDecl, ast.ConstDecl)):
                    s.decl.type = t.UNKNOWN
                self.scope.names[s.decl.name] = s.decl

    def _statement(self, s: ast.Stmt) -> None:
        if isinstance(s, ast.BlockStmt):
            self.block(s)
        elif isinstance(s, ast.DeclStmt):
            self.local(s.decl)
        elif isinstance(s, ast.AssignStmt):
            self._assign(s)
        elif isinstance(s, ast.CallStmt):
            s.call = self.expr(s.call)
            if not isinstance(s.call, ast.Call):
                raise self.reporter.fail(s.span, "this expression is not a statement")
            if s.call.kind == "ctor":
                raise self.reporter.fail(s.span, "an instance needs a name")
        elif isinstance(s, ast.IfStmt):
            with contextlib.suppress(Stop):
                s.cond = self.coerce(self.expr(s.cond), t.BOOL, "the condition")
            with self.scoped():
                self.statement(s.yes)
            if s.no is not None:
                with self.scoped():
                    self.statement(s.no)
        elif isinstance(s, ast.SwitchStmt):
            self._switch(s)
        elif isinstance(s, ast.ReturnStmt):
            self._return(s)
        elif isinstance(s, (ast.ForStmt, ast.ForInStmt)):
            self.loop(s)
        elif isinstance(s, (ast.BreakStmt, ast.ContinueStmt)):
            self.leave_loop(s)
        elif isinstance(s, ast.ExitStmt) and self.context not in ("control", "action"):
            raise self.reporter.fail(s.span, f"'exit' cannot be used in a {self.context}")

    def _assign(self, s: ast.AssignStmt) -> None:
        s.left = self.expr(s.left)
        self.lvalue(s.left)
        target = typed(s.left)
        if s.op != "=":
            value: ast.Expr = ast.Binary(s.span, s.op[:-1], s.left, s.right)
            s.right = self.expr(value)
            s.op = "="
        s.right = self.coerce(self.expr(s.right, target), target, "assignment")
        if isinstance(target, (t.TExtern, t.TBlock, t.TTable, t.TFunction)):
            raise self.reporter.fail(s.span, f"values of type '{target}' cannot be assigned")

    def _return(self, s: ast.ReturnStmt) -> None:
        if self.context == "parser":
            raise self.reporter.fail(s.span, "'return' cannot be used in a parser")
        wanted = self.return_type if self.context == "function" else t.VOID
        if s.expr is None:
            if wanted is not None and not isinstance(wanted, t.TVoid):
                raise self.reporter.fail(s.span, f"the function returns a '{wanted}'")
            return
        if wanted is None or isinstance(wanted, t.TVoid):
            raise self.reporter.fail(s.span, "nothing can be returned here")
        s.expr = self.coerce(self.expr(s.expr, wanted), wanted, "return")

    def _switch(self, s: ast.SwitchStmt) -> None:
        s.expr = self.expr(s.expr)
        type_ = typed(s.expr)
        seen: set[str] = set()
        for case in s.cases:
            for i, label in enumerate(case.labels):
                if "default" in seen:
                    self.reporter.error(label.span, "no label can follow 'default'")
                if isinstance(label, ast.DefaultExpr):
                    done(label, type_)
                    key = "default"
                elif isinstance(type_, t.TActionRun):
                    key = self._action_label(label, type_.decl)
                else:
                    label = case.labels[i] = self.coerce(self.expr(label, type_), type_, "label")
                    if label.value is None:
                        raise self.reporter.fail(label.span, "a label has to be a constant")
                    key = str(label.value)
                if key in seen:
                    self.reporter.error(label.span, f"label {key} is there twice")
                seen.add(key)
            if case.body is not None:
                self.block(case.body)
        if isinstance(type_, t.TActionRun):
            s.table = type_.decl
        elif not isinstance(t.base(type_), (t.TBits, t.TEnum, t.TError, t.TBool, t.TUnknown)):
            raise self.reporter.fail(s.expr.span, f"cannot switch on a '{type_}'")
        if s.cases and s.cases[-1].body is None:
            self.reporter.warn(s.cases[-1].span, "the last label of a switch has no block")
            s.cases[-1].body = ast.BlockStmt(s.cases[-1].span, [])

    def _action_label(self, label: ast.Expr, table: ast.TableDecl) -> str:
        names = [a.name for a in table.actions or []]
        if not isinstance(label, ast.Name):
            raise self.reporter.fail(label.span, "a label has to be an action of the table")
        if label.name not in names:
            hint = did_you_mean(label.name, names)
            raise self.reporter.fail(
                label.span, f"table '{table.name}' has no action '{label.name}'{hint}"
            )
        label.decl = self.lookup(label.name, label.span, "action", label.absolute)
        done(label, t.TActionRun(table))
        return label.name

    # ---- declarations inside bodies

    def local(self, decl: ast.Decl) -> None:
        """A constant, variable or instance."""
        if isinstance(decl, ast.ConstDecl):
            decl.type = None
            type_ = self.type_of(decl.ref)
            decl.init = self.coerce(self.expr(decl.init, type_), type_, f"constant '{decl.name}'")
            decl.type = type_
            if decl.init.value is None and not self.known_later(decl.init):
                self.reporter.error(
                    decl.init.span, f"the value of constant '{decl.name}' is not known"
                    " at compile time"
                )  # fmt: skip
            self.declare(decl)
        elif isinstance(decl, ast.VarDecl):
            type_ = self.type_of(decl.ref)
            if isinstance(type_, (t.TExtern, t.TBlock, t.TArch)):
                raise self.reporter.fail(decl.span, f"'{decl.name}' needs constructor arguments: "
                                   f"{type_}(...) {decl.name};")  # fmt: skip
            if isinstance(type_, (t.TInt, t.TVoid, t.TString, t.TMatchKind)):
                raise self.reporter.fail(decl.span, f"a variable cannot have type '{type_}'")
            if decl.init is not None:
                decl.init = self.coerce(
                    self.expr(decl.init, type_), type_, f"initial value of '{decl.name}'"
                )
            decl.type = type_
            self.declare(decl)
        elif isinstance(decl, ast.InstanceDecl):
            self.instance(decl)
        else:
            raise self.reporter.fail(decl.span, "this declaration cannot be used here")

    def known_later(self, e: ast.Expr) -> bool:
        """Does the expression depend on constructor parameters or hold a list?"""
        if isinstance(e, ast.Name):
            decl = e.decl
            if isinstance(decl, ast.ConstDecl):
                if decl not in self._constants:
                    self._constants[decl] = self.known_later(decl.init)
                return self._constants[decl]
            return isinstance(decl, ast.Param) and decl.direction == "" and decl in self.ctor_params
        if e.value is not None:
            return True
        if isinstance(e, (ast.ListExpr, ast.StructExpr)):
            parts = e.items if isinstance(e, ast.ListExpr) else [x for _, x in e.fields]
            return all(p.value is not None or self.known_later(p) for p in parts)
        if isinstance(e, (ast.InvalidHeader, ast.DefaultExpr)):
            return True
        if isinstance(e, ast.Binary):
            return self.known_later(e.left) and self.known_later(e.right)
        if isinstance(e, (ast.Unary, ast.Cast)):
            return self.known_later(e.operand)
        if isinstance(e, (ast.Member, ast.Slice, ast.Index)):
            return self.known_later(e.base)
        if isinstance(e, ast.Ternary):
            return all(self.known_later(x) for x in (e.cond, e.yes, e.no))
        return False

    def instance(self, decl: ast.InstanceDecl) -> None:
        """`Type(args) name;`"""
        if self.context in ("action", "function"):
            raise self.reporter.fail(
                decl.span, f"an instance cannot be declared in a {self.context}"
            )
        type_ = self.type_of(decl.ref)
        decl.type, decl.bound = self.construct(type_, decl.args, decl.span)
        if isinstance(type_, t.TBlock):
            kind = "control" if isinstance(type_.decl, ast.ControlDecl) else "parser"
            if self.context == "program":
                raise self.reporter.fail(
                    decl.span, f"a {kind} cannot be instantiated at the top level"
                )
            if self.context != kind:
                raise self.reporter.fail(
                    decl.span, f"a {kind} cannot be instantiated in a {self.context}"
                )
        for param, value in decl.bound:
            if (
                value is not None
                and value.value is None
                and not isinstance(typed(value), (t.TExtern, t.TBlock, t.TArch))
                and not self.known_later(value)
            ):
                self.reporter.error(
                    value.span, f"argument '{param.name}' has to be known at compile time"
                )
        self.declare(decl)

    # ---- parser states

    def state(self, state: ast.StateDecl, names: set[str]) -> None:
        """A parser state; `names` are the states it can go to."""
        with self.scoped():
            for stmt in state.body:
                self.statement(stmt)
            with contextlib.suppress(Stop):
                if state.transition is not None:
                    self._transition(state.transition, names)

    def _transition(self, tr: ast.Transition, names: set[str]) -> None:
        if tr.select is None:
            self._target(tr.state, tr, names)
            return
        tr.select = [self.expr(k) for k in tr.select]
        keys: list[t.Type] = []
        self._spread_select(tr)
        for key in tr.select:
            type_ = typed(key)
            if not isinstance(t.base(type_), (t.TBits, t.TBool, t.TEnum, t.TError, t.TUnknown)):
                hint = ": give it a width" if isinstance(type_, t.TInt) else ""
                raise self.reporter.fail(key.span, f"cannot select on a '{type_}'{hint}")
            keys.append(type_)
        for case in tr.cases:
            try:
                self._target(case.state, case, names)
                self._select_case(case, keys)
            except Stop:
                continue
        check_select(tr, self.reporter)

    def _spread_select(self, tr: ast.Transition) -> None:
        """Structs and tuples among the keys become keys of their own."""
        written = tr.select or []
        types = [typed(key) for key in written]
        if all(parts_of(type_) is None for type_ in types):
            return
        for key in written:
            if parts_of(typed(key)) is not None and not repeatable(key):
                raise self.reporter.fail(key.span, "assign this to a variable and select on that")
        tr.select = [x for key in written for x in spread_key(key)]
        for case in tr.cases:
            given = case.keys
            if len(given) != len(types):
                continue
            found = [spread_set(k, type_) for k, type_ in zip(given, types, strict=True)]
            if all(x is not None for x in found):
                case.keys = [x for part in found for x in part or []]

    def _select_case(self, case: ast.SelectCase, keys: list[t.Type]) -> None:
        if len(case.keys) == 1 and len(keys) != 1:
            only = case.keys[0]
            if isinstance(only, ast.DefaultExpr):
                done(only, t.UNKNOWN)
                return
            checked = self.expr(only)
            if isinstance(checked.type, t.TSet):
                case.keys = [checked]
                return
            if isinstance(checked, ast.ListExpr) and len(checked.items) == len(keys):
                case.keys = list(checked.items)
        if len(case.keys) != len(keys):
            raise self.reporter.fail(
                case.span, f"the select has {len(keys)} keys, the case {len(case.keys)}"
            )
        case.keys = [self.keyset_element(e, k) for e, k in zip(case.keys, keys, strict=True)]
        for key in case.keys:
            parts = (
                [key.left, key.right] if isinstance(key, (ast.MaskExpr, ast.RangeExpr)) else [key]
            )
            for part in parts:
                if (
                    part.value is None
                    and not isinstance(part, ast.DefaultExpr)
                    and not isinstance(part.type, t.TSet)
                    and not self.known_later(part)
                ):
                    raise self.reporter.fail(part.span, "a select case has to be a constant")

    def _target(self, name: str, node: ast.Node, names: set[str]) -> None:
        if name not in names:
            raise self.reporter.fail(
                node.span, f"unknown state '{name}'{did_you_mean(name, names)}"
            )

    # ---- tables

    def table(self, table: ast.TableDecl) -> None:
        """Key, actions, default action, entries and the other properties."""
        key_types: list[t.Type] = []
        for element in table.key or []:
            try:
                key_types.append(self._key_element(element))
            except Stop:
                key_types.append(t.UNKNOWN)
        actions: dict[str, ast.ActionRef] = {}
        if table.actions is None:
            self.reporter.error(table.span, f"table '{table.name}' has no 'actions'")
        for ref in table.actions or []:
            try:
                self._action_ref(ref, in_list=True)
                if ref.name in actions:
                    raise self.reporter.fail(ref.span, f"action '{ref.name}' is in the list twice")
                actions[ref.name] = ref
            except Stop:
                actions.setdefault(ref.name, ref)
        if table.default_action is not None:
            with contextlib.suppress(Stop):
                self._use_of_action(table.default_action, actions, table, "default_action")
        for entry in (table.entries or []) if table.key else []:
            with contextlib.suppress(Stop):
                self._entry(entry, key_types, table, actions)
        self._properties(table)
        self._entry_priorities(table)
        check_entries(table, self.reporter)
        if table.default_action is None:
            self._default_default(table)
        table.type = t.TTable(table)

    def _key_element(self, element: ast.KeyElement) -> t.Type:
        if element.match_kind not in self.match_kinds:
            hint = did_you_mean(element.match_kind, self.match_kinds)
            self.reporter.error(
                element.match_span, f"unknown match kind '{element.match_kind}'{hint}"
            )
        element.expr = self.expr(element.expr)
        type_ = typed(element.expr)
        kind = t.base(type_)
        if isinstance(kind, t.TInt):
            raise self.reporter.fail(element.expr.span, "give the key a width, such as 8w1")
        if element.expr.value is not None:
            self.reporter.warn(
                element.expr.span, "this key is the same for every packet", "ignore-prop"
            )
        selector = element.match_kind == "selector"
        if not isinstance(kind, (t.TBits, t.TBool, t.TEnum, t.TError, t.TUnknown)) and not (
            selector and isinstance(kind, t.TVarbit)
        ):
            raise self.reporter.fail(element.expr.span, f"a '{type_}' cannot be a table key")
        return type_

    def _action_ref(self, ref: ast.ActionRef, in_list: bool) -> ast.ActionDecl:
        decl = self.lookup(ref.name, ref.span, "action", ref.absolute)
        if not isinstance(decl, ast.ActionDecl):
            raise self.reporter.fail(ref.span, f"'{ref.name}' is not an action")
        ref.decl = decl
        self.used.add(decl)
        if in_list:
            directed = [p for p in decl.params if p.direction]
            ref.bound = self.bind(decl.name, directed, ref.args, ref.span, {})
        return decl

    def _use_of_action(
        self,
        ref: ast.ActionRef,
        actions: dict[str, ast.ActionRef],
        table: ast.TableDecl,
        where: str,
    ) -> None:
        decl = self._action_ref(ref, in_list=False)
        listed = actions.get(ref.name)
        if listed is None:
            hint = did_you_mean(ref.name, actions)
            raise self.reporter.fail(
                ref.span,
                f"{where}: action '{ref.name}' is not in 'actions' of '{table.name}'{hint}",
            )
        if where == "entry" and any(a.name == "defaultonly" for a in listed.annotations):
            raise self.reporter.fail(ref.span, f"action '{ref.name}' is @defaultonly")
        if where != "entry" and any(a.name == "tableonly" for a in listed.annotations):
            raise self.reporter.fail(ref.span, f"action '{ref.name}' is @tableonly")
        if listed.decl is not None and listed.decl is not decl:
            raise self.reporter.fail(
                ref.span,
                f"{where}: this '{ref.name}' is not the one in 'actions' of '{table.name}'",
            )
        params = decl.params
        # Directed parameters got their values in the action list.
        undirected = [p for p in params if not p.direction]
        positional = not any(a.name for a in ref.args)
        if positional and len(ref.args) == len(undirected):
            params = undirected
        bound = self.bind(decl.name, params, ref.args, ref.span, {})
        given = dict(listed.bound)
        for param, value in bound:
            if param.direction and not same_source(value, given.get(param)):
                raise self.reporter.fail(
                    value.span if value is not None else ref.span,
                    f"{where}: argument '{param.name}' differs from the one in 'actions' of "
                    f"'{table.name}'",
                )
        ref.bound = [(p, v) for p, v in bound if not p.direction]
        for param, value in ref.bound:
            if value is not None and value.value is None and not self.known_later(value):
                self.reporter.error(
                    value.span, f"argument '{param.name}' has to be known at compile time"
                )

    def _entry(
        self,
        entry: ast.Entry,
        key_types: list[t.Type],
        table: ast.TableDecl,
        actions: dict[str, ast.ActionRef],
    ) -> None:
        elements = table.key or []
        if len(entry.keys) == 1 and isinstance(entry.keys[0], ast.DefaultExpr) and elements:
            entry.keys = [ast.DefaultExpr(entry.keys[0].span) for _ in elements]
        if len(entry.keys) != len(elements):
            raise self.reporter.fail(
                entry.span, f"the table has {len(elements)} keys, the entry {len(entry.keys)}"
            )
        entry.keys = [self.keyset_element(e, k) for e, k in zip(entry.keys, key_types, strict=True)]
        for key, element in zip(entry.keys, elements, strict=True):
            self._entry_key(key, element)
        if entry.priority is not None:
            entry.priority = self.expr(entry.priority)
            if not isinstance(entry.priority.value, int) or entry.priority.value < 0:
                raise self.reporter.fail(entry.priority.span, "the priority has to be a constant")
        self._use_of_action(entry.action, actions, table, "entry")

    def _entry_key(self, key: ast.Expr, element: ast.KeyElement) -> None:
        kind = element.match_kind
        if isinstance(key, ast.DefaultExpr):
            if kind == "exact":
                raise self.reporter.fail(key.span, "an exact key needs a value")
            return
        if isinstance(key, ast.MaskExpr) and kind not in ("ternary", "lpm"):
            raise self.reporter.fail(key.span, f"a key matched {kind} has no mask")
        if isinstance(key, ast.RangeExpr) and kind != "range":
            raise self.reporter.fail(key.span, f"a key matched {kind} has no range")
        parts = [key.left, key.right] if isinstance(key, (ast.MaskExpr, ast.RangeExpr)) else [key]
        for part in parts:
            if part.value is None and not self.known_later(part):
                raise self.reporter.fail(part.span, "the key of an entry has to be a constant")
        if isinstance(key, ast.RangeExpr):
            low, high = key.left.value, key.right.value
            if low is not None and high is not None and low > high:
                raise self.reporter.fail(key.span, "the range is empty")
        if kind == "lpm" and isinstance(key, ast.MaskExpr) and isinstance(key.right.value, int):
            kind_type = t.base(typed(key.right))
            width = kind_type.width if isinstance(kind_type, t.TBits) else 0
            inverse = (1 << width) - 1 - (key.right.value & ((1 << width) - 1))
            if inverse & (inverse + 1):
                raise self.reporter.fail(
                    key.right.span, "the mask of an lpm key has to be a prefix"
                )

    def _default_default(self, table: ast.TableDecl) -> None:
        """Without a default_action a table runs NoAction, which core.p4 declares."""
        found = self.globals.names.get("NoAction")
        if found is None:
            self.reporter.error(
                table.span,
                f"table '{table.name}' has no default_action and there is no action 'NoAction': "
                "#include <core.p4>",
            )
        elif not isinstance(found, ast.ActionDecl) or found.params:
            span = found.span if isinstance(found, ast.Node) else table.span
            self.reporter.error(
                span,
                f"'NoAction' has to be an action without parameters: table '{table.name}' runs it "
                "by default",
            )

    def _entry_priorities(self, table: ast.TableDecl) -> None:
        """Priorities are for tables whose keys can overlap."""
        given = [e for e in table.entries or [] if e.priority is not None]
        if not given:
            return
        kinds = {e.match_kind for e in table.key or []}
        if not kinds & {"ternary", "range", "optional"}:
            span = given[0].priority.span if given[0].priority is not None else given[0].span
            self.reporter.error(span, f"the keys of table '{table.name}' need no priorities")
            return
        assert table.entries is not None
        if table.entries[0].priority is None:
            self.reporter.error(
                table.entries[0].span, "the first entry needs a priority too: others have one"
            )
            return
        self._priority_order(table, table.entries)

    def _priority_order(self, table: ast.TableDecl, entries: list[ast.Entry]) -> None:
        """Entries without priority take the one before plus (or minus) priority_delta."""
        largest, delta = table.property("largest_priority_wins"), table.property("priority_delta")
        down = largest is None or largest.expr.value is not False
        step = delta.expr.value if delta is not None and isinstance(delta.expr.value, int) else 1
        current, ordered = 0, True
        previous: int | None = None
        seen: set[int] = set()
        for entry in entries:
            if entry.priority is not None and isinstance(entry.priority.value, int):
                current = entry.priority.value
            if current < 0:
                self.reporter.error(
                    entry.span, f"the priority of this entry would be negative ({current})"
                )
                return
            if current in seen:
                self.reporter.warn(
                    entry.span, f"another entry has priority {current} too", "duplicate-priorities"
                )
            seen.add(current)
            if previous is not None and ordered:
                ordered = current <= previous if down else current >= previous
                if not ordered:
                    self.reporter.warn(
                        entry.span,
                        f"priority {current} after {previous}: the entries are not in the order "
                        "they are tried in",
                        "entries-out-of-priority-order",
                    )
            previous = current
            current += -step if down else step

    def _properties(self, table: ast.TableDecl) -> None:
        for prop in table.properties:
            if prop.name not in _PROPERTIES:
                self.reporter.warn(
                    prop.span,
                    f"unknown table property '{prop.name}' is ignored"
                    + did_you_mean(prop.name, [*_PROPERTIES, "key", "actions", "entries",
                                               "default_action"]),
                )  # fmt: skip
                continue
            with contextlib.suppress(Stop):
                self._property(prop)

    def _property(self, prop: ast.Property) -> None:
        prop.expr = self.expr(prop.expr)
        type_ = typed(prop.expr)
        if prop.name in ("size", "priority_delta"):
            value = prop.expr.value
            number = isinstance(t.base(type_), (t.TInt, t.TBits, t.TUnknown))
            if not number or not isinstance(value, int):
                if not number or not self.known_later(prop.expr):
                    raise self.reporter.fail(
                        prop.expr.span, f"'{prop.name}' has to be a constant number"
                    )
            elif value < 0:
                raise self.reporter.fail(prop.expr.span, f"'{prop.name}' is negative")
            elif value == 0 and prop.name == "priority_delta":
                raise self.reporter.fail(prop.expr.span, "'priority_delta' has to be positive")
        elif prop.name in ("support_timeout", "largest_priority_wins"):
            if not isinstance(prop.expr.value, bool):
                raise self.reporter.fail(prop.expr.span, f"'{prop.name}' is true or false")
        else:
            wanted = {
                "implementation": ("action_profile", "action_selector"),
                "counters": ("direct_counter", "counter"),
                "meters": ("direct_meter",),
            }.get(prop.name, ())
            name = type_.decl.name if isinstance(type_, t.TExtern) else ""
            if wanted and name not in wanted:
                raise self.reporter.fail(
                    prop.expr.span, f"'{prop.name}' needs {' or '.join(wanted)}, not '{type_}'"
                )
