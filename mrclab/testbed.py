"""A running lab: network, switches, host agents and controller, in the order they depend.

It runs inside the lab's namespaces (mrclab/namespace.py). What `./lab ps`, `exec` and
`shell` need to know is in lab.json on the lab's private tmpfs.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Any

from controller.errors import ControllerError, SelfTestError
from controller.fabric import FabricController
from controller.selftest import Report, SelfTest
from hosts.agent.client import AgentClient
from hosts.agent.planned import Transport
from hosts.compiled import compiled_note
from mrclab import ROOT
from mrclab.doctor import git_version
from mrclab.errors import LabVoid, UserError
from mrclab.hostagents import HostAgents
from mrclab.hostnames import give_names
from mrclab.memory import available_memory
from mrclab.mrccontroller import MrcControllerProcess
from mrclab.namespace import STATE_DIR
from mrclab.program import compiled
from mrclab.progress import Steps
from softswitch.ctl import CtlClient
from topologies.bmv2 import Bmv2Backend
from topologies.bmv2 import version as bmv2_version
from topologies.builder import BuildError, build
from topologies.links import LinkControl
from topologies.machine import fits
from topologies.plan import Plan
from topologies.switches import Backend, BuiltinBackend, SideChannel

BMV2_SELF_TESTS = 3
"""How often the self-test is tried on bmv2."""


def machine_versions(switch: str) -> dict[str, str]:
    """Versions that a result depends on, for the report."""
    names = ("mininet", "p4runtime-shell", "scapy", "grpcio", "protobuf")
    return {
        "mrclab": git_version(ROOT),
        "kernel": os.uname().release,
        "python": ".".join(map(str, sys.version_info[:3])),
        "switch": switch,
        **({"bmv2": bmv2_version()} if switch == "bmv2" else {}),
        **{name: metadata.version(name) for name in names},
    }


class Testbed:
    """A running lab; a context manager that brings it up and ends it.

    Raises UserError from `__enter__` with one line when something does not come up.
    """

    __test__ = False  # not a test class, whatever pytest thinks of the name

    def __init__(
        self,
        plan: Plan,
        *,
        run_id: str,
        run_dir: Path,
        seed: int,
        switch: str = "builtin",
        failover_groups: bool = False,
        faults: Sequence[str] = (),
        self_test: bool = True,
        mrc: bool = False,
        transport: Callable[[str], Transport] | None = None,
        visible: bool = False,
        steps: Steps | None = None,
        command: str = "",
    ) -> None:
        """`faults`: ways to break the endpoint on purpose (hosts/core/faults.py). `mrc`: run the
        MRC controller too. `transport`: a drill's choices of the endpoints, by host.
        `visible`: captures at the hosts see what they send."""
        self.plan = plan
        self.run_id = run_id
        self.run_dir = run_dir
        self.seed = seed
        self.switch = switch
        self.failover_groups = failover_groups
        self.versions = machine_versions(switch)
        self.steps = steps or Steps(quiet=True)
        self.self_test_report: Report | None = None
        self._faults = tuple(faults)
        self._self_test = self_test
        self._mrc = mrc
        self._transport = transport
        self._visible = visible
        self._mrc_controller: MrcControllerProcess | None = None
        self._command = command
        self._stack = contextlib.ExitStack()
        self.lost: list[str] = []
        """Parts of the lab that ended by themselves, in words."""
        self._losing = threading.Lock()
        self._up_and_known = False

    # -- what a drill uses (drills/api.py)

    @property
    def agents(self) -> Mapping[str, AgentClient]:
        return self._agents.clients

    @property
    def ctl(self) -> Mapping[str, SideChannel]:
        return self.fabric.ctl

    @property
    def links(self) -> LinkControl:
        return self.fabric.links

    @property
    def event_files(self) -> Mapping[str, Path]:
        files = dict(self._agents.event_files)
        if self._mrc_controller is not None:
            files["mrc"] = self._mrc_controller.events
        return files

    def set_probing(self, on: bool) -> None:
        """Let the MRC controller's loop probes run or not, where there is one."""
        if self._mrc_controller is not None:
            self._mrc_controller.set_probing(on)

    # -- coming up and going down

    def __enter__(self) -> Testbed:
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
        problem = fits(self.plan.spec, len(os.sched_getaffinity(0)), available_memory())
        if problem is not None:
            raise UserError(f"{problem}; drills also run with --time virtual, on any machine")
        counts = f"{len(self.plan.hosts)} hosts, {len(self.plan.switches)} switches"
        try:
            with self.steps.step("compile the pipeline"):
                program, p4info = compiled()
            give_names(self.plan, STATE_DIR)
            with self.steps.step(f"build {self.plan.spec.name}: {counts}"):
                self.fabric = self._stack.enter_context(build(self.plan, self._backend()))
            with self.steps.step(f"start the host agents{compiled_note()}"):
                self._start_agents()
            with self.steps.step("program the switches"):
                self._start_controller(program, p4info)
            if self._self_test:
                with self.steps.step("self-test: spread, marks, conservation"):
                    self._run_self_test()
            if self._mrc:
                with self.steps.step("start the MRC controller"):
                    self._start_mrc_controller()
        except SelfTestError as error:
            raise LabVoid(f"{error}; a busy or small machine does this, try again") from None
        except (BuildError, ControllerError) as error:
            raise UserError(str(error)) from None
        self._forget_bring_up()
        self._write_state()

    def _forget_bring_up(self) -> None:
        """How late queues were served while everything started is not the drill's fidelity."""
        for ctl in self.ctl.values():
            if isinstance(ctl, CtlClient):
                ctl.stats(reset=True)

    def _backend(self) -> Backend:
        def ended(name: str, status: int) -> None:
            self._lost(f"switch {name} ended with status {status}")

        if self.switch == "bmv2":
            return Bmv2Backend(self.run_dir / "switches", on_exit=ended)
        return BuiltinBackend(
            self.run_dir / "switches", socket_dir=STATE_DIR, seed=self.seed, on_exit=ended
        )

    def _start_agents(self) -> None:
        # bmv2 has no propagation delay: the receiving host stands in for the four links.
        delay = 4 * self.plan.spec.link.delay if self.switch == "bmv2" else 0
        self._agents = HostAgents(
            self.plan,
            self.fabric.host_pids,
            STATE_DIR,
            self.run_dir,
            rx_delay_ns=delay,
            transport=self._transport,
            visible=self._visible,
            on_exit=self._lost,
        )
        self._stack.callback(self._agents.stop)
        self._agents.start(self.seed, self._faults)

    def _start_controller(self, program: Path, p4info: Path) -> None:
        self.controller = self._stack.enter_context(
            FabricController(
                self.plan,
                self.fabric.grpc,
                program,
                p4info,
                failover_groups=self.failover_groups,
                on_failure=self._lost,
            )
        )
        self.controller.connect()
        self.controller.program()

    def _start_mrc_controller(self) -> None:
        sockets = {name: client.path for name, client in self._agents.clients.items()}
        self._mrc_controller = MrcControllerProcess(
            self.plan, sockets, STATE_DIR, self.run_dir, on_exit=self._lost
        )
        self._stack.callback(self._mrc_controller.stop)

    def _run_self_test(self) -> None:
        # bmv2's ingress and egress are threads that can overtake each other: kept from a CPU,
        # egress writes down an occupancy that is no longer true, and a burst finds the queue
        # full where it should be trimmed. So there one test in a few fails for that alone.
        for _attempt in range(BMV2_SELF_TESTS if self.switch == "bmv2" else 1):
            report = SelfTest(
                self.plan, self.agents, self.controller.counters, rng=random.Random(self.seed)
            ).run()
            self.self_test_report = report
            if report.ok:
                break
        report.require()

    def _lost(self, why: str) -> None:
        """A part of the lab is gone, and the rest goes on. Called from any thread."""
        with self._losing:
            if why in self.lost:
                return
            self.lost.append(why)
            self.steps.say(f"lab: {why}")
            if self._up_and_known:
                self._write_state()

    def _write_state(self) -> None:
        self._up_and_known = True
        switches = self.fabric.switches.values()
        state: dict[str, Any] = {
            "run_id": self.run_id,
            "command": self._command,
            "fabric": self.plan.spec.name,
            "run_dir": str(self.run_dir),
            "lost": self.lost,
            "hosts": {name: {"pid": pid} for name, pid in self.fabric.host_pids.items()},
            "switches": {
                s.name: {"addr": s.grpc, "device_id": s.device_id, "ctl": s.ctl} for s in switches
            },
        }
        partial = STATE_DIR / "lab.json.part"
        partial.write_text(json.dumps(state))
        partial.replace(STATE_DIR / "lab.json")

    # -- people

    def prompt(self) -> None:
        """The Mininet prompt, until the user leaves it."""
        from mininet.cli import CLI
        from mininet.log import lg

        # Mininet prints what commands print as a log, to standard error.
        for handler in lg.handlers:
            handler.setStream(sys.stdout)
        if sys.stdin.isatty():
            self.steps.say("try 'h0 ping -c 3 h2', 'links', 'help'; leave with 'exit'")
        else:
            CLI.prompt = ""
        CLI(self.fabric.net)
