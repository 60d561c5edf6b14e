"""The self-test against a fabric made of counters: what it must accept and what it must catch."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from controller.counters import Count, port_counters
from controller.errors import SelfTestError
from controller.flows import burst_flows, burst_size, spread_flows
from controller.linkcounts import compare_spread
from controller.selftest import SelfTest
from topologies.paths import path_of
from topologies.plan import Plan
from topologies.spec import load_spec

PLAN = Plan.from_spec(load_spec("two-plane"))


class Fabric:
    """Counts what real switches would for packets sent one after another; `fault` bends it."""

    def __init__(self, fault: str = "") -> None:
        self.fault = fault
        self.slow = fault == "slow once"
        self.cells = {
            name: {port: dict[str, int]() for port in switch.ports}
            for name, switch in PLAN.switches.items()
        }
        self.nics = {(h.name, n.plane): 0 for h in PLAN.hosts.values() for n in h.nics}
        self.by_address = {n.ipv6: h.name for h in PLAN.hosts.values() for n in h.nics}

    def add(self, switch: str, port: int, what: str, count: int = 1) -> None:
        cell = self.cells[switch][port]
        cell[what] = cell.get(what, 0) + count

    def send(self, source: str, dst: str, plane: int, ev: int, marked: bool, trimmed: bool):
        target = self.by_address[dst]
        if self.fault == "hash":
            ev ^= 1
        path = path_of(PLAN, source, target, plane, ev)
        here = source
        for hop, name in enumerate(path.links):
            link = PLAN.link(name)
            far = link.b if here == link.a.node else link.a
            near = link.a if far is link.b else link.b
            if hop > 0:
                if self.fault == "queue" and hop == 1 and marked:
                    self.add(near.node, near.port, "forwarded")
                    return
                self.add(near.node, near.port, "forwarded")
                self.add(near.node, near.port, "transmitted")
                if hop == 1 and marked and self.fault != "marks":
                    self.add(near.node, near.port, "marked")
                if hop == 1 and trimmed and self.fault != "trims" and not self.slow:
                    self.add(near.node, near.port, "trimmed")
                if hop == 3 and self.fault == "lasthop":
                    self.add(near.node, near.port, "marked")
            if self.fault == "lossy" and name == "p0t0-0:p0t1-1" and far.node == "p0t1-1":
                return
            here = far.node
            if here in PLAN.switches:
                self.add(here, far.port, "received")
                if self.fault == "unrouted" and here == "p1t1-0":
                    self.add(here, far.port, "no_route")
                    return
            elif self.fault != "deaf":
                self.nics[here, plane] += 1

    def counters(self):
        return {
            name: {port: self.port(port, cell) for port, cell in ports.items()}
            for name, ports in self.cells.items()
        }

    @staticmethod
    def port(number, cell):
        empty = port_counters([number], {})[number]
        return replace(
            empty,
            received=Count(cell.get("received", 0)),
            forwarded={**empty.forwarded, "data": Count(cell.get("forwarded", 0))},
            transmitted={**empty.transmitted, "data": Count(cell.get("transmitted", 0))},
            marked=Count(cell.get("marked", 0)),
            trimmed=Count(cell.get("trimmed", 0)),
            drops={**empty.drops, "no_route": Count(cell.get("no_route", 0))},
        )


class Agent:
    def __init__(self, fabric: Fabric, name: str) -> None:
        self.fabric = fabric
        self.name = name

    def call(self, op: str, **fields):
        if op == "stats":
            counts = {p + 1: n for (h, p), n in self.fabric.nics.items() if h == self.name}
            return {"nics": {str(p): {"rx_packets": n, "sock_drops": 0} for p, n in counts.items()}}
        assert op == "send_raw"
        depths = PLAN.spec.thresholds
        for position, ev in enumerate(fields["evs"]):
            burst = fields["interval_ns"] == 0
            self.fabric.send(
                self.name,
                fields["dst"],
                fields["plane"],
                ev,
                burst and fields["ecn"] == 2 and position >= depths.kmax,
                burst and fields["dscp"] == 4 and position >= depths.trim,
            )
        if burst:
            self.fabric.slow = False
        return {"sent": len(fields["evs"]) - (self.fabric.fault == "nic"), "errors": 0}


def run(fault: str = "", seed: int = 1):
    fabric = Fabric(fault)
    agents = {name: Agent(fabric, name) for name in PLAN.hosts}
    test = SelfTest(
        PLAN,
        agents,
        fabric.counters,
        rng=random.Random(seed),
        clock=lambda: 0.0,
        wait=lambda _: None,
    )
    return test.run()


def test_a_fabric_that_works_passes():
    report = run()
    assert report.ok
    report.require()
    assert report.lines()[0].startswith("ok   spread: 1024 EVs")
    assert set(report.uplinks) == {n for n, link in PLAN.links.items() if link.kind == "fabric"}
    assert all(found == wanted > 0 for wanted, found in report.uplinks.values())


@pytest.mark.parametrize(
    ("fault", "check", "text"),
    [
        ("hash", "spread", "packets, predicted"),
        ("lossy", "spread", "p0t1-1"),
        ("marks", "marks", "was not marked"),
        ("trims", "marks", "was not trimmed"),
        ("queue", "marks", "came out"),
        ("lasthop", "marks", "faces a host and marks"),
        ("unrouted", "spread", "predicted"),
        ("deaf", "conservation", "arrived"),
    ],
)
def test_what_is_wrong_is_named(fault, check, text):
    report = run(fault)
    failed = {c.name: c.problems for c in report.checks if not c.ok}
    assert check in failed
    assert any(text in problem for problem in failed[check])
    with pytest.raises(SelfTestError, match=r"^self-test "):
        report.require()


def test_a_burst_that_came_too_slowly_is_tried_again():
    assert run("slow once").ok


def test_losses_show_in_conservation_too():
    lost = {c.name: c.problems for c in run("lossy").checks}
    assert any("p0t0-0:p0t1-1 from p0t0-0" in problem for problem in lost["conservation"])
    dropped = {c.name: c.problems for c in run("unrouted").checks}
    assert any("packets dropped: no_route" in problem for problem in dropped["conservation"])


def test_packets_that_never_left_stop_the_test():
    with pytest.raises(SelfTestError, match="sent 63 of 64 packets"):
        run("nic")


def test_bursts_take_one_uplink_and_stay_below_tail_drop():
    depths = PLAN.spec.thresholds
    assert burst_size(PLAN) > 2 * depths.trim
    trim = PLAN.spec.trim.model_copy(update={"enabled": False})
    untrimmed = Plan.from_spec(PLAN.spec.model_copy(update={"trim": trim}))
    assert depths.kmax < burst_size(untrimmed) < depths.data_limit
    for flow in burst_flows(PLAN, random.Random(3)):
        uplinks = {
            path_of(PLAN, flow.source, flow.target, flow.plane, ev).links[1] for ev in flow.evs
        }
        assert len(uplinks) == 1
        assert len(flow.evs) == burst_size(PLAN)


def test_every_host_sends_and_receives_once_per_plane():
    flows = spread_flows(PLAN, random.Random(1), 4)
    assert len(flows) == len(PLAN.hosts) * PLAN.spec.planes
    assert len({(f.target, f.plane) for f in flows}) == len(flows)
    assert all(PLAN.host(f.source).t0 != PLAN.host(f.target).t0 for f in flows)


def test_differences_are_listed_per_direction():
    assert compare_spread({("l", "a"): 3}, {("l", "a"): 2, ("l", "b"): 1}) == [
        "l from a: 2 packets, predicted 3",
        "l from b: 1 packets, predicted 0",
    ]
