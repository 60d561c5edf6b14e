"""Operations that probe loops through the switches: `loops_start`, `loops_take`, `loops_stop`.

The prober is `hosts.probing`; here it gets its NIC ports and its place among the timers.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address
from typing import TYPE_CHECKING

from hosts.agent.control import Json, Later
from hosts.agent.fields import FieldError, Fields
from hosts.probing.frames import loop_template
from hosts.probing.loops import Loop, LoopProber

if TYPE_CHECKING:
    from hosts.agent.driver import Driver

LOOPS_MAX = 4096
SHORTEST_GAP_NS = 1000
"""Between two probes of a host; less is a mistake in the units."""

Op = Callable[[Fields], "Json | Later"]


class RunningLoops:
    """A prober among the things that send by themselves (as hosts.agent.rawsend)."""

    def __init__(self, agent: Driver, prober: LoopProber) -> None:
        self._agent = agent
        self.prober = prober
        self.stopped = False

    def deadline(self) -> int:
        return self.prober.next_deadline()

    def serve(self, now: int) -> bool:
        """Send what is due; True when the prober was stopped."""
        if self.stopped:
            return True
        self.prober.on_deadline(now)
        for port, frame in self.prober.frames_to_send(now):
            self._agent.nics[port].send(frame)
        return False


class LoopOps:
    """See the module."""

    def __init__(self, agent: Driver, start: Callable[[RunningLoops], None]) -> None:
        """`start`: puts a running prober among the timers."""
        self._agent = agent
        self._start = start
        self.running: RunningLoops | None = None
        self.ops: dict[str, Op] = {
            "loops_start": self.loops_start,
            "loops_take": self.loops_take,
            "loops_stop": self.loops_stop,
        }

    @property
    def active(self) -> bool:
        return self.running is not None

    def receive(self, port: int, frame: bytes | memoryview, now: int) -> bool:
        """Whether the frame was a loop probe; call it for short frames only."""
        return self.running is not None and self.running.prober.receive(port, frame, now)

    def loops_start(self, f: Fields) -> Json:
        """Probe `loops` (each {loop, port, destination, segments}) once per `interval_ns`; one
        that is not back after `timeout_ns` is lost. Replaces what ran before."""
        interval = f.integer("interval_ns", low=1)
        timeout = f.integer("timeout_ns", low=1)
        given = f.objects("loops")
        f.done()
        if not 1 <= len(given) <= LOOPS_MAX:
            raise FieldError(f"loops: {len(given)}, must be 1 to {LOOPS_MAX}")
        if interval // len(given) < SHORTEST_GAP_NS:
            raise FieldError(f"interval_ns: {interval} is too short for {len(given)} loops")
        loops = [self._loop(one) for one in given]
        try:
            prober = LoopProber(loops, interval, timeout, self._agent.clock())
        except ValueError as error:
            raise FieldError(str(error)) from None
        self._end()
        self.running = RunningLoops(self._agent, prober)
        self._start(self.running)
        return {"loops": len(loops)}

    def loops_take(self, f: Fields) -> Json:
        """Probes decided since the last call, by loop: {sent, lost, rtt_ns}."""
        f.done()
        counts = self.running.prober.take() if self.running is not None else {}
        return {
            "t": self._agent.clock(),
            "loops": {
                str(number): {"sent": c.sent, "lost": c.lost, "rtt_ns": c.rtt_mean_ns}
                for number, c in counts.items()
            },
        }

    def loops_stop(self, f: Fields) -> Json:
        f.done()
        self._end()
        return {}

    def _end(self) -> None:
        if self.running is not None:
            self.running.stopped = True
            self.running = None

    def _loop(self, f: Fields) -> Loop:
        number = f.integer("loop", low=0, high=0xFFFFFFFF)
        port = f.integer("port", low=1, high=32)
        destination = f.text("destination")
        segments = [str(item) for item in f.items("segments", [])]
        f.done()
        own = next((p for p in self._agent.settings.endpoint.ports if p.port == port), None)
        if own is None or len(own.ip) != 16:
            raise FieldError(f"port: {port} is no port of this host with an IPv6 address")
        try:
            template = loop_template(
                number,
                own.mac.hex(":"),
                own.gateway_mac.hex(":"),
                str(ip_address(own.ip)),
                destination,
                segments,
            )
        except ValueError as error:
            raise FieldError(f"loop {number}: {error}") from None
        return Loop(port, template)
