"""The workload on real agents: connect, start, stop, compare memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from drills.api import Agent
from drills.events import DRILL, Event
from drills.format import Workload
from hosts.agent.client import AgentClient, AgentError

Clock = Callable[[], int]

FILL_S = 60.0
"""Time-out of operations that go through all the memory of a flow."""
DRAIN_S = 20.0
"""Time-out of the last messages."""


@dataclass(frozen=True, slots=True)
class Connection:
    """A connected flow: both QPs, and the memory that messages go from and to."""

    id: str
    src: str
    dst: str
    qpn: int
    peer_qpn: int
    source: dict[str, Any]
    """Region that messages come from: va, rkey, length, written; known once it is started."""
    target: dict[str, Any]


class Flows:
    """All flows of a workload on a testbed."""

    def __init__(self, workload: Workload, agents: dict[str, Agent]) -> None:
        """`agents`: by host. One that stops answering is replaced there by a new connection."""
        self._workload = workload
        self._agents = agents
        self.connections: list[Connection] = []

    @property
    def hosts(self) -> list[str]:
        """Hosts that take part, each once."""
        return list(dict.fromkeys(h for c in self.connections for h in (c.src, c.dst)))

    @property
    def destinations(self) -> list[str]:
        return list(dict.fromkeys(c.dst for c in self.connections))

    @property
    def sources(self) -> list[str]:
        return list(dict.fromkeys(c.src for c in self.connections))

    def _agent(self, host: str) -> Agent:
        return self._agents[host]

    def connect(self) -> list[Connection]:
        """Register memory at both ends, create a QP at each and connect them."""
        for index, flow in enumerate(self._workload.flows):
            src, dst = self._agent(flow.src), self._agent(flow.dst)
            target = dst.call("register_memory", length=self._workload.memory)
            mine, theirs = src.call("create_qp"), dst.call("create_qp")
            src.call("connect_qp", qpn=mine["qpn"], peer=theirs)
            dst.call("connect_qp", qpn=theirs["qpn"], peer=mine)
            self.connections.append(
                Connection(
                    id=f"{index}:{flow.src}>{flow.dst}",
                    src=flow.src,
                    dst=flow.dst,
                    qpn=int(mine["qpn"]),
                    peer_qpn=int(theirs["qpn"]),
                    source={},
                    target=target,
                )
            )
        return self.connections

    def describe(self, clock: Clock) -> list[Event]:
        """One event of type `flow` per connection."""
        return [
            Event(
                clock(),
                DRILL,
                "flow",
                {
                    "id": c.id,
                    "from": c.src,
                    "to": c.dst,
                    "qpn": c.qpn,
                    "peer_qpn": c.peer_qpn,
                    "message": self._workload.message,
                    "outstanding": self._workload.outstanding,
                },
            )
            for c in self.connections
        ]

    def start(self, seed: int) -> None:
        """Start the writes of every flow. The source fills its memory before the first."""
        for index, c in enumerate(self.connections):
            report = self._agent(c.src).call(
                "workload_start",
                timeout=FILL_S,
                qpn=c.qpn,
                message_bytes=self._workload.message,
                window=self._workload.outstanding,
                region_bytes=self._workload.memory,
                remote_va=c.target["va"],
                rkey=c.target["rkey"],
                seed=seed + index,
            )
            c.source.update(report["source"])

    def stop(self, clock: Clock) -> list[Event]:
        """No new messages; waits until all posted ones have completed. One event of type
        `delivery` per flow: what the source completed and what the destination placed."""
        events: list[Event] = []
        if len(self.connections) > 1:
            # All at once: what one flow's draining takes must not prolong the others.
            for c in self.connections:
                self._agent(c.src).call("workload_stop", qpn=c.qpn, wait=False)
        for c in self.connections:
            try:
                report = self._agent(c.src).call("workload_stop", timeout=DRAIN_S, qpn=c.qpn)
            except AgentError:
                # Messages that never complete are for the judge. After a time-out the old
                # connection is of no use: its next answer would be the late one.
                old = self._agent(c.src)
                reopen = getattr(old, "reopen", None)
                self._agents[c.src] = reopen() if reopen else AgentClient(old.path)
                report = self._agent(c.src).call("workload_status", qpn=c.qpn)
            events.append(self._delivery(c, report, clock))
        return events

    def _delivery(self, c: Connection, report: dict[str, Any], clock: Clock) -> Event:
        c.source["written"] = report["written_bytes"]
        qps = self._agent(c.dst).call("stats")["endpoint"]["qps"]
        placed = qps[str(c.peer_qpn)]
        data = {
            "flow": c.id,
            "message": self._workload.message,
            "posted": report["posted"],
            "completed": report["completed"],
            "failed": report["failed"],
            "completed_bytes": report["completed_bytes"],
            "delivered_bytes": placed["delivered_bytes"],
            "duplicates": placed["duplicate_packets"],
        }
        return Event(clock(), DRILL, "delivery", data)

    def ev_tables(self, clock: Clock) -> list[Event]:
        """The EV table of every requestor as an event of type `ev_table`."""
        events: list[Event] = []
        for c in self.connections:
            rows = self._agent(c.src).call("ev_table", qpn=c.qpn)["evs"]
            evs = [[row["plane"], row["ev"], row["state"], row["role"]] for row in rows]
            events.append(Event(clock(), DRILL, "ev_table", {"flow": c.id, "evs": evs}))
        return events

    def compare_memory(self, clock: Clock) -> list[Event]:
        """SHA-256 of what was written at both ends of every flow, as events of type `memory`."""
        events: list[Event] = []
        for c in self.connections:
            length = c.source["written"]
            hashes = [
                self._agent(host).call(
                    "memory_hash", timeout=FILL_S, rkey=region["rkey"], offset=0, length=length
                )["sha256"]
                for host, region in ((c.src, c.source), (c.dst, c.target))
            ]
            data = {"flow": c.id, "bytes": length, "source": hashes[0], "destination": hashes[1]}
            events.append(Event(clock(), DRILL, "memory", data))
        return events
