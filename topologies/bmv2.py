"""A fabric on bmv2: simple_switch_grpc from the PATH, one process per switch.

Queues get rate, depth and priorities through its Thrift service. bmv2 paces each priority on
its own, in packets per second; links have no delay and cannot be impaired.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from softswitch.bmv2.client import Bmv2Error, Client
from topologies.bmv2ctl import Bmv2Ctl, Kernel
from topologies.plan import CONTROL_PRIORITY, DATA_PRIORITY, Plan, SwitchPlan
from topologies.switches import (
    START_SECONDS,
    STOP_SECONDS,
    OnExit,
    SideChannel,
    SwitchError,
    SwitchHandle,
    common_arguments,
    grpc_address,
    target_arguments,
)

BMV2 = "simple_switch_grpc"
FIRST_THRIFT_PORT = 20_001
CONTROL_FRAME_BYTES = 128
"""Size that the rate of the control queue counts with: SACKs, probes, trimmed packets."""
CONTROL_SHARE = 4
"""The control queue gets a quarter of the link for itself: priorities share no rate here."""


def version() -> str:
    """bmv2's version as it gives it, or a word when it does not."""
    try:
        done = subprocess.run(
            [BMV2, "--version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return (done.stdout or done.stderr).strip().partition("\n")[0][:40] or "unknown"


def thrift_port(switch: SwitchPlan) -> int:
    """Where the Thrift server of a switch listens."""
    return FIRST_THRIFT_PORT + switch.device_id - 1


def bmv2_arguments(switch: SwitchPlan, logs: Path) -> list[str]:
    """The command line of simple_switch_grpc for a switch."""
    return [
        BMV2,
        *common_arguments(switch),
        "--thrift-port",
        str(thrift_port(switch)),
        "--notifications-addr",
        f"ipc://{logs}/{switch.name}.ipc",
        "--log-file",
        str(logs / switch.name),
        "--log-level",
        "warn",
        "--",
        *target_arguments(switch),
    ]


def queue_settings(switch: SwitchPlan, frame_bytes: int) -> list[tuple[int, int, int, int]]:
    """(port, priority, depth in packets, rate in packets per second) of every queue.

    `frame_bytes`: size of a full data frame, which the data queue's rate counts with.
    """
    settings = []
    for number, port in sorted(switch.ports.items()):
        data, control = port.config.queue_limits
        rate = port.config.rate_bps
        settings += [
            (number, DATA_PRIORITY, data, max(1, rate // (8 * frame_bytes))),
            (
                number,
                CONTROL_PRIORITY,
                control,
                max(1, rate // CONTROL_SHARE // (8 * CONTROL_FRAME_BYTES)),
            ),
        ]
    return settings


class Bmv2Backend:
    """simple_switch_grpc from the PATH. Links have no delay and can't be impaired."""

    name = "bmv2"

    def __init__(self, run_dir: Path, *, on_exit: OnExit | None = None) -> None:
        self._logs = run_dir
        self._on_exit = on_exit
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._ctl: dict[str, Bmv2Ctl] = {}
        self._kernel: Kernel | None = None
        self._stopping: set[str] = set()

    def start(self, plan: Plan) -> Mapping[str, SwitchHandle]:
        if shutil.which(BMV2) is None:
            raise SwitchError(f"{BMV2} is not on the PATH; use --switch builtin")
        self._logs.mkdir(parents=True, exist_ok=True)
        self._kernel = Kernel()
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
                bmv2_arguments(switch, self._logs),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the prompt, or the drill
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
            self._await_listening(switch.name, address, process, deadline)
        try:
            client = Client(thrift_port(switch))
            for port, priority, depth, rate in queue_settings(switch, plan.spec.data_frame_bytes):
                client.call("set_egress_priority_queue_depth", port, priority, depth)
                client.call("set_egress_priority_queue_rate", port, priority, rate)
        except Bmv2Error as error:
            raise SwitchError(f"{switch.name}: {error}") from None
        if self._kernel is None:
            raise SwitchError(f"{switch.name}: the fabric was not started")
        slowest = min(rate for *_, rate in queue_settings(switch, plan.spec.data_frame_bytes))
        self._ctl[switch.name] = Bmv2Ctl(
            switch, client, process.pid, self._kernel, packet_ns=1_000_000_000 // slowest
        )
        return SwitchHandle(switch.name, switch.device_id, process.pid, grpc_address(switch), None)

    def _await_listening(
        self, name: str, address: str, process: subprocess.Popen[bytes], deadline: float
    ) -> None:
        host, _, port = address.rpartition(":")
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 1):
                return
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = process.wait(0.02)
                text = (self._logs / f"{name}.out").read_text(errors="replace")
                last = " ".join(text.split())[-160:]
                raise SwitchError(f"{name}: {BMV2} ended with status {status}: {last}")
        raise SwitchError(f"{name}: does not listen on {address} after {START_SECONDS:g} s")

    def stop_switch(self, name: str) -> None:
        ctl = self._ctl.pop(name, None)
        if ctl is not None:
            ctl.close()
        process = self._processes.pop(name, None)
        if process is not None:
            self._stopping.add(name)
            process.kill()
            process.wait(STOP_SECONDS)

    def ctl(self) -> Mapping[str, SideChannel]:
        return self._ctl

    def stop(self) -> None:
        self._stopping.update(self._processes)
        for ctl in self._ctl.values():
            ctl.close()
        self._ctl.clear()
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()
        if self._kernel is not None:
            self._kernel.close()
            self._kernel = None
