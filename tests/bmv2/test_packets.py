"""The nanomsg socket that packets come and go by, against a peer of our own."""

from __future__ import annotations

import socket
import struct
import threading
from pathlib import Path

import pytest

from softswitch.bmv2 import packets
from softswitch.bmv2.packets import GREETING, PacketSocket
from softswitch.bmv2.process import activity


def frame(kind: int, port: int, more: int, data: bytes = b"") -> bytes:
    body = struct.pack("=iii", kind, port, more) + data
    return struct.pack("!BQ", 1, len(body)) + body


class Peer:
    """A switch that answers with what it is given."""

    def __init__(self, path: Path, replies: bytes, greeting: bytes = GREETING) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(1)
        self.got = b""
        self._thread = threading.Thread(target=self._serve, args=(greeting, replies), daemon=True)
        self._thread.start()

    def _serve(self, greeting: bytes, replies: bytes) -> None:
        connection, _ = self._listener.accept()
        with connection:
            connection.sendall(greeting)
            # in small pieces, as a stream may come
            for i in range(0, len(replies), 7):
                connection.sendall(replies[i : i + 7])
            while chunk := connection.recv(4096):
                self.got += chunk

    def ended(self) -> bytes:
        self._thread.join(30)
        self._listener.close()
        return self.got


def test_frames_come_in_order_and_up_to_the_answer(tmp_path: Path) -> None:
    replies = b"".join(
        [
            frame(packets.PACKET_OUT, 3, 2, b"ab"),
            frame(packets.PACKET_OUT, 1, 1, b"c"),
            frame(packets.INFO_REPLY, 0, 0, b"\0\0\0\0"),
            frame(packets.PACKET_OUT, 2, 1, b"d"),
            frame(packets.INFO_REPLY, 0, 0, b"\0\0\0\0"),
        ]
    )
    peer = Peer(tmp_path / "s", replies)
    wire = PacketSocket(str(tmp_path / "s"), 30)
    wire.send(7, b"xyz")
    wire.synchronise()
    assert wire.received() == [(3, b"ab"), (1, b"c")]
    assert wire.received() == []
    wire.synchronise()
    assert wire.received() == [(2, b"d")]
    wire.close()
    asked = frame(packets.INFO_REQUEST, 0, 0)
    assert peer.ended() == GREETING + frame(packets.PACKET_IN, 7, 3, b"xyz") + 2 * asked


def test_a_peer_that_is_something_else(tmp_path: Path) -> None:
    Peer(tmp_path / "s", b"", b"HTTP/1.0")
    with pytest.raises(ConnectionError, match="not a nanomsg PAIR socket"):
        PacketSocket(str(tmp_path / "s"), 30)


def test_a_malformed_message(tmp_path: Path) -> None:
    Peer(tmp_path / "s", struct.pack("!BQ", 1, 1 << 40))
    wire = PacketSocket(str(tmp_path / "s"), 30)
    with pytest.raises(ConnectionError, match="malformed"):
        wire.synchronise()
    wire.close()


def test_activity_of_a_process_that_is_not_there() -> None:
    assert activity(2**22 + 1) is None


def test_activity_of_a_process_that_runs() -> None:
    import os

    assert activity(os.getpid()) is None  # this very thread is running
