"""`python -m mrclab`: what ./lab hands over to."""

from __future__ import annotations

import os
import sys

from mrclab.cli import main

# gRPC prints its own diary ("Got goaway") when a lab ends; what matters is an exception anyway.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
