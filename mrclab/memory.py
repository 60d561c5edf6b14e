"""How much memory the machine can give."""

from __future__ import annotations

import os
from pathlib import Path


def available_memory() -> int:
    """Bytes that can be had without swapping; page cache counts, it is given back."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
