"""Path selectors: which EV of a plane the next packet takes. A small interface and a registry.

A selector sees the EV set of one QP and answers two questions: the EV of the next new packet on a
port (`pick`), and that of a retransmission (`again`). It also says which feedback changes the
state of EVs (`obeys`). That load is equal over the planes is not its business (`EvSet.may_send`).

To add one: a class here or elsewhere, a line in `SELECTORS`.

rotation   the reference's rule: in turns, passing over SKIP (section 3.4), away from what fails
oblivious  any active EV at random, whatever is known of it: packet spraying without feedback
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from hosts.core.ev.state import EvInput
from hosts.core.events import EvState

if TYPE_CHECKING:
    from hosts.core.ev.evset import EvEntry, EvSet

_GOOD: Final = EvState.GOOD


@mypyc_attr(allow_interpreted_subclasses=True)
class PathSelector(ABC):
    """See the module. `evs.planes[port]` is the plane; `take` counts a packet on it."""

    __slots__ = ("evs",)

    def __init__(self, evs: EvSet) -> None:
        self.evs = evs

    @abstractmethod
    def pick(self, port: int, now: int, avoid: EvEntry | None = None) -> EvEntry | None:
        """The EV of the next packet on this port; None: nothing usable. `avoid` only when nothing
        else is left. Adds 1 to the plane's `sent`."""

    @abstractmethod
    def again(self, port: int, now: int, avoid: EvEntry, lost_at: int) -> EvEntry | None:
        """The EV of a retransmission whose copy left at `lost_at` on `avoid`; None: not on this
        port. Does not count for plane balance."""

    def obeys(self, what: EvInput) -> bool:
        """Whether this feedback may change the state of an EV."""
        return True


class Rotation(PathSelector):
    """Visits the active EVs in turns."""

    __slots__ = ()

    def pick(self, port: int, now: int, avoid: EvEntry | None = None) -> EvEntry | None:
        """SKIP semantics of section 3.4: a SKIP EV that the pointer meets becomes GOOD and is not
        used for this packet, at most one per packet; if there is nothing but SKIP, it is."""
        plane = self.evs.planes[port]
        active = plane.active
        count = len(active)
        pos = plane.pos
        restored: EvEntry | None = None
        spare: EvEntry | None = None
        spare_pos = restored_pos = avoid_pos = pos
        for _ in range(count):
            entry = active[pos]
            pos += 1
            if pos >= count:
                pos = 0
            if entry.state is _GOOD:
                if not entry.suspect and entry is not avoid:
                    plane.pos = pos
                    plane.sent += 1
                    return entry
                if spare is None or spare is avoid:
                    spare, spare_pos = entry, pos
            elif entry is avoid:
                avoid_pos = pos
            elif restored is None:
                self.evs.feed(entry, EvInput.ROTATION, now)
                restored, restored_pos = entry, pos
        if restored is not None:
            spare, spare_pos = restored, restored_pos
        elif spare is None and count and avoid is not None:  # skipped, and alone
            self.evs.feed(avoid, EvInput.ROTATION, now)
            spare, spare_pos = avoid, avoid_pos
        if spare is not None:
            plane.pos = spare_pos
            plane.sent += 1
        return spare

    def again(self, port: int, now: int, avoid: EvEntry, lost_at: int) -> EvEntry | None:
        """Preferably an EV that delivered a packet sent after the lost one, because what lost that
        one may have hit others that are not known bad yet. None when only another plane has one."""
        planes = self.evs.planes
        plane = planes[port]
        active = plane.active
        count = len(active)
        pos = plane.again % count if count else 0
        for _ in range(count):
            entry = active[pos]
            pos += 1
            if pos >= count:
                pos = 0
            if _proven(entry, lost_at) and entry is not avoid:
                plane.again = pos
                return entry
        for other in planes.values():
            if other is plane or other.masked:
                continue
            if any(_proven(e, lost_at) and e is not avoid for e in other.active):
                return None
        sent = plane.sent
        found = self.pick(port, now, avoid)
        plane.sent = sent
        return found


class Oblivious(PathSelector):
    """Any active EV. Only the controller's DENY and ALLOW count."""

    __slots__ = ()

    def pick(self, port: int, now: int, avoid: EvEntry | None = None) -> EvEntry | None:
        plane = self.evs.planes[port]
        entry = self._any(plane.active, avoid)
        if entry is not None:
            plane.sent += 1
        return entry

    def again(self, port: int, now: int, avoid: EvEntry, lost_at: int) -> EvEntry | None:
        return self._any(self.evs.planes[port].active, avoid)

    def obeys(self, what: EvInput) -> bool:
        return what in (EvInput.DENY, EvInput.ALLOW)

    def _any(self, active: list[EvEntry], avoid: EvEntry | None) -> EvEntry | None:
        if not active:
            return None
        at = int(self.evs.rng.random() * len(active))
        entry = active[at]
        if entry is avoid:
            entry = active[(at + 1) % len(active)]
        return entry


def _proven(entry: EvEntry, since: int) -> bool:
    """Delivered something sent after a time, and nothing speaks against it since."""
    return entry.proven > since and entry.state is _GOOD and not entry.suspect


SELECTORS: dict[str, type[PathSelector]] = {"rotation": Rotation, "oblivious": Oblivious}
