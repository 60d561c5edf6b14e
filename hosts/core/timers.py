"""When the endpoint must next be called for its timers.

Parts note when they set a timer; nobody takes one back. `due` is therefore a lower bound, which
`Endpoint.on_deadline` makes exact again: a call too early now and then instead of a look at every
timer for every packet.
"""

from __future__ import annotations

NEVER = 1 << 62


class Timers:
    """The earliest time any part asked for."""

    __slots__ = ("due",)

    def __init__(self) -> None:
        self.due = NEVER

    def at(self, when: int) -> None:
        """A timer was set."""
        self.due = min(self.due, when)
