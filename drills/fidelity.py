"""Did the machine keep up? An emulation that was served late says nothing about MRC."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from drills.events import Event
from drills.format import FidelityBounds


@dataclass(frozen=True, slots=True)
class Reading:
    """One measure of punctuality. `bad` when beyond its bound."""

    name: str
    measured: float
    bound: float
    unit: str
    where: str = ""
    at_least: bool = False

    @property
    def bad(self) -> bool:
        return self.measured < self.bound if self.at_least else self.measured > self.bound

    @property
    def why(self) -> str:
        """The reading as a reason, for people."""
        side = "less than" if self.at_least else "more than"
        place = f" ({self.where})" if self.where else ""
        return f"{self.name} {self._text(self.measured)}{place}, {side} {self._text(self.bound)}"

    def _text(self, value: float) -> str:
        return f"{value:.1%}" if self.unit == "share" else f"{value:.3g} {self.unit}"


@dataclass(frozen=True)
class Fidelity:
    """All readings of a run."""

    readings: tuple[Reading, ...]
    missing: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    """What this kind of switch cannot tell: no reason to distrust the rest, but said."""
    note: str = ""

    @property
    def ok(self) -> bool:
        return not self.missing and not any(reading.bad for reading in self.readings)

    @property
    def why(self) -> tuple[str, ...]:
        return (*self.missing, *(reading.why for reading in self.readings if reading.bad))

    def __str__(self) -> str:
        note = f" ({self.note})" if self.note else ""
        said = f"ok{note}" if self.ok else f"degraded ({'; '.join(self.why)})"
        return said + "".join(f"; not known: {what}" for what in self.unknown)


VIRTUAL = Fidelity((), note="virtual time: nothing can be late")
"""Of a run on a computed clock."""


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that is at least as large as `share` of all (0 when empty)."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _worst(items: Iterable[tuple[float, str]]) -> tuple[float, str]:
    return max(items, default=(0.0, ""))


def judge_fidelity(samples: Sequence[Event], bounds: FidelityBounds) -> Fidelity:
    """Judge the samples taken between the start and the stop of the workload.

    Lateness of a switch: how long after its due time a queue or delay line was served.
    Lateness of a host: how long after its deadline the endpoint's timer was served. Times in
    the readings are milliseconds; CPU left is the idle share of the whole machine.
    """
    missing: list[str] = []
    if bounds.queue_late_p99 is None or bounds.timer_late_p95 is None:
        raise ValueError("bounds without limits: call FidelityBounds.scaled first")
    key, title = "late", "switch queues late"
    switches = {e.src: e for e in samples if e.type == "ports" and e.get("late_p99_ns") is not None}
    if not switches:
        # bmv2: how long its threads were kept from a CPU stands for how late it served.
        key, title = "waited", "switch threads waited"
        switches = {
            e.src: e for e in samples if e.type == "ports" and e.get("waited_p99_ns") is not None
        }
    unknown = [str(text) for event in switches.values() for text in event.get("unknown") or ()]
    hosts = [e for e in samples if e.type == "sample" and e.get("late_ns") is not None]
    cpus = [e for e in samples if e.type == "cpu"]
    if not switches:
        missing.append("no switch reported how late it was")
    if not hosts:
        missing.append("no host reported how late it was")
    if not cpus:
        missing.append("the machine's load was not measured")
    p99, p99_at = _worst((e[f"{key}_p99_ns"] / 1e6, e.src) for e in switches.values())
    worst, worst_at = _worst((e[f"{key}_max_ns"] / 1e6, e.src) for e in switches.values())
    by_host: dict[str, list[float]] = {}
    for event in hosts:
        by_host.setdefault(event.src, []).append(event["late_ns"] / 1e6)
    timer_p95, p95_at = _worst((percentile(v, 0.95), host) for host, v in by_host.items())
    timer_max, timer_at = _worst((max(v), host) for host, v in by_host.items())
    idle = min((float(event["idle"]) for event in cpus), default=1.0)
    total = sum(float(event["span_ns"]) for event in cpus)
    mean = sum(event["idle"] * event["span_ns"] for event in cpus) / total if total else 1.0
    return Fidelity(
        (
            Reading(f"{title}, p99", p99, bounds.queue_late_p99 / 1e6, "ms", p99_at),
            Reading(f"{title}, worst", worst, bounds.queue_late_max / 1e6, "ms", worst_at),
            Reading("host timers late, p95", timer_p95, bounds.timer_late_p95 / 1e6, "ms", p95_at),
            Reading(
                "host timers late, worst", timer_max, bounds.timer_late_max / 1e6, "ms", timer_at
            ),
            Reading("CPU left, mean", mean, bounds.cpu_left, "share", f"least {idle:.0%}", True),
        ),
        tuple(missing),
        tuple(dict.fromkeys(unknown)),
    )
