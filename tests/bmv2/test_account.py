"""What waits and what is lost in a bmv2 switch, from counters alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from softswitch.bmv2.client import Bmv2Error, port_map, types
from softswitch.ctl import CtlError
from tests.topologies.fabrics import two_plane
from topologies.bmv2ctl import MS, OCCUPANCY, SETTLED_NS, Account, Bmv2Ctl, PortCounts, Turns
from topologies.netlink import IfStats

QUIET = PortCounts(100, 90, 100, 95, 95, 5)
"""Five refused by the pipeline; of the 95 that came out of the queue five were not sent."""


def test_a_difference_that_stays_is_a_loss() -> None:
    account = Account(packet_ns=1 * MS)
    counts = {1: QUIET}
    assert account.read(counts, True, 0) == 5
    assert account.read(counts, True, SETTLED_NS - 1) == 5
    assert account.lost == {}
    assert account.read(counts, True, SETTLED_NS) == 0
    assert account.lost == {1: (0, 0, 5)}


def test_what_moves_is_not_lost_yet() -> None:
    account = Account(packet_ns=1 * MS)
    account.read({1: QUIET}, True, 0)
    account.read({1: QUIET}, True, SETTLED_NS)
    # ten more arrived; four of them are in the queue, three before the pipeline
    moving = {1: replace(QUIET, kernel_rx=110, received=107, forwarded=102, transmitted=98)}
    moving = {1: replace(moving[1], kernel_tx=93)}
    for now in range(SETTLED_NS, 10 * SETTLED_NS, SETTLED_NS // 2):
        moving = {1: replace(moving[1], kernel_rx=moving[1].kernel_rx + 1)}
        assert account.read(moving, True, now) > 0
    assert account.lost == {1: (0, 0, 5)}


def test_a_thread_that_is_awake_may_still_move_it() -> None:
    account = Account(packet_ns=1 * MS)
    for now in range(0, 10 * SETTLED_NS, SETTLED_NS):
        assert account.read({1: QUIET}, False, now) == 5
    assert account.lost == {}


def test_a_slow_queue_is_given_the_time_it_needs() -> None:
    account = Account(packet_ns=SETTLED_NS)
    account.read({1: QUIET}, True, 0)
    assert account.read({1: QUIET}, True, 2 * SETTLED_NS) == 5
    assert account.read({1: QUIET}, True, 3 * SETTLED_NS) == 0


# -- the side channel


class FakeClient:
    """Answers the calls of Bmv2Ctl from dictionaries."""

    def __init__(self) -> None:
        self.counters: dict[tuple[str, int], int] = {}
        self.registers: dict[tuple[str, int], int] = {}
        self.calls = 0
        self.refuse = ""

    def call(self, method: str, *arguments: Any) -> Any:
        self.calls += 1
        if self.refuse:
            raise Bmv2Error(self.refuse)
        if method == "bm_counter_read":
            value = self.counters.get(arguments[1:], 0)
            return SimpleNamespace(packets=value, bytes=100 * value)
        if method == "bm_register_read":
            return self.registers.get(arguments[1:], 0)
        if method == "bm_dev_mgr_show_ports":
            return [SimpleNamespace(port_num=1, iface_name="p0t1-0-1", is_up=False)]
        raise AssertionError(method)

    def close(self) -> None:
        pass


class FakeKernel:
    def __init__(self, names: list[str]) -> None:
        self.values = {name: IfStats(0, 0, 0, 0, 0, 0, 0, 0) for name in names}

    def stats(self, newest: bool) -> dict[str, IfStats]:
        return self.values


def make() -> tuple[Bmv2Ctl, FakeClient, FakeKernel, list[int]]:
    switch = two_plane().switch("p0t1-0")
    client, now = FakeClient(), [0]
    kernel = FakeKernel([port.ifname for port in switch.ports.values()])
    ctl = Bmv2Ctl(
        switch,
        client,  # type: ignore[arg-type]
        0,
        kernel,  # type: ignore[arg-type]
        packet_ns=MS,
        asleep=lambda: True,
        clock=lambda: now[0],
    )
    return ctl, client, kernel, now


def test_stats_balance() -> None:
    ctl, client, kernel, now = make()
    kernel.values["p0t1-0-1"] = IfStats(50, 0, 5000, 0, 0, 0, 0, 0)
    kernel.values["p0t1-0-2"] = IfStats(0, 40, 0, 4000, 0, 0, 0, 0)
    client.counters = {
        ("FabricIngress.received", 1): 48,
        ("FabricIngress.drops", 16 + 4): 3,
        ("FabricIngress.forwarded", 2 * 2): 40,
        ("FabricIngress.forwarded", 2 * 2 + 1): 5,
        ("FabricEgress.transmitted", 2 * 2): 38,
        ("FabricEgress.transmitted", 2 * 2 + 1): 5,
    }
    client.registers = {(OCCUPANCY, 2): 7}
    assert ctl.stats()["totals"]["held"] == 2 + 2 + 3
    now[0] = SETTLED_NS
    stats = ctl.stats()
    totals = stats["totals"]
    assert totals["held"] == 0
    assert totals["received"] == totals["sent"] + totals["dropped"]
    one, two = stats["ports"][1], stats["ports"][2]
    assert one["drops"] == {"rx_socket": 2, "queue_full": 0, "tx_error": 0, "pipeline": 3}
    assert two["drops"] == {"rx_socket": 0, "queue_full": 2, "tx_error": 3, "pipeline": 0}
    assert (one["rx_packets"], two["tx_packets"], two["queue_depth_max"]) == (48, 40, 7)
    assert stats["unknown"]


def test_samples_do_not_read_every_counter() -> None:
    ctl, client, _, _ = make()
    ctl.stats()
    client.calls = 0
    sample = ctl.stats(reset_max=True)
    assert client.calls == len(ctl._switch.ports)
    assert sample["fidelity"]["late_p99_ns"] is None
    assert sample["fidelity"]["waited_p99_ns"] == 0


def test_counters_have_a_cell_for_each_port() -> None:
    ctl, client, _, _ = make()
    client.counters = {("FabricEgress.marked", 2): 9}
    assert ctl.counters(["FabricEgress.marked"]) == {
        "FabricEgress.marked": {"packets": [0, 0, 9], "bytes": [0, 0, 900]}
    }


def test_there_are_no_settings() -> None:
    ctl, client, _, _ = make()
    assert ctl.ports() == {1: {"name": "p0t1-0-1", "up": False, "config": {}}}
    with pytest.raises(CtlError, match="p0t1-0 port 1: bmv2 has no settings of ports"):
        ctl.set_port(1, loss=0.1)
    client.refuse = "there is no such counter"
    with pytest.raises(CtlError, match="p0t1-0: bmv2: there is no such counter"):
        ctl.stats()


def test_turns(tmp_path: Path) -> None:
    turns = Turns(0)
    turns._tasks = tmp_path
    for name in ("1", "2"):
        (tmp_path / name).mkdir()

    def write(**threads: tuple[int, int, int]) -> None:
        for name, values in threads.items():
            (tmp_path / name[1:] / "schedstat").write_text(" ".join(map(str, values)))

    write(t1=(10, 100, 5), t2=(20, 0, 0))
    assert turns.sample()["waited_max_ns"] == 0
    write(t1=(20, 700, 8), t2=(20, 0, 0))
    found = turns.sample()
    assert found["waited_max_ns"] == 200
    assert found["cpu_ns"] == 40


# -- the client's own parts


def test_the_idl_can_be_read() -> None:
    module = types()
    assert module.Match(type=module.MatchType.LPM).type == 1
    names = [s.thrift_services for s in (module.Standard, module.SimplePreLAG, module.SimpleSwitch)]
    assert sum(map(len, names)) == len({name for part in names for name in part})


def test_port_maps() -> None:
    assert port_map([]) == ""
    assert port_map([0]) == "1"
    assert port_map([1, 3]) == "1010"
