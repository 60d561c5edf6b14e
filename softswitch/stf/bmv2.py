"""bmv2's simple_switch as the switch of a test: packets through nanomsg, tables by Thrift."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from softswitch.bmv2.client import CONTEXT, Bmv2Error, Client, port_map, types
from softswitch.bmv2.packets import PacketSocket
from softswitch.bmv2.process import SWITCH, activity, find, free_port
from softswitch.engine.types import (
    ActionCall,
    Entry,
    Exact,
    GroupRef,
    Lpm,
    MatchValue,
    MemberRef,
    Optional_,
    Range,
    Ternary,
    Valid,
)
from softswitch.stf.bind import BMV2_PRIORITIES
from softswitch.stf.shape import Key, NameProblem, Shape, shape_of
from softswitch.stf.target import Rate, TargetError

QUEUES = 8
START_SECONDS = 60.0
IDLE_SECONDS = 30.0
LOOK_SECONDS = 0.001
"""Between two looks at a switch that is busy."""


def find_switch() -> str:
    """Path of simple_switch; TargetError when it is not there."""
    path = find(SWITCH)
    if path is None:
        raise TargetError(f"{SWITCH} is not on the PATH; install bmv2 or use --switch builtin")
    return path


class Bmv2Target:
    """A `softswitch.stf.target.Target`: one process, ended with `close`."""

    name = "bmv2"

    def __init__(self, program: Mapping[str, Any], ports: set[int]) -> None:
        path = find_switch()
        try:
            self._shape: Shape = shape_of(program)
        except NameProblem as error:
            raise TargetError(str(error)) from None
        self._handles: dict[str, dict[int, str]] = {}
        self._mcast: dict[int, int] = {}
        self._client: Client | None = None
        self._packets: PacketSocket | None = None
        self._out: list[tuple[int, bytes]] = []
        self._dir = Path(tempfile.mkdtemp(prefix="mrclab-stf-"))
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._start(path, program)
        except BaseException:
            self.close()
            raise

    def _start(self, path: str, program: Mapping[str, Any]) -> None:
        (self._dir / "program.json").write_text(json.dumps(program))
        thrift = free_port()
        arguments = [
            path,
            "--packet-in", f"ipc://{self._dir}/packets",
            "--notifications-addr", f"ipc://{self._dir}/notifications",
            "--thrift-port", str(thrift),
            "--log-file", "switch", "--log-level", "error",
            "program.json",
            "--", "--priority-queues", str(QUEUES),
        ]  # fmt: skip
        with (self._dir / "out").open("wb") as out:
            self._process = subprocess.Popen(
                arguments, cwd=self._dir, stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )
        limit = time.monotonic() + START_SECONDS
        while self._packets is None or self._client is None:
            try:
                if self._packets is None:
                    self._packets = PacketSocket(f"{self._dir}/packets", IDLE_SECONDS)
                self._client = Client(thrift)
            except (OSError, Bmv2Error) as error:
                self._pause(0.005)
                if time.monotonic() > limit:
                    raise TargetError(f"{SWITCH} does not listen: {error}") from None
        try:
            self._packets.synchronise()
        except OSError as error:
            raise TargetError(f"{SWITCH}: {error}") from None

    def _pause(self, seconds: float) -> None:
        """Pass some time, unless the process ends meanwhile: then TargetError."""
        if self._process is None:
            raise TargetError(f"{SWITCH} was not started")
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = self._process.wait(seconds)
            words = " ".join((self._dir / "out").read_text(errors="replace").split())[-200:]
            raise TargetError(f"{SWITCH} ended with status {status}: {words}")

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
        if self._packets is not None:
            self._packets.close()
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
        shutil.rmtree(self._dir, ignore_errors=True)

    def _call(self, method: str, *arguments: Any) -> Any:
        if self._client is None:
            raise TargetError(f"{SWITCH} is gone")
        try:
            return self._client.call(method, *arguments)
        except Bmv2Error as error:
            raise TargetError(f"bmv2: {error}") from None

    # -- packets

    def packet(self, port: int, frame: bytes) -> None:
        if self._packets is None:
            raise TargetError(f"{SWITCH} is gone")
        try:
            self._packets.send(port, frame)
        except OSError as error:
            raise TargetError(f"{SWITCH}: {error}") from None
        self._settle()

    def _settle(self) -> None:
        """Return when the switch has done all it can, with what came out."""
        packets, process = self._packets, self._process
        if packets is None or process is None:
            raise TargetError(f"{SWITCH} is gone")
        limit = time.monotonic() + IDLE_SECONDS
        try:
            packets.synchronise()
            before = None
            while True:
                now = activity(process.pid)
                if now is not None and now == before:
                    break
                before = now
                self._pause(LOOK_SECONDS)
                if time.monotonic() > limit:
                    raise TargetError(f"{SWITCH} is still busy after {IDLE_SECONDS:g} s")
            packets.synchronise()
        except OSError as error:
            self._pause(0.2)
            raise TargetError(f"{SWITCH}: {error}") from None
        self._out += packets.received()

    def wait(self) -> None:
        self._settle()

    def output(self) -> list[tuple[int, bytes]]:
        out, self._out = self._out, []
        return out

    # -- tables and profiles

    def entry_add(
        self, table: str, match: Sequence[MatchValue], entry: Entry, priority: int
    ) -> int:
        t = self._shape.tables[table]
        key = [_match(m, k) for m, k in zip(match, t.key, strict=True)]
        options = types().EntryOptions()
        if t.ordered:
            # The lowest number wins in bmv2, and none is below zero.
            options.priority = max(0, BMV2_PRIORITIES - priority)
        if isinstance(entry, ActionCall):
            method = "bm_mt_add_entry"
            what: list[Any] = [entry.name, self._data(entry)]
        elif isinstance(entry, MemberRef):
            method, what = "bm_mt_indirect_add_entry", [entry.handle]
        else:
            method, what = "bm_mt_indirect_ws_add_entry", [entry.handle]
        return int(self._call(method, CONTEXT, table, key, *what, options))

    def _data(self, call: ActionCall) -> list[bytes]:
        every = [a for t in self._shape.tables.values() for a in t.actions]
        every += [a for actions in self._shape.profiles.values() for a in actions]
        action = next(a for a in every if a.name == call.name)
        return [
            _bytes(value, width) for value, (_, width) in zip(call.args, action.params, strict=True)
        ]

    def _indirect(self, table: str) -> bool:
        return self._shape.tables[table].kind != "simple"

    def entry_delete(self, table: str, handle: int) -> None:
        method = "bm_mt_indirect_delete_entry" if self._indirect(table) else "bm_mt_delete_entry"
        self._call(method, CONTEXT, table, handle)

    def default_set(self, table: str, entry: Entry) -> None:
        if isinstance(entry, ActionCall):
            arguments = [table, entry.name, self._data(entry)]
            self._call("bm_mt_set_default_action", CONTEXT, *arguments)
        elif isinstance(entry, GroupRef):
            self._call("bm_mt_indirect_ws_set_default_group", CONTEXT, table, entry.handle)
        else:
            self._call("bm_mt_indirect_set_default_member", CONTEXT, table, entry.handle)

    def member_add(self, profile: str, action: ActionCall) -> int:
        data = self._data(action)
        return int(self._call("bm_mt_act_prof_add_member", CONTEXT, profile, action.name, data))

    def member_modify(self, profile: str, member: int, action: ActionCall) -> None:
        arguments = [profile, member, action.name, self._data(action)]
        self._call("bm_mt_act_prof_modify_member", CONTEXT, *arguments)

    def member_delete(self, profile: str, member: int) -> None:
        self._call("bm_mt_act_prof_delete_member", CONTEXT, profile, member)

    def group_add(self, profile: str) -> int:
        return int(self._call("bm_mt_act_prof_create_group", CONTEXT, profile))

    def group_delete(self, profile: str, group: int) -> None:
        self._call("bm_mt_act_prof_delete_group", CONTEXT, profile, group)

    def group_join(self, profile: str, member: int, group: int) -> None:
        self._call("bm_mt_act_prof_add_member_to_group", CONTEXT, profile, member, group)

    def group_leave(self, profile: str, member: int, group: int) -> None:
        self._call("bm_mt_act_prof_remove_member_from_group", CONTEXT, profile, member, group)

    # -- replication

    def _group(self, group: int) -> int:
        if group not in self._mcast:
            raise TargetError(f"there is no multicast group {group}")
        return self._mcast[group]

    def mcast_create(self, group: int) -> None:
        if group in self._mcast:
            raise TargetError(f"multicast group {group} exists already")
        self._mcast[group] = int(self._call("bm_mc_mgrp_create", CONTEXT, group))

    def mcast_destroy(self, group: int) -> None:
        self._call("bm_mc_mgrp_destroy", CONTEXT, self._group(group))
        del self._mcast[group]

    def node_create(self, rid: int, ports: Sequence[int]) -> int:
        return int(self._call("bm_mc_node_create", CONTEXT, rid, port_map(ports), ""))

    def node_update(self, node: int, ports: Sequence[int]) -> None:
        self._call("bm_mc_node_update", CONTEXT, node, port_map(ports), "")

    def node_destroy(self, node: int) -> None:
        self._call("bm_mc_node_destroy", CONTEXT, node)

    def node_join(self, group: int, node: int) -> None:
        self._call("bm_mc_node_associate", CONTEXT, self._group(group), node)

    def node_leave(self, group: int, node: int) -> None:
        self._call("bm_mc_node_dissociate", CONTEXT, self._group(group), node)

    def mirror_set(self, session: int, port: int | None, group: int | None) -> None:
        config = types().MirrorSession(port=port, mgid=group)
        self._call("mirroring_session_add", session, config)

    def mirror_delete(self, session: int) -> None:
        self._call("mirroring_session_delete", session)

    def mirror_get(self, session: int) -> str:
        config = self._call("mirroring_session_get", session)
        if config.port is not None:
            return f"session {session}: port {config.port}"
        return f"session {session}: multicast group {config.mgid}"

    # -- counters, registers, meters

    def counter_read(self, name: str, index: int) -> tuple[int, int]:
        value = self._call("bm_counter_read", CONTEXT, name, index)
        return value.packets, value.bytes

    def counter_write(self, name: str, index: int, packets: int, octets: int) -> None:
        value = types().CounterValue(packets=_signed(packets), bytes=_signed(octets))
        self._call("bm_counter_write", CONTEXT, name, index, value)

    def counter_reset(self, name: str) -> None:
        self._call("bm_counter_reset_all", CONTEXT, name)

    def entry_counter(self, table: str, handle: int) -> tuple[int, int]:
        value = self._call("bm_mt_read_counter", CONTEXT, table, handle)
        return value.packets, value.bytes

    def entry_counter_set(self, table: str, handle: int, packets: int, octets: int) -> None:
        value = types().CounterValue(packets=_signed(packets), bytes=_signed(octets))
        self._call("bm_mt_write_counter", CONTEXT, table, handle, value)

    def _narrow(self, name: str) -> int:
        width = self._shape.registers[name].width
        if width > 64:
            raise TargetError(f"bmv2's Thrift service has no registers of {width} bits")
        return width

    def register_read(self, name: str, index: int) -> int:
        width = self._narrow(name)
        return int(self._call("bm_register_read", CONTEXT, name, index)) & (1 << width) - 1

    def register_write(self, name: str, index: int, value: int) -> None:
        self._narrow(name)
        self._call("bm_register_write", CONTEXT, name, index, _signed(value))

    def register_reset(self, name: str) -> None:
        self._call("bm_register_reset", CONTEXT, name)

    @staticmethod
    def _rates(rates: Sequence[Rate]) -> list[Any]:
        return [types().MeterRate(units_per_micros=r, burst_size=b) for r, b in rates]

    def meter_get(self, name: str, index: int) -> Sequence[Rate]:
        rates = self._call("bm_meter_get_rates", CONTEXT, name, index)
        return [(r.units_per_micros, r.burst_size) for r in rates]

    def meter_set(self, name: str, index: int, rates: Sequence[Rate]) -> None:
        self._call("bm_meter_set_rates", CONTEXT, name, index, self._rates(rates))

    def entry_meter_get(self, table: str, handle: int) -> Sequence[Rate]:
        rates = self._call("bm_mt_get_meter_rates", CONTEXT, table, handle)
        return [(r.units_per_micros, r.burst_size) for r in rates]

    def entry_meter_set(self, table: str, handle: int, rates: Sequence[Rate]) -> None:
        self._call("bm_mt_set_meter_rates", CONTEXT, table, handle, self._rates(rates))


def _bytes(value: int, width: int) -> bytes:
    return value.to_bytes((width + 7) // 8, "big")


def _signed(value: int) -> int:
    """Thrift's integers are signed."""
    return value - (1 << 64) if value >> 63 else value


def _match(value: MatchValue, key: Key) -> Any:
    """A match value as bmv2's structure."""
    t, width = types(), key.width
    full = (1 << width) - 1
    kinds = t.MatchType
    match value:
        case Valid():
            return t.Match(type=kinds.VALID, valid=t.MatchValid(key=value.value))
        case Exact():
            return t.Match(type=kinds.EXACT, exact=t.MatchExact(key=_bytes(value.value, width)))
        case Lpm():
            mask = full ^ (full >> value.prefix_len)
            lpm = t.MatchLpm(key=_bytes(value.value & mask, width), prefix_length=value.prefix_len)
            return t.Match(type=kinds.LPM, lpm=lpm)
        case Range():
            span = t.MatchRange(start=_bytes(value.lo, width), end_=_bytes(value.hi, width))
            return t.Match(type=kinds.RANGE, range=span)
        case Ternary():
            low, mask = value.value, value.mask
        case Optional_():
            low, mask = (0, 0) if value.value is None else (value.value, full)
    ternary = t.MatchTernary(key=_bytes(low, width), mask=_bytes(mask, width))
    return t.Match(type=kinds.TERNARY, ternary=ternary)
