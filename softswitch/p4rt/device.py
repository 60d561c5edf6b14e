"""The P4Runtime device: pipeline configurations, the write lock, arbitration.

Requests come in as bytes or protobuf messages and fail with P4RTError or BatchError;
gRPC is in `server`. One lock serialises writes, reads and arbitration: a read sees whole
write requests, and a new primary is announced after the last write of the old one.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2

from softswitch.engine import Engine
from softswitch.engine.types import EngineError
from softswitch.p4rt import pipeline as entities
from softswitch.p4rt import wire
from softswitch.p4rt.arbitration import Arbiter, Arbitration, Notification
from softswitch.p4rt.pipeline import Pipeline
from softswitch.p4rt.schema import Schema
from softswitch.p4rt.status import BatchError, Code, P4RTError, invalid, not_found

LOG = logging.getLogger("softswitch.p4rt")

EngineFactory: TypeAlias = Callable[[], Engine]
READ_CHUNK = 1 << 20
"""Bytes of entities in one ReadResponse; clients accept 4 MiB by default."""

_Actions = p4runtime_pb2.SetForwardingPipelineConfigRequest
_Write = p4runtime_pb2.WriteRequest


@dataclass
class Config:
    """A forwarding pipeline configuration as it was sent, and what came of it."""

    p4info: Any
    device_config: bytes
    cookie: int | None
    pipeline: Pipeline
    log: list[wire.RawUpdate] = field(default_factory=list)
    """Updates since VERIFY_AND_SAVE, to be replayed at COMMIT."""


def program_of(device_config: bytes) -> Mapping[str, Any]:
    """The bmv2 JSON in a p4_device_config: bare, or in the P4DeviceConfig of old clients."""
    text = device_config.lstrip()
    if not text.startswith(b"{"):
        # message P4DeviceConfig { bool reassign = 1; ...; bytes device_data = 3; }
        try:
            for tag, value in wire.fields(device_config):
                if tag == 0x1A and isinstance(value, bytes):
                    text = value
        except (wire.WireError, wire.Unusual):
            raise invalid("p4_device_config is not a bmv2 JSON") from None
    try:
        program = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise invalid(f"p4_device_config is not a bmv2 JSON: {error}") from None
    if not isinstance(program, dict):
        raise invalid("p4_device_config is not a bmv2 JSON: not an object")
    return program


class Device:
    """One switch under P4Runtime."""

    def __init__(
        self,
        device_id: int,
        engine: Engine,
        *,
        scratch: EngineFactory,
        priority_queues: int = 1,
        roles: Iterable[str] = (),
        port_names: Mapping[int, str] | None = None,
    ) -> None:
        """`scratch` makes an engine without ports, to try a program on. `roles`: names of
        roles beside the default one. `port_names`: interfaces, for ports that a program
        translates to strings."""
        self.device_id = device_id
        self.engine = engine
        self.port_names = dict(port_names or {})
        self.lock = threading.RLock()
        self.arbiter = Arbiter(device_id, roles=frozenset(roles))
        self.active: Config | None = None
        self.saved: Config | None = None
        self._scratch = scratch
        self._priority_queues = priority_queues

    # -- who is who
    def arbitrate(self, stream: Hashable, message: Any) -> list[Notification]:
        """A MasterArbitrationUpdate; P4RTError ends the stream. Call with the lock held."""
        election = None
        if message.HasField("election_id"):
            election = message.election_id.high << 64 | message.election_id.low
        role = message.role
        return self.arbiter.update(
            stream,
            Arbitration(
                message.device_id, election, role.name, role.id, bool(role.config.type_url)
            ),
        )

    def check_device(self, device_id: int) -> None:
        """NOT_FOUND unless it is this device."""
        if device_id != self.device_id:
            raise not_found(f"device id {device_id}: this is device {self.device_id}")

    def _check_client(
        self, device_id: int, role: str, role_id: int, election_id: int | None
    ) -> None:
        self.check_device(device_id)
        if not self.arbiter.knows_role(role, role_id):
            raise not_found(self.arbiter.role_text(role, role_id))
        if not self.arbiter.is_primary_election(election_id, role):
            raise P4RTError(Code.PERMISSION_DENIED, "not the primary client")

    def _current(self) -> Config:
        config = self.saved or self.active
        if config is None:
            raise P4RTError(
                Code.FAILED_PRECONDITION, "no forwarding pipeline config has been set yet"
            )
        return config

    # -- Write
    def write(self, data: bytes) -> None:
        """A serialised WriteRequest. BatchError when some of its updates failed."""
        request = _decode_write(data)
        with self.lock:
            self._check_client(
                request.device_id, request.role, request.role_id, request.election_id
            )
            config = self._current()
            log = config.log if config is self.saved else None
            if request.atomicity == _Write.CONTINUE_ON_ERROR:
                errors = _each(config.pipeline, request.updates, log)
            elif request.atomicity in (_Write.ROLLBACK_ON_ERROR, _Write.DATAPLANE_ATOMIC):
                held = request.atomicity == _Write.DATAPLANE_ATOMIC
                errors = _all_or_none(config.pipeline, request.updates, held)
                if log is not None and not any(errors):
                    log += request.updates
            else:
                raise invalid(f"atomicity {request.atomicity} is not one of the protocol's")
        if any(errors):
            raise BatchError("Write", errors)

    # -- Read
    def read(self, data: bytes) -> Iterator[bytes]:
        """Serialised ReadResponses for a serialised ReadRequest. BatchError at the end."""
        try:
            request = p4runtime_pb2.ReadRequest.FromString(data)
        except Exception:
            raise P4RTError(Code.INVALID_ARGUMENT, "malformed ReadRequest") from None
        self.check_device(request.device_id)
        if not self.arbiter.knows_role(request.role):
            raise not_found(self.arbiter.role_text(request.role))
        errors: list[P4RTError | None] = []
        found: list[list[bytes]] = []
        with self.lock:
            read = self._current().pipeline.read
            for entity in request.entities:
                kind, body = wire.decode_entity(entity.SerializeToString())
                try:
                    found.append(read(kind, body))
                    errors.append(None)
                except P4RTError as error:
                    errors.append(error)
                except Exception as error:
                    LOG.exception("read failed")
                    errors.append(P4RTError(Code.INTERNAL, f"{type(error).__name__}: {error}"))
        yield from _responses(found)
        if any(errors):
            raise BatchError("Read", errors)

    # -- pipeline configuration
    def get_config(self, request: Any) -> Any:
        """GetForwardingPipelineConfigResponse."""
        self.check_device(request.device_id)
        response = p4runtime_pb2.GetForwardingPipelineConfigResponse()
        with self.lock:
            config = self.saved or self.active
        if config is None:
            return response
        kinds = p4runtime_pb2.GetForwardingPipelineConfigRequest
        kind = request.response_type
        out = response.config
        out.SetInParent()
        if kind in (kinds.ALL, kinds.P4INFO_AND_COOKIE):
            out.p4info.CopyFrom(config.p4info)
        if kind in (kinds.ALL, kinds.DEVICE_CONFIG_AND_COOKIE):
            out.p4_device_config = config.device_config
        if config.cookie is not None:
            out.cookie.cookie = config.cookie
            out.cookie.SetInParent()
        return response

    def set_config(self, request: Any) -> None:
        """SetForwardingPipelineConfigRequest; P4RTError when it is refused."""
        election = None
        if request.HasField("election_id"):
            election = request.election_id.high << 64 | request.election_id.low
        with self.lock:
            self._check_client(request.device_id, request.role, request.role_id, election)
            action = request.action
            has_config = request.HasField("config")
            if action == _Actions.COMMIT:
                if has_config:
                    raise invalid("COMMIT takes no config: it commits the saved one")
                self._commit_saved()
                return
            if action not in _Actions.Action.values() or action == _Actions.UNSPECIFIED:
                raise invalid(f"action {action} is not a pipeline config action")
            if not has_config:
                raise invalid(f"{_Actions.Action.Name(action)} needs a config")
            sent = request.config
            cookie = sent.cookie.cookie if sent.HasField("cookie") else None
            if action == _Actions.VERIFY:
                self._try(sent.p4info, sent.p4_device_config).close()
            elif action == _Actions.VERIFY_AND_SAVE:
                self._save(sent.p4info, sent.p4_device_config, cookie)
            elif action == _Actions.VERIFY_AND_COMMIT:
                self.commit(sent.p4info, sent.p4_device_config, cookie)
            else:
                self._reconcile(sent.p4info, sent.p4_device_config, cookie)

    def _pipeline(self, p4info: Any, program: Mapping[str, Any], engine: Engine) -> Pipeline:
        """Load a program into `engine`; INVALID_ARGUMENT when it cannot be realised."""
        schema = Schema.build(p4info, program, lambda: self.port_names)
        try:
            preset = schema.preinitialized()
            engine.load(with_room(program, preset), preset)
            return Pipeline(
                schema, engine, self._priority_queues, lambda port: port in self.engine.ports()
            )
        except EngineError as error:
            raise invalid(f"the program cannot be realised: {error}") from None
        except P4RTError:
            raise
        except Exception as error:
            LOG.exception("a program failed to load")
            text = f"the program cannot be realised: {type(error).__name__}: {error}"
            raise invalid(text) from None

    def _try(self, p4info: Any, device_config: bytes) -> Engine:
        program = program_of(device_config)
        engine = self._scratch()
        try:
            self._pipeline(p4info, program, engine)
        except BaseException:
            engine.close()
            raise
        return engine

    def commit(self, p4info: Any, device_config: bytes, cookie: int | None) -> Config:
        """VERIFY_AND_COMMIT without the client checks: forwarding state is cleared."""
        # First on a scratch engine: a program that fails must leave the running one alone.
        self._try(p4info, device_config).close()
        replaced = self.active
        pipeline = self._pipeline(p4info, program_of(device_config), self.engine)
        if replaced is not None:
            replaced.pipeline.replication.clear()
        self._drop_saved()
        self.active = Config(_copy(p4info), device_config, cookie, pipeline)
        return self.active

    def _save(self, p4info: Any, device_config: bytes, cookie: int | None) -> None:
        program = program_of(device_config)
        engine = self._scratch()
        try:
            pipeline = self._pipeline(p4info, program, engine)
        except BaseException:
            engine.close()
            raise
        self._drop_saved()
        self.saved = Config(_copy(p4info), device_config, cookie, pipeline)

    def _drop_saved(self) -> None:
        if self.saved is not None:
            self.saved.pipeline.engine.close()
            self.saved = None

    def _commit_saved(self) -> None:
        saved = self.saved
        if saved is None:
            raise not_found("there is no saved config to commit")
        active = self.commit(saved.p4info, saved.device_config, saved.cookie)
        self._replay(active.pipeline, saved.log)

    def _reconcile(self, p4info: Any, device_config: bytes, cookie: int | None) -> None:
        active = self.active
        if active is None:
            self.commit(p4info, device_config, cookie)
            return
        if device_config == active.device_config and p4info == active.p4info:
            self._drop_saved()
            active.cookie = cookie
            return
        state = snapshot(active.pipeline)
        trial = self._scratch()
        try:
            pipeline = self._pipeline(p4info, program_of(device_config), trial)
            try:
                pipeline.adopt_initial(active.pipeline)
                for update in state:
                    pipeline.write(update)
            except P4RTError as error:
                raise invalid(f"the forwarding state cannot be kept: {error.message}") from None
        finally:
            trial.close()
        old = active.pipeline
        new = self.commit(p4info, device_config, cookie).pipeline
        new.adopt_initial(old)
        self._replay(new, state)

    @staticmethod
    def _replay(pipeline: Pipeline, updates: list[wire.RawUpdate]) -> None:
        for update in updates:
            try:
                pipeline.write(update)
            except P4RTError as error:
                LOG.error("an update could not be replayed: %s", error.message)


def with_room(program: Mapping[str, Any], sizes: Mapping[str, int]) -> Mapping[str, Any]:
    """The program with tables as large as the P4Info says: the JSON of a table with `entries`
    has room for just those."""
    if not sizes:
        return program
    pipelines = []
    for pipeline in program["pipelines"]:
        tables = [
            {**table, "max_size": max(sizes[table["name"]], table.get("max_size", 0))}
            if table["name"] in sizes
            else table
            for table in pipeline["tables"]
        ]
        pipelines.append({**pipeline, "tables": tables})
    return {**program, "pipelines": pipelines}


def _apply(pipeline: Pipeline, update: wire.RawUpdate) -> P4RTError | None:
    """Apply one update; what went wrong, or None."""
    try:
        pipeline.write(update)
    except P4RTError as error:
        return error
    except Exception as error:
        LOG.exception("update failed")
        return P4RTError(Code.INTERNAL, f"{type(error).__name__}: {error}")
    return None


def _each(
    pipeline: Pipeline, updates: Sequence[wire.RawUpdate], log: list[wire.RawUpdate] | None
) -> list[P4RTError | None]:
    """CONTINUE_ON_ERROR: every update is tried; `log` gets those that succeeded."""
    errors = [_apply(pipeline, update) for update in updates]
    if log is not None:
        log += [item for item, error in zip(updates, errors, strict=True) if error is None]
    return errors


def _all_or_none(
    pipeline: Pipeline, updates: Sequence[wire.RawUpdate], held: bool
) -> list[P4RTError | None]:
    """ROLLBACK_ON_ERROR, or DATAPLANE_ATOMIC when `held`: no packet sees a part of it.

    After the first error everything is taken back; the updates that had succeeded and those
    not tried are ABORTED, so that no client takes them for done.
    """
    journal = pipeline.journal
    with pipeline.engine.hold() if held else contextlib.nullcontext():
        journal.begin()
        for index, update in enumerate(updates):
            error = _apply(pipeline, update)
            if error is not None:
                journal.undo()
                aborted = P4RTError(Code.ABORTED, f"not done: update {index} of the batch failed")
                out: list[P4RTError | None] = [aborted] * len(updates)
                out[index] = error
                return out
        journal.commit()
    return [None] * len(updates)


def snapshot(pipeline: Pipeline) -> list[wire.RawUpdate]:
    """Updates that rebuild the forwarding state on a freshly loaded pipeline."""
    with_resources = wire.field_bytes(6, b"") + wire.field_bytes(7, b"")
    out: list[wire.RawUpdate] = []
    for kind, request in (
        (entities.MEMBER, b""),
        (entities.GROUP, b""),
        (entities.TABLE, with_resources),
        (entities.PRE, b""),
        (entities.DIGEST, b""),
    ):
        for entity in pipeline.read(kind, request):
            found, body = wire.decode_entity(entity)
            if found == entities.TABLE and wire.decode_table_entry(body).is_const:
                continue
            out.append(wire.RawUpdate(entities.INSERT, found, body))
    for table in pipeline.tables.values():
        if table.default_changed:
            body = table.encode(None, table.default)
            out.append(wire.RawUpdate(entities.MODIFY, entities.TABLE, body))
    for kind in (entities.VALUE_SET, entities.METER, entities.COUNTER, entities.REGISTER):
        for entity in pipeline.read(kind, b""):
            found, body = wire.decode_entity(entity)
            out.append(wire.RawUpdate(entities.MODIFY, found, body))
    return out


def _copy(p4info: Any) -> Any:
    copy = p4info_pb2.P4Info()
    copy.CopyFrom(p4info)
    return copy


def _decode_write(data: bytes) -> wire.RawWrite:
    try:
        try:
            return wire.decode_write(data)
        except wire.Unusual:
            merged = p4runtime_pb2.WriteRequest.FromString(data)
            return wire.decode_write(merged.SerializeToString())
    except Exception as error:
        raise invalid(f"malformed WriteRequest: {error}") from None


def _responses(found: list[list[bytes]]) -> Iterator[bytes]:
    chunk: list[bytes] = []
    size = 0
    for entity_list in found:
        for entity in entity_list:
            data = wire.field_bytes(1, entity)
            chunk.append(data)
            size += len(data)
            if size >= READ_CHUNK:
                yield b"".join(chunk)
                chunk, size = [], 0
    if chunk:
        yield b"".join(chunk)
