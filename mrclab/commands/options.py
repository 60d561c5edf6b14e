"""Options that several commands share, and the checks that must come before a lab starts."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any, TypeVar

import click

from mrclab.errors import UserError

F = TypeVar("F", bound=Callable[..., Any])

SWITCHES = ("builtin", "bmv2")


def testbed_options(command: F) -> F:
    """--switch, --failover and --seed."""
    for option in reversed(
        (
            click.option(
                "--switch",
                "switch",
                type=click.Choice(SWITCHES),
                default="builtin",
                show_default=True,
                help="Which switch runs the P4 program.",
            ),
            click.option(
                "--failover",
                type=click.Choice(["none", "groups"]),
                default="none",
                show_default=True,
                help="groups: switches leave out an uplink that is down by themselves.",
            ),
            click.option(
                "--seed",
                type=click.IntRange(0, 2**32 - 1),
                default=1,
                show_default=True,
                help="Seed of every random choice.",
            ),
        )
    ):
        command = option(command)
    return command


def check_switch(switch: str) -> None:
    """Raises UserError when the machine lacks the switch asked for."""
    if switch == "bmv2" and shutil.which("simple_switch_grpc") is None:
        raise UserError(
            "--switch bmv2: simple_switch_grpc is not on the PATH; install bmv2 or use "
            "--switch builtin"
        )
