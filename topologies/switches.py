"""Starting the switch processes of a fabric: this repository's switch. bmv2: bmv2.py.

A backend starts one process per switch of a plan, on interfaces that exist already, without a
program (P4Runtime pushes it), gives every port the settings of the plan and says where each
switch listens. All sockets are on loopback of the namespace the lab runs in.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from softswitch.ctl import CtlClient, CtlError
from softswitch.spawn import SpawnError, SwitchArgs, SwitchFarm
from topologies.plan import Plan, SwitchPlan

CPU_PORT = 510
DROP_PORT = 511
PRIORITY_QUEUES = 2
SHELL_ROLE = "shell"
"""P4Runtime role in which `./lab shell` writes beside the controller."""
FIRST_GRPC_PORT = 9559
START_SECONDS = 60.0
STOP_SECONDS = 5.0

OnExit = Callable[[str, int], None]
"""Called from a thread with name and status when a switch ends by itself."""


class SwitchError(Exception):
    """A switch did not start or refused its settings. One line, with the switch's name."""


@dataclass(frozen=True)
class SwitchHandle:
    """A running switch."""

    name: str
    device_id: int
    pid: int
    grpc: str
    """HOST:PORT of its P4Runtime server."""
    ctl: str | None
    """Path of its side channel; None when it is no socket (bmv2)."""


class SideChannel(Protocol):
    """What P4Runtime has no words for, of one switch: `softswitch.ctl.CtlClient`, and for bmv2
    `topologies.bmv2ctl.Bmv2Ctl`. Raises CtlError."""

    def ports(self) -> dict[int, dict[str, Any]]: ...
    def set_port(self, port: int, **config: object) -> dict[str, Any]: ...
    def stats(self, reset_max: bool = False) -> dict[str, Any]: ...
    def counters(self, names: Sequence[str] | None = None) -> dict[str, dict[str, list[int]]]: ...
    def close(self) -> None: ...


class Backend(Protocol):
    """A kind of switch."""

    name: str

    def start(self, plan: Plan) -> Mapping[str, SwitchHandle]:
        """Start every switch; all listen and have their settings on return. SwitchError
        (and nothing left running) otherwise."""
        ...

    def start_switch(self, plan: Plan, switch: SwitchPlan) -> SwitchHandle:
        """Start one switch again after stop_switch."""
        ...

    def stop_switch(self, name: str) -> None:
        """End one switch, as a crash or reboot would, and wait until it is gone."""
        ...

    def ctl(self) -> Mapping[str, SideChannel]:
        """Side channels by switch."""
        ...

    def stop(self) -> None:
        """End all switches. Idempotent."""
        ...


def grpc_address(switch: SwitchPlan) -> str:
    """Where a switch's P4Runtime server listens."""
    return f"127.0.0.1:{FIRST_GRPC_PORT + switch.device_id - 1}"


def common_arguments(switch: SwitchPlan) -> list[str]:
    """Flags that both kinds take before ``--``."""
    arguments = ["--no-p4", "--device-id", str(switch.device_id)]
    for number, port in sorted(switch.ports.items()):
        arguments += ["-i", f"{number}@{port.ifname}"]
    return arguments


def target_arguments(switch: SwitchPlan) -> list[str]:
    """Flags of the simple_switch target, the same for both kinds."""
    return [
        "--grpc-server-addr",
        grpc_address(switch),
        "--cpu-port",
        str(CPU_PORT),
        "--drop-port",
        str(DROP_PORT),
        "--priority-queues",
        str(PRIORITY_QUEUES),
    ]


def apply_settings(switch: SwitchPlan, ctl: CtlClient) -> None:
    """Give every port its settings and compare what is read back. SwitchError."""
    for number, port in switch.ports.items():
        wanted = port.config.as_dict()
        try:
            found = ctl.set_port(number, **wanted)
        except CtlError as error:
            raise SwitchError(f"{switch.name} port {number}: {error}") from None
        for key, value in wanted.items():
            if found.get(key) != value:
                raise SwitchError(
                    f"{switch.name} port {number}: {key} is {found.get(key)}, wanted {value}"
                )


class BuiltinBackend:
    """softswitch, all switches forked from one process."""

    name = "builtin"

    def __init__(
        self,
        run_dir: Path,
        *,
        socket_dir: Path | None = None,
        seed: int = 0,
        on_exit: OnExit | None = None,
    ) -> None:
        """``run_dir`` takes the logs; ``socket_dir`` (default run_dir) the side channels."""
        self._logs = run_dir
        self._sockets = socket_dir or run_dir
        self._seed = seed
        self._on_exit = on_exit
        self._farms: list[SwitchFarm] = []
        self._handles: dict[str, SwitchHandle] = {}
        self._ctl: dict[str, CtlClient] = {}
        self._stopping: set[str] = set()

    def arguments(self, switch: SwitchPlan) -> SwitchArgs:
        """The command line of a switch."""
        argv = [
            *common_arguments(switch),
            *target_arguments(switch),
            "--name",
            switch.name,
            "--ctl",
            str(self._sockets / f"{switch.name}.sock"),
            "--role",
            SHELL_ROLE,
            "--seed",
            str((self._seed * 1000 + switch.device_id) % 2**64),
            "--log-file",
            str(self._logs / f"{switch.name}.log"),
        ]
        return SwitchArgs(switch.name, tuple(argv))

    def start(self, plan: Plan) -> Mapping[str, SwitchHandle]:
        self._launch([plan.switches[name] for name in plan.switches])
        return dict(self._handles)

    def start_switch(self, plan: Plan, switch: SwitchPlan) -> SwitchHandle:
        if switch.name in self._handles:
            return self._handles[switch.name]
        self._launch([switch])
        return self._handles[switch.name]

    def _launch(self, switches: list[SwitchPlan]) -> None:
        for directory in (self._logs, self._sockets):
            directory.mkdir(parents=True, exist_ok=True)
        farm = SwitchFarm(self._exited)
        try:
            started = farm.start([self.arguments(s) for s in switches], START_SECONDS)
        except SpawnError as error:
            raise SwitchError(str(error)) from None
        self._farms.append(farm)
        try:
            for switch in switches:
                process = started[switch.name]
                ctl = CtlClient(process.ctl or "")
                self._handles[switch.name] = SwitchHandle(
                    switch.name, switch.device_id, process.pid, process.addr, process.ctl
                )
                self._ctl[switch.name] = ctl
                self._stopping.discard(switch.name)
                apply_settings(switch, ctl)
        except BaseException:
            self.stop()
            raise

    def _exited(self, name: str, status: int) -> None:
        if name not in self._stopping and self._on_exit is not None:
            self._on_exit(name, status)

    def stop_switch(self, name: str) -> None:
        handle = self._handles.pop(name, None)
        if handle is None:
            return
        self._stopping.add(name)
        self._ctl.pop(name).close()
        if not kill(handle.pid, STOP_SECONDS):
            raise SwitchError(f"{name}: process {handle.pid} does not end")

    def ctl(self) -> Mapping[str, SideChannel]:
        return self._ctl

    def stop(self) -> None:
        self._stopping.update(self._handles)
        for ctl in self._ctl.values():
            ctl.close()
        for farm in self._farms:
            farm.stop(STOP_SECONDS)
        self._farms.clear()
        self._handles.clear()
        self._ctl.clear()


def kill(pid: int, seconds: float) -> bool:
    """End a process that another one started; False when it is still there after so long."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, signal.SIGKILL)
        ended = select.poll()
        ended.register(process, select.POLLIN)
        return bool(ended.poll(seconds * 1000))
    finally:
        os.close(process)
