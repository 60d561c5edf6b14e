"""Random expressions and statements."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.p4.random_nodes import (
    ARITHMETIC,
    BOOL,
    COMPARE,
    Break,
    Continue,
    Exit,
    Expr,
    Function,
    Place,
    Ref,
    Return,
    State,
    Stmt,
    Type,
    Undefined,
    Value,
    arithmetic,
    bit,
    cast,
    choose,
    compare,
    concat,
    cut,
    decide,
    divide,
    join,
    literal,
    logic,
    run_all,
    shift,
    turn,
    unary,
    void,
)


def variable(text: str, type_: Type) -> Place:
    """A place whose name in the state is its text."""
    ref = Ref(text)
    return Place(text, type_, lambda s: ref)


@dataclass
class Scope:
    """What a statement can name, and what it may do."""

    places: list[Place]
    values: list[Expr] = field(default_factory=list)
    where: str = "control"  # parser, control, action, function
    result: Type | None = None
    loops: int = 0

    def inner(self) -> Scope:
        return Scope(list(self.places), list(self.values), self.where, self.result, self.loops)


STACK = 4
WIDTHS = (1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 47, 48, 63, 64, 65, 96, 127, 128, 200)


class Code(ABC):
    """Makes code for one program; `size` bounds how much of it."""

    rng: random.Random
    size: int
    types: list[Type]
    fields: dict[str, list[tuple[str, Type]]]
    element: list[tuple[str, Type]]
    functions: list[Function]
    actions: list[Function]
    count = 0

    @abstractmethod
    def table(self, scope: Scope, size: int) -> Stmt:
        """The application of a new table."""

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    # ---- expressions

    def expr(self, scope: Scope, type_: Type, depth: int) -> Expr:
        """A random expression of the type."""
        rng = self.rng
        if depth <= 0 or rng.random() < 0.12:
            return self._leaf(scope, type_)
        if type_.kind == "bool":
            return self._boolean(scope, depth - 1)
        return self._number(scope, type_, depth - 1)

    def _leaf(self, scope: Scope, type_: Type) -> Expr:
        rng = self.rng
        found = [p.expr() for p in scope.places if p.type == type_]
        found += [e for e in scope.values if e.type == type_]
        if found and rng.random() < 0.75:
            return rng.choice(found)
        if type_.kind != "bool" and rng.random() < 0.3:
            edge = rng.choice([0, 1, -1, 1 << (type_.width - 1), (1 << (type_.width - 1)) - 1])
            return literal(edge, type_)
        return literal(rng.getrandbits(type_.width), type_)

    def _boolean(self, scope: Scope, depth: int) -> Expr:
        rng = self.rng
        kind = rng.randrange(8)
        if kind == 0:
            return unary("!", self.expr(scope, BOOL, depth))
        if kind in (1, 2):
            sides = (self.expr(scope, BOOL, depth) for _ in range(2))
            return logic(rng.choice(["&&", "||"]), *sides)
        if kind == 3 and scope.where != "function":
            return self._valid()
        if kind == 4:
            return choose(*(self.expr(scope, BOOL, depth) for _ in range(3)))
        if kind == 5:
            return cast(self.expr(scope, bit(1), depth), BOOL)
        type_ = rng.choice(self.types)
        sides = (self.expr(scope, type_, depth) for _ in range(2))
        return compare(rng.choice(list(COMPARE)), *sides)

    def _valid(self) -> Expr:
        rng = self.rng
        if rng.random() < 0.3:
            a, b = rng.sample("abc", 2)
            return Expr(
                f"(hdr.{a} == hdr.{b})", BOOL, lambda s: self._same(s, f"hdr.{a}", f"hdr.{b}")
            )
        header = rng.choice([h for h in self.fields if h != "hdr.o"])
        return Expr(f"{header}.isValid()", BOOL, lambda s: s.valid[header])

    def _same(self, s: State, a: str, b: str) -> Value:
        if not s.valid[a] or not s.valid[b]:
            return s.valid[a] == s.valid[b]
        pairs = [(s.values[f"{a}.{n}"], s.values[f"{b}.{n}"]) for n, _ in self.fields[a]]
        if any(x is None or y is None for x, y in pairs):
            return None
        return all(x == y for x, y in pairs)

    def _number(self, scope: Scope, type_: Type, depth: int) -> Expr:
        rng = self.rng
        kind = rng.randrange(12)
        if kind <= 3:
            sides = (self.expr(scope, type_, depth) for _ in range(2))
            return arithmetic(rng.choice(list(ARITHMETIC)), *sides)
        if kind == 4:
            return unary(rng.choice("-~"), self.expr(scope, type_, depth))
        if kind == 5:
            by = self.expr(scope, bit(8), depth) if rng.random() < 0.4 else None
            amount = by or literal(rng.randrange(type_.width + 2), bit(8))
            return shift(rng.choice(["<<", ">>"]), self.expr(scope, type_, depth), amount)
        if kind == 6:
            return choose(
                self.expr(scope, BOOL, depth),
                self.expr(scope, type_, depth),
                self.expr(scope, type_, depth),
            )
        if kind == 7 and scope.where != "parser":
            made = self._call(scope, type_, depth)
            if made is not None:
                return made
        if kind == 8 and type_.kind == "bit":
            source = rng.choice(self.types)
            if source.width >= type_.width:
                low = rng.randrange(source.width - type_.width + 1)
                return cut(self.expr(scope, source, depth), low + type_.width - 1, low)
        if kind == 9 and type_.width > 1:
            left = rng.randrange(1, type_.width)
            return concat(
                self.expr(scope, Type(type_.kind, left), depth),
                self.expr(scope, bit(type_.width - left), depth),
            )
        if kind == 10 and type_.kind == "bit":
            by = literal(1 << rng.randrange(type_.width), type_)  # bmv2's compilers divide by those
            return divide(rng.choice("/%"), self.expr(scope, type_, depth), by)
        return self._cast(scope, type_, depth)

    def _cast(self, scope: Scope, type_: Type, depth: int) -> Expr:
        rng = self.rng
        if type_ == bit(1) and rng.random() < 0.5:
            return cast(self.expr(scope, BOOL, depth), type_)
        if rng.random() < 0.3:
            other = Type("int" if type_.kind == "bit" else "bit", type_.width)
            return cast(self.expr(scope, other, depth), type_)
        source = Type(type_.kind, rng.choice(self.types).width)
        return cast(self.expr(scope, source, depth), type_)

    def _arguments(self, scope: Scope, function: Function, depth: int) -> list[Expr | Place] | None:
        args: list[Expr | Place] = []
        for _, type_, direction in function.params:
            if direction in ("in", ""):
                args.append(self.expr(scope, type_, depth))
                continue
            place = self.place(scope, type_)
            if place is None:
                return None
            args.append(place)
        return args

    def _call(self, scope: Scope, type_: Type, depth: int) -> Expr | None:
        options = [f for f in self.functions if f.result == type_]
        if not options:
            return None
        function = self.rng.choice(options)
        args = self._arguments(scope, function, depth)
        if args is None:
            return None
        text = f"{function.name}({', '.join(a.text for a in args)})"
        return Expr(text, type_, lambda s: function.call(s, args))

    # ---- places

    def place(self, scope: Scope, type_: Type) -> Place | None:
        """Something of the type that can be written: variables, slices, elements of the stack."""
        rng = self.rng
        if type_.kind == "bit" and rng.random() < 0.2:
            wide = [p for p in scope.places if p.type.kind == "bit" and p.type.width > type_.width]
            if wide:
                return self._slice(rng.choice(wide), type_)
        names = [n for n, t in self.element if t == type_ and scope.where != "function"]
        if names and rng.random() < 0.3:
            return self._indexed(scope, rng.choice(names), type_)
        found = [p for p in scope.places if p.type == type_]
        return rng.choice(found) if found else None

    def _slice(self, whole: Place, type_: Type) -> Place:
        low = self.rng.randrange(whole.type.width - type_.width + 1)
        bits = (low + type_.width - 1, low)
        return Place(
            f"{whole.text}[{bits[0]}:{bits[1]}]",
            type_,
            lambda s: Ref(whole.locate(s).name, bits),
        )

    def _indexed(self, scope: Scope, name: str, type_: Type) -> Place:
        index = arithmetic("&", self.expr(scope, bit(8), 1), literal(STACK - 1, bit(8)))

        def locate(s: State) -> Ref:
            value = index.get(s)
            if value is None:
                raise Undefined
            return Ref(f"hdr.s[{value}].{name}")

        return Place(f"hdr.s[{index.text}].{name}", type_, locate)

    # ---- statements

    def _body(self, scope: Scope, size: int) -> list[Stmt]:
        inner = scope.inner()
        return [self.stmt(inner, size) for _ in range(max(1, size))]

    def stmt(self, scope: Scope, size: int) -> Stmt:
        """A random statement; `size` bounds what is nested in it."""
        rng = self.rng
        options: list[Callable[[Scope, int], Stmt]] = [self._assign] * 5
        options += [self._declare, self._update]
        if scope.where != "function":
            options.append(self._header)
        if size > 1:
            options += [self._if, self._if, self._switch, self._block]
            if scope.where != "parser":
                options += [self._for, self._for_in]
        if scope.where == "control":
            options += [self._action_call] * 2
            if scope.loops == 0:
                options += [self.table] * 2
            if size < self.size:
                options.append(self._leave)
        elif scope.where == "action" and size < 5:
            options.append(self._leave)
        if scope.loops and size < 5:
            options.append(self._jump)
        return rng.choice(options)(scope, size)

    def _assign(self, scope: Scope, size: int) -> Stmt:
        rng = self.rng
        type_ = rng.choice([*self.types, BOOL, bit(rng.randrange(1, 9))])
        place = self.place(scope, type_)
        if place is None:
            return Stmt(";", lambda s: None)
        value = self.expr(scope, type_, rng.randrange(4))

        def run(s: State) -> None:
            where = place.locate(s)
            s.write(where, value.get(s))

        return Stmt(f"{place.text} = {value.text};", run)

    def _update(self, scope: Scope, size: int) -> Stmt:
        rng = self.rng
        type_ = rng.choice(self.types)
        place = self.place(scope, type_)
        if place is None:
            return Stmt(";", lambda s: None)
        op = rng.choice(list(ARITHMETIC))
        value = self.expr(scope, type_, 2)

        def run(s: State) -> None:
            where = place.locate(s)
            old = Expr("", type_, lambda s: s.read(where))
            s.write(where, arithmetic(op, old, value).get(s))

        return Stmt(f"{place.text} {op}= {value.text};", run)

    def _header(self, scope: Scope, size: int) -> Stmt:
        rng = self.rng
        kind = rng.choice((0, 2, 3, 4, 5, 5, 5))
        header = rng.choice([h for h in self.fields if h != "hdr.o"])
        names = [n for n, _ in self.fields[header]]
        if kind in (0, 1):
            word = rng.choice(["setValid", "setValid", "setInvalid"])
            valid = word == "setValid"

            def change(s: State) -> None:
                if s.valid[header] != valid:
                    s.set_valid(header, names, valid)

            return Stmt(f"{header}.{word}();", change)
        if kind == 2:
            a, b = rng.sample("abc", 2)
            return self._copy(f"hdr.{a}", f"hdr.{b}")
        if kind == 3:
            i, j = rng.sample(range(STACK), 2)
            return self._copy(f"hdr.s[{i}]", f"hdr.s[{j}]")
        if kind == 4 and scope.where != "parser":
            return self._shift_stack()
        return self._fill(scope, header)

    def _fill(self, scope: Scope, header: str) -> Stmt:
        names = [n for n, _ in self.fields[header]]
        parts = [self.expr(scope, t, 1) for _, t in self.fields[header]]

        def fill(s: State) -> None:
            values = [p.get(s) for p in parts]
            s.set_valid(header, names, True)
            for name, value in zip(names, values, strict=True):
                s.values[f"{header}.{name}"] = value

        return Stmt(f"{header} = {{ {', '.join(p.text for p in parts)} }};", fill)

    def _copy(self, to: str, source: str) -> Stmt:
        names = [n for n, _ in self.fields[to]]

        def run(s: State) -> None:
            s.valid[to] = s.valid[source]
            for n in names:
                s.values[f"{to}.{n}"] = s.values.get(f"{source}.{n}") if s.valid[to] else None

        return Stmt(f"{to} = {source};", run)

    def _shift_stack(self) -> Stmt:
        by = self.rng.randrange(1, 3)
        push = self.rng.random() < 0.5
        names = [n for n, _ in self.element]

        def run(s: State) -> None:
            step = by if push else -by
            order = range(STACK - 1, -1, -1) if push else range(STACK)
            for i in order:
                here, there = f"hdr.s[{i}]", f"hdr.s[{i - step}]"
                if not 0 <= i - step < STACK or not s.valid[there]:
                    s.set_valid(here, names, False)
                    continue
                s.valid[here] = True
                for n in names:
                    s.values[f"{here}.{n}"] = s.values[f"{there}.{n}"]

        return Stmt(f"hdr.s.{'push' if push else 'pop'}_front({by});", run)

    def _declare(self, scope: Scope, size: int) -> Stmt:
        type_ = self.rng.choice(self.types)
        name = self.fresh("v")
        value = self.expr(scope, type_, 2) if self.rng.random() < 0.95 else None
        place = variable(name, type_)
        scope.places.append(place)

        def run(s: State) -> None:
            s.values[name] = value.get(s) if value is not None else None

        return Stmt(f"{type_} {name}{f' = {value.text}' if value else ''};", run)

    def _block(self, scope: Scope, size: int) -> Stmt:
        body = self._body(scope, size // 2)
        return Stmt(f"{{ {join(body)} }}", lambda s: run_all(body, s))

    def _if(self, scope: Scope, size: int) -> Stmt:
        cond = self.expr(scope, BOOL, 2)
        yes = self._body(scope, size // 2)
        no = self._body(scope, size // 2) if self.rng.random() < 0.6 else []
        other = f" else {{ {join(no)} }}" if no else ""
        return Stmt(
            f"if ({cond.text}) {{ {join(yes)} }}{other}",
            lambda s: run_all(yes if decide(cond.get(s)) else no, s),
        )

    def _switch(self, scope: Scope, size: int) -> Stmt:
        rng = self.rng
        type_ = rng.choice([t for t in self.types if t.kind == "bit"])
        key = self.expr(scope, type_, 2)
        found: dict[int, list[Stmt]] = {}
        texts: list[str] = []
        labels = [rng.getrandbits(min(type_.width, 3)) for _ in range(4)]
        for label in dict.fromkeys(labels):
            body = self._body(scope, size // 3)
            texts.append(f"{type_.width}w{label}: {{ {join(body)} }}")
            found[label] = body
        default = self._body(scope, size // 3) if rng.random() < 0.7 else []
        if default:
            texts.append(f"default: {{ {join(default)} }}")

        def run(s: State) -> None:
            value = key.get(s)
            if value is None:
                raise Undefined
            run_all(found.get(int(value), default), s)

        return Stmt(f"switch ({key.text}) {{ {' '.join(texts)} }}", run)

    def _for(self, scope: Scope, size: int) -> Stmt:
        name, inner = self._loop_scope(scope)
        limit = self.rng.randrange(5)
        body = self._body(inner, size // 3)

        def run(s: State) -> None:
            for n in range(limit):
                s.values[name] = n
                if not turn(body, s):
                    break

        head = f"bit<8> {name} = 0; {name} < {limit}; {name} = {name} + 1"
        return Stmt(f"for ({head}) {{ {join(body)} }}", run)

    def _for_in(self, scope: Scope, size: int) -> Stmt:
        name, inner = self._loop_scope(scope)
        ends = [
            arithmetic("&", self.expr(scope, bit(8), 1), literal(3, bit(8))),
            literal(self.rng.randrange(4), bit(8)),
        ]
        self.rng.shuffle(ends)
        body = self._body(inner, size // 3)

        def run(s: State) -> None:
            low, high = (e.get(s) for e in ends)
            if low is None or high is None:
                raise Undefined
            for n in range(int(low), int(high) + 1):
                s.values[name] = n
                if not turn(body, s):
                    break

        head = f"bit<8> {name} in {ends[0].text} .. {ends[1].text}"
        return Stmt(f"for ({head}) {{ {join(body)} }}", run)

    def _loop_scope(self, scope: Scope) -> tuple[str, Scope]:
        name = self.fresh("i")
        inner = scope.inner()
        inner.loops += 1
        inner.values.append(variable(name, bit(8)).expr())
        return name, inner

    def _jump(self, scope: Scope, size: int) -> Stmt:
        cond = self.expr(scope, BOOL, 1)
        word = self.rng.choice(["break", "continue"])
        kind = Break if word == "break" else Continue

        def run(s: State) -> None:
            if decide(cond.get(s)):
                raise kind

        return Stmt(f"if ({cond.text}) {word};", run)

    def _leave(self, scope: Scope, size: int) -> Stmt:
        cond = self.expr(scope, BOOL, 2)
        word = "exit" if self.rng.random() < 0.3 else "return"
        kind = Exit if word == "exit" else Return

        def run(s: State) -> None:
            if decide(cond.get(s)):
                raise kind

        return Stmt(f"if ({cond.text}) {{ {word}; }}", run)

    # ---- functions, actions, tables

    def _params(self, scope: Scope, name: str) -> list[tuple[str, Type, str]]:
        rng = self.rng
        params: list[tuple[str, Type, str]] = []
        for i in range(rng.randrange(1, 4)):
            type_, direction = rng.choice(self.types), rng.choice(["in", "inout", "inout", "out"])
            param = f"{name}p{i}"
            params.append((param, type_, direction))
            place = variable(param, type_)
            if direction == "in":
                scope.values.append(place.expr())
            else:
                scope.places.append(place)
        return params

    def _function(self, base: list[Place]) -> Function:
        result = self.rng.choice(self.types)
        scope = Scope([], where="function", result=result)
        name = self.fresh("fun")
        params = self._params(scope, name)
        body = [self._set(variable(n, t)) for n, t, d in params if d == "out"]
        body += [self.stmt(scope, 3) for _ in range(3) if scope.places]
        if self.rng.random() < 0.5:
            body.insert(self.rng.randrange(len(body) + 1), self._early(scope, result))
        return Function(name, params, result, body, self.expr(_pure(scope), result, 2))

    def _early(self, scope: Scope, result: Type) -> Stmt:
        params = _pure(scope)
        params.places = [p for p in params.places if not p.text.startswith("v")]
        cond, value = self.expr(params, BOOL, 0), self.expr(params, result, 1)

        def run(s: State) -> None:
            if decide(cond.get(s)):
                s.result = value.get(s)
                raise Return

        return Stmt(f"if ({cond.text}) {{ return {value.text}; }}", run)

    def _action(self, base: list[Place]) -> Function:
        scope = Scope(list(base), where="action")
        name = self.fresh("act")
        params = self._params(scope, name)
        first = [self._set(variable(n, t)) for n, t, d in params if d == "out"]
        return Function(name, params, None, [*first, *self._body(scope, 3)])

    def _set(self, place: Place) -> Stmt:
        """Give an `out` parameter a first value."""
        value = literal(self.rng.getrandbits(place.type.width), place.type)
        ref = place.locate
        return Stmt(f"{place.text} = {value.text};", lambda s: s.write(ref(s), value.get(s)))

    def _action_call(self, scope: Scope, size: int) -> Stmt:
        action = self.rng.choice(self.actions)
        args = self._arguments(scope, action, 1)
        if args is None:
            return Stmt(";", lambda s: None)
        text = f"{action.name}({', '.join(a.text for a in args)});"
        return Stmt(text, lambda s: void(action.call(s, args)))


def _pure(scope: Scope) -> Scope:
    """The same names, but nothing of the packet."""
    inner = scope.inner()
    inner.places = [p for p in inner.places if "." not in p.text]
    return inner
