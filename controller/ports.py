"""Port state of every switch, from the kernel: rtnetlink link messages.

A switch port is up while its interface has IFF_UP and IFF_RUNNING (carrier). Works for any
switch whose interfaces are in this network namespace, whatever the switch itself reports.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from controller.errors import ControllerError
from topologies.plan import Plan

_RTMGRP_LINK = 1
_RTM_NEWLINK, _RTM_DELLINK, _RTM_GETLINK = 16, 17, 18
_NLM_F_REQUEST_DUMP = 0x301
_IFF_UP_RUNNING = 0x1 | 0x40
_IFLA_IFNAME = 3
_HEADER = struct.Struct("=IHHII")
_LINK = struct.Struct("=BxHiII")
_ATTRIBUTE = struct.Struct("=HH")


@dataclass(frozen=True)
class PortEvent:
    """A switch port changed. `time` in nanoseconds of CLOCK_MONOTONIC, when it was seen."""

    time: int
    switch: str
    port: int
    ifname: str
    link: str
    up: bool


@dataclass(frozen=True)
class LinkState:
    """An interface as the kernel tells it; `up` False also when it was deleted."""

    ifname: str
    up: bool


def parse_link_messages(data: bytes) -> Iterator[LinkState]:
    """Link messages in a netlink datagram; anything malformed or of another type is skipped."""
    offset = 0
    while offset + _HEADER.size <= len(data):
        length, kind, _flags, _sequence, _pid = _HEADER.unpack_from(data, offset)
        if not _HEADER.size <= length <= len(data) - offset:
            return
        if kind in (_RTM_NEWLINK, _RTM_DELLINK):
            state = _parse_link(data[offset + _HEADER.size : offset + length])
            if state is not None:
                yield state if kind == _RTM_NEWLINK else LinkState(state.ifname, False)
        offset += (length + 3) & ~3


def _parse_link(body: bytes) -> LinkState | None:
    if len(body) < _LINK.size:
        return None
    flags = _LINK.unpack_from(body)[3]
    offset = _LINK.size
    while offset + _ATTRIBUTE.size <= len(body):
        length, kind = _ATTRIBUTE.unpack_from(body, offset)
        if not _ATTRIBUTE.size <= length <= len(body) - offset:
            return None
        if kind == _IFLA_IFNAME:
            name = body[offset + _ATTRIBUTE.size : offset + length].rstrip(b"\0")
            return LinkState(
                name.decode(errors="replace"), flags & _IFF_UP_RUNNING == _IFF_UP_RUNNING
            )
        offset += (length + 3) & ~3
    return None


def interfaces(plan: Plan) -> dict[str, tuple[str, int, str]]:
    """Interface of every switch port -> (switch, port, link)."""
    return {
        port.ifname: (switch.name, number, port.link)
        for switch in plan.switches.values()
        for number, port in switch.ports.items()
    }


class PortWatch:
    """Follows the ports of a plan; calls `on_change` from its thread for every change.

    `state` holds what is known now; ports whose interface does not exist are down.
    """

    def __init__(self, plan: Plan, on_change: Callable[[PortEvent], None]) -> None:
        self._known: Mapping[str, tuple[str, int, str]] = interfaces(plan)
        self._on_change = on_change
        self.state: dict[tuple[str, int], bool] = {
            (switch, port): False for switch, port, _link in self._known.values()
        }
        self._ready = threading.Event()
        self._stop_read, self._stop_write = os.pipe()
        self._socket = socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE
        )
        self._thread = threading.Thread(target=self._run, name="port-watch", daemon=True)

    def start(self) -> None:
        """Learn the present state, then follow it. No event is reported for the first state."""
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            self._socket.bind((0, _RTMGRP_LINK))
            self._dump()
        except OSError as error:
            raise ControllerError(f"cannot watch ports through netlink: {error}") from None
        self._thread.start()
        self._ready.wait(5.0)

    def close(self) -> None:
        """Stop following."""
        if self._thread.is_alive():
            os.write(self._stop_write, b"x")
            self._thread.join(2.0)
        self._socket.close()
        for end in (self._stop_read, self._stop_write):
            try:
                os.close(end)
            except OSError as error:
                if error.errno != errno.EBADF:
                    raise

    def _dump(self) -> None:
        body = _LINK.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
        header = _HEADER.pack(_HEADER.size + len(body), _RTM_GETLINK, _NLM_F_REQUEST_DUMP, 1, 0)
        self._socket.send(header + body)

    def _run(self) -> None:
        while True:
            readable, _, _ = select.select([self._socket, self._stop_read], [], [])
            if self._stop_read in readable:
                return
            try:
                data = self._socket.recv(1 << 17)
            except OSError as error:
                if error.errno == errno.ENOBUFS:
                    self._dump()  # messages were lost: ask for everything again
                    continue
                return
            self._take(data)

    def _take(self, data: bytes) -> None:
        for state in parse_link_messages(data):
            known = self._known.get(state.ifname)
            if known is None:
                continue
            switch, port, link = known
            if self.state[switch, port] != state.up:
                self.state[switch, port] = state.up
                if self._ready.is_set():
                    event = PortEvent(
                        time.monotonic_ns(), switch, port, state.ifname, link, state.up
                    )
                    self._on_change(event)
        if not self._ready.is_set() and _dump_done(data):
            self._ready.set()


def _dump_done(data: bytes) -> bool:
    """Whether a netlink datagram ends a dump (NLMSG_DONE or NLMSG_ERROR)."""
    offset = 0
    while offset + _HEADER.size <= len(data):
        length, kind, _flags, _sequence, _pid = _HEADER.unpack_from(data, offset)
        if kind in (2, 3):
            return True
        if length < _HEADER.size:
            return False
        offset += (length + 3) & ~3
    return False
