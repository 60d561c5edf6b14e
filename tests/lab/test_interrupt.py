"""Ctrl-C at a terminal ends what runs in front, and nothing of the lab behind it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import subprocess
import termios
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.lab.conftest import LIMIT, environment, lab_argv
from tests.waiting import wait_for

pytestmark = [pytest.mark.net, pytest.mark.realtime]


@dataclass
class Terminal:
    """A command with a terminal of its own."""

    process: subprocess.Popen[bytes]
    end: int
    said: str = ""

    def type(self, text: str) -> None:
        os.write(self.end, text.encode())

    def shows(self, pattern: str) -> bool:
        """Whether the pattern has come up since the last one that did."""
        try:
            self.said += os.read(self.end, 1 << 16).decode(errors="replace")
        except BlockingIOError:
            pass
        except OSError:  # the command has ended
            pass
        found = re.search(pattern, self.said)
        if found is None:
            return False
        self.said = self.said[found.end() :]
        return True

    def await_text(self, pattern: str) -> None:
        wait_for(f"the terminal shows {pattern!r}", lambda: self.shows(pattern), LIMIT)


def open_terminal(*arguments: str) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    process = subprocess.Popen(
        lab_argv(*arguments),
        env=environment(),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 (no threads)
    )
    os.close(theirs)
    yield Terminal(process, ours)
    process.kill()
    process.wait()
    os.close(ours)


@pytest.fixture
def up() -> Iterator[Terminal]:
    yield from open_terminal("up")


@pytest.fixture
def drill(tmp_path: str) -> Iterator[Terminal]:
    yield from open_terminal("drill", "link-down", "--out", f"{tmp_path}/run")


def test_at_the_prompt_it_ends_the_command_only(up: Terminal) -> None:
    up.await_text("mininet> ")
    up.type("h0 ping h2\n")
    up.await_text(r"icmp_seq=\d+")
    up.type("\x03")
    up.await_text("mininet> ")
    up.type("h0 ping -c 1 -W 5 h2\n")
    up.await_text("1 received")
    up.await_text("mininet> ")  # what is typed before goes to the host's shell
    up.type("exit\n")
    wait_for("the lab has ended", lambda: up.shows("") and up.process.poll() is not None, LIMIT)
    assert up.process.returncode == 0  # 1: an agent or a switch was lost


def test_a_drill_says_so_in_one_line(drill: Terminal) -> None:
    drill.await_text("link down")
    drill.type("\x03")
    drill.await_text("lab: interrupted")
    wait_for("it has ended", lambda: drill.process.poll() is not None, LIMIT)
    assert drill.process.returncode == 130
