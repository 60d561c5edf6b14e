"""Operations of the control socket on a fake endpoint, without any socket."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosts.agent.clock import Lateness
from hosts.agent.control import Later
from hosts.agent.ops import Operations
from hosts.agent.sampling import sample
from hosts.agent.settings import parse
from hosts.core.events import Status
from hosts.wire.frame import parse as parse_frame
from tests.agent.fake import FakeEndpoint

CONFIG: dict[str, Any] = {
    "pmtu": 1024,
    "ports": [
        {
            "port": 1,
            "interface": "v0",
            "mac": "02:00:00:00:00:01",
            "gateway_mac": "02:00:00:00:00:02",
            "ip": "fd00::1",
            "rate_bps": 100_000_000,
        }
    ],
}


class FakeNic:
    interface = "v0"
    tx_packets = rx_packets = sock_drops = 0

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def send(self, frame: bytes) -> bool:
        self.sent.append(frame)
        return True

    def stats(self) -> dict[str, int]:
        return {"tx_packets": len(self.sent)}


class FakeAgent:
    def __init__(self) -> None:
        self.settings = parse(CONFIG, {})
        self.endpoint = FakeEndpoint()
        self.name = "h0"
        self.nics = {1: FakeNic()}
        self.lateness = Lateness()
        self.stopping = False
        self.errors = 0
        self.admin: dict[int, bool] = {}

    def clock(self) -> int:
        return 1000

    def port_up(self, port: int) -> bool:
        return self.admin.get(port, True)

    def set_admin(self, port: int, up: bool) -> None:
        self.admin[port] = up

    def cpu_ns(self) -> int:
        return 0

    def fidelity(self) -> dict[str, int]:
        return self.lateness.report()

    def report_error(self, where: str, error: Exception) -> None:
        self.errors += 1
        raise error


@pytest.fixture
def agent() -> FakeAgent:
    return FakeAgent()


@pytest.fixture
def ops(agent: FakeAgent) -> Operations:
    return Operations(agent)  # type: ignore[arg-type]


def ask(ops: Operations, op: str, **fields: Any) -> dict[str, Any]:
    """The reply, which must be there at once and good."""
    reply = ops.handle({"op": op, **fields})
    if isinstance(reply, Later):
        assert reply.reply is not None
        reply = reply.reply
    assert reply.pop("ok"), reply
    return reply


def refused(ops: Operations, op: str, **fields: Any) -> str:
    reply = ops.handle({"op": op, **fields})
    assert isinstance(reply, dict)
    assert reply["ok"] is False
    assert "\n" not in reply["error"]
    return str(reply["error"])


def settle(ops: Operations, agent: FakeAgent) -> None:
    """What the loop does with events."""
    for event in agent.endpoint.events():
        ops.on_event(event)


def test_memory(ops: Operations) -> None:
    region = ask(ops, "register_memory", length=5000, fill_seed=3)
    same = ask(ops, "register_memory", length=5000, fill_seed=3)
    other = ask(ops, "register_memory", length=5000)
    digest = ask(ops, "memory_hash", rkey=region["rkey"])["sha256"]
    assert digest == ask(ops, "memory_hash", rkey=same["rkey"])["sha256"]
    assert (
        ask(ops, "memory_hash", rkey=other["rkey"])["sha256"]
        == hashlib.sha256(bytes(5000)).hexdigest()
    )
    part = ask(ops, "memory_read", rkey=region["rkey"], offset=10, length=4)["data"]
    assert len(bytes.fromhex(part)) == 4
    ask(ops, "deregister_memory", rkey=other["rkey"])
    assert "is not registered here" in refused(ops, "memory_hash", rkey=other["rkey"])
    assert "pass the end" in refused(ops, "memory_hash", rkey=region["rkey"], offset=1, length=5000)


def test_qp_set_up(ops: Operations, agent: FakeAgent) -> None:
    mine = ask(ops, "create_qp", ev={"active": 4, "backup": 2}, rto={"t": 5})
    config: Any = agent.endpoint.configs[0]
    assert (config.ev.active, config.ev.backup, config.rto.t, config.rto.linear) == (4, 2, 5, 7)
    assert mine["ips"] == {"1": "::"}
    ask(ops, "connect_qp", qpn=mine["qpn"], peer={**mine, "ips": {"1": "fd00::2"}})
    peer = agent.endpoint.peers[mine["qpn"]]
    assert peer.ips[1][-1] == 2
    assert "99 does not exist" in refused(ops, "connect_qp", qpn=99, peer=mine)
    wrong = {**mine, "ips": {"1": "nowhere"}}
    assert "'nowhere' is not an IP address" in refused(
        ops, "connect_qp", qpn=mine["qpn"], peer=wrong
    )
    assert "peer.psn: missing" in refused(
        ops, "connect_qp", qpn=mine["qpn"], peer={"qpn": 1, "ips": {}}
    )
    assert "did you mean 'active'" in refused(ops, "create_qp", ev={"actve": 4})


def test_post_and_poll(ops: Operations, agent: FakeAgent) -> None:
    qpn = ask(ops, "create_qp")["qpn"]
    region = ask(ops, "register_memory", length=100, fill_seed=1)
    ask(ops, "post_write", qpn=qpn, wr_id=4, data="0102", remote_va=16, rkey=5, imm=9)
    source = {"rkey": region["rkey"], "offset": 10, "length": 20}
    ask(ops, "post_write", qpn=qpn, wr_id=5, source=source, remote_va=16, rkey=5)
    assert agent.endpoint.posted[0] == (qpn, 4, b"\1\2", 16, 5, 9)
    assert len(agent.endpoint.posted[1][2]) == 20
    waiting = ops.handle({"op": "poll", "min": 2})
    assert isinstance(waiting, Later)
    agent.endpoint.complete()
    settle(ops, agent)
    assert waiting.reply is None
    agent.endpoint.complete(Status.RETRY_EXCEEDED)
    settle(ops, agent)
    assert waiting.reply is not None
    found = waiting.reply["completions"]
    assert [(c["wr_id"], c["status"]) for c in found] == [(4, "SUCCESS"), (5, "RETRY_EXCEEDED")]
    assert ask(ops, "poll")["completions"] == []


def test_workload_runs_in_its_window_and_drains(ops: Operations, agent: FakeAgent) -> None:
    qpn = ask(ops, "create_qp")["qpn"]
    start = {"message_bytes": 2048, "window": 3, "region_bytes": 5 * 2048, "remote_va": 1 << 20}
    ask(ops, "workload_start", qpn=qpn, rkey=7, **start)
    endpoint = agent.endpoint
    target = bytearray(5 * 2048)

    def complete() -> None:
        _, _, message, va, rkey, _ = endpoint.posted[0]
        assert rkey == 7
        at = va - (1 << 20)
        target[at : at + len(message)] = message
        endpoint.complete()
        settle(ops, agent)

    for _ in range(13):
        assert len(endpoint.posted) == 3
        complete()
    assert "already runs" in refused(ops, "workload_start", qpn=qpn, rkey=7, **start)
    later = ops.handle({"op": "workload_stop", "qpn": qpn})
    assert isinstance(later, Later)
    while endpoint.posted:
        assert later.reply is None
        complete()
    reply = later.reply
    assert reply is not None
    assert (reply["posted"], reply["completed"], reply["failed"]) == (16, 16, 0)
    source = ask(ops, "memory_hash", rkey=reply["source"]["rkey"])["sha256"]
    assert hashlib.sha256(target).hexdigest() == source


def test_a_stale_packet_of_a_workload_shows_in_the_hash(ops: Operations, agent: FakeAgent) -> None:
    """The second round over a slot differs from the first in every packet."""
    qpn = ask(ops, "create_qp")["qpn"]
    ask(
        ops,
        "workload_start",
        qpn=qpn,
        rkey=7,
        remote_va=0,
        messages=2,
        message_bytes=4096,
        window=1,
        region_bytes=4096,
    )
    first = agent.endpoint.posted[0][2]
    agent.endpoint.complete()
    settle(ops, agent)
    second = agent.endpoint.posted[0][2]
    for at in range(0, 4096, 1024):
        assert first[at : at + 1024] != second[at : at + 1024]
    agent.endpoint.complete()
    settle(ops, agent)
    assert ask(ops, "workload_status", qpn=qpn)["drained"]
    assert ask(ops, "workload_stop", qpn=qpn)["completed"] == 2


def test_a_failed_workload_ends(ops: Operations, agent: FakeAgent) -> None:
    qpn = ask(ops, "create_qp")["qpn"]
    ask(ops, "workload_start", qpn=qpn, rkey=7, remote_va=0, message_bytes=1024, window=2)
    later = ops.handle({"op": "workload_stop", "qpn": qpn})
    assert isinstance(later, Later)
    for _ in range(2):
        agent.endpoint.complete(Status.FLUSHED)
    settle(ops, agent)
    assert later.reply is not None
    assert later.reply["failed"] == 2


def test_send_raw(ops: Operations, agent: FakeAgent) -> None:
    later = ops.handle(
        {
            "op": "send_raw",
            "dst": "fd00::9",
            "plane": 0,
            "evs": [5, 0x00010002],
            "size": 100,
            "ecn": 2,
            "count": 3,
            "interval_ns": 10,
        }
    )
    assert isinstance(later, Later)
    ops.serve_raw(1000)
    assert len(agent.nics[1].sent) == 1
    assert ops.raw_deadline() == 1010
    ops.serve_raw(1050)
    ops.serve_raw(1060)
    assert later.reply == {"ok": True, "sent": 6, "errors": 0}
    assert ops.raw_deadline() is None
    packets = [parse_frame(frame) for frame in agent.nics[1].sent]
    assert [p.ev for p in packets if p] == [5, 0x00010002] * 3
    assert all(p and p.icrc_ok() and p.dqp == 3 and p.dscp == 4 for p in packets)
    bad = {"dst": "10.0.0.1", "plane": 0, "evs": [1]}
    assert "not the IP version" in refused(ops, "send_raw", **bad)
    assert "plane: 7 is none of 0" in refused(ops, "send_raw", **{**bad, "plane": 7})


def test_ports_stats_hello(ops: Operations, agent: FakeAgent) -> None:
    assert ask(ops, "set_port", port=1, up=False) == {"port": 1, "up": False}
    hello = ask(ops, "hello")
    assert hello["name"] == "h0"
    assert hello["ports"] == {"1": {"interface": "v0", "up": False}}
    stats = ask(ops, "stats")
    assert stats["endpoint"]["drops"] == {"not_mrc": 2}
    ask(ops, "stop")
    assert agent.stopping


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({}, "op: None is none of hello"),
        ({"op": "helo"}, "'helo' is none of"),
        ({"op": ["x"]}, "is none of"),
        ({"op": "hello", "x": 1}, "hello: x: unknown field"),
        ({"op": "register_memory"}, "length: missing"),
        ({"op": "register_memory", "length": "1"}, "length: '1' is not a whole number"),
        ({"op": "register_memory", "length": True}, "length: True is not a whole number"),
        ({"op": "register_memory", "length": 0}, "length: 0 must be 1.."),
        ({"op": "post_recv", "qpn": 5}, "qpn: 5 does not exist here"),
        ({"op": "create_qp", "rto": 5}, "rto: must be a JSON object"),
        ({"op": "set_port", "port": 1, "up": "yes"}, "up: 'yes' must be true or false"),
    ],
)
def test_bad_requests_get_one_line(ops: Operations, request_: dict[str, Any], message: str) -> None:
    reply = ops.handle(request_)
    assert isinstance(reply, dict)
    assert reply["ok"] is False
    assert message in reply["error"]


ODD = [None, True, 0, -1, 1 << 70, 0.5, "", "x", "fd00::1", [], [None], [1, 2], {}, {"rkey": 1}]
JSON = st.sampled_from(ODD) | st.integers()
KEYS = [
    "qpn",
    "length",
    "peer",
    "rkey",
    "evs",
    "dst",
    "plane",
    "port",
    "up",
    "source",
    "data",
    "ev",
    "evs",
    "name",
    "state",
    "do",
    "values",
    "old",
    "new",
    "kind",
    "mode",
    "fields",
    "widths",
    "to",
    "config",
    "id",
    "types",
    "states",
    "outer",
    "params",
    "mpr",
]


@given(data=st.data())
def test_no_request_raises(data: st.DataObject) -> None:
    """FakeAgent.report_error raises on an internal error, so none may happen."""
    ops = Operations(FakeAgent())  # type: ignore[arg-type]
    request = data.draw(st.dictionaries(st.sampled_from(KEYS), JSON, max_size=4))
    request["op"] = data.draw(st.sampled_from(sorted(ops._ops)))
    if data.draw(st.booleans()):
        request["qpn"] = ask(ops, "create_qp")["qpn"]
    reply = ops.handle(request)
    assert isinstance(reply, Later) or reply["ok"] in (True, False)


def test_sample_of_an_idle_agent(agent: FakeAgent) -> None:
    found = sample(agent)  # type: ignore[arg-type]
    assert found["type"] == "sample"
    assert (found["sent"], found["rtt_ns"], found["late_ns"]) == (0, 0, 0)
