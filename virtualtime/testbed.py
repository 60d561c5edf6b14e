"""A testbed in virtual time: what a drill needs of a running lab, in this process, as any user.

The drill's runner, judge, ledger and report work on it as on `mrclab.testbed.Testbed`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from drills.waiting import POLL_NS, ConditionTimeout
from hosts.agent.client import AgentError
from hosts.agent.planned import Transport, agent_config
from hosts.agent.settings import SAMPLE_INTERVAL_NS
from hosts.compiled import compiled_note
from mrclab.program import compiled
from mrclab.progress import Steps
from topologies.plan import Plan
from virtualtime.controller import VirtualController
from virtualtime.fabric import VirtualCtl, VirtualFabric
from virtualtime.host import virtual_config
from virtualtime.links import VirtualLinks
from virtualtime.shard import HostSpec, LocalShard, Shard
from virtualtime.workers import ForkedShard
from virtualtime.world import World

Json = dict[str, Any]
PATIENCE_S = 10.0
"""How long an operation may take in lab time, as the client of a real agent waits."""
START_NS = 1_000_000_000
"""Virtual time begins here, so that no time is 0 or negative."""


class VirtualAgent:
    """The control socket of a host (`drills.api.Agent`), without a socket."""

    def __init__(self, world: World, group: int, host: str, tempo: int) -> None:
        self._world = world
        self._group = group
        self._host = host
        self._tempo = tempo

    @property
    def path(self) -> str:
        """No socket, but a name for messages."""
        return f"virtual:{self._host}"

    def call(self, op: str, *, timeout: float | None = None, **fields: Any) -> Json:
        """One operation; `timeout` in seconds of lab time. Raises AgentError."""
        request = {"op": op, **{k: v for k, v in fields.items() if v is not None}}
        limit = PATIENCE_S if timeout is None else timeout
        reply = self._world.call(self._group, self._host, request, int(limit * 1e9) // self._tempo)
        if reply is None:
            raise AgentError(f"{self.path}: {op}: no reply within {limit} s")
        reply = dict(reply)
        if not reply.pop("ok", False):
            raise AgentError(f"{self.path}: {reply.get('error', 'refused without reason')}")
        return reply

    def reopen(self) -> VirtualAgent:
        """A fresh connection: the same one, no late reply can come on it."""
        return self


class VirtualWaiter:
    """Waiting is moving the clock (`drills.waiting.Waiter`). Time-outs are given in lab time."""

    def __init__(
        self, world: World, tempo: int, controller: VirtualController | None = None
    ) -> None:
        self._world = world
        self._tempo = tempo
        self._controller = controller

    def now(self) -> int:
        """Nanoseconds, the clock of all events."""
        return self._world.now

    def until(self, deadline: int) -> None:
        """Return at `deadline`. The MRC controller polls on the way."""
        controller = self._controller
        while controller is not None and controller.due <= deadline:
            self._world.run(max(controller.due, self._world.now))
            controller.poll(self._world.now)
        if deadline > self._world.now or controller is None:
            self._world.run(deadline)

    def for_condition(
        self, name: str, holds: Callable[[], bool], timeout_ns: int, every_ns: int = POLL_NS
    ) -> None:
        """Return once `holds()`; raises ConditionTimeout with `name` after the time-out."""
        end = self.now() + timeout_ns // self._tempo
        while not holds():
            if self.now() >= end:
                raise ConditionTimeout(f"{name}: not within {timeout_ns / 1e9:g} s of lab time")
            self.until(min(end, self.now() + max(1, every_ns // self._tempo)))

    def close(self) -> None:
        """Nothing to close."""


class VirtualTestbed:
    """A fabric with its hosts in virtual time; a context manager."""

    switch = "builtin"
    virtual = True

    def __init__(
        self,
        plan: Plan,
        *,
        tempo: int = 1,
        run_id: str,
        run_dir: Path,
        seed: int,
        failover_groups: bool = False,
        faults: Sequence[str] = (),
        versions: Mapping[str, Any] | None = None,
        steps: Steps | None = None,
        workers: int = 1,
        samples: bool = True,
        mrc: bool = False,
        transport: Callable[[str], Transport] | None = None,
    ) -> None:
        """`tempo`: how much faster than lab figures this plan is (virtualtime.profile).
        `workers`: processes that share the hosts; the outcome does not depend on it.
        `mrc`: run the MRC controller too. `transport`: a drill's choices, by host."""
        self.plan = plan
        self.tempo = tempo
        self.run_id = run_id
        self.run_dir = run_dir
        self.seed = seed
        self.failover_groups = failover_groups
        self.versions = dict(versions or {})
        self.event_files: dict[str, Path] = {}
        self.agents: dict[str, VirtualAgent] = {}
        self._faults = tuple(faults)
        self._steps = steps or Steps(quiet=True)
        self._workers = max(1, min(workers, len(plan.hosts)))
        self._samples = samples
        self._mrc = mrc
        self._transport = transport
        self._controller: VirtualController | None = None
        self._stack = contextlib.ExitStack()

    @property
    def ctl(self) -> Mapping[str, VirtualCtl]:
        return self.world.fabric.ctl

    def set_probing(self, on: bool) -> None:
        """Let the MRC controller's loop probes run or not."""
        if self._controller is not None:
            self._controller.set_probing(on)

    @property
    def worker_pids(self) -> list[int]:
        """Of the processes that have hosts, when there are more than this one."""
        return [shard.pid for shard in self.world.shards if isinstance(shard, ForkedShard)]

    def waiter(self) -> VirtualWaiter:
        """What the runner waits with."""
        return VirtualWaiter(self.world, self.tempo, self._controller)

    # -- coming up and going down

    def __enter__(self) -> VirtualTestbed:
        with self._stack:
            self._up()
            self._stack = self._stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def _up(self) -> None:
        plan = self.plan
        counts = f"{len(plan.hosts)} hosts, {len(plan.switches)} switches"
        with self._steps.step("compile the pipeline"):
            program, p4info = compiled()
        note = compiled_note()
        with self._steps.step(f"build {plan.spec.name} in virtual time: {counts}{note}"):
            hosts = list(plan.hosts)
            groups = {name: i * self._workers // len(hosts) for i, name in enumerate(hosts)}
            fabric = VirtualFabric(
                plan,
                program,
                p4info,
                seed=self.seed,
                failover_groups=self.failover_groups,
                groups=groups,
                clock=lambda: self.world.now,
            )
            specs = self._host_specs(fabric, groups)
        # Outside of the step: it may draw in a thread, and a fork must find none.
        shards: list[Shard] = (
            [LocalShard(specs[0], START_NS)]
            if self._workers == 1
            else [ForkedShard(part, START_NS) for part in specs]
        )
        self.world = World(fabric, shards, START_NS)
        self._stack.callback(self.world.close)
        self.agents = {
            name: VirtualAgent(self.world, groups[name], name, self.tempo) for name in hosts
        }
        self.links = VirtualLinks(
            plan, self.world, lambda host: self.agents[host].call("stats")["nics"]
        )
        if self._mrc:
            self.event_files["mrc"] = self.run_dir / "agents" / "mrc.events.jsonl"
            self._controller = VirtualController(
                plan, self.agents, self.event_files["mrc"], self.world.now
            )
            self._stack.callback(self._controller.close)

    def _host_specs(self, fabric: VirtualFabric, groups: Mapping[str, int]) -> list[list[HostSpec]]:
        """By group."""
        folder = self.run_dir / "agents"
        folder.mkdir(parents=True, exist_ok=True)
        specs: list[list[HostSpec]] = [[] for _ in range(self._workers)]
        for name in self.plan.hosts:
            config = agent_config(
                self.plan,
                name,
                seed=self.seed,
                faults=self._faults,
                transport=self._transport(name) if self._transport is not None else None,
                late_hosts=False,
            )
            self.event_files[name] = folder / f"{name}.events.jsonl"
            specs[groups[name]].append(
                HostSpec(
                    name,
                    virtual_config(config, self.tempo, SAMPLE_INTERVAL_NS),
                    fabric.nics[name],
                    self.event_files[name] if self._samples else None,
                    self._samples,
                )
            )
        return specs
