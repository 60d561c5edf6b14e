"""A host in virtual time: the endpoint, the operations of its agent, and its NIC.

The same `Endpoint`, `Operations`, events file and samples as in `hosts.agent.loop`; in place of
sockets and a clock there are records (`softswitch.engine.net`) and the time of a turn. A turn
is what the loop does when it wakes up: feed what arrived, serve timers, hand out events, send.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

from hosts.agent.clock import Lateness
from hosts.agent.control import Json, Later
from hosts.agent.eventlog import EventLog
from hosts.agent.ops import Operations
from hosts.agent.sampling import sample
from hosts.agent.settings import Settings
from hosts.core.endpoint import Endpoint
from hosts.probing.frames import LOOP_FRAME_MAX
from softswitch.engine.net import PADDING, RECORD

NEVER = (1 << 63) - 1
MAX_REPORTED_ERRORS = 3
MAX_IDLE_TURNS = 1000
"""Turns at one nanosecond; more are a fault of the endpoint, and would never end."""
Arrival = tuple[int, int, memoryview]
"""(time, port, frame)"""


class VirtualNic:
    """One port of the NIC: what is sent is put down as records."""

    def __init__(self, host: VirtualHost, port: int, interface: str, number: int) -> None:
        """`number`: of the NIC port in the network."""
        self.port = port
        self.interface = interface
        self.number = number
        self.carrier = True
        self.rx_packets = self.rx_bytes = 0
        self.tx_packets = self.tx_bytes = 0
        self.tx_errors = 0
        self.sock_drops = 0
        self._host = host

    def send(self, frame: bytes) -> bool:
        """The frame begins to leave now, or when the port has sent what it was given before."""
        if not self.carrier:
            self.tx_errors += 1
            return False
        size = len(frame)
        self.tx_packets += 1
        self.tx_bytes += size
        self._host.outgoing += (
            RECORD.pack(self._host.now, self.number, size),
            frame,
            PADDING[size & 7],
        )
        return True

    def stats(self) -> dict[str, object]:
        """As of a real port."""
        return {
            "interface": self.interface,
            "rx_packets": self.rx_packets,
            "rx_bytes": self.rx_bytes,
            "tx_packets": self.tx_packets,
            "tx_bytes": self.tx_bytes,
            "tx_errors": self.tx_errors,
            "tx_error_causes": {"Network is down": self.tx_errors} if self.tx_errors else {},
            "sock_drops": self.sock_drops,
        }


class VirtualHost:
    """Everything of one host. `wake`: when it wants its next turn, `NEVER` when only a frame
    or a request can make it do something. `outgoing`: pieces of records, taken by the driver.
    """

    def __init__(
        self,
        name: str,
        settings: Settings,
        numbers: Mapping[int, int],
        events: Path | None,
        now: int,
        *,
        samples: bool = True,
    ) -> None:
        """`numbers`: port -> number of the NIC port in the network."""
        self.name = name
        self.settings = settings
        self.now = now
        self.errors = 0
        self.stopping = False
        self.lateness = Lateness()
        self.outgoing: list[bytes] = []
        self.endpoint = Endpoint(settings.endpoint, Random(settings.seed), now)
        self.nics = {
            port.port: VirtualNic(
                self, port.port, settings.interfaces[port.port], numbers[port.port]
            )
            for port in settings.endpoint.ports
        }
        self.by_number = {nic.number: nic for nic in self.nics.values()}
        self.log = EventLog(events, name)
        self.ops = Operations(self)
        self._admin_up = {port.port: port.up for port in settings.endpoint.ports}
        self._reported = dict(self._admin_up)
        self._started = now
        self._turns = 0
        self._next_sample = now + settings.sample_interval_ns if samples else NEVER
        self.wake = self._next_sample

    @property
    def clock(self) -> Callable[[], int]:
        """The time of the turn."""
        return lambda: self.now

    # -- turns

    def run(self, until: int, arrivals: list[Arrival]) -> None:
        """All turns before `until`. `arrivals` are sorted by time."""
        endpoint = self.endpoint
        loops, by_number = self.ops.loops, self.by_number
        wake = self.wake
        at, count = 0, len(arrivals)
        idle, last = 0, -1
        while True:
            t = wake
            if at < count and arrivals[at][0] < t:
                t = arrivals[at][0]
            if t >= until:
                break
            idle = idle + 1 if t == last else 0
            self.now = last = t
            while at < count and arrivals[at][0] <= t:
                _, number, frame = arrivals[at]
                nic = by_number[number]
                size = len(frame)
                nic.rx_packets += 1
                nic.rx_bytes += size
                try:
                    if not (
                        size <= LOOP_FRAME_MAX
                        and loops.active
                        and loops.receive(nic.port, frame, t)
                    ):
                        endpoint.receive(nic.port, frame, t)
                except Exception as error:
                    self.report_error("receive", error)
                at += 1
            try:
                if t < wake and not self.ops.raw:
                    due = endpoint.next_turn(t)
                    if due > t:  # what arrived has no consequence yet: nothing to do in a turn
                        self._turns += 1
                        wake = due if due < self._next_sample else self._next_sample
                        continue
                wake = self._turn(t)
                if idle > MAX_IDLE_TURNS:
                    raise RuntimeError("the endpoint wants its turn at once, again and again")
            except Exception as error:
                self.report_error("turn", error)
                wake = min(self._next_sample, t + 1_000_000)
        self.wake = wake

    def _turn(self, now: int) -> int:
        """One turn; when the next is due."""
        self._turns += 1
        endpoint = self.endpoint
        endpoint.on_deadline(now)
        ops = self.ops
        if ops.raw:
            ops.serve_raw(now)
        for event in endpoint.events():
            self.log.endpoint(event)
            ops.on_event(event)
        outgoing = self.outgoing
        nics = self.nics
        for port, frame in endpoint.frames_to_send(now):
            nic = nics[port]
            size = len(frame)
            if not nic.carrier:
                nic.tx_errors += 1
                continue
            nic.tx_packets += 1
            nic.tx_bytes += size
            outgoing += (RECORD.pack(now, nic.number, size), frame, PADDING[size & 7])
        if now >= self._next_sample:
            self._next_sample += self.settings.sample_interval_ns
            self.log.write(now, sample(self))
            self.log.flush()
        until = self._next_sample
        due = endpoint.next_deadline()
        if due is not None and due < until:
            until = due
        if ops.raw:
            raw = ops.raw_deadline()
            if raw is not None and raw < until:
                until = raw
        return until if until > now else now

    # -- requests

    def handle(self, request: Json, now: int) -> Json | Later:
        """An operation of the agent, and what follows from it at this moment."""
        self.now = now
        reply = self.ops.handle(request)
        self.wake = self._turn(now)
        return reply

    def set_carrier(self, port: int, up: bool, now: int) -> None:
        """The cable of a port was cut or mended; the endpoint is told at once."""
        self.now = now
        self.nics[port].carrier = up
        self._update_port(port)
        self.wake = self._turn(now)

    # -- what Operations asks of a driver (hosts.agent.driver)

    def port_up(self, port: int) -> bool:
        """Administratively up and a carrier."""
        return self._admin_up[port] and self.nics[port].carrier

    def set_admin(self, port: int, up: bool) -> None:
        """Administrative state of a port."""
        self._admin_up[port] = up
        self._update_port(port)

    def _update_port(self, port: int) -> None:
        up = self.port_up(port)
        if up != self._reported[port]:
            self._reported[port] = up
            self.endpoint.set_port(port, up, self.now)

    def fidelity(self) -> dict[str, int | bool]:
        """Nothing is ever late here."""
        return {
            **self.lateness.report(),
            "realtime": False,
            "loops": self._turns,
            "cpu_ns": 0,
            "wall_ns": self.now - self._started,
        }

    def cpu_ns(self) -> int:
        """Means nothing here, and would differ from run to run."""
        return 0

    def report_error(self, where: str, error: Exception) -> None:
        """A fault of our own: counted, in the events file, and on stderr, as the agent does."""
        self.errors += 1
        if self.errors <= MAX_REPORTED_ERRORS:
            traceback.print_exception(error, file=sys.stderr)
        self.log.write(self.now, {"type": "agent_error", "where": where, "error": repr(error)})

    def close(self) -> None:
        """Last events and sample, as when an agent ends."""
        for event in self.endpoint.events():
            self.log.endpoint(event)
        self.log.write(self.now, sample(self))
        self.log.close()


def virtual_config(config: dict[str, Any], tempo: int, sample_ns: int) -> dict[str, Any]:
    """An agent's configuration for virtual time: ports are exact, periods divided by the tempo.
    `agent_config` gives it the reference's own congestion control (`late_hosts=False`)."""
    return {
        **config,
        "catch_up_ns": 0,
        "ahead_ns": 0,
        "realtime": False,
        "sample_interval_ns": max(1_000, sample_ns // tempo),
    }
