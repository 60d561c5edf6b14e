"""Top-level declarations, blocks and the `main` instance."""

from __future__ import annotations

from dataclasses import dataclass

from softswitch.p4 import ast, fold
from softswitch.p4 import types as t
from softswitch.p4.check.base import MAX_LEAVES, field_problem
from softswitch.p4.check.flow import warn_flow
from softswitch.p4.check.rules import check_rules
from softswitch.p4.check.stmt import StmtChecker
from softswitch.p4.check.unused import warn_unused
from softswitch.p4.diagnostics import Reporter, Stop

V1MODEL_VERSIONS = (20180101, 20200408)
"""The first and the latest version of v1model.p4."""


@dataclass
class Checked:
    """A program without errors: its tree, its names, and what was referred to."""

    program: ast.Program
    main: ast.InstanceDecl
    errors: list[str]
    used: set[ast.Node]


def check(program: ast.Program, reporter: Reporter) -> Checked:
    """Check a whole program; raises P4Error when anything is wrong with it."""
    checker = ProgramChecker(reporter)
    check_rules(program, reporter)
    for decl in program.decls:
        checker.top(decl)
    main = checker.globals.names.get("main")
    if isinstance(main, ast.Node) and not isinstance(main, ast.InstanceDecl):
        reporter.error(main.span, "'main' has to be the instance of a package: V1Switch(...) main;")
    if not isinstance(main, ast.InstanceDecl):
        if not reporter.errors:
            span = program.decls[-1].span if program.decls else program.span
            reporter.error(span, "the program has no 'main': V1Switch(...) main;")
        reporter.check()
        raise Stop
    checker.architecture_version()
    reporter.check()
    warn_unused(program, checker.used, reporter)
    warn_flow(program, reporter)
    return Checked(program, main, list(checker.errors), checker.used)


class ProgramChecker(StmtChecker):
    """Adds what stands at the top level."""

    def top(self, decl: ast.Decl) -> None:
        """One declaration; an error in it is reported and the next one is checked."""
        try:
            self._top(decl)
        except RecursionError:
            self.reporter.error(decl.span, f"'{decl.name}' is nested too deeply")
            self._declare_broken(decl)
        except Stop:
            if decl.name and decl.name not in self.globals.names:
                self._declare_broken(decl)

    def _declare_broken(self, decl: ast.Decl) -> None:
        if isinstance(decl, (ast.ConstDecl, ast.TypedefDecl, ast.EnumDecl, ast.InstanceDecl)):
            decl.type = t.UNKNOWN
        elif isinstance(decl, ast.StructLike):
            if decl.type is None:
                decl.type = t.TStruct(decl.name, decl.kind, decl)
        elif isinstance(decl, (ast.ErrorDecl, ast.MatchKindDecl)):
            return
        if isinstance(decl, ast.FunctionDecl):
            decl.return_type = decl.return_type or t.UNKNOWN
            for param in decl.params:
                param.type = param.type or t.UNKNOWN
            self.globals.names[decl.name] = [decl]
        else:
            self.globals.names[decl.name] = decl

    def _top(self, decl: ast.Decl) -> None:
        if isinstance(decl, ast.ErrorDecl):
            self._members(decl.members, self.errors, "error")
        elif isinstance(decl, ast.MatchKindDecl):
            self._members(decl.members, self.match_kinds, "match kind")
        elif isinstance(decl, ast.StructLike):
            self._struct(decl)
        elif isinstance(decl, ast.TypedefDecl):
            self._typedef(decl)
        elif isinstance(decl, ast.EnumDecl):
            self._enum(decl)
        elif isinstance(decl, ast.ExternDecl):
            self._extern(decl)
        elif isinstance(decl, ast.FunctionDecl):
            self._function_decl(decl)
        elif isinstance(decl, ast.ArchDecl):
            self._arch(decl)
        elif isinstance(decl, ast.ActionDecl):
            self.action(decl)
        elif isinstance(decl, ast.ParserDecl):
            self._parser(decl)
        elif isinstance(decl, ast.ControlDecl):
            self._control(decl)
        else:
            self.local(decl)

    def _members(
        self,
        members: list[ast.EnumMemberDecl],
        into: dict[str, ast.EnumMemberDecl],
        what: str,
    ) -> None:
        for member in members:
            if member.name in into:
                self.reporter.error(member.span, f"{what} '{member.name}' is declared twice")
            into[member.name] = member

    def architecture_version(self) -> None:
        """V1MODEL_VERSION has to be one there is."""
        decl = self.globals.names.get("__v1model_version")
        if not isinstance(decl, ast.ConstDecl) or not isinstance(decl.init.value, int):
            return
        low, high = V1MODEL_VERSIONS
        if not low <= decl.init.value <= high:
            self.reporter.error(
                decl.init.span, f"V1MODEL_VERSION is {decl.init.value}: it has to be {low}..{high}"
            )

    # ---- types

    def _struct(self, decl: ast.StructLike) -> None:
        with self.scoped():
            vars_ = self._type_params(decl.type_params)
            type_ = t.TStruct(decl.name, decl.kind, decl, {}, tuple(vars_))
            decl.type = type_
            for field in decl.fields:
                try:
                    field.type = self.type_of(field.ref)
                    self._field_type(decl, field, field.type)
                except Stop:
                    field.type = t.UNKNOWN
                if field.name in type_.fields:
                    self.reporter.error(field.span, f"field '{field.name}' is declared twice")
                type_.fields[field.name] = field.type
        type_.leaves = min(self.leaves_of(type_), MAX_LEAVES + 1)
        if type_.leaves > MAX_LEAVES:
            self.reporter.error(
                decl.span, f"{decl.kind} '{decl.name}' has more than {MAX_LEAVES} fields"
            )
            type_.fields = {}
        if sum(isinstance(f, t.TVarbit) for f in type_.fields.values()) > 1:
            self.reporter.error(decl.span, f"header '{decl.name}' has more than one varbit field")
        self.declare(decl)

    def _field_type(self, decl: ast.StructLike, field: ast.FieldDecl, type_: t.Type) -> None:
        problem = field_problem(decl.kind, type_)
        if problem:
            raise self.reporter.fail(field.ref.span, problem)

    def _typedef(self, decl: ast.TypedefDecl) -> None:
        under = self.type_of(decl.ref)
        if decl.is_new:
            if not isinstance(t.base(under), (t.TBits, t.TBool, t.TVarbit)):
                raise self.reporter.fail(
                    decl.ref.span, f"'type' cannot rename '{under}'; use typedef"
                )
            decl.type = t.TNew(decl.name, under, decl)
        else:
            decl.type = under
        self.declare(decl)

    def _enum(self, decl: ast.EnumDecl) -> None:
        names = [m.name for m in decl.members]
        seen: set[str] = set()
        for member in decl.members:
            again = member.name in seen
            seen.add(member.name)
            if again:
                self.reporter.error(member.span, f"member '{member.name}' is declared twice")
        if not names:
            self.reporter.error(decl.span, f"enum '{decl.name}' has no members")
        if decl.ref is None:
            decl.type = t.TEnum(decl.name, names)
            self.declare(decl)
            return
        under = self.type_of(decl.ref)
        if not isinstance(under, t.TBits):
            raise self.reporter.fail(decl.ref.span, f"an enum needs bit<> or int<>, not '{under}'")
        values: dict[str, int] = {}
        decl.type = t.TSerEnum(decl.name, under, values, decl)
        self.declare(decl)
        for member in decl.members:
            assert member.init is not None
            try:
                member.init = self.expr(member.init)
                value = member.init.value
                if isinstance(value, int) and not fold.fits(value, under):
                    raise self.reporter.fail(
                        member.init.span, f"{value} does not fit in '{under}', the type of the enum"
                    )
                member.init = self.coerce(member.init, under, member.name)
                if not isinstance(member.init.value, int):
                    raise self.reporter.fail(member.init.span, "the value has to be a constant")
                values[member.name] = member.init.value
            except Stop:
                values[member.name] = 0

    # ---- signatures

    def _type_params(self, params: list[ast.TypeParam]) -> list[t.Type]:
        vars_: list[t.Type] = []
        for param in params:
            var = t.TVar(param.name)
            vars_.append(var)
            self.declare(param, var)
        return vars_

    def params(self, params: list[ast.Param], declare: bool = True) -> None:
        """Types of parameters; declares them in the current scope."""
        for param in params:
            try:
                param.type = self.type_of(param.ref)
                if param.default is not None:
                    param.default = self.coerce(
                        self.expr(param.default, param.type),
                        param.type,
                        f"default of '{param.name}'",
                    )
                    if param.default.value is None and not self.known_later(param.default):
                        self.reporter.error(
                            param.default.span,
                            f"the default of '{param.name}' has to be known at compile time",
                        )
                if isinstance(param.type, t.TVoid):
                    raise self.reporter.fail(param.ref.span, "a parameter cannot be void")
                self._object_param(param, param.type)
                if isinstance(param.type, (t.TInt, t.TString)) and param.direction:
                    raise self.reporter.fail(
                        param.ref.span,
                        f"a parameter of type '{param.type}' cannot have a direction",
                    )
            except Stop:
                param.type = param.type or t.UNKNOWN
            if declare:
                self.declare(param)

    def _object_param(self, param: ast.Param, type_: t.Type) -> None:
        """Externs, parsers and controls are passed as they are, never copied."""
        if isinstance(type_, t.TBlock):
            kind = "control" if isinstance(type_.decl, ast.ControlDecl) else "parser"
            raise self.reporter.fail(
                param.ref.span,
                f"a parameter cannot have type '{type_}': declare the {kind} type without a body",
            )
        if isinstance(type_, (t.TExtern, t.TArch)) and param.direction:
            raise self.reporter.fail(
                param.ref.span, f"a parameter of type '{type_}' cannot have a direction"
            )
        prototype = self.scope.kind == "prototype"
        if isinstance(type_, t.TExtern) and any(a.dont_care for a in param.ref.args):
            if prototype:
                return
            raise self.reporter.fail(param.ref.span, f"'_' is no type here: {type_}")
        if isinstance(type_, t.TExtern) and type_.decl.type_params and not type_.args:
            names = ", ".join(p.name for p in type_.decl.type_params)
            raise self.reporter.fail(
                param.ref.span, f"'{type_}' needs type arguments: {type_}<{names}>"
            )

    def _extern(self, decl: ast.ExternDecl) -> None:
        decl.type = t.TExtern(decl)
        self.declare(decl)
        with self.scoped():
            decl.type_vars = self._type_params(decl.type_params)
            decl.type = t.TExtern(decl, tuple(decl.type_vars))
            for method in decl.methods:
                with self.scoped("prototype"):
                    method.type_vars = self._type_params(method.type_params)
                    if method.returns is not None:
                        method.return_type = self.type_of(method.returns)
                    self.params(method.params)
                    for param in method.params:
                        if isinstance(param.type, t.TArch):
                            self.reporter.error(
                                param.ref.span,
                                f"extern '{decl.name}' cannot take a {param.type.decl.kind}",
                            )

    def _function_decl(self, decl: ast.FunctionDecl) -> None:
        if decl.is_extern or decl.type_params:
            with self.scoped("prototype" if decl.is_extern else "function"):
                decl.type_vars = self._type_params(decl.type_params)
                assert decl.returns is not None
                returns = self.type_of(decl.returns)
                self.params(decl.params)
                decl.return_type = returns
            self.declare(decl)
            if not decl.is_extern:
                # Once for types nothing is known of; later for those it is called with.
                self.specialise(decl, decl.type_vars, decl.span)
            return
        self.function_body(decl)
        self.declare(decl)

    def function_body(self, decl: ast.FunctionDecl) -> None:
        with self.scoped("function"):
            assert decl.returns is not None
            assert decl.body is not None
            decl.return_type = None
            returns = self.type_of(decl.returns)
            self.params(decl.params)
            self._body(decl.body, "function", returns)
            if not isinstance(returns, t.TVoid) and not _returns(decl.body):
                self.reporter.error(
                    decl.span, f"function '{decl.name}' can end without a return value"
                )
            decl.return_type = returns

    def _body(self, body: ast.BlockStmt, context: str, returns: t.Type | None = None) -> None:
        outer, outer_return = self.context, self.return_type
        self.context, self.return_type = context, returns
        try:
            self.block(body)
        finally:
            self.context, self.return_type = outer, outer_return

    def _arch(self, decl: ast.ArchDecl) -> None:
        decl.type = t.TArch(decl)
        with self.scoped("prototype"):
            decl.type_vars = self._type_params(decl.type_params)
            self.params(decl.params)
        self.declare(decl)

    # ---- blocks

    def action(self, decl: ast.ActionDecl) -> None:
        """An action: directed parameters first, then those the control plane fills."""
        decl.type = t.TAction(decl)
        with self.scoped("action"):
            self.params(decl.params)
            undirected = False
            for param in decl.params:
                if param.direction and undirected:
                    self.reporter.error(
                        param.span,
                        f"parameter '{param.name}': those with a direction come first in an action",
                    )
                undirected = undirected or not param.direction
                kind = t.base(param.type or t.UNKNOWN)
                if not param.direction and not isinstance(
                    kind, (t.TBits, t.TBool, t.TUnknown, t.TEnum, t.TError)
                ):
                    self.reporter.error(
                        param.span, f"the control plane cannot fill a parameter of type '{kind}'"
                    )
            self._body(decl.body, "action")
        self.declare(decl)

    def _parser(self, decl: ast.ParserDecl) -> None:
        decl.type = t.TBlock(decl)
        with self.scoped("parser"):
            self.params(decl.ctor_params)
            self.params(decl.params)
            outer = self._enter("parser", decl.ctor_params)
            try:
                for local in decl.locals:
                    self._local(local)
                names = {s.name for s in decl.states} | {"accept", "reject"}
                if "start" not in names:
                    self.reporter.error(decl.span, f"parser '{decl.name}' has no state 'start'")
                seen: set[str] = set()
                for state in decl.states:
                    if state.name in seen or state.name in ("accept", "reject"):
                        self.reporter.error(
                            state.span, f"state '{state.name}' is declared twice"
                            if state.name in seen else f"state '{state.name}' is built in",
                        )  # fmt: skip
                    seen.add(state.name)
                    self.state(state, names)
                self._warn_unreachable(decl)
            finally:
                self.context, self.ctor_params = outer
        self.declare(decl)

    def _warn_unreachable(self, decl: ast.ParserDecl) -> None:
        """States no transition from start leads to."""
        following: dict[str, set[str]] = {}
        for state in decl.states:
            tr = state.transition
            targets = {c.state for c in tr.cases} if tr is not None else set()
            following[state.name] = targets | ({tr.state} if tr is not None else {"reject"})
        reached, work = {"start"}, ["start"]
        while work:
            for name in following.get(work.pop(), set()) - reached:
                reached.add(name)
                work.append(name)
        for state in decl.states:
            if state.name not in reached:
                self.reporter.warn(
                    state.span, f"state '{state.name}' is never reached", "unreachable"
                )
        if not reached & {"accept", "reject"}:
            self.reporter.error(
                decl.span,
                f"parser '{decl.name}' never reaches accept or reject: its states go in a circle",
            )

    def _enter(self, context: str, ctor_params: list[ast.Param]) -> tuple[str, set[ast.Param]]:
        outer = self.context, self.ctor_params
        self.context, self.ctor_params = context, set(ctor_params)
        return outer

    def _local(self, local: ast.Decl) -> None:
        try:
            if isinstance(local, ast.ActionDecl):
                self.action(local)
            elif isinstance(local, ast.TableDecl):
                self.table(local)
                self.declare(local)
            elif isinstance(local, ast.ValueSetDecl):
                local.type = self.type_of(local.ref)
                if isinstance(local.type, (t.TInt, t.TString, t.TVarbit, t.TVoid)):
                    raise self.reporter.fail(
                        local.ref.span, f"a value set cannot hold '{local.type}'"
                    )
                local.size = self.expr(local.size)
                size = local.size.value
                if isinstance(size, int) and not 0 < size < 1 << 31:
                    raise self.reporter.fail(
                        local.size.span, f"size {size} of value set '{local.name}' is out of range"
                    )
                if not isinstance(size, int) and not self.known_later(local.size):
                    raise self.reporter.fail(
                        local.size.span,
                        f"the size of value set '{local.name}' has to be a constant",
                    )
                self.declare(local)
            else:
                self.local(local)
        except Stop:
            if isinstance(local, (ast.VarDecl, ast.ConstDecl, ast.InstanceDecl, ast.ValueSetDecl)):
                local.type = t.UNKNOWN
            self.scope.names.setdefault(local.name, local)

    def _control(self, decl: ast.ControlDecl) -> None:
        decl.type = t.TBlock(decl)
        with self.scoped("control"):
            self.params(decl.ctor_params)
            self.params(decl.params)
            outer = self._enter("control", decl.ctor_params)
            try:
                for local in decl.locals:
                    self._local(local)
                self._body(decl.body, "control")
            finally:
                self.context, self.ctor_params = outer
        self.declare(decl)


def _returns(stmt: ast.Stmt | None) -> bool:
    """Does every way through the statement end in return?"""
    if isinstance(stmt, ast.ReturnStmt):
        return True
    if isinstance(stmt, ast.BlockStmt):
        return any(_returns(s) for s in stmt.body)
    if isinstance(stmt, ast.IfStmt):
        return _returns(stmt.yes) and _returns(stmt.no)
    if isinstance(stmt, ast.SwitchStmt):
        bodies = [c for c in stmt.cases if c.body is not None]
        default = any(isinstance(x, ast.DefaultExpr) for c in stmt.cases for x in c.labels)
        return default and all(_returns(c.body) for c in bodies)
    return False
