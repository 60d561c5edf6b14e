"""The nursery and the switch with the fake engine: `fake_spawn.py nursery|switch ARGS`.

Lets the processes be tested without a C compiler and without interfaces.
"""

from __future__ import annotations

import sys
from typing import Any

import softswitch.engine
from tests.p4rt.fake import FakeEngine


def fake_engine(*, cpu_port: int | None = None, **_: Any) -> FakeEngine:
    """Takes what the real one takes."""
    return FakeEngine(cpu_port=cpu_port)


def main() -> int:
    """Exit status of the real main."""
    softswitch.engine.Engine = fake_engine  # type: ignore[assignment, misc]
    if sys.argv[1] == "nursery":
        from softswitch import spawn

        return spawn.main(sys.argv[2:])
    from softswitch import __main__ as switch

    return switch.main(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
