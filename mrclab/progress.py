"""Progress on standard error: a spinner on a terminal, one plain line a step elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console


class Steps:
    """Shows the steps of something that takes over a second, each with its seconds.

    quiet=True shows nothing (for --json and tests).
    """

    def __init__(self, quiet: bool = False) -> None:
        self.console = Console(stderr=True, quiet=quiet, highlight=False)
        self.seconds: dict[str, float] = {}
        """Wall-clock seconds of each step that has ended, by its text."""

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Show `text` while the body runs, then how long it took."""
        begin = time.monotonic()
        if self.console.is_terminal:
            with self.console.status(text):
                yield
        else:
            yield
        took = self.seconds[text] = time.monotonic() - begin
        self.console.print(f"  [green]ok[/green] {text} [dim]({took:.1f} s)[/dim]")

    def say(self, text: str) -> None:
        """One line that is not a step."""
        self.console.print(text)
