"""Entries of one table as the store knows them, and reading them.

A key is what `matching` makes of a match and priority; None stands for the default entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from softswitch.engine import Engine
from softswitch.engine.types import ActionCall, CounterValue, MeterRate
from softswitch.p4rt import wire
from softswitch.p4rt.matching import Key
from softswitch.p4rt.meters import from_rates, refuse_color_counters
from softswitch.p4rt.profiles import OneShot, ProfileStore
from softswitch.p4rt.schema import TableSpec
from softswitch.p4rt.status import invalid, not_found

MAX_COUNT = (1 << 63) - 1


class Resources(NamedTuple):
    """Direct resources that an update sets: None leaves the counter, makes the meter green."""

    counter: CounterValue | None
    rates: tuple[MeterRate, ...] | None


class EntryRec:
    """An entry: `target` is an ActionCall, a member or group id, or a OneShot."""

    __slots__ = (
        "const",
        "controller_metadata",
        "encoded",
        "handle",
        "idle_timeout_ns",
        "kind",
        "metadata",
        "target",
    )

    def __init__(self, handle: int, kind: int, target: ActionCall | int | OneShot) -> None:
        self.handle = handle
        self.kind = kind
        self.target = target
        self.controller_metadata = 0
        self.metadata = b""
        self.idle_timeout_ns = 0
        self.const = False
        self.encoded: bytes | None = None


class State(NamedTuple):
    """What an update can change of an entry."""

    kind: int
    target: ActionCall | int | OneShot
    controller_metadata: int
    metadata: bytes
    idle_timeout_ns: int
    resources: Resources


class TableReader:
    """The reading half of a table."""

    def __init__(self, spec: TableSpec, engine: Engine, profile: ProfileStore | None) -> None:
        self.spec = spec
        self._engine = engine
        self._profile = profile
        self.entries: dict[Key, EntryRec] = {}
        self.default = EntryRec(0, wire.NO_ACTION, 0)

    # -- single entries
    def record(self, raw: wire.RawEntry) -> EntryRec:
        """The entry with exactly this key, or the default; NOT_FOUND if there is none."""
        if raw.is_default_action:
            return self.default
        record = self.entries.get(self.spec.key.key(raw.match, raw.priority))
        if record is None:
            raise not_found(f"table {self.spec.name}: there is no such entry")
        return record

    def put_counter(self, record: EntryRec, value: CounterValue) -> None:
        """Set the direct counter of an entry, or of the default."""
        self._engine.direct_counter_write(self.spec.name, self.handle(record), value)

    def put_meter(self, record: EntryRec, rates: tuple[MeterRate, ...] | None) -> None:
        """Set the direct meter of an entry; None makes every packet green."""
        self._engine.direct_meter_set(self.spec.name, record.handle, rates)

    def handle(self, record: EntryRec) -> int | None:
        """Engine handle; None for the default entry."""
        return None if record is self.default else record.handle

    # -- reading
    def read(self, raw: wire.RawEntry) -> Iterator[bytes]:
        """Bodies of Entity for the entries that `raw` selects."""
        spec = self.spec
        idle = raw.time_since_last_hit is not None and spec.idle_timeout
        asked = raw.table_id and raw.time_since_last_hit is not None
        if asked and (not spec.idle_timeout or raw.is_default_action):
            raise invalid(f"table {spec.name}: has no idle timeout")
        refuse_color_counters(raw.meter_counter_data is not None, f"table {spec.name}")
        for key, record in self.select(raw):
            body = self.encode(key, record)
            if raw.counter_data is not None and spec.direct_counter:
                value = self._engine.direct_counter_read(spec.name, self.handle(record))
                body += wire.field_bytes(7, wire.counter_data(value.packets, value.bytes))
            if raw.meter_config is not None and spec.direct_meter and key is not None:
                rates = self._engine.direct_meter_get(spec.name, record.handle)
                if rates:
                    body += wire.field_bytes(6, from_rates(rates).SerializeToString())
            if idle and key is not None:
                elapsed = max(0, self._engine.entry_idle_ns(spec.name, record.handle))
                body += wire.field_bytes(10, wire.field_varint(1, elapsed))
            yield wire.field_bytes(2, body)

    def select(self, raw: wire.RawEntry) -> Iterator[tuple[Key | None, EntryRec]]:
        """(key, record) of the entries a read request selects; key None: the default."""
        if raw.action_kind not in (wire.NO_ACTION, wire.ACTION):
            raise invalid(
                f"table {self.spec.name}: entries can be selected by action id, not by member, "
                "group or action set"
            )
        if raw.is_default_action:
            if raw.match or raw.priority:
                raise invalid(
                    f"table {self.spec.name}: the default entry has no match and no priority"
                )
            if self._wanted(raw, None, self.default):
                yield None, self.default
            return
        codec = self.spec.key
        if raw.match and (raw.priority or not codec.needs_priority):
            key = codec.key(raw.match, raw.priority)
            record = self.entries.get(key)
            if record is not None and self._wanted(raw, key, record):
                yield key, record
            return
        match = tuple(codec.decode(raw.match)) if raw.match else None
        for key, record in list(self.entries.items()):
            if match is not None and key[:-1] != match:
                continue
            if self._wanted(raw, key, record):
                yield key, record

    def _wanted(self, raw: wire.RawEntry, key: Key | None, record: EntryRec) -> bool:
        if raw.priority and key is not None and key[-1] != raw.priority:
            return False
        if raw.controller_metadata and record.controller_metadata != raw.controller_metadata:
            return False
        if raw.metadata and record.metadata != raw.metadata:
            return False
        if isinstance(raw.action, wire.RawAction) and raw.action.action_id:
            action = self.spec.actions.get(raw.action.action_id)
            if action is None:
                raise invalid(
                    f"table {self.spec.name}: action id {raw.action.action_id} "
                    "is not one of its actions"
                )
            return isinstance(record.target, ActionCall) and record.target.name == action.name
        return True

    def idle_entries(self, handles: Iterable[int]) -> list[bytes]:
        """Bodies of TableEntry for an IdleTimeoutNotification; unknown handles are left out."""
        by_handle = {record.handle: key for key, record in self.entries.items()}
        keys = [by_handle[handle] for handle in handles if handle in by_handle]
        return [self.encode(key, self.entries[key]) for key in keys]

    def encode(self, key: Key | None, record: EntryRec) -> bytes:
        """Body of TableEntry without direct resources; kept for the next read."""
        if record.encoded is not None:
            return record.encoded
        spec = self.spec
        parts = [wire.field_varint(1, spec.id)]
        if key is not None:
            parts.append(spec.key.encode(key))
        action = self._encode_action(record)
        if action:
            parts.append(wire.field_bytes(3, action))
        if key is not None:
            parts.append(wire.field_varint(4, key[-1]))
        parts.append(wire.field_varint(5, record.controller_metadata))
        if key is None:
            parts.append(wire.field_varint(8, 1))
        parts.append(wire.field_varint(9, record.idle_timeout_ns))
        if record.metadata:
            parts.append(wire.field_bytes(11, record.metadata))
        if record.const or (key is None and spec.const_default):
            parts.append(wire.field_varint(13, 1))
        record.encoded = b"".join(parts)
        return record.encoded

    def _encode_action(self, record: EntryRec) -> bytes:
        target: Any = record.target
        if record.kind == wire.ACTION:
            action = self.spec.actions_by_name.get(target.name)
            return wire.field_bytes(1, action.encode(target.args)) if action else b""
        if record.kind in (wire.MEMBER, wire.GROUP):
            return wire.field_varint(record.kind, target)
        if isinstance(target, OneShot) and self._profile is not None:
            return wire.field_bytes(4, self._profile.encode_oneshot(target))
        return b""


def count(packets: int, octets: int, what: str) -> CounterValue:
    """A counter value from CounterData; INVALID_ARGUMENT when negative."""
    if not (0 <= packets <= MAX_COUNT and 0 <= octets <= MAX_COUNT):
        raise invalid(f"{what}: counts cannot be negative")
    return CounterValue(packets, octets)
