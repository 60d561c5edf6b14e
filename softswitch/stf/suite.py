"""One test of one program on one switch, from text to result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from softswitch.stf.bind import Binder
from softswitch.stf.commands import Expect, NoPacket, Packet, StfError, Test
from softswitch.stf.compare import differences
from softswitch.stf.explain import Failure, explain, where_else
from softswitch.stf.layout import Layouts
from softswitch.stf.parse import parse
from softswitch.stf.run import Run
from softswitch.stf.shape import NameProblem, Shape, shape_of
from softswitch.stf.target import Target, TargetError

MakeTarget = Callable[[Mapping[str, Any], set[int]], Target]
"""(bmv2 JSON, ports that the test names) -> a fresh switch with that program."""


@dataclass
class Result:
    """What came of a test. `failures` in the order of lines; empty: it passed."""

    test: str
    failures: list[Failure] = field(default_factory=list)
    packets: int = 0
    expected: int = 0
    said: list[tuple[int, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)
    """Every packet in and out, for --verbose."""

    @property
    def passed(self) -> bool:
        return not self.failures

    def to_json(self) -> dict[str, Any]:
        return {
            "test": self.test,
            "passed": self.passed,
            "packets": self.packets,
            "expected": self.expected,
            "failures": [failure.to_json() for failure in self.failures],
            "read": [{"line": line, "text": text} for line, text in self.said],
            "notes": self.notes,
        }


class Suite:
    """Runs tests of one program."""

    def __init__(self, program: Mapping[str, Any], make: MakeTarget, name: str = "") -> None:
        """StfError when `program` is not a bmv2 JSON; `name` is its file."""
        self._program, self._make = program, make
        try:
            self.shape: Shape = shape_of(program)
        except NameProblem as error:
            raise StfError(str(error), name) from None
        try:
            self._layouts = Layouts(program)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise StfError(f"not a bmv2 JSON that can be read: {error}", name) from None

    def run(self, text: str, file: str) -> Result:
        """Run one test. StfError: the test cannot be run, or the switch refuses a line."""
        return self.run_test(parse(text, file))

    def run_test(self, test: Test) -> Result:
        binder = Binder(test, self.shape)
        steps = binder.steps()
        named = {c.port for c in test.commands if isinstance(c, Packet | Expect)}
        everywhere = any(isinstance(c, NoPacket) for c in test.commands)
        try:
            target = self._make(self._program, named)
        except TargetError as error:
            raise StfError(str(error), test.file) from None
        run = Run(target, ports=set(range(1 << 16)) if everywhere else named)
        try:
            for step in steps:
                try:
                    step.do(run)
                except TargetError as error:
                    raise StfError(str(error), test.file, step.line) from None
            try:
                run.collect()
            except TargetError as error:
                raise StfError(str(error), test.file) from None
        finally:
            target.close()
        return self._result(test, run, binder)

    def _result(self, test: Test, run: Run, binder: Binder) -> Result:
        failures = [
            Failure(w.line, None, w.message, got=w.output.frame.hex() if w.output else None)
            for w in run.wrongs
        ]
        blamed = {w.output for w in run.wrongs if w.output is not None}
        for difference in differences(run):
            if difference.expect is None and difference.output in blamed:
                continue
            failure = explain(difference, self._layouts)
            if difference.output is None:
                hints = (*failure.hints, *where_else(run, difference.port))
                failure = Failure(
                    failure.line, failure.port, failure.message, expected=failure.expected,
                    hints=hints,
                )  # fmt: skip
            failures.append(failure)
        failures.sort(key=lambda f: f.line)
        notes = [f"line {line}: {text}" for line, text in binder.notes]
        if not failures:
            notes += where_else(run, -1)
        return Result(
            test.file,
            failures,
            len(run.arrivals),
            len(run.expects),
            run.said,
            notes,
            self._trace(run),
        )

    def _trace(self, run: Run) -> list[str]:
        lines = []
        for arrival in run.arrivals:
            lines.append(self._packet(arrival.line, f"in  {arrival.port}", arrival.frame))
            for output in run.outputs:
                if output.line == arrival.line:
                    lines.append(self._packet(output.line, f"out {output.port}", output.frame))
        return lines

    def _packet(self, line: int, what: str, frame: bytes) -> str:
        layout = self._layouts.of(frame)
        parts = [f"line {line}: {what:<8} {len(frame)} bytes"]
        for header in layout.headers:
            values = " ".join(
                f"{f.name.rpartition('.')[2]}={f.digits(frame.hex())}"
                for f in layout.fields
                if f.header == header
            )
            parts.append(f"    {header}: {values}")
        rest = frame[(layout.end + 7) // 8 :]
        if rest:
            parts.append(f"    {rest[:32].hex()}{'...' if len(rest) > 32 else ''}")
        return "\n".join(parts)
