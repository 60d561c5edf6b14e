"""Expected against sent: in order on a port, ports independent of each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from softswitch.stf.commands import Expect
from softswitch.stf.run import Output, Run


@dataclass(frozen=True)
class Difference:
    """One thing on one port that is not as expected.

    Both: the frame differs. `expect` alone: it did not come. `output` alone: nobody expected
    it. `index`: how many frames the port had before.
    """

    port: int
    index: int
    expect: Expect | None
    output: Output | None

    @property
    def line(self) -> int:
        """The line of the test that this is about."""
        if self.expect is not None:
            return self.expect.line
        return self.output.line if self.output is not None else 0


def matches(expect: Expect, frame: bytes) -> bool:
    """p4c's rule: each digit equal or `*`; a longer frame passes unless `$` ends the pattern."""
    if expect.pattern is None:
        return True
    digits = frame.hex()
    if len(digits) < len(expect.pattern) or (expect.exact and len(digits) > len(expect.pattern)):
        return False
    return all(a in ("*", b) for a, b in zip(expect.pattern, digits, strict=False))


def differences(run: Run) -> list[Difference]:
    """Everything that is not as expected, in the order of the test's lines."""
    found: list[Difference] = []
    ports = {e.port for e in run.expects} | {o.port for o in run.outputs if o.port in run.ports}
    for port in sorted(ports):
        expects = [e for e in run.expects if e.port == port]
        outputs = [o for o in run.outputs if o.port == port]
        found += _port_differences(port, expects, outputs)
    return sorted(found, key=lambda d: d.line)


def _port_differences(
    port: int, expects: Sequence[Expect], outputs: Sequence[Output]
) -> list[Difference]:
    if len(expects) == len(outputs):
        # The usual case: whatever differs differs in its place.
        pairs = zip(range(len(expects)), expects, outputs, strict=True)
        return [Difference(port, i, e, o) for i, e, o in pairs if not matches(e, o.frame)]
    found: list[Difference] = []
    i = j = 0
    for e, o in [*_common(expects, outputs), (len(expects), len(outputs))]:
        while i < e and j < o:
            found.append(Difference(port, j, expects[i], outputs[j]))
            i, j = i + 1, j + 1
        found += [Difference(port, j, expect, None) for expect in expects[i:e]]
        found += [Difference(port, k, None, outputs[k]) for k in range(j, o)]
        i, j = e + 1, o + 1
    return found


MOST = 2_000
"""Frames on a port for which the best alignment is looked for; it costs their product."""


def _common(expects: Sequence[Expect], outputs: Sequence[Output]) -> list[tuple[int, int]]:
    """Positions of a longest common subsequence: what came as expected, in order."""
    n, m = len(expects), len(outputs)
    if n * m > MOST * MOST:
        return []
    best = [[0] * (m + 1) for _ in range(n + 1)]
    equal = [[matches(e, o.frame) for o in outputs] for e in expects]
    for i in range(n - 1, -1, -1):
        for j in range(m - 1, -1, -1):
            if equal[i][j]:
                best[i][j] = best[i + 1][j + 1] + 1
            else:
                best[i][j] = max(best[i + 1][j], best[i][j + 1])
    found: list[tuple[int, int]] = []
    i = j = 0
    while i < n and j < m:
        if equal[i][j]:
            found.append((i, j))
            i, j = i + 1, j + 1
        elif best[i + 1][j] >= best[i][j + 1]:
            i += 1
        else:
            j += 1
    return found
