"""mrclab/setup.sh where it must refuse or stop; what it installs is tried on clean machines."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from mrclab import ROOT
from tests.waiting import wait_for

SETUP = ROOT / "mrclab" / "setup.sh"

pytestmark = pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="not Debian")


def fake_tools(folder: Path, python: str) -> dict[str, str]:
    """A PATH on which every package is installed and `python3` is a script."""
    folder.mkdir()
    scripts = {"dpkg-query": "#!/bin/sh\necho installed\n", "python3": python}
    for name, text in scripts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


def test_another_checkouts_environment_is_left_alone(tmp_path: Path) -> None:
    venv, other = tmp_path / "venv", tmp_path / "other"
    venv.mkdir()
    other.mkdir()
    (other / "lab").touch()
    (venv / ".mrclab-checkout").write_text(f"{other}\n")
    (venv / ".mrclab-setup").write_text("older\n")
    env = fake_tools(tmp_path / "bin", "#!/bin/sh\nexit 1\n")
    done = subprocess.run(
        ["sh", str(SETUP), "newer"],
        env={**env, "MRCLAB_ROOT": str(ROOT), "MRCLAB_VENV": str(venv)},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == 2
    assert f"that of the checkout {other}" in done.stderr
    assert done.stderr.count("\n") == 1
    assert (venv / ".mrclab-setup").read_text() == "older\n"


def test_it_stops_when_nobody_waits(tmp_path: Path) -> None:
    """Killed with its ./lab, the set-up does not go on by itself."""
    marker = tmp_path / "step"
    cases = f"-V) echo Python 0 ;; -c) ;; *) echo $$ >{marker}; exec tail -f /dev/null ;;"
    slow = f'#!/bin/sh\ncase "$1" in {cases} esac\n'
    env = fake_tools(tmp_path / "bin", slow)
    text = SETUP.read_text().replace("/usr/bin/python3 python3", "python3")
    copy = tmp_path / "setup.sh"
    copy.write_text(text)
    caller = subprocess.Popen(
        ["sh", "-c", f"sh {copy} stamp; true"],
        env={**env, "MRCLAB_ROOT": str(ROOT), "MRCLAB_VENV": str(tmp_path / "venv")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_for("a step runs", lambda: marker.exists() and marker.read_text().strip() != "")
    step = int(marker.read_text())
    caller.kill()
    caller.wait()
    wait_for("the step is gone", lambda: not Path(f"/proc/{step}/exe").exists())
    assert not (tmp_path / "venv" / ".mrclab-setup").exists()
