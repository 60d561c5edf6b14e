"""Running the controller's actions: a call per request, whatever carries it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from controller.mrc.core import Json, Talk

T = TypeVar("T")


def run(talk: Talk[T], call: Callable[[str, Json], Json | None]) -> T:
    """Carry an action out. `call(host, request)` gives the reply, None when there is none."""
    try:
        request = next(talk)
        while True:
            request = talk.send(call(*request))
    except StopIteration as done:
        result: T = done.value
        return result
