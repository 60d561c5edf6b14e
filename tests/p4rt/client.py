"""Calls a device as gRPC would, without gRPC; short ways to write entities."""

from __future__ import annotations

from typing import Any

from p4.v1 import p4runtime_pb2 as pb

from softswitch.p4rt import Device
from softswitch.p4rt.arbitration import Arbitration
from softswitch.p4rt.status import BatchError, Code
from tests.p4rt import programs as p
from tests.p4rt.fake import FakeEngine

INSERT, MODIFY, DELETE = pb.Update.INSERT, pb.Update.MODIFY, pb.Update.DELETE


class Direct:
    """The primary of a device."""

    def __init__(self, device: Device, engine: FakeEngine) -> None:
        self.device = device
        self.engine = engine
        device.arbiter.update("me", Arbitration(1, 1))

    def write(self, *updates: tuple[int, Any], **fields: Any) -> None:
        """(type, entity message) pairs; raises BatchError."""
        self.device.write(write_request(*updates, **fields).SerializeToString())

    def code(self, update_type: int, entity: Any) -> Code:
        """Code of a single update."""
        try:
            self.write((update_type, entity))
        except BatchError as error:
            return code_of(error)
        return Code.OK

    def read(self, *entities: Any) -> list[Any]:
        """Entity messages (the inner ones) a read gives."""
        request = pb.ReadRequest(device_id=1)
        for item in entities:
            request.entities.append(wrap(item))
        out = []
        for data in self.device.read(request.SerializeToString()):
            for entity in pb.ReadResponse.FromString(data).entities:
                out.append(getattr(entity, entity.WhichOneof("entity")))
        return out


def code_of(error: BatchError, index: int = 0) -> Code:
    """Code of one element of a failed batch."""
    fault = error.errors[index]
    return Code.OK if fault is None else fault.code


_FIELDS = {
    pb.TableEntry: "table_entry",
    pb.ActionProfileMember: "action_profile_member",
    pb.ActionProfileGroup: "action_profile_group",
    pb.MeterEntry: "meter_entry",
    pb.CounterEntry: "counter_entry",
    pb.DirectCounterEntry: "direct_counter_entry",
    pb.PacketReplicationEngineEntry: "packet_replication_engine_entry",
    pb.ValueSetEntry: "value_set_entry",
    pb.RegisterEntry: "register_entry",
    pb.DigestEntry: "digest_entry",
}


def wrap(item: Any) -> Any:
    """An Entity around its message."""
    if isinstance(item, pb.Entity):
        return item
    return pb.Entity(**{_FIELDS[type(item)]: item})


def write_request(*updates: tuple[int, Any], election: int | None = 1, **fields: Any) -> Any:
    """A WriteRequest to device 1."""
    request = pb.WriteRequest(**{"device_id": 1, **fields})
    if election is not None:
        request.election_id.low = election
    for kind, item in updates:
        request.updates.add(type=kind, entity=wrap(item))
    return request


def call(action: int, *values: bytes) -> Any:
    """An Action with parameters 1, 2..."""
    return pb.Action(
        action_id=action,
        params=[pb.Action.Param(param_id=i, value=v) for i, v in enumerate(values, 1)],
    )


FWD = call(p.FWD, b"\x01", b"\x02")


def entry(table: int, *match: Any, action: Any = FWD, **fields: Any) -> Any:
    """A TableEntry. `action` may be an Action, TableAction or None."""
    out = pb.TableEntry(table_id=table, match=list(match), **fields)
    if isinstance(action, pb.Action):
        out.action.action.CopyFrom(action)
    elif action is not None:
        out.action.CopyFrom(action)
    return out


def exact(field: int, value: bytes) -> Any:
    return pb.FieldMatch(field_id=field, exact=pb.FieldMatch.Exact(value=value))


def lpm(field: int, value: bytes, length: int) -> Any:
    return pb.FieldMatch(field_id=field, lpm=pb.FieldMatch.LPM(value=value, prefix_len=length))


def ternary(field: int, value: bytes, mask: bytes) -> Any:
    return pb.FieldMatch(field_id=field, ternary=pb.FieldMatch.Ternary(value=value, mask=mask))


def range_(field: int, low: bytes, high: bytes) -> Any:
    return pb.FieldMatch(field_id=field, range=pb.FieldMatch.Range(low=low, high=high))


def optional(field: int, value: bytes) -> Any:
    return pb.FieldMatch(field_id=field, optional=pb.FieldMatch.Optional(value=value))


def member(member_id: int, action: Any = FWD, profile: int = p.SEL) -> Any:
    out = pb.ActionProfileMember(action_profile_id=profile, member_id=member_id)
    if action is not None:
        out.action.CopyFrom(action)
    return out


def group(group_id: int, *members: tuple[int, int], max_size: int = 8, profile: int = p.SEL) -> Any:
    """Members are (id, weight)."""
    out = pb.ActionProfileGroup(action_profile_id=profile, group_id=group_id, max_size=max_size)
    for member_id, weight in members:
        out.members.add(member_id=member_id, weight=weight)
    return out
