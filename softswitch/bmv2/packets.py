"""Packets in and out of simple_switch without interfaces: its `--packet-in` socket.

That is a nanomsg PAIR socket on a UNIX socket. Of the SP protocol only what one connection
needs is here: a greeting, then messages of a type byte, a length of 8 bytes and a body. A
body is a header of three integers of the machine's order (type, port, more) and the frame.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Callable

GREETING = b"\0SP\0\0\x10\0\0"
"""SP, version 0, protocol 16 (PAIR version 0)."""
IN_BAND = 1
"""Type byte of a message on a UNIX socket that carries its body."""

PORT_ADD, PORT_REMOVE, PORT_STATUS, PACKET_IN, PACKET_OUT, INFO_REQUEST, INFO_REPLY = range(7)

_HEAD = struct.Struct("=iii")
_FRAME = struct.Struct("!BQ")
MAX_MESSAGE = 1 << 20


class PacketSocket:
    """A connection to a switch's packet socket. Raises OSError, TimeoutError."""

    def __init__(self, path: str, timeout: float) -> None:
        self._timeout = timeout
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self._buffer = b""
        self._frames: list[tuple[int, bytes]] = []
        try:
            self._socket.settimeout(timeout)
            self._socket.connect(path)
            self._socket.sendall(GREETING)
            if self._exactly(len(GREETING)) != GREETING:
                raise ConnectionError("not a nanomsg PAIR socket")
        except BaseException:
            self._socket.close()
            raise

    def close(self) -> None:
        self._socket.close()

    def _more(self, limit: float) -> None:
        left = limit - time.monotonic()
        if left <= 0 or not select.select([self._socket], [], [], left)[0]:
            raise TimeoutError(f"no answer in {self._timeout:g} s")
        chunk = self._socket.recv(1 << 16)
        if not chunk:
            raise ConnectionResetError("the switch closed its packet socket")
        self._buffer += chunk

    def _exactly(self, count: int) -> bytes:
        limit = time.monotonic() + self._timeout
        while len(self._buffer) < count:
            self._more(limit)
        data, self._buffer = self._buffer[:count], self._buffer[count:]
        return data

    def _send(self, kind: int, port: int, more: int, frame: bytes = b"") -> None:
        body = _HEAD.pack(kind, port, more) + frame
        self._socket.sendall(_FRAME.pack(IN_BAND, len(body)) + body)

    def _message(self) -> tuple[int, int, bytes]:
        kind, size = _FRAME.unpack(self._exactly(_FRAME.size))
        if kind != IN_BAND or not _HEAD.size <= size <= MAX_MESSAGE:
            raise ConnectionError(f"malformed message of type {kind}, {size} bytes")
        body = self._exactly(size)
        what, port, more = _HEAD.unpack_from(body)
        return what, port, body[_HEAD.size :][: more if what == PACKET_OUT else None]

    def send(self, port: int, frame: bytes) -> None:
        """A frame arrives at the switch."""
        self._send(PACKET_IN, port, len(frame), frame)

    def synchronise(self) -> None:
        """Return when the switch has taken in everything that was sent, and everything it sent
        before that is here: it answers a request in the order of the socket."""
        self._send(INFO_REQUEST, 0, 0)
        while True:
            what, port, frame = self._message()
            if what == PACKET_OUT:
                self._frames.append((port, frame))
            elif what == INFO_REPLY:
                return

    def received(self) -> list[tuple[int, bytes]]:
        """(port, frame) that came out up to the last `synchronise`, in order."""
        frames, self._frames = self._frames, []
        return frames


def retry(connect: Callable[[], PacketSocket], alive: Callable[[], bool]) -> PacketSocket:
    """Connect as soon as the switch listens; the last OSError when it ended before."""
    while True:
        try:
            return connect()
        except (FileNotFoundError, ConnectionRefusedError):
            if not alive():
                raise
