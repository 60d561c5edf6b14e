"""`--time virtual`: a drill in this process, as any user, on a clock that is computed."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from drills.format import Drill
from hosts.agent.planned import Transport
from mrclab import ROOT
from mrclab.doctor import git_version
from mrclab.errors import UserError
from mrclab.progress import Steps
from topologies.spec import FabricSpec
from virtualtime.profile import ProfileName, figures, scaled_drill

MEMORY_PER_HOST = 3 << 20
"""Bytes for an endpoint with its QPs and what it has on the way."""
MEMORY_PER_SWITCH = 1 << 20


def versions(profile: ProfileName) -> dict[str, str]:
    """What a result depends on, for the report."""
    return {
        "mrclab": git_version(ROOT),
        "kernel": os.uname().release,
        "python": ".".join(map(str, sys.version_info[:3])),
        "switch": "builtin",
        "time": f"virtual, {profile} figures",
    }


def fits(spec: FabricSpec, drill: Drill) -> str | None:
    """One line when the machine has not the memory for it, None when it has."""
    from mrclab.memory import available_memory

    flows = 2 * drill.workload.memory * len(drill.workload.flows)
    need = flows + spec.hosts * MEMORY_PER_HOST + spec.switches * MEMORY_PER_SWITCH
    have = available_memory()
    if need <= have:
        return None
    return (
        f"{drill.name} on {spec.name} needs about {need >> 20:,} MiB of memory ({flows >> 20:,} "
        f"for workload.memory) and {have >> 20:,} MiB are free; use less workload.memory"
    )


def run_virtual_drill(
    drill: Drill,
    spec: FabricSpec,
    run_dir: Path,
    *,
    run_id: str,
    profile: ProfileName,
    seed: int,
    failover_groups: bool,
    faults: Sequence[str],
    workers: int,
    quiet: bool,
) -> str:
    """Run a drill and write its directory; the verdict. Raises UserError."""
    from drills.runner import run_drill
    from virtualtime.testbed import VirtualTestbed

    problem = fits(spec, drill)
    if problem is not None:
        raise UserError(problem)
    steps = Steps(quiet=quiet)
    steps.say(f"{drill.name} on {spec.name}, virtual time ({profile}), seed {seed}, run {run_id}")
    fabric = figures(spec, profile)
    testbed = VirtualTestbed(
        fabric.plan,
        tempo=fabric.tempo,
        run_id=run_id,
        run_dir=run_dir,
        seed=seed,
        failover_groups=failover_groups,
        faults=faults,
        versions=versions(profile),
        steps=steps,
        workers=workers,
        mrc=drill.mrc_controller,
        transport=lambda host: Transport(**drill.transport_at(host).model_dump()),
    )
    with testbed:
        begin, first = time.monotonic(), testbed.world.now
        scaled = scaled_drill(drill, fabric.tempo)
        verdict = run_drill(scaled, testbed, run_dir, seed=seed, progress=not quiet).verdict
        took = time.monotonic() - begin
        hops = testbed.world.fabric.network.figures().hops
        simulated = (testbed.world.now - first) / 1e9
        steps.say(f"{_time(simulated)} simulated in {took:.1f} s, {hops:,} packet-hops")
    return verdict


def _time(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.3g} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} us"
