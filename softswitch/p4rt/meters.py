"""MeterConfig and the engine's rates.

The engine's meters have two rates and three colours (trTCM). A single rate with two colours is
the same with both rates equal; an excess burst (srTCM) has no counterpart in v1model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2

from softswitch.engine.types import MeterRate
from softswitch.p4rt.status import invalid, unimplemented

SINGLE_RATE = (
    p4info_pb2.MeterSpec.SINGLE_RATE_THREE_COLOR,
    p4info_pb2.MeterSpec.SINGLE_RATE_TWO_COLOR,
)


def to_rates(config: Any, what: str, kind: int = 0) -> tuple[MeterRate, MeterRate]:
    """Committed and peak rate (per second) with their bursts, for a meter of a
    MeterSpec.Type; INVALID_ARGUMENT when they contradict it (P4Runtime spec, "MeterEntry")."""
    values = {name: getattr(config, name) for name in ("cir", "cburst", "pir", "pburst", "eburst")}
    for name, value in values.items():
        if value < 0:
            raise invalid(f"{what}: {name} {value} is negative")
    if values["pir"] < values["cir"]:
        raise invalid(f"{what}: pir {values['pir']} is below cir {values['cir']}")
    if kind in SINGLE_RATE and (
        values["pir"] != values["cir"] or values["pburst"] != values["cburst"]
    ):
        raise invalid(f"{what}: a single-rate meter needs pir = cir and pburst = cburst")
    if values["eburst"]:
        if kind == p4info_pb2.MeterSpec.SINGLE_RATE_THREE_COLOR:
            raise unimplemented(f"{what}: eburst: this switch has no srTCM meters")
        raise invalid(f"{what}: eburst is for single-rate three-color meters only")
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


def refuse_color_counters(present: bool, what: str) -> None:
    """UNIMPLEMENTED when a request sets MeterCounterData ("MeterCounterData")."""
    if present:
        raise unimplemented(f"{what}: this switch keeps no counters per meter color")
