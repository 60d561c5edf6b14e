"""Warnings from following the program: what is read before it was written, invalid headers,
statements nothing leads to.

Every control, parser and function is followed on its own: what comes in is taken to be there,
what goes out to be missing until it is assigned. Actions and tables are followed where they are
used. Where the analysis does not know, it says nothing.
"""

from __future__ import annotations

from softswitch.p4 import ast
from softswitch.p4 import types as t
from softswitch.p4.check.flow_state import INVALID, UNSET, VALID, Path, State, leaves
from softswitch.p4.check.nodes import typed
from softswitch.p4.check.unused import silenced
from softswitch.p4.diagnostics import Reporter, Span

MAX_STEPS = 60_000
"""Statements and expressions followed per block; beyond that nothing more is said."""

_MAX_ROUNDS = 12


class _TooMuch(Exception):
    """The block is too large to follow."""


def warn_flow(program: ast.Program, reporter: Reporter) -> None:
    """Follow the bodies of a checked program."""
    for decl in program.decls:
        if decl.span.file.system:
            continue
        try:
            if isinstance(decl, ast.ControlDecl):
                _Flow(reporter).control(decl)
            elif isinstance(decl, ast.ParserDecl):
                _Flow(reporter).parser(decl)
            elif isinstance(decl, ast.FunctionDecl) and decl.body is not None:
                _Flow(reporter).function(decl)
        except _TooMuch:
            continue


class _Flow:
    def __init__(self, reporter: Reporter) -> None:
        self.reporter = reporter
        self.silent = 0
        self.steps = 0
        self.leaving: list[State] = []  # where `return` goes, innermost last
        self.exits: list[State] = []  # states `exit` was met in
        self.breaks: list[tuple[State, State]] = []  # break and continue of each loop
        self.by_action: dict[ast.TableDecl, dict[str, State]] = {}
        self.actions: list[ast.ActionDecl] = []
        self.told: set[Path] = set()  # one message per place is enough

    # ---- whole blocks

    def control(self, decl: ast.ControlDecl) -> None:
        state = self._enter(decl.params)
        for local in decl.locals:
            if isinstance(local, ast.VarDecl):
                self._variable(local, state)
        end = self._body(decl.body, state)
        for left in self.exits:
            end = end.join(left)
        self._check_out(decl.name, decl.params, end)

    def function(self, decl: ast.FunctionDecl) -> None:
        assert decl.body is not None
        end = self._body(decl.body, self._enter(decl.params))
        self._check_out(decl.name, decl.params, end)

    def parser(self, decl: ast.ParserDecl) -> None:
        states = {s.name: s for s in decl.states}
        if "start" not in states:
            return
        first = self._enter(decl.params)
        for local in decl.locals:
            if isinstance(local, ast.VarDecl):
                self._variable(local, first)
        before: dict[str, State] = {"start": first}
        work = ["start"]
        rounds = 0
        self.silent += 1
        while work:
            name = work.pop()
            rounds += 1
            if rounds > _MAX_ROUNDS * (len(states) + 1):
                raise _TooMuch
            after = self._state(states[name], before[name].copy())
            for target in _targets(states[name]):
                known = before.get(target)
                merged = after.copy() if known is None else known.join(after)
                if merged != known:
                    before[target] = merged
                    if target in states and target not in work:
                        work.append(target)
        self.silent -= 1
        for name, state in before.items():
            if name in states:
                self._state(states[name], state.copy())
        if "accept" in before:
            self._check_out(decl.name, decl.params, before["accept"])

    def _state(self, decl: ast.StateDecl, state: State) -> State:
        self._statements(decl.body, state)
        if decl.transition is not None:
            for key in decl.transition.select or []:
                self._read(key, state)
        return state

    def _enter(self, params: list[ast.Param]) -> State:
        state = State()
        for param in params:
            missing = param.direction == "out"
            state.set((param,), UNSET if missing else 0)
            state.set_validity((param,), INVALID if missing else 0)
        return state

    def _body(self, body: ast.BlockStmt, state: State) -> State:
        """Follow a body; the result is the state at its end and at its returns."""
        self.leaving.append(State(reached=False))
        self._statements(body.body, state)
        return state.join(self.leaving.pop())

    def _check_out(self, name: str, params: list[ast.Param], end: State) -> None:
        if not end.reached:
            return
        for param in params:
            if param.direction != "out" or silenced(param, "uninitialized-out-param"):
                continue
            missing = [p for p in leaves(param.type) if end.unset((param, *p))]
            if missing:
                part = ".".join(str(x) for x in (param.name, *missing[0]))
                which = f"'{part}'" if len(missing) == 1 else f"'{part}' and others"
                self._warn(
                    param.span,
                    f"out parameter '{param.name}': {which} may have no value when '{name}' ends",
                    "uninitialized-out-param",
                )

    # ---- statements

    def _step(self) -> None:
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise _TooMuch

    def _warn(self, span: Span, message: str, kind: str) -> None:
        if not self.silent:
            self.reporter.warn(span, message, kind)

    def _statements(self, body: list[ast.Stmt], state: State) -> None:
        for stmt in body:
            if not state.reached:
                if not isinstance(stmt, ast.EmptyStmt):
                    self._warn(stmt.span, "this statement is never reached", "unreachable")
                return
            self._statement(stmt, state)

    def _replace(self, state: State, new: State) -> None:
        state.roots, state.reached = new.roots, new.reached

    def _statement(self, s: ast.Stmt, state: State) -> None:
        self._step()
        if isinstance(s, ast.BlockStmt):
            self._statements(s.body, state)
        elif isinstance(s, ast.DeclStmt):
            if isinstance(s.decl, ast.VarDecl):
                self._variable(s.decl, state)
        elif isinstance(s, ast.AssignStmt):
            self._read(s.right, state)
            self._write(s.left, s.right, state)
        elif isinstance(s, ast.CallStmt):
            self._read(s.call, state)
        elif isinstance(s, ast.IfStmt):
            yes, no = self._condition(s.cond, state)
            # Neither branch is dead code when a constant switches it off.
            if yes.reached:
                self._statement(s.yes, yes)
            if s.no is not None and no.reached:
                self._statement(s.no, no)
            self._replace(state, yes.join(no))
        elif isinstance(s, ast.SwitchStmt):
            self._switch(s, state)
        elif isinstance(s, ast.ReturnStmt):
            if s.expr is not None:
                self._read(s.expr, state)
            if self.leaving:
                self.leaving[-1] = self.leaving[-1].join(state)
            state.reached = False
        elif isinstance(s, ast.ExitStmt):
            self.exits.append(state.copy())
            state.reached = False
        else:
            self._loop(s, state)

    def _variable(self, decl: ast.VarDecl, state: State) -> None:
        path = (decl,)
        if decl.init is None:
            state.set(path, UNSET)
            state.set_validity(path, INVALID)
            return
        self._read(decl.init, state)
        state.set(path)
        self._take_validity(path, decl.init, decl.type, state)

    def _switch(self, s: ast.SwitchStmt, state: State) -> None:
        self._read(s.expr, state)
        choices = dict(self.by_action.get(s.table, {})) if s.table is not None else {}
        end = State(reached=False)
        start = State(reached=False)  # labels without a block fall through to the next
        has_default = False
        for case in s.cases:
            for label in case.labels:
                if isinstance(label, ast.DefaultExpr):
                    has_default = True
                    entry = state.copy()
                    if choices:
                        entry = State(reached=False)
                        for other in choices.values():
                            entry = entry.join(other)
                elif choices and isinstance(label, ast.Name) and label.name in choices:
                    entry = choices.pop(label.name)
                else:
                    entry = state.copy()
                start = start.join(entry)
            if case.body is not None:
                self._statements(case.body.body, start)
                end = end.join(start)
                start = State(reached=False)
        if not has_default:
            rest = state.copy()
            if s.table is not None and self.by_action.get(s.table):
                rest = State(reached=False)
                for other in choices.values():
                    rest = rest.join(other)
            end = end.join(rest)
        self._replace(state, end)

    def _loop(self, s: ast.Stmt, state: State) -> None:
        """for, break and continue."""
        kind = type(s).__name__
        if kind == "BreakStmt" and self.breaks:
            left, again = self.breaks[-1]
            self.breaks[-1] = (left.join(state), again)
            state.reached = False
        elif kind == "ContinueStmt" and self.breaks:
            left, again = self.breaks[-1]
            self.breaks[-1] = (left, again.join(state))
            state.reached = False
        elif kind in ("ForStmt", "ForInStmt"):
            self._statements(getattr(s, "init", []), state)
            if kind == "ForInStmt":
                self._read(s.collection, state)  # type: ignore[attr-defined]
            before = state.copy()
            self.silent += 1
            for _ in range(_MAX_ROUNDS):
                again, _ = self._once(s, before.copy())
                merged = before.join(again)
                if merged == before:
                    break
                before = merged
            self.silent -= 1
            _, end = self._once(s, before.copy())
            self._replace(state, end)

    def _once(self, s: ast.Stmt, state: State) -> tuple[State, State]:
        """One turn of a loop: the state before the next turn, and after the loop."""
        cond = getattr(s, "cond", None)
        if cond is not None:
            inside, after = self._condition(cond, state)
        else:
            inside, after = state.copy(), state.copy()
            state_decl = getattr(s, "decl", None)
            if state_decl is not None:
                inside.set((state_decl,))
        self.breaks.append((State(reached=False), State(reached=False)))
        self._statement(s.body, inside)  # type: ignore[attr-defined]
        left, again = self.breaks.pop()
        inside = inside.join(again)
        if inside.reached:
            self._statements(getattr(s, "update", []), inside)
        return inside, after.join(left)

    # ---- conditions

    def _condition(self, e: ast.Expr, state: State) -> tuple[State, State]:
        """The states in which the condition is true and false."""
        self._step()
        if isinstance(e, ast.Unary) and e.op == "!":
            yes, no = self._condition(e.operand, state)
            return no, yes
        if isinstance(e, ast.Binary) and e.op in ("&&", "||"):
            yes, no = self._condition(e.left, state)
            if e.op == "&&":
                inner, other = self._condition(e.right, yes)
                return inner, no.join(other)
            inner, other = self._condition(e.right, no)
            return yes.join(inner), other
        self._read(e, state)
        yes, no = state.copy(), state.copy()
        if isinstance(e.value, bool):
            (no if e.value else yes).reached = False
        elif isinstance(e, ast.Call) and e.kind == "builtin" and e.target == "isValid":
            assert isinstance(e.func, ast.Member)
            path = self._path(e.func.base)
            if path is not None and state.validity(path) and t.is_header(typed(e.func.base)):
                yes.set(path)  # who made it valid filled it
                yes.set_validity(path, VALID)
                no.set_validity(path, INVALID)
        elif isinstance(e, ast.Member) and e.member in ("hit", "miss"):
            base = e.base.type
            if isinstance(base, t.TApplyResult):
                hit, miss = self._hit_and_miss(base.decl, state)
                return (hit, miss) if e.member == "hit" else (miss, hit)
        return yes, no

    def _hit_and_miss(self, table: ast.TableDecl, state: State) -> tuple[State, State]:
        choices = self.by_action.get(table)
        if not choices:
            return state.copy(), state.copy()
        hit, miss = State(reached=False), State(reached=False)
        for ref in table.actions or []:
            after = choices.get(ref.name)
            if after is None:
                continue
            notes = {a.name for a in ref.annotations}
            if "defaultonly" not in notes:
                hit = hit.join(after)
            if "tableonly" not in notes and not (
                table.default_const
                and table.default_action is not None
                and table.default_action.name != ref.name
            ):
                miss = miss.join(after)
        if table.default_action is None:
            miss = miss.join(choices.get("", state))
        return hit, miss

    # ---- reading

    def _path(self, e: ast.Expr) -> Path | None:
        """The place an expression names, None when it names none that is followed."""
        parts: list[object] = []
        while True:
            if isinstance(e, ast.Name):
                if isinstance(e.decl, (ast.VarDecl, ast.Param)):
                    return (e.decl, *reversed(parts))
                return None
            if isinstance(e, ast.Member):
                if isinstance(e.base.type, t.TStack):
                    if e.member not in ("next", "last"):
                        return None
                    parts.append("*")
                elif isinstance(e.base.type, t.TStruct):
                    parts.append(e.member)
                else:
                    return None
                e = e.base
            elif isinstance(e, ast.Index):
                index = e.index.value
                parts.append(index if isinstance(index, int) else "*")
                e = e.base
            elif isinstance(e, ast.Slice):
                e = e.base
            else:
                return None

    def _read(self, e: ast.Expr, state: State) -> None:
        """Follow the evaluation of an expression."""
        self._step()
        if e.value is not None:
            return
        if isinstance(e, ast.Call):
            self._call(e, state)
        elif isinstance(e, (ast.Name, ast.Member, ast.Index, ast.Slice)):
            self._read_place(e, state)
        elif isinstance(e, ast.Binary):
            if e.op in ("&&", "||"):
                yes, no = self._condition(e, state)
                self._replace(state, yes.join(no))
            else:
                self._read(e.left, state)
                self._read(e.right, state)
        elif isinstance(e, ast.Ternary):
            yes, no = self._condition(e.cond, state)
            self._read(e.yes, yes)
            self._read(e.no, no)
            self._replace(state, yes.join(no))
        elif isinstance(e, (ast.Unary, ast.Cast)):
            self._read(e.operand, state)
        elif isinstance(e, ast.ListExpr):
            for item in e.items:
                self._read(item, state)
        elif isinstance(e, ast.StructExpr):
            for _, item in e.fields:
                self._read(item, state)
        elif isinstance(e, (ast.MaskExpr, ast.RangeExpr)):
            self._read(e.left, state)
            self._read(e.right, state)

    def _read_place(self, e: ast.Expr, state: State) -> None:
        self._read_indexes(e, state)
        path = self._path(e)
        if path is None or not state.reached:
            return
        if self._invalid_header(e, state):
            return
        if isinstance(e, ast.Slice):
            e = e.base
        kind = t.base(typed(e))
        if isinstance(kind, (t.TStruct, t.TTuple)):
            if isinstance(kind, t.TStruct) and kind.kind != "struct":
                return
            parts = list(leaves(kind))
            missing = [p for p in parts if state.unset((*path, *p))]
            if missing and len(missing) == len(parts):
                self._unset(e, path, f"'{e.span.text()}' is read before it has a value")
            elif missing:
                part = ".".join(str(x) for x in missing[0])
                text = f"'{e.span.text()}.{part}' may have no value here"
                self._unset(e, path, text)
        elif not isinstance(kind, (t.TStack, t.TExtern, t.TArch)) and state.unset(path):
            self._unset(e, path, f"'{e.span.text()}' may be read before it has a value")

    def _unset(self, e: ast.Expr, path: Path, text: str) -> None:
        if path not in self.told:
            self._warn(e.span, text, "uninitialized-use")
            if not self.silent:
                self.told.add(path)

    def _read_indexes(self, e: ast.Expr, state: State) -> None:
        while isinstance(e, (ast.Member, ast.Index, ast.Slice)):
            if isinstance(e, ast.Index):
                self._read(e.index, state)
            if isinstance(e.base, ast.TypeExpr):
                return
            e = e.base
        if isinstance(e, ast.Call):
            self._read(e, state)

    def _invalid_header(self, e: ast.Expr, state: State) -> bool:
        """Report a field of a header that is certainly invalid."""
        while isinstance(e, (ast.Member, ast.Index, ast.Slice)):
            if isinstance(e, ast.Member) and t.is_header(typed(e.base)):
                path = self._path(e.base)
                if path is None or "*" in path or state.validity(path) != INVALID:
                    return False
                self._warn(
                    e.span,
                    f"header '{e.base.span.text()}' is not valid here: field '{e.member}' has no"
                    " value",
                    "invalid-header",
                )
                return True
            e = e.base
        return False

    # ---- writing

    def _write(self, left: ast.Expr, right: ast.Expr | None, state: State) -> None:
        """Follow an assignment; right is None when what is assigned is not known."""
        self._read_indexes(left, state)
        path = self._path(left)
        if path is None or not state.reached:
            return
        self._invalid_header(left, state)
        if "*" in path:
            cut = path[: path.index("*")]
            state.set(cut)
            state.set_validity(cut, 0)
            return
        state.set(path)
        self._take_validity(path, right, left.type, state)

    def _take_validity(
        self, path: Path, right: ast.Expr | None, type_: t.Type | None, state: State
    ) -> None:
        kind = t.base(type_) if type_ is not None else t.UNKNOWN
        if not isinstance(kind, (t.TStruct, t.TStack)):
            return
        source = self._path(right) if right is not None else None
        if isinstance(right, ast.InvalidHeader):
            state.set_validity(path, INVALID)
        elif source is not None and "*" not in source:
            state.move(path, source)
        elif isinstance(right, (ast.StructExpr, ast.ListExpr)) and t.is_header(kind):
            state.set_validity(path, VALID)
        else:
            state.set_validity(path, 0)
        self._other_members(path, state)

    def _other_members(self, path: Path, state: State) -> None:
        """A member of a header union that becomes valid takes the place of the others."""
        kind: t.Type | None = path[0].type
        for n, part in enumerate(path[1:], 1):
            if t.is_union(t.base(kind) if kind is not None else t.UNKNOWN):
                mine = state.validity(path)
                state.set_validity(path[:n], INVALID if mine == VALID else 0)
                state.set_validity(path, mine)
                return
            base = t.base(kind) if kind is not None else t.UNKNOWN
            if isinstance(base, t.TStruct):
                kind = base.fields.get(part)
            elif isinstance(base, t.TStack):
                kind = base.element
            else:
                return

    # ---- calls

    def _call(self, e: ast.Call, state: State) -> None:
        if e.kind == "builtin":
            self._builtin(e, state)
        elif e.kind == "apply" and isinstance(e.target, t.TTable):
            self._apply(e.target.decl, state)
        elif e.kind == "action":
            self._action(e.target, e.bound, state)
        else:
            if isinstance(e.func, ast.Member) and not isinstance(e.func.base, ast.TypeExpr):
                self._read_indexes(e.func, state)
            self._arguments(e, state)

    def _builtin(self, e: ast.Call, state: State) -> None:
        assert isinstance(e.func, ast.Member)
        if isinstance(e.func.base, ast.TypeExpr):
            return
        self._read_indexes(e.func.base, state)
        path = self._path(e.func.base)
        if path is None or e.target not in ("setValid", "setInvalid"):
            if path is not None and e.target in ("push_front", "pop_front"):
                state.set(path)
                state.set_validity(path, 0)
            return
        if "*" in path:
            cut = path[: path.index("*")]
            state.set_validity(cut, 0)
            return
        state.set_validity(path, VALID if e.target == "setValid" else INVALID)
        self._other_members(path, state)

    def _arguments(self, e: ast.Call, state: State) -> None:
        for param, value in e.bound:
            if value is not None and param.direction != "out":
                self._read(value, state)
        extract = isinstance(e.func, ast.Member) and e.func.member == "extract"
        for param, value in e.bound:
            if value is None or param.direction not in ("out", "inout"):
                continue
            path = self._path(value)
            if path is None:
                continue
            self._invalid_header(value, state)
            cut = path[: path.index("*")] if "*" in path else path
            state.set(cut)
            state.set_validity(cut, VALID if extract and cut == path else 0)
            self._other_members(cut, state)

    def _action(
        self, decl: ast.ActionDecl, bound: list[tuple[ast.Param, ast.Expr | None]], state: State
    ) -> None:
        if decl in self.actions or not state.reached:
            return
        for param, value in bound:
            if value is not None and param.direction != "out":
                self._read(value, state)
        given = dict(bound)
        for param in decl.params:
            missing = param.direction == "out"
            state.set((param,), UNSET if missing else 0)
            value = given.get(param)
            source = self._path(value) if value is not None else None
            if missing:
                state.set_validity((param,), INVALID)
            elif source is not None and "*" not in source:
                state.move((param,), source)
            else:
                state.set_validity((param,), 0)
        self.actions.append(decl)
        end = self._body(decl.body, state.copy())
        self.actions.pop()
        self._check_out(decl.name, decl.params, end)
        self._replace(state, end)
        for param, value in bound:
            if value is None or param.direction not in ("out", "inout"):
                continue
            path = self._path(value)
            if path is None:
                continue
            cut = path[: path.index("*")] if "*" in path else path
            state.set(cut)
            if cut == path:
                state.move(cut, (param,))
            else:
                state.set_validity(cut, 0)

    def _apply(self, table: ast.TableDecl, state: State) -> None:
        for element in table.key or []:
            self._read(element.expr, state)
        choices: dict[str, State] = {}
        end = State(reached=False)
        for ref in table.actions or []:
            after = state.copy()
            if ref.decl is not None:
                self._action(ref.decl, ref.bound, after)
            choices[ref.name] = after
            end = end.join(after)
        if table.default_action is None:
            choices.setdefault("", state.copy())
            end = end.join(state)
        self.by_action[table] = choices
        if table.actions or table.default_action is None:
            self._replace(state, end)


def _targets(state: ast.StateDecl) -> set[str]:
    tr = state.transition
    if tr is None:
        return {"reject"}
    if tr.select is None:
        return {tr.state}
    return {c.state for c in tr.cases}
