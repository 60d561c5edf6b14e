"""What a process of ours asks of the kernel about itself (Linux)."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
NAME_MAX = 15
"""Bytes of a process name, without the closing zero."""


def _prctl(option: int, argument: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, argument, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl: {os.strerror(number)}")


def set_name(name: str) -> None:
    """Name shown by ps and top, cut to 15 bytes."""
    _prctl(_PR_SET_NAME, ctypes.create_string_buffer(name.encode()[:NAME_MAX]))


def die_with_parent(parent: int, number: int = signal.SIGKILL) -> None:
    """Get `number` when the thread that forked us ends; at once if it is gone already."""
    _prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(number))
    if os.getppid() != parent:
        os.kill(os.getpid(), number)
