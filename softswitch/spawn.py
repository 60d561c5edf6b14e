"""Many switches, fast: fork them from one process that has everything imported.

Importing gRPC and protobuf costs a switch most of its start-up time; a fork costs a
millisecond. One *nursery* process (`python -m softswitch.spawn CONFIG.json`) imports
once, forks a child per switch and prints one JSON line for each event:

    {"event": "ready", "name": "p0t0-0", "device_id": 1, "pid": 7, "addr": "127.0.0.1:9559",
     "ctl": "/run/p0t0-0.sock"}
    {"event": "error", "name": "p0t0-1", "error": "--grpc-server-addr 127.0.0.1:1: in use"}
    {"event": "exit", "name": "p0t0-0", "pid": 7, "status": -9}

CONFIG.json is {"switches": [{"name": "p0t0-0", "argv": ["--no-p4", "-i", "1@veth0"]}]}.
Children die with the nursery and the nursery with its parent, even by SIGKILL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


class SpawnError(Exception):
    """A switch did not start. One line, with the name of the switch."""


@dataclass(frozen=True)
class SwitchArgs:
    """One switch to start. `argv` as for `python -m softswitch`."""

    name: str
    argv: tuple[str, ...]


@dataclass(frozen=True)
class SwitchProcess:
    """A switch that listens. `addr` is HOST:PORT of P4Runtime, `ctl` the side channel."""

    name: str
    device_id: int
    pid: int
    addr: str
    ctl: str | None


class SwitchFarm:
    """A set of running switches; a context manager that ends them."""

    processes: dict[str, SwitchProcess]

    @classmethod
    def start(
        cls,
        switches: Sequence[SwitchArgs],
        timeout: float = 30.0,
        on_exit: Callable[[str, int], None] | None = None,
    ) -> SwitchFarm:
        """Start all and wait until all listen; SpawnError (and nothing left) otherwise.

        `on_exit(name, status)` is called from a thread when a switch ends by itself;
        negative statuses are signals, as in `subprocess`.
        """
        raise NotImplementedError

    def stop(self, timeout: float = 5.0) -> None:
        """End all switches and wait for them. Idempotent."""
        raise NotImplementedError
