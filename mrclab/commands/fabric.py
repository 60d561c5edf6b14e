"""`./lab fabric`: what a fabric looks like, without starting it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import click

from mrclab.errors import UserError
from topologies.draw import mermaid
from topologies.plan import Plan
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
        "mode": spec.mode,
    }


def as_json(plan: Plan) -> dict[str, Any]:
    """Names, ports and addresses, for scripts."""
    return {
        "spec": plan.spec.model_dump(mode="json"),
        "switches": {name: asdict(switch) for name, switch in plan.switches.items()},
        "hosts": {name: asdict(host) for name, host in plan.hosts.items()},
        "links": {name: asdict(link) for name, link in plan.links.items()},
    }


@click.command("fabric")
@click.argument("fabric", default="two-plane")
@click.option("--json", "json_", is_flag=True, help="Print names, ports and addresses as JSON.")
@click.option("--mermaid", "mermaid_", is_flag=True, help="Print a Mermaid diagram.")
@click.option("--list", "list_", is_flag=True, help="List the fabrics that come with the lab.")
def fabric_command(fabric: str, json_: bool, mermaid_: bool, list_: bool) -> None:
    """Show FABRIC: a name from the catalogue or a YAML file (default: two-plane).

    \b
    Examples:
      ./lab fabric two-plane
      ./lab fabric mine.yaml --mermaid
    """
    if list_:
        print("\n".join(catalog_names()))
        return
    if json_ and mermaid_:
        raise UserError("--json or --mermaid, not both")
    plan = load_plan(fabric)
    if json_:
        print(json.dumps(as_json(plan), indent=2))
        return
    if mermaid_:
        print(mermaid(plan), end="")
        return
    print(f"{plan.spec.name}: {plan.spec.description}".removesuffix(": "))
    for key, value in summary(plan.spec).items():
        print(f"  {key:<10}{value}")
    print(f"\n  {'host':<6}{'plane':<7}{'interface':<11}{'address':<34}under")
    for host in plan.hosts.values():
        for nic in host.nics:
            print(f"  {host.name:<6}{nic.plane:<7}{nic.ifname:<11}{nic.ipv6:<34}{nic.switch}")
