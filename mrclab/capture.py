"""A drill's packets in one pcapng: tcpdump at each interface, merged by time when the drill ends.

tcpdump records (C, a kernel ring, its own count of what it missed); merging afterwards keeps
that work out of the drill.
"""

from __future__ import annotations

import heapq
import operator
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from hosts.capture.reader import Captured, CaptureError, read_capture
from hosts.capture.writer import PcapngWriter
from mrclab.errors import UserError
from topologies.plan import Plan

SNAPLEN = 256
"""Bytes kept of each packet: all headers, with SRv6 and its segment list too."""
# A ring this large holds what arrives while tcpdump waits for a processor.
RING_KIB = 4096
READY_SECONDS = 30.0
STOP_SECONDS = 30.0
_DROPPED = re.compile(rb"(\d+) packets? dropped by kernel")


@dataclass(frozen=True)
class Point:
    """An interface to record."""

    ifname: str
    description: str
    pid: int | None
    """A process in the interface's network namespace; None: this one."""


@dataclass
class Result:
    """What was recorded."""

    path: Path
    packets: int = 0
    missed: dict[str, int] = field(default_factory=dict)
    """Packets that tcpdump could not keep up with, by interface (only those with any)."""

    def describe(self) -> str:
        """One line for the user."""
        text = f"capture: {self.path} ({self.packets} packets)"
        if self.missed:
            worst = max(self.missed, key=lambda name: self.missed[name])
            total = sum(self.missed.values())
            text += f"; {total} packets more were not recorded, most at {worst}"
        return text


def capture_points(plan: Plan, host_pids: Mapping[str, int], where: str) -> list[Point]:
    """`hosts`: every NIC; `all`: every switch port too."""
    points = [
        Point(nic.ifname, f"NIC port {nic.port} of {host.name}, plane {nic.plane}", host_pids[name])
        for name, host in plan.hosts.items()
        for nic in host.nics
    ]
    if where == "all":
        points += [
            Point(port.ifname, f"port {port.number} of {switch.name}, to {port.peer}", None)
            for switch in plan.switches.values()
            for port in switch.ports.values()
        ]
    return points


def host_names(plan: Plan) -> dict[str, str]:
    """Address -> name, for the capture's name resolution block."""
    return {nic.ipv6: host.name for host in plan.hosts.values() for nic in host.nics}


class Recorder:
    """Records at the points from `__enter__` to `__exit__`; then `result` is set.

    Raises UserError when tcpdump is missing or does not start.
    """

    def __init__(
        self,
        points: list[Point],
        path: Path,
        names: Mapping[str, str],
        *,
        snaplen: int = SNAPLEN,
        comment: str = "",
    ) -> None:
        """`snaplen`: bytes kept of each packet, 0: all. `path`: the pcapng to write."""
        self._points = points
        self._path = path
        self._names = names
        self._snaplen = snaplen
        self._comment = comment
        self._running: list[tuple[Point, Path, subprocess.Popen[bytes]]] = []
        self.result: Result | None = None

    def __enter__(self) -> Recorder:
        if shutil.which("tcpdump") is None:
            raise UserError("--capture: tcpdump is not on the PATH; run sudo ./lab setup")
        self._folder = tempfile.TemporaryDirectory(prefix="capture-", dir=self._path.parent)
        try:
            for point in self._points:
                self._start(point)
            for point, _, process in self._running:
                _await_ready(point, process)
        except BaseException:
            self._end()
            self._folder.cleanup()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        missed = self._end()
        try:
            if kind is None:
                self.result = Result(self._path, self._merge(), missed)
        finally:
            self._folder.cleanup()

    def _start(self, point: Point) -> None:
        file = Path(self._folder.name) / f"{point.ifname}.pcap"
        command = [
            *(("mnexec", "-a", str(point.pid)) if point.pid is not None else ()),
            *("tcpdump", "-i", point.ifname, "-s", str(self._snaplen), "-B", str(RING_KIB)),
            *("--time-stamp-precision=nano", "-Z", "root", "-n", "-w", str(file)),
        ]
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is the drill's to handle
        )
        self._running.append((point, file, process))

    def _end(self) -> dict[str, int]:
        for _, _, process in self._running:
            process.send_signal(signal.SIGINT)
        missed = {}
        for point, _, process in self._running:
            try:
                _, said = process.communicate(timeout=STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                _, said = process.communicate()
            found = _DROPPED.search(said)
            if found and int(found[1]):
                missed[point.ifname] = int(found[1])
        return missed

    def _merge(self) -> int:
        """Writes the pcapng; the number of packets in it."""
        partial = self._path.with_name(self._path.name + ".part")
        count = 0
        with partial.open("wb") as out:
            writer = PcapngWriter(out, comment=self._comment)
            writer.names(self._names)
            streams = []
            for point, file, _ in self._running:
                number = writer.interface(point.ifname, description=point.description)
                streams.append(_packets(number, file))
            for _, number, item in heapq.merge(*streams, key=operator.itemgetter(0)):
                writer.packet(number, item.time_ns or 0, item.data, wire_length=item.wire_length)
                count += 1
        partial.replace(self._path)
        return count


def _packets(number: int, file: Path) -> Iterator[tuple[int, int, Captured]]:
    """(time, interface, packet); ends early where tcpdump was cut off."""
    try:
        for item in read_capture(file):
            yield item.time_ns or 0, number, item
    except CaptureError:
        return


def _await_ready(point: Point, process: subprocess.Popen[bytes]) -> None:
    """Returns when tcpdump says that it listens."""
    assert process.stderr is not None
    end = time.monotonic() + READY_SECONDS
    said = b""
    while b"listening on" not in said:
        left = end - time.monotonic()
        if left <= 0 or not select.select([process.stderr], [], [], left)[0]:
            raise UserError(f"--capture: tcpdump did not start on {point.ifname}")
        chunk = process.stderr.read1()  # type: ignore[attr-defined]
        if not chunk:
            reason = said.decode(errors="replace").strip().splitlines() or ["no reason given"]
            raise UserError(f"--capture: {point.ifname}: {reason[-1]}")
        said += chunk
