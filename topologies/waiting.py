"""Waiting for what gives no sign of its own: look, pause, look again, up to a limit."""

from __future__ import annotations

import select
import time
from collections.abc import Iterator

PAUSE_SECONDS = 0.005


def pause(seconds: float = PAUSE_SECONDS) -> None:
    """Let others run between two looks."""
    select.select([], [], [], seconds)


def looks(limit: float, every: float = PAUSE_SECONDS) -> Iterator[None]:
    """One turn of a `for` loop per look: the first at once, the last after `limit` seconds.

    The loop returns or breaks when it sees what it waits for; what follows the loop names what
    did not happen.
    """
    deadline = time.monotonic() + limit
    last = False
    while not last:
        last = time.monotonic() >= deadline
        yield
        if not last:
            pause(every)
