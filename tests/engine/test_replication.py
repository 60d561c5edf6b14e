"""Selectors, copies, second rounds through the pipeline, CPU port, digests, registers."""

from __future__ import annotations

import zlib

import pytest

from softswitch.engine import (
    ActionCall,
    CloneSession,
    CounterValue,
    Digest,
    Engine,
    Exact,
    GroupMember,
    GroupRef,
    InUse,
    LogMessage,
    MemberRef,
    MeterRate,
    OutOfRange,
    PacketIn,
    PortConfig,
    Replica,
)
from tests.engine.programs import Build, Json, assign, const, fld, obj, op, prim

SM = "standard_metadata"


def started(program: Json, ports: int = 6, **more: object) -> Engine:
    engine = Engine(program, **more)  # type: ignore[arg-type]
    for p in range(1, ports + 1):
        engine.add_port(p)
    return engine


def send(engine: Engine, data: bytes, port: int = 1, now: int = 0) -> list[tuple[int, bytes]]:
    engine.receive(port, data, now)
    return engine.frames_to_send(now)


def selector_program() -> Json:
    b = Build()
    b.header("h", [("key", 8), ("a", 12), ("b", 20), ("pad", 8)])
    out = b.action(
        "out", [assign(SM, "egress_spec", {"type": "runtime_data", "value": 0})], [("p", 9)]
    )
    b.run("ingress", "lost", [assign(SM, "egress_spec", const(511))])
    b.table(
        "ingress", "t", [("exact", "h", "key")], [out], type="indirect_ws", action_profile="sel"
    )
    b.profiles.append(
        {
            "name": "sel",
            "id": 0,
            "max_size": 16,
            "selector": {"algo": "crc32", "input": [fld("h", "a"), fld("h", "b")]},
        }
    )
    return b.json()


def test_selector_takes_crc32_of_the_packed_fields() -> None:
    engine = started(selector_program())
    members = [engine.member_add("sel", ActionCall("out", (p,))) for p in (2, 3, 4)]
    group = engine.group_create("sel")
    watch = {2: 2, 3: 3, 4: 4}
    engine.group_set_members(
        "sel", group, [GroupMember(m, 1, watch[p]) for m, p in zip(members, (2, 3, 4), strict=True)]
    )
    engine.table_add("t", [Exact(0)], GroupRef(group))
    for alive in ([2, 3, 4], [2, 4], [4], []):
        for p in (2, 3, 4):
            engine.set_port_up(p, p in alive)
        for n in range(40):
            fields = (n * 0x1234567 & 0xFFFFFFFF).to_bytes(4, "big")
            got = [p for p, _ in send(engine, b"\0" + fields + b"\0")]
            want = [alive[zlib.crc32(fields) % len(alive)]] if alive else []
            assert got == want, (alive, n)


def test_members_by_weight_and_by_themselves() -> None:
    engine = started(selector_program())
    a = engine.member_add("sel", ActionCall("out", (2,)))
    b = engine.member_add("sel", ActionCall("out", (3,)))
    group = engine.group_create("sel", max_size=4)
    engine.group_set_members("sel", group, [GroupMember(b, 1), GroupMember(a, 3)])
    engine.table_add("t", [Exact(0)], GroupRef(group))
    engine.table_add("t", [Exact(1)], MemberRef(b))
    hits = [0, 0]
    for n in range(400):
        fields = (n * 0x9E3779B1 & 0xFFFFFFFF).to_bytes(4, "big")
        ((port, _),) = send(engine, b"\0" + fields + b"\0")
        assert port == [2, 2, 2, 3][zlib.crc32(fields) % 4], "in the order of member handles"
        hits[port - 2] += 1
    assert hits[0] > 2 * hits[1]
    assert [p for p, _ in send(engine, b"\1" + bytes(5))] == [3]
    with pytest.raises(InUse):
        engine.member_delete("sel", b)
    with pytest.raises(InUse):
        engine.group_delete("sel", group)
    assert engine.groups("sel")[0].members == (GroupMember(b, 1), GroupMember(a, 3))
    engine.member_modify("sel", b, ActionCall("out", (5,)))
    assert [p for p, _ in send(engine, b"\1" + bytes(5))] == [5]


def special(primitives: list[Json], egress: list[Json] | None = None, **extra: object) -> Build:
    """h: kind, then fields that egress fills in with what it sees."""
    b = Build()
    b.header("meta", [("kept", 8), ("lost", 8)], metadata=True)
    b.header("h", [("kind", 8), ("kept", 8), ("lost", 8), ("inst", 8), ("rid", 16), ("len", 16)])
    b.run(
        "ingress",
        "start",
        [
            assign(SM, "egress_spec", const(2)),
            assign("meta", "kept", op("+", fld("meta", "kept"), const(1))),
            assign("meta", "lost", const(9)),
            *primitives,
        ],
    )
    b.run(
        "egress",
        "stamp",
        [
            *(egress or []),
            assign("h", "kept", fld("meta", "kept")),
            assign("h", "lost", fld("meta", "lost")),
            assign("h", "inst", fld(SM, "instance_type")),
            assign("h", "rid", fld(SM, "egress_rid")),
            assign("h", "len", fld(SM, "packet_length")),
        ],
    )
    b.extra["field_lists"] = [
        {"id": 1, "name": "fl", "elements": [{"type": "field", "value": ["meta", "kept"]}]}
    ]
    b.extra.update(extra)
    return b


def seen(frame: bytes) -> tuple[int, ...]:
    """(kind, kept, lost, instance type, rid, length)"""
    return (*frame[:4], int.from_bytes(frame[4:6], "big"), int.from_bytes(frame[6:8], "big"))


def test_multicast() -> None:
    engine = started(special([assign(SM, "mcast_grp", const(5))]).json())
    assert send(engine, bytes(20)) == []
    assert engine.port_stats(1).drops["pipeline"] == 1
    engine.mc_group_set(5, [Replica(3, 7), Replica(4, 8), Replica(3, 9)])
    out = [(p, seen(f)) for p, f in send(engine, bytes(20))]
    assert sorted(out) == [
        (3, (0, 1, 9, 5, 7, 20)),
        (3, (0, 1, 9, 5, 9, 20)),
        (4, (0, 1, 9, 5, 8, 20)),
    ]
    engine.mc_group_delete(5)
    assert send(engine, bytes(20)) == []
    t = engine.totals()
    assert t.received + t.copies == t.sent + t.dropped


def test_ingress_clone_is_the_packet_as_it_came() -> None:
    clone = prim("clone_ingress_pkt_to_egress", const(3), const(1))
    engine = started(special([assign("h", "kind", const(0xAA)), clone]).json())
    engine.clone_session_set(CloneSession(3, (Replica(4, 1),), packet_length_bytes=15))
    out = dict(send(engine, bytes(30)))
    assert seen(out[2]) == (0xAA, 1, 9, 0, 0, 30)
    assert seen(out[4]) == (0, 1, 0, 1, 1, 30), "kept by the field list, not the rest"
    assert (len(out[2]), len(out[4])) == (30, 15)
    engine.clone_session_delete(3)
    assert [p for p, _ in send(engine, bytes(30))] == [2]


def test_egress_clone_goes_through_egress_again() -> None:
    once = [
        prim(
            "_jump_if_zero",
            op("b2d", None, op("==", fld(SM, "instance_type"), const(0))),
            const(2),
        ),
        prim("clone_egress_pkt_to_egress", const(0), const(1)),
    ]
    engine = started(special([], once).json())
    engine.clone_session_set(CloneSession(0, (Replica(5),)))
    out = {p: seen(f) for p, f in send(engine, bytes(10))}
    assert out == {2: (0, 1, 9, 0, 0, 10), 5: (0, 1, 0, 2, 0, 10)}


def test_clone_without_end_is_ended() -> None:
    always = [prim("clone_egress_pkt_to_egress", const(0), const(1))]
    engine = started(special([], always).json())
    engine.clone_session_set(CloneSession(0, (Replica(5),)))
    out = send(engine, bytes(10))
    assert 10 < len(out) < 5000
    t = engine.totals()
    assert t.received + t.copies == t.sent + t.dropped


def if_first(primitive: Json) -> list[Json]:
    """Only when meta.kept is 1: in the first round."""
    cond = op("b2d", None, op("==", fld("meta", "kept"), const(1)))
    return [prim("_jump_if_zero", cond, const(5)), primitive]


def test_resubmit() -> None:
    body = if_first(prim("resubmit", const(1)))
    engine = started(special(body).json())
    ((port, frame),) = send(engine, bytes(10))
    assert (port, seen(frame)) == (2, (0, 2, 9, 0, 0, 10))


def test_recirculate() -> None:
    cond = op("b2d", None, op("==", fld("meta", "kept"), const(1)))
    egress = [
        prim("_jump_if_zero", cond, const(3)),
        assign("h", "kind", const(0x77)),
        prim("recirculate", const(1)),
    ]
    engine = started(special([], egress).json())
    ((port, frame),) = send(engine, bytes(10))
    assert (port, seen(frame)) == (2, (0x77, 2, 9, 0, 0, 10))
    assert engine.port_stats(2).recirculated == 1


def test_endless_resubmission_is_ended() -> None:
    engine = started(special([prim("resubmit", const(1))]).json())
    assert send(engine, bytes(10)) == []
    assert engine.port_stats(1).drops["loop"] == 1


def test_cpu_port_both_ways() -> None:
    b = Build()
    b.header("h", [("to", 8), ("from", 8)])
    b.run(
        "ingress",
        "x",
        [
            assign(SM, "egress_spec", op("&", fld("h", "to"), const(0x1FF))),
            assign("h", "from", fld(SM, "ingress_port")),
        ],
    )
    engine = started(b.json(), cpu_port=100)
    assert send(engine, bytes([100, 0, 5])) == []
    assert engine.wait_events(0)
    assert engine.events() == [PacketIn(bytes([100, 1, 5]), 0)]
    engine.packet_out(bytes([3, 0, 6]), 10)
    assert engine.frames_to_send(10) == [(3, bytes([3, 100, 6]))]
    assert not engine.wait_events(0)
    assert engine.ports() == [1, 2, 3, 4, 5, 6]


def test_digest_and_log() -> None:
    b = Build()
    b.header("h", [("a", 48), ("b", 72), ("c", 8)])
    b.extra["learn_lists"] = [
        {
            "id": 1,
            "name": "learned",
            "elements": [{"type": "field", "value": ["h", f]} for f in ("a", "b", "c")],
        }
    ]
    text = 'a={} b={} 100% "\\"; {}'
    b.run(
        "ingress",
        "x",
        [
            prim("generate_digest", const(1), const(1)),
            prim(
                "log_msg",
                obj("string", text),
                {"type": "parameters_vector", "value": [fld("h", "a"), fld("h", "b")]},
            ),
        ],
    )
    engine = started(b.json())
    a, big, c = 0x020000000001, (1 << 72) - 2, 7
    send(engine, (a << 80 | big << 8 | c).to_bytes(16, "big"), now=5)
    log, digest = engine.events()
    assert digest == Digest(1, "learned", (a, big, c), 5)
    assert log == LogMessage(f'a={a} b={big} 100% "\\"; {{}}', 5)


def test_registers_counters_and_their_bounds() -> None:
    b = Build()
    b.header("h", [("i", 32), ("v", 100), ("pad", 4)])
    b.extra["register_arrays"] = [{"name": "r", "id": 0, "size": 4, "bitwidth": 100}]
    b.extra["counter_arrays"] = [{"name": "c", "id": 0, "size": 4, "is_direct": False}]
    b.run(
        "ingress",
        "x",
        [
            assign(SM, "egress_spec", const(2)),
            prim("count", obj("counter_array", "c"), fld("h", "i")),
            prim("register_write", obj("register_array", "r"), fld("h", "i"), fld("h", "v")),
            assign("h", "v", const(0)),
            prim("register_read", fld("h", "v"), obj("register_array", "r"), fld("h", "i")),
        ],
    )
    engine = started(b.json())
    value = (1 << 99) + 12345

    def packet(i: int) -> bytes:
        return (i << 104 | value << 4).to_bytes(17, "big")

    assert send(engine, packet(3)) == [(2, packet(3))]
    for bad in (4, 5, 0xFFFFFFFF):  # nothing is written, nothing is read
        ((_, frame),) = send(engine, packet(bad))
        assert frame[4:] == bytes(13)
    assert engine.register_read_all("r") == [0, 0, 0, value]
    assert engine.counter_read_all("c") == [CounterValue(0, 0)] * 3 + [CounterValue(1, 17)]
    engine.register_write("r", 0, 5)
    assert engine.register_read("r", 0) == 5
    engine.counter_write("c", 1, CounterValue(2, 3))
    assert engine.counter_read("c", 1) == CounterValue(2, 3)
    for call in (engine.register_read, engine.counter_read):
        with pytest.raises(OutOfRange):
            call("r" if call == engine.register_read else "c", 4)


def test_meter_colours() -> None:
    b = Build()
    b.header("h", [("colour", 8)])
    b.extra["meter_arrays"] = [
        {"name": "m", "id": 0, "size": 2, "rate_count": 2, "type": "packets", "is_direct": False}
    ]
    b.run(
        "ingress",
        "x",
        [
            assign(SM, "egress_spec", const(2)),
            prim("execute_meter", obj("meter_array", "m"), const(0), fld("h", "colour")),
        ],
    )
    engine = started(b.json())

    def colours(n: int, now: int) -> list[int]:
        return [send(engine, b"\xff", now=now)[0][1][0] for _ in range(n)]

    assert colours(3, 0) == [0, 0, 0], "not configured: green"
    engine.meter_set("m", 0, [MeterRate(1000, 2), MeterRate(2000, 4)])
    assert colours(6, 0) == [0, 0, 1, 1, 2, 2]
    assert colours(2, 1_000_000) == [0, 1], "a millisecond fills in one and two"
    assert engine.meter_get("m", 0) == (MeterRate(1000, 2), MeterRate(2000, 4))
    engine.meter_set("m", 0, None)
    assert colours(3, 1_000_000) == [0, 0, 0]


def test_truncate_and_new_program() -> None:
    engine = started(special([prim("truncate", const(12))]).json())
    ((_, frame),) = send(engine, bytes(100))
    assert (len(frame), seen(frame)[5]) == (12, 100)
    engine.set_port_config(2, PortConfig(tx_delay_ns=1000))
    engine.receive(1, bytes(100), 0)
    engine.load(special([]).json())
    assert engine.port_stats(2).drops["reload"] == 1
    assert engine.port_config(2) == PortConfig(tx_delay_ns=1000)
    engine.receive(1, bytes(100), 0)
    assert [len(f) for _, f in engine.frames_to_send(1000)] == [100]


def test_only_what_leaves_is_truncated() -> None:
    """As on bmv2: neither copies nor a second round lose what truncate() would cut off."""
    cut = prim("truncate", const(12))
    engine = started(special([cut, assign(SM, "mcast_grp", const(1))]).json())
    engine.mc_group_set(1, [Replica(3, 0), Replica(4, 1)])
    assert [len(f) for _, f in send(engine, bytes(100))] == [100, 100]

    first = op("b2d", None, op("==", fld("meta", "kept"), const(1)))
    again = [cut, prim("_jump_if_zero", first, const(3)), prim("recirculate", const(1))]
    ((_, frame),) = send(started(special([], again).json()), bytes(100))
    assert (len(frame), seen(frame)[5]) == (12, 100)

    normal = op("b2d", None, op("==", fld(SM, "instance_type"), const(0)))
    clone = prim("clone_egress_pkt_to_egress", const(3), const(1))
    engine = started(special([], [prim("_jump_if_zero", normal, const(3)), cut, clone]).json())
    engine.clone_session_set(CloneSession(3, (Replica(5),)))
    assert {p: len(f) for p, f in send(engine, bytes(100))} == {2: 12, 5: 100}
    engine.clone_session_set(CloneSession(3, (Replica(5),), packet_length_bytes=20))
    assert {p: len(f) for p, f in send(engine, bytes(100))} == {2: 12, 5: 20}
