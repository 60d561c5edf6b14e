"""Many switches in one process and one clock: the C side of virtual time.

A `Network` owns the events of all its switches. It is run from one moment to the next; frames
of NICs go in and come out as records in plain buffers, so that Python is not entered for a
packet inside the fabric. docs/virtual-time.md says what is modelled.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from softswitch.engine import native
from softswitch.engine.engine import Engine
from softswitch.engine.types import EngineError, InvalidValue

RECORD = struct.Struct("=qII")
"""Head of a record: time in ns, NIC, length of the frame that follows, padded to 8 bytes."""
PADDING = (b"", *(bytes(n) for n in range(7, 0, -1)))
"""By length modulo 8."""
PACKETS = 1 << 22
"""Frames a network can hold at once. Memory is touched only as they are used."""


@dataclass(frozen=True, slots=True)
class NetworkFigures:
    """What a network has done so far. `hops`: frames that arrived at a switch; `packets`:
    buffers that were ever in use together, of `packet_bytes` each."""

    hops: int
    events: int
    injected: int
    delivered: int
    packets: int
    packet_bytes: int


class Network:
    """Switches wired to each other and to NICs, in virtual time.

    Not thread-safe; the engines in it are not run by anything else. Time: nanoseconds, never
    going back. Errors are those of the engine.
    """

    def __init__(self, frame_bytes: int, packets: int = PACKETS) -> None:
        """`frame_bytes`: the longest frame a NIC sends, Ethernet header included."""
        self._ffi, self._lib = native.runtime()
        net = self._lib.mrc_net_new(frame_bytes, packets)
        if net == self._ffi.NULL:
            raise EngineError("out of memory for a virtual network")
        # Not collected by itself: switches may be freed before it. Call close().
        self._net: Any = net
        self._engines: list[Engine] = []
        self._boxes: list[Any] = []

    def close(self) -> None:
        """Free all packets. The switches are of no use afterwards. Idempotent."""
        if self._net is not None:
            self._lib.mrc_net_free(self._net)
            self._net = None

    def _check(self, rc: int, what: str) -> int:
        if rc < 0:
            native.throw(rc, what)
        return int(rc)

    def add(self, engine: Engine) -> None:
        """A switch whose program is loaded and whose ports are there; neither changes after."""
        self._check(self._lib.mrc_net_add(self._net, engine.handle), "switch")
        self._engines.append(engine)

    def wire(self, a: Engine, port_a: int, b: Engine, port_b: int) -> None:
        """Connect two switch ports. Rates and delays are those of the sending ports."""
        rc = self._lib.mrc_net_wire(self._net, a.handle, port_a, b.handle, port_b)
        self._check(rc, f"ports {port_a} and {port_b}")

    def nic(self, engine: Engine, port: int, rate_bps: int, delay_ns: int, group: int = 0) -> int:
        """A NIC behind a switch port; its number. `rate_bps` and `delay_ns` are of the way to
        the switch. What reaches it is taken with its `group`."""
        if not 0 <= group < 1 << 10:
            raise InvalidValue(f"group {group} is not 0..1023")
        rc = self._lib.mrc_net_nic(self._net, engine.handle, port, rate_bps, delay_ns, group)
        while len(self._boxes) <= group:
            self._boxes.append(None)
        return self._check(rc, f"port {port}")

    def send(self, records: bytes | bytearray | memoryview) -> None:
        """Frames that NICs begin to send, see `record`. A frame must not reach its switch
        before the time that `run` has come to. Of one NIC they are in the order of time."""
        view = self._ffi.from_buffer(records)
        self._check(self._lib.mrc_net_send(self._net, view, len(records)), "frames to send")

    def next_event(self) -> int | None:
        """When something happens next, or None."""
        t = self._lib.mrc_net_next(self._net)
        return None if t < 0 else int(t)

    def run(self, until: int) -> None:
        """Everything that happens before `until`."""
        self._check(self._lib.mrc_net_run(self._net, until), "virtual network")

    def waiting(self, group: int = 0) -> int:
        """Bytes that `take` would give."""
        return int(self._lib.mrc_net_waiting(self._net, group))

    def take_into(self, group: int, room: memoryview) -> int:
        """As `take`, into memory of the caller; the bytes written, whole records only."""
        into = self._ffi.from_buffer(room)
        return int(self._lib.mrc_net_take(self._net, group, into, len(room)))

    def take(self, group: int = 0) -> memoryview:
        """Records of what reached the NICs of a group since the last call, in the order of
        time (time: the last bit is there). The memory is reused by the next call."""
        size = self._lib.mrc_net_waiting(self._net, group)
        if not size:
            return memoryview(b"")
        box = self._boxes[group]
        if box is None or len(box) < size:
            box = self._boxes[group] = self._ffi.new("uint8_t[]", max(2 * size, 1 << 16))
        got = self._lib.mrc_net_take(self._net, group, box, len(box))
        return memoryview(self._ffi.buffer(box, got))

    def cut(self, nic: int, now: int) -> None:
        """The cable of a NIC is cut: what is on its way to the switch is lost there
        (port_down). The switch's own port is set down with `Engine.set_port_up`."""
        self._check(self._lib.mrc_net_cut(self._net, nic, now), f"NIC {nic}")

    def on_cable(self, nics: Sequence[int]) -> int:
        """Frames on their way from these NICs to their switches."""
        return sum(int(self._lib.mrc_net_in_flight(self._net, nic)) for nic in nics)

    def figures(self) -> NetworkFigures:
        """Counts since the start."""
        f = self._ffi.new("struct mrc_net_figures *")
        self._lib.mrc_net_get_figures(self._net, f)
        return NetworkFigures(
            int(f.hops),
            int(f.events),
            int(f.injected),
            int(f.delivered),
            int(f.packets),
            int(f.packet_bytes),
        )


def record(t: int, nic: int, frame: bytes) -> bytes:
    """One record for `Network.send`."""
    return b"".join((RECORD.pack(t, nic, len(frame)), frame, PADDING[len(frame) & 7]))


def records(buffer: memoryview) -> list[tuple[int, int, memoryview]]:
    """The records of a buffer: (time, NIC, frame); frames are views into it."""
    found: list[tuple[int, int, memoryview]] = []
    at, end, unpack = 0, len(buffer), RECORD.unpack_from
    while at < end:
        t, nic, length = unpack(buffer, at)
        at += 16
        found.append((t, nic, buffer[at : at + length]))
        at += length + 7 & ~7
    return found
