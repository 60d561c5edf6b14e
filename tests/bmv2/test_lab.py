"""A whole fabric on bmv2: comes up, forwards, is cut and mended, and its frames are counted."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab.conftest import run_lab
from tests.topologies.inside import ROOT, command

pytestmark = [
    pytest.mark.bmv2,
    pytest.mark.net,
    pytest.mark.realtime,
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(
        shutil.which("simple_switch_grpc") is None, reason="simple_switch_grpc is not on the PATH"
    ),
]


def test_a_fabric_on_bmv2(tmp_path: Path) -> None:
    ran = subprocess.run(
        [*command(), sys.executable, "-m", "tests.bmv2.live", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=115,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_lab_up_on_bmv2() -> None:
    done = run_lab("up", "--switch", "bmv2", stdin="h0 ping -c 1 -W 5 h2\n")
    if done.returncode == 3:
        # A machine that is too busy for the self-test says so and is no failure of bmv2.
        assert "self-test" in done.stderr
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 packets transmitted, 1 received" in done.stdout


DRILL = """\
name: short-cut
title: A T0-T1 link is cut for a while
fabric: two-plane
workload:
  flows:
    - {from: h0, to: h2}
  message: 64 KiB
  outstanding: 4
  memory: 64 MiB
duration: 4 s
timeline:
  - {fault: link_down, link: "p0t0-0:p0t1-0", at: 1 s, until: 2500 ms}
expect:
  memory_mismatches: {at_most: 0}
  bytes_missing: {at_most: 0}
  duplicates_delivered: {at_most: 0}
"""


def test_a_drill_on_bmv2_accounts_for_every_frame(tmp_path: Path) -> None:
    """What must hold on any machine: no wrong byte, and a ledger that balances."""
    path = tmp_path / "short-cut.yaml"
    path.write_text(DRILL)
    arguments = ["--switch", "bmv2", "--slow", "2", "--out", str(tmp_path / "run"), "--json"]
    done = run_lab("drill", str(path), *arguments)
    if not done.stdout:
        assert done.returncode == 3
        assert "self-test" in done.stderr
        pytest.skip(done.stderr.strip().splitlines()[-1])
    summary = json.loads(done.stdout)
    assert summary["verdict"] in ("pass", "void")
    if summary["verdict"] == "void":
        assert summary["why"][0].startswith("the machine did not keep up")
    ledger = summary["ledger"]
    assert ledger["balanced"], ledger
    assert set(ledger["drops"]) <= {"tx_error", "queue_full", "rx_socket", "kernel"}
    assert "; not known: how late bmv2 served its queues" in summary["fidelity"]
    assert summary["run"]["switch"] == "bmv2"
    assert summary["run"]["time_scale"] == 4000
    assert {e["name"] for e in summary["expectations"] if not e["ok"]} <= {"fidelity"}
