"""The profiles of an endpoint (section 6): what an MRC controller creates and changes at run time.

EV profiles and CC profiles have names; QPs are made on them (`EvConfig.profile`,
`QpConfig.cc_profile`). Operations on the EVs of a profile reach every QP that uses it, and QPs made
later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from hosts.core import constants as c
from hosts.core.cc.registry import check_cc
from hosts.core.config import CcConfig, QpConfig
from hosts.core.errors import ConfigError, EndpointError
from hosts.core.ev.evset import EvEntry, EvSet
from hosts.core.ev.format import EvKind
from hosts.core.ev.profile import (
    Chosen,
    EvProfile,
    ProfileInput,
    ProfileSpec,
    QpEvs,
    check_carried,
    choose_evs,
)
from hosts.core.ev.selector import SELECTORS
from hosts.core.ev.state import EvInput
from hosts.core.events import EvState

if TYPE_CHECKING:
    from random import Random

    from hosts.core.config import EndpointConfig
    from hosts.core.qp import Qp
    from hosts.wire.encap import SrPath

STATE_INPUTS: Mapping[EvState, EvInput] = {
    EvState.DENIED: EvInput.DENY,
    EvState.ASSUMED_BAD: EvInput.PATH_FAILURE,
    EvState.GOOD: EvInput.ALLOW,
}
"""State asked for -> input that leads there. GOOD: also PROBE_OK, for an ASSUMED_BAD one."""


class Profiles:
    """EV and CC profiles by name."""

    def __init__(self, config: EndpointConfig, qps: Mapping[int, Qp], rng: Random) -> None:
        self._config = config
        self._ports = [p.port for p in config.ports]
        self._qps = qps
        self._rng = rng
        self.ev: dict[str, EvProfile] = {}
        self.cc: dict[str, CcConfig] = {}

    # --- EV profiles -----------------------------------------------------------------------------

    def create_ev(self, spec: ProfileSpec) -> EvProfile:
        """In INIT. Raises ConfigError."""
        if spec.name in self.ev:
            raise ConfigError(f"EV profile {spec.name}: exists already")
        profile = self.ev[spec.name] = EvProfile(spec, packing=self._config.ev_packing)
        return profile

    def modify_ev(self, spec: ProfileSpec) -> EvProfile:
        """Other figures for the profile of that name. Raises ConfigError."""
        profile = self.ev_named(spec.name)
        profile.modify(spec, self._ports)
        return profile

    def check_carried(self, *evs: int) -> None:
        """Whether our packets can carry these EVs. Raises ConfigError."""
        check_carried(evs, self._config.ev_packing, len(self._config.ports[0].ip) == 4)

    def destroy_ev(self, name: str) -> None:
        profile = self.ev_named(name)
        if profile.users:
            raise ConfigError(f"EV profile {name}: QP {min(profile.users)} uses it")
        del self.ev[name]

    def ev_named(self, name: str) -> EvProfile:
        if name not in self.ev:
            known = ", ".join(self.ev) or "none"
            raise ConfigError(f"EV profile {name!r}: unknown; known: {known}")
        return self.ev[name]

    def move_ev(self, name: str, what: ProfileInput) -> EvProfile:
        """A step of its life cycle."""
        profile = self.ev_named(name)
        profile.move(what, self._ports)
        return profile

    def replace_ev(
        self, name: str, old: int, new: int, now: int, path: SrPath | None = None
    ) -> list[int]:
        """Another EV in the place of one, in the profile and on its QPs; the QPs that had it.
        `path`: outer addresses of the new one, with SRv6 formats."""
        profile = self.ev_named(name)
        self.check_carried(new)
        users = [self._qps[qpn] for qpn in sorted(profile.users)]
        if any(new in qp.evs.by_ev for qp in users):
            raise ConfigError(f"EV profile {name}: EV {new:#010x} is on a QP already")
        if profile.entries:  # AUTO profiles have none: their EVs are the QPs'
            profile.replace(old, new, path)
        had = []
        for qp in users:
            entry = qp.evs.by_ev.get(old)
            if entry is not None:
                qp.repath(old, new, path)
                qp.evs.replace(entry, new, now)
                had.append(qp.qpn)
        if not had and not profile.entries:
            raise ConfigError(f"EV profile {name}: no EV {old:#010x}")
        return had

    def set_ev_state(self, name: str, ev: int, state: EvState, now: int) -> list[int]:
        """Change an EV on every QP of a profile; the QPs whose EV changed."""
        profile = self.ev_named(name)
        users = [self._qps[qpn] for qpn in sorted(profile.users)]
        on_qps = [qp for qp in users if ev in qp.evs.by_ev]
        if not on_qps and not any(ev in row for row in profile.entries.values()):
            raise ConfigError(f"EV profile {name}: no EV {ev:#010x}")
        if state is EvState.DENIED:
            profile.denied.add(ev)
        else:
            profile.denied.discard(ev)
        return [qp.qpn for qp in on_qps if set_state(qp.evs, qp.evs.by_ev[ev], state, now)]

    def describe_ev(self, name: str) -> dict[str, Any]:
        """All of a profile, for whoever asks."""
        profile = self.ev_named(name)
        spec = profile.spec
        return {
            "name": name,
            "state": profile.state.value,
            "mode": spec.mode.value,
            "kind": spec.format.kind.value,
            "format": spec.format.name,
            "widths": list(spec.format.widths),
            "ev_count": spec.ev_count,
            "backup": spec.backup,
            "alignment": spec.alignment,
            "ev_min_active": spec.ev_min_active,
            "events": sorted(s.name for s in spec.events),
            "fields": [asdict(f) for f in spec.fields],
            "plane_field": spec.plane_field,
            "entries": {str(port): list(row) for port, row in profile.entries.items()},
            "denied": sorted(profile.denied),
            "qps": sorted(profile.users),
        }

    # --- CC profiles -----------------------------------------------------------------------------

    def set_cc(self, name: str, config: CcConfig) -> list[Qp]:
        """Create or change a CC profile; the connected QPs it is on. Raises ConfigError."""
        check_cc(config)
        self.cc[name] = config
        return [q for q in self._qps.values() if q.config.cc_profile == name and q.parts]

    def cc_of(self, config: QpConfig) -> CcConfig:
        """What a QP is to use."""
        if config.cc_profile is None:
            return config.cc
        if config.cc_profile not in self.cc:
            known = ", ".join(self.cc) or "none"
            raise ConfigError(f"CC profile {config.cc_profile!r}: unknown; known: {known}")
        return self.cc[config.cc_profile]

    # --- QPs -------------------------------------------------------------------------------------

    def evs_for(self, config: QpConfig) -> QpEvs:
        """The values of a new QP. Raises ConfigError."""
        ev, packing = config.ev, self._config.ev_packing
        ipv4 = len(self._config.ports[0].ip) == 4
        if ev.selector not in SELECTORS:
            raise ConfigError(f"ev.selector {ev.selector!r}: known: {', '.join(SELECTORS)}")
        if ev.profile is None:
            if ipv4 and ev.kind is not EvKind.ECMP:
                raise ConfigError(f"ev.kind {ev.kind.value}: IPv4 carries the source port only")
            chosen = choose_evs(ev, self._ports, self._rng, packing, ipv4)
            self.check_carried(*_values(chosen))
            floor = ev.min_active
            if floor is None:
                floor = int(ev.active * c.EV_MIN_ACTIVE_SHARE)
            return QpEvs(chosen, floor, ev.kind, None, {}, frozenset())
        profile = self.ev_named(ev.profile)
        spec = profile.spec
        if ipv4 and spec.format.kind is not EvKind.ECMP:
            raise ConfigError(f"EV profile {spec.name}: IPv4 carries the source port only")
        chosen = profile.choose(self._ports, self._rng, packing, ipv4)
        _check_unique(chosen, spec)
        self.check_carried(*_values(chosen))
        floor = spec.ev_min_active
        if floor is None:
            floor = int(spec.ev_count * c.EV_MIN_ACTIVE_SHARE)
        paths = {v: profile.paths[v] for v in _values(chosen) if v in profile.paths}
        return QpEvs(chosen, floor, spec.format.kind, spec.events, paths, frozenset(profile.denied))


def set_state(evs: EvSet, entry: EvEntry, state: EvState, now: int) -> bool:
    """Bring an EV to a state by the inputs of the table; whether it changed. The floor may keep
    one from ASSUMED_BAD; SKIP is internal. Raises EndpointError."""
    if state not in STATE_INPUTS:
        raise EndpointError(f"EV state {state.name}: internal; ask for GOOD, ASSUMED_BAD or DENIED")
    if state is EvState.GOOD and entry.state is EvState.ASSUMED_BAD:
        return evs.feed(entry, EvInput.PROBE_OK, now)
    return evs.feed(entry, STATE_INPUTS[state], now)


def _values(chosen: Chosen) -> Sequence[int]:
    return [v for active, backup in chosen.values() for v in (*active, *backup)]


def _check_unique(chosen: Chosen, spec: ProfileSpec) -> None:
    values = _values(chosen)
    if len(set(values)) != len(values):
        raise ConfigError(f"EV profile {spec.name}: an EV may occur only once on a QP")
