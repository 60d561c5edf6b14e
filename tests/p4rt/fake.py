"""An engine of dictionaries: what the P4Runtime server needs of one, and nothing else."""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from softswitch.engine.types import (
    ActionCall,
    CounterValue,
    DuplicateEntry,
    EngineEvent,
    Exact,
    Fidelity,
    GroupRef,
    InUse,
    InvalidValue,
    Lpm,
    MemberRef,
    NoSuchEntry,
    NoSuchGroup,
    NoSuchMember,
    NoSuchTable,
    PortConfig,
    PortStats,
    ProgramError,
    ProgramInfo,
    Range,
    SwitchTotals,
    TableEntry,
    TableFull,
    Ternary,
)


class FakeEngine:
    """Keeps what it is told. `calls` counts changes, to see that refused updates make none."""

    def __init__(self, *, cpu_port: int | None = None) -> None:
        self.cpu_port = cpu_port
        self.loaded: Mapping[str, Any] | None = None
        self.calls = 0
        self.closed = False
        self.held = 0
        self.frames: list[bytes] = []
        self._ports: dict[int, PortConfig] = {}
        self._up: dict[int, bool] = {}
        self._events: queue.Queue[EngineEvent] = queue.Queue()
        self.mc: dict[int, Any] = {}
        self.clones: dict[int, Any] = {}
        self._clear()

    def _clear(self) -> None:
        self._next = 0
        self.tables: dict[str, dict[int, TableEntry]] = {}
        self.sizes: dict[str, int] = {}
        self.defaults: dict[str, Any] = {}
        self._members: dict[str, dict[int, ActionCall]] = {}
        self._groups: dict[str, dict[int, list[Any]]] = {}
        self.counters: dict[str, list[CounterValue]] = {}
        self.registers: dict[str, list[int]] = {}
        self.direct: dict[tuple[str, int | None], CounterValue] = {}
        self.meters: dict[Any, Any] = {}
        self.value_sets: dict[str, list[int]] = {}

    def _handle(self) -> int:
        self.calls += 1
        self._next += 1
        return self._next

    # -- program
    def load(self, program: Mapping[str, Any], mutable: Collection[str] = ()) -> None:
        try:
            self._load(program)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise ProgramError(f"malformed: {error}") from None

    def _load(self, program: Mapping[str, Any]) -> None:
        if "pipelines" not in program:
            raise ProgramError("no pipelines")
        self._clear()
        self.loaded = program
        actions = {item["id"]: item["name"] for item in program["actions"]}
        for pipeline in program["pipelines"]:
            for table in pipeline["tables"]:
                entries = self.tables[table["name"]] = {}
                self.sizes[table["name"]] = table.get("max_size", 1024)
                listed = table.get("entries", [])
                for index, entry in enumerate(listed):
                    handle = self._handle()
                    call = ActionCall(
                        actions[entry["action_entry"]["action_id"]],
                        tuple(int(x, 16) for x in entry["action_entry"]["action_data"]),
                    )
                    match = tuple(_json_match(item) for item in entry["match_key"])
                    entries[handle] = TableEntry(
                        handle, match, call, len(listed) - index, const=True
                    )
            for profile in pipeline.get("action_profiles", []):
                self._members[profile["name"]] = {}
                self._groups[profile["name"]] = {}
        for item in program.get("counter_arrays", []):
            if not item.get("is_direct"):
                self.counters[item["name"]] = [CounterValue(0, 0)] * item["size"]
        for item in program.get("register_arrays", []):
            self.registers[item["name"]] = [0] * item["size"]

    @property
    def info(self) -> ProgramInfo:
        return ProgramInfo(counters={name: len(v) for name, v in self.counters.items()})

    # -- ports
    def add_port(self, port: int, config: PortConfig = PortConfig()) -> None:  # noqa: B008
        self._ports[port] = config
        self._up[port] = True

    def ports(self) -> list[int]:
        return list(self._ports)

    def set_port_config(self, port: int, config: PortConfig) -> None:
        self._ports[port] = config

    def port_config(self, port: int) -> PortConfig:
        return self._ports[port]

    def port_up(self, port: int) -> bool:
        return self._up[port]

    def port_stats(self, port: int, reset_max: bool = False) -> PortStats:
        values: dict[str, Any] = {item.name: 0 for item in fields(PortStats)}
        values |= {"drops": {"loss": 3}, "queue_depth": (0, 0), "queue_depth_max": 5, "up": True}
        return PortStats(**values)

    def totals(self) -> SwitchTotals:
        values: dict[str, Any] = {item.name: 0 for item in fields(SwitchTotals)}
        return SwitchTotals(**values)

    def fidelity(self, reset: bool = False) -> Fidelity:
        return Fidelity(services=1)

    def start(self, interfaces: Mapping[int, str]) -> None: ...
    def stop(self) -> None: ...
    def close(self) -> None:
        self.closed = True

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        self.held += 1
        yield

    def digest_hold(self, hold_ns: int) -> None:
        self.digest_hold_ns = hold_ns

    # -- events
    def post(self, event: EngineEvent) -> None:
        self._events.put(event)

    def wait_events(self, timeout: float) -> bool:
        try:
            event = self._events.get(timeout=min(timeout, 0.02))
        except queue.Empty:
            return False
        self._pending = [event]
        return True

    def events(self) -> list[EngineEvent]:
        pending, self._pending = self._pending, []
        return pending

    def packet_out(self, frame: bytes, now: int | None = None) -> None:
        self.frames.append(frame)

    # -- tables
    def _table(self, table: str) -> dict[int, TableEntry]:
        if table not in self.tables:
            raise NoSuchTable(f"no table {table}")
        return self.tables[table]

    def table_add(
        self, table: str, match: Sequence[Any], action: Any, priority: int = 0, ttl_ns: int = 0
    ) -> int:
        entries = self._table(table)
        if len(entries) >= self.sizes[table]:
            raise TableFull(f"{table} is full")
        for entry in entries.values():
            if entry.match == tuple(match) and entry.priority == priority:
                raise DuplicateEntry(f"{table} has that entry")
        handle = self._handle()
        entries[handle] = TableEntry(handle, tuple(match), action, priority)
        return handle

    def table_modify(self, table: str, handle: int, action: Any, ttl_ns: int = 0) -> None:
        old = self._table(table).get(handle)
        if old is None:
            raise NoSuchEntry("no entry")
        self.calls += 1
        self.tables[table][handle] = TableEntry(handle, old.match, action, old.priority, old.const)

    def table_delete(self, table: str, handle: int) -> None:
        if self._table(table).pop(handle, None) is None:
            raise NoSuchEntry("no entry")
        self.calls += 1

    def table_entries(self, table: str) -> list[TableEntry]:
        return list(self._table(table).values())

    def table_set_default(self, table: str, action: Any) -> None:
        self.calls += 1
        self.defaults[table] = action

    # -- profiles
    def member_add(self, profile: str, action: ActionCall) -> int:
        handle = self._handle()
        self._members[profile][handle] = action
        return handle

    def member_modify(self, profile: str, member: int, action: ActionCall) -> None:
        if member not in self._members[profile]:
            raise NoSuchMember("no member")
        self.calls += 1
        self._members[profile][member] = action

    def member_delete(self, profile: str, member: int) -> None:
        if any(item.member == member for g in self._groups[profile].values() for item in g):
            raise InUse("member is in a group")
        self._unused(MemberRef(member))
        del self._members[profile][member]

    def group_create(self, profile: str, max_size: int = 0) -> int:
        handle = self._handle()
        self._groups[profile][handle] = []
        return handle

    def group_set_members(self, profile: str, group: int, members: Sequence[Any]) -> None:
        if group not in self._groups[profile]:
            raise NoSuchGroup("no group")
        if any(item.member not in self._members[profile] for item in members):
            raise NoSuchMember("no member")
        self.calls += 1
        self._groups[profile][group] = list(members)

    def group_delete(self, profile: str, group: int) -> None:
        self._unused(GroupRef(group))
        del self._groups[profile][group]

    def _unused(self, reference: Any) -> None:
        if any(e.action == reference for t in self.tables.values() for e in t.values()):
            raise InUse("an entry points there")

    # -- arrays
    def counter_read(self, name: str, index: int) -> CounterValue:
        return self.counters[name][index]

    def counter_read_all(self, name: str) -> list[CounterValue]:
        if name not in self.counters:
            raise NoSuchTable(f"no counter {name}")
        return self.counters[name]

    def counter_write(self, name: str, index: int, value: CounterValue) -> None:
        self.calls += 1
        self.counters[name][index] = value

    def direct_counter_read(self, table: str, handle: int | None) -> CounterValue:
        return self.direct.get((table, handle), CounterValue(0, 0))

    def direct_counter_write(self, table: str, handle: int | None, value: CounterValue) -> None:
        self.direct[table, handle] = value

    def register_read(self, name: str, index: int) -> int:
        return self.registers[name][index]

    def register_read_all(self, name: str) -> list[int]:
        return self.registers[name]

    def register_write(self, name: str, index: int, value: int) -> None:
        self.registers[name][index] = value

    def meter_set(self, name: str, index: int, rates: Any) -> None:
        self.meters[name, index] = rates

    def meter_get(self, name: str, index: int) -> Any:
        return self.meters.get((name, index))

    def direct_meter_set(self, table: str, handle: int, rates: Any) -> None:
        self.meters[table, handle] = rates

    def direct_meter_get(self, table: str, handle: int) -> Any:
        return self.meters.get((table, handle))

    def value_set_set(self, name: str, values: Sequence[int]) -> None:
        self.value_sets[name] = list(values)

    # -- replication
    def mc_group_set(self, gid: int, replicas: Sequence[Any]) -> None:
        self.mc[gid] = tuple(replicas)

    def mc_group_delete(self, gid: int) -> None:
        del self.mc[gid]

    def clone_session_set(self, session: Any) -> None:
        self.clones[session.sid] = session

    def clone_session_delete(self, sid: int) -> None:
        del self.clones[sid]


def _json_match(item: Mapping[str, Any]) -> Any:
    match item["match_type"]:
        case "exact":
            return Exact(int(item["key"], 16))
        case "lpm":
            return Lpm(int(item["key"], 16), item["prefix_length"])
        case "ternary":
            return Ternary(int(item["key"], 16), int(item["mask"], 16))
        case "range":
            return Range(int(item["start"], 16), int(item["end"], 16))
    raise InvalidValue("match type")
