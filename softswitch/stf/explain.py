"""Differences in words: which header field has which value, and which it should have."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from softswitch.stf.commands import Expect
from softswitch.stf.compare import Difference
from softswitch.stf.layout import Field, Layout, Layouts
from softswitch.stf.run import Run

SHOWN = 32
"""Bytes of a frame in one line of hexadecimal digits."""


@dataclass(frozen=True)
class FieldDifference:
    """One field, or a run of bytes where the program has no field."""

    name: str
    byte: int
    expected: str
    got: str


@dataclass(frozen=True)
class Failure:
    """One difference, explained."""

    line: int
    port: int | None
    message: str
    fields: tuple[FieldDifference, ...] = ()
    expected: str | None = None
    """Pattern as in the test."""
    got: str | None = None
    """Hexadecimal digits of the frame."""
    hints: tuple[str, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        return {
            "line": self.line,
            "port": self.port,
            "message": self.message,
            "fields": [
                {"field": f.name, "byte": f.byte, "expected": f.expected, "got": f.got}
                for f in self.fields
            ],
            "expected": self.expected,
            "got": self.got,
            "hints": list(self.hints),
        }


def field_differences(expect: Expect, frame: bytes, layouts: Layouts) -> list[FieldDifference]:
    """What differs, by the layout of what was expected.

    Digits that do not matter are taken from the frame, so that both are laid out alike.
    """
    pattern, got = expect.pattern or "", frame.hex()
    filled = "".join(
        (got[i] if i < len(got) else "0") if c == "*" else c for i, c in enumerate(pattern)
    )
    wanted = filled + got[len(filled) :] if len(got) > len(filled) else filled
    layout = layouts.of(bytes.fromhex(wanted + "0" * (len(wanted) % 2)))
    found = []
    for item in layout.fields:
        first, last = item.offset // 4, (item.offset + item.width + 3) // 4
        if pattern[first:last] == got[first:last]:
            continue
        want, have = item.digits(pattern.ljust(last, "*")), item.digits(got)
        if first >= len(pattern) or want == "*" or _agree(item, pattern, got):
            continue
        found.append(FieldDifference(item.name, item.offset // 8, want, have or "(not there)"))
    found += _payload_differences(pattern, got, (layout.end + 3) // 4)
    return found


def _agree(item: Field, pattern: str, got: str) -> bool:
    first, last = item.offset // 4, (item.offset + item.width + 3) // 4
    bits = []
    for text in (pattern[first:last], got[first:last]):
        whole = "".join("****" if c == "*" else f"{int(c, 16):04b}" for c in text)
        bits.append(whole[item.offset - 4 * first :][: item.width])
    return len(bits[0]) <= len(bits[1]) and all(
        a in ("*", b) for a, b in zip(bits[0], bits[1], strict=False)
    )


def _payload_differences(pattern: str, got: str, start: int) -> list[FieldDifference]:
    """Runs of bytes after the headers that differ."""
    start += start % 2
    found: list[FieldDifference] = []
    run: list[int] = []
    last = min(len(pattern), len(got))
    for at in [*range(start, last, 2), -1]:
        differs = at >= 0 and any(
            p not in ("*", g) for p, g in zip(pattern[at : at + 2], got[at : at + 2], strict=False)
        )
        if differs and (not run or run[-1] == at - 2):
            run.append(at)
            continue
        if run:
            first, end = run[0], run[-1] + 2
            name = "payload" if end - first == 2 else f"payload, {(end - first) // 2} bytes"
            found.append(FieldDifference(name, first // 2, pattern[first:end], got[first:end]))
        run = [at] if differs else []
    return found


def _headers(layout: Layout, size: int) -> str:
    names = list(layout.headers)
    rest = size - (layout.end + 7) // 8
    if rest > 0:
        names.append(f"{rest} bytes")
    return " / ".join(names) if names else f"{size} bytes"


def explain(difference: Difference, layouts: Layouts) -> Failure:
    """One difference as a failure with its fields."""
    expect, output = difference.expect, difference.output
    port, ordinal = difference.port, difference.index + 1
    if output is None and expect is not None:
        return Failure(
            expect.line, port, f"port {port}: the expected packet did not come",
            expected=_pattern(expect),
        )  # fmt: skip
    if output is None:
        raise ValueError("a difference with neither side")
    got = output.frame.hex()
    layout = layouts.of(output.frame)
    if expect is None:
        return Failure(
            output.line, port,
            f"port {port}: packet {ordinal} was not expected "
            f"({_headers(layout, len(output.frame))})",
            got=got,
        )  # fmt: skip
    pattern = expect.pattern or ""
    fields = field_differences(expect, output.frame, layouts)
    problems = []
    if len(got) < len(pattern):
        problems.append(f"is {len(got) // 2} bytes, shorter than {(len(pattern) + 1) // 2}")
    elif expect.exact and len(got) > len(pattern):
        problems.append(f"is {len(got) // 2} bytes, longer than {len(pattern) // 2}")
    if fields:
        many = f"{len(fields)} places" if len(fields) > 1 else "one place"
        problems.append(f"differs in {many}")
    message = f"port {port}: packet {ordinal} {' and '.join(problems) or 'differs'}"
    hints = []
    wanted = _wanted_headers(expect, output.frame, layouts)
    if wanted is not None and wanted != layout.headers:
        hints.append(f"expected headers {' / '.join(wanted)}")
        hints.append(f"got headers      {' / '.join(layout.headers)}")
    return Failure(expect.line, port, message, tuple(fields), _pattern(expect), got, tuple(hints))


def _wanted_headers(expect: Expect, frame: bytes, layouts: Layouts) -> tuple[str, ...] | None:
    pattern, got = expect.pattern or "", frame.hex()
    filled = "".join(
        (got[i] if i < len(got) else "0") if c == "*" else c for i, c in enumerate(pattern)
    )
    if not filled:
        return None
    wanted = filled + got[len(filled) :]
    return layouts.of(bytes.fromhex(wanted + "0" * (len(wanted) % 2))).headers


def _pattern(expect: Expect) -> str:
    return "(any packet)" if expect.pattern is None else expect.pattern + "$" * expect.exact


def where_else(run: Run, port: int) -> list[str]:
    """Where packets went instead, for one that did not come."""
    others: dict[int, int] = {}
    for output in run.outputs:
        if output.port != port and output.port not in run.ports:
            others[output.port] = others.get(output.port, 0) + 1
    return [
        f"{count} packet{'s' if count > 1 else ''} left by port {other}, which no line names"
        for other, count in sorted(others.items())
    ]


def lines_of(failure: Failure) -> list[str]:
    """A failure as lines of text that fit 80 columns where the names allow it."""
    lines = [failure.message]
    name_width = max((len(f.name) for f in failure.fields), default=0)
    for item in failure.fields:
        head = f"  {item.name:<{name_width}}"
        line = f"{head}  expected {item.expected}  got {item.got}  (byte {item.byte})"
        if len(line) <= 78:
            lines.append(line)
        else:
            lines.append(f"{head}  (byte {item.byte})")
            lines += _labelled("    expected ", item.expected)
            lines += _labelled("    got      ", item.got)
    lines += [f"  {hint}" for hint in failure.hints]
    if failure.expected is not None:
        lines += _labelled("  expected ", failure.expected)
    if failure.got is not None:
        lines += _labelled("  got      ", failure.got)
    return lines


def _labelled(label: str, text: str) -> list[str]:
    """A long text over several lines, with its label on the first."""
    first, *more = _wrapped(text)
    return [label + first, *(" " * len(label) + part for part in more)]


def _wrapped(text: str) -> list[str]:
    if len(text) <= 2 * SHOWN + 2:
        return [text]
    return [text[i : i + 2 * SHOWN] for i in range(0, min(len(text), 8 * SHOWN), 2 * SHOWN)] + (
        [f"... {len(text)} digits"] if len(text) > 8 * SHOWN else []
    )
