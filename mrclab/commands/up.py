"""`./lab up`: a fabric with a Mininet prompt."""

from __future__ import annotations

import os

import click

from mrclab.commands.fabric import load_plan
from mrclab.commands.options import check_failover, check_switch, testbed_options
from mrclab.commands.slow import slow_factor, slow_option, slowed_plan
from mrclab.enter import end_on_sigterm, rerun_in_lab
from mrclab.namespace import RUN_ENV, STATE_DIR, inside
from mrclab.progress import Steps
from topologies.steerspec import Mode


@click.command("up")
@click.argument("fabric", default="two-plane")
@testbed_options
@slow_option
def up_command(
    fabric: str, mode: Mode | None, switch: str, failover: str, seed: int, slow: int | None
) -> int:
    """Bring FABRIC up (default: two-plane) and give a Mininet prompt on it.

    From other terminals: ./lab exec HOST CMD..., ./lab shell SWITCH. Leave with
    "exit"; nothing stays behind. Commands can be piped in. Exit status: 1 when a
    switch, an agent or a controller ended by itself meanwhile (it is said then).

    \b
    Examples:
      sudo ./lab up
      sudo ./lab up two-plane --mode srv6
      echo "h0 ping -c 1 h2" | sudo ./lab up
    """
    plan = load_plan(fabric, mode)
    check_switch(switch)
    check_failover(failover, plan.spec.mode)
    plan = slowed_plan(plan, slow_factor(slow, switch))
    if inside() is None:
        return rerun_in_lab()
    end_on_sigterm()

    from mrclab.testbed import Testbed

    run_id = os.environ[RUN_ENV]
    # Where only the lab sees it: gone with the lab, even when that is killed.
    scratch = STATE_DIR / "run"
    scratch.mkdir()
    with Testbed(
        plan,
        run_id=run_id,
        run_dir=scratch,
        seed=seed,
        switch=switch,
        failover_groups=failover == "groups",
        steps=Steps(),
        mrc=True,
        command="up",
    ) as testbed:
        testbed.prompt()
        return 1 if testbed.lost else 0
