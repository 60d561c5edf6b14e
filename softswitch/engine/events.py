"""Events of the C side as dataclasses."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from softswitch.engine import native
from softswitch.engine.tables import join
from softswitch.engine.types import (
    Digest,
    EngineEvent,
    IdleTimeout,
    LogMessage,
    PacketIn,
    PortChange,
)

if TYPE_CHECKING:
    from softswitch.engine.control import Control

_HEAD = struct.Struct("=IQ")


class Decoder:
    """Knows what the numbers in events of one program stand for."""

    def __init__(self, control: Control | None, formats: Sequence[str] = ()) -> None:
        self._control = control
        self._formats = list(formats)
        self._lists: list[tuple[int, str, list[int]]] = []
        if control is not None:
            for list_id, name, elements in control.program.learn_lists:
                self._lists.append((list_id, name, [self._words(e) for e in elements]))

    def _words(self, element: Any) -> int:
        if self._control is None or element.get("type") != "field":
            return 1
        inst, index = self._control.program.field(element.get("value"))
        return 1 if index < 0 else inst.type.fields[index].words

    def decode(self, raw: bytes) -> EngineEvent | None:
        """None: belongs to a program that is gone."""
        kind, now = _HEAD.unpack_from(raw)
        body = raw[_HEAD.size :]
        if kind == native.EV_PACKET_IN:
            return PacketIn(body, now)
        if kind == native.EV_PORT:
            port, up = struct.unpack("=II", body)
            return PortChange(port, bool(up), now)
        (number,) = struct.unpack_from("=I", body)
        if kind == native.EV_IDLE:
            return self._idle(number, struct.unpack("=II", body)[1], now)
        words = struct.unpack(f"={(len(body) - 4) // 8}Q", body[4:])
        if kind == native.EV_DIGEST:
            if number >= len(self._lists):
                return None
            list_id, name, sizes = self._lists[number]
            if sum(sizes) != len(words):
                return None
            values, at = [], 0
            for n in sizes:
                values.append(join(words[at : at + n]))
                at += n
            return Digest(list_id, name, tuple(values), now)
        if number == native.NIL:
            return LogMessage(f"{words[0]} more messages in a second were not logged", now)
        if number >= len(self._formats):
            return None
        signed = [
            v - (1 << 128) if v >> 127 else v
            for v in (join(words[i : i + 2]) for i in range(0, len(words), 2))
        ]
        return LogMessage(_format(self._formats[number], signed), now)

    def _idle(self, table: int, position: int, now: int) -> IdleTimeout | None:
        if self._control is None:
            return None
        for name, state in self._control.tables.items():
            if state.table.index == table and position in state.by_position:
                return IdleTimeout(name, state.by_position[position], now)
        return None


def _format(text: str, values: Sequence[int]) -> str:
    """bmv2's log_msg: each {} takes the next value."""
    parts = text.split("{}")
    out = parts[0]
    for i, rest in enumerate(parts[1:]):
        out += (str(values[i]) if i < len(values) else "{}") + rest
    return out
