"""Commands that enter a running lab from another terminal: ps, exec, shell."""

from __future__ import annotations

import json
import os
import sys
import time
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

import click

from mrclab import ROOT
from mrclab.errors import UserError
from mrclab.namespace import RunningLab, pick_lab, running_labs
from topologies.switches import SHELL_ROLE

LAB_OPTION = click.option(
    "--lab", "run_id", metavar="ID", help="Which running lab, when there are several (lab ps)."
)


def _here() -> str:
    """The working directory, or / when somebody has removed it."""
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return "/"


def _ready_state(lab: RunningLab) -> dict[str, Any]:
    state = lab.state()
    if "hosts" not in state or "switches" not in state:
        raise UserError(f"lab {lab.run_id} is still coming up; try again in a few seconds")
    return state


def _entry(table: dict[str, Any], name: str, kind: str) -> Any:
    if name in table:
        return table[name]
    near = get_close_matches(name, table, n=1, cutoff=0.4)
    hint = f"; did you mean '{near[0]}'?" if near else ""
    raise UserError(f"no {kind} '{name}' in this lab{hint} (there are {', '.join(table)})")


def resolve_switch(switches: dict[str, dict[str, Any]], name: str) -> str:
    """Full name of the switch meant by `name`; `T0-1` alone means the one of plane 0.

    Raises UserError with the names there are.
    """
    lowered = name.lower()
    if lowered in switches:
        return lowered
    planes = [full for full in switches if full.endswith(lowered) and full[:1] == "p"]
    same = [full for full in planes if full.lstrip("p").lstrip("0123456789") == lowered]
    if same:
        if len(same) > 1:
            print(
                f"lab shell: {name} exists in {len(same)} planes; this is {same[0]} "
                f"(others: {', '.join(same[1:])})",
                file=sys.stderr,
            )
        return same[0]
    _entry(switches, name, "switch")
    return name


def _exec(argv: list[str]) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        raise UserError(f"can't run {argv[0]}: {error.strerror}; run ./lab doctor") from None


@click.command("ps")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def ps_command(as_json: bool) -> None:
    """List the labs that run on this machine and that you may enter.

    \b
    Example:
      sudo ./lab ps --json
    """
    rows = [(lab, lab.state()) for lab in running_labs()]
    if as_json:
        print(
            json.dumps(
                [{"run_id": lab.run_id, "pid": lab.init_pid, **state} for lab, state in rows]
            )
        )
        return
    if not rows:
        print("no lab is running" + ("" if os.geteuid() == 0 else " that this user may see"))
        return
    table = [("LAB", "PID", "WHAT", "FABRIC")]
    notes: list[str] = []
    for lab, state in rows:
        what, fabric = state.get("command", "starting"), state.get("fabric", "")
        lost = state.get("lost", ())
        table.append((lab.run_id, str(lab.init_pid), what, fabric))
        notes += [f"{lab.run_id}: {why}" for why in lost]
    widths = [max(map(len, column)) + 2 for column in zip(*table, strict=True)]
    for row in table:
        print("".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip())
    for note in notes:
        print(note)


@click.command(
    "exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
@LAB_OPTION
@click.argument("host")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def exec_command(run_id: str | None, host: str, command: tuple[str, ...]) -> None:
    """Run COMMAND on HOST of the running lab, from any terminal.

    Hosts are known by name there: h2 is its NIC port in plane 0, h2-p1 the one in
    plane 1, and so on.

    \b
    Examples:
      sudo ./lab exec h0 ping -c 3 h2
      sudo ./lab exec h0 ping -c 3 h2-p1
      sudo ./lab exec h0 tcpdump -ni h0-p0 udp port 4791
    """
    lab = pick_lab(run_id)
    pid = _entry(_ready_state(lab)["hosts"], host, "host")["pid"]
    # Entering a mount namespace changes to its root, and mnexec keeps what it finds. A folder
    # that is not there inside (below /run) is no reason not to run the command.
    stay = ["sh", "-c", 'cd "$0" 2>/dev/null; exec "$@"', _here()]
    _exec([*lab.enter_argv(), "--", *stay, "mnexec", "-a", str(pid), "--", *command])


@click.command("shell")
@LAB_OPTION
@click.option("--read-only", is_flag=True, help="Read, and leave the tables alone.")
@click.argument("switch")
def shell_command(run_id: str | None, read_only: bool, switch: str) -> None:
    """Open p4runtime-shell on SWITCH of the running lab, from any terminal.

    The shell reads and writes in the P4Runtime role "shell", beside the lab's controller, which
    stays primary of the default role and notices nothing: what you change stays until you or
    the controller change it again. bmv2 has no roles: there the shell only reads.

    \b
    Examples:
      sudo ./lab shell T0-0           the T0 number 0 of plane 0
      sudo ./lab shell p1t1-0         the T1 number 0 of plane 1
      sudo ./lab shell --read-only T0-0

    \b
    In the shell:
      table_entry["FabricIngress.route"].read(lambda e: print(e))
      te = table_entry["FabricIngress.route"](action="...")    then te.insert()
    """
    lab = pick_lab(run_id)
    state = _ready_state(lab)
    name = resolve_switch(state["switches"], switch)
    entry = state["switches"][name]
    writes = not read_only and entry.get("ctl") is not None  # only our own switch has one
    if writes:
        arbitration = ["--election-id", f"0,{time.time_ns()}", "--role-name", SHELL_ROLE]
        text = (
            f'{name}: you may read and write, in role "{SHELL_ROLE}", beside the lab\'s controller'
        )
    else:
        # Lower than any of the controller's: a backup, which reads.
        arbitration = ["--election-id", "0,1"]
        why = "as you asked" if read_only else "bmv2 has no roles"
        text = f"{name}: you may read; writing is the controller's ({why})"
    print(f"lab shell: {text}", file=sys.stderr)
    os.environ["PYTHONPATH"] = str(ROOT)
    _exec(
        [
            *lab.enter_argv(),
            "--",
            sys.executable,
            "-m",
            "p4runtime_sh",
            "--grpc-addr",
            entry["addr"],
            "--device-id",
            str(entry["device_id"]),
            *arbitration,
        ]
    )
