"""What is known of a bmv2 switch in a fabric, in the words of softswitch's side channel.

bmv2 has no statistics of its queues. What there is: the pipeline's own counters (through
Thrift), the kernel's counters of the interfaces, and which threads of the process were kept
waiting. `account` puts them together:

    kernel received - pipeline received   waits before the pipeline, or was lost there
    forwarded - transmitted               waits in a queue, or was refused by it (tail drop)
    transmitted - kernel sent             is on its way out, or could not be sent

A packet that waits moves within a packet time. So a difference that is still there when
nothing has moved for SETTLED_NS, with all threads asleep, is a loss.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any

from controller.counters import CAUSES, DROPS, FORWARDED, RECEIVED, TRANSMITTED
from softswitch.bmv2.client import CONTEXT, Bmv2Error, Client
from softswitch.bmv2.process import activity
from softswitch.ctl import CtlError
from topologies.netlink import IfStats, Netlink
from topologies.plan import SwitchPlan

OCCUPANCY = "occupancy"
"""Register of mrc_fabric.p4: data packets that wait, by egress port."""

MS = 1_000_000
SETTLED_NS = 250 * MS
"""Longer than hosts hold a frame in place of the links' delay: what they answer then would
move the counters again, after a moment in which all seems still."""
FRESH_NS = 5 * MS
"""One dump of the kernel's counters serves all switches that ask within this time."""
TURNS_KEPT = 4096

UNKNOWN = (
    "how late bmv2 served its queues (measured instead: how long its threads waited for a CPU)",
    "the deepest queue (bmv2: samples of the pipeline's count of waiting data packets)",
    "what bmv2's queues and sockets lost (taken from differences between counters)",
)
"""What a report must say about a run on bmv2."""


class Kernel:
    """Counters of the interfaces of this network namespace, read for all switches at once."""

    def __init__(self) -> None:
        self._netlink = Netlink()
        self._lock = RLock()
        self._read_at = 0
        self._stats: Mapping[str, IfStats] = {}

    def stats(self, newest: bool) -> Mapping[str, IfStats]:
        """Interface -> counters; `newest`: as of now, otherwise at most FRESH_NS old."""
        with self._lock:
            now = time.monotonic_ns()
            if newest or now - self._read_at > FRESH_NS:
                self._stats = {n: info.stats for n, info in self._netlink.links().items()}
                self._read_at = now
            return self._stats

    def close(self) -> None:
        self._netlink.close()


@dataclass(frozen=True)
class PortCounts:
    """What was counted of one port, in packets since the start."""

    kernel_rx: int
    kernel_tx: int
    received: int
    """By the pipeline."""
    forwarded: int
    transmitted: int
    refused: int
    """Dropped by the pipeline, by ingress port."""

    def differences(self) -> tuple[int, int, int]:
        """Before the pipeline, between ingress and egress, after egress."""
        return (
            self.kernel_rx - self.received,
            self.forwarded - self.transmitted,
            self.transmitted - self.kernel_tx,
        )


class Account:
    """Tells what waits from what is lost: a pure function of readings and their times."""

    def __init__(self, packet_ns: int) -> None:
        """`packet_ns`: the longest time between two packets of a queue that is not empty."""
        self._settled_ns = max(SETTLED_NS, 3 * packet_ns)
        self._last: Mapping[int, PortCounts] = {}
        self._since = 0
        self.lost: dict[int, tuple[int, int, int]] = {}
        """Port -> what is known to be lost, in the order of `PortCounts.differences`."""

    def read(self, counts: Mapping[int, PortCounts], asleep: bool, now: int) -> int:
        """Take a reading; how many packets wait somewhere (or move while one reads)."""
        if counts != self._last or not asleep:
            self._last, self._since = dict(counts), now
        elif now - self._since >= self._settled_ns:
            self.lost = {port: c.differences() for port, c in counts.items()}
        held = 0
        for port, c in counts.items():
            known = self.lost.get(port, (0, 0, 0))
            held += sum(abs(a - b) for a, b in zip(c.differences(), known, strict=True))
        return held


class Turns:
    """How long the threads of a process waited for a CPU, from /proc/PID/task/*/schedstat."""

    def __init__(self, pid: int) -> None:
        self._tasks = Path(f"/proc/{pid}/task")
        self._before: dict[str, tuple[int, int, int]] = {}
        self._means: list[int] = []

    def _now(self) -> dict[str, tuple[int, int, int]]:
        """Thread -> (ns on a CPU, ns waiting for one, turns)."""
        found = {}
        try:
            for task in self._tasks.iterdir():
                ran, waited, turns = (task / "schedstat").read_text().split()
                found[task.name] = (int(ran), int(waited), int(turns))
        except (OSError, ValueError):
            return found
        return found

    def sample(self) -> dict[str, int | None]:
        """Since the last call the thread that waited longest per turn; p99 and worst of these
        so far. CPU time since the start."""
        now, before = self._now(), self._before
        self._before = now
        worst = 0
        for name, (_ran, waited, turns) in now.items():
            _, was_waiting, were = before.get(name, (0, waited, turns))
            if turns > were:
                worst = max(worst, (waited - was_waiting) // (turns - were))
        if before:
            self._means = [*self._means[-TURNS_KEPT:], worst]
        ordered = sorted(self._means)
        return {
            "late_p99_ns": None,
            "late_max_ns": None,
            "waited_p99_ns": ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
            if ordered
            else 0,
            "waited_max_ns": ordered[-1] if ordered else 0,
            "cpu_ns": sum(ran for ran, _, _ in now.values()),
        }


class Bmv2Ctl:
    """The side channel of one bmv2 switch, as far as it goes. Raises CtlError."""

    def __init__(
        self,
        switch: SwitchPlan,
        client: Client,
        pid: int,
        kernel: Kernel,
        *,
        packet_ns: int,
        asleep: Callable[[], bool] | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._switch = switch
        self._client = client
        self._kernel = kernel
        self._clock = clock
        self._asleep = asleep or (lambda: activity(pid) is not None)
        self._turns = Turns(pid)
        self._account = Account(packet_ns)
        self._counts: dict[int, PortCounts] = {}
        self._deepest: dict[int, int] = {}
        self._lock = RLock()

    def close(self) -> None:
        self._client.close()

    def _call(self, method: str, *arguments: Any) -> Any:
        try:
            return self._client.call(method, *arguments)
        except Bmv2Error as error:
            raise CtlError(f"{self._switch.name}: bmv2: {error}") from None

    def _packets(self, counter: str, index: int) -> int:
        return int(self._call("bm_counter_read", CONTEXT, counter, index).packets)

    def ports(self) -> dict[int, dict[str, Any]]:
        """Port -> name and whether its interface is up; no settings: there are none."""
        return {
            int(info.port_num): {
                "name": info.iface_name,
                "up": bool(info.is_up),
                "config": {},
            }
            for info in self._call("bm_dev_mgr_show_ports")
        }

    def set_port(self, port: int, **config: object) -> dict[str, Any]:
        raise CtlError(
            f"{self._switch.name} port {port}: bmv2 has no settings of ports; "
            "use --switch builtin for loss, corruption and blackholes"
        )

    def _read(self, stats: Mapping[str, IfStats]) -> dict[int, PortCounts]:
        found = {}
        for number, port in self._switch.ports.items():
            counters = stats.get(port.ifname)
            if counters is None:
                raise CtlError(f"{self._switch.name}: the interface {port.ifname} is gone")
            found[number] = PortCounts(
                counters.rx_packets,
                counters.tx_packets,
                self._packets(RECEIVED, number),
                sum(self._packets(FORWARDED, number * 2 + c) for c in (0, 1)),
                sum(self._packets(TRANSMITTED, number * 2 + c) for c in (0, 1)),
                sum(self._packets(DROPS, number * 16 + cause) for cause in CAUSES),
            )
        return found

    def stats(self, reset_max: bool = False) -> dict[str, Any]:
        """As `softswitch.ctl.CtlClient.stats`, and `unknown`: what these numbers are not.

        With `reset_max` (periodic samples) the pipeline's counters are those of the last
        reading without it: some hundred calls a second would disturb what is measured.
        """
        with self._lock:
            stats = self._kernel.stats(newest=not reset_max)
            if not reset_max or not self._counts:
                self._counts = self._read(stats)
                held = self._account.read(self._counts, self._asleep(), self._clock())
            else:
                held = 0
            ports = {}
            received = refused = sent = lost = 0
            for number, port in self._switch.ports.items():
                counts, kernel = self._counts[number], stats[port.ifname]
                before, between, after = self._account.lost.get(number, (0, 0, 0))
                depth = int(self._call("bm_register_read", CONTEXT, OCCUPANCY, number))
                deepest = max(self._deepest.get(number, 0), depth)
                self._deepest[number] = depth if reset_max else deepest
                ports[number] = {
                    "rx_packets": kernel.rx_packets if reset_max else counts.received,
                    "rx_bytes": kernel.rx_bytes,
                    "tx_packets": kernel.tx_packets,
                    "tx_bytes": kernel.tx_bytes,
                    "drops": {
                        "rx_socket": before,
                        "queue_full": between,
                        "tx_error": after,
                        "pipeline": counts.refused,
                    },
                    "corrupted": 0,
                    "enqueued": counts.forwarded - between,
                    "dequeued": counts.transmitted,
                    "recirculated": 0,
                    "queue_depth": [depth, 0],
                    "queue_depth_max": deepest,
                    "in_flight": 0,
                }
                received += counts.received
                refused += counts.refused
                sent += counts.kernel_tx
                lost += between + after
            return {
                "now": self._clock(),
                "ports": ports,
                "totals": {
                    "received": received,
                    "copies": 0,
                    "sent": sent,
                    "packet_in": 0,
                    "dropped": refused + lost,
                    "held": held,
                },
                "fidelity": self._turns.sample() if reset_max else {},
                "unknown": list(UNKNOWN),
            }

    def counters(self, names: Sequence[str] | None = None) -> dict[str, dict[str, list[int]]]:
        """Counter -> packets and bytes of the cells up to the highest port of the switch."""
        if names is None:
            raise CtlError(f"{self._switch.name}: bmv2 has no list of its counters: name them")
        size = max(self._switch.ports, default=-1) + 1
        found: dict[str, dict[str, list[int]]] = {}
        for name in names:
            cells = [
                self._call("bm_counter_read", CONTEXT, name, i) if i in self._switch.ports else None
                for i in range(size)
            ]
            found[name] = {
                "packets": [0 if c is None else int(c.packets) for c in cells],
                "bytes": [0 if c is None else int(c.bytes) for c in cells],
            }
        return found
