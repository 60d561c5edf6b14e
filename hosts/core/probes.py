"""Reliability probes of a QP (sections 3.4, 4.7): recovery, trial, refresh.

recovery  an ASSUMED_BAD EV is probed one RTO after it was given up, then with doubling spacing up
          to a cap; some consecutive answers bring it back (#12)
trial     a backup EV is probed before it becomes active, so that a fault which hit several EVs
          does not cost a packet for every replacement as well; without an answer for some probes
          it is ASSUMED_BAD (failed EV probe)
refresh   with an expired timer, or when nothing was heard for a while: the answer brings cack and
          bitmap up to date
"""

from __future__ import annotations

import heapq
from enum import Enum
from typing import TYPE_CHECKING

from hosts.core import constants as c
from hosts.core.ev.state import EvInput
from hosts.core.events import EvState
from hosts.wire.constants import PDCID_MASK, Ecn, PathFeedback
from hosts.wire.headers import Peth

if TYPE_CHECKING:
    from hosts.core.ev.evset import EvEntry, EvSet
    from hosts.core.link import Link
    from hosts.core.qpcc import Destination


class Purpose(Enum):
    RECOVERY = "recovery"
    TRIAL = "trial"
    REFRESH = "refresh"


def _newest(entry: EvEntry) -> tuple[bool, int]:
    return not entry.suspect, entry.proven


class Prober:
    """Sends, matches and times out reliability probes; feeds the EV set with what they say."""

    __slots__ = (
        "_actions",
        "_cap",
        "_destination",
        "_first",
        "_id",
        "_link",
        "_on_trial",
        "_order",
        "_pending",
        "answered",
        "evs",
        "sent",
    )  # fmt: skip

    def __init__(self, link: Link, evs: EvSet, destination: Destination) -> None:
        ev, scale = link.qp.ev, link.config.time_scale
        self._link = link
        self._destination = destination
        self.evs = evs
        evs.on_demoted.append(self._on_demoted)
        rto = link.qp.rto.base_ns(scale)
        self._first = rto if ev.recovery_first_ns is None else ev.recovery_first_ns
        self._cap = max(ev.recovery_cap_ns * scale, self._first)
        self._id = link.rng.getrandbits(16)
        self._order = 0
        # (when, order, probe id or -1, entry): time-out of a probe, or a probe to send
        self._actions: list[tuple[int, int, int, EvEntry]] = []
        self._pending: dict[int, tuple[EvEntry, Purpose, int]] = {}  # id -> (.., sent at)
        self._on_trial: dict[int, bool] = {}  # EV -> whether a vacancy is kept for it
        self.sent = 0
        self.answered = 0

    # --- what happens --------------------------------------------------------------------------

    def _on_demoted(self, entry: EvEntry, now: int) -> None:
        if self._on_trial.pop(entry.ev, False):
            self.evs.planes[entry.port].trials -= 1
        if entry.state == EvState.ASSUMED_BAD:
            self._schedule(now + self._first, -1, entry)
        self.fill(entry.port, now)

    def fill(self, port: int, now: int) -> None:
        """Find replacements for what left the active set of a plane (section 3.3)."""
        evs, plane = self.evs, self.evs.planes[port]
        for _ in range(len(plane.backup)):
            if plane.vacancies() <= 0:
                return
            entry = evs.next_backup(port)
            if entry is None:
                return
            if entry.ev in self._on_trial:
                continue
            if self._link.qp.ev.trial_probes == 0:
                evs.promote(entry)
                continue
            entry.fails = 0
            self._on_trial[entry.ev] = True
            plane.trials += 1
            self._send(entry, Purpose.TRIAL, now)

    def refresh(self, now: int) -> None:
        """One probe for the SACK that answers it, on the EV that delivered something last."""
        usable = [e for p in self.evs.planes.values() if not p.masked for e in p.active]
        if usable:
            self._send(max(usable, key=_newest), Purpose.REFRESH, now)

    def unmasked(self, port: int, now: int) -> None:
        """The plane is back: what was given up there is tried at once."""
        for entry in self.evs.planes[port].out:
            if entry.state == EvState.ASSUMED_BAD:
                entry.fails = 0
                self._schedule(now, -1, entry)

    def on_ev_probe(self, entry: EvEntry, answered: bool, now: int) -> None:
        """An EV probe that someone asked for is over: it counts like one of ours (section 3.4)."""
        if not answered:
            entry.successes = 0
            self.evs.feed(entry, EvInput.PROBE_FAILED, now)
        elif entry.state == EvState.ASSUMED_BAD:
            entry.successes += 1
            if entry.successes >= self._link.qp.ev.recovery_successes:
                self.evs.feed(entry, EvInput.PROBE_OK, now)

    def on_answer(self, probe_id: int, m: int, now: int) -> int | None:
        """A SACK with pr=1 came; its RTT, or None when it answers no probe in wait."""
        pending = self._pending.pop(probe_id, None)
        if pending is None:
            return None
        entry, purpose, sent_at = pending
        self.answered += 1
        marked = m == PathFeedback.SKIP_ONCE
        if m == PathFeedback.ALWAYS_SKIP:
            if not self.evs.feed(entry, EvInput.SACK_ALWAYS_SKIP, now):
                self._failed(entry, purpose, now)
        elif purpose is Purpose.RECOVERY:
            self._recovered(entry, marked, now)
        elif purpose is Purpose.TRIAL:
            self._end_trial(entry)
            self.evs.promote(entry)
            if marked:
                self.evs.feed(entry, EvInput.SACK_SKIP_ONCE, now)
        elif marked:
            self.evs.feed(entry, EvInput.SACK_SKIP_ONCE, now)
        return max(1, now - sent_at)

    # --- time ----------------------------------------------------------------------------------

    def next_deadline(self) -> int | None:
        actions = self._actions
        while actions and actions[0][2] >= 0 and actions[0][2] not in self._pending:
            heapq.heappop(actions)  # answered meanwhile
        return actions[0][0] if actions else None

    def on_deadline(self, now: int) -> None:
        actions = self._actions
        while actions and actions[0][0] <= now:
            _, _, probe_id, entry = heapq.heappop(actions)
            if probe_id < 0:
                if entry.state == EvState.ASSUMED_BAD and entry.role != "gone":
                    self._send(entry, Purpose.RECOVERY, now)
                continue
            pending = self._pending.pop(probe_id, None)
            if pending is not None:
                self._failed(pending[0], pending[1], now)

    # --- inside --------------------------------------------------------------------------------

    @property
    def timeout_ns(self) -> int:
        """Longer than a loaded round trip."""
        cc = self._destination.cc
        return c.EV_PROBE_TIMEOUT_RTTS * max(cc.base_rtt_ns, int(cc.rtt_mean_ns))

    def _schedule(self, when: int, probe_id: int, entry: EvEntry) -> None:
        self._order += 1
        heapq.heappush(self._actions, (when, self._order, probe_id, entry))
        self._link.timers.at(when)

    def _send(self, entry: EvEntry, purpose: Purpose, now: int) -> None:
        link = self._link
        self._id = (self._id + 1) & 0xFFFF
        probe_id = self._id
        flow = link.flows.get(entry.port)
        self._pending[probe_id] = (entry, purpose, now)
        self._schedule(now + self.timeout_ns, probe_id, entry)
        if flow is None or self.evs.planes[entry.port].masked:
            return  # fails by its time-out
        self.sent += 1
        dscp = link.config.dscp
        peth = Peth(
            probe_id,
            link.timestamp(now),
            spdcid=link.qpn & PDCID_MASK,
            dpdcid=link.peer.qpn & PDCID_MASK,
        )
        link.nic.control(
            entry.port,
            flow.probe(
                dscp.trimmable if link.peer.trim_nack else dscp.no_trim,
                Ecn.ECT0,
                entry.ev,
                link.peer.qpn,
                peth,
                probe_id if link.config.interop.probe_id_in_psn else 0,
            ),
        )

    def _recovered(self, entry: EvEntry, marked: bool, now: int) -> None:
        if entry.state != EvState.ASSUMED_BAD:
            return
        entry.successes += 1
        entry.fails = 0
        if entry.successes < self._link.qp.ev.recovery_successes:
            self._schedule(now + self._first, -1, entry)
        else:
            self.evs.feed(entry, EvInput.PROBE_OK_MARKED if marked else EvInput.PROBE_OK, now)

    def _failed(self, entry: EvEntry, purpose: Purpose, now: int) -> None:
        if self.evs.planes[entry.port].masked:
            if purpose is Purpose.TRIAL:
                self._end_trial(entry)
            return  # nothing could answer; `unmasked` tries again
        entry.fails += 1
        if entry.role == "gone":
            self._end_trial(entry)
        elif purpose is Purpose.RECOVERY:
            entry.successes = 0
            wait = min(self._first << min(entry.fails, 32), self._cap)
            self._schedule(max(now, now + wait - self.timeout_ns), -1, entry)
        elif purpose is Purpose.TRIAL and entry.ev in self._on_trial:
            if self._on_trial[entry.ev]:  # someone else may have the place meanwhile
                self._on_trial[entry.ev] = False
                self.evs.planes[entry.port].trials -= 1
            if entry.fails >= self._link.qp.ev.trial_probes:
                self._end_trial(entry)
                self.evs.feed(entry, EvInput.PROBE_FAILED, now)
            else:
                self._send(entry, Purpose.TRIAL, now)
            self.fill(entry.port, now)

    def _end_trial(self, entry: EvEntry) -> None:
        if self._on_trial.pop(entry.ev, False):
            self.evs.planes[entry.port].trials -= 1
        entry.fails = 0
