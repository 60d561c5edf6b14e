"""The switches of a fabric in virtual time: an engine each, programmed and wired as planned."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from controller.direct import install
from controller.entities import Codec
from controller.p4names import P4Names, load_p4info
from controller.program import fabric_program
from softswitch.ctl import changed_config
from softswitch.engine import Compiled, Engine, PortConfig
from softswitch.engine.net import PACKETS, Network
from topologies.plan import Plan, SwitchPlan
from topologies.spec import ETHERNET_BYTES

CPU_PORT = 510
PACKETS_PER_HOST = 8192
"""Packet buffers for each host; more than an endpoint ever has on the way."""


class VirtualCtl:
    """The side channel of a switch (`softswitch.ctl.CtlClient`), without a channel."""

    def __init__(self, engine: Engine, names: Mapping[int, str], clock: Callable[[], int]) -> None:
        self._engine = engine
        self._names = names
        self._clock = clock
        self.on_cable: Callable[[], int] = lambda: 0
        """Frames on their way from hosts to this switch: on a link, and in nobody's counter."""

    def ports(self) -> dict[int, dict[str, Any]]:
        """Port -> {"name", "up", "config"}."""
        engine = self._engine
        return {
            port: {
                "name": self._names.get(port),
                "up": engine.port_up(port),
                "config": asdict(engine.port_config(port)),
            }
            for port in engine.ports()
        }

    def set_port(self, port: int, **config: object) -> dict[str, Any]:
        """Change some settings of a port; the whole configuration as read back."""
        wanted = changed_config(self._engine.port_config(port), config)
        self._engine.set_port_config(port, wanted)
        return self._config(port)

    def _config(self, port: int) -> dict[str, Any]:
        """A port's configuration as it would come over a socket."""
        config = asdict(self._engine.port_config(port))
        return {**config, "queue_limits": list(config["queue_limits"])}

    def stats(self, reset_max: bool = False) -> dict[str, Any]:
        """As of a running switch. Nothing is ever late: `fidelity` is all zeros."""
        engine = self._engine
        ports: dict[int, dict[str, Any]] = {}
        for port in engine.ports():
            stats = engine.port_stats(port, reset_max=reset_max)
            values = {item.name: getattr(stats, item.name) for item in fields(stats)}
            values["drops"] = dict(stats.drops)
            ports[port] = values
        totals = asdict(engine.totals())
        totals["held"] += self.on_cable()
        fidelity = {"late_p99_ns": 0, "late_max_ns": 0, "cpu_ns": 0}
        return {"now": self._clock(), "ports": ports, "totals": totals, "fidelity": fidelity}

    def counters(self, names: Sequence[str] | None = None) -> dict[str, dict[str, list[int]]]:
        """Counter name -> {"packets": [...], "bytes": [...]}; all counters when None."""
        chosen = list(self._engine.info.counters) if names is None else list(names)
        found: dict[str, dict[str, list[int]]] = {}
        for name in chosen:
            cells = self._engine.counter_read_all(name)
            found[name] = {
                "packets": [cell.packets for cell in cells],
                "bytes": [cell.bytes for cell in cells],
            }
        return found


class VirtualFabric:
    """All switches of a plan and the network that joins them. `nics`: host -> port -> number.

    `groups`: host -> the group that its frames are taken with.
    """

    def __init__(
        self,
        plan: Plan,
        program: Path,
        p4info: Path,
        *,
        seed: int,
        failover_groups: bool = False,
        groups: Mapping[str, int] | None = None,
        clock: Callable[[], int] = lambda: 0,
    ) -> None:
        """`program`, `p4info`: the compiled pipeline. `clock`: now, in nanoseconds."""
        self.plan = plan
        self.groups = dict(groups) if groups is not None else dict.fromkeys(plan.hosts, 0)
        packets = min(PACKETS, max(1 << 16, PACKETS_PER_HOST * len(plan.hosts)))
        pipeline = Compiled(json.loads(program.read_text()))
        codec = Codec(P4Names(load_p4info(p4info)))
        contents = fabric_program(plan, failover_groups=failover_groups)
        self.network = Network(ETHERNET_BYTES + plan.mtu, packets)
        self.engines: dict[str, Engine] = {}
        self.ctl: dict[str, VirtualCtl] = {}
        for name, switch in plan.switches.items():
            engine = self._engine(switch, pipeline, seed)
            install(engine, contents[name], codec, check=switch.plane == switch.index == 0)
            self.network.add(engine)
            self.engines[name] = engine
            self.ctl[name] = VirtualCtl(
                engine, {number: port.ifname for number, port in switch.ports.items()}, clock
            )
        self._wire()
        self.nics: dict[str, dict[int, int]] = {}
        for host in plan.hosts.values():
            self.nics[host.name] = {
                nic.port: self.network.nic(
                    self.engines[nic.switch],
                    nic.switch_port,
                    plan.spec.link.rate,
                    plan.switches[nic.switch].ports[nic.switch_port].config.rx_delay_ns,
                    self.groups[host.name],
                )
                for nic in host.nics
            }
        self._count_cables()

    def _engine(self, switch: SwitchPlan, pipeline: Compiled, seed: int) -> Engine:
        engine = Engine(
            pipeline,
            # Every switch its own numbers, all of them from the run's seed.
            seed=(seed << 20) + switch.device_id,
            priority_queues=2,
            cpu_port=CPU_PORT,
        )
        for number, port in switch.ports.items():
            settings = port.config.as_dict()
            limits = tuple(settings.pop("queue_limits"))
            engine.add_port(number, PortConfig(queue_limits=limits, **settings))
            engine.set_port_up(number, True, 0)
        return engine

    def _wire(self) -> None:
        for link in self.plan.links.values():
            if link.kind == "fabric":
                self.network.wire(
                    self.engines[link.a.node],
                    link.a.port,
                    self.engines[link.b.node],
                    link.b.port,
                )

    def _count_cables(self) -> None:
        below: dict[str, list[int]] = {}
        for host in self.plan.hosts.values():
            for nic in host.nics:
                below.setdefault(nic.switch, []).append(self.nics[host.name][nic.port])
        for switch, numbers in below.items():
            self.ctl[switch].on_cable = lambda numbers=numbers: (  # type: ignore[misc]
                self.network.on_cable(numbers)
            )

    def lookahead(self) -> int:
        """Nanoseconds that pass between a host's turn and its first effect on a switch, at
        least: the smallest frame's serialisation and the cable to the T0. Zero is impossible:
        a frame has bytes and a link a rate."""
        spec = self.plan.spec
        smallest = 64 * 8 * 1_000_000_000 // spec.link.rate
        return max(1, smallest + spec.link.delay)

    def set_link(self, link: str, up: bool, now: int) -> None:
        """Carrier of both ends of a link, as switches see it. Frames on it are lost."""
        planned = self.plan.link(link)
        if not up and planned.kind == "host":
            self.network.cut(self.nics[planned.a.node][planned.a.port], now)
        for end in (planned.a, planned.b):
            engine = self.engines.get(end.node)
            if engine is not None:
                engine.set_port_up(end.port, up, now)

    def close(self) -> None:
        """Free the packets. Idempotent."""
        self.network.close()
