"""The service over gRPC, with the client of p4runtime-shell and bare stubs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import any_pb2
from google.rpc import status_pb2
from p4.v1 import p4runtime_pb2 as pb
from p4.v1 import p4runtime_pb2_grpc
from p4runtime_sh.p4runtime import P4RuntimeClient, P4RuntimeWriteException

from softswitch.engine.types import Digest, IdleTimeout, Lpm, PacketIn
from softswitch.p4rt import Device, P4RuntimeServer, ServerError
from tests.p4rt import programs as p
from tests.p4rt.client import INSERT, MODIFY, entry, lpm, member, range_, wrap, write_request
from tests.p4rt.conftest import make_device
from tests.p4rt.fake import FakeEngine
from tests.p4rt.stream import Channel
from tests.waiting import wait_for

_SET = pb.SetForwardingPipelineConfigRequest
_GET = pb.GetForwardingPipelineConfigRequest


class Running:
    """A server on a free port."""

    def __init__(self) -> None:
        self.device, self.engine = make_device()
        self.server = P4RuntimeServer(self.device)
        self.address = self.server.start("127.0.0.1:0")
        self.channel = grpc.insecure_channel(self.address)
        self.stub = p4runtime_pb2_grpc.P4RuntimeStub(self.channel)
        self.streams: list[Channel] = []

    def stream(self, election: int | None = None, device: int = 1) -> Channel:
        channel = Channel(self.stub)
        self.streams.append(channel)
        if election is not None:
            channel.arbitrate(election, device)
        return channel

    def push(self, election: int = 1, action: int = _SET.VERIFY_AND_COMMIT) -> None:
        self.stub.SetForwardingPipelineConfig(config_request(election, action))

    def close(self) -> None:
        for stream in self.streams:
            stream.close()
        self.channel.close()
        self.server.stop()


def config_request(election: int, action: int, cookie: int | None = 7) -> Any:
    request = _SET(device_id=1, action=action)
    request.election_id.low = election
    request.config.p4info.CopyFrom(p.p4info())
    request.config.p4_device_config = p.device_config()
    if cookie is not None:
        request.config.cookie.cookie = cookie
    return request


@pytest.fixture
def running() -> Iterator[Running]:
    out = Running()
    yield out
    out.close()


def code(call: Callable[..., Any], *arguments: Any) -> Any:
    """Status code of a call that must fail; a Read is read to its end."""

    def whole() -> None:
        result = call(*arguments)
        if hasattr(result, "__next__"):
            list(result)

    with pytest.raises(grpc.RpcError) as caught:
        whole()
    return caught.value.code()


def test_capabilities(running: Running) -> None:
    reply = running.stub.Capabilities(pb.CapabilitiesRequest())
    assert reply.p4runtime_api_version.startswith("1.4")


def test_two_clients(running: Running) -> None:
    first = running.stream(1)
    assert first.status() == 0
    running.push()
    second = running.stream(2)
    assert second.status() == 0
    reply = first.next()
    assert reply.arbitration.status.code == 6  # ALREADY_EXISTS
    assert reply.arbitration.election_id.low == 2
    update = (INSERT, entry(p.LPM, lpm(1, b"\x0a\0\0\0", 8)))
    assert code(lambda: running.stub.Write(write_request(update, election=1))) == (
        grpc.StatusCode.PERMISSION_DENIED
    )
    assert code(lambda: running.stub.Write(write_request(update, election=None))) == (
        grpc.StatusCode.PERMISSION_DENIED
    )
    running.stub.Write(write_request(update, election=2))
    # Backups and strangers may read.
    request = pb.ReadRequest(device_id=1, entities=[wrap(pb.TableEntry(table_id=p.LPM))])
    assert sum(len(reply.entities) for reply in running.stub.Read(request)) == 1
    second.close()
    assert second.next() == grpc.StatusCode.OK
    assert first.status() == 5  # NOT_FOUND: nobody is primary
    assert code(lambda: running.stub.Write(write_request(update, election=2))) == (
        grpc.StatusCode.PERMISSION_DENIED
    )
    first.arbitrate(3)
    assert first.status() == 0


def test_streams_that_are_refused(running: Running) -> None:
    running.stream(1).status()
    cases = [
        (running.stream(1), grpc.StatusCode.INVALID_ARGUMENT),
        (running.stream(4, device=2), grpc.StatusCode.NOT_FOUND),
    ]
    with_role = running.stream()
    with_role.arbitrate(5, role=pb.Role(name="x"))
    cases.append((with_role, grpc.StatusCode.INVALID_ARGUMENT))
    for channel, expected in cases:
        assert channel.next() == expected
    # The primary is not disturbed.
    running.push()


def test_a_cancelled_stream_is_a_disconnection(running: Running) -> None:
    primary = running.stream(5)
    primary.status()
    backup = running.stream(3)
    assert backup.status() == 6
    primary.call.cancel()
    assert backup.status() == 5


def test_order_of_checks(running: Running) -> None:
    stub = running.stub
    assert code(lambda: stub.Write(write_request(device_id=9))) == grpc.StatusCode.NOT_FOUND
    assert code(lambda: stub.Write(write_request(role="r"))) == grpc.StatusCode.NOT_FOUND
    assert code(lambda: stub.Write(write_request())) == grpc.StatusCode.PERMISSION_DENIED
    running.stream(1).status()
    assert code(lambda: stub.Write(write_request())) == grpc.StatusCode.FAILED_PRECONDITION
    read = pb.ReadRequest(device_id=1)
    assert code(lambda: list(stub.Read(read))) == grpc.StatusCode.FAILED_PRECONDITION
    assert code(lambda: list(stub.Read(pb.ReadRequest()))) == grpc.StatusCode.NOT_FOUND
    running.push()
    stub.Write(write_request())
    stub.Write(write_request(atomicity=pb.WriteRequest.DATAPLANE_ATOMIC))
    assert code(lambda: stub.Write(write_request(atomicity=7))) == (
        grpc.StatusCode.INVALID_ARGUMENT
    )
    empty = pb.ReadRequest(device_id=1, entities=[pb.Entity()])
    assert code(lambda: list(stub.Read(empty))) == grpc.StatusCode.UNKNOWN


def test_pipeline_config(running: Running) -> None:
    stub = running.stub
    get = _GET(device_id=1)
    assert not stub.GetForwardingPipelineConfig(get).HasField("config")
    assert code(lambda: stub.GetForwardingPipelineConfig(_GET(device_id=2))) == (
        grpc.StatusCode.NOT_FOUND
    )
    verify = config_request(1, _SET.VERIFY)
    assert code(lambda: stub.SetForwardingPipelineConfig(verify)) == (
        grpc.StatusCode.PERMISSION_DENIED
    )
    running.stream(1).status()
    stub.SetForwardingPipelineConfig(verify)
    assert not stub.GetForwardingPipelineConfig(get).HasField("config")
    running.push()
    config = stub.GetForwardingPipelineConfig(get).config
    assert config.p4info == p.p4info()
    assert config.p4_device_config == p.device_config()
    assert config.cookie.cookie == 7
    get.response_type = _GET.COOKIE_ONLY
    config = stub.GetForwardingPipelineConfig(get).config
    assert (config.cookie.cookie, config.HasField("p4info"), config.p4_device_config) == (
        7,
        False,
        b"",
    )
    get.response_type = _GET.P4INFO_AND_COOKIE
    config = stub.GetForwardingPipelineConfig(get).config
    assert config.p4info == p.p4info()
    assert config.p4_device_config == b""
    get.response_type = _GET.DEVICE_CONFIG_AND_COOKIE
    config = stub.GetForwardingPipelineConfig(get).config
    assert not config.HasField("p4info")
    assert config.p4_device_config == p.device_config()
    stub.SetForwardingPipelineConfig(config_request(1, _SET.VERIFY_AND_COMMIT, cookie=None))
    get.response_type = _GET.COOKIE_ONLY
    assert not stub.GetForwardingPipelineConfig(get).config.HasField("cookie")


INFINITE = b'{"actions": [{"name": "a", "runtime_data": [{"bitwidth": 1e999}]}]}'


def test_bad_pipeline_configs(running: Running) -> None:
    running.stream(1).status()
    stub = running.stub
    for action in (_SET.VERIFY, _SET.VERIFY_AND_SAVE, _SET.VERIFY_AND_COMMIT):
        request = config_request(1, action)
        request.ClearField("config")
        assert code(stub.SetForwardingPipelineConfig, request) == (grpc.StatusCode.INVALID_ARGUMENT)
        for data in (b"", b"{", b"[1]", b"\xff\xff", b"{}", b'{"actions": 3}', INFINITE):
            request = config_request(1, action)
            request.config.p4_device_config = data
            assert code(stub.SetForwardingPipelineConfig, request) == (
                grpc.StatusCode.INVALID_ARGUMENT
            )
    unspecified = config_request(1, _SET.UNSPECIFIED)
    assert code(lambda: stub.SetForwardingPipelineConfig(unspecified)) == (
        grpc.StatusCode.INVALID_ARGUMENT
    )
    assert running.engine.loaded is None
    missing = config_request(1, _SET.VERIFY_AND_COMMIT)
    missing.config.p4info.tables[0].preamble.name = "other"
    with pytest.raises(grpc.RpcError) as caught:
        stub.SetForwardingPipelineConfig(missing)
    assert "table other of the P4Info is not in the bmv2 JSON" in (caught.value.details() or "")


def test_commit_clears_state(running: Running) -> None:
    running.stream(1).status()
    running.push()
    replicas = pb.PacketReplicationEngineEntry()
    replicas.multicast_group_entry.multicast_group_id = 1
    running.stub.Write(
        write_request((INSERT, entry(p.LPM)), (INSERT, member(1)), (INSERT, replicas))
    )
    running.push()
    assert running.engine.tables["lpm"] == {}
    assert running.engine.mc == {}
    request = pb.ReadRequest(device_id=1, entities=[wrap(pb.ActionProfileMember())])
    assert list(running.stub.Read(request)) == []


def test_save_then_commit_replays_writes(running: Running) -> None:
    running.stream(1).status()
    stub = running.stub
    commit = _SET(device_id=1, action=_SET.COMMIT)
    commit.election_id.low = 1
    assert code(lambda: stub.SetForwardingPipelineConfig(commit)) == grpc.StatusCode.NOT_FOUND
    running.push()
    stub.Write(write_request((INSERT, entry(p.LPM, lpm(1, b"\x0b\0\0\0", 8)))))
    running.push(action=_SET.VERIFY_AND_SAVE)
    before = dict(running.engine.tables["lpm"])
    stub.Write(write_request((INSERT, entry(p.LPM))))
    assert running.engine.tables["lpm"] == before
    with_config = config_request(1, _SET.COMMIT)
    assert code(lambda: stub.SetForwardingPipelineConfig(with_config)) == (
        grpc.StatusCode.INVALID_ARGUMENT
    )
    stub.SetForwardingPipelineConfig(commit)
    (only,) = running.engine.tables["lpm"].values()
    assert only.match == (Lpm(0, 0),)
    assert code(lambda: stub.SetForwardingPipelineConfig(commit)) == grpc.StatusCode.NOT_FOUND


def test_reconcile_keeps_state(running: Running) -> None:
    running.stream(1).status()
    running.push()
    default = entry(p.LPM, is_default_action=True)
    to_member = entry(
        p.INDIRECT,
        lpm(1, b"\x0a\0\0\0", 8),
        action=pb.TableAction(action_profile_member_id=3),
    )
    running.stub.Write(write_request((INSERT, member(3)), (MODIFY, default)))
    running.stub.Write(write_request((INSERT, to_member)))
    changed = config_request(1, _SET.RECONCILE_AND_COMMIT, cookie=8)
    changed.config.p4_device_config += b" "
    running.stub.SetForwardingPipelineConfig(changed)
    request = pb.ReadRequest(device_id=1)
    for item in (
        pb.TableEntry(table_id=p.INDIRECT),
        pb.TableEntry(table_id=p.LPM, is_default_action=True),
        pb.ActionProfileMember(),
    ):
        request.entities.append(wrap(item))
    entities = [e for reply in running.stub.Read(request) for e in reply.entities]
    assert entities == [wrap(to_member), wrap(default), wrap(member(3))]
    assert len(running.engine.tables["indirect"]) == 1
    # A program in which the state has no place is refused, and nothing changes.
    del changed.config.p4info.tables[7]
    assert code(lambda: running.stub.SetForwardingPipelineConfig(changed)) == (
        grpc.StatusCode.INVALID_ARGUMENT
    )
    assert len(running.engine.tables["indirect"]) == 1


def test_errors_of_a_batch(running: Running, tmp_path: Path) -> None:
    info = tmp_path / "p4info.txtpb"
    info.write_text(p.P4INFO_TEXT)
    (tmp_path / "p.json").write_bytes(p.device_config())
    client = P4RuntimeClient(1, running.address, (0, 1))
    try:
        client.set_fwd_pipe_config(str(info), str(tmp_path / "p.json"))
        bad = entry(p.LPM, lpm(1, b"\x0a\0\0\1", 8))
        with pytest.raises(P4RuntimeWriteException) as caught:
            client.write(write_request((INSERT, bad), (MODIFY, entry(p.LPM))))
        assert [(index, error.canonical_code) for index, error in caught.value.errors] == [
            (0, 3),
            (1, 5),
        ]
        assert "bits set past its prefix length" in str(caught.value)
        assert client.api_version().startswith("1.4")
        assert client.get_p4info() == p.p4info()
    finally:
        client.tear_down()


def test_packets(running: Running) -> None:
    primary = running.stream(2)
    primary.status()
    backup = running.stream(1)
    backup.status()
    running.push(election=2)
    packet = pb.PacketOut(payload=b"hello")
    packet.metadata.add(metadata_id=1, value=b"\x03")
    primary.send(packet=packet)
    wait_for("the frame is in the engine", lambda: running.engine.frames)
    assert running.engine.frames == [(3 << 7).to_bytes(2, "big") + b"hello"]
    running.engine.post(PacketIn((5 << 7).to_bytes(2, "big") + b"world", 0))
    reply = primary.next().packet
    assert reply.payload == b"world"
    assert [(m.metadata_id, m.value) for m in reply.metadata] == [(1, b"\x05"), (2, b"\0")]
    backup.send(packet=packet)
    error = backup.next().error
    assert error.canonical_code == 7
    assert error.packet_out.packet_out == packet
    packet.metadata[0].metadata_id = 9
    primary.send(packet=packet)
    assert primary.next().error.canonical_code == 3
    missing = pb.PacketOut(payload=b"x")
    primary.send(packet=missing)
    assert "egress_port" in primary.next().error.message
    assert backup.replies.empty()
    assert len(running.engine.frames) == 1


def test_a_shell_beside_the_controller(running: Running) -> None:
    controller = running.stream(5)
    controller.status()
    running.push(election=5)
    shell = running.stream()
    shell.arbitrate(1, role=pb.Role(name="shell"))
    reply = shell.next().arbitration
    assert (reply.status.code, reply.role.name, reply.election_id.low) == (0, "shell", 1)
    update = (INSERT, entry(p.LPM, lpm(1, b"\x0a\0\0\0", 8)))
    running.stub.Write(write_request(update, role="shell"))
    again = write_request(update, election=5)
    assert code(lambda: running.stub.Write(again)) == grpc.StatusCode.UNKNOWN
    wrong = write_request(update, role="shell", election=5)
    assert code(lambda: running.stub.Write(wrong)) == grpc.StatusCode.PERMISSION_DENIED
    read = pb.ReadRequest(device_id=1, role="shell", entities=[wrap(pb.TableEntry())])
    assert sum(len(item.entities) for item in running.stub.Read(read)) == 2
    read.role = "other"
    assert code(lambda: list(running.stub.Read(read))) == grpc.StatusCode.NOT_FOUND
    # Both hear what the data plane says.
    running.engine.post(PacketIn(b"\0\0world", 0))
    assert controller.next().packet.payload == b"world"
    assert shell.next().packet.payload == b"world"
    assert controller.replies.empty()


def test_digests_and_idle_entries_over_the_stream(running: Running) -> None:
    primary = running.stream(1)
    primary.status()
    running.push()
    enable = pb.DigestEntry(digest_id=p.DIGEST)
    enable.config.ack_timeout_ns = 1 << 60
    timed = entry(p.RNG, range_(1, b"\1", b"\2"), priority=1, idle_timeout_ns=5, metadata=b"m")
    running.stub.Write(write_request((INSERT, enable), (INSERT, timed)))
    (handle,) = running.engine.tables["range"]
    running.engine.post(Digest(1, "dig", (7,), 0))
    digest = primary.next().digest
    assert (digest.digest_id, digest.data[0].bitstring) == (p.DIGEST, b"\x07")
    running.engine.post(Digest(1, "dig", (7,), 0))
    running.engine.post(IdleTimeout("range", handle, 0))
    notice = primary.next().idle_timeout_notification  # not the digest once more
    assert list(notice.table_entry) == [timed]
    assert notice.timestamp > 1 << 60
    primary.send(digest_ack=pb.DigestListAck(digest_id=p.DIGEST, list_id=digest.list_id))
    primary.send(digest_ack=pb.DigestListAck(digest_id=9, list_id=1))
    error = primary.next().error
    assert (error.canonical_code, error.digest_list_ack.digest_list_ack.digest_id) == (3, 9)
    running.engine.post(Digest(1, "dig", (7,), 0))
    assert primary.next().digest.list_id == digest.list_id + 1
    primary.send(other=any_pb2.Any(type_url="/x"))
    assert primary.next().error.canonical_code == 12


@pytest.mark.parametrize("count", [250, 3000])
def test_a_client_with_default_limits_gets_every_status(running: Running, count: int) -> None:
    running.stream(1).status()
    running.push()
    missing = entry(p.LPM, lpm(1, b"\x0a\0\0\0", 8))
    updates = [(MODIFY if index % 2 else INSERT, missing) for index in range(count)]
    updates[0] = (MODIFY, missing)
    with pytest.raises(grpc.RpcError) as caught:
        running.stub.Write(write_request(*updates))
    assert caught.value.code() == grpc.StatusCode.UNKNOWN
    assert f"{count // 2} of {count} failed" in (caught.value.details() or "")
    trailers: Any = caught.value.trailing_metadata()
    data = dict(trailers)["grpc-status-details-bin"]
    details = status_pb2.Status.FromString(data).details
    assert len(details) == count if count == 250 else 250 < len(details) < count
    error = pb.Error()
    assert details[0].Unpack(error)
    assert (error.canonical_code, error.space, error.code) == (5, "softswitch", 5)


def test_no_cpu_port() -> None:
    device, engine = make_device()
    server = P4RuntimeServer(device, packet_out=False)
    address = server.start("127.0.0.1:0")
    with grpc.insecure_channel(address) as channel:
        stream = Channel(p4runtime_pb2_grpc.P4RuntimeStub(channel))
        stream.arbitrate(1)
        stream.status()
        stub = p4runtime_pb2_grpc.P4RuntimeStub(channel)
        stub.SetForwardingPipelineConfig(config_request(1, _SET.VERIFY_AND_COMMIT))
        stream.send(packet=pb.PacketOut(payload=b"x"))
        assert "--cpu-port" in stream.next().error.message
        stream.close()
    server.stop()
    assert engine.frames == []


def test_port_in_use(running: Running) -> None:
    other: Device = make_device()[0]
    with pytest.raises(ServerError, match="cannot listen"):
        P4RuntimeServer(other).start(running.address)


def test_noise_does_not_hurt(running: Running) -> None:
    raw = running.channel.unary_unary("/p4.v1.P4Runtime/Write", bytes, bytes)
    for data in (b"\xff", b"\x0a\xff", b"\x22\x05\x12\x03\x12\x01\xff"):
        assert code(raw, data) in (
            grpc.StatusCode.INVALID_ARGUMENT,
            grpc.StatusCode.NOT_FOUND,
        )
    assert running.stub.Capabilities(pb.CapabilitiesRequest()).p4runtime_api_version


def test_reads_larger_than_a_message(running: Running) -> None:
    engine: FakeEngine = running.engine
    running.stream(1).status()
    running.push()
    engine.sizes["exact"] = 10**6
    from softswitch.p4rt import device as module

    updates = []
    for index in range(300):
        match = lpm(1, bytes((10, index >> 8, index & 255, 0)), 24)
        updates.append((INSERT, entry(p.LPM, match, metadata=b"m" * 100)))
    engine.sizes["lpm"] = 1000
    running.stub.Write(write_request(*updates))
    old, module.READ_CHUNK = module.READ_CHUNK, 4096
    try:
        request = pb.ReadRequest(device_id=1, entities=[wrap(pb.TableEntry(table_id=p.LPM))])
        replies = list(running.stub.Read(request))
    finally:
        module.READ_CHUNK = old
    assert len(replies) > 5
    assert sum(len(reply.entities) for reply in replies) == 300
