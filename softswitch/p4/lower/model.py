"""The result of lowering: what the JSON and P4Info writers read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from softswitch.p4 import ast
from softswitch.p4 import types as t
from softswitch.p4.diagnostics import Span
from softswitch.p4.lower.values import Instance, Json, Leaf

# ---- statements


@dataclass(eq=False)
class Statement:
    span: Span


@dataclass(eq=False)
class Primitive(Statement):
    """A bmv2 primitive (or, in a parser, a parser operation)."""

    op: str
    parameters: list[Any]


@dataclass(eq=False)
class If(Statement):
    cond: Leaf
    yes: list[Statement]
    no: list[Statement]


@dataclass(eq=False)
class Block(Statement):
    """A body that `Leave` can end early."""

    body: list[Statement]


@dataclass(eq=False)
class Leave(Statement):
    """Go to the end of that block (a `return`)."""

    block: Block


@dataclass(eq=False)
class Loop(Statement):
    """`test` computes `cond`; while it holds, `body` runs and the test is made again."""

    test: list[Statement]
    cond: Leaf
    body: list[Statement]


@dataclass(eq=False)
class Together(Statement):
    """Statements of a control that have to be one action."""

    body: list[Statement]


@dataclass(eq=False)
class Exit(Statement):
    """End the pipeline."""


@dataclass(eq=False)
class Apply(Statement):
    """Apply a table; the branches say what follows."""

    table: Table
    hit: list[Statement] | None = None
    miss: list[Statement] | None = None
    cases: list[tuple[str, list[Statement]]] | None = None  # control-plane name of action
    default: list[Statement] | None = None


@dataclass(eq=False)
class CallAction(Statement):
    """Direct call of an action that needs no data."""

    action: Action


@dataclass(eq=False)
class SubParser(Statement):
    """Run another parser's states; the rest of the state follows its `accept`."""

    parser: Any  # lower.parser.ParserInstance


# ---- things with names


@dataclass
class ActionParam:
    name: str
    type: t.Type
    decl: ast.Param


@dataclass(eq=False)
class Action:
    """An action instance; hidden ones come from statements between tables."""

    name: str
    decl: ast.ActionDecl | None
    params: list[ActionParam]
    body: list[Statement]
    span: Span
    hidden: bool = False
    id: int = -1


@dataclass
class Key:
    name: str
    match: str
    target: Leaf
    mask: int | None
    type: t.Type
    element: ast.KeyElement


@dataclass
class KeyValue:
    """One element of an entry: value and mask, or low and high, or prefix length."""

    match: str
    value: int
    mask: int | None = None
    high: int | None = None
    prefix: int | None = None


@dataclass
class TableEntry:
    keys: list[KeyValue]
    action: Action
    args: list[int]
    priority: int
    const: bool
    span: Span
    text: str = ""


@dataclass
class TableAction:
    """An action in the list of a table."""

    action: Action
    ref: ast.ActionRef | None  # None: NoAction put there by the compiler
    default_only: bool = False
    table_only: bool = False


@dataclass(eq=False)
class Table:
    name: str
    decl: ast.TableDecl | None
    span: Span
    keys: list[Key] = field(default_factory=list)
    selector: list[Leaf] = field(default_factory=list)
    actions: list[TableAction] = field(default_factory=list)
    default_action: Action | None = None
    default_args: list[int] = field(default_factory=list)
    default_const: bool = False
    entries: list[TableEntry] | None = None
    entries_const: bool = False
    size: int = 1024
    declared_size: int | None = None
    profile: Instance | None = None
    counter: Instance | None = None
    meter: Instance | None = None
    support_timeout: bool = False
    hidden: bool = False
    has_key: bool = True
    default_given: bool = True
    prepare: list[Statement] = field(default_factory=list)  # computes keys, before each apply
    id: int = -1


@dataclass
class Node:
    """A node of a pipeline's graph."""

    name: str
    table: Table | None = None
    cond: Leaf | None = None
    span: Span | None = None
    next: str | None = None  # tables: unless something below says otherwise
    hit: str | None = None
    miss: str | None = None
    by_hit: bool = False
    by_action: dict[str, str | None] = field(default_factory=dict)
    default_case: str | None = None
    has_default_case: bool = False
    true_next: str | None = None
    false_next: str | None = None


@dataclass
class Pipeline:
    name: str
    span: Span
    init: str | None = None
    nodes: list[Node] = field(default_factory=list)
    profiles: list[Instance] = field(default_factory=list)


@dataclass
class State:
    """A parser state in bmv2's form."""

    name: str
    ops: list[Json] = field(default_factory=list)
    key: list[Json] = field(default_factory=list)
    transitions: list[Json] = field(default_factory=list)


@dataclass
class HeaderInstance:
    name: str
    type: str
    metadata: bool
    id: int


@dataclass
class Digest:
    """A digest call: control-plane name and the type of its data."""

    name: str
    type: t.Type
    decl: ast.StructLike | None


@dataclass
class BlockInfo:
    """A control or parser instance, in instantiation order, with what it declares."""

    name: str
    tables: list[Table] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    shared: dict[Action, None] = field(default_factory=dict)  # top-level actions used here
    externs: list[Instance] = field(default_factory=list)
    value_sets: list[tuple[str, int, t.Type, ast.ValueSetDecl]] = field(default_factory=list)


@dataclass
class Model:
    """Everything of a program."""

    name: str
    header_types: list[Json] = field(default_factory=list)
    headers: list[HeaderInstance] = field(default_factory=list)
    stacks: list[Json] = field(default_factory=list)
    union_types: list[Json] = field(default_factory=list)
    unions: list[Json] = field(default_factory=list)
    union_stacks: list[Json] = field(default_factory=list)
    field_lists: list[Json] = field(default_factory=list)
    learn_lists: list[Json] = field(default_factory=list)
    errors: list[tuple[str, int]] = field(default_factory=list)
    enums: list[Json] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    init_state: str = "start"
    vsets: list[Json] = field(default_factory=list)
    deparser_order: list[str] = field(default_factory=list)
    copied: set[str] = field(default_factory=set)  # unions and stacks assigned as a whole
    deparser_ops: list[Primitive] = field(default_factory=list)
    deparser_span: Span | None = None
    calculations: list[Json] = field(default_factory=list)
    checksums: list[Json] = field(default_factory=list)
    pipelines: list[Pipeline] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    global_externs: list[Instance] = field(default_factory=list)
    blocks: list[BlockInfo] = field(default_factory=list)
    digests: list[Digest] = field(default_factory=list)
    aliases: list[Any] = field(default_factory=list)
    direct_meters: dict[Instance, Leaf] = field(default_factory=dict)
    controller_headers: list[ast.StructLike] = field(default_factory=list)
    annotations: list[ast.Annotation] = field(default_factory=list)  # of main
    constants: dict[str, Any] = field(default_factory=dict)  # top-level ones, for annotations
    calls_externs: bool = False  # some control calls an extern function
