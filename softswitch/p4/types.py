"""Types of P4-16 values (spec section 7). Structural ones compare by value, named by identity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from softswitch.p4 import ast


class Type:
    """Base of all types; str() is what messages show."""

    __slots__ = ()


@dataclass(frozen=True)
class TBool(Type):
    def __str__(self) -> str:
        return "bool"


@dataclass(frozen=True)
class TInt(Type):
    """Arbitrary-precision compile-time integer."""

    def __str__(self) -> str:
        return "int"


@dataclass(frozen=True)
class TBits(Type):
    """bit<width> or, signed, int<width>."""

    width: int
    signed: bool = False

    def __str__(self) -> str:
        return f"{'int' if self.signed else 'bit'}<{self.width}>"


@dataclass(frozen=True)
class TVarbit(Type):
    width: int

    def __str__(self) -> str:
        return f"varbit<{self.width}>"


@dataclass(frozen=True)
class TError(Type):
    def __str__(self) -> str:
        return "error"


@dataclass(frozen=True)
class TString(Type):
    def __str__(self) -> str:
        return "string"


@dataclass(frozen=True)
class TVoid(Type):
    def __str__(self) -> str:
        return "void"


@dataclass(frozen=True)
class TMatchKind(Type):
    def __str__(self) -> str:
        return "match_kind"


@dataclass(frozen=True)
class TUnknown(Type):
    """After an error or for `_`: fits everything."""

    def __str__(self) -> str:
        return "unknown"


@dataclass(frozen=True)
class TTuple(Type):
    items: tuple[Type, ...]

    def __str__(self) -> str:
        return f"tuple<{', '.join(map(str, self.items))}>"


@dataclass(frozen=True)
class TRecord(Type):
    """Type of `{ x = 1, y = 2 }` before it meets a struct."""

    items: tuple[tuple[str, Type], ...]

    def __str__(self) -> str:
        return "{" + ", ".join(f"{n} = {t}" for n, t in self.items) + "}"


@dataclass(frozen=True)
class TList(Type):
    element: Type

    def __str__(self) -> str:
        return f"list<{self.element}>"


@dataclass(frozen=True)
class TInvalid(Type):
    """Type of `{#}`."""

    def __str__(self) -> str:
        return "invalid header"


@dataclass(frozen=True)
class TStack(Type):
    element: Type
    size: int

    def __str__(self) -> str:
        return f"{self.element}[{self.size}]"


@dataclass(frozen=True)
class TSet(Type):
    element: Type

    def __str__(self) -> str:
        return f"set<{self.element}>"


@dataclass(eq=False)
class TVar(Type):
    """A type parameter."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(eq=False)
class TNew(Type):
    """`type bit<9> port_t;`"""

    name: str
    underlying: Type
    decl: ast.TypedefDecl

    def __str__(self) -> str:
        return self.name


@dataclass(eq=False)
class TEnum(Type):
    name: str
    members: list[str]

    def __str__(self) -> str:
        return self.name


@dataclass(eq=False)
class TSerEnum(Type):
    name: str
    underlying: Type
    members: dict[str, int]
    decl: ast.EnumDecl | None = None

    def __str__(self) -> str:
        return self.name


@dataclass(eq=False)
class TStruct(Type):
    """kind: header, struct or header_union."""

    name: str
    kind: str
    decl: ast.StructLike
    fields: dict[str, Type] = field(default_factory=dict)
    args: tuple[Type, ...] = ()
    leaves: int = -1  # scalar fields below, once all fields are known

    def __str__(self) -> str:
        return self.name + (f"<{', '.join(map(str, self.args))}>" if self.args else "")


@dataclass(frozen=True)
class TExtern(Type):
    decl: ast.ExternDecl
    args: tuple[Type, ...] = ()

    def __str__(self) -> str:
        return self.decl.name + (f"<{', '.join(map(str, self.args))}>" if self.args else "")


@dataclass(frozen=True)
class TArch(Type):
    """A parser, control or package type without a body."""

    decl: ast.ArchDecl
    args: tuple[Type, ...] = ()

    def __str__(self) -> str:
        return self.decl.name


@dataclass(frozen=True)
class TBlock(Type):
    """A parser or control with a body."""

    decl: ast.ParserDecl | ast.ControlDecl

    def __str__(self) -> str:
        return self.decl.name


@dataclass(frozen=True)
class TAction(Type):
    decl: ast.ActionDecl

    def __str__(self) -> str:
        return "action"


@dataclass(frozen=True)
class TTable(Type):
    decl: ast.TableDecl

    def __str__(self) -> str:
        return "table"


@dataclass(frozen=True)
class TApplyResult(Type):
    """What `t.apply()` returns: hit, miss, action_run."""

    decl: ast.TableDecl

    def __str__(self) -> str:
        return "result of apply()"


@dataclass(frozen=True)
class TActionRun(Type):
    decl: ast.TableDecl

    def __str__(self) -> str:
        return "action_run"


@dataclass(frozen=True)
class TFunction(Type):
    """Something that can only be called."""

    def __str__(self) -> str:
        return "function"


BOOL = TBool()
INT = TInt()
ERROR = TError()
STRING = TString()
VOID = TVoid()
MATCH_KIND = TMatchKind()
UNKNOWN = TUnknown()
FUNCTION = TFunction()
INVALID = TInvalid()


def bits(width: int, signed: bool = False) -> TBits:
    """bit<width> (or int<width>)."""
    return TBits(width, signed)


def substitute(type_: Type, binding: Mapping[Type, Type]) -> Type:
    """The type with type parameters replaced."""
    if isinstance(type_, TVar):
        return binding.get(type_, type_)
    if isinstance(type_, TTuple):
        return TTuple(tuple(substitute(t, binding) for t in type_.items))
    if isinstance(type_, TList):
        return TList(substitute(type_.element, binding))
    if isinstance(type_, TStack):
        return TStack(substitute(type_.element, binding), type_.size)
    if isinstance(type_, TSet):
        return TSet(substitute(type_.element, binding))
    if isinstance(type_, TExtern) and type_.args:
        return TExtern(type_.decl, tuple(substitute(t, binding) for t in type_.args))
    if isinstance(type_, TArch) and type_.args:
        return TArch(type_.decl, tuple(substitute(t, binding) for t in type_.args))
    if isinstance(type_, TStruct) and type_.args:
        args = tuple(substitute(t, binding) for t in type_.args)
        if args == type_.args:
            return type_
        fields = {n: substitute(t, binding) for n, t in type_.fields.items()}
        return TStruct(type_.name, type_.kind, type_.decl, fields, args)
    return type_


def has_var(type_: Type) -> bool:
    """Does the type mention a type parameter?"""
    if isinstance(type_, TVar):
        return True
    if isinstance(type_, TTuple):
        return any(map(has_var, type_.items))
    if isinstance(type_, (TList, TStack, TSet)):
        return has_var(type_.element)
    if isinstance(type_, (TExtern, TArch, TStruct)):
        return any(map(has_var, type_.args))
    return False


def same(a: Type, b: Type) -> bool:
    """Are values of one type values of the other?"""
    if a is b or isinstance(a, TUnknown) or isinstance(b, TUnknown):
        return True
    if isinstance(a, TStruct) and isinstance(b, TStruct):
        return (
            a.decl is b.decl
            and len(a.args) == len(b.args)
            and all(same(x, y) for x, y in zip(a.args, b.args, strict=True))
        )
    if isinstance(a, TTuple) and isinstance(b, TTuple):
        return len(a.items) == len(b.items) and all(
            same(x, y) for x, y in zip(a.items, b.items, strict=True)
        )
    if isinstance(a, TStack) and isinstance(b, TStack):
        return a.size == b.size and same(a.element, b.element)
    if isinstance(a, (TList, TSet)) and type(a) is type(b):
        assert isinstance(b, (TList, TSet))
        return same(a.element, b.element)
    if isinstance(a, (TExtern, TArch)) and type(a) is type(b):
        assert isinstance(b, (TExtern, TArch))
        return (
            a.decl is b.decl
            and len(a.args) == len(b.args)
            and all(same(x, y) for x, y in zip(a.args, b.args, strict=True))
        )
    return a == b


def is_header(type_: Type) -> bool:
    return isinstance(type_, TStruct) and type_.kind == "header"


def is_union(type_: Type) -> bool:
    return isinstance(type_, TStruct) and type_.kind == "header_union"


def is_struct(type_: Type) -> bool:
    return isinstance(type_, TStruct) and type_.kind == "struct"


def base(type_: Type) -> Type:
    """The type that holds the bits: `type` and serialisable enums give their underlying type."""
    while isinstance(type_, (TNew, TSerEnum)):
        type_ = type_.underlying
    return type_


def width_of(type_: Type) -> int | None:
    """Bits a value takes in a packet (varbit: 0, its minimum); None where that means nothing."""
    type_ = base(type_)
    if isinstance(type_, TBits):
        return type_.width
    if isinstance(type_, TBool):
        return 1
    if isinstance(type_, TError):
        return 32
    if isinstance(type_, TEnum):
        return 32
    if isinstance(type_, TVarbit):
        return 0
    parts: list[Type] | tuple[Type, ...]
    if isinstance(type_, TStruct):
        parts = list(type_.fields.values())
    elif isinstance(type_, TTuple):
        parts = type_.items
    elif isinstance(type_, TStack):
        parts = [type_.element] * type_.size
    else:
        return None
    widths = [width_of(t) for t in parts]
    if any(w is None for w in widths):
        return None
    if is_union(type_):
        return max((w or 0 for w in widths), default=0)
    return sum(w or 0 for w in widths)
