"""Put a command into a lab of its own: the same command line, run again inside."""

from __future__ import annotations

import os
import signal
import sys
from datetime import datetime
from types import FrameType

from mrclab import namespace


def new_run_id() -> str:
    """Name of a run: date, time and process, unique on this machine."""
    return f"{datetime.now():%Y%m%d-%H%M%S}-{os.getpid()}"


def end_on_sigterm() -> None:
    """Make SIGTERM end this process in order (the init of a PID namespace ignores it)."""

    def leave(number: int, _frame: FrameType | None) -> None:
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGHUP, leave)


def rerun_in_lab() -> int:
    """Run this very command line again as the first process of a new lab.

    Returns its exit status. Raises UserError when the kernel refuses the namespaces.
    """
    return namespace.run_in_lab(new_run_id(), [sys.executable, "-m", "mrclab", *sys.argv[1:]])
