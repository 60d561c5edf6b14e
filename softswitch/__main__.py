"""`python -m softswitch`: one switch, with the flags of simple_switch_grpc."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from softswitch.options import SwitchOptions, UsageError, parse_args, usage

VERSION = "softswitch 0.1.0"
JSON_VERSION = "2.23"
"""Highest version of the bmv2 JSON that is understood."""


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0, or 2 with one line on stderr."""
    try:
        options = parse_args(sys.argv[1:] if argv is None else argv)
        if options.action != "run":
            print(
                {"help": usage(), "version": VERSION, "json-version": JSON_VERSION}[options.action]
            )
            return 0
        return _run(options)
    except UsageError as error:
        print(f"softswitch: {error}", file=sys.stderr)
        return 2


def _run(options: SwitchOptions) -> int:
    from softswitch.process import set_name
    from softswitch.switch import Switch

    set_name(options.name or f"softswitch-{options.device_id}")
    # Blocked before there are threads, so that only sigwait gets them.
    ends = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    switch = Switch(options)
    switch.start()
    print(f"Server listening on {switch.address}", flush=True)
    signal.sigwait(ends)
    switch.stop()
    sys.stdout.flush()
    os._exit(0)  # gRPC's threads may linger; everything of ours is closed


if __name__ == "__main__":
    sys.exit(main())
