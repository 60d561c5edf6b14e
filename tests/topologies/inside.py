"""Runs one function of scenarios.py inside namespaces of its own.

``run("name")`` from a test; ``python -m tests.topologies.inside name`` is what runs inside.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNSHARE = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]


def command() -> list[str]:
    """The unshare command; as an ordinary user in a user namespace too."""
    return UNSHARE if os.geteuid() == 0 else [*UNSHARE, "--user", "--map-root-user"]


def run(scenario: str, tmp_path: Path, timeout: float = 60) -> None:
    """Run a scenario; its failure is the test's failure, with its output."""
    tried = subprocess.run([*command(), "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"no namespaces here: {tried.stderr.strip()}")
    ran = subprocess.run(
        [*command(), sys.executable, "-m", "tests.topologies.inside", scenario, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


if __name__ == "__main__":
    from tests.topologies import scenarios

    getattr(scenarios, sys.argv[1])(Path(sys.argv[2]))
