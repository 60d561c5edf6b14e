"""A fabric as a Mermaid diagram: ``python -m topologies.draw [FABRIC]``.

Planes are boxes, T1s on top, hosts at the bottom; every link is one line, numbered in the
order drawn, so that links can be highlighted (for example those that are down).
"""

from __future__ import annotations

import sys
from collections.abc import Collection

from topologies.plan import Plan
from topologies.spec import load_spec
from topologies.units import format_duration, format_rate
from topologies.yamlspec import SpecError


def node_id(name: str) -> str:
    """A Mermaid identifier for a node name."""
    return name.replace("-", "_")


def mermaid(plan: Plan, highlight: Collection[str] = ()) -> str:
    """The fabric as Mermaid text; ``highlight`` names links to draw red and dashed."""
    spec = plan.spec
    speed = f"{format_rate(spec.link.rate)} {format_duration(spec.link.delay)}"
    lines = [
        "---",
        f"title: {spec.name}, links {speed}",
        "---",
        "flowchart BT",
    ]
    for plane in range(spec.planes):
        lines.append(f"  subgraph plane{plane}[plane {plane}]")
        for switch in plan.switches.values():
            if switch.plane == plane:
                lines.append(f"    {node_id(switch.name)}[{switch.name}]")
        lines.append("  end")
    lines.extend(f"  {node_id(host.name)}([{host.name}])" for host in plan.hosts.values())
    red = []
    for number, link in enumerate(plan.links.values()):
        arrow = "-.-" if link.name in highlight else "---"
        lines.append(f"  {node_id(link.a.node)} {arrow} {node_id(link.b.node)}")
        if link.name in highlight:
            red.append(str(number))
    if red:
        lines.append(f"  linkStyle {','.join(red)} stroke:red")
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Print the diagram of a fabric (default two-plane)."""
    try:
        spec = load_spec(arguments[0] if arguments else "two-plane")
    except SpecError as error:
        print(error, file=sys.stderr)
        return 2
    sys.stdout.write(mermaid(Plan.from_spec(spec)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
