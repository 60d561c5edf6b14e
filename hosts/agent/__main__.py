"""Start a host agent in the current network namespace.

    python -m hosts.agent --name h0 --config h0.json --socket h0.sock --events h0.jsonl

Prints one JSON line when it listens: {"ready": true, "name": ..., "pid": ..., "socket": ...}.
Ends on the `stop` request, SIGTERM or SIGINT. Exit status 2: it could not start, and stderr
says why in one line.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from pathlib import Path

from hosts.agent.control import ControlError
from hosts.agent.fields import FieldError
from hosts.agent.loop import Agent
from hosts.agent.nic import NicError
from hosts.agent.settings import load
from hosts.core.config import ConfigError


def nics(values: list[str]) -> dict[int, str]:
    """`--nic 1=h0-p0,2=h0-p1` (or repeated) as port -> interface. Raises FieldError."""
    found: dict[int, str] = {}
    for item in ",".join(values).split(","):
        port, equals, interface = item.partition("=")
        if not equals or not port.isdigit() or not interface:
            raise FieldError(f"--nic {item!r}: must be PORT=INTERFACE")
        found[int(port)] = interface
    return found


def parser() -> argparse.ArgumentParser:
    """The command line."""
    p = argparse.ArgumentParser(prog="python -m hosts.agent", description="MRC host agent")
    p.add_argument("--name", required=True, help="name of the host, `src` of its events")
    p.add_argument("--config", required=True, type=Path, help="configuration file (JSON)")
    p.add_argument("--socket", required=True, type=Path, help="UNIX socket to listen on")
    p.add_argument("--events", type=Path, help="file that events are appended to (JSON lines)")
    p.add_argument("--nic", action="append", help="PORT=INTERFACE, over the configuration's")
    return p


def main(argv: list[str] | None = None) -> int:
    """Run; the exit status."""
    options = parser().parse_args(argv)
    try:
        settings = load(options.config, nics(options.nic) if options.nic else {})
        agent = Agent(settings, options.name, options.socket, options.events)
    except (FieldError, ConfigError, ControlError, NicError) as error:
        print(f"hosts.agent: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"hosts.agent: {error.filename or 'cannot start'}: {error.strerror}", file=sys.stderr)
        return 2

    def end(_signal: int, _frame: object) -> None:
        agent.stopping = True

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    ready = {"ready": True, "name": options.name, "pid": os.getpid(), "socket": str(options.socket)}
    print(json.dumps(ready), flush=True)
    agent.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
