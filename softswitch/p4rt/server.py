"""gRPC in front of a `Device`: the P4Runtime service.

Streams carry arbitration, packet in and packet out; every stream has one outgoing queue,
one thread of gRPC that drains it and one that reads requests. The service is registered
with raw bytes for Write and Read, which are decoded in `wire`.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
from p4.v1 import p4runtime_pb2

from softswitch.engine.types import (
    Digest,
    EngineError,
    EngineEvent,
    IdleTimeout,
    LogMessage,
    PacketIn,
)
from softswitch.p4rt import wire
from softswitch.p4rt.arbitration import MAX_STREAMS, Notification
from softswitch.p4rt.device import Device
from softswitch.p4rt.packetio import ControllerHeader
from softswitch.p4rt.status import (
    METADATA_LIMIT,
    SPACE,
    BatchError,
    Code,
    P4RTError,
    batch_text,
    invalid,
    status_details,
)

LOG = logging.getLogger("softswitch.p4rt")

API_VERSION = "1.4.1"
STREAM_BACKLOG = 4096
"""Messages waiting for a slow client; packet-ins beyond it are dropped and counted."""
POLL = 0.25
"""Seconds after which the thread for events looks up, events or not."""
MAX_MESSAGE = 64 << 20
MAX_FRAME = 9216
"""Longest packet out in bytes, controller header included."""

_STATUS = {code.value[0]: code for code in grpc.StatusCode}
_END = object()


class ServerError(Exception):
    """The server cannot listen: one clear line."""


class Stream:
    """The outgoing half of a StreamChannel."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.dropped = 0

    def send(self, message: bytes) -> None:
        """Queue a message that must not be lost."""
        self._queue.put(message)

    def offer(self, message: bytes) -> None:
        """Queue a message, or count it as dropped when the client is too slow."""
        if self._queue.qsize() >= STREAM_BACKLOG:
            self.dropped += 1
        else:
            self._queue.put(message)

    def close(self, error: P4RTError | None = None) -> None:
        """End the stream after what is queued."""
        self._queue.put(error or _END)

    def get(self) -> Any:
        """Next message, P4RTError or end marker."""
        return self._queue.get()


class P4RuntimeServer:
    """Serves one device on one address."""

    def __init__(
        self, device: Device, *, packet_out: bool = True, status_limit: int = METADATA_LIMIT
    ) -> None:
        """`packet_out` False: the switch has no CPU port. `status_limit`: bytes of trailing
        metadata that clients accept."""
        self.device = device
        self._packet_out = packet_out
        self._status_limit = status_limit
        self._server: grpc.Server | None = None
        self._stopping = threading.Event()
        self._pump: threading.Thread | None = None

    # -- life
    def start(self, address: str, credentials: grpc.ServerCredentials | None = None) -> str:
        """Listen; returns the address with the port that was bound. ServerError otherwise."""
        server = grpc.server(
            futures.ThreadPoolExecutor(MAX_STREAMS + 16, thread_name_prefix="p4rt"),
            options=(
                ("grpc.so_reuseport", 0),
                ("grpc.max_receive_message_length", MAX_MESSAGE),
                ("grpc.max_send_message_length", -1),
                ("grpc.max_metadata_size", 1 << 20),
            ),
        )
        server.add_generic_rpc_handlers((self._handlers(),))
        host = address.rpartition(":")[0]
        try:
            if credentials is None:
                port = server.add_insecure_port(address)
            else:
                port = server.add_secure_port(address, credentials)
        except RuntimeError:
            port = 0
        if port == 0:
            raise ServerError(f"--grpc-server-addr {address}: cannot listen there")
        server.start()
        self._server = server
        self._pump = threading.Thread(target=self._pump_events, name="p4rt-events", daemon=True)
        self._pump.start()
        return f"{host}:{port}"

    def stop(self) -> None:
        """Stop serving; open streams end."""
        self._stopping.set()
        if self._server is not None:
            self._server.stop(0).wait(2)
            self._server = None
        if self._pump is not None:
            self._pump.join(2)

    def wait(self) -> None:
        """Block until stopped."""
        if self._server is not None:
            self._server.wait_for_termination()

    def _handlers(self) -> Any:
        pb = p4runtime_pb2
        raw: Callable[[bytes], bytes] = bytes
        methods = {
            "Write": grpc.unary_unary_rpc_method_handler(self._write, raw, raw),
            "Read": grpc.unary_stream_rpc_method_handler(self._read, raw, raw),
            "SetForwardingPipelineConfig": grpc.unary_unary_rpc_method_handler(
                self._set_config,
                pb.SetForwardingPipelineConfigRequest.FromString,
                pb.SetForwardingPipelineConfigResponse.SerializeToString,
            ),
            "GetForwardingPipelineConfig": grpc.unary_unary_rpc_method_handler(
                self._get_config,
                pb.GetForwardingPipelineConfigRequest.FromString,
                pb.GetForwardingPipelineConfigResponse.SerializeToString,
            ),
            "StreamChannel": grpc.stream_stream_rpc_method_handler(self._stream, raw, raw),
            "Capabilities": grpc.unary_unary_rpc_method_handler(
                self._capabilities,
                pb.CapabilitiesRequest.FromString,
                pb.CapabilitiesResponse.SerializeToString,
            ),
        }
        return grpc.method_handlers_generic_handler("p4.v1.P4Runtime", methods)

    # -- unary calls
    def _write(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        try:
            self.device.write(request)
        except (P4RTError, BatchError) as error:
            self._abort(context, error)
        return b""

    def _read(self, request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        try:
            yield from self.device.read(request)
        except (P4RTError, BatchError) as error:
            self._abort(context, error)

    def _set_config(self, request: Any, context: grpc.ServicerContext) -> Any:
        try:
            self.device.set_config(request)
        except P4RTError as error:
            self._abort(context, error)
        return p4runtime_pb2.SetForwardingPipelineConfigResponse()

    def _get_config(self, request: Any, context: grpc.ServicerContext) -> Any:
        try:
            return self.device.get_config(request)
        except P4RTError as error:
            self._abort(context, error)

    def _capabilities(self, request: Any, context: grpc.ServicerContext) -> Any:
        return p4runtime_pb2.CapabilitiesResponse(p4runtime_api_version=API_VERSION)

    def _abort(self, context: grpc.ServicerContext, error: P4RTError | BatchError) -> None:
        if isinstance(error, BatchError):
            text = batch_text(error)
            details = status_details(error, text, self._status_limit)
            context.set_trailing_metadata((("grpc-status-details-bin", details),))
            context.abort(grpc.StatusCode.UNKNOWN, text)
        else:
            context.abort(_STATUS[error.code], error.message)

    # -- streams
    def _stream(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        stream = Stream()
        if not context.add_callback(stream.close):
            return
        threading.Thread(
            target=self._read_stream, args=(stream, requests), name="p4rt-in", daemon=True
        ).start()
        try:
            while True:
                item = stream.get()
                if item is _END:
                    return
                if isinstance(item, P4RTError):
                    self._abort(context, item)
                yield item
        finally:
            with self.device.lock:
                self._notify(self.device.arbiter.disconnect(stream))

    def _read_stream(self, stream: Stream, requests: Iterator[bytes]) -> None:
        try:
            for data in requests:
                self._request(stream, data)
        except P4RTError as error:
            stream.close(error)
            return
        except grpc.RpcError:
            pass
        except Exception:
            LOG.exception("stream failed")
            stream.close(P4RTError(Code.INTERNAL, "stream request failed"))
            return
        stream.close()

    def _request(self, stream: Stream, data: bytes) -> None:
        try:
            request = p4runtime_pb2.StreamMessageRequest.FromString(data)
        except Exception:
            raise invalid("malformed StreamMessageRequest") from None
        which = request.WhichOneof("update")
        if which == "arbitration":
            with self.device.lock:
                self._notify(self.device.arbitrate(stream, request.arbitration))
        elif which == "packet":
            self._packet(stream, request.packet)
        elif which == "digest_ack":
            self._digest_ack(stream, request.digest_ack)
        else:
            error = P4RTError(Code.UNIMPLEMENTED, "stream message of an unknown kind")
            self._stream_error(stream, error, other=request.other)

    def _digest_ack(self, stream: Stream, ack: Any) -> None:
        try:
            with self.device.lock:
                if not self.device.arbiter.is_primary(stream):
                    raise P4RTError(Code.PERMISSION_DENIED, "digest ack: not the primary client")
                config = self.device.active
                if config is None:
                    raise P4RTError(
                        Code.FAILED_PRECONDITION, "digest ack: no pipeline config is set"
                    )
                config.pipeline.digests.ack(ack.digest_id, ack.list_id)
        except P4RTError as error:
            self._stream_error(stream, error, digest_list_ack=ack)

    def _notify(self, notifications: list[Notification]) -> None:
        """Send arbitration news; call with the device's lock held to keep their order."""
        for item in notifications:
            response = p4runtime_pb2.StreamMessageResponse()
            update = response.arbitration
            update.device_id = self.device.device_id
            if item.role:
                update.role.name = item.role
            if item.election_id is not None:
                update.election_id.high = item.election_id >> 64
                update.election_id.low = item.election_id & (1 << 64) - 1
                update.election_id.SetInParent()
            update.status.code = int(item.code)
            update.status.message = item.message
            if isinstance(item.stream, Stream):
                item.stream.send(response.SerializeToString())

    def _packet(self, stream: Stream, packet: Any) -> None:
        device = self.device
        try:
            if not device.arbiter.is_primary(stream):
                raise P4RTError(Code.PERMISSION_DENIED, "packet out: not the primary client")
            config = device.active
            if config is None:
                raise P4RTError(Code.FAILED_PRECONDITION, "packet out: no pipeline config is set")
            if not self._packet_out:
                raise P4RTError(
                    Code.FAILED_PRECONDITION,
                    "packet out: the switch was started without --cpu-port",
                )
            metadata: dict[int, bytes] = {}
            for item in packet.metadata:
                if item.metadata_id in metadata:
                    raise invalid(f"packet out: metadata id {item.metadata_id} is given twice")
                metadata[item.metadata_id] = item.value
            frame = config.pipeline.packet_out.pack(metadata, packet.payload)
            if len(frame) > MAX_FRAME:
                raise invalid(f"packet out: {len(frame)} B exceed {MAX_FRAME} B")
            device.engine.packet_out(frame)
        except P4RTError as error:
            self._stream_error(stream, error, packet_out=packet)
        except EngineError as error:
            fault = P4RTError(Code.INVALID_ARGUMENT, f"packet out: {error}")
            self._stream_error(stream, fault, packet_out=packet)

    @staticmethod
    def _stream_error(
        stream: Stream,
        error: P4RTError,
        *,
        packet_out: Any = None,
        digest_list_ack: Any = None,
        other: Any = None,
    ) -> None:
        response = p4runtime_pb2.StreamMessageResponse()
        out = response.error
        out.canonical_code = int(error.code)
        out.message = error.message
        out.space = SPACE
        out.code = int(error.code)
        if packet_out is not None:
            out.packet_out.packet_out.CopyFrom(packet_out)
        elif digest_list_ack is not None:
            out.digest_list_ack.digest_list_ack.CopyFrom(digest_list_ack)
        elif other is not None:
            out.other.other.CopyFrom(other)
        stream.offer(response.SerializeToString())

    # -- from the engine
    def _pump_events(self) -> None:
        engine = self.device.engine
        while not self._stopping.is_set():
            try:
                events = engine.events() if engine.wait_events(self._patience()) else []
                self._handle(events)
            except EngineError as error:
                LOG.error("events: %s", error)
                if self._stopping.wait(POLL):
                    return
            except Exception:
                LOG.exception("events")

    def _patience(self) -> float:
        """Seconds to wait for events at most: until the next digest list is due."""
        with self.device.lock:
            config = self.device.active
            due = None if config is None else config.pipeline.digests.next_deadline()
        if due is None:
            return POLL
        return min(POLL, max(0.0, (due - time.monotonic_ns()) / 1e9))

    def _handle(self, events: list[EngineEvent]) -> None:
        """Pass on what the data plane has to say."""
        device = self.device
        idle = [event for event in events if isinstance(event, IdleTimeout)]
        with device.lock:
            config = device.active
            if config is None:
                return
            pipeline = config.pipeline
            streams = [item for item in device.arbiter.primaries() if isinstance(item, Stream)]
            now = time.monotonic_ns()
            for event in events:
                if isinstance(event, PacketIn):
                    self._packet_in(pipeline.packet_in, event.frame, streams)
                elif isinstance(event, Digest):
                    pipeline.digests.add(event.name, event.values, now)
                elif isinstance(event, LogMessage):
                    LOG.warning("log_msg: %s", event.text)  # at most 1,000 a second
            messages = pipeline.digests.due(now, time.time_ns())
            if idle and (entries := pipeline.idle_entries(idle)):
                messages.append(encode_idle(entries, time.time_ns()))
            for message in messages:
                for stream in streams:
                    stream.offer(message)

    @staticmethod
    def _packet_in(header: ControllerHeader, frame: bytes, streams: list[Stream]) -> None:
        try:
            metadata, payload = header.unpack(frame)
        except P4RTError as error:
            LOG.warning("packet in dropped: %s", error.message)
            return
        message = encode_packet_in(metadata, payload)
        for stream in streams:
            stream.offer(message)


def encode_packet_in(metadata: list[tuple[int, bytes]], payload: bytes) -> bytes:
    """A serialised StreamMessageResponse with a PacketIn."""
    body = wire.field_bytes(1, payload) if payload else b""
    for field_id, value in metadata:
        body += wire.field_bytes(2, wire.field_varint(1, field_id) + wire.field_bytes(2, value))
    return wire.field_bytes(2, body)


def encode_idle(entries: list[bytes], wall_ns: int) -> bytes:
    """A serialised StreamMessageResponse with an IdleTimeoutNotification."""
    body = b"".join(wire.field_bytes(1, entry) for entry in entries)
    return wire.field_bytes(4, body + wire.field_varint(2, wall_ns))


def server_credentials(
    key: Path, cert: Path, cacert: Path | None, client_auth: bool
) -> grpc.ServerCredentials:
    """TLS credentials from PEM files; ServerError names the file that cannot be read."""

    def read(path: Path) -> bytes:
        try:
            return path.read_bytes()
        except OSError as error:
            raise ServerError(f"{path}: {error.strerror}") from None

    roots = read(cacert) if cacert is not None else None
    return grpc.ssl_server_credentials(
        [(read(key), read(cert))], root_certificates=roots, require_client_auth=client_auth
    )
