"""The engine beside simple_switch: same program, same tables, same packets, same frames."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from pathlib import Path

import pytest

from softswitch.engine import ActionCall, Engine, Exact, GroupMember, GroupRef, Lpm
from tests.engine import bmv2_harness as bmv2
from tests.engine.frames import EXAMPLE, FABRIC_DST, mrc

pytestmark = [
    pytest.mark.bmv2,
    pytest.mark.slow,
    pytest.mark.skipif(not bmv2.available(), reason="simple_switch is not on the PATH"),
]

PORTS = [1, 2, 3, 4]


def through_engine(engine: Engine, packets: list[tuple[int, bytes]]) -> dict[int, list[bytes]]:
    out: dict[int, list[bytes]] = {p: [] for p in PORTS}
    for i, (port, data) in enumerate(packets):
        engine.receive(port, data, i * 1_000_000)
        for p, frame in engine.frames_to_send(i * 1_000_000):
            out[p].append(frame)
    return out


def random_packets(n: int, seed: int) -> list[tuple[int, bytes]]:
    """MRC frames of all classes, and damaged ones: cut short, other types, noise."""
    rng = random.Random(seed)
    out = []
    for _ in range(n):
        frame = mrc(
            rng.choice([60, 100, 200, 1000, 4000]),
            label=rng.getrandbits(20),
            sport=rng.getrandbits(16),
            dscp=rng.choice([0, 10, 12, 14, 16, 46, rng.getrandbits(6)]),
            ecn=rng.getrandbits(2),
            dst=FABRIC_DST if rng.random() < 0.8 else rng.getrandbits(128),
            hop_limit=rng.choice([0, 1, 2, 64, 255]),
            opcode=rng.choice([0xC6, 0xC7, 0xC8, 0xCA, 0xD1, 0xDC, rng.getrandbits(8)]),
            ts=rng.getrandbits(1),
        )
        kind = rng.random()
        if kind < 0.15:
            frame = frame[: rng.randint(14, len(frame))]
        elif kind < 0.2:
            frame = frame[:12] + rng.randbytes(2) + frame[14:]
        elif kind < 0.25:
            frame = rng.randbytes(rng.randint(14, 300))
        out.append((rng.choice([1, 2]), frame))
    return out


def compare(ours: dict[int, list[bytes]], theirs: dict[int, list[bytes]]) -> None:
    """Equal frames on every port. Not their order: bmv2 reads packet files in bursts, and then
    its control class overtakes."""
    for p in PORTS:
        mine, other = Counter(ours[p]), Counter(theirs[p])
        for name, frames in (("engine", mine - other), ("bmv2", other - mine)):
            for frame in frames:
                pytest.fail(f"port {p}: only {name} sends {frame.hex()[:400]}")
    assert sum(map(len, ours.values())) > 100


def test_example(tmp_path: Path) -> None:
    program = json.loads(EXAMPLE.read_text())
    engine = Engine(program, priority_queues=2)
    commands = ["table_set_default I.salt I.set_salt 305419896"]
    engine.table_set_default("I.salt", ActionCall("I.set_salt", (305419896,)))
    group = engine.group_create("I.sel")
    commands.append("act_prof_create_group I.sel")
    members = []
    for port in (2, 3, 4):
        members.append(engine.member_add("I.sel", ActionCall("I.out_port", (port,))))
        commands.append(f"act_prof_create_member I.sel I.out_port {port}")
        commands.append(f"act_prof_add_member_to_group I.sel {members[-1]} {group}")
    engine.group_set_members("I.sel", group, [GroupMember(m) for m in members])
    dst = FABRIC_DST >> 64 << 64
    engine.table_add("I.route", [Lpm(dst, 64)], GroupRef(group))
    commands.append(f"table_indirect_add_with_group I.route {dst:#034x}/64 => {group}")
    for port in (2, 3, 4):
        engine.table_add("I.trim_limit", [Exact(port), Exact(10)], ActionCall("I.admit", (0,)))
        engine.table_add("E.ecn", [Exact(port)], ActionCall("E.mark", (0,)))
        commands.append(f"table_add I.trim_limit I.admit {port} 10 => 0")
        commands.append(f"table_add E.ecn E.mark {port} => 0")
    for p in PORTS:
        engine.add_port(p)
    # a miss on `route` goes out of port 0 in bmv2: not one of ours, in both
    packets = random_packets(400, 1)
    ours = through_engine(engine, packets)
    reads = [f"counter_read {c} {i}" for c in ("I.trims", "E.marks") for i in (2, 3, 4)]
    theirs, text = bmv2.run(program, commands, packets, PORTS, tmp_path, read=reads)
    compare(ours, theirs)
    counted = [(int(p), int(b)) for b, p in re.findall(r"(\d+) bytes, (\d+) packets", text)]
    mine = [engine.counter_read(c, i) for c in ("I.trims", "E.marks") for i in (2, 3, 4)]
    assert counted == [(c.packets, c.bytes) for c in mine]
    assert sum(c.packets for c in mine[:3]) > 0


def test_fabric(tmp_path: Path) -> None:
    from softswitch.p4 import compile_file

    program = compile_file(Path(__file__).parents[2] / "p4src" / "mrc_fabric.p4").json
    engine = Engine(program, priority_queues=2)
    i = "FabricIngress."
    commands = [f"table_set_default {i}salt {i}set_salt 42"]
    engine.table_set_default(f"{i}salt", ActionCall(f"{i}set_salt", (42,)))
    dst = FABRIC_DST
    engine.table_add(f"{i}route", [Lpm(dst >> 80 << 80, 48)], ActionCall(f"{i}spray", (1,)))
    commands.append(f"table_add {i}route {i}spray {dst >> 80 << 80:#034x}/48 => 1")
    sel = f"{i}uplink_selector"
    group = engine.group_create(sel)
    commands.append(f"act_prof_create_group {sel}")
    members = []
    for port in (2, 3, 4):
        members.append(engine.member_add(sel, ActionCall(f"{i}forward", (port, 17, 34 + port))))
        commands.append(f"act_prof_create_member {sel} {i}forward {port} 17 {34 + port}")
        commands.append(f"act_prof_add_member_to_group {sel} {members[-1]} {group}")
    engine.group_set_members(sel, group, [GroupMember(m) for m in members])
    engine.table_add(f"{i}uplinks", [Exact(1)], GroupRef(group))
    commands.append(f"table_indirect_add_with_group {i}uplinks 1 => {group}")
    for dscp, name in ((46, "control_class"), (10, "trimmable_class"), (14, "trimmable_class")):
        engine.table_add(f"{i}classes", [Exact(dscp)], ActionCall(i + name))
        commands.append(f"table_add {i}classes {i}{name} {dscp} =>")
    for port in (2, 3):
        # limit 0 and no patience: every trimmable packet is cut, whatever the timing
        args = (0, 168, 12, 0xFFFFFFFF)
        engine.table_add(f"{i}trim_profile", [Exact(port)], ActionCall(f"{i}trim_at", args))
        words = " ".join(map(str, args))
        commands.append(f"table_add {i}trim_profile {i}trim_at {port} => {words}")
    for p in PORTS:
        engine.add_port(p)
    packets = random_packets(400, 2)
    ours = through_engine(engine, packets)
    reads = [f"counter_read {i}drops {p * 16 + c}" for p in (1, 2) for c in range(7)]
    theirs, text = bmv2.run(program, commands, packets, PORTS, tmp_path, read=reads)
    compare(ours, theirs)
    counted = [int(p) for _, p in re.findall(r"(\d+) bytes, (\d+) packets", text)]
    assert counted == [
        engine.counter_read(f"{i}drops", p * 16 + c).packets for p in (1, 2) for c in range(7)
    ]
