"""Start-up self-tests: does the running fabric do what the plan says?

Three questions, each answered with the P4 counters of the switches, so that they can be asked
of any switch that speaks P4Runtime:

1. *Spread.* Every host sends a set of EVs to a host under another T0; the packets on every
   link must be exactly those that topologies/ecmp.py predicts.
2. *Marks.* A burst over one uplink of every T0 must produce ECN marks there, and none on
   ports that face hosts; where the fabric trims, it must trim and not drop.
3. *Conservation.* What left one end of a link arrived at the other; what a switch received it
   sent or dropped by name; and during the tests it had nothing to drop.

The tests move packets with the agents' `send_raw` (WRITE Middle to a QPN nobody has) and must
run while nothing else does.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from controller.counters import PortCounters
from controller.errors import SelfTestError
from topologies.paths import path_of
from topologies.plan import Plan
from topologies.waiting import pause

Counters = Mapping[str, Mapping[int, PortCounters]]

EVS_PER_NIC = 128
SMALL_PAYLOAD = 64
ECT0 = 2
NOT_ECT = 0
SETTLE_TIMEOUT_S = 5.0
SETTLE_LOOKS = 20
"""Looks, 50 ms apart, at counters that do not change before what is missing counts as lost."""
BURST_ATTEMPTS = 4


class Agent(Protocol):
    """The control socket of a host agent."""

    def call(self, op: str, **fields: Any) -> dict[str, Any]:
        """One request, one reply; raises when it is not ok."""
        ...


@dataclass(frozen=True)
class Check:
    """One thing that was tried. `problems` is empty when it held."""

    name: str
    summary: str
    problems: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether it held."""
        return not self.problems


@dataclass(frozen=True)
class Report:
    """All checks, and the packets per uplink for people to look at."""

    checks: tuple[Check, ...]
    uplinks: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Uplink -> (packets predicted, packets counted) of the spread test."""

    @property
    def ok(self) -> bool:
        """Whether everything held."""
        return all(check.ok for check in self.checks)

    def require(self) -> None:
        """Raise SelfTestError with the problems of the first check that failed."""
        for check in self.checks:
            if not check.ok:
                shown = "; ".join(check.problems[:3])
                more = len(check.problems) - 3
                raise SelfTestError(
                    f"self-test {check.name} failed: {shown}"
                    + (f"; and {more} more" if more > 0 else "")
                )

    def lines(self) -> list[str]:
        """For a terminal."""
        return [f"{'ok  ' if c.ok else 'FAIL'} {c.name}: {c.summary}" for c in self.checks]


# -- links as counters see them (pure)


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


def spread_flows(plan: Plan, rng: random.Random, evs: int = EVS_PER_NIC) -> list[Flow]:
    """Every host to the one in the same place under the next T0, in every plane."""
    hosts = sorted(plan.hosts.values(), key=lambda host: host.index)
    flows: list[Flow] = []
    for position, host in enumerate(hosts):
        target = hosts[(position + plan.spec.hosts_per_t0) % len(hosts)]
        if target is host:
            continue
        for nic in host.nics:
            chosen = tuple(rng.getrandbits(32) for _ in range(evs))
            flows.append(Flow(host.name, target.name, nic.plane, chosen))
    return flows


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
            evs: list[int] = []
            while len(evs) < count:
                ev = rng.getrandbits(32)
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


# -- running


class SelfTest:
    """Runs the checks. `counters` reads all switches; `wait` passes the time between two looks."""

    def __init__(
        self,
        plan: Plan,
        agents: Mapping[str, Agent],
        counters: Callable[[], Counters],
        *,
        rng: random.Random,
        evs_per_nic: int = EVS_PER_NIC,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], None] = pause,
    ) -> None:
        self.plan = plan
        self.agents = agents
        self.counters = counters
        self.rng = rng
        self.evs_per_nic = evs_per_nic
        self._clock = clock
        self._wait = wait

    def run(self) -> Report:
        """All checks, in order. Does not raise for a check that fails; see Report.require."""
        nics = self._nics()
        start = self.counters()
        spread_check, uplinks, middle = self.check_spread(start)
        marks, end = self.check_marks(middle)
        problems = [
            *conservation(self.plan, start, end),
            *unexpected_drops(start, end),
            *undelivered(self.plan, start, end, nics, self._nics()),
        ]
        total = sum(link_packets(self.plan, start, end).values())
        balance = Check(
            "conservation",
            f"{total} packets over {len(self.plan.links)} links, "
            + (f"{len(problems)} sums wrong" if problems else "none lost, none added"),
            tuple(problems),
        )
        return Report((spread_check, marks, balance), uplinks)

    def check_spread(self, before: Counters) -> tuple[Check, dict[str, tuple[int, int]], Counters]:
        """Send every EV once and compare every link with the prediction.

        The class does not matter for the way; the control queue is the deeper one, so that
        a host that was kept from the processor and catches up does not overflow it.
        """
        spec = self.plan.spec
        flows = spread_flows(self.plan, self.rng, self.evs_per_nic)
        predicted = predict(self.plan, flows)
        interval = self._interval_ns(SMALL_PAYLOAD + 256)
        at_once = max(1, min(64, spec.queues.control // 4))
        for flow in flows:
            for start in range(0, len(flow.evs), at_once):
                part = replace(flow, evs=flow.evs[start : start + at_once])
                self._send(part, SMALL_PAYLOAD, NOT_ECT, spec.dscp.control, interval)
        after = self._settle(before, predicted)
        counted = link_packets(self.plan, before, after)
        problems = compare_spread(predicted, counted)
        uplinks = {
            port.link: (
                predicted.get((port.link, switch.name), 0),
                counted[port.link, switch.name],
            )
            for switch in self.plan.switches.values()
            for number, port in sorted(switch.ports.items())
            if number in switch.uplinks
        }
        sent = sum(len(flow.evs) for flow in flows)
        shares = [found for _wanted, found in uplinks.values()] or [0]
        summary = (
            f"{sent} EVs, {min(shares)} to {max(shares)} packets on {len(uplinks)} uplinks, "
            + (f"{len(problems)} links wrong" if problems else "every link as predicted")
        )
        return Check("spread", summary, tuple(problems)), uplinks, after

    def check_marks(self, start: Counters) -> tuple[Check, Counters]:
        """Fill the queue of one uplink per T0 and plane.

        A host that was kept from the processor sends a burst too slowly to fill a queue, so
        what has not been marked (and trimmed) is tried again.
        """
        spec = self.plan.spec
        flows = burst_flows(self.plan, self.rng)
        if not flows:
            return Check("marks", "no uplinks: nothing to mark"), start
        dscp = spec.dscp.trimmable if spec.trim.enabled else spec.dscp.no_trim
        after, pending = start, flows
        problems: list[str] = []
        for _attempt in range(BURST_ATTEMPTS):
            before = after
            for flow in pending:
                self._send(flow, spec.pmtu, ECT0, dscp, 0)
            after = self._settle(before, predict(self.plan, pending))
            lacking = {flow: burst_lacks(self.plan, flow, start, after) for flow in pending}
            pending = [flow for flow, lacks in lacking.items() if lacks]
            problems = [line for lacks in lacking.values() for line in lacks]
            if not pending:
                break
        marks = trims = 0
        for name, switch in self.plan.switches.items():
            for number, port in switch.ports.items():
                now, was = after[name][number], start[name][number]
                marks += now.marked.packets - was.marked.packets
                trims += now.trimmed.packets - was.trimmed.packets
                if port.kind == "host" and now.marked.packets != was.marked.packets:
                    problems.append(f"{name} port {number} faces a host and marks")
        problems += queue_drops(start, after)
        summary = f"{len(flows)} bursts of {len(flows[0].evs)}: {marks} marked, {trims} trimmed"
        return Check("marks", summary, tuple(problems)), after

    def _send(self, flow: Flow, size: int, ecn: int, dscp: int, interval_ns: int) -> None:
        reply = self.agents[flow.source].call(
            "send_raw",
            dst=self.plan.host(flow.target).nics[flow.plane].ipv6,
            plane=flow.plane,
            evs=list(flow.evs),
            size=size,
            ecn=ecn,
            dscp=dscp,
            count=1,
            interval_ns=interval_ns,
        )
        sent = int(reply.get("sent", 0))
        if sent != len(flow.evs):
            raise SelfTestError(
                f"self-test: {flow.source} sent {sent} of {len(flow.evs)} packets in plane "
                f"{flow.plane}: {reply}"
            )

    def _nics(self) -> dict[tuple[str, int], int]:
        counts = {}
        for host in self.plan.hosts.values():
            nics = self.agents[host.name].call("stats")["nics"]
            for nic in host.nics:
                stats = nics[str(nic.port)]
                counts[host.name, nic.plane] = stats["rx_packets"] + stats["sock_drops"]
        return counts

    def _interval_ns(self, frame: int) -> int:
        """Twice the time a frame needs on a link, so that no queue builds up."""
        return 2 * frame * 8 * 1_000_000_000 // self.plan.spec.link.rate

    def _settle(self, before: Counters, predicted: Mapping[tuple[str, str], int]) -> Counters:
        """Read until every link has carried what was predicted, or nothing changes any more
        for a while, or the time is over."""
        end = self._clock() + SETTLE_TIMEOUT_S
        last: dict[tuple[str, str], int] = {}
        still = 0
        while True:
            after = self.counters()
            counted = link_packets(self.plan, before, after)
            done = all(counted.get(key, 0) >= count for key, count in predicted.items())
            still = still + 1 if counted == last else 0
            if (done and still >= 1) or still >= SETTLE_LOOKS or self._clock() > end:
                return after
            last = counted
            self._wait(0.05)
