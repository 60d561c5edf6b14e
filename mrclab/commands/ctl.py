"""`./lab ctl`: the MRC controller of a running lab, from any terminal."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.live import Live
from rich.table import Table

from mrclab.errors import EXIT_FAIL, UserError
from mrclab.namespace import STATE_DIR, pick_lab

Json = dict[str, Any]
F = TypeVar("F", bound=Callable[..., Any])
REFRESH_SECONDS = 1.0
PROBE_SECONDS = 60.0


def _common(command: F) -> F:
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print JSON."),
        click.option(
            "--lab", "run_id", metavar="ID", help="Which running lab, when there are several."
        ),
    ):
        command = option(command)
    return command


@contextmanager
def _controller(run_id: str | None) -> Iterator[Callable[..., Json]]:
    """A function that asks the lab's MRC controller. Raises UserError."""
    from hosts.agent.client import AgentClient, AgentError
    from mrclab.mrccontroller import SOCKET

    lab = pick_lab(run_id)
    path = f"/proc/{lab.init_pid}/root{STATE_DIR}/{SOCKET}"
    try:
        client = AgentClient(path, timeout=20.0)
    except AgentError:
        raise UserError(
            f"lab {lab.run_id} has no MRC controller: it is coming up, or is a drill without "
            "--mrc-controller, or the controller has ended"
        ) from None

    def ask(op: str, *, timeout: float | None = None, **fields: Any) -> Json:
        try:
            return client.call(op, timeout=timeout, **fields)
        except AgentError as error:
            raise UserError(str(error).removeprefix(f"{path}: ").removeprefix(f"{op}: ")) from None

    with client:
        yield ask


def _print(value: Any) -> None:
    print(json.dumps(value, indent=2))


@click.group("ctl")
def ctl_command() -> None:
    """Ask the MRC controller of a running lab, and tell it what to do.

    `./lab up` runs one; a drill does with --mrc-controller.

    \b
    Examples:
      sudo ./lab ctl health --watch          all links, live
      sudo ./lab ctl incidents               what fails, and how sure that is
      sudo ./lab ctl ev --link p0t0-0:p0t1-0 the EVs that cross a link
      sudo ./lab ctl deny p0t0-0:p0t1-0      take them out of use
      sudo ./lab ctl drain h0:p0t0-0         empty a link before working on it
    """


def _link_table(reply: Json) -> Table:
    table = Table(box=None, pad_edge=False)
    for name, justify in (
        ("link", "left"), ("probes", "right"), ("lost", "right"), ("loss", "right"),
        ("rtt ms", "right"), ("silent", "right"), ("state", "left"),
    ):  # fmt: skip
        table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for row in reply["links"]:
        if row["incident"] is not None:
            state = f"[red]FAILING (incident {row['incident']})[/red]"
        elif row["denied"]:
            state = "[yellow]denied[/yellow]"
        elif row["silent"]:
            state = "[red]silent[/red]"
        elif not row["sent"]:
            state = "[dim]not probed yet[/dim]"
        else:
            state = "[green]ok[/green]"
        rtt = "-" if row["rtt_ns"] is None else f"{row['rtt_ns'] / 1e6:.2f}"
        table.add_row(
            row["link"],
            str(row["sent"]),
            str(row["lost"]),
            f"{row['loss']:.2%}",
            rtt,
            f"{row['silent']}/{row['loops']}",
            state,
        )
    return table


@ctl_command.command("health")
@click.option("--watch", is_flag=True, help="Go on until Ctrl-C.")
@_common
def health_command(watch: bool, run_id: str | None, as_json: bool) -> None:
    """The health of every link, from loop probes through the switches.

    \b
    Every NIC port probes host > T0 > host, and host > T0 > T1 > T0 > host over
    each T1. `silent`: how many of a link's loops no longer come back.
    """
    with _controller(run_id) as ask:
        if not watch:
            reply = ask("health")
            if as_json:
                _print(reply)
            else:
                Console(highlight=False).print(_link_table(reply))
            return
        if as_json:
            raise UserError("--watch and --json do not go together; call it as often as you like")
        _watch_health(lambda: _link_table(ask("health")), Console(highlight=False))


def _watch_health(table: Callable[[], Table], console: Console) -> None:
    """Show the table again and again until Ctrl-C; to a file or pipe, one after the other."""
    stop = threading.Event()
    try:
        if not console.is_terminal:
            while True:
                console.print(table())
                console.print()
                console.file.flush()  # a pipe is buffered; its reader wants to see it now
                stop.wait(REFRESH_SECONDS)
        with Live(table(), console=console) as live:
            while not stop.wait(REFRESH_SECONDS):
                live.update(table())
    except KeyboardInterrupt:
        return


@ctl_command.command("incidents")
@_common
def incidents_command(run_id: str | None, as_json: bool) -> int:
    """What fails and what did, by name. Exit status 1 while something fails."""
    with _controller(run_id) as ask:
        reply = ask("incidents")
    if as_json:
        _print(reply)
    elif not reply["incidents"]:
        print("nothing has failed")
    else:
        table = Table(box=None, pad_edge=False)
        for name in ("no.", "suspect", "sure", "loses", "since", "until"):
            table.add_column(name)
        for item in reply["incidents"]:
            until = "now" if item["closed"] is None else _ago(reply["now"], item["closed"])
            table.add_row(
                str(item["number"]),
                " or ".join(item["suspects"]),
                f"{item['confidence']:.0%}",
                f"{item['loss']:.1%}",
                _ago(reply["now"], item["opened"]),
                until,
            )
        Console(highlight=False).print(table)
    return EXIT_FAIL if any(i["closed"] is None for i in reply["incidents"]) else 0


def _ago(now: int, then: int) -> str:
    return f"{(now - then) / 1e9:.1f} s ago"


@ctl_command.command("ev")
@click.option("--host", metavar="HOST", help="Of this host only.")
@click.option("--link", metavar="LINK", help="Only those that cross this link.")
@click.option("--state", metavar="STATE", help="Only those in this state (GOOD, ASSUMED_BAD, ...).")
@click.option("--all", "everything", is_flag=True, help="Each EV in a line of its own.")
@_common
def ev_command(
    host: str | None,
    link: str | None,
    state: str | None,
    everything: bool,
    run_id: str | None,
    as_json: bool,
) -> None:
    """The entropy values of every connection, counted by the way they take.

    With --link, --state or --all each of them.
    """
    with _controller(run_id) as ask:
        rows = ask("ev", host=host, link=link)["evs"]
    if state is not None:
        rows = [row for row in rows if row["state"] == state.upper()]
    if as_json:
        _print({"evs": rows})
        return
    if not rows:
        print("no EV: no connection, or none that fits")
        return
    if not (everything or link or state):
        Console(highlight=False).print(_ev_summary(rows))
        return
    table = Table(box=None, pad_edge=False)
    for name in ("from", "to", "plane", "EV", "state", "role", "drops", "by way of"):
        table.add_column(name, no_wrap=name != "by way of")
    for row in rows:
        table.add_row(
            row["host"],
            row["peer"],
            str(row["plane"]),
            f"{row['ev']:08x}",
            row["state"],
            row["role"],
            str(row["drops"]),
            _middle(row["links"]),
        )
    Console(highlight=False).print(table)


def _ev_summary(rows: list[Json]) -> Table:
    """EVs by connection and way, with their states."""
    counts: dict[tuple[str, str, int, str], dict[str, int]] = {}
    for row in rows:
        key = (row["host"], row["peer"], row["plane"], _middle(row["links"]))
        states = counts.setdefault(key, {})
        shown = row["state"] if row["role"] != "backup" else "backup"
        states[shown] = states.get(shown, 0) + 1
    columns = ("GOOD", "SKIP", "ASSUMED_BAD", "DENIED", "backup")
    table = Table(box=None, pad_edge=False)
    for name in ("from", "to", "plane", "by way of", *columns):
        table.add_column(name, justify="right" if name in columns else "left")
    for (src, dst, plane, way), states in sorted(counts.items()):
        table.add_row(src, dst, str(plane), way, *(str(states.get(c, 0)) for c in columns))
    return table


def _middle(links: list[str]) -> str:
    """The switch in the middle of a way; the switches of a shorter one."""
    nodes = [node for link in links for node in link.split(":")]
    return max(set(nodes), key=lambda n: (nodes.count(n), "t1-" in n, n)) if nodes else "-"


def _number(text: str) -> int | None:
    """An EV as `ctl ev` prints it: hexadecimal, whatever its digits."""
    try:
        return int(text, 16)
    except ValueError:
        return None


def _split(words: tuple[str, ...]) -> tuple[list[str], list[int]]:
    """Links (they have a colon) and EVs (numbers; hexadecimal with or without 0x)."""
    links, evs = [], []
    for word in words:
        number = None if ":" in word else _number(word)
        if ":" in word:
            links.append(word)
        elif number is None:
            raise UserError(f"'{word}' is neither an EV (a number) nor a link (NODE:NODE)")
        else:
            evs.append(number)
    return links, evs


@ctl_command.command("deny")
@click.argument("what", nargs=-1, required=True, metavar="EV|LINK...")
@_common
def deny_command(what: tuple[str, ...], run_id: str | None, as_json: bool) -> None:
    """Move EVs, or all EVs that cross a link, to DENIED on every host.

    Connections that come later get the same.
    """
    _change("deny", what, run_id, as_json)


@ctl_command.command("allow")
@click.argument("what", nargs=-1, required=True, metavar="EV|LINK...")
@_common
def allow_command(what: tuple[str, ...], run_id: str | None, as_json: bool) -> None:
    """Give back what deny or drain took."""
    _change("allow", what, run_id, as_json)


def _change(op: str, what: tuple[str, ...], run_id: str | None, as_json: bool) -> None:
    links, evs = _split(what)
    with _controller(run_id) as ask:
        reply = ask(op, links=links, evs=evs)
    if as_json:
        _print(reply)
        return
    word = "EVs denied" if op == "deny" else "EVs or ports allowed again"
    names = [*reply["denied"]["links"], *(f"{ev:08x}" for ev in reply["denied"]["evs"])]
    print(f"{reply['changed']} {word}; on the denylist: {', '.join(names) or 'nothing'}")


@ctl_command.command("drain")
@click.argument("link")
@_common
def drain_command(link: str, run_id: str | None, as_json: bool) -> None:
    """Take LINK out of use before somebody works on it; `allow LINK` gives it back.

    EVs over a T0-T1 link are denied. Of a NIC-T0 link the port is put down,
    which tells the peers as well.
    """
    with _controller(run_id) as ask:
        reply = ask("drain", link=link)
    if as_json:
        _print(reply)
    else:
        print(f"{link} is drained ({reply['changed']} EVs or ports changed)")


@ctl_command.command("probe")
@click.argument("src")
@click.argument("dst")
@_common
def probe_command(src: str, dst: str, run_id: str | None, as_json: bool) -> int:
    """An EV probe on every active EV from SRC to DST. Exit status 1 when one is not answered."""
    with _controller(run_id) as ask:
        probes = ask("probe", src=src, dst=dst, timeout=PROBE_SECONDS)["probes"]
    missing = sum(probe["rtt_ns"] is None for probe in probes)
    if as_json:
        _print({"probes": probes})
    else:
        by_way: dict[tuple[int, str], list[int | None]] = {}
        for probe in probes:
            key = (probe["plane"], _middle(probe["links"]))
            by_way.setdefault(key, []).append(probe["rtt_ns"])
        table = Table(box=None, pad_edge=False)
        for name in ("plane", "by way of", "EVs", "answered", "rtt ms (least, most)"):
            table.add_column(name)
        for (plane, way), rtts in sorted(by_way.items()):
            known = [rtt / 1e6 for rtt in rtts if rtt is not None]
            span = f"{min(known):.2f}, {max(known):.2f}" if known else "-"
            table.add_row(str(plane), way, str(len(rtts)), str(len(known)), span)
        Console(highlight=False).print(table)
    return EXIT_FAIL if missing else 0


@ctl_command.command("agent")
@click.argument("host")
@click.argument("op")
@click.argument("fields", nargs=-1, metavar="[KEY=JSON...]")
@click.option("--lab", "run_id", metavar="ID", help="Which running lab, when there are several.")
def agent_command(host: str, op: str, fields: tuple[str, ...], run_id: str | None) -> int:
    """Any operation of HOST's agent (docs/agent.md lists them): profiles, QPs, ports.

    \b
    Examples:
      sudo ./lab ctl agent h0 ports
      sudo ./lab ctl agent h0 cc_profile_set name=slow 'params={"max_wnd_bdps": 0.5}'
    """
    request: Json = {"op": op}
    for item in fields:
        key, sign, text = item.partition("=")
        if not sign:
            raise UserError(f"'{item}' is not KEY=VALUE")
        try:
            request[key] = json.loads(text)
        except ValueError:
            request[key] = text
    with _controller(run_id) as ask:
        reply = ask("agent", host=host, request=request, timeout=PROBE_SECONDS)["reply"]
    _print(reply)
    if not reply.get("ok", False):
        print(f"lab ctl: {host} refused", file=sys.stderr)
        return EXIT_FAIL
    return 0
