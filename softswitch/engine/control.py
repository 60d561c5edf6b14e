"""The control plane of an engine: tables, profiles, arrays, replication.

Holds what was asked for, in the caller's terms, beside the packed form in C; reads are
answered from here, counts from C. Every method is called with the engine's lock held.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from softswitch.engine import native, tables
from softswitch.engine.program import Profile, Program, Table
from softswitch.engine.types import (
    ActionCall,
    ActionInfo,
    CounterValue,
    DuplicateEntry,
    Entry,
    Group,
    GroupMember,
    ImmutableEntry,
    InvalidValue,
    KeyInfo,
    MatchValue,
    Member,
    MemberRef,
    MeterRate,
    NoSuchAction,
    NoSuchEntry,
    NoSuchGroup,
    NoSuchMember,
    NoSuchObject,
    NoSuchProfile,
    NoSuchTable,
    OutOfRange,
    ProgramInfo,
    TableEntry,
    TableInfo,
)


class _TableState:
    def __init__(self, table: Table) -> None:
        self.table = table
        self.entries: dict[int, tuple[int, TableEntry]] = {}
        """handle -> (position in C, entry)"""
        self.keys: dict[tuple[Any, ...], int] = {}
        self.by_position: dict[int, int] = {}
        self.data_words = table.data_words
        self.default: Entry | None = None
        self.meters: dict[int, tuple[MeterRate, ...]] = {}


class _ProfileState:
    def __init__(self, profile: Profile, actions: list[Table]) -> None:
        self.profile = profile
        self.users = actions
        self.members: dict[int, Member] = {}
        self.groups: dict[int, Group] = {}


class Control:
    """Everything the control plane can do to one loaded program."""

    def __init__(self, program: Program, ffi: Any, lib: Any, sw: Any) -> None:
        self.program = program
        self.ffi, self.lib, self.sw = ffi, lib, sw
        self.tables = {name: _TableState(t) for name, t in program.tables.items()}
        self.profiles = {
            name: _ProfileState(p, [t for t in program.tables.values() if t.profile == p.index])
            for name, p in program.profiles.items()
        }
        self.meters: dict[tuple[str, int], tuple[MeterRate, ...]] = {}
        self.vsets: dict[str, list[int | tuple[int, int]]] = {}
        self.vset_widths: dict[str, list[int]] = {}
        self.mutable: frozenset[str] = frozenset()
        """Tables whose entries from the JSON may be changed."""
        self._handles = 0
        self.info = self._info()

    # -- helpers

    def words(self, values: Sequence[int]) -> Any:
        return self.ffi.new("uint64_t[]", list(values) or [0])

    def table(self, name: str) -> _TableState:
        t = self.tables.get(name)
        if t is None:
            raise NoSuchTable(f"no table '{name}'")
        return t

    def profile(self, name: str) -> _ProfileState:
        p = self.profiles.get(name)
        if p is None:
            raise NoSuchProfile(f"no action profile '{name}'")
        return p

    def _info(self) -> ProgramInfo:
        p = self.program
        names = list(p.profiles)
        meters = {m.index: m.name for m in p.meters.values()}
        infos = {}
        for t in p.tables.values():
            default = t.default_entry if isinstance(t.default_entry, dict) else {}
            infos[t.name] = TableInfo(
                t.name,
                tuple(KeyInfo(k.name, k.match, k.width) for k in t.key),
                t.declared,
                t.kind,
                tuple(ActionInfo(a.name, tuple(a.params)) for a in t.actions),
                t.max_size,
                names[t.profile] if t.profile >= 0 else None,
                t.with_counters,
                t.timeout,
                meters.get(t.meter),
                bool(t.entries),
                bool(default.get("action_const")),
            )
        return ProgramInfo(
            infos,
            {name: x.max_size for name, x in p.profiles.items()},
            frozenset(name for name, x in p.profiles.items() if x.selector is not None),
            {name: p.counter_sizes[i] for name, i in p.counters.items()},
            {name: (size, width) for name, (_, size, width) in p.registers.items()},
            {name: m.size for name, m in p.meters.items()},
        )

    def _target(self, t: Table, entry: Entry) -> tuple[int, int, int, list[int]]:
        """(kind, reference, action, data) of what an entry points at."""
        size = self.tables[t.name].data_words
        if isinstance(entry, ActionCall):
            if t.profile >= 0:
                raise NoSuchAction(
                    f"table '{t.name}' uses an action profile: give a member or group"
                )
            a = tables.find_action(t, entry)
            return native.KIND_ACTION, 0, a.index, tables.data_words(a, entry.args, size)
        if t.profile < 0:
            raise NoSuchAction(f"table '{t.name}' has no action profile: give an action")
        state = self.profiles[self.info.tables[t.name].profile or ""]
        if isinstance(entry, MemberRef):
            if entry.handle not in state.members:
                raise NoSuchMember(f"'{state.profile.name}' has no member {entry.handle}")
            return native.KIND_MEMBER, entry.handle, -1, [0] * size
        if t.kind != "indirect_ws":
            raise NoSuchGroup(f"'{state.profile.name}' is not a selector: it has no groups")
        if entry.handle not in state.groups:
            raise NoSuchGroup(f"'{state.profile.name}' has no group {entry.handle}")
        return native.KIND_GROUP, entry.handle, -1, [0] * size

    # -- program's own entries

    def install(self) -> None:
        """Default and const entries of the JSON."""
        for state in self.tables.values():
            t = state.table
            self.table_reset_default(state)
            top = max([e.get("priority", 0) for e in t.entries if isinstance(e, dict)], default=0)
            for e in t.entries:
                match, action, args, priority = tables.const_entry(t, e)
                call = ActionCall(action.name, tuple(args))
                self.table_add(
                    t.name,
                    match,
                    call,
                    top + 1 - priority if t.match == "ternary" else 0,
                    0,
                    t.name not in self.mutable,
                )

    def table_reset_default(self, state: _TableState) -> None:
        t = state.table
        if isinstance(t.default_entry, dict) and t.default_entry.get("action_id") is not None:
            if t.profile >= 0:
                return  # bmv2 does not honour it on such tables
            a, args = tables.action_data(t, t.default_entry, f"table '{t.name}': default_entry")
            data = tables.data_words(a, args, t.data_words)
            rc = self.lib.mrc_default_set(self.sw, t.index, 0, 0, a.index, self.words(data))
            state.default = ActionCall(a.name, tuple(args))
        else:
            data = [0] * t.data_words
            rc = self.lib.mrc_default_set(self.sw, t.index, 0, 0, -1, self.words(data))
            state.default = None
        if rc < 0:
            native.throw(rc, f"table '{t.name}': default entry")

    # -- tables

    def table_add(
        self,
        name: str,
        match: Sequence[MatchValue],
        action: Entry,
        priority: int,
        ttl_ns: int,
        const: bool = False,
    ) -> int:
        state = self.table(name)
        t = state.table
        if t.entries and not const and name not in self.mutable:
            raise ImmutableEntry(f"table '{name}' has const entries only")
        if not -(1 << 31) <= priority < 1 << 31:
            raise InvalidValue(f"table '{name}': priority {priority} does not fit into 32 bits")
        norm = tables.normalise(t, match)
        if t.match != "ternary":
            priority = 0
        ident = tables.identity(t, norm, priority)
        if ident in state.keys:
            raise DuplicateEntry(f"table '{name}': an entry with this key exists")
        kind, ref, act, data = self._target(t, action)
        key, mask, plen = tables.key_words(t, norm)
        rc = self.lib.mrc_entry_add(
            self.sw, t.index, self.words(key), self.words(mask), plen, priority,
            kind, ref, act, self.words(data), ttl_ns, const,
        )  # fmt: skip
        if rc < 0:
            native.throw(rc, f"table '{name}' ({len(state.entries)} of {t.max_size} entries)")
        handle = self._handles
        self._handles += 1
        state.entries[handle] = (rc, TableEntry(handle, norm, action, priority, const))
        state.keys[ident] = handle
        state.by_position[rc] = handle
        return handle

    def entry(self, state: _TableState, handle: int) -> tuple[int, TableEntry]:
        found = state.entries.get(handle)
        if found is None:
            raise NoSuchEntry(f"table '{state.table.name}': no entry {handle}")
        return found

    def table_modify(self, name: str, handle: int, action: Entry, ttl_ns: int) -> None:
        state = self.table(name)
        position, old = self.entry(state, handle)
        if old.const:
            raise ImmutableEntry(f"table '{name}': const entries cannot be changed")
        kind, ref, act, data = self._target(state.table, action)
        rc = self.lib.mrc_entry_modify(
            self.sw, state.table.index, position, kind, ref, act, self.words(data), ttl_ns
        )
        if rc < 0:
            native.throw(rc, f"table '{name}', entry {handle}")
        state.entries[handle] = (
            position,
            TableEntry(handle, old.match, action, old.priority, old.const),
        )

    def table_delete(self, name: str, handle: int) -> None:
        state = self.table(name)
        position, old = self.entry(state, handle)
        if old.const:
            raise ImmutableEntry(f"table '{name}': const entries cannot be deleted")
        rc = self.lib.mrc_entry_delete(self.sw, state.table.index, position)
        if rc < 0:
            native.throw(rc, f"table '{name}', entry {handle}")
        del state.entries[handle]
        del state.keys[tables.identity(state.table, old.match, old.priority)]
        del state.by_position[position]
        state.meters.pop(handle, None)

    def table_set_default(self, name: str, action: Entry | None) -> None:
        state = self.table(name)
        t = state.table
        given = t.default_entry if isinstance(t.default_entry, dict) else {}
        if action is None:
            self.table_reset_default(state)
            return
        if given.get("action_entry_const") and action != state.default:
            raise ImmutableEntry(f"table '{name}': the default entry is const")
        if given.get("action_const") and (
            not isinstance(action, ActionCall)
            or not isinstance(state.default, ActionCall)
            or action.name != state.default.name
        ):
            raise ImmutableEntry(f"table '{name}': the default action is const")
        kind, ref, act, data = self._target(t, action)
        rc = self.lib.mrc_default_set(self.sw, t.index, kind, ref, act, self.words(data))
        if rc < 0:
            native.throw(rc, f"table '{name}': default entry")
        state.default = action

    # -- profiles

    def _member_action(self, state: _ProfileState, call: ActionCall) -> tuple[int, list[int]]:
        for t in state.users:
            for a in t.actions:
                if a.name == call.name:
                    return a.index, tables.data_words(a, call.args, state.profile.data_words)
        raise NoSuchAction(f"action profile '{state.profile.name}': no action '{call.name}'")

    def member_add(self, profile: str, call: ActionCall) -> int:
        state = self.profile(profile)
        act, data = self._member_action(state, call)
        rc = int(self.lib.mrc_member_add(self.sw, state.profile.index, act, self.words(data)))
        if rc < 0:
            native.throw(rc, f"action profile '{profile}' (size {state.profile.max_size})")
        state.members[rc] = Member(rc, call)
        return rc

    def member_modify(self, profile: str, member: int, call: ActionCall) -> None:
        state = self.profile(profile)
        if member not in state.members:
            raise NoSuchMember(f"'{profile}' has no member {member}")
        act, data = self._member_action(state, call)
        rc = self.lib.mrc_member_modify(self.sw, state.profile.index, member, act, self.words(data))
        if rc < 0:
            native.throw(rc, f"action profile '{profile}', member {member}")
        state.members[member] = Member(member, call)

    def member_delete(self, profile: str, member: int) -> None:
        state = self.profile(profile)
        if member not in state.members:
            raise NoSuchMember(f"'{profile}' has no member {member}")
        rc = self.lib.mrc_member_delete(self.sw, state.profile.index, member)
        if rc < 0:
            native.throw(rc, f"action profile '{profile}', member {member}")
        del state.members[member]

    def group_create(self, profile: str, max_size: int) -> int:
        state = self.profile(profile)
        if not 0 <= max_size < 1 << 32:
            raise InvalidValue(f"'{profile}': group size {max_size} is not 0..2^32-1")
        rc = int(self.lib.mrc_group_new(self.sw, state.profile.index, max_size))
        if rc < 0:
            native.throw(rc, f"action profile '{profile}' is not a selector")
        state.groups[rc] = Group(rc, (), max_size)
        return rc

    def group_set_members(self, profile: str, group: int, members: Sequence[GroupMember]) -> None:
        state = self.profile(profile)
        if group not in state.groups:
            raise NoSuchGroup(f"'{profile}' has no group {group}")
        for m in members:
            if m.member not in state.members:
                raise NoSuchMember(f"'{profile}' has no member {m.member}")
            if not 0 < m.weight <= 1 << 20:
                raise InvalidValue(f"'{profile}': weight {m.weight} is not 1..{1 << 20}")
            if m.watch_port is not None and not 0 <= m.watch_port < 1 << 31:
                raise InvalidValue(f"'{profile}': watch port {m.watch_port} is out of range")
        if len({m.member for m in members}) != len(members):
            raise DuplicateEntry(f"'{profile}': a member is twice in group {group}")
        new = self.ffi.new
        rc = self.lib.mrc_group_set(
            self.sw,
            state.profile.index,
            group,
            len(members),
            new("uint32_t[]", [m.member for m in members] or [0]),
            new("uint32_t[]", [m.weight for m in members] or [0]),
            new(
                "int32_t[]", [-1 if m.watch_port is None else m.watch_port for m in members] or [0]
            ),
        )
        if rc < 0:
            native.throw(rc, f"action profile '{profile}', group {group}")
        old = state.groups[group]
        state.groups[group] = Group(group, tuple(members), old.max_size)

    def group_delete(self, profile: str, group: int) -> None:
        state = self.profile(profile)
        if group not in state.groups:
            raise NoSuchGroup(f"'{profile}' has no group {group}")
        rc = self.lib.mrc_group_delete(self.sw, state.profile.index, group)
        if rc < 0:
            native.throw(rc, f"action profile '{profile}', group {group}")
        del state.groups[group]

    # -- arrays

    def counter_read(self, name: str, first: int, n: int | None) -> list[CounterValue]:
        index = self.program.counters.get(name)
        if index is None:
            raise NoSuchObject(f"no counter '{name}'")
        size = self.program.counter_sizes[index]
        n = size if n is None else n
        if first < 0 or first + n > size:
            raise OutOfRange(f"counter '{name}': index {first} is not 0..{size - 1}")
        pkts = self.ffi.new("uint64_t[]", n or 1)
        byte = self.ffi.new("uint64_t[]", n or 1)
        rc = self.lib.mrc_counter_read(self.sw, index, first, n, pkts, byte)
        if rc < 0:
            native.throw(rc, f"counter '{name}'")
        return [CounterValue(int(pkts[i]), int(byte[i])) for i in range(n)]

    def counter_write(self, name: str, index: int, value: CounterValue) -> None:
        array = self.program.counters.get(name)
        if array is None:
            raise NoSuchObject(f"no counter '{name}'")
        if not 0 <= index < self.program.counter_sizes[array]:
            raise OutOfRange(f"counter '{name}': no index {index}")
        rc = self.lib.mrc_counter_write(
            self.sw, array, index, value.packets & tables.M64, value.bytes & tables.M64
        )
        if rc < 0:
            native.throw(rc, f"counter '{name}'")

    def _position(self, state: _TableState, handle: int | None) -> int:
        return native.NIL if handle is None else self.entry(state, handle)[0]

    def direct_counter(self, table: str, handle: int | None) -> CounterValue:
        state = self.table(table)
        if not state.table.with_counters:
            raise NoSuchObject(f"table '{table}' has no direct counter")
        out = self.ffi.new("struct mrc_entry *")
        position = self._position(state, handle)
        rc = self.lib.mrc_entry_get(self.sw, state.table.index, position, out)
        if rc < 0:
            native.throw(rc, f"table '{table}'")
        return CounterValue(int(out.pkts), int(out.bytes))

    def direct_counter_write(self, table: str, handle: int | None, v: CounterValue) -> None:
        state = self.table(table)
        if not state.table.with_counters:
            raise NoSuchObject(f"table '{table}' has no direct counter")
        rc = self.lib.mrc_entry_count_set(
            self.sw, state.table.index, self._position(state, handle),
            v.packets & tables.M64, v.bytes & tables.M64,
        )  # fmt: skip
        if rc < 0:
            native.throw(rc, f"table '{table}'")

    def idle_ns(self, table: str, handle: int) -> int:
        """Nanoseconds since the entry was last matched."""
        state = self.table(table)
        out = self.ffi.new("struct mrc_entry *")
        rc = self.lib.mrc_entry_get(self.sw, state.table.index, self.entry(state, handle)[0], out)
        if rc < 0:
            native.throw(rc, f"table '{table}'")
        return int(out.idle)

    def _register(self, name: str, index: int | None) -> tuple[int, int, int]:
        found = self.program.registers.get(name)
        if found is None:
            raise NoSuchObject(f"no register '{name}'")
        if index is not None and not 0 <= index < found[1]:
            raise OutOfRange(f"register '{name}': index {index} is not 0..{found[1] - 1}")
        return found

    def register_read(self, name: str, first: int, n: int | None) -> list[int]:
        array, size, width = self._register(name, first if n else None)
        n = size if n is None else n
        words = (width + 63) // 64
        out = self.ffi.new("uint64_t[]", n * words or 1)
        rc = self.lib.mrc_register_read(self.sw, array, first, n, out)
        if rc < 0:
            native.throw(rc, f"register '{name}'")
        flat = self.ffi.unpack(out, n * words) if n else []
        if words == 1:
            return [int(x) for x in flat]
        return [tables.join(flat[i : i + words]) for i in range(0, n * words, words)]

    def register_write(self, name: str, index: int, value: int) -> None:
        array, _, width = self._register(name, index)
        if value < 0 or value >> width:
            raise InvalidValue(f"register '{name}': {value} does not fit into {width} bits")
        words = self.words(tables.split(value, (width + 63) // 64))
        rc = self.lib.mrc_register_write(self.sw, array, index, words)
        if rc < 0:
            native.throw(rc, f"register '{name}'")

    def _rates(self, what: str, rates: Sequence[MeterRate] | None, want: int) -> tuple[Any, ...]:
        rates = list(rates or ())
        if rates and len(rates) != want:
            raise InvalidValue(f"{what}: {want} rates expected, got {len(rates)}")
        for a, b in itertools.pairwise(rates):
            if a.rate > b.rate:
                raise InvalidValue(f"{what}: the committed rate is above the peak rate")
        if any(r.rate < 0 or not 0 <= r.burst <= tables.M64 for r in rates):
            raise InvalidValue(f"{what}: a rate or burst is out of range")
        return (
            len(rates),
            self.ffi.new("double[]", [r.rate / 1e6 for r in rates] or [0.0]),
            self.ffi.new("uint64_t[]", [r.burst for r in rates] or [0]),
        )

    def meter_set(self, name: str, index: int, rates: Sequence[MeterRate] | None, now: int) -> None:
        m = self.program.meters.get(name)
        if m is None or m.direct:
            raise NoSuchObject(f"no meter '{name}'")
        if not 0 <= index < m.size:
            raise OutOfRange(f"meter '{name}': index {index} is not 0..{m.size - 1}")
        args = self._rates(f"meter '{name}'", rates, m.rates)
        rc = self.lib.mrc_meter_set(self.sw, m.index, index, *args, now)
        if rc < 0:
            native.throw(rc, f"meter '{name}'")
        if rates:
            self.meters[name, index] = tuple(rates)
        else:
            self.meters.pop((name, index), None)

    def meter_get(self, name: str, index: int) -> tuple[MeterRate, ...] | None:
        m = self.program.meters.get(name)
        if m is None or m.direct:
            raise NoSuchObject(f"no meter '{name}'")
        if not 0 <= index < m.size:
            raise OutOfRange(f"meter '{name}': index {index} is not 0..{m.size - 1}")
        return self.meters.get((name, index))

    def direct_meter_set(
        self, table: str, handle: int, rates: Sequence[MeterRate] | None, now: int
    ) -> None:
        state = self.table(table)
        if state.table.meter < 0:
            raise NoSuchObject(f"table '{table}' has no direct meter")
        m = list(self.program.meters.values())[state.table.meter]
        args = self._rates(f"table '{table}': meter", rates, m.rates)
        position, _ = self.entry(state, handle)
        rc = self.lib.mrc_entry_meter_set(self.sw, state.table.index, position, *args, now)
        if rc < 0:
            native.throw(rc, f"table '{table}': meter")
        if rates:
            state.meters[handle] = tuple(rates)
        else:
            state.meters.pop(handle, None)

    def direct_meter_get(self, table: str, handle: int) -> tuple[MeterRate, ...] | None:
        state = self.table(table)
        if state.table.meter < 0:
            raise NoSuchObject(f"table '{table}' has no direct meter")
        self.entry(state, handle)
        return state.meters.get(handle)

    def value_set_set(self, name: str, values: Sequence[int | tuple[int, int]]) -> None:
        """Values, or (value, mask); without padding: the key parts' bits back to back."""
        found = self.program.vsets.get(name)
        if found is None:
            raise NoSuchObject(f"no value set '{name}'")
        index, bits = found
        widths = self.vset_widths.get(name, [bits])
        flat: list[int] = []
        for item in values:
            pair = item if isinstance(item, tuple) else (item, (1 << bits) - 1)
            for v in pair:
                if v < 0 or v >> bits:
                    raise InvalidValue(f"value set '{name}': {v} does not fit into {bits} bits")
                words: list[int] = []
                left = v
                for w in reversed(widths):
                    words = tables.split(left & (1 << w) - 1, (w + 63) // 64) + words
                    left >>= w
                flat += words
        rc = self.lib.mrc_vset_set(self.sw, index, len(values), self.words(flat))
        if rc < 0:
            native.throw(rc, f"value set '{name}'")
        self.vsets[name] = list(values)

    def value_set_get(self, name: str) -> list[int | tuple[int, int]]:
        if name not in self.program.vsets:
            raise NoSuchObject(f"no value set '{name}'")
        return list(self.vsets.get(name, ()))


__all__ = ["Control"]
