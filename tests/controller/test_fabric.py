from __future__ import annotations

import queue

import pytest

from controller.client import SwitchClient
from controller.counters import Count
from controller.entities import Group
from controller.errors import ControllerError, PrimaryLost
from controller.fabric import FabricController
from tests.controller.fake_switch import FakeSwitch
from topologies.plan import Plan
from topologies.spec import load_spec

PLAN = Plan.from_spec(load_spec("two-plane"))


@pytest.fixture(scope="module")
def fakes():
    switches = {name: FakeSwitch() for name in PLAN.switches}
    yield switches
    for fake in switches.values():
        fake.stop()


def control(fakes, compiled, **options) -> FabricController:
    addresses = {name: fake.address for name, fake in fakes.items()}
    return FabricController(PLAN, addresses, *compiled, **options)


def test_all_switches_get_everything_and_a_restart_changes_nothing(fakes, compiled):
    lines: list[str] = []
    with control(fakes, compiled, on_progress=lines.append) as controller:
        controller.connect()
        first = controller.program()
        assert all(count > 5 for count in first.values())
        assert set(controller.program().values()) == {0}
    assert all(fake.pushes == 1 for fake in fakes.values())
    assert all(len(fake.writes) <= 3 for fake in fakes.values())
    assert lines[0] == "controller: primary of 8 switches"
    with control(fakes, compiled) as controller:
        controller.connect()
        assert set(controller.program().values()) == {0}
    assert all(fake.pushes == 1 for fake in fakes.values())


def test_failover_groups_on_a_running_fabric(fakes, compiled):
    with control(fakes, compiled, failover_groups=True) as controller:
        controller.connect()
        updates = controller.program()
        wanted = {name: 9 if PLAN.switch(name).uplinks else 0 for name in PLAN.switches}
        assert updates == wanted
        held = controller.session("p0t0-0").read_all(_no_defaults())
        watched = [e for e in held if isinstance(e, Group)]
        assert any(m.watch_port == 3 for g in watched for m in g.members)


def _no_defaults():
    from controller.program import SwitchProgram

    return SwitchProgram("", 0, (), (), (), ())


def test_counters_of_every_port(fakes, compiled):
    with control(fakes, compiled) as controller:
        controller.connect()
        controller.program()
        names = controller.session("p0t0-0").pipeline.codec.names
        fakes["p0t0-0"].counters[names.counter("FabricEgress.marked").id, 3] = (4, 4000)
        counts = controller.counters()
        assert set(counts) == set(PLAN.switches)
        assert counts["p0t0-0"][3].marked == Count(4, 4000)
        assert counts["p0t0-0"][4].marked == Count()


def test_losing_one_switch_stops_everything(fakes, compiled):
    failures: queue.Queue[str] = queue.Queue()
    with control(fakes, compiled, on_failure=failures.put, election_id=10) as controller:
        controller.connect()
        other = SwitchClient("x", fakes["p1t0-1"].address, 8, 11, lambda reason: None)
        reason = failures.get(timeout=5)
        assert reason == (
            "p1t0-1: another controller took over (election id 11); the controller has stopped"
        )
        for call in (controller.program, controller.counters, controller.check):
            with pytest.raises(PrimaryLost, match="p1t0-1: another controller took over"):
                call()
        other.close()
    assert failures.empty()


def test_addresses_must_be_those_of_the_plan(compiled):
    with pytest.raises(ControllerError, match="differ in switches: p0t0-0"):
        FabricController(PLAN, {n: "x" for n in PLAN.switches if n != "p0t0-0"}, *compiled)


def test_files_that_cannot_be_read(compiled, tmp_path):
    addresses = dict.fromkeys(PLAN.switches, "127.0.0.1:1")
    with pytest.raises(ControllerError, match=r"absent\.json: No such file"):
        FabricController(PLAN, addresses, tmp_path / "absent.json", compiled[1])
    bad = tmp_path / "bad.p4info.txtpb"
    bad.write_text("tables { what")
    with pytest.raises(ControllerError, match="not a P4Info in text format"):
        FabricController(PLAN, addresses, compiled[0], bad)
