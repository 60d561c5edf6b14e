"""Where packets go, what they look like then, and why some go nowhere."""

from __future__ import annotations

import random
import re
import zlib
from ipaddress import IPv6Address
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.p4src import frames
from tests.p4src.switch import PLAN
from topologies import ecmp
from topologies.paths import uplink_of

H0, H1, H2, H3 = (PLAN.hosts[f"h{i}"].nics[0].ipv6 for i in range(4))
HOST_PORT, UPLINKS = 1, (3, 4)


@pytest.mark.parametrize("name", ["p0t0-0", "p0t0-1", "p1t0-0", "p1t0-1"])
def test_every_ev_takes_the_uplink_that_the_plan_predicts(make, name):
    switch = make(name)
    plan = switch.plan
    source = PLAN.hosts_under(plan.index)[0]
    target = PLAN.hosts_under(1 - plan.index)[1]
    src, dst = source.nics[plane := plan.plane].ipv6, target.nics[plane].ipv6
    rng = random.Random(7)
    for ev in [0, 1, 0xFFFFFFFF, *(rng.getrandbits(32) for _ in range(300))]:
        ((port, _frame),) = switch.send(1, frames.mrc(src, dst, ev=ev, payload=64))
        assert port == uplink_of(PLAN, plan, source.name, target.name, ev)


def test_the_vectors_of_the_readme():
    text = (Path(__file__).parents[2] / "p4src" / "README.md").read_text()
    row = r"^\| (0x\w+) \| `(.*?)` \| `(.*?)` \| (0x\w+) \| (0x\w+) \| (0x\w+)"
    rows = re.findall(row, text, re.M)
    assert len(rows) == 4
    for salt, src, dst, label, sport, wanted in rows:
        found = ecmp.flow_hash(
            int(salt, 16),
            int(IPv6Address(src)),
            int(IPv6Address(dst)),
            int(label, 16),
            int(sport, 16),
        )
        assert found == int(wanted, 16)


def test_all_twenty_bits_of_the_label_count_and_the_port_is_zero_without_udp(make):
    switch = make()
    source, target = (int(IPv6Address(a)) for a in (H0, H2))
    for label in range(0, 1 << 20, 0x1357):
        frame = frames.ipv6(H0, H2, b"x" * 8, 59, label)
        ((port, _),) = switch.send(1, frame)
        h = ecmp.flow_hash(switch.plan.salt, source, target, label, 0)
        assert port == ecmp.pick(h, UPLINKS)


def test_what_changes_on_the_way_and_nothing_else(make):
    switch = make()
    sent = frames.mrc(H0, H2, ev=0xBEEF_1234, upper=0, hop_limit=9, ecn=1)
    ((port, out),) = switch.send(1, sent)
    plan = switch.plan.ports[port]
    seen = frames.see(out)
    assert seen.dmac == int(plan.peer_mac.replace(":", ""), 16)
    assert seen.smac == int(plan.mac.replace(":", ""), 16)
    assert seen.hop_limit == 8
    assert out[12:21] == sent[12:21]
    assert out[22:] == sent[22:]


@pytest.mark.parametrize("ts", [0, 1])
@pytest.mark.parametrize("opcode", [0xC6, 0xC7, 0xC8, 0xC9, 0xCA, 0xCB, 0xD1, 0xD8, 0xDC, 0x0A])
@pytest.mark.parametrize("port", [4791, 4971, 53])
def test_every_kind_of_packet_leaves_whole(make, opcode, ts, port):
    switch = make()
    sent = frames.mrc(H0, H1, opcode=opcode, ts=ts, port=port, payload=33)
    ((out_port, out),) = switch.send(1, sent)
    assert out_port == 2
    assert out[22:] == sent[22:]


def test_the_way_down(make):
    t1 = make("p0t1-1")
    assert [port for port, _ in t1.send(1, frames.mrc(H0, H2))] == [2]
    assert [port for port, _ in t1.send(2, frames.mrc(H2, H1))] == [1]
    t0 = make("p0t0-1")
    assert [port for port, _ in t0.send(3, frames.mrc(H0, H2))] == [1]
    assert [port for port, _ in t0.send(4, frames.mrc(H0, H3))] == [2]


OTHER_PLANE = PLAN.hosts["h2"].nics[1].ipv6


@pytest.mark.parametrize(
    ("frame", "cause"),
    [
        (b"\2" * 12 + b"\x08\x06" + b"arp" * 10, "not_ipv6"),
        (frames.mrc(H0, H2)[:53], "not_ipv6"),
        (frames.ipv6(H0, H2, b"", version=4), "malformed"),
        (frames.mrc(H0, H2, hop_limit=0), "hop_limit"),
        (frames.mrc(H0, H2, hop_limit=1), "hop_limit"),
        (frames.mrc(H0, "ff02::1"), "no_route"),
        (frames.mrc(H0, OTHER_PLANE), "no_route"),
        (frames.mrc(H0, H0[:-1] + "77"), "discarded"),
    ],
)
def test_what_is_dropped_is_counted_by_port_and_cause(make, frame, cause):
    switch = make()
    assert switch.send(2, frame) == []
    counters = switch.counters()
    assert {c: n.packets for c, n in counters[2].drops.items() if n.packets} == {cause: 1}
    assert counters[2].received.packets == 1
    assert sum(c.packets for p in counters.values() for c in p.forwarded.values()) == 0


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(cut=st.integers(1, 120), noise=st.binary(max_size=40), flip=st.integers(0, 119))
def test_no_frame_is_multiplied_or_lost_without_a_count(shared, cut, noise, flip):
    frame = bytearray(frames.mrc(H0, H2, payload=8)[:cut] + noise)
    if flip < len(frame):
        frame[flip] ^= 0xFF
    before = totals(shared)
    out = shared.send(1, bytes(frame))
    after = totals(shared)
    assert len(out) <= 1
    received, forwarded, dropped = (b - a for a, b in zip(before, after, strict=True))
    assert received == forwarded + dropped
    assert forwarded == len(out)


@pytest.fixture
def shared(make):
    return make()


def totals(switch):
    counters = switch.counters().values()
    return (
        sum(p.received.packets for p in counters),
        sum(c.packets for p in counters for c in p.forwarded.values()),
        sum(c.packets for p in counters for c in p.drops.values()),
    )


# -- failover


def test_the_guard_key_selects_the_first_of_any_number_of_live_members():
    text = (Path(__file__).parents[2] / "p4src" / "headers.p4").read_text()
    (key,) = re.findall(r"GUARD_KEY = (0x[0-9A-F]{8});", text)
    crc = zlib.crc32(int(key, 16).to_bytes(4, "big"))
    assert [crc % (1 + live) for live in range(600)] == [0, *[1] * 599]


def evs(count: int = 64) -> list[int]:
    rng = random.Random(3)
    return [rng.getrandbits(32) for _ in range(count)]


def ports_of(switch) -> dict[int, int]:
    """EV -> port; EVs whose packet did not come out are absent."""
    result = {}
    for ev in evs():
        for port, _ in switch.send(1, frames.mrc(H0, H2, ev=ev, payload=64)):
            result[ev] = port
    return result


def test_static_groups_do_not_react_to_a_port_that_is_down(make):
    switch = make(failover_groups=False)
    before = ports_of(switch)
    switch.engine.set_port_up(3, False, switch.now)
    after = ports_of(switch)
    assert set(before.values()) == {3, 4}
    assert after == {ev: port for ev, port in before.items() if port == 4}
    assert switch.engine.port_stats(3).drops["port_down"] == len(before) - len(after)


def test_failover_groups_skip_what_is_down_and_return(make):
    switch = make(failover_groups=True)
    before = ports_of(switch)
    assert before == {ev: uplink_of(PLAN, switch.plan, "h0", "h2", ev) for ev in evs()}
    for down, other in ((3, 4), (4, 3)):
        switch.engine.set_port_up(down, False, switch.now)
        assert set(ports_of(switch).values()) == {other}
        assert len(ports_of(switch)) == len(evs())
        switch.engine.set_port_up(down, True, switch.now)
        assert ports_of(switch) == before


def test_without_a_live_uplink_packets_are_dropped_by_name(make):
    switch = make(failover_groups=True)
    for port in UPLINKS:
        switch.engine.set_port_up(port, False, switch.now)
    assert ports_of(switch) == {}
    assert switch.counters()[1].drops["no_uplink"].packets == len(evs())
    ((port, _),) = switch.send(1, frames.mrc(H0, H1, payload=64))
    assert port == 2
