"""A whole fabric of compiled switches in memory, with agents that only send and count.

Frames cross a link in no time; what is under test is where they go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from controller.counters import Count, PortCounters, cells, port_counters
from controller.direct import install
from controller.entities import Codec
from controller.program import SwitchProgram
from hosts.agent.planned import encaps
from hosts.wire.constants import QPN_NOBODY, Opcode
from hosts.wire.encap import Encap, Insert, UsidEncap, UsidTemplate, flow_template
from hosts.wire.frame import ip_bytes
from softswitch.engine import Engine, PortConfig
from topologies.plan import Plan


def encap_of(data: Mapping[str, Any]) -> Encap:
    def template(part: Mapping[str, Any]) -> UsidTemplate:
        return UsidTemplate(ip_bytes(part["base"]), tuple(Insert(*i) for i in part["inserts"]))

    return UsidEncap(template(data), tuple(map(template, data.get("segments", ()))))


class MemFabric:
    """Switches that run `programs`. `counters` and `agents` are what a SelfTest wants."""

    def __init__(
        self, plan: Plan, pipeline: dict[str, Any], codec: Codec, programs: dict[str, SwitchProgram]
    ) -> None:
        self.plan = plan
        self.now = 1_000_000_000
        self.engines: dict[str, Engine] = {}
        for name, switch in plan.switches.items():
            engine = self.engines[name] = Engine(pipeline, seed=1, priority_queues=2)
            for number, port in switch.ports.items():
                limits = port.config.queue_limits
                config = PortConfig(rate_bps=port.config.rate_bps, queue_limits=limits)
                engine.add_port(number, config)
                engine.set_port_up(number, True, self.now)
            install(engine, programs[name], codec)
        self.agents = {name: MemAgent(self, name) for name in plan.hosts}
        self._waiting: deque[tuple[str, int, bytes]] = deque()

    def enter(self, switch: str, port: int, frame: bytes) -> None:
        self._waiting.append((switch, port, frame))

    def run(self) -> None:
        """Until nothing moves any more."""
        while True:
            while self._waiting:
                name, port, frame = self._waiting.popleft()
                self.engines[name].receive(port, frame, self.now)
                self._collect(name)
            due = [d for e in self.engines.values() if (d := e.next_deadline()) is not None]
            if not due:
                return
            self.now = max(self.now, min(due))
            for name, engine in self.engines.items():
                engine.on_deadline(self.now)
                self._collect(name)

    def _collect(self, name: str) -> None:
        for out, frame in self.engines[name].frames_to_send(self.now):
            port = self.plan.switches[name].ports[out]
            if port.kind == "host":
                self.agents[port.peer].received[port.peer_port] += 1
            else:
                self._waiting.append((port.peer, port.peer_port, frame))

    def counters(self) -> dict[str, dict[int, PortCounters]]:
        return {name: self._counters(name) for name in self.plan.switches}

    def _counters(self, name: str) -> dict[int, PortCounters]:
        ports = self.plan.switches[name].ports
        engine = self.engines[name]
        values = {}
        for cell in cells(ports):
            value = engine.counter_read(*cell)
            values[cell] = Count(value.packets, value.bytes)
        return port_counters(ports, values)

    def close(self) -> None:
        for engine in self.engines.values():
            engine.close()


class MemAgent:
    """`send_raw` and `stats`, as the agent of a host answers them."""

    def __init__(self, fabric: MemFabric, name: str) -> None:
        self.fabric = fabric
        self.host = fabric.plan.host(name)
        self.received = {nic.port: 0 for nic in self.host.nics}
        self.encaps = {dst: encap_of(e) for dst, e in encaps(fabric.plan, name).items()}

    def call(self, op: str, **fields: Any) -> dict[str, Any]:
        if op == "stats":
            nics = {str(p): {"rx_packets": n, "sock_drops": 0} for p, n in self.received.items()}
            return {"nics": nics}
        assert op == "send_raw"
        nic = self.host.nics[fields["plane"]]
        dst = fields["dst"]
        flow = flow_template(nic.mac, nic.gateway_mac, nic.ipv6, dst, encap=self.encaps.get(dst))
        payload = bytes(fields["size"])
        for number, ev in enumerate(fields["evs"]):
            frame = flow.data(
                Opcode.WRITE_MIDDLE, fields["dscp"], fields["ecn"], ev, QPN_NOBODY, number,
                0, 0, 0, 0, 0, 0, 0, len(payload), payload,
            )  # fmt: skip
            self.fabric.enter(nic.switch, nic.switch_port, frame)
            if fields["interval_ns"]:
                self.fabric.run()
        self.fabric.run()
        return {"sent": len(fields["evs"]), "errors": 0}
