"""The pictures of a report as SVG text. Colours are Okabe and Ito's, which people of every
colour vision can tell apart; everything also has its name written at it."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, MaxNLocator

from drills.timelines import EvCounts, PortTimeline, Timeline

BLUE, ORANGE, GREEN, RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"
SKY, PINK, GREY, DARK = "#56B4E9", "#CC79A7", "#8a8f98", "#24292f"
FAULT_FILL = "#FBE9D0"
STATE_COLOURS: Mapping[str, str] = {
    "GOOD": "#7CC7AE",
    "SKIP": SKY,
    "ASSUMED_BAD": RED,
    "DENIED": PINK,
}
STYLE = {
    "font.family": "sans-serif",
    "font.sans-serif": ["Inter", "Segoe UI", "Helvetica", "Arial", "DejaVu Sans"],
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.labelcolor": DARK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e8eb",
    "grid.linewidth": 0.8,
    "xtick.color": "#57606a",
    "ytick.color": "#57606a",
    "text.color": DARK,
    "svg.fonttype": "none",
    "path.simplify": True,
}
WIDTH = 9.6


def _svg(figure: Figure, name: str, title: str) -> str:
    """The figure as an <svg> element that scales with the page. Ids are unique by `name`."""
    FigureCanvasSVG(figure)
    buffer = io.StringIO()
    with rc_context({**STYLE, "svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    # Two figures in one page must not share ids; matplotlib numbers its groups from one.
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'(xlink:href="#|url\(#)', rf"\g<1>{name}-", text)
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    # A hundredth of a point is finer than any screen.
    text = re.sub(r"(\d\.\d\d)\d+", r"\1", text)
    return text.replace("<svg", f'<svg role="img" aria-label="{title}"', 1)


def _outages(axes: Axes, timeline: Timeline, label: bool) -> None:
    """Shade the time of each fault; with `label` write what it was above the plot."""
    for i, (start, end, text) in enumerate(timeline.outages):
        axes.axvspan(start, end, color=FAULT_FILL, zorder=0, lw=0)
        for x in (start, end):
            axes.axvline(x, color=ORANGE, lw=1.2, zorder=1)
        if label:
            axes.annotate(
                f"{text}, {seconds(end - start)}",
                ((start + end) / 2, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(0, 5 + 13 * (i % 3)),
                textcoords="offset points",
                ha="center",
                fontsize=9,
                color="#8a5a00",
            )


def _time_axis(axes: Axes, timeline: Timeline) -> None:
    axes.set_xlim(timeline.first, timeline.last)
    factor, name = next((u for u in TIME_UNITS if timeline.last * u[0] >= 1), TIME_UNITS[-1])
    if factor > 1:
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x * factor:g}"))
    axes.set_xlabel(f"{name} of {'lab' if factor == 1 else 'virtual'} time")


TIME_UNITS = ((1, "seconds"), (1e3, "milliseconds"), (1e6, "microseconds"))


def seconds(t: float) -> str:
    """A time in seconds, as people write it."""
    if t >= 0.1:
        return f"{t:.1f} s"
    return f"{t * 1e3:.1f} ms" if t >= 1e-3 else f"{t * 1e6:.0f} us"


def goodput(timeline: Timeline) -> str:
    """Goodput against what the links that were up could carry."""
    with rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 3.3), layout="constrained")
        axes = figure.subplots()
        _outages(axes, timeline, label=True)
        times = [t for t, _v in timeline.goodput]
        levels = [v for _t, v in timeline.capacity]
        size, unit = (1e9, "Gb/s") if max(levels, default=0) >= 1e9 else (1e6, "Mb/s")
        levels = [v / size for v in levels]
        rates = [v / size for _t, v in timeline.goodput]
        axes.plot(times, rates, color=BLUE, lw=1.8, label="goodput")
        edges = [t for t, _v in timeline.capacity]
        axes.step(
            edges,
            levels,
            where="post",
            color=DARK,
            lw=1.4,
            ls=(0, (5, 3)),
            label="capacity for payload",
        )
        top = max([*levels, *rates, 1.0])
        axes.set_ylim(0, top * 1.12)
        axes.set_ylabel(f"{unit} of payload")
        axes.legend(loc="lower left", frameon=True, framealpha=0.9, edgecolor="none", fontsize=9)
        _time_axis(axes, timeline)
        return _svg(figure, "goodput", "Goodput over time against capacity")


def ev_states(timeline: Timeline, planes: Sequence[EvCounts]) -> str:
    """How many EVs were in which state, one row per plane."""
    with rc_context(STYLE):
        rows = max(1, len(planes))
        figure = Figure(figsize=(WIDTH, 1.0 + 1.55 * rows), layout="constrained")
        grid = figure.subplots(rows, 1, sharex=True, squeeze=False)
        for i, (axes, counts) in enumerate(zip(grid[:, 0], planes, strict=False)):
            for start, end, _text in timeline.outages:
                for x in (start, end):
                    axes.axvline(x, color=ORANGE, lw=1.6, zorder=5)
            layers = [name for name in STATE_COLOURS if any(counts.states[name])]
            # What was given up stands at the bottom, where small numbers are seen.
            layers.sort(key=lambda name: name == "GOOD")
            axes.stackplot(
                counts.times,
                [counts.states[name] for name in layers],
                colors=[STATE_COLOURS[name] for name in layers],
                labels=layers,
                step="post",
                lw=0,
                alpha=0.95,
            )
            total = max(
                (sum(column) for column in zip(*counts.states.values(), strict=True)), default=1
            )
            axes.set_ylim(0, max(1, total))
            axes.set_ylabel(f"plane {counts.plane}\nEVs")
            axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
            worst = max(counts.states["ASSUMED_BAD"], default=0)
            text = f"at most {worst} given up" if worst else "none given up"
            axes.set_title(text, fontsize=9, loc="right", color="#57606a", pad=3)
            if i == 0:
                used = {name for c in planes for name in STATE_COLOURS if any(c.states[name])}
                handles = [
                    axes.fill_between([], [], color=STATE_COLOURS[name], label=name)
                    for name in STATE_COLOURS
                    if name in used
                ]
                figure.legend(
                    handles=handles,
                    loc="outside upper left",
                    ncols=len(handles),
                    frameon=False,
                    fontsize=9,
                )
        _time_axis(grid[-1, 0], timeline)
        return _svg(figure, "evs", "States of the entropy values over time, by plane")


def queues(timeline: Timeline, ports: Sequence[PortTimeline], trim: int) -> str:
    """Queue depth and marks of each direction of each link that had either."""
    with rc_context(STYLE):
        rows = max(1, len(ports))
        engine = ConstrainedLayoutEngine(h_pad=0.02, hspace=0.02)
        figure = Figure(figsize=(WIDTH, 0.7 + 0.52 * rows), layout=engine)
        grid = figure.subplots(rows, 1, sharex=True, sharey=True, squeeze=False)
        deepest = max([1, *(depth for port in ports for _t, depth in port.depth)])
        marks_top = max([1.0, *(rate for port in ports for _t, rate in port.marks)])
        for axes, port in zip(grid[:, 0], ports, strict=False):
            _outages(axes, timeline, label=False)
            times = [t for t, _d in port.depth]
            depths = [d for _t, d in port.depth]
            axes.fill_between(times, depths, step="mid", color=BLUE, alpha=0.55, lw=0)
            for t, rate in port.marks:
                if rate:
                    # A tick at the top: the longer, the more marks.
                    height = deepest * 1.15 * (0.12 + 0.38 * rate / marks_top)
                    axes.plot([t, t], [deepest * 1.15 - height, deepest * 1.15], color=RED, lw=1.6)
            if trim and trim < deepest * 1.15:
                axes.axhline(trim, color=DARK, lw=0.8, ls=":")
            axes.set_ylim(0, deepest * 1.15)
            axes.set_yticks([0, deepest])
            axes.tick_params(axis="y", labelsize=7, length=2)
            axes.tick_params(axis="x", length=0)
            axes.grid(axis="y", visible=False)
            axes.set_ylabel(port.name, rotation=0, ha="right", va="center", fontsize=9, labelpad=6)
            axes.annotate(
                port.note,
                (1.005, 0.5),
                xycoords="axes fraction",
                va="center",
                fontsize=8.5,
                color="#57606a",
            )
        _time_axis(grid[-1, 0], timeline)
        return _svg(figure, "queues", "Queue depth and marks per link over time")
