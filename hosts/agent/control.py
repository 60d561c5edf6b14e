"""The control socket: JSON lines over a UNIX stream socket, one reply per request, in order.

{"op": ..., ...} -> {"ok": true, ...} or {"ok": false, "error": "one line"}. A request may be
answered later (`Later`): replies of one connection still come in the order of its requests.
Whatever a client sends, the server goes on.
"""

from __future__ import annotations

import json
import os
import socket
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

Json = dict[str, Any]
MAX_REQUEST = 8 << 20
MAX_BACKLOG = 16


class ControlError(Exception):
    """The socket cannot be opened; str() is one line."""


class Later:
    """A reply that will be given by `answer`. `error` answers with ok false."""

    def __init__(self) -> None:
        self.reply: Json | None = None
        self.on_reply: Callable[[], None] | None = None

    def answer(self, fields: Json) -> None:
        self._set({"ok": True, **fields})

    def error(self, text: str) -> None:
        self._set({"ok": False, "error": text})

    def _set(self, reply: Json) -> None:
        if self.reply is None:
            self.reply = reply
            if self.on_reply is not None:
                self.on_reply()


Handler = Callable[[Json], "Json | Later"]


class _Connection:
    def __init__(self, sock: socket.socket, handler: Handler, blocked: Callable[[], None]) -> None:
        self.sock = sock
        self._blocked = blocked
        self.open = True
        self._handler = handler
        self._in = bytearray()
        self._out = bytearray()
        self._replies: deque[Later] = deque()

    def readable(self) -> None:
        """Read and handle whole lines."""
        try:
            data = self.sock.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.open = False
            return
        self._in += data
        while (end := self._in.find(b"\n")) >= 0:
            line = bytes(self._in[:end])
            del self._in[: end + 1]
            if line.strip():
                self._request(line)
        if len(self._in) > MAX_REQUEST:
            self._reply({"ok": False, "error": f"request longer than {MAX_REQUEST} bytes"})
            self._in.clear()
            self.open = False

    def _request(self, line: bytes) -> None:
        try:
            request = json.loads(line)
        except (ValueError, RecursionError) as error:
            self._reply({"ok": False, "error": f"not JSON: {error}"})
            return
        if not isinstance(request, dict):
            self._reply({"ok": False, "error": "a request must be a JSON object"})
            return
        reply = self._handler(request)
        if isinstance(reply, Later):
            self._replies.append(reply)
            reply.on_reply = self._release
            self._release()
        else:
            self._reply(reply)

    def _reply(self, reply: Json) -> None:
        done = Later()
        done.reply = reply
        self._replies.append(done)
        self._release()

    def _release(self) -> None:
        while self._replies and self._replies[0].reply is not None:
            self._out += json.dumps(self._replies.popleft().reply).encode() + b"\n"
        self.write()

    def write(self) -> None:
        """Send what is waiting; a client that does not read is dropped once a lot waits."""
        while self._out:
            try:
                sent = self.sock.send(self._out)
            except BlockingIOError:
                if len(self._out) > 4 * MAX_REQUEST:
                    self.open = False
                self._blocked()
                return
            except OSError:
                self.open = False
                self._out.clear()
                return
            del self._out[:sent]


class ControlServer:
    """All connections. `fds` changes: the loop asks `readable(fd)` for any of them."""

    def __init__(
        self,
        path: Path,
        handler: Handler,
        *,
        added: Callable[[int], None],
        removed: Callable[[int], None],
    ) -> None:
        self._path = path
        self._handler = handler
        self._added = added
        self._removed = removed
        self._connections: dict[int, _Connection] = {}
        self.waiting = False
        """Whether `flush` should be called again soon."""
        self._listener = _listen(path)
        added(self._listener.fileno())

    def owns(self, fd: int) -> bool:
        return fd in self._connections or fd == self._listener.fileno()

    def readable(self, fd: int) -> None:
        """A descriptor of ours has something."""
        if fd == self._listener.fileno():
            self._accept()
            return
        connection = self._connections[fd]
        connection.readable()
        self._reap(fd, connection)

    def flush(self) -> None:
        """Retry writes that did not fit before."""
        self.waiting = False
        for fd, connection in list(self._connections.items()):
            connection.write()
            self._reap(fd, connection)

    def _blocked(self) -> None:
        self.waiting = True

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:
            return
        sock.setblocking(False)
        self._connections[sock.fileno()] = _Connection(sock, self._handler, self._blocked)
        self._added(sock.fileno())

    def _reap(self, fd: int, connection: _Connection) -> None:
        if not connection.open:
            del self._connections[fd]
            self._removed(fd)
            connection.sock.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.write()
            connection.sock.close()
        self._listener.close()
        self._path.unlink(missing_ok=True)


def _listen(path: Path) -> socket.socket:
    """Listen on `path`; a socket file nobody listens on any more is replaced."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    if path.is_socket():
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
                probe.connect(os.fspath(path))
        except OSError:
            path.unlink(missing_ok=True)
        else:
            raise ControlError(f"{path}: another agent listens there; use another --socket")
    try:
        sock.bind(os.fspath(path))
    except OSError as error:
        reason = error.strerror or str(error)
        if len(os.fspath(path)) > 107:
            reason = "path longer than 107 characters"
        raise ControlError(f"{path}: cannot listen: {reason}") from None
    path.chmod(0o600)
    sock.listen(MAX_BACKLOG)
    sock.setblocking(False)
    return sock
