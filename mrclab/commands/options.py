"""Options that several commands share, and the checks that must come before a lab starts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from typing import Any, TypeVar

import click

from mrclab.errors import UserError
from topologies.steerspec import MODES

F = TypeVar("F", bound=Callable[..., Any])

SWITCHES = ("builtin", "bmv2")


class OutFolder(click.Path):
    """A folder; an empty text (an unset variable in a script) does not mean the current one."""

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str | bytes | os.PathLike[str]:
        if not os.fspath(value):
            self.fail("it is empty, name a folder", param, ctx)
        return super().convert(value, param, ctx)


def mode_option(command: F) -> F:
    """--mode."""
    return click.option(
        "--mode",
        type=click.Choice(MODES),
        default=None,
        help="How an EV chooses a path, instead of what the fabric says.",
    )(command)


def check_failover(failover: str, mode: str) -> None:
    """Raises UserError for failover groups in a mode that has no use for them."""
    if failover == "groups" and mode != "ecmp":
        raise UserError(
            f"--failover groups: in {mode} mode an EV names its links and no switch may take "
            "others; leave it out, or use --mode ecmp"
        )


def testbed_options(command: F) -> F:
    """--mode, --switch, --failover and --seed."""
    for option in reversed(
        (
            mode_option,
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
                help="groups: switches leave out an uplink that is down (ecmp mode).",
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
