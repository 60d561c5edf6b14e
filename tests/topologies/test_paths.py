"""EV -> path -> links, both ways, with links down and failover groups."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.topologies.fabrics import plan, two_plane
from topologies.paths import evs_of_link, live_uplinks, path_of, spread, suspects, uplink_of
from topologies.plan import UnknownNameError

evs32 = st.integers(0, 2**32 - 1)
RNG = random.Random(3)
EVS = [(i % 2, RNG.getrandbits(32)) for i in range(400)]


@given(evs32, st.integers(0, 2), st.data())
def test_path_is_connected(ev: int, plane: int, data: st.DataObject) -> None:
    fabric = plan(3, 3, 3, 2)
    src, dst = data.draw(
        st.lists(st.sampled_from(list(fabric.hosts)), min_size=2, max_size=2, unique=True)
    )
    path = path_of(fabric, src, dst, plane, ev)
    assert path.lost_at is None
    nodes = [src, *path.switches, dst]
    for link, near, far in zip(path.links, nodes[:-1], nodes[1:], strict=True):
        ends = fabric.link(link)
        assert {ends.a.node, ends.b.node} == {near, far}
        assert ends.plane == plane
    same_t0 = fabric.host(src).t0 == fabric.host(dst).t0
    assert len(path.switches) == (1 if same_t0 else 3)


def test_evs_of_link_and_links_of_ev_are_inverse() -> None:
    two = two_plane()
    for link in two.links:
        crossing = evs_of_link(two, "h0", "h2", link, EVS)
        for plane, ev in EVS:
            assert ((plane, ev) in crossing) == (link in path_of(two, "h0", "h2", plane, ev).links)


def test_a_link_has_about_its_share() -> None:
    two = two_plane()
    counts = spread(two, "h0", "h2", EVS)
    assert counts["h0:p0t0-0"] == 200
    assert counts["p0t0-0:p0t1-0"] + counts["p0t0-0:p0t1-1"] == 200
    assert 70 < counts["p0t0-0:p0t1-0"] < 130
    assert counts["p0t0-0:p0t1-0"] == counts["p0t0-1:p0t1-0"]


def test_other_direction_is_another_path() -> None:
    two = two_plane()
    forward = [path_of(two, "h0", "h2", p, ev).switches[1] for p, ev in EVS]
    back = [path_of(two, "h2", "h0", p, ev).switches[1] for p, ev in EVS]
    same = sum(a == b for a, b in zip(forward, back, strict=True))
    assert 140 < same < 260


def test_static_tables_lose_packets_on_the_link_that_is_down() -> None:
    two = two_plane()
    down = {"p0t0-0:p0t1-1"}
    for plane, ev in EVS:
        whole = path_of(two, "h0", "h2", plane, ev)
        now = path_of(two, "h0", "h2", plane, ev, down=down)
        if "p0t0-0:p0t1-1" in whole.links:
            assert now.lost_at == "p0t0-0:p0t1-1"
            assert now.links == whole.links[:2]
            assert now.switches == ("p0t0-0",)
        else:
            assert now == whole


def test_failover_groups_skip_uplinks_that_are_down() -> None:
    two = two_plane()
    down = {"p0t0-0:p0t1-1"}
    paths = [
        path_of(two, "h0", "h2", p, ev, down=down, failover_groups=True) for p, ev in EVS if p == 0
    ]
    assert all(path.lost_at is None for path in paths)
    assert {path.switches[1] for path in paths} == {"p0t1-0"}


def test_failover_groups_cannot_steer_round_the_way_down() -> None:
    two = two_plane()
    down = {"p0t0-1:p0t1-1"}
    lost = [
        ev
        for p, ev in EVS
        if path_of(two, "h0", "h2", p, ev, down=down, failover_groups=True).lost_at
    ]
    assert lost == [ev for p, ev in EVS if "p0t0-1:p0t1-1" in path_of(two, "h0", "h2", p, ev).links]
    assert lost


def test_failover_group_with_three_members_rehashes_over_the_live_ones() -> None:
    fabric = plan(3, 3, 3, 2)
    t0 = fabric.at(0, 0, 0)
    down = {t0.ports[t0.uplinks[1]].link}
    assert live_uplinks(t0, down) == (t0.uplinks[0], t0.uplinks[2])
    chosen = {
        uplink_of(fabric, t0, "h0", "h2", ev, down, failover_groups=True) for ev in range(200)
    }
    assert chosen == {t0.uplinks[0], t0.uplinks[2]}


def test_no_live_uplink_loses_at_the_switch() -> None:
    two = two_plane()
    down = {"p0t0-0:p0t1-0", "p0t0-0:p0t1-1"}
    path = path_of(two, "h0", "h2", 0, 1, down=down, failover_groups=True)
    assert (path.lost_at, path.links) == ("p0t0-0", ("h0:p0t0-0",))


def test_host_link_down() -> None:
    two = two_plane()
    assert path_of(two, "h0", "h2", 0, 1, down={"h0:p0t0-0"}).switches == ()
    assert path_of(two, "h0", "h1", 0, 1, down={"h1:p0t0-0"}).lost_at == "h1:p0t0-0"


def test_suspects_name_the_failing_link() -> None:
    two = two_plane()
    link = "p0t0-1:p0t1-0"
    bad = evs_of_link(two, "h0", "h2", link, EVS)
    good = set(EVS) - bad
    # Without a second pair of hosts the two halves of a path can't be told apart.
    assert suspects(two, "h0", "h2", bad, good) == ["p0t0-0:p0t1-0", link]


def test_mistakes() -> None:
    two = two_plane()
    with pytest.raises(UnknownNameError, match="no host 'h9'"):
        path_of(two, "h9", "h0", 0, 1)
    with pytest.raises(ValueError, match="plane 2 is not in this fabric"):
        path_of(two, "h0", "h2", 2, 1)
    with pytest.raises(ValueError, match="to itself"):
        path_of(two, "h0", "h0", 0, 1)
    with pytest.raises(UnknownNameError, match="did you mean 'p0t0-0:p0t1-0'"):
        evs_of_link(two, "h0", "h2", "p0t00:p0t1-0", EVS)
