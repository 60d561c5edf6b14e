"""Was every byte delivered, once, and the right one?

Messages go slot by slot through a region of memory, and the same slots of the destination's
region receive them. Every packet's worth of a message carries the message's number, so what
one message left behind never looks like the next. When everything has completed the runner
records, per flow:

- the SHA-256 of what was written at the source and of the same range at the destination
  (event `memory`); the drill's region is long enough that no slot is used twice, so this
  covers every byte of the run;
- what the source posted and completed, and how many different bytes the destination's
  endpoint placed in memory (event `delivery`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from drills.events import Event


@dataclass(frozen=True, slots=True)
class Integrity:
    """Sums over all flows."""

    posted: int
    completed: int
    """Messages, with success."""
    failed: int
    """Messages, with an error."""
    failed_flows: int
    """Flows that had such messages."""
    bytes_missing: int
    """Completed at the source, but not placed at the destination."""
    bytes_repeated: int
    """Placed at the destination beyond what the source sent."""
    memory_mismatches: int
    regions: int
    bytes_compared: int

    @property
    def unfinished(self) -> int:
        """Messages that neither completed nor failed."""
        return self.posted - self.completed - self.failed


def judge_integrity(events: Iterable[Event]) -> Integrity:
    """Add up what the runner recorded at the end."""
    posted = completed = failed = failed_flows = missing = repeated = 0
    mismatches = regions = compared = 0
    for event in events:
        if event.type == "delivery":
            posted += event["posted"]
            completed += event["completed"]
            failed += event["failed"]
            failed_flows += event["failed"] > 0
            surplus = event["delivered_bytes"] - event["completed_bytes"]
            missing += max(0, -surplus)
            # A message that failed half-way may have placed some of its bytes.
            allowed = (event["posted"] - event["completed"]) * event["message"]
            repeated += max(0, surplus - allowed)
        elif event.type == "memory":
            regions += 1
            compared += event["bytes"]
            mismatches += event["source"] != event["destination"]
    return Integrity(
        posted=posted,
        completed=completed,
        failed=failed,
        failed_flows=failed_flows,
        bytes_missing=missing,
        bytes_repeated=repeated,
        memory_mismatches=mismatches,
        regions=regions,
        bytes_compared=compared,
    )
