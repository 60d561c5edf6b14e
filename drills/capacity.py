"""How much a set of flows could carry over the links that are left: maximum flow."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable

from drills.view import FabricView

SOURCE = "\0source"
SINK = "\0sink"


def max_flow(edges: Iterable[tuple[str, str, int]], source: str, sink: str) -> int:
    """Maximum flow (Edmonds-Karp) over directed edges (from, to, capacity)."""
    residual: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for a, b, capacity in edges:
        residual[a][b] += capacity
        residual[b][a] += 0
    total = 0
    while True:
        parent = {source: source}
        queue = deque([source])
        while queue and sink not in parent:
            node = queue.popleft()
            for peer, left in residual[node].items():
                if left > 0 and peer not in parent:
                    parent[peer] = node
                    queue.append(peer)
        if sink not in parent:
            return total
        path = [sink]
        while path[-1] != source:
            path.append(parent[path[-1]])
        steps = list(zip(path[1:], path[:-1], strict=True))
        amount = min(residual[a][b] for a, b in steps)
        for a, b in steps:
            residual[a][b] -= amount
            residual[b][a] += amount
        total += amount


def wire_capacity(
    view: FabricView, flows: Collection[tuple[str, str]], down: Collection[str] = ()
) -> int:
    """Bits per second that all `flows` (source, destination) together can put through the
    links not in `down`, frames counted whole.

    Exact for one flow and for flows that share no link; an upper bound otherwise (flows are
    merged into one commodity). Maximum flow, so what the surviving paths can carry is
    counted and not how many of them there are. A path goes up and then down, as routing
    does: never up again, and never through a host.
    """
    edges: list[tuple[str, str, int]] = []
    everything = 1
    turns: set[str] = set()
    for link in view.links.values():
        if link.name in down:
            continue
        low, high = link.a.node, link.b.node
        edges.append((f"{low}/up", f"{high}/up", link.rate_bps))
        edges.append((f"{high}/down", f"{low}/down", link.rate_bps))
        everything += 2 * link.rate_bps
        turns.update(end.node for end in (link.a, link.b) if not end.is_host)
    edges.extend((f"{node}/up", f"{node}/down", everything) for node in turns)
    edges.extend((SOURCE, f"{src}/up", everything) for src in {src for src, _dst in flows})
    edges.extend((f"{dst}/down", SINK, everything) for dst in {dst for _src, dst in flows})
    return max_flow(edges, SOURCE, SINK)


def goodput_capacity(
    view: FabricView, flows: Collection[tuple[str, str]], down: Collection[str] = ()
) -> float:
    """As `wire_capacity`, minus headers: payload bits per second at full PMTU packets."""
    return wire_capacity(view, flows, down) * view.payload_share
