"""The C network alone: exact times, order, cuts, accounting."""

from __future__ import annotations

import pytest

from hosts.wire.constants import QPN_NOBODY, Opcode
from hosts.wire.frame import FlowTemplate
from mrclab.program import compiled
from softswitch.engine import EngineError, PortConfig
from softswitch.engine.net import record, records
from topologies.paths import path_of
from virtualtime.fabric import VirtualFabric
from virtualtime.profile import figures

NS = 1_000_000_000


@pytest.fixture
def fabric(tiny):
    made = []

    def build(**shape) -> VirtualFabric:
        plan = figures(tiny(**shape), "real").plan
        made.append(VirtualFabric(plan, *compiled(), seed=1))
        return made[-1]

    yield build
    for item in made:
        item.close()


def frame(plan, src: str, dst: str, plane: int, ev: int, size: int = 4096) -> bytes:
    nic = plan.host(src).nics[plane]
    there = plan.host(dst).nics[plane]
    template = FlowTemplate(nic.mac, nic.gateway_mac, nic.ipv6, there.ipv6)
    return template.data(
        Opcode.WRITE_MIDDLE, plan.spec.dscp.trimmable, 2, ev, QPN_NOBODY, 1, 0, 0, 0, 0, 0, 0, 0,
        size, bytes(size),
    )  # fmt: skip


def arrivals(fabric: VirtualFabric, until: int):
    fabric.network.run(until)
    return [(t, nic, bytes(data)) for t, nic, data in records(fabric.network.take())]


def test_a_frame_takes_exactly_what_the_figures_say(fabric) -> None:
    made = fabric()
    plan, link = made.plan, made.plan.spec.link
    data = frame(plan, "h0", "h1", 0, 77)
    made.network.send(record(1000, made.nics["h0"][1], data))
    ((t, nic, got),) = arrivals(made, NS)
    serialise = len(data) * 8 * NS // link.rate
    # Four links; the three switches on the way wait their latency before they send.
    assert t == 1000 + 4 * (serialise + link.delay) + 3 * link.switch_latency
    assert nic == made.nics["h1"][1]
    assert len(got) == len(data)
    assert got[62:] == data[62:]  # addresses of the hop and the hop limit have changed
    assert got[21] == data[21] - 3


def test_a_nic_sends_one_frame_after_the_other(fabric) -> None:
    made = fabric()
    data = frame(made.plan, "h0", "h1", 0, 77)
    one = record(0, made.nics["h0"][1], data)
    made.network.send(one * 5)
    times = [t for t, _, _ in arrivals(made, NS)]
    exact = len(data) * 8 * NS / made.plan.spec.link.rate
    assert times[4] - times[0] == pytest.approx(4 * exact, abs=1)  # no rounding adds up


def test_records_come_in_the_order_of_time_whatever_the_order_of_sending(fabric) -> None:
    made = fabric(hosts=2)
    plan = made.plan
    sent = []
    for src, dst, plane, t in (("h0", "h2", 1, 900), ("h1", "h3", 0, 100), ("h1", "h2", 1, 500)):
        data = frame(plan, src, dst, plane, t)
        sent.append(record(t, made.nics[src][plane + 1], data))
    made.network.send(b"".join(sent))
    times = [t for t, _, _ in arrivals(made, NS)]
    assert len(times) == 3
    assert times == sorted(times)


def test_a_packet_takes_the_way_of_its_ev(fabric) -> None:
    made = fabric(t1=4)
    plan = made.plan
    for ev in range(0, 1 << 20, 65_521):
        made.network.send(record(0, made.nics["h0"][2], frame(plan, "h0", "h1", 1, ev, 64)))
        before = {name: ctl.stats()["totals"]["received"] for name, ctl in made.ctl.items()}
        arrivals(made, (ev + 1) * NS)
        after = {name: ctl.stats()["totals"]["received"] for name, ctl in made.ctl.items()}
        crossed = {name for name in after if after[name] > before[name]}
        assert crossed == set(path_of(plan, "h0", "h1", 1, ev).switches)


def test_cutting_a_link_loses_what_is_on_it_and_accounts_for_it(fabric) -> None:
    made = fabric()
    data = frame(made.plan, "h0", "h1", 0, 77)
    network = made.network
    serialise = len(data) * 8 * NS // made.plan.spec.link.rate
    network.send(record(0, made.nics["h0"][1], data) * 4)
    on_the_cable = serialise + made.plan.spec.link.delay // 2
    network.run(on_the_cable)
    made.set_link("h0:p0t0-0", False, on_the_cable)
    assert arrivals(made, NS) == []
    stats = made.ctl["p0t0-0"].stats()
    port = made.plan.host("h0").nics[0].switch_port
    assert stats["ports"][port]["drops"]["port_down"] == 4
    assert stats["totals"]["received"] == stats["totals"]["dropped"] == 4
    made.set_link("h0:p0t0-0", True, NS)
    network.send(record(NS, made.nics["h0"][1], data))
    assert len(arrivals(made, 2 * NS)) == 1


def test_every_frame_is_accounted_for_under_loss(fabric) -> None:
    made = fabric(planes=1, t1=2)
    plan = made.plan
    for ctl in made.ctl.values():
        for port in ctl.ports():
            ctl.set_port(port, loss=0.1)
    sent = b"".join(
        record(i * 100, made.nics["h0"][1], frame(plan, "h0", "h1", 0, i * 7919))
        for i in range(400)
    )
    made.network.send(sent)
    got = len(arrivals(made, NS))
    lost = sum(ctl.stats()["totals"]["dropped"] for ctl in made.ctl.values())
    assert got + lost == 400
    assert 50 < lost < 200
    assert not any(ctl.stats()["totals"]["held"] for ctl in made.ctl.values())


def test_bad_records_and_uses_are_refused(fabric) -> None:
    made = fabric()
    network = made.network
    with pytest.raises(EngineError):
        network.send(record(0, 99, b"x" * 64))
    with pytest.raises(EngineError):
        network.send(record(0, 0, bytes(9000)))
    with pytest.raises(EngineError):
        network.send(record(0, 0, b"x" * 64)[:40])
    engine = made.engines["p0t0-0"]
    with pytest.raises(EngineError):
        network.add(engine)
    with pytest.raises(EngineError):
        network.nic(engine, 1, 0, 0)
    with pytest.raises(EngineError):
        engine.remove_port(1)
    with pytest.raises(EngineError):
        engine.load({})
    engine.set_port_config(1, PortConfig(rate_bps=1000))  # settings may change
    assert network.figures().hops == 0
