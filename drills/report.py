"""report.html: one file, nothing loaded from elsewhere, that says at a glance what happened."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from drills import plots
from drills.events import Event, write_atomic
from drills.format import Drill
from drills.phases import IncompleteRun, Phases, phases_of
from drills.progress import rate
from drills.summary import Expectation, Summary
from drills.timelines import ev_counts, port_timelines, timeline_of, told
from drills.view import FabricView

TEMPLATES = Path(__file__).parent / "templates"

MAX_DIRECTIONS = 24
"""Directions of links that are drawn."""

HEADLINE = {
    "pass": "Every expectation held.",
    "fail": "Not everything held that had to.",
    "void": "This run says nothing: it cannot be judged.",
}


def number(value: float | int | str | None, unit: str = "") -> str:
    """A figure as people read it: shares in percent, thousands separated, no noise digits."""
    if value is None:
        return "not measured"
    if isinstance(value, str):
        return value
    if unit == "share":
        return f"{value:.1%}"
    text = f"{value:,}" if isinstance(value, int) or value == int(value) else f"{value:,.2f}"
    text = text.removesuffix(".0")
    return f"{text} {unit}".strip()


def _bound(item: Expectation) -> str:
    """What had to be, in words."""
    if item.relation == "at most" and item.bound == 0:
        return "none"
    if item.relation == "is":
        return str(item.bound)
    return f"{item.relation} {number(item.bound, item.unit)}"


def expectation_rows(items: Sequence[Expectation]) -> list[dict[str, Any]]:
    """Rows of the table, what does not hold first."""
    ordered = sorted(items, key=lambda item: item.ok)
    return [
        {
            "ok": item.ok,
            "name": item.name,
            "title": item.title,
            "measured": number(item.measured, item.unit),
            "bound": _bound(item),
        }
        for item in ordered
    ]


def cards(summary: Summary) -> list[dict[str, str]]:
    """The figures that tell the story, each with a line of context."""
    m = summary.metrics

    def value(name: str) -> float | int | None:
        return m.get(name)

    found: list[dict[str, str]] = []
    if value("goodput_share_during") is not None:
        found.append(
            {
                "value": number(value("goodput_share_during"), "share"),
                "label": "of surviving capacity kept during the fault",
                "note": f"{number(value('goodput_share_before'), 'share')} before, "
                f"{number(value('goodput_share_after'), 'share')} after",
            }
        )
    if value("steer_rtts") is not None:
        scale = int(summary.run.get("time_scale", 1))
        lab_ms = value("steer_ms") or 0.0
        real = lab_ms / scale * 1e3
        found.append(
            {
                "value": f"{number(value('steer_rtts'))} RTT",
                "label": "until the dead link was left",
                "note": f"{lab_ms:.1f} ms here, {real:.0f} us at real speed"
                if scale > 1
                else f"{real:.3g} us",
            }
        )
    compared = value("bytes_compared")
    found.append(
        {
            "value": "0" if not value("memory_mismatches") else number(value("memory_mismatches")),
            "label": "memory regions that differ",
            "note": f"{(compared or 0) / 2**20:,.0f} MiB compared by SHA-256, "
            f"{number(value('messages_completed'))} messages",
        }
    )
    found.append(
        {
            "value": number(value("evs_assumed_bad")),
            "label": "entropy values given up",
            "note": f"{number(value('evs_crossing'))} active ones crossed the fault; "
            f"{number(value('evs_wrongly_demoted'))} wrongly given up",
        }
    )
    found.append(
        {
            "value": number(value("packets_lost")),
            "label": "frames lost in the fabric",
            "note": f"{number(value('packets_retransmitted'))} data packets sent again",
        }
    )
    return found


def flat(versions: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested versions as (dotted name, text)."""
    rows: list[tuple[str, str]] = []
    for name, value in versions.items():
        if isinstance(value, Mapping):
            rows += flat(value, f"{prefix}{name}.")
        else:
            rows.append((f"{prefix}{name}", str(value)))
    return rows


def _pictures(
    everything: Sequence[Event], phases: Phases | None, view: FabricView
) -> dict[str, str]:
    if phases is None:
        return {}
    timeline = timeline_of(everything, phases, view)
    ports, left_out = told(port_timelines(everything, phases, view), MAX_DIRECTIONS)
    evs = ev_counts(everything, phases)
    pictures = {"goodput": plots.goodput(timeline)}
    if evs:
        pictures["evs"] = plots.ev_states(timeline, evs)
    if ports:
        pictures["queues"] = plots.queues(timeline, ports, view.trim)
    if left_out:
        pictures["queues_left_out"] = str(left_out)
    return pictures


def render(summary: Summary, everything: Sequence[Event], drill: Drill, view: FabricView) -> str:
    """The page as text."""
    try:
        phases: Phases | None = phases_of(everything)
    except (IncompleteRun, KeyError):
        phases = None
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    fabric_rate = next(iter(view.links.values())).rate_bps if view.links else 0
    scale = view.time_scale
    return environment.get_template("report.html.j2").render(
        summary=summary,
        drill=drill,
        headline=HEADLINE[summary.verdict],
        cards=cards(summary) if phases else [],
        expectations=expectation_rows(summary.expectations),
        pictures=_pictures(everything, phases, view),
        ledger=summary.ledger,
        readings=[
            {
                **reading,
                "text": number(reading["measured"], reading["unit"]),
                "limit": number(reading["bound"], reading["unit"]),
            }
            for reading in summary.fidelity_readings
        ],
        versions=flat(summary.versions),
        python=platform.python_version(),
        fabric=view.name,
        link_rate=rate(fabric_rate),
        real_rate=rate(fabric_rate * scale),
        scale=scale,
        number=number,
        trim=view.trim,
    )


def write_report(
    path: Path, summary: Summary, everything: Sequence[Event], drill: Drill, view: FabricView
) -> None:
    """Write the page, whole or not at all."""
    write_atomic(path, render(summary, everything, drill, view))
