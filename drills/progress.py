"""What a person sees while a drill runs: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text


@dataclass(frozen=True, slots=True)
class Status:
    """The moment, for display only; nothing here is judged."""

    phase: str
    elapsed_s: float
    total_s: float
    goodput_bps: float
    capacity_bps: float
    bad_evs: int
    retransmitted: int


class Progress(Protocol):
    """Where a runner says what it does."""

    def say(self, text: str) -> None:
        """Something happened: one line."""

    def show(self, status: Status) -> None:
        """How it goes; called a few times a second."""

    def close(self) -> None:
        """Nothing more will come."""


class Silent:
    """Shows nothing."""

    def say(self, text: str) -> None:
        """Ignored."""

    def show(self, status: Status) -> None:
        """Ignored."""

    def close(self) -> None:
        """Ignored."""


def rate(bps: float) -> str:
    """148_300_000 -> `148 Mb/s`."""
    for unit, size in (("Gb/s", 1e9), ("Mb/s", 1e6), ("kb/s", 1e3)):
        if bps >= size:
            return f"{bps / size:.3g} {unit}" if bps < 100 * size else f"{bps / size:.0f} {unit}"
    return f"{bps:.0f} b/s"


class Plain:
    """One line for each thing that happens and one each `every` seconds of the drill."""

    def __init__(self, out: IO[str], every: float = 1.0) -> None:
        self._out = out
        self._every = every
        self._next = 0.0

    def _print(self, text: str) -> None:
        print(text, file=self._out, flush=True)

    def say(self, text: str) -> None:
        self._print(text)

    def show(self, status: Status) -> None:
        if status.elapsed_s < self._next:
            return
        self._next = status.elapsed_s + self._every
        share = status.goodput_bps / status.capacity_bps if status.capacity_bps else 0.0
        self._print(
            f"  {status.elapsed_s:4.1f} s  {status.phase:<8}  {rate(status.goodput_bps):>9} "
            f"({share:.0%})  EVs given up: {status.bad_evs}  sent again: {status.retransmitted}"
        )

    def close(self) -> None:
        """Nothing to tidy."""


class Rich:
    """A bar with goodput beside it, redrawn in place."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(Text("starting"), console=console, refresh_per_second=8, transient=True)
        self._live.start()

    def say(self, text: str) -> None:
        self._console.print(text, highlight=False)

    def show(self, status: Status) -> None:
        share = min(1.0, status.goodput_bps / status.capacity_bps) if status.capacity_bps else 0.0
        table = Table.grid(padding=(0, 1))
        table.add_row(
            "time",
            ProgressBar(status.total_s, status.elapsed_s, 40),
            f"{status.elapsed_s:.1f} of {status.total_s:.0f} s, {status.phase}",
        )
        table.add_row(
            "goodput",
            ProgressBar(1.0, share, 40, complete_style="cyan"),
            f"{rate(status.goodput_bps)} ({share:.0%} of capacity)",
        )
        notes = Text(f"EVs given up: {status.bad_evs}   sent again: {status.retransmitted}")
        self._live.update(Group(table, notes))

    def close(self) -> None:
        self._live.stop()


def for_console(console: Console) -> Progress:
    """The display that suits a console: live on a terminal, plain lines when piped."""
    return Rich(console) if console.is_terminal else Plain(console.file)
