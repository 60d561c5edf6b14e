"""Dependencies point inwards: what decides does no I/O and reads no clock.

The rule and the list of cores are in docs/architecture.md.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

CORES = {
    # folder: modules in it that are drivers and may do I/O
    "hosts/core": set(),
    "hosts/wire": {"layers.py"},
    "topologies": {
        "builder.py",
        "links.py",
        "netlink.py",
        "kernel.py",
        "switches.py",
        "offloads.py",
        "waiting.py",
    },
    "softswitch/p4": set(),
}
FORBIDDEN = {
    "asyncio",
    "cffi",
    "grpc",
    "mininet",
    "multiprocessing",
    "p4runtime_sh",
    "pyroute2",
    "scapy",
    "secrets",
    "select",
    "selectors",
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


def core_files() -> list[Path]:
    return [
        path
        for folder, drivers in CORES.items()
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path.name not in drivers
    ]


def test_there_are_cores() -> None:
    for folder in CORES:
        assert list((ROOT / folder).rglob("*.py")), f"{folder} is empty or has moved"


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
