"""What the switches' counters say about links and queues. Pure.

Counters are read before and after something is sent; every function here compares two readings
and returns a line for each thing that is not as it should be, or numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.counters import PortCounters
from controller.flows import Flow
from topologies.paths import path_of
from topologies.plan import Plan

Counters = Mapping[str, Mapping[int, PortCounters]]
"""Switch -> port -> what it counted."""
LinkCounts = Mapping[tuple[str, str], int]
"""(link, node it leaves) -> packets."""


def sent_by(counters: Counters, switch: str, port: int) -> int:
    """Packets a switch port transmitted, all classes."""
    return sum(count.packets for count in counters[switch][port].transmitted.values())


def link_packets(plan: Plan, before: Counters, after: Counters) -> dict[tuple[str, str], int]:
    """(link, node it leaves) -> packets seen between two readings.

    A host's side is counted where it arrives, at its T0.
    """
    packets: dict[tuple[str, str], int] = {}
    for link in plan.links.values():
        a, b = link.a, link.b
        packets[link.name, b.node] = sent_by(after, b.node, b.port) - sent_by(
            before, b.node, b.port
        )
        if link.kind == "host":
            packets[link.name, a.node] = (
                after[b.node][b.port].received.packets - before[b.node][b.port].received.packets
            )
        else:
            packets[link.name, a.node] = sent_by(after, a.node, a.port) - sent_by(
                before, a.node, a.port
            )
    return packets


def burst_lacks(plan: Plan, flow: Flow, before: Counters, after: Counters) -> list[str]:
    """A line for each thing that a burst should have caused on its uplink and did not."""
    switch = plan.at(flow.plane, 0, plan.host(flow.source).t0)
    link = path_of(plan, flow.source, flow.target, flow.plane, flow.evs[0]).links[1]
    (number,) = (n for n in switch.uplinks if switch.ports[n].link == link)
    now, was = after[switch.name][number], before[switch.name][number]
    lacks = []
    if now.marked.packets == was.marked.packets:
        lacks.append(f"{link}: a burst of {len(flow.evs)} packets was not marked")
    if plan.spec.trim.enabled and now.trimmed.packets == was.trimmed.packets:
        lacks.append(f"{link}: a burst of {len(flow.evs)} packets was not trimmed")
    return lacks


def compare_spread(
    predicted: Mapping[tuple[str, str], int], counted: Mapping[tuple[str, str], int]
) -> list[str]:
    """A line for every direction of a link whose packets are not those predicted."""
    problems = []
    for key in sorted({*predicted, *counted}):
        wanted, found = predicted.get(key, 0), counted.get(key, 0)
        if wanted != found:
            link, node = key
            problems.append(f"{link} from {node}: {found} packets, predicted {wanted}")
    return problems


def unexpected_drops(before: Counters, after: Counters) -> list[str]:
    """A line for every cause for which a pipeline dropped between two readings."""
    problems = []
    for switch, ports in after.items():
        for port, now in ports.items():
            for cause, count in now.drops.items():
                new = count.packets - before[switch][port].drops[cause].packets
                if new:
                    problems.append(f"{switch} port {port}: {new} packets dropped: {cause}")
    return problems


def queue_drops(before: Counters, after: Counters) -> list[str]:
    """A line for every queue that did not give back what was put into it."""
    problems = []
    for switch, ports in after.items():
        for port, now in ports.items():
            for name, count in now.forwarded.items():
                was = before[switch][port]
                put = count.packets - was.forwarded[name].packets
                got = now.transmitted[name].packets - was.transmitted[name].packets
                if put != got:
                    problems.append(
                        f"{switch} port {port}: {put} {name} packets queued, {got} came out"
                    )
    return problems


def conservation(plan: Plan, before: Counters, after: Counters) -> list[str]:
    """A line for every direction of a link inside the fabric, and every switch, that lost or
    gained packets."""
    problems = []
    sent = link_packets(plan, before, after)
    for link in plan.links.values():
        if link.kind == "host":
            continue
        for tail, head in ((link.a, link.b), (link.b, link.a)):
            left = sent[link.name, tail.node]
            now, was = after[head.node][head.port], before[head.node][head.port]
            arrived = now.received.packets - was.received.packets
            if left != arrived:
                problems.append(
                    f"{link.name} from {tail.node}: {left} packets left, {arrived} arrived"
                )
    for switch, ports in after.items():
        received = forwarded = dropped = 0
        for port, now in ports.items():
            was = before[switch][port]
            received += now.received.packets - was.received.packets
            forwarded += _packets(now.forwarded) - _packets(was.forwarded)
            dropped += _packets(now.drops) - _packets(was.drops)
        if received != forwarded + dropped:
            problems.append(
                f"{switch}: {received} packets received, {forwarded} forwarded, {dropped} dropped"
            )
    return problems


def _packets(counts: Mapping[str, Any]) -> int:
    return sum(count.packets for count in counts.values())


Nics = Mapping[tuple[str, int], int]
"""(host, plane) -> packets its agent got or its socket lost."""


def undelivered(
    plan: Plan, before: Counters, after: Counters, nics_before: Nics, nics_after: Nics
) -> list[str]:
    """A line for every NIC port that did not get what its T0 sent."""
    problems = []
    for host in plan.hosts.values():
        for nic in host.nics:
            left = sent_by(after, nic.switch, nic.switch_port) - sent_by(
                before, nic.switch, nic.switch_port
            )
            key = (host.name, nic.plane)
            arrived = nics_after[key] - nics_before[key]
            if left != arrived:
                problems.append(
                    f"{nic.link} from {nic.switch}: {left} packets left, {arrived} arrived"
                )
    return problems
