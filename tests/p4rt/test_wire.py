"""The fast decoder against the protobuf classes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from p4.v1 import p4runtime_pb2 as pb

from softswitch.p4rt import wire
from softswitch.p4rt.packetio import ControllerHeader
from softswitch.p4rt.pipeline import raw_entry
from softswitch.p4rt.status import BatchError, Code, P4RTError, batch_text, invalid, status_details
from tests.p4rt.programs import p4info

_u32 = st.integers(0, 2**32 - 1)
_i32 = st.integers(-(2**31), 2**31 - 1)
_bytes = st.binary(max_size=20)


@st.composite
def matches(draw: Any) -> Any:
    out = pb.FieldMatch(field_id=draw(_u32))
    kind = draw(st.sampled_from(["exact", "ternary", "lpm", "range", "optional", None]))
    if kind is None:
        return out
    inner = getattr(out, kind)
    inner.SetInParent()
    for field in inner.DESCRIPTOR.fields:
        setattr(inner, field.name, draw(_i32 if field.name == "prefix_len" else _bytes))
    return out


@st.composite
def entries(draw: Any) -> Any:
    out = pb.TableEntry(table_id=draw(_u32), priority=draw(_i32), metadata=draw(_bytes))
    out.controller_metadata = draw(st.integers(0, 2**64 - 1))
    out.is_default_action = draw(st.booleans())
    out.is_const = draw(st.booleans())
    out.idle_timeout_ns = draw(st.integers(-(2**63), 2**63 - 1))
    out.match.extend(draw(st.lists(matches(), max_size=3)))
    kind = draw(st.sampled_from(["action", "member", "group", None]))
    if kind == "action":
        out.action.action.action_id = draw(_u32)
        for param in draw(st.lists(st.tuples(_u32, _bytes), max_size=3)):
            out.action.action.params.add(param_id=param[0], value=param[1])
    elif kind == "member":
        out.action.action_profile_member_id = draw(_u32)
    elif kind == "group":
        out.action.action_profile_group_id = draw(_u32)
    if draw(st.booleans()):
        out.counter_data.packet_count = draw(st.integers(0, 2**63 - 1))
        out.counter_data.byte_count = draw(st.integers(0, 2**63 - 1))
    return out


@settings(max_examples=150, deadline=None)
@given(entries())
def test_table_entries(message: Any) -> None:
    raw = wire.decode_table_entry(message.SerializeToString())
    for name in ("table_id", "priority", "metadata", "controller_metadata", "idle_timeout_ns"):
        assert getattr(raw, name) == getattr(message, name)
    assert raw.is_default_action == message.is_default_action
    assert raw.is_const == message.is_const
    assert len(raw.match) == len(message.match)
    for ours, theirs in zip(raw.match, message.match, strict=True):
        assert ours.field_id == theirs.field_id
        kind = theirs.WhichOneof("field_match_type")
        assert (ours.kind == 0) == (kind is None)
        if kind is not None:
            inner = getattr(theirs, kind)
            values = [getattr(inner, field.name) for field in inner.DESCRIPTOR.fields]
            assert [ours.first, ours.second][: len(values)] == values
    which = message.action.WhichOneof("type")
    if which == "action":
        assert isinstance(raw.action, wire.RawAction)
        assert raw.action.action_id == message.action.action.action_id
        params = [(item.param_id, item.value) for item in message.action.action.params]
        assert raw.action.params == params
    elif which is not None:
        assert raw.action == getattr(message.action, which)
    assert (raw.counter_data is not None) == message.HasField("counter_data")
    if raw.counter_data is not None:
        data = message.counter_data
        assert wire.decode_counter_data(raw.counter_data) == (data.packet_count, data.byte_count)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60))
def test_noise_is_refused_or_decoded_as_protobuf_does(data: bytes) -> None:
    try:
        theirs = pb.TableEntry.FromString(data)
    except Exception:
        theirs = None
    try:
        ours = raw_entry(data)
    except (P4RTError, wire.Unusual):
        return
    if theirs is not None:
        assert ours.table_id == theirs.table_id
        assert ours.priority == theirs.priority
        assert len(ours.match) == len(theirs.match)


def test_messages_that_occur_twice_are_merged() -> None:
    action = pb.TableEntry()
    action.action.action.action_id = 5
    more = pb.TableEntry(table_id=3)
    more.action.action.params.add(param_id=1, value=b"x")
    raw = raw_entry(action.SerializeToString() + more.SerializeToString())
    assert raw.action == wire.RawAction(5, [(1, b"x")])


def test_write_request() -> None:
    request = pb.WriteRequest(device_id=2**64 - 1, role="r", atomicity=1)
    request.election_id.high = 3
    request.updates.add(type=pb.Update.DELETE).entity.counter_entry.counter_id = 7
    request.updates.add()
    raw = wire.decode_write(request.SerializeToString())
    assert raw == wire.RawWrite(
        2**64 - 1,
        "r",
        0,
        3 << 64,
        [
            wire.RawUpdate(3, 7, pb.CounterEntry(counter_id=7).SerializeToString()),
            wire.RawUpdate(0, 0, b""),
        ],
        1,
    )
    assert wire.decode_write(b"").election_id is None


def test_status_details_are_what_clients_unpack() -> None:
    from google.rpc import status_pb2

    batch = BatchError("Write", [None, invalid("x" * 50), P4RTError(Code.NOT_FOUND, "gone"), None])
    text = batch_text(batch)
    assert text.startswith(str(batch))
    status = status_pb2.Status.FromString(status_details(batch, text))
    assert status.code == Code.UNKNOWN
    assert status.message == text
    errors = []
    for detail in status.details:
        error = pb.Error()
        assert detail.Unpack(error)
        errors.append((error.canonical_code, error.message))
    assert errors == [(0, ""), (3, "x" * 50), (5, "gone"), (0, "")]


@pytest.mark.parametrize("count", [1, 120, 200, 250, 2000])
def test_status_details_stay_within_default_metadata(count: int) -> None:
    from google.rpc import status_pb2

    faults = [None if index % 3 else invalid("m" * 100) for index in range(count)]
    batch = BatchError("Write", faults)
    text = batch_text(batch)
    data = status_details(batch, text)
    assert len(data) * 4 / 3 + len(text) < 8192 - 150
    details = status_pb2.Status.FromString(data).details
    codes = []
    for detail in details:
        error = pb.Error()
        assert detail.Unpack(error)
        codes.append(error.canonical_code)
    assert codes == [3 if fault else 0 for fault in faults[: len(codes)]]
    assert len(codes) == count if count <= 250 else 250 < len(codes) < count
    # A client that accepts more gets everything.
    everything = status_pb2.Status.FromString(status_details(batch, text, 1 << 20))
    assert len(everything.details) == count
    assert everything.details[0].type_url == "type.googleapis.com/p4.v1.Error"


def test_text_of_a_batch_names_all_that_failed() -> None:
    gone = P4RTError(Code.NOT_FOUND, "gone")
    batch = BatchError("Write", [None, gone, gone, None, invalid("x"), gone])
    assert batch_text(batch).endswith("; all: 1-2 NOT_FOUND, 4 INVALID_ARGUMENT, 5 NOT_FOUND")
    many = [gone if index % 2 else None for index in range(2000)]
    assert len(batch_text(BatchError("Write", many))) < 420


def test_packet_headers() -> None:
    header = ControllerHeader(p4info().controller_packet_metadata[0].metadata)
    frame = header.pack({1: b"\x01\x05"}, b"payload")
    assert frame == (0x105 << 7).to_bytes(2, "big") + b"payload"
    assert header.unpack(frame) == ([(1, b"\x01\x05"), (2, b"\0")], b"payload")
    empty = ControllerHeader()
    assert empty.pack({}, b"x") == b"x"
    assert empty.unpack(b"x") == ([], b"x")


_widths = st.lists(st.integers(1, 40), min_size=1, max_size=6)


@given(_widths, st.data())
def test_packet_headers_of_any_widths(widths: list[int], data: Any) -> None:
    from p4.config.v1 import p4info_pb2

    message = p4info_pb2.ControllerPacketMetadata()
    values = {}
    for index, width in enumerate(widths, 1):
        message.metadata.add(id=index, name=f"f{index}", bitwidth=width)
        values[index] = data.draw(st.integers(0, 2**width - 1))
    header = ControllerHeader(message.metadata)
    packed = header.pack({i: v.to_bytes(8, "big") for i, v in values.items()}, b"p")
    fields, payload = header.unpack(packed)
    assert {i: int.from_bytes(v, "big") for i, v in fields} == values
    assert payload == b"p"
