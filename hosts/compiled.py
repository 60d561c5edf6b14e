"""The endpoint's hot modules compiled to machine code by mypyc: the same sources, faster.

    python -m hosts.compiled             compile once (a minute or two), kept in the cache
    MRCLAB_COMPILED=1 ./lab drill link-down --time virtual

Optional, and asked for by the environment alone: with `MRCLAB_COMPILED` set and a build of
exactly these sources in the cache, `import hosts.core...` takes the compiled modules; when there
is no such build, with a line on stderr, the sources. The outcome is the same byte for byte.
Needs Python's headers (Debian: python3-dev), setuptools and a C compiler.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

VARIABLE = "MRCLAB_COMPILED"
HERE = Path(__file__).resolve().parent
CORE = (
    *("bitmap", "controls", "endpoint", "endpoint_ops", "loss", "messages", "nic", "psn", "qpcc"),
    *("receiver", "requestor", "responder", "reverse_ev", "rto", "sender", "sendwindow", "timers"),
    "ev/evset",
)
WIRE = ("icrc", "parse")
MODULES = (*(f"hosts/core/{m}.py" for m in CORE), *(f"hosts/wire/{m}.py" for m in WIRE))
"""What is compiled, below the repository. A class of a compiled module cannot be the base of one
that is not, so what is made to be extended stays out: congestion controls, path selectors,
templates of frames."""
SUFFIX: str = sysconfig.get_config_var("EXT_SUFFIX")
TIMEOUT_S = 1800

_CONFIG = "[mypy]\nignore_missing_imports = True\nfollow_imports = silent\n"
_SCRIPT = """\
import sys
from mypyc.build import mypycify
from setuptools import setup
parts = mypycify(["--config-file=mypy.ini", *sys.argv[1:]], opt_level="1", target_dir="build")
setup(name="endpoint", ext_modules=parts, script_args=["-q", "build_ext", "--inplace"])
"""


class CompileError(Exception):
    """Nothing could be compiled; str() is one line."""


def build_dir() -> Path:
    """Where the build of the sources as they are belongs, there or not."""
    key = hashlib.sha256()
    for part in ("core", "wire"):
        for path in sorted((HERE / part).rglob("*.py")):
            key.update(path.relative_to(HERE).as_posix().encode() + b"\0" + path.read_bytes())
    key.update(repr((MODULES, _SCRIPT, _CONFIG, SUFFIX, platform.machine())).encode())
    chosen = os.environ.get("MRCLAB_CACHE") or os.environ.get("XDG_CACHE_HOME")
    cache = Path(chosen) if chosen else Path.home() / ".cache"
    return cache / "mrclab" / f"endpoint-{key.hexdigest()[:32]}"


def build() -> Path:
    """Compile unless that is done; the directory of the build. Raises CompileError."""
    target = build_dir()
    if target.is_dir():
        return target
    if not Path(sysconfig.get_paths()["include"], "Python.h").exists():
        raise CompileError("no Python.h for this Python: apt install python3-dev")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="endpoint-", dir=target.parent) as scratch:
            work = Path(scratch, "work")
            ignored = shutil.ignore_patterns("__pycache__", "*.so")
            shutil.copytree(HERE, work / "hosts", ignore=ignored)
            (work / "mypy.ini").write_text(_CONFIG)
            _compile(work)
            made = Path(scratch, "made")
            for file in (*work.glob(f"*{SUFFIX}"), *(work / "hosts").rglob(f"*{SUFFIX}")):
                to = made / file.relative_to(work)
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(file, to)
            if not target.is_dir():
                made.rename(target)
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


class CompiledFinder(MetaPathFinder):
    """Finds the modules of a build before any other finder looks."""

    def __init__(self, directory: Path) -> None:
        self._files = {
            file.relative_to(directory).as_posix()[: -len(SUFFIX)].replace("/", "."): file
            for file in directory.rglob(f"*{SUFFIX}")
        }

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """As the import system asks."""
        file = self._files.get(fullname)
        return spec_from_file_location(fullname, file) if file is not None else None


def install() -> bool:
    """Let the modules of the build, if there is one, be imported from now on; whether there is."""
    directory = build_dir()
    if not directory.is_dir():
        print(f"{VARIABLE}: not compiled yet: python -m hosts.compiled", file=sys.stderr)
        return False
    sys.meta_path.insert(0, CompiledFinder(directory))
    return True


def main() -> int:
    """Compile; exit status 1 when that is impossible."""
    try:
        print(build())
    except CompileError as error:
        print(f"hosts.compiled: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
