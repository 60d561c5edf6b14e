"""How long switches take to start and what they weigh: one by itself, and 64 as a farm.

Everything is warm: the program is compiled. A switch counts as started when it listens for
P4Runtime with the fabric program loaded and its two interfaces open. Memory is the
proportional share (PSS), so that what forked processes have in common counts once, and the
resident size (RSS), which is what a tool shows for the process.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from softswitch.p4.api import compile_program
from softswitch.spawn import SwitchArgs, SwitchFarm

FABRIC = Path(__file__).resolve().parent.parent / "p4src" / "mrc_fabric.p4"
SWITCHES = 64


def memory_mib(pid: int) -> tuple[float, float]:
    """(PSS, RSS) of a process in MiB."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    sizes = dict(re.findall(r"^(Pss|Rss):\s+(\d+) kB", text, re.M))
    return int(sizes["Pss"]) / 1024, int(sizes["Rss"]) / 1024


@contextmanager
def interfaces(count: int) -> Iterator[list[str]]:
    """Names of `count` pairs of connected interfaces, in the namespace we are in."""
    lines = [f"link add u{i} type veth peer name v{i}" for i in range(count)]
    lines += [f"link set {side}{i} up" for i in range(count) for side in "uv"]
    subprocess.run(
        ["ip", "-batch", "-"], input="\n".join(lines), text=True, check=True, capture_output=True
    )
    try:
        yield [str(i) for i in range(count)]
    finally:
        gone = "\n".join(f"link del u{i}" for i in range(count))
        subprocess.run(["ip", "-batch", "-"], input=gone, text=True, check=False)


def start(count: int, program: Path, p4info: Path) -> dict[str, float]:
    """Start a farm of `count` switches once."""
    switches = [
        SwitchArgs(
            f"s{i}",
            (
                str(program),
                "--p4info", str(p4info),
                "-i", f"1@u{i}",
                "-i", f"2@v{i}",
                "--device-id", str(i + 1),
                "--grpc-server-addr", "127.0.0.1:0",
                "--priority-queues", "2",
                "-L", "off",
            ),
        )
        for i in range(count)
    ]  # fmt: skip
    farm = SwitchFarm()
    begin = time.monotonic()
    try:
        running = farm.start(switches, timeout=120)
        seconds = time.monotonic() - begin
        weights = [memory_mib(p.pid) for p in running.values()]
    finally:
        farm.stop()
    return {
        "seconds": seconds,
        "pss_mib": sum(p for p, _ in weights) / count,
        "rss_mib": sum(r for _, r in weights) / count,
    }


def run(count: int = SWITCHES) -> dict[str, Any]:
    """Inside a network namespace of our own."""
    with tempfile.TemporaryDirectory() as tmp, interfaces(count):
        program, p4info = compile_program(FABRIC, Path(tmp))
        start(1, program, p4info)  # compiles, if anything has to be
        one = min((start(1, program, p4info) for _ in range(3)), key=lambda x: x["seconds"])
        many = start(count, program, p4info)
    return {
        "one_seconds": one["seconds"],
        "one_rss_mib": one["rss_mib"],
        "farm_switches": count,
        "farm_seconds": many["seconds"],
        "farm_seconds_per_switch": many["seconds"] / count,
        "farm_pss_mib": many["pss_mib"],
        "farm_rss_mib": many["rss_mib"],
    }
