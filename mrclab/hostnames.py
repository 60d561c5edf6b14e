"""Names of the lab's hosts for programs in it: `ping h2` (/etc/hosts, seen in the lab only)."""

from __future__ import annotations

from pathlib import Path

from mrclab.namespace import cover
from topologies.plan import Plan

HOSTS = Path("/etc/hosts")


def hosts_text(plan: Plan, before: str) -> str:
    """`before` and a line for each NIC port: `h2-p1` by its interface, `h2` the first of them."""
    lines = [before.rstrip("\n")] if before.strip() else []
    lines.append(f"# {plan.spec.name}")
    for host in plan.hosts.values():
        for number, nic in enumerate(host.nics):
            names = nic.ifname if number else f"{host.name} {nic.ifname}"
            lines.append(f"{nic.ipv6} {names}")
    return "\n".join(lines) + "\n"


def give_names(plan: Plan, folder: Path) -> None:
    """Let what runs in this lab find its hosts by name. The file is kept in `folder`, which only
    the lab sees. A machine without /etc/hosts gets no names."""
    try:
        before = HOSTS.read_text()
    except OSError:
        return
    ours = folder / "hosts"
    ours.write_text(hosts_text(plan, before))
    cover(HOSTS, ours)
