"""Whole labs, started the way a user starts them: through ./lab."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mrclab.namespace import RUN_ENV
from tests.waiting import wait_for

ROOT = Path(__file__).resolve().parent.parent.parent

LIMIT = 120.0
"""Seconds; a lab is up in three on an idle machine."""


def environment() -> dict[str, str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "MRCLAB_ROOT": str(ROOT)}
    env.pop(RUN_ENV, None)
    return env


def lab_argv(*arguments: str) -> list[str]:
    """The command line behind ./lab, with the Python that runs the tests."""
    return [sys.executable, "-m", "mrclab", *arguments]


def run_lab(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        lab_argv(*arguments),
        env=environment(),
        cwd=ROOT,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


@dataclass
class UpLab:
    """A lab started with `./lab up`, its prompt waiting."""

    process: subprocess.Popen[str]

    @property
    def run_id(self) -> str | None:
        return next((e["run_id"] for e in self._ps() if e["parent"] == self.process.pid), None)

    def state(self) -> dict[str, Any]:
        return next((e for e in self._ps() if e["parent"] == self.process.pid), {})

    @staticmethod
    def _ps() -> list[dict[str, Any]]:
        entries = json.loads(run_lab("ps", "--json").stdout)
        for entry in entries:
            entry["parent"] = parent_of(entry["pid"])
        return list(entries)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def parent_of(pid: int) -> int:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    return int(stat.rpartition(")")[2].split()[1])


def start_up(*arguments: str) -> UpLab:
    process = subprocess.Popen(
        lab_argv("up", *arguments),
        env=environment(),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    lab = UpLab(process)

    def stands() -> bool:
        if process.poll() is not None:
            pytest.fail(f"lab up ended: {process.stdout.read() if process.stdout else ''}")
        return "switches" in lab.state()

    wait_for("the lab is up", stands, LIMIT)
    return lab


@pytest.fixture
def up_lab() -> Iterator[UpLab]:
    lab = start_up()
    yield lab
    lab.kill()
