"""EV fields, uSIDs and lists: positions to numbers and back."""

from __future__ import annotations

from ipaddress import IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosts.wire.encap import Insert, UsidEncap, UsidTemplate
from tests.topologies.fabrics import spec
from topologies.evlayout import EvLayout, bits_for
from topologies.paths import (
    evs_of_link,
    flows_over,
    path_of,
    planes_of_ev,
    planned_evs,
    spread,
)
from topologies.plan import Plan
from topologies.spec import load_spec
from topologies.srv6 import encapsulation, sid_list
from topologies.usid import Sid, UsidBlocks

STRUCTURED = Plan.from_spec(load_spec("two-plane", "structured"))
SRV6 = Plan.from_spec(load_spec("two-plane", "srv6"))
BLOCKS = SRV6.spec.usids


@given(st.integers(1, 16), st.integers(1, 15), st.data())
def test_fields_are_read_back(uplink_bits: int, plane_bits: int, data: st.DataObject) -> None:
    layout = EvLayout(uplink_bits, plane_bits)
    values = [data.draw(st.integers(0, field.mask)) for field in layout.fields]
    ev = layout.make(values[1], values[0], values[2])
    assert [field.get(ev) for field in layout.fields] == values
    assert sum(field.width for field in layout.fields) == 32
    assert ev >> 32 == 0


def test_what_does_not_fit_a_field_is_refused() -> None:
    layout = EvLayout(2, 3)
    with pytest.raises(ValueError, match="uplink 4 does not fit 2 bits"):
        layout.make(0, 4)
    with pytest.raises(ValueError, match="plane -1"):
        layout.make(-1, 0)


@pytest.mark.parametrize(("count", "bits"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (256, 8)])
def test_bits_for(count: int, bits: int) -> None:
    assert bits_for(count) == bits


@given(st.integers(1, 7), st.integers(1, 4), st.integers(0, 60))
def test_any_stretch_of_a_list_is_equal_over_uplinks(t1: int, planes: int, count: int) -> None:
    layout = EvLayout(bits_for(t1), bits_for(planes))
    evs = [list(layout.values(plane, t1, count)) for plane in range(planes)]
    assert len({ev for plane in evs for ev in plane}) == planes * count
    for start in range(0, count, 5):
        uses = [layout.uplink.get(ev) for ev in evs[0][start:]]
        assert max(map(uses.count, range(t1))) - min(map(uses.count, range(t1))) <= 1


@pytest.mark.parametrize("fabric", [STRUCTURED, SRV6])
def test_an_ev_says_its_plane_and_links_and_links_say_their_evs(fabric: Plan) -> None:
    pairs = [(p, ev) for p in range(2) for ev in planned_evs(fabric, p)]
    assert len(pairs) == fabric.spec.ev.active + fabric.spec.ev.backup
    for plane, ev in pairs:
        assert planes_of_ev(fabric, ev) == (plane,)
        forth = path_of(fabric, "h0", "h2", plane, ev)
        back = path_of(fabric, "h2", "h0", plane, ev)
        assert forth.links == back.links[::-1]
    for link in fabric.links:
        for src, dst in flows_over(fabric, link):
            crossing = evs_of_link(fabric, src, dst, link, pairs)
            assert crossing == {
                (p, ev) for p, ev in pairs if link in path_of(fabric, src, dst, p, ev).links
            }
            assert crossing
    counts = spread(fabric, "h0", "h2", pairs)
    assert {
        counts[n] for n, link in fabric.links.items() if n in counts and link.kind != "host"
    } == {48}


def test_ecmp_fabrics_plan_no_evs() -> None:
    two = Plan.from_spec(load_spec("two-plane"))
    assert planned_evs(two, 0) == ()
    assert planes_of_ev(two, 7) == (0, 1)


def test_a_field_that_names_no_uplink_leads_nowhere() -> None:
    fabric = Plan.from_spec(spec(mode="structured", t1_per_plane="3"))
    path = path_of(fabric, "h0", "h2", 0, fabric.spec.ev_layout.make(0, 3))
    assert path.lost_at == "p0t0-0"
    assert path.links == ("h0:p0t0-0",)
    down = {"p0t0-0:p0t1-1"}
    ev = fabric.spec.ev_layout.make(0, 1)
    lost = path_of(fabric, "h0", "h2", 0, ev, down=down, failover_groups=True)
    assert lost.lost_at == "p0t0-0:p0t1-1"


# -- uSIDs


def test_usids_read_as_documented() -> None:
    assert BLOCKS.usid(Sid("t0", 1, 1)) == 0x4201
    assert BLOCKS.usid(Sid("t1", 0, 0)) == 0x8000
    assert BLOCKS.usid(Sid("port", 1, 2)) == 0xC202
    assert str(BLOCKS.prefix(0x4201)) == "fd53:4944:4201::/48"


@given(
    st.sampled_from(["t0", "t1", "port"]),
    st.integers(0, 31),
    st.integers(0, 511),
    st.permutations([1, 2, 3]),
)
def test_usids_are_read_back_and_never_zero(kind, plane, number, order) -> None:
    t0, t1, port = (0x4000 * n for n in order)
    blocks = UsidBlocks(0xFD534944, t0, t1, port, 5, 9)
    sid = Sid(kind, plane, number)
    assert blocks.sid(blocks.usid(sid)) == sid
    assert blocks.usid(sid) != 0
    assert blocks.sid(plane) is None


def test_containers() -> None:
    address = BLOCKS.container([0x4000, 0x8001])
    assert str(address) == "fd53:4944:4000:8001::"
    assert BLOCKS.usids(address) == (0x4000, 0x8001)
    assert BLOCKS.usids("fd53:4944::") == ()
    assert BLOCKS.usids("fd4d:5243::1") is None
    with pytest.raises(ValueError, match="7 uSIDs do not fit"):
        BLOCKS.container([1] * 7)
    with pytest.raises(ValueError, match="does not fit"):
        BLOCKS.usid(Sid("t0", 32, 0))


@pytest.mark.parametrize("srh", [False, True])
@pytest.mark.parametrize(("src", "dst"), [("h0", "h2"), ("h3", "h1"), ("h0", "h1")])
def test_hosts_compute_the_lists_of_the_plan(srh: bool, src: str, dst: str) -> None:
    srv6 = SRV6.spec.srv6.model_copy(update={"srh": srh})
    fabric = Plan.from_spec(SRV6.spec.model_copy(update={"srv6": srv6}))

    def template(data) -> UsidTemplate:
        inserts = tuple(Insert(*i) for i in data["inserts"])
        return UsidTemplate(IPv6Address(data["base"]).packed, inserts)

    for plane in range(2):
        data = encapsulation(fabric, src, dst, plane)
        encap = UsidEncap(template(data), tuple(map(template, data.get("segments", ()))))
        for ev in planned_evs(fabric, plane, 6):
            wanted = sid_list(fabric, src, dst, plane, fabric.spec.ev_layout.uplink.get(ev))
            path = encap.path(ev)
            assert path.da == wanted.destination.packed
            segment = (wanted.segment.packed,) if wanted.segment else ()
            assert path.segments == segment


def test_lists_of_people_make_sense() -> None:
    assert str(sid_list(SRV6, "h0", "h2", 0, 1)) == "p0t0-0 > p0t1-1 > p0t0-1 > port 1"
    assert str(sid_list(SRV6, "h0", "h1", 0, 1)) == "p0t0-0 > port 2"
    assert str(sid_list(SRV6, "h1", "h1", 1, None)) == "p1t0-0 > port 2"
    assert str(sid_list(SRV6, "h1", "h1", 1, 1)) == "p1t0-0 > p1t1-1 > p1t0-0 > port 2"
    with pytest.raises(ValueError, match="an uplink is needed"):
        sid_list(SRV6, "h0", "h2", 0, None)
    with pytest.raises(ValueError, match="uplink 2 is not 0 to 1"):
        sid_list(SRV6, "h0", "h2", 0, 2)
    with pytest.raises(ValueError, match="plane 2"):
        sid_list(SRV6, "h0", "h2", 2, 0)
