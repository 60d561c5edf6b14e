"""The switch engine: a bmv2 program, its tables, ports and queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from softswitch.engine.types import (
    ActionCall,
    CloneSession,
    CounterValue,
    EngineEvent,
    Entry,
    Fidelity,
    Group,
    GroupMember,
    MatchValue,
    Member,
    MeterRate,
    PortConfig,
    PortStats,
    ProgramInfo,
    Replica,
    TableEntry,
)


class Engine:
    """A bmv2-compatible switch as a sans-I/O object, with an optional real-time driver.

    Thread-safe: every call takes the mutex that the data-path thread also takes.
    Names are those of the bmv2 JSON; errors are subclasses of `EngineError`.
    """

    def __init__(
        self,
        program: Mapping[str, Any] | None = None,
        *,
        seed: int = 0,
        priority_queues: int = 2,
        cpu_port: int | None = None,
        drop_port: int = 511,
        cache_dir: Path | None = None,
    ) -> None:
        raise NotImplementedError

    # -- program
    def load(self, program: Mapping[str, Any]) -> None:
        """Load or replace the pipeline: ports and their settings stay, tables are empty.

        Packets in queues keep their place; PRE groups and clone sessions are kept.
        """
        raise NotImplementedError

    @property
    def info(self) -> ProgramInfo:
        """Names and shapes of the loaded program (empty when none is loaded)."""
        raise NotImplementedError

    # -- the five calls
    def receive(self, port: int, frame: bytes, now: int) -> None: ...
    def frames_to_send(self, now: int) -> list[tuple[int, bytes]]:
        raise NotImplementedError

    def next_deadline(self) -> int | None: ...
    def on_deadline(self, now: int) -> None: ...
    def events(self) -> list[EngineEvent]:
        raise NotImplementedError

    def packet_out(self, frame: bytes, now: int | None = None) -> None:
        """Inject as if received on the CPU port. `now` None: the driver's clock."""

    def wait_events(self, timeout: float) -> bool:
        """Block until events() has something (True) or the timeout in seconds passed."""
        raise NotImplementedError

    # -- ports
    def add_port(self, port: int, config: PortConfig = PortConfig()) -> None: ...
    def remove_port(self, port: int) -> None: ...
    def ports(self) -> list[int]:
        raise NotImplementedError

    def set_port_config(self, port: int, config: PortConfig) -> None: ...
    def port_config(self, port: int) -> PortConfig:
        raise NotImplementedError

    def set_port_up(self, port: int, up: bool, now: int | None = None) -> None: ...
    def port_up(self, port: int) -> bool:
        raise NotImplementedError

    def port_stats(self, port: int, reset_max: bool = False) -> PortStats:
        raise NotImplementedError

    # -- tables
    def table_add(
        self,
        table: str,
        match: Sequence[MatchValue],
        action: Entry,
        priority: int = 0,
        ttl_ns: int = 0,
    ) -> int:
        """Add an entry and return its handle. Higher `priority` wins (ternary, range)."""
        raise NotImplementedError

    def table_modify(self, table: str, handle: int, action: Entry) -> None: ...
    def table_delete(self, table: str, handle: int) -> None: ...
    def table_entries(self, table: str) -> list[TableEntry]:
        raise NotImplementedError

    def table_find(self, table: str, match: Sequence[MatchValue], priority: int = 0) -> int | None:
        """Handle of the entry with exactly this key, or None."""
        raise NotImplementedError

    def table_clear(self, table: str) -> None: ...
    def table_set_default(self, table: str, action: Entry | None) -> None:
        """None restores the default of the program."""

    def table_default(self, table: str) -> Entry | None: ...

    # -- action profiles and selectors
    def member_add(self, profile: str, action: ActionCall) -> int:
        raise NotImplementedError

    def member_modify(self, profile: str, member: int, action: ActionCall) -> None: ...
    def member_delete(self, profile: str, member: int) -> None: ...
    def members(self, profile: str) -> list[Member]:
        raise NotImplementedError

    def group_create(self, profile: str, max_size: int = 0) -> int:
        raise NotImplementedError

    def group_set_members(self, profile: str, group: int, members: Sequence[GroupMember]) -> None:
        """Replace all members at once: no packet sees a part of the change."""

    def group_delete(self, profile: str, group: int) -> None: ...
    def groups(self, profile: str) -> list[Group]:
        raise NotImplementedError

    # -- counters, registers, meters
    def counter_read(self, name: str, index: int) -> CounterValue:
        raise NotImplementedError

    def counter_read_all(self, name: str) -> list[CounterValue]:
        raise NotImplementedError

    def counter_write(self, name: str, index: int, value: CounterValue) -> None: ...
    def direct_counter_read(self, table: str, handle: int | None) -> CounterValue:
        """`handle` None: the default entry's."""
        raise NotImplementedError

    def direct_counter_write(self, table: str, handle: int | None, value: CounterValue) -> None: ...
    def register_read(self, name: str, index: int) -> int:
        raise NotImplementedError

    def register_read_all(self, name: str) -> list[int]:
        raise NotImplementedError

    def register_write(self, name: str, index: int, value: int) -> None: ...
    def meter_set(self, name: str, index: int, rates: Sequence[MeterRate] | None) -> None: ...
    def meter_get(self, name: str, index: int) -> tuple[MeterRate, ...] | None: ...
    def direct_meter_set(
        self, table: str, handle: int, rates: Sequence[MeterRate] | None
    ) -> None: ...
    def direct_meter_get(self, table: str, handle: int) -> tuple[MeterRate, ...] | None: ...
    def value_set_set(self, name: str, values: Sequence[int]) -> None: ...
    def value_set_get(self, name: str) -> list[int]:
        raise NotImplementedError

    # -- packet replication
    def mc_group_set(self, gid: int, replicas: Sequence[Replica]) -> None: ...
    def mc_group_delete(self, gid: int) -> None: ...
    def mc_groups(self) -> dict[int, tuple[Replica, ...]]:
        raise NotImplementedError

    def clone_session_set(self, session: CloneSession) -> None: ...
    def clone_session_delete(self, sid: int) -> None: ...
    def clone_sessions(self) -> dict[int, CloneSession]:
        raise NotImplementedError

    # -- driver
    def start(self, interfaces: Mapping[int, str]) -> None:
        """Start the C data-path thread on AF_PACKET sockets, one per port."""

    def attach(self, port: int, ifname: str) -> None: ...
    def detach(self, port: int) -> None: ...
    def stop(self) -> None: ...
    def fidelity(self, reset: bool = False) -> Fidelity:
        raise NotImplementedError

    def close(self) -> None: ...
