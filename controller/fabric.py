"""The fabric controller: primary of every switch, writes what the plan says, reads counters.

    with FabricController(plan, addresses, program, p4info) as controller:
        controller.connect()
        controller.program()
        controller.counters()["p0t0-0"][3].marked.packets

Losing one switch is a hard stop: everything after raises PrimaryLost with the reason, and
`on_failure` is told once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from controller.client import SwitchClient
from controller.counters import PortCounters, cells, port_counters
from controller.errors import ControllerError, PrimaryLost
from controller.ports import PortEvent, PortWatch
from controller.program import fabric_program
from controller.session import Pipeline, SwitchSession
from topologies.plan import Plan, SwitchPlan

T = TypeVar("T")

MAX_THREADS = 16


def _ignore(_: object) -> None:
    return None


class FabricController:
    """Controls every switch of a plan.

    ``switches``: name -> "host:port" of its P4Runtime server; must be exactly the plan's.
    ``on_progress`` gets a line per step. ``on_failure`` gets the reason when a switch is lost,
    from a thread. ``on_port`` gets every change of port state, from a thread. The election id
    is taken from the start time, so the controller started last wins.
    """

    def __init__(
        self,
        plan: Plan,
        switches: Mapping[str, str],
        program: Path,
        p4info: Path,
        *,
        failover_groups: bool = False,
        on_progress: Callable[[str], None] = _ignore,
        on_failure: Callable[[str], None] = _ignore,
        on_port: Callable[[PortEvent], None] = _ignore,
        election_id: int | None = None,
    ) -> None:
        odd = sorted(set(switches) ^ set(plan.switches))
        if odd:
            raise ControllerError(f"addresses and plan differ in switches: {', '.join(odd)}")
        self.plan = plan
        self.failover_groups = failover_groups
        self.failure: str | None = None
        self._addresses = dict(switches)
        self._pipeline = Pipeline.load(program, p4info)
        self._progress = on_progress
        self._on_failure = on_failure
        self._election_id = time.time_ns() if election_id is None else election_id
        self._sessions: dict[str, SwitchSession] = {}
        self._lock = threading.Lock()
        self._closing = False
        self._pool = ThreadPoolExecutor(
            max_workers=max(1, min(MAX_THREADS, len(switches))), thread_name_prefix="fabric"
        )
        self._ports = PortWatch(plan, on_port)
        self._watching = False

    def __enter__(self) -> FabricController:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    # -- steps

    def connect(self) -> None:
        """Become primary of every switch, in parallel. ConnectError says which refused."""
        sessions = self._each(self._connect_one)
        self._sessions = sessions
        self._progress(f"controller: primary of {len(sessions)} switches")

    def _connect_one(self, switch: SwitchPlan) -> SwitchSession:
        client = SwitchClient(
            switch.name,
            self._addresses[switch.name],
            switch.device_id,
            self._election_id,
            self._lost,
        )
        session = SwitchSession(client, self._pipeline)
        with self._lock:
            self._sessions[switch.name] = session
        return session

    def program(self) -> dict[str, int]:
        """Push the pipeline where another runs, and make the tables what the plan says.

        Returns the number of updates written per switch; 0 when all was as wanted.
        """
        wanted = fabric_program(self.plan, failover_groups=self.failover_groups)
        updates = self._each(lambda switch: self.session(switch.name).apply(wanted[switch.name]))
        self._progress(
            f"controller: {sum(updates.values())} updates written to {len(updates)} switches"
        )
        return updates

    def watch_ports(self) -> None:
        """Follow port state from now on; `port_state` holds it."""
        if not self._watching:
            self._watching = True
            self._ports.start()

    @property
    def port_state(self) -> Mapping[tuple[str, int], bool]:
        """(switch, port) -> up, as the kernel last said; all False before watch_ports()."""
        return self._ports.state

    def counters(self) -> dict[str, dict[int, PortCounters]]:
        """Every counter of every port: switch -> port -> counts since the pipeline was loaded."""
        return self._each(self._counters_one)

    def _counters_one(self, switch: SwitchPlan) -> dict[int, PortCounters]:
        ports = sorted(switch.ports)
        values = self.session(switch.name).read_counters(cells(ports))
        return port_counters(ports, values)

    def session(self, name: str) -> SwitchSession:
        """One switch, for anything else. PrimaryLost after a failure."""
        self.check()
        try:
            return self._sessions[name]
        except KeyError:
            raise ControllerError(f"{name}: not connected") from None

    def check(self) -> None:
        """Raise PrimaryLost when a switch has been lost."""
        if self.failure is not None:
            raise PrimaryLost(self.failure)

    def close(self) -> None:
        """Give up all switches; may be repeated."""
        if self._closing:
            return
        self._closing = True
        self._ports.close()
        with self._lock:
            sessions = list(self._sessions.values())
        list(self._pool.map(SwitchSession.close, sessions))
        self._pool.shutdown(wait=True)

    # -- inside

    def _each(self, work: Callable[[SwitchPlan], T]) -> dict[str, T]:
        """Do something for every switch in parallel; the first error, after all have ended."""
        self.check()
        futures = {
            name: self._pool.submit(work, switch) for name, switch in self.plan.switches.items()
        }
        results: dict[str, T] = {}
        errors: list[BaseException] = []
        for name, future in futures.items():
            error = future.exception()
            if error is None:
                results[name] = future.result()
            else:
                errors.append(error)
        if errors:
            self.check()
            raise errors[0]
        return results

    def _lost(self, reason: str) -> None:
        with self._lock:
            if self._closing or self.failure is not None:
                return
            self.failure = f"{reason}; the controller has stopped"
        self._progress(f"controller: {self.failure}")
        self._on_failure(self.failure)
