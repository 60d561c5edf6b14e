"""Processes: readiness, errors, and that nothing outlives its parent."""

from __future__ import annotations

import json
import os
import queue
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from p4.v1 import p4runtime_pb2 as pb
from p4.v1 import p4runtime_pb2_grpc

from softswitch import spawn
from softswitch.ctl import CtlClient
from softswitch.options import UsageError
from softswitch.spawn import SpawnError, SwitchArgs, SwitchFarm, read_config
from tests.waiting import wait_for

FAKE = str(Path(__file__).with_name("fake_spawn.py"))
ROOT = str(Path(__file__).resolve().parents[2])


@pytest.fixture(autouse=True)
def fake_nursery(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spawn, "NURSERY", [FAKE, "nursery"])


def alive(pid: int) -> bool:
    """Running, and not a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def comm(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def args(name: str, device: int, *more: str) -> SwitchArgs:
    words = ("--no-p4", "--device-id", str(device), "--grpc-server-addr", "127.0.0.1:0", *more)
    return SwitchArgs(name, words)


@pytest.fixture
def farm() -> Iterator[SwitchFarm]:
    out = SwitchFarm()
    yield out
    out.stop()


def test_a_fabric_of_eight(farm: SwitchFarm, tmp_path: Path) -> None:
    processes = farm.start(
        [args(f"p0t0-{i}", i + 1, "--ctl", str(tmp_path / str(i))) for i in range(8)]
    )
    assert list(processes) == sorted(processes, key=list(processes).index)
    assert {item.device_id for item in processes.values()} == set(range(1, 9))
    for name, process in processes.items():
        assert comm(process.pid) == name
        assert process.ctl is not None
        with CtlClient(process.ctl) as client:
            assert client.version()["pid"] == process.pid
        with grpc.insecure_channel(process.addr) as channel:
            stub = p4runtime_pb2_grpc.P4RuntimeStub(channel)
            request = pb.GetForwardingPipelineConfigRequest(device_id=process.device_id)
            assert not stub.GetForwardingPipelineConfig(request).HasField("config")
    pids = [process.pid for process in processes.values()]
    farm.stop()
    assert not any(alive(pid) for pid in pids)
    assert list(tmp_path.iterdir()) == []


def test_the_real_engine(farm: SwitchFarm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spawn, "NURSERY", ["-m", "softswitch.spawn"])
    processes = farm.start([args(f"sw{i}", i + 1) for i in range(8)])
    for process in processes.values():
        with grpc.insecure_channel(process.addr) as channel:
            stub = p4runtime_pb2_grpc.P4RuntimeStub(channel)
            assert stub.Capabilities(pb.CapabilitiesRequest(), timeout=5).p4runtime_api_version


def test_children_die_with_a_killed_nursery(farm: SwitchFarm) -> None:
    processes = farm.start([args("a", 1), args("b", 2)])
    nursery = farm.pid
    assert nursery is not None
    os.kill(nursery, signal.SIGKILL)
    pids = [process.pid for process in processes.values()]
    wait_for("no switch outlives the nursery", lambda: not any(map(alive, pids)))


_OWNER = """
import signal, sys
sys.path.insert(0, {root!r})
from softswitch import spawn
spawn.NURSERY = [{fake!r}, "nursery"]
farm = spawn.SwitchFarm()
farm.start([spawn.SwitchArgs("a", {argv!r})])
print(farm.processes["a"].pid, farm.pid, flush=True)
signal.pause()
"""


def test_everything_dies_with_a_killed_owner() -> None:
    text = _OWNER.format(root=ROOT, fake=FAKE, argv=args("a", 1).argv)
    owner = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    pids = [int(word) for word in owner.stdout.readline().split()]
    assert len(pids) == 2
    assert all(alive(pid) for pid in pids)
    owner.kill()
    owner.wait()
    owner.stdout.close()
    wait_for("no process outlives its owner", lambda: not any(map(alive, pids)))


def test_a_switch_that_ends_is_reported() -> None:
    ended: queue.Queue[tuple[str, int]] = queue.Queue()
    with SwitchFarm(on_exit=lambda name, status: ended.put((name, status))) as farm:
        processes = farm.start([args("a", 1), args("b", 2)])
        os.kill(processes["a"].pid, signal.SIGKILL)
        assert ended.get(timeout=20) == ("a", -signal.SIGKILL)
        assert set(farm.processes) == {"b"}
        assert alive(processes["b"].pid)
        assert ended.empty()


def busy_port() -> tuple[socket.socket, str]:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(1)
    return listener, f"127.0.0.1:{listener.getsockname()[1]}"


def test_errors_name_the_switch(farm: SwitchFarm, tmp_path: Path) -> None:
    listener, address = busy_port()
    (tmp_path / "bad.json").write_text('{\n  "pipelines": [,]}')
    (tmp_path / "list.json").write_text("[]")
    cases = {
        ("--no-p4", "--grpc-server-addr", address): f"{address}: the port is in use",
        ("--no-p4", "-i", "1@nosuch0"): "-i 1@nosuch0: there is no interface nosuch0",
        (str(tmp_path / "absent.json"),): "absent.json: No such file or directory",
        (str(tmp_path / "bad.json"),): "bad.json:2:17: not JSON",
        (str(tmp_path / "list.json"),): "not a bmv2 JSON",
        ("--no-p4", "--bogus"): "--bogus: unknown flag",
        ("--no-p4", "--ctl", "/nonexistent/dir/s"): "--ctl /nonexistent/dir/s: No such file",
    }
    with listener:
        for words, message in cases.items():
            with pytest.raises(SpawnError) as caught:
                farm.start([args("good", 1), SwitchArgs("wrong", words)])
            text = str(caught.value)
            assert text.startswith("wrong: "), text
            assert message in text
            assert "\n" not in text
            assert farm.pid is None
            assert farm.processes == {}


def test_names_are_unique(farm: SwitchFarm) -> None:
    with pytest.raises(SpawnError, match="two switches"):
        farm.start([args("a", 1), args("a", 2)])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "'switches' must be a list"),
        ('{"switches": [{"name": "a"}]}', "switches[0]: needs exactly"),
        ('{"switches": [{"name": "", "argv": []}]}', "'name' must be text"),
        ('{"switches": [{"name": "a", "argv": [1]}]}', "'argv' must be a list of words"),
        ('{"switches": [{"name": "a", "argv": ["-h"]}]}', "a: --help"),
    ],
)
def test_bad_configurations(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_config(text, "farm.json")
    assert message in str(caught.value)


def run(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": ROOT}
    return subprocess.run(
        [sys.executable, FAKE, *words],
        check=False,
        capture_output=True,
        text=True,
        env=environment,
        timeout=30,
    )


def test_command_line_of_the_nursery(tmp_path: Path) -> None:
    config = tmp_path / "farm.json"
    config.write_text(json.dumps({"switches": [{"name": "a", "argv": ["--no-p4", "--bogus"]}]}))
    done = run("nursery", str(config))
    assert done.returncode == 2
    assert done.stderr == (
        "softswitch.spawn: a: --bogus: unknown flag; did you mean --log-flush?\n"
    )
    assert run("nursery").returncode == 2


def test_a_farm_from_a_file(tmp_path: Path) -> None:
    config = tmp_path / "farm.json"
    switch = {"name": "sw", "argv": list(args("sw", 5).argv)}
    config.write_text(json.dumps({"switches": [switch]}))
    environment = {**os.environ, "PYTHONPATH": ROOT}
    process = subprocess.Popen(
        [sys.executable, FAKE, "nursery", str(config)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdout is not None
    event: dict[str, Any] = json.loads(process.stdout.readline())
    assert (event["event"], event["name"], event["device_id"]) == ("ready", "sw", 5)
    process.terminate()
    assert process.wait(10) == 0
    process.stdout.close()
    assert not alive(event["pid"])


def test_one_switch_in_a_process() -> None:
    environment = {**os.environ, "PYTHONPATH": ROOT}
    words = [sys.executable, FAKE, "switch", *args("x", 2).argv]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("Server listening on 127.0.0.1:")
    assert comm(process.pid) == "softswitch-2"
    process.terminate()
    assert process.wait(10) == 0
    process.stdout.close()


def test_usage_errors_exit_2() -> None:
    listener, address = busy_port()
    with listener:
        for words, message in (
            (["--no-p4", "--bogus"], "softswitch: --bogus: unknown flag"),
            (["--no-p4", "-i", "1@nosuch0"], "there is no interface nosuch0"),
            (["--no-p4", "--grpc-server-addr", address], "the port is in use"),
        ):
            done = run("switch", *words)
            assert done.returncode == 2
            assert message in done.stderr
            assert done.stderr.count("\n") == 1, done.stderr
    assert run("switch", "--version").stdout.startswith("softswitch ")
    assert run("switch", "--help").returncode == 0
