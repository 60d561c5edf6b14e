"""The self-test on compiled switches: every EV where it belongs, and each wrong entry found."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache

import pytest

from controller import selftest
from controller.entities import Action, Codec, TableEntry
from controller.flows import by_uplink, planned_flows, predict
from controller.p4names import P4Names
from controller.program import NEXT_SID, PATHS, ROUTE, SwitchProgram, fabric_program
from controller.selftest import Check, Report
from softswitch.p4 import compile_file
from tests.controller.memfabric import MemFabric
from tests.p4src.conftest import SOURCE
from tests.topologies.fabrics import spec
from topologies.plan import Plan
from topologies.spec import load_spec
from topologies.steerspec import Mode


@pytest.fixture(autouse=True)
def nothing_comes_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames in memory are there when the clock stands still: look once."""
    monkeypatch.setattr(selftest, "SETTLE_LOOKS", 1)


@cache
def compiled():
    return compile_file(SOURCE)


@cache
def small(mode: Mode, srh: bool = False) -> Plan:
    """One plane, three uplinks (a value of the field names none), few EVs."""
    return Plan.from_spec(
        spec(
            planes="1",
            t1_per_plane="3",
            mode=mode,
            ev="{active: 6, backup: 3}",
            srv6=f"{{srh: {str(srh).lower()}}}",
            queues="{data: 90 packets}",
        )
    )


def run(plan: Plan, programs: dict[str, SwitchProgram] | None = None) -> Report:
    with self_test(plan, programs) as test:
        return test.run()


def check_paths(plan: Plan, programs: dict[str, SwitchProgram]) -> Check:
    with self_test(plan, programs) as test:
        return test.check_paths(test.counters())[0]


@contextmanager
def self_test(plan: Plan, programs: dict[str, SwitchProgram] | None) -> Iterator[selftest.SelfTest]:
    program = compiled()
    fabric = MemFabric(
        plan,
        program.json,
        Codec(P4Names(program.p4info)),
        programs or fabric_program(plan, failover_groups=False),
    )
    try:
        yield selftest.SelfTest(
            plan,
            fabric.agents,
            fabric.counters,
            rng=random.Random(1),
            clock=lambda: 0.0,
            wait=lambda _: None,
        )
    finally:
        fabric.close()


def paths(report: Report) -> Check:
    (check,) = (c for c in report.checks if c.name == "paths")
    return check


@pytest.mark.parametrize("name", ["two-plane"])
@pytest.mark.parametrize("mode", ["structured", "srv6"])
def test_every_ev_of_a_fabric_takes_its_links(name: str, mode: Mode) -> None:
    plan = Plan.from_spec(load_spec(name, mode))
    report = run(plan)
    assert report.ok, report.checks
    evs = (plan.spec.ev.active + plan.spec.ev.backup) * len(plan.hosts)
    assert paths(report).summary.startswith(f"{evs} EVs, ")


@pytest.mark.parametrize(("mode", "srh"), [("structured", False), ("srv6", False), ("srv6", True)])
def test_small_fabrics_pass(mode: Mode, srh: bool) -> None:
    assert run(small(mode, srh)).ok


def action_of(entry: TableEntry) -> Action:
    assert isinstance(entry.action, Action)
    return entry.action


USED = {"structured": (ROUTE, PATHS), "srv6": (ROUTE, NEXT_SID)}


def used_entries(plan: Plan, switch: str) -> list[TableEntry]:
    """Entries of a switch that packets with EVs meet (others are for probes, or not for MRC)."""
    program = fabric_program(plan, failover_groups=False)[switch]
    node = plan.switch(switch)
    found = []
    for entry in program.entries:
        if entry.table not in USED[plan.spec.mode]:
            continue
        name = action_of(entry).name.rpartition(".")[2]
        if name in ("discard", "forward_others", "spray_others"):
            continue
        if plan.spec.mode == "structured" and name == "shift_list":
            continue
        uplink = action_of(entry).params.get("port") in node.uplinks or node.tier == 1
        if name == "cross" and uplink:
            continue
        found.append(entry)
    return found


def wrong(plan: Plan, switch: str, entry: TableEntry) -> list[TableEntry | None]:
    """What may be there instead: nothing, or another port."""
    ways: list[TableEntry | None] = [None]
    action = action_of(entry)
    params = action.params
    if "port" in params:
        other = next(n for n in plan.switch(switch).ports if n != params["port"])
        ways.append(replace(entry, action=replace(action, params={**params, "port": other})))
    if "shift" in params:
        params = {**params, "shift": params["shift"] - 1}
        ways.append(replace(entry, action=replace(action, params=params)))
    return ways


@pytest.mark.parametrize("mode", ["structured", "srv6"])
@pytest.mark.parametrize("switch", ["p0t0-0", "p0t1-2"])
def test_a_single_wrong_entry_is_found(mode: Mode, switch: str) -> None:
    plan = small(mode)
    programs = fabric_program(plan, failover_groups=False)
    entries = used_entries(plan, switch)
    assert len(entries) >= (6 if switch == "p0t0-0" else 2)
    for entry in entries:
        for instead in wrong(plan, switch, entry):
            rest = tuple(e for e in programs[switch].entries if e != entry)
            changed = (*rest, *(() if instead is None else (instead,)))
            broken = {**programs, switch: replace(programs[switch], entries=changed)}
            check = check_paths(plan, broken)
            assert not check.ok, (entry, instead)
            assert any(line.startswith("EV 0x") for line in check.problems), check.problems


@pytest.mark.parametrize("mode", ["structured", "srv6"])
def test_uplinks_that_were_exchanged_for_each_other_are_found(mode: Mode) -> None:
    """Both carry as many EVs as before."""
    plan = small(mode)
    programs = fabric_program(plan, failover_groups=False)
    program = programs["p0t0-1"]
    table = {"structured": PATHS, "srv6": NEXT_SID}[mode]
    up = [
        e
        for e in program.entries
        if e.table == table
        and action_of(e).name.endswith("forward")
        and action_of(e).params["port"] in (3, 4)
    ]
    assert len(up) == 2
    first, second = up
    swapped = (replace(first, action=second.action), replace(second, action=first.action))
    entries = (*(e for e in program.entries if e not in up), *swapped)
    broken = {**programs, "p0t0-1": replace(program, entries=entries)}
    check = check_paths(plan, broken)
    assert not check.ok
    line = check.problems[0]
    assert line.startswith("EV 0x")
    assert "and was seen on h2:p0t0-1 > p0t0-1:p0t1-1" in line, line


def test_every_way_has_its_own_number_of_packets() -> None:
    plan = small("srv6")
    flows = planned_flows(plan)
    assert {(f.source, f.target) for f in flows} == {
        ("h0", "h2"), ("h1", "h3"), ("h2", "h0"), ("h3", "h1"),
    }  # fmt: skip
    assert all(len(set(flow.evs)) == 9 for flow in flows)
    sums = predict(plan, flows)
    for node in plan.switches:
        leaving = [n for (_link, at), n in sums.items() if at == node]
        if node.startswith("p0t0"):
            assert len(set(leaving)) == len(leaving)
    parts = by_uplink(plan, flows[0])
    assert [len(part.evs) for part in parts] == [3, 3, 3]


def test_with_one_t0_hosts_send_to_their_neighbours() -> None:
    plan = Plan.from_spec(spec(planes="1", t0_per_plane="1", mode="structured"))
    assert [(f.source, f.target) for f in planned_flows(plan)] == [("h0", "h1"), ("h1", "h0")]
