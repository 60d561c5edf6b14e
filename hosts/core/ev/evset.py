"""The entropy values of one QP: active and backup sets per plane, rotation, states (section 3).

The invariants: an active list holds GOOD and SKIP entries only; an entry is in exactly one of
active, backup and out; planes are never mixed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from hosts.core.ev.selector import SELECTORS
from hosts.core.ev.state import EvInput, EvTable
from hosts.core.events import EvState, EvStateChange

if TYPE_CHECKING:
    from random import Random

_GOOD: Final = EvState.GOOD
_SKIP: Final = EvState.SKIP
_BAD: Final = EvState.ASSUMED_BAD
_DENIED: Final = EvState.DENIED
PLANE_LEAD_PACKETS: Final = 8
"""How many packets one plane may be ahead of the slowest usable one: equal load (section 3.3)."""
NO_SEQ: Final = -(1 << 62)


class EvEntry:
    """One EV of a QP.

    suspect   a packet sent on it has been missing for longer than round trips take; it is passed
              over while others are GOOD, without any change of state
    last_seq  sequence number of the newest first copy sent on it
    proven    when the newest packet known to have arrived on it was sent
    role      "active", "backup", "out" (ASSUMED_BAD, DENIED) or "gone" (replaced)
    """

    __slots__ = (
        "drops",
        "ev",
        "fails",
        "last_seq",
        "plane",
        "port",
        "proven",
        "role",
        "state",
        "successes",
        "suspect",
    )

    def __init__(self, ev: int, port: int, role: str) -> None:
        self.ev = ev
        self.port = port
        self.plane = port - 1
        self.role = role
        self.state = _GOOD
        self.suspect = False
        self.last_seq = NO_SEQ
        self.proven = -1
        self.drops = 0
        self.successes = 0
        self.fails = 0


class PlaneSet:
    """The EVs of one plane. `sent` counts data packets, levelled when the plane comes back."""

    __slots__ = ("active", "again", "backup", "masked", "out", "port", "pos", "sent", "target",
                 "trials")  # fmt: skip

    def __init__(self, port: int, active: list[EvEntry], backup: list[EvEntry]) -> None:
        self.port = port
        self.active = active
        self.backup: deque[EvEntry] = deque(backup)
        self.out: list[EvEntry] = []
        self.target = len(active)
        self.pos = 0
        self.again = 0  # where the next retransmission starts to look
        self.sent = 0
        self.masked = False  # port down here or at the peer
        self.trials = 0  # backups being probed to become active

    @property
    def usable(self) -> bool:
        return not self.masked and bool(self.active)

    def vacancies(self) -> int:
        """Active places that nobody is on trial for."""
        return self.target - len(self.active) - self.trials

    def take_active(self, entry: EvEntry) -> None:
        """Remove from the rotation without anyone losing its turn."""
        at = self.active.index(entry)
        del self.active[at]
        if at < self.pos:
            self.pos -= 1
        if self.pos >= len(self.active):
            self.pos = 0


Report = Callable[[EvStateChange], None]
Listener = Callable[[EvEntry, int], None]


class EvSet:
    """See the module.

    on_demoted: called with (entry, now) when an entry became ASSUMED_BAD or DENIED, or was
    replaced by `replace`: recovery probes and replacement (`probes`) and other EVs for control
    packets (`reverse_ev`) are not this module's job.
    pick, pick_again: the path selector's `pick` and `again`.
    """

    __slots__ = (
        "_report",
        "_reported",
        "_selector",
        "_table",
        "by_ev",
        "min_active",
        "min_sent",
        "on_demoted",
        "pick",
        "pick_again",
        "planes",
        "qpn",
        "rng",
    )

    def __init__(
        self,
        chosen: Mapping[int, tuple[Sequence[int], Sequence[int]]],
        rng: Random,
        *,
        qpn: int,
        min_active: int,
        table: EvTable | None = None,
        report: Report | None = None,
        report_skip: bool = False,
        events: frozenset[EvState] | None = None,
        selector: str = "rotation",
    ) -> None:
        """events: states whose entering is reported; None: all but GOOD <-> SKIP, which
        `report_skip` adds."""
        self.qpn = qpn
        self.min_active = min_active
        self.planes: dict[int, PlaneSet] = {}
        self.by_ev: dict[int, EvEntry] = {}
        self.on_demoted: list[Listener] = []
        self._table = table if table is not None else EvTable()
        self._report = report
        if events is None:
            events = frozenset((_GOOD, _BAD, _DENIED))
        self._reported = events | {_SKIP} if report_skip else events
        self.rng = rng
        self.min_sent = 0
        self._selector = SELECTORS[selector](self)
        self.pick = self._selector.pick
        self.pick_again = self._selector.again
        for port, (active_values, backup_values) in chosen.items():
            active = [EvEntry(ev, port, "active") for ev in active_values]
            backup = [EvEntry(ev, port, "backup") for ev in backup_values]
            rng.shuffle(active)  # QPs that share a profile do not march together
            self.planes[port] = PlaneSet(port, active, backup)
            for entry in (*active, *backup):
                self.by_ev[entry.ev] = entry

    # --- selection -----------------------------------------------------------------------------

    def may_send(self, port: int) -> bool:
        """Whether this plane is usable and not ahead of the others."""
        plane = self.planes[port]
        if plane.masked or not plane.active:
            return False
        if plane.sent - self.min_sent < PLANE_LEAD_PACKETS:
            return True
        self.min_sent = min(p.sent for p in self.planes.values() if p.active and not p.masked)
        return plane.sent - self.min_sent < PLANE_LEAD_PACKETS

    def has_other_plane(self, port: int) -> bool:
        """Whether another plane than this port's is usable."""
        return any(p.usable for p in self.planes.values() if p.port != port)

    # --- states --------------------------------------------------------------------------------

    def feed(self, entry: EvEntry, what: EvInput, now: int) -> bool:
        """Run the table; whether the state changed. The floor ev_min_active holds here."""
        if what is EvInput.LOSS or what is EvInput.RTO:
            entry.drops += 1
        if entry.role == "gone" or not self._selector.obeys(what):
            return False
        new = self._table.next(entry.state, what)
        if new is entry.state:
            return False
        if new is _BAD and entry.role == "active" and self.active_count() <= self.min_active:
            return False
        self._move(entry, what, now)
        return True

    def replace(self, old: EvEntry, ev: int, now: int) -> EvEntry:
        """Another EV in the place of one, GOOD from the start. The caller checked that it is
        new."""
        plane = self.planes[old.port]
        if old.state in (_BAD, _DENIED):
            plane.out.remove(old)
            entry = EvEntry(ev, old.port, "out")
            plane.out.append(entry)
            self._return(entry)
        else:
            entry = EvEntry(ev, old.port, old.role)
            row = plane.active if old.role == "active" else plane.backup
            row[row.index(old)] = entry
        old.role = "gone"
        del self.by_ev[old.ev]
        self.by_ev[ev] = entry
        for listener in self.on_demoted:
            listener(old, now)
        return entry

    def active_count(self) -> int:
        return sum(len(p.active) for p in self.planes.values())

    def promote(self, entry: EvEntry) -> bool:
        """A backup EV becomes active; False when its place was taken meanwhile."""
        plane = self.planes[entry.port]
        if entry.role != "backup" or len(plane.active) >= plane.target:
            return False
        plane.backup.remove(entry)
        self._activate(plane, entry)
        return True

    def next_backup(self, port: int) -> EvEntry | None:
        """The first GOOD backup, moved to the end of the line."""
        backup = self.planes[port].backup
        for _ in range(len(backup)):
            entry = backup[0]
            backup.rotate(-1)
            if entry.state == _GOOD:
                return entry
        return None

    def set_masked(self, port: int, masked: bool) -> None:
        """Port down, here or at the peer: nothing is sent on it; states stay."""
        plane = self.planes.get(port)
        if plane is None or plane.masked == masked:
            return
        was = plane.usable
        plane.masked = masked
        if plane.usable and not was:
            self._level(plane)

    def counts(self) -> dict[str, int]:
        found = dict.fromkeys(EvState.__members__, 0)
        for entry in self.by_ev.values():
            found[entry.state.name] += 1
        return found

    # --- inside --------------------------------------------------------------------------------

    def _move(self, entry: EvEntry, what: EvInput, now: int) -> None:
        old, new = entry.state, self._table.next(entry.state, what)
        entry.state = new
        reported = self._reported
        # GOOD <-> SKIP is a matter of congestion, reported only on demand.
        shown = new in reported and (old is not _SKIP or new is not _GOOD or _SKIP in reported)
        if self._report is not None and (shown or (old is _BAD and _GOOD in reported)):
            self._report(
                EvStateChange(
                    now, self.qpn, entry.plane, entry.ev, old, new, what.value, entry.drops
                )
            )
        if new in (_BAD, _DENIED):
            self._retire(entry)
            for listener in self.on_demoted:
                listener(entry, now)
        elif old in (_BAD, _DENIED):
            self._return(entry)

    def _retire(self, entry: EvEntry) -> None:
        plane = self.planes[entry.port]
        entry.suspect = False
        entry.successes = entry.fails = 0
        if entry.role == "active":
            plane.take_active(entry)
        elif entry.role == "backup":
            plane.backup.remove(entry)
        if entry.role != "out":
            entry.role = "out"
            plane.out.append(entry)

    def _return(self, entry: EvEntry) -> None:
        """Out of ASSUMED_BAD or DENIED: to the active set if it has room, else to the backups."""
        plane = self.planes[entry.port]
        plane.out.remove(entry)
        if len(plane.active) < plane.target:
            self._activate(plane, entry)
        else:
            entry.role = "backup"
            plane.backup.append(entry)

    def _activate(self, plane: PlaneSet, entry: EvEntry) -> None:
        was = plane.usable
        entry.role = "active"
        entry.suspect = False
        at = self.rng.randrange(len(plane.active) + 1)
        plane.active.insert(at, entry)
        if at < plane.pos:
            plane.pos += 1
        if plane.usable and not was:
            self._level(plane)

    def _level(self, plane: PlaneSet) -> None:
        """A plane that comes back starts even with the others instead of catching up."""
        others = [p.sent for p in self.planes.values() if p is not plane and p.usable]
        if others:
            plane.sent = max(others)
