"""The plan: names, ports, addresses and links agree with each other and with the docs."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softswitch.engine.types import PortConfig
from tests.topologies.fabrics import plan, two_plane
from topologies import addressing
from topologies.plan import Plan, PortSettings, UnknownNameError

shapes = st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4), st.integers(1, 4))


def test_two_plane_names() -> None:
    two = two_plane()
    assert list(two.switches)[:4] == ["p0t0-0", "p0t0-1", "p0t1-0", "p0t1-1"]
    assert list(two.hosts) == ["h0", "h1", "h2", "h3"]
    assert len(two.links) == 16
    h2 = two.host("h2")
    assert h2.t0 == 1
    nic = h2.nics[1]
    assert (nic.port, nic.ifname, nic.ipv6) == (2, "h2-p1", "fd4d:5243:1:1::1")
    assert (nic.link, nic.switch, nic.switch_port) == ("h2:p1t0-1", "p1t0-1", 1)
    assert two.switch("p0t0-0").uplinks == (3, 4)
    assert two.switch("p0t1-0").uplinks == ()
    up = two.switch("p0t0-1").ports[4]
    assert (up.kind, up.peer, up.peer_port, up.ifname) == ("t1", "p0t1-1", 2, "p0t0-1-4")
    link = two.link("p0t0-1:p0t1-1")
    assert (link.kind, link.plane, link.a.node, link.b.ifname) == (
        "fabric",
        0,
        "p0t0-1",
        "p0t1-1-2",
    )


@given(shapes)
def test_both_ends_of_every_link_agree(shape: tuple[int, int, int, int]) -> None:
    fabric = plan(*shape)
    planes, t0, t1, hosts = shape
    assert len(fabric.links) == planes * t0 * (hosts + t1)
    for switch in fabric.switches.values():
        for number, port in switch.ports.items():
            assert port.number == number
            link = fabric.link(port.link)
            ends = {(link.a.node, link.a.port): link.a, (link.b.node, link.b.port): link.b}
            assert ends[switch.name, number].ifname == port.ifname
            assert (port.peer, port.peer_port) in ends
            if port.kind == "host":
                nic = fabric.host(port.peer).nics[switch.plane]
                assert (nic.mac, nic.gateway_mac) == (port.peer_mac, port.mac)
                assert (nic.link, nic.switch, nic.switch_port) == (link.name, switch.name, number)
            else:
                far = fabric.switch(port.peer).ports[port.peer_port]
                assert (far.peer, far.peer_port) == (switch.name, number)
                assert (far.mac, far.peer_mac) == (port.peer_mac, port.mac)


@given(shapes)
def test_everything_is_unique(shape: tuple[int, int, int, int]) -> None:
    fabric = plan(*shape)
    ports = [p for s in fabric.switches.values() for p in s.ports.values()]
    nics = [n for h in fabric.hosts.values() for n in h.nics]
    for values in (
        [p.mac for p in ports] + [n.mac for n in nics],
        [p.ifname for p in ports] + [n.ifname for n in nics],
        [n.ipv6 for n in nics],
        [s.device_id for s in fabric.switches.values()],
        [s.salt for s in fabric.switches.values()],
    ):
        assert len(set(values)) == len(values)
    assert all(len(p.ifname) <= 15 for p in ports)


@given(shapes)
def test_addresses_tell_the_position(shape: tuple[int, int, int, int]) -> None:
    for host in plan(*shape).hosts.values():
        for nic in host.nics:
            where = addressing.locate(nic.ipv6)
            assert where == addressing.Position(nic.plane, host.t0, nic.switch_port)


def test_delays_cover_both_directions_of_every_link_once() -> None:
    two = two_plane()
    delay = two.spec.link.delay
    for link in two.links.values():
        b = two.switch(link.b.node).ports[link.b.port].config
        if link.kind == "host":
            assert (b.tx_delay_ns, b.rx_delay_ns) == (delay, delay)
        else:
            a = two.switch(link.a.node).ports[link.a.port].config
            assert (a.tx_delay_ns, a.rx_delay_ns) == (delay, 0)
            assert (b.tx_delay_ns, b.rx_delay_ns) == (delay, 0)


def test_settings_are_those_of_the_switch() -> None:
    ours = {f.name for f in dataclasses.fields(PortSettings)}
    theirs = {f.name for f in dataclasses.fields(PortConfig)}
    assert ours <= theirs
    config = two_plane().switch("p0t0-0").ports[1].config
    assert PortConfig(**dataclasses.asdict(config)).queue_limits == (90, 1000)


def test_unknown_names_suggest() -> None:
    two = two_plane()
    with pytest.raises(UnknownNameError, match="did you mean 'p0t0-0'") as caught:
        two.switch("p0t00")
    assert "\n" not in str(caught.value)
    with pytest.raises(UnknownNameError, match="no link"):
        two.link("h9:p0t0-0")
    with pytest.raises(UnknownNameError, match="did you mean 'p0t0-0:p0t1-1'"):
        two.link("p0t1-1:p0t0-0")  # from its other end


def test_plans_are_equal_for_equal_specs() -> None:
    assert Plan.from_spec(two_plane().spec) == two_plane()


@given(st.integers(0, 31), st.integers(0, 509), st.integers(1, 510))
def test_locate_is_the_inverse(plane: int, t0: int, port: int) -> None:
    address = addressing.host_address(plane, t0, port)
    assert addressing.locate(address) == addressing.Position(plane, t0, port)
    assert address in addressing.t0_prefix(plane, t0)
    assert address in addressing.plane_prefix(plane)


@pytest.mark.parametrize("text", ["::", "fe80::1", "fd4d:5243::", "fd4d:5243::1:1", "x", ""])
def test_locate_refuses_what_is_not_ours(text: str) -> None:
    assert addressing.locate(text) is None
