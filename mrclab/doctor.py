"""What this machine has and lacks for the lab. Standard library only.

It must run before the set-up (`./lab doctor` then uses the system's Python), so it
imports nothing that the set-up installs.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

PACKAGES = (
    "mininet",
    "p4runtime-shell",
    "p4runtime",
    "protobuf",
    "scapy",
    "grpcio",
    "cffi",
    "pydantic",
    "ruamel.yaml",
    "matplotlib",
    "pyroute2",
)
TOOLS: dict[str, tuple[list[str], bool, str]] = {
    # name: (command that prints its version, needed?, what it is for)
    "mnexec": (["mnexec", "-v"], True, "Mininet hosts"),
    "cc": (["cc", "--version"], True, "compiles the switch engine"),
    "ip": (["ip", "-V"], True, "interfaces"),
    "ethtool": (["ethtool", "--version"], True, "offload settings"),
    "tcpdump": (["tcpdump", "--version"], False, "captures by hand"),
    "p4c-bm2-ss": (["p4c-bm2-ss", "--version"], False, "--compiler p4c"),
    "simple_switch_grpc": (["simple_switch_grpc", "--version"], False, "--switch bmv2"),
    "simple_switch": (["simple_switch", "--version"], False, "comparison in ./lab bench switch"),
}


@dataclass
class Report:
    """Everything `./lab doctor` says; `missing` holds what keeps the lab from running."""

    mrclab: str
    kernel: str
    system: str
    python: str
    cores: int
    memory_mib: int
    root: bool
    packages: dict[str, str | None] = field(default_factory=dict)
    tools: dict[str, str | None] = field(default_factory=dict)
    namespaces: str = ""
    endpoint: str = ""
    missing: list[str] = field(default_factory=list)


def _first_version(text: str) -> str:
    line = next((part for part in text.splitlines() if part.strip()), "")
    found = re.search(r"\d+(\.\d+)+[\w.+~-]*", text)
    return found.group(0) if found else line.strip()[:40] or "present"


def _tool_version(command: list[str]) -> str | None:
    path = shutil.which(command[0], path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if path is None:
        return None
    try:
        done = subprocess.run(
            [path, *command[1:]], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return "present, but does not start"
    return _first_version(done.stdout + done.stderr)


def _package_versions() -> dict[str, str | None]:
    from importlib import metadata

    versions: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    return versions


def git_version(root: Path) -> str:
    """Version with the commit of the checkout, as far as git knows it."""
    from mrclab import __version__

    try:
        done = subprocess.run(
            [
                "git",
                "-c",
                f"safe.directory={root}",
                "-C",
                str(root),
                "describe",
                "--always",
                "--dirty",
            ],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return __version__
    return f"{__version__}+{done.stdout.strip()}" if done.returncode == 0 else __version__


def _system_name() -> str:
    try:
        text = Path("/etc/os-release").read_text()
    except OSError:
        return platform.system()
    found = re.search(r'^PRETTY_NAME="?([^"\n]+)"?', text, re.M)
    return found.group(1) if found else platform.system()


def _namespaces() -> str:
    """'ok', or why the kernel gives none. Tried in a child so that nothing stays."""
    flags = 0x40000000 | 0x00020000 | 0x20000000
    if os.geteuid() != 0:
        flags |= 0x10000000
    child = os.fork()
    if child == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        os._exit(0 if libc.unshare(flags) == 0 else ctypes.get_errno() & 0xFF)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return "ok" if code == 0 else f"refused: {os.strerror(code)}"


def examine(root: Path) -> Report:
    """Look at the machine. Takes well under a second; changes nothing."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    report = Report(
        mrclab=git_version(root),
        kernel=platform.release(),
        system=_system_name(),
        python=platform.python_version(),
        cores=len(os.sched_getaffinity(0)),
        memory_mib=pages >> 20,
        root=os.geteuid() == 0,
        packages=_package_versions(),
        namespaces=_namespaces(),
    )
    from hosts.compiled import in_use

    report.endpoint = "compiled" if in_use() else "not compiled, half as fast (./lab setup)"
    for name, (command, needed, purpose) in TOOLS.items():
        report.tools[name] = version = _tool_version(command)
        if version is None and needed:
            report.missing.append(f"{name} ({purpose}): sudo ./lab setup")
    absent = [name for name, version in report.packages.items() if version is None]
    if absent:
        report.missing.append(f"Python packages {', '.join(absent)}: sudo ./lab setup")
    if tuple(int(part) for part in platform.python_version_tuple()[:2]) < (3, 10):
        report.missing.append(f"Python 3.10 or newer (this is {report.python})")
    if report.namespaces != "ok":
        what = "root" if report.root else "ordinary users: run with sudo"
        report.missing.append(f"namespaces for {what} ({report.namespaces})")
    return report


def as_text(report: Report) -> str:
    """The report as lines of at most 80 columns."""
    lines = [
        f"mrclab      {report.mrclab}",
        f"system      {report.system}, kernel {report.kernel}",
        f"machine     {report.cores} cores, {report.memory_mib} MiB",
        f"python      {report.python}",
        f"namespaces  {report.namespaces}{'' if report.root else ' (as an ordinary user)'}",
        f"endpoint    {report.endpoint}",
        "packages",
    ]
    lines += [f"  {name:<20}{version or 'absent'}" for name, version in report.packages.items()]
    lines.append("tools")
    for name, (_command, needed, purpose) in TOOLS.items():
        version = report.tools[name] or ("absent" if needed else "absent (optional)")
        lines.append(f"  {name:<20}{version:<20}{purpose}")
    if report.missing:
        lines.append("missing")
        lines += [f"  {entry}" for entry in report.missing]
    else:
        lines.append("nothing is missing")
    return "\n".join(lines)


def main(argv: list[str], root: Path) -> int:
    """`python3 -m mrclab.doctor [--json]`. Returns 0, or 1 when something is missing."""
    unknown = [word for word in argv if word not in ("--json", "-h", "--help")]
    if unknown:
        print(
            f"lab doctor: no such option: {unknown[0]} (see ./lab doctor --help)", file=sys.stderr
        )
        return 2
    if "-h" in argv or "--help" in argv:
        print(
            "Usage: lab doctor [--json]\n\n  Print versions and what is absent. Exit status 1 "
            "when something that\n  the lab needs is missing.\n\n  Example: ./lab doctor --json"
        )
        return 0
    report = examine(root)
    print(json.dumps(asdict(report), indent=2) if "--json" in argv else as_text(report))
    return 1 if report.missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Path(__file__).resolve().parent.parent))
