"""Loop probes: bytes, the beat, and what counts as lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrSegmentRouting
from scapy.layers.l2 import Ether

from hosts.probing.frames import LOOP_PORT, LoopTemplate, loop_template, parse_loop
from hosts.probing.loops import Loop, LoopProber

MAC, GATEWAY = "02:00:00:00:00:01", "02:10:00:00:00:01"
ADDRESS = "fd4d:5243::1"
MS = 10**6


def template(number: int = 7, *segments: str) -> LoopTemplate:
    return loop_template(number, MAC, GATEWAY, ADDRESS, "5f00:0:100:200:100:e001::", segments)


@pytest.mark.parametrize("segments", [(), ("5f00:0:e001::",)])
def test_a_frame_is_what_scapy_makes_of_it(segments: tuple[str, ...]) -> None:
    raw = template(7, *segments).frame(9, 1234)
    packet = Ether(raw)
    outer = packet[IPv6]
    assert (outer.src, outer.dst) == (ADDRESS, "5f00:0:100:200:100:e001::")
    assert outer.plen == len(raw) - 14 - 40
    assert outer.tc >> 2 == 46
    inner = packet.getlayer(IPv6, 2)
    assert (inner.src, inner.dst, inner.plen) == (ADDRESS, ADDRESS, 36)
    assert packet[UDP].dport == LOOP_PORT
    if segments:
        assert packet[IPv6ExtHdrSegmentRouting].addresses == ["5f00:0:e001::"]
        assert packet[IPv6ExtHdrSegmentRouting].segleft == 1
    found = parse_loop(raw)
    assert found is not None
    assert tuple(found) == (7, 9, 1234)


@given(st.binary(max_size=300), st.integers(0, 140), st.integers(1, 255))
def test_foreign_and_damaged_frames_are_none(raw: bytes, at: int, flip: int) -> None:
    assert parse_loop(raw) is None
    frame = bytearray(template().frame(9, 1234))
    at = len(frame) - 1 - at % 28
    frame[at] ^= flip
    assert parse_loop(bytes(frame)) is None
    assert parse_loop(bytes(frame)[: at % len(frame)]) is None


def prober(count: int = 3) -> LoopProber:
    loops = [Loop(1 + n % 2, template(n)) for n in range(count)]
    return LoopProber(loops, 30 * MS, 20 * MS, now=0)


def run(prober: LoopProber, until: int) -> list[tuple[int, int, bytes]]:
    """(time, port, frame) of all that leaves up to `until`, served on time."""
    out = []
    while (now := prober.next_deadline()) <= until:
        prober.on_deadline(now)
        out += [(now, port, frame) for port, frame in prober.frames_to_send(now)]
    return out


def test_an_even_beat_over_all_loops() -> None:
    sent = run(prober(), 89 * MS)
    assert [t // MS for t, _, _ in sent] == [0, 10, 20, 30, 40, 50, 60, 70, 80]
    loops = [found.loop for _, _, f in sent if (found := parse_loop(f))]
    assert loops == [0, 1, 2] * 3
    assert [port for _, port, _ in sent[:3]] == [1, 2, 1]


def test_lost_late_and_twice() -> None:
    p = prober()
    sent = run(p, 25 * MS)
    (_, _, first), (_, port, second), (_, _, third) = sent
    assert p.receive(port, second, 25 * MS)
    assert p.receive(port, second, 26 * MS)  # twice counts once
    assert not p.receive(port, b"something else", 26 * MS)
    p.on_deadline(45 * MS)  # the first's time was over at 20 ms, the third's at 40
    assert p.receive(1, first, 45 * MS)  # too late
    counts = p.take()
    assert (counts[0].sent, counts[0].lost) == (1, 1)
    assert (counts[1].sent, counts[1].lost) == (1, 0)
    assert (counts[1].rtt_min_ns, counts[1].rtt_mean_ns) == (15 * MS, 15 * MS)
    assert (counts[2].sent, counts[2].lost) == (1, 1)
    assert p.take() == {}
    assert third


def test_a_late_service_makes_no_burst() -> None:
    p = prober()
    p.on_deadline(0)
    p.frames_to_send(0)
    for now in range(500 * MS, 531 * MS, MS):
        p.on_deadline(now)
    assert len(p.frames_to_send(0)) <= 4  # 30 ms at one in 10


@pytest.mark.parametrize(
    ("loops", "interval", "message"),
    [([], 10, "no loop"), ([1, 1], 10, "twice"), ([1, 2], 1, "too short")],
)
def test_nonsense_is_refused(loops: list[int], interval: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LoopProber([Loop(1, template(n)) for n in loops], interval, 5, 0)


@given(st.lists(st.tuples(st.integers(0, 5 * MS), st.booleans()), max_size=60))
def test_every_probe_has_one_fate(steps: list[tuple[int, bool]]) -> None:
    p, now, sent = prober(), 0, 0
    counted = 0
    for delay, answered in steps:
        now += delay
        p.on_deadline(now)
        for port, frame in p.frames_to_send(now):
            sent += 1
            if answered:
                p.receive(port, frame, now + MS)
        counted += sum(c.sent for c in p.take().values())
    # Long after, everything is decided; a stray changes nothing.
    assert p.receive(1, template().frame(10**9, 0), now + 1000 * MS)
    p.on_deadline(now + 1000 * MS)
    p.frames_to_send(now + 1000 * MS)  # this one's fate nobody will know
    counted += sum(c.sent for c in p.take().values())
    assert counted == sent
