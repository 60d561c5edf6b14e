"""Was every byte delivered, once, and the right one?

Per message, when the workload uses writes with immediate: the source records the SHA-256 of
a message when it posts it, the destination that of the memory it landed in at the moment its
completion is taken, before the space is used again. Immediate values number the messages of
a flow. At the end the whole memory regions of source and destination are compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from drills.events import Event
from drills.phases import Flow

SUCCESS = "SUCCESS"


@dataclass(frozen=True, slots=True)
class Integrity:
    """Counts of messages over all flows."""

    completed: int
    """Completed at the source with success."""
    delivered: int
    """Completed at the destination, each counted once."""
    corrupted: int
    missing: int
    duplicated: int
    unverified: int
    """Delivered, but without a hash on both sides to compare."""
    out_of_order: int
    failed: int
    """Completed with an error."""
    memory_mismatches: int
    regions: int


def _messages(events: Iterable[Event], kind: str, host: str, qpn: int) -> list[Event]:
    return [e for e in events if e.type == kind and e.src == host and e.get("qpn") == qpn]


def judge_integrity(events: Sequence[Event], flows: Sequence[Flow]) -> Integrity:
    """Compare what sources sent with what destinations got."""
    relevant = [e for e in events if e.type in ("posted", "completion", "delivered")]
    completed = delivered = corrupted = missing = duplicated = 0
    unverified = disorder = failed = 0
    for flow in flows:
        posted = {
            e["msg"]: e.get("sha256") for e in _messages(relevant, "posted", flow.src, flow.qpn)
        }
        done = _messages(relevant, "completion", flow.src, flow.qpn)
        got = _messages(relevant, "delivered", flow.dst, flow.peer_qpn)
        good = {e["msg"] for e in done if e.get("status", SUCCESS) == SUCCESS}
        failed += sum(1 for e in done if e.get("status", SUCCESS) != SUCCESS)
        completed += len(good)
        times = Counter(e["msg"] for e in got)
        delivered += len(times)
        duplicated += sum(count - 1 for count in times.values())
        order = [e["msg"] for e in got]
        disorder += sum(1 for a, b in pairwise(order) if b < a)
        missing += len(good - set(times)) if got or not _is_plain(done) else 0
        for event in got:
            want, have = posted.get(event["msg"]), event.get("sha256")
            if want is None or have is None:
                unverified += 1
            elif want != have:
                corrupted += 1
    regions = [e for e in events if e.type == "memory"]
    return Integrity(
        completed=completed,
        delivered=delivered,
        corrupted=corrupted,
        missing=missing,
        duplicated=duplicated,
        unverified=unverified,
        out_of_order=disorder,
        failed=failed,
        memory_mismatches=sum(1 for e in regions if e["source"] != e["destination"]),
        regions=len(regions),
    )


def _is_plain(done: Sequence[Event]) -> bool:
    """True when the messages were plain writes, of which a destination learns nothing."""
    return bool(done) and all(e.get("verb") == "write" for e in done)
