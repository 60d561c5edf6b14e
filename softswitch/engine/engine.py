"""The switch engine: a bmv2 program, its tables, ports and queues."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from softswitch.engine import native
from softswitch.engine.cgen import Generator
from softswitch.engine.control import Control
from softswitch.engine.events import Decoder
from softswitch.engine.program import Program
from softswitch.engine.types import (
    DROP_CAUSES,
    ActionCall,
    CloneSession,
    CounterValue,
    DriverError,
    DuplicateEntry,
    EngineError,
    EngineEvent,
    Entry,
    Fidelity,
    Group,
    GroupMember,
    InvalidValue,
    MatchValue,
    Member,
    MeterRate,
    NoSuchGroup,
    NoSuchPort,
    PortConfig,
    PortStats,
    ProgramError,
    ProgramInfo,
    Replica,
    SwitchTotals,
    TableEntry,
)

MAX_QUEUES = 8
MAX_PORT = 65535
PACKETS = 16384
"""Packets that a switch can hold. Memory is touched only as they are used."""
CPU_QUEUE = 1024
"""Packets that wait for the CPU port."""
FRAME_BUFFER = 16384
DEFAULT_PORT = PortConfig()


def compile_program(program: Mapping[str, Any]) -> tuple[Generator, str]:
    """The compiler's state and the C source of a program; raises ProgramError."""
    try:
        gen = Generator(Program(program))
        return gen, gen.text()
    except (
        LookupError, TypeError, AttributeError, ValueError, RecursionError, OverflowError,
    ) as e:  # fmt: skip
        # the checks in program.py name the place; this is for what they did not foresee
        text = " ".join(str(e).split())[:200]
        raise ProgramError(f"malformed bmv2 JSON: {type(e).__name__}: {text}") from None


class Compiled:
    """A program compiled once, for many switches in one process. Raises ProgramError."""

    def __init__(self, program: Mapping[str, Any], cache_dir: Path | None = None) -> None:
        self.generator, source = compile_program(program)
        self.path = native.build_pipeline(source, cache_dir)


class Engine:
    """A bmv2-compatible switch as a sans-I/O object, with an optional real-time driver.

    Thread-safe: the switch state is guarded by a mutex that the data-path thread also
    takes; control calls are serialised by a lock here. Names are those of the bmv2 JSON;
    errors are subclasses of `EngineError`. Time: nanoseconds, never going back; while the
    driver runs, of CLOCK_MONOTONIC.
    """

    def __init__(
        self,
        program: Mapping[str, Any] | Compiled | None = None,
        *,
        seed: int = 0,
        priority_queues: int = 2,
        cpu_port: int | None = None,
        drop_port: int = 511,
        cache_dir: Path | None = None,
    ) -> None:
        if not 1 <= priority_queues <= MAX_QUEUES:
            raise InvalidValue(f"priority queues: {priority_queues} is not 1..{MAX_QUEUES}")
        self._ffi, self._lib = native.runtime()
        self._lock = threading.RLock()
        self._cache = cache_dir
        self._queues = priority_queues
        self._cpu_port = cpu_port
        self._ports: dict[int, PortConfig] = {}
        self._mcast: dict[int, tuple[Replica, ...]] = {}
        self._clones: dict[int, CloneSession] = {}
        self._control: Control | None = None
        self._decoder = Decoder(None)
        self._buf = self._ffi.new("uint8_t[]", FRAME_BUFFER)
        self._events_buf = self._ffi.new("uint8_t[]", FRAME_BUFFER)
        self._port_out = self._ffi.new("uint32_t *")
        self._running = False
        sw = self._lib.mrc_new(seed & (1 << 64) - 1, priority_queues, drop_port, PACKETS)
        if sw == self._ffi.NULL:
            raise EngineError("out of memory for a switch")
        self._sw = self._ffi.gc(sw, self._lib.mrc_free)
        if cpu_port is not None:
            self._add(cpu_port, True)
            self._set(cpu_port, PortConfig(queue_limits=(CPU_QUEUE,)))
        if program is not None:
            self.load(program)

    # -- program

    def load(self, program: Mapping[str, Any] | Compiled, mutable: Collection[str] = ()) -> None:
        """Load or replace the pipeline: ports and their settings stay, tables are empty.

        `mutable`: tables whose `entries` in the JSON are a beginning only (P4 `entries`
        without `const`, which the JSON cannot say). Packets inside the switch are dropped
        (cause `reload`). Multicast groups and clone sessions are kept. Raises ProgramError,
        and then the old pipeline stays.
        """
        compiled = program if isinstance(program, Compiled) else Compiled(program, self._cache)
        gen, path = compiled.generator, compiled.path
        with self._lock:
            self._alive()
            err = self._ffi.new("char[]", 512)
            rc = self._lib.mrc_load(self._sw, str(path).encode(), err, 512)
            if rc < 0:
                self._control = None
                raise ProgramError(self._ffi.string(err).decode(errors="replace"))
            control = Control(gen.p, self._ffi, self._lib, self._sw)
            control.vset_widths = gen.parsers.vset_widths
            control.mutable = frozenset(mutable)
            self._control = control
            self._decoder = Decoder(control, gen.actions.log_formats)
            control.install()
            self._lib.mrc_commit(self._sw)

    @property
    def info(self) -> ProgramInfo:
        """Names and shapes of the loaded program (empty when none is loaded)."""
        return self._control.info if self._control else ProgramInfo()

    @property
    def handle(self) -> Any:
        """The switch itself, for the other parts of the C runtime (`engine.net`)."""
        self._alive()
        return self._sw

    def _c(self) -> Control:
        self._alive()
        if self._control is None:
            raise EngineError("no program is loaded")
        return self._control

    def _alive(self) -> None:
        if self._sw is None:
            raise EngineError("the engine is closed")

    # -- the five calls

    def receive(self, port: int, frame: bytes, now: int) -> None:
        """A frame arrives on a port. Not while the driver runs."""
        if self._running:
            raise DriverError("receive() cannot be used while the driver runs")
        self._receive(port, frame, now)

    def _receive(self, port: int, frame: bytes, now: int) -> None:
        self._alive()
        if not 0 <= port <= MAX_PORT:
            raise NoSuchPort(f"no port {port}")
        rc = self._lib.mrc_receive(self._sw, port, self._ffi.from_buffer(frame), len(frame), now)
        if rc < 0:
            native.throw(rc, f"port {port}")

    def frames_to_send(self, now: int) -> list[tuple[int, bytes]]:
        """Frames that have left by `now`, with their port, in the order of time."""
        self._alive()
        out: list[tuple[int, bytes]] = []
        buf, port = self._buf, self._port_out
        while True:
            n = self._lib.mrc_next_out(self._sw, now, buf, FRAME_BUFFER, port)
            if n <= 0:
                return out
            out.append((int(port[0]), bytes(self._ffi.buffer(buf, n))))

    def next_deadline(self) -> int | None:
        """When on_deadline() has something to do, or None."""
        self._alive()
        t = self._lib.mrc_deadline(self._sw)
        return None if t < 0 else int(t)

    def on_deadline(self, now: int) -> None:
        """Serve queues and delay lines up to `now`."""
        self._alive()
        self._lib.mrc_advance(self._sw, now)

    def events(self) -> list[EngineEvent]:
        """What happened since the last call."""
        self._alive()
        out: list[EngineEvent] = []
        buf, size = self._events_buf, FRAME_BUFFER
        while True:
            n = self._lib.mrc_next_event(self._sw, buf, size)
            if n == 0:
                return out
            if n < 0:
                size = -n
                buf = self._ffi.new("uint8_t[]", size)
                continue
            event = self._decoder.decode(bytes(self._ffi.buffer(buf, n)))
            if event is not None:
                out.append(event)

    def digest_hold(self, hold_ns: int) -> None:
        """A digest with the same values as one less than `hold_ns` ago is not told again.

        0, as at first: all are. Bounds what a stream of like packets costs; bundling and
        waiting for acknowledgements are the control plane's.
        """
        if not 0 <= hold_ns < 1 << 62:
            raise InvalidValue(f"digest hold {hold_ns} is out of range")
        with self._lock:
            self._alive()
            if self._lib.mrc_digest_hold(self._sw, hold_ns) < 0:
                raise EngineError("out of memory for held digests")

    def packet_out(self, frame: bytes, now: int | None = None) -> None:
        """Inject as if received on the CPU port. `now` None: the driver's clock."""
        if self._cpu_port is None:
            raise NoSuchPort("packet-out needs a CPU port, and none is configured")
        self._receive(self._cpu_port, frame, self._lib.mrc_clock() if now is None else now)

    def wait_events(self, timeout: float) -> bool:
        """Block until events() has something (True) or the timeout in seconds passed."""
        self._alive()
        return bool(self._lib.mrc_wait_event(self._sw, max(0, int(timeout * 1e9))))

    # -- ports

    def _add(self, port: int, cpu: bool) -> None:
        rc = self._lib.mrc_port_add(self._sw, port, cpu)
        if rc < 0:
            native.throw(rc, f"port {port}")

    def _set(self, port: int, config: PortConfig) -> None:
        limits = [*config.queue_limits[:MAX_QUEUES]]
        if not limits or any(not 0 <= x < 1 << 32 for x in limits):
            raise InvalidValue(f"port {port}: queue limits {config.queue_limits} are not packets")
        for what in ("loss", "corrupt", "rx_loss", "rx_corrupt"):
            value = getattr(config, what)
            if not 0 <= value <= 1:
                raise InvalidValue(f"port {port}: {what} {value} is not a probability")
        for what, ns in (("tx_delay_ns", config.tx_delay_ns), ("rx_delay_ns", config.rx_delay_ns)):
            if not 0 <= ns < 1 << 62:
                raise InvalidValue(f"port {port}: {what} {ns} is out of range")
        if not 0 <= config.rate_bps < 1 << 63:
            raise InvalidValue(f"port {port}: rate {config.rate_bps} is out of range")
        c = self._ffi.new("struct mrc_port_config *")
        c.rate_bps = config.rate_bps
        for i in range(MAX_QUEUES):
            c.limits[i] = limits[min(i, len(limits) - 1)]
        c.tx_delay_ns, c.rx_delay_ns = config.tx_delay_ns, config.rx_delay_ns
        c.loss, c.corrupt = config.loss, config.corrupt
        c.rx_loss, c.rx_corrupt = config.rx_loss, config.rx_corrupt
        c.blackhole, c.rx_blackhole = config.blackhole, config.rx_blackhole
        c.admin_up = config.admin_up
        now = self._lib.mrc_clock() if self._running else 0
        rc = self._lib.mrc_port_set(self._sw, port, c, now)
        if rc < 0:
            native.throw(rc, f"port {port}")

    def add_port(self, port: int, config: PortConfig = DEFAULT_PORT) -> None:
        """Raises DuplicateEntry, InvalidValue."""
        with self._lock:
            self._alive()
            if not 0 <= port <= MAX_PORT:
                raise InvalidValue(f"port {port} is not 0..{MAX_PORT}")
            if port in self._ports or port == self._cpu_port:
                raise DuplicateEntry(f"port {port} exists")
            self._add(port, False)
            try:
                self._set(port, config)
            except EngineError:
                self._lib.mrc_port_remove(self._sw, port)
                raise
            self._ports[port] = config

    def remove_port(self, port: int) -> None:
        """Frames in its queues and delay lines are lost."""
        with self._lock:
            self._port(port)
            rc = self._lib.mrc_port_remove(self._sw, port)
            if rc < 0:
                native.throw(rc, f"port {port}")
            del self._ports[port]

    def _port(self, port: int) -> PortConfig:
        self._alive()
        config = self._ports.get(port)
        if config is None:
            raise NoSuchPort(f"no port {port}")
        return config

    def ports(self) -> list[int]:
        """Numbers of the added ports (without the CPU port)."""
        return sorted(self._ports)

    def set_port_config(self, port: int, config: PortConfig) -> None:
        """Takes effect at once; frames already queued or in flight keep their places."""
        with self._lock:
            self._port(port)
            self._set(port, config)
            self._ports[port] = config
            if self._running:
                self._lib.mrc_kick(self._sw)

    def port_config(self, port: int) -> PortConfig:
        with self._lock:
            return self._port(port)

    def set_port_up(self, port: int, up: bool, now: int | None = None) -> None:
        """Operational state. The driver sets it by itself from the link state."""
        with self._lock:
            self._port(port)
            if now is None:
                now = self._lib.mrc_clock() if self._running else 0
            self._lib.mrc_port_up(self._sw, port, up, now)

    def port_up(self, port: int) -> bool:
        """Operational and administrative state together."""
        return self.port_stats(port).up

    def port_stats(self, port: int, reset_max: bool = False) -> PortStats:
        """`port` may be the CPU port. `reset_max`: queue_depth_max starts anew."""
        self._alive()
        s = self._ffi.new("struct mrc_port_stats *")
        if not 0 <= port <= MAX_PORT or self._lib.mrc_port_stats(self._sw, port, s, reset_max) < 0:
            raise NoSuchPort(f"no port {port}")
        return PortStats(
            int(s.rx_packets),
            int(s.rx_bytes),
            int(s.tx_packets),
            int(s.tx_bytes),
            {name: int(s.drops[i]) for i, name in enumerate(DROP_CAUSES)},
            int(s.corrupted),
            int(s.enqueued),
            int(s.dequeued),
            int(s.recirculated),
            tuple(int(s.depth[i]) for i in range(self._queues)),
            int(s.depth_max),
            int(s.in_flight),
            bool(s.up),
            int(s.rx_corrupted),
        )

    def totals(self) -> SwitchTotals:
        """The switch's own ledger: received + copies = sent + packet_in + dropped + held."""
        self._alive()
        t = self._ffi.new("struct mrc_totals *")
        self._lib.mrc_get_totals(self._sw, t)
        return SwitchTotals(
            int(t.received), int(t.copies), int(t.sent), int(t.packet_in), int(t.dropped),
            int(t.held),
        )  # fmt: skip

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """While inside, no packet is processed: changes made by this thread are one to them.

        Other threads' control calls wait as well.
        """
        with self._lock:
            self._alive()
            sw = self._sw
            self._lib.mrc_hold(sw)
            try:
                yield
            finally:
                self._lib.mrc_release(sw)

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
        with self._lock:
            return self._c().table_add(table, match, action, priority, ttl_ns)

    def table_modify(self, table: str, handle: int, action: Entry, ttl_ns: int = 0) -> None:
        with self._lock:
            self._c().table_modify(table, handle, action, ttl_ns)

    def table_delete(self, table: str, handle: int) -> None:
        with self._lock:
            self._c().table_delete(table, handle)

    def table_entries(self, table: str) -> list[TableEntry]:
        """In the order of insertion."""
        with self._lock:
            return [e for _, e in self._c().table(table).entries.values()]

    def table_find(self, table: str, match: Sequence[MatchValue], priority: int = 0) -> int | None:
        """Handle of the entry with exactly this key, or None."""
        from softswitch.engine import tables

        with self._lock:
            state = self._c().table(table)
            norm = tables.normalise(state.table, match)
            return state.keys.get(tables.identity(state.table, norm, priority))

    def table_clear(self, table: str) -> None:
        """Delete all entries but const ones."""
        with self._lock:
            for e in self.table_entries(table):
                if not e.const:
                    self.table_delete(table, e.handle)

    def table_set_default(self, table: str, action: Entry | None) -> None:
        """None restores the default of the program."""
        with self._lock:
            self._c().table_set_default(table, action)

    def table_default(self, table: str) -> Entry | None:
        with self._lock:
            return self._c().table(table).default

    def entry_idle_ns(self, table: str, handle: int) -> int:
        """Nanoseconds since the entry was last matched (tables with timeouts)."""
        with self._lock:
            return self._c().idle_ns(table, handle)

    # -- action profiles and selectors

    def member_add(self, profile: str, action: ActionCall) -> int:
        with self._lock:
            return self._c().member_add(profile, action)

    def member_modify(self, profile: str, member: int, action: ActionCall) -> None:
        with self._lock:
            self._c().member_modify(profile, member, action)

    def member_delete(self, profile: str, member: int) -> None:
        """Raises InUse while a group or an entry refers to it."""
        with self._lock:
            self._c().member_delete(profile, member)

    def members(self, profile: str) -> list[Member]:
        with self._lock:
            return list(self._c().profile(profile).members.values())

    def group_create(self, profile: str, max_size: int = 0) -> int:
        with self._lock:
            return self._c().group_create(profile, max_size)

    def group_set_members(self, profile: str, group: int, members: Sequence[GroupMember]) -> None:
        """Replace all members at once: no packet sees a part of the change."""
        with self._lock:
            self._c().group_set_members(profile, group, members)

    def group_delete(self, profile: str, group: int) -> None:
        with self._lock:
            self._c().group_delete(profile, group)

    def groups(self, profile: str) -> list[Group]:
        with self._lock:
            return list(self._c().profile(profile).groups.values())

    # -- counters, registers, meters

    def counter_read(self, name: str, index: int) -> CounterValue:
        with self._lock:
            return self._c().counter_read(name, index, 1)[0]

    def counter_read_all(self, name: str) -> list[CounterValue]:
        with self._lock:
            return self._c().counter_read(name, 0, None)

    def counter_write(self, name: str, index: int, value: CounterValue) -> None:
        with self._lock:
            self._c().counter_write(name, index, value)

    def direct_counter_read(self, table: str, handle: int | None) -> CounterValue:
        """`handle` None: the default entry's."""
        with self._lock:
            return self._c().direct_counter(table, handle)

    def direct_counter_write(self, table: str, handle: int | None, value: CounterValue) -> None:
        with self._lock:
            self._c().direct_counter_write(table, handle, value)

    def register_read(self, name: str, index: int) -> int:
        with self._lock:
            return self._c().register_read(name, index, 1)[0]

    def register_read_all(self, name: str) -> list[int]:
        with self._lock:
            return self._c().register_read(name, 0, None)

    def register_write(self, name: str, index: int, value: int) -> None:
        with self._lock:
            self._c().register_write(name, index, value)

    def _now(self) -> int:
        return int(self._lib.mrc_clock()) if self._running else 0

    def meter_set(self, name: str, index: int, rates: Sequence[MeterRate] | None) -> None:
        """Rates from the lowest on (committed, peak); None: everything is green."""
        with self._lock:
            self._c().meter_set(name, index, rates, self._now())

    def meter_get(self, name: str, index: int) -> tuple[MeterRate, ...] | None:
        with self._lock:
            return self._c().meter_get(name, index)

    def direct_meter_set(self, table: str, handle: int, rates: Sequence[MeterRate] | None) -> None:
        with self._lock:
            self._c().direct_meter_set(table, handle, rates, self._now())

    def direct_meter_get(self, table: str, handle: int) -> tuple[MeterRate, ...] | None:
        with self._lock:
            return self._c().direct_meter_get(table, handle)

    def value_set_set(self, name: str, values: Sequence[int | tuple[int, int]]) -> None:
        """Replace a parser value set. A value is the key's fields back to back, without
        padding; (value, mask) compares the bits of the mask only."""
        with self._lock:
            self._c().value_set_set(name, values)

    def value_set_get(self, name: str) -> list[int | tuple[int, int]]:
        with self._lock:
            return self._c().value_set_get(name)

    # -- packet replication

    def _replicas(self, replicas: Sequence[Replica]) -> tuple[Any, Any]:
        for r in replicas:
            if not 0 <= r.port <= MAX_PORT or not 0 <= r.rid < 1 << 16:
                raise InvalidValue(f"replica {r.port}/{r.rid} is out of range")
        new = self._ffi.new
        return (
            new("uint32_t[]", [r.port for r in replicas] or [0]),
            new("uint32_t[]", [r.rid for r in replicas] or [0]),
        )

    def mc_group_set(self, gid: int, replicas: Sequence[Replica]) -> None:
        """Create or replace a multicast group."""
        with self._lock:
            self._alive()
            if not 0 < gid < 1 << 16:
                raise InvalidValue(f"multicast group {gid} is not 1..65535")
            rc = self._lib.mrc_mcast_set(self._sw, gid, len(replicas), *self._replicas(replicas))
            if rc < 0:
                native.throw(rc, f"multicast group {gid}")
            self._mcast[gid] = tuple(replicas)

    def mc_group_delete(self, gid: int) -> None:
        with self._lock:
            self._alive()
            if gid not in self._mcast:
                raise NoSuchGroup(f"no multicast group {gid}")
            self._lib.mrc_mcast_set(self._sw, gid, native.NIL, self._ffi.NULL, self._ffi.NULL)
            del self._mcast[gid]

    def mc_groups(self) -> dict[int, tuple[Replica, ...]]:
        with self._lock:
            return dict(self._mcast)

    def clone_session_set(self, session: CloneSession) -> None:
        """Create or replace a clone session (ids 0..32767, as in bmv2)."""
        with self._lock:
            self._alive()
            if not 0 <= session.sid < 1 << 15:
                raise InvalidValue(f"clone session {session.sid} is not 0..32767")
            if not 0 <= session.packet_length_bytes < 1 << 32:
                raise InvalidValue("clone session: packet length is out of range")
            rc = self._lib.mrc_clone_set(
                self._sw,
                session.sid,
                len(session.replicas),
                *self._replicas(session.replicas),
                session.packet_length_bytes,
                session.class_of_service & 0xFFFFFFFF,
            )
            if rc < 0:
                native.throw(rc, f"clone session {session.sid}")
            self._clones[session.sid] = session

    def clone_session_delete(self, sid: int) -> None:
        with self._lock:
            self._alive()
            if sid not in self._clones:
                raise NoSuchGroup(f"no clone session {sid}")
            self._lib.mrc_clone_set(self._sw, sid, native.NIL, self._ffi.NULL, self._ffi.NULL, 0, 0)
            del self._clones[sid]

    def clone_sessions(self) -> dict[int, CloneSession]:
        with self._lock:
            return dict(self._clones)

    # -- driver

    def start(self, interfaces: Mapping[int, str]) -> None:
        """Start the C data-path thread on AF_PACKET sockets, one per port.

        The sockets belong to the network namespace of the calling thread. Raises
        DriverError with the interface named; then nothing runs.
        """
        with self._lock:
            self._alive()
            if self._running:
                raise DriverError("the driver runs already")
            err = self._ffi.new("char[]", 256)
            if self._lib.mrc_start(self._sw, err, 256) < 0:
                raise DriverError(self._ffi.string(err).decode(errors="replace"))
            self._running = True
            try:
                for port, ifname in interfaces.items():
                    self.attach(port, ifname)
            except EngineError:
                self.stop()
                raise

    def attach(self, port: int, ifname: str) -> None:
        """Open the interface of a port, and follow its link state from now on."""
        with self._lock:
            self._port(port)
            if not self._running:
                raise DriverError("the driver is not running")
            err = self._ffi.new("char[]", 256)
            rc = self._lib.mrc_attach(self._sw, port, ifname.encode()[:64], err, 256)
            if rc < 0:
                text = self._ffi.string(err).decode(errors="replace")
                if text:
                    raise DriverError(f"port {port}: {text}")
                native.throw(rc, f"port {port}")

    def detach(self, port: int) -> None:
        """Close the interface of a port."""
        with self._lock:
            self._port(port)
            self._lib.mrc_detach(self._sw, port)

    def stop(self) -> None:
        """Stop the driver; the switch can then be used without I/O again."""
        with self._lock:
            if self._sw is not None and self._running:
                self._lib.mrc_stop(self._sw)
                self._running = False

    def fidelity(self, reset: bool = False) -> Fidelity:
        """How late queues were served. `reset`: start anew."""
        self._alive()
        f = self._ffi.new("struct mrc_fidelity *")
        self._lib.mrc_get_fidelity(self._sw, f, reset)
        count = int(f.late_count)
        p99, seen = 0, 0
        for b in range(256):
            seen += int(f.hist[b])
            if count and seen * 100 >= count * 99:
                top = max(b // 4, 2)
                p99 = b if b < 4 else (1 << top) + ((b % 4) + 1) * (1 << top) // 4
                break
        return Fidelity(
            int(f.late_max),
            int(f.late_sum) // count if count else 0,
            min(p99, int(f.late_max)),
            count,
            int(f.loops),
            int(f.cpu_ns),
            int(f.wall_ns),
        )

    def close(self) -> None:
        """Stop the driver and free everything; the engine cannot be used afterwards."""
        with self._lock:
            if self._sw is None:
                return
            self.stop()
            self._control = None
            sw, self._sw = self._sw, None
            self._ffi.release(sw)
