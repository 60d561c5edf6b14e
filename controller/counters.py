"""The counters of mrc_fabric.p4: which cells there are, and what a switch's cells say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

CAUSES = {
    1: "not_ipv6",
    2: "malformed",
    3: "hop_limit",
    4: "no_route",
    5: "no_uplink",
    6: "discarded",
    7: "no_path",
    8: "list_end",
    9: "not_encapsulated",
}
"""Why the pipeline drops: number in the index of `FabricIngress.drops` -> name."""

CLASSES = ("data", "control")
"""By priority."""

RECEIVED = "FabricIngress.received"
DROPS = "FabricIngress.drops"
FORWARDED = "FabricIngress.forwarded"
TRIMMED = "FabricIngress.trimmed"
TRIMMED_LASTHOP = "FabricIngress.trimmed_lasthop"
TRANSMITTED = "FabricEgress.transmitted"
MARKED = "FabricEgress.marked"


@dataclass(frozen=True)
class Count:
    """A counter cell."""

    packets: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class PortCounters:
    """What the pipeline counted for one port since it was loaded.

    `received` and `drops` by port of arrival, the rest by port of departure. `forwarded` was
    handed to the queue, `transmitted` came out of it: the difference is waiting or was refused
    by the queue.
    """

    received: Count = Count()
    drops: Mapping[str, Count] = field(default_factory=dict)
    forwarded: Mapping[str, Count] = field(default_factory=dict)
    transmitted: Mapping[str, Count] = field(default_factory=dict)
    trimmed: Count = Count()
    trimmed_lasthop: Count = Count()
    marked: Count = Count()

    def as_dict(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


Cell = tuple[str, int]
"""Counter array and index."""


def cells_of_port(port: int) -> dict[tuple[str, str], Cell]:
    """(field of PortCounters, key in it or "") -> cell."""
    cells: dict[tuple[str, str], Cell] = {
        ("received", ""): (RECEIVED, port),
        ("trimmed", ""): (TRIMMED, port),
        ("trimmed_lasthop", ""): (TRIMMED_LASTHOP, port),
        ("marked", ""): (MARKED, port),
    }
    for cause, name in CAUSES.items():
        cells["drops", name] = (DROPS, port * 16 + cause)
    for priority, name in enumerate(CLASSES):
        cells["forwarded", name] = (FORWARDED, port * 2 + priority)
        cells["transmitted", name] = (TRANSMITTED, port * 2 + priority)
    return cells


def cells(ports: Iterable[int]) -> list[Cell]:
    """Every cell of some ports."""
    return [cell for port in ports for cell in cells_of_port(port).values()]


def port_counters(ports: Iterable[int], values: Mapping[Cell, Count]) -> dict[int, PortCounters]:
    """Put cell values where they belong; a cell that is absent counts as 0."""
    result = {}
    for port in ports:
        parts: dict[str, dict[str, Count]] = {}
        for (name, key), cell in cells_of_port(port).items():
            parts.setdefault(name, {})[key] = values.get(cell, Count())
        result[port] = PortCounters(
            received=parts["received"][""],
            drops=parts["drops"],
            forwarded=parts["forwarded"],
            transmitted=parts["transmitted"],
            trimmed=parts["trimmed"][""],
            trimmed_lasthop=parts["trimmed_lasthop"][""],
            marked=parts["marked"][""],
        )
    return result
