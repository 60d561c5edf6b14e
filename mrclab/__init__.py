"""The lab's command line, its namespaces and the running testbed."""

from __future__ import annotations

import os
from pathlib import Path

__version__ = "0.1.0"

ROOT = Path(os.environ.get("MRCLAB_ROOT") or Path(__file__).resolve().parent.parent)
"""The checkout: where p4src/, catalogues and runs/ are."""
