"""Packets sent and lost over each part of the fabric, in a sliding window of time.

A *component* is a link or a switch, by name. An observation says: so many packets took this
way, so many of them were lost. For a single fault the sums per component are all that counts
(see localise.py), so nothing else is kept: memory is components x buckets, whatever the rate.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Counts:
    """Packets that crossed a component, and how many of them were lost on their way."""

    sent: float = 0
    lost: float = 0


@dataclass(frozen=True, slots=True)
class Summary:
    """A window's sums. `total` counts each packet once, whatever the length of its path."""

    total: Counts
    by_component: Mapping[str, Counts]


@dataclass(slots=True)
class _Bucket:
    index: int
    sent: float = 0
    lost: float = 0
    by_component: dict[str, list[float]] = field(default_factory=dict)


class Evidence:
    """Observations of the last `window_ns`, forgotten in steps of a bucket."""

    def __init__(self, window_ns: int, buckets: int = 20) -> None:
        """Raises ValueError for a window shorter than a nanosecond a bucket."""
        if buckets < 1 or window_ns < buckets:
            raise ValueError(f"a window of {window_ns} ns in {buckets} buckets")
        self._width = window_ns // buckets
        self._keep = buckets
        self._buckets: deque[_Bucket] = deque()
        self._excluded: frozenset[str] = frozenset()

    def add(self, components: Iterable[str], sent: float, lost: float, now: int) -> None:
        """`sent` packets crossed these components, `lost` of them (0..sent) never arrived.

        Raises ValueError for counts that make no sense.
        """
        if not 0 <= lost <= sent:
            raise ValueError(f"{lost} lost of {sent}")
        if sent == 0:
            return
        components = tuple(components)
        if not self._excluded.isdisjoint(components):
            return
        bucket = self._bucket(now)
        bucket.sent += sent
        bucket.lost += lost
        for name in components:
            sums = bucket.by_component.setdefault(name, [0, 0])
            sums[0] += sent
            sums[1] += lost

    def summary(self, now: int) -> Summary:
        """What the window holds at `now`."""
        self._forget(now // self._width)
        sums: dict[str, list[float]] = {}
        sent = lost = 0.0
        for bucket in self._buckets:
            sent += bucket.sent
            lost += bucket.lost
            for name, (one_sent, one_lost) in bucket.by_component.items():
                total = sums.setdefault(name, [0, 0])
                total[0] += one_sent
                total[1] += one_lost
        return Summary(Counts(sent, lost), {name: Counts(*pair) for name, pair in sums.items()})

    def exclude(self, components: Iterable[str]) -> None:
        """Leave out what crosses these, whose fault is known: it says nothing about the rest.

        The sums so far are forgotten when the set changes, since they can't be taken apart.
        """
        excluded = frozenset(components)
        if excluded != self._excluded:
            self._excluded = excluded
            self._buckets.clear()

    def clear(self) -> None:
        """Forget everything, as after a repair."""
        self._buckets.clear()

    def _bucket(self, now: int) -> _Bucket:
        index = now // self._width
        # What arrives late counts for the newest bucket: the window must stay in order.
        if self._buckets and index <= self._buckets[-1].index:
            return self._buckets[-1]
        self._forget(index)
        self._buckets.append(_Bucket(index))
        return self._buckets[-1]

    def _forget(self, index: int) -> None:
        while self._buckets and self._buckets[0].index <= index - self._keep:
            self._buckets.popleft()
