"""p4runtime-shell's client with its edges taken off: no exit, no print, no endless loop.

`p4runtime_sh.p4runtime.P4RuntimeClient` is one client per switch (its `shell` is one global).
As published it ends the process when a switch does not answer, prints when it is not the
primary, waits for ever in tear_down for a switch that hangs, and loops for ever over the
errors of a Write in which one update succeeded. This subclass answers with exceptions.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import grpc
from google.rpc import code_pb2, status_pb2
from p4.v1 import p4runtime_pb2
from p4runtime_sh.p4runtime import P4RuntimeClient

from controller.errors import ConnectError, ControllerError, PrimaryLost, WriteError

HANDSHAKE_TIMEOUT = 5.0
"""Seconds within which a switch answers arbitration."""

RPC_TIMEOUT = 15.0
"""Seconds within which a switch answers any other call."""

_STREAM_KINDS = ("arbitration", "packet", "digest", "idle_timeout_notification", "unknown")


class SwitchClient(P4RuntimeClient):  # type: ignore[misc]
    """The primary of one switch, for as long as the object lives.

    Connects and arbitrates in the constructor; ConnectError when the switch cannot be reached
    or has another primary. `on_lost` is called once, from a thread of its own, with the reason
    when the switch says later that another client took over, or when the stream ends.
    """

    def __init__(
        self,
        name: str,
        address: str,
        device_id: int,
        election_id: int,
        on_lost: Callable[[str], None],
    ) -> None:
        self.name = name
        self.address = address
        self._on_lost = on_lost
        self._closing = threading.Event()
        # A proxy of the environment must not come between us and a switch on loopback.
        os.environ.setdefault("no_grpc_proxy", "127.0.0.1,localhost")
        super().__init__(device_id, address, (election_id >> 64, election_id & (1 << 64) - 1))

    # -- stream (both replace what the parent's constructor calls)

    def set_up_stream(self) -> None:
        """Open the stream channel, read it in a thread, become primary."""
        self.stream_out_q: queue.Queue[Any] = queue.Queue()
        self.stream_in_q: dict[str, queue.Queue[Any]] = {k: queue.Queue() for k in _STREAM_KINDS}
        self._stream_error = ""
        self.stream = self.stub.StreamChannel(iter(self.stream_out_q.get, None))
        self.stream_recv_thread = threading.Thread(
            target=self._receive, name=f"p4rt-{self.name}", daemon=True
        )
        self.stream_recv_thread.start()
        try:
            self.handshake()
        except BaseException:
            self.close()
            raise
        threading.Thread(target=self._watch, name=f"primary-{self.name}", daemon=True).start()

    def _receive(self) -> None:
        try:
            for message in self.stream:
                kind = message.WhichOneof("update")
                self.stream_in_q.get(kind, self.stream_in_q["unknown"]).put(message)
            self._stream_error = "the switch ended the stream"
        except grpc.RpcError as error:
            self._stream_error = rpc_text(error)
        finally:
            for messages in self.stream_in_q.values():
                messages.put(None)

    def handshake(self) -> None:
        """Claim to be primary. ConnectError when the switch says no or nothing."""
        request = p4runtime_pb2.StreamMessageRequest()
        request.arbitration.device_id = self.device_id
        self._sign(request.arbitration)
        self.stream_out_q.put(request)
        try:
            reply = self.stream_in_q["arbitration"].get(timeout=HANDSHAKE_TIMEOUT)
        except queue.Empty:
            raise ConnectError(
                f"{self.name}: {self.address} did not answer in {HANDSHAKE_TIMEOUT:g} s"
            ) from None
        if reply is None:
            raise ConnectError(f"{self.name}: {self.address}: {self._stream_error}")
        if reply.arbitration.status.code != code_pb2.OK:
            raise ConnectError(
                f"{self.name}: another controller is the primary ({_election(reply.arbitration)}); "
                "end it, or wait until it ends"
            )

    def _watch(self) -> None:
        """Wait for the next word on arbitration: while we are primary none is good."""
        while True:
            message = self.stream_in_q["arbitration"].get()
            if self._closing.is_set():
                return
            if message is None:
                self._on_lost(f"{self.name}: the stream to the switch broke: {self._stream_error}")
                return
            if message.arbitration.status.code != code_pb2.OK:
                self._on_lost(
                    f"{self.name}: another controller took over ({_election(message.arbitration)})"
                )
                return

    def close(self) -> None:
        """Give up being primary and close the channel; bounded in time, may be repeated."""
        if self._closing.is_set():
            return
        self._closing.set()
        self.stream_out_q.put(None)
        self.stream_recv_thread.join(0.5)
        if self.stream_recv_thread.is_alive():
            self.stream.cancel()
            self.stream_recv_thread.join(0.5)
        self.channel.close()

    def tear_down(self) -> None:
        """The parent's name for close()."""
        self.close()

    # -- calls

    def _sign(self, message: Any) -> None:
        message.election_id.high, message.election_id.low = self.election_id

    def _call(self, method: str, request: Any) -> Any:
        try:
            return getattr(self.stub, method)(request, timeout=RPC_TIMEOUT)
        except grpc.RpcError as error:
            raise self._translate(method, error) from None

    def _translate(self, method: str, error: grpc.RpcError) -> ControllerError:
        if error.code() == grpc.StatusCode.PERMISSION_DENIED:
            return PrimaryLost(f"{self.name}: {method}: {error.details()}")
        return ControllerError(f"{self.name}: {method}: {rpc_text(error)}")

    def pipeline_cookie(self) -> int | None:
        """Cookie of the pipeline the switch runs, None when it runs none."""
        request = p4runtime_pb2.GetForwardingPipelineConfigRequest(
            device_id=self.device_id,
            response_type=p4runtime_pb2.GetForwardingPipelineConfigRequest.COOKIE_ONLY,
        )
        try:
            reply = self.stub.GetForwardingPipelineConfig(request, timeout=RPC_TIMEOUT)
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.FAILED_PRECONDITION:
                return None
            raise self._translate("GetForwardingPipelineConfig", error) from None
        if not reply.config.HasField("cookie"):
            return None
        cookie: int = reply.config.cookie.cookie
        return cookie

    def push_pipeline(self, config: Any) -> None:
        """Load a p4.v1.ForwardingPipelineConfig; the tables are empty afterwards."""
        request = p4runtime_pb2.SetForwardingPipelineConfigRequest(
            device_id=self.device_id,
            action=p4runtime_pb2.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
            config=config,
        )
        self._sign(request)
        self._call("SetForwardingPipelineConfig", request)

    def write_updates(
        self, updates: Sequence[p4runtime_pb2.Update], describe: Callable[[int], str]
    ) -> None:
        """One Write. WriteError lists each refused update with the switch's reason;
        `describe(i)` is update i in words."""
        if not updates:
            return
        request = p4runtime_pb2.WriteRequest(device_id=self.device_id, updates=updates)
        self._sign(request)
        try:
            self.stub.Write(request, timeout=RPC_TIMEOUT)
        except grpc.RpcError as error:
            failures = tuple(
                f"{describe(index)}: {reason}"
                for index, reason in failed_updates(error)
                if index < len(updates)
            )
            if failures:
                raise WriteError(self.name, failures, len(updates)) from None
            raise self._translate("Write", error) from None

    def read_entities(
        self, entities: Sequence[p4runtime_pb2.Entity]
    ) -> Iterator[p4runtime_pb2.Entity]:
        """One Read; unset ids are wildcards."""
        request = p4runtime_pb2.ReadRequest(device_id=self.device_id, entities=entities)
        try:
            for reply in self.stub.Read(request, timeout=RPC_TIMEOUT):
                yield from reply.entities
        except grpc.RpcError as error:
            raise self._translate("Read", error) from None


def _election(arbitration: p4runtime_pb2.MasterArbitrationUpdate) -> str:
    election = arbitration.election_id
    return f"election id {election.high << 64 | election.low}"


def code_name(code: int) -> str:
    """ALREADY_EXISTS and the like."""
    try:
        return str(code_pb2.Code.Name(code))
    except ValueError:
        return f"code {code}"


def rpc_text(error: grpc.RpcError) -> str:
    """Status and details of a failed call on one line."""
    with contextlib.suppress(AttributeError):
        return " ".join(f"{error.code().name}: {error.details()}".split())
    return " ".join(str(error).split())


def failed_updates(error: grpc.RpcError) -> list[tuple[int, str]]:
    """(index of the update, reason) for every update of a Write that was refused.

    P4Runtime puts one p4.v1.Error per update, successes included, into the details of the
    status. Empty when the whole call failed for another reason.
    """
    metadata = getattr(error, "trailing_metadata", lambda: None)() or ()
    status = status_pb2.Status()
    for key, value in metadata:
        if key == "grpc-status-details-bin":
            status.ParseFromString(value)
            break
    failures = []
    for index, detail in enumerate(status.details):
        item = p4runtime_pb2.Error()
        if detail.Unpack(item) and item.canonical_code != code_pb2.OK:
            text = (
                f"{code_name(item.canonical_code)}: {item.message}"
                if item.message
                else (code_name(item.canonical_code))
            )
            failures.append((index, " ".join(text.split())))
    return failures
