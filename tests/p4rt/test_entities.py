"""Counters, registers, meters, value sets, multicast groups, clone sessions."""

from __future__ import annotations

from typing import Any

import pytest
from p4.v1 import p4runtime_pb2 as pb

from softswitch.engine.types import CounterValue, Replica
from softswitch.p4rt.status import BatchError, Code
from tests.p4rt import programs as p
from tests.p4rt.client import DELETE, INSERT, MODIFY, Direct, code_of


def counter(index: int | None, packets: int | None = None) -> Any:
    out = pb.CounterEntry(counter_id=p.COUNTER)
    if index is not None:
        out.index.index = index
    if packets is not None:
        out.data.packet_count = packets
    return out


def register(index: int | None, data: bytes | None = None, rid: int = p.REGISTER) -> Any:
    out = pb.RegisterEntry(register_id=rid)
    if index is not None:
        out.index.index = index
    if data is not None:
        out.data.bitstring = data
    return out


def test_counters(direct: Direct) -> None:
    assert direct.code(MODIFY, counter(3, 8)) == Code.OK
    (one,) = direct.read(counter(3))
    assert one.data == pb.CounterData(packet_count=8)
    everything = direct.read(counter(None))
    assert [e.index.index for e in everything] == list(range(16))
    assert len(direct.read(pb.CounterEntry())) == 16
    assert direct.code(MODIFY, counter(None, 2)) == Code.OK
    assert direct.engine.counters["hits"] == [CounterValue(2, 0)] * 16
    assert direct.code(MODIFY, counter(3)) == Code.OK
    assert direct.engine.counters["hits"][3] == CounterValue(2, 0)
    assert direct.code(INSERT, counter(3, 1)) == Code.INVALID_ARGUMENT
    assert direct.code(DELETE, counter(3, 1)) == Code.INVALID_ARGUMENT
    assert direct.code(MODIFY, counter(-1, 1)) == Code.INVALID_ARGUMENT
    assert direct.code(MODIFY, counter(16, 1)) == Code.OUT_OF_RANGE
    assert direct.code(MODIFY, pb.CounterEntry(counter_id=9)) == Code.INVALID_ARGUMENT
    with pytest.raises(BatchError) as caught:
        direct.read(counter(16))
    assert code_of(caught.value) == Code.OUT_OF_RANGE


def test_registers(direct: Direct) -> None:
    assert direct.code(MODIFY, register(1, b"\0\xff")) == Code.OK
    assert direct.read(register(1)) == [register(1, b"\xff")]
    assert len(direct.read(register(None))) == 8
    assert direct.code(MODIFY, register(1, b"\1\0\0\0\0")) == Code.INVALID_ARGUMENT
    assert direct.code(MODIFY, register(1)) == Code.INVALID_ARGUMENT
    boolean = register(1)
    boolean.data.bool = True
    assert direct.code(MODIFY, boolean) == Code.INVALID_ARGUMENT
    assert direct.code(MODIFY, register(8, b"\1")) == Code.OUT_OF_RANGE
    assert direct.code(INSERT, register(1, b"\1")) == Code.INVALID_ARGUMENT


def test_signed_register(direct: Direct) -> None:
    for data, cell in ((b"\x9d", 0xFF9D), (b"\x7f", 0x7F), (b"\x80\x00", 0x8000), (b"\0\x80", 128)):
        assert direct.code(MODIFY, register(0, data, p.SIGNED)) == Code.OK
        assert direct.engine.registers["sreg"][0] == cell
        assert direct.read(register(0, rid=p.SIGNED)) == [register(0, data, p.SIGNED)]
    assert direct.code(MODIFY, register(0, b"\x8d\1\2", p.SIGNED)) == Code.INVALID_ARGUMENT


def test_meters(direct: Direct) -> None:
    config = pb.MeterConfig(cir=10, cburst=5, pir=20, pburst=6)
    one = pb.MeterEntry(meter_id=p.METER, index=pb.Index(index=1), config=config)
    assert direct.code(MODIFY, one) == Code.OK
    query = pb.MeterEntry(meter_id=p.METER, index=pb.Index(index=1))
    assert direct.read(query) == [one]
    assert len(direct.read(pb.MeterEntry())) == 4
    assert direct.code(MODIFY, query) == Code.OK
    assert direct.read(query) == [query]
    one.config.cir = 21
    assert direct.code(MODIFY, one) == Code.INVALID_ARGUMENT


def test_value_sets(direct: Direct) -> None:
    value_set = pb.ValueSetEntry(value_set_id=p.VSET)
    for value in (b"\x08\x00", b"\x86\xdd"):
        match = value_set.members.add().match.add(field_id=1)
        match.exact.value = value
    assert direct.code(MODIFY, value_set) == Code.OK
    assert direct.engine.value_sets["vs"] == [0x800, 0x86DD]
    assert direct.read(pb.ValueSetEntry()) == [value_set]
    assert direct.code(INSERT, value_set) == Code.INVALID_ARGUMENT
    value_set.members.add().CopyFrom(value_set.members[0])
    assert direct.code(MODIFY, value_set) == Code.ALREADY_EXISTS


def multicast(gid: int, *replicas: tuple[int, int]) -> Any:
    out = pb.PacketReplicationEngineEntry()
    out.multicast_group_entry.multicast_group_id = gid
    for port, instance in replicas:
        out.multicast_group_entry.replicas.add(port=bytes((port,)), instance=instance)
    return out


def clone(sid: int, port: int = 2, **fields: Any) -> Any:
    out = pb.PacketReplicationEngineEntry()
    out.clone_session_entry.session_id = sid
    out.clone_session_entry.replicas.add(egress_port=port, instance=1)
    for name, value in fields.items():
        setattr(out.clone_session_entry, name, value)
    return out


def test_multicast(direct: Direct) -> None:
    one = multicast(1, (1, 0), (1, 1), (2, 0))
    assert direct.code(INSERT, one) == Code.OK
    assert direct.engine.mc[1] == (Replica(1, 0), Replica(1, 1), Replica(2, 0))
    assert direct.code(INSERT, one) == Code.ALREADY_EXISTS
    assert direct.read(pb.PacketReplicationEngineEntry()) == [one]
    assert direct.code(MODIFY, multicast(1, (3, 0))) == Code.OK
    assert direct.read(multicast(1)) == [multicast(1, (3, 0))]
    assert direct.code(MODIFY, multicast(2, (3, 0))) == Code.NOT_FOUND
    assert direct.code(INSERT, multicast(0, (3, 0))) == Code.INVALID_ARGUMENT
    assert direct.code(INSERT, multicast(3, (3, 0), (3, 0))) == Code.INVALID_ARGUMENT
    assert direct.code(INSERT, multicast(3, (3, 1 << 16))) == Code.INVALID_ARGUMENT
    assert direct.code(INSERT, multicast(1 << 16, (3, 0))) == Code.OUT_OF_RANGE
    assert direct.code(DELETE, multicast(1)) == Code.OK
    assert direct.code(DELETE, multicast(1)) == Code.NOT_FOUND
    empty = pb.PacketReplicationEngineEntry()
    assert direct.code(INSERT, empty) == Code.INVALID_ARGUMENT


def test_clone_sessions(direct: Direct) -> None:
    one = clone(100, class_of_service=1, packet_length_bytes=64)
    assert direct.code(INSERT, one) == Code.OK
    session = direct.engine.clones[100]
    assert session.replicas == (Replica(2, 1),)
    assert (session.packet_length_bytes, session.class_of_service) == (64, 1)
    assert direct.read(clone(0)) == [one]
    assert direct.code(INSERT, one) == Code.ALREADY_EXISTS
    assert direct.code(INSERT, clone(0)) == Code.INVALID_ARGUMENT
    assert direct.code(INSERT, clone(5, class_of_service=2)) == Code.INVALID_ARGUMENT
    assert direct.code(INSERT, clone(1 << 15)) == Code.OUT_OF_RANGE
    assert direct.code(INSERT, clone(5, port=512)) == Code.INVALID_ARGUMENT
    assert direct.code(DELETE, clone(100)) == Code.OK
    assert direct.engine.clones == {}
