"""A two-tier multi-plane fabric and its hosts in virtual time, driven by the five calls.

Deterministic for a seed. Each directed link is a FIFO server of a rate with a packet limit, ECN
marking, trimming, a delay and faults; control frames have strict priority (they see an empty
queue and push the data queue back). Everything is pure: no clock, no thread.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from hosts.core.config import CcConfig, EndpointConfig, PeerInfo, PortConfig, QpConfig
from hosts.core.endpoint import Endpoint
from hosts.core.events import Event
from hosts.core.memory import MemoryRegion
from hosts.wire.constants import Dscp

MS = 1_000_000
SEC = 1_000_000_000
RATE = 100_000_000
DSCP = Dscp()
TRIM_BYTES = 14 + 40 + 8 + 12 + 24
_CONTROL = frozenset((DSCP.control, DSCP.trimmed, DSCP.trimmed_lasthop))
_TRIMMABLE = frozenset((DSCP.trimmable, DSCP.trimmable_retx))


def dscp_of(frame: bytes) -> int:
    return (frame[14] & 15) << 2 | frame[15] >> 6


def set_tc(frame: bytes, dscp: int, ecn: int) -> bytes:
    tc = dscp << 2 | ecn
    head = bytes((0x60 | tc >> 4, (tc & 15) << 4 | frame[15] & 15))
    return frame[:14] + head + frame[16:]


@dataclass
class Wire:
    """One directed link. Fault fields may be changed at any time."""

    name: str
    rate: int = RATE
    delay: int = MS
    limit: int = 90
    kmin: int = 6  # 0: no marks
    kmax: int = 24
    trim_at: int = 30  # 0: no trimming
    last_hop: bool = False
    cut: bool = False
    loss: float = 0.0
    corrupt: float = 0.0
    duplicate: float = 0.0
    jitter: int = 0  # random extra delay: reorders
    free_at: int = 0
    departures: deque[int] = field(default_factory=deque)
    counts: Counter[str] = field(default_factory=Counter)
    seen: deque[tuple[int, bytes]] = field(default_factory=lambda: deque(maxlen=4))
    lost_data: list[tuple[int, bytes]] = field(default_factory=list)  # (when, frame)

    def admit(self, frame: bytes, now: int, rng: Random) -> list[tuple[int, bytes]]:
        """(when it reaches the other end, frame) for each copy that gets through."""
        self.counts["in"] += 1
        self.seen.append((now, frame))
        if self.cut or (self.loss and rng.random() < self.loss):
            self.counts["lost"] += 1
            if dscp_of(frame) not in _CONTROL and len(frame) > 200:
                self.lost_data.append((now, frame))
            return []
        departures = self.departures
        while departures and departures[0] <= now:
            departures.popleft()
        depth = len(departures)
        dscp = dscp_of(frame)
        control = dscp in _CONTROL
        if not control:
            if self.trim_at and depth >= self.trim_at and dscp in _TRIMMABLE and len(frame) > 200:
                self.counts["trimmed"] += 1
                dscp = DSCP.trimmed_lasthop if self.last_hop else DSCP.trimmed
                frame = set_tc(frame[:TRIM_BYTES], dscp, 0)
                control = True
            elif depth >= self.limit:
                self.counts["queue_full"] += 1
                return []
            elif (
                self.kmin
                and depth > self.kmin
                and frame[15] >> 4 & 3
                and rng.random() * (self.kmax - self.kmin) < depth - self.kmin
            ):
                self.counts["marked"] += 1
                frame = set_tc(frame, dscp, 3)
        took = len(frame) * 8 * SEC // self.rate if self.rate else 0
        if control:
            self.free_at = max(self.free_at, now) + took
            out = now + took
        else:
            self.free_at = out = max(self.free_at, now) + took
            departures.append(out)
        self.counts["out"] += 1
        if self.corrupt and rng.random() < self.corrupt:
            self.counts["corrupted"] += 1
            at = rng.randrange(42, len(frame))
            frame = frame[:at] + bytes((frame[at] ^ 1 << rng.randrange(8),)) + frame[at + 1 :]
        copies = [frame]
        if self.duplicate and rng.random() < self.duplicate:
            copies.append(frame)
        extra = self.jitter
        return [(out + self.delay + (rng.randrange(extra + 1) if extra else 0), f) for f in copies]


def mix(label: int, sport: int, salt: int) -> int:
    """A hash that decorrelates tiers: not linear in its input."""
    x = (label << 16 | sport) * (2 * salt + 0x9E3779B1) & 0xFFFFFFFF
    x ^= x >> 15
    x = x * 0x85EBCA6B & 0xFFFFFFFF
    return x ^ x >> 13


class Host:
    """An endpoint, its events and its wake-ups. `late`: how late its driver may be, in ns."""

    def __init__(self, name: str, index: int, endpoint: Endpoint) -> None:
        self.name = name
        self.index = index
        self.endpoint = endpoint
        self.events: list[Event] = []
        self.wake_at: int | None = None
        self.late = 0
        self.paused_until = 0
        self.held: dict[int, deque[bytes]] = {}
        self.on_event: Callable[[Event], None] | None = None


class Sim:
    """Hosts under T0s, `t1` T1s per plane. Host h sits under T0 h // hosts_per_t0."""

    def __init__(
        self,
        hosts: int = 4,
        *,
        planes: int = 2,
        t0: int = 2,
        t1: int = 2,
        seed: int = 1,
        rate: int = RATE,
        delay: int = MS,
        pmtu: int = 4096,
        time_scale: int = 1000,
        config: Callable[[EndpointConfig], EndpointConfig] | None = None,
    ) -> None:
        self.rng = Random(seed)
        self.now = 0
        self.planes, self.t0, self.t1 = planes, t0, t1
        self.per_t0 = max(1, (hosts + t0 - 1) // t0)
        self._heap: list[tuple[int, int, object, object, bytes | None]] = []
        self._order = 0
        self.wires: dict[str, Wire] = {}
        self.hosts: list[Host] = []
        self._by_ip: dict[bytes, tuple[int, int]] = {}
        for h in range(hosts):
            ports = tuple(
                PortConfig(
                    p + 1,
                    bytes((2, 0, 0, 0, h, p)),
                    bytes((2, 1, 0, 0, h, p)),
                    self.ip(h, p),
                    rate,
                )
                for p in range(planes)
            )
            cfg = EndpointConfig(ports, pmtu=pmtu, time_scale=time_scale)
            if config is not None:
                cfg = config(cfg)
            endpoint = Endpoint(cfg, Random(self.rng.getrandbits(64)), 0)
            self.hosts.append(Host(f"h{h}", h, endpoint))
        for p in range(planes):
            for h in range(hosts):
                self._by_ip[self.ip(h, p)] = (h, p)
                leaf = f"p{p}t0-{h // self.per_t0}"
                # The host paces its own port: the wire only delays.
                self._wire(f"h{h}>{leaf}", rate=0, delay=delay, kmin=0, trim_at=0, limit=1 << 30)
                self._wire(f"{leaf}>h{h}", rate=rate, delay=delay, kmin=0, trim_at=45,
                           last_hop=True)  # fmt: skip
            for a in range(t0):
                for b in range(t1):
                    self._wire(f"p{p}t0-{a}>p{p}t1-{b}", rate=rate, delay=delay)
                    self._wire(f"p{p}t1-{b}>p{p}t0-{a}", rate=rate, delay=delay)

    def _wire(self, name: str, **fields: object) -> None:
        self.wires[name] = Wire(name, **fields)  # type: ignore[arg-type]

    @staticmethod
    def ip(host: int, plane: int) -> bytes:
        return bytes((0xFD, 0, 0, plane, *[0] * 10, 0, host + 1))

    # --- paths and faults ----------------------------------------------------------------------

    def uplink(self, plane: int, t0: int, label: int, sport: int) -> int:
        return mix(label, sport, plane * 16 + t0 + 1) % self.t1

    def path(self, plane: int, src: int, dst: int, ev: int) -> list[Wire]:
        """Wires from host to host for an EV."""
        a, b = src // self.per_t0, dst // self.per_t0
        names = [f"h{src}>p{plane}t0-{a}"]
        if a != b:
            up = self.uplink(plane, a, ev >> 16, ev & 0xFFFF)
            names += [f"p{plane}t0-{a}>p{plane}t1-{up}", f"p{plane}t1-{up}>p{plane}t0-{b}"]
        names.append(f"p{plane}t0-{b}>h{dst}")
        return [self.wires[n] for n in names]

    def both(self, a: str, b: str) -> list[Wire]:
        return [self.wires[f"{a}>{b}"], self.wires[f"{b}>{a}"]]

    def cut(self, a: str, b: str, cut: bool = True) -> None:
        """The link goes down (or comes back) in both directions, silently."""
        for wire in self.both(a, b):
            wire.cut = cut

    def every(self, **fields: object) -> None:
        """Set fields of all fabric wires."""
        for wire in self.wires.values():
            for name, value in fields.items():
                setattr(wire, name, value)

    # --- running -------------------------------------------------------------------------------

    def at(self, when: int, what: Callable[[], None]) -> None:
        self._push(when, what, None, None)

    def _push(self, when: int, what: object, arg: object, frame: bytes | None) -> None:
        self._order += 1
        heapq.heappush(self._heap, (when, self._order, what, arg, frame))

    def pump(self, host: Host) -> None:
        """Send what may leave, take events, plan the next wake-up. Call after any verb."""
        endpoint, now = host.endpoint, self.now
        for port, frame in endpoint.frames_to_send(now):
            self._enter(host, port, frame)
        events = endpoint.events()
        if events:
            host.events += events
            if host.on_event is not None:
                for event in events:
                    host.on_event(event)
                if host.on_event is not None:
                    for port, frame in endpoint.frames_to_send(now):
                        self._enter(host, port, frame)
        due = endpoint.next_deadline()
        if due is not None:
            if host.late:
                due += self.rng.randrange(host.late)
            due = max(due, now)
            if host.wake_at is None or due < host.wake_at or host.wake_at <= now:
                host.wake_at = due
                self._push(due, host, None, None)

    def _enter(self, host: Host, port: int, frame: bytes) -> None:
        target = self._by_ip.get(frame[38:54])
        if target is None:
            return
        label = int.from_bytes(frame[15:18], "big") & 0xFFFF
        ev = label << 16 | frame[54] << 8 | frame[55]
        path = self.path(port - 1, host.index, target[0], ev)
        self._hop((path, 0, target), frame)

    def _hop(self, where: tuple[list[Wire], int, tuple[int, int]], frame: bytes) -> None:
        path, at, target = where
        for when, copy in path[at].admit(frame, self.now, self.rng):
            self._push(when, (path, at + 1, target), None, copy)

    def pause(self, host: Host, duration: int, batch: int = 64) -> None:
        """The host's process is not scheduled for a while: frames wait in its sockets, and are then
        read in batches, one port after the other."""
        host.paused_until = self.now + duration

        def resume() -> None:
            while any(host.held.values()):
                for port, queue in sorted(host.held.items()):
                    for _ in range(min(batch, len(queue))):
                        host.endpoint.receive(port, queue.popleft(), self.now)
                    self.pump(host)
            self.pump(host)

        self.at(host.paused_until, resume)

    def step(self) -> bool:
        """One event; False when none is left."""
        if not self._heap:
            return False
        when, _, what, _, frame = heapq.heappop(self._heap)
        self.now = max(self.now, when)
        if isinstance(what, Host):
            if what.wake_at == when and when < what.paused_until:
                what.wake_at = what.paused_until
                self._push(what.paused_until, what, None, None)
            elif what.wake_at == when:
                what.wake_at = None
                what.endpoint.on_deadline(self.now)
                self.pump(what)
        elif isinstance(what, tuple):
            path, at, target = what
            assert frame is not None
            if at < len(path):
                if path[at - 1].cut:  # died while the frame was on it
                    path[at - 1].counts["lost"] += 1
                    if dscp_of(frame) not in _CONTROL and len(frame) > 200:
                        path[at - 1].lost_data.append((self.now, frame))
                else:
                    self._hop(what, frame)
            else:
                host = self.hosts[target[0]]
                if self.now < host.paused_until:
                    host.held.setdefault(target[1] + 1, deque()).append(frame)
                else:
                    host.endpoint.receive(target[1] + 1, frame, self.now)
                    self.pump(host)
        else:
            what()  # type: ignore[operator]
        return True

    def run(self, until: int, stop: Callable[[], bool] | None = None) -> None:
        """Until a time, or until `stop()`; the clock then stands there."""
        while self._heap and self._heap[0][0] <= until:
            self.step()
            if stop is not None and stop():
                return
        self.now = max(self.now, until)


@dataclass
class Flow:
    """A QP from one host to another, with memory at the target."""

    sim: Sim
    src: Host
    dst: Host
    qpn: int
    peer_qpn: int
    region: MemoryRegion
    mine: PeerInfo
    peer: PeerInfo

    @property
    def stats(self):  # type: ignore[no-untyped-def]
        return self.src.endpoint.stats().qps[self.qpn]

    @property
    def peer_stats(self):  # type: ignore[no-untyped-def]
        return self.dst.endpoint.stats().qps[self.peer_qpn]

    def write(self, wr_id: int, data: bytes, offset: int = 0, imm: int | None = None) -> None:
        self.src.endpoint.post_write(
            self.qpn, wr_id, data, self.region.va + offset, self.region.rkey, imm
        )
        self.sim.pump(self.src)


def connect(
    sim: Sim, src: int, dst: int, *, qp: QpConfig | None = None, memory: int = 1 << 20
) -> Flow:
    """Create and connect a QP between two hosts."""
    qp = qp if qp is not None else QpConfig(cc=CcConfig(base_rtt_ns=10 * MS))
    a, b = sim.hosts[src], sim.hosts[dst]
    mine, peer = a.endpoint.create_qp(qp), b.endpoint.create_qp(qp)
    a.endpoint.connect_qp(mine.qpn, peer, sim.now)
    b.endpoint.connect_qp(peer.qpn, mine, sim.now)
    region = b.endpoint.register_memory(memory)
    return Flow(sim, a, b, mine.qpn, peer.qpn, region, mine, peer)


class Stream:
    """Steady writes of one message size with a window of messages, over and over one region."""

    def __init__(self, flow: Flow, message: int = 256 << 10, window: int = 8) -> None:
        self.flow = flow
        self.message = message
        self.slots = flow.region.length // message
        self.data = Random(5).randbytes(self.slots * message)
        self.window = min(window, self.slots)
        self.posted = self.completed = 0
        self.failed: list[Event] = []
        self.stopped = False
        flow.src.on_event = self._on_event
        self._fill()
        flow.sim.pump(flow.src)

    def _fill(self) -> None:
        flow = self.flow
        while not self.stopped and self.posted - self.completed < self.window:
            at = self.posted % self.slots * self.message
            flow.src.endpoint.post_write(
                flow.qpn,
                self.posted,
                memoryview(self.data)[at : at + self.message],
                flow.region.va + at,
                flow.region.rkey,
            )
            self.posted += 1

    def _on_event(self, event: Event) -> None:
        from hosts.core.events import Completion, Status

        if isinstance(event, Completion):
            if event.status is Status.SUCCESS:
                assert event.wr_id == self.completed, "completions out of order"
                self.completed += 1
                self._fill()
            else:
                self.failed.append(event)
                self.stopped = True

    def delivered(self) -> int:
        return int(self.flow.peer_stats.delivered_bytes)

    def stop(self) -> None:
        self.stopped = True

    def drained(self) -> bool:
        return self.posted == self.completed
