"""Blocking client of the agent's control socket."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Json = dict[str, Any]


class AgentError(Exception):
    """The agent refused, or did not answer in time; str() is one line."""


class AgentClient:
    """One connection. Every method is one request and raises AgentError when it fails.

    The agent listens once it has printed its ready line. timeout: seconds to wait for any one
    reply.
    """

    def __init__(
        self,
        path: str | Path,
        timeout: float = 10.0,
        *,
        why_gone: Callable[[], str | None] | None = None,
    ) -> None:
        """`why_gone`: asked when the connection breaks; what became of the agent, if known."""
        self.path = os.fspath(path)
        self.timeout = timeout
        self._why_gone = why_gone
        self._broken = False
        self._buffer = bytearray()
        self._sock = self._connect()

    def _connect(self) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.connect(self.path)
        except OSError as error:
            sock.close()
            raise AgentError(f"{self.path}: no agent: {error.strerror}") from None
        return sock

    def call(self, op: str, *, timeout: float | None = None, **fields: Any) -> Json:
        """Send a request, return its reply without `ok`. None values are left out."""
        request = {"op": op, **{k: v for k, v in fields.items() if v is not None}}
        limit = self.timeout if timeout is None else timeout
        try:
            self._sock.settimeout(limit)
            self._sock.sendall(json.dumps(request).encode() + b"\n")
            reply: Json = json.loads(self._line(limit))
        except TimeoutError:
            self._sock.close()  # a late reply must never answer the next request
            raise AgentError(f"{self.path}: {op}: no reply within {limit} s") from None
        except OSError as error:
            self._broken = True
            known = self._why_gone() if self._why_gone is not None else None
            raise AgentError(known or f"{self.path}: {op}: {error.strerror or error}") from None
        except ValueError:
            raise AgentError(f"{self.path}: {op}: the reply is not JSON") from None
        if not reply.pop("ok", False):
            raise AgentError(f"{self.path}: {reply.get('error', 'refused without reason')}")
        return reply

    def _line(self, limit: float) -> bytes:
        until = time.monotonic() + limit
        while (end := self._buffer.find(b"\n")) < 0:
            self._sock.settimeout(max(0.001, until - time.monotonic()))
            data = self._sock.recv(1 << 18)
            if not data:
                raise OSError("the agent closed the connection")
            self._buffer += data
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line

    @property
    def is_open(self) -> bool:
        """False once the connection has ended: then make a new client."""
        return self._sock.fileno() >= 0 and not self._broken

    def close(self) -> None:
        self._sock.close()

    def __enter__(self) -> AgentClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- the operations -----------------------------------------------------------------------

    def hello(self) -> Json:
        return self.call("hello")

    def stats(self) -> Json:
        return self.call("stats")

    def stop(self) -> None:
        self.call("stop")

    def register_memory(
        self, length: int, *, fill_seed: int | None = None, remote_write: bool | None = None
    ) -> Json:
        """{va, rkey, length}; zeroed without a seed."""
        return self.call(
            "register_memory", length=length, fill_seed=fill_seed, remote_write=remote_write
        )

    def deregister_memory(self, rkey: int) -> None:
        self.call("deregister_memory", rkey=rkey)

    def memory_hash(self, rkey: int, offset: int = 0, length: int | None = None) -> str:
        """SHA-256 of a registered region or a part of it."""
        reply = self.call("memory_hash", rkey=rkey, offset=offset, length=length)
        return str(reply["sha256"])

    def memory_read(self, rkey: int, offset: int = 0, length: int | None = None) -> bytes:
        """Content, at most 1 MiB."""
        reply = self.call("memory_read", rkey=rkey, offset=offset, length=length)
        return bytes.fromhex(reply["data"])

    def create_qp(self, **config: Any) -> Json:
        """A QP in INIT; returns what the peer's `connect_qp` needs."""
        return self.call("create_qp", **config)

    def connect_qp(self, qpn: int, peer: Json) -> None:
        self.call("connect_qp", qpn=qpn, peer=peer)

    def destroy_qp(self, qpn: int) -> None:
        self.call("destroy_qp", qpn=qpn)

    def post_write(self, qpn: int, remote_va: int, rkey: int, **fields: Any) -> None:
        """`source={rkey, offset, length}` or `data=hex`; `wr_id`, `imm`."""
        self.call("post_write", qpn=qpn, remote_va=remote_va, rkey=rkey, **fields)

    def post_recv(self, qpn: int, wr_id: int = 0, count: int = 1) -> None:
        self.call("post_recv", qpn=qpn, wr_id=wr_id, count=count)

    def poll(self, least: int = 0, most: int = 1024, timeout: float | None = None) -> list[Json]:
        """Completions; waits until there are at least `least`."""
        reply = self.call("poll", min=least, max=most, timeout=timeout)
        return list(reply["completions"])

    def workload_start(self, qpn: int, **fields: Any) -> Json:
        """message_bytes, window, region_bytes, remote_va, rkey, seed, messages."""
        return self.call("workload_start", qpn=qpn, **fields)

    def workload_stop(self, qpn: int, timeout: float = 60.0) -> Json:
        """Stops posting and waits until all has completed."""
        return self.call("workload_stop", qpn=qpn, timeout=timeout)

    def workload_status(self, qpn: int) -> Json:
        return self.call("workload_status", qpn=qpn)

    def ev_table(self, qpn: int) -> list[Json]:
        return list(self.call("ev_table", qpn=qpn)["evs"])

    def set_ev_denied(self, qpn: int, ev: int, denied: bool) -> None:
        self.call("set_ev_denied", qpn=qpn, ev=ev, denied=denied)

    def probe_ev(self, qpn: int, ev: int, timeout_ns: int | None = None) -> None:
        self.call("probe_ev", qpn=qpn, ev=ev, timeout_ns=timeout_ns)

    def set_port(self, port: int, up: bool) -> Json:
        return self.call("set_port", port=port, up=up)

    def send_raw(
        self, dst: str, plane: int, evs: list[int], *, timeout: float = 60.0, **fields: Any
    ) -> Json:
        """Self-test packets: size, ecn, dscp, count, interval_ns. {sent, errors}."""
        return self.call("send_raw", dst=dst, plane=plane, evs=evs, timeout=timeout, **fields)


def connect_pair(a: AgentClient, b: AgentClient, **config: Any) -> tuple[int, int]:
    """A QP between two agents, both ends with the same attributes; the two QPNs."""
    mine, theirs = a.create_qp(**config), b.create_qp(**config)
    a.connect_qp(mine["qpn"], theirs)
    b.connect_qp(theirs["qpn"], mine)
    return int(mine["qpn"]), int(theirs["qpn"])
