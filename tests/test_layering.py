"""Dependencies point inwards: what decides does no I/O and reads no clock.

The rule and the list of cores are in docs/architecture.md.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

CORES: dict[str, set[str]] = {
    # folder: files in it that are drivers, may do I/O and are not imported by the core
    "drills": {
        "faults.py",
        "flows.py",
        "kernel.py",
        "progress.py",
        "rejudge.py",
        "report.py",
        "runner.py",
        "samples.py",
        "waiting.py",
    },
    "controller/mrc": {"__main__.py", "service.py"},
    "hosts/core": set(),
    "hosts/probing": set(),
    "hosts/wire": {"layers.py"},
    "softswitch/p4": {"__init__.py", "__main__.py", "api.py"},
    "virtualtime": {
        "controller.py",
        "fabric.py",
        "host.py",
        "links.py",
        "shard.py",
        "testbed.py",
        "workers.py",
        "world.py",
    },
    "topologies": {
        "bmv2.py",
        "bmv2ctl.py",
        "builder.py",
        "kernel.py",
        "links.py",
        "netlink.py",
        "offloads.py",
        "switches.py",
        "waiting.py",
    },
}
SHARED = {"mrclab/errors.py"}
"""What a core may import of the project besides cores."""
FORBIDDEN = {
    "asyncio",
    "cffi",
    "ctypes",
    "datetime",
    "fcntl",
    "grpc",
    "mininet",
    "multiprocessing",
    "p4runtime_sh",
    "platform",
    "pyroute2",
    "rich",
    "scapy",
    "secrets",
    "select",
    "selectors",
    "signal",
    "socket",
    "subprocess",
    "threading",
    "time",
}
RANDOM_NAMES = {"Random"}


def imports(path: Path) -> list[tuple[str, str | None]]:
    """(module, name) of every import in a file, those inside functions too."""
    found: list[tuple[str, str | None]] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [(alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [(node.module, alias.name) for alias in node.names]
    return found


def is_core(path: Path) -> bool:
    return any(
        path.is_relative_to(ROOT / folder)
        and path.relative_to(ROOT / folder).as_posix() not in drivers
        for folder, drivers in CORES.items()
    )


def core_files() -> list[Path]:
    found = [path for folder in CORES for path in sorted((ROOT / folder).rglob("*.py"))]
    return [path for path in found if is_core(path)]


def project_files(module: str, name: str | None) -> list[Path]:
    """Files of this repository that an import runs, packages' __init__ aside."""
    names = [module, *([f"{module}.{name}"] if name else [])]
    paths = [ROOT / f"{dotted.replace('.', '/')}.py" for dotted in names]
    return [path for path in paths if path.exists()]


@pytest.mark.parametrize("folder", CORES)
def test_the_table_names_what_is_there(folder: str) -> None:
    for driver in CORES[folder]:
        assert (ROOT / folder / driver).is_file(), f"{folder}/{driver} has moved or is gone"
    files = (ROOT / folder).rglob("*.py")
    assert any(map(is_core, files)), f"{folder} has no core or has moved"


@pytest.mark.parametrize("path", core_files(), ids=lambda p: str(p.relative_to(ROOT)))
def test_core_does_no_io(path: Path) -> None:
    wrong = [
        f"{module}{'.' + name if name else ''}"
        for module, name in imports(path)
        if module.split(".")[0] in FORBIDDEN or (module == "random" and name not in RANDOM_NAMES)
    ]
    where = path.relative_to(ROOT)
    assert not wrong, (
        f"{where} imports {', '.join(wrong)}: a core gets clock and bytes as arguments"
    )


@pytest.mark.parametrize("path", core_files(), ids=lambda p: str(p.relative_to(ROOT)))
def test_core_imports_no_driver(path: Path) -> None:
    wrong = [
        where
        for module, name in imports(path)
        for file in project_files(module, name)
        if not is_core(file) and (where := file.relative_to(ROOT).as_posix()) not in SHARED
    ]
    assert not wrong, f"{path.relative_to(ROOT)} imports {', '.join(wrong)}: a driver, or outside"
