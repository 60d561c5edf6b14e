"""Runs p4c's bmv2 compiler where a machine has it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from softswitch.p4.diagnostics import Diagnostic, P4Error

TIMEOUT_S = 300


def find() -> str | None:
    """Path of p4c-bm2-ss, or None."""
    return shutil.which("p4c-bm2-ss")


def compile_with_p4c(path: Path, out_dir: Path) -> tuple[Path, Path]:
    """NAME.json and NAME.p4info.txtpb by p4c. Raises P4Error with p4c's own messages."""
    tool = find()
    if tool is None:
        message = "p4c-bm2-ss is not on the PATH; use the builtin compiler"
        raise P4Error([Diagnostic(str(path), 1, 1, message)])
    out_dir.mkdir(parents=True, exist_ok=True)
    json_path = out_dir / f"{path.stem}.json"
    info_path = out_dir / f"{path.stem}.p4info.txtpb"
    command = [tool, "--std", "p4-16", "-o", str(json_path)]
    command += ["--p4runtime-files", str(info_path), str(path)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise P4Error([Diagnostic(str(path), 1, 1, f"p4c-bm2-ss: {error}")]) from None
    if done.returncode != 0:
        text = done.stderr.strip() or f"p4c-bm2-ss exited with {done.returncode}"
        raise P4Error([Diagnostic(str(path), 1, 1, text)])
    return json_path, info_path
