"""Options of commands that can run in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from mrclab.errors import UserError
from virtualtime.profile import PROFILES

F = TypeVar("F", bound=Callable[..., Any])


def virtual_options(command: F) -> F:
    """--time, --profile and --workers."""
    for option in reversed(
        (
            click.option(
                "--time",
                "time_",
                type=click.Choice(["real", "virtual"]),
                default="real",
                show_default=True,
                help="virtual: in this process, without root, on a computed clock.",
            ),
            click.option(
                "--profile",
                type=click.Choice(PROFILES),
                default=None,
                help="With --time virtual: figures as written (lab, the default) or not slowed "
                "down (real).",
            ),
            click.option(
                "--workers",
                type=click.IntRange(1, 64),
                default=None,
                help="With --time virtual: processes that share the hosts (1). Changes nothing "
                "but the time it takes.",
            ),
        )
    ):
        command = option(command)
    return command


def check_time(
    time: str, profile: str | None, workers: int | None, switch: str, capture: str | None
) -> bool:
    """Whether to run in virtual time. Raises UserError for options that do not go together."""
    if time == "virtual":
        if switch != "builtin":
            raise UserError(f"--switch {switch}: in virtual time there is only the builtin switch")
        if capture is not None:
            raise UserError("--capture: there are no interfaces in virtual time; use --time real")
        return True
    for name, value in (("--profile", profile), ("--workers", workers)):
        if value is not None:
            raise UserError(f"{name} is for --time virtual")
    return False
