"""The fabric controller with switch processes of both kinds, without interfaces.

Groups for failover watch ports, so need some: `tests.p4src.live`.
"""

from __future__ import annotations

import queue
from collections.abc import Iterator
from pathlib import Path

import pytest
from p4.v1 import p4runtime_pb2 as pb

from controller import program as p
from controller.client import SwitchClient
from controller.counters import MARKED, Count
from controller.entities import TableEntry
from controller.errors import ConnectError, PrimaryLost, WriteError
from controller.fabric import FabricController
from controller.program import SwitchProgram
from controller.reconcile import Update
from tests.switch_kinds import KINDS, LiveSwitch
from tests.topologies.fabrics import plan

PLAN = plan(1, 2, 1, 1)
T0 = "p0t0-0"
Switches = dict[str, LiveSwitch]


@pytest.fixture(scope="module", params=KINDS)
def switches(request: pytest.FixtureRequest, tmp_path_factory) -> Iterator[Switches]:
    """A process for every switch of the plan."""
    folder = tmp_path_factory.mktemp("switches")
    live: Switches = {}
    try:
        for name, switch in PLAN.switches.items():
            live[name] = LiveSwitch(request.param, folder, switch.device_id)
        for started in live.values():
            started.ready()
        yield live
    finally:
        for started in live.values():
            started.close()


def control(switches: Switches, compiled: tuple[Path, Path], **options) -> FabricController:
    addresses = {name: switch.address for name, switch in switches.items()}
    return FabricController(PLAN, addresses, *compiled, **options)


def nothing() -> SwitchProgram:
    return SwitchProgram("", 0, (), (), (), ())


def test_everything_is_written_once_and_found_again(switches: Switches, compiled) -> None:
    with control(switches, compiled) as controller:
        controller.connect()
        assert all(count > 3 for count in controller.program().values())
        assert set(controller.program().values()) == {0}
    with control(switches, compiled) as controller:
        controller.connect()
        assert set(controller.program().values()) == {0}


def test_what_others_changed_is_put_right(switches: Switches, compiled) -> None:
    with control(switches, compiled) as controller:
        controller.connect()
        controller.program()
        session = controller.session(T0)
        held = session.read_all(nothing())
        route = next(e for e in held if isinstance(e, TableEntry) and e.table == p.ROUTE)
        session.write([Update("DELETE", route)])
        assert controller.program() == {name: int(name == T0) for name in PLAN.switches}
        assert sorted(map(str, session.read_all(nothing()))) == sorted(map(str, held))
        with pytest.raises(WriteError, match="ALREADY_EXISTS"):
            session.write([Update("INSERT", route)])


def test_counters_of_every_port(switches: Switches, compiled) -> None:
    with control(switches, compiled) as controller:
        controller.connect()
        controller.program()
        session = controller.session(T0)
        cell = pb.CounterEntry(
            counter_id=session.pipeline.codec.names.counter(MARKED).id,
            index=pb.Index(index=2),
            data=pb.CounterData(packet_count=4, byte_count=4000),
        )
        update = pb.Update(type=pb.Update.MODIFY, entity=pb.Entity(counter_entry=cell))
        session.client.write_updates([update], str)
        counts = controller.counters()
        assert set(counts) == set(PLAN.switches)
        assert counts[T0][2].marked == Count(4, 4000)
        assert counts[T0][1].marked == Count()


def test_a_newer_controller_takes_over(switches: Switches, compiled) -> None:
    failures: queue.Queue[str] = queue.Queue()
    with control(switches, compiled, on_failure=failures.put) as controller:
        controller.connect()
        controller.program()
        switch = switches[T0]
        arguments = ("x", switch.address, switch.device_id)
        with pytest.raises(ConnectError, match="another controller is the primary"):
            SwitchClient(*arguments, 1, lambda reason: None)
        newer = SwitchClient(*arguments, 1 << 70, lambda reason: None)
        assert "another controller took over" in failures.get(timeout=30)
        with pytest.raises(PrimaryLost):
            controller.program()
        newer.close()
