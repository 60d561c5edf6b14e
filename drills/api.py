"""What a drill needs of a running lab. The testbed fits these protocols; nothing inherits.

All calls block, with their own time-outs, and raise on failure. Values are JSON-like.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

Json = dict[str, Any]


class Agent(Protocol):
    """The control socket of one host agent (`hosts.agent.client.AgentClient`)."""

    @property
    def path(self) -> str:
        """The socket."""
        ...

    def call(self, op: str, *, timeout: float | None = None, **fields: Any) -> Json:
        """One request, one reply; raises when the reply is not ok."""
        ...


class Ctl(Protocol):
    """The side channel of one switch (`softswitch.ctl.CtlClient`)."""

    def stats(self, reset_max: bool = False) -> Json:
        """{"now": ns, "ports": {"1": {PortStats fields}}, "fidelity": {...}}."""
        ...

    def counters(self, names: Sequence[str]) -> Json:
        """{name: {"packets": [...], "bytes": [...]}}."""
        ...


class Links(Protocol):
    """Faults on links by name (`topologies.links.LinkControl`). Each call sets the whole
    wanted state of the link and reads it back on both ends before it returns."""

    def cut(self, link: str) -> Any: ...
    def repair(self, link: str) -> Any: ...
    def impair(
        self, link: str, *, loss: float = 0.0, corrupt: float = 0.0, blackhole: bool = False
    ) -> Any: ...
    def state(self, link: str) -> Any:
        """`LinkState`: up, down, impaired_up, impaired_down."""
        ...

    def stats(self) -> Mapping[str, Any]:
        """Link -> kernel counters of both ends, `EndStats`."""
        ...


class Testbed(Protocol):
    """A running fabric (`mrclab.testbed.Testbed`)."""

    @property
    def plan(self) -> Any:
        """`topologies.plan.Plan`."""
        ...

    @property
    def agents(self) -> Mapping[str, Agent]: ...
    @property
    def ctl(self) -> Mapping[str, Ctl]: ...
    @property
    def links(self) -> Links: ...
    @property
    def run_dir(self) -> Path: ...
    @property
    def versions(self) -> Mapping[str, Any]: ...
    @property
    def failover_groups(self) -> bool: ...

    def set_probing(self, on: bool) -> None:
        """Let the MRC controller's loop probes run or not, where there is one. They must not
        while packets are counted."""
        ...

    @property
    def event_files(self) -> Mapping[str, Path]:
        """Host -> the JSON-lines file that its agent appends events to."""
        ...
