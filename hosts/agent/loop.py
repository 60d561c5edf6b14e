"""The event loop: frames from the NICs to the endpoint and back, timers on time, control between.

One turn: wait for a descriptor or the next deadline; feed what arrived; run timers; hand out
events; send what may leave.
"""

from __future__ import annotations

import errno
import gc
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from random import Random

from hosts.agent.clock import Lateness, Poller, now_ns, set_realtime, set_timer_slack
from hosts.agent.control import ControlServer
from hosts.agent.controller import path_info
from hosts.agent.delayline import DelayLine
from hosts.agent.eventlog import EventLog
from hosts.agent.nic import LinkWatch, Nic, silence_kernel
from hosts.agent.ops import Operations
from hosts.agent.sampling import sample
from hosts.agent.settings import Settings
from hosts.core.endpoint import Endpoint
from hosts.probing.frames import LOOP_FRAME_MAX
from hosts.wire.constants import UDP_PORTS
from hosts.wire.frame import parse

FRAMES_PER_TURN = 64
FLUSH_RETRY_NS = 1_000_000
MAX_REPORTED_ERRORS = 20
PORT_ERRORS = frozenset((errno.ENETDOWN, errno.ENXIO, errno.ENODEV))
BUSY_ERRORS = frozenset((errno.ENOBUFS, errno.EAGAIN, errno.ENOMEM, errno.EINTR))


class Agent:
    """Everything of one host. `run` returns after `stop`."""

    def __init__(self, settings: Settings, name: str, socket_path: Path, events: Path | None):
        self.settings = settings
        self.name = name
        self.clock: Callable[[], int] = now_ns
        self.lateness = Lateness()
        self.stopping = False
        self.errors = 0
        self.realtime = False
        self._started = self._served = now_ns()
        self._loops = 0
        config = settings.endpoint
        udp_ports = UDP_PORTS | {config.udp_port}
        self.nics: dict[int, Nic] = {}
        self._admin_up = {port.port: port.up for port in config.ports}
        self._reported: dict[int, bool] = {}
        self._poller = Poller()
        self.endpoint = Endpoint(config, Random(settings.seed), now_ns())
        self._held = silence_kernel(udp_ports, [str(ip_address(p.ip)) for p in config.ports])
        for port in config.ports:
            interface = settings.interfaces[port.port]
            self.nics[port.port] = Nic(
                port.port,
                interface,
                udp_ports,
                ipv4=len(port.ip) == 4,
                visible=settings.visible,
            )
        self.log = EventLog(events, name, partial(path_info, self.endpoint))
        self.ops = Operations(self)
        self._watch = LinkWatch()
        for port in config.ports:
            self._reported[port.port] = port.up
            self._update_port(port.port)
        self._by_fd = {nic.fileno(): nic for nic in self.nics.values()}
        for fd in (*self._by_fd, self._watch.fileno()):
            self._poller.add(fd)
        self._line = DelayLine(settings.rx_delay_ns) if settings.rx_delay_ns else None
        self.control = ControlServer(
            socket_path, self.ops.handle, added=self._poller.add, removed=self._poller.remove
        )
        self._next_sample = now_ns() + settings.sample_interval_ns

    # -- the loop -----------------------------------------------------------------------------

    def run(self) -> None:
        """Until `stop`. An exception inside a turn is reported and the loop goes on."""
        set_timer_slack()
        self.realtime = self.settings.realtime and set_realtime()
        gc.collect()
        gc.freeze()  # what start-up made stays: never look at it again
        gc.set_threshold(20_000, 20, 100)
        while not self.stopping:
            try:
                self._turn()
            except Exception as error:
                self.report_error("loop", error)
        self.close()

    def _turn(self) -> None:
        self._loops += 1
        endpoint = self.endpoint
        ready: list[Nic] = []
        for fd in self._poller.wait(self._deadline()):
            nic = self._by_fd.get(fd)
            if nic is not None:
                ready.append(nic)
            elif self.control.owns(fd):
                self.control.readable(fd)
            elif self._watch.changed():
                self._update_ports()
        if ready:
            self._receive(ready)
        now = now_ns()
        if self._line is not None:
            due = self._line.deadline()
            if due is not None and now >= due:
                self.lateness.add(now - max(due, self._served))
                for port, frame in self._line.due(now):
                    self._take(port, frame)
        due = endpoint.next_deadline()
        if due is not None and now >= due:
            # Work posted meanwhile is due at once, not since the port fell idle.
            self.lateness.add(now - max(due, self._served))
            endpoint.on_deadline(now)
        if self.ops.raw:
            self.ops.serve_raw(now)
        self._hand_out_events()
        nics = self.nics
        self._served = now_ns()
        for port, frame in endpoint.frames_to_send(self._served):
            if not nics[port].send(frame):
                self._send_failed(port, frame)
        if now >= self._next_sample:
            self._sample(now)

    def _deadline(self) -> int:
        until = self._next_sample
        due = self.endpoint.next_deadline()
        if due is not None and due < until:
            until = due
        line = self._line.deadline() if self._line is not None else None
        if line is not None and line < until:
            until = line
        raw = self.ops.raw_deadline() if self.ops.raw else None
        if raw is not None and raw < until:
            until = raw
        if self.control.waiting:
            until = min(until, now_ns() + FLUSH_RETRY_NS)
        return until

    def _receive(self, ready: list[Nic]) -> None:
        """Read the NICs in turns, a frame each: after a late wake-up that keeps planes in step,
        where reading one dry first would look like loss on the other."""
        line, take = self._line, self._take
        for _ in range(FRAMES_PER_TURN):
            for nic in tuple(ready):
                frame = nic.receive()
                if frame is None:
                    ready.remove(nic)
                elif line is not None:
                    line.add(nic.port, bytes(frame), now_ns())  # its buffer is used again
                else:
                    take(nic.port, frame)
            if not ready:
                return

    def _take(self, port: int, frame: bytes | memoryview) -> None:
        """A frame has arrived: a probe that came back, or the endpoint's."""
        loops = self.ops.loops
        if not (
            loops.active and len(frame) <= LOOP_FRAME_MAX and loops.receive(port, frame, now_ns())
        ):
            self.endpoint.receive(port, frame, now_ns())

    def _hand_out_events(self) -> None:
        for event in self.endpoint.events():
            self.log.endpoint(event)
            self.ops.on_event(event)
        if self.control.waiting:
            self.control.flush()

    def _sample(self, now: int) -> None:
        interval = self.settings.sample_interval_ns
        self._next_sample += interval
        if self._next_sample <= now:  # behind: skip what was missed
            self._next_sample = now + interval
        self._update_ports()  # the kernel may tell late, see Nic.running
        self.log.write(now, sample(self))
        self.log.flush()

    def _send_failed(self, port: int, frame: bytes) -> None:
        """The kernel refused a frame: the port is down, or this path has failed (MTU, route)."""
        if self.nics[port].last_errno in PORT_ERRORS:
            self._update_port(port)
        elif self.nics[port].last_errno not in BUSY_ERRORS:
            packet = parse(frame, self.settings.endpoint.ev_packing)
            if packet is not None:
                self.endpoint.path_failure(port, packet.ev, now_ns())

    # -- ports --------------------------------------------------------------------------------

    def port_up(self, port: int) -> bool:
        """Administratively up, interface up, carrier there."""
        return self._admin_up[port] and self.nics[port].running()

    def set_admin(self, port: int, up: bool) -> None:
        self._admin_up[port] = up
        self._update_port(port)

    def _update_ports(self) -> None:
        for port in self.nics:
            self._update_port(port)

    def _update_port(self, port: int) -> None:
        up = self.port_up(port)
        if up != self._reported[port]:
            self._reported[port] = up
            self.endpoint.set_port(port, up, now_ns())

    # -- reports ------------------------------------------------------------------------------

    def fidelity(self) -> dict[str, int | bool]:
        """How late timers were served, and what the process cost."""
        return {
            **self.lateness.report(),
            "realtime": self.realtime,
            "loops": self._loops,
            "cpu_ns": self.cpu_ns(),
            "wall_ns": now_ns() - self._started,
        }

    def cpu_ns(self) -> int:
        """CPU time of this process."""
        return time.process_time_ns()

    def report_error(self, where: str, error: Exception) -> None:
        """A fault of the agent itself: counted, in the events file, and on stderr."""
        self.errors += 1
        if self.errors <= MAX_REPORTED_ERRORS:
            traceback.print_exception(error, file=sys.stderr)
        self.log.write(now_ns(), {"type": "agent_error", "where": where, "error": repr(error)})

    def close(self) -> None:
        """Last events and sample, then everything is closed and the socket file is gone."""
        try:
            self._hand_out_events()
            self.log.write(now_ns(), sample(self))
        finally:
            self.log.close()
            self.control.close()
            for nic in self.nics.values():
                nic.close()
            for sock in self._held:
                sock.close()
