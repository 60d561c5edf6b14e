"""Random requests: refused with a code that is not INTERNAL, or carried out whole."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from p4.v1 import p4runtime_pb2 as pb

from softswitch.p4rt.status import BatchError, Code, P4RTError
from tests.p4rt import programs as p
from tests.p4rt.client import Direct, wrap
from tests.p4rt.conftest import make_device

_IDS = [*range(101, 111), *range(201, 206), 301, 302, *range(401, 409)]


def fill(message: Any, rng: random.Random, depth: int = 0) -> None:
    """Set random fields of any message to likely and unlikely values."""
    for field in message.DESCRIPTOR.fields:
        if rng.random() < 0.45 or depth > 6:
            continue
        repeated = field.label == field.LABEL_REPEATED
        if field.type == field.TYPE_MESSAGE:
            if field.message_type.full_name.startswith("google.protobuf"):
                continue
            if repeated:
                for _ in range(rng.randrange(3)):
                    fill(getattr(message, field.name).add(), rng, depth + 1)
            else:
                getattr(message, field.name).SetInParent()
                fill(getattr(message, field.name), rng, depth + 1)
            continue
        value = scalar(field, rng)
        if repeated:
            getattr(message, field.name).append(value)
        else:
            setattr(message, field.name, value)


def scalar(field: Any, rng: random.Random) -> Any:
    if field.type == field.TYPE_BYTES:
        return rng.choice([b"", b"\0", b"\1", b"\3", b"\xff\xff", rng.randbytes(rng.randrange(20))])
    if field.type == field.TYPE_STRING:
        return rng.choice(["", "x"])
    if field.type == field.TYPE_BOOL:
        return rng.random() < 0.3
    if field.type in (field.TYPE_DOUBLE, field.TYPE_FLOAT):
        return rng.random()
    if field.name.endswith("_id") and field.name not in ("field_id", "param_id", "member_id"):
        return rng.choice([0, 1, 5, *_IDS])
    limit = 2**31 - 1
    small = rng.choice([0, 1, 1, 2, 8, 16, 64, limit])
    return (
        -small
        if field.type in (field.TYPE_INT32, field.TYPE_INT64) and rng.random() < 0.1
        else small
    )


def primary() -> Direct:
    device, engine = make_device()
    device.commit(p.p4info(), p.device_config(), None)
    return Direct(device, engine)


def submit(client: Direct, data: bytes) -> None:
    try:
        client.device.write(data)
    except P4RTError:
        return
    except BatchError as error:
        for fault in error.errors:
            assert fault is None or fault.code != Code.INTERNAL, fault


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_random_entities(seed: int) -> None:
    rng = random.Random(seed)
    client = primary()
    for _ in range(8):
        request = pb.WriteRequest(device_id=1)
        request.election_id.low = 1
        for _ in range(rng.randrange(4)):
            update = request.updates.add(type=rng.randrange(4))
            fields = update.entity.DESCRIPTOR.fields
            kind = getattr(update.entity, rng.choice(fields).name)
            kind.SetInParent()
            fill(kind, rng)
        submit(client, request.SerializeToString())
    # Whatever was accepted reads back and is accepted again by a fresh switch.
    found = client.read(pb.TableEntry(), pb.ActionProfileMember(), pb.ActionProfileGroup())
    assert len({item.SerializeToString() for item in found}) == len(found)
    other = primary()
    order = (pb.ActionProfileMember, pb.ActionProfileGroup, pb.TableEntry)
    for item in sorted(found, key=lambda item: order.index(type(item))):
        if not getattr(item, "is_const", False):
            assert other.code(pb.Update.INSERT, item) == Code.OK


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32), st.binary(max_size=8), st.integers(0, 200))
def test_damaged_requests(seed: int, noise: bytes, where: int) -> None:
    rng = random.Random(seed)
    client = primary()
    request = pb.WriteRequest(device_id=1)
    request.election_id.low = 1
    update = request.updates.add(type=1)
    fill(update.entity.table_entry, rng)
    data = request.SerializeToString()
    where %= len(data)
    submit(client, data[:where] + noise + data[where + len(noise) :])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_random_reads(seed: int) -> None:
    rng = random.Random(seed)
    client = primary()
    request = pb.ReadRequest(device_id=1)
    entity = request.entities.add()
    kind = getattr(entity, rng.choice(entity.DESCRIPTOR.fields).name)
    kind.SetInParent()
    fill(kind, rng)
    try:
        list(client.device.read(request.SerializeToString()))
    except P4RTError:
        return
    except BatchError as error:
        fault = error.errors[0]
        assert fault is not None
        assert fault.code != Code.INTERNAL, fault


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_random_pipelines(seed: int) -> None:
    """A damaged P4Info or JSON is refused; the running pipeline stays."""
    rng = random.Random(seed)
    client = primary()
    before = client.device.active
    info = p.p4info()
    for _ in range(rng.randrange(1, 4)):
        group = getattr(info, rng.choice([f.name for f, _ in info.ListFields()][1:]))
        victim = rng.choice(list(group))
        fill(victim, rng)
    data = bytearray(p.device_config())
    for _ in range(rng.randrange(3)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    code = None
    try:
        client.device.commit(info, bytes(data), None)
    except P4RTError as error:
        code = error.code
    if code is not None:
        assert code == Code.INVALID_ARGUMENT
        assert client.device.active is before
    client.read(pb.TableEntry())


def test_wrap_knows_every_writable_entity() -> None:
    assert wrap(pb.TableEntry()).WhichOneof("entity") == "table_entry"
