"""What undoes the updates of a batch that must be all or nothing.

While a batch with ROLLBACK_ON_ERROR or DATAPLANE_ATOMIC runs, every store notes how to take
back each change it makes; `undo` plays the notes backwards. Outside of such a batch nothing is
noted and nothing is paid.
"""

from __future__ import annotations

from collections.abc import Callable


class Journal:
    """Notes of one pipeline. Calls are serialised by the device."""

    __slots__ = ("_notes", "active")

    def __init__(self) -> None:
        self.active = False
        self._notes: list[Callable[[], object]] = []

    def begin(self) -> None:
        """Note from now on."""
        self.active = True
        self._notes = []

    def note(self, undo: Callable[[], object]) -> None:
        """How to take back what was just done; it must not fail."""
        if self.active:
            self._notes.append(undo)

    def commit(self) -> None:
        """The batch stands."""
        self.active = False
        self._notes = []

    def undo(self) -> None:
        """Take back everything noted since `begin`, newest first."""
        self.active = False
        notes, self._notes = self._notes, []
        for action in reversed(notes):
            action()
