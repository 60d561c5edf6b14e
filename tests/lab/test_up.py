"""./lab up, ps, exec and shell; what is left when a lab is killed; two labs at once."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from mrclab import ROOT
from mrclab.namespace import RUN_ENV
from tests.lab.conftest import UpLab, run_lab, start_up
from tests.waiting import wait_for

pytestmark = [
    pytest.mark.net,
    pytest.mark.realtime,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root to look into other processes"),
]


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


def interfaces() -> str:
    done = subprocess.run(["ip", "-br", "link"], capture_output=True, text=True, check=True)
    return done.stdout


def test_prompt_takes_piped_commands() -> None:
    done = run_lab("up", stdin="h0 ping -c 1 -W 5 h2\nlinks\n")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 packets transmitted, 1 received" in done.stdout
    assert "h0-p0<->p0t0-0-1" in done.stdout


def test_exec_runs_on_the_host(up_lab: UpLab) -> None:
    done = run_lab("exec", "h1", "ip", "-br", "addr", "show", "h1-p1")
    assert done.returncode == 0, done.stderr
    assert "fd4d:5243:1::2" in done.stdout
    here = run_lab("exec", "h1", "pwd")
    assert here.stdout.strip() == str(ROOT)
    wrong = run_lab("exec", "h9", "true")
    assert wrong.returncode == 2
    assert wrong.stderr.count("\n") == 1
    assert "h9" in wrong.stderr


def test_shell_reads_and_writes_the_switch(up_lab: UpLab) -> None:
    commands = """
route = table_entry["FabricIngress.route"]
entry = list(route.read())[0]
before = len(list(route.read()))
entry.delete()
print("without it", before - len(list(route.read())))
entry.insert()
print("with it", before - len(list(route.read())))
exit()
"""
    done = run_lab("shell", "T0-0", stdin=commands)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "p0t0-0" in done.stderr  # T0-0 is in two planes: it says which one this is
    assert "you may read and write" in done.stderr
    assert "without it 1" in done.stdout
    assert "with it 0" in done.stdout
    assert "Error" not in done.stdout


@pytest.mark.parametrize("victim", ["started", "init"])
def test_kill_9_leaves_nothing(up_lab: UpLab, victim: str) -> None:
    before = interfaces()
    state = up_lab.state()
    run_id = state["run_id"]
    assert len(processes_of(run_id)) > 12  # 8 switches, 4 agents, hosts' shells
    os.kill(up_lab.process.pid if victim == "started" else state["pid"], signal.SIGKILL)
    up_lab.process.communicate(timeout=30)
    wait_for("no process of the lab is left", lambda: not processes_of(run_id))
    assert interfaces() == before
    assert not Path("/run/mrclab").exists()


def test_two_labs_side_by_side(up_lab: UpLab) -> None:
    other = start_up()
    try:
        for lab in (up_lab, other):
            run_id = lab.run_id
            assert run_id is not None
            done = run_lab("exec", "--lab", run_id, "h0", "ping", "-c", "1", "fd4d:5243::2")
            assert "1 received" in done.stdout, done.stdout + done.stderr
        ambiguous = run_lab("exec", "h0", "true")
        assert ambiguous.returncode == 2
        assert "--lab" in ambiguous.stderr
    finally:
        other.kill()


def test_exec_knows_hosts_by_name(up_lab: UpLab) -> None:
    for name, address in (("h2", "fd4d:5243:0:1::1"), ("h2-p1", "fd4d:5243:1:1::1")):
        done = run_lab("exec", "h0", "getent", "hosts", name)
        assert done.returncode == 0, done.stderr
        assert done.stdout.split()[0] == address
        done = run_lab("exec", "h0", "ping", "-c", "1", "-W", "5", name)
        assert "1 received" in done.stdout, done.stdout + done.stderr


def test_what_ends_by_itself_is_said_while_the_rest_goes_on() -> None:
    lab = start_up()
    try:
        state = lab.state()
        agent = next(p for p in processes_of(state["run_id"]) if runs(p, "hosts.agent", "h1"))
        controller = next(p for p in processes_of(state["run_id"]) if runs(p, "controller.mrc"))
        os.kill(agent, signal.SIGKILL)
        os.kill(controller, signal.SIGKILL)
        wait_for("both are known lost", lambda: len(lab.state().get("lost", ())) == 2)
        listed = run_lab("ps")
        assert "the agent of h1 ended by SIGKILL" in listed.stdout
        assert "the MRC controller ended by SIGKILL" in listed.stdout
        assert run_lab("exec", "h0", "ping", "-c", "1", "-W", "5", "h1").returncode == 0
        said, _ = lab.process.communicate("exit\n", timeout=60)
        assert lab.process.returncode == 1
        assert "lab: the agent of h1 ended by SIGKILL\n" in said
    finally:
        lab.kill()


def runs(pid: int, *words: str) -> bool:
    """Whether a process runs one of our modules with these arguments."""
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except OSError:
        return False
    return all(word in arguments for word in words)
