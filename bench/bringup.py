"""How long the two-plane fabric takes to come up, and what it weighs.

Runs inside a lab's namespaces. Seconds are wall clock from nothing to a fabric that has passed
its self-tests; memory is the proportional share (PSS), so that pages shared by forked processes
are counted once.
"""

from __future__ import annotations

import re
import tempfile
import time
from pathlib import Path
from typing import Any

from mrclab.namespace import STATE_DIR
from mrclab.progress import Steps
from mrclab.testbed import Testbed
from topologies.plan import Plan
from topologies.spec import load_spec


def pss_mib(pid: int) -> float:
    """Proportional set size of a process in MiB; 0 when it is gone or may not be read."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0.0
    found = re.search(r"^Pss:\s+(\d+) kB", text, re.M)
    return int(found.group(1)) / 1024 if found else 0.0


def measure(fabric: str, seed: int) -> dict[str, Any]:
    """Bring a fabric up once, look at it, take it down."""
    plan = Plan.from_spec(load_spec(fabric))
    steps = Steps(quiet=True)
    with tempfile.TemporaryDirectory(dir=STATE_DIR) as scratch:
        begin = time.monotonic()
        with Testbed(plan, run_id="bench", run_dir=Path(scratch), seed=seed, steps=steps) as bed:
            seconds = time.monotonic() - begin
            switches = [pss_mib(handle.pid) for handle in bed.fabric.switches.values()]
            hosts = [pss_mib(agent.hello()["pid"]) for agent in bed.agents.values()]
    return {
        "seconds": seconds,
        "steps_seconds": dict(steps.seconds),
        "mib_per_switch": sum(switches) / len(switches),
        "mib_per_host": sum(hosts) / len(hosts),
        "mib_all_nodes": sum(switches) + sum(hosts),
    }


def run(fabric: str = "two-plane") -> dict[str, Any]:
    """Twice: the first run may compile (cold), the second may not (warm)."""
    first, second = measure(fabric, 1), measure(fabric, 2)
    return {
        "fabric": fabric,
        "first_seconds": first["seconds"],
        "warm_seconds": second.pop("seconds"),
        **second,
    }
