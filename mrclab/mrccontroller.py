"""The MRC controller of a running fabric, as a process beside the host agents."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from hosts.agent.client import AgentClient
from mrclab import ROOT
from mrclab.errors import UserError
from mrclab.hostagents import how_ended
from topologies.plan import Plan

SOCKET = "mrc.sock"
EVENTS = "mrc.events.jsonl"
STOP_SECONDS = 5.0


class MrcControllerProcess:
    """Started in the lab's own namespaces; ends with the lab."""

    def __init__(
        self,
        plan: Plan,
        agents: Mapping[str, str],
        socket_dir: Path,
        run_dir: Path,
        on_exit: Callable[[str], None] = lambda _what: None,
    ) -> None:
        """`agents`: control socket by host. `on_exit`: told, from another thread, when it ended
        by itself, and how. Raises UserError when it does not start."""
        self._on_exit = on_exit
        self._stopping = False
        self.socket = socket_dir / SOCKET
        self.events = run_dir / "agents" / EVENTS
        config = run_dir / "agents" / "mrc.json"
        config.write_text(
            json.dumps(
                {
                    "spec": plan.spec.model_dump(mode="json", by_alias=True),
                    "agents": dict(agents),
                    "socket": str(self.socket),
                    "events": str(self.events),
                }
            )
        )
        self.events.touch()
        self._log = (run_dir / "agents" / "mrc.log").open("w+b")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "controller.mrc", str(config)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,  # Ctrl-C is for the prompt
        )
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            self._process.wait()
            self._log.seek(0)
            said = self._log.read().decode(errors="replace").strip().splitlines()
            self.stop()
            raise UserError(f"the MRC controller did not start: {said[-1] if said else '?'}")
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        status = self._process.wait()
        if not self._stopping:
            self._on_exit(f"the MRC controller {how_ended(status)} (log: {self._log.name})")

    def set_probing(self, on: bool) -> None:
        """Let the loop probes run or not. Raises AgentError when the controller is gone."""
        with AgentClient(self.socket) as client:
            client.call("resume" if on else "pause")

    def stop(self) -> None:
        """End it, so that its events file is whole. Idempotent."""
        self._stopping = True
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._log.close()
