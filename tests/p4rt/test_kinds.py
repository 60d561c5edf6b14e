"""P4Runtime as a client sees it, the same tests on our switch and on bmv2, as processes.

Where bmv2 differs is a table: `tests.switch_kinds.BMV2`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import text_format
from p4.v1 import p4runtime_pb2 as pb
from p4runtime_sh.p4runtime import P4RuntimeClient, P4RuntimeWriteException

from softswitch.p4rt.status import Code
from tests.p4rt.client import DELETE, INSERT, MODIFY, entry, exact, wrap, write_request
from tests.p4rt.kinds import KindClient, Verdict, code_of_call
from tests.p4rt.real import frame, octets
from tests.p4rt.stream import Channel
from tests.switch_kinds import BMV2, CPU_PORT, KINDS, ROOT, LiveSwitch

_SET = pb.SetForwardingPipelineConfigRequest
_GET = pb.GetForwardingPipelineConfigRequest
CPU = octets(CPU_PORT)


@pytest.fixture(scope="module", params=KINDS)
def switch(request: pytest.FixtureRequest, tmp_path_factory) -> Iterator[LiveSwitch]:
    """One process for the whole module; the program is pushed anew for each test."""
    live = LiveSwitch(request.param, tmp_path_factory.mktemp("kinds"))
    try:
        yield live.ready()
    finally:
        live.close()


@pytest.fixture
def client(switch: LiveSwitch) -> Iterator[KindClient]:
    """The primary; entities are those of the program."""
    out = KindClient(switch)
    yield out
    out.close()


def l2(client: KindClient, dst: int, port: int = 3, **fields: Any) -> Any:
    return client.names.entry("l2", [dst], client.names.action("fwd", port=port), **fields)


def test_table_entries_are_written_read_changed_and_deleted(client: KindClient) -> None:
    first = l2(client, 2)
    assert client.code(INSERT, first) == Code.OK
    assert client.send(frame(2)) == [Verdict(3)]
    assert client.read(client.names.entry("l2")) == [first]
    assert client.code(INSERT, first) == Code.ALREADY_EXISTS
    assert client.code(MODIFY, l2(client, 2, 4)) == Code.OK
    assert client.send(frame(2)) == [Verdict(4)]
    assert client.code(MODIFY, l2(client, 5)) == Code.NOT_FOUND
    assert client.code(DELETE, l2(client, 5)) == Code.NOT_FOUND
    assert client.code(DELETE, client.names.entry("l2", [2])) == Code.OK
    assert client.read(client.names.entry("l2")) == []
    assert client.send(frame(2)) == []


def test_every_update_of_a_batch_has_its_code(client: KindClient) -> None:
    good, unknown = l2(client, 2), entry(1, exact(1, b"\1"))
    assert client.codes(
        (INSERT, good), (INSERT, good), (DELETE, unknown), (INSERT, l2(client, 4))
    ) == [
        Code.OK,
        Code.ALREADY_EXISTS,
        client.expect("unknown table", Code.INVALID_ARGUMENT),
        Code.OK,
    ]
    assert len(client.read(client.names.entry("l2"))) == 2


def test_malformed_updates_are_refused(client: KindClient) -> None:
    n = client.names
    fwd = n.action("fwd", port=3)
    cases = {
        "value too wide": n.entry("l2", [1 << 48], fwd),
        "parameter too wide": n.entry("l2", [2], n.action("fwd", port=512)),
        "parameter missing": n.entry("l2", [2], n.action("fwd")),
        "empty value": n.entry("l2", [b""], fwd),
        "key missing": n.entry("l2", [], fwd),
        "action of another table": n.entry("l2", [2], n.action("set_class", **{"class": 1})),
        "no action": n.entry("l2", [2]),
        "priority in an exact table": n.entry("l2", [2], fwd, 7),
        "no priority in a ternary table": n.entry(
            "acl", [(1, 0xFF), None, None], n.action("NoAction")
        ),
        "bits past the prefix": n.entry("route", [(1, 8)], n.action("drop")),
        "bits past the mask": n.entry("acl", [(3, 1), None, None], n.action("NoAction"), 1),
        "range backwards": n.entry("acl", [None, (9, 3), None], n.action("NoAction"), 1),
        "full range": n.entry("acl", [None, (0, 0xFFFF), None], n.action("NoAction"), 1),
        "mask of zeros": n.entry("acl", [(0, 0), None, None], n.action("NoAction"), 1),
        "direct action for a profile": n.entry("ecmp", [5], fwd),
    }
    found = {what: client.code(INSERT, item) for what, item in cases.items()}
    assert found == {what: client.expect(what, Code.INVALID_ARGUMENT) for what in cases}
    assert client.code(pb.Update.UNSPECIFIED, l2(client, 2)) == client.expect(
        "update without a type", Code.INVALID_ARGUMENT
    )


def test_bytes_of_any_length_are_read_and_the_shortest_written(client: KindClient) -> None:
    n = client.names
    long = n.entry("l2", [b"\0" * 6 + b"\x02"], n.action("fwd", port=b"\0\0\3"))
    assert client.code(INSERT, long) == Code.OK
    assert client.read(n.entry("l2")) == [l2(client, 2)]


def test_ternary_range_and_optional(client: KindClient) -> None:
    n = client.names

    def acl(match: Any, mark: int, priority: int) -> Any:
        return n.entry("acl", match, n.action("set_class", **{"class": mark}), priority)

    rows = [
        acl([(1, 0xFF), None, None], 1, 10),
        acl([None, (0x9000, 0x9010), None], 2, 20),
        acl([None, None, 7], 3, 30),
    ]
    assert client.codes((INSERT, l2(client, 2)), *((INSERT, row) for row in rows)) == [Code.OK] * 4
    assert [v.mark for v in client.send(frame(2, 1))] == [1]
    assert [v.mark for v in client.send(frame(2, 1, 0x9010))] == [2]
    assert [v.mark for v in client.send(frame(2, 1, 0x9010), 7)] == [3]
    assert [v.mark for v in client.send(frame(2, 2, 0x9011))] == [0]
    assert sorted(map(str, client.read(n.entry("acl")))) == sorted(map(str, rows))
    wrong = acl([(1, 0xFF), None, None], 1, 11)
    assert client.code(DELETE, wrong) == Code.NOT_FOUND


def test_longest_prefix_and_a_full_table(client: KindClient) -> None:
    n = client.names
    wide = n.entry("route", [(0x020000000000, 8)], n.action("metered", port=2))
    narrow = n.entry("route", [(0x020100000000, 16)], n.action("metered", port=4))
    assert client.codes((INSERT, wide), (INSERT, narrow)) == [Code.OK] * 2
    assert client.send(frame(0x020100000009)) == [Verdict(4)]
    assert client.send(frame(0x020200000009)) == [Verdict(2)]
    more = [n.entry("route", [(i << 40, 8)], n.action("drop")) for i in (4, 5)]
    assert client.codes(*((INSERT, row) for row in more)) == [Code.OK] * 2
    last = n.entry("route", [(6 << 40, 8)], n.action("drop"))
    assert client.code(INSERT, last) == client.expect(
        "entry in a full table", Code.RESOURCE_EXHAUSTED
    )


def test_default_entries(client: KindClient) -> None:
    n = client.names
    default = n.entry("l2", (), n.action("fwd", port=4), is_default_action=True)
    assert client.code(MODIFY, default) == Code.OK
    assert client.send(frame(77)) == [Verdict(4)]
    (found,) = client.read(n.entry("l2", is_default_action=True))
    assert found.action == default.action
    assert client.code(INSERT, default) == Code.INVALID_ARGUMENT
    assert client.code(DELETE, default) == Code.INVALID_ARGUMENT
    assert client.code(MODIFY, n.entry("l2", is_default_action=True)) == Code.OK
    assert client.send(frame(77)) == []
    const = n.entry("fixed", (), n.action("NoAction"), is_default_action=True)
    assert client.code(MODIFY, const) == client.expect(
        "const default entry", Code.PERMISSION_DENIED
    )


def test_const_entries(client: KindClient) -> None:
    n = client.names
    (found,) = client.read(n.entry("fixed"))
    assert found.match[0].exact.value == b"\x08\0"
    assert found.is_const == client.expect("is_const of a const entry", True)
    other = n.entry("fixed", [0x0900], n.action("NoAction"))
    assert client.code(INSERT, other) == client.expect("insert into const", Code.PERMISSION_DENIED)
    assert client.code(INSERT, l2(client, 2)) == Code.OK
    assert [v.mark for v in client.send(frame(2, kind=0x0800))] == [1]


def test_counters(client: KindClient) -> None:
    n = client.names
    row = l2(client, 2)
    assert client.code(INSERT, row) == Code.OK
    client.send(frame(2), 5)
    client.send(frame(2), 5)
    query = n.entry("l2", [2], counter_data=pb.CounterData())
    (found,) = client.read(query)
    # A packet out counts with the header it came with.
    size = 2 * (60 + 2)
    assert (found.counter_data.packet_count, found.counter_data.byte_count) == (2, size)
    direct = pb.DirectCounterEntry()
    direct.table_entry.CopyFrom(n.entry("l2", [2]))
    assert client.read(direct)[0].data == found.counter_data
    direct.data.packet_count = 40
    assert client.code(MODIFY, direct) == Code.OK
    client.send(frame(2), 5)
    assert client.read(direct)[0].data.packet_count == 41
    cell = pb.CounterEntry(counter_id=n.ids["seen"], index=pb.Index(index=5))
    (seen,) = client.read(cell)
    assert seen.data.packet_count == 3
    assert len(client.read(pb.CounterEntry(counter_id=n.ids["seen"]))) == 8
    cell.data.packet_count = 7
    assert client.code(MODIFY, cell) == Code.OK
    assert client.read(cell)[0].data.packet_count == 7
    cell.index.index = 8
    assert client.code(MODIFY, cell) == client.expect("index past the end", Code.OUT_OF_RANGE)


def test_meters(client: KindClient) -> None:
    n = client.names
    config = pb.MeterConfig(cir=10, cburst=1, pir=20, pburst=2)
    cell = pb.MeterEntry(meter_id=n.ids["police"], index=pb.Index(index=2), config=config)
    assert client.code(MODIFY, cell) == Code.OK
    assert client.read(pb.MeterEntry(meter_id=n.ids["police"], index=pb.Index(index=2))) == [cell]
    row = n.entry("route", [(2 << 40, 8)], n.action("metered", port=3), meter_config=config)
    assert client.code(INSERT, row) == Code.OK
    (found,) = client.read(n.entry("route", meter_config=pb.MeterConfig()))
    assert found.meter_config == config
    bad = pb.MeterEntry(
        meter_id=n.ids["police"],
        index=pb.Index(index=2),
        config=pb.MeterConfig(cir=9, cburst=1, pir=2, pburst=1),
    )
    assert client.code(MODIFY, bad) == client.expect("rates the wrong way", Code.INVALID_ARGUMENT)


def test_registers(client: KindClient) -> None:
    n = client.names
    client.send(frame(2), 6)
    cell = pb.RegisterEntry(register_id=n.ids["last"], index=pb.Index(index=1))
    supported = client.expect("registers")
    assert code_of_call(lambda: client.read(cell)) == supported
    cell.data.bitstring = b"\x12\x34"
    assert client.code(MODIFY, cell) == supported
    if supported == Code.OK:
        assert client.read(cell) == [cell]


def test_value_sets(client: KindClient) -> None:
    special = pb.ValueSetEntry(value_set_id=client.names.ids["special"])
    special.members.add().match.add(field_id=1).exact.value = b"\x9a\xbc"
    supported = client.expect("value sets")
    assert client.code(INSERT, l2(client, 2)) == Code.OK
    assert client.code(MODIFY, special) == supported
    marks = [v.mark for v in client.send(frame(2, kind=0x9ABC))]
    assert marks == ([99] if supported == Code.OK else [0])


def member(client: KindClient, number: int) -> Any:
    return pb.ActionProfileMember(
        action_profile_id=client.names.ids["sel"],
        member_id=number,
        action=client.names.action("fwd", port=number),
    )


def group(client: KindClient, number: int, *members: tuple[int, int]) -> Any:
    out = pb.ActionProfileGroup(
        action_profile_id=client.names.ids["sel"], group_id=number, max_size=8
    )
    for number_, weight in members:
        out.members.add(member_id=number_, weight=weight)
    return out


def test_members_and_groups(client: KindClient) -> None:
    n = client.names
    rows = [member(client, i) for i in (2, 3, 4)]
    assert client.codes(*((INSERT, row) for row in rows)) == [Code.OK] * 3
    assert client.code(INSERT, group(client, 1, (2, 1), (3, 2))) == Code.OK
    to_group = n.entry("ecmp", [0x7700], pb.TableAction(action_profile_group_id=1))
    to_member = n.entry("ecmp", [0x7701], pb.TableAction(action_profile_member_id=4))
    assert client.codes((INSERT, to_group), (INSERT, to_member)) == [Code.OK] * 2
    used = {v.port for i in range(30) for v in client.send(frame(2, i, 0x7700))}
    assert used == {2, 3}
    assert client.send(frame(2, kind=0x7701)) == [Verdict(4)]
    assert sorted(map(str, client.read(n.entry("ecmp")))) == sorted(map(str, [to_group, to_member]))
    assert client.read(pb.ActionProfileGroup()) == [group(client, 1, (2, 1), (3, 2))]
    assert client.read(member(client, 2)) == [rows[0]]
    assert client.code(INSERT, rows[0]) == Code.ALREADY_EXISTS
    assert client.code(DELETE, rows[2]) == client.expect(
        "delete a member in use", Code.FAILED_PRECONDITION
    )
    assert client.code(DELETE, group(client, 1)) == client.expect(
        "delete a group in use", Code.FAILED_PRECONDITION
    )
    absent = group(client, 2, (9, 1))
    assert client.code(INSERT, absent) == client.expect("group of no member", Code.NOT_FOUND)
    dangling = n.entry("ecmp", [0x7702], pb.TableAction(action_profile_group_id=77))
    assert client.code(INSERT, dangling) == client.expect("entry to no group", Code.NOT_FOUND)
    assert client.code(MODIFY, group(client, 1, (3, 1))) == Code.OK
    assert {v.port for i in range(30) for v in client.send(frame(2, i, 0x7700))} == {3}
    assert client.codes((DELETE, to_group), (DELETE, group(client, 1))) == [Code.OK] * 2


def test_one_shots(client: KindClient) -> None:
    n = client.names
    action = pb.TableAction()
    for port in (2, 3):
        action.action_profile_action_set.action_profile_actions.add(
            action=n.action("fwd", port=port), weight=1
        )
    row = n.entry("ecmp", [0x7700], action)
    assert client.code(INSERT, row) == Code.OK
    assert {v.port for i in range(30) for v in client.send(frame(2, i, 0x7700))} == {2, 3}
    assert client.read(n.entry("ecmp")) == [row]
    assert client.code(DELETE, row) == Code.OK


def multicast(number: int, *instances: int) -> Any:
    out = pb.PacketReplicationEngineEntry()
    out.multicast_group_entry.multicast_group_id = number
    for instance in instances:
        out.multicast_group_entry.replicas.add(egress_port=CPU_PORT, instance=instance)
    return out


def clones(number: int, length: int = 0) -> Any:
    out = pb.PacketReplicationEngineEntry()
    out.clone_session_entry.session_id = number
    out.clone_session_entry.packet_length_bytes = length
    out.clone_session_entry.replicas.add(egress_port=CPU_PORT, instance=9)
    return out


def test_multicast(client: KindClient) -> None:
    n = client.names
    flood = n.entry("l2", [5], n.action("flood", group=7))
    assert client.codes((INSERT, multicast(7, 1, 2)), (INSERT, flood)) == [Code.OK] * 2
    assert {v.instance for v in client.send(frame(5))} == {1, 2}
    (found,) = client.read(multicast(7))
    replicas = found.multicast_group_entry.replicas
    assert {r.instance for r in replicas} == {1, 2}
    assert {r.egress_port for r in replicas} == {CPU_PORT}
    assert client.code(INSERT, multicast(7, 1)) == Code.ALREADY_EXISTS
    assert client.code(MODIFY, multicast(7, 2, 3, 4)) == Code.OK
    assert {v.instance for v in client.send(frame(5))} == {2, 3, 4}
    assert client.code(INSERT, multicast(0, 1)) == Code.INVALID_ARGUMENT
    assert client.code(INSERT, multicast(8, 1, 1)) == client.expect(
        "replica twice", Code.INVALID_ARGUMENT
    )
    assert client.code(DELETE, multicast(7)) == Code.OK
    assert client.code(DELETE, multicast(7)) == Code.NOT_FOUND
    assert client.send(frame(5)) == []


def test_clones(client: KindClient) -> None:
    n = client.names
    row = n.entry("l2", [5], n.action("mirror", port=3, session=6))
    assert client.codes((INSERT, clones(6)), (INSERT, row)) == [Code.OK] * 2
    verdicts = client.send(frame(5))
    assert [v for v in verdicts if not v.clone] == [Verdict(3)]
    (cloned,) = [v for v in verdicts if v.clone]
    assert (cloned.instance, cloned.length) == (9, 60)
    assert client.read(clones(6)) == [clones(6)]
    assert client.code(INSERT, clones(6)) == Code.ALREADY_EXISTS
    assert client.code(DELETE, clones(6)) == Code.OK
    assert client.send(frame(5)) == [Verdict(3)]
    assert client.code(DELETE, clones(6)) == Code.NOT_FOUND
    supported = client.expect("clones cut short")
    assert client.code(INSERT, clones(6, 40)) == supported
    if supported == Code.OK:
        lengths = {v.clone: v.length for v in client.send(frame(5))}
        assert lengths == {False: 60, True: 34}  # the header of the packet in takes 6


def test_digests(client: KindClient) -> None:
    n = client.names
    config = pb.DigestEntry(digest_id=n.ids["learn_t"])
    config.config.max_list_size = 1
    config.config.ack_timeout_ns = 10**11
    learn = n.entry("smac", [5], n.action("learn"))
    assert client.codes((INSERT, config), (INSERT, learn)) == [Code.OK] * 2
    assert client.read(pb.DigestEntry(digest_id=config.digest_id)) == [config]
    client.send(frame(2, 5), 3)
    digest = client.message("digest")
    assert digest.digest_id == config.digest_id
    values = [[m.bitstring for m in item.struct.members] for item in digest.data]
    assert values == [[b"\5", b"\3"]]
    client.send(frame(2, 5), 3)  # known, and not acknowledged
    client.send(frame(2, 5), 4)
    second = client.message("digest")
    assert second.data[0].struct.members[1].bitstring == b"\4"
    client.stream.send(
        digest_ack=pb.DigestListAck(digest_id=digest.digest_id, list_id=digest.list_id)
    )
    assert client.code(DELETE, config) == Code.OK


def test_idle_entries_are_told(client: KindClient) -> None:
    n = client.names
    row = n.entry("smac", [5], n.action("NoAction"), idle_timeout_ns=10**7)
    assert client.code(INSERT, row) == Code.OK
    notice = client.message("idle_timeout_notification")
    (told,) = notice.table_entry
    assert (told.table_id, told.match) == (row.table_id, row.match)
    query = n.entry("smac", [5], time_since_last_hit=pb.TableEntry.IdleTimeout())
    (found,) = client.read(query)
    assert found.HasField("time_since_last_hit")
    assert client.code(DELETE, row) == Code.OK


def test_a_packet_out_that_is_malformed(client: KindClient) -> None:
    client.stream.send(packet=pb.PacketOut(payload=frame()))
    client.send(frame(99))
    told = [m.error.canonical_code for m in client.others if m.HasField("error")]
    assert told == client.expect("StreamError", [Code.INVALID_ARGUMENT])


def refusal(stream: Channel) -> grpc.StatusCode | None:
    """Why a stream was ended; None when it was not."""
    reply = stream.next()
    return reply if isinstance(reply, grpc.StatusCode) else None


def test_arbitration(client: KindClient) -> None:
    row = (INSERT, l2(client, 2))
    newer = Channel(client.stub)
    newer.arbitrate(client.election + 1)
    assert newer.status() == Code.OK
    assert client.stream.status() == Code.ALREADY_EXISTS
    assert client.codes(row) == [Code.PERMISSION_DENIED]
    assert client.codes(row, election=None) == [Code.PERMISSION_DENIED]
    client.stub.Write(write_request(row, election=client.election + 1))
    assert len(client.read(client.names.entry("l2"))) == 1  # a backup may read
    same = Channel(client.stub)
    same.arbitrate(client.election + 1)
    assert same.next() == grpc.StatusCode.INVALID_ARGUMENT
    newer.close()
    assert newer.next() == grpc.StatusCode.OK
    assert client.stream.status() == client.expect("the primary left", Code.NOT_FOUND)
    other = Channel(client.stub)
    other.arbitrate(1, device=77)
    expected = client.expect("stream of another device", grpc.StatusCode.NOT_FOUND)
    assert refusal(other) == expected
    other.close()


def test_roles(client: KindClient) -> None:
    with_role = Channel(client.stub)
    with_role.arbitrate(5, role=pb.Role(name="x"))
    assert refusal(with_role) == client.expect("unknown role", grpc.StatusCode.INVALID_ARGUMENT)
    with_role.close()


def test_pipeline_config(client: KindClient) -> None:
    get = _GET(device_id=1)
    config = client.stub.GetForwardingPipelineConfig(get).config
    assert config.p4info == client.info
    assert config.cookie.cookie == 7
    # bmv2 keeps what it needs of the JSON, ours the bytes it was given.
    assert (config.p4_device_config == client.json) == client.expect("device config read", True)
    get.response_type = _GET.COOKIE_ONLY
    config = client.stub.GetForwardingPipelineConfig(get).config
    assert (config.cookie.cookie, config.HasField("p4info")) == (7, False)
    assert client.code(INSERT, l2(client, 2)) == Code.OK
    assert client.push(_SET.VERIFY, 9) == Code.OK
    assert client.stub.GetForwardingPipelineConfig(get).config.cookie.cookie == 7
    assert len(client.read(client.names.entry("l2"))) == 1
    assert client.push(_SET.VERIFY_AND_SAVE, 10) == Code.OK
    commit = _SET(device_id=1, action=_SET.COMMIT)
    commit.election_id.low = client.election
    assert code_of_call(lambda: client.stub.SetForwardingPipelineConfig(commit)) == Code.OK
    assert client.stub.GetForwardingPipelineConfig(get).config.cookie.cookie == 10
    assert client.push(_SET.UNSPECIFIED) == client.expect(
        "config without an action", Code.INVALID_ARGUMENT
    )


def test_reconciling_keeps_entries(client: KindClient) -> None:
    row = l2(client, 2)
    assert client.code(INSERT, row) == Code.OK
    supported = client.expect("RECONCILE_AND_COMMIT")
    assert client.push(_SET.RECONCILE_AND_COMMIT, 9) == supported
    if supported == Code.OK:
        assert client.read(client.names.entry("l2")) == [row]
        assert client.send(frame(2)) == [Verdict(3)]


def test_bad_pipeline_configs_change_nothing(client: KindClient) -> None:
    assert client.code(INSERT, l2(client, 2)) == Code.OK
    request = _SET(device_id=1, action=_SET.VERIFY_AND_COMMIT)
    request.election_id.low = client.election
    request.config.p4info.CopyFrom(client.info)
    request.config.p4_device_config = b"{"
    code = code_of_call(lambda: client.stub.SetForwardingPipelineConfig(request))
    assert code == client.expect("bad JSON", Code.INVALID_ARGUMENT)
    assert client.send(frame(2)) == [Verdict(3)]


def test_atomicity(client: KindClient) -> None:
    batch = [(INSERT, l2(client, 2)), (INSERT, l2(client, 2))]
    for mode in (pb.WriteRequest.ROLLBACK_ON_ERROR, pb.WriteRequest.DATAPLANE_ATOMIC):
        assert client.codes(*batch, atomicity=mode) == client.expect(
            "atomic writes", [Code.ABORTED, Code.ALREADY_EXISTS]
        )
        assert client.read(client.names.entry("l2")) == []


def test_calls_for_nobody(client: KindClient) -> None:
    row = (INSERT, l2(client, 2))
    assert client.codes(row, device_id=9) == [
        client.expect("write to another device", Code.NOT_FOUND)
    ]
    assert client.codes(row, role="x") == [client.expect("write in a role", Code.NOT_FOUND)]
    read = pb.ReadRequest(device_id=9, entities=[wrap(pb.TableEntry())])
    assert code_of_call(lambda: client.stub.Read(read)) == client.expect(
        "read of another device", Code.NOT_FOUND
    )
    version = client.stub.Capabilities(pb.CapabilitiesRequest()).p4runtime_api_version
    assert version.startswith("1.")


def test_p4runtime_shells_client(client: KindClient, tmp_path: Path) -> None:
    info, program = tmp_path / "p4info.txtpb", tmp_path / "kinds.json"
    info.write_text(text_format.MessageToString(client.info))
    program.write_bytes(client.json)
    shell = P4RuntimeClient(1, client.switch.address, (0, client.election + 5))
    try:
        shell.set_fwd_pipe_config(str(info), str(program))
        update = pb.Update(type=INSERT, entity=wrap(l2(client, 2)))
        shell.write(pb.WriteRequest(device_id=1, updates=[update]))
        with pytest.raises(P4RuntimeWriteException) as caught:
            shell.write(pb.WriteRequest(device_id=1, updates=[update]))
        assert [e.canonical_code for _index, e in caught.value.errors] == [Code.ALREADY_EXISTS]
        assert shell.get_p4info() == client.info
    finally:
        shell.tear_down()


def test_every_difference_is_one_that_a_test_expects() -> None:
    users = ("p4rt/test_kinds.py", "p4rt/kinds.py", "p4rt/test_live.py", "p4src/test_live.py")
    text = "".join((ROOT / "tests" / name).read_text() for name in users)
    assert [what for what in BMV2 if f'"{what}"' not in text] == []
