"""Some of the hosts, run together: in this process, or in one of several (`workers`).

Hosts have no influence on each other within a window of time shorter than the way to the
first switch, so any number of shards gives the same bytes.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from hosts.agent.control import Json, Later
from hosts.agent.settings import parse
from softswitch.engine.net import RECORD, Network
from virtualtime.host import NEVER, Arrival, VirtualHost

NOTHING: list[Arrival] = []


@dataclass(frozen=True)
class HostSpec:
    """What a shard needs to make a host. `config`: as the agent's file; `numbers`: port ->
    number of the NIC port in the network; `events`: its events file."""

    name: str
    config: Mapping[str, Any]
    numbers: Mapping[int, int]
    events: Path | None = None
    samples: bool = True


class Pending(NamedTuple):
    """A request whose reply comes later, see `Shard.answers`."""

    ticket: int


@dataclass
class StepResult:
    """What came of a window: records of frames sent, and when any host wants a turn next."""

    outgoing: Sequence[bytes | memoryview]
    wake: int
    answers: list[tuple[int, Json]] = field(default_factory=list)


class Shard(Protocol):
    """Hosts that are run together."""

    def start_step(self, until: int, network: Network, group: int) -> None:
        """Begin all turns before `until`, with the frames that have reached NICs of `group`."""
        ...

    def finish_step(self) -> StepResult:
        """Wait for what `start_step` began."""
        ...

    def call(self, host: str, request: Json, now: int) -> tuple[Json | Pending, StepResult]:
        """An operation of a host's agent at this moment, and what follows from it at once."""
        ...

    def set_carrier(self, host: str, port: int, up: bool, now: int) -> StepResult:
        """Carrier of a NIC port."""
        ...

    def close(self) -> None: ...


class LocalShard:
    """Hosts in this process."""

    def __init__(self, specs: list[HostSpec], now: int) -> None:
        self.hosts = {
            spec.name: VirtualHost(
                spec.name,
                parse(dict(spec.config), {}),
                spec.numbers,
                spec.events,
                now,
                samples=spec.samples,
            )
            for spec in specs
        }
        self._order = list(self.hosts.values())
        self._of = {
            number: index for index, host in enumerate(self._order) for number in host.by_number
        }
        self._laters: dict[int, Later] = {}
        self._tickets = 0
        self._result = StepResult([], NEVER)
        self._settled = False
        self._threshold = gc.get_threshold()

    def start_step(self, until: int, network: Network, group: int) -> None:
        self.step(until, network.take(group))

    def step(self, until: int, incoming: memoryview) -> None:
        """All turns before `until`, with the records of frames that arrive before it."""
        if not self._settled:
            self._settled = True
            gc.collect()
            gc.freeze()  # hosts and connections stay: never look at them again
            gc.set_threshold(50_000, 20, 100)
        arrivals: dict[int, list[Arrival]] = {}
        of = self._of
        unpack = RECORD.unpack_from
        at, end = 0, len(incoming)
        while at < end:
            t, number, length = unpack(incoming, at)
            at += 16
            arrival = (t, number, incoming[at : at + length])
            at += length + 7 & ~7
            index = of[number]
            if index in arrivals:
                arrivals[index].append(arrival)
            else:
                arrivals[index] = [arrival]
        for index, host in enumerate(self._order):
            mine = arrivals.get(index)
            if mine is not None:
                host.run(until, mine)
            elif host.wake < until:
                host.run(until, NOTHING)
        self._result = self._collect()

    def finish_step(self) -> StepResult:
        return self._result

    def _collect(self) -> StepResult:
        outgoing: list[bytes] = []
        wake = NEVER
        for host in self._order:
            if host.outgoing:
                outgoing += host.outgoing
                host.outgoing.clear()
            wake = min(wake, host.wake)
        return StepResult(outgoing, wake, self._answers() if self._laters else [])

    def _answers(self) -> list[tuple[int, Json]]:
        found = [(n, later.reply) for n, later in self._laters.items() if later.reply is not None]
        for ticket, _ in found:
            del self._laters[ticket]
        return found

    def call(self, host: str, request: Json, now: int) -> tuple[Json | Pending, StepResult]:
        reply = self.hosts[host].handle(request, now)
        if not isinstance(reply, Later):
            return reply, self._collect()
        if reply.reply is not None:
            return reply.reply, self._collect()
        self._tickets += 1
        self._laters[self._tickets] = reply
        return Pending(self._tickets), self._collect()

    def set_carrier(self, host: str, port: int, up: bool, now: int) -> StepResult:
        self.hosts[host].set_carrier(port, up, now)
        return self._collect()

    def close(self) -> None:
        if self._settled:
            gc.unfreeze()
            gc.set_threshold(*self._threshold)
        for host in self._order:
            host.close()
