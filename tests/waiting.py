"""Waiting in tests: for a named condition, never for a time."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

SECONDS = 20.0
"""A generous limit: a machine that is busy with other things still passes."""


def wait_for(name: str, condition: Callable[[], T], seconds: float = SECONDS) -> T:
    """The first true value of `condition`; AssertionError with `name` after `seconds`.

    For what gives no sign of its own. Where there is a process, thread, queue or descriptor to
    wait on with a limit, wait on that.
    """
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"not within {seconds:g} s: {name}"
        select.select([], [], [], 0.005)
    return value
