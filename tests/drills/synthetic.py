"""A recorded run of link-down made by hand: what a right endpoint would have reported.

`SyntheticRun` has knobs for what can go wrong; every test of the judge turns one of them.
Paths are the real ones of the catalogue's fabric.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from drills.catalog import find
from drills.events import DRILL, Event, merge
from drills.format import Drill, load_drill
from drills.judge import judge
from drills.record import RunInfo, split
from drills.summary import Summary
from drills.view import FabricView, view_of
from topologies.plan import Plan
from topologies.spec import load_spec

MS = 1_000_000
S = 1_000_000_000
LINK = "p0t0-0:p0t1-0"
FLOW = "0:h0>h2"
QPN, PEER_QPN = 17, 34
RTT = 12 * MS
PORTS = ("rx_packets", "tx_packets", "rx_bytes", "tx_bytes")
CAUSES = ("queue_full", "port_down", "loss", "blackhole", "pipeline", "rx_socket", "tx_error")


def plan() -> Plan:
    return Plan.from_spec(load_spec(Path(__file__).parent.parent / "data" / "two-plane-100.yaml"))


def drill() -> Drill:
    return load_drill(find("link-down"))


def port(**values: Any) -> dict[str, Any]:
    """PortStats as JSON, all zero but for what is given."""
    drops = {cause: values.pop(cause, 0) for cause in CAUSES}
    return {
        **dict.fromkeys(PORTS, 0),
        "corrupted": 0,
        "queue_depth": [0, 0],
        "queue_depth_max": 0,
        "in_flight": 0,
        "up": True,
        **values,
        "drops": drops,
    }


@dataclass
class SyntheticRun:
    """A run; times are nanoseconds from an arbitrary origin."""

    failover_groups: bool = False
    origin: int = 5_000 * S
    goodput: dict[str, float] = field(
        default_factory=lambda: {"before": 0.97, "during": 0.96, "after": 0.97}
    )
    """Shares of goodput capacity."""
    steer: int = 20 * MS
    """From the first to the last data packet sent onto the dead link."""
    demote: bool = True
    recover: bool = True
    wrong: int = 0
    """EVs demoted though they do not cross the link."""
    destination_hash: str = "aa" * 32
    delivered_surplus: int = 0
    lose_unseen: int = 0
    """Frames that vanish on a wire without any counter."""
    vanish_in_switch: int = 0
    late_p99_ns: int = 200_000
    timer_late_ns: int = 1 * MS
    idle: float = 0.3
    qp_error: bool = False
    edit: Callable[[list[Event]], list[Event]] = lambda events: events

    def __post_init__(self) -> None:
        self.plan = plan()
        self.view: FabricView = view_of(self.plan, self.failover_groups)
        self.drill = drill()
        rng = Random(7)
        self.evs = [(p, rng.getrandbits(32)) for _ in range(64) for p in (0, 1)]
        self.crossing = [
            (p, ev) for p, ev in self.evs if LINK in self.view.route("h0", "h2", p, ev)
        ]
        self.others = [pair for pair in self.evs if pair not in self.crossing]
        self.start = self.origin
        self.steady = self.start + 500 * MS
        self.cut = self.start + 2 * S
        self.repair = self.start + 5 * S
        self.stop = self.start + 9 * S
        self.lost = len(self.crossing) if self.demote else 900

    def seconds(self, t: int) -> float:
        return (t - self.origin) / S

    # -- the parts of the record

    def _runner(self) -> list[Event]:
        flow = {"id": FLOW, "from": "h0", "to": "h2", "qpn": QPN, "peer_qpn": PEER_QPN}
        fault = {"index": 0, "fault": "link_down", "target": LINK, "links": [LINK]}
        message = 256 * 1024
        completed = 800
        size = completed * message
        marks = [
            (self.start, "start"),
            (self.steady, "steady"),
            (self.stop, "stop"),
            (self.stop + 60 * MS, "drained"),
            (self.stop + 400 * MS, "end"),
        ]
        events = [Event(t, DRILL, "phase", {"name": name}) for t, name in marks]
        events += [
            Event(self.start - 2, DRILL, "flow", flow),
            Event(
                self.cut,
                DRILL,
                "fault",
                {**fault, "action": "invoke", "confirmed": self.cut + 9 * MS},
            ),
            Event(
                self.repair,
                DRILL,
                "fault",
                {**fault, "action": "heal", "confirmed": self.repair + 11 * MS},
            ),
            Event(
                self.stop + 70 * MS,
                DRILL,
                "delivery",
                {
                    "flow": FLOW,
                    "message": message,
                    "posted": completed,
                    "completed": completed,
                    "failed": 0,
                    "completed_bytes": size,
                    "delivered_bytes": size + self.delivered_surplus,
                    "duplicates": 3,
                },
            ),
            Event(
                self.stop + 100 * MS,
                DRILL,
                "memory",
                {
                    "flow": FLOW,
                    "bytes": size,
                    "source": "aa" * 32,
                    "destination": self.destination_hash,
                },
            ),
        ]
        t = self.start
        while t < self.stop:
            events.append(Event(t, DRILL, "cpu", {"idle": self.idle, "span_ns": 500 * MS}))
            t += 500 * MS
        events += [self._table(t) for t in (self.start - 1, self.cut - 1, self.repair - 1)]
        return events

    def _table(self, t: int) -> Event:
        gone = set(self.crossing) if self.demote and self.cut < t < self.repair else set()
        if self.failover_groups:
            gone = set()
        evs = [
            [p, ev, "ASSUMED_BAD" if (p, ev) in gone else "GOOD",
             "out" if (p, ev) in gone else "active"]
            for p, ev in self.evs
        ]  # fmt: skip
        return Event(t, DRILL, "ev_table", {"flow": FLOW, "evs": evs})

    def _change(self, t: int, pair: tuple[int, int], old: str, new: str, why: str) -> Event:
        data = {
            "qpn": QPN,
            "plane": pair[0],
            "ev": pair[1],
            "from": old,
            "to": new,
            "reason": why,
        }
        return Event(t, "h0", "ev_state", data)

    def _requestor(self) -> list[Event]:
        events: list[Event] = []
        for i in range(self.lost):
            pair = self.crossing[i % len(self.crossing)]
            span = self.steer if self.demote else self.repair - self.cut - RTT
            sent = self.cut + 2 * MS + span * i // max(1, self.lost - 1)
            data = {"qpn": QPN, "psn": i, "plane": pair[0], "ev": pair[1], "rule": "same_ev"}
            events.append(Event(sent + RTT, "h0", "loss_inferred", {**data, "sent": sent}))
            if self.demote and i < len(self.crossing):
                events.append(self._change(sent + RTT, pair, "GOOD", "ASSUMED_BAD", "loss"))
                if self.recover:
                    back = self.repair + 500 * MS + i * 10 * MS
                    events.append(self._change(back, pair, "ASSUMED_BAD", "GOOD", "probe_ok"))
        for pair in self.others[: self.wrong]:
            events.append(self._change(self.cut + 100 * MS, pair, "GOOD", "ASSUMED_BAD", "rto"))
            events.append(
                self._change(self.repair + 700 * MS, pair, "ASSUMED_BAD", "GOOD", "probe_ok")
            )
        if self.qp_error:
            states = {"qpn": QPN, "from": "RTS", "to": "ERROR", "reason": "retries"}
            events.append(Event(self.stop - S, "h0", "qp_state", states))
        return events

    def _samples(self) -> list[Event]:
        rng = Random(3)
        capacity = 2 * 100e6 * self.view.payload_share / 8
        delivered = 0.0
        events: list[Event] = []
        t = self.start
        while t <= self.stop:
            name = "before" if t < self.cut else "during" if t < self.repair else "after"
            ramp = min(1.0, (t - self.start) / (200 * MS))
            dip = 0.72 if self.cut < t <= self.cut + 60 * MS else 1.0
            share = self.goodput[name] * ramp * dip * (1 + rng.uniform(-0.01, 0.01))
            delivered += capacity * share * 0.05
            common = {"late_ns": self.timer_late_ns, "cpu_ns": t // 3, "sock_drops": 0}
            retransmitted = self.lost if t > self.cut + 50 * MS else 0
            bad = len(self.crossing) if self.cut < t < self.repair + 500 * MS else 0
            events.append(
                Event(
                    t,
                    "h0",
                    "sample",
                    {
                        **common,
                        "delivered_bytes": 0,
                        "retransmitted": retransmitted,
                        "rtt_ns": RTT,
                        "ev_counts": {"GOOD": 192 - bad, "ASSUMED_BAD": bad},
                    },
                )
            )
            events.append(
                Event(
                    t + 7,
                    "h2",
                    "sample",
                    {**common, "delivered_bytes": int(delivered), "duplicates": 3, "rtt_ns": 0},
                )
            )
            t += 50 * MS
        return events

    def _ports(self) -> list[Event]:
        rng = Random(11)
        events: list[Event] = []
        marks: dict[tuple[str, int], int] = {}
        tick = 0
        t = self.start
        while t <= self.stop:
            down = self.cut < t < self.repair
            for name, switch in self.plan.switches.items():
                ports: dict[str, Any] = {}
                marked: dict[str, int] = {}
                for number, config in switch.ports.items():
                    dead = down and config.link == LINK
                    busy = name in ("p0t0-0", "p1t0-0") and config.kind == "t1"
                    busy = busy or (config.peer == "h2")
                    moved = down and switch.plane == 0
                    depth = (
                        0 if dead or not busy else int(rng.triangular(1, 14, 22 if moved else 4))
                    )
                    if busy and config.kind == "t1" and not dead and depth > 5:
                        key = (name, number)
                        marks[key] = marks.get(key, 0) + depth * (3 if moved else 1)
                    if busy or config.kind == "t0":
                        ports[str(number)] = {
                            "tx_bytes": (t - self.start) // 100 if busy else 0,
                            "rx_bytes": 0,
                            "depth": depth,
                            "depth_max": depth,
                            "drops": {"port_down": self.lost}
                            if config.link == LINK and t > self.cut and config.kind == "t1"
                            else {},
                        }
                    if marks.get((name, number)):
                        marked[str(number)] = marks[name, number]
                data: dict[str, Any] = {
                    "late_p99_ns": self.late_p99_ns,
                    "late_max_ns": 4 * self.late_p99_ns,
                    "cpu_ns": 0,
                    "ports": ports,
                }
                if tick % 5 == 0:
                    data["marks"] = marked
                    data["trims"] = {}
                events.append(Event(t + 3, name, "ports", data))
            tick += 1
            t += 100 * MS
        return events

    def _counters(self, name: str, data: int, t: int) -> Event:
        """`data` frames from h0 to h2, spread over both planes and both T1s, and no SACKs."""
        switches: dict[str, dict[str, Any]] = {
            name: {str(n): port() for n in s.ports} for name, s in self.plan.switches.items()
        }
        interfaces: dict[str, Any] = {}
        nics: dict[str, Any] = {}
        zero = dict.fromkeys(
            ("rx_packets", "tx_packets", "rx_dropped", "tx_dropped", "rx_errors", "tx_errors"), 0
        )
        for host in self.plan.hosts.values():
            for nic in host.nics:
                nics[nic.ifname] = {"rx_packets": 0, "tx_packets": 0, "sock_drops": 0}
                interfaces[nic.ifname] = dict(zero)
        lost = self.lost if data else 0
        for plane in (0, 1):
            src = self.plan.hosts["h0"].nics[plane]
            dst = self.plan.hosts["h2"].nics[plane]
            first, last = switches[src.switch], switches[dst.switch]
            nics[src.ifname]["tx_packets"] += data
            interfaces[src.ifname]["tx_packets"] += data
            first[str(src.switch_port)]["rx_packets"] += data
            for uplink in self.plan.switches[src.switch].uplinks:
                config = self.plan.switches[src.switch].ports[uplink]
                dead = config.link == LINK
                share = data // 2
                through = share - (lost if dead else 0)
                first[str(uplink)]["tx_packets"] += through
                if dead:
                    first[str(uplink)]["drops"]["port_down"] += lost
                seen = through - (self.lose_unseen if dead and data else 0)
                t1 = self.plan.switches[config.peer]
                switches[t1.name][str(config.peer_port)]["rx_packets"] += seen
                out = next(p for p in t1.ports.values() if p.peer == dst.switch)
                left = seen - (self.vanish_in_switch if dead and data else 0)
                switches[t1.name][str(out.number)]["tx_packets"] += left
                last[str(out.peer_port)]["rx_packets"] += left
                last[str(dst.switch_port)]["tx_packets"] += left
                nics[dst.ifname]["rx_packets"] += left
                interfaces[dst.ifname]["rx_packets"] += left
        body = {
            "name": name,
            "switches": switches,
            "interfaces": interfaces,
            "nics": nics,
            "marks": {"p0t0-0": {"3": 5 if data else 0}},
            "trims": {},
        }
        return Event(t, DRILL, "counters", body)

    def events(self) -> list[Event]:
        counters = [
            self._counters("start", 0, self.start - 1),
            self._counters("end", 24_000, self.stop + 300 * MS),
        ]
        parts = (self._runner(), self._requestor(), self._samples(), self._ports(), counters)
        return self.edit(merge(*parts))

    def info(self) -> RunInfo:
        return RunInfo(
            run_id="synthetic",
            seed=1,
            failover_groups=self.failover_groups,
            started="2026-01-01T12:00:00+00:00",
            versions={"mrclab": "0.1.0", "kernel": "6.1", "python": "3.11"},
        )

    def judged(self, **changes: Any) -> Summary:
        """The verdict; `changes` replace fields of the drill."""
        drill = self.drill.model_copy(update=changes) if changes else self.drill
        return judge(*split(self.events()), drill, self.view, self.info())


__all__ = ["LINK", "SyntheticRun", "drill", "plan", "port", "replace"]
