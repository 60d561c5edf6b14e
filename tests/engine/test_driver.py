"""The real-time driver on veth pairs, in a network namespace of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.net

ROOT = Path(__file__).parents[2]


def in_namespace(module: str, *args: str, timeout: int = 120) -> str:
    """Output of `python -m module` in fresh user and network namespaces."""
    if shutil.which("unshare") is None:
        pytest.skip("unshare is not installed")
    how = ["--net"] if os.geteuid() == 0 else ["--user", "--map-root-user", "--net"]
    probe = subprocess.run(["unshare", *how, "true"], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("no network namespaces here")
    done = subprocess.run(
        ["unshare", *how, sys.executable, "-m", module, *args],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout


@pytest.mark.parametrize(
    "case", ["forward", "vlan", "link_state", "reload", "errors", "idle", "control"]
)
def test_driver(case: str) -> None:
    assert "ok" in in_namespace("tests.engine.driver_cases", case)


@pytest.mark.slow
def test_bench_measures() -> None:
    """The bench runs; what its figures say depends on the machine."""
    out = in_namespace("bench.switch", "--sizes", "1024", "--rounds", "1", "--ms", "200")
    r = json.loads(out)["1024 B"]
    assert r["forwarder_pps"] > 0
    assert r["switch_pps"] > 0


def test_pacing() -> None:
    """100 Mb/s on two ports at once: nothing arrives early, nothing is lost."""
    assert "ok" in in_namespace("tests.engine.driver_cases", "pacing")
