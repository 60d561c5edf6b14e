"""The MRC controller in virtual time: the same core, asked and answered without sockets.

Its own thinking takes no time, and its requests reach the hosts at once; on a real machine both
cost a millisecond or so between two polls.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from controller.mrc.core import MrcController
from controller.mrc.talk import run
from hosts.agent.client import AgentError
from topologies.plan import Plan

Json = dict[str, Any]


class Agent(Protocol):
    """What answers for a host."""

    def call(self, op: str, *, timeout: float | None = None, **fields: Any) -> Json: ...


class VirtualController:
    """Polls when it is due; what happens goes to the events file as from the real one."""

    def __init__(self, plan: Plan, agents: Mapping[str, Agent], events: Path, now: int) -> None:
        self._agents = agents
        self._file = events.open("w", encoding="utf-8")
        self.mrc = MrcController(plan, emit=self._emit)
        run(self.mrc.start(now), self._call)
        self.due = now + self.mrc.timing.poll

    def poll(self, now: int) -> None:
        """Read what is new and judge."""
        run(self.mrc.poll(now), self._call)
        self.due = now + self.mrc.timing.poll

    def set_probing(self, on: bool) -> None:
        """Let the loop probes run or not."""
        run(self.mrc.resume() if on else self.mrc.pause(), self._call)

    def close(self) -> None:
        self._file.close()

    def _call(self, host: str, request: Json) -> Json | None:
        fields = {key: value for key, value in request.items() if key != "op"}
        try:
            return {"ok": True, **self._agents[host].call(str(request["op"]), **fields)}
        except AgentError as error:
            return {"ok": False, "error": str(error)}

    def _emit(self, t: int, event: Json) -> None:
        self._file.write(json.dumps({"t": t, "src": "mrc", **event}) + "\n")
        self._file.flush()
