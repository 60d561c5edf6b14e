"""EV profiles (section 3.2): formats, modes, life cycle, and which values a QP gets.

INIT -> OFFLINE -> ONLINE -> OFFLINE -> INIT; a profile is edited while it is not ONLINE, except for
EV states and replacements. QPs are made on ONLINE profiles. A QP without a profile has one of its
own, made from its `EvConfig`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from hosts.core.config import EvConfig
from hosts.core.errors import ConfigError
from hosts.core.ev.format import EvFormat, EvKind
from hosts.core.ev.generate import GeneratedField, expand
from hosts.core.events import EvState
from hosts.wire.constants import EvPacking
from hosts.wire.encap import ADDRESS_BYTES, SrPath
from hosts.wire.entropy import join_ev

if TYPE_CHECKING:
    from random import Random

SPORT_LOWEST: Final = 0xC000  # drawn source ports stay in the dynamic range
Chosen = Mapping[int, tuple[Sequence[int], Sequence[int]]]
"""(active, backup) values by port."""


class EvMode(Enum):
    """Who writes the entries."""

    AUTO = "auto"  # the NIC draws them, for every QP anew
    EXPLICIT = "explicit"  # the controller, every one
    GENERATED = "generated"  # derived from the fields


class ProfileState(Enum):
    INIT = "INIT"
    OFFLINE = "OFFLINE"
    ONLINE = "ONLINE"


class ProfileInput(Enum):
    LOAD = "load"  # entries may be written
    ENABLE = "enable"  # checked, QPs may use it
    DISABLE = "disable"
    UNLOAD = "unload"  # entries are forgotten


LIFE: Mapping[tuple[ProfileState, ProfileInput], ProfileState] = {
    (ProfileState.INIT, ProfileInput.LOAD): ProfileState.OFFLINE,
    (ProfileState.OFFLINE, ProfileInput.ENABLE): ProfileState.ONLINE,
    (ProfileState.ONLINE, ProfileInput.DISABLE): ProfileState.OFFLINE,
    (ProfileState.OFFLINE, ProfileInput.UNLOAD): ProfileState.INIT,
}


@dataclass(frozen=True, slots=True)
class ProfileSpec:
    """What a profile is made of.

    ev_count, backup   active and backup EVs of a QP, over all planes
    alignment          ev_count must be a multiple
    ev_min_active      floor over all planes; None: a quarter of ev_count
    events             transitions to report
    fields             GENERATED: one per format field
    plane_field        GENERATED: index of the field that holds the plane (port - 1); None: values
                       are dealt to the ports in turns
    """

    name: str
    format: EvFormat
    mode: EvMode = EvMode.AUTO
    ev_count: int = 128
    backup: int = 64
    alignment: int = 1
    ev_min_active: int | None = None
    events: frozenset[EvState] = frozenset((EvState.GOOD, EvState.ASSUMED_BAD))
    fields: tuple[GeneratedField, ...] = ()
    plane_field: int | None = None

    def __post_init__(self) -> None:
        where = f"EV profile {self.name}"
        if self.ev_count < 1 or self.backup < 0:
            raise ConfigError(f"{where}: ev_count {self.ev_count}, backup {self.backup}")
        if self.alignment < 1 or self.ev_count % self.alignment:
            raise ConfigError(
                f"{where}: ev_count {self.ev_count} must be a multiple of {self.alignment}"
            )
        if self.ev_min_active is not None and not 0 <= self.ev_min_active <= self.ev_count:
            raise ConfigError(f"{where}: ev_min_active {self.ev_min_active}: 0..{self.ev_count}")
        if self.mode is EvMode.GENERATED:
            widths = tuple(f.width for f in self.fields)
            if widths != self.format.widths:
                raise ConfigError(
                    f"{where}: fields have widths {list(widths)}, "
                    f"the format has {list(self.format.widths)}"
                )
            if self.plane_field is not None and not 0 <= self.plane_field < len(widths):
                raise ConfigError(f"{where}: plane_field {self.plane_field}: no such field")
        elif self.fields:
            raise ConfigError(f"{where}: fields belong to mode generated")


@dataclass(slots=True)
class EvProfile:
    """A profile and its entries, by port: EVs as they are on the wire. `paths`: outer addresses of
    SRv6 values. `denied`: EVs that QPs must not use, kept for QPs made later."""

    spec: ProfileSpec
    state: ProfileState = ProfileState.INIT
    entries: dict[int, list[int | None]] = field(default_factory=dict)
    paths: dict[int, SrPath] = field(default_factory=dict)
    denied: set[int] = field(default_factory=set)
    packing: EvPacking = EvPacking.LABEL_HIGH  # where an ECMP value's EV has its source port
    users: set[int] = field(default_factory=set)  # QPNs

    @property
    def name(self) -> str:
        return self.spec.name

    def move(self, what: ProfileInput, ports: Sequence[int]) -> None:
        """Walk the life cycle. Raises ConfigError, nothing changed."""
        new = LIFE.get((self.state, what))
        if new is None:
            raise ConfigError(f"EV profile {self.name}: cannot {what.value} in {self.state.value}")
        if what is ProfileInput.LOAD:
            self._load(ports)
        elif what is ProfileInput.ENABLE:
            self._check()
        elif what is ProfileInput.DISABLE and self.users:
            raise ConfigError(f"EV profile {self.name}: QP {min(self.users)} uses it")
        elif what is ProfileInput.UNLOAD:
            self.entries, self.paths = {}, {}
            self.denied.clear()
        self.state = new

    def modify(self, spec: ProfileSpec, ports: Sequence[int]) -> None:
        """Other figures, while not ONLINE. Entries stay unless they depend on what changed; then
        EXPLICIT ones are empty, GENERATED ones made anew. Raises ConfigError, nothing changed."""
        if self.state is ProfileState.ONLINE:
            raise ConfigError(f"EV profile {self.name}: is ONLINE; disable it to modify it")
        before, self.spec = self.spec, spec
        if self.state is ProfileState.INIT or _shape(before) == _shape(spec):
            return
        kept = self.entries, self.paths
        self.paths = {}
        try:
            self._load(ports)
        except ConfigError:
            self.spec = before
            self.entries, self.paths = kept
            raise

    def write(self, port: int, index: int, value: int, ev: int | None = None) -> None:
        """EXPLICIT: one entry, actives first, then backups. `value` is as wide as the format; an
        SRv6 value needs the 32-bit `ev` that stands for it on the wire (None: one is made up)."""
        if self.spec.mode is not EvMode.EXPLICIT or self.state is not ProfileState.OFFLINE:
            raise ConfigError(
                f"EV profile {self.name}: entries are written in mode explicit while OFFLINE"
            )
        row = self._row(port)
        if not 0 <= index < len(row):
            raise ConfigError(f"EV profile {self.name}: index {index}: 0..{len(row) - 1}")
        row[index] = self._value(port, index, value, ev)

    def replace(self, old: int, new: int, path: SrPath | None = None) -> int:
        """Put another EV in the place of `old`, also ONLINE; the port. Raises ConfigError."""
        check_path(self.spec.format.kind, path, f"EV profile {self.name}")
        if any(new in row for row in self.entries.values()):
            raise ConfigError(f"EV profile {self.name}: EV {new:#010x} is there already")
        for port, row in self.entries.items():
            if old in row:
                row[row.index(old)] = new
                self.paths.pop(old, None)
                if path is not None:
                    self.paths[new] = path
                self.denied.discard(old)
                return port
        raise ConfigError(f"EV profile {self.name}: no EV {old:#010x}")

    def choose(self, ports: Sequence[int], rng: Random, packing: EvPacking, ipv4: bool) -> Chosen:
        """The values of a new QP: equally many per plane, drawn from what there is."""
        spec = self.spec
        if self.state is not ProfileState.ONLINE:
            raise ConfigError(f"EV profile {self.name}: is {self.state.value}, not ONLINE")
        active = per_plane(spec.ev_count, len(ports), f"profile {self.name}: ev_count")
        backup = per_plane(spec.backup, len(ports), f"profile {self.name}: backup")
        if spec.mode is EvMode.AUTO:
            return draw_evs(active, backup, ports, rng, packing, ipv4)
        chosen: dict[int, tuple[list[int], list[int]]] = {}
        for port in ports:
            values = [ev for ev in self.entries.get(port, ()) if ev is not None]
            if spec.mode is EvMode.GENERATED:
                values = rng.sample(values, active + backup)
            chosen[port] = values[:active], values[active : active + backup]
        return chosen

    # --- inside --------------------------------------------------------------------------------

    def _row(self, port: int) -> list[int | None]:
        if port not in self.entries:
            raise ConfigError(f"EV profile {self.name}: no port {port}")
        return self.entries[port]

    def _value(self, port: int, index: int, value: int, ev: int | None) -> int:
        """What stands for a value on the wire."""
        fmt = self.spec.format
        if not 0 <= value < 1 << fmt.bits:
            raise ConfigError(f"EV profile {self.name}: {value:#x} needs more than {fmt.bits} bits")
        if fmt.kind is EvKind.ECMP:
            return join_ev(0, value, self.packing)
        if fmt.bits <= 32:
            return value
        wire = (port - 1) << 16 | SPORT_LOWEST | index if ev is None else ev
        if not 0 <= wire <= 0xFFFFFFFF:
            raise ConfigError(f"EV profile {self.name}: ev {wire:#x} is not a 32-bit value")
        octets = value.to_bytes(fmt.bits // 8, "big")
        self.paths[wire] = SrPath(
            octets[:ADDRESS_BYTES], (octets[ADDRESS_BYTES:],) if len(octets) > ADDRESS_BYTES else ()
        )
        return wire

    def _load(self, ports: Sequence[int]) -> None:
        spec = self.spec
        share = per_plane(spec.ev_count, len(ports), f"profile {self.name}: ev_count")
        share += per_plane(spec.backup, len(ports), f"profile {self.name}: backup")
        self.entries = {}
        if spec.mode is EvMode.EXPLICIT:
            self.entries = {port: [None] * share for port in ports}
        elif spec.mode is EvMode.GENERATED:
            rows: dict[int, list[int | None]] = {port: [] for port in ports}
            for number, fields in enumerate(expand(spec.fields)):
                if spec.plane_field is None:
                    port = ports[number % len(ports)]
                else:
                    port = fields[spec.plane_field] + 1
                if port in rows:
                    value = spec.format.join(fields)
                    rows[port].append(self._value(port, len(rows[port]), value, None))
            for port, row in rows.items():
                if len(row) < share:
                    raise ConfigError(
                        f"EV profile {self.name}: port {port} gets {len(row)} EVs, needs {share}"
                    )
            self.entries = rows

    def _check(self) -> None:
        """All entries filled, and each once."""
        seen: set[int] = set()
        for port, row in self.entries.items():
            empty = [i for i, ev in enumerate(row) if ev is None]
            if empty:
                raise ConfigError(
                    f"EV profile {self.name}: port {port}: entry {empty[0]} is empty"
                    f" ({len(empty)} of {len(row)} are)"
                )
            for ev in row:
                if ev in seen:
                    raise ConfigError(f"EV profile {self.name}: EV {ev:#010x} occurs twice")
                seen.add(ev or 0)


def _shape(spec: ProfileSpec) -> tuple[object, ...]:
    """What entries depend on."""
    return spec.format, spec.mode, spec.ev_count, spec.backup, spec.fields, spec.plane_field


class QpEvs(NamedTuple):
    """What the EV set of a QP is made from. events None: all but SKIP; paths: SRv6 by EV."""

    chosen: Chosen
    min_active: int
    kind: EvKind
    events: frozenset[EvState] | None
    paths: dict[int, SrPath]
    denied: frozenset[int]


def per_plane(total: int, planes: int, what: str) -> int:
    """Equal share of every plane. Raises ConfigError when it does not divide."""
    if total % planes:
        raise ConfigError(f"ev.{what} {total}: must divide by the {planes} planes")
    return total // planes


def check_path(kind: EvKind, path: SrPath | None, where: str) -> None:
    """Whether an EV of this kind comes with these outer addresses. Raises ConfigError."""
    wanted = {EvKind.USID: 0, EvKind.USID_SRH: 1}.get(kind)
    if wanted is None:
        if path is not None:
            raise ConfigError(f"{where}: kind {kind.value} has no outer addresses")
    elif path is None or len(path.segments) != wanted:
        raise ConfigError(
            f"{where}: kind {kind.value} needs the outer destination and {wanted} SRH segments"
        )


def check_carried(evs: Iterable[int], packing: EvPacking, ipv4: bool) -> None:
    """Whether packets can carry these EVs (section 3.1). Raises ConfigError for the first that
    they cannot."""
    for ev in evs:
        if not 0 <= ev <= 0xFFFFFFFF:
            raise ConfigError(f"EV {ev:#010x}: is not a 32-bit value")
        if ipv4 and ev & ~(0xFFFF0000 if packing is EvPacking.SPORT_HIGH else 0xFFFF):
            raise ConfigError(f"EV {ev:#010x}: IPv4 carries the half in the source port only")
        if packing is EvPacking.LABEL20 and ev > 0xFFFFF:
            raise ConfigError(f"EV {ev:#010x}: packing label20 carries 20 bits")


def draw_ev(rng: Random, packing: EvPacking, ipv4: bool) -> int:
    """One EV, uniform over what the packing carries with a source port of the dynamic range."""
    sport = SPORT_LOWEST | rng.getrandbits(14)
    if ipv4:
        return sport if packing != EvPacking.SPORT_HIGH else sport << 16
    if packing == EvPacking.LABEL20:
        label = rng.getrandbits(4) << 16 | sport
    else:
        label = rng.getrandbits(16)
    return join_ev(label, sport, packing)


def draw_evs(
    active: int, backup: int, ports: Sequence[int], rng: Random, packing: EvPacking, ipv4: bool
) -> Chosen:
    """AUTO: all different."""
    taken: set[int] = set()
    chosen: dict[int, tuple[list[int], list[int]]] = {}
    for port in ports:
        values: list[int] = []
        while len(values) < active + backup:
            ev = draw_ev(rng, packing, ipv4)
            if ev not in taken:
                taken.add(ev)
                values.append(ev)
        chosen[port] = (values[:active], values[active:])
    return chosen


def choose_evs(
    config: EvConfig, ports: Sequence[int], rng: Random, packing: EvPacking, ipv4: bool = False
) -> Chosen:
    """(active, backup) values by port, all different. Raises ConfigError."""
    active = per_plane(config.active, len(ports), "active")
    backup = per_plane(config.backup, len(ports), "backup")
    if active < 1:
        raise ConfigError(f"ev.active {config.active}: at least one per plane is needed")
    if ipv4 and len(ports) * (active + backup) > 1 << 13:
        raise ConfigError("ev.active and ev.backup: too many for the 14 bits IPv4 has")
    if config.values is None:
        return draw_evs(active, backup, ports, rng, packing, ipv4)
    chosen: dict[int, tuple[list[int], list[int]]] = {}
    for port in ports:
        values = list(config.values.get(port, ()))
        if len(values) != active + backup:
            raise ConfigError(
                f"ev.values of port {port}: {len(values)} values, need {active + backup}"
            )
        chosen[port] = (values[:active], values[active:])
    every = [ev for a, b in chosen.values() for ev in (*a, *b)]
    if len(set(every)) != len(every):
        raise ConfigError("ev.values: an EV may occur only once on a QP")
    return chosen
