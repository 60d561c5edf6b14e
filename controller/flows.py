"""Which packets the self-test sends, and which links they must cross. Pure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from topologies.paths import path_of, planned_evs
from topologies.plan import HostPlan, Plan

EVS_PER_NIC = 128
"""EVs tried per host and plane in ecmp mode, where nobody is given EVs."""
MOST_MARKERS = 64
"""Bound on the packets that a way gets on top, to be told from others."""


@dataclass(frozen=True)
class Flow:
    """EVs that one host sends to another in one plane."""

    source: str
    target: str
    plane: int
    evs: tuple[int, ...]


def predict(plan: Plan, flows: Sequence[Flow]) -> dict[tuple[str, str], int]:
    """(link, node it leaves) -> packets, one per EV of every flow."""
    packets: dict[tuple[str, str], int] = {}
    for flow in flows:
        for ev in flow.evs:
            path = path_of(plan, flow.source, flow.target, flow.plane, ev)
            here = flow.source
            for link in path.links:
                packets[link, here] = packets.get((link, here), 0) + 1
                ends = plan.link(link)
                here = ends.b.node if here == ends.a.node else ends.a.node
    return packets


def partners(plan: Plan) -> list[tuple[HostPlan, HostPlan]]:
    """Every host with the one in the same place under the next T0 (with one T0: the next host),
    so that everyone sends and everyone receives."""
    hosts = sorted(plan.hosts.values(), key=lambda host: host.index)
    step = plan.spec.hosts_per_t0 if plan.spec.t0_per_plane > 1 else 1
    pairs = [(host, hosts[(place + step) % len(hosts)]) for place, host in enumerate(hosts)]
    return [(host, other) for host, other in pairs if host is not other]


def spread_flows(plan: Plan, rng: random.Random, evs: int = EVS_PER_NIC) -> list[Flow]:
    """In ecmp mode: random EVs of every host to its partner, in every plane."""
    return [
        Flow(host.name, target.name, nic.plane, tuple(rng.getrandbits(32) for _ in range(evs)))
        for host, target in partners(plan)
        for nic in host.nics
    ]


def planned_flows(plan: Plan) -> list[Flow]:
    """In structured and srv6 mode: every EV that a host is given, to its partner, in every plane.

    Counters tell how many packets crossed a link and not which. So the first EV of every uplink
    is sent some more times, as often as no other host under that T0 does for no other uplink:
    ways that were exchanged for each other do not add up to the same sums.
    """
    uplinks = plan.spec.t1_per_plane
    flows = []
    for host, target in partners(plan):
        slot = host.index % plan.spec.hosts_per_t0
        for nic in host.nics:
            evs = planned_evs(plan, nic.plane)
            extra = [
                ev
                for number, ev in enumerate(evs[:uplinks])
                for _ in range((slot * uplinks + number) % MOST_MARKERS)
            ]
            flows.append(Flow(host.name, target.name, nic.plane, (*evs, *extra)))
    return flows


def by_uplink(plan: Plan, flow: Flow) -> list[Flow]:
    """A flow in parts, one for each uplink that its EVs name, every EV once."""
    field = plan.ev_layout.uplink
    parts: dict[int, list[int]] = {}
    for ev in dict.fromkeys(flow.evs):
        parts.setdefault(field.get(ev), []).append(ev)
    return [Flow(flow.source, flow.target, flow.plane, tuple(evs)) for evs in parts.values()]


def burst_flows(plan: Plan, rng: random.Random) -> list[Flow]:
    """For the first host of every T0 and plane, EVs that all take one and the same uplink."""
    flows: list[Flow] = []
    if plan.spec.t0_per_plane < 2:
        return flows
    for t0 in range(plan.spec.t0_per_plane):
        source = plan.hosts_under(t0)[0].name
        target = plan.hosts_under((t0 + 1) % plan.spec.t0_per_plane)[0].name
        for plane in range(plan.spec.planes):
            ports = sorted(plan.at(plane, 0, t0).uplinks)
            link = plan.at(plane, 0, t0).ports[rng.choice(ports)].link
            count = burst_size(plan)
            candidates = planned_evs(plan, plane)
            evs: list[int] = []
            while len(evs) < count:
                ev = rng.choice(candidates) if candidates else rng.getrandbits(32)
                if link in path_of(plan, source, target, plane, ev).links[1:2]:
                    evs.append(ev)
            flows.append(Flow(source, target, plane, tuple(evs)))
    return flows


def burst_size(plan: Plan) -> int:
    """Packets that fill a queue past kmax, or far past the trim threshold where there is one,
    although some leave meanwhile; without trimming they stay below the tail drop."""
    depths = plan.spec.thresholds
    if plan.spec.trim.enabled:
        return 4 * depths.trim
    return max(depths.kmax + 1, min(depths.data_limit - 1, 2 * depths.kmax + 8))
