"""What finsy does to a switch that runs full.p4. Run by a Python that has finsy; prints JSON.

    python finsy_client.py ADDRESS P4INFO JSON

Lines on stdout that begin with "do " ask whoever started this to do something to the data
plane: "do send PORT HEX" (a frame comes in), "do out" (see what comes out), "do wait" (let time
pass). The last line is what was seen.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import finsy as fy
from finsy.p4entity import P4ValueSetMember

SEEN: dict[str, Any] = {}
LIMIT = 30.0


def ask(text: str) -> None:
    print(f"do {text}", flush=True)


def frame(dst: int, src: int, kind: int = 0x88B5) -> bytes:
    head = dst.to_bytes(6, "big") + src.to_bytes(6, "big") + kind.to_bytes(2, "big")
    return head.ljust(60, b"\0")


async def first(items: AsyncIterator[Any]) -> Any:
    """The first of what a stream gives, within LIMIT."""
    return await asyncio.wait_for(anext(items), LIMIT)


def same(sw: Any, wanted: Any, found: list[Any]) -> list[bool]:
    """Whether each entity found is the wanted one, as messages."""
    return [item.encode(sw.p4info) == wanted.encode(sw.p4info) for item in found]


async def read(sw: Any, entity: Any) -> list[Any]:
    return [item async for item in sw.read(entity)]


async def tables(sw: Any) -> None:
    entry = fy.P4TableEntry(
        "l2", match=fy.Match({"h.eth.dst": 2}), action=fy.Action("fwd", port=3), metadata=b"f"
    )
    await sw.insert([entry])
    acl = fy.P4TableEntry(
        "acl",
        match=fy.Match({"h.eth.src": "0x1/&0xff", "h.eth.type": "0x9000...0x9100"}),
        action=fy.Action("drop"),
        priority=5,
    )
    route = fy.P4TableEntry(
        "route",
        match=fy.Match({"h.eth.dst": "0x020000000000/8"}),
        action=fy.Action("metered", port=4),
        meter_config=fy.P4MeterConfig(cir=100, cburst=10, pir=200, pburst=20),
    )
    await sw.insert([acl, route])
    await sw.modify(
        [fy.P4TableEntry("l2", is_default_action=True, action=fy.Action("fwd", port=4))]
    )
    SEEN["l2"] = same(sw, entry, await read(sw, fy.P4TableEntry("l2")))
    SEEN["acl"] = same(sw, acl, await read(sw, fy.P4TableEntry("acl")))
    SEEN["route"] = len(await read(sw, fy.P4TableEntry("route")))
    try:
        await sw.insert([entry])
    except fy.P4ClientError as error:
        SEEN["again"] = [
            error.code.name,
            {k: v.canonical_code.name for k, v in error.details.items()},
        ]
    await sw.delete([entry, acl])
    await sw.delete([entry], strict=False)
    SEEN["deleted"] = len(await read(sw, fy.P4TableEntry("l2")))
    by_name = fy.P4TableEntry(
        "by_hop", match=fy.Match({"m.hop": "spine-1"}), action=fy.Action("NoAction")
    )
    await sw.insert([by_name])
    SEEN["strings"] = same(sw, by_name, await read(sw, fy.P4TableEntry("by_hop")))


async def groups(sw: Any) -> None:
    members = [
        fy.P4ActionProfileMember("sel", member_id=i, action=fy.Action("fwd", port=i))
        for i in (2, 3)
    ]
    await sw.insert(members)
    group = fy.P4ActionProfileGroup(
        "sel",
        group_id=1,
        max_size=8,
        members=[fy.P4Member(2, weight=1), fy.P4Member(3, weight=(2, 3))],
    )
    await sw.insert([group])
    entry = fy.P4TableEntry(
        "ecmp", match=fy.Match({"h.eth.type": "0x7700/8"}), action=fy.P4IndirectAction(group_id=1)
    )
    await sw.insert([entry])
    SEEN["group"] = same(sw, group, await read(sw, fy.P4ActionProfileGroup("sel")))
    SEEN["ecmp"] = same(sw, entry, await read(sw, fy.P4TableEntry("ecmp")))
    try:
        await sw.delete([group])
    except fy.P4ClientError as error:
        SEEN["in use"] = error.details[0].canonical_code.name
    await sw.delete([entry])
    await sw.delete([group])
    await sw.delete(members)
    shot = fy.P4TableEntry(
        "ecmp",
        match=fy.Match({"h.eth.type": "0x7700/8"}),
        action=fy.P4IndirectAction(
            action_set=[
                1 * fy.Action("fwd", port=2),
                2 * fy.Action("fwd", port=3),
            ]
        ),
    )
    await sw.insert([shot])
    SEEN["one shot"] = same(sw, shot, await read(sw, fy.P4TableEntry("ecmp")))
    await sw.delete([shot])


async def replication(sw: Any) -> None:
    group = fy.P4MulticastGroupEntry(7, replicas=[(2, 1), (3, 1)])
    session = fy.P4CloneSessionEntry(5, replicas=[4], packet_length_bytes=64, class_of_service=1)
    await sw.insert([group, session])
    SEEN["multicast"] = same(sw, group, await read(sw, fy.P4MulticastGroupEntry()))
    SEEN["clone"] = same(sw, session, await read(sw, fy.P4CloneSessionEntry()))
    await sw.delete([group, session])


async def arrays(sw: Any) -> None:
    await sw.write(
        [
            fy.P4RegisterEntry("last", index=4, data=0x1234),
            fy.P4RegisterEntry("level", index=1, data=-3),
            fy.P4CounterEntry("seen", index=9, data=fy.P4CounterData(packet_count=5, byte_count=6)),
            fy.P4MeterEntry(
                "police", index=1, config=fy.P4MeterConfig(cir=1, cburst=2, pir=3, pburst=4)
            ),
            fy.P4ValueSetEntry("types", members=[P4ValueSetMember(0x9ABC)]),
        ]
    )
    (register,) = await read(sw, fy.P4RegisterEntry("last", index=4))
    (level,) = await read(sw, fy.P4RegisterEntry("level", index=1))
    (counter,) = await read(sw, fy.P4CounterEntry("seen", index=9))
    (meter,) = await read(sw, fy.P4MeterEntry("police", index=1))
    SEEN["arrays"] = [register.data, level.data, counter.data.packet_count, meter.config.pir]
    SEEN["all counters"] = len(await read(sw, fy.P4CounterEntry("seen")))
    values = await read(sw, fy.P4ValueSetEntry("types", members=[]))
    SEEN["value set"] = len(values[0].members)


async def packets(sw: Any) -> None:
    await sw.insert(
        [fy.P4TableEntry("l2", match=fy.Match({"h.eth.dst": 11}), action=fy.Action("to_cpu"))]
    )
    arrived = sw.read_packets()
    waiting = asyncio.ensure_future(first(arrived))
    await asyncio.sleep(0)
    ask(f"send 3 {frame(11, 1).hex()}")
    packet = await waiting
    SEEN["packet in"] = [packet["ingress_port"], packet.payload == frame(11, 1)]
    await sw.write([fy.P4PacketOut(frame(1, 1), egress_port=4, _pad=0)])
    ask("out")


async def digests(sw: Any) -> None:
    await sw.insert([fy.P4DigestEntry("learn_t", max_list_size=1, ack_timeout_ns=10**9)])
    lists = sw.read_digests("learn_t")
    waiting = asyncio.ensure_future(first(lists))
    await asyncio.sleep(0)
    ask(f"send 2 {frame(1, 0x55).hex()}")
    digest = await waiting
    SEEN["digest"] = [dict(item) for item in digest]
    await sw.write([digest.ack()])


async def idle(sw: Any) -> None:
    entry = fy.P4TableEntry(
        "smac",
        match=fy.Match({"h.eth.src": 5}),
        action=fy.Action("NoAction"),
        idle_timeout_ns=10**9,
        metadata=b"who",
    )
    await sw.insert([entry])
    waiting = asyncio.ensure_future(first(sw.read_idle_timeouts()))
    await asyncio.sleep(0)
    ask("wait")
    notice = await waiting
    SEEN["idle"] = [[item.metadata.decode(), item.table_id] for item in notice.table_entry]


async def ready(sw: Any) -> None:
    SEEN["primary"] = sw.is_primary
    SEEN["version"] = str(sw.p4runtime_version)
    await sw.delete_all()
    for part in (tables, groups, replication, arrays, packets, digests, idle):
        await part(sw)
    await sw.delete_all()
    SEEN["left"] = len(await read(sw, [fy.P4TableEntry("l2"), fy.P4TableEntry("route")]))


async def main() -> None:
    address, info, program = sys.argv[1:4]
    options = fy.SwitchOptions(p4info=Path(info), p4blob=Path(program))
    async with fy.Switch("s1", address, options) as sw:
        await ready(sw)
    print(json.dumps(SEEN), flush=True)


fy.run(main())
