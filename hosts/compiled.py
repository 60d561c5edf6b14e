"""The endpoint's hot modules compiled to machine code, when there is a build of them (`compile`).

With a build of exactly these sources in the environment, `import hosts.core...` takes the compiled
modules. Without - somebody is changing the sources, or nothing could be compiled - it takes the
sources; the outcome is the same byte for byte, at half the speed.

    MRCLAB_COMPILED=0 ./lab ...          the sources as they are, whatever there is
    MRCLAB_COMPILED=1 ./lab ...          complains on stderr when there is no build
"""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

VARIABLE = "MRCLAB_COMPILED"
ROOT = Path(__file__).resolve().parents[1]
CORE = (
    *("bitmap", "constants", "control", "controls", "endpoint", "endpoint_ops", "faults", "link"),
    *("loss", "memory", "messages", "nic", "probes", "psn", "qp", "qpcc", "receiver", "requestor"),
    *("responder", "reverse_ev", "rto", "sender", "sendwindow", "timers"),
    *("cc/base", "cc/fixed", "cc/nscc", "ev/evset", "ev/selector", "ev/state"),
)
WIRE = ("constants", "encap", "entropy", "headers", "icrc", "parse", "template")
VIRTUAL = ("host", "shard")
MODULES = (
    *(f"hosts/core/{m}.py" for m in CORE),
    *(f"hosts/wire/{m}.py" for m in WIRE),
    *(f"virtualtime/{m}.py" for m in VIRTUAL),
)
"""What is compiled, below the repository. A class of these cannot be the base of one that is not
compiled, unless it says so (`mypyc_attr`): congestion controls and path selectors do."""
READ = ("hosts/core", "hosts/wire", "hosts/agent", "virtualtime")
"""Where the sources are whose types the compiled code relies on."""
SUFFIX: str = sysconfig.get_config_var("EXT_SUFFIX")
RECIPE = 1
"""Counted up when the same sources are compiled in another way."""


def build_dir() -> Path:
    """Where the build of the sources as they are belongs, there or not."""
    key = hashlib.sha256()
    for part in READ:
        for path in sorted((ROOT / part).rglob("*.py")):
            key.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    key.update(repr((MODULES, RECIPE, SUFFIX, os.uname().machine)).encode())
    return Path(sys.prefix) / "mrclab" / f"endpoint-{key.hexdigest()[:32]}"


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
    """Let the modules of the build, if there is one, be imported from now on; whether they are."""
    wanted = os.environ.get(VARIABLE, "")
    if wanted == "0":
        return False
    directory = build_dir()
    if not directory.is_dir():
        if wanted:
            print(f"{VARIABLE}: not compiled: python -m hosts.compile", file=sys.stderr)
        return False
    sys.meta_path.insert(0, CompiledFinder(directory))
    return True


def in_use() -> bool:
    """Whether this process runs the compiled endpoint."""
    return any(isinstance(finder, CompiledFinder) for finder in sys.meta_path)


def compiled_note() -> str:
    """What to add where a person is told that hosts start: nothing when they are compiled."""
    return "" if in_use() else " (not compiled)"
