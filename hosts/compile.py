"""Compile the endpoint's hot modules with mypyc (part of mypy): the same sources, twice as fast.

    ./lab setup                 does it (a minute or two); the build is kept beside the environment
    python -m hosts.compile     the same by itself; --check: exit status 0 when that is done

Needs Python's headers (Debian: python3-dev), setuptools and a C compiler.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from hosts.compiled import MODULES, READ, ROOT, SUFFIX, VARIABLE, build_dir

TIMEOUT_S = 1800

_CONFIG = "[mypy]\nignore_missing_imports = True\nfollow_imports = silent\n"
_SCRIPT = """\
import sys
from mypyc.build import mypycify
from setuptools import setup
parts = mypycify(["--config-file=mypy.ini", *sys.argv[1:]], opt_level="2", target_dir="build")
setup(name="endpoint", ext_modules=parts, script_args=["-q", "build_ext", "--inplace"])
"""


class CompileError(Exception):
    """Nothing could be compiled; str() is one line."""


def build() -> Path:
    """Compile unless that is done; the directory of the build. Raises CompileError."""
    target = build_dir()
    if target.is_dir():
        return target
    if not Path(sysconfig.get_paths()["include"], "Python.h").exists():
        raise CompileError("no Python.h for this Python: apt install python3-dev")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="making-", dir=target.parent) as scratch:
            work = Path(scratch, "work")
            ignored = shutil.ignore_patterns("__pycache__", "*.so")
            for package in {Path(part).parts[0] for part in READ}:
                shutil.copytree(ROOT / package, work / package, ignore=ignored)
            (work / "mypy.ini").write_text(_CONFIG)
            _compile(work)
            made = Path(scratch, "made")
            shutil.rmtree(work / "build")
            for file in work.rglob(f"*{SUFFIX}"):
                to = made / file.relative_to(work)
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(file, to)
            if not target.is_dir():
                made.rename(target)
            for old in target.parent.glob("endpoint-*"):
                if old != target:
                    shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise CompileError(f"cannot compile in {target.parent}: {error}") from None
    return target


def _compile(work: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if k not in (VARIABLE, "PYTHONPATH")}
    try:
        done = subprocess.run(
            [sys.executable, "-c", _SCRIPT, *MODULES],
            cwd=work, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise CompileError(f"compiling took longer than {TIMEOUT_S} s") from None
    if done.returncode:
        said = f"{done.stdout}\n{done.stderr}".strip().splitlines()
        errors = [line for line in said if "error" in line.lower()] or said or ["no message"]
        raise CompileError(f"compiling failed: {errors[-1].strip()}")


def main(arguments: list[str]) -> int:
    """Compile; exit status 1 when that is impossible."""
    if arguments not in ([], ["--check"]):
        print("usage: python -m hosts.compile [--check]", file=sys.stderr)
        return 2
    if arguments:
        return 0 if build_dir().is_dir() else 1
    try:
        print(build())
    except CompileError as error:
        print(f"hosts.compile: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
