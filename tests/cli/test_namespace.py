"""A lab leaves nothing behind, whoever is killed; labs do not see each other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mrclab.namespace import RUN_ENV, running_labs
from tests.waiting import wait_for

ROOT = Path(__file__).resolve().parent.parent.parent
pytestmark = [
    pytest.mark.net,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root to look into other labs"),
]

LAB = """
import sys
from mrclab.namespace import run_in_lab
sys.exit(run_in_lab(sys.argv[1], sys.argv[2:]))
"""
# A lab with an interface pair and a child process, which says when it stands.
SCRIPT = "ip link add a0 type veth peer name a1 && ip link set a0 up && tail -f /dev/null & wait"


def start(run_id: str, *command: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop(RUN_ENV, None)
    return subprocess.Popen(
        [sys.executable, "-c", LAB, run_id, *command], env=environment, stdout=subprocess.PIPE
    )


def processes_of(run_id: str) -> list[int]:
    wanted = f"{RUN_ENV}={run_id}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def links(pid: int) -> str:
    done = subprocess.run(
        ["nsenter", f"--target={pid}", "--net", "ip", "-br", "link"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


def init_of(run_id: str) -> int | None:
    return next((lab.init_pid for lab in running_labs() if lab.run_id == run_id), None)


def stands(run_id: str) -> bool:
    pid = init_of(run_id)
    return pid is not None and "a0@a1" in links(pid)


@pytest.fixture
def lab() -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    run_id = f"test-{os.getpid()}-a"
    process = start(run_id, "/bin/sh", "-c", SCRIPT)
    wait_for("the lab stands", lambda: stands(run_id))
    yield run_id, process
    process.kill()
    process.wait()


@pytest.mark.parametrize("victim", ["the process the user started", "the lab's init"])
def test_kill_9_leaves_nothing(lab: tuple[str, subprocess.Popen[bytes]], victim: str) -> None:
    run_id, process = lab
    init = init_of(run_id)
    assert init is not None
    assert len(processes_of(run_id)) >= 2
    os.kill(process.pid if victim.endswith("started") else init, signal.SIGKILL)
    process.wait(timeout=20)
    wait_for("no process of the lab is left", lambda: not processes_of(run_id))
    here = subprocess.run(["ip", "-br", "link"], capture_output=True, text=True, check=True)
    assert "a0" not in here.stdout
    assert not Path("/run/mrclab").exists()


def test_two_labs_side_by_side(lab: tuple[str, subprocess.Popen[bytes]]) -> None:
    run_id, _process = lab
    other_id = f"test-{os.getpid()}-b"
    other = start(other_id, "/bin/sh", "-c", SCRIPT)
    try:
        wait_for("the second lab stands, with the same names", lambda: stands(other_id))
        assert stands(run_id)
        assert {run_id, other_id} <= {lab.run_id for lab in running_labs()}
    finally:
        other.kill()
        other.wait()
    wait_for("the second lab is gone", lambda: not processes_of(other_id))
    assert stands(run_id)


def test_exit_status_is_the_commands() -> None:
    process = start(f"test-{os.getpid()}-c", "/bin/sh", "-c", "exit 7")
    assert process.wait(timeout=20) == 7


def test_loopback_is_up_and_nothing_else_is_there() -> None:
    process = start(f"test-{os.getpid()}-d", "/bin/sh", "-c", "ip -br addr; ls /run")
    out, _ = process.communicate(timeout=20)
    words = out.decode().split()
    assert words[:3] == ["lo", "UNKNOWN", "127.0.0.1/8"]
    assert words[-1] == "mrclab"
    assert out.decode().count("\n") == 2


def test_sigterm_ends_a_lab_that_has_no_handler_yet(
    lab: tuple[str, subprocess.Popen[bytes]],
) -> None:
    """The kernel drops a signal that an init does not catch."""
    run_id, process = lab
    process.terminate()
    assert process.wait(timeout=20) == 128 + signal.SIGTERM
    wait_for("no process of the lab is left", lambda: not processes_of(run_id))
