"""--capture and --snaplen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

CAPTURE_FILE = "capture.pcapng"


def capture_options(command: F) -> F:
    """--capture [hosts|all] and --snaplen BYTES."""
    for option in (
        click.option(
            "--snaplen",
            type=click.IntRange(0, 65535),
            default=256,
            show_default=True,
            metavar="BYTES",
            help="--capture: bytes kept of each packet (0: all).",
        ),
        click.option(
            "--capture",
            is_flag=False,
            flag_value="hosts",
            type=click.Choice(["hosts", "all"]),
            help="Write capture.pcapng: the hosts' NICs, or all switch ports too.",
        ),
    ):
        command = option(command)
    return command
