"""The syntax tree. The type checker fills in `type`, `value`, `decl` and inserts casts.

Nodes compare by identity, so declarations serve as keys of environments.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from softswitch.p4.diagnostics import NOWHERE, Span

if TYPE_CHECKING:
    from softswitch.p4.types import Type


@dataclass(eq=False)
class Node:
    """Anything with a place in the source."""

    span: Span


# ---- annotations and types as written


@dataclass(eq=False)
class Annotation(Node):
    """@name(args): `args` holds parsed expressions, `text` the tokens as written."""

    name: str
    args: list[Expr] = field(default_factory=list)
    pairs: list[tuple[str, Expr]] = field(default_factory=list)
    text: str = ""
    has_body: bool = False
    tokens: list[str] = field(default_factory=list)


Annotations = list[Annotation]


@dataclass(eq=False)
class TypeRef(Node):
    """A type as written. `name` is a declared or built-in name (bit, int, varbit, tuple...)."""

    name: str
    args: list[TypeRef] = field(default_factory=list)
    size: Expr | None = None  # bit<size>, int<size>, varbit<size>
    stack: list[Expr] = field(default_factory=list)  # T[n]
    absolute: bool = False
    dont_care: bool = False
    resolved: Type | None = None


# ---- expressions


@dataclass(eq=False)
class Expr(Node):
    """`type` and, for compile-time constants, `value` are set by the type checker."""

    type: Type | None = field(default=None, init=False)
    value: Any = field(default=None, init=False)


@dataclass(eq=False)
class IntLit(Expr):
    number: int
    width: int | None = None
    signed: bool = False
    base: int = 10


@dataclass(eq=False)
class BoolLit(Expr):
    boolean: bool


@dataclass(eq=False)
class StringLit(Expr):
    text: str


@dataclass(eq=False)
class Name(Expr):
    name: str
    absolute: bool = False
    decl: Any = None  # Decl | list[FunctionDecl] for overloads


@dataclass(eq=False)
class TypeExpr(Expr):
    """A type in expression position: `E.member`, `Control.apply(...)`, `error.X`."""

    ref: TypeRef


@dataclass(eq=False)
class Member(Expr):
    base: Expr
    member: str
    member_span: Span = NOWHERE
    decl: Any = None


@dataclass(eq=False)
class Index(Expr):
    base: Expr
    index: Expr


@dataclass(eq=False)
class Slice(Expr):
    base: Expr
    high: Expr
    low: Expr
    hi: int = 0
    lo: int = 0


@dataclass(eq=False)
class Unary(Expr):
    op: str
    operand: Expr


@dataclass(eq=False)
class Binary(Expr):
    op: str
    left: Expr
    right: Expr


@dataclass(eq=False)
class Ternary(Expr):
    cond: Expr
    yes: Expr
    no: Expr


@dataclass(eq=False)
class Cast(Expr):
    ref: TypeRef | None
    operand: Expr


@dataclass(eq=False)
class Argument(Node):
    """A call argument; expr is None for `_`."""

    expr: Expr | None
    name: str | None = None


@dataclass(eq=False)
class Call(Expr):
    """`func(args)`. The checker sets `kind` and `target` (see check.calls)."""

    func: Expr
    type_args: list[TypeRef]
    args: list[Argument]
    kind: str = ""
    target: Any = None
    bound: list[tuple[Param, Expr | None]] = field(default_factory=list)
    type_values: list[Type] = field(default_factory=list)


@dataclass(eq=False)
class ListExpr(Expr):
    items: list[Expr]
    default_rest: bool = False  # { a, ... }


@dataclass(eq=False)
class StructExpr(Expr):
    fields: list[tuple[str, Expr]]
    ref: TypeRef | None = None
    default_rest: bool = False


@dataclass(eq=False)
class InvalidHeader(Expr):
    """`{#}`"""


@dataclass(eq=False)
class DefaultExpr(Expr):
    """`default` or `_` in a set, `...` in an initialiser."""


@dataclass(eq=False)
class MaskExpr(Expr):
    """`value &&& mask`"""

    left: Expr
    right: Expr


@dataclass(eq=False)
class RangeExpr(Expr):
    """`low .. high`"""

    left: Expr
    right: Expr


# ---- declarations


@dataclass(eq=False)
class Decl(Node):
    name: str
    annotations: Annotations

    def annotation(self, name: str) -> Annotation | None:
        """The first annotation of that name."""
        return next((a for a in self.annotations if a.name == name), None)


@dataclass(eq=False)
class Param(Decl):
    direction: str  # "", in, out, inout
    ref: TypeRef
    default: Expr | None = None
    type: Type | None = None
    type_span: Span = NOWHERE


@dataclass(eq=False)
class FieldDecl(Decl):
    ref: TypeRef
    type: Type | None = None


@dataclass(eq=False)
class TypeParam(Decl):
    pass


@dataclass(eq=False)
class StructLike(Decl):
    kind: str  # header, struct, header_union
    type_params: list[TypeParam]
    fields: list[FieldDecl]
    type: Type | None = None


@dataclass(eq=False)
class TypedefDecl(Decl):
    ref: TypeRef
    is_new: bool  # `type` rather than `typedef`
    type: Type | None = None


@dataclass(eq=False)
class EnumMemberDecl(Decl):
    init: Expr | None = None


@dataclass(eq=False)
class EnumDecl(Decl):
    ref: TypeRef | None
    members: list[EnumMemberDecl]
    type: Type | None = None


@dataclass(eq=False)
class ErrorDecl(Decl):
    members: list[EnumMemberDecl]


@dataclass(eq=False)
class MatchKindDecl(Decl):
    members: list[EnumMemberDecl]


@dataclass(eq=False)
class FunctionDecl(Decl):
    """A function, an extern function (body None) or an extern method."""

    type_params: list[TypeParam]
    returns: TypeRef | None  # None: constructor
    params: list[Param]
    body: BlockStmt | None
    is_extern: bool = False
    abstract: bool = False
    return_type: Type | None = None
    type_vars: list[Type] = field(default_factory=list)


@dataclass(eq=False)
class ExternDecl(Decl):
    type_params: list[TypeParam]
    methods: list[FunctionDecl]
    type: Type | None = None
    type_vars: list[Type] = field(default_factory=list)


@dataclass(eq=False)
class ArchDecl(Decl):
    """`parser T<..>(...);`, `control T<..>(...);`, `package T<..>(...);`"""

    kind: str
    type_params: list[TypeParam]
    params: list[Param]
    type: Type | None = None
    type_vars: list[Type] = field(default_factory=list)


@dataclass(eq=False)
class ConstDecl(Decl):
    ref: TypeRef
    init: Expr
    type: Type | None = None


@dataclass(eq=False)
class VarDecl(Decl):
    ref: TypeRef
    init: Expr | None
    type: Type | None = None


@dataclass(eq=False)
class InstanceDecl(Decl):
    ref: TypeRef
    args: list[Argument]
    type: Type | None = None
    bound: list[tuple[Param, Expr | None]] = field(default_factory=list)
    has_body: bool = False


@dataclass(eq=False)
class ValueSetDecl(Decl):
    ref: TypeRef
    size: Expr
    type: Type | None = None  # element type


@dataclass(eq=False)
class ActionDecl(Decl):
    params: list[Param]
    body: BlockStmt
    type: Type | None = None


@dataclass(eq=False)
class StateDecl(Decl):
    body: list[Stmt]
    transition: Transition | None


@dataclass(eq=False)
class ParserDecl(Decl):
    params: list[Param]
    ctor_params: list[Param]
    locals: list[Decl]
    states: list[StateDecl]
    type: Type | None = None


@dataclass(eq=False)
class ControlDecl(Decl):
    params: list[Param]
    ctor_params: list[Param]
    locals: list[Decl]
    body: BlockStmt
    type: Type | None = None


# ---- tables


@dataclass(eq=False)
class KeyElement(Node):
    expr: Expr
    match_kind: str
    match_span: Span
    annotations: Annotations


@dataclass(eq=False)
class ActionRef(Node):
    """An action in `actions`, `default_action` or an entry: name and arguments."""

    name: str
    args: list[Argument]
    annotations: Annotations
    absolute: bool = False
    decl: ActionDecl | None = None
    bound: list[tuple[Param, Expr | None]] = field(default_factory=list)


@dataclass(eq=False)
class Entry(Node):
    keys: list[Expr]
    action: ActionRef
    annotations: Annotations
    priority: Expr | None = None
    const: bool = False


@dataclass(eq=False)
class Property(Node):
    """Any other table property: `size = 10;`, `implementation = sel;`"""

    name: str
    expr: Expr
    const: bool
    annotations: Annotations


@dataclass(eq=False)
class TableDecl(Decl):
    key: list[KeyElement] | None = None
    actions: list[ActionRef] | None = None
    default_action: ActionRef | None = None
    default_const: bool = False
    entries: list[Entry] | None = None
    entries_const: bool = False
    properties: list[Property] = field(default_factory=list)
    type: Type | None = None

    def property(self, name: str) -> Property | None:
        """The property of that name."""
        return next((p for p in self.properties if p.name == name), None)


# ---- statements


@dataclass(eq=False)
class Stmt(Node):
    pass


@dataclass(eq=False)
class BlockStmt(Stmt):
    body: list[Stmt]
    annotations: Annotations = field(default_factory=list)


@dataclass(eq=False)
class DeclStmt(Stmt):
    decl: Decl


@dataclass(eq=False)
class AssignStmt(Stmt):
    left: Expr
    right: Expr
    op: str = "="


@dataclass(eq=False)
class CallStmt(Stmt):
    call: Expr


@dataclass(eq=False)
class IfStmt(Stmt):
    cond: Expr
    yes: Stmt
    no: Stmt | None


@dataclass(eq=False)
class ReturnStmt(Stmt):
    expr: Expr | None


@dataclass(eq=False)
class ExitStmt(Stmt):
    pass


@dataclass(eq=False)
class ForStmt(Stmt):
    """`for (init; cond; update) body`"""

    init: list[Stmt]
    cond: Expr
    update: list[Stmt]
    body: Stmt


@dataclass(eq=False)
class ForInStmt(Stmt):
    """`for (T x in collection) body`; the collection is a range, a list or a header stack."""

    decl: VarDecl
    collection: Expr
    body: Stmt


@dataclass(eq=False)
class BreakStmt(Stmt):
    pass


@dataclass(eq=False)
class ContinueStmt(Stmt):
    pass


@dataclass(eq=False)
class SwitchCase(Node):
    labels: list[Expr]  # DefaultExpr for `default`
    body: BlockStmt | None  # None: falls through


@dataclass(eq=False)
class SwitchStmt(Stmt):
    expr: Expr
    cases: list[SwitchCase]
    table: TableDecl | None = None  # set for `t.apply().action_run`


@dataclass(eq=False)
class EmptyStmt(Stmt):
    pass


@dataclass(eq=False)
class SelectCase(Node):
    keys: list[Expr]
    state: str


@dataclass(eq=False)
class Transition(Node):
    """`transition state;` (select None) or `transition select (...) {...}`."""

    state: str
    select: list[Expr] | None = None
    cases: list[SelectCase] = field(default_factory=list)


@dataclass(eq=False)
class Program(Node):
    decls: list[Decl]
