"""A fabric slowed down as a whole, for machines and switches that cannot carry it as written.

Rates are divided and times multiplied by one factor, so that a round trip, a queue and a drill
hold the same number of packets. Pure.
"""

from __future__ import annotations

from topologies.spec import FabricSpec
from topologies.units import format_duration, format_rate

BMV2_SLOWER = 3
"""What bmv2 is slowed by unless told otherwise: a packet costs it some 80 us of a CPU at each
hop, five times what the built-in switch takes."""


def slowed(spec: FabricSpec, factor: int) -> FabricSpec:
    """The fabric `factor` times slower. SpecError, ValidationError: it is too slow then."""
    if factor == 1:
        return spec
    values = spec.model_dump(mode="json", by_alias=True)
    values["time_scale"] = spec.time_scale * factor
    values["link"]["rate"] = format_rate(spec.link.rate // factor)
    for name in ("delay", "switch_latency"):
        values["link"][name] = format_duration(getattr(spec.link, name) * factor)
    # Depths given in BDP keep their number of packets.
    for part, names in (("queues", ("data",)), ("ecn", ("kmin", "kmax"))):
        for name in names:
            values[part][name] = f"{spec.packets(getattr(getattr(spec, part), name))} packets"
    for name in ("threshold", "last_hop"):
        values["trim"][name] = f"{spec.packets(getattr(spec.trim, name))} packets"
    return type(spec).model_validate(values)
