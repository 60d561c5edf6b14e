"""Protobuf wire format of the messages that come in thousands.

The protobuf runtime this project is pinned to is pure Python and takes far longer to
build a TableEntry than the engine to insert it. Write requests and table entries are
therefore decoded straight into small objects here, and entities that are read back are
encoded as bytes. Everything rarer goes through the protobuf classes.

Decoding accepts whatever protobuf accepts: unknown fields are skipped, the last of a
repeated scalar or oneof wins, messages that occur twice are merged (by the protobuf
class: `Unusual` sends such input there). Malformed input raises WireError.
"""

from __future__ import annotations

from typing import NamedTuple

_MASK64 = (1 << 64) - 1


class WireError(ValueError):
    """Not a serialised protobuf message."""


class Unusual(Exception):
    """Valid, but of a shape left to the protobuf classes."""


# -- encoding -------------------------------------------------------------------------


def varint(value: int) -> bytes:
    """Base-128 encoding; negative values as 64-bit two's complement."""
    if 0 <= value < 0x80:
        return _SINGLE[value]
    value &= _MASK64
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_SINGLE = [bytes((value,)) for value in range(0x80)]


def field_varint(number: int, value: int) -> bytes:
    """A varint field; empty for the default value 0."""
    return varint(number << 3) + varint(value) if value else b""


def field_bytes(number: int, value: bytes) -> bytes:
    """A length-delimited field, present even when empty (messages, oneofs, repeated)."""
    return varint(number << 3 | 2) + varint(len(value)) + value


# -- decoding -------------------------------------------------------------------------


def read_varint(data: bytes, pos: int) -> tuple[int, int]:
    """(value, position after it); at most 64 bits."""
    result = shift = 0
    try:
        while True:
            byte = data[pos]
            pos += 1
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                return result & _MASK64, pos
            shift += 7
            if shift >= 70:
                raise WireError("varint longer than 10 bytes")
    except IndexError:
        raise WireError("truncated varint") from None


def _skip(data: bytes, pos: int, wire_type: int, number: int) -> int:
    """Position after the value of an unknown field."""
    if number == 0:
        raise WireError("field number 0")
    if wire_type == 0:
        return read_varint(data, pos)[1]
    if wire_type == 1:
        pos += 8
    elif wire_type == 2:
        length, pos = read_varint(data, pos)
        pos += length
    elif wire_type == 5:
        pos += 4
    else:
        raise Unusual("group")
    if pos > len(data):
        raise WireError("truncated field")
    return pos


def fields(data: bytes) -> list[tuple[int, int | bytes]]:
    """All fields as (tag, value): int for varints, bytes for length-delimited ones."""
    out: list[tuple[int, int | bytes]] = []
    pos = 0
    end = len(data)
    append = out.append
    while pos < end:
        tag = data[pos]
        pos += 1
        if tag >= 0x80:
            tag, pos = read_varint(data, pos - 1)
        wire_type = tag & 7
        if wire_type == 2 and tag > 7:
            length = data[pos] if pos < end else 0x80
            if length < 0x80:
                pos += 1
            else:
                length, pos = read_varint(data, pos)
            stop = pos + length
            if stop > end:
                raise WireError("truncated field")
            append((tag, data[pos:stop]))
            pos = stop
        elif wire_type == 0 and tag > 7:
            value, pos = read_varint(data, pos)
            append((tag, value))
        else:
            pos = _skip(data, pos, wire_type, tag >> 3)
    return out


# Field kinds of FieldMatch, named by their field number.
EXACT, TERNARY, LPM, RANGE, OPTIONAL, OTHER = 2, 3, 4, 6, 7, 100
# Kinds of TableAction.
NO_ACTION, ACTION, MEMBER, GROUP, ACTION_SET = 0, 1, 2, 3, 4


class RawAction(NamedTuple):
    """p4.v1.Action: id and (param_id, value) pairs as sent."""

    action_id: int
    params: list[tuple[int, bytes]]


class RawMatch(NamedTuple):
    """p4.v1.FieldMatch. `second` is the mask, prefix length or high bound."""

    field_id: int
    kind: int
    first: bytes = b""
    second: bytes | int = b""


class RawEntry:
    """p4.v1.TableEntry as sent, nothing checked yet."""

    __slots__ = (
        "action",
        "action_kind",
        "controller_metadata",
        "counter_data",
        "idle_timeout_ns",
        "is_const",
        "is_default_action",
        "match",
        "metadata",
        "meter_config",
        "meter_counter_data",
        "priority",
        "table_id",
        "time_since_last_hit",
    )

    def __init__(self) -> None:
        self.table_id = 0
        self.match: list[RawMatch] = []
        self.action_kind = NO_ACTION
        self.action: RawAction | int | bytes | None = None
        self.priority = 0
        self.controller_metadata = 0
        self.metadata = b""
        self.is_default_action = False
        self.is_const = False
        self.idle_timeout_ns = 0
        self.counter_data: bytes | None = None
        self.meter_config: bytes | None = None
        self.meter_counter_data: bytes | None = None
        self.time_since_last_hit: bytes | None = None


class RawUpdate(NamedTuple):
    """p4.v1.Update: type, the field number of the entity's kind and its bytes."""

    type: int
    kind: int
    entity: bytes


class RawWrite(NamedTuple):
    """p4.v1.WriteRequest."""

    device_id: int
    role: str
    role_id: int
    election_id: int | None
    updates: list[RawUpdate]
    atomicity: int


def _int32(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def _int64(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _election_id(data: bytes) -> int:
    high = low = 0
    for tag, value in fields(data):
        if tag == 0x08:
            high = int(value)
        elif tag == 0x10:
            low = int(value)
    return high << 64 | low


def decode_entity(data: bytes) -> tuple[int, bytes]:
    """p4.v1.Entity: (field number of the kind, bytes of the message); (0, b"") if unset."""
    kind = 0
    body = b""
    for tag, value in fields(data):
        if tag & 7 == 2 and 1 <= tag >> 3 <= 12:
            if kind == tag >> 3:
                raise Unusual("entity twice")
            kind, body = tag >> 3, value  # type: ignore[assignment]
    return kind, body


def decode_update(data: bytes) -> RawUpdate:
    """p4.v1.Update."""
    kind = update_type = 0
    body = b""
    seen = False
    for tag, value in fields(data):
        if tag == 0x12:
            if seen:
                raise Unusual("entity twice")
            seen = True
            kind, body = decode_entity(value)  # type: ignore[arg-type]
        elif tag == 0x08:
            update_type = _int32(value)  # type: ignore[arg-type]
    return RawUpdate(update_type, kind, body)


def decode_write(data: bytes) -> RawWrite:
    """p4.v1.WriteRequest."""
    device_id = role_id = atomicity = 0
    role = ""
    election: int | None = None
    updates: list[RawUpdate] = []
    for tag, value in fields(data):
        if tag == 0x22:
            updates.append(decode_update(value))  # type: ignore[arg-type]
        elif tag == 0x08:
            device_id = value  # type: ignore[assignment]
        elif tag == 0x10:
            role_id = value  # type: ignore[assignment]
        elif tag == 0x1A:
            if election is not None:
                raise Unusual("election_id twice")
            election = _election_id(value)  # type: ignore[arg-type]
        elif tag == 0x28:
            atomicity = _int32(value)  # type: ignore[arg-type]
        elif tag == 0x32:
            try:
                role = value.decode()  # type: ignore[union-attr]
            except UnicodeDecodeError:
                raise WireError("role is not UTF-8") from None
    return RawWrite(device_id, role, role_id, election, updates, atomicity)


def decode_action(data: bytes) -> RawAction:
    """p4.v1.Action."""
    action_id = 0
    params: list[tuple[int, bytes]] = []
    for tag, value in fields(data):
        if tag == 0x22:
            param_id = 0
            body = b""
            for inner, item in fields(value):  # type: ignore[arg-type]
                if inner == 0x1A:
                    body = item  # type: ignore[assignment]
                elif inner == 0x10:
                    param_id = item & 0xFFFFFFFF  # type: ignore[operator]
            params.append((param_id, body))
        elif tag == 0x08:
            action_id = value & 0xFFFFFFFF  # type: ignore[operator]
    return RawAction(action_id, params)


def _decode_match(data: bytes) -> RawMatch:
    field_id = kind = 0
    first = b""
    second: bytes | int = b""
    for tag, value in fields(data):
        if tag == 0x08:
            field_id = value & 0xFFFFFFFF  # type: ignore[operator]
            continue
        number = tag >> 3
        if tag & 7 != 2 or number not in _MATCH_KINDS:
            continue
        if kind:
            raise Unusual("two kinds of match")
        kind = number
        if kind == LPM:
            second = 0
        if kind == OTHER:
            continue
        for inner, item in fields(value):  # type: ignore[arg-type]
            if inner == 0x0A:
                first = item  # type: ignore[assignment]
            elif inner == 0x12 and kind in (TERNARY, RANGE):
                second = item  # type: ignore[assignment]
            elif inner == 0x10 and kind == LPM:
                second = _int32(item)  # type: ignore[arg-type]
    return RawMatch(field_id, kind, first, second)


_MATCH_KINDS = frozenset((EXACT, TERNARY, LPM, RANGE, OPTIONAL, OTHER))


def _decode_table_action(entry: RawEntry, data: bytes) -> None:
    for tag, value in fields(data):
        if tag == 0x0A:
            if entry.action_kind == ACTION:
                raise Unusual("action twice")
            entry.action_kind = ACTION
            entry.action = decode_action(value)  # type: ignore[arg-type]
        elif tag in (0x10, 0x18):
            entry.action_kind = tag >> 3
            entry.action = value & 0xFFFFFFFF  # type: ignore[operator]
        elif tag == 0x22:
            if entry.action_kind == ACTION_SET:
                raise Unusual("action set twice")
            entry.action_kind = ACTION_SET
            entry.action = value


def decode_table_entry(data: bytes) -> RawEntry:
    """p4.v1.TableEntry."""
    entry = RawEntry()
    seen = 0
    for tag, value in fields(data):
        if tag == 0x12:
            entry.match.append(_decode_match(value))  # type: ignore[arg-type]
        elif tag == 0x1A:
            if seen & 8:
                raise Unusual("action twice")
            seen |= 8
            _decode_table_action(entry, value)  # type: ignore[arg-type]
        elif tag == 0x08:
            entry.table_id = value & 0xFFFFFFFF  # type: ignore[operator]
        elif tag == 0x20:
            entry.priority = _int32(value)  # type: ignore[arg-type]
        elif tag == 0x28:
            entry.controller_metadata = value  # type: ignore[assignment]
        elif tag == 0x40:
            entry.is_default_action = bool(value)
        elif tag == 0x48:
            entry.idle_timeout_ns = _int64(value)  # type: ignore[arg-type]
        elif tag == 0x5A:
            entry.metadata = value  # type: ignore[assignment]
        elif tag == 0x68:
            entry.is_const = bool(value)
        elif tag in (0x32, 0x3A, 0x52, 0x62):
            if seen & (1 << (tag >> 3)):
                raise Unusual("message twice")
            seen |= 1 << (tag >> 3)
            if tag == 0x3A:
                entry.counter_data = value  # type: ignore[assignment]
            elif tag == 0x32:
                entry.meter_config = value  # type: ignore[assignment]
            elif tag == 0x52:
                entry.time_since_last_hit = value  # type: ignore[assignment]
            else:
                entry.meter_counter_data = value  # type: ignore[assignment]
    return entry


def decode_counter_data(data: bytes) -> tuple[int, int]:
    """p4.v1.CounterData: (packets, bytes)."""
    packets = octets = 0
    for tag, value in fields(data):
        if tag == 0x08:
            octets = _int64(value)  # type: ignore[arg-type]
        elif tag == 0x10:
            packets = _int64(value)  # type: ignore[arg-type]
    return packets, octets


def counter_data(packets: int, octets: int) -> bytes:
    """Body of p4.v1.CounterData."""
    return field_varint(1, octets) + field_varint(2, packets)
