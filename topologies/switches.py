"""Starting the switch processes of a fabric: this repository's switch, or bmv2.

A backend starts one process per switch of a plan, on interfaces that exist already, without a
program (P4Runtime pushes it), gives every port the settings of the plan and says where each
switch listens. All sockets are on loopback of the namespace the lab runs in.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from softswitch.ctl import CtlClient, CtlError
from softswitch.spawn import SpawnError, SwitchArgs, SwitchFarm
from topologies.plan import CONTROL_PRIORITY, DATA_PRIORITY, Plan, SwitchPlan

CPU_PORT = 510
DROP_PORT = 511
PRIORITY_QUEUES = 2
FIRST_GRPC_PORT = 9559
FIRST_THRIFT_PORT = 20_001
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
    """Path of its side channel; None when it has none."""


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

    def ctl(self) -> Mapping[str, CtlClient]:
        """Side channels by switch; empty when this kind has none."""
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
        if not _kill(handle.pid, STOP_SECONDS):
            raise SwitchError(f"{name}: process {handle.pid} does not end")

    def ctl(self) -> Mapping[str, CtlClient]:
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


BMV2 = "simple_switch_grpc"
BMV2_CLI = "simple_switch_CLI"


def bmv2_arguments(switch: SwitchPlan, log: Path) -> list[str]:
    """The command line of simple_switch_grpc for a switch."""
    return [
        BMV2,
        *common_arguments(switch),
        "--thrift-port",
        str(thrift_port(switch)),
        "--log-file",
        str(log),
        "--log-level",
        "warn",
        "--",
        *target_arguments(switch),
    ]


def thrift_port(switch: SwitchPlan) -> int:
    """Where bmv2's Thrift server of a switch listens."""
    return FIRST_THRIFT_PORT + switch.device_id - 1


def bmv2_commands(switch: SwitchPlan, frame_bytes: int) -> list[str]:
    """Queue settings for simple_switch_CLI.

    bmv2 paces each priority on its own in packets per second; the control queue gets a
    quarter of the link in packets of 128 bytes. It has no delay, loss or shared rate.
    """
    commands = []
    for number, port in sorted(switch.ports.items()):
        data, control = port.config.queue_limits
        rate = port.config.rate_bps
        commands += [
            f"set_queue_depth {data} {number} {DATA_PRIORITY}",
            f"set_queue_depth {control} {number} {CONTROL_PRIORITY}",
            f"set_queue_rate {max(1, rate // (8 * frame_bytes))} {number} {DATA_PRIORITY}",
            f"set_queue_rate {max(1, rate // 4 // (8 * 128))} {number} {CONTROL_PRIORITY}",
        ]
    return commands


class Bmv2Backend:
    """simple_switch_grpc from the PATH. Links have no delay and can't be impaired."""

    name = "bmv2"

    def __init__(self, run_dir: Path, *, on_exit: OnExit | None = None) -> None:
        self._logs = run_dir
        self._on_exit = on_exit
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._stopping: set[str] = set()

    def start(self, plan: Plan) -> Mapping[str, SwitchHandle]:
        for tool in (BMV2, BMV2_CLI):
            if shutil.which(tool) is None:
                raise SwitchError(f"{tool} is not on the PATH; use --switch builtin")
        self._logs.mkdir(parents=True, exist_ok=True)
        try:
            for switch in plan.switches.values():
                self._spawn(switch)
            return {s.name: self._ready(plan, s) for s in plan.switches.values()}
        except BaseException:
            self.stop()
            raise

    def start_switch(self, plan: Plan, switch: SwitchPlan) -> SwitchHandle:
        if switch.name not in self._processes:
            self._spawn(switch)
        return self._ready(plan, switch)

    def _spawn(self, switch: SwitchPlan) -> None:
        with (self._logs / f"{switch.name}.out").open("wb") as out:
            process = subprocess.Popen(
                bmv2_arguments(switch, self._logs / switch.name),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        self._processes[switch.name] = process
        self._stopping.discard(switch.name)
        threading.Thread(target=self._watch, args=(switch.name, process), daemon=True).start()

    def _watch(self, name: str, process: subprocess.Popen[bytes]) -> None:
        status = process.wait()
        if name not in self._stopping and self._on_exit is not None:
            self._on_exit(name, status)

    def _ready(self, plan: Plan, switch: SwitchPlan) -> SwitchHandle:
        process = self._processes[switch.name]
        deadline = time.monotonic() + START_SECONDS
        for address in (grpc_address(switch), f"127.0.0.1:{thrift_port(switch)}"):
            _await_listening(switch.name, address, process, deadline)
        commands = "\n".join(bmv2_commands(switch, plan.spec.data_frame_bytes)) + "\n"
        ran = subprocess.run(
            [BMV2_CLI, "--thrift-port", str(thrift_port(switch))],
            input=commands,
            capture_output=True,
            text=True,
            timeout=START_SECONDS,
            check=False,
        )
        if ran.returncode != 0 or "Error" in ran.stdout + ran.stderr:
            last = " ".join((ran.stderr or ran.stdout).split())[-160:]
            raise SwitchError(f"{switch.name}: {BMV2_CLI} failed: {last}")
        return SwitchHandle(switch.name, switch.device_id, process.pid, grpc_address(switch), None)

    def stop_switch(self, name: str) -> None:
        process = self._processes.pop(name, None)
        if process is not None:
            self._stopping.add(name)
            process.kill()
            process.wait(STOP_SECONDS)

    def ctl(self) -> Mapping[str, Any]:
        return {}

    def stop(self) -> None:
        self._stopping.update(self._processes)
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()


def _kill(pid: int, seconds: float) -> bool:
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


def _await_listening(
    name: str, address: str, process: subprocess.Popen[bytes], deadline: float
) -> None:
    host, _, port = address.rpartition(":")
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 1):
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = process.wait(0.02)
            raise SwitchError(f"{name}: {BMV2} ended with status {status}")
    raise SwitchError(f"{name}: does not listen on {address} after {START_SECONDS:g} s")
