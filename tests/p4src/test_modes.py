"""Structured EV and SRv6 in the compiled pipeline: what an EV names is where its packets go."""

from __future__ import annotations

import itertools

import pytest

from controller.program import TRIM_LENGTH
from tests.p4src import frames
from tests.p4src.switch import PLAN, SRV6, STRUCTURED
from topologies.paths import path_of, planned_evs, uplink_of
from topologies.plan import Plan
from topologies.spec import load_spec
from topologies.srv6 import sid_list
from topologies.usid import Sid

H0, H1, H2, H3 = (PLAN.hosts[f"h{i}"].nics[0].ipv6 for i in range(4))
BLOCK = "fd53:4944"


def changed(plan: Plan, **changes) -> Plan:
    return Plan.from_spec(plan.spec.model_copy(update=changes))


def srv6(srh: bool) -> Plan:
    return changed(SRV6, srv6=SRV6.spec.srv6.model_copy(update={"srh": srh}))


def causes(switch, port: int) -> dict[str, int]:
    return {c: n.packets for c, n in switch.counters()[port].drops.items() if n.packets}


# -- structured


@pytest.mark.parametrize("order", ["label-high", "sport-high"])
@pytest.mark.parametrize("name", ["p0t0-0", "p1t0-1"])
def test_structured_evs_take_the_uplink_in_their_bits(make, name, order):
    fabric = changed(STRUCTURED, ev=STRUCTURED.spec.ev.model_copy(update={"order": order}))
    switch = make(name, fabric)
    t0, plane = switch.plan.index, switch.plan.plane
    source, target = fabric.hosts_under(t0)[0], fabric.hosts_under(1 - t0)[1]
    src, dst = source.nics[plane].ipv6, target.nics[plane].ipv6
    used = set()
    for ev in (*planned_evs(fabric, plane), 0, 0xFFFFFFFF, 0x7FFFFFFF, 0x80000000):
        wire = ev if order == "label-high" else ev >> 16 | (ev & 0xFFFF) << 16
        ((port, _frame),) = switch.send(1, frames.mrc(src, dst, ev=wire, payload=64))
        assert port == uplink_of(fabric, switch.plan, source.name, target.name, ev)
        used.add(port)
    assert used == set(switch.plan.uplinks)


def test_bits_that_name_no_uplink_are_dropped_by_name(make):
    spec = load_spec("two-plane", "structured").model_copy(update={"t1_per_plane": 3})
    fabric = Plan.from_spec(spec)
    switch = make("p0t0-0", fabric)
    assert fabric.spec.ev_layout.uplink_bits == 2
    ev = 3 << 30
    assert switch.send(1, frames.mrc(H0, H2, ev=ev)) == []
    assert causes(switch, 1) == {"no_path": 1}
    assert path_of(fabric, "h0", "h2", 0, ev).lost_at == "p0t0-0"


def test_the_way_down_needs_no_bits(make):
    t1 = make("p0t1-1", STRUCTURED)
    assert [port for port, _ in t1.send(1, frames.mrc(H0, H2, ev=0))] == [2]
    t0 = make("p0t0-1", STRUCTURED)
    assert [port for port, _ in t0.send(3, frames.mrc(H0, H2, ev=0x80000000))] == [1]


@pytest.mark.parametrize("fabric", [STRUCTURED, SRV6])
def test_what_is_not_mrc_is_sprayed_in_every_mode(make, fabric):
    switch = make("p0t0-0", fabric)
    ports = {
        port
        for label in range(32)
        for port, _ in switch.send(1, frames.ipv6(H0, H2, b"x" * 8, 58, label))
    }
    assert ports == {3, 4}
    assert [p for p, _ in switch.send(1, frames.ipv6(H0, H1, b"x" * 8, 58))] == [2]


@pytest.mark.parametrize("fabric", [STRUCTURED, SRV6])
def test_a_dead_uplink_is_not_avoided_and_its_packets_are_counted(make, fabric):
    switch = make("p0t0-0", fabric)
    switch.engine.set_port_up(3, False, switch.now)
    for ev in planned_evs(fabric, 0, 8):
        frame = frames.mrc(H0, H2, ev=ev, payload=64)
        if fabric is SRV6:
            uplink = fabric.spec.ev_layout.uplink.get(ev)
            way = sid_list(fabric, "h0", "h2", 0, uplink)
            frame = frames.encapsulated(frame, str(way.destination))
        out = switch.send(1, frame)
        assert [p for p, _ in out] == ([4] if fabric.spec.ev_layout.uplink.get(ev) else [])
    assert switch.engine.port_stats(3).drops["port_down"] == 4


# -- SRv6


def walk(make, fabric: Plan, src: str, dst: str, plane: int, frame: bytes) -> tuple[list, bytes]:
    """Hand a frame from switch to switch until a host has it: (links, frame at the host)."""
    host = fabric.host(src)
    here, port = host.nics[plane].switch, host.nics[plane].switch_port
    links = [host.nics[plane].link]
    while True:
        ((out, frame),) = make(here, fabric).send(port, frame)
        plan = fabric.switch(here).ports[out]
        links.append(plan.link)
        if plan.kind == "host":
            assert plan.peer == dst
            return links, frame
        here, port = plan.peer, plan.peer_port


@pytest.mark.parametrize("srh", [False, True])
@pytest.mark.parametrize(("src", "dst"), [("h0", "h2"), ("h3", "h0"), ("h1", "h0")])
@pytest.mark.parametrize("plane", [0, 1])
def test_a_list_of_usids_takes_exactly_its_links(make, srh, src, dst, plane):
    fabric = srv6(srh)
    for ev in planned_evs(fabric, plane, 4):
        inner = frames.mrc(
            fabric.host(src).nics[plane].ipv6, fabric.host(dst).nics[plane].ipv6, ev=ev, payload=64
        )
        way = sid_list(fabric, src, dst, plane, fabric.spec.ev_layout.uplink.get(ev))
        segment = str(way.segment) if way.segment else None
        sent = frames.encapsulated(inner, str(way.destination), segment=segment)
        links, got = walk(make, fabric, src, dst, plane, sent)
        assert tuple(links) == path_of(fabric, src, dst, plane, ev).links
        # The list is used up, the hop limit counts the switches, the rest is untouched.
        assert frames.destination(got) == f"{BLOCK}::"
        assert frames.see(got).hop_limit == 64 - (len(links) - 1)
        assert got[12:21] == sent[12:21]
        assert got[22:38] == sent[22:38]
        if srh:
            assert got[57] == 0  # segments left
            assert got[54:57] + got[58:] == sent[54:57] + sent[58:]
        else:
            assert got[54:] == sent[54:]


def test_a_shift_removes_the_own_usid_only(make):
    switch = make("p0t0-0", SRV6)
    inner = frames.mrc(H0, H2, payload=64)
    ((port, out),) = switch.send(
        1, frames.encapsulated(inner, f"{BLOCK}:4000:8001:4001:c001:1234:5678")
    )
    assert port == 4
    assert frames.destination(out) == f"{BLOCK}:8001:4001:c001:1234:5678:0"


def test_a_port_usid_names_any_port(make):
    switch = make("p0t0-0", SRV6)
    inner = frames.mrc(H0, H2, payload=64)
    for number in SRV6.switch("p0t0-0").ports:
        usid = SRV6.spec.usids.usid(Sid("port", 0, number))
        ((port, out),) = switch.send(1, frames.encapsulated(inner, f"{BLOCK}:4000:{usid:x}:8000::"))
        assert port == number
        assert frames.destination(out) == f"{BLOCK}:8000::"


@pytest.mark.parametrize("fabric", [PLAN, STRUCTURED, SRV6])
@pytest.mark.parametrize("uplink", [None, 0, 1])
def test_loops_come_back_to_the_host_in_every_mode(make, fabric, uplink):
    way = sid_list(fabric, "h1", "h1", 1, uplink)
    probe = frames.encapsulated(frames.mrc(H1, H1, payload=64), str(way.destination))
    links, got = walk(make, fabric, "h1", "h1", 1, probe)
    nic = fabric.host("h1").nics[1].link
    middle = [] if uplink is None else [f"p1t0-0:p1t1-{uplink}"] * 2
    assert links == [nic, *middle, nic]
    assert frames.destination(got) == f"{BLOCK}::"


def lone(inner: bytes, *usids: int, **fields) -> bytes:
    rest = ":".join(f"{u:x}" for u in usids)
    return frames.encapsulated(inner, f"{BLOCK}:{rest}::", **fields)


@pytest.mark.parametrize(
    ("usids", "fields", "cause"),
    [
        ((0x4000,), {}, "list_end"),
        ((0x4000,), {"segment": f"{BLOCK}:c001::", "segments_left": 0}, "list_end"),
        ((0x4000, 0x8007), {}, "no_route"),
        ((0x4000, 0x4001), {}, "no_route"),
        ((0x4000, 0x4000), {}, "no_route"),
        ((0x4001, 0x8000), {}, "no_route"),
        ((0x8000, 0x4001), {}, "no_route"),
        ((0x4000, 0x8200), {}, "no_route"),
        ((0x4000, 0x8000), {"hop_limit": 1}, "hop_limit"),
    ],
)
def test_lists_that_lead_nowhere_are_dropped_by_name(make, usids, fields, cause):
    switch = make("p0t0-0", SRV6)
    assert switch.send(1, lone(frames.mrc(H0, H2), *usids, **fields)) == []
    assert causes(switch, 1) == {cause: 1}


@pytest.mark.parametrize(("src", "dst"), [(H0, H2), (H0, H1)])
def test_plain_mrc_has_no_way_in_an_srv6_fabric(make, src, dst):
    switch = make("p0t0-0", SRV6)
    assert switch.send(1, frames.mrc(src, dst, payload=64)) == []
    assert switch.send(1, frames.encapsulated(frames.mrc(src, dst, payload=64), dst)) == []
    assert causes(switch, 1) == {"not_encapsulated": 2}


@pytest.mark.parametrize("srh", [False, True])
def test_trimming_keeps_outer_and_inner_headers(make, srh):
    fabric = srv6(srh)
    switch = make("p0t0-0", fabric, rate_bps=50_000_000)
    way = sid_list(fabric, "h0", "h2", 0, 0)
    segment = str(way.segment) if way.segment else None
    sent = [
        frames.encapsulated(frames.mrc(H0, H2, psn=n), str(way.destination), segment=segment)
        for n in range(60)
    ]
    out = [frame for _port, frame in switch.send(1, *sent)]
    cut = [frame for frame in out if len(frame) == TRIM_LENGTH]
    assert len(out) == 60
    assert len(cut) in (29, 30)
    outer, inner = 14, 14 + 40 + (24 if srh else 0)
    for frame in cut:
        assert frames.see(frame).dscp == 12  # the outer one, what the next switches look at
        assert (int.from_bytes(frame[inner : inner + 2], "big") >> 6 & 0x3F) == 4
        psn = int.from_bytes(frame[inner + 57 : inner + 60], "big")
        # BTH, METH, TSETH, RETH are whole.
        assert frame[inner:] == sent[psn][inner:TRIM_LENGTH]
        assert len(frame) >= inner + 40 + 8 + 12 + 4 + 4 + 16
        assert frame[outer + 40 : inner] == sent[psn][outer + 40 : inner]
    data = [frame for frame in out if len(frame) > TRIM_LENGTH]
    marked = [frame for frame in data if frames.see(frame).ecn == 3]
    assert marked
    assert all(frame[inner : inner + 2] == sent[0][inner : inner + 2] for frame in marked)


def test_an_srh_of_another_size_is_carried_but_not_read(make):
    switch = make("p0t0-0", SRV6)
    sent = bytearray(
        frames.encapsulated(
            frames.mrc(H0, H2, payload=64), f"{BLOCK}:4000:8000::", segment=f"{BLOCK}:1::"
        )
    )
    for length, kind in itertools.product((0, 1, 4, 255), (4, 3)):
        sent[55], sent[56] = length, kind
        ((port, out),) = switch.send(1, bytes(sent))
        assert port == 3
        assert out[54:] == sent[54:]
