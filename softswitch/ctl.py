"""Side channel of a running switch: what P4Runtime has no words for.

Port settings (rate, queue limits, delays; loss, corruption, blackhole of what leaves and of
what arrives), statistics of the traffic manager and whole counter arrays, over a UNIX stream
socket. One JSON object per line each way:

    {"op": "ports"}                                 -> {"ok": true, "ports": {"1": {...}}}
    {"op": "set_port", "port": 1, "config": {...}}  -> {"ok": true, "config": {...}}
    {"op": "stats", "reset": false}                 -> {"ok": true, "now": ns, "ports": ...}
    {"op": "counters", "names": ["I.trims"]}        -> {"ok": true, "counters": {...}}
    {"op": "version"}                               -> {"ok": true, "pid": ..., ...}

A refused request gets {"ok": false, "error": "one line"}; the connection stays open.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import platform
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softswitch.engine.types import EngineError, PortConfig

if TYPE_CHECKING:
    from softswitch.engine import Engine

LOG = logging.getLogger("softswitch.ctl")

MAX_LINE = 1 << 20
"""Longest request or reply line in bytes."""

_MAX_SUN_PATH = 107


class CtlError(Exception):
    """The switch refused a request, or cannot be reached. The text is one line."""


def _integer(value: object, name: str, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise CtlError(f"{name}: {value!r} is not an integer")
    if not low <= value <= high:
        raise CtlError(f"{name}: {value} is not in {low}..{high}")
    return value


def _probability(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CtlError(f"{name}: {value!r} is not a number")
    if not 0.0 <= value <= 1.0:
        raise CtlError(f"{name}: {value} is not in 0..1")
    return float(value)


def _boolean(value: object, name: str) -> bool:
    if not isinstance(value, bool):
        raise CtlError(f"{name}: {value!r} is not true or false")
    return value


def _limits(value: object, name: str) -> tuple[int, ...]:
    if not isinstance(value, list | tuple) or not value:
        raise CtlError(f"{name}: {value!r} is not a list of packet counts")
    return tuple(_integer(item, name, 1, 1 << 20) for item in value)


def _bounded(high: int) -> Callable[[object, str], int]:
    return lambda value, name: _integer(value, name, 0, high)


_CHECKS: dict[str, Callable[[object, str], object]] = {
    "rate_bps": _bounded(10**15),
    "queue_limits": _limits,
    "tx_delay_ns": _bounded(10**12),
    "rx_delay_ns": _bounded(10**12),
    "loss": _probability,
    "corrupt": _probability,
    "blackhole": _boolean,
    "admin_up": _boolean,
    "rx_loss": _probability,
    "rx_corrupt": _probability,
    "rx_blackhole": _boolean,
}
if set(_CHECKS) != {item.name for item in fields(PortConfig)}:  # pragma: no cover
    raise RuntimeError("softswitch.ctl does not know every field of PortConfig")


def changed_config(config: PortConfig, changes: Mapping[str, object]) -> PortConfig:
    """`config` with the JSON `changes` applied; CtlError names the field that is wrong."""
    checked: dict[str, Any] = {}
    for name, value in changes.items():
        check = _CHECKS.get(name)
        if check is None:
            raise CtlError(f"config.{name}: unknown setting; known are {', '.join(_CHECKS)}")
        checked[name] = check(value, f"config.{name}")
    return replace(config, **checked)


def check_socket_path(path: str | Path) -> str:
    """The path as text, or CtlError when the kernel cannot bind it."""
    text = os.fspath(path)
    if len(os.fsencode(text)) > _MAX_SUN_PATH:
        raise CtlError(f"{text}: longer than the {_MAX_SUN_PATH} bytes a UNIX socket allows")
    return text


class CtlServer:
    """Answers on a UNIX socket for one engine, one thread per connection."""

    def __init__(
        self,
        engine: Engine,
        path: str | Path,
        *,
        interfaces: Mapping[int, str] | None = None,
        versions: Mapping[str, str] | None = None,
    ) -> None:
        self._engine = engine
        self._interfaces = dict(interfaces or {})
        self._versions = dict(versions or {})
        self.path = check_socket_path(path)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self._closed = False
        self._ops: dict[str, Callable[[Mapping[str, object]], dict[str, Any]]] = {
            "ports": self._op_ports,
            "set_port": self._op_set_port,
            "stats": self._op_stats,
            "counters": self._op_counters,
            "version": self._op_version,
        }

    def start(self) -> None:
        """Bind and serve in the background. CtlError when the path cannot be bound."""
        try:
            self._unlink_stale()
            self._listener.bind(self.path)
            os.chmod(self.path, 0o600)
            self._listener.listen(16)
        except OSError as error:
            raise CtlError(f"--ctl {self.path}: {error.strerror or error}") from None
        threading.Thread(target=self._accept, name="ctl", daemon=True).start()

    def _unlink_stale(self) -> None:
        """Remove a socket nobody listens on; leave anything else where it is."""
        if not Path(self.path).is_socket():
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            try:
                probe.connect(self.path)
            except ConnectionRefusedError:
                os.unlink(self.path)

    def close(self) -> None:
        """Stop accepting and remove the socket."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with contextlib.suppress(OSError):
            os.unlink(self.path)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(
                target=self._serve, args=(connection,), name="ctl-client", daemon=True
            ).start()

    def _serve(self, connection: socket.socket) -> None:
        with (
            contextlib.suppress(OSError),
            connection,
            connection.makefile("rb") as reader,
        ):
            while line := reader.readline(MAX_LINE + 1):
                if len(line) > MAX_LINE:
                    reply: dict[str, Any] = {"ok": False, "error": "request line too long"}
                    connection.sendall(json.dumps(reply).encode() + b"\n")
                    return
                reply = self.answer(line)
                connection.sendall(json.dumps(reply, separators=(",", ":")).encode() + b"\n")

    def answer(self, line: bytes) -> dict[str, Any]:
        """The reply to one request line; never raises for bad input."""
        try:
            try:
                request = json.loads(line)
            except (ValueError, RecursionError):
                raise CtlError("request is not JSON") from None
            if not isinstance(request, dict):
                raise CtlError("request is not a JSON object")
            name = request.get("op")
            op = self._ops.get(name) if isinstance(name, str) else None
            if op is None:
                raise CtlError(f"op: {name!r} is not one of {', '.join(self._ops)}")
            return {"ok": True, **op(request)}
        except (CtlError, EngineError) as error:
            return {"ok": False, "error": str(error)}
        except Exception as error:
            LOG.exception("request failed")
            return {"ok": False, "error": f"internal error: {type(error).__name__}: {error}"}

    # -- operations
    def _port(self, request: Mapping[str, object]) -> int:
        port = _integer(request.get("port"), "port", 0, 0xFFFF)
        if port not in self._engine.ports():
            raise CtlError(f"port: the switch has no port {port}")
        return port

    def _op_ports(self, request: Mapping[str, object]) -> dict[str, Any]:
        engine = self._engine
        return {
            "ports": {
                str(port): {
                    "name": self._interfaces.get(port),
                    "up": engine.port_up(port),
                    "config": asdict(engine.port_config(port)),
                }
                for port in engine.ports()
            }
        }

    def _op_set_port(self, request: Mapping[str, object]) -> dict[str, Any]:
        port = self._port(request)
        changes = request.get("config")
        if not isinstance(changes, dict):
            raise CtlError("config: a JSON object is needed")
        wanted = changed_config(self._engine.port_config(port), changes)
        self._engine.set_port_config(port, wanted)
        return {"config": asdict(self._engine.port_config(port))}

    def _op_stats(self, request: Mapping[str, object]) -> dict[str, Any]:
        engine = self._engine
        reset = _boolean(request.get("reset", False), "reset")
        reset_max = _boolean(request.get("reset_max", False), "reset_max") or reset
        ports = {}
        for port in engine.ports():
            stats = engine.port_stats(port, reset_max=reset_max)
            values = {item.name: getattr(stats, item.name) for item in fields(stats)}
            values["drops"] = dict(stats.drops)
            ports[str(port)] = values
        fidelity = asdict(engine.fidelity(reset=reset))
        totals = asdict(engine.totals())
        now = time.monotonic_ns()
        return {"now": now, "ports": ports, "totals": totals, "fidelity": fidelity}

    def _op_counters(self, request: Mapping[str, object]) -> dict[str, Any]:
        names = request.get("names")
        if names is None:
            names = list(self._engine.info.counters)
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise CtlError("names: a list of counter names is needed")
        counters = {}
        for name in names:
            values = self._engine.counter_read_all(name)
            counters[name] = {
                "packets": [value.packets for value in values],
                "bytes": [value.bytes for value in values],
            }
        return {"counters": counters}

    def _op_version(self, request: Mapping[str, object]) -> dict[str, Any]:
        return {
            "pid": os.getpid(),
            "versions": {"python": platform.python_version(), **self._versions},
        }


class CtlClient:
    """Blocking client of the side channel; connects on first use and after a failure."""

    def __init__(self, path: str | Path, timeout: float = 5.0) -> None:
        self.path = check_socket_path(path)
        self._timeout = timeout
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._buffer = b""

    def __enter__(self) -> CtlClient:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop the connection; the next call makes a new one."""
        with self._lock:
            self._drop()

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        self._buffer = b""

    def _connected(self) -> socket.socket:
        if self._socket is None:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
            connection.settimeout(self._timeout)
            try:
                connection.connect(self.path)
            except OSError:
                connection.close()
                raise
            self._socket = connection
        return self._socket

    def request(self, op: str, **arguments: object) -> dict[str, Any]:
        """One request and its reply without "ok". CtlError when refused or unreachable."""
        line = json.dumps({"op": op, **arguments}).encode() + b"\n"
        with self._lock:
            try:
                connection = self._connected()
                connection.sendall(line)
                reply = json.loads(self._read_line(connection))
            except TimeoutError:
                self._drop()
                raise CtlError(f"{self.path}: no answer to {op} in {self._timeout:g} s") from None
            except (OSError, ValueError) as error:
                self._drop()
                raise CtlError(f"{self.path}: {op}: {error}") from None
        if not isinstance(reply, dict) or reply.pop("ok", None) is not True:
            text = reply.get("error") if isinstance(reply, dict) else "malformed reply"
            raise CtlError(f"{self.path}: {op}: {text}")
        return reply

    def _read_line(self, connection: socket.socket) -> bytes:
        while b"\n" not in self._buffer:
            chunk = connection.recv(1 << 16)
            if not chunk:
                raise ConnectionResetError("the switch closed the connection")
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    # -- operations, of the same names as on the wire
    def ports(self) -> dict[int, dict[str, Any]]:
        """Port -> {"name": interface or None, "up": bool, "config": {...}}."""
        return {int(port): value for port, value in self.request("ports")["ports"].items()}

    def set_port(self, port: int, **config: object) -> dict[str, Any]:
        """Change some settings of a port; the whole configuration as read back."""
        reply: dict[str, Any] = self.request("set_port", port=port, config=config)["config"]
        return reply

    def stats(self, reset_max: bool = False, reset: bool = False) -> dict[str, Any]:
        """{"now": ns, "ports": {port: PortStats fields}, "totals": ..., "fidelity": ...}.

        `reset_max`: the deepest queue depths start anew once read; `reset`: so does the whole
        of fidelity, CPU and wall time included. Counters never do.
        """
        reply = self.request("stats", reset_max=reset_max, reset=reset)
        reply["ports"] = {int(port): value for port, value in reply["ports"].items()}
        return reply

    def counters(self, names: Sequence[str] | None = None) -> dict[str, dict[str, list[int]]]:
        """Counter name -> {"packets": [...], "bytes": [...]}; all counters when None."""
        reply = self.request("counters", names=None if names is None else list(names))
        counters: dict[str, dict[str, list[int]]] = reply["counters"]
        return counters

    def version(self) -> dict[str, Any]:
        """{"pid": ..., "versions": {...}}."""
        return self.request("version")
