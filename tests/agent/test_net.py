"""Agents as processes in namespaces of their own, over real packet sockets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hosts.agent.client import AgentError, connect_pair
from tests.agent.pair import ROOT, AgentProcess, Pair, port_config, root
from tests.waiting import wait_for

pytestmark = [
    pytest.mark.net,
    pytest.mark.skipif(not root(), reason="network namespaces need root"),
]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    pair = Pair(tmp_path_factory.mktemp("pair"))
    try:
        yield pair
    finally:
        pair.end()


def test_raw_packets_arrive_and_are_counted(pair: Pair) -> None:
    before = pair.b.stats()
    reply = pair.a.send_raw("fd00:1::2", 1, [1, 2, 3], size=4096, count=5, interval_ns=1000)
    assert reply == {"sent": 15, "errors": 0}
    after = pair.b.stats()
    while after["nics"]["2"]["rx_packets"] < before["nics"]["2"]["rx_packets"] + 15:
        after = pair.b.stats()  # the call itself is the wait: one turn of its loop
    gained = after["endpoint"]["drops"]["unknown_qp"] - before["endpoint"]["drops"].get(
        "unknown_qp", 0
    )
    assert gained == 15
    assert after["nics"]["2"]["sock_drops"] == 0


def test_write_is_placed_once(pair: Pair) -> None:
    a, b = pair.a, pair.b
    qpn, _ = connect_pair(a, b)
    source = a.register_memory(1_000_000, fill_seed=5)
    target = b.register_memory(1_000_000)
    span = {"rkey": source["rkey"], "offset": 0, "length": 1_000_000}
    a.post_write(qpn, target["va"], target["rkey"], source=span, wr_id=77)
    (done,) = a.poll(least=1)
    assert (done["wr_id"], done["status"], done["length"]) == (77, "SUCCESS", 1_000_000)
    assert a.memory_hash(source["rkey"]) == b.memory_hash(target["rkey"])
    stats = b.stats()["endpoint"]["qps"]
    assert sum(qp["delivered_bytes"] for qp in stats.values()) == 1_000_000


def test_write_with_immediate(pair: Pair) -> None:
    a, b = pair.a, pair.b
    qpn, peer = connect_pair(a, b)
    target = b.register_memory(64)
    b.post_recv(peer, wr_id=9)
    a.post_write(qpn, target["va"], target["rkey"], data=b"hello".hex(), imm=0xABCD)
    (got,) = b.poll(least=1)
    assert (got["kind"], got["wr_id"], got["imm"], got["length"]) == ("recv", 9, 0xABCD, 5)
    assert b.memory_read(target["rkey"], 0, 5) == b"hello"
    a.poll(least=1)


def test_a_foreign_rkey_is_an_error_at_both_ends(pair: Pair) -> None:
    qpn, _ = connect_pair(pair.a, pair.b)
    pair.a.post_write(qpn, 0x1000, 0xBAD, data="00")
    (done,) = pair.a.poll(least=1)
    assert done["status"] == "REMOTE_ACCESS_ERROR"
    with pytest.raises(AgentError, match="post_write"):
        pair.a.post_write(qpn, 0x1000, 0xBAD, data="00")


def test_workload_and_its_events(pair: Pair) -> None:
    a, b = pair.a, pair.b
    qpn, _ = connect_pair(a, b)
    target = b.register_memory(1 << 20)
    started = a.workload_start(
        qpn,
        message_bytes=32_768,
        window=8,
        region_bytes=1 << 20,
        messages=100,
        remote_va=target["va"],
        rkey=target["rkey"],
        seed=3,
    )
    wait_for("all messages completed", lambda: a.workload_status(qpn)["drained"])
    done = a.workload_stop(qpn)
    assert (done["posted"], done["completed"], done["failed"]) == (100, 100, 0)
    assert a.memory_hash(started["source"]["rkey"]) == b.memory_hash(target["rkey"])
    for process in pair.processes:
        events = process.read_events()
        assert all({"t", "src", "type"} <= set(event) for event in events)
        assert {event["src"] for event in events} == {process.name}
    samples = [e for e in pair.processes[1].read_events() if e["type"] == "sample"]
    assert samples[-1]["delivered_bytes"] > 0
    assert sum(samples[-1]["rx"].values()) > 800


def test_losing_a_port_keeps_the_connection(pair: Pair) -> None:
    a, b = pair.a, pair.b
    qpn, _ = connect_pair(a, b)
    target = b.register_memory(1 << 20)
    fields: dict[str, Any] = {"remote_va": target["va"], "rkey": target["rkey"]}
    started = a.workload_start(qpn, message_bytes=32_768, window=8, region_bytes=1 << 20, **fields)
    pair.processes[0].ip("link", "set", "v1", "down")
    try:
        wait_for("the port is down", lambda: not a.hello()["ports"]["2"]["up"])
        mark = a.workload_status(qpn)["completed"]
        wait_for("50 more messages", lambda: a.workload_status(qpn)["completed"] >= mark + 50)
    finally:
        pair.processes[0].ip("link", "set", "v1", "up")
    done = a.workload_stop(qpn)
    assert done["failed"] == 0
    size = done["written_bytes"]
    assert a.memory_hash(started["source"]["rkey"], 0, size) == b.memory_hash(
        target["rkey"], 0, size
    )


def test_kernel_does_not_answer_for_the_port(pair: Pair) -> None:
    """Without the silent UDP socket this ends with an ICMPv6 port unreachable."""
    script = (
        "import socket\n"
        "s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)\n"
        "s.settimeout(0.3)\n"
        "s.connect(('fd00:0::2', %d))\n"
        "s.send(b'x')\n"
        "try: s.recv(10)\n"
        "except TimeoutError: print('silence')\n"
        "except ConnectionRefusedError: print('refused')\n"
    )
    for port, expected in ((4791, "silence"), (4971, "silence"), (4972, "refused")):
        answer = subprocess.run(
            [
                "nsenter",
                "-t",
                str(pair.processes[0].pid),
                "-n",
                sys.executable,
                "-c",
                script % port,
            ],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        assert answer.strip() == expected, port


def test_agent_starts_without_heavy_imports() -> None:
    code = "import sys, hosts.agent.__main__, json; print(json.dumps(sorted(sys.modules)))"
    out = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT
    ).stdout
    heavy = {"scapy", "grpc", "pydantic", "numpy", "cffi", "google.protobuf", "asyncio", "ruamel"}
    assert not heavy & set(json.loads(out))


def failing(argv: list[str]) -> str:
    """stderr of an agent that refuses to start."""
    result = subprocess.run(
        ["unshare", "--net", sys.executable, "-m", "hosts.agent", *argv],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert result.returncode == 2, result
    assert "Traceback" not in result.stderr
    return result.stderr


def test_start_errors_are_one_line(tmp_path: Path, pair: Pair) -> None:
    config = tmp_path / "c.json"
    config.write_text(json.dumps({"ports": [port_config(0, 0, 1000)]}))
    common = ["--name", "x", "--config", str(config)]
    free = ["--socket", str(tmp_path / "s")]
    assert "no interface 'v0' in this namespace; there are: lo" in failing([*common, *free])
    assert "no interface 'w9'" in failing([*common, *free, "--nic", "1=w9"])
    assert "--nic '1:w9': must be PORT=INTERFACE" in failing([*common, *free, "--nic", "1:w9"])
    taken = failing([*common, "--nic", "1=lo", "--socket", str(pair.processes[0].socket)])
    assert "another agent listens there" in taken
    config.write_text(json.dumps({"ports": [{**port_config(0, 0, 1000), "mac": 1}]}))
    assert "c.json: ports[0].mac: 1 must be a text" in failing([*common, *free])


def test_sigterm_ends_it_cleanly(tmp_path: Path) -> None:
    process = AgentProcess("c", tmp_path)
    try:
        process.ip("link", "add", "v0", "type", "veth", "peer", "name", "w0")
        process.start({"ports": [port_config(0, 0, 1_000_000)]}).close()
        process.process.terminate()
        assert process.process.wait(10) == 0
        assert not process.socket.exists()
        assert process.read_events()[-1]["type"] == "sample"
    finally:
        process.end()
    assert not os.path.exists(f"/proc/{process.pid}")
