"""The pipeline in real switch processes, over veth pairs and P4Runtime.

Our switch must forward what the plan predicts; bmv2, where it is on the PATH, must give the
same frames, bytes and counters.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from softswitch.p4 import compile_program
from tests.switch_kinds import KINDS, command, expected

ROOT = Path(__file__).parents[2]
INSIDE = 'mount -t sysfs none /sys; exec "$@"'
"""bmv2 reads port state from /sys, which must be that of the new network namespace."""

pytestmark = pytest.mark.net


def enter() -> list[str]:
    base = ["unshare", "--net", "--mount", "--fork", "--kill-child"]
    return base if os.geteuid() == 0 else [*base, "--map-root-user"]


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> tuple[Path, Path]:
    return compile_program(ROOT / "p4src/mrc_fabric.p4", tmp_path_factory.mktemp("p4"), "builtin")


def run(files: tuple[Path, Path], *command: str) -> dict:
    live = [sys.executable, "-m", "tests.p4src.live", *map(str, files), *command]
    done = subprocess.run(
        [*enter(), "sh", "-ec", INSIDE, "sh", *live],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    result: dict = json.loads(done.stdout)
    return result


@pytest.fixture(scope="module")
def ours(files) -> dict:
    return run(files, *command("builtin"))


def test_our_switch_over_the_wire(ours):
    assert ours["updates"][0] > 15
    assert ours["again"] == [0, 0, 0]
    assert ours["alive"]
    received = sum(p["received"]["packets"] for p in ours["counters"].values())
    drops = [c["packets"] for p in ours["counters"].values() for c in p["drops"].values()]
    assert received - sum(drops) == len(ours["out"])
    assert sum(drops) == 4
    assert {port for port, _ in ours["out"]} == {2, 3, 4}


def test_our_switch_fails_over_by_itself(ours):
    assert ours["failover"] == [[3, 4], [4], [], [3]]


@pytest.mark.parametrize("kind", KINDS[1:])
def test_bmv2_does_exactly_the_same(files, ours, kind):
    theirs = run(files, *command(kind))
    again = expected(kind, "updates to what is there", ours["again"])
    assert theirs == {**ours, "again": again}
