"""A testbed that answers like a running lab, without one: enough to drive the runner.

It moves no packets. Its counters grow with the real clock while the workload runs; its event
files hold what agents would have written.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from drills.events import Event
from hosts.agent.client import AgentError
from tests.drills.synthetic import LINK, MS, S, plan, port
from topologies.links import LinkError

RTT = 12 * MS
QPN = {"h0": 5, "h2": 9}
KERNEL = dict.fromkeys(
    ("rx_packets", "tx_packets", "rx_bytes", "tx_bytes", "rx_errors", "tx_errors",
     "rx_dropped", "tx_dropped"), 0,
)  # fmt: skip


TOTALS = dict.fromkeys(("received", "copies", "sent", "packet_in", "dropped", "held"), 0)


@dataclass(frozen=True)
class IfStats:
    """As topologies.netlink.IfStats."""

    rx_packets: int = 0
    tx_packets: int = 0
    rx_bytes: int = 0
    tx_bytes: int = 0
    rx_errors: int = 0
    tx_errors: int = 0
    rx_dropped: int = 0
    tx_dropped: int = 0


class FakeAgent:
    """One host's control socket. `calls` records the operations in order."""

    def __init__(self, lab: FakeTestbed, name: str) -> None:
        self.lab, self.name = lab, name
        self.path = name
        self.calls: list[str] = []

    def call(self, op: str, *, timeout: float | None = None, **fields: Any) -> dict[str, Any]:
        del timeout
        self.calls.append(op)
        method = getattr(self, f"op_{op}", None)
        if method is None:
            raise AssertionError(f"the runner asked {self.name} for the unknown operation {op}")
        reply: dict[str, Any] = method(**fields)
        return reply

    def op_register_memory(self, length: int) -> dict[str, Any]:
        return {"va": 0x1000, "rkey": 7, "length": length}

    def op_create_qp(self) -> dict[str, Any]:
        return {"qpn": QPN[self.name], "psn": 0, "ips": {}}

    def op_connect_qp(self, qpn: int, peer: dict[str, Any]) -> dict[str, Any]:
        assert qpn == QPN[self.name] != peer["qpn"]
        return {}

    def op_workload_start(self, **fields: Any) -> dict[str, Any]:
        assert fields["region_bytes"] >= fields["message_bytes"] * fields["window"]
        self.lab.begin(fields["message_bytes"])
        source = {"va": 1, "rkey": 8, "length": fields["region_bytes"]}
        return {"source": source, "posted": 1, "completed": 0}

    def op_workload_stop(self, qpn: int, wait: bool = True) -> dict[str, Any]:
        assert qpn == QPN["h0"]
        self.lab.finish()
        if self.lab.stuck:
            raise AgentError(f"{self.path}: workload_stop: no reply within 20 s")
        return self.op_workload_status(qpn)

    def op_workload_status(self, qpn: int) -> dict[str, Any]:
        assert qpn == QPN["h0"]
        done = self.lab.delivered() // self.lab.message
        return {
            "posted": done + self.lab.stuck,
            "completed": done,
            "failed": 0,
            "completed_bytes": done * self.lab.message,
            "written_bytes": done * self.lab.message,
        }

    def op_memory_hash(self, rkey: int, offset: int, length: int) -> dict[str, Any]:
        assert (rkey, offset) in ((8, 0), (7, 0))
        content = b"source" if self.name == "h0" or not self.lab.corrupt else b"other"
        return {"sha256": hashlib.sha256(content).hexdigest(), "length": length}

    def op_ev_table(self, qpn: int) -> dict[str, Any]:
        assert qpn == QPN["h0"]
        down = self.lab.links.down
        rows = []
        for plane, ev in self.lab.evs:
            gone = down and (plane, ev) in self.lab.crossing
            state, role = ("ASSUMED_BAD", "out") if gone else ("GOOD", "active")
            rows.append({"plane": plane, "ev": ev, "state": state, "role": role, "drops": 0})
        return {"evs": rows}

    def op_stats(self) -> dict[str, Any]:
        nics = {
            str(nic.port): {"rx_packets": 0, "tx_packets": 0, "sock_drops": 0}
            for nic in self.lab.plan.hosts[self.name].nics
        }
        done = self.lab.delivered() // self.lab.message * self.lab.message
        placed = {"delivered_bytes": done, "duplicate_packets": 0}
        qps = {str(QPN["h2"]): placed} if self.name == "h2" else {}
        return {"nics": nics, "endpoint": {"qps": qps}}


class FakeCtl:
    """One switch's side channel."""

    def __init__(self, ports: list[int]) -> None:
        self._ports = ports

    def stats(self, reset_max: bool = False) -> dict[str, Any]:
        del reset_max
        fidelity = {"late_p99_ns": 100_000, "late_max_ns": 300_000, "cpu_ns": 1}
        # The real client gives port numbers as integers.
        return {
            "now": time.monotonic_ns(),
            "ports": {number: port() for number in self._ports},
            "totals": TOTALS,
            "fidelity": fidelity,
        }

    def counters(self, names: Sequence[str]) -> dict[str, Any]:
        return {name: {"packets": [0] * 512, "bytes": [0] * 512} for name in names}


class FakeLinks:
    """LinkControl: a cut link is down at once, unless it is `stuck`."""

    def __init__(self, lab: FakeTestbed) -> None:
        self._lab = lab
        self.down = False
        self.stuck = False
        self.broken = False
        self.log: list[str] = []

    def cut(self, link: str) -> None:
        assert link == LINK
        self.log.append("cut")
        if self.broken:
            raise LinkError(f"{link}: the side channel is gone")
        if not self.stuck:
            self.down = True
            self._lab.demote()

    def repair(self, link: str) -> None:
        assert link == LINK
        self.log.append("repair")
        if self.down:
            self._lab.restore()
        self.down = False

    def impair(
        self, link: str, *, loss: float = 0.0, corrupt: float = 0.0, blackhole: bool = False
    ) -> None:
        raise AssertionError((link, loss, corrupt, blackhole))

    def state(self, link: str) -> Any:
        assert link == LINK
        whole = SimpleNamespace(loss=0.0, corrupt=0.0, blackhole=False)
        return SimpleNamespace(
            up=not self.down, down=self.down, impaired_up=whole, impaired_down=whole
        )

    def stats(self) -> Mapping[str, Any]:
        return {name: SimpleNamespace(a=IfStats(), b=IfStats()) for name in self._lab.plan.links}


class FakeTestbed:
    """See the module. `rate`: payload bytes per second that "arrive"."""

    def __init__(self, run_dir: Path, *, rate: float | None = None) -> None:
        from drills.view import view_of

        self.plan = plan()
        self.run_dir = run_dir
        self.run_id = "fake"
        self.switch = "builtin"
        self.failover_groups = False
        self.versions = {"mrclab": "test"}
        self.corrupt = False
        self.stuck = 0
        """Messages that never complete."""
        view = view_of(self.plan)
        self.rate = 0.98 * 200e6 / 8 * view.payload_share if rate is None else rate
        self.evs = [(ev % 2, 0x10000 * ev + 0xC000 + ev) for ev in range(64)]
        self.crossing = [p for p in self.evs if LINK in view.route("h0", "h2", *p)]
        self.agents = {name: FakeAgent(self, name) for name in self.plan.hosts}
        self.ctl = {name: FakeCtl(list(s.ports)) for name, s in self.plan.switches.items()}
        self.links = FakeLinks(self)
        self.controller = None
        run_dir.mkdir(parents=True, exist_ok=True)
        self.event_files = {name: run_dir / f"{name}.jsonl" for name in self.plan.hosts}
        self.message = 1
        self._begun = 0
        self._ended = 0
        self._sampled = 0

    # -- the world

    def set_probing(self, on: bool) -> None:
        """No controller, no probes."""

    def delivered(self, now: int | None = None) -> int:
        if not self._begun:
            return 0
        until = self._ended or now or time.monotonic_ns()
        return int((until - self._begun) / S * self.rate)

    def _write(self, event: Event) -> None:
        with self.event_files[event.src].open("a") as file:
            file.write(event.to_json() + "\n")

    def begin(self, message: int) -> None:
        self._begun = time.monotonic_ns()
        self.message = message
        # What will have been delivered by when is known: write the samples of 2 s at once.
        for i in range(1, 200):
            t = self._begun + i * 10 * MS
            common = {"late_ns": 1 * MS, "sock_drops": 0}
            got = {"delivered_bytes": self.delivered(t), "rtt_ns": 0, "duplicates": 0}
            sent = {"delivered_bytes": 0, "rtt_ns": RTT, "retransmitted": 0}
            self._write(Event(t, "h2", "sample", {**common, **got}))
            self._write(Event(t, "h0", "sample", {**common, **sent}))

    def finish(self) -> None:
        self._ended = time.monotonic_ns()

    def _ev(self, pair: tuple[int, int], old: str, new: str) -> Event:
        data = {"qpn": QPN["h0"], "plane": pair[0], "ev": pair[1], "from": old, "to": new}
        return Event(time.monotonic_ns(), "h0", "ev_state", {**data, "reason": "test"})

    def demote(self) -> None:
        for pair in self.crossing:
            lost = {"qpn": QPN["h0"], "psn": 1, "plane": pair[0], "ev": pair[1], "rule": "x"}
            now = time.monotonic_ns()
            self._write(Event(now, "h0", "loss_inferred", {**lost, "sent": now}))
            self._write(self._ev(pair, "GOOD", "ASSUMED_BAD"))

    def restore(self) -> None:
        for pair in self.crossing:
            self._write(self._ev(pair, "ASSUMED_BAD", "GOOD"))
