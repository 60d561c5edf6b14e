"""From what was recorded to a verdict. Pure: the same record always gives the same verdict.

pass   every expectation holds, the ledger balances, the machine kept up
fail   an expectation does not hold, in a run that means something
void   the run means nothing: the machine did not keep up, frames are unaccounted for, the
       fabric was not in the state that the drill says, or the record is incomplete

Wrong or repeated bytes are a fail however slow the machine was: lateness cannot cause them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise

from drills import ledger as ledgers
from drills.capacity import goodput_capacity, wire_capacity
from drills.events import Event
from drills.evs import Crossing, EvVerdict, judge_evs
from drills.fidelity import VIRTUAL, Fidelity, judge_fidelity
from drills.format import Bound, Drill
from drills.goodput import series, total
from drills.integrity import Integrity, judge_integrity
from drills.measures import MEASURES
from drills.naming import judge_naming
from drills.phases import IncompleteRun, Phases, Window, phases_of
from drills.record import RunInfo
from drills.steering import Steering, loaded_rtt, steering
from drills.summary import Expectation, Summary, Verdict
from drills.view import FabricView

GRACE_RTTS = 20
"""Loaded RTTs after a repair in which losses from before it may still come to light."""
DEAD = frozenset({"link_down", "link_blackhole", "switch_down"})
"""Faults that leave a link without any capacity."""
MIN_GRACE_NS = 250_000
"""The least, in real time: two time-outs at the scale of the fabric."""

INTEGRITY = frozenset({"memory_mismatches", "bytes_missing", "duplicates_delivered"})
"""Measures that no lack of CPU can excuse."""

VOID_NAMES = frozenset({"packets_conserved", "fidelity"})
"""Expectations of every drill; when one does not hold the run is void."""

Metrics = dict[str, float | int | None]


def judge(
    events: Sequence[Event],
    samples: Sequence[Event],
    drill: Drill,
    view: FabricView,
    info: RunInfo,
) -> Summary:
    """Judge a run. `events` and `samples` are sorted by time (see `drills.record.split`)."""
    try:
        phases = phases_of(events)
        book = _ledger(events, view)
    except (IncompleteRun, KeyError, TypeError, ValueError) as error:
        reasons = [str(e["why"]) for e in events if e.type == "void"]
        reasons.append(f"the record is incomplete: {_words(error)}")
        return _void(drill, info, tuple(reasons))
    within = [s for s in samples if phases.steady <= s.t <= phases.stop]
    if info.time == "virtual":
        fidelity = VIRTUAL
    else:
        fidelity = judge_fidelity(within, drill.fidelity.scaled(view.time_scale))
    integrity = judge_integrity(events)
    crossing = Crossing(view, phases.flows)
    grace = max(MIN_GRACE_NS * view.time_scale, GRACE_RTTS * loaded_rtt(samples, phases))
    evs = judge_evs(events, phases, crossing, grace)
    merged = [*events, *samples]
    naming = judge_naming(merged, phases.outages, grace) if drill.mrc_controller else None
    steers = [steering(merged, phases, outage, crossing, evs) for outage in phases.outages]
    metrics = _metrics(events, samples, phases, view, book, integrity, evs, steers)
    if naming is not None:
        metrics |= naming.metrics()
    expectations = [
        _expect(name, bound, metrics.get(name))
        for name, bound in drill.expectations(view.failover_groups).items()
    ]
    expectations.append(_conserved(book))
    expectations.append(
        Expectation(
            "fidelity",
            fidelity.ok,
            "ok" if fidelity.ok else "degraded",
            "ok",
            "",
            "The machine kept up",
            "is",
        )
    )
    verdict, why = _verdict(events, drill, expectations, book, fidelity, integrity)
    return Summary(
        run_id=info.run_id,
        drill=drill.name,
        verdict=verdict,
        why=why,
        fidelity=str(fidelity),
        expectations=tuple(expectations),
        metrics=metrics,
        ledger=book.to_json(),
        versions=info.versions,
        run={
            **{k: v for k, v in info.to_json().items() if k not in ("run_id", "versions")},
            "fabric": view.name,
            "time_scale": view.time_scale,
            "flows": [f"{flow.src} > {flow.dst}" for flow in phases.flows],
            "phases": {
                name: {"start": window.start, "end": window.end}
                for name, window in _windows(phases).items()
            },
        },
        fidelity_readings=[
            {**asdict(reading), "ok": not reading.bad} for reading in fidelity.readings
        ],
    )


def _words(error: BaseException) -> str:
    return f"no field {error}" if isinstance(error, KeyError) else str(error)


def _windows(phases: Phases) -> dict[str, Window]:
    return {"before": phases.before, "during": phases.during, "after": phases.after}


def _void(drill: Drill, info: RunInfo, reasons: tuple[str, ...]) -> Summary:
    return Summary(
        run_id=info.run_id,
        drill=drill.name,
        verdict="void",
        why=reasons,
        fidelity="degraded (not measured)",
        expectations=(),
        metrics=dict.fromkeys(MEASURES),
        ledger={"balanced": False, "imbalance": None, "problems": [reasons[0]]},
        versions=info.versions,
        run={k: v for k, v in info.to_json().items() if k not in ("run_id", "versions")},
    )


def _ledger(events: Sequence[Event], view: FabricView) -> ledgers.Ledger:
    found = {e["name"]: ledgers.Snapshot(e.data) for e in events if e.type == "counters"}
    if "start" not in found or "end" not in found:
        raise IncompleteRun("the packet counters of start and end are not there")
    return ledgers.build(view, found["start"], found["end"])


def _metrics(
    events: Sequence[Event],
    samples: Sequence[Event],
    phases: Phases,
    view: FabricView,
    book: ledgers.Ledger,
    integrity: Integrity,
    evs: EvVerdict,
    steers: Sequence[Steering],
) -> Metrics:
    pairs = [(flow.src, flow.dst) for flow in phases.flows]
    sources = {flow.src for flow in phases.flows}
    delivered = series(samples, {flow.dst for flow in phases.flows}, "delivered_bytes")
    capacity = goodput_capacity(view, pairs)
    left = _mean_capacity(view, phases)
    rates = {name: 8 * delivered.rate(window) for name, window in _windows(phases).items()}
    wire = wire_capacity(view, pairs)
    kept = rates["during"] / rates["before"] if phases.outages and rates["before"] else None
    worst = max(steers, key=lambda item: item.duration, default=None)
    metrics: Metrics = {
        "goodput_share_before": rates["before"] / capacity if capacity else 0.0,
        "goodput_share_during": rates["during"] / left if left and phases.outages else None,
        "goodput_share_after": rates["after"] / capacity if capacity and phases.outages else None,
        "steer_rtts": worst.rtts if worst else None,
        "steer_us": worst.duration / 1e3 / view.time_scale if worst else None,
        "line_rate_share": rates["before"] / wire if wire else 0.0,
        "goodput_kept": kept,
        "goodput_lost": None if kept is None else 1.0 - kept,
        "packets_lost": book.packets_lost,
        "packets_retransmitted": total(samples, sources, "retransmitted"),
        "duplicates_delivered": -(-integrity.bytes_repeated // view.pmtu),
        "evs_assumed_bad": len(evs.demoted),
        "evs_wrongly_demoted": len(evs.wrongly_demoted),
        "evs_not_demoted": len(evs.not_demoted),
        "evs_not_recovered": len(evs.not_recovered),
        "evs_crossing": len(evs.crossing),
        "messages_completed": integrity.completed,
        "messages_unfinished": integrity.unfinished,
        "bytes_missing": integrity.bytes_missing,
        "bytes_compared": integrity.bytes_compared,
        "memory_mismatches": integrity.memory_mismatches,
        "messages_failed": integrity.failed,
        "qp_errors": max(_qp_errors(events), integrity.failed_flows),
        "loaded_rtt_ms": loaded_rtt(samples, phases) / 1e6,
        "steer_ms": worst.duration / 1e6 if worst else None,
        "losses_noticed": sum(item.lost_reports for item in steers),
        "duplicates_received": total(samples, {f.dst for f in phases.flows}, "duplicates"),
        "capacity_bps": wire,
        "goodput_capacity_bps": capacity,
        "goodput_capacity_left_bps": left,
    }
    for name, rate in rates.items():
        metrics[f"goodput_{name}_bps"] = rate
    return metrics


def _mean_capacity(view: FabricView, phases: Phases) -> float:
    """Goodput capacity in bits per second while the faults lasted, averaged over that time.

    Links that are down or swallow everything carry nothing; links that lose or corrupt some
    frames count whole.
    """
    window = phases.during
    dead = [outage for outage in phases.outages if outage.kind in DEAD]
    edges = sorted({window.start, window.end, *(t for o in dead for t in (o.start, o.end))})
    pairs = [(flow.src, flow.dst) for flow in phases.flows]
    bits = 0.0
    for start, end in pairwise(edges):
        down = {link for o in dead if o.start <= start < o.end for link in o.links}
        bits += goodput_capacity(view, pairs, down) * (end - start)
    return bits / window.length if window.length else 0.0


def _qp_errors(events: Sequence[Event]) -> int:
    """QPs that went into ERROR at either end."""
    return len(
        {(e.src, e.get("qpn")) for e in events if e.type == "qp_state" and e.get("to") == "ERROR"}
    )


def _expect(name: str, bound: Bound, measured: float | int | None) -> Expectation:
    measure = MEASURES[name]
    limit = bound.at_least if bound.at_least is not None else bound.at_most
    return Expectation(
        name=name,
        ok=measured is not None and bound.holds(measured),
        measured=measured,
        bound=limit if limit is not None else 0.0,
        unit=measure.unit,
        title=measure.title,
        relation="at least" if bound.at_least is not None else "at most",
    )


def _conserved(book: ledgers.Ledger) -> Expectation:
    return Expectation(
        name="packets_conserved",
        ok=book.balanced,
        measured=book.imbalance,
        bound=0,
        unit="packets",
        title="Frames unaccounted for, on any link or in any switch",
        relation="at most",
    )


def _verdict(
    events: Sequence[Event],
    drill: Drill,
    expectations: Sequence[Expectation],
    book: ledgers.Ledger,
    fidelity: Fidelity,
    integrity: Integrity,
) -> tuple[Verdict, tuple[str, ...]]:
    failed = [item for item in expectations if not item.ok]
    voids: list[str] = []
    voids.extend(str(e["why"]) for e in events if e.type == "void")
    if not fidelity.ok:
        voids.append(f"the machine did not keep up: {'; '.join(fidelity.why)}")
    if book.problems:
        voids.append(f"the packet ledger is incomplete: {'; '.join(book.problems[:3])}")
    if book.imbalance:
        voids.append(f"the packet ledger does not balance: {book.imbalance} frames unaccounted for")
    fails = [_sentence(item) for item in failed if item.name not in VOID_NAMES]
    if not integrity.completed:
        fails.insert(0, "no message was completed")
    if integrity.regions < len(drill.workload.flows):
        voids.append("the memory of source and destination was not compared")
    if any(item.name in INTEGRITY for item in failed):
        return "fail", (*fails, *voids)
    if voids:
        return "void", (*voids, *fails)
    if fails:
        return "fail", tuple(fails)
    return "pass", ()


def _sentence(item: Expectation) -> str:
    measured, bound = _figure(item.measured, item.unit), _figure(item.bound, item.unit)
    return f"{item.title}: {measured}, must be {item.relation} {bound}"


def _figure(value: float | str | None, unit: str) -> str:
    """A figure with its unit, as people write it."""
    if value is None:
        return "not measured"
    if isinstance(value, str):
        return value
    return f"{value:.1%}" if unit == "share" else f"{value:.4g} {unit}".rstrip()


def verdict_lines(summary: Summary) -> list[str]:
    """The verdict for a terminal: what was expected, then one line that sums up."""
    lines = []
    for item in summary.expectations:
        mark = "ok  " if item.ok else "FAIL"
        measured, bound = _figure(item.measured, item.unit), _figure(item.bound, item.unit)
        lines.append(f"  {mark} {item.title}: {measured} ({item.relation} {bound})")
    reasons = f": {summary.why[0]}" if summary.why else ""
    return [*lines, f"{summary.drill}: {summary.verdict.upper()}{reasons}"]
