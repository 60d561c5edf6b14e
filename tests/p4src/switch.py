"""One switch of the two-plane fabric in memory: engine, plan, and a clock to move."""

from __future__ import annotations

from controller.counters import Count, PortCounters, cells, port_counters
from controller.direct import install
from controller.entities import Codec
from controller.program import switch_program
from softswitch.engine import Engine, PortConfig
from topologies.plan import Plan, SwitchPlan
from topologies.spec import load_spec

PLAN = Plan.from_spec(load_spec("two-plane"))
STRUCTURED = Plan.from_spec(load_spec("two-plane", "structured"))
SRV6 = Plan.from_spec(load_spec("two-plane", "srv6"))
MS = 1_000_000


class Switch:
    """`rate_bps` 0: frames leave at once."""

    def __init__(
        self,
        program: dict,
        codec: Codec,
        plan: SwitchPlan,
        *,
        failover_groups: bool = False,
        rate_bps: int = 0,
        queue_limits: tuple[int, ...] = (90, 1000),
        seed: int = 1,
        fabric: Plan = PLAN,
    ) -> None:
        self.plan = plan
        self.now = 1_000 * MS
        self.engine = Engine(program, seed=seed, priority_queues=2)
        for number in plan.ports:
            self.engine.add_port(number, PortConfig(rate_bps=rate_bps, queue_limits=queue_limits))
            self.engine.set_port_up(number, True, self.now)
        install(self.engine, switch_program(fabric, plan, failover_groups=failover_groups), codec)

    def receive(self, port: int, *frames: bytes) -> None:
        """Frames arrive at this moment."""
        for frame in frames:
            self.engine.receive(port, frame, self.now)

    def drain(self, until: int | None = None) -> list[tuple[int, bytes]]:
        """Let time pass until nothing is due any more (or until a moment)."""
        out = list(self.engine.frames_to_send(self.now))
        while (due := self.engine.next_deadline()) is not None:
            if until is not None and due > until:
                break
            self.now = max(self.now, due)
            self.engine.on_deadline(self.now)
            out += self.engine.frames_to_send(self.now)
        if until is not None:
            self.now = until
        return out

    def send(self, port: int, *frames: bytes) -> list[tuple[int, bytes]]:
        """Frames arrive; everything that leaves because of them."""
        self.receive(port, *frames)
        return self.drain()

    def counters(self) -> dict[int, PortCounters]:
        """The program's counters by port."""
        values = {}
        for name, index in cells(self.plan.ports):
            value = self.engine.counter_read(name, index)
            values[name, index] = Count(value.packets, value.bytes)
        return port_counters(self.plan.ports, values)

    def close(self) -> None:
        self.engine.close()
