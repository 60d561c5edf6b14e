"""Two endpoints over an honest network in virtual time, and a filter for what it does to frames."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random

from hosts.core.config import CcConfig, EndpointConfig, PortConfig, QpConfig
from hosts.core.endpoint import Endpoint
from hosts.core.events import Completion, Event, Status
from hosts.wire.constants import UDP_PORTS
from hosts.wire.parse import Packet, parse

RATE = 1_000_000_000
DELAY = 10_000
Filter = Callable[[int, int, bytes], "list[bytes]"]
"""(target side, port, frame) -> what arrives."""


def endpoint(side: int, ports: int = 2, ipv4: bool = False, **fields) -> Endpoint:
    def ip(port: int) -> bytes:
        return bytes((10, 0, side, port)) if ipv4 else bytes((0xFD, *[0] * 13, side, port))

    each = tuple(
        PortConfig(k, bytes((2, 0, 0, 0, side, k)), bytes(6), ip(k), RATE)
        for k in range(1, ports + 1)
    )
    fields.setdefault("pmtu", 256)
    return Endpoint(EndpointConfig(each, **fields), Random(side + 1))


def qp_config(**fields) -> QpConfig:
    fields.setdefault("cc", CcConfig("fixed", 3 * DELAY, {"window_bytes": 16_000}))
    return QpConfig(**fields)


class Duo:
    """`a` writes to `b`. `run` until nothing is left to do."""

    def __init__(self, a: Endpoint, b: Endpoint, qp: QpConfig | None = None, **peer) -> None:
        self.ends = (a, b)
        self.now = 0
        self.filter: Filter = lambda target, port, frame: [frame]
        self.sent: list[tuple[int, int, bytes]] = []  # (target side, port, frame)
        self.events: tuple[list[Event], list[Event]] = ([], [])
        self._heap: list[tuple[int, int, int, int, bytes]] = []
        qp = qp if qp is not None else qp_config()
        infos = [end.create_qp(qp) for end in self.ends]
        self.qpns = [info.qpn for info in infos]
        for end, mine, other in zip(self.ends, infos, reversed(infos), strict=True):
            end.connect_qp(mine.qpn, other, 0)
        self.region = b.register_memory(1 << 16)

    def write(self, data: bytes, imm: int | None = None, wr_id: int = 0, at: int = 0) -> None:
        region = self.region
        self.ends[0].post_write(self.qpns[0], wr_id, data, region.va + at, region.rkey, imm)

    def pump(self) -> None:
        for side, end in enumerate(self.ends):
            for port, frame in end.frames_to_send(self.now):
                self.sent.append((1 - side, port, frame))
                for got in self.filter(1 - side, port, frame):
                    item = (self.now + DELAY, len(self.sent), 1 - side, port, got)
                    heapq.heappush(self._heap, item)
            self.events[side].extend(end.events())

    def run(self, until: int = 10_000_000_000) -> None:
        """Until both are idle, or a time."""
        self.pump()
        while True:
            due = [d for end in self.ends if (d := end.next_deadline()) is not None]
            if self._heap:
                due.append(self._heap[0][0])
            if not due or min(due) > until:
                return
            self.now = max(self.now, min(due))
            while self._heap and self._heap[0][0] <= self.now:
                _, _, side, port, frame = heapq.heappop(self._heap)
                self.ends[side].receive(port, frame, self.now)
            for end in self.ends:
                end.on_deadline(self.now)
            self.pump()

    def run_until_complete(self, count: int = 1) -> list[Completion]:
        """At most a virtual second."""
        until = self.now + 1_000_000_000
        while len(self.completions()) < count and self.now < until:
            before = self.now
            self.run(self.now + 100_000)
            self.now = max(self.now, before + 100_000)
        return self.completions()

    def completions(self, side: int = 0) -> list[Completion]:
        return [e for e in self.events[side] if type(e) is Completion]

    def good(self) -> bool:
        done = self.completions()
        return bool(done) and all(e.status is Status.SUCCESS for e in done)

    def packets(self, target: int, opcode: int | None = None) -> list[Packet]:
        """What was sent to a side."""
        packing = self.ends[1 - target].config.ev_packing
        ports = UDP_PORTS | {e.config.udp_port for e in self.ends}
        found = [parse(f, packing, ports) for t, _, f in self.sent if t == target]
        return [p for p in found if p is not None and (opcode is None or p.opcode == opcode)]

    def stats(self, side: int):
        return self.ends[side].stats().qps[self.qpns[side]]
