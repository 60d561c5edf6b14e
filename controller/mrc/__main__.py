"""`python -m controller.mrc CONFIG.json`: started by the lab (mrclab/mrccontroller.py).

The configuration has `spec` (the fabric, as fabric.json), `agents` (control socket by host),
`socket` and `events`. One line is printed when it listens.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from pathlib import Path

from controller.mrc.service import Service
from topologies.plan import Plan
from topologies.spec import FabricSpec

PR_SET_PDEATHSIG = 1


def main(argv: list[str]) -> int:
    """Exit status 2 with one line when the configuration makes no sense."""
    if len(argv) != 1:
        print("usage: python -m controller.mrc CONFIG.json", file=sys.stderr)
        return 2
    parent = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        return 1
    try:
        config = json.loads(Path(argv[0]).read_text())
        plan = Plan.from_spec(FabricSpec.model_validate(config["spec"]))
        service = Service(
            plan,
            {host: Path(path) for host, path in config["agents"].items()},
            Path(config["socket"]),
            Path(config["events"]) if config.get("events") else None,
        )
    except (OSError, ValueError, KeyError) as error:
        print(f"controller.mrc: {argv[0]}: {error}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the prompt
    print("ready", flush=True)
    service.loop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
