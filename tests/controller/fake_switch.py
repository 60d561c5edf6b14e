"""A P4Runtime server that stores what it is told, for tests of the client side."""

from __future__ import annotations

import queue
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
from google.protobuf import any_pb2
from google.rpc import code_pb2, status_pb2
from p4.v1 import p4runtime_pb2, p4runtime_pb2_grpc

OK = code_pb2.OK


def key_of(entity):
    """Identity of an entity, from its message."""
    kind = entity.WhichOneof("entity")
    if kind == "table_entry":
        entry = entity.table_entry
        match = b"".join(m.SerializeToString() for m in entry.match)
        return (kind, entry.table_id, entry.is_default_action, match)
    part = getattr(entity, kind)
    id_ = part.member_id if kind == "action_profile_member" else part.group_id
    return (kind, part.action_profile_id, id_)


class FakeSwitch(p4runtime_pb2_grpc.P4RuntimeServicer):  # type: ignore[misc]
    """Arbitration by highest election id, a store of entities, per-update errors."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.streams: list[tuple[int, queue.Queue]] = []
        self.config: p4runtime_pb2.ForwardingPipelineConfig | None = None
        self.pushes = 0
        self.store: dict[tuple, p4runtime_pb2.Entity] = {}
        self.counters: dict[tuple[int, int], tuple[int, int]] = {}
        self.writes: list[list[str]] = []
        self.refuse: set[int] = set()
        """Indices of updates of the next Write to refuse."""
        self.silent = False
        self.server = grpc.server(ThreadPoolExecutor(8))
        p4runtime_pb2_grpc.add_P4RuntimeServicer_to_server(self, self.server)
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.address = f"127.0.0.1:{self.port}"
        self.server.start()

    def stop(self) -> None:
        self.server.stop(0).wait()

    # -- P4Runtime
    def StreamChannel(self, requests, context):
        out: queue.Queue = queue.Queue()

        def read():
            try:
                for request in requests:
                    if request.HasField("arbitration") and not self.silent:
                        self._arbitrate(request.arbitration.election_id.low, out)
            except grpc.RpcError:
                pass
            finally:
                with self.lock:
                    self.streams = [s for s in self.streams if s[1] is not out]
                out.put(None)

        threading.Thread(target=read, daemon=True).start()
        return iter(out.get, None)

    def _arbitrate(self, election_id, out):
        with self.lock:
            self.streams.append((election_id, out))
            best = max(s[0] for s in self.streams)
            for mine, stream in self.streams:
                reply = p4runtime_pb2.StreamMessageResponse()
                reply.arbitration.device_id = 1
                reply.arbitration.election_id.low = best
                reply.arbitration.status.code = OK if mine == best else code_pb2.ALREADY_EXISTS
                stream.put(reply)

    def _primary(self, request, context):
        with self.lock:
            best = max((s[0] for s in self.streams), default=None)
        if request.election_id.low != best:
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "Not primary")

    def SetForwardingPipelineConfig(self, request, context):
        self._primary(request, context)
        self.config = request.config
        self.pushes += 1
        self.store.clear()
        return p4runtime_pb2.SetForwardingPipelineConfigResponse()

    def GetForwardingPipelineConfig(self, request, context):
        if self.config is None:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "No forwarding pipeline config")
        reply = p4runtime_pb2.GetForwardingPipelineConfigResponse()
        reply.config.cookie.cookie = self.config.cookie.cookie
        return reply

    def Write(self, request, context):
        self._primary(request, context)
        self.writes.append(
            [p4runtime_pb2.Update.Type.Name(update.type) for update in request.updates]
        )
        errors = [self._update(i, update) for i, update in enumerate(request.updates)]
        self.refuse = set()
        if any(error.canonical_code != OK for error in errors):
            status = status_pb2.Status(code=code_pb2.UNKNOWN, message="Write failure.")
            for error in errors:
                detail = any_pb2.Any()
                detail.Pack(error)
                status.details.append(detail)
            context.set_trailing_metadata(
                (("grpc-status-details-bin", status.SerializeToString()),)
            )
            context.set_code(grpc.StatusCode.UNKNOWN)
            context.set_details("Write failure.")
        return p4runtime_pb2.WriteResponse()

    def _update(self, index, update):
        key = key_of(update.entity)
        default = key[0] == "table_entry" and key[2]
        if index in self.refuse:
            return p4runtime_pb2.Error(canonical_code=code_pb2.RESOURCE_EXHAUSTED, message="Full")
        if update.type == p4runtime_pb2.Update.INSERT and key in self.store:
            return p4runtime_pb2.Error(canonical_code=code_pb2.ALREADY_EXISTS, message="Exists")
        if update.type != p4runtime_pb2.Update.INSERT and key not in self.store and not default:
            return p4runtime_pb2.Error(canonical_code=code_pb2.NOT_FOUND, message="Not found")
        if update.type == p4runtime_pb2.Update.DELETE:
            del self.store[key]
        else:
            self.store[key] = update.entity
        return p4runtime_pb2.Error(canonical_code=OK)

    def Read(self, request, context):
        reply = p4runtime_pb2.ReadResponse()
        for asked in request.entities:
            kind = asked.WhichOneof("entity")
            if kind == "counter_entry":
                cell = (asked.counter_entry.counter_id, asked.counter_entry.index.index)
                entity = reply.entities.add()
                entity.CopyFrom(asked)
                packets, size = self.counters.get(cell, (0, 0))
                entity.counter_entry.data.packet_count = packets
                entity.counter_entry.data.byte_count = size
                continue
            default = kind == "table_entry" and asked.table_entry.is_default_action
            for key, entity in self.store.items():
                if key[0] != kind or (kind == "table_entry" and key[2] != default):
                    continue
                if default and key[1] != asked.table_entry.table_id:
                    continue
                reply.entities.add().CopyFrom(entity)
        yield reply
