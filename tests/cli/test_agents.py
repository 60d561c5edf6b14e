"""What is said when a part of the lab is gone."""

from __future__ import annotations

import signal
import socket
import subprocess
from functools import partial
from pathlib import Path

import pytest

from hosts.agent.client import AgentClient, AgentError
from mrclab.commands.drill import _tidy
from mrclab.hostagents import describe_end


def agent() -> subprocess.Popen[str]:
    return subprocess.Popen(["cat"], stdin=subprocess.PIPE, text=True)


def test_an_agent_that_was_killed_is_named(tmp_path: Path) -> None:
    path = tmp_path / "h0.sock"
    process = agent()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        client = AgentClient(path, why_gone=partial(describe_end, "h0", process))
        connection, _ = server.accept()
        connection.close()
        process.send_signal(signal.SIGKILL)
        with pytest.raises(AgentError, match=r"^the agent of h0 ended by SIGKILL$"):
            client.hello()
    process.communicate()


def test_an_agent_that_ended_by_itself() -> None:
    process = agent()
    process.communicate()
    assert describe_end("h0", process) == "the agent of h0 ended with status 0"


def test_no_folder_is_left_of_a_lab_that_did_not_come_up(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    (empty / "agents").mkdir(parents=True)
    assert _tidy(empty, made_here=True) == ""
    assert not empty.exists()
    (tmp_path / "logged").mkdir()
    log = tmp_path / "logged" / "p0t0-0.log"
    log.write_text("why\n")
    assert _tidy(tmp_path / "logged", made_here=True) == f" (logs: {tmp_path / 'logged'})"
    assert log.exists()
