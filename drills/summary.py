"""The verdict of a run as it is stored: summary.json, with its schema version."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from mrclab.errors import EXIT_FAIL, EXIT_PASS, EXIT_VOID

SCHEMA = "mrclab.drill-summary/1"

Verdict = Literal["pass", "fail", "void"]
EXIT_STATUS: Mapping[str, int] = {"pass": EXIT_PASS, "fail": EXIT_FAIL, "void": EXIT_VOID}


@dataclass(frozen=True, slots=True)
class Expectation:
    """One thing that had to hold. `measured` and `bound` are in `unit`."""

    name: str
    ok: bool
    measured: float | str | None
    bound: float | str
    unit: str
    title: str = ""
    relation: str = ""
    """at least, at most, or is."""

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "ok": self.ok,
            "measured": _plain(self.measured),
            "bound": _plain(self.bound),
            "unit": self.unit,
            "relation": self.relation,
            "title": self.title,
        }


@dataclass(frozen=True)
class Summary:
    """What a run came to."""

    run_id: str
    drill: str
    verdict: Verdict
    why: tuple[str, ...]
    """Reasons when the verdict is not pass, the most important first."""
    fidelity: str
    expectations: tuple[Expectation, ...]
    metrics: Mapping[str, float | int | None]
    ledger: Mapping[str, Any]
    versions: Mapping[str, Any]
    run: Mapping[str, Any] = field(default_factory=dict)
    """Seed, fabric, switch, failover groups, times of the phases."""
    fidelity_readings: Sequence[Mapping[str, Any]] = ()

    @property
    def exit_status(self) -> int:
        """0 pass, 1 fail, 3 void."""
        return EXIT_STATUS[self.verdict]

    def to_json(self) -> dict[str, Any]:
        """The object stored in summary.json."""
        return {
            "schema": SCHEMA,
            "run_id": self.run_id,
            "drill": self.drill,
            "verdict": self.verdict,
            "why": list(self.why),
            "fidelity": self.fidelity,
            "fidelity_readings": list(self.fidelity_readings),
            "expectations": [item.to_json() for item in self.expectations],
            "metrics": {name: _plain(value) for name, value in self.metrics.items()},
            "run": dict(self.run),
            "ledger": dict(self.ledger),
            "versions": dict(self.versions),
        }

    def dumps(self) -> str:
        """summary.json as text (always valid JSON: no NaN or infinity)."""
        return json.dumps(self.to_json(), indent=2, allow_nan=False) + "\n"


def _plain(value: float | str | None) -> float | int | str | None:
    """A number that JSON can hold, with six significant digits; infinity becomes null."""
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return float(f"{value:.6g}")
    return value
