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
    counted and not how many of them there are.
    """
    edges: list[tuple[str, str, int]] = []
    for link in view.links.values():
        if link.name not in down:
            edges.append((link.a.node, link.b.node, link.rate_bps))
            edges.append((link.b.node, link.a.node, link.rate_bps))
    everything = sum(capacity for _a, _b, capacity in edges) + 1
    # A host may both send and receive: split it, so that traffic does not pass through it.
    sources = {src for src, _dst in flows}
    sinks = {dst for _src, dst in flows}
    split: list[tuple[str, str, int]] = []
    for a, b, capacity in edges:
        split.append((f"{a}/out" if a in sources else a, f"{b}/in" if b in sinks else b, capacity))
    split.extend((SOURCE, f"{src}/out", everything) for src in sources)
    split.extend((f"{dst}/in", SINK, everything) for dst in sinks)
    return max_flow(split, SOURCE, SINK)


def goodput_capacity(
    view: FabricView, flows: Collection[tuple[str, str]], down: Collection[str] = ()
) -> float:
    """As `wire_capacity`, minus headers: payload bits per second at full PMTU packets."""
    return wire_capacity(view, flows, down) * view.payload_share
