"""MeterConfig and the engine's rates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from p4.v1 import p4runtime_pb2

from softswitch.engine.types import MeterRate
from softswitch.p4rt.status import invalid


def to_rates(config: Any, what: str) -> tuple[MeterRate, MeterRate]:
    """Committed and peak rate (per second) with their bursts; INVALID_ARGUMENT if negative."""
    values = {name: getattr(config, name) for name in ("cir", "cburst", "pir", "pburst")}
    for name, value in values.items():
        if value < 0:
            raise invalid(f"{what}: {name} {value} is negative")
    if values["pir"] < values["cir"]:
        raise invalid(f"{what}: pir {values['pir']} is below cir {values['cir']}")
    return (
        MeterRate(values["cir"], values["cburst"]),
        MeterRate(values["pir"], values["pburst"]),
    )


def from_rates(rates: Sequence[MeterRate]) -> Any:
    """p4.v1.MeterConfig."""
    config = p4runtime_pb2.MeterConfig()
    config.cir, config.cburst = round(rates[0].rate), rates[0].burst
    if len(rates) > 1:
        config.pir, config.pburst = round(rates[1].rate), rates[1].burst
    return config
