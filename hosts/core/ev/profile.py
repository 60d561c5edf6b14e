"""Which entropy values a QP uses (section 3.2, 3.3): AUTO (drawn) or EXPLICIT (given)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosts.core.config import ConfigError, EvConfig
from hosts.wire.constants import EvPacking
from hosts.wire.entropy import join_ev

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

SPORT_LOWEST = 0xC000  # drawn source ports stay in the dynamic range


def per_plane(total: int, planes: int, what: str) -> int:
    """Equal share of every plane. Raises ConfigError when it does not divide."""
    if total % planes:
        raise ConfigError(f"ev.{what} {total}: must divide by the {planes} planes")
    return total // planes


def draw_ev(rng: Random, packing: EvPacking, ipv4: bool) -> int:
    """One EV, uniform over what the packing carries with a source port of the dynamic range."""
    sport = SPORT_LOWEST | rng.getrandbits(14)
    if ipv4:
        label = 0
    elif packing == EvPacking.LABEL20:
        label = rng.getrandbits(4) << 16 | sport
    else:
        label = rng.getrandbits(16)
    return join_ev(label, sport, packing)


def choose_evs(
    config: EvConfig, ports: Sequence[int], rng: Random, packing: EvPacking, ipv4: bool = False
) -> dict[int, tuple[list[int], list[int]]]:
    """(active, backup) values by port, all different. Raises ConfigError."""
    active = per_plane(config.active, len(ports), "active")
    backup = per_plane(config.backup, len(ports), "backup")
    if active < 1:
        raise ConfigError(f"ev.active {config.active}: at least one per plane is needed")
    taken: set[int] = set()
    chosen: dict[int, tuple[list[int], list[int]]] = {}
    for port in ports:
        if config.values is not None:
            values = list(config.values.get(port, ()))
            if len(values) != active + backup:
                raise ConfigError(
                    f"ev.values of port {port}: {len(values)} values, need {active + backup}"
                )
        else:
            values = []
            while len(values) < active + backup:
                ev = draw_ev(rng, packing, ipv4)
                if ev not in taken:
                    taken.add(ev)
                    values.append(ev)
        chosen[port] = (values[:active], values[active:])
    every = [ev for a, b in chosen.values() for ev in (*a, *b)]
    if len(set(every)) != len(every):
        raise ConfigError("ev.values: an EV may occur only once on a QP")
    return chosen
