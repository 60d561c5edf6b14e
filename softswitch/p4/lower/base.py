"""State of a lowering run, what is being lowered now, and assignments between values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from softswitch.p4 import ast
from softswitch.p4 import types as t
from softswitch.p4.check.program import Checked
from softswitch.p4.diagnostics import Reporter, Span, Stop
from softswitch.p4.lower import values as v
from softswitch.p4.lower.model import Block, If, Model, Primitive, Statement
from softswitch.p4.lower.storage import Storage

Env = dict[Any, v.Value]
MAX_DEPTH = 64


@dataclass
class Context:
    """Where a statement stands: names, destination of emitted statements, what is allowed."""

    env: Env
    where: str  # parser, verify, ingress, egress, compute, deparser
    path: tuple[str, ...]  # instance path for control-plane names
    out: list[Statement] = field(default_factory=list)
    leave: Block | None = None  # where `return` goes
    result: v.Value | None = None  # where `return x` puts x
    in_action: bool = False
    outer_block: Block | None = None  # where `exit` goes inside an action
    depth: int = 0
    called: bool = False  # inside the body of a directly called action
    frames: tuple[Any, ...] = ()  # calls whose copy-out an `exit` has to do, innermost last
    control: Any = None  # lower.tables.ControlInstance
    broken: Block | None = None  # where `break` goes
    continued: Block | None = None  # where `continue` goes
    returned: v.Field | None = None  # set by a `return` that cannot go all the way by itself

    def into(self, out: list[Statement]) -> Context:
        """The same place, emitting somewhere else."""
        return replace(self, out=out)


class LowerBase:
    """Shared by all parts of the lowering."""

    def __init__(self, checked: Checked, model: Model, reporter: Reporter) -> None:
        self.checked = checked
        self.model = model
        self.reporter = reporter
        self.storage = Storage(model, reporter)
        self.error_codes = {name: n for n, name in enumerate(checked.errors)}
        self.globals: Env = {}
        self.steps = 0

    def fail(self, node: ast.Node | Span, message: str) -> Stop:
        """Refuse the program at this place: raise what it returns."""
        span = node.span if isinstance(node, ast.Node) else node
        return self.reporter.fail(span, message)

    def step(self, span: Span) -> None:
        """Bounds the work of inlining, which can grow exponentially."""
        self.steps += 1
        if self.steps > 200_000:
            raise self.reporter.fail(span, "the program is too large once everything is inlined")

    # ---- emitting

    def emit(self, ctx: Context, span: Span, op: str, *parameters: Any) -> None:
        ctx.out.append(Primitive(span, op, list(parameters)))

    def settle(self, leaf: v.Leaf, ctx: Context, span: Span) -> v.Leaf:
        """A leaf that can be an operand: lookahead goes through a temporary."""
        if isinstance(leaf, v.Lookahead):
            return self.save(leaf, ctx, span)
        return leaf

    def save(self, leaf: v.Leaf, ctx: Context, span: Span, name: str = "tmp") -> v.Field:
        """Copy a leaf into a new temporary."""
        type_ = leaf.type
        if isinstance(t.base(type_), t.TInt):
            type_ = t.bits(32)
        place = self.storage.temporary(type_, span, name)
        self.assign(place, leaf, ctx, span)
        return place

    def simple(self, leaf: v.Leaf, ctx: Context, span: Span) -> v.Leaf:
        """A leaf bmv2 takes as a plain parameter: field, constant or action data."""
        if isinstance(leaf, v.Widened):
            leaf = leaf.inner
        if isinstance(leaf, (v.Field, v.Const, v.ActionData)):
            return leaf
        return self.save(leaf, ctx, span)

    # ---- assignment

    def assign(self, target: v.Value, source: v.Value, ctx: Context, span: Span) -> None:
        """target = source, field by field where needed."""
        if isinstance(target, v.Leaf):
            if not isinstance(source, v.Leaf):
                raise self.fail(span, "this value cannot be assigned")
            self._assign_leaf(target, source, ctx, span)
        elif isinstance(target, v.Aggregate):
            self._assign_aggregate(target, source, ctx, span)
        elif isinstance(target, v.HeaderValue):
            self._assign_header(target, source, ctx, span)
        elif isinstance(target, v.Stack):
            self._assign_stack(target, source, ctx, span)
        elif isinstance(target, (v.Union, v.IndexedUnion)):
            self._assign_union(target, source, ctx, span)
        else:
            raise self.fail(span, "this cannot be assigned to")

    def _assign_leaf(self, target: v.Leaf, source: v.Leaf, ctx: Context, span: Span) -> None:
        if target == source:
            return
        if isinstance(target, v.ActionData):
            raise self.fail(span, "action data cannot be changed")
        if isinstance(source, v.UnionStackField):
            raise self.fail(span, "fields of the last union of a stack can only be selected on")
        if isinstance(target, v.IndexedField) and isinstance(target.element, v.IndexedMember):
            name, type_ = target.name, target.type
            self.for_member(
                target.element,
                ctx,
                span,
                lambda h, c: self.assign(v.Field(h.name, name, type_), source, c, span),
            )
            return
        op = "assign_VL" if isinstance(t.base(target.type), t.TVarbit) else "assign"
        self.emit(ctx, span, op, v.parameter(target), v.parameter(source))

    def _assign_aggregate(
        self, target: v.Aggregate, source: v.Value, ctx: Context, span: Span
    ) -> None:
        if not isinstance(source, v.Aggregate):
            raise self.fail(span, "this value cannot be assigned to a struct")
        pairs = list(zip(target.items.values(), source.items.values(), strict=True))
        if len(pairs) > 1 and self._overlaps(pairs):
            pairs = [(to, self.copy(value, ctx, span)) for to, value in pairs]
        for to, value in pairs:
            self.assign(to, value, ctx, span)

    def _overlaps(self, pairs: list[tuple[v.Value, v.Value]]) -> bool:
        """Would assigning one part after the other change what a later one reads?"""
        written: set[v.Path] = set()
        for to, value in pairs:
            if v.overlap(written, v.places(value)):
                return True
            written |= v.places(to)
        return False

    def copy(self, value: v.Value, ctx: Context, span: Span, name: str = "tmp") -> v.Value:
        """The value in storage of its own (constants stay as they are)."""
        if isinstance(value, v.Const):
            return value
        if isinstance(value, v.Leaf):
            return self.save(value, ctx, span, name)
        if isinstance(value, v.Aggregate):
            items = {n: self.copy(x, ctx, span, name) for n, x in value.items.items()}
            return v.Aggregate(value.type, items)
        type_ = getattr(value, "type", None)
        if not isinstance(type_, (t.TStruct, t.TStack)):
            raise self.fail(span, "this value cannot be copied")
        place = self.storage.headers(self.storage.unique(name), type_, span)
        self.assign(place, value, ctx, span)
        return place

    def _assign_header(
        self, target: v.HeaderValue, source: v.Value, ctx: Context, span: Span
    ) -> None:
        if isinstance(target, v.IndexedMember):
            self.for_member(target, ctx, span, lambda h, c: self.assign(h, source, c, span))
            return
        if isinstance(source, v.IndexedMember):
            self.for_member(source, ctx, span, lambda h, c: self.assign(target, h, c, span))
            return
        target = self.concrete(target, ctx, span)
        to = v.wrapped(v.header_json(target))
        if isinstance(source, v.HeaderLiteral):
            if source.fields is None:
                self.emit(ctx, span, "remove_header", to)
                return
            names = self.storage.fields_of(target.type)
            values = dict(source.fields)
            if v.overlap(v.places(target), v.places(source)):
                values = {n: self.copy(x, ctx, span) for n, x in values.items()}
            self.emit(ctx, span, "add_header", to)
            for path in names:
                value: v.Value = values[path[0]]
                for part in path[1:]:
                    assert isinstance(value, v.Aggregate)
                    value = value.items[part]
                self.assign(self.header_field(target, path), value, ctx, span)
            return
        if not isinstance(source, v.HeaderValue):
            raise self.fail(span, "this value cannot be assigned to a header")
        source = self.concrete(source, ctx, span)
        self.emit(ctx, span, "assign_header", to, v.wrapped(v.header_json(source)))

    def for_member(
        self,
        header: v.IndexedMember,
        ctx: Context,
        span: Span,
        do: Callable[[v.Header, Context], None],
    ) -> None:
        """Do something to stack[i].member: bmv2 cannot index a stack of unions."""
        index = self.simple(header.index, ctx, span)
        rest: list[Statement] = []
        for i in reversed(range(header.stack.type.size)):
            yes: list[Statement] = []
            do(v.Header(f"{header.stack.name}[{i}].{header.member}", header.type), ctx.into(yes))
            rest = [If(span, v.binary("==", index, v.const(i, index.type), t.BOOL), yes, rest)]
        ctx.out.extend(rest)

    def concrete(self, header: v.HeaderValue, ctx: Context, span: Span) -> v.HeaderValue:
        """A header a primitive can name: `last` becomes stack[lastIndex]."""
        if isinstance(header, v.LastHeader):
            index = v.Special("last_stack_index", header.stack.name, t.bits(32))
            return v.IndexedHeader(header.stack, self.save(index, ctx, span), header.type)
        if isinstance(header, v.NextHeader):
            raise self.fail(span, "'next' can only be extracted into")
        if isinstance(header, (v.UnionMemberNext, v.UnionMemberLast)):
            raise self.fail(
                span, "elements of a stack of unions can only be extracted and selected on"
            )
        return header

    def _assign_stack(self, target: v.Stack, source: v.Value, ctx: Context, span: Span) -> None:
        element = target.type.element
        union = t.is_union(element)
        if isinstance(source, v.Stack):
            kind = "union" if union else "header"
            stack = "header_union_stack" if union else "header_stack"
            self.model.copied |= {target.name, source.name}
            self.emit(
                ctx,
                span,
                f"assign_{kind}_stack" if not union else "assign_union_stack",
                {"type": stack, "value": target.name},
                {"type": stack, "value": source.name},
            )
            return
        if not isinstance(source, v.StackLiteral):
            raise self.fail(span, "this value cannot be assigned to a header stack")
        for i in range(target.type.size):
            item: v.Value
            if i < len(source.items):
                item = source.items[i]
            else:
                assert isinstance(element, t.TStruct)
                item = v.HeaderLiteral(element, None)
            self.assign(self.element(target, i), item, ctx, span)

    def _assign_union(
        self, target: v.Union | v.IndexedUnion, source: v.Value, ctx: Context, span: Span
    ) -> None:
        if isinstance(source, (v.Union, v.IndexedUnion)):
            pair = [v.wrapped(v.union_json(x)) for x in (target, source)]
            self.model.copied |= {x.name for x in (target, source) if isinstance(x, v.Union)}
            self.emit(ctx, span, "assign_union", *pair)
            return
        if isinstance(source, v.HeaderLiteral) and source.fields is None:
            for name, type_ in target.type.fields.items():
                assert isinstance(type_, t.TStruct)
                member: v.HeaderValue
                if isinstance(target, v.Union):
                    member = v.Header(f"{target.name}.{name}", type_)
                else:
                    member = v.IndexedMember(target.stack, target.index, name, type_)
                self.assign(member, v.HeaderLiteral(type_, None), ctx, span)
            return
        raise self.fail(span, "this value cannot be assigned to a header union")

    # ---- parts of headers and stacks

    def element(self, stack: v.Stack, index: int) -> v.Value:
        """stack[index] with a constant index."""
        name = f"{stack.name}[{index}]"
        element = stack.type.element
        assert isinstance(element, t.TStruct)
        return v.Union(name, element) if element.kind == "header_union" else v.Header(name, element)

    def header_field(self, header: v.HeaderValue, path: tuple[str, ...]) -> v.Value:
        """A field of a header, or the struct of fields below a path."""
        names = self.storage.fields_of(header.type)
        if path in names:
            flat, index, type_ = names[path]
            if isinstance(header, v.Header):
                return v.Field(header.name, flat, type_)
            if isinstance(header, (v.IndexedHeader, v.IndexedMember)):
                return v.IndexedField(header, index, type_, flat)
            if isinstance(header, v.LastHeader):
                return v.StackField(header.stack.name, flat, type_)
            if isinstance(header, v.UnionMemberLast):
                return v.UnionStackField(header.stack.name, header.member, flat, type_)
            raise AssertionError("no fields")
        part: t.Type = header.type
        for name in path:
            assert isinstance(part, t.TStruct)
            part = part.fields[name]
        assert isinstance(part, t.TStruct)
        items = {n: self.header_field(header, (*path, n)) for n in part.fields}
        return v.Aggregate(part, items)

    def default(self, type_: t.Type) -> v.Value:
        """The value `...` stands for: zero, false, invalid."""
        kind = t.base(type_)
        if isinstance(kind, t.TStruct):
            if kind.kind == "struct":
                return v.Aggregate(kind, {n: self.default(f) for n, f in kind.fields.items()})
            return v.HeaderLiteral(kind, None)
        if isinstance(kind, t.TTuple):
            return v.Aggregate(kind, {str(i): self.default(f) for i, f in enumerate(kind.items)})
        if isinstance(kind, t.TStack):
            return v.StackLiteral(kind, ())
        return v.Const(0, type_)

    def invalidate(self, value: v.Value, ctx: Context, span: Span) -> None:
        """Make the headers in a fresh or `out` value invalid."""
        if isinstance(value, v.Header):
            self.emit(ctx, span, "remove_header", v.header_json(value))
        elif isinstance(value, v.Aggregate):
            for item in value.items.values():
                self.invalidate(item, ctx, span)
        elif isinstance(value, v.Union):
            for name, part in value.type.fields.items():
                assert isinstance(part, t.TStruct)
                self.invalidate(v.Header(f"{value.name}.{name}", part), ctx, span)
        elif isinstance(value, v.Stack):
            for i in range(value.type.size):
                self.invalidate(self.element(value, i), ctx, span)

    def branch(self, cond: v.Leaf, span: Span, yes: list[Statement], no: list[Statement],
               ctx: Context) -> None:  # fmt: skip
        """Emit an if, or just the branch a constant chooses."""
        if isinstance(cond, v.Const):
            ctx.out.extend(yes if cond.value else no)
        elif yes or no:
            ctx.out.append(If(span, cond, yes, no))
