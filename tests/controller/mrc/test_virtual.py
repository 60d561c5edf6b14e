"""The controller on a whole fabric in virtual time: real switches, real endpoints, no clock."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.mrc.core import MrcController
from controller.mrc.desk import Desk
from controller.mrc.talk import run
from drills.flows import Flows
from drills.format import Workload
from hosts.agent.client import AgentError
from topologies.plan import Plan
from topologies.spec import load_spec
from virtualtime.testbed import VirtualTestbed

Json = dict[str, Any]
PLAN = Plan.from_spec(load_spec("two-plane"))
LINK = "p0t0-0:p0t1-0"
NIC_LINK = "h2:p1t0-1"


class Bench:
    """A fabric with one busy connection and a controller."""

    def __init__(self, bed: VirtualTestbed) -> None:
        self.bed = bed
        self.waiter = bed.waiter()
        self.silent: set[str] = set()
        self.events: list[Json] = []
        self.mrc = MrcController(PLAN, emit=lambda t, event: self.events.append({"t": t, **event}))
        self.desk = Desk(self.mrc)
        self.timing = self.mrc.timing
        workload = Workload.model_validate(
            {
                "flows": [{"from": "h0", "to": "h2"}],
                "message": "64 KiB",
                "outstanding": 2,
                "memory": "4 MiB",
            }
        )
        flows = Flows(workload, dict(bed.agents))
        flows.connect()
        flows.start(1)
        run(self.mrc.start(self.now), self.call)

    @property
    def now(self) -> int:
        return self.waiter.now()

    def call(self, host: str, request: Json) -> Json | None:
        if host in self.silent:
            return None
        fields = {key: value for key, value in request.items() if key != "op"}
        try:
            return {"ok": True, **self.bed.agents[host].call(request["op"], **fields)}
        except AgentError as error:
            return {"ok": False, "error": str(error)}

    def pass_time(self, windows: float) -> None:
        """Poll for so many short windows (about a second each)."""
        end = self.now + int(windows * self.timing.watch.fast)
        while self.now < end:
            self.waiter.until(self.now + self.timing.poll)
            run(self.mrc.poll(self.now), self.call)

    def ask(self, op: str, **fields: Any) -> Json:
        return run(self.desk.serve({"op": op, **fields}, self.now), self.call)

    def states(self, link: str) -> set[str]:
        return {row["state"] for row in self.ask("ev", host="h0", link=link)["evs"]}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder: Path = tmp_path_factory.mktemp("mrc")
    with VirtualTestbed(PLAN, run_id="mrc", run_dir=folder, seed=1) as bed:
        made = Bench(bed)
        made.pass_time(0.3)
        yield made


def test_a_cut_is_named_and_forgotten(bench: Bench) -> None:
    bench.bed.links.cut(LINK)
    cut = bench.now
    bench.pass_time(0.5)
    (incident,) = bench.mrc.watch.incidents
    assert incident.suspects == (LINK,)
    assert incident.opened - cut < bench.timing.watch.fast
    row = next(r for r in bench.ask("health")["links"] if r["link"] == LINK)
    assert row["incident"] == incident.number
    bench.bed.links.repair(LINK)
    bench.pass_time(1.7)
    assert bench.mrc.watch.incidents == ()
    assert [e["kind"] for e in bench.events if e["type"] == "incident"][-1] == "closed"
    (told,) = bench.ask("incidents")["incidents"]
    assert (told["suspects"], told["closed"] is not None) == ([LINK], True)


def test_deny_and_allow_a_link(bench: Bench) -> None:
    crossing = bench.ask("ev", host="h0", link=LINK)["evs"]
    assert crossing
    assert all(LINK in row["links"] for row in crossing)
    reply = bench.ask("deny", links=[LINK])
    assert reply["denied"] == {"links": [LINK], "evs": []}
    assert bench.states(LINK) == {"DENIED"}
    assert bench.states("p0t0-0:p0t1-1") <= {"GOOD", "SKIP"}
    bench.ask("allow", links=[LINK])
    assert "DENIED" not in bench.states(LINK)


def test_a_connection_that_comes_later_is_denied_too(bench: Bench) -> None:
    bench.ask("deny", links=[LINK])
    a, b = bench.bed.agents["h1"], bench.bed.agents["h3"]
    mine, theirs = a.call("create_qp"), b.call("create_qp")
    a.call("connect_qp", qpn=mine["qpn"], peer=theirs)
    b.call("connect_qp", qpn=theirs["qpn"], peer=mine)
    bench.pass_time(0.4)
    rows = bench.ask("ev", host="h1", link=LINK)["evs"]
    assert {row["state"] for row in rows} == {"DENIED"}
    bench.ask("allow", links=[LINK])


def test_one_ev(bench: Bench) -> None:
    ev = bench.ask("ev", host="h0")["evs"][0]["ev"]
    assert bench.ask("deny", evs=[ev])["denied"]["evs"] == [ev]
    rows = {row["ev"]: row["state"] for row in bench.ask("ev", host="h0")["evs"]}
    assert rows[ev] == "DENIED"
    assert bench.ask("allow", evs=[ev])["denied"]["evs"] == []


def test_drain_a_nic_link(bench: Bench) -> None:
    assert bench.ask("drain", link=NIC_LINK)["changed"] == 1
    bench.pass_time(0.7)
    assert bench.mrc.watch.incidents == ()  # a port put down on purpose is no fault
    ports = bench.bed.agents["h2"].call("ports")["ports"]
    assert "False" in str(ports) or "false" in str(ports)
    row = next(r for r in bench.ask("health")["links"] if r["link"] == NIC_LINK)
    assert row["denied"]
    assert bench.ask("allow", links=[NIC_LINK])["changed"] >= 1
    bench.pass_time(2.5)
    assert bench.mrc.watch.incidents == ()


def test_probes_answer_over_every_way(bench: Bench) -> None:
    probes = bench.ask("probe", src="h0", dst="h2")["probes"]
    assert len(probes) > 50
    assert all(p["rtt_ns"] > 0 for p in probes)
    assert "start a workload" in bench.ask("probe", src="h2", dst="h1")["error"]


def test_a_host_that_falls_silent_and_comes_back(bench: Bench) -> None:
    bench.silent.add("h3")
    bench.pass_time(0.2)
    assert [e["host"] for e in bench.events if e["type"] == "agent_silent"] == ["h3"]
    bench.silent.clear()
    bench.pass_time(0.2)
    assert bench.ask("agent", host="h3", request={"op": "hello"})["reply"]["ok"]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"op": "nope"}, "is none of"),
        ({"op": "ev", "link": "p0t0-0:p0t1-9"}, "p0t0-0:p0t1-9"),
        ({"op": "ev", "host": 3}, "host: must be a text"),
        ({"op": "deny"}, "name EVs or links"),
        ({"op": "deny", "evs": [1 << 40]}, "32-bit"),
        ({"op": "deny", "evs": ["x"]}, "list of int"),
        ({"op": "deny", "links": ["nowhere"]}, "nowhere"),
        ({"op": "drain"}, "link: must be"),
        ({"op": "probe", "src": "h0", "dst": "h2", "timeout_ns": 0}, "timeout_ns"),
        ({"op": "agent", "host": "h0", "request": 3}, "JSON object"),
    ],
)
def test_nonsense_is_refused_in_one_line(
    bench: Bench, request_: dict[str, Any], message: str
) -> None:
    reply = run(bench.desk.serve(request_, bench.now), bench.call)
    assert reply["ok"] is False
    assert message in reply["error"]
    assert "\n" not in reply["error"]
    assert not bench.mrc.denials.links
