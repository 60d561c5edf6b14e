"""All three modes on bmv2's simple_switch: same program, same tables, same packets, same frames."""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path

import pytest

from controller.counters import CAUSES, DROPS
from controller.entities import Action, GroupRef
from controller.p4names import P4Names
from controller.program import SwitchProgram, switch_program
from tests.engine import bmv2_harness as bmv2
from tests.p4src import frames
from tests.p4src.switch import PLAN, SRV6, STRUCTURED
from topologies.plan import Plan
from topologies.spec import Depth
from topologies.srv6 import sid_list

pytestmark = [
    pytest.mark.bmv2,
    pytest.mark.slow,
    pytest.mark.skipif(not bmv2.available(), reason="simple_switch is not on the PATH"),
]

NAME = "p0t0-0"


def calm(plan: Plan, srh: bool = False) -> Plan:
    """Without marks and trims: bmv2 reads packet files in bursts, so depths differ each time."""
    changes = {
        "srv6": plan.spec.srv6.model_copy(update={"srh": srh}),
        "trim": plan.spec.trim.model_copy(update={"enabled": False}),
        "ecn": plan.spec.ecn.model_copy(
            update={"kmin": Depth(packets=5000), "kmax": Depth(packets=6000)}
        ),
    }
    return Plan.from_spec(plan.spec.model_copy(update=changes))


def arguments(names: P4Names, action: Action) -> str:
    order = names.action(action.name).params
    return " ".join(str(action.params[name]) for name in order)


def commands_of(program: SwitchProgram, names: P4Names) -> list[str]:
    """What the controller writes, in the words of simple_switch_CLI. Handles count from 0."""
    lines: list[str] = []
    member_handles: dict[tuple[str, int], int] = {}
    group_handles: dict[tuple[str, int], int] = {}
    for member in program.members:
        handle = sum(profile == member.profile for profile, _id in member_handles)
        member_handles[member.profile, member.id] = handle
        what = f"{member.action.name} {arguments(names, member.action)}"
        lines.append(f"act_prof_create_member {member.profile} {what}")
    for group in program.groups:
        handle = sum(profile == group.profile for profile, _id in group_handles)
        group_handles[group.profile, group.id] = handle
        lines.append(f"act_prof_create_group {group.profile}")
        lines += [
            f"act_prof_add_member_to_group {group.profile} "
            f"{member_handles[group.profile, member.member]} {handle}"
            for member in group.members
        ]
    for entry in program.entries:
        table = names.table(entry.table)
        keys = []
        for name, field in table.fields.items():
            value = entry.match[name]
            if field.kind == "lpm":
                assert isinstance(value, tuple)
                keys.append(f"{value[0]:#034x}/{value[1]}")
            else:
                keys.append(str(value))
        key = " ".join(k for k, f in zip(keys, table.fields.values(), strict=True) if f.kind)
        if isinstance(entry.action, GroupRef):
            profile = names.profile_by_id(table.profile_id).name
            handle = group_handles[profile, entry.action.group]
            lines.append(f"table_indirect_add_with_group {entry.table} {key} => {handle}")
        else:
            assert isinstance(entry.action, Action)
            words = arguments(names, entry.action)
            lines.append(f"table_add {entry.table} {entry.action.name} {key} => {words}")
    for default in program.defaults:
        words = arguments(names, default.action)
        lines.append(f"table_set_default {default.table} {default.action.name} {words}")
    return lines


def mrc_packets(plan: Plan, count: int) -> list[tuple[int, bytes]]:
    """MRC packets as hosts of this fabric send them, and damaged ones; some are not MRC."""
    rng = random.Random(23)
    made: list[tuple[int, bytes]] = []
    while len(made) < count:
        src, dst = rng.sample(sorted(plan.hosts), 2)
        port = plan.host(src).nics[0].switch_port if plan.host(src).t0 == 0 else rng.choice((3, 4))
        ev = rng.getrandbits(32)
        inner = frames.mrc(
            plan.host(src).nics[0].ipv6,
            plan.host(dst).nics[0].ipv6,
            ev=ev,
            payload=rng.choice((0, 8, 60, 200, 1000)),
            dscp=rng.choice((0, 4, 8, 12, 46)),
            ecn=rng.getrandbits(2),
            opcode=rng.choice((0xC6, 0xC8, 0xCB, 0xDC)),
            ts=rng.getrandbits(1),
            port=rng.choice((4791, 4791, 4791, 53)),
        )
        frame = inner
        if plan.spec.mode == "srv6" and rng.random() < 0.9:
            way = sid_list(plan, src, dst, 0, rng.getrandbits(1))
            destination = str(way.destination)
            if rng.random() < 0.3:  # any list of uSIDs that exist somewhere
                usids = [0x4000, 0x4001, 0x8000, 0x8001, 0xC001, 0xC003, 0xC00F, 0]
                words = [0x4000, *(rng.choice(usids) for _ in range(5))]
                destination = "fd53:4944:" + ":".join(f"{u:x}" for u in words)
            frame = frames.encapsulated(
                inner,
                destination,
                segment=str(way.segment) if way.segment else None,
                segments_left=rng.choice((0, 1, 1, 1)),
                dscp=rng.choice((0, 4, 46)),
                ecn=rng.getrandbits(2),
                hop_limit=rng.choice((1, 2, 3, 64, 255)),
            )
        if rng.random() < 0.2:
            frame = frame[: rng.randrange(14, len(frame))]
        elif rng.random() < 0.1:
            spoilt = bytearray(frame)
            spoilt[rng.randrange(12, min(len(spoilt), 120))] ^= 1 << rng.randrange(8)
            frame = bytes(spoilt)
        made.append((port, frame))
    return made


@pytest.mark.parametrize("fabric", [calm(PLAN), calm(STRUCTURED), calm(SRV6), calm(SRV6, srh=True)])
def test_bmv2_sends_the_same_frames(program, make, fabric, tmp_path: Path) -> None:
    names = P4Names(program.p4info)
    switch = make(NAME, fabric)
    wanted = switch_program(fabric, fabric.switch(NAME), failover_groups=False)
    ports = sorted(switch.plan.ports)
    packets = mrc_packets(fabric, 500)
    ours: dict[int, list[bytes]] = {port: [] for port in ports}
    for port, frame in packets:
        for out, sent in switch.send(port, frame):
            ours[out].append(sent)
    cells = [port * 16 + cause for port in ports for cause in CAUSES]
    reads = [f"counter_read {DROPS} {cell}" for cell in cells]
    theirs, text = bmv2.run(
        program.json, commands_of(wanted, names), packets, ports, tmp_path, read=reads
    )
    for port in ports:
        assert Counter(theirs[port]) == Counter(ours[port]), port
    assert sum(map(len, ours.values())) > 100
    counted = [int(n) for _bytes, n in re.findall(r"(\d+) bytes, (\d+) packets", text)]
    assert counted == [switch.engine.counter_read(DROPS, cell).packets for cell in cells]
    assert sum(counted) + sum(map(len, ours.values())) == len(packets)
    if fabric.spec.mode == "srv6":
        assert {"list_end", "no_route", "not_encapsulated"} <= {
            cause
            for port in switch.counters().values()
            for cause, count in port.drops.items()
            if count.packets
        }
