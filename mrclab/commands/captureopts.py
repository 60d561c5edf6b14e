"""--capture and --snaplen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from mrclab.errors import UserError

F = TypeVar("F", bound=Callable[..., Any])

CAPTURE_FILE = "capture.pcapng"
SNAPLEN_DEFAULT = 256


def capture_options(command: F) -> F:
    """--capture [hosts|all] and --snaplen BYTES."""
    for option in (
        click.option(
            "--snaplen",
            type=click.IntRange(0, 65535),
            default=None,
            metavar="BYTES",
            help="With --capture: bytes kept of each packet (256; 0: all).",
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


def bytes_kept(capture: str | None, snaplen: int | None) -> int:
    """Of each packet. Raises UserError for --snaplen without --capture."""
    if capture is None and snaplen is not None:
        raise UserError("--snaplen is for --capture")
    return SNAPLEN_DEFAULT if snaplen is None else snaplen
