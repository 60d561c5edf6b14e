"""Random P4Runtime requests made from a P4Info, most of them valid, some damaged."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2 as pb

from tests.p4rt.client import DELETE, INSERT, MODIFY, wrap
from tests.p4rt.real import PORTS, Names, octets

_KINDS = p4info_pb2.MatchField


_MODIFIED = (
    pb.ValueSetEntry,
    pb.CounterEntry,
    pb.MeterEntry,
    pb.RegisterEntry,
    pb.DirectCounterEntry,
    pb.DirectMeterEntry,
)
"""What can only be modified."""


class Requests:
    """Makes updates. Ids and values come from small ranges, so that they meet each other."""

    def __init__(self, names: Names, rng: random.Random) -> None:
        self.names = names
        self.rng = rng
        info = names.info
        self._strings = {
            name
            for name, spec in info.type_info.new_types.items()
            if spec.translated_type.HasField("sdn_string")
        }
        self.known: list[Any] = []
        """Entities that exist, to be met again."""
        self._makers: list[tuple[float, Callable[[], Any]]] = [
            (10, self.table_entry),
            (3, self.member),
            (3, self.group),
            (2, self.replication),
            (1, self.value_set),
            (1, self.array),
            (0.3, self.digest),
            (1, self.direct),
        ]

    def batch(self) -> list[tuple[int, Any]]:
        """(type, Entity) pairs."""
        return [self.update() for _ in range(self.rng.choice([1, 1, 1, 2, 3, 4]))]

    def update(self) -> tuple[int, Any]:
        rng = self.rng
        if self.known and rng.random() < 0.2:
            entity = wrap(rng.choice(self.known))
            kind = rng.choice((DELETE, DELETE, MODIFY, INSERT))
        else:
            maker = rng.choices([m for _, m in self._makers], [w for w, _ in self._makers])[0]
            entity = wrap(maker())
            inner = getattr(entity, entity.WhichOneof("entity"))
            if type(inner) in _MODIFIED or getattr(inner, "is_default_action", False):
                kind = MODIFY
            elif isinstance(inner, pb.ActionProfileMember | pb.ActionProfileGroup):
                kind = rng.choices((INSERT, MODIFY, DELETE), (5, 4, 1))[0]
            else:
                kind = rng.choices((INSERT, MODIFY, DELETE), (10, 2, 1))[0]
        if rng.random() < 0.1:
            damage(entity, rng)
        return rng.randrange(4) if rng.random() < 0.03 else kind, entity

    # -- values
    def value(self, item: Any, small: int = 3) -> bytes:
        """A value of a field or parameter, now and then in a longer form or too wide."""
        rng = self.rng
        if item.type_name.name in self._strings:
            return rng.choice([b"a", b"b", b"7"])
        width = item.bitwidth
        value = rng.choice([rng.randrange(small), (1 << width) - 1 - rng.randrange(small)])
        data = octets(max(0, value))
        roll = rng.random()
        if roll < 0.05:
            return b"\0\0" + data
        if roll < 0.07:
            return octets(1 << width)
        return data

    def match(self, field: Any) -> Any | None:
        rng = self.rng
        out = pb.FieldMatch(field_id=field.id)
        width, kind = field.bitwidth, field.match_type
        if kind != _KINDS.EXACT and rng.random() < 0.3:
            return None
        if kind == _KINDS.EXACT:
            out.exact.value = self.value(field)
        elif kind == _KINDS.OPTIONAL:
            out.optional.value = self.value(field)
        elif kind == _KINDS.LPM:
            length = rng.choice([1, 8, width, 0 if rng.random() < 0.1 else 2])
            value = rng.choice([0, 1, 2, 3]) << max(0, width - 2)
            out.lpm.value, out.lpm.prefix_len = octets(value & (1 << width) - 1), length
        elif kind == _KINDS.TERNARY:
            mask = rng.choice([1, 3, (1 << width) - 1, 0 if rng.random() < 0.1 else 1])
            value = rng.randrange(4) & (mask if rng.random() < 0.9 else 3)
            out.ternary.value, out.ternary.mask = octets(value), octets(mask)
        else:
            low, high = rng.choice([(0, 1), (1, 9), (5, 5), (9, 1), (0, (1 << width) - 1)])
            out.range.low, out.range.high = octets(low), octets(high)
        return out

    def action(self, table: Any) -> Any:
        rng = self.rng
        ref = rng.choice(table.action_refs).id
        spec = next(a for a in self.names.info.actions if a.preamble.id == ref)
        out = pb.Action(action_id=ref)
        for param in spec.params:
            if rng.random() < 0.98:
                out.params.add(param_id=param.id, value=self.value(param))
        if rng.random() < 0.1:
            out.params.reverse()
        return out

    # -- entities
    def table_entry(self) -> Any:
        rng = self.rng
        table = rng.choice(self.names.info.tables)
        out = pb.TableEntry(table_id=table.preamble.id)
        if rng.random() < (0.08 if table.match_fields else 0.9):
            out.is_default_action = True
        else:
            for field in table.match_fields:
                match = self.match(field)
                if match is not None:
                    out.match.append(match)
            kinds = {field.match_type for field in table.match_fields}
            if kinds & {_KINDS.TERNARY, _KINDS.RANGE, _KINDS.OPTIONAL}:
                out.priority = rng.choice([1, 1, 2, 0 if rng.random() < 0.1 else 3])
            if rng.random() < 0.1:
                out.match.reverse()
        self._act(out, table)
        if rng.random() < 0.2:
            out.metadata = rng.choice([b"x", b"\0"])
            out.controller_metadata = rng.randrange(3)
        if rng.random() < (0.5 if table.idle_timeout_behavior else 0.02):
            out.idle_timeout_ns = rng.choice([10**9, 5, -1])
        if rng.random() < (0.5 if table.preamble.alias == "l2" else 0.02):
            out.counter_data.packet_count = rng.choice([0, 7, 8, 9, -1])
        if rng.random() < (0.5 if table.preamble.alias == "route" else 0.02):
            out.meter_config.CopyFrom(self.meter())
        return out

    def _act(self, out: Any, table: Any) -> None:
        rng = self.rng
        roll = rng.random()
        if roll < 0.05:
            return
        if not table.implementation_id or roll < 0.07:
            out.action.action.CopyFrom(self.action(table))
        elif roll < 0.5:
            out.action.action_profile_member_id = self.some_id()
        elif roll < 0.8:
            out.action.action_profile_group_id = self.some_id()
        else:
            for _ in range(rng.randrange(1, 4)):
                item = out.action.action_profile_action_set.action_profile_actions.add()
                item.action.CopyFrom(self.action(table))
                item.weight = rng.choice([1, 2, 4, 0 if rng.random() < 0.2 else 1])
                if rng.random() < 0.5:
                    item.watch_port = octets(rng.choice([*PORTS] * 3 + [77]))

    def some_id(self) -> int:
        """Of a member or group; 0 is not allowed."""
        return 0 if self.rng.random() < 0.03 else self.rng.randrange(1, 5)

    def _profile(self) -> Any:
        return self.rng.choice(self.names.info.action_profiles)

    def member(self) -> Any:
        profile = self._profile()
        table = next(
            t for t in self.names.info.tables if t.implementation_id == profile.preamble.id
        )
        out = pb.ActionProfileMember(
            action_profile_id=profile.preamble.id, member_id=self.some_id()
        )
        if self.rng.random() < 0.95:
            out.action.CopyFrom(self.action(table))
        return out

    def group(self) -> Any:
        rng = self.rng
        selector = self.names.ids["sel"]
        profile = selector if rng.random() < 0.95 else self._profile().preamble.id
        out = pb.ActionProfileGroup(action_profile_id=profile, group_id=self.some_id())
        out.max_size = rng.choice([8, 8, 8, 4, 9])
        for _ in range(rng.randrange(3)):
            member = out.members.add(member_id=self.some_id(), weight=rng.choice([1, 2, 3]))
            if rng.random() < 0.3:
                member.watch_port = octets(rng.choice(PORTS))
            elif rng.random() < 0.2:
                member.watch = rng.choice(PORTS)
        return out

    def replication(self) -> Any:
        rng = self.rng
        out = pb.PacketReplicationEngineEntry()
        if rng.random() < 0.5:
            target = out.multicast_group_entry
            target.multicast_group_id = rng.choice(
                [1, 1, 2, 2, 3, 4, 0 if rng.random() < 0.3 else 1 << 20]
            )
            target.metadata = rng.choice([b"", b"m"])
        else:
            target = out.clone_session_entry
            target.session_id = rng.choice([1, 1, 2, 2, 3, 4, 0 if rng.random() < 0.3 else 1 << 20])
            target.class_of_service = rng.choice([0, 1, 0, 1, 9])
            target.packet_length_bytes = rng.choice([0, 64, 128, -1])
        for _ in range(rng.randrange(3)):
            replica = target.replicas.add(instance=rng.choice([0, 1, 2, 1 << 17]))
            if rng.random() < 0.5:
                replica.port = octets(rng.choice([*PORTS] * 3 + [600]))
            else:
                replica.egress_port = rng.choice(PORTS)
        return out

    def value_set(self) -> Any:
        rng = self.rng
        spec = rng.choice(self.names.info.value_sets)
        out = pb.ValueSetEntry(value_set_id=spec.preamble.id)
        for _ in range(rng.randrange(6)):
            member = out.members.add()
            for field in spec.match:
                match = self.match(field)
                if match is not None:
                    member.match.append(match)
        return out

    def meter(self) -> Any:
        rng = self.rng
        low = rng.randrange(3)
        return pb.MeterConfig(cir=low, cburst=1, pir=low + rng.choice([0, 1, 2, -1]), pburst=2)

    def array(self) -> Any:
        rng = self.rng
        info = self.names.info
        kind = rng.choice(["counter", "meter", "register"])
        index = pb.Index(index=rng.choice([0, 1, 2, 3, 0, 1, -1, 1 << 40]))
        if kind == "counter":
            out = pb.CounterEntry(counter_id=info.counters[0].preamble.id)
            out.data.packet_count = rng.choice([0, 3, -1])
        elif kind == "meter":
            out = pb.MeterEntry(meter_id=info.meters[0].preamble.id)
            if rng.random() < 0.8:
                out.config.CopyFrom(self.meter())
        else:
            out = pb.RegisterEntry(register_id=rng.choice(info.registers).preamble.id)
            out.data.bitstring = rng.choice([b"\0", b"\1", b"\x7f", b"\xff\xfe", b"", b"\1" * 9])
        if rng.random() < 0.8:
            out.index.CopyFrom(index)
        return out

    def digest(self) -> Any:
        out = pb.DigestEntry(digest_id=self.names.info.digests[0].preamble.id)
        out.config.max_list_size = self.rng.choice([0, 1, 5, 6, -1])
        return out

    def direct(self) -> Any:
        if self.rng.random() < 0.5:
            counter = pb.DirectCounterEntry(table_entry=self.table_entry())
            counter.data.packet_count = self.rng.choice([1, -1])
            return counter
        return pb.Entity(
            direct_meter_entry=pb.DirectMeterEntry(
                table_entry=self.table_entry(), config=self.meter()
            )
        )


def damage(message: Any, rng: random.Random) -> None:
    """Change one field somewhere inside: wrong ids, huge or empty values, missing parts."""
    while True:
        fields = message.ListFields()
        if not fields:
            return
        field, value = rng.choice(fields)
        repeated = field.label == field.LABEL_REPEATED
        if field.type == field.TYPE_MESSAGE and rng.random() < 0.85:
            message = rng.choice(list(value)) if repeated else value
            continue
        if repeated and field.type == field.TYPE_MESSAGE:
            if rng.random() < 0.5:
                del value[:]
            else:
                value.add().CopyFrom(value[0])
        elif field.type == field.TYPE_MESSAGE:
            message.ClearField(field.name)
        elif field.type == field.TYPE_BYTES:
            setattr(message, field.name, rng.choice([b"", b"\xff" * 64, b"\0" * 70, b"\1" * 3]))
        elif field.type == field.TYPE_BOOL:
            setattr(message, field.name, not value)
        elif field.type != field.TYPE_STRING:
            unsigned = field.type in (field.TYPE_UINT32, field.TYPE_UINT64)
            choices = [0, 1, 2, 77, 2**31 - 1] + ([] if unsigned else [-1, -(2**31)])
            setattr(message, field.name, rng.choice(choices))
        return
