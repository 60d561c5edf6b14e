"""`./lab traffic`: writes between two hosts of a running lab, with a live line of goodput."""

from __future__ import annotations

import json
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.live import Live

from mrclab.errors import EXIT_FAIL, UserError
from mrclab.namespace import STATE_DIR, pick_lab

STEP_SECONDS = 0.5
MIB = 1 << 20
MEMORY = "64 MiB"


@click.command("traffic")
@click.argument("src")
@click.argument("dst")
@click.option(
    "--for",
    "seconds",
    type=click.FloatRange(min=0.1),
    metavar="SECONDS",
    help="How long (default: until Ctrl-C).",
)
@click.option("--message", default="256 KiB", show_default=True, help="Size of a write.")
@click.option(
    "--outstanding",
    type=click.IntRange(1, 1024),
    default=8,
    show_default=True,
    help="Writes posted at a time.",
)
@click.option("--lab", "run_id", metavar="ID", help="Which running lab, when there are several.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON, no live line.")
def traffic_command(
    src: str,
    dst: str,
    seconds: float | None,
    message: str,
    outstanding: int,
    run_id: str | None,
    as_json: bool,
) -> int:
    """Send MRC writes from SRC to DST in the lab that `./lab up` runs.

    At the end both memories are compared. Exit status 1 when they differ.

    \b
    Examples:
      sudo ./lab traffic h0 h2 --for 10
      sudo ./lab traffic h0 h2 &      then cut a link at the prompt and
      sudo ./lab ctl ev               see the EVs move
    """
    from pydantic import ValidationError

    from drills.flows import Flows
    from drills.format import Workload
    from hosts.agent.client import AgentClient, AgentError

    lab = pick_lab(run_id)
    hosts = lab.state().get("hosts")
    if hosts is None:
        raise UserError(f"lab {lab.run_id} is still coming up; try again in a few seconds")
    for name in (src, dst):
        if name not in hosts:
            raise UserError(f"no host '{name}' in this lab (there are {', '.join(hosts)})")
    if src == dst:
        raise UserError(f"SRC and DST are the same host ({src})")
    root = Path(f"/proc/{lab.init_pid}/root{STATE_DIR}")
    try:
        workload = Workload.model_validate(
            {
                "flows": [{"from": src, "to": dst}],
                "message": message,
                "outstanding": outstanding,
                "memory": MEMORY,
            }
        )
    except ValidationError as error:
        raise UserError(_refusal(error)) from None
    agents: dict[str, Any] = {}
    try:
        for name in (src, dst):
            agents[name] = AgentClient(root / f"{name}.sock")
        flows = Flows(workload, agents)
        flows.connect()
        try:
            flows.start(1)
            console = Console(stderr=True, quiet=as_json, highlight=False)
            _watch(agents[dst], flows.connections[0].peer_qpn, f"{src} > {dst}", seconds, console)
            (delivery,) = flows.stop(time.monotonic_ns)
            (memory,) = flows.compare_memory(time.monotonic_ns)
        finally:
            _clean_up(agents, flows.connections[0])
    except AgentError as error:
        raise UserError(str(error)) from None
    ok = memory.data["source"] == memory.data["destination"]
    if as_json:
        print(json.dumps({**delivery.data, **memory.data, "equal": ok}))
    else:
        size = delivery.data["delivered_bytes"] / MIB
        same = "both memories agree" if ok else "THE MEMORIES DIFFER"
        print(f"{src} > {dst}: {size:.1f} MiB in {delivery.data['completed']} writes; {same}")
    return 0 if ok else EXIT_FAIL


def _refusal(error: Any) -> str:
    """What is wrong with the workload, by option, on one line."""
    item = error.errors()[0]
    at = [*item["loc"], *item.get("ctx", {}).get("at", ())]
    if at == ["memory"]:
        return f"--message times --outstanding must be at most {MEMORY}"
    return f"--{at[0]}: {str(item['msg']).removeprefix('Value error, ')}"


def _clean_up(agents: dict[str, Any], connection: Any) -> None:
    """Take the connection away at both ends, as far as it came into being."""
    for host, qpn, region in (
        (connection.src, connection.qpn, connection.source),
        (connection.dst, connection.peer_qpn, connection.target),
    ):
        agents[host].call("destroy_qp", qpn=qpn)
        if region:
            agents[host].call("deregister_memory", rkey=region["rkey"])


def _watch(agent: Any, qpn: int, title: str, seconds: float | None, console: Console) -> None:
    """Show goodput until the time is over or Ctrl-C."""

    def delivered() -> tuple[int, int]:
        reply = agent.call("stats")
        return reply["now"], reply["endpoint"]["qps"][str(qpn)]["delivered_bytes"]

    stop = threading.Event()
    end = None if seconds is None else time.monotonic() + seconds
    began, first = delivered()
    last_t, last = began, first
    # To a file or a pipe, Live writes its last state only; a line of its own, as on a terminal.
    with ExitStack() as after, Live("", console=console, transient=False) as live:
        if not console.is_terminal:
            after.callback(console.print)
        try:
            while end is None or time.monotonic() < end:
                left = STEP_SECONDS if end is None else min(STEP_SECONDS, end - time.monotonic())
                if stop.wait(max(0.0, left)):
                    break
                now, total = delivered()
                rate = (total - last) * 8e3 / max(1, now - last_t)
                live.update(f"{title}  {rate:6.1f} Mb/s  {(total - first) / MIB:8.1f} MiB")
                last_t, last = now, total
        except KeyboardInterrupt:
            return
