"""Entries of one table: validation and writing; reading is in `entries`.

The store mirrors what P4Runtime put into the engine (and the entries the program came
with), because the engine knows neither client ids nor metadata. Everything is validated
before the engine is called, so a refused update changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from p4.v1 import p4runtime_pb2

from softswitch.engine import Engine
from softswitch.engine.types import (
    ActionCall,
    CounterValue,
    Entry,
    GroupRef,
    MemberRef,
)
from softswitch.p4rt import wire
from softswitch.p4rt.entries import EntryRec, Resources, State, TableReader, count
from softswitch.p4rt.journal import Journal
from softswitch.p4rt.matching import Key
from softswitch.p4rt.meters import refuse_color_counters, to_rates
from softswitch.p4rt.profiles import OneShot, ProfileStore
from softswitch.p4rt.schema import TableSpec
from softswitch.p4rt.status import Code, P4RTError, invalid, not_found, unimplemented

INSERT, MODIFY, DELETE = 1, 2, 3


class TableStore(TableReader):
    """One table."""

    def __init__(
        self,
        spec: TableSpec,
        engine: Engine,
        profile: ProfileStore | None,
        journal: Journal | None = None,
    ) -> None:
        super().__init__(spec, engine, profile)
        self._journal = journal or Journal()
        self.default_changed = False
        self.initial: frozenset[Key] = frozenset()
        """Keys of entries that the program came with and clients may change."""
        self._reset_default()
        self._load_initial()

    # -- what the program came with
    def _reset_default(self) -> None:
        self.default_changed = False
        self.default = EntryRec(0, wire.NO_ACTION, 0)
        if self.spec.initial_default is not None:
            self.default.kind = wire.ACTION
            self.default.target = self.spec.initial_default[1]

    def _load_initial(self) -> None:
        if not (self.spec.has_initial_entries or self.spec.is_const):
            return
        for entry in self._engine.table_entries(self.spec.name):
            key = self.spec.key.from_engine(entry.match, entry.priority)
            if not isinstance(entry.action, ActionCall):
                continue
            record = EntryRec(entry.handle, wire.ACTION, entry.action)
            record.const = entry.const or self.spec.is_const
            self.entries[key] = record
        self.initial = frozenset(key for key, item in self.entries.items() if not item.const)

    def drop_initial(self, before: TableStore) -> None:
        """Delete initial entries that `before` (of the pipeline before) knows or knew."""
        for key in self.initial:
            if key in before.initial or key in before.entries:
                self._remove(key)

    # -- writing
    def write(self, update_type: int, raw: wire.RawEntry) -> None:
        """Apply one update; P4RTError when it is refused."""
        if raw.is_const:
            raise invalid(f"table {self.spec.name}: is_const cannot be set by a client")
        if raw.is_default_action:
            self._write_default(update_type, raw)
        elif update_type == INSERT:
            self._insert(raw)
        elif update_type == MODIFY:
            self._modify(raw)
        else:
            self._delete(raw)

    def _insert(self, raw: wire.RawEntry) -> None:
        spec = self.spec
        if spec.is_const:
            raise P4RTError(Code.PERMISSION_DENIED, f"table {spec.name}: its entries are const")
        if not spec.key.fields:
            raise invalid(f"table {spec.name}: has no key, only a default entry")
        key = spec.key.key(raw.match, raw.priority)
        if key in self.entries:
            raise P4RTError(Code.ALREADY_EXISTS, f"table {spec.name}: the entry exists")
        if raw.action_kind == wire.NO_ACTION:
            raise invalid(f"table {spec.name}: an action is needed")
        resources = self._resources(raw)
        kind, target = self._target(raw)
        record = EntryRec(0, kind, target)
        record.controller_metadata = raw.controller_metadata
        record.metadata = raw.metadata
        record.idle_timeout_ns = raw.idle_timeout_ns
        try:
            self._add(key, record)
        except Exception:
            self._drop_oneshot(target)
            raise
        if resources is not None:
            self._set_resources(record, resources, insert=True)
        if self._journal.active:
            self._journal.note(lambda: self._remove(key))

    def _add(self, key: Key, record: EntryRec) -> None:
        """Put a record into the engine and the store."""
        spec = self.spec
        record.handle = self._engine.table_add(
            spec.name,
            spec.key.match_values(key),
            self._entry(record.kind, record.target),
            key[-1],
            record.idle_timeout_ns,
        )
        self.entries[key] = record
        self._use(record.kind, record.target, 1)

    def _remove(self, key: Key) -> None:
        record = self.entries[key]
        self._engine.table_delete(self.spec.name, record.handle)
        del self.entries[key]
        self._use(record.kind, record.target, -1)
        self._drop_oneshot(record.target)

    def _modify(self, raw: wire.RawEntry) -> None:
        spec = self.spec
        key = spec.key.key(raw.match, raw.priority)
        record = self.entries.get(key)
        if record is None:
            raise not_found(f"table {spec.name}: there is no such entry")
        if record.const and raw.action_kind != wire.NO_ACTION:
            raise P4RTError(Code.PERMISSION_DENIED, f"table {spec.name}: the entry is const")
        resources = self._resources(raw)
        noting = self._journal.active
        before = self._state(record) if noting else None
        if raw.action_kind != wire.NO_ACTION:
            kind, target = self._target(raw)
            old_kind, old_target = record.kind, record.target
            try:
                self._engine.table_modify(
                    spec.name, record.handle, self._entry(kind, target), raw.idle_timeout_ns
                )
            except Exception:
                self._drop_oneshot(target)
                raise
            self._use(kind, target, 1)
            self._use(old_kind, old_target, -1)
            record.kind, record.target = kind, target
            self._drop_oneshot(old_target)
        elif raw.idle_timeout_ns != record.idle_timeout_ns and not record.const:
            same = self._entry(record.kind, record.target)
            self._engine.table_modify(spec.name, record.handle, same, raw.idle_timeout_ns)
        if not record.const:
            record.controller_metadata = raw.controller_metadata
            record.metadata = raw.metadata
            record.idle_timeout_ns = raw.idle_timeout_ns
        record.encoded = None
        if resources is not None:
            self._set_resources(record, resources)
        if before is not None:
            self._journal.note(lambda: self._restore(record, before))

    def _delete(self, raw: wire.RawEntry) -> None:
        spec = self.spec
        key = spec.key.key(raw.match, raw.priority)
        record = self.entries.get(key)
        if spec.is_const or (record is not None and record.const):
            raise P4RTError(Code.PERMISSION_DENIED, f"table {spec.name}: the entry is const")
        if record is None:
            raise not_found(f"table {spec.name}: there is no such entry")
        before = self._state(record) if self._journal.active else None
        self._remove(key)
        if before is not None:
            self._journal.note(lambda: self._reinstate(key, record, before))

    def _write_default(self, update_type: int, raw: wire.RawEntry) -> None:
        spec = self.spec
        if update_type != MODIFY:
            raise invalid(f"table {spec.name}: the default entry can only be modified")
        if raw.match or raw.priority:
            raise invalid(f"table {spec.name}: the default entry has no match and no priority")
        if raw.idle_timeout_ns or raw.time_since_last_hit is not None:
            raise invalid(f"table {spec.name}: the default entry has no idle timeout")
        if raw.meter_config is not None and spec.direct_meter:
            raise unimplemented(f"table {spec.name}: the default entry has no direct meter")
        resources = self._resources(raw)
        counter = None if resources is None else resources.counter
        fixed = spec.const_default or self._profile is not None
        if fixed and (raw.action_kind != wire.NO_ACTION or counter is None):
            why = "is const" if spec.const_default else "of a table with an action profile is const"
            raise P4RTError(Code.PERMISSION_DENIED, f"table {spec.name}: its default entry {why}")
        record = self.default
        if raw.action_kind != wire.NO_ACTION:
            if not isinstance(raw.action, wire.RawAction):
                raise invalid(f"table {spec.name}: the default entry needs an action")
            call = spec.decode_action(raw.action, default=True)
            record = EntryRec(0, wire.ACTION, call)
            record.controller_metadata = raw.controller_metadata
            record.metadata = raw.metadata
        before = self._default_state() if self._journal.active else None
        if record is not self.default:
            self._engine.table_set_default(spec.name, record.target)  # type: ignore[arg-type]
            self.default = record
            self.default_changed = True
        elif not fixed:
            self._engine.table_set_default(spec.name, None)
            self._reset_default()
            if spec.direct_counter and counter is None:
                counter = CounterValue(0, 0)
        if counter is not None:
            self._engine.direct_counter_write(spec.name, None, counter)
        if before is not None:
            self._journal.note(before)

    # -- taking back
    def _state(self, record: EntryRec) -> State:
        name, handle = self.spec.name, record.handle
        counter = rates = None
        if self.spec.direct_counter:
            counter = self._engine.direct_counter_read(name, handle)
        if self.spec.direct_meter:
            rates = self._engine.direct_meter_get(name, handle)
        return State(
            record.kind,
            record.target,
            record.controller_metadata,
            record.metadata,
            record.idle_timeout_ns,
            Resources(counter, rates),
        )

    def _restore(self, record: EntryRec, state: State) -> None:
        """Make an entry what it was."""
        new = record.target
        if state.target is not new:
            self._revive_oneshot(state.target)
            self._use(state.kind, state.target, 1)
            self._use(record.kind, new, -1)
        record.kind, record.target = state.kind, state.target
        if not record.const:
            entry = self._entry(state.kind, state.target)
            self._engine.table_modify(self.spec.name, record.handle, entry, state.idle_timeout_ns)
        if state.target is not new:
            self._drop_oneshot(new)
        self._remember(record, state)

    def _reinstate(self, key: Key, record: EntryRec, state: State) -> None:
        """Bring a deleted entry back."""
        self._revive_oneshot(state.target)
        self._add(key, record)
        self._remember(record, state)

    def _remember(self, record: EntryRec, state: State) -> None:
        record.controller_metadata = state.controller_metadata
        record.metadata = state.metadata
        record.idle_timeout_ns = state.idle_timeout_ns
        record.encoded = None
        self._set_resources(record, state.resources)

    def _default_state(self) -> Callable[[], None]:
        record, changed = self.default, self.default_changed
        name = self.spec.name
        count = self._engine.direct_counter_read(name, None) if self.spec.direct_counter else None

        def restore() -> None:
            if not (self.spec.const_default or self._profile is not None):
                target = record.target if changed else None
                self._engine.table_set_default(name, target)  # type: ignore[arg-type]
            self.default, self.default_changed = record, changed
            if count is not None:
                self._engine.direct_counter_write(name, None, count)

        return restore

    # -- parts of an update
    def _target(self, raw: wire.RawEntry) -> tuple[int, ActionCall | int | OneShot]:
        spec, profile, kind = self.spec, self._profile, raw.action_kind
        action = raw.action
        if kind == wire.ACTION:
            if profile is not None:
                raise invalid(
                    f"table {spec.name}: has an action profile: needs a member, group or action set"
                )
            return kind, spec.decode_action(action)  # type: ignore[arg-type]
        if profile is None:
            raise invalid(f"table {spec.name}: has no action profile: needs an action")
        if kind == wire.ACTION_SET:
            return kind, profile.oneshot_create(spec, action)  # type: ignore[arg-type]
        if profile.oneshots:
            raise invalid(
                f"{profile.spec.name}: has one-shot entries; members and groups cannot be mixed in"
            )
        if kind == wire.MEMBER:
            if action not in profile.members:
                raise not_found(f"table {spec.name}: there is no member {action!r}")
            return kind, action  # type: ignore[return-value]
        if not profile.spec.selector:
            raise invalid(f"table {spec.name}: its profile has no selector: no groups")
        if action not in profile.groups:
            raise not_found(f"table {spec.name}: there is no group {action!r}")
        return kind, action  # type: ignore[return-value]

    def _entry(self, kind: int, target: ActionCall | int | OneShot) -> Entry:
        if isinstance(target, ActionCall):
            return target
        profile = self._profile
        if profile is None:
            raise invalid(f"table {self.spec.name}: has no action profile")
        if isinstance(target, OneShot):
            return GroupRef(target.group)
        if kind == wire.MEMBER:
            return MemberRef(profile.members[target].handle)
        return GroupRef(profile.groups[target].handle)

    def _use(self, kind: int, target: ActionCall | int | OneShot, by: int) -> None:
        if isinstance(target, int) and self._profile is not None:
            if kind == wire.MEMBER:
                self._profile.members[target].users += by
            elif kind == wire.GROUP:
                self._profile.groups[target].users += by

    def _drop_oneshot(self, target: ActionCall | int | OneShot) -> None:
        if isinstance(target, OneShot) and self._profile is not None:
            self._profile.oneshot_delete(target)

    def _revive_oneshot(self, target: ActionCall | int | OneShot) -> None:
        if isinstance(target, OneShot) and self._profile is not None:
            self._profile.oneshot_revive(target)

    def _resources(self, raw: wire.RawEntry) -> Resources | None:
        """The direct resources an update sets, checked; None when the table has none."""
        spec = self.spec
        if raw.idle_timeout_ns or raw.time_since_last_hit is not None:
            if not spec.idle_timeout:
                raise invalid(f"table {spec.name}: has no idle timeout")
            if raw.time_since_last_hit is not None:
                raise invalid(f"table {spec.name}: time_since_last_hit is read-only")
            if raw.idle_timeout_ns < 0:
                raise invalid(f"table {spec.name}: idle_timeout_ns is negative")
        counter = rates = None
        if raw.counter_data is not None:
            if not spec.direct_counter:
                raise invalid(f"table {spec.name}: has no direct counter; counter_data is set")
            counter = count(*wire.decode_counter_data(raw.counter_data), f"table {spec.name}")
        if raw.meter_config is not None:
            if not spec.direct_meter:
                raise invalid(f"table {spec.name}: has no direct meter; meter_config is set")
            try:
                config = p4runtime_pb2.MeterConfig.FromString(raw.meter_config)
            except Exception:
                raise invalid(f"table {spec.name}: malformed meter_config") from None
            rates = to_rates(config, f"table {spec.name}: meter_config", spec.meter_kind)
        if raw.meter_counter_data is not None:
            if not spec.direct_meter:
                raise invalid(f"table {spec.name}: has no direct meter; meter_counter_data is set")
            refuse_color_counters(True, f"table {spec.name}")
        return Resources(counter, rates) if spec.direct_counter or spec.direct_meter else None

    def _set_resources(self, record: EntryRec, resources: Resources, insert: bool = False) -> None:
        name = self.spec.name
        if resources.counter is not None:
            self._engine.direct_counter_write(name, record.handle, resources.counter)
        if self.spec.direct_meter and not (insert and resources.rates is None):
            self._engine.direct_meter_set(name, record.handle, resources.rates)
