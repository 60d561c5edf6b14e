"""Parsers: states with their operations, sub-parsers inlined, selects with masks and ranges."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any

from softswitch.p4 import ast
from softswitch.p4 import types as t
from softswitch.p4.check.nodes import typed
from softswitch.p4.diagnostics import Span
from softswitch.p4.lower import values as v
from softswitch.p4.lower.base import Context, Env
from softswitch.p4.lower.instances import join_name
from softswitch.p4.lower.model import (
    Block,
    BlockInfo,
    If,
    Leave,
    Loop,
    Primitive,
    State,
    Statement,
    SubParser,
)
from softswitch.p4.lower.storage import control_plane_name
from softswitch.p4.lower.tables import TableLowering

Target = str | None
_MAX_STATES = 4096
_MAX_TRANSITIONS = 20_000


@dataclass(eq=False)
class ParserInstance:
    """A parser with its variables; each inlining of it has states of its own."""

    decl: ast.ParserDecl
    path: tuple[str, ...]
    env: Env
    prefix: str
    accept: Target = None
    names: dict[str, str] = field(default_factory=dict)
    back: list[Statement] = field(default_factory=list)


class ParserLowering(TableLowering):
    """Lowers states on demand, starting with `start`."""

    state_names: set[str]

    def instantiate_parser(
        self, instance: v.Instance, path: tuple[str, ...], prefix: str
    ) -> ParserInstance:
        """Evaluate the declarations of a parser."""
        assert isinstance(instance.type, t.TBlock)
        decl = instance.type.decl
        assert isinstance(decl, ast.ParserDecl)
        parser = ParserInstance(decl, path, {}, prefix)
        for param in decl.ctor_params:
            if param.name in instance.args:
                parser.env[param] = instance.args[param.name]
        for local in decl.locals:
            self.step(local.span)
            if isinstance(local, ast.VarDecl):
                assert local.type is not None
                name = self.storage.unique(local.name, numbered=True)
                parser.env[local] = self.storage.variable(name, local.type, local.span)
            elif isinstance(local, ast.InstanceDecl):
                parser.env[local] = self.make_instance(local, path, parser.env, "parser")
            elif isinstance(local, ast.ValueSetDecl):
                parser.env[local] = self._value_set(local, path, parser.env)
        return parser

    parser_info: BlockInfo

    def _value_set(self, decl: ast.ValueSetDecl, path: tuple[str, ...], env: Env) -> v.ValueSet:
        name = join_name(path, control_plane_name(decl))
        assert decl.type is not None
        bits = t.width_of(decl.type)
        if bits is None:
            raise self.fail(decl.ref, f"a value set cannot hold '{decl.type}'")
        size = self.number(decl.size, Context(env=env, where="parser", path=path))
        if all(x["name"] != name for x in self.model.vsets):
            self.model.vsets.append(
                {
                    "name": name,
                    "id": len(self.model.vsets),
                    "compressed_bitwidth": bits,
                    "max_size": size,
                }
            )
            self.parser_info.value_sets.append((name, size, decl.type, decl))
        return v.ValueSet(name)

    def lower_parser(self, parser: ParserInstance) -> str:
        """Lower the states reachable from start; returns the name of the first."""
        return self._state(parser, "start")

    # ---- states

    def _fresh_state(self, name: str) -> str:
        found, n = name, 0
        while found in self.state_names:
            found, n = f"{name}_{n}", n + 1
        self.state_names.add(found)
        if len(self.state_names) > _MAX_STATES:
            raise self.fail(self.checked.main, "the parser needs too many states")
        return found

    def _state(self, parser: ParserInstance, name: str, span: Span | None = None) -> str:
        """Name in the JSON of a source state, lowered when new."""
        if name in parser.names:
            return parser.names[name]
        decl = next(s for s in parser.decl.states if s.name == name)
        json_name = self._fresh_state(parser.prefix + name)
        parser.names[name] = json_name
        ctx = self._context(parser)
        if name == "start":
            for local in parser.decl.locals:
                if isinstance(local, ast.VarDecl):
                    place = parser.env[local]
                    if local.init is not None:
                        self.assign(place, self.value(local.init, ctx), ctx, local.span)
                    elif parser.prefix:
                        self.invalidate(place, ctx, local.span)
        for stmt in decl.body:
            self.stmt(stmt, ctx)
        builder = _StateBuilder(self, parser)
        state = State(json_name)
        self.model.states.append(state)
        builder.fill(state, ctx.out, decl)
        return json_name

    def _context(self, parser: ParserInstance) -> Context:
        return Context(env=parser.env, where="parser", path=parser.path)

    def apply_parser(self, e: ast.Call, instance: v.Instance, ctx: Context) -> None:
        """Inline a sub-parser: its states come between this statement and the next."""
        prefix = f"{instance.name.rsplit('.', 1)[-1]}_"
        path = tuple(instance.name.split("."))
        if ctx.depth > 16 or prefix.count("_") > 400:
            raise self.fail(e, "parsers nested too deeply")
        self.step(e.span)
        parser = self.instantiate_parser(instance, path, prefix)
        bound = [(p, x) for p, (_, x) in zip(parser.decl.params, e.bound, strict=True)]
        passed = self.pass_arguments(bound, ctx, e.span, isolated=True)
        parser.env.update(passed.env)
        ctx.out.append(SubParser(e.span, parser))
        self.copy_back(passed, ctx, e.span)

    # ---- transitions

    def transition(self, parser: ParserInstance, decl: ast.StateDecl, ctx: Context) -> State:
        """Key and transitions of a state (as a State without name)."""
        result = State("")
        tr = decl.transition
        if tr is None:
            result.transitions.append(_default(None))
            self.reporter.warn(
                decl.span, f"state '{decl.name}' has no transition: it rejects", "parser-transition"
            )
            return result
        if tr.select is None:
            result.transitions.append(_default(self._target(parser, tr.state, tr.span)))
            return result
        widths: list[int] = []
        for key in tr.select:
            leaf = self.value(key, ctx)
            if not isinstance(leaf, v.Leaf):
                raise self.fail(key, "this value cannot be selected on")
            if not isinstance(leaf, (v.Field, v.StackField, v.UnionStackField, v.Lookahead)):
                leaf = self.save(leaf, ctx, key.span)
            widths.append(v.width(typed(key)))
            result.key.append(v.to_json(leaf, v.DATA))
        complete = False
        for case in tr.cases:
            target = self._target(parser, case.state, case.span)
            for item in self._case(case, widths, ctx):
                item["next_state"] = target
                result.transitions.append(item)
                complete = complete or item["type"] == "default"
            if len(result.transitions) > _MAX_TRANSITIONS:
                raise self.fail(case, "the select needs too many transitions")
            if complete:
                break
        if not complete:
            result.transitions.append(_default(self._no_match()))
        return result

    def _target(self, parser: ParserInstance, name: str, span: Span) -> Target:
        if name == "accept":
            return parser.accept
        if name == "reject":
            self.reporter.warn(
                span, "bmv2 has no reject: the packet goes on, without an error", "bmv2"
            )
            return None
        return self._state(parser, name, span)

    def _no_match(self) -> str:
        """The state that sets error.NoMatch."""
        if "noMatch" not in self.state_names:
            self.state_names.add("noMatch")
            code = v.Const(self.error_codes.get("NoMatch", 0), t.ERROR)
            verify = {
                "op": "verify",
                "parameters": [{"type": "bool", "value": False}, v.to_json(code, v.DATA)],
            }
            self.model.states.append(State("noMatch", [verify], [], [_default(None)]))
        return "noMatch"

    def _case(self, case: ast.SelectCase, widths: list[int], ctx: Context) -> list[dict[str, Any]]:
        if len(case.keys) == 1 and isinstance(case.keys[0], ast.DefaultExpr):
            return [_default(None)]
        for key in case.keys:
            if isinstance(typed(key), t.TSet) and isinstance(key, ast.Name):
                found = self.value(key, ctx)
                if len(case.keys) > 1 or not isinstance(found, v.ValueSet):
                    raise self.fail(key, "a value set has to be the only element of a case")
                return [{"type": "parse_vset", "value": found.name, "mask": None}]
        combined: list[tuple[int, int, bool]] = [(0, 0, True)]
        total = 0
        for key, bits in zip(case.keys, widths, strict=True):
            size = (bits + 7) // 8 * 8
            total += size
            options = self._options(key, bits, ctx)
            if len(options) * len(combined) > _MAX_TRANSITIONS:
                raise self.fail(case, "the ranges of this case need too many transitions")
            combined = [
                (value << size | x, mask << size | m, exact and m == (1 << bits) - 1)
                for value, mask, exact in combined
                for x, m in options
            ]
        found_items: list[dict[str, Any]] = []
        for value, mask, exact in combined:
            if mask == 0:
                found_items.append(_default(None))
                continue
            found_items.append(
                {
                    "type": "hexstr",
                    "value": v.hexstr(value, total),
                    "mask": None if exact else v.hexstr(mask, total),
                }
            )
        return found_items

    def _options(self, key: ast.Expr, bits: int, ctx: Context) -> list[tuple[int, int]]:
        """(value, mask) pairs that together match what the key says."""
        full = (1 << bits) - 1
        if isinstance(key, ast.DefaultExpr):
            return [(0, 0)]
        if isinstance(key, ast.MaskExpr):
            mask = self.number(key.right, ctx) & full
            return [(self.number(key.left, ctx) & mask, mask)]
        if isinstance(key, ast.RangeExpr):
            low, high = self.number(key.left, ctx), self.number(key.right, ctx)
            if low > high:
                raise self.fail(key, "the range is empty")
            if low < 0:
                # Signed: the negative part is the upper half of the unsigned numbers.
                parts = range_masks(low & full, min(high, -1) & full, bits)
                return parts + (range_masks(0, high, bits) if high >= 0 else [])
            return range_masks(low, high & full, bits)
        return [(self.number(key, ctx) & full, full)]

    # ---- packet_in

    def packet(self, e: ast.Call, method: str, args: dict[str, Any], ctx: Context) -> v.Value:
        if ctx.where == "deparser":
            return self.emit_packet(e, args, ctx)
        if ctx.where != "parser":
            raise self.fail(e, f"'{method}' can be called in a parser only")
        if method == "extract":
            self._extract(e, ctx)
            return v.Nothing()
        if method == "lookahead":
            return self._lookahead(e, e.type_values[0])
        if method == "advance":
            amount = self.leaf(args["sizeInBits"], ctx)
            self.emit(ctx, e.span, "advance", v.parameter(amount))
            return v.Nothing()
        raise self.fail(e, f"packet_in.{method}() is not supported by bmv2")

    @abstractmethod
    def emit_packet(self, e: ast.Call, args: dict[str, Any], ctx: Context) -> v.Value:
        """packet_out.emit (in lower.program)."""

    def _extract(self, e: ast.Call, ctx: Context) -> None:
        expr = e.bound[0][1]
        if expr is None:
            header: v.Value = self._skipped(e)
        else:
            header = self.value(expr, ctx)
        parameter: dict[str, Any]
        if isinstance(header, v.Header):
            parameter = {"type": "regular", "value": header.name}
        elif isinstance(header, v.NextHeader):
            parameter = {"type": "stack", "value": header.stack.name}
        elif isinstance(header, v.UnionMemberNext):
            parameter = {"type": "union_stack", "value": [header.stack.name, header.member]}
        else:
            raise self.fail(e, "extract needs a header, or 'next' of a header stack")
        assert isinstance(header, v.HeaderValue)
        varbit = any(isinstance(t.base(f), t.TVarbit) for f in header.type.fields.values())
        if len(e.bound) == 1:
            if varbit:
                raise self.fail(
                    e, f"header '{header.type}' has a varbit field: extract needs its size"
                )
            self.emit(ctx, e.span, "extract", parameter)
            return
        if not varbit:
            raise self.fail(
                e, f"header '{header.type}' has no varbit field: extract takes one argument"
            )
        size = e.bound[1][1]
        assert size is not None
        found = v.to_json(self.leaf(size, ctx), v.DATA)
        self.emit(ctx, e.span, "extract_VL", parameter, {"type": "expression", "value": found})

    def _skipped(self, e: ast.Call) -> v.Header:
        """`extract<T>(_)` reads a header nobody looks at."""
        type_ = e.type_values[0] if e.type_values else None
        if not t.is_header(type_ or t.UNKNOWN):
            raise self.fail(e, "extract(_) needs the header type: extract<T>(_)")
        assert isinstance(type_, t.TStruct)
        found = self.storage.headers(self.storage.unique("skipped"), type_, e.span)
        assert isinstance(found, v.Header)
        return found

    def _lookahead(self, e: ast.Call, type_: t.Type) -> v.Value:
        found, _ = self._look(e, type_, 0)
        return found

    def _look(self, e: ast.Call, type_: t.Type, offset: int) -> tuple[v.Value, int]:
        kind = t.base(type_)
        if isinstance(kind, (t.TStruct, t.TTuple)) and not t.is_union(kind):
            fields = (
                kind.fields
                if isinstance(kind, t.TStruct)
                else {str(i): f for i, f in enumerate(kind.items)}
            )
            items: dict[str, v.Value] = {}
            for name, part in fields.items():
                items[name], offset = self._look(e, part, offset)
            if isinstance(kind, t.TStruct) and kind.kind == "header":
                return v.HeaderLiteral(kind, items), offset
            return v.Aggregate(kind, items), offset
        if isinstance(kind, t.TStack) and t.is_header(kind.element):
            parts: list[v.Value] = []
            for _ in range(kind.size):
                part_value, offset = self._look(e, kind.element, offset)
                parts.append(part_value)
            return v.StackLiteral(kind, tuple(parts)), offset
        if not isinstance(kind, (t.TBits, t.TBool)):
            raise self.fail(e, f"cannot look ahead at a '{type_}'")
        bits = v.width(type_)
        return v.Lookahead(offset, bits, type_), offset + bits


class _StateBuilder:
    """Splits the statements of one source state into bmv2 states at every branch."""

    def __init__(self, lowering: ParserLowering, parser: ParserInstance) -> None:
        self.lowering = lowering
        self.parser = parser
        self.after: dict[Block, Target] = {}

    def fill(self, state: State, body: list[Statement], decl: ast.StateDecl) -> None:
        """Operations and transitions of a state that starts with `body`."""
        if all(isinstance(s, Primitive) for s in body):
            self._finish(state, body, decl)
            return
        # Branches: the transition becomes a state that all of them lead to.
        last = self._new(state.name)
        self._finish(last, [], decl)
        self._sequence(state, body, last.name)

    def _new(self, base: str) -> State:
        state = State(self.lowering._fresh_state(base))
        self.lowering.model.states.append(state)
        return state

    def _finish(self, state: State, body: list[Statement], decl: ast.StateDecl) -> None:
        ctx = self.lowering._context(self.parser)
        found = self.lowering.transition(self.parser, decl, ctx)
        if not all(isinstance(s, Primitive) for s in ctx.out):
            raise self.lowering.fail(
                decl, "this select key is not supported: assign it to a variable"
            )
        state.ops = [operation(s) for s in [*body, *ctx.out] if isinstance(s, Primitive)]
        state.key = found.key
        state.transitions = found.transitions

    def _sequence(self, state: State, body: list[Statement], follow: Target) -> None:
        """Put `body` into `state`; afterwards parsing goes on at `follow`."""
        for n, s in enumerate(body):
            if isinstance(s, Primitive):
                state.ops.append(operation(s))
                continue
            rest = body[n + 1 :]
            if isinstance(s, Leave):
                state.transitions.append(_default(self.after[s.block]))
                return
            if rest:
                nxt = self._new(state.name)
                self._sequence(nxt, rest, follow)
                follow = nxt.name
            self._branching(state, s, follow)
            return
        state.transitions.append(_default(follow))

    def _branching(self, state: State, s: Statement, follow: Target) -> None:
        if isinstance(s, Block):
            self.after[s] = follow
            self._sequence(state, s.body, follow)
        elif isinstance(s, SubParser):
            s.parser.accept = follow
            state.transitions.append(_default(self.lowering.lower_parser(s.parser)))
        elif isinstance(s, If):
            yes, no = (self._side(state, body, follow) for body in (s.yes, s.no))
            self._test(state, s.cond, s.span, yes, no)
        elif isinstance(s, Loop):
            head, last, body = (self._new(state.name) for _ in range(3))
            state.transitions.append(_default(head.name))
            self._sequence(head, s.test, last.name)
            self._sequence(body, s.body, head.name)
            self._test(last, s.cond, s.span, body.name, follow)
        else:
            raise self.lowering.fail(s.span, "this statement cannot be used in a parser")

    def _side(self, state: State, body: list[Statement], follow: Target) -> Target:
        """Where one side of a branch starts."""
        if not body:
            return follow
        inner = self._new(state.name)
        self._sequence(inner, body, follow)
        return inner.name

    def _test(self, state: State, cond: v.Leaf, span: Span, yes: Target, no: Target) -> None:
        """End a state with a branch."""
        if isinstance(cond, v.Const):
            state.transitions.append(_default(yes if cond.value else no))
            return
        ctx = self.lowering._context(self.parser)
        test = self.lowering.save(cond, ctx, span)
        state.ops += [operation(p) for p in ctx.out if isinstance(p, Primitive)]
        state.key.append(v.to_json(test, v.DATA))
        for value, target in ((1, yes), (0, no)):
            state.transitions.append(
                {"type": "hexstr", "value": v.hexstr(value, 8), "mask": None,
                 "next_state": target}
            )  # fmt: skip
        state.transitions.append(_default(no))


def operation(p: Primitive) -> dict[str, Any]:
    """A parser operation in bmv2's form."""
    if p.op in ("extract", "extract_VL", "advance", "verify"):
        return {"parameters": p.parameters, "op": p.op}
    if p.op == "assign" and p.parameters[0]["type"] == "field":
        return {"parameters": p.parameters, "op": "set"}
    inner = {"op": p.op, "parameters": p.parameters}
    return {"parameters": [inner], "op": "primitive"}


def _default(target: Target) -> dict[str, Any]:
    return {"type": "default", "value": None, "mask": None, "next_state": target}


def range_masks(low: int, high: int, bits: int) -> list[tuple[int, int]]:
    """The fewest (value, mask) prefixes that cover low..high."""
    full = (1 << bits) - 1
    found: list[tuple[int, int]] = []
    while low <= high:
        size = low & -low if low else 1 << bits
        while low + size - 1 > high:
            size >>= 1
        found.append((low, full & ~(size - 1)))
        low += size
    return found
