"""./lab test leaves nothing running."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from mrclab import ROOT
from tests.waiting import wait_for

PARENT = """
import os, sys
from mrclab.commands.test import _run_bound
sys.exit(_run_bound(["sh", "-c", "echo $$ > {pid}; exec tail -f /dev/null"], dict(os.environ)))
"""


def test_what_it_started_ends_with_it(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT.format(pid=pid)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    wait_for("the child runs", lambda: pid.exists() and pid.read_text().strip() != "")
    child = Path(f"/proc/{int(pid.read_text())}/exe")
    assert child.exists()
    parent.kill()
    parent.wait()
    wait_for("the child is gone", lambda: not child.exists())
