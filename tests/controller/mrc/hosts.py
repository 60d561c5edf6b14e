"""Hosts that report what they see of a fabric with faults, each in its own time.

Loops are decided after a timeout, losses noticed after a while, and a host may hold back what it
has to say and then say all at once: the order in which evidence comes in is not the order in
which things happened.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from controller.mrc.mapper import plan_loops
from controller.mrc.watch import FaultWatch, IncidentEvent
from topologies.paths import path_of
from topologies.plan import Plan
from topologies.spec import load_spec

MS = 10**6
SECOND = 10**9
STEP = 50 * MS
LOOP_TIMEOUT = 3 * STEP
PROBES_PER_STEP = 2
Way = tuple[str, ...]


@dataclass(frozen=True)
class Manner:
    """How hosts report."""

    loops: bool = True
    notice: int = 4 * STEP
    """A flow's loss is noticed within so long."""
    stall: int = 6 * STEP
    """A host may hold its reports back for so long."""
    stalls: float = 0.05
    """Probability that it begins to, in a step."""


class Hosts:
    """All hosts of a fabric, flows between them, and a watch that hears them."""

    def __init__(
        self,
        plan: Plan,
        seed: int,
        manner: Manner | None = None,
        *,
        flows: Sequence[tuple[str, str]] = (),
        evs: int = 8,
        packets: int = 40,
    ) -> None:
        """`evs`: of a flow, in each plane; `packets`: of a flow, per step."""
        self.plan, self.rng = plan, random.Random(seed)
        self.manner = manner or Manner()
        self.watch = FaultWatch(plan)
        self.now = 0
        self.broken: dict[str, float] = {}
        self.silent: set[str] = set()
        """Hosts that hold their reports back."""
        self.packets = packets
        self.bad: set[tuple[str, int, int]] = set()
        self.flows: dict[str, dict[tuple[int, int], Way]] = {}
        self._held: dict[str, list[tuple[int, Callable[[], None]]]] = defaultdict(list)
        self._until: dict[str, int] = {}
        self._taken: dict[str, dict[Way, list[int]]] = {}
        self.loops = [(x.host, x.way) for x in plan_loops(plan)] if self.manner.loops else []
        for src, dst in flows or ring(plan):
            keys: list[tuple[int, int]] = []
            for plane in range(plan.spec.planes):
                keys += [(plane, self.rng.getrandbits(32)) for _ in range(evs)]
            self.watch.flow(f"{src}>{dst}", src, dst, keys)
            ways = {}
            for plane, ev in keys:
                path = path_of(plan, src, dst, plane, ev)
                ways[plane, ev] = (*path.links, *path.switches)
            self.flows[f"{src}>{dst}"] = ways

    def class_of(self, component: str) -> tuple[str, ...]:
        """What no report tells from this component, itself included, by name."""
        seen: dict[str, set[Way]] = defaultdict(set)
        for way in self.ways():
            for name in way:
                seen[name].add(way)
        return tuple(sorted(n for n, ways in seen.items() if ways == seen[component]))

    def run(self, ns: int) -> list[IncidentEvent]:
        """Let time pass."""
        return [event for _ in range(ns // STEP) for event in self._step()]

    def ways(self) -> list[Way]:
        """Of all loops and connections."""
        return [
            *(way for _, way in self.loops),
            *(way for ways in self.flows.values() for way in ways.values()),
        ]

    def _share(self, way: Way) -> float:
        return max((self.broken.get(name, 0.0) for name in way), default=0.0)

    def _lost(self, way: Way, count: int) -> int:
        share = self._share(way)
        return sum(self.rng.random() < share for _ in range(count)) if share else 0

    def _say(self, host: str, delay: int, what: Callable[[], None]) -> None:
        self._held[host].append((self.now + delay, what))

    def _step(self) -> list[IncidentEvent]:
        self.now += STEP
        for host, way in self.loops:
            lost = self._lost(way, PROBES_PER_STEP)
            self._probe(host, way, PROBES_PER_STEP - lost, 0, 0)
            self._probe(host, way, lost, lost, LOOP_TIMEOUT)
        for name, ways in self.flows.items():
            self._flow(name, ways)
        for host in self.plan.hosts:
            if self.rng.random() < self.manner.stalls:
                self._until[host] = self.now + self.rng.randrange(self.manner.stall + 1)
            if host in self.silent or self._until.get(host, 0) > self.now:
                continue
            due = [what for t, what in self._held[host] if t <= self.now]
            self._held[host] = [item for item in self._held[host] if item[0] > self.now]
            for what in due:
                what()
            for way, (sent, lost) in self._taken.pop(host, {}).items():
                self.watch.loop(way, sent, lost, self.now)
        return self.watch.tick(self.now)

    def _probe(self, host: str, way: Way, sent: int, lost: int, delay: int) -> None:
        """An agent tells a loop's sums since it was last asked."""

        def take() -> None:
            sums = self._taken.setdefault(host, {}).setdefault(way, [0, 0])
            sums[0] += sent
            sums[1] += lost

        if sent:
            self._say(host, delay, take)

    def _flow(self, name: str, ways: dict[tuple[int, int], Way]) -> None:
        host = name.split(">")[0]
        good = [key for key in ways if (name, *key) not in self.bad]
        arrived = 0
        for _ in range(self.packets if good else 0):
            key = self.rng.choice(good)
            if not self._lost(ways[key], 1):
                arrived += 1
            elif (name, *key) not in self.bad:
                self.bad.add((name, *key))
                delay = self.rng.randrange(self.manner.notice + 1)
                self._state(host, name, key, "ASSUMED_BAD", delay)
        self._say(host, 0, lambda: self.watch.traffic(name, arrived, self.now))
        for key, way in ways.items():
            if (name, *key) not in self.bad or self.rng.random() > 0.2 or self._lost(way, 1):
                continue
            self.bad.discard((name, *key))
            self._state(host, name, key, "GOOD", self.manner.notice)

    def _state(self, host: str, name: str, key: tuple[int, int], state: str, delay: int) -> None:
        self._say(host, delay, lambda: self.watch.ev_state(name, *key, state, self.now))


def ring(plan: Plan) -> list[tuple[str, str]]:
    """Each host sends to the one as far away as can be."""
    hosts = list(plan.hosts)
    half = len(hosts) // 2
    return [(host, hosts[(n + half) % len(hosts)]) for n, host in enumerate(hosts)]


def fabric(name: str) -> Plan:
    """A fabric of the catalogue."""
    return Plan.from_spec(load_spec(name))
