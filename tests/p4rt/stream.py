"""A StreamChannel of P4Runtime as tests want it."""

from __future__ import annotations

import queue
import threading
from typing import Any

import grpc
from p4.v1 import p4runtime_pb2 as pb


class Channel:
    """A StreamChannel; replies wait in a queue, the final status at their end."""

    def __init__(self, stub: Any, seconds: float = 30) -> None:
        self._seconds = seconds
        self._out: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.replies: queue.Queue[Any] = queue.Queue()
        self.call = stub.StreamChannel(iter(self._out.get, None))
        threading.Thread(target=self._receive, daemon=True).start()

    def _receive(self) -> None:
        try:
            for reply in self.call:
                self.replies.put(reply)
            self.replies.put(grpc.StatusCode.OK)
        except grpc.RpcError as error:
            self.replies.put(error.code())

    def send(self, **fields: Any) -> None:
        self._out.put(pb.StreamMessageRequest(**fields))

    def arbitrate(self, election: int | None, device: int = 1, **fields: Any) -> None:
        update = pb.MasterArbitrationUpdate(device_id=device, **fields)
        if election is not None:
            update.election_id.low = election
            update.election_id.SetInParent()
        self.send(arbitration=update)

    def next(self) -> Any:
        return self.replies.get(timeout=self._seconds)

    def status(self) -> int:
        """Status code of the next arbitration reply."""
        reply = self.next()
        assert not isinstance(reply, grpc.StatusCode), reply
        return int(reply.arbitration.status.code)

    def close(self) -> None:
        self._out.put(None)
