"""STF text to commands. The format is the one of p4c's packet tests; docs/stf.md has it all."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NoReturn

from softswitch.stf.commands import (
    Add,
    Call,
    Check,
    Command,
    Direct,
    Expect,
    Named,
    NoPacket,
    Packet,
    Remove,
    SetDefault,
    StfError,
    Test,
    Wait,
)

MAX_PORT = 0xFFFF
MAX_FRAME = 9216
"""Bytes of the longest frame that a switch here takes."""

_TOKEN = re.compile(
    r'\s*(?:"(?P<quoted>[^"]*)"|(?P<op>==|!=|<=|>=|=>|[<>(),:=])|(?P<word>(?:->|[^\s"(),:=<>!])+))'
)
_COMPARE = ("==", "!=", "<=", ">=", "<", ">")
_HEX = re.compile(r"[0-9a-fA-F]*\Z")
_PATTERN = re.compile(r"[0-9a-fA-F*]*\$?\Z")

_SHAPES: dict[str, tuple[str, str]] = {
    # verb: (what follows, how to say it). t: a name, n: a number, N: numbers, w: words to the
    # end, r: rates to the end, a "?" makes what comes before it optional.
    "mirroring_add": ("nn", "SESSION PORT"),
    "mirroring_add_mc": ("nn", "SESSION GROUP"),
    "mirroring_delete": ("n", "SESSION"),
    "mirroring_get": ("n", "SESSION"),
    "mc_mgrp_create": ("n", "GROUP"),
    "mc_mgrp_destroy": ("n", "GROUP"),
    "mc_node_create": ("nN", "RID PORT..."),
    "mc_node_update": ("nN", "NODE PORT..."),
    "mc_node_associate": ("nn", "GROUP NODE"),
    "mc_node_dissociate": ("nn", "GROUP NODE"),
    "mc_node_destroy": ("n", "NODE"),
    "counter_read": ("tn", "COUNTER INDEX"),
    "counter_write": ("tnnn", "COUNTER INDEX PACKETS BYTES"),
    "counter_reset": ("t", "COUNTER"),
    "register_read": ("tn?", "REGISTER [INDEX]"),
    "register_write": ("tnn", "REGISTER INDEX VALUE"),
    "register_reset": ("t", "REGISTER"),
    "meter_get_rates": ("tn", "METER INDEX"),
    "meter_set_rates": ("tnr", "METER INDEX RATE:BURST..."),
    "meter_array_set_rates": ("tr", "METER RATE:BURST..."),
    "act_prof_create_member": ("tw", "PROFILE ACTION [ARGUMENT...]"),
    "act_prof_modify_member": ("tw", "PROFILE ACTION MEMBER [ARGUMENT...]"),
    "act_prof_delete_member": ("tn", "PROFILE MEMBER"),
    "act_prof_create_group": ("t", "PROFILE"),
    "act_prof_delete_group": ("tn", "PROFILE GROUP"),
    "act_prof_add_member_to_group": ("tnn", "PROFILE MEMBER GROUP"),
    "act_prof_remove_member_from_group": ("tnn", "PROFILE MEMBER GROUP"),
    "table_indirect_add": ("tw", "TABLE VALUE... => MEMBER [PRIORITY]"),
    "table_indirect_add_with_group": ("tw", "TABLE VALUE... => GROUP [PRIORITY]"),
    "table_indirect_set_default": ("tn", "TABLE MEMBER"),
    "table_indirect_set_default_with_group": ("tn", "TABLE GROUP"),
}


def number(text: str) -> int | None:
    """A number without don't-care digits: decimal, 0x, 0b or 0o. None: it is not one."""
    lower = text.lower()
    base = {"0x": 16, "0b": 2, "0o": 8}.get(lower[:2])
    digits = lower[2:] if base else lower
    if not digits or not digits.isalnum() or not digits.isascii():
        return None
    try:
        return int(digits, base or 10)
    except ValueError:
        return None


class _Line:
    """One line and how far it has been read."""

    def __init__(self, file: str, number: int, text: str) -> None:
        self.file, self.number, self.text = file, number, text
        self.at = 0

    def fail(self, message: str) -> NoReturn:
        raise StfError(message, self.file, self.number)

    def peek(self) -> tuple[str, str] | None:
        """(kind, text) of the next token; kinds: word, quoted, op."""
        rest = self.text[self.at :]
        if not rest.strip():
            return None
        found = _TOKEN.match(rest)
        if found is None or found.lastgroup is None:
            bad = rest.strip()
            self.fail(f"cannot read '{bad[:20]}'")
        return found.lastgroup, found[found.lastgroup]

    def next(self, what: str) -> tuple[str, str]:
        token = self.peek()
        if token is None:
            self.fail(f"{what} is missing at the end of the line")
        found = _TOKEN.match(self.text[self.at :])
        self.at += found.end() if found else 0
        return token

    def ended(self) -> bool:
        return self.peek() is None

    def end(self) -> None:
        token = self.peek()
        if token is not None:
            self.fail(f"'{token[1]}' is too much here")

    def name(self, what: str) -> str:
        kind, text = self.next(what)
        if kind == "op":
            self.fail(f"{what} is expected, not '{text}'")
        return text

    def integer(self, what: str, high: int = (1 << 64) - 1) -> int:
        text = self.name(what)
        value = number(text)
        if value is None:
            self.fail(f"{what} must be a number, not '{text}'")
        if value > high:
            self.fail(f"{what} {value} is more than {high}")
        return value

    def op(self, wanted: str, where: str) -> None:
        kind, text = self.next(f"'{wanted}'")
        if kind != "op" or text != wanted:
            self.fail(f"'{wanted}' is expected {where}, not '{text}'")

    def is_op(self, wanted: str) -> bool:
        return self.peek() == ("op", wanted)

    def rest(self) -> str:
        text, self.at = self.text[self.at :], len(self.text)
        return text

    # -- parts of statements

    def named(self, what: str) -> Named:
        name = self.name(what)
        self.op(":", f"after {what} '{name}'")
        return Named(name, self.name(f"the value of {name}"))

    def priority(self) -> int | None:
        """A number that no ':' follows."""
        token = self.peek()
        if token is None or token[0] != "word" or not token[1].isdigit():
            return None
        before = self.at
        self.next("priority")
        if self.is_op(":"):
            self.at = before
            return None
        if int(token[1]) >= 1 << 31:
            self.fail(f"priority {token[1]} is more than {(1 << 31) - 1}")
        return int(token[1])

    def matches(self) -> tuple[Named, ...]:
        """Match fields up to the action or the end."""
        found = []
        while not self.ended():
            before = self.at
            self.name("a match field or the action")
            last = not self.is_op(":")
            self.at = before
            if last:
                break
            found.append(self.named("match field"))
        return tuple(found)

    def call(self) -> Call:
        name = self.name("the action")
        self.op("(", f"after the action '{name}'")
        args: list[Named] = []
        if name in ("member", "group") and not self.is_op(")"):
            before = self.at
            token = self.name("a handle")
            if not self.is_op(":"):
                handle = number(token)
                if handle is None:
                    self.fail(f"{name}: '{token}' is not the number of a {name}")
                self.op(")", f"after {name}({token}")
                return Call(name, (), handle)
            self.at = before
        while not self.is_op(")"):
            if args:
                self.op(",", "between arguments")
            args.append(self.named("argument"))
        self.op(")", "after the arguments")
        return Call(name, tuple(args))


def _port(line: _Line) -> int:
    kind, text = line.next("a port")
    if kind != "word" or not text.isdigit():
        line.fail(f"a port number is expected, not '{text}'")
    if int(text) > MAX_PORT:
        line.fail(f"port {text} is more than {MAX_PORT}")
    return int(text)


def _data(line: _Line) -> str:
    text = "".join(line.rest().split())
    if text[:2].lower() == "0x":
        line.fail("packet data are hexadecimal digits without 0x")
    return text


def _packet(line: _Line) -> Command:
    port, data = _port(line), _data(line)
    if not _HEX.match(data):
        bad = next(c for c in data if c not in "0123456789abcdefABCDEF")
        line.fail(f"packet data are hexadecimal digits, not '{bad}'")
    if not data:
        line.fail("a packet needs data: packet PORT HEX")
    if len(data) % 2:
        line.fail(f"packet data have {len(data)} digits: half a byte is missing")
    if len(data) > 2 * MAX_FRAME:
        line.fail(f"a packet of {len(data) // 2} bytes; the most is {MAX_FRAME}")
    return Packet(line.number, port, bytes.fromhex(data))


def _expect(line: _Line) -> Command:
    port, data = _port(line), _data(line)
    if not _PATTERN.match(data):
        if "$" in data[:-1]:
            line.fail("'$' can only be the last character of what is expected")
        bad = next(c for c in data if c not in "0123456789abcdefABCDEF*$")
        line.fail(f"expected data are hexadecimal digits, '*' and '$', not '{bad}'")
    if not data:
        return Expect(line.number, port, None)
    return Expect(line.number, port, data.rstrip("$").lower(), data.endswith("$"))


def _no_packet(line: _Line) -> Command:
    line.end()
    return NoPacket(line.number)


def _wait(line: _Line) -> Command:
    line.end()
    return Wait(line.number)


def _add(line: _Line) -> Command:
    table = line.name("a table")
    priority = line.priority()
    match = line.matches()
    action = line.call()
    entry = None
    if not line.ended():
        line.op("=", "before the name of the entry")
        entry = line.name("the name of the entry").lstrip("$")
    line.end()
    return Add(line.number, table, priority, match, action, entry)


def _setdefault(line: _Line) -> Command:
    table = line.name("a table")
    action = line.call()
    line.end()
    return SetDefault(line.number, table, action)


def _remove(line: _Line) -> Command:
    first = line.name("'all', the name of an entry, or a table")
    if first.lower() == "all":
        table = None if line.ended() else line.name("a table")
        line.end()
        return Remove(line.number, table=table)
    if line.ended():
        return Remove(line.number, entry=first.lstrip("$"))
    priority = line.priority()
    match = line.matches()
    line.end()
    return Remove(line.number, table=first, priority=priority, match=match)


def _index(line: _Line, name: str) -> int | str:
    line.op("(", f"after '{name}'")
    text = line.name("an index or the name of an entry")
    line.op(")", "after the index")
    value = number(text)
    return text.lstrip("$") if value is None else value


def _compare(line: _Line) -> tuple[str, int]:
    kind, text = line.next("a comparison")
    if kind != "op" or text not in _COMPARE:
        line.fail(f"one of {' '.join(_COMPARE)} is expected, not '{text}'")
    return text, line.integer("what to compare with", (1 << 4096) - 1)


def _check_counter(line: _Line) -> Command:
    name = line.name("a counter")
    index = _index(line, name)
    if line.ended():
        return Check(line.number, "counter", name, index)
    unit = line.name("packets or bytes").lower()
    if unit not in ("packets", "bytes"):
        line.fail(f"packets or bytes is expected, not '{unit}'")
    op, value = _compare(line)
    line.end()
    return Check(line.number, "counter", name, index, unit, op, value)


def _check_register(line: _Line) -> Command:
    name = line.name("a register")
    index = _index(line, name)
    if isinstance(index, str):
        line.fail(f"check_register: the index must be a number, not '{index}'")
    op, value = _compare(line)
    line.end()
    return Check(line.number, "register", name, index, None, op, value)


def _rates(line: _Line) -> tuple[tuple[float, int], ...]:
    rates = []
    while not line.ended():
        text = line.name("a rate")
        try:
            rate = float(text) if re.fullmatch(r"[0-9.]+(e-?[0-9]+)?", text) else -1.0
        except ValueError:
            rate = -1.0
        if not 0 <= rate < 1e18:
            line.fail(f"a rate in units per microsecond is expected, not '{text}'")
        line.op(":", f"after the rate {text}")
        rates.append((rate, line.integer("a burst", (1 << 31) - 1)))
    if not rates:
        line.fail("RATE:BURST is missing")
    return tuple(rates)


def _direct(verb: str) -> Callable[[_Line], Command]:
    shape, usage = _SHAPES[verb]

    def read(line: _Line) -> Command:
        name, numbers, words = "", [], []
        rates: tuple[tuple[float, int], ...] = ()
        for i, kind in enumerate(shape):
            if kind == "?" or (shape[i + 1 : i + 2] == "?" and line.ended()):
                continue
            if line.ended():
                line.fail(f"{verb}: something is missing: {verb} {usage}")
            if kind == "t":
                name = line.name("a name")
            elif kind == "n":
                numbers.append(line.integer("an argument", (1 << 4096) - 1))
            elif kind == "N":
                while not line.ended():
                    numbers.append(line.integer("a port", MAX_PORT))
            elif kind == "w":
                while not line.ended():
                    words.append(line.next("an argument")[1])
            else:
                rates = _rates(line)
        line.end()
        return Direct(line.number, verb, name, tuple(numbers), tuple(words), rates)

    return read


STATEMENTS: dict[str, Callable[[_Line], Command]] = {
    "packet": _packet,
    "expect": _expect,
    "no_packet": _no_packet,
    "wait": _wait,
    "add": _add,
    "setdefault": _setdefault,
    "remove": _remove,
    "check_counter": _check_counter,
    "check_register": _check_register,
    **{verb: _direct(verb) for verb in _SHAPES},
}


def _without_comment(text: str) -> str:
    """The text up to a # that is not inside quotes."""
    inside = False
    for i, char in enumerate(text):
        if char == '"':
            inside = not inside
        elif char == "#" and not inside:
            return text[:i]
    return text


def _near(word: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(word.lower(), list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def parse(text: str, file: str = "test.stf") -> Test:
    """Commands of an STF text. StfError names the file, the line and what is wrong."""
    commands: list[Command] = []
    lines = text.split("\n")
    for count, raw in enumerate(lines, start=1):
        line = _Line(file, count, _without_comment(raw).strip())
        if not line.text:
            continue
        word = line.text.split(None, 1)[0]
        statement = STATEMENTS.get(word.lower())
        if statement is None:
            line.fail(f"there is no command '{word[:40]}'{_near(word, STATEMENTS)}")
        line.at = len(word)
        commands.append(statement(line))
    return Test(file, tuple(commands), tuple(lines))
