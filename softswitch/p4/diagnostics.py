"""Source files, positions in them, and the messages a compiler gives about them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

MAX_ERRORS = 20
"""Errors reported before the compiler gives up on a program."""

MAX_WARNINGS = 500
"""Warnings kept of one program."""

MAX_LINE = 160
"""Characters of a source line that are shown, around the place in question."""

MAX_MESSAGE = 600
_WORD = 64
_LONG = re.compile(rf"\S{{{_WORD + 16},}}")


class SourceFile:
    """A source text with the name used in messages."""

    __slots__ = ("first", "lines", "name", "system", "text")

    def __init__(self, name: str, text: str, *, system: bool = False) -> None:
        self.name = name
        self.text = text
        self.system = system
        self.lines = text.split("\n")
        self.first = 1  # number of the first line; #line makes it another

    def line(self, number: int) -> str:
        """The text of a line counted from `first`, empty outside the file."""
        index = number - self.first
        if 0 <= index < len(self.lines):
            return self.lines[index].rstrip("\r")
        return ""


class Span(NamedTuple):
    """A stretch of one source file: lines and columns count from 1, the end is exclusive."""

    file: SourceFile
    line: int
    column: int
    end_line: int
    end_column: int

    def to(self, other: Span) -> Span:
        """The span from the start of this one to the end of the other."""
        if other.file is not self.file or other[1:3] < self[1:3]:
            return self
        return Span(self.file, self.line, self.column, other.end_line, other.end_column)

    def text(self) -> str:
        """The first line of the text the span covers."""
        line = self.file.line(self.line)
        if self.end_line == self.line:
            return line[self.column - 1 : self.end_column - 1]
        return line[self.column - 1 :].rstrip()


WARNINGS = {
    "unused": "declared and never referred to",
    "uninitialized-use": "read before anything was assigned",
    "uninitialized-out-param": "an out parameter that can end without a value",
    "invalid-header": "a field of a header that is not valid there",
    "unreachable": "a statement, state or case that is never reached",
    "always": "a condition or comparison with only one outcome",
    "keys": "a table entry that never matches",
    "parser-transition": "a transition that does not do what it seems to",
    "mismatch": "a number that does not fit its type or its mask",
    "overflow": "a shift out of a value, a literal wider than its width",
    "shadow": "a name that hides another",
    "duplicate-priorities": "two entries of one priority",
    "entries-out-of-priority-order": "entries not in the order of their priorities",
    "ignore-prop": "a table property or key that has no effect",
    "ignore": "an annotation that has no effect",
    "deprecated": "something newer programs write differently",
    "bmv2": "what bmv2 does differently from what the text seems to say",
    "preprocessor": "#warning",
    "other": "all the rest",
}
"""Kinds of warnings, with p4c's names where it has the same."""

BUILTIN = SourceFile("<built-in>", "", system=True)
NOWHERE = Span(BUILTIN, 1, 1, 1, 1)


@dataclass(frozen=True)
class Diagnostic:
    """One message: where (line and column count from 1), what, and the source line."""

    file: str
    line: int
    column: int
    message: str
    source_line: str = ""
    severity: str = "error"
    length: int = 1
    kind: str = ""  # of a warning: what -Wno-KIND switches off
    cut: int = 0  # characters left out at the beginning of a long source line

    def __str__(self) -> str:
        head = f"{self.file}:{self.line}:{self.column}: {self.severity}: {self.message}"
        if self.kind:
            head += f" [{self.kind}]"
        if not self.source_line:
            return head
        prefix = self.source_line[: self.column - 1 - self.cut]
        pad = "".join(c if c == "\t" else " " for c in prefix)
        room = max(1, min(self.length, len(self.source_line) - len(prefix)))
        return f"{head}\n    {self.source_line}\n    {pad}{'^' * room}"


class P4Error(Exception):
    """A program that was refused. `diagnostics` holds what was wrong, errors first."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics: tuple[Diagnostic, ...] = tuple(diagnostics)
        super().__init__("\n".join(str(d) for d in self.diagnostics))


class Stop(Exception):
    """Raised when the current construct cannot be processed further; already reported."""


@dataclass
class Reporter:
    """Collects diagnostics of one compilation."""

    errors: list[Diagnostic] = field(default_factory=list)
    warnings: list[Diagnostic] = field(default_factory=list)
    _seen: set[Diagnostic] = field(default_factory=set)

    def error(self, span: Span, message: str) -> None:
        """Record an error; gives up after MAX_ERRORS."""
        diagnostic = _diagnostic(span, message, "error")
        if diagnostic in self.errors:
            return
        self.errors.append(diagnostic)
        if len(self.errors) >= MAX_ERRORS:
            raise P4Error(self.errors)

    def fail(self, span: Span, message: str) -> Stop:
        """Record an error; raise what it returns to abandon the current construct."""
        self.error(span, message)
        return Stop()

    def warn(self, span: Span, message: str, kind: str = "other") -> None:
        """Record a warning (none about the include files that come with the compiler)."""
        if span.file.system:
            return
        diagnostic = replace(_diagnostic(span, message, "warning"), kind=kind)
        if diagnostic not in self._seen and len(self.warnings) < MAX_WARNINGS:
            self._seen.add(diagnostic)
            self.warnings.append(diagnostic)

    def check(self) -> None:
        """Raise P4Error when any error was recorded."""
        if self.errors:
            raise P4Error(self.errors)


def _diagnostic(span: Span, message: str, severity: str) -> Diagnostic:
    length = span.end_column - span.column if span.end_line == span.line else 1_000_000
    source, cut = span.file.line(span.line), 0
    if len(source) > MAX_LINE:
        cut = max(0, min(span.column - 1 - MAX_LINE // 3, len(source) - MAX_LINE))
        source = source[cut : cut + MAX_LINE]
    return Diagnostic(
        span.file.name,
        span.line,
        span.column,
        printable(_LONG.sub(lambda m: m[0][:_WORD] + "...", message)[:MAX_MESSAGE]),
        printable(source),
        severity,
        max(1, length),
        cut=cut,
    )


def printable(text: str) -> str:
    """The text with what would upset a terminal replaced, character by character."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\t" else "\N{REPLACEMENT CHARACTER}" for c in text)


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the nearest candidate, or nothing."""
    if len(name) > _WORD:
        return ""
    words = sorted(set(candidates))
    near = [w for w in words if w.lower() == name.lower()]
    near = near or difflib.get_close_matches(name, words, n=1, cutoff=0.6)
    return f"; did you mean '{near[0]}'?" if near else ""
