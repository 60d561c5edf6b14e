"""Packets sent and lost over each way through the fabric, in a sliding window of time.

A *component* is a link or a switch, by name; a *way* is what a packet crosses, each once. An
observation says: so many packets took this way, so many of them were lost. The sums are kept by
way, so that what a known fault explains can be left out afterwards, and brought back in when it
turns out to be another fault. Memory is ways x buckets, whatever the rate of packets.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

Way = tuple[str, ...]
"""Components: links and switches, each once."""
OLDEST = 3
"""Buckets that count as the beginning of a window; the first may be about to go."""


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
class _Sums:
    sent: float = 0
    lost: float = 0
    buckets: int = 0
    """Of the window, that have something of this way."""


@dataclass(slots=True)
class _Bucket:
    index: int
    by_way: dict[Way, list[float]] = field(default_factory=dict)


class Evidence:
    """Observations of the last `window_ns`, forgotten in steps of a bucket."""

    def __init__(self, window_ns: int, buckets: int = 20) -> None:
        """Raises ValueError for a window shorter than a nanosecond a bucket."""
        if buckets < 1 or window_ns < buckets:
            raise ValueError(f"a window of {window_ns} ns in {buckets} buckets")
        self._width = window_ns // buckets
        self._keep = buckets
        self._buckets: deque[_Bucket] = deque()
        self._ways: dict[Way, _Sums] = {}
        self._lost = 0.0

    def add(self, components: Iterable[str], sent: float, lost: float, now: int) -> None:
        """`sent` packets crossed these components, `lost` of them (0..sent) never arrived.

        Raises ValueError for counts that make no sense.
        """
        if not 0 <= lost <= sent:
            raise ValueError(f"{lost} lost of {sent}")
        if sent == 0:
            return
        way = tuple(components)
        by_way = self._bucket(now).by_way
        sums = self._ways.setdefault(way, _Sums())
        counts = by_way.get(way)
        if counts is None:
            by_way[way] = [sent, lost]
            sums.buckets += 1
        else:
            counts[0] += sent
            counts[1] += lost
        sums.sent += sent
        sums.lost += lost
        self._lost += lost

    def lost(self, now: int) -> float:
        """Packets lost on all ways; cheap."""
        self._forget(now // self._width)
        return self._lost

    def total(self, now: int, without: Collection[str] = ()) -> Counts:
        """The window's sums of the ways that cross none of `without`."""
        self._forget(now // self._width)
        ways = [x for way, x in self._ways.items() if not any(name in way for name in without)]
        return Counts(sum(x.sent for x in ways), sum(x.lost for x in ways))

    def summary(self, now: int, without: Collection[str] = ()) -> Summary:
        """What the window holds at `now` of the ways that cross none of `without`.

        What crosses a component whose fault is known says nothing about the rest.
        """
        self._forget(now // self._width)
        known = frozenset(without)
        by_component: dict[str, list[float]] = {}
        sent = lost = 0.0
        for way, sums in self._ways.items():
            if known and not known.isdisjoint(way):
                continue
            sent += sums.sent
            lost += sums.lost
            for name in way:
                total = by_component.setdefault(name, [0, 0])
                total[0] += sums.sent
                total[1] += sums.lost
        return Summary(
            Counts(sent, lost), {name: Counts(*pair) for name, pair in by_component.items()}
        )

    def delivers(self, component: str, least: float, now: int) -> bool:
        """Whether at least so many packets took one way over this component, from the beginning
        of the window on, and none of them was lost."""
        index = now // self._width
        self._forget(index)
        oldest = [b for b in self._buckets if b.index < index - self._keep + OLDEST]
        return any(
            not self._ways[way].lost and self._ways[way].sent >= least
            for bucket in oldest
            for way in bucket.by_way
            if component in way
        )

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self._ways)

    def drop(self, components: Collection[str]) -> None:
        """Forget what crossed any of these, as after their repair."""
        gone = [way for way in self._ways if not set(components).isdisjoint(way)]
        for way in gone:
            self._lost -= self._ways.pop(way).lost
            for bucket in self._buckets:
                bucket.by_way.pop(way, None)

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
            for way, (sent, lost) in self._buckets.popleft().by_way.items():
                sums = self._ways[way]
                sums.buckets -= 1
                sums.sent -= sent
                sums.lost -= lost
                self._lost -= lost
                if not sums.buckets:  # whatever rounding left goes with it
                    del self._ways[way]
