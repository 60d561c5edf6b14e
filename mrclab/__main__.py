"""`python -m mrclab`: what ./lab hands over to."""

from __future__ import annotations

import sys

from mrclab.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
