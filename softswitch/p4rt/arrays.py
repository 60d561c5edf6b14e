"""Counter, meter and register arrays: MODIFY and read, one cell or all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from p4.v1 import p4data_pb2, p4runtime_pb2

from softswitch.engine import Engine
from softswitch.p4rt import bytestrings, wire
from softswitch.p4rt.entries import count
from softswitch.p4rt.journal import Journal
from softswitch.p4rt.meters import from_rates, refuse_color_counters, to_rates
from softswitch.p4rt.schema import ArraySpec
from softswitch.p4rt.status import Code, P4RTError, invalid, unimplemented

MODIFY = 2


def _find(specs: Mapping[int, ArraySpec], wanted: int, what: str) -> ArraySpec:
    spec = specs.get(wanted)
    if spec is None:
        raise invalid(f"{what} id {wanted} is not in the P4Info")
    return spec


def _indices(spec: ArraySpec, message: Any) -> range:
    """The cells a message names: one, or all when its index is unset."""
    if not message.HasField("index"):
        return range(spec.size)
    index = message.index.index
    if index < 0:
        raise invalid(f"{spec.name}: index {index} is negative")
    if index >= spec.size:
        raise P4RTError(Code.OUT_OF_RANGE, f"{spec.name}: index {index}: size is {spec.size}")
    return range(index, index + 1)


def _only_modify(update_type: int, what: str) -> None:
    if update_type != MODIFY:
        raise invalid(f"{what}: only MODIFY is possible")


def _read_specs(specs: Mapping[int, ArraySpec], wanted: int, what: str) -> list[ArraySpec]:
    return list(specs.values()) if wanted == 0 else [_find(specs, wanted, what)]


class Arrays:
    """The indirect counters, meters and registers of a program."""

    def __init__(
        self,
        engine: Engine,
        counters: Mapping[int, ArraySpec],
        meters: Mapping[int, ArraySpec],
        registers: Mapping[int, ArraySpec],
        journal: Journal | None = None,
    ) -> None:
        self._engine = engine
        self._journal = journal or Journal()
        self.counters = counters
        self.meters = meters
        self.registers = registers

    # -- counters
    def write_counter(self, update_type: int, entry: Any) -> None:
        """An update of CounterEntry."""
        spec = _find(self.counters, entry.counter_id, "counter")
        _only_modify(update_type, spec.name)
        cells = _indices(spec, entry)
        if not entry.HasField("data"):
            return
        value = count(entry.data.packet_count, entry.data.byte_count, spec.name)
        write, read = self._engine.counter_write, self._engine.counter_read
        for index in cells:
            if self._journal.active:
                old = read(spec.name, index)
                self._journal.note(partial(write, spec.name, index, old))
            write(spec.name, index, value)

    def read_counter(self, entry: Any) -> Iterator[bytes]:
        """Bodies of Entity for a CounterEntry request."""
        for spec in _read_specs(self.counters, entry.counter_id, "counter"):
            cells = _indices(spec, entry)
            if len(cells) == 1:
                values = [self._engine.counter_read(spec.name, cells[0])]
            else:
                values = self._engine.counter_read_all(spec.name)
            head = wire.field_varint(1, spec.id)
            for index, value in zip(cells, values, strict=False):
                yield wire.field_bytes(
                    7,
                    head
                    + wire.field_bytes(2, wire.field_varint(1, index))
                    + wire.field_bytes(3, wire.counter_data(value.packets, value.bytes)),
                )

    # -- meters
    def write_meter(self, update_type: int, entry: Any) -> None:
        """An update of MeterEntry; an unset config makes every packet green."""
        spec = _find(self.meters, entry.meter_id, "meter")
        _only_modify(update_type, spec.name)
        cells = _indices(spec, entry)
        refuse_color_counters(entry.HasField("counter_data"), spec.name)
        rates = None
        if entry.HasField("config"):
            rates = to_rates(entry.config, spec.name, spec.meter_kind)
        write, read = self._engine.meter_set, self._engine.meter_get
        for index in cells:
            if self._journal.active:
                old = read(spec.name, index)
                self._journal.note(partial(write, spec.name, index, old))
            write(spec.name, index, rates)

    def read_meter(self, entry: Any) -> Iterator[bytes]:
        """Bodies of Entity for a MeterEntry request."""
        refuse_color_counters(entry.HasField("counter_data"), "meter")
        for spec in _read_specs(self.meters, entry.meter_id, "meter"):
            for index in _indices(spec, entry):
                out = p4runtime_pb2.MeterEntry(meter_id=spec.id)
                out.index.index = index
                out.index.SetInParent()
                rates = self._engine.meter_get(spec.name, index)
                if rates:
                    out.config.CopyFrom(from_rates(rates))
                yield wire.field_bytes(5, out.SerializeToString())

    # -- registers
    def write_register(self, update_type: int, entry: Any) -> None:
        """An update of RegisterEntry."""
        spec = _find(self.registers, entry.register_id, "register")
        _only_modify(update_type, spec.name)
        cells = _indices(spec, entry)
        if not entry.HasField("data"):
            raise invalid(f"{spec.name}: data is missing")
        value = _cell(spec, entry.data)
        write, read = self._engine.register_write, self._engine.register_read
        for index in cells:
            if self._journal.active:
                old = read(spec.name, index)
                self._journal.note(partial(write, spec.name, index, old))
            write(spec.name, index, value)

    def read_register(self, entry: Any) -> Iterator[bytes]:
        """Bodies of Entity for a RegisterEntry request."""
        for spec in _read_specs(self.registers, entry.register_id, "register"):
            cells = _indices(spec, entry)
            if len(cells) == 1:
                values = [self._engine.register_read(spec.name, cells[0])]
            else:
                values = self._engine.register_read_all(spec.name)
            head = wire.field_varint(1, spec.id)
            for index, value in zip(cells, values, strict=False):
                yield wire.field_bytes(
                    11,
                    head
                    + wire.field_bytes(2, wire.field_varint(1, index))
                    + wire.field_bytes(3, _data(spec, value)),
                )


_FORMS = {"bit": "bitstring", "int": "bitstring", "bool": "bool", "enum": "enum_value"}


def _cell(spec: ArraySpec, data: Any) -> int:
    """The unsigned cell value of a P4Data."""
    wanted = _FORMS.get(spec.kind)
    if wanted is None:
        raise unimplemented(f"{spec.name}: registers of this type are not supported")
    form = data.WhichOneof("data")
    if form != wanted:
        raise invalid(f"{spec.name}: data must be {wanted}, it is {form or 'unset'}")
    if spec.kind == "bool":
        return int(data.bool)
    if spec.kind == "enum":
        return bytestrings.decode(data.enum_value, spec.width, spec.name)
    if spec.kind == "int":
        value = bytestrings.decode_signed(data.bitstring, spec.width, spec.name)
        return value & ((1 << spec.width) - 1)
    return bytestrings.decode(data.bitstring, spec.width, spec.name)


def _data(spec: ArraySpec, value: int) -> bytes:
    """Body of P4Data for an unsigned cell value."""
    if spec.kind == "bool":
        return bytes(p4data_pb2.P4Data(bool=bool(value)).SerializeToString())
    if spec.kind == "enum":
        return bytes(p4data_pb2.P4Data(enum_value=bytestrings.encode(value)).SerializeToString())
    if spec.kind == "int" and value >> (spec.width - 1):
        return wire.field_bytes(1, bytestrings.encode_signed(value - (1 << spec.width)))
    if spec.kind == "int":
        return wire.field_bytes(1, bytestrings.encode_signed(value))
    return wire.field_bytes(1, bytestrings.encode(value))
