"""Random batches against a model: what is accepted is kept, what is refused leaves no trace.

The model knows nothing of P4: it applies the updates that the server says it did to a
dictionary of entities by key, in canonical form, and what the server reads back must be that
dictionary. What the engine holds is compared before and after every batch that failed.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from p4.v1 import p4runtime_pb2 as pb

from softswitch.engine.types import GroupRef, MemberRef
from softswitch.p4rt.status import Code
from tests.p4rt.client import DELETE, INSERT, MODIFY
from tests.p4rt.real import Names, Real, octets
from tests.p4rt.requests import Requests

_READ = (
    pb.TableEntry(),
    pb.TableEntry(is_default_action=True),
    pb.ActionProfileMember(),
    pb.ActionProfileGroup(),
    pb.PacketReplicationEngineEntry(),
    pb.ValueSetEntry(),
    pb.DigestEntry(),
)
_VOLATILE = ("counter_data", "meter_config", "meter_counter_data", "time_since_last_hit")


def canonical(message: Any, strings: bool = False) -> Any:
    """A copy with shortest byte strings and fields by id."""
    out = type(message)()
    out.CopyFrom(message)
    _shorten(out)
    if isinstance(out, pb.TableEntry):
        for name in _VOLATILE:
            out.ClearField(name)
        _sort(out.match, "field_id")
    if isinstance(out, pb.ValueSetEntry):
        for member in out.members:
            _sort(member.match, "field_id")
    return out


def _sort(items: Any, key: str) -> None:
    copies = sorted(items, key=lambda item: getattr(item, key))
    copies = [type(item).FromString(item.SerializeToString()) for item in copies]
    del items[:]
    items.extend(copies)


def _shorten(message: Any) -> None:
    if isinstance(message, pb.Action):
        _sort(message.params, "param_id")
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            many = field.label == field.LABEL_REPEATED
            for item in value if many else [value]:
                _shorten(item)
        elif field.type == field.TYPE_BYTES and field.name != "metadata" and value:
            setattr(message, field.name, value.lstrip(b"\0") or b"\0")


def key_of(message: Any) -> Any:
    """What makes an entity the same one."""
    if isinstance(message, pb.TableEntry):
        if message.is_default_action:
            return message.table_id, "default"
        match = tuple(item.SerializeToString() for item in canonical(message).match)
        return message.table_id, match, message.priority
    if isinstance(message, pb.ActionProfileMember):
        return "member", message.action_profile_id, message.member_id
    if isinstance(message, pb.ActionProfileGroup):
        return "group", message.action_profile_id, message.group_id
    if isinstance(message, pb.PacketReplicationEngineEntry):
        return (
            "pre",
            message.multicast_group_entry.multicast_group_id,
            message.clone_session_entry.session_id,
        )
    if isinstance(message, pb.ValueSetEntry):
        return "value set", message.value_set_id
    if isinstance(message, pb.DigestEntry):
        return "digest", message.digest_id
    return None


class Model:
    """Entities by key."""

    def __init__(self, found: list[Any]) -> None:
        self.entities = {key_of(item): item for item in found}
        self.initial = {key: item for key, item in self.entities.items() if "default" in key[1:]}

    def apply(self, kind: int, entity: Any) -> None:
        """An update that succeeded."""
        message = getattr(entity, entity.WhichOneof("entity"))
        key = key_of(message)
        if key is None:
            return
        old = self.entities.get(key)
        if kind == DELETE:
            assert old is not None, f"{key} was deleted and did not exist"
            del self.entities[key]
            return
        if kind == INSERT:
            assert old is None, f"{key} was inserted and existed"
        else:
            assert old is not None, f"{key} was modified and did not exist"
        new = canonical(message)
        if isinstance(new, pb.DigestEntry):
            new.config.SetInParent()
        if isinstance(new, pb.TableEntry) and kind == MODIFY:
            if not message.HasField("action") or message.action.WhichOneof("type") is None:
                if new.is_default_action:
                    new = self.initial[key]
                else:
                    new.action.CopyFrom(old.action)
            if old.is_const:
                new = old
        self.entities[key] = new

    def check(self, real: Real) -> None:
        """What the server holds is what the model holds."""
        found = {key_of(item): item for item in real.read(*_READ)}
        assert found.keys() == self.entities.keys()
        for key, item in found.items():
            assert item == self.entities[key]


def held(real: Real) -> Any:
    """What the engine holds, without its handles."""
    engine, names = real.engine, real.names
    groups: dict[int, Any] = {}
    members: dict[str, Any] = {}
    for profile in ("I.sel", "I.prof"):
        members[profile] = {item.handle: item.action for item in engine.members(profile)}
    for item in engine.groups("I.sel"):
        groups[item.handle] = sorted(
            str((members["I.sel"][m.member], m.weight, m.watch_port)) for m in item.members
        )

    def target(profile: str, action: Any) -> Any:
        if isinstance(action, MemberRef):
            return members[profile][action.handle]
        return groups[action.handle] if isinstance(action, GroupRef) else action

    out: dict[str, Any] = {}
    for alias, table in names.tables.items():
        name = table.preamble.name
        profile = "I.sel" if alias == "ecmp" else "I.prof"
        rows = []
        for entry in engine.table_entries(name):
            direct: Any = None
            if alias == "l2":
                direct = engine.direct_counter_read(name, entry.handle)
            elif alias == "route":
                direct = engine.direct_meter_get(name, entry.handle)
            action = target(profile, entry.action)
            rows.append(str((entry.match, entry.priority, action, direct)))
        out[alias] = sorted(rows), engine.table_default(name)
    out["members"] = {key: sorted(map(str, value.values())) for key, value in members.items()}
    out["groups"] = sorted(map(str, groups.values()))
    out["pre"] = engine.mc_groups(), engine.clone_sessions()
    out["value sets"] = [engine.value_set_get(name) for name in ("P.types", "P.pairs")]
    out["arrays"] = (
        engine.counter_read_all("I.seen"),
        [engine.meter_get("I.police", index) for index in range(4)],
        [engine.register_read_all(name) for name in ("I.last", "I.level", "I.flag")],
        engine.direct_counter_read("I.l2", None),
    )
    return out


def run(real: Real, rng: random.Random, steps: int, mix: dict[Code, int]) -> None:
    """Random batches with every check after each."""
    requests = Requests(real.names, rng)
    model = Model(real.read(*_READ))
    for _ in range(steps):
        requests.known = list(model.entities.values())
        batch = requests.batch()
        atomicity = rng.choice([0, 0, 1, 2])
        before = held(real)
        codes = real.codes(*batch, atomicity=atomicity)
        assert not {Code.UNKNOWN, Code.INTERNAL} & set(codes), (batch, codes)
        for code in codes:
            mix[code] = mix.get(code, 0) + 1
        if all(codes) or (atomicity and any(codes)):
            assert held(real) == before, (batch, codes)
        if not (atomicity and any(codes)):
            for (kind, entity), code in zip(batch, codes, strict=True):
                if code == Code.OK:
                    model.apply(kind, entity)
        model.check(real)


@pytest.mark.parametrize("atomicity", [1, 2])
def test_every_kind_of_change_can_be_taken_back(atomicity: int) -> None:
    real = Real()
    n = real.names
    sel, prof = n.ids["sel"], n.ids["prof"]

    def member(number: int, port: int, profile: int = sel) -> Any:
        action = n.action("fwd", port=port)
        return pb.ActionProfileMember(action_profile_id=profile, member_id=number, action=action)

    def group(number: int, *weights: int) -> Any:
        out = pb.ActionProfileGroup(action_profile_id=sel, group_id=number, max_size=8)
        for index, weight in enumerate(weights, 1):
            out.members.add(member_id=index, weight=weight, watch_port=bytes((index,)))
        return out

    def multicast(number: int, *ports: int) -> Any:
        out = pb.PacketReplicationEngineEntry()
        out.multicast_group_entry.multicast_group_id = number
        for port in ports:
            out.multicast_group_entry.replicas.add(egress_port=port)
        return out

    def clone(number: int, length: int) -> Any:
        out = pb.PacketReplicationEngineEntry()
        out.clone_session_entry.session_id = number
        out.clone_session_entry.packet_length_bytes = length
        return out

    def values(*items: int) -> Any:
        out = pb.ValueSetEntry(value_set_id=n.ids["types"])
        for item in items:
            out.members.add().match.add(field_id=1).exact.value = octets(item)
        return out

    def array(kind: str, value: int) -> Any:
        index = pb.Index(index=1)
        if kind == "counter":
            data = pb.CounterData(packet_count=value)
            return pb.CounterEntry(counter_id=n.ids["seen"], index=index, data=data)
        if kind == "meter":
            config = pb.MeterConfig(cir=value, pir=value)
            return pb.MeterEntry(meter_id=n.ids["police"], index=index, config=config)
        out = pb.RegisterEntry(register_id=n.ids["last"], index=index)
        out.data.bitstring = octets(value)
        return out

    def direct(kind: str, value: int) -> Any:
        if kind == "counter":
            counter = pb.DirectCounterEntry(table_entry=n.entry("l2", [1]))
            counter.data.packet_count = value
            return counter
        out = pb.DirectMeterEntry(table_entry=n.entry("route", [(0, 8)]))
        out.config.cir = out.config.pir = value
        return pb.Entity(direct_meter_entry=out)

    def learn(size: int) -> Any:
        out = pb.DigestEntry(digest_id=n.ids["learn_t"])
        out.config.max_list_size = size
        return out

    to_group = pb.TableAction(action_profile_group_id=1)
    to_member = pb.TableAction(action_profile_member_id=2)
    ecmp = n.entry("ecmp", [(0, 1)], to_group, metadata=b"a")
    route = n.entry("route", [(0, 8)], n.action("metered", port=1))
    real.write((INSERT, member(1, 1)), (INSERT, member(2, 2)), (INSERT, member(3, 3)))
    real.write((INSERT, group(1, 1, 2)), (INSERT, group(2, 1)), (INSERT, multicast(1, 1)))
    real.write((INSERT, ecmp), (INSERT, clone(1, 1)), (MODIFY, values(1)), (INSERT, learn(1)))
    real.write((INSERT, n.entry("l2", [1], n.action("drop"))), (INSERT, route))
    real.write(*[(MODIFY, array(kind, 1)) for kind in ("counter", "meter", "register")])
    real.write((MODIFY, direct("counter", 1)), (MODIFY, direct("meter", 1)))
    changes = [
        (DELETE, ecmp),
        (INSERT, n.entry("ecmp", [(0, 1)], to_member, metadata=b"b")),
        (MODIFY, n.entry("ecmp", [(0, 1)], pb.TableAction(action_profile_group_id=2))),
        (DELETE, group(1)),
        (INSERT, group(1, 3)),
        (MODIFY, group(2, 3, 3)),
        (MODIFY, member(1, 4)),
        (DELETE, member(3, 0)),
        (INSERT, member(3, 4)),
        (INSERT, member(4, 4)),
        (INSERT, member(4, 4, prof)),
        (DELETE, multicast(1)),
        (INSERT, multicast(1, 2)),
        (MODIFY, multicast(1, 3)),
        (MODIFY, clone(1, 2)),
        (DELETE, clone(1, 0)),
        (INSERT, clone(2, 9)),
        (MODIFY, values(2, 3)),
        (MODIFY, learn(2)),
        (DELETE, learn(0)),
        *[(MODIFY, array(kind, 2)) for kind in ("counter", "meter", "register")],
        (MODIFY, direct("counter", 2)),
        (MODIFY, direct("meter", 2)),
        (DELETE, n.entry("l2", [1])),
        (MODIFY, n.entry("route", [(0, 8)], n.action("drop"), metadata=b"c")),
        (DELETE, route),
        (
            MODIFY,
            n.entry("always", (), n.action("set_class", **{"class": 4}), is_default_action=True),
        ),
    ]
    before, read = held(real), sorted(map(str, real.read(*_READ)))
    bad = (DELETE, n.entry("l2", [99]))
    for count in range(1, len(changes) + 1):
        codes = real.codes(*changes[:count], bad, atomicity=atomicity)
        assert codes == [Code.ABORTED] * count + [Code.NOT_FOUND]
        assert held(real) == before, changes[count - 1]
        assert sorted(map(str, real.read(*_READ))) == read, changes[count - 1]
    assert real.codes(*changes, atomicity=atomicity) == [Code.OK] * len(changes)
    assert held(real) != before
    real.close()


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32))
def test_random_batches_against_a_model(seed: int) -> None:
    real = Real()
    try:
        run(real, random.Random(seed), 12, {})
    finally:
        real.close()


def test_random_batches_are_worth_something() -> None:
    """Enough of them succeed and enough are refused, for many reasons."""
    real = Real()
    mix: dict[Code, int] = {}
    run(real, random.Random(2), 150, mix)
    real.close()
    assert mix[Code.OK] > 50
    for code in (
        Code.INVALID_ARGUMENT,
        Code.NOT_FOUND,
        Code.ALREADY_EXISTS,
        Code.PERMISSION_DENIED,
        Code.FAILED_PRECONDITION,
        Code.ABORTED,
    ):
        assert mix.get(code, 0) >= 1, mix
    assert isinstance(real.names, Names)
