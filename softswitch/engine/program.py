"""The bmv2 JSON as checked Python objects: names become positions, nothing is trusted.

Format: bmv2's JSON_format document, version 2.x. Every name is looked up once, here; what
follows works with indexes, and the generated C contains no name of the program at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from softswitch.engine.types import ProgramError

MAX_FIELD_BITS = 16384
MAX_ARRAY = 1 << 24
"""Most cells in a counter, register or meter array, and most entries in a table."""

CORE_ERRORS = (
    "NoError",
    "PacketTooShort",
    "NoMatch",
    "StackOutOfBounds",
    "HeaderTooShort",
    "ParserTimeout",
    "ParserInvalidArgument",
)

MAX_VECTOR = 1 << 18
"""Most bytes of header fields and metadata that a packet carries."""
MAX_STATE = 1 << 30
"""Most bytes of counters, registers and meters together."""

Json = Mapping[str, Any]


def fail(message: str) -> NoReturn:
    """Raise ProgramError with one line, whatever names of the program are in it."""
    line = "".join(c if c.isprintable() else " " for c in message)
    raise ProgramError(line[:500])


def get(obj: Any, key: str, kind: type | tuple[type, ...], where: str) -> Any:
    """`obj[key]` with its type checked."""
    if not isinstance(obj, Mapping) or key not in obj:
        fail(f"{where}: '{key}' is missing")
    value = obj[key]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        names = kind.__name__ if isinstance(kind, type) else "/".join(k.__name__ for k in kind)
        fail(f"{where}: '{key}' must be {names}, not {type(value).__name__}")
    return value


def items(obj: Any, key: str, where: str = "program") -> Sequence[Any]:
    """The list `obj[key]`, empty when absent."""
    if not isinstance(obj, Mapping):
        fail(f"{where}: must be an object")
    value = obj.get(key)
    if value is None:
        return ()
    if not isinstance(value, list):
        fail(f"{where}: '{key}' must be a list")
    return value


def size_of(obj: Any, key: str, where: str, most: int = MAX_ARRAY) -> int:
    value = get(obj, key, int, where)
    if not 0 <= value <= most:
        fail(f"{where}: '{key}' is {value}, must be 0..{most}")
    return int(value)


def hexstr(value: Any, where: str) -> int:
    """A bmv2 hexstr: optional sign, optional 0x."""
    if isinstance(value, str) and 0 < len(value) <= 2 + MAX_FIELD_BITS // 4:
        try:
            return int(value, 16)
        except ValueError:
            pass
    fail(f"{where}: {value!r:.40} is not a hexadecimal string")


@dataclass(frozen=True)
class Field:
    name: str
    width: int
    """Bits; for a variable-length field, its most."""
    signed: bool = False
    saturating: bool = False
    varbit: bool = False

    @property
    def words(self) -> int:
        return (self.width + 63) // 64


@dataclass
class HeaderType:
    index: int
    name: str
    fields: list[Field]
    by_name: dict[str, int]

    @property
    def varbit(self) -> int | None:
        return next((i for i, f in enumerate(self.fields) if f.varbit), None)

    @property
    def fixed_bits(self) -> int:
        return sum(f.width for f in self.fields if not f.varbit)


@dataclass
class Instance:
    index: int
    name: str
    type: HeaderType
    metadata: bool
    path: str = ""
    """C expression of the instance, relative to the header vector `h`."""
    siblings: list[str] = field(default_factory=list)
    """Paths of the other members of its union."""


@dataclass
class Stack:
    index: int
    name: str
    type: HeaderType | None
    size: int
    path: str
    union: UnionType | None = None


@dataclass
class UnionType:
    index: int
    name: str
    members: list[tuple[str, HeaderType]]


@dataclass
class Union:
    name: str
    type: UnionType
    path: str


@dataclass
class Action:
    index: int
    id: int
    name: str
    params: list[tuple[str, int]]
    primitives: Sequence[Any]

    @property
    def offsets(self) -> list[int]:
        """Word offset of each parameter in the action data."""
        out, at = [], 0
        for _, width in self.params:
            out.append(at)
            at += max(1, (width + 63) // 64)
        return out

    @property
    def words(self) -> int:
        return sum(max(1, (w + 63) // 64) for _, w in self.params)


@dataclass(frozen=True)
class KeyField:
    name: str
    match: str
    """exact, lpm, ternary, range, optional or valid."""
    width: int
    instance: int
    """Index of the header instance."""
    field: int
    """Index of the field, -1 for the validity bit."""
    mask: int | None
    word: int
    words: int
    shift: int = 0
    """Bits the value is shifted up in its words (lpm: left aligned)."""


@dataclass
class Table:
    index: int
    name: str
    kind: str
    """simple, indirect, indirect_ws"""
    match: str
    """How it is looked up: exact, lpm or ternary (which includes range)."""
    declared: str
    key: list[KeyField]
    words: int
    actions: list[Action]
    max_size: int
    profile: int
    with_counters: bool
    timeout: bool
    meter: int
    next: dict[str, str | None]
    default_next: str | None
    default_entry: Any
    entries: Sequence[Any]
    pipeline: str

    @property
    def data_words(self) -> int:
        return max([a.words for a in self.actions], default=0)


@dataclass
class Profile:
    index: int
    name: str
    max_size: int
    selector: Any
    data_words: int = 0


@dataclass
class Meter:
    index: int
    name: str
    size: int
    rates: int
    bytes: bool
    direct: bool
    target: tuple[int, int] | None


@dataclass
class Node:
    """A place in a pipeline."""

    kind: str
    """table, if or call"""
    body: Any
    next: tuple[str | None, ...] = ()


class Program:
    """A checked program."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        if not isinstance(root, Mapping):
            fail("program: must be a JSON object")
        self.root = root
        meta = root.get("__meta__")
        version = meta.get("version") if isinstance(meta, Mapping) else None
        if isinstance(version, list) and version and version[0] != 2:
            fail(f"program: bmv2 JSON version {version[0]} is not supported (2 is)")
        self._headers()
        self._check_vector()
        self._state()
        self._check_state()
        self._actions()
        self._pipelines()

    # -- headers

    def _headers(self) -> None:
        self.types: dict[str, HeaderType] = {}
        for n, t in enumerate(items(self.root, "header_types")):
            name = get(t, "name", str, f"header_types[{n}]")
            where = f"header type '{name}'"
            fields: list[Field] = []
            for f in items(t, "fields", where):
                if not isinstance(f, list) or not 2 <= len(f) <= 4 or not isinstance(f[0], str):
                    fail(f"{where}: a field must be [name, width, signed]")
                if f[1] == "*":
                    most = 8 * size_of(t, "max_length", where, MAX_FIELD_BITS // 8)
                    fields.append(Field(f[0], max(most, 8), varbit=True))
                elif isinstance(f[1], int) and 0 < f[1] <= MAX_FIELD_BITS:
                    rest = [bool(x) for x in f[2:]] + [False, False]
                    fields.append(Field(f[0], f[1], rest[0], rest[1]))
                else:
                    fail(f"{where}: width of '{f[0]}' must be 1..{MAX_FIELD_BITS} bits")
            if sum(f.varbit for f in fields) > 1:
                fail(f"{where}: more than one variable-length field")
            ht = HeaderType(n, name, fields, {f.name: i for i, f in enumerate(fields)})
            if any(f.varbit for f in fields):
                if t.get("length_exp") is not None:
                    fail(f"{where}: 'length_exp' is not supported; use a two-argument extract")
                fixed, vl = ht.fixed_bits, ht.varbit or 0
                most = max(0, fields[vl].width - fixed) // 8 * 8
                fields[vl] = Field(fields[vl].name, max(8, most), varbit=True)
                before = sum(f.width for f in fields[:vl])
                if before % 8 or fixed % 8:
                    fail(f"{where}: the variable-length field does not start at a byte")
            self.types[name] = ht

        self.instances: dict[str, Instance] = {}
        ids: dict[int, Instance] = {}
        for n, i in enumerate(items(self.root, "headers")):
            name = get(i, "name", str, f"headers[{n}]")
            ht = self.type(get(i, "header_type", str, f"header '{name}'"))
            meta = bool(get(i, "metadata", bool, f"header '{name}'"))
            if not meta and ht.fixed_bits % 8:
                fail(f"header '{name}': {ht.fixed_bits} bits is not a whole number of bytes")
            inst = Instance(n, name, ht, meta, f"h->h{n}")
            self.instances[name] = inst
            ids[get(i, "id", int, f"header '{name}'")] = inst
        self.instance_list = list(self.instances.values())

        def members(obj: Any, key: str, where: str, pool: Mapping[int, Any]) -> list[Any]:
            out = []
            for x in items(obj, key, where):
                if x not in pool:
                    fail(f"{where}: unknown id {x!r:.20}")
                out.append(pool[x])
            return out

        self.stacks: dict[str, Stack] = {}
        for n, s in enumerate(items(self.root, "header_stacks")):
            name = get(s, "name", str, f"header_stacks[{n}]")
            where = f"header stack '{name}'"
            ht = self.type(get(s, "header_type", str, where))
            elems = members(s, "header_ids", where, ids)
            if not elems:
                fail(f"{where}: is empty")
            for k, e in enumerate(elems):
                if e.type is not ht or e.metadata:
                    fail(f"{where}: '{e.name}' is not a header of its type")
                e.path = f"h->s{n}[{k}]"
            self.stacks[name] = Stack(n, name, ht, len(elems), f"h->s{n}")

        self.union_types: dict[str, UnionType] = {}
        for n, u in enumerate(items(self.root, "header_union_types")):
            name = get(u, "name", str, f"header_union_types[{n}]")
            mem = []
            for m in items(u, "headers", name):
                if not isinstance(m, list) or len(m) != 2:
                    fail(f"header union type '{name}': a member must be [name, type]")
                mem.append((str(m[0]), self.type(m[1])))
            self.union_types[name] = UnionType(n, name, mem)
        self.unions: dict[str, Union] = {}
        union_ids: dict[int, tuple[Union, list[Instance]]] = {}
        for n, u in enumerate(items(self.root, "header_unions")):
            name = get(u, "name", str, f"header_unions[{n}]")
            ut = self.union_types.get(get(u, "union_type", str, name)) or fail(
                f"header union '{name}': unknown type"
            )
            insts = members(u, "header_ids", f"header union '{name}'", ids)
            if [i.type for i in insts] != [t for _, t in ut.members]:
                fail(f"header union '{name}': members do not fit its type")
            union = Union(name, ut, f"h->u{n}")
            self.unions[name] = union
            union_ids[get(u, "id", int, name)] = (union, insts)
            self._place_union(union, insts)
        self.union_stacks: dict[str, Stack] = {}
        for n, s in enumerate(items(self.root, "header_union_stacks")):
            name = get(s, "name", str, f"header_union_stacks[{n}]")
            elems = members(s, "header_union_ids", f"header union stack '{name}'", union_ids)
            if not elems:
                fail(f"header union stack '{name}': is empty")
            for k, (union, insts) in enumerate(elems):
                union.path = f"h->v{n}[{k}]"
                self._place_union(union, insts)
            self.union_stacks[name] = Stack(
                n, name, None, len(elems), f"h->v{n}", union=elems[0][0].type
            )

        self.aliases: dict[str, tuple[str, str]] = {}
        for a in items(self.root, "field_aliases"):
            if not isinstance(a, list) or len(a) != 2 or not isinstance(a[1], list):
                fail("field_aliases: an item must be [name, [header, field]]")
            self.aliases[str(a[0])] = (str(a[1][0]), str(a[1][1]))
        self.errors = {name: i for i, name in enumerate(CORE_ERRORS)}
        for e in items(self.root, "errors"):
            if not isinstance(e, list) or len(e) != 2 or not isinstance(e[1], int):
                fail("errors: an item must be [name, number]")
            self.errors[str(e[0])] = e[1] & 0xFFFFFFFF

    @staticmethod
    def _place_union(union: Union, insts: list[Instance]) -> None:
        paths = [f"{union.path}.m{k}" for k in range(len(insts))]
        for k, inst in enumerate(insts):
            inst.path = paths[k]
            inst.siblings = paths[:k] + paths[k + 1 :]

    def type(self, name: Any) -> HeaderType:
        return self.types.get(name) or fail(f"unknown header type {name!r:.60}")

    def instance(self, name: Any) -> Instance:
        if isinstance(name, str) and name in self.instances:
            return self.instances[name]
        return fail(f"unknown header {name!r:.60}")

    def field(self, ref: Any) -> tuple[Instance, int]:
        """(instance, field index) of a [header, field] reference; -1 for $valid$."""
        if not isinstance(ref, list) or len(ref) != 2:
            fail(f"a field reference must be [header, field], not {ref!r:.60}")
        inst = self.instance(ref[0])
        if ref[1] == "$valid$":
            return inst, -1
        index = inst.type.by_name.get(ref[1]) if isinstance(ref[1], str) else None
        if index is None:
            fail(f"header '{inst.name}' has no field {ref[1]!r:.60}")
        return inst, index

    def standard(self, name: str, alias: str = "standard_metadata") -> tuple[Instance, int] | None:
        """A field that the architecture fills, through its alias or by name."""
        full = self.aliases.get(f"{alias}.{name}")
        for header, f in ([full] if full else []) + [(alias, name), ("standard_metadata", name)]:
            inst = self.instances.get(header)
            if inst is not None and f in inst.type.by_name:
                return inst, inst.type.by_name[f]
        return None

    def _check_vector(self) -> None:
        """The spare element of each stack included."""
        count = [(i.type, 1) for i in self.instance_list]
        count += [(s.type, 1) for s in self.stacks.values() if s.type]
        for s in self.union_stacks.values():
            count += [(t, 1) for _, t in (s.union.members if s.union else ())]
        size = sum(n * sum(16 + 8 * f.words for f in t.fields) for t, n in count)
        if size > MAX_VECTOR:
            fail(f"program: its headers take {size} bytes, more than {MAX_VECTOR}")

    # -- arrays

    def _check_state(self) -> None:
        size = 16 * sum(self.counter_sizes)
        size += sum(8 * n * ((w + 63) // 64) for _, n, w in self.registers.values())
        size += sum(80 * m.size for m in self.meters.values())
        if size > MAX_STATE:
            fail(f"program: its arrays take {size} bytes, more than {MAX_STATE}")

    def _state(self) -> None:
        self.counters: dict[str, int] = {}
        self.counter_sizes: list[int] = []
        self.direct_counters: dict[str, str] = {}
        for n, c in enumerate(items(self.root, "counter_arrays")):
            name = get(c, "name", str, f"counter_arrays[{n}]")
            if c.get("is_direct"):
                self.direct_counters[name] = str(c.get("binding"))
                continue
            self.counters[name] = len(self.counter_sizes)
            self.counter_sizes.append(size_of(c, "size", f"counter '{name}'"))
        self.registers: dict[str, tuple[int, int, int]] = {}
        for n, r in enumerate(items(self.root, "register_arrays")):
            name = get(r, "name", str, f"register_arrays[{n}]")
            size = size_of(r, "size", f"register '{name}'")
            width = size_of(r, "bitwidth", f"register '{name}'", MAX_FIELD_BITS)
            self.registers[name] = (n, size, max(1, width))
        self.meters: dict[str, Meter] = {}
        for n, m in enumerate(items(self.root, "meter_arrays")):
            name = get(m, "name", str, f"meter_arrays[{n}]")
            where = f"meter '{name}'"
            rates = size_of(m, "rate_count", where, 2)
            target = None
            if m.get("is_direct") and m.get("result_target") is not None:
                inst, index = self.field(m["result_target"])
                target = (inst.index, index)
            self.meters[name] = Meter(
                n,
                name,
                size_of(m, "size", where),
                rates,
                get(m, "type", str, where) == "bytes",
                bool(m.get("is_direct")),
                target,
            )
        self.vsets: dict[str, tuple[int, int]] = {}
        for n, v in enumerate(items(self.root, "parse_vsets")):
            name = get(v, "name", str, f"parse_vsets[{n}]")
            self.vsets[name] = (n, size_of(v, "compressed_bitwidth", name, MAX_FIELD_BITS))
        self.calculations: dict[str, tuple[int, Any]] = {}
        for n, c in enumerate(items(self.root, "calculations")):
            self.calculations[get(c, "name", str, f"calculations[{n}]")] = (n, c)
        self.learn_lists = [
            (get(x, "id", int, "learn_lists"), str(x.get("name", "")), items(x, "elements"))
            for x in items(self.root, "learn_lists")
        ]
        self.field_lists = [
            (get(x, "id", int, "field_lists"), items(x, "elements"))
            for x in items(self.root, "field_lists")
        ]

    # -- actions, tables

    def _actions(self) -> None:
        self.actions: list[Action] = []
        self.action_ids: dict[int, Action] = {}
        for n, a in enumerate(items(self.root, "actions")):
            name = get(a, "name", str, f"actions[{n}]")
            params = []
            for p in items(a, "runtime_data", name):
                width = size_of(p, "bitwidth", f"action '{name}'", MAX_FIELD_BITS)
                params.append((str(p.get("name", "")), max(1, width)))
            if len(params) > 60:
                fail(f"action '{name}': more than 60 parameters")
            act = Action(n, get(a, "id", int, name), name, params, items(a, "primitives", name))
            if act.words > 255:
                fail(f"action '{name}': its parameters take more than 2 kB")
            self.actions.append(act)
            self.action_ids[act.id] = act

    def _pipelines(self) -> None:
        self.tables: dict[str, Table] = {}
        self.profiles: dict[str, Profile] = {}
        self.nodes: dict[str, dict[str, Node]] = {}
        self.init: dict[str, str | None] = {}
        for p in items(self.root, "pipelines"):
            pipe = get(p, "name", str, "pipelines")
            if pipe not in ("ingress", "egress"):
                fail(f"pipeline '{pipe}': only ingress and egress are known")
            nodes: dict[str, Node] = {}
            self.nodes[pipe] = nodes
            for a in items(p, "action_profiles", pipe):
                name = get(a, "name", str, f"{pipe}: action_profiles")
                where = f"action profile '{name}'"
                self.profiles[name] = Profile(
                    len(self.profiles), name, size_of(a, "max_size", where), a.get("selector")
                )
            for t in items(p, "tables", pipe):
                table = self._table(t, pipe)
                nodes[table.name] = Node("table", table)
            for c in items(p, "conditionals", pipe):
                name = get(c, "name", str, f"{pipe}: conditionals")
                nodes[name] = Node(
                    "if", c.get("expression"), (c.get("true_next"), c.get("false_next"))
                )
            for c in items(p, "action_calls", pipe):
                name = get(c, "name", str, f"{pipe}: action_calls")
                act = self.action_ids.get(get(c, "action_id", int, name)) or fail(
                    f"'{name}': unknown action"
                )
                nodes[name] = Node("call", act, (c.get("next_node"),))
            self.init[pipe] = p.get("init_table")
        for pipe in ("ingress", "egress"):
            self.nodes.setdefault(pipe, {})
            self.init.setdefault(pipe, None)
            self._check_graph(pipe)
        for table in self.tables.values():
            if table.profile >= 0:
                prof = list(self.profiles.values())[table.profile]
                prof.data_words = max(prof.data_words, table.data_words)

    def _table(self, t: Any, pipe: str) -> Table:
        name = get(t, "name", str, f"{pipe}: tables")
        where = f"table '{name}'"
        if name in self.tables:
            fail(f"{where}: defined twice")
        kind = get(t, "type", str, where)
        if kind not in ("simple", "indirect", "indirect_ws"):
            fail(f"{where}: unknown type '{kind}'")
        declared = get(t, "match_type", str, where)
        if declared not in ("exact", "lpm", "ternary", "range"):
            fail(f"{where}: unknown match type '{declared}'")
        match = "ternary" if declared == "range" else declared
        key, words = self._key(items(t, "key", where), match, where)
        actions = []
        for a in items(t, "action_ids", where):
            actions.append(self.action_ids.get(a) or fail(f"{where}: unknown action id {a!r:.20}"))
        profile = -1
        if kind != "simple":
            prof = self.profiles.get(get(t, "action_profile", str, where))
            profile = prof.index if prof else fail(f"{where}: unknown action profile")
            if kind == "indirect_ws" and prof and not isinstance(prof.selector, Mapping):
                fail(f"{where}: its action profile has no selector")
        meter = t.get("direct_meters")
        if meter is not None and meter not in self.meters:
            fail(f"{where}: unknown meter")
        nexts = t.get("next_tables") or {}
        if not isinstance(nexts, Mapping):
            fail(f"{where}: 'next_tables' must be an object")
        table = Table(
            len(self.tables),
            name,
            kind,
            match,
            declared,
            key,
            words,
            actions,
            size_of(t, "max_size", where, 1 << 31),
            profile,
            bool(t.get("with_counters")),
            bool(t.get("support_timeout")),
            self.meters[meter].index if meter is not None else -1,
            dict(nexts),
            t.get("base_default_next"),
            t.get("default_entry"),
            items(t, "entries", where),
            pipe,
        )
        if table.words > 60:
            fail(f"{where}: the key is longer than 480 bytes")
        self.tables[name] = table
        return table

    def _key(self, fields: Sequence[Any], match: str, where: str) -> tuple[list[KeyField], int]:
        parsed = []
        for k in fields:
            kind = get(k, "match_type", str, where)
            if kind not in ("exact", "lpm", "ternary", "range", "optional", "valid"):
                fail(f"{where}: unknown match type '{kind}'")
            target = k.get("target")
            if kind == "valid" or isinstance(target, str):
                ref = target if isinstance(target, str) else (target or [None])[0]
                inst, index, width = self.instance(ref), -1, 1
            else:
                inst, index = self.field(target)
                width = 1 if index < 0 else inst.type.fields[index].width
                if index >= 0 and inst.type.fields[index].varbit:
                    fail(f"{where}: a variable-length field cannot be a key")
            mask = None if k.get("mask") is None else hexstr(k["mask"], where)
            default = target if isinstance(target, str) else ".".join(map(str, target or []))
            name = str(k.get("name") or default)
            parsed.append((name, kind, width, inst.index, index, mask))
        lpm = [i for i, p in enumerate(parsed) if p[1] == "lpm"]
        if match == "lpm" and len(lpm) != 1:
            fail(f"{where}: a longest-prefix table needs exactly one lpm field")
        order = [i for i in range(len(parsed)) if match != "lpm" or i not in lpm]
        order += lpm if match == "lpm" else []
        out: dict[int, KeyField] = {}
        at = 0
        for i in order:
            name, kind, width, inst_i, index, mask = parsed[i]
            words = (width + 63) // 64
            shift = words * 64 - width if match == "lpm" and kind == "lpm" else 0
            out[i] = KeyField(name, kind, width, inst_i, index, mask, at, words, shift)
            at += words
        return [out[i] for i in range(len(parsed))], at

    def successors(self, node: Node) -> list[str | None]:
        if node.kind == "table":
            return [*node.body.next.values(), node.body.default_next]
        return list(node.next)

    def _check_graph(self, pipe: str) -> None:
        """Every successor exists and there is no cycle: a packet always comes out."""
        nodes, state = self.nodes[pipe], dict[str, int]()
        start = self.init[pipe]
        if start is None:
            return
        path = [start]
        while path:
            name = path[-1]
            if name not in nodes:
                fail(f"pipeline {pipe}: unknown node {name!r:.60}")
            if state.get(name) == 1:
                state[name] = 2
                path.pop()
                continue
            if state.get(name) == 2:
                path.pop()
                continue
            state[name] = 1
            for s in self.successors(nodes[name]):
                if s is None:
                    continue
                if state.get(s) == 1:
                    fail(f"pipeline {pipe}: the control flow has a loop through {s!r:.60}")
                if state.get(s) != 2:
                    path.append(s)
