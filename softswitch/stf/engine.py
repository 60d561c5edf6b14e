"""The engine of this repository as the switch of a test: in memory, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from softswitch.engine import Engine
from softswitch.engine.types import (
    ActionCall,
    CloneSession,
    CounterValue,
    EngineError,
    Entry,
    GroupMember,
    LogMessage,
    MatchValue,
    MeterRate,
    Replica,
)
from softswitch.stf.target import Rate, TargetError

GAP_NS = 1_000_000
"""Virtual time between two packets."""
WAIT_NS = 1_000_000_000
"""Virtual time of `wait`."""
START_NS = 1_000_000_000
PORTS = range(511)
"""Ports that the switch has, whatever the test names; 511 drops."""
QUEUES = 8

T = TypeVar("T")


class EngineTarget:
    """A `softswitch.stf.target.Target`."""

    name = "builtin"

    def __init__(self, program: Mapping[str, Any], ports: set[int], seed: int = 1) -> None:
        self._now = START_NS
        try:
            self._engine = Engine(program, seed=seed, priority_queues=QUEUES)
            for port in sorted({*PORTS, *ports} - {511}):
                self._engine.add_port(port)
        except EngineError as error:
            raise TargetError(str(error)) from None
        self._out: list[tuple[int, bytes]] = []
        self._mcast: dict[int, list[int]] = {}
        self._nodes: dict[int, tuple[int, tuple[int, ...]]] = {}
        self._mirrors: dict[int, tuple[int | None, int | None]] = {}
        self.log: list[str] = []
        """What the program said with log_msg."""

    def close(self) -> None:
        self._engine.close()

    def _try(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except EngineError as error:
            raise TargetError(str(error)) from None

    # -- packets

    def packet(self, port: int, frame: bytes) -> None:
        self._now += GAP_NS
        self._try(lambda: self._engine.receive(port, frame, self._now))
        self._advance(self._now)

    def wait(self) -> None:
        self._advance(self._now + WAIT_NS)

    def _advance(self, until: int) -> None:
        """Serve everything that is due, in order, up to a moment."""
        engine = self._engine
        self._out += engine.frames_to_send(self._now)
        while (due := engine.next_deadline()) is not None and due <= until:
            self._now = max(self._now, due)
            engine.on_deadline(self._now)
            self._out += engine.frames_to_send(self._now)
        self._now = until
        self.log += [e.text for e in engine.events() if isinstance(e, LogMessage)]

    def output(self) -> list[tuple[int, bytes]]:
        self._out += self._engine.frames_to_send(self._now)
        out, self._out = self._out, []
        return out

    # -- tables and profiles

    def entry_add(
        self, table: str, match: Sequence[MatchValue], entry: Entry, priority: int
    ) -> int:
        return self._try(lambda: self._engine.table_add(table, match, entry, priority))

    def entry_delete(self, table: str, handle: int) -> None:
        self._try(lambda: self._engine.table_delete(table, handle))

    def default_set(self, table: str, entry: Entry) -> None:
        self._try(lambda: self._engine.table_set_default(table, entry))

    def member_add(self, profile: str, action: ActionCall) -> int:
        return self._try(lambda: self._engine.member_add(profile, action))

    def member_modify(self, profile: str, member: int, action: ActionCall) -> None:
        self._try(lambda: self._engine.member_modify(profile, member, action))

    def member_delete(self, profile: str, member: int) -> None:
        self._try(lambda: self._engine.member_delete(profile, member))

    def group_add(self, profile: str) -> int:
        return self._try(lambda: self._engine.group_create(profile))

    def group_delete(self, profile: str, group: int) -> None:
        self._try(lambda: self._engine.group_delete(profile, group))

    def _members(self, profile: str, group: int) -> list[int]:
        for item in self._engine.groups(profile):
            if item.handle == group:
                return [m.member for m in item.members]
        raise TargetError(f"'{profile}' has no group {group}")

    def _set_members(self, profile: str, group: int, members: list[int]) -> None:
        wanted = [GroupMember(m) for m in sorted(members)]
        self._try(lambda: self._engine.group_set_members(profile, group, wanted))

    def group_join(self, profile: str, member: int, group: int) -> None:
        self._set_members(profile, group, [*self._members(profile, group), member])

    def group_leave(self, profile: str, member: int, group: int) -> None:
        members = self._members(profile, group)
        if member not in members:
            raise TargetError(f"'{profile}': member {member} is not in group {group}")
        members.remove(member)
        self._set_members(profile, group, members)

    # -- replication

    def _apply(self, group: int) -> None:
        replicas = [
            Replica(port, rid) for node in self._mcast[group] for rid, port in self._copies(node)
        ]
        self._try(lambda: self._engine.mc_group_set(group, replicas))
        for session, (_port, mgid) in self._mirrors.items():
            if mgid == group:
                self._apply_mirror(session)

    def _copies(self, node: int) -> list[tuple[int, int]]:
        rid, ports = self._nodes[node]
        return [(rid, port) for port in ports]

    def _group(self, group: int) -> list[int]:
        if group not in self._mcast:
            raise TargetError(f"there is no multicast group {group}")
        return self._mcast[group]

    def mcast_create(self, group: int) -> None:
        if group in self._mcast:
            raise TargetError(f"multicast group {group} exists already")
        self._mcast[group] = []
        self._apply(group)

    def mcast_destroy(self, group: int) -> None:
        del self._group(group)[:]
        self._apply(group)
        del self._mcast[group]
        self._try(lambda: self._engine.mc_group_delete(group))

    def node_create(self, rid: int, ports: Sequence[int]) -> int:
        handle = max(self._nodes, default=-1) + 1
        self._nodes[handle] = (rid, tuple(sorted(set(ports))))
        return handle

    def _users(self, node: int) -> list[int]:
        return [group for group, nodes in self._mcast.items() if node in nodes]

    def node_update(self, node: int, ports: Sequence[int]) -> None:
        self._nodes[node] = (self._nodes[node][0], tuple(sorted(set(ports))))
        for group in self._users(node):
            self._apply(group)

    def node_destroy(self, node: int) -> None:
        for group in self._users(node):
            self._mcast[group].remove(node)
            self._apply(group)
        del self._nodes[node]

    def node_join(self, group: int, node: int) -> None:
        nodes = self._group(group)
        if node in nodes:
            raise TargetError(f"the node is in group {group} already")
        nodes.append(node)
        self._apply(group)

    def node_leave(self, group: int, node: int) -> None:
        nodes = self._group(group)
        if node not in nodes:
            raise TargetError(f"the node is not in group {group}")
        nodes.remove(node)
        self._apply(group)

    def _apply_mirror(self, session: int) -> None:
        port, group = self._mirrors[session]
        if port is not None:
            replicas = [Replica(port)]
        else:
            nodes = self._mcast.get(group or 0, [])
            replicas = [Replica(p, rid) for node in nodes for rid, p in self._copies(node)]
        self._try(lambda: self._engine.clone_session_set(CloneSession(session, tuple(replicas))))

    def mirror_set(self, session: int, port: int | None, group: int | None) -> None:
        self._mirrors[session] = (port, group)
        self._apply_mirror(session)

    def mirror_delete(self, session: int) -> None:
        if self._mirrors.pop(session, None) is None:
            raise TargetError(f"there is no mirroring session {session}")
        self._try(lambda: self._engine.clone_session_delete(session))

    def mirror_get(self, session: int) -> str:
        port, group = self._mirrors.get(session, (None, None))
        if session not in self._mirrors:
            raise TargetError(f"there is no mirroring session {session}")
        return f"session {session}: " + (
            f"port {port}" if port is not None else f"multicast group {group}"
        )

    # -- counters, registers, meters

    def counter_read(self, name: str, index: int) -> tuple[int, int]:
        value = self._try(lambda: self._engine.counter_read(name, index))
        return value.packets, value.bytes

    def counter_write(self, name: str, index: int, packets: int, octets: int) -> None:
        self._try(lambda: self._engine.counter_write(name, index, CounterValue(packets, octets)))

    def counter_reset(self, name: str) -> None:
        size = self._engine.info.counters.get(name, 0)
        for index in range(size):
            self.counter_write(name, index, 0, 0)

    def entry_counter(self, table: str, handle: int) -> tuple[int, int]:
        value = self._try(lambda: self._engine.direct_counter_read(table, handle))
        return value.packets, value.bytes

    def entry_counter_set(self, table: str, handle: int, packets: int, octets: int) -> None:
        value = CounterValue(packets, octets)
        self._try(lambda: self._engine.direct_counter_write(table, handle, value))

    def register_read(self, name: str, index: int) -> int:
        return self._try(lambda: self._engine.register_read(name, index))

    def register_write(self, name: str, index: int, value: int) -> None:
        self._try(lambda: self._engine.register_write(name, index, value))

    def register_reset(self, name: str) -> None:
        size, _ = self._engine.info.registers.get(name, (0, 0))
        for index in range(size):
            self.register_write(name, index, 0)

    @staticmethod
    def _rates(rates: Sequence[Rate]) -> list[MeterRate]:
        return [MeterRate(rate * 1e6, burst) for rate, burst in rates]

    @staticmethod
    def _shown(rates: tuple[MeterRate, ...] | None) -> list[Rate]:
        return [(rate.rate / 1e6, rate.burst) for rate in rates or ()]

    def meter_get(self, name: str, index: int) -> Sequence[Rate]:
        return self._shown(self._try(lambda: self._engine.meter_get(name, index)))

    def meter_set(self, name: str, index: int, rates: Sequence[Rate]) -> None:
        self._try(lambda: self._engine.meter_set(name, index, self._rates(rates)))

    def entry_meter_get(self, table: str, handle: int) -> Sequence[Rate]:
        return self._shown(self._try(lambda: self._engine.direct_meter_get(table, handle)))

    def entry_meter_set(self, table: str, handle: int, rates: Sequence[Rate]) -> None:
        self._try(lambda: self._engine.direct_meter_set(table, handle, self._rates(rates)))
