"""Reading a running testbed: periodic samples and full counter snapshots, as events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from controller.counters import MARKED, TRIMMED, TRIMMED_LASTHOP
from drills import kernel
from drills.api import Agent, Ctl, Testbed
from drills.events import DRILL, Event

Clock = Callable[[], int]

MARK_COUNTERS = (MARKED,)
TRIM_COUNTERS = (TRIMMED, TRIMMED_LASTHOP)


def _ports(stats: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Port statistics by port number as text, whichever way the client has them."""
    return {str(port): values for port, values in stats["ports"].items()}


def _per_port(
    counters: Mapping[str, Any], names: tuple[str, ...], ports: list[str]
) -> dict[str, int]:
    """Packets of some counters indexed by port, added up, for the ports that exist."""
    arrays = [counters[name]["packets"] for name in names if name in counters]
    return {
        port: sum(array[int(port)] for array in arrays if int(port) < len(array)) for port in ports
    }


def marks_and_trims(ctl: Ctl, ports: list[str]) -> tuple[dict[str, int], dict[str, int]]:
    """Frames marked and trimmed since the start, by egress port."""
    counters = ctl.counters([*MARK_COUNTERS, *TRIM_COUNTERS])
    return _per_port(counters, MARK_COUNTERS, ports), _per_port(counters, TRIM_COUNTERS, ports)


class Sampler:
    """Takes samples of all switches and of the machine."""

    def __init__(
        self, testbed: Testbed, agents: Mapping[str, Agent], clock: Clock, *, counters: bool = True
    ) -> None:
        self._testbed = testbed
        self._agents = agents
        self._clock = clock
        self._counters = counters
        self._load: tuple[int, kernel.Load] | None = None

    def ports(self, *, marks: bool) -> list[Event]:
        """One event of type `ports` per switch; with `marks` also marks and trims."""
        events: list[Event] = []
        for name, ctl in self._testbed.ctl.items():
            stats = ctl.stats(reset_max=True)
            now = self._clock()
            table = _ports(stats)
            ports = {
                port: {
                    "tx_bytes": values["tx_bytes"],
                    "rx_bytes": values["rx_bytes"],
                    "depth": sum(values["queue_depth"]),
                    "depth_max": values["queue_depth_max"],
                    "drops": {k: v for k, v in values["drops"].items() if v},
                }
                for port, values in table.items()
                if values["tx_packets"] or values["rx_packets"]
            }
            fidelity = stats.get("fidelity", {})
            data: dict[str, Any] = {
                "late_p99_ns": fidelity.get("late_p99_ns"),
                "late_max_ns": fidelity.get("late_max_ns"),
                "cpu_ns": fidelity.get("cpu_ns"),
                "ports": ports,
            }
            if "unknown" in stats:
                # A switch that can't say how late it was says what is measured instead.
                data["unknown"] = stats["unknown"]
                data["waited_p99_ns"] = fidelity.get("waited_p99_ns")
                data["waited_max_ns"] = fidelity.get("waited_max_ns")
            if marks and self._counters:
                marked, trimmed = marks_and_trims(ctl, list(table))
                data["marks"] = {k: v for k, v in marked.items() if v}
                data["trims"] = {k: v for k, v in trimmed.items() if v}
            events.append(Event(now, name, "ports", data))
        return events

    def cpu(self) -> list[Event]:
        """The machine's idle share since the last call; nothing at the first one, and nothing
        in virtual time, where the machine's speed does not matter."""
        if getattr(self._testbed, "virtual", False):
            return []
        now, load = self._clock(), kernel.load()
        last, self._load = self._load, (now, load)
        if last is None or load.total == last[1].total:
            self._load = last or self._load
            return []
        idle = round(load.idle_share(last[1]), 4)
        return [Event(now, DRILL, "cpu", {"idle": idle, "span_ns": now - last[0]})]

    def snapshot(self, name: str) -> Event:
        """All packet counters now, as an event of type `counters` (see drills.ledger).

        Receivers are read after senders as far as one pass allows; take two and compare
        (`settled`) to know that nothing moved.
        """
        switches: dict[str, Any] = {}
        totals: dict[str, Any] = {}
        marks: dict[str, Any] = {}
        trims: dict[str, Any] = {}
        for switch, ctl in self._testbed.ctl.items():
            stats = ctl.stats(reset_max=False)
            switches[switch] = _ports(stats)
            totals[switch] = dict(stats["totals"])
            if self._counters:
                marks[switch], trims[switch] = marks_and_trims(ctl, list(switches[switch]))
        nics: dict[str, Any] = {}
        for host, agent in self._agents.items():
            for nic in self._testbed.plan.hosts[host].nics:
                nics[nic.ifname] = {}
            for port, values in agent.call("stats")["nics"].items():
                ifname = self._testbed.plan.hosts[host].nics[int(port) - 1].ifname
                nics[ifname] = {
                    name: values[name] for name in ("rx_packets", "tx_packets", "sock_drops")
                }
        interfaces: dict[str, Any] = {}
        for link, both in self._testbed.links.stats().items():
            plan = self._testbed.plan.links[link]
            for end, values in ((plan.a, both.a), (plan.b, both.b)):
                interfaces[end.ifname] = asdict(values)
        data = {
            "name": name,
            "switches": switches,
            "totals": totals,
            "interfaces": interfaces,
            "nics": nics,
            "marks": marks,
            "trims": trims,
        }
        return Event(self._clock(), DRILL, "counters", data)


def quiet(event: Event) -> bool:
    """True when no switch port holds a frame."""
    return not any(totals["held"] for totals in event["totals"].values())


def same_traffic(a: Event, b: Event) -> bool:
    """True when no frame was sent or received between two snapshots."""

    def totals(event: Event) -> list[tuple[int, int]]:
        return [
            (port["rx_packets"], port["tx_packets"])
            for ports in event["switches"].values()
            for port in ports.values()
        ]

    return totals(a) == totals(b)
