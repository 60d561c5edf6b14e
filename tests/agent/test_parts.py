"""Settings, filter, clock, event log, control server: each alone."""

from __future__ import annotations

import json
import os
import socket
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosts.agent import bpf
from hosts.agent.client import AgentClient, AgentError
from hosts.agent.clock import Lateness, Poller, now_ns
from hosts.agent.control import ControlError, ControlServer, Later
from hosts.agent.delayline import DelayLine
from hosts.agent.eventlog import EventLog
from hosts.agent.fields import FieldError
from hosts.agent.planned import agent_config
from hosts.agent.settings import load, parse
from hosts.core.config import ConfigError
from hosts.core.events import EvState, EvStateChange, NackReceived
from hosts.wire.constants import EvPacking
from tests.agent.test_ops import CONFIG
from tests.wire.test_parse import FRAMES
from topologies.plan import Plan
from topologies.spec import load_spec

# -- settings ---------------------------------------------------------------------------------


def test_settings_of_a_planned_host() -> None:
    plan = Plan.from_spec(load_spec("two-plane"))
    settings = parse(json.loads(json.dumps(agent_config(plan, "h3", seed=7))), {})
    nics = plan.hosts["h3"].nics
    assert settings.interfaces == {nic.port: nic.ifname for nic in nics}
    assert [p.mac.hex(":") for p in settings.endpoint.ports] == [nic.mac for nic in nics]
    assert settings.endpoint.time_scale == plan.spec.time_scale
    assert settings.endpoint.ev_packing == EvPacking.LABEL_HIGH
    assert settings.qp.ev.active == plan.spec.ev.active
    assert settings.qp.cc.base_rtt_ns == plan.spec.base_rtt_ns()
    assert agent_config(plan, "h0", seed=7)["seed"] != settings.seed


def test_command_line_interfaces_go_first() -> None:
    assert parse(CONFIG, {1: "other0"}).interfaces == {1: "other0"}
    with pytest.raises(FieldError, match="--nic: port 2 is not in ports"):
        parse(CONFIG, {2: "v0"})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ports": []}, "at least one port"),
        ({"ports": 5}, "ports: must be a list"),
        ({"prots": 5}, "prots: unknown field; did you mean 'ports'"),
        ({"ev_packing": "high"}, "ev_packing: 'high' must be one of label-high"),
        ({"time_scale": 0}, "time_scale 0"),
        ({"faults": ["sleepy"]}, "faults: "),
        ({"dscp": {"control": 64}}, "dscp.control: 64 must be 0..63"),
        ({"ports": [{**CONFIG["ports"][0], "mac": "02"}]}, r"ports\[0\].mac: '02' is not a MAC"),
        ({"ports": [{**CONFIG["ports"][0], "ip": "x"}]}, r"ports\[0\].ip: 'x' is not an IP"),
    ],
)
def test_settings_errors_name_the_field(change: dict[str, Any], message: str) -> None:
    with pytest.raises((FieldError, ConfigError), match=message):
        parse({**CONFIG, **change}, {})


def test_settings_file_errors(tmp_path: Path) -> None:
    with pytest.raises(FieldError, match=r"none\.json: No such file"):
        load(tmp_path / "none.json", {})
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(FieldError, match=r"bad\.json: not JSON"):
        load(tmp_path / "bad.json", {})


# -- socket filter ----------------------------------------------------------------------------


def accepts(program: list[tuple[int, int, int, int]], frame: bytes) -> bool:
    """The classic BPF machine, as far as our filters go. Loads past the end reject."""
    a = x = at = 0
    while True:
        code, yes, no, k = program[at]
        at += 1
        try:
            if code == bpf.LDH:
                (a,) = struct.unpack_from("!H", frame, k)
            elif code == bpf.LDH_IND:
                (a,) = struct.unpack_from("!H", frame, x + k)
            elif code == bpf.LDB:
                a = frame[k]
            elif code == bpf.LDXB_MSH:
                x = 4 * (frame[k] & 15)
            elif code == bpf.JEQ:
                at += yes if a == k else no
            elif code == bpf.RET:
                return k > 0
        except (IndexError, struct.error):
            return False


PROGRAM = bpf.mrc_filter((4791, 4971, 5000))


def test_filter_takes_mrc_only() -> None:
    for frame in FRAMES:
        assert accepts(PROGRAM, frame)
        port = 56 if frame[12] == 0x86 else 36
        for dport, taken in ((5000, True), (4971, True), (4790, False), (53, False)):
            other = frame[:port] + dport.to_bytes(2, "big") + frame[port + 2 :]
            assert accepts(PROGRAM, other) == taken
    v6 = FRAMES[0]
    assert not accepts(PROGRAM, v6[:20] + b"\x3a" + v6[21:])  # ICMPv6
    assert accepts(PROGRAM, v6[:20] + b"\x29" + v6[21:])  # IPv6 in IPv6
    assert accepts(PROGRAM, v6[:20] + b"\x2b" + v6[21:])  # SRH
    assert not accepts(PROGRAM, v6[:12] + b"\x08\x06" + v6[14:])  # ARP


@given(frame=st.binary(max_size=100))
def test_filter_ends_on_anything(frame: bytes) -> None:
    accepts(PROGRAM, frame)


# -- clock ------------------------------------------------------------------------------------


def test_poller_wakes_for_data_and_on_time() -> None:
    poller = Poller()
    a, b = socket.socketpair()
    with a, b:
        poller.add(a.fileno())
        assert poller.wait(0) == []
        start = now_ns()
        assert poller.wait(start + 300_000) == []
        assert now_ns() >= start + 300_000
        b.send(b"x")
        assert poller.wait(None) == [a.fileno()]
        poller.remove(a.fileno())
        assert poller.wait(0) == []


def test_lateness() -> None:
    late = Lateness()
    for value in [100] * 99 + [1_000_000]:
        late.add(value)
    report = late.report()
    assert (report["timers"], report["late_max_ns"]) == (100, 1_000_000)
    assert report["late_p99_ns"] == 128
    assert late.take_recent_max() == 1_000_000
    assert late.take_recent_max() == 0
    assert Lateness().report()["late_p99_ns"] == 0


# -- events file ------------------------------------------------------------------------------


def test_event_lines(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    log = EventLog(path, 'h"0')
    log.endpoint(EvStateChange(5, 17, 1, 99, EvState.GOOD, EvState.ASSUMED_BAD, "loss"))
    log.endpoint(NackReceived(6, 17, 3, 99, 1, 1))
    log.endpoint(NackReceived(7, 17, 3, 99, 1, 0x55))
    assert path.read_text() == ""
    log.close()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[0] == {
        "t": 5,
        "src": 'h"0',
        "type": "ev_state",
        "qpn": 17,
        "plane": 1,
        "ev": 99,
        "from": "GOOD",
        "to": "ASSUMED_BAD",
        "reason": "loss",
        "drops": 0,
    }
    assert [line["reason"] for line in lines[1:]] == ["TRIMMED", "0x55"]


# -- control server ---------------------------------------------------------------------------


class Server:
    """A control server turned by hand."""

    def __init__(self, path: Path) -> None:
        self.poller = Poller()
        self.later: list[Later] = []
        self.control = ControlServer(
            path, self.handle, added=self.poller.add, removed=self.poller.remove
        )

    def handle(self, request: dict[str, Any]) -> dict[str, Any] | Later:
        if request.get("op") == "later":
            self.later.append(Later())
            return self.later[-1]
        return {"ok": True, "echo": request}

    def turn(self) -> None:
        for fd in self.poller.wait(now_ns() + 2_000_000_000):
            self.control.readable(fd)


@pytest.fixture
def server(tmp_path: Path):
    server = Server(tmp_path / "s")
    yield server
    server.control.close()
    assert not (tmp_path / "s").exists()


def connect(path: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(2)
    sock.connect(os.fspath(path))
    return sock


def test_requests_in_pieces_and_replies_in_order(server: Server, tmp_path: Path) -> None:
    with connect(tmp_path / "s") as client:
        server.turn()
        client.send(b'{"op":"later"}\n{"op":"x"}\nnonsense\n[1]\n{"op"')
        server.turn()
        assert len(server.later) == 1
        client.send(b':"y"}\n\n')
        server.turn()
        server.later[0].answer({"n": 1})
        server.later[0].error("a second answer is ignored")
        lines = [json.loads(line) for line in client.recv(1 << 16).splitlines()]
        assert [line["ok"] for line in lines] == [True, True, False, False, True]
        assert lines[0]["n"] == 1
        assert "not JSON" in lines[2]["error"]
        assert "must be a JSON object" in lines[3]["error"]
        assert lines[4]["echo"] == {"op": "y"}


def test_client_that_vanishes(server: Server, tmp_path: Path) -> None:
    client = connect(tmp_path / "s")
    server.turn()
    client.send(b'{"op":"later"}\n')
    server.turn()
    client.close()
    server.turn()
    server.later[0].answer({})
    with connect(tmp_path / "s") as second:
        server.turn()
        second.send(b"{}\n")
        server.turn()
        assert json.loads(second.recv(4096))["ok"]


@given(junk=st.binary(max_size=300))
def test_junk_never_ends_the_server(tmp_path_factory: pytest.TempPathFactory, junk: bytes) -> None:
    path = tmp_path_factory.mktemp("junk") / "s"
    server = Server(path)
    with connect(path) as client:
        server.turn()
        client.sendall(junk + b'\n{"op":"end"}\n')
        server.turn()
        assert json.loads(client.recv(1 << 20).splitlines()[-1])["echo"] == {"op": "end"}
    server.control.close()


def test_a_client_that_reads_late_gets_everything(server: Server, tmp_path: Path) -> None:
    with connect(tmp_path / "s") as client:
        server.turn()
        text = "x" * 100_000
        for _ in range(10):
            client.sendall(json.dumps({"op": text}).encode() + b"\n")
            server.turn()
        got = b""
        assert server.control.waiting
        while got.count(b"\n") < 10:
            got += client.recv(1 << 20)
            server.control.flush()
        assert not server.control.waiting
        assert all(json.loads(line)["echo"]["op"] == text for line in got.splitlines())


def test_socket_in_use_and_left_over(server: Server, tmp_path: Path) -> None:
    with pytest.raises(ControlError, match="another agent listens there"):
        Server(tmp_path / "s")
    left = socket.socket(socket.AF_UNIX)
    left.bind(os.fspath(tmp_path / "left"))
    left.close()
    Server(tmp_path / "left").control.close()
    with pytest.raises(ControlError, match="longer than 107"):
        Server(tmp_path / ("x" * 120))
    with pytest.raises(ControlError, match="cannot listen"):
        Server(tmp_path / "no" / "s")


def test_client_errors(tmp_path: Path) -> None:
    with pytest.raises(AgentError, match="no agent"):
        AgentClient(tmp_path / "none", timeout=0.05)
    server = Server(tmp_path / "t")
    client = AgentClient(tmp_path / "t", timeout=0.1)
    with pytest.raises(AgentError, match="hello: no reply within"):
        client.hello()
    server.control.close()


# -- delay line -------------------------------------------------------------------------------


def test_delay_line_holds_every_frame_as_long() -> None:
    line = DelayLine(100)
    assert line.deadline() is None
    line.add(1, b"a", 1_000)
    line.add(2, b"b", 1_050)
    assert line.deadline() == 1_100
    assert line.due(1_099) == []
    assert line.due(1_100) == [(1, b"a")]
    assert line.deadline() == 1_150
    line.add(1, b"c", 1_060)
    assert line.due(2_000) == [(2, b"b"), (1, b"c")]
    assert line.deadline() is None


def test_a_planned_host_can_stand_in_for_the_links_delay() -> None:
    plan = Plan.from_spec(load_spec("two-plane"))
    assert parse(agent_config(plan, "h0"), {}).rx_delay_ns == 0
    assert parse(agent_config(plan, "h0", rx_delay_ns=8_000_000), {}).rx_delay_ns == 8_000_000
