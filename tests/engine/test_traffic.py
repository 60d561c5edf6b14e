"""The traffic manager: one rate per port, strict priority, exact depths, exact times."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from softswitch.ctl import CtlServer
from softswitch.engine import Engine, NoSuchPort, PortChange, PortConfig, Replica
from tests.engine.programs import by_priority, forwarder

RATE = 100_000_000
NS_PER_BYTE = 80


def switch(config: PortConfig, program: object = None, **more: object) -> Engine:
    engine = Engine(program or forwarder(), **more)  # type: ignore[arg-type]
    engine.add_port(1)
    engine.add_port(2, config)
    return engine


def drain(engine: Engine) -> list[tuple[int, int, bytes]]:
    """(time, port, frame) of everything still inside."""
    out = []
    while (t := engine.next_deadline()) is not None:
        engine.on_deadline(t)
        out += [(t, p, f) for p, f in engine.frames_to_send(t)]
    return out


def test_frames_leave_back_to_back_at_the_rate() -> None:
    engine = switch(PortConfig(rate_bps=RATE, queue_limits=(100,)))
    for i in range(50):
        engine.receive(1, bytes(14) + bytes([i]) + bytes(985), 0)
    times = [t for t, _, _ in drain(engine)]
    assert times == [(i + 1) * 1000 * NS_PER_BYTE for i in range(50)]


def test_a_late_driver_changes_no_rate() -> None:
    """Served once a millisecond, the last frame still leaves when it would have."""
    engine = switch(PortConfig(rate_bps=RATE, queue_limits=(1000,)))
    for _ in range(400):
        engine.receive(1, bytes(500), 0)
    sent, now = 0, 0
    while sent < 400:
        now += 1_000_000
        sent += len(engine.frames_to_send(now))
    assert now == 400 * 500 * NS_PER_BYTE


def test_rate_that_does_not_divide() -> None:
    rate = 7_777_777
    engine = switch(PortConfig(rate_bps=rate, queue_limits=(2000,)))
    for _ in range(1000):
        engine.receive(1, bytes(999), 0)
    last = drain(engine)[-1][0]
    assert abs(last - 1000 * 999 * 8e9 / rate) < 2


def test_pacing_is_exact_however_late_the_driver_comes() -> None:
    """A second of 100 Mb/s on two ports: at every look, exactly the frames that are due."""
    r = random.Random(5)
    engine = Engine(forwarder(2, field="mcast_grp"))
    engine.mc_group_set(2, [Replica(2), Replica(3)])
    engine.add_port(1)
    for p in (2, 3):
        engine.add_port(p, PortConfig(rate_bps=RATE, queue_limits=(100,)))
    size, count = 1250, 10_000
    frame_ns, now, offered, seen = size * NS_PER_BYTE, 0, 0, {2: 0, 3: 0}
    while min(seen.values()) < count:
        while offered < min(count, seen[2] + 90):
            engine.receive(1, bytes(size), now)
            offered += 1
        now += r.choice([1, 1000, frame_ns, r.randint(1, 40 * frame_ns)])
        for p, _ in engine.frames_to_send(now):
            seen[p] += 1
        due = min(count, now // frame_ns)
        assert seen == {2: due, 3: due}
    assert engine.port_stats(2).drops["queue_full"] == 0


def test_tail_drop_and_depth() -> None:
    engine = switch(PortConfig(rate_bps=RATE, queue_limits=(4, 2)), by_priority())
    for i in range(10):
        engine.receive(1, bytes([0, 0, 0, 0, 0, 0, 0, 0, 0]) + bytes([0, 0, i]), 0)
    s = engine.port_stats(2)
    assert (s.drops["queue_full"], s.queue_depth, s.queue_depth_max) == (5, (4, 0), 4)
    frames = [f for _, _, f in drain(engine)]
    # the first is served at once; the others find 0, 1, 2, 3 before them and leave 3, 2, 1, 0
    assert [int.from_bytes(f[1:3], "big") for f in frames] == [0, 0, 1, 2, 3]
    assert [int.from_bytes(f[3:5], "big") for f in frames] == [0, 3, 2, 1, 0]
    assert engine.port_stats(2, reset_max=True).queue_depth_max == 4
    assert engine.port_stats(2).queue_depth_max == 0


def test_strict_priority_without_cutting_in() -> None:
    """The higher class goes first at the next frame boundary, not before it; also when the
    service comes late."""
    engine = switch(PortConfig(rate_bps=RATE, queue_limits=(9, 9)), by_priority())

    def frame(prio: int, n: int) -> bytes:
        return bytes([prio]) + bytes(8) + n.to_bytes(3, "big") + bytes(988)

    engine.receive(1, frame(0, 1), 0)  # on the wire 0..80 us
    engine.receive(1, frame(0, 2), 1000)
    engine.receive(1, frame(1, 3), 40_000)
    engine.receive(1, frame(1, 4), 200_000)  # 3 and 2 are served by then: 80..160..240 us
    assert [f[11] for _, _, f in drain(engine)] == [1, 3, 2, 4]
    late = switch(PortConfig(rate_bps=RATE, queue_limits=(9, 9)), by_priority())
    late.receive(1, frame(0, 1), 0)
    late.receive(1, frame(0, 2), 1000)
    late.receive(1, frame(1, 3), 90_000)  # after 2 has begun
    assert [f[11] for _, _, f in drain(late)][-2:] == [2, 3]


def test_queue_numbers_out_of_range_are_dropped() -> None:
    engine = switch(PortConfig(), by_priority())
    engine.receive(1, bytes([7]) + bytes(11), 0)
    assert engine.frames_to_send(0) == []
    assert engine.port_stats(1).drops["priority"] == 1


def test_delay_lines() -> None:
    engine = switch(PortConfig(tx_delay_ns=1_000_000))
    engine.set_port_config(1, PortConfig(rx_delay_ns=250_000))
    engine.receive(1, bytes(100), 0)
    assert engine.port_stats(1).in_flight == 1
    engine.on_deadline(250_000)
    assert engine.port_stats(2).in_flight == 1
    assert [(t, p) for t, p, _ in drain(engine)] == [(1_250_000, 2)]


def test_impairments_are_counted_and_seeded() -> None:
    def run(seed: int) -> tuple[list[bytes], dict[str, int], int]:
        engine = switch(PortConfig(loss=0.25, corrupt=0.25), seed=seed)
        for i in range(2000):
            engine.receive(1, bytes(12) + i.to_bytes(4, "big"), i)
        frames = [f for _, f in engine.frames_to_send(2000)]
        s = engine.port_stats(2)
        assert s.tx_packets + s.drops["loss"] == 2000
        return frames, dict(s.drops), s.corrupted

    frames, drops, corrupted = run(7)
    assert 400 < drops["loss"] < 600
    assert 300 < corrupted < 450
    flipped = [f for f in frames if any(f[:12]) or f[12:14] != bytes(2)]
    assert all(sum(bin(x).count("1") for x in f[:12]) == 1 or not any(f[:12]) for f in flipped)
    assert run(7) == (frames, drops, corrupted)
    assert run(8)[0] != frames


def test_impairments_of_what_arrives() -> None:
    """The mirror image of loss and corruption, counted at the port where frames come in."""

    def run(seed: int) -> tuple[list[bytes], int, int]:
        engine = switch(PortConfig(), seed=seed)
        engine.set_port_config(1, PortConfig(rx_loss=0.25, rx_corrupt=0.25, rx_delay_ns=10))
        for i in range(2000):
            engine.receive(1, bytes(12) + i.to_bytes(4, "big"), i)
        frames = [f for _, f in engine.frames_to_send(3000)]
        s, t = engine.port_stats(1), engine.totals()
        assert s.rx_packets == 2000 == len(frames) + s.drops["rx_loss"]
        assert (t.received, t.sent, t.dropped) == (2000, len(frames), s.drops["rx_loss"])
        assert engine.port_stats(2).drops["loss"] == engine.port_stats(2).corrupted == 0
        return frames, s.drops["rx_loss"], s.rx_corrupted

    frames, lost, corrupted = run(7)
    assert 400 < lost < 600
    assert 300 < corrupted < 450
    assert len([f for f in frames if any(f[:12])]) > corrupted / 2
    assert run(7) == (frames, lost, corrupted)
    assert run(8)[0] != frames


def test_blackhole_of_what_arrives() -> None:
    engine = switch(PortConfig())
    engine.set_port_config(1, PortConfig(rx_blackhole=True))
    engine.receive(1, bytes(60), 0)
    assert engine.frames_to_send(0) == []
    assert engine.port_stats(1).drops["rx_blackhole"] == 1
    assert engine.port_up(1)
    engine.receive(2, bytes(60), 1)  # the other direction and the other ports are not touched
    assert len(engine.frames_to_send(1)) == 1


def test_side_channel_sets_them_and_forgets_the_start(tmp_path: Path) -> None:
    engine = switch(PortConfig(rate_bps=RATE))
    ctl = CtlServer(engine, tmp_path / "ctl")

    def ask(**request: object) -> dict[str, Any]:
        reply = ctl.answer(json.dumps(request).encode())
        assert reply["ok"], reply
        return reply

    config = ask(op="set_port", port=1, config={"rx_loss": 0.5, "rx_blackhole": True})["config"]
    assert (config["rx_loss"], config["rx_blackhole"]) == (0.5, True)
    assert not ctl.answer(b'{"op": "set_port", "port": 1, "config": {"rx_loss": 2}}')["ok"]
    ask(op="set_port", port=1, config={"rx_loss": 0.0, "rx_blackhole": False})
    for _ in range(3):
        engine.receive(1, bytes(1000), 0)
    engine.on_deadline(170_000)
    first = ask(op="stats", reset=True)
    assert (first["fidelity"]["services"], first["ports"]["2"]["queue_depth_max"]) == (2, 2)
    assert ask(op="stats")["fidelity"]["services"] == 0
    assert ask(op="stats")["ports"]["1"]["rx_packets"] == 3


def test_blackhole_swallows_while_the_port_stays_up() -> None:
    engine = switch(PortConfig(blackhole=True))
    engine.receive(1, bytes(60), 0)
    assert engine.frames_to_send(0) == []
    assert engine.port_stats(2).drops["blackhole"] == 1
    assert engine.port_up(2)
    engine.set_port_config(2, PortConfig())
    engine.receive(1, bytes(60), 1)
    assert len(engine.frames_to_send(1)) == 1


def test_port_down_loses_what_is_inside_and_tells() -> None:
    engine = switch(PortConfig(rate_bps=RATE, tx_delay_ns=10_000_000))
    for _ in range(5):
        engine.receive(1, bytes(1000), 0)
    engine.on_deadline(170_000)  # two in the delay line, one on the wire, two in the queue
    engine.set_port_up(2, False, 170_000)
    s = engine.port_stats(2)
    assert (s.drops["port_down"], s.in_flight, sum(s.queue_depth)) == (5, 0, 0)
    engine.receive(1, bytes(1000), 180_000)
    engine.receive(2, bytes(1000), 180_000)
    assert engine.port_stats(2).drops["port_down"] == 7
    engine.set_port_up(2, True, 200_000)
    engine.receive(1, bytes(1000), 200_000)
    assert [t for t, _, _ in drain(engine)] == [200_000 + 80_000 + 10_000_000]
    assert [e for e in engine.events() if isinstance(e, PortChange)] == [
        PortChange(2, False, 170_000),
        PortChange(2, True, 200_000),
    ]


def test_admin_down_is_down() -> None:
    engine = switch(PortConfig(admin_up=False))
    engine.receive(1, bytes(60), 0)
    assert engine.frames_to_send(0) == []
    assert not engine.port_up(2)
    engine.set_port_config(2, PortConfig())
    assert engine.port_up(2)


def test_unknown_ports() -> None:
    engine = Engine(forwarder(77))
    engine.add_port(1)
    engine.receive(1, bytes(60), 0)
    assert engine.port_stats(1).drops["no_port"] == 1
    with pytest.raises(NoSuchPort):
        engine.receive(5, bytes(60), 0)
    with pytest.raises(NoSuchPort):
        engine.port_stats(5)


@pytest.mark.parametrize("seed", range(6))
def test_conservation(seed: int) -> None:
    """Whatever happens to ports, every packet is accounted for once, at every moment."""
    r = random.Random(seed)
    engine = switch(
        PortConfig(
            rate_bps=r.choice([0, RATE]), queue_limits=(5, 3), tx_delay_ns=r.choice([0, 10**6])
        ),
        by_priority(),
    )
    now = sent = 0
    for _ in range(1500):
        now += r.choice([0, 1000, 100_000])
        what = r.random()
        if what < 0.7:
            engine.receive(
                r.choice([1, 2]), bytes([r.choice([0, 0, 1, 5])]) + bytes(r.randint(0, 900)), now
            )
        elif what < 0.8:
            engine.set_port_up(2, r.random() < 0.6, now)
        elif what < 0.9:
            engine.set_port_config(
                2,
                PortConfig(
                    rate_bps=r.choice([0, RATE, 5_000_000]), queue_limits=(r.randint(1, 9),),
                    tx_delay_ns=r.choice([0, 50_000]), rx_delay_ns=r.choice([0, 50_000]),
                    loss=r.choice([0, 0.3]), corrupt=r.choice([0, 0.3]),
                    rx_loss=r.choice([0, 0.3]), rx_blackhole=r.random() < 0.1,
                    blackhole=r.random() < 0.1, admin_up=r.random() < 0.9,
                ),
            )  # fmt: skip
        else:
            engine.on_deadline(now)
            sent += len(engine.frames_to_send(now))
        t, s = engine.totals(), engine.port_stats(2)
        assert t.received + t.copies == t.sent + t.packet_in + t.dropped + t.held
        assert s.enqueued == s.dequeued + sum(s.queue_depth)
    sent += len(drain(engine))
    t = engine.totals()
    assert (t.held, t.sent) == (0, sent)
    assert t.received == t.sent + t.dropped
