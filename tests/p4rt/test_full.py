"""Everything that P4Runtime controls, on the real engine: what packets then do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from p4.v1 import p4runtime_pb2 as pb

from softswitch.engine.types import Digest, IdleTimeout, PacketIn
from softswitch.p4rt.status import Code, P4RTError
from tests.p4rt.client import DELETE, INSERT, MODIFY
from tests.p4rt.real import Names, Real, frame, octets

_SET = pb.SetForwardingPipelineConfigRequest
_ATOMIC = (pb.WriteRequest.ROLLBACK_ON_ERROR, pb.WriteRequest.DATAPLANE_ATOMIC)


@pytest.fixture
def real() -> Iterator[Real]:
    out = Real()
    yield out
    out.close()


def l2(names: Names, dst: int, action: str = "fwd", **params: Any) -> Any:
    return names.entry("l2", [dst], names.action(action, **(params or {"port": 2})))


def test_entries_with_their_counters(real: Real) -> None:
    n = real.names
    entry = l2(n, 2, port=3)
    entry.counter_data.packet_count = 10
    entry.counter_data.byte_count = 1000
    assert real.code(INSERT, entry) == Code.OK
    assert real.ports_of(1, frame()) == [3]
    query = pb.TableEntry(table_id=entry.table_id, counter_data=pb.CounterData())
    (found,) = real.read(query)
    assert (found.counter_data.packet_count, found.counter_data.byte_count) == (11, 1060)
    direct = pb.DirectCounterEntry()
    direct.table_entry.CopyFrom(n.entry("l2", [2]))
    assert real.read(direct)[0].data == found.counter_data
    direct.data.packet_count = 5
    assert real.code(MODIFY, direct) == Code.OK
    assert real.read(direct)[0].data == pb.CounterData(packet_count=5)
    direct.data.byte_count = -1
    assert real.code(MODIFY, direct) == Code.INVALID_ARGUMENT
    # MODIFY without counter_data leaves the count, without an action the action.
    assert real.code(MODIFY, n.entry("l2", [2], metadata=b"x")) == Code.OK
    (found,) = real.read(query)
    assert (found.metadata, found.counter_data.packet_count) == (b"x", 5)
    assert real.ports_of(1, frame()) == [3]


def test_default_entry_counts_and_resets(real: Real) -> None:
    n = real.names
    default = n.entry("l2", (), n.action("fwd", port=4), is_default_action=True, metadata=b"m")
    assert real.code(MODIFY, default) == Code.OK
    assert real.ports_of(1, frame()) == [4]
    query = n.entry("l2", is_default_action=True)
    query.counter_data.SetInParent()
    (found,) = real.read(query)
    assert (found.metadata, found.counter_data.packet_count) == (b"m", 1)
    assert real.code(MODIFY, n.entry("l2", is_default_action=True)) == Code.OK
    (found,) = real.read(query)
    assert (found.metadata, found.counter_data.packet_count) == (b"", 0)
    assert found.action.action.action_id == n.ids["refuse"]
    assert real.ports_of(1, frame()) == []
    for kind in (INSERT, DELETE):
        assert real.code(kind, default) == Code.INVALID_ARGUMENT
    table_only = n.entry("l2", (), n.action("drop"), is_default_action=True)
    assert real.code(MODIFY, table_only) == Code.PERMISSION_DENIED
    assert real.code(INSERT, l2(n, 7, "refuse")) == Code.PERMISSION_DENIED
    for table in ("acl", "ecmp"):
        name = "set_class" if table == "acl" else "NoAction"
        action = n.action(name, **({"class": 1} if table == "acl" else {}))
        fixed = n.entry(table, (), action, is_default_action=True)
        assert real.code(MODIFY, fixed) == Code.PERMISSION_DENIED
        assert real.code(MODIFY, n.entry(table, is_default_action=True)) == Code.PERMISSION_DENIED


def test_direct_meter(real: Real) -> None:
    n = real.names
    config = pb.MeterConfig(cir=1, cburst=60, pir=2, pburst=120)
    entry = n.entry("route", [(0, 8)], n.action("metered", port=3), meter_config=config)
    assert real.code(INSERT, entry) == Code.OK
    query = n.entry("route", [(0, 8)], meter_config=pb.MeterConfig())
    assert real.read(query)[0].meter_config == config
    colours = []
    for _ in range(4):
        assert real.ports_of(1, frame()) == [3]
        colours.append(real.engine.register_read("I.last", 3))
    assert colours[0] == 0
    assert colours[-1] == 2
    direct = pb.DirectMeterEntry()
    direct.table_entry.CopyFrom(n.entry("route", [(0, 8)]))
    assert real.read(pb.Entity(direct_meter_entry=direct))[0].config == config
    assert real.code(MODIFY, pb.Entity(direct_meter_entry=direct)) == Code.OK
    assert not real.read(query)[0].HasField("meter_config")
    real.send(1, frame())
    assert real.engine.register_read("I.last", 3) == 0
    assert real.code(MODIFY, entry) == Code.OK
    # MODIFY without meter_config makes the meter green again.
    entry.ClearField("meter_config")
    assert real.code(MODIFY, entry) == Code.OK
    assert not real.read(query)[0].HasField("meter_config")
    for bad, code in (
        (pb.MeterConfig(cir=3, cburst=1, pir=2, pburst=1), Code.INVALID_ARGUMENT),
        (pb.MeterConfig(cir=-3), Code.INVALID_ARGUMENT),
        (pb.MeterConfig(cir=1, cburst=1, pir=2, pburst=1, eburst=4), Code.INVALID_ARGUMENT),
    ):
        other = n.entry("route", [(1 << 40, 8)], n.action("drop"), meter_config=bad)
        assert real.code(INSERT, other) == code
    coloured = n.entry("route", [(0, 8)], meter_counter_data=pb.MeterCounterData())
    assert real.code(MODIFY, coloured) == Code.UNIMPLEMENTED
    assert len(real.read(n.entry("route"))) == 1


def test_const_and_preset_entries(real: Real) -> None:
    n = real.names
    fixed = real.read(n.entry("fixed"))
    assert [(item.priority, item.is_const) for item in fixed] == [(2, True), (1, True)]
    assert fixed[0].match[0].ternary.mask == b"\xff\xff"
    first = pb.TableEntry(table_id=fixed[0].table_id, match=fixed[0].match, priority=2)
    assert real.code(DELETE, first) == Code.PERMISSION_DENIED
    assert real.code(MODIFY, first) == Code.OK  # nothing to modify: no direct resource
    changed = n.entry("fixed", [(0x0800, 0xFFFF)], n.action("set_class", **{"class": 1}), 2)
    assert real.code(MODIFY, changed) == Code.PERMISSION_DENIED
    assert real.code(INSERT, changed) == Code.PERMISSION_DENIED
    assert real.code(MODIFY, fixed[0]) == Code.INVALID_ARGUMENT  # is_const is the server's
    # `entries` without const: a beginning that clients may change.
    preset = real.read(n.entry("preset"))
    assert [item.is_const for item in preset] == [False, False]

    def class_of(kind: int) -> int:
        real.send(1, frame(kind=kind))
        return real.engine.register_read("I.last", 2)

    assert class_of(0x1111) == 7
    modified = n.entry("preset", [0x1111], n.action("set_class", **{"class": 8}))
    assert real.code(MODIFY, modified) == Code.OK
    assert real.code(DELETE, n.entry("preset", [0x2222])) == Code.OK
    added = n.entry("preset", [0x3333], n.action("set_class", **{"class": 9}))
    assert real.code(INSERT, added) == Code.OK
    assert [class_of(kind) for kind in (0x1111, 0x2222, 0x3333)] == [8, 0, 9]
    # Kept by RECONCILE_AND_COMMIT, back to the program's by VERIFY_AND_COMMIT.
    config = pb.ForwardingPipelineConfig(p4info=real.info, p4_device_config=real.json + b" ")
    real.set_config(_SET.RECONCILE_AND_COMMIT, config=config)
    assert sorted(item.match[0].exact.value for item in real.read(n.entry("preset"))) == [
        b"\x11\x11",
        b"\x33\x33",
    ]
    assert [class_of(kind) for kind in (0x1111, 0x2222, 0x3333)] == [8, 0, 9]
    real.set_config(_SET.VERIFY_AND_COMMIT)
    assert [class_of(kind) for kind in (0x1111, 0x2222, 0x3333)] == [7, 0, 0]


def test_one_shot_groups_with_watch_ports(real: Real) -> None:
    n = real.names
    action = pb.TableAction()
    for port, weight in ((2, 1), (3, 2)):
        action.action_profile_action_set.action_profile_actions.add(
            action=n.action("fwd", port=port), weight=weight, watch_port=octets(port)
        )
    entry = n.entry("ecmp", [(0x8800, 8)], action)
    assert real.code(INSERT, entry) == Code.OK
    assert real.read(n.entry("ecmp")) == [entry]
    seen = {real.ports_of(1, frame(src=src))[0] for src in range(40)}
    assert seen == {2, 3}
    real.engine.set_port_up(3, False, real.now)
    assert {real.ports_of(1, frame(src=src))[0] for src in range(40)} == {2}
    real.engine.set_port_up(3, True, real.now)
    # The other style of programming is refused while one-shots exist, and may follow them.
    member = pb.ActionProfileMember(
        action_profile_id=n.ids["sel"], member_id=1, action=n.action("fwd", port=2)
    )
    assert real.code(INSERT, member) == Code.INVALID_ARGUMENT
    heavy = pb.TableEntry()
    heavy.CopyFrom(entry)
    heavy.action.action_profile_action_set.action_profile_actions[0].weight = 7
    assert real.code(MODIFY, heavy) == Code.INVALID_ARGUMENT  # 7 + 2 > max_group_size
    assert real.read(n.entry("ecmp")) == [entry]
    assert real.code(DELETE, n.entry("ecmp", [(0x8800, 8)])) == Code.OK
    assert real.code(INSERT, member) == Code.OK
    assert real.engine.groups("I.sel") == []


def test_value_sets_of_one_and_two_fields(real: Real) -> None:
    n = real.names
    types = pb.ValueSetEntry(value_set_id=n.ids["types"])
    types.members.add().match.add(field_id=1).exact.value = b"\x9a\xbc"
    pairs = pb.ValueSetEntry(value_set_id=n.ids["pairs"])
    member = pairs.members.add()
    masked = member.match.add(field_id=1).ternary
    masked.value, masked.mask = b"\x02", b"\xff"
    member.match.add(field_id=2).exact.value = b"\x03"

    def seen() -> int:
        real.send(1, frame(kind=0x9ABC, body=b"\x01\x02\x03\x00"))
        return real.engine.register_read("I.last", 1)

    assert seen() == 0
    real.write((MODIFY, types))
    assert seen() == 1
    real.write((MODIFY, pairs))
    assert seen() == 2
    assert real.read(pb.ValueSetEntry()) == [types, pairs]
    pairs.members.append(member)
    assert real.code(MODIFY, pairs) == Code.ALREADY_EXISTS
    assert seen() == 2
    pairs.members[1].match[0].ternary.mask = b"\xff\xff"
    del pairs.members[0]
    real.write((MODIFY, pairs))
    assert seen() == 1  # all 16 bits count now
    del pairs.members[:]
    real.write((MODIFY, pairs))
    assert seen() == 1
    assert real.code(INSERT, pairs) == Code.INVALID_ARGUMENT


def test_digests(real: Real) -> None:
    n = real.names
    digests = real.device.active.pipeline.digests  # type: ignore[union-attr]
    config = pb.DigestEntry(digest_id=n.ids["learn_t"])
    config.config.max_list_size = 2
    config.config.max_timeout_ns = 1000
    config.config.ack_timeout_ns = 10**6

    assert digests.hold_ns() == 0

    def learn(src: int, now: int) -> list[Any]:
        real.send(3, frame(src=src))
        for event in real.engine.events():
            if isinstance(event, Digest):
                digests.add(event.name, event.values, now)
        out = []
        for data in digests.due(now, 77):
            out.append(pb.StreamMessageResponse.FromString(data).digest)
        return out

    assert real.code(MODIFY, config) == Code.NOT_FOUND
    assert learn(1, 0) == []
    assert real.code(INSERT, config) == Code.OK
    assert real.code(INSERT, config) == Code.ALREADY_EXISTS
    assert real.read(pb.DigestEntry()) == [config]
    assert digests.hold_ns() == 10**6
    real.engine.digest_hold(0)  # the engine's clock is not ours here
    assert learn(1, 0) == []
    assert digests.next_deadline() == 1000
    assert learn(1, 10) == []  # a duplicate
    (full,) = learn(2, 20)
    assert (full.digest_id, full.list_id, full.timestamp) == (n.ids["learn_t"], 1, 77)
    values = [[m.bitstring for m in item.struct.members] for item in full.data]
    assert values == [[b"\x01", b"\x03", b"\x88\xb5"], [b"\x02", b"\x03", b"\x88\xb5"]]
    assert learn(1, 30) == []  # not acknowledged yet
    assert digests.next_deadline() is None
    digests.ack(full.digest_id, 99)
    assert learn(1, 40) == []
    digests.ack(full.digest_id, full.list_id)
    assert learn(1, 50) == []
    (late,) = learn(1, 1050)  # the buffered one is old enough
    assert len(late.data) == 1
    assert learn(1, 1051) == []
    assert learn(1, 1051 + 10**6) == []  # forgotten, so it counts as new
    assert digests.next_deadline() == 2051 + 10**6
    with pytest.raises(P4RTError) as caught:
        digests.ack(5, 1)
    assert caught.value.code == Code.INVALID_ARGUMENT
    config.config.max_timeout_ns = 0
    assert real.code(MODIFY, config) == Code.OK
    assert len(learn(9, 10**7)[0].data) == 2
    config.config.ack_timeout_ns = -1
    assert real.code(MODIFY, config) == Code.INVALID_ARGUMENT
    assert real.code(DELETE, pb.DigestEntry(digest_id=n.ids["learn_t"])) == Code.OK
    assert real.read(pb.DigestEntry()) == []
    assert learn(10, 10**8) == []


def test_idle_time_out(real: Real) -> None:
    n = real.names
    second = 10**9
    ttl = n.entry("smac", [5], n.action("NoAction"), idle_timeout_ns=3 * second, metadata=b"who")
    forever = n.entry("smac", [6], n.action("NoAction"))
    real.write((INSERT, ttl), (INSERT, forever))
    pipeline = real.device.active.pipeline  # type: ignore[union-attr]

    def idle(until: int) -> list[Any]:
        real.now = until
        real.engine.on_deadline(until)
        events = [item for item in real.engine.events() if isinstance(item, IdleTimeout)]
        return [pb.TableEntry.FromString(item) for item in pipeline.idle_entries(events)]

    assert idle(second) == []
    real.send(1, frame(src=5))
    assert idle(3 * second) == []
    assert idle(6 * second) == [ttl]
    query = n.entry("smac", [5])
    query.time_since_last_hit.SetInParent()
    (found,) = real.read(query)
    assert found.HasField("time_since_last_hit")
    assert found.idle_timeout_ns == 3 * second
    (other,) = real.read(n.entry("smac", [6]))
    assert not other.HasField("time_since_last_hit")
    bad = n.entry("l2", [6], n.action("drop"), idle_timeout_ns=1)
    assert real.code(INSERT, bad) == Code.INVALID_ARGUMENT
    query.table_id = n.ids["l2"]
    wildcard = pb.TableEntry(time_since_last_hit=pb.TableEntry.IdleTimeout())
    assert len(real.read(wildcard)) == 2 + 2 + 2  # smac, fixed, preset
    assert real.code(MODIFY, n.entry("smac", [5])) == Code.OK
    assert idle(60 * second) == []


def test_multicast_clones_and_packet_io(real: Real) -> None:
    n = real.names
    group = pb.PacketReplicationEngineEntry()
    group.multicast_group_entry.multicast_group_id = 7
    group.multicast_group_entry.metadata = b"all"
    for port in (2, 3):
        group.multicast_group_entry.replicas.add(port=octets(port), instance=port)
    session = pb.PacketReplicationEngineEntry()
    session.clone_session_entry.session_id = 5
    session.clone_session_entry.class_of_service = 1
    session.clone_session_entry.packet_length_bytes = 20
    session.clone_session_entry.replicas.add(egress_port=4, instance=1)
    real.write(
        (INSERT, group),
        (INSERT, session),
        (INSERT, l2(n, 9, "flood", group=7)),
        (INSERT, l2(n, 10, "mirror", port=3, session=5)),
        (INSERT, l2(n, 11, "to_cpu")),
    )
    assert real.ports_of(1, frame(9)) == [2, 3]
    sent = real.send(1, frame(10))
    assert [(port, len(data)) for port, data in sent] == [(3, 60), (4, 20)]
    assert real.read(pb.PacketReplicationEngineEntry()) == [group, session]
    session.clone_session_entry.class_of_service = 2
    assert real.code(MODIFY, session) == Code.INVALID_ARGUMENT
    group.multicast_group_entry.replicas.add(port=b"\0\2", instance=2)
    assert real.code(MODIFY, group) == Code.INVALID_ARGUMENT
    assert real.ports_of(1, frame(9)) == [2, 3]
    for entity in (group, session):
        assert real.code(DELETE, entity) == Code.OK
        assert real.code(DELETE, entity) == Code.NOT_FOUND
    assert real.ports_of(1, frame(9)) == []
    assert real.ports_of(1, frame(10)) == [3]
    pipeline = real.device.active.pipeline  # type: ignore[union-attr]
    real.send(3, frame(11))
    (event,) = [item for item in real.engine.events() if isinstance(item, PacketIn)]
    metadata, payload = pipeline.packet_in.unpack(event.frame)
    assert (metadata, payload) == ([(1, b"\x03"), (2, b"\0")], frame(11))
    real.engine.packet_out(pipeline.packet_out.pack({1: b"\4"}, frame(1)), real.now)
    assert real.engine.frames_to_send(real.now + 1000) == [(4, frame(1))]


def test_translated_types(real: Real) -> None:
    n = real.names
    by_port = n.entry("translated", [3], n.action("hop", id=b"router-a", port=2))
    by_hop = n.entry("by_hop", [b"router-a"], n.action("set_class", **{"class": 5}))
    real.write((INSERT, by_port), (INSERT, by_hop))
    assert real.read(n.entry("translated")) == [by_port]
    assert real.read(n.entry("by_hop")) == [by_hop]
    real.send(3, frame())
    assert real.engine.register_read("I.last", 2) == 5
    real.send(2, frame())
    assert real.engine.register_read("I.last", 2) == 0
    other = n.entry("by_hop", [b"router-b"], n.action("set_class", **{"class": 6}))
    assert real.code(INSERT, other) == Code.OK
    too_wide = n.entry("translated", [0xFFFFFFFD], n.action("hop", id=b"x", port=2))
    assert real.code(INSERT, too_wide) == Code.INVALID_ARGUMENT
    assert real.code(INSERT, n.entry("by_hop", [b""], n.action("NoAction"))) == (
        Code.INVALID_ARGUMENT
    )
    assert real.code(DELETE, by_hop) == Code.OK
    assert real.read(n.entry("by_hop")) == [other]


def test_registers_of_three_types(real: Real) -> None:
    n = real.names
    real.send(3, frame())
    level = pb.RegisterEntry(register_id=n.ids["level"], index=pb.Index(index=0))
    (found,) = real.read(level)
    assert found.data.bitstring == b"\xfe"
    level.data.bitstring = b"\x80\x00"
    assert real.code(MODIFY, level) == Code.OK
    level.data.bitstring = b"\x00\x80\x00"
    assert real.code(MODIFY, level) == Code.INVALID_ARGUMENT
    assert real.engine.register_read("I.level", 0) == 0x8000
    whole = pb.RegisterEntry(register_id=n.ids["last"])
    whole.data.bitstring = b"\x01\x02"
    assert real.code(MODIFY, whole) == Code.OK
    assert real.engine.register_read_all("I.last") == [0x102] * 8


@pytest.mark.parametrize("atomicity", _ATOMIC)
def test_a_batch_with_an_error_changes_nothing(real: Real, atomicity: int) -> None:
    n = real.names
    kept = l2(n, 2, port=3)
    kept.counter_data.packet_count = 4
    metered = n.entry(
        "route",
        [(1 << 40, 8)],
        n.action("metered", port=4),
        meter_config=pb.MeterConfig(cir=9, pir=9),
    )
    real.write((INSERT, kept), (INSERT, metered))
    before = real.read(pb.TableEntry(counter_data=pb.CounterData(), meter_config=pb.MeterConfig()))
    bad = n.entry("l2", [2], n.action("fwd", port=1))
    zero = pb.TableEntry()
    zero.CopyFrom(kept)
    zero.counter_data.packet_count = 0
    codes = real.codes(
        (DELETE, l2(n, 2)),
        (INSERT, l2(n, 2, port=1)),
        (MODIFY, zero),
        (MODIFY, n.entry("route", [(1 << 40, 8)], n.action("drop"))),
        (MODIFY, n.entry("l2", (), n.action("fwd", port=4), is_default_action=True)),
        (INSERT, bad),
        (INSERT, l2(n, 3)),
        atomicity=atomicity,
    )
    assert codes == [Code.ABORTED] * 5 + [Code.ALREADY_EXISTS, Code.ABORTED]
    after = real.read(pb.TableEntry(counter_data=pb.CounterData(), meter_config=pb.MeterConfig()))
    assert sorted(map(str, before)) == sorted(map(str, after))
    assert real.ports_of(1, frame()) == [3]
    assert real.ports_of(1, frame(3)) == []
    assert real.codes((DELETE, l2(n, 2)), (INSERT, l2(n, 3)), atomicity=atomicity) == [Code.OK] * 2
    assert real.ports_of(1, frame()) == []
    assert real.ports_of(1, frame(3)) == [2]


def test_no_packet_sees_part_of_an_atomic_batch(real: Real) -> None:
    """The data path waits while the batch is carried out; its lock is the engine's."""
    import threading

    n = real.names
    real.write((INSERT, l2(n, 2)))
    entered = threading.Event()
    result: list[bool] = []
    original = real.engine.table_delete

    def slow(table: str, handle: int) -> None:
        original(table, handle)
        thread.start()
        entered.wait(0.2)  # the other thread cannot get in: this always runs out
        result.append(entered.is_set())

    def packet() -> None:
        real.engine._lib.mrc_wake_waiters(real.engine._sw)  # takes the data path's lock
        entered.set()

    thread = threading.Thread(target=packet)
    real.engine.table_delete = slow  # type: ignore[method-assign]
    real.write((DELETE, l2(n, 2)), atomicity=pb.WriteRequest.DATAPLANE_ATOMIC)
    thread.join(30)
    assert (result, entered.is_set()) == ([False], True)


def test_reading_what_is_selected(real: Real) -> None:
    n = real.names
    rows = [
        n.entry("acl", [(1, 0xFF), None, None], n.action("drop"), priority=p, metadata=m)
        for p, m in ((1, b"a"), (2, b"b"), (3, b"a"))
    ]
    real.write(*[(INSERT, row) for row in rows])
    both = n.entry("acl", [(1, 0xFF), None, None])
    assert real.read(both) == rows  # no priority: any
    both.priority = 2
    assert real.read(both) == [rows[1]]
    assert real.read(n.entry("acl", priority=3)) == [rows[2]]
    assert real.read(n.entry("acl", metadata=b"a")) == [rows[0], rows[2]]
    by_action = n.entry("acl", (), pb.Action(action_id=n.ids["set_class"]))
    assert real.read(by_action) == []
    everything = real.read(pb.TableEntry())
    assert len(everything) == 3 + 2 + 2
    defaults = real.read(pb.TableEntry(is_default_action=True))
    assert len(defaults) == len(n.tables)
    assert real.read(n.entry("l2", [77])) == []
    for bad in (
        pb.TableEntry(priority=1),
        pb.TableEntry(metadata=b"x"),
        n.entry("ecmp", (), pb.TableAction(action_profile_member_id=1)),
        n.entry("acl", (), pb.Action(action_id=n.ids["fwd"])),
        pb.TableEntry(table_id=1),
    ):
        with pytest.raises(Exception) as caught:
            real.read(bad)
        assert caught.value.errors[0].code == Code.INVALID_ARGUMENT  # type: ignore[attr-defined]
