"""`./lab fabric`: what a fabric looks like, without starting it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import click

from mrclab.commands.options import mode_option
from mrclab.errors import UserError
from topologies.describe import (
    MODES_IN_WORDS,
    bit_drawing,
    ev_json,
    ev_lines,
    link_json,
    link_lines,
    modes_json,
    usid_rows,
)
from topologies.draw import mermaid
from topologies.plan import Plan, UnknownNameError
from topologies.spec import FabricSpec, catalog_names, load_spec
from topologies.steerspec import Mode
from topologies.units import format_duration, format_rate
from topologies.yamlspec import SpecError


def load_plan(name: str, mode: Mode | None = None) -> Plan:
    """The plan of a fabric by catalogue name or file, in another mode if one is given. Raises
    UserError."""
    try:
        return Plan.from_spec(load_spec(name, mode))
    except SpecError as error:
        raise UserError(str(error)) from None


def summary(spec: FabricSpec) -> dict[str, str]:
    """The figures of a fabric that a person asks for first."""
    depths = spec.thresholds
    return {
        "planes": str(spec.planes),
        "switches": f"{spec.switches} ({spec.t0_per_plane} T0 + {spec.t1_per_plane} T1 a plane)",
        "hosts": f"{spec.hosts}, one NIC port per plane",
        "links": f"{format_rate(spec.link.rate)}, {format_duration(spec.link.delay)} each way",
        "base RTT": f"{spec.base_rtt_ns() / 1e6:.3g} ms across a T1",
        "BDP": f"{spec.bdp_bytes:,} bytes a plane",
        "ECN": f"{depths.kmin} to {depths.kmax} packets",
        "trim": f"{depths.trim} packets, {depths.trim_last_hop} towards hosts"
        if spec.trim.enabled
        else "off",
        "queue": f"{depths.data_limit} data, {depths.control_limit} control packets",
        "mode": f"{spec.mode}: {MODES_IN_WORDS[spec.mode]}",
    }


def as_json(plan: Plan) -> dict[str, Any]:
    """Names, ports and addresses, for scripts."""
    return {
        "spec": plan.spec.model_dump(mode="json"),
        **modes_json(plan),
        "switches": {name: asdict(switch) for name, switch in plan.switches.items()},
        "hosts": {name: asdict(host) for name, host in plan.hosts.items()},
        "links": {name: asdict(link) for name, link in plan.links.items()},
    }


def describe(plan: Plan) -> None:
    """Print a fabric for people."""
    spec = plan.spec
    print(f"{spec.name}: {spec.description}".removesuffix(": "))
    for key, value in summary(spec).items():
        print(f"  {key:<10}{value}")
    if spec.mode != "ecmp":
        print("\n  EV, most significant bit first")
        for line in bit_drawing(spec.ev_layout):
            print(f"    {line}")
    if spec.mode == "srv6":
        place = "in an SRH" if spec.srv6.srh else "last in the list"
        print(f"\n  uSIDs in {spec.usids}; the port that faces the host is {place}")
        print(f"  {'switch':<11}{'uSID':<7}matches")
        for name, usid, prefix in usid_rows(plan):
            print(f"  {name:<11}{usid:<7}{prefix}")
    print(f"\n  {'host':<6}{'plane':<7}{'interface':<11}{'address':<34}under")
    for host in plan.hosts.values():
        for nic in host.nics:
            print(f"  {host.name:<6}{nic.plane:<7}{nic.ifname:<11}{nic.ipv6:<34}{nic.switch}")


class EvNumber(click.ParamType):
    """A 32-bit number, decimal or 0x hexadecimal."""

    name = "EV"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            number = value if isinstance(value, int) else int(value, 0)
        except ValueError:
            self.fail(f"{value!r} is not a number; write it like 0x80000001", param, ctx)
        if not 0 <= number < 1 << 32:
            self.fail(f"{value} has more than 32 bits", param, ctx)
        return number


def look_up(
    plan: Plan,
    ev: int | None,
    link: str | None,
    ends: tuple[str | None, str | None],
    plane: int | None,
) -> tuple[dict[str, Any], list[str]]:
    """(JSON, lines) about an EV or a link. Raises UserError."""
    src, dst = ends
    try:
        if ev is not None:
            if src is None or dst is None:
                raise UserError("--ev needs --from HOST and --to HOST: the way depends on them")
            found = ev_json(plan, ev, src, dst, plane)
            return found, ev_lines(found)
        if (src is None) != (dst is None):
            raise UserError("--from and --to go together")
        found = link_json(plan, str(link), src, dst)
        return found, link_lines(found)
    except UnknownNameError as error:
        raise UserError(str(error)) from None
    except ValueError as error:
        raise UserError(str(error)) from None


@click.command("fabric")
@click.argument("fabric", default="two-plane")
@mode_option
@click.option("--ev", type=EvNumber(), help="Show the way of this EV; with --from and --to.")
@click.option("--from", "source", metavar="HOST", help="Where the EV's packets start.")
@click.option("--to", "target", metavar="HOST", help="Where they go.")
@click.option("--plane", type=click.IntRange(0), help="Only in this plane (ecmp: all planes).")
@click.option("--link", help="Show the EVs that cross this link.")
@click.option("--json", "json_", is_flag=True, help="Print JSON, for scripts.")
@click.option("--mermaid", "mermaid_", is_flag=True, help="Print a Mermaid diagram.")
@click.option("--list", "list_", is_flag=True, help="List the fabrics that come with the lab.")
def fabric_command(
    fabric: str,
    mode: Mode | None,
    ev: int | None,
    source: str | None,
    target: str | None,
    plane: int | None,
    link: str | None,
    json_: bool,
    mermaid_: bool,
    list_: bool,
) -> None:
    """Show FABRIC: a name from the catalogue or a YAML file (default: two-plane).

    \b
    Examples:
      ./lab fabric two-plane --mode srv6
      ./lab fabric two-plane --mode srv6 --ev 0x80000001 --from h0 --to h2
      ./lab fabric two-plane --mode structured --link p0t0-0:p0t1-1
      ./lab fabric mine.yaml --mermaid
    """
    if list_:
        names = catalog_names()
        width = max(map(len, names), default=0) + 2
        for name in names:
            print(f"{name:<{width}}{load_spec(name).description}")
        return
    asked = [o for o, given in (("--ev", ev is not None), ("--link", bool(link))) if given]
    if mermaid_ and (json_ or asked):
        raise UserError("--mermaid goes alone")
    if len(asked) > 1:
        raise UserError("--ev or --link, not both")
    if not asked and (source or target or plane is not None):
        raise UserError("--from, --to and --plane are for --ev or --link")
    plan = load_plan(fabric, mode)
    if asked:
        found, lines = look_up(plan, ev, link, (source, target), plane)
        print(json.dumps(found, indent=2) if json_ else "\n".join(lines))
    elif json_:
        print(json.dumps(as_json(plan), indent=2))
    elif mermaid_:
        print(mermaid(plan), end="")
    else:
        describe(plan)
