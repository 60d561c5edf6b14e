"""`--slow`, and what a fabric on bmv2 must do without: shared by `drill` and `up`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click
from pydantic import ValidationError

from mrclab.errors import UserError
from topologies.plan import Plan
from topologies.slow import BMV2_SLOWER, slowed
from topologies.units import format_rate
from topologies.yamlspec import SpecError

if TYPE_CHECKING:
    from drills.format import Drill

F = TypeVar("F", bound=Callable[..., Any])

CUTS = frozenset({"link_down"})
"""Faults that need no settings of a switch port."""


def slow_option(command: F) -> F:
    """--slow."""
    return click.option(
        "--slow",
        type=click.IntRange(1, 1000),
        metavar="N",
        help=f"Run everything N times slower (default: 1; {BMV2_SLOWER} with bmv2).",
    )(command)


def slow_factor(slow: int | None, switch: str) -> int:
    """How much slower than its spec a fabric runs."""
    return slow if slow is not None else (BMV2_SLOWER if switch == "bmv2" else 1)


def slowed_plan(plan: Plan, factor: int) -> Plan:
    """The plan of a fabric that is `factor` times slower. Raises UserError."""
    if factor == 1:
        return plan
    try:
        return Plan.from_spec(slowed(plan.spec, factor))
    except (SpecError, ValidationError):
        raise UserError(
            f"--slow {factor}: {plan.spec.name} cannot be so slow: its links would have "
            f"{format_rate(plan.spec.link.rate // factor)}"
        ) from None


def slowed_drill(drill: Drill, factor: int) -> Drill:
    """The drill with all its times multiplied by `factor`."""
    if factor == 1:
        return drill
    timeline = [
        fault.model_copy(update={"at": fault.at * factor, "until": fault.until * factor})
        for fault in drill.timeline
    ]
    changed = drill.model_copy(
        update={
            "warmup": drill.warmup * factor,
            "duration": drill.duration * factor,
            "timeline": timeline,
        }
    )
    changed._document = drill._document
    return changed


def check_faults(drill: Drill, switch: str) -> None:
    """Raises UserError for a fault that the switch asked for cannot make."""
    if switch != "bmv2":
        return
    for fault in drill.timeline:
        if fault.fault not in CUTS:
            raise UserError(
                f"{drill.name}: {fault.fault} needs settings of switch ports that bmv2 does not "
                "have (it can only cut links); use --switch builtin"
            )
