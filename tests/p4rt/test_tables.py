"""Table entries: codes of the specification, canonical forms, reads."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from p4.v1 import p4runtime_pb2 as pb

from softswitch.engine.types import ActionCall, CounterValue, Exact, Lpm, Optional_, Range, Ternary
from softswitch.p4rt.status import BatchError, Code
from tests.p4rt import programs as p
from tests.p4rt.client import (
    DELETE,
    FWD,
    INSERT,
    MODIFY,
    Direct,
    call,
    entry,
    exact,
    lpm,
    optional,
    range_,
    ternary,
)

NET = entry(p.LPM, lpm(1, b"\x0a\x00\x00\x00", 8))
SAMPLES = [
    entry(p.EXACT, exact(1, b"\x01"), exact(2, b"\x20" + b"\0" * 15)),
    NET,
    entry(p.LPM),
    entry(p.TERN, ternary(1, b"\x10", b"\xf0"), exact(2, b"\0"), priority=7),
    entry(p.TERN, exact(2, b"\x05"), priority=1, metadata=b"who", controller_metadata=9),
    entry(p.RNG, range_(1, b"\x10", b"\x12\x34"), priority=3),
    entry(p.OPT, optional(1, b"\x0f\xff"), lpm(2, b"\x08\x00", 1), priority=2),
    entry(p.OPT, priority=5),
]


@pytest.mark.parametrize("sample", SAMPLES, ids=range(len(SAMPLES)))
def test_what_is_written_is_read(direct: Direct, sample: Any) -> None:
    direct.write((INSERT, sample))
    assert direct.read(pb.TableEntry(table_id=sample.table_id)) == [sample]
    keyed = pb.TableEntry(table_id=sample.table_id, match=sample.match, priority=sample.priority)
    assert direct.read(keyed) == [sample]
    assert direct.code(INSERT, sample) == Code.ALREADY_EXISTS
    assert direct.code(DELETE, keyed) == Code.OK
    assert direct.code(DELETE, keyed) == Code.NOT_FOUND
    assert direct.read(pb.TableEntry(table_id=sample.table_id)) == []


def test_engine_gets_integers(direct: Direct) -> None:
    direct.write(*[(INSERT, item) for item in SAMPLES])
    matches = {
        name: [(e.match, e.priority) for e in entries.values()]
        for name, entries in direct.engine.tables.items()
    }
    assert matches["exact"] == [((Exact(1), Exact(0x20 << 120)), 0)]
    assert matches["lpm"] == [((Lpm(0x0A000000, 8),), 0), ((Lpm(0, 0),), 0)]
    assert matches["ternary"][1] == ((Ternary(0, 0), Exact(5)), 1)
    assert matches["range"] == [((Range(0x10, 0x1234),), 3)]
    assert matches["optional"][1] == ((Optional_(None), Lpm(0, 0)), 5)
    action = next(iter(direct.engine.tables["lpm"].values())).action
    assert action == ActionCall("fwd", (1, 2))


def test_padding_is_accepted_and_read_back_short(direct: Direct) -> None:
    padded = entry(
        p.LPM, lpm(1, b"\0\0\x0a\0\0\0", 8), action=call(p.FWD, b"\0\0\0\x01", b"\0\x02")
    )
    direct.write((INSERT, padded))
    assert direct.read(pb.TableEntry(table_id=p.LPM)) == [NET]
    assert direct.code(INSERT, NET) == Code.ALREADY_EXISTS


INVALID = {
    "no such table": entry(999, lpm(1, b"\x0a", 8)),
    "no such field": entry(p.LPM, lpm(2, b"\x0a\0\0\0", 8)),
    "field twice": entry(p.LPM, lpm(1, b"\x0a\0\0\0", 8), lpm(1, b"\x0b\0\0\0", 8)),
    "wrong kind": entry(p.LPM, exact(1, b"\x0a")),
    "match unset": entry(p.LPM, pb.FieldMatch(field_id=1)),
    "exact missing": entry(p.EXACT, exact(1, b"\x01")),
    "empty value": entry(p.EXACT, exact(1, b""), exact(2, b"\x01")),
    "too wide": entry(p.EXACT, exact(1, b"\x02\x00"), exact(2, b"\x01")),
    "prefix 0": entry(p.LPM, lpm(1, b"\0", 0)),
    "prefix too long": entry(p.LPM, lpm(1, b"\x0a\0\0\0", 33)),
    "prefix negative": entry(p.LPM, lpm(1, b"\x0a\0\0\0", -1)),
    "bits past the prefix": entry(p.LPM, lpm(1, b"\x0a\0\0\1", 8)),
    "mask 0": entry(p.TERN, ternary(1, b"\0", b"\0"), exact(2, b"\1"), priority=1),
    "bits past the mask": entry(p.TERN, ternary(1, b"\x11", b"\xf0"), exact(2, b"\1"), priority=1),
    "range backwards": entry(p.RNG, range_(1, b"\2", b"\1"), priority=1),
    "whole range": entry(p.RNG, range_(1, b"\0", b"\xff\xff"), priority=1),
    "no priority": entry(p.RNG, range_(1, b"\1", b"\2")),
    "negative priority": entry(p.RNG, range_(1, b"\1", b"\2"), priority=-1),
    "priority on lpm": entry(p.LPM, lpm(1, b"\x0a\0\0\0", 8), priority=1),
    "no action": entry(p.LPM, lpm(1, b"\x0a\0\0\0", 8), action=None),
    "action of another table": entry(p.LPM, lpm(1, b"\x0a\0\0\0", 8), action=call(299)),
    "argument missing": entry(p.LPM, lpm(1, b"\x0a\0\0\0", 8), action=call(p.FWD, b"\1")),
    "argument extra": entry(
        p.LPM, lpm(1, b"\x0a\0\0\0", 8), action=call(p.FWD, b"\1", b"\1", b"\1")
    ),
    "argument too wide": entry(p.LPM, lpm(1, b"\x0a\0\0\0", 8), action=call(p.FWD, b"\2\0", b"\1")),
    "argument empty": entry(p.LPM, lpm(1, b"\x0a\0\0\0", 8), action=call(p.FWD, b"", b"\1")),
    "member on a direct table": entry(
        p.LPM, lpm(1, b"\x0a\0\0\0", 8), action=pb.TableAction(action_profile_member_id=1)
    ),
    "action on an indirect table": entry(p.INDIRECT, lpm(1, b"\x0a\0\0\0", 8)),
    "keyless insert": entry(p.KEYLESS),
    "is_const": entry(p.LPM, lpm(1, b"\x0a\0\0\0", 8), is_const=True),
    "counter without counter": entry(
        p.LPM, lpm(1, b"\x0a\0\0\0", 8), counter_data=pb.CounterData(packet_count=1)
    ),
    "meter without meter": entry(p.LPM, lpm(1, b"\x0a\0\0\0", 8), meter_config=pb.MeterConfig()),
    "idle timeout": entry(p.LPM, lpm(1, b"\x0a\0\0\0", 8), idle_timeout_ns=5),
    "default insert": entry(p.LPM, is_default_action=True),
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid_inserts_reach_nothing(direct: Direct, name: str) -> None:
    before = direct.engine.calls
    assert direct.code(INSERT, INVALID[name]) == Code.INVALID_ARGUMENT
    assert direct.engine.calls == before


def test_update_types_and_entities(direct: Direct) -> None:
    assert direct.code(0, NET) == Code.INVALID_ARGUMENT
    assert direct.code(INSERT, pb.Entity()) == Code.INVALID_ARGUMENT
    assert direct.code(MODIFY, NET) == Code.NOT_FOUND
    assert direct.code(INSERT, pb.Entity(extern_entry=pb.ExternEntry())) == Code.UNIMPLEMENTED


def test_modify(direct: Direct) -> None:
    direct.write((INSERT, NET))
    other = entry(p.LPM, *NET.match, action=call(p.DROP), metadata=b"m")
    direct.write((MODIFY, other))
    assert direct.read(pb.TableEntry(table_id=p.LPM)) == [other]
    direct.write((MODIFY, entry(p.LPM, *NET.match, action=None, metadata=b"n")))
    (read,) = direct.read(pb.TableEntry(table_id=p.LPM))
    assert read.action.action.action_id == p.DROP
    assert read.metadata == b"n"


def test_table_full(direct: Direct) -> None:
    for index in range(3):
        direct.write((INSERT, entry(p.LPM, lpm(1, bytes((index + 1, 0, 0, 0)), 8))))
    assert direct.code(INSERT, NET) == Code.RESOURCE_EXHAUSTED


def test_scopes(direct: Direct) -> None:
    table_only = entry(p.LPM, *NET.match, action=call(p.ONLY_TABLE))
    assert direct.code(INSERT, table_only) == Code.OK
    default_only = entry(p.LPM, lpm(1, b"\x80\0\0\0", 1), action=call(p.ONLY_DEFAULT))
    assert direct.code(INSERT, default_only) == Code.PERMISSION_DENIED
    as_default = entry(p.LPM, action=call(p.ONLY_TABLE), is_default_action=True)
    assert direct.code(MODIFY, as_default) == Code.PERMISSION_DENIED
    fine = entry(p.LPM, action=call(p.ONLY_DEFAULT), is_default_action=True)
    assert direct.code(MODIFY, fine) == Code.OK


def test_default_entry(direct: Direct) -> None:
    query = pb.TableEntry(table_id=p.LPM, is_default_action=True)
    (initial,) = direct.read(query)
    assert initial == entry(p.LPM, action=call(p.NOACTION), is_default_action=True)
    new = entry(p.LPM, action=FWD, is_default_action=True, metadata=b"x")
    direct.write((MODIFY, new))
    assert direct.read(query) == [new]
    assert direct.engine.defaults["lpm"] == ActionCall("fwd", (1, 2))
    assert direct.read(pb.TableEntry(table_id=p.LPM)) == []
    direct.write((MODIFY, entry(p.LPM, action=None, is_default_action=True)))
    assert direct.read(query) == [initial]
    assert direct.engine.defaults["lpm"] is None
    assert direct.code(DELETE, new) == Code.INVALID_ARGUMENT
    with_match = entry(p.LPM, *NET.match, is_default_action=True)
    assert direct.code(MODIFY, with_match) == Code.INVALID_ARGUMENT
    with_priority = entry(p.LPM, is_default_action=True, priority=1)
    assert direct.code(MODIFY, with_priority) == Code.INVALID_ARGUMENT
    const = entry(p.CONST, is_default_action=True)
    assert direct.code(MODIFY, const) == Code.PERMISSION_DENIED


def test_const_table(direct: Direct) -> None:
    expected = entry(p.CONST, exact(1, b"\x2e"), is_const=True)
    assert direct.read(pb.TableEntry(table_id=p.CONST)) == [expected]
    key = entry(p.CONST, exact(1, b"\x2e"))
    assert direct.code(INSERT, entry(p.CONST, exact(1, b"\x01"))) == Code.PERMISSION_DENIED
    assert direct.code(MODIFY, key) == Code.PERMISSION_DENIED
    assert direct.code(DELETE, key) == Code.PERMISSION_DENIED
    assert direct.code(MODIFY, entry(p.CONST, exact(1, b"\x2e"), action=None)) == Code.OK


def test_direct_counters(direct: Direct) -> None:
    key = [exact(1, b"\x01"), exact(2, b"\x02")]
    data = pb.CounterData(packet_count=3, byte_count=400)
    direct.write((INSERT, entry(p.EXACT, *key, counter_data=data)))
    assert list(direct.engine.direct.values()) == [CounterValue(3, 400)]
    (plain,) = direct.read(pb.TableEntry(table_id=p.EXACT))
    assert not plain.HasField("counter_data")
    (counted,) = direct.read(pb.TableEntry(table_id=p.EXACT, counter_data=pb.CounterData()))
    assert counted.counter_data == data
    more = pb.CounterData(packet_count=5)
    key_only = pb.TableEntry(table_id=p.EXACT, match=key)
    direct.write((MODIFY, pb.DirectCounterEntry(table_entry=key_only, data=more)))
    (read,) = direct.read(pb.DirectCounterEntry(table_entry=key_only))
    assert read.data == more
    assert read.table_entry.match == plain.match
    assert len(direct.read(pb.DirectCounterEntry())) == 1
    unknown = pb.TableEntry(table_id=p.EXACT, match=[exact(1, b"\x07"), exact(2, b"\x02")])
    assert direct.code(MODIFY, pb.DirectCounterEntry(table_entry=unknown)) == Code.NOT_FOUND
    with pytest.raises(BatchError) as caught:
        direct.read(pb.DirectCounterEntry(table_entry=unknown))
    assert caught.value.errors[0] is not None
    assert caught.value.errors[0].code == Code.NOT_FOUND
    lone = pb.DirectCounterEntry(table_entry=pb.TableEntry(table_id=p.LPM))
    assert direct.code(MODIFY, lone) == Code.INVALID_ARGUMENT
    assert direct.code(INSERT, pb.DirectCounterEntry(table_entry=key_only)) == Code.INVALID_ARGUMENT


def test_read_filters(direct: Direct) -> None:
    direct.write(*[(INSERT, item) for item in SAMPLES])
    everything = direct.read(pb.TableEntry())
    assert len(everything) == len(SAMPLES) + 1  # and the const entry
    assert len(direct.read(pb.TableEntry(table_id=p.TERN, priority=7))) == 1
    assert len(direct.read(pb.TableEntry(table_id=p.TERN, priority=8))) == 0
    assert len(direct.read(pb.TableEntry(table_id=p.TERN, metadata=b"who"))) == 1
    assert len(direct.read(pb.TableEntry(table_id=p.TERN, controller_metadata=9))) == 1
    assert len(direct.read(entry(p.TERN, action=pb.Action(action_id=p.FWD)))) == 2
    assert len(direct.read(entry(p.TERN, action=pb.Action(action_id=p.DROP)))) == 0
    assert len(direct.read(pb.TableEntry(is_default_action=True))) == len(p.TABLES)
    # One bad request does not spoil the others.
    with pytest.raises(BatchError) as caught:
        direct.read(pb.TableEntry(table_id=p.TERN), pb.TableEntry(table_id=999))
    first, second = caught.value.errors
    assert first is None
    assert second is not None
    assert second.code == Code.INVALID_ARGUMENT


_values = st.integers(0, 2**128 - 1)


@settings(max_examples=60, deadline=None)
@given(a=st.integers(0, 511), b=_values, pad=st.integers(0, 3))
def test_values_of_any_width(a: int, b: int, pad: int) -> None:
    """The key is the integer, whatever the number of leading zeros."""
    from softswitch.p4rt import wire
    from softswitch.p4rt.bytestrings import encode
    from softswitch.p4rt.schema import Schema

    codec = Schema.build(p.p4info(), p.program()).tables[p.EXACT].key if not _CODEC else _CODEC[0]
    _CODEC.append(codec)
    padded = [
        wire.RawMatch(1, wire.EXACT, b"\0" * pad + encode(a)),
        wire.RawMatch(2, wire.EXACT, b"\0" * pad + encode(b)),
    ]
    key = codec.key(padded, 0)
    assert key == (a, b, 0)
    short = pb.TableEntry.FromString(codec.encode(key))
    assert [int.from_bytes(m.exact.value, "big") for m in short.match] == [a, b]
    assert all(m.exact.value == b"\0" or m.exact.value[0] for m in short.match)


_CODEC: list[Any] = []
