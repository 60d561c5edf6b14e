"""One forwarding pipeline: a P4Info, the engine that runs its program, and their state.

`write` and `read` are where every entity of a request ends up; they raise P4RTError and
never leave half of an update behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from p4.v1 import p4runtime_pb2

from softswitch.engine import Engine
from softswitch.engine.types import (
    DuplicateEntry,
    EngineError,
    IdleTimeout,
    ImmutableEntry,
    InUse,
    InvalidValue,
    NotFoundError,
    OutOfRange,
    TableFull,
)
from softswitch.p4rt import wire
from softswitch.p4rt.arrays import Arrays
from softswitch.p4rt.digests import Digests
from softswitch.p4rt.entries import count
from softswitch.p4rt.journal import Journal
from softswitch.p4rt.meters import from_rates, refuse_color_counters, to_rates
from softswitch.p4rt.pre import ReplicationStore
from softswitch.p4rt.profiles import ProfileStore
from softswitch.p4rt.schema import Schema
from softswitch.p4rt.status import Code, P4RTError, invalid, unimplemented
from softswitch.p4rt.tables import TableStore
from softswitch.p4rt.valuesets import ValueSets

INSERT, MODIFY, DELETE = 1, 2, 3
_TYPES = (INSERT, MODIFY, DELETE)

# Field numbers of Entity.
EXTERN, TABLE, MEMBER, GROUP, METER, DIRECT_METER, COUNTER, DIRECT_COUNTER, PRE = range(1, 10)
VALUE_SET, REGISTER, DIGEST = 10, 11, 12

_CODES: tuple[tuple[type[EngineError], Code], ...] = (
    (NotFoundError, Code.NOT_FOUND),
    (TableFull, Code.RESOURCE_EXHAUSTED),
    (DuplicateEntry, Code.ALREADY_EXISTS),
    (OutOfRange, Code.OUT_OF_RANGE),
    (InvalidValue, Code.INVALID_ARGUMENT),
    (ImmutableEntry, Code.PERMISSION_DENIED),
    (InUse, Code.FAILED_PRECONDITION),
)

_Message = TypeVar("_Message")


def engine_fault(error: EngineError) -> P4RTError:
    """The canonical code of an engine error."""
    for kind, code in _CODES:
        if isinstance(error, kind):
            return P4RTError(code, str(error))
    return P4RTError(Code.INTERNAL, str(error))


def raw_entry(body: bytes) -> wire.RawEntry:
    """A table entry from its bytes, through the fast decoder when it can."""
    try:
        return wire.decode_table_entry(body)
    except wire.Unusual:
        # Merge what occurs twice the way protobuf does, then try again.
        return wire.decode_table_entry(_parse(p4runtime_pb2.TableEntry, body).SerializeToString())
    except wire.WireError as error:
        raise invalid(f"malformed table entry: {error}") from None


def _parse(kind: Callable[[], _Message], body: bytes) -> _Message:
    message = kind()
    try:
        message.ParseFromString(body)  # type: ignore[attr-defined]
    except Exception:
        raise invalid("malformed entity") from None
    return message


class Pipeline:
    """State of one pipeline as P4Runtime sees it. Calls are serialised by the device."""

    def __init__(
        self,
        schema: Schema,
        engine: Engine,
        priority_queues: int,
        port_exists: Callable[[int], bool],
    ) -> None:
        self.schema = schema
        self.engine = engine
        self.journal = journal = Journal()
        self.profiles = {
            spec.id: ProfileStore(spec, schema, engine, port_exists, journal)
            for spec in schema.profiles.values()
        }
        self.tables = {
            spec.id: TableStore(spec, engine, self.profiles.get(spec.profile_id), journal)
            for spec in schema.tables.values()
        }
        self._tables_by_name = {table.spec.name: table for table in self.tables.values()}
        self.arrays = Arrays(engine, schema.counters, schema.meters, schema.registers, journal)
        self.replication = ReplicationStore(engine, priority_queues, journal)
        self.value_sets = ValueSets(engine, schema.value_sets, journal)
        self.digests = Digests(schema.digests, journal)
        self._hold_digests()
        self.packet_in = schema.packet_in
        self.packet_out = schema.packet_out
        self._writers: Mapping[int, Callable[[int, bytes], None]] = {
            TABLE: self._write_table,
            MEMBER: self._write_member,
            GROUP: self._write_group,
            METER: lambda kind, body: self.arrays.write_meter(
                kind, _parse(p4runtime_pb2.MeterEntry, body)
            ),
            DIRECT_METER: self._write_direct_meter,
            COUNTER: lambda kind, body: self.arrays.write_counter(
                kind, _parse(p4runtime_pb2.CounterEntry, body)
            ),
            DIRECT_COUNTER: self._write_direct_counter,
            PRE: lambda kind, body: self.replication.write(
                kind, _parse(p4runtime_pb2.PacketReplicationEngineEntry, body)
            ),
            VALUE_SET: lambda kind, body: self.value_sets.write(
                kind, _parse(p4runtime_pb2.ValueSetEntry, body)
            ),
            REGISTER: lambda kind, body: self.arrays.write_register(
                kind, _parse(p4runtime_pb2.RegisterEntry, body)
            ),
            DIGEST: self._write_digest,
        }
        self._readers: Mapping[int, Callable[[bytes], Iterator[bytes]]] = {
            TABLE: self._read_table,
            MEMBER: self._read_member,
            GROUP: self._read_group,
            METER: lambda body: self.arrays.read_meter(_parse(p4runtime_pb2.MeterEntry, body)),
            DIRECT_METER: self._read_direct_meter,
            COUNTER: lambda body: self.arrays.read_counter(
                _parse(p4runtime_pb2.CounterEntry, body)
            ),
            DIRECT_COUNTER: self._read_direct_counter,
            PRE: lambda body: self.replication.read(
                _parse(p4runtime_pb2.PacketReplicationEngineEntry, body)
            ),
            VALUE_SET: lambda body: self.value_sets.read(_parse(p4runtime_pb2.ValueSetEntry, body)),
            REGISTER: lambda body: self.arrays.read_register(
                _parse(p4runtime_pb2.RegisterEntry, body)
            ),
            DIGEST: lambda body: self.digests.read(_parse(p4runtime_pb2.DigestEntry, body)),
        }

    # -- dispatch
    def write(self, update: wire.RawUpdate) -> None:
        """Apply one update; P4RTError when it is refused."""
        if update.type not in _TYPES:
            raise invalid("update type is not INSERT, MODIFY or DELETE")
        if update.kind == 0:
            raise invalid("update without an entity")
        writer = self._writers.get(update.kind)
        if writer is None:
            raise unimplemented(f"{_name(update.kind)} cannot be written here")
        try:
            writer(update.type, update.entity)
        except EngineError as error:
            raise engine_fault(error) from None
        except wire.WireError as error:
            raise invalid(f"malformed entity: {error}") from None

    def read(self, kind: int, body: bytes) -> list[bytes]:
        """Serialised Entity messages that a request selects."""
        if kind == 0:
            raise invalid("a read request without an entity")
        reader = self._readers.get(kind)
        if reader is None:
            raise unimplemented(f"{_name(kind)} cannot be read here")
        try:
            return list(reader(body))
        except EngineError as error:
            raise engine_fault(error) from None
        except wire.WireError as error:
            raise invalid(f"malformed entity: {error}") from None

    def adopt_initial(self, old: Pipeline) -> None:
        """Drop initial entries that clients changed or deleted in the pipeline before, so that
        its state can be put in their place."""
        for name, table in self._tables_by_name.items():
            before = old._tables_by_name.get(name)
            if before is not None:
                table.drop_initial(before)

    def idle_entries(self, events: Iterable[IdleTimeout]) -> list[bytes]:
        """Bodies of TableEntry for entries that the engine found idle."""
        handles: dict[str, list[int]] = {}
        for event in events:
            handles.setdefault(event.table, []).append(event.handle)
        out: list[bytes] = []
        for name, found in handles.items():
            table = self._tables_by_name.get(name)
            if table is not None:
                out += table.idle_entries(found)
        return out

    # -- tables
    def _table(self, table_id: int) -> TableStore:
        table = self.tables.get(table_id)
        if table is None:
            raise invalid(f"table id {table_id} is not in the P4Info")
        return table

    def _write_table(self, update_type: int, body: bytes) -> None:
        raw = raw_entry(body)
        table = self.tables.get(raw.table_id)
        if table is None:
            raise invalid(f"table id {raw.table_id} is not in the P4Info")
        table.write(update_type, raw)

    def _read_table(self, body: bytes) -> Iterator[bytes]:
        raw = raw_entry(body)
        if raw.table_id:
            yield from self._table(raw.table_id).read(raw)
            return
        if raw.match or raw.action_kind != wire.NO_ACTION:
            raise invalid("table entry: match or action without a table id")
        if raw.priority or raw.controller_metadata or raw.metadata:
            raise invalid("table entry: without a table id there is no other filter")
        for table in self.tables.values():
            yield from table.read(raw)

    def _direct(self, body: bytes, kind: Callable[[], Any]) -> tuple[Any, wire.RawEntry]:
        message = _parse(kind, body)
        return message, raw_entry(message.table_entry.SerializeToString())

    def _write_direct_counter(self, update_type: int, body: bytes) -> None:
        message, raw = self._direct(body, p4runtime_pb2.DirectCounterEntry)
        if update_type != MODIFY:
            raise invalid("direct counter: only MODIFY is possible")
        table = self._table(raw.table_id)
        if not table.spec.direct_counter:
            raise invalid(f"table {table.spec.name}: has no direct counter")
        record = table.record(raw)
        if message.HasField("data"):
            name, handle = table.spec.name, table.handle(record)
            data = message.data
            value = count(data.packet_count, data.byte_count, f"table {name}")
            if self.journal.active:
                old = self.engine.direct_counter_read(name, handle)
                self.journal.note(lambda: table.put_counter(record, old))
            table.put_counter(record, value)

    def _read_direct_counter(self, body: bytes) -> Iterator[bytes]:
        _, raw = self._direct(body, p4runtime_pb2.DirectCounterEntry)
        for table in self._direct_tables(raw, "direct_counter"):
            if raw.match:
                table.record(raw)  # NOT_FOUND
            for key, record in table.select(raw):
                handle = table.handle(record)
                value = self.engine.direct_counter_read(table.spec.name, handle)
                yield wire.field_bytes(
                    8,
                    wire.field_bytes(1, table.encode(key, record))
                    + wire.field_bytes(2, wire.counter_data(value.packets, value.bytes)),
                )

    def _direct_tables(self, raw: wire.RawEntry, resource: str) -> list[TableStore]:
        if raw.table_id == 0:
            return [item for item in self.tables.values() if getattr(item.spec, resource)]
        table = self._table(raw.table_id)
        if not getattr(table.spec, resource):
            raise invalid(f"table {table.spec.name}: has no {resource.replace('_', ' ')}")
        return [table]

    def _write_direct_meter(self, update_type: int, body: bytes) -> None:
        message, raw = self._direct(body, p4runtime_pb2.DirectMeterEntry)
        if update_type != MODIFY:
            raise invalid("direct meter: only MODIFY is possible")
        table = self._table(raw.table_id)
        if not table.spec.direct_meter:
            raise invalid(f"table {table.spec.name}: has no direct meter")
        name = table.spec.name
        if raw.is_default_action:
            raise unimplemented(f"table {name}: the default entry has no direct meter")
        refuse_color_counters(message.HasField("counter_data"), f"table {name}")
        record = table.record(raw)
        rates = None
        if message.HasField("config"):
            rates = to_rates(message.config, f"table {name}", table.spec.meter_kind)
        if self.journal.active:
            old = self.engine.direct_meter_get(name, record.handle)
            self.journal.note(lambda: table.put_meter(record, old))
        table.put_meter(record, rates)

    def _read_direct_meter(self, body: bytes) -> Iterator[bytes]:
        message, raw = self._direct(body, p4runtime_pb2.DirectMeterEntry)
        refuse_color_counters(message.HasField("counter_data"), "direct meter")
        if raw.is_default_action:
            raise unimplemented("direct meter: default entries have none")
        for table in self._direct_tables(raw, "direct_meter"):
            if raw.match:
                table.record(raw)
            for key, record in table.select(raw):
                rates = self.engine.direct_meter_get(table.spec.name, record.handle)
                out = wire.field_bytes(1, table.encode(key, record))
                if rates:
                    out += wire.field_bytes(2, from_rates(rates).SerializeToString())
                yield wire.field_bytes(6, out)

    # -- digests
    def _write_digest(self, update_type: int, body: bytes) -> None:
        self.journal.note(self._hold_digests)  # undone last, after the digest itself
        self.digests.write(update_type, _parse(p4runtime_pb2.DigestEntry, body))
        self._hold_digests()

    def _hold_digests(self) -> None:
        """Let the engine keep back like digests that could only be dropped here."""
        self.engine.digest_hold(self.digests.hold_ns())

    # -- action profiles
    def _profile(self, profile_id: int) -> ProfileStore:
        profile = self.profiles.get(profile_id)
        if profile is None:
            raise invalid(f"action profile id {profile_id} is not in the P4Info")
        return profile

    def _write_member(self, update_type: int, body: bytes) -> None:
        message = _parse(p4runtime_pb2.ActionProfileMember, body)
        self._profile(message.action_profile_id).write_member(update_type, message)

    def _write_group(self, update_type: int, body: bytes) -> None:
        message = _parse(p4runtime_pb2.ActionProfileGroup, body)
        self._profile(message.action_profile_id).write_group(update_type, message)

    def _read_member(self, body: bytes) -> Iterator[bytes]:
        message = _parse(p4runtime_pb2.ActionProfileMember, body)
        if message.action_profile_id:
            yield from self._profile(message.action_profile_id).read_members(message.member_id)
        elif message.member_id:
            raise invalid("member id without an action profile id")
        else:
            for profile in self.profiles.values():
                yield from profile.read_members(0)

    def _read_group(self, body: bytes) -> Iterator[bytes]:
        message = _parse(p4runtime_pb2.ActionProfileGroup, body)
        if message.action_profile_id:
            yield from self._profile(message.action_profile_id).read_groups(message.group_id)
        elif message.group_id:
            raise invalid("group id without an action profile id")
        else:
            for profile in self.profiles.values():
                yield from profile.read_groups(0)


def _name(kind: int) -> str:
    descriptor = p4runtime_pb2.Entity.DESCRIPTOR.fields_by_number.get(kind)
    return descriptor.name if descriptor else f"entity kind {kind}"
