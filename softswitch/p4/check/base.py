"""Scopes, name lookup, types as written -> types; shared by all parts of the checker."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from softswitch.p4 import ast
from softswitch.p4 import types as t
from softswitch.p4.diagnostics import Reporter, Span, did_you_mean
from softswitch.p4.lexer import MAX_WIDTH

MAX_STACK = 1024
MAX_LEAVES = 20_000
"""Scalar fields a struct may have, those of its fields included."""


@dataclass
class Scope:
    """Names of one block; `kind` says what encloses it."""

    parent: Scope | None
    kind: str = "block"
    names: dict[str, Any] = field(default_factory=dict)

    def chain(self) -> Iterator[Scope]:
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent


class CheckerBase(ABC):
    """State of one run and the lookups everything uses."""

    def __init__(self, reporter: Reporter) -> None:
        self.reporter = reporter
        self.globals = Scope(None, "program")
        self.scope = self.globals
        self.errors: dict[str, ast.EnumMemberDecl] = {}
        self.match_kinds: dict[str, ast.EnumMemberDecl] = {}
        self.return_type: t.Type | None = None
        self.context = "program"  # parser, control, action, function
        self.copies: dict[tuple[Any, ...], ast.FunctionDecl] = {}  # of generic functions
        self._leaves: dict[int, tuple[t.Type, int]] = {}
        self._generic_structs: dict[tuple[Any, ...], t.TStruct] = {}
        self.used: set[ast.Node] = set()
        self.ctor_params: set[ast.Param] = set()
        self._constants: dict[ast.ConstDecl, bool] = {}  # those that are known later
        self.defining = False  # an instance that comes with bodies of abstract methods

    # ---- scopes

    @contextmanager
    def scoped(self, kind: str = "block") -> Iterator[Scope]:
        """A nested scope for the duration of the `with`."""
        self.scope = Scope(self.scope, kind)
        try:
            yield self.scope
        finally:
            assert self.scope.parent is not None
            self.scope = self.scope.parent

    def declare(self, decl: ast.Decl, value: Any = None) -> None:
        """Enter a declaration into the current scope."""
        names = self.scope.names
        value = decl if value is None else value
        old = names.get(decl.name)
        if isinstance(old, ast.Param) and not isinstance(decl, ast.Param):
            self.reporter.warn(
                decl.span, f"'{decl.name}' hides the parameter of that name", "shadow"
            )
            old = None
        elif old is None and self.scope is not self.globals:
            self._hidden(decl)
        if old is not None:
            if isinstance(decl, ast.FunctionDecl) and isinstance(old, list):
                if any(self._same_signature(decl, f) for f in old):
                    self.reporter.error(decl.span, f"function '{decl.name}' is declared twice")
                old.append(decl)
                return
            where = ""
            if isinstance(old, ast.Node) and not old.span.file.system:
                where = f" (before at {old.span.file.name}:{old.span.line})"
            self.reporter.error(decl.span, f"'{decl.name}' is declared twice in this scope{where}")
            return
        names[decl.name] = [decl] if isinstance(decl, ast.FunctionDecl) else value

    def _hidden(self, decl: ast.Decl) -> None:
        """What an outer scope calls by the same name cannot be seen any more."""
        assert self.scope.parent is not None
        prototype = isinstance(decl, ast.TypeParam) or self.scope.kind == "prototype"
        for scope in self.scope.parent.chain():
            old = scope.names.get(decl.name)
            if old is None:
                continue
            if isinstance(old, list):
                old = old[0]
            if isinstance(old, ast.Param) and not isinstance(decl, ast.Param):
                self.reporter.error(
                    decl.span, f"'{decl.name}' hides parameter '{old.name}'; choose another name"
                )
            elif not prototype and isinstance(old, ast.Node) and not old.span.file.system:
                self.reporter.warn(
                    decl.span,
                    f"'{decl.name}' hides the one declared at line {old.span.line}",
                    "shadow",
                )
            return

    @staticmethod
    def _same_signature(a: ast.FunctionDecl, b: ast.FunctionDecl) -> bool:
        return [p.name for p in a.params] == [p.name for p in b.params] or (
            len(a.params) == len(b.params) and not a.is_extern
        )

    def find(self, name: str, absolute: bool = False) -> Any:
        """The declaration a name means here, or None."""
        if absolute:
            return self.globals.names.get(name)
        for scope in self.scope.chain():
            if name in scope.names:
                return scope.names[name]
        return None

    def visible(self) -> list[str]:
        """All names that can be used here."""
        return [n for scope in self.scope.chain() for n in scope.names]

    def lookup(self, name: str, span: Span, what: str = "name", absolute: bool = False) -> Any:
        """Like find, but an unknown name is an error."""
        found = self.find(name, absolute)
        if found is None:
            hint = did_you_mean(name, self.visible())
            raise self.reporter.fail(span, f"unknown {what} '{name}'{hint}")
        return found

    # ---- types as written

    def type_of(self, ref: ast.TypeRef) -> t.Type:
        """The type a written type stands for."""
        type_ = self._core_type(ref)
        for size_expr in reversed(ref.stack):
            size = self.constant_int(size_expr, "the size of a header stack")
            if not 1 <= size <= MAX_STACK:
                raise self.reporter.fail(
                    size_expr.span, f"stack size {size} is outside 1..{MAX_STACK}"
                )
            if not isinstance(type_, t.TVar) and not (t.is_header(type_) or t.is_union(type_)):
                raise self.reporter.fail(
                    ref.span, f"only headers and header unions form stacks, not '{type_}'"
                )
            type_ = t.TStack(type_, size)
        ref.resolved = type_
        return type_

    def _core_type(self, ref: ast.TypeRef) -> t.Type:
        if ref.dont_care:
            return t.UNKNOWN
        simple: dict[str, t.Type] = {
            "bool": t.BOOL, "error": t.ERROR, "string": t.STRING, "void": t.VOID,
            "match_kind": t.MATCH_KIND,
        }  # fmt: skip
        if ref.name in simple:
            return simple[ref.name]
        if ref.name in ("bit", "int", "varbit"):
            return self._sized_type(ref)
        if ref.name == "tuple":
            made = t.TTuple(tuple(self._tuple_item(a) for a in ref.args))
            self.limit_leaves(made, ref.span, "the tuple")
            return made
        if ref.name == "list" and ref.args:
            return t.TList(self._tuple_item(ref.args[0]))
        decl = self.lookup(ref.name, ref.span, "type", ref.absolute)
        return self._declared_type(ref, decl)

    def leaves_of(self, type_: t.Type) -> int:
        """Scalar fields in a type (each type is counted once: nesting grows exponentially)."""
        if isinstance(type_, t.TNew):
            return self.leaves_of(type_.underlying)
        if isinstance(type_, t.TStack):
            return type_.size * self.leaves_of(type_.element)
        if isinstance(type_, t.TStruct) and type_.leaves >= 0:
            return type_.leaves
        if not isinstance(type_, (t.TStruct, t.TTuple)):
            return 1
        known = self._leaves.get(id(type_))
        if known is None:
            parts = type_.fields.values() if isinstance(type_, t.TStruct) else type_.items
            known = (type_, sum(map(self.leaves_of, parts)))
            self._leaves[id(type_)] = known
        return known[1]

    def limit_leaves(self, type_: t.Type, span: Span, what: str) -> int:
        """The number of scalar fields; reports and raises Stop when there are too many."""
        count = self.leaves_of(type_)
        if count > MAX_LEAVES:
            raise self.reporter.fail(span, f"{what} has {count} fields, more than {MAX_LEAVES}")
        return count

    def _tuple_item(self, ref: ast.TypeRef) -> t.Type:
        """An element of a tuple, list or generic struct: something that holds a value."""
        type_ = self.type_of(ref)
        if ref.dont_care:
            raise self.reporter.fail(ref.span, "'_' is no type here: write the type itself")
        if isinstance(type_, (t.TVoid, t.TExtern, t.TArch, t.TBlock)):
            raise self.reporter.fail(ref.span, f"a value cannot contain a '{type_}'")
        return type_

    def _sized_type(self, ref: ast.TypeRef) -> t.Type:
        if ref.size is None:
            if ref.name == "int":
                return t.INT
            if ref.name == "varbit":
                raise self.reporter.fail(ref.span, "varbit needs a maximum width")
            return t.bits(1)
        width = self.constant_int(ref.size, "a width")
        low = 1
        if width < low or width > MAX_WIDTH:
            raise self.reporter.fail(ref.size.span, f"width {width} is outside {low}..{MAX_WIDTH}")
        if ref.name == "varbit":
            return t.TVarbit(width)
        return t.bits(width, ref.name == "int")

    def _declared_type(self, ref: ast.TypeRef, decl: Any) -> t.Type:
        struct = isinstance(decl, ast.StructLike)
        args = tuple(self._tuple_item(a) if struct else self.type_of(a) for a in ref.args)
        if isinstance(decl, ast.Node):
            self.used.add(decl)
        if isinstance(decl, t.Type):
            return decl
        if isinstance(decl, ast.StructLike):
            self._arity(ref, decl.type_params, args)
            return self._struct_type(ref, decl, args)
        if isinstance(decl, (ast.TypedefDecl, ast.EnumDecl)):
            if args:
                raise self.reporter.fail(ref.span, f"type '{ref.name}' takes no type arguments")
            if decl.type is None:
                raise self.reporter.fail(
                    ref.span, f"type '{ref.name}' is used in its own declaration"
                )
            return decl.type
        if isinstance(decl, ast.ExternDecl):
            if args:
                self._arity(ref, decl.type_params, args)
            return t.TExtern(decl, args)
        if isinstance(decl, ast.ArchDecl):
            if args:
                self._arity(ref, decl.type_params, args)
            return t.TArch(decl, args)
        if isinstance(decl, (ast.ParserDecl, ast.ControlDecl)):
            return t.TBlock(decl)
        raise self.reporter.fail(ref.span, f"'{ref.name}' is not a type")

    def _arity(
        self, ref: ast.TypeRef, params: list[ast.TypeParam], args: tuple[t.Type, ...]
    ) -> None:
        if len(params) != len(args):
            raise self.reporter.fail(
                ref.span, f"type '{ref.name}' takes {len(params)} type arguments, got {len(args)}"
            )

    def _struct_type(
        self, ref: ast.TypeRef, decl: ast.StructLike, args: tuple[t.Type, ...]
    ) -> t.TStruct:
        assert isinstance(decl.type, t.TStruct)
        if not args:
            return decl.type
        for arg in args:
            if isinstance(arg, t.TStruct) and arg.decl is decl:
                raise self.reporter.fail(
                    ref.span, f"'{decl.name}' cannot be a type argument of itself"
                )
        key = (decl, *args)
        found = self._generic_structs.get(key)
        if found is None:
            binding = dict(zip(decl.type.args, args, strict=True))
            fields = {n: t.substitute(f, binding) for n, f in decl.type.fields.items()}
            found = t.TStruct(decl.name, decl.kind, decl, fields, args)
            for field in decl.fields:
                problem = field_problem(decl.kind, fields.get(field.name, t.UNKNOWN))
                if problem:
                    raise self.reporter.fail(
                        ref.span, f"'{found}', field '{field.name}': {problem}"
                    )
            found.leaves = self.limit_leaves(found, ref.span, f"'{decl.name}'")
            self._generic_structs[key] = found
        return found

    # ---- provided by the other parts

    @abstractmethod
    def expr(self, e: ast.Expr, expected: t.Type | None = None) -> ast.Expr:
        """Check an expression; the result replaces it in the tree."""

    @abstractmethod
    def coerce(self, e: ast.Expr, target: t.Type, what: str = "") -> ast.Expr:
        """Insert the implicit conversion to a type, or report that there is none."""

    @abstractmethod
    def call(self, e: ast.Call, expected: t.Type | None = None) -> ast.Expr:
        """Check a call."""

    @abstractmethod
    def known_later(self, e: ast.Expr) -> bool:
        """Does the expression depend on constructor parameters or hold a list?"""

    @abstractmethod
    def bind(
        self,
        name: str,
        params: list[ast.Param],
        args: list[ast.Argument],
        span: Span,
        binding: dict[t.Type, t.Type],
        type_vars: Iterable[t.Type] = (),
        optional_directionless: bool = False,
    ) -> list[tuple[ast.Param, ast.Expr | None]]:
        """Match arguments with parameters and check them."""

    def constant_int(self, e: ast.Expr, what: str) -> int:
        """The value of an expression that has to be a compile-time integer."""
        e = self.expr(e)
        if not isinstance(e.value, int) or isinstance(e.value, bool):
            raise self.reporter.fail(e.span, f"{what} has to be a compile-time integer")
        return e.value


def field_problem(kind: str, type_: t.Type) -> str:
    """Why a field of a header, header_union or struct cannot have this type, or ""."""
    base = t.base(type_)
    if isinstance(
        base,
        (t.TInt, t.TVoid, t.TString, t.TMatchKind, t.TExtern, t.TBlock, t.TArch, t.TList, t.TSet),
    ):
        return f"a field cannot have type '{type_}'"
    open_ = isinstance(base, (t.TVar, t.TUnknown))
    if kind == "header_union" and not open_ and not t.is_header(base):
        return "members of a header union have to be headers"
    if kind == "header" and not open_:
        if t.is_struct(base):
            assert isinstance(base, t.TStruct)
            for name, part in base.fields.items():
                if field_problem("header", part):
                    return (
                        f"a field of a header cannot have type '{type_}': its field '{name}' is "
                        f"'{part}'"
                    )
        elif not isinstance(base, (t.TBits, t.TBool, t.TVarbit)):
            return f"a field of a header cannot have type '{type_}'"
    return ""
