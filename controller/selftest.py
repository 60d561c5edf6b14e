"""Start-up self-tests: does the running fabric do what the plan says?

Three questions, each answered with the P4 counters of the switches, so that they can be asked
of any switch that speaks P4Runtime:

1. *Spread* (ecmp mode): every host sends a set of EVs to a host under another T0; the packets on
   every link must be exactly those that topologies/ecmp.py predicts. *Paths* (structured and
   srv6 mode): every EV that a host has is sent, and must be counted on the links it names and on
   no other. When the sums are wrong, EVs are sent again one by one until the wrong way is known.
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

from controller.errors import SelfTestError
from controller.flows import (
    EVS_PER_NIC,
    Flow,
    burst_flows,
    by_uplink,
    planned_flows,
    predict,
    spread_flows,
)
from controller.linkcounts import (
    Counters,
    LinkCounts,
    burst_lacks,
    compare_spread,
    conservation,
    link_packets,
    queue_drops,
    undelivered,
    unexpected_drops,
)
from topologies.paths import path_of
from topologies.plan import Plan
from topologies.waiting import pause

SMALL_PAYLOAD = 64
ECT0 = 2
NOT_ECT = 0
SETTLE_TIMEOUT_S = 5.0
SETTLE_LOOKS = 20
"""Looks, 50 ms apart, at counters that do not change before what is missing counts as lost."""
BURST_ATTEMPTS = 4
MOST_TRACED = 4
"""Ways that are looked at one EV at a time when the sums are wrong."""


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
        spread_check, uplinks, middle = self.check_paths(start)
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

    def check_paths(self, before: Counters) -> tuple[Check, dict[str, tuple[int, int]], Counters]:
        """Send every EV and compare every link with the prediction.

        Returns the check, packets per uplink (predicted, counted), and the counters afterwards.
        """
        named = self.plan.spec.mode != "ecmp"
        flows = (
            planned_flows(self.plan)
            if named
            else spread_flows(self.plan, self.rng, self.evs_per_nic)
        )
        predicted = predict(self.plan, flows)
        after = self._send_all(flows, predicted, before)
        counted = link_packets(self.plan, before, after)
        problems = compare_spread(predicted, counted)
        if problems and named:
            traced, after = self._trace(flows, after)
            problems = [*traced, *problems]
        uplinks = {
            port.link: (
                predicted.get((port.link, switch.name), 0),
                counted[port.link, switch.name],
            )
            for switch in self.plan.switches.values()
            for number, port in sorted(switch.ports.items())
            if number in switch.uplinks
        }
        sent = sum(len(set(flow.evs)) for flow in flows)
        shares = [found for _wanted, found in uplinks.values()] or [0]
        summary = (
            f"{sent} EVs, {min(shares)} to {max(shares)} packets on {len(uplinks)} uplinks, "
            + (f"{len(problems)} links wrong" if problems else "every link as predicted")
        )
        return Check("paths" if named else "spread", summary, tuple(problems)), uplinks, after

    def _trace(self, flows: Sequence[Flow], before: Counters) -> tuple[list[str], Counters]:
        """Find EVs that do not take their way, and say which way they take.

        All EVs of a flow that name the same uplink are sent at a time; of those whose counts are
        wrong, single EVs.
        """
        lines: list[str] = []
        for flow in (part for whole in flows for part in by_uplink(self.plan, whole)):
            predicted = predict(self.plan, [flow])
            after = self._send_all([flow], predicted, before)
            wrong = compare_spread(predicted, link_packets(self.plan, before, after))
            before = after
            for ev in flow.evs[: MOST_TRACED if wrong else 0]:
                one = replace(flow, evs=(ev,))
                wanted = predict(self.plan, [one])
                after = self._send_all([one], wanted, before)
                seen = {k: n for k, n in link_packets(self.plan, before, after).items() if n}
                dropped = unexpected_drops(before, after)
                before = after
                if seen != wanted:
                    lines.append("; ".join([self._way(one, seen, len(flow.evs)), *dropped]))
                    break
            if len(lines) >= MOST_TRACED:
                break
        return lines, before

    def _way(self, flow: Flow, seen: LinkCounts, alike: int) -> str:
        wanted = path_of(self.plan, flow.source, flow.target, flow.plane, flow.evs[0])
        took: list[str] = []
        here, left = flow.source, dict(seen)
        while step := next((key for key in left if key[1] == here), None):
            ends = self.plan.link(step[0])
            here = ends.b.node if here == ends.a.node else ends.a.node
            took.append(step[0])
            del left[step]
        return (
            f"EV {flow.evs[0]:#010x} from {flow.source} to {flow.target} in plane {flow.plane} "
            f"(of {alike} that name this way) names {' > '.join(wanted.links)} and was seen on "
            + (" > ".join([*took, *(link for link, _node in left)]) or "no link")
        )

    def _send_all(self, flows: Sequence[Flow], predicted: LinkCounts, before: Counters) -> Counters:
        """Send flows slowly enough for no queue to build up; the counters when all came through.

        The class does not matter for the way; the control queue is the deeper one, so that
        a host that was kept from the processor and catches up does not overflow it.
        """
        spec = self.plan.spec
        interval = self._interval_ns(SMALL_PAYLOAD + 256)
        at_once = max(1, min(64, spec.queues.control // 4))
        for flow in flows:
            for start in range(0, len(flow.evs), at_once):
                part = replace(flow, evs=flow.evs[start : start + at_once])
                self._send(part, SMALL_PAYLOAD, NOT_ECT, spec.dscp.control, interval)
        return self._settle(before, predicted)

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

    def _settle(self, before: Counters, predicted: LinkCounts) -> Counters:
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
