"""What an STF file says, line by line, as plain values. Nothing of a program is known here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

MAX_MESSAGE = 400
"""Characters of a message: it may quote a number of any length."""


class StfError(Exception):
    """A test that cannot be run: one clear line, with its place where there is one."""

    def __init__(self, message: str, file: str = "", line: int = 0) -> None:
        place = f"{file}:{line}: " if line else (f"{file}: " if file else "")
        if len(message) > MAX_MESSAGE:
            half = MAX_MESSAGE // 2
            message = f"{message[:half]} ... {message[-half:]}"
        super().__init__(f"{place}{message}")


@dataclass(frozen=True, slots=True)
class Named:
    """`name:value`, a match field or an action argument. The value is text: what it means
    depends on the kind and width of what it is for."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Packet:
    """`packet PORT HEX`: a frame arrives."""

    line: int
    port: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Expect:
    """`expect PORT [PATTERN][$]`: the next frame on that port.

    `pattern`: hexadecimal digits and `*` (any digit); None: whatever it holds. `exact`: the
    frame ends where the pattern ends; otherwise more bytes may follow.
    """

    line: int
    port: int
    pattern: str | None
    exact: bool = False


@dataclass(frozen=True, slots=True)
class NoPacket:
    """`no_packet`: nothing came out so far but what was expected."""

    line: int


@dataclass(frozen=True, slots=True)
class Wait:
    """`wait`: let time pass."""

    line: int


@dataclass(frozen=True, slots=True)
class Call:
    """An action with its arguments; or `member(N)`, `group(N)` of an action profile."""

    name: str
    args: tuple[Named, ...] = ()
    handle: int | None = None
    """N of `member(N)` and `group(N)`."""


@dataclass(frozen=True, slots=True)
class Add:
    """`add TABLE [PRIORITY] FIELD:VALUE... ACTION(ARG:VALUE, ...) [= NAME]`."""

    line: int
    table: str
    priority: int | None
    match: tuple[Named, ...]
    action: Call
    entry: str | None = None
    """A name for the entry, for check_counter and remove."""


@dataclass(frozen=True, slots=True)
class SetDefault:
    """`setdefault TABLE ACTION(...)`."""

    line: int
    table: str
    action: Call


@dataclass(frozen=True, slots=True)
class Remove:
    """`remove all [TABLE]`, `remove NAME`, `remove TABLE [PRIORITY] FIELD:VALUE...`."""

    line: int
    table: str | None = None
    entry: str | None = None
    priority: int | None = None
    match: tuple[Named, ...] | None = None
    """None with `table`: the whole table; without: all tables."""


@dataclass(frozen=True, slots=True)
class Check:
    """`check_counter NAME(INDEX) [packets|bytes OP NUMBER]`, `check_register NAME(INDEX) OP
    NUMBER`. `index` is a number or the name of an entry; `unit` None: both must hold."""

    line: int
    what: str
    """counter or register."""
    name: str
    index: int | str
    unit: str | None = None
    op: str = "=="
    value: int = 0


@dataclass(frozen=True, slots=True)
class Direct:
    """A command with the words of bmv2's own command line."""

    line: int
    verb: str
    name: str = ""
    """Table, profile, counter, register or meter."""
    numbers: tuple[int, ...] = ()
    words: tuple[str, ...] = ()
    """What is text: an action and its arguments, or match values."""
    rates: tuple[tuple[float, int], ...] = ()
    """(units per microsecond, burst) of meters."""


Command: TypeAlias = Packet | Expect | NoPacket | Wait | Add | SetDefault | Remove | Check | Direct


@dataclass(frozen=True, slots=True)
class Test:
    """A whole file."""

    file: str
    commands: tuple[Command, ...] = ()
    lines: tuple[str, ...] = field(default=(), repr=False)

    __test__ = False  # not for pytest
