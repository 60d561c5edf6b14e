"""What fails in one plane: its evidence, judged at every tick, and the incidents that come of it.

Planes share no link and no switch, so each is judged by itself; of the others only the sums
count, as a measure of what healthy ways lose. Within a plane there is at most one incident in
doubt; its name follows what is known: the first losses on one link of a switch that went dark
accuse the link, those on the next one the switch. A name that has stood for a short window is
beyond doubt, and the incident is *pinned*: what crosses it says nothing about the rest any more.
Four rules keep one fault one incident, and two faults two:

join      A pinned link becomes its switch, when further losses point to this switch or to
          another link of it, the switch explains all of it best, and has not delivered since.
acquit    A switch over which one way delivered all for two short windows, while an incident
          lost, is not that incident's cause, now or later.
part      Losses beside the likeliest component that need a second fault to explain them are a
          second fault, unless a switch that is not acquitted may be behind both.
close     An incident is over when enough has crossed unharmed, whatever else goes on; that its
          losses are long ago is not enough.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from controller.mrc.evidence import Counts, Evidence, Summary, Way
from controller.mrc.incident import CLEAN, Incident, IncidentEvent
from controller.mrc.localise import Verdict, localise

CERTAINTY = 0.999
"""An incident is opened when something is wrong with this probability."""
ENOUGH = 0.9
"""Least confidence, of the suspects together, at which they are named; of one: beyond doubt."""
DELIVERED = 2
"""A switch has delivered when it did so for so many short windows: one more than reports may be
late."""
LEAST_LOST = 2
"""One lost packet accuses nobody."""


@dataclass(frozen=True)
class WatchTimes:
    """ns."""

    fast: int = 10**9
    """The short window."""
    slow: int = 60 * 10**9
    """The long window."""


class PlaneWatch:
    """Takes observations of a plane, gives incidents. Times in ns, never going back."""

    def __init__(
        self,
        links_of: Mapping[str, Collection[str]],
        times: WatchTimes,
        number: Callable[[], int],
        elsewhere: Callable[[int, int], Counts] = lambda _window, _now: Counts(),
    ) -> None:
        """`links_of`: a switch's links, for all switches of the plane. `number()` gives the next
        incident its number. `elsewhere(window, now)`: the sums of the other planes (their
        `healthy`), which show what healthy ways lose at the moment."""
        self._links_of = links_of
        self._times = times
        self._number = number
        self._elsewhere = elsewhere
        self._windows = (Evidence(times.fast, 10), Evidence(times.slow, 30))
        self._probed = Evidence(DELIVERED * times.fast, 20)
        self.open: list[Incident] = []
        """Oldest first."""

    def observe(self, way: Way, sent: float, lost: float, now: int, *, probed: bool) -> None:
        """`probed`: a loop's probes, each known to have taken this way, there and back. What
        connections tell is a guess at which ways their packets took, and a carrier that is up
        says nothing of what its switch delivers."""
        for incident in self.open:
            incident.observe(way, sent, lost, now)
        for window in self._windows:
            window.add(way, sent, lost, now)
        if probed:
            self._probed.add(way, sent, lost, now)

    def healthy(self, window: int, now: int) -> Counts:
        """Sums of the short (0) or long (1) window over what crosses no open incident."""
        accused = {name for incident in self.open for name in incident.suspects}
        return self._windows[window].total(now, accused)

    def tick(self, now: int) -> list[IncidentEvent]:
        """Judge what is known; call it every tenth of the short window or so."""
        over = [i for i in self.open if i.is_over(now, self._times.fast)]
        events = [self._close(incident, now) for incident in over]
        for incident in self.open:
            self._acquit(incident, now)
        doubtful = self._in_doubt()
        innocent = doubtful.acquitted if doubtful is not None else ()
        verdict = self._verdict(now, self._known(), innocent)
        if verdict is None:
            if doubtful is not None and doubtful.has_faded(now, self._times.fast):
                events.append(self._close(doubtful, now))
            return events
        joined = self._join(verdict, now)
        if joined:
            return events + joined
        alone = self._part(verdict, now, innocent)
        verdict = alone or verdict
        names = tuple(s.component for s in verdict.best)
        confidence = sum(s.confidence for s in verdict.best)
        if confidence < ENOUGH:
            return events
        loss = verdict.best[0].loss
        if doubtful is None:
            doubtful = Incident(self._number(), names, confidence, loss, now)
            self.open.append(doubtful)
            events.append(IncidentEvent("opened", doubtful, now))
        elif set(doubtful.suspects) != set(names):
            doubtful.rename(names, confidence, loss, now)
            events.append(IncidentEvent("changed", doubtful, now))
        else:
            doubtful.confidence = confidence
        stands = now - doubtful.named >= self._times.fast
        if len(names) == 1 and (stands or alone is not None):
            doubtful.pinned = True
        return events

    # -- the rules

    def _acquit(self, incident: Incident, now: int) -> None:
        fast = self._times.fast
        young = now - incident.opened < DELIVERED * fast
        if young or not incident.still_loses(now, fast // 2):
            return  # the window knows of a time before the fault, or after it
        evidence = self._probed or self._windows[0]
        for switch in self._near(incident.suspects) - incident.acquitted:
            if evidence.delivers(switch, CLEAN / incident.loss, now):
                incident.acquitted.add(switch)
        if not incident.acquitted.isdisjoint(incident.suspects) and self._in_doubt() is None:
            incident.pinned = False

    def _join(self, verdict: Verdict, now: int) -> list[IncidentEvent]:
        names = {s.component for s in verdict.best}
        for incident in self.open:
            if not incident.pinned:
                continue
            for switch in self._near(incident.suspects) - incident.acquitted:
                group = {switch, *self._links_of[switch]}
                if group.isdisjoint(names) or incident.suspects == (switch,):
                    continue
                parts = [i for i in self.open if self._may_join(i, switch, group)]
                known = self._known() - {name for i in parts for name in i.suspects}
                whole = self._verdict(now, known, incident.acquitted)
                if whole is not None and [s.component for s in whole.best] == [switch]:
                    return self._unite(parts, whole, now)
        return []

    def _may_join(self, incident: Incident, switch: str, group: Collection[str]) -> bool:
        return switch not in incident.acquitted and not set(incident.suspects).isdisjoint(group)

    def _unite(self, parts: list[Incident], whole: Verdict, now: int) -> list[IncidentEvent]:
        best = whole.best[0]
        first, *rest = parts
        events = []
        for part in parts:
            part.rename((best.component,), best.confidence, best.loss, now)
        events.append(IncidentEvent("changed", first, now))
        for part in rest:
            part.joined = first.number
            part.closed = now
            self.open.remove(part)
            events.append(IncidentEvent("closed", part, now))
        return events

    def _part(self, verdict: Verdict, now: int, innocent: Collection[str]) -> Verdict | None:
        """The verdict on the likeliest component alone, when there is a second fault."""
        top = verdict.best[0].component
        known = self._known()
        rest = self._verdict(now, known | {top}, innocent)
        if rest is None:
            return None
        others = {s.component for s in rest.best}
        for switch in self._near([top]) - set(innocent):
            if not others.isdisjoint({switch, *self._links_of[switch]}):
                return None
        alone = self._verdict(now, known | others, innocent)
        if alone is None or [s.component for s in alone.best] != [top]:
            return None
        return alone

    def _close(self, incident: Incident, now: int) -> IncidentEvent:
        incident.closed = now
        self.open.remove(incident)
        for window in (*self._windows, self._probed):
            window.drop(incident.suspects)
        return IncidentEvent("closed", incident, now)

    # -- what they go by

    def _in_doubt(self) -> Incident | None:
        return next((i for i in self.open if not i.pinned), None)

    def _known(self) -> set[str]:
        return {name for i in self.open if i.pinned for name in i.suspects}

    def _near(self, names: Collection[str]) -> set[str]:
        """Switches among these and at the ends of the links among these."""
        return {
            switch
            for switch, links in self._links_of.items()
            if switch in names or not set(names).isdisjoint(links)
        }

    def _verdict(
        self, now: int, known: Collection[str], innocent: Collection[str] = ()
    ) -> Verdict | None:
        """Of the window that is surer, when either finds a fault."""
        found = []
        for index, window in enumerate(self._windows):
            if window.lost(now) < LEAST_LOST:
                continue
            summary = window.summary(now, known)
            if summary.total.lost >= LEAST_LOST:
                other, own = self._elsewhere(index, now), summary.total
                total = Counts(own.sent + other.sent, own.lost + other.lost)
                verdict = localise(Summary(total, summary.by_component), innocent=innocent)
                if verdict.is_fault(CERTAINTY) and verdict.best:
                    found.append(verdict)
        return max(found, key=_sureness, default=None)


def _sureness(verdict: Verdict) -> tuple[int, float]:
    """Fewer names first, then more confidence."""
    return -len(verdict.best), sum(s.confidence for s in verdict.best)
