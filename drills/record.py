"""All that is known of a run when it is judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from drills.events import SAMPLE_TYPES, Event


@dataclass(frozen=True)
class RunInfo:
    """Facts of a run that are neither events nor in the drill file."""

    run_id: str
    seed: int = 0
    switch: str = "builtin"
    failover_groups: bool = False
    time: str = "real"
    """virtual: on a computed clock, where nothing can be late."""
    started: str = ""
    """Wall-clock start, ISO 8601 with zone; for people only."""
    versions: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "run_id": self.run_id,
            "seed": self.seed,
            "switch": self.switch,
            "failover_groups": self.failover_groups,
            "time": self.time,
            "started": self.started,
            "versions": dict(self.versions),
        }


def split(everything: Sequence[Event]) -> tuple[list[Event], list[Event]]:
    """(events that happened, periodic samples)."""
    happened = [event for event in everything if event.type not in SAMPLE_TYPES]
    samples = [event for event in everything if event.type in SAMPLE_TYPES]
    return happened, samples
