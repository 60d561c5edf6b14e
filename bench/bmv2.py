"""simple_switch on the links of the switch bench, when it is on the PATH.

It loses throughput when it is flooded, so it is offered several rates and the best result
counts. Its tables are those that `bench.switch.set_up_fabric` gives to our engine.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

RATES = (15_000, 25_000, 40_000)
"""Offered packets/s."""
THRIFT_PORT = 9090


class Bmv2Error(Exception):
    """simple_switch did not start or refused a table."""


def available() -> bool:
    """Both simple_switch and simple_switch_CLI are on the PATH."""
    return bool(shutil.which("simple_switch") and shutil.which("simple_switch_CLI"))


def fabric_commands(out: int, destination: int) -> list[str]:
    """The fabric's tables in the language of simple_switch_CLI."""
    i = "FabricIngress."
    sel = f"{i}uplink_selector"
    prefix = destination >> 80 << 80
    lines = [f"table_set_default {i}salt {i}set_salt {0x1234567}"]
    for n in range(8):
        host = destination + (n + 1 << 64)
        lines.append(f"table_add {i}route {i}forward {host:#034x}/128 => 1 2 3")
    lines.append(f"table_add {i}route {i}spray {prefix:#034x}/48 => 1")
    lines.append(f"act_prof_create_group {sel}")
    for n in range(4):
        lines.append(f"act_prof_create_member {sel} {i}forward {out} 2 {3 + n}")
        lines.append(f"act_prof_add_member_to_group {sel} {n} 0")
    lines.append(f"table_indirect_add_with_group {i}uplinks 1 => 0")
    for dscp, action in ((10, "trimmable_class"), (14, "trimmable_class"), (46, "control_class")):
        lines.append(f"table_add {i}classes {i}{action} {dscp} =>")
    lines.append(f"table_add {i}trim_profile {i}trim_at {out} => 30 168 12 1000000")
    lines.append(f"table_add FabricEgress.ecn FabricEgress.mark_between {out} => 6 24 3641")
    return lines


class SimpleSwitch:
    """A running simple_switch with its interfaces; a context manager."""

    def __init__(
        self, program: Mapping[str, Any], interfaces: Mapping[int, str], tmp: Path
    ) -> None:
        self.source = tmp / "bmv2.json"
        self.source.write_text(json.dumps(program))
        self.args = ["simple_switch", "--thrift-port", str(THRIFT_PORT), "-L", "off"]
        for port, name in interfaces.items():
            self.args += ["-i", f"{port}@{name}"]
        self.args += [str(self.source), "--", "--priority-queues", "2"]
        self.tmp = tmp

    def __enter__(self) -> SimpleSwitch:
        self.proc = subprocess.Popen(
            self.args, cwd=self.tmp, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        end = time.monotonic() + 15
        while True:
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", THRIFT_PORT)) == 0:
                    return self
            if self.proc.poll() is not None or time.monotonic() > end:
                self.__exit__()
                raise Bmv2Error("simple_switch did not start")
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.proc.wait(0.05)

    def __exit__(self, *_: object) -> None:
        self.proc.terminate()
        self.proc.wait(timeout=10)

    def commands(self, lines: Sequence[str]) -> None:
        """Run CLI commands; raises Bmv2Error when one is refused."""
        done = subprocess.run(
            ["simple_switch_CLI", "--thrift-port", str(THRIFT_PORT)],
            input="\n".join([*lines, ""]),
            capture_output=True,
            text=True,
            check=False,
        )
        for line in (done.stdout + done.stderr).splitlines():
            if "nvalid" in line or "rror" in line:
                raise Bmv2Error(f"simple_switch_CLI: {line}")


def measure(
    program: Mapping[str, Any],
    destination: int,
    sizes: Sequence[int],
    tmp: Path,
    through: Callable[[int, int], float],
) -> dict[str, Any]:
    """Packets/s by frame size, empty when bmv2 is absent or the program is not the fabric's.

    `through(size, rate)` offers frames and returns how many per second came out.
    """
    actions = {a.get("name") for a in program.get("actions", ())}
    if not available() or "FabricIngress.spray" not in actions:
        return {}
    out: dict[str, Any] = {}
    with SimpleSwitch(program, {1: "s0", 2: "s1"}, tmp) as switch:
        switch.commands(fabric_commands(2, destination))
        for size in sizes:
            out[f"{size} B pps"] = max(through(size, rate) for rate in RATES)
    return out
