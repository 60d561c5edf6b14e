"""Which loops each host probes, and what their outcomes say of each link.

Per NIC port: host > T0 > host, and host > T0 > T1 > T0 > host for every T1 of the plane. Should
the first come back and the second not, the T0-T1 link (or the T1) is at fault; should neither,
the NIC-T0 link (or the T0).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from controller.mrc.evidence import Way
from topologies.plan import Plan
from topologies.srv6 import sid_list


@dataclass(frozen=True)
class PlannedLoop:
    """A loop of a host."""

    number: int
    """Unique in the fabric."""
    host: str
    plane: int
    way: Way
    """Links and switches it crosses, each once (it crosses them twice)."""
    destination: str
    """Outer destination address."""
    segments: tuple[str, ...]

    @property
    def far_link(self) -> str:
        """The link that this loop is there to test: its last one."""
        return self.way[0] if len(self.way) == 2 else self.way[2]

    def to_json(self, plan: Plan) -> dict[str, Any]:
        """As the agent's `loops_start` takes it."""
        nic = plan.host(self.host).nics[self.plane]
        return {
            "loop": self.number,
            "port": nic.port,
            "destination": self.destination,
            "segments": list(self.segments),
        }


def plan_loops(plan: Plan, hosts: Iterable[str] | None = None) -> Iterator[PlannedLoop]:
    """All loops of these hosts (default: of all), in a fixed order."""
    number = 0
    wanted = None if hosts is None else set(hosts)
    for host in plan.hosts.values():
        for nic in host.nics:
            t0 = plan.switch(nic.switch)
            for uplink in (None, *range(len(t0.uplinks))):
                way: Way = (nic.link, t0.name)
                if uplink is not None:
                    port = t0.ports[t0.uplinks[uplink]]
                    way = (*way, port.link, port.peer)
                if wanted is None or host.name in wanted:
                    sids = sid_list(plan, host.name, host.name, nic.plane, uplink)
                    segments = () if sids.segment is None else (str(sids.segment),)
                    yield PlannedLoop(
                        number, host.name, nic.plane, way, str(sids.destination), segments
                    )
                number += 1


@dataclass
class LoopRecord:
    """What a loop's probes did, all in all and lately."""

    loop: PlannedLoop
    sent: int = 0
    lost: int = 0
    rtt_ns: int | None = None
    """The last reported mean."""
    last_answer: int | None = None
    """ns; None: never."""


@dataclass
class LinkHealth:
    """A link's row in the live table: over all loops that test it."""

    link: str
    sent: int = 0
    lost: int = 0
    rtt_ns: int | None = None
    silent: int = 0
    """Loops of it that have never or not lately come back."""
    loops: int = 0

    @property
    def loss(self) -> float:
        return self.lost / self.sent if self.sent else 0.0


@dataclass
class Mapper:
    """The live table. `silent_ns`: a loop without an answer for so long is silent."""

    plan: Plan
    silent_ns: int
    records: dict[int, LoopRecord] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.records = {loop.number: LoopRecord(loop) for loop in plan_loops(self.plan)}

    def update(
        self, number: int, sent: int, lost: int, rtt_ns: int | None, now: int
    ) -> PlannedLoop | None:
        """Counts of a loop since the last report. None: no such loop (a stale report)."""
        record = self.records.get(number)
        if record is None:
            return None
        record.sent += sent
        record.lost += lost
        if sent > lost:
            record.last_answer = now
            record.rtt_ns = rtt_ns
        return record.loop

    def health(self, now: int) -> Mapping[str, LinkHealth]:
        """Every link, in the plan's order."""
        table = {name: LinkHealth(name) for name in self.plan.links}
        for record in self.records.values():
            row = table[record.loop.far_link]
            row.loops += 1
            row.sent += record.sent
            row.lost += record.lost
            if record.last_answer is None or now - record.last_answer > self.silent_ns:
                row.silent += record.sent > 0
            elif record.rtt_ns is not None:
                row.rtt_ns = min(filter(None, (row.rtt_ns, record.rtt_ns)))
        return table
