"""What an expression is once names are resolved: bmv2 fields and operations, or aggregates.

Leaves hold one number. bmv2 computes with unbounded integers, so operations that can leave the
range of their type are followed by a mask (`&`) or, for signed types, `two_comp_mod`.
A bool is stored as a 1-bit number; `to_json(leaf, BOOLEAN)` and `to_json(leaf, DATA)` insert
bmv2's conversions (d2b, b2d) where storage and use differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from softswitch.p4 import ast, fold
from softswitch.p4 import types as t

Json = dict[str, Any]


class Value:
    """Base of everything an expression can be."""


class Leaf(Value):
    """One number (or bool) with its P4 type."""

    type: t.Type


@dataclass(frozen=True)
class Const(Leaf):
    value: int
    type: t.Type


@dataclass(frozen=True)
class Field(Leaf):
    """A field of a header instance (also scalars, metadata and `$valid$`)."""

    header: str
    name: str
    type: t.Type


@dataclass(frozen=True)
class ActionData(Leaf):
    """Action parameter filled by the control plane."""

    index: int
    type: t.Type


@dataclass(frozen=True)
class Op(Leaf):
    """bmv2 expression; `left` is None for unary operators, `cond` belongs to `?`."""

    op: str
    left: Leaf | None
    right: Leaf
    type: t.Type
    cond: Leaf | None = None


@dataclass(frozen=True)
class Lookahead(Leaf):
    """Bits of the packet not yet extracted; parser only, cannot stand inside an expression."""

    offset: int
    width: int
    type: t.Type


@dataclass(frozen=True)
class StackField(Leaf):
    """Field of the last valid header of a stack."""

    stack: str
    name: str
    type: t.Type


@dataclass(frozen=True)
class IndexedField(Leaf):
    """Field of a stack element chosen at run time."""

    element: IndexedHeader | IndexedMember
    index: int
    type: t.Type
    name: str = ""


@dataclass(frozen=True)
class Widened(Leaf):
    """A number that lives in narrower storage than its type has bits."""

    inner: Leaf
    type: t.Type


@dataclass(frozen=True)
class Special(Leaf):
    """Ready-made JSON (last_stack_index, valid_union)."""

    json: str  # key into _SPECIAL
    target: str
    type: t.Type


# ---- aggregates


@dataclass
class Aggregate(Value):
    """A struct or tuple as its parts (names "0", "1"... for tuples)."""

    type: t.Type
    items: dict[str, Value]


class HeaderValue(Value):
    """Any header."""

    type: t.TStruct


@dataclass(frozen=True)
class Header(HeaderValue):
    """A header instance known at compile time."""

    name: str
    type: t.TStruct


@dataclass(frozen=True)
class IndexedHeader(HeaderValue):
    """stack[i] with i known at run time only."""

    stack: Stack
    index: Leaf
    type: t.TStruct


@dataclass(frozen=True)
class LastHeader(HeaderValue):
    stack: Stack
    type: t.TStruct


@dataclass(frozen=True)
class NextHeader(HeaderValue):
    stack: Stack
    type: t.TStruct


@dataclass
class HeaderLiteral(HeaderValue):
    """A header value that is stored nowhere; fields None: the invalid header."""

    type: t.TStruct
    fields: dict[str, Value] | None


@dataclass(frozen=True)
class Stack(Value):
    name: str
    type: t.TStack


@dataclass(frozen=True)
class StackLiteral(Value):
    type: t.TStack
    items: tuple[Value, ...]


@dataclass(frozen=True)
class Union(Value):
    name: str
    type: t.TStruct


@dataclass(frozen=True)
class NextUnion(Value):
    """stack.next of a stack of unions."""

    stack: Stack
    type: t.TStruct


@dataclass(frozen=True)
class LastUnion(Value):
    stack: Stack
    type: t.TStruct


@dataclass(frozen=True)
class IndexedUnion(Value):
    """stack[i] of a stack of unions, i known at run time only."""

    stack: Stack
    index: Leaf
    type: t.TStruct


@dataclass(frozen=True)
class IndexedMember(HeaderValue):
    """stack[i].member of a stack of unions."""

    stack: Stack
    index: Leaf
    member: str
    type: t.TStruct


@dataclass(frozen=True)
class UnionMemberNext(HeaderValue):
    """stack.next.member of a stack of unions: only extract can use it."""

    stack: Stack
    member: str
    type: t.TStruct


@dataclass(frozen=True)
class UnionMemberLast(HeaderValue):
    stack: Stack
    member: str
    type: t.TStruct


@dataclass(frozen=True)
class UnionStackField(Leaf):
    stack: str
    member: str
    name: str
    type: t.Type


@dataclass(frozen=True)
class Text(Value):
    text: str


@dataclass
class Nothing(Value):
    """Result of a call without one."""


@dataclass(frozen=True)
class ValueSet(Value):
    name: str


@dataclass(eq=False)
class Instance(Value):
    """An extern, parser or control instance."""

    name: str  # hierarchical control-plane name
    type: t.Type
    span: Any
    args: dict[str, Value] = field(default_factory=dict)
    decl: ast.InstanceDecl | None = None
    annotations: list[ast.Annotation] = field(default_factory=list)
    control: Any = None  # lower.tables.ControlInstance, once instantiated
    used: bool = False


@dataclass(frozen=True)
class Packet(Value):
    """packet_in or packet_out."""


# ---- widths and predicates


def width(type_: t.Type) -> int:
    """Bits a leaf of this type takes in storage."""
    found = t.width_of(type_)
    if isinstance(t.base(type_), t.TInt):
        return 32
    return 1 if found is None else found


def signed(type_: t.Type) -> bool:
    kind = t.base(type_)
    return isinstance(kind, t.TBits) and kind.signed


_BOOL_OPS = frozenset(("and", "or", "not", "==", "!=", "<", "<=", ">", ">=", "d2b"))


def computes_bool(leaf: Leaf) -> bool:
    """Does bmv2 see the leaf as a boolean (rather than as a number that holds one)?"""
    return (isinstance(leaf, Op) and leaf.op in _BOOL_OPS) or (
        isinstance(leaf, Special) and leaf.json == "valid_union"
    )


def is_bool(leaf: Leaf) -> bool:
    return isinstance(t.base(leaf.type), t.TBool)


def leaves(value: Value) -> Iterator[Leaf]:
    """The leaves an aggregate or expression reads, outermost first."""
    if isinstance(value, Op):
        for part in (value.cond, value.left, value.right):
            if part is not None:
                yield from leaves(part)
    elif isinstance(value, Widened):
        yield from leaves(value.inner)
    elif isinstance(value, IndexedField):
        yield value
        yield from leaves(value.element.index)
    elif isinstance(value, Leaf):
        yield value
    elif isinstance(value, Aggregate):
        for item in value.items.values():
            yield from leaves(item)
    elif isinstance(value, HeaderLiteral):
        for item in (value.fields or {}).values():
            yield from leaves(item)


Path = tuple[str, ...]


def _path(name: str) -> Path:
    """ "s[0]" -> ("s", "0"), "u.m" -> ("u", "m")."""
    return tuple(name.replace("[", ".").replace("]", "").split("."))


def places(value: Value) -> set[Path]:
    """Storage a value lives in or reads; a path stands for everything below it."""
    found: set[Path] = set()
    if isinstance(value, Field):
        found.add((*_path(value.header), value.name))
    elif isinstance(value, (Op, IndexedField, Widened)):
        for leaf in leaves(value):
            found |= (
                {_path(leaf.element.stack.name)}
                if isinstance(leaf, IndexedField)
                else (places(leaf))
            )
    elif isinstance(value, (Header, Union, Stack)):
        found.add(_path(value.name))
    elif isinstance(value, (StackField, UnionStackField)):
        found.add(_path(value.stack))
    elif isinstance(value, Special):
        found.add(_path(value.target))
    elif isinstance(value, Aggregate):
        for item in value.items.values():
            found |= places(item)
    elif isinstance(value, HeaderLiteral):
        for item in (value.fields or {}).values():
            found |= places(item)
    elif isinstance(value, StackLiteral):
        for item in value.items:
            found |= places(item)
    else:
        stack = getattr(value, "stack", None)  # headers of a stack chosen at run time
        if isinstance(stack, Stack):
            found.add(_path(stack.name))
        if isinstance(value, (IndexedHeader, IndexedMember, IndexedUnion)):
            found |= places(value.index)
    return found


def overlap(a: set[Path], b: set[Path]) -> bool:
    """Do two sets of places share storage?"""
    return any(x[: len(y)] == y or y[: len(x)] == x for x in a for y in b)


# ---- operators


def const(value: int, type_: t.Type) -> Const:
    return Const(fold.wrap(int(value), type_), type_)


def mask_to(leaf: Leaf, type_: t.Type) -> Leaf:
    """Bring an unbounded result back into the range of its type."""
    kind = t.base(type_)
    if not isinstance(kind, t.TBits):
        return leaf
    if kind.signed:
        return Op("two_comp_mod", leaf, Const(kind.width, t.INT), type_)
    return Op("&", leaf, Const((1 << kind.width) - 1, t.bits(kind.width)), type_)


def unary(op: str, operand: Leaf, type_: t.Type) -> Leaf:
    if isinstance(operand, Const):
        return const(int(fold.unary(op, _plain(operand), type_)), type_)
    if op == "!":
        return Op("not", None, operand, t.BOOL)
    if op == "+":
        return operand
    if op == "-":
        return mask_to(Op("-", Const(0, type_), operand, type_), type_)
    result = Op("~", None, operand, type_)
    return result if signed(type_) else mask_to(result, type_)


def _plain(leaf: Const) -> Any:
    return bool(leaf.value) if is_bool(leaf) else leaf.value


def binary(op: str, left: Leaf, right: Leaf, type_: t.Type) -> Leaf:
    """left OP right; type_ is the type of the result."""
    if op == "++":
        return _concat(left, right, type_)
    if isinstance(left, Const) and isinstance(right, Const):
        return const(int(fold.binary(op, _plain(left), _plain(right), type_)), type_)
    if op in ("&&", "||"):
        return _logic(op, left, right)
    if op in ("==", "!=", "<", "<=", ">", ">="):
        return Op(op, left, right, t.BOOL)
    if op in ("|+|", "|-|"):
        inner = Op(op[1], left, right, type_)
        cast = "sat_cast" if signed(type_) else "usat_cast"
        return Op(cast, inner, Const(width(type_), t.INT), type_)
    if op == "-" and isinstance(right, Const) and not signed(type_):
        # bmv2 adds the complement, as p4c does: the mask then works on a positive number.
        right = const(-right.value, type_)
        op = "+"
    if op == "<<" and isinstance(right, Const) and right.value >= width(type_):
        return Const(0, type_)
    result = Op(op, left, right, type_)
    return mask_to(result, type_) if op in ("+", "-", "*", "<<") else result


def _logic(op: str, left: Leaf, right: Leaf) -> Leaf:
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Const):
            if op == "&&":
                return other if one.value else Const(0, t.BOOL)
            return Const(1, t.BOOL) if one.value else other
    return Op("and" if op == "&&" else "or", left, right, t.BOOL)


def _concat(left: Leaf, right: Leaf, type_: t.Type) -> Leaf:
    shift = width(right.type)
    if signed(right.type):
        right = cast(right, t.bits(shift))
    if isinstance(left, Const) and isinstance(right, Const):
        return const((left.value << shift) | right.value, type_)
    high = Op("<<", left, Const(shift, t.bits(32)), type_)
    joined = Op("|", high, right, type_)
    return mask_to(joined, type_) if signed(left.type) else joined


def mux(cond: Leaf, yes: Leaf, no: Leaf, type_: t.Type) -> Leaf:
    if isinstance(cond, Const):
        return yes if cond.value else no
    return Op("?", yes, no, type_, cond)


def cast(leaf: Leaf, target: t.Type) -> Leaf:
    """Conversion between scalar types."""
    source, wanted = t.base(leaf.type), t.base(target)
    if isinstance(leaf, Const):
        return const(int(bool(leaf.value)) if isinstance(wanted, t.TBool) else leaf.value, target)
    if isinstance(wanted, t.TBool):
        return (
            retype(leaf, target) if isinstance(source, t.TBool) else Op("d2b", None, leaf, t.BOOL)
        )
    if isinstance(source, t.TBool):
        return Op("b2d", None, leaf, target) if computes_bool(leaf) else retype(leaf, target)
    if not isinstance(wanted, t.TBits) or not isinstance(source, t.TBits):
        return retype(leaf, target)
    if wanted.signed == source.signed and wanted.width >= source.width:
        if wanted.width == source.width or isinstance(leaf, (Op, Special)):
            return retype(leaf, target)
        return Widened(leaf.inner if isinstance(leaf, Widened) else leaf, target)
    return mask_to(leaf, target)


def retype(leaf: Leaf, target: t.Type) -> Leaf:
    """The same number, called another type."""
    if leaf.type == target:
        return leaf
    from dataclasses import replace

    if isinstance(leaf, Op) and is_bool(leaf) != isinstance(t.base(target), t.TBool):
        return leaf
    changed: Leaf = replace(leaf, type=target)  # type: ignore[type-var]
    return changed


def slice_of(leaf: Leaf, high: int, low: int) -> Leaf:
    type_ = t.bits(high - low + 1)
    if isinstance(leaf, Const):
        return const((leaf.value >> low) & ((1 << type_.width) - 1), type_)
    if isinstance(leaf, Lookahead):
        return Lookahead(leaf.offset + leaf.width - 1 - high, type_.width, type_)
    if low == 0 and high == width(leaf.type) - 1 and not signed(leaf.type):
        return retype(leaf, type_)
    shifted = Op(">>", leaf, Const(low, t.bits(8)), leaf.type) if low else leaf
    if high == width(leaf.type) - 1 and not signed(leaf.type):
        return Op(">>", leaf, Const(low, t.bits(8)), type_)
    return mask_to(shifted, type_)


# ---- JSON

DATA = "data"
BOOLEAN = "bool"


def hexstr(value: int, bits: int = 0) -> str:
    """0x..., padded to whole bytes of that many bits."""
    digits = ((bits + 7) // 8) * 2
    return f"-0x{-value:0{digits}x}" if value < 0 else f"0x{value:0{digits}x}"


def to_json(leaf: Leaf, want: str = "", inside: bool = False) -> Json:
    """The bmv2 form of a leaf.

    want: DATA or BOOLEAN forces a number or a boolean, "" takes what the type says.
    inside: the leaf is an operand (action data is then called `local`).
    """
    if not want:
        want = BOOLEAN if is_bool(leaf) else DATA
    if isinstance(leaf, Const):
        if want == BOOLEAN:
            return {"type": "bool", "value": bool(leaf.value)}
        bits = width(leaf.type)
        if isinstance(t.base(leaf.type), t.TInt):
            bits = max(8, leaf.value.bit_length())
        return {"type": "hexstr", "value": hexstr(leaf.value, bits)}
    raw = _raw(leaf, inside or (want == BOOLEAN and not computes_bool(leaf)))
    if want == BOOLEAN and not computes_bool(leaf):
        return _expression("d2b", None, raw)
    if want == DATA and computes_bool(leaf):
        return _expression("b2d", None, raw)
    return raw


def _expression(op: str, left: Json | None, right: Json, cond: Json | None = None) -> Json:
    value: Json = {"op": op, "left": left, "right": right}
    if cond is not None:
        value["cond"] = cond
    return {"type": "expression", "value": value}


def _raw(leaf: Leaf, inside: bool) -> Json:
    if isinstance(leaf, Widened):
        return _raw(leaf.inner, inside)
    if isinstance(leaf, Field):
        return {"type": "field", "value": [leaf.header, leaf.name]}
    if isinstance(leaf, ActionData):
        return {"type": "local" if inside else "runtime_data", "value": leaf.index}
    if isinstance(leaf, Lookahead):
        return {"type": "lookahead", "value": [leaf.offset, leaf.width]}
    if isinstance(leaf, StackField):
        return {"type": "stack_field", "value": [leaf.stack, leaf.name]}
    if isinstance(leaf, UnionStackField):
        return {"type": "union_stack_field", "value": [leaf.stack, leaf.member, leaf.name]}
    if isinstance(leaf, IndexedField):
        if isinstance(leaf.element, IndexedMember):
            return _raw(_chosen(leaf, leaf.element), inside)
        access = {"op": "access_field", "left": header_json(leaf.element), "right": leaf.index}
        return {"type": "expression", "value": access}
    if isinstance(leaf, Special):
        if leaf.json == "last_stack_index":
            return _expression(leaf.json, None, {"type": "header_stack", "value": leaf.target})
        return _expression(leaf.json, None, {"type": "header_union", "value": leaf.target})
    assert isinstance(leaf, Op)
    operands = _OPERANDS.get(leaf.op, DATA)
    left = None if leaf.left is None else to_json(leaf.left, operands, True)
    right = to_json(leaf.right, operands, True)
    cond = None if leaf.cond is None else to_json(leaf.cond, BOOLEAN, True)
    return _expression(leaf.op, left, right, cond)


def _chosen(leaf: IndexedField, header: IndexedMember) -> Leaf:
    """bmv2 cannot index a stack of unions: the field of whichever element is meant."""
    name = leaf.name
    found: Leaf = Field(f"{header.stack.name}[0].{header.member}", name, leaf.type)
    for i in range(1, header.stack.type.size):
        here = Op("==", header.index, Const(i, header.index.type), t.BOOL)
        field = Field(f"{header.stack.name}[{i}].{header.member}", name, leaf.type)
        found = Op("?", field, found, leaf.type, here)
    return found


_OPERANDS = {"and": BOOLEAN, "or": BOOLEAN, "not": BOOLEAN, "b2d": BOOLEAN}


def header_json(header: HeaderValue) -> Json:
    """A header as a primitive's parameter or operand."""
    if isinstance(header, Header):
        return {"type": "header", "value": header.name}
    assert isinstance(header, IndexedHeader)
    stack = {"type": "header_stack", "value": header.stack.name}
    return _expression("dereference_header_stack", stack, to_json(header.index, DATA, True))


def union_json(union: Union | IndexedUnion) -> Json:
    """A header union as a primitive's parameter or operand."""
    if isinstance(union, Union):
        return {"type": "header_union", "value": union.name}
    stack = {"type": "header_union_stack", "value": union.stack.name}
    return _expression("dereference_union_stack", stack, to_json(union.index, DATA, True))


def parameter(leaf: Leaf, want: str = DATA) -> Json:
    """A leaf as a parameter of a primitive: expressions get one more wrapper."""
    found = to_json(leaf, want)
    return wrapped(found)


def wrapped(found: Json) -> Json:
    """bmv2 wants computed parameters inside one more `expression`."""
    if found["type"] in ("expression", "stack_field"):
        return {"type": "expression", "value": found}
    return found
