"""A shard in a process of its own: the same calls, carried by a pipe and two shared buffers.

Frames go through memory that both processes map; what does not fit in it goes through the pipe.
"""

from __future__ import annotations

import mmap
import multiprocessing
import os
import pickle
import signal
import struct
import traceback
from multiprocessing.connection import Connection

from hosts.agent.control import Json
from softswitch.engine.net import Network
from virtualtime.host import NEVER
from virtualtime.shard import HostSpec, LocalShard, Pending, StepResult

MAILBOX = 64 << 20
"""Bytes of each shared buffer. Memory is touched only as it is used."""
_STEP = struct.Struct("=cqQ")
"""b"s", until, bytes in the mailbox; larger input follows as a message."""
_DONE = struct.Struct("=cqQ?")
"""b"d", wake, bytes in the mailbox, whether answers follow; larger output follows first."""


class WorkerError(Exception):
    """A worker ended or failed. The text is what it had to say."""


class ForkedShard:
    """Hosts in another process; raises WorkerError when that process fails."""

    def __init__(self, specs: list[HostSpec], now: int) -> None:
        self._inbox = mmap.mmap(-1, MAILBOX)
        self._outbox = mmap.mmap(-1, MAILBOX)
        self._inbox_view, self._outbox_view = memoryview(self._inbox), memoryview(self._outbox)
        context = multiprocessing.get_context("fork")
        self._pipe, far = context.Pipe()
        self._process = context.Process(
            target=_serve,
            args=(specs, now, far, self._pipe, self._inbox, self._outbox),
            daemon=True,
        )
        self._process.start()
        far.close()

    @property
    def pid(self) -> int:
        """Of the worker."""
        return int(self._process.pid or 0)

    def start_step(self, until: int, network: Network, group: int) -> None:
        size = network.waiting(group)
        if size <= MAILBOX:
            network.take_into(group, self._inbox_view)
            self._send(_STEP.pack(b"s", until, size))
        else:
            self._send(_STEP.pack(b"s", until, size))
            self._send(network.take(group))

    def finish_step(self) -> StepResult:
        head = self._receive()
        if head[:1] != b"d":
            raise WorkerError(pickle.loads(head[1:]))
        _, wake, size, more = _DONE.unpack(head)
        outgoing: list[bytes | memoryview] = []
        if size:
            # The view is good until the next step.
            outgoing = [self._outbox_view[:size] if size <= MAILBOX else self._receive()]
        answers: list[tuple[int, Json]] = pickle.loads(self._receive()) if more else []
        return StepResult(outgoing, wake, answers)

    def call(self, host: str, request: Json, now: int) -> tuple[Json | Pending, StepResult]:
        self._send(b"c" + pickle.dumps((host, request, now)))
        reply: Json | Pending
        head = self._receive()
        if head[:1] != b"r":
            raise WorkerError(pickle.loads(head[1:]))
        reply = pickle.loads(head[1:])
        return reply, self.finish_step()

    def set_carrier(self, host: str, port: int, up: bool, now: int) -> StepResult:
        self._send(b"l" + pickle.dumps((host, port, up, now)))
        return self.finish_step()

    def close(self) -> None:
        if self._process.is_alive():
            try:
                self._pipe.send_bytes(b"q")
                self._process.join(30)
            except OSError:
                pass
            if self._process.is_alive():
                self._process.terminate()
                self._process.join()
        self._pipe.close()

    def _send(self, data: bytes | memoryview) -> None:
        try:
            self._pipe.send_bytes(data)
        except OSError:
            raise WorkerError("a worker of virtual time has ended") from None

    def _receive(self) -> bytes:
        try:
            return self._pipe.recv_bytes()
        except (EOFError, OSError):
            raise WorkerError("a worker of virtual time has ended") from None


def _serve(
    specs: list[HostSpec],
    now: int,
    pipe: Connection,
    parents: Connection,
    inbox: mmap.mmap,
    outbox: mmap.mmap,
) -> None:
    """The worker: serve requests until told to end, or until the other end is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parents.close()
    try:
        shard = LocalShard(specs, now)
        view = memoryview(inbox)
        while True:
            try:
                message = pipe.recv_bytes()
            except EOFError:
                break
            kind = message[:1]
            if kind == b"s":
                _, until, size = _STEP.unpack(message)
                incoming = view[:size] if size <= MAILBOX else memoryview(pipe.recv_bytes())
                shard.step(until, incoming)
                _reply(pipe, outbox, shard.finish_step())
            elif kind == b"c":
                host, request, at = pickle.loads(message[1:])
                reply, result = shard.call(host, request, at)
                pipe.send_bytes(b"r" + pickle.dumps(reply))
                _reply(pipe, outbox, result)
            elif kind == b"l":
                _reply(pipe, outbox, shard.set_carrier(*pickle.loads(message[1:])))
            else:
                shard.close()
                break
    except BaseException:
        pipe.send_bytes(b"e" + pickle.dumps(traceback.format_exc(limit=-4)))
    finally:
        # Nothing of what was inherited is ours to tidy up.
        os._exit(0)


def _reply(pipe: Connection, outbox: mmap.mmap, result: StepResult) -> None:
    data = b"".join(result.outgoing)
    size = len(data)
    if size <= MAILBOX:
        outbox[:size] = data
    pipe.send_bytes(_DONE.pack(b"d", min(result.wake, NEVER), size, bool(result.answers)))
    if size > MAILBOX:
        pipe.send_bytes(data)
    if result.answers:
        pipe.send_bytes(pickle.dumps(result.answers))
