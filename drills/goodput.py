"""Goodput from the cumulative byte counts that destinations report."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from drills.events import Event
from drills.phases import Window


@dataclass(frozen=True)
class Series:
    """A cumulative count over time, interpolated linearly between readings."""

    times: tuple[int, ...]
    values: tuple[float, ...]

    def at(self, t: int) -> float:
        """The count at `t`; before the first and after the last reading it is constant."""
        if not self.times:
            return 0.0
        i = bisect_right(self.times, t)
        if i == 0:
            return self.values[0]
        if i == len(self.times):
            return self.values[-1]
        t0, t1 = self.times[i - 1], self.times[i]
        v0, v1 = self.values[i - 1], self.values[i]
        return v0 + (v1 - v0) * (t - t0) / (t1 - t0)

    def rate(self, window: Window) -> float:
        """Mean increase per second in the window; 0 for an empty one."""
        if not window.length:
            return 0.0
        return (self.at(window.end) - self.at(window.start)) * 1e9 / window.length

    def rates(self) -> list[tuple[int, float]]:
        """(middle of the interval, increase per second) between successive readings."""
        pairs = zip(self.times, self.times[1:], self.values, self.values[1:], strict=False)
        return [
            ((t0 + t1) // 2, (v1 - v0) * 1e9 / (t1 - t0)) for t0, t1, v0, v1 in pairs if t1 > t0
        ]


def series(events: Iterable[Event], sources: Iterable[str], field: str) -> Series:
    """The cumulative `field` of the samples of some hosts, added up.

    Hosts sample at different moments: at each reading of one host the others are
    interpolated.
    """
    wanted = set(sources)
    single: dict[str, list[tuple[int, float]]] = {name: [] for name in wanted}
    for event in events:
        if event.type == "sample" and event.src in wanted and event.get(field) is not None:
            points = single[event.src]
            if not points or event.t > points[-1][0]:
                points.append((event.t, float(event[field])))
    parts = [
        Series(tuple(t for t, _v in points), tuple(v for _t, v in points))
        for points in single.values()
        if points
    ]
    if len(parts) == 1:
        return parts[0]
    times = tuple(sorted({t for part in parts for t in part.times}))
    return Series(times, tuple(sum(part.at(t) for part in parts) for t in times))


def total(events: Sequence[Event], sources: Iterable[str], field: str) -> int:
    """Increase of a cumulative count from the first to the last sample, all hosts added."""
    whole = series(events, sources, field)
    return int(whole.values[-1] - whole.values[0]) if whole.values else 0
