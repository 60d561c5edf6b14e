"""The reverse EV set (section 6): on which EVs a QP's control packets travel.

One EV per plane. The plane is drawn for each packet: SACKs sweep the window in turns (section
4.5), and taking planes in turns too would put the same part of the window on the same plane every
time, where a dead path would hide it.

It leaves an EV that becomes ASSUMED_BAD or DENIED. The EV comes from data EVs that the peer SACKed
when we send data, and otherwise from probes: every RTT with inbound and no outbound data a random
EV of each plane is probed, and the one that answers replaces the plane's EV. A dead one so lasts a
few RTTs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hosts.core import constants as c
from hosts.core.events import EvState
from hosts.core.timers import Timer

if TYPE_CHECKING:
    from random import Random

    from hosts.core.ev.evset import EvEntry, EvSet

Probe = Callable[[int, int, Callable[[], None], int], None]
"""(port, ev, what to do on success, now): send an EV probe."""


class ReverseEvs:
    """See the module. `next` is the hot path."""

    __slots__ = ("_current", "_due", "_evs", "_inbound", "_ports", "_probe", "_rng", "_timers")

    def __init__(self, evs: EvSet, rng: Random, probe: Probe, timers: Timer) -> None:
        self._evs = evs
        self._rng = rng
        self._probe = probe
        self._timers = timers
        self._current = {port: rng.choice(p.active).ev for port, p in evs.planes.items()}
        evs.on_demoted.append(self._leave)
        self._ports: list[int] = []
        self._due: int | None = None
        self._inbound = False
        self.refresh_ports()

    def refresh_ports(self) -> None:
        """A port was masked or unmasked."""
        planes = self._evs.planes
        self._ports = [p for p in planes if not planes[p].masked] or list(planes)

    def next(self) -> tuple[int, int]:
        """(port, EV) of the next control packet."""
        ports = self._ports
        port = ports[int(self._rng.random() * len(ports))]
        return port, self._current[port]

    def of_port(self, port: int) -> int:
        """The EV of control packets that must leave on this port."""
        return self._current[port]

    def confirm(self, port: int, ev: int) -> None:
        """This EV reached the peer just now."""
        self._current[port] = ev

    def _leave(self, entry: EvEntry, now: int) -> None:
        """An EV became ASSUMED_BAD or DENIED: what fails or must not be used carries no control
        packets either."""
        port = entry.port
        active = self._evs.planes[port].active
        if self._current[port] == entry.ev and active:
            self._current[port] = self._rng.choice(active).ev

    def on_inbound(self, now: int) -> None:
        """Data arrived."""
        self._inbound = True
        if self._due is None:
            self._due = now
            self._timers.at(now)

    def next_deadline(self) -> int | None:
        return self._due

    def on_deadline(self, now: int, rtt_ns: int, last_sent: int) -> None:
        """Probe when there was inbound data and no outbound data during the last RTT."""
        if self._due is None or now < self._due:
            return
        if not self._inbound:
            self._due = None
            return
        self._inbound = False
        wait = c.REVERSE_PROBE_RTTS * rtt_ns
        self._due = now + wait
        if 0 <= now - last_sent < wait and last_sent >= 0:
            return
        for port in self._ports:
            self._probe_plane(port, now)

    def _probe_plane(self, port: int, now: int) -> None:
        plane = self._evs.planes[port]
        choices = [e for e in (*plane.active, *plane.backup) if e.state != EvState.DENIED]
        if not choices:
            return
        entry = self._rng.choice(choices)

        def success() -> None:
            if entry.state is not EvState.DENIED and entry.role != "gone":
                self.confirm(port, entry.ev)

        self._probe(port, entry.ev, success, now)
