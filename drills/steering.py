"""How fast a connection left a dead link.

Definition (docs/drills.md): from the moment the link lost its first frame until the last
data packet that was lost on it had been *sent*, in loaded round-trip times.

- *First loss*: endpoints report each lost packet (inferred or timed out) with the time that
  copy was sent and its EV. A packet is lost after it was sent, so the earliest send time among
  losses on EVs that cross the link is a lower bound of the first loss; so is the moment the
  fault was asked for. The later of the two is taken: the measured time is never shorter than
  the true one, and at most one trip from the host to the dead link longer.
- *Last data packet*: the latest such send time. Probes are not data and do not count.
- If an EV that crosses the link was still in use when it was repaired, steering was not
  finished before the repair, and the time until the repair counts.
- *Loaded RTT*: median of the RTTs that endpoints measured in the steady state before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from drills.events import Event
from drills.evs import Crossing, EvVerdict, flow_of
from drills.phases import Outage, Phases

LOSS_TYPES = frozenset({"loss_inferred", "rto"})


@dataclass(frozen=True, slots=True)
class Steering:
    """Times in nanoseconds. `lost_reports`: losses that endpoints noticed on the link."""

    first_loss: int
    last_sent: int
    loaded_rtt: int
    lost_reports: int
    finished: bool

    @property
    def duration(self) -> int:
        return max(0, self.last_sent - self.first_loss)

    @property
    def rtts(self) -> float | None:
        """The duration in loaded RTTs; None when no RTT was measured before the fault."""
        return self.duration / self.loaded_rtt if self.loaded_rtt else None


def loaded_rtt(events: Iterable[Event], phases: Phases) -> int:
    """Median RTT in ns that requestors reported in the steady state; 0 when none did."""
    window = phases.before
    sources = {flow.src for flow in phases.flows}
    seen = [
        int(event["rtt_ns"])
        for event in events
        if event.type == "sample"
        and event.src in sources
        and event.t in window
        and event.get("rtt_ns")
    ]
    return int(median(seen)) if seen else 0


def steering(
    events: Sequence[Event], phases: Phases, outage: Outage, crossing: Crossing, evs: EvVerdict
) -> Steering:
    """Measure one outage."""
    sent: list[int] = []
    for event in events:
        if event.type not in LOSS_TYPES:
            continue
        flow = flow_of(phases.flows, event)
        if flow is None:
            continue
        left = int(event["sent"])
        key = (flow.id, int(event["plane"]), int(event["ev"]))
        if left <= outage.end and event.t >= outage.start and crossing.crosses(key, outage):
            sent.append(left)
    begin = max(outage.start, min(sent, default=outage.start))
    last = max(begin, max(sent, default=begin))
    finished = not any(crossing.must_demote(key, outage) for key in evs.not_demoted)
    if not finished:
        last = max(last, outage.repaired)
    return Steering(begin, last, loaded_rtt(events, phases), len(sent), finished)
