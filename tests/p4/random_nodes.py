"""Parts of P4 programs that know what they compute.

Every node made here carries its P4 text and a function on Python integers that says, from the
rules of the language alone, what it does. Nothing of the compiler is used. A value P4 leaves
undefined is None and spreads; a packet whose way depends on one is given up (`Undefined`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Value = int | bool | None
Headers = dict[str, bool]


class Undefined(Exception):
    """The language does not say what happens next."""


class Return(Exception):
    pass


class Exit(Exception):
    pass


class Break(Exception):
    pass


class Continue(Exception):
    pass


@dataclass(frozen=True)
class Type:
    """bit<width>, int<width> or bool."""

    kind: str
    width: int = 1

    def __str__(self) -> str:
        return "bool" if self.kind == "bool" else f"{self.kind}<{self.width}>"

    def wrap(self, value: int) -> int:
        value &= (1 << self.width) - 1
        if self.kind == "int" and value >> (self.width - 1):
            value -= 1 << self.width
        return value

    def clamp(self, value: int) -> int:
        if self.kind == "int":
            top = 1 << (self.width - 1)
            return max(-top, min(top - 1, value))
        return max(0, min((1 << self.width) - 1, value))


BOOL = Type("bool")


def bit(width: int) -> Type:
    return Type("bit", width)


@dataclass(frozen=True)
class Ref:
    """A place in a state, its index evaluated; `bits` when only a slice of it is meant."""

    name: str
    bits: tuple[int, int] | None = None


@dataclass
class State:
    """What a packet carries while it is processed."""

    values: dict[str, Value] = field(default_factory=dict)
    valid: Headers = field(default_factory=dict)
    result: Value = None
    turns: int = 0

    def read(self, ref: Ref) -> Value:
        header = ref.name.rsplit(".", 1)[0]
        if header in self.valid and not self.valid[header]:
            return None
        value = self.values.get(ref.name)
        if value is None or ref.bits is None:
            return value
        high, low = ref.bits
        return (int(value) >> low) & ((1 << (high - low + 1)) - 1)

    def write(self, ref: Ref, value: Value) -> None:
        header = ref.name.rsplit(".", 1)[0]
        if header in self.valid and not self.valid[header]:
            return
        if ref.bits is not None:
            whole = self.values.get(ref.name)
            high, low = ref.bits
            mask = ((1 << (high - low + 1)) - 1) << low
            if whole is not None and value is not None:
                value = int(whole) & ~mask | int(value) << low
            else:
                value = None
        self.values[ref.name] = value

    def set_valid(self, header: str, fields: Sequence[str], valid: bool) -> None:
        """What was in the fields is gone either way."""
        self.valid[header] = valid
        for name in fields:
            self.values[f"{header}.{name}"] = None


@dataclass
class Expr:
    text: str
    type: Type
    get: Callable[[State], Value]


@dataclass
class Place:
    """Something to read and write; `locate` evaluates its index."""

    text: str
    type: Type
    locate: Callable[[State], Ref]

    def expr(self) -> Expr:
        return Expr(self.text, self.type, lambda s: s.read(self.locate(s)))


@dataclass
class Stmt:
    text: str
    run: Callable[[State], None]


@dataclass
class Function:
    """A function, or (result None) an action called directly."""

    name: str
    params: list[tuple[str, Type, str]]  # name, type, direction
    result: Type | None
    body: list[Stmt]
    returns: Expr | None = None

    def text(self) -> str:
        params = ", ".join(f"{d} {t} {n.split('.')[-1]}" for n, t, d in self.params)
        head = f"{self.result} {self.name}" if self.result else f"action {self.name}"
        last = f" return {self.returns.text};" if self.returns else ""
        return f"{head}({params}) {{ {join(self.body)}{last} }}"

    def call(self, state: State, args: Sequence[Expr | Place]) -> Value:
        """Arguments are read from left to right, results written back in the same order."""
        given: list[tuple[Ref | None, Value]] = []
        for (_, _, direction), arg in zip(self.params, args, strict=True):
            if isinstance(arg, Place):
                where = arg.locate(state)
                given.append((where, state.read(where) if direction == "inout" else None))
            else:
                given.append((None, arg.get(state)))
        for (name, _, _), (_, value) in zip(self.params, given, strict=True):
            state.values[name] = value

        def back() -> None:
            for (name, _, direction), (where, _) in zip(self.params, given, strict=True):
                if where is not None and direction != "in":
                    state.write(where, state.values[name])

        result: Value = None
        try:
            for stmt in self.body:
                stmt.run(state)
            if self.returns is not None:
                result = self.returns.get(state)
        except Return:
            result = state.result
        except Exit:
            back()
            raise
        back()
        return result


def join(body: Sequence[Stmt]) -> str:
    return " ".join(s.text for s in body)


def decide(value: Value) -> bool:
    if value is None:
        raise Undefined
    return bool(value)


def literal(value: int, type_: Type) -> Expr:
    """A constant of a type."""
    if type_.kind == "bool":
        return Expr("true" if value else "false", type_, lambda s: bool(value))
    wrapped = type_.wrap(value)
    raw = wrapped & ((1 << type_.width) - 1)
    text = (
        f"{type_.width}w{raw}"
        if type_.kind == "bit"
        else f"(int<{type_.width}>){type_.width}w{raw}"
    )
    return Expr(text, type_, lambda s: wrapped)


ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
    "&": lambda a, b: a & b, "|": lambda a, b: a | b, "^": lambda a, b: a ^ b,
    "|+|": lambda a, b: a + b, "|-|": lambda a, b: a - b,
}  # fmt: skip
COMPARE: dict[str, Callable[[int, int], bool]] = {
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
}  # fmt: skip


def arithmetic(op: str, left: Expr, right: Expr) -> Expr:
    type_ = left.type

    def get(s: State) -> Value:
        a, b = left.get(s), right.get(s)
        if a is None or b is None:
            return None
        value = ARITHMETIC[op](int(a), int(b))
        return type_.clamp(value) if len(op) == 3 else type_.wrap(value)

    return Expr(f"({left.text} {op} {right.text})", type_, get)


def compare(op: str, left: Expr, right: Expr) -> Expr:
    def get(s: State) -> Value:
        a, b = left.get(s), right.get(s)
        return None if a is None or b is None else COMPARE[op](int(a), int(b))

    return Expr(f"({left.text} {op} {right.text})", BOOL, get)


def shift(op: str, left: Expr, right: Expr) -> Expr:
    def get(s: State) -> Value:
        a, n = left.get(s), right.get(s)
        if a is None or n is None:
            return None
        return left.type.wrap(int(a) << min(int(n), 999) if op == "<<" else int(a) >> int(n))

    return Expr(f"({left.text} {op} {right.text})", left.type, get)


def divide(op: str, left: Expr, right: Expr) -> Expr:
    def get(s: State) -> Value:
        a, b = left.get(s), right.get(s)
        if a is None or b is None:
            return None
        return int(a) // int(b) if op == "/" else int(a) % int(b)

    return Expr(f"({left.text} {op} {right.text})", left.type, get)


def unary(op: str, operand: Expr) -> Expr:
    def get(s: State) -> Value:
        a = operand.get(s)
        if a is None:
            return None
        return not a if op == "!" else operand.type.wrap(-a if op == "-" else ~int(a))

    return Expr(f"({op}{operand.text})", operand.type, get)


def logic(op: str, left: Expr, right: Expr) -> Expr:
    def get(s: State) -> Value:
        a = decide(left.get(s))
        return right.get(s) if a == (op == "&&") else a

    return Expr(f"({left.text} {op} {right.text})", BOOL, get)


def choose(cond: Expr, yes: Expr, no: Expr) -> Expr:
    return Expr(
        f"({cond.text} ? {yes.text} : {no.text})",
        yes.type,
        lambda s: yes.get(s) if decide(cond.get(s)) else no.get(s),
    )


def cast(operand: Expr, type_: Type) -> Expr:
    def get(s: State) -> Value:
        a = operand.get(s)
        if a is None:
            return None
        return bool(a) if type_.kind == "bool" else type_.wrap(int(a))

    return Expr(f"(({type_}){operand.text})", type_, get)


def cut(operand: Expr, high: int, low: int) -> Expr:
    def get(s: State) -> Value:
        a = operand.get(s)
        return None if a is None else (int(a) >> low) & ((1 << (high - low + 1)) - 1)

    return Expr(f"({operand.text})[{high}:{low}]", bit(high - low + 1), get)


def concat(left: Expr, right: Expr) -> Expr:
    type_ = Type(left.type.kind, left.type.width + right.type.width)

    def get(s: State) -> Value:
        a, b = left.get(s), right.get(s)
        if a is None or b is None:
            return None
        low = int(b) & ((1 << right.type.width) - 1)
        return type_.wrap((int(a) << right.type.width) | low)

    return Expr(f"({left.text} ++ {right.text})", type_, get)


def run_all(body: Sequence[Stmt], s: State) -> None:
    for stmt in body:
        stmt.run(s)


def turn(body: Sequence[Stmt], s: State) -> bool:
    """One turn of a loop; False after `break`."""
    try:
        run_all(body, s)
    except Continue:
        return True
    except Break:
        return False
    return True


def void(value: Value) -> None:
    """Drop a value."""
