"""The MRC host agents of a running fabric: one process per host, in the host's namespaces."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from hosts.agent.client import AgentClient, AgentError
from hosts.agent.planned import Transport, agent_config
from mrclab import ROOT
from mrclab.errors import UserError
from topologies.plan import HostPlan, Plan

READY_SECONDS = 30.0
ENDED_SECONDS = 1.0
"""How long an agent whose socket broke may take to be seen as ended."""


def how_ended(status: int) -> str:
    """`ended by SIGKILL`, `ended with status 1`."""
    if status < 0:
        return f"ended by {signal.Signals(-status).name}"
    return f"ended with status {status}"


def describe_end(name: str, process: subprocess.Popen[str]) -> str | None:
    """`the agent of h0 ended by SIGKILL`, or None when it still runs."""
    try:
        status = process.wait(ENDED_SECONDS)
    except subprocess.TimeoutExpired:
        return None
    return f"the agent of {name} {how_ended(status)}"


class HostAgents:
    """Starts, connects to and ends the agents."""

    def __init__(
        self,
        plan: Plan,
        pids: Mapping[str, int],
        socket_dir: Path,
        run_dir: Path,
        *,
        rx_delay_ns: int = 0,
        transport: Callable[[str], Transport] | None = None,
        visible: bool = False,
        on_exit: Callable[[str], None] = lambda _what: None,
    ) -> None:
        """`pids`: a process in each host's namespaces, by host name. `rx_delay_ns`: how long
        hosts hold what arrives, in place of a propagation delay that the switches lack.
        `transport`: a drill's choices by host. `visible`: captures see what hosts send.
        `on_exit`: told, from another thread, which agent ended by itself, and how."""
        self._on_exit = on_exit
        self._stopping = False
        self._rx_delay_ns = rx_delay_ns
        self._transport = transport
        self._visible = visible
        self._plan = plan
        self._pids = pids
        self._sockets = socket_dir
        self._run_dir = run_dir
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self.clients: dict[str, AgentClient] = {}
        self.event_files: dict[str, Path] = {}

    def start(self, seed: int, faults: Sequence[str] = ()) -> None:
        """Start all agents at once and wait until each listens. Raises UserError."""
        folder = self._run_dir / "agents"
        folder.mkdir(exist_ok=True)
        for host in self._plan.hosts.values():
            config = folder / f"{host.name}.json"
            values = agent_config(
                self._plan,
                host.name,
                seed=seed,
                faults=faults,
                rx_delay_ns=self._rx_delay_ns,
                transport=self._transport(host.name) if self._transport is not None else None,
            )
            values["visible"] = self._visible
            config.write_text(json.dumps(values, indent=2))
            self.event_files[host.name] = folder / f"{host.name}.events.jsonl"
            self._processes[host.name] = self._spawn(host, config)
        for name, process in self._processes.items():
            if process.stdout is None:
                raise AssertionError("stdout is a pipe")
            ready = self._first_line(process.stdout)
            if not ready:
                why = process.stderr.read().strip() if process.stderr else ""
                raise UserError(f"the agent of {name} did not start: {why or 'no message'}")
            try:
                self.clients[name] = AgentClient(
                    self._sockets / f"{name}.sock",
                    why_gone=functools.partial(describe_end, name, process),
                )
            except AgentError as error:
                raise UserError(str(error)) from None
            watch = threading.Thread(target=self._watch, args=(name, process), daemon=True)
            watch.start()

    def _watch(self, name: str, process: subprocess.Popen[str]) -> None:
        status = process.wait()
        if self._stopping:
            return
        said = process.stderr.read().strip().splitlines() if process.stderr is not None else []
        last = f": {said[-1]}" if said else ""
        self._on_exit(f"the agent of {name} {how_ended(status)}{last}")

    def _spawn(self, host: HostPlan, config: Path) -> subprocess.Popen[str]:
        # One process per namespace, entered before anything is imported.
        command = ["mnexec", "-a", str(self._pids[host.name])]
        command += [sys.executable, "-m", "hosts.agent", "--name", host.name]
        command += ["--config", str(config), "--socket", str(self._sockets / f"{host.name}.sock")]
        command += ["--events", str(self.event_files[host.name])]
        return subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for the prompt, or the drill
        )

    def _first_line(self, stream: IO[str]) -> str:
        return stream.readline()

    def stop(self) -> None:
        """End all agents, so that their event files are whole. Idempotent."""
        self._stopping = True
        for client in self.clients.values():
            client.close()
        self.clients.clear()
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            try:
                process.communicate(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
        self._processes.clear()
