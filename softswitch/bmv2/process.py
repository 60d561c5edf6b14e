"""simple_switch as a process: finding it, and knowing when it has nothing left to do."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

SWITCH = "simple_switch"
SWITCH_GRPC = "simple_switch_grpc"


def find(name: str) -> str | None:
    """Path of one of bmv2's programs, or None."""
    return shutil.which(name)


def free_port() -> int:
    """A TCP port on loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


Activity = dict[str, int]
"""Thread -> how often it was given the processor."""


def activity(pid: int) -> Activity | None:
    """What the threads of a process have done so far; None while one of them runs or could, and
    when the process is gone.

    Two equal readings in a row mean that nothing happened between them: a thread that hands
    a packet to another one makes that one runnable before it sleeps itself.
    """
    seen: Activity = {}
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        texts = [(task.name, (task / "status").read_text()) for task in tasks]
    except OSError:
        return None
    for name, status in texts:
        switches = 0
        for line in status.splitlines():
            key, _, value = line.partition(":")
            if key == "State" and value.split()[0] != "S":
                return None
            if key in ("voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"):
                switches += int(value)
        seen[name] = switches
    return seen
