"""Lab figures and real figures. Pure.

A fabric spec and a drill are written in lab figures: everything is `time_scale` times slower
than in a data centre. The real profile takes that back: rates are multiplied by the scale and
all times divided by it, so that the same number of packets is in a queue, in a round trip and
in the whole drill. A fabric whose scale is 1 is real already.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from drills.format import Drill
from mrclab.errors import UserError
from topologies.plan import Plan
from topologies.spec import FabricSpec
from topologies.units import format_duration, format_rate

ProfileName = Literal["lab", "real"]
PROFILES: tuple[ProfileName, ...] = ("lab", "real")

RATE_MAX = 1_600_000_000_000
"""Bits per second; as in the fabric spec."""


@dataclass(frozen=True)
class Figures:
    """A fabric and, with it, how much faster than its spec's figures it runs (1: as written)."""

    plan: Plan
    tempo: int


def figures(spec: FabricSpec, profile: ProfileName) -> Figures:
    """The plan of a fabric in a profile. Raises UserError when the real figures are none."""
    if profile == "lab" or spec.time_scale == 1:
        return Figures(Plan.from_spec(spec), 1)
    scale = spec.time_scale
    rate = spec.link.rate * scale
    if rate > RATE_MAX:
        raise UserError(
            f"--profile real: {spec.name} would have links of {rate / 1e9:g} Gb/s (link.rate x "
            f"time_scale); at most {RATE_MAX / 1e9:g} Gb/s"
        )
    values = spec.model_dump(mode="json", by_alias=True)
    values["time_scale"] = 1
    values["link"]["rate"] = format_rate(rate)
    for name in ("delay", "switch_latency"):
        values["link"][name] = format_duration(getattr(spec.link, name) // scale)
    return Figures(Plan.from_spec(type(spec).model_validate(values)), scale)


def scaled_drill(drill: Drill, tempo: int) -> Drill:
    """The drill with all its times divided by `tempo`."""
    if tempo == 1:
        return drill
    timeline = [
        fault.model_copy(update={"at": fault.at // tempo, "until": fault.until // tempo})
        for fault in drill.timeline
    ]
    scaled = drill.model_copy(
        update={
            "warmup": drill.warmup // tempo,
            "duration": drill.duration // tempo,
            "timeline": timeline,
        }
    )
    scaled._document = drill._document
    return scaled
