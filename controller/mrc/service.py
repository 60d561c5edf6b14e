"""The MRC controller as a process: the agents' sockets on one side, `./lab ctl` on the other."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from controller.mrc.core import MrcController
from controller.mrc.desk import Desk
from controller.mrc.talk import run
from hosts.agent.client import AgentClient, AgentError
from hosts.agent.clock import Poller, now_ns
from hosts.agent.control import ControlServer
from topologies.plan import Plan

Json = dict[str, Any]
REPLY_SECONDS = 3.0
"""An agent that takes longer counts as silent, and is tried again at the next poll."""
WRITE_RETRY_NS = 5_000_000


class Service:
    """Runs until `stop` is asked for or the process is ended."""

    def __init__(
        self, plan: Plan, agents: Mapping[str, Path], socket: Path, events: Path | None
    ) -> None:
        """`agents`: control socket by host. Raises ControlError when `socket` can't be had."""
        self._paths = agents
        self._clients: dict[str, AgentClient] = {}
        self._events = events.open("a", encoding="utf-8") if events is not None else None
        self._mrc = MrcController(plan, emit=self._emit)
        self._desk = Desk(self._mrc)
        self._poller = Poller()
        self._running = True
        self._server = ControlServer(
            socket, self._handle, added=self._poller.add, removed=self._poller.remove
        )

    def loop(self) -> None:
        """Poll the hosts, serve requests."""
        run(self._mrc.start(now_ns()), self._call)
        due = now_ns()
        try:
            while self._running:
                if now_ns() >= due:
                    run(self._mrc.poll(now_ns()), self._call)
                    # A late poll is not made up for: the next one sees what it missed.
                    due = max(due + self._mrc.timing.poll, now_ns())
                until = min(due, now_ns() + WRITE_RETRY_NS) if self._server.waiting else due
                for fd in self._poller.wait(until):
                    if self._server.owns(fd):
                        self._server.readable(fd)
                if self._server.waiting:
                    self._server.flush()
        finally:
            self._close()

    def _handle(self, request: Json) -> Json:
        if request.get("op") == "stop":
            self._running = False
            return {"ok": True}
        try:
            return run(self._desk.serve(request, now_ns()), self._call)
        except Exception as error:  # a fault of ours must not end the controller
            traceback.print_exception(error, file=sys.stderr)
            return {"ok": False, "error": f"internal error: {error!r}"}

    def _call(self, host: str, request: Json) -> Json | None:
        """An agent's reply (with ok false when it refused); None when it does not answer."""
        fields = {key: value for key, value in request.items() if key != "op"}
        try:
            client = self._clients.get(host)
            if client is None:
                client = self._clients[host] = AgentClient(self._paths[host], REPLY_SECONDS)
            return {"ok": True, **client.call(str(request.get("op")), **fields)}
        except AgentError as error:
            if client is None or not client.is_open:
                self._clients.pop(host, None)
                return None
            return {"ok": False, "error": str(error)}

    def _emit(self, t: int, event: Json) -> None:
        if self._events is not None:
            self._events.write(json.dumps({"t": t, "src": "mrc", **event}) + "\n")
            self._events.flush()

    def _close(self) -> None:
        run(self._mrc.stop(), self._call)
        self._server.close()
        for client in self._clients.values():
            client.close()
        if self._events is not None:
            self._events.close()
