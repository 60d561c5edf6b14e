"""Running the steps of one test on a switch, and what came of it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from softswitch.engine.types import Entry, MatchValue
from softswitch.stf.commands import Check, Expect, NoPacket, Packet
from softswitch.stf.target import Target, TargetError

COMPARE: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Arrival:
    """A frame that went into the switch."""

    line: int
    port: int
    frame: bytes


@dataclass(frozen=True)
class Output:
    """A frame that came out. `line`: the packet line that was the last before it."""

    line: int
    port: int
    frame: bytes


@dataclass(frozen=True)
class Wrong:
    """A check that does not hold."""

    line: int
    message: str
    output: Output | None = None
    """The frame that should not be, for no_packet."""


class Handles:
    """Numbers that a test uses -> handles of the switch.

    Numbered as bmv2 does it: the lowest number that is free, per owner (a profile).
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._real: dict[str, dict[int, int]] = {}

    def made(self, owner: str, handle: int) -> None:
        mine = self._real.setdefault(owner, {})
        mine[next(n for n in range(len(mine) + 1) if n not in mine)] = handle

    def real(self, owner: str, number: int) -> int:
        try:
            return self._real[owner][number]
        except KeyError:
            of = f" of {owner}" if owner else ""
            raise TargetError(f"there is no {self._what} {number}{of}") from None

    def gone(self, owner: str, number: int) -> int:
        handle = self.real(owner, number)
        del self._real[owner][number]
        return handle


@dataclass
class Run:
    """One test on one switch, in progress."""

    target: Target
    arrivals: list[Arrival] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    expects: list[Expect] = field(default_factory=list)
    wrongs: list[Wrong] = field(default_factory=list)
    said: list[tuple[int, str]] = field(default_factory=list)
    """(line, what a command that reads found)."""
    ports: set[int] = field(default_factory=set)
    """Ports whose output counts: those that the test names, or all of them."""

    def __post_init__(self) -> None:
        self.members = Handles("member")
        self.groups = Handles("group")
        self.nodes = Handles("multicast node")
        self._named: dict[str, tuple[str, int]] = {}
        self._entries: dict[tuple[str, int], tuple[tuple[MatchValue, ...], int]] = {}

    # -- packets

    def packet(self, command: Packet) -> None:
        self.arrivals.append(Arrival(command.line, command.port, command.data))
        self.target.packet(command.port, command.data)
        self.collect()

    def collect(self) -> None:
        line = self.arrivals[-1].line if self.arrivals else 0
        self.outputs += [Output(line, port, frame) for port, frame in self.target.output()]

    def expect(self, command: Expect) -> None:
        self.expects.append(command)

    def no_packet(self, command: NoPacket) -> None:
        self.collect()
        for port in sorted({output.port for output in self.outputs}):
            sent = [output for output in self.outputs if output.port == port]
            wanted = sum(1 for expect in self.expects if expect.port == port)
            for output in sent[wanted:]:
                text = f"no_packet, but port {port} sent {len(output.frame)} bytes"
                self.wrongs.append(Wrong(command.line, text, output))

    def wait(self) -> None:
        self.target.wait()
        self.collect()

    # -- tables

    def add(
        self,
        table: str,
        match: tuple[MatchValue, ...],
        entry: Entry,
        priority: int,
        name: str | None,
    ) -> None:
        handle = self.target.entry_add(table, match, entry, priority)
        self._entries[table, handle] = (match, priority)
        if name is not None:
            self._named[name] = (table, handle)

    def _named_entry(self, name: str) -> tuple[str, int]:
        place = self._named.get(name)
        if place is None or place not in self._entries:
            raise TargetError(f"the entry '{name}' is gone")
        return place

    def _remove(self, place: tuple[str, int]) -> None:
        self.target.entry_delete(*place)
        del self._entries[place]

    def remove_named(self, name: str) -> None:
        self._remove(self._named_entry(name))

    def remove_all(self, table: str | None) -> None:
        for place in [p for p in self._entries if table is None or p[0] == table]:
            self._remove(place)

    def remove_entry(self, table: str, match: tuple[MatchValue, ...], priority: int | None) -> None:
        for place, (key, order) in self._entries.items():
            if place[0] == table and key == match and priority in (None, order):
                self._remove(place)
                return
        raise TargetError(f"table {table} has no such entry")

    # -- counters, registers, meters

    def _compare(self, command: Check, what: str, found: int, unit: str = "") -> None:
        if not COMPARE[command.op](found, command.value):
            of = f" {unit}" if unit else ""
            self.wrongs.append(
                Wrong(
                    command.line,
                    f"{what}: {found}{of}, expected {command.op} {command.value}",
                )
            )

    def _compare_count(self, command: Check, what: str, count: tuple[int, int]) -> None:
        for unit, found in zip(("packets", "bytes"), count, strict=True):
            if command.unit in (None, unit):
                self._compare(command, what, found, unit)

    def check_counter(self, command: Check, name: str, index: int) -> None:
        self._compare_count(command, f"{name}[{index}]", self.target.counter_read(name, index))

    def check_entry(self, command: Check, table: str, name: str) -> None:
        place = self._named_entry(name)
        what = f"{command.name} of entry {name} in {table}"
        self._compare_count(command, what, self.target.entry_counter(*place))

    def check_register(self, command: Check, name: str, index: int) -> None:
        self._compare(command, f"{name}[{index}]", self.target.register_read(name, index))

    def say(self, line: int, text: str) -> None:
        self.said.append((line, text))

    def say_counter(self, line: int, name: str, index: int) -> None:
        packets, octets = self.target.counter_read(name, index)
        self.say(line, f"{name}[{index}] = {packets} packets, {octets} bytes")

    def say_register(self, line: int, name: str, indexes: Iterable[int]) -> None:
        for index in indexes:
            self.say(line, f"{name}[{index}] = {self.target.register_read(name, index)}")

    def say_meter(self, line: int, name: str, index: int) -> None:
        self.say(line, f"{name}[{index}] = {rates_text(self.target.meter_get(name, index))}")


def rates_text(rates: Sequence[tuple[float, int]]) -> str:
    """Rates as meter_set_rates takes them."""
    return " ".join(f"{rate:g}:{burst}" for rate, burst in rates) or "not set"
