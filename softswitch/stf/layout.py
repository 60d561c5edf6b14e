"""Frames as the program's own parser sees them: which bits are which field.

A small interpreter of the parser in a bmv2 JSON, for showing packets to people. It knows
the frame and constants only; where a parser's choice depends on something else (a value set,
an expression it does not know), the rest of the frame is payload.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from softswitch.stf.shape import Json

MAX_STATES = 256
"""Parser states visited before a frame is given up (a parser may loop)."""


@dataclass(frozen=True, slots=True)
class Field:
    """Where a field is: `offset` and `width` in bits, from the start of the frame."""

    name: str
    offset: int
    width: int

    @property
    def header(self) -> str:
        return self.name.rpartition(".")[0]

    def digits(self, pattern: str) -> str:
        """The field's value in a hexadecimal text that may have `*`; as bits where the
        don't-care digits and the field do not share their borders; "" beyond the end."""
        first, last = self.offset // 4, (self.offset + self.width + 3) // 4
        part = pattern[first:last]
        if len(part) < last - first:
            return ""
        bits = "".join("****" if c == "*" else f"{int(c, 16):04b}" for c in part)
        bits = bits[self.offset - 4 * first :][: self.width]
        if "*" not in bits:
            return f"0x{int(bits, 2):0{(self.width + 3) // 4}x}" if bits else ""
        if set(bits) == {"*"}:
            return "*"
        if self.offset % 4 == 0 and self.width % 4 == 0:
            return f"0x{part}"
        return f"0b{bits}"


@dataclass(frozen=True)
class Layout:
    """The fields of one frame in order; what follows them is payload."""

    fields: tuple[Field, ...]
    end: int
    """Bits."""

    @property
    def headers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(f.header for f in self.fields))


class _Unknown(Exception):
    """A value that the interpreter cannot know."""


class Layouts:
    """Lays out frames with the parser of one program."""

    def __init__(self, program: Json) -> None:
        self._types: dict[str, list[tuple[str, Any]]] = {
            str(t["name"]): [(str(f[0]), f[1]) for f in t.get("fields", [])]
            for t in program.get("header_types", [])
        }
        self._headers = {str(h["name"]): str(h["header_type"]) for h in program.get("headers", [])}
        self._metadata = {str(h["name"]) for h in program.get("headers", []) if h.get("metadata")}
        self._stacks = {
            str(s["name"]): str(s["header_type"]) for s in program.get("header_stacks", [])
        }
        parsers = program.get("parsers") or [{}]
        self._initial = parsers[0].get("init_state")
        self._states = {str(s["name"]): s for s in parsers[0].get("parse_states", [])}

    def of(self, frame: bytes) -> Layout:
        """Never raises: an odd program gives a layout that ends early."""
        walk = _Walk(self, frame)
        odd = (_Unknown, LookupError, TypeError, ValueError, AttributeError, RecursionError)
        with contextlib.suppress(*odd):
            walk.run()
        return Layout(tuple(walk.fields), walk.at)


class _Walk:
    def __init__(self, layouts: Layouts, frame: bytes) -> None:
        self.layouts, self.frame = layouts, frame
        self.bits = len(frame) * 8
        self.value = int.from_bytes(frame, "big")
        self.at = 0
        self.fields: list[Field] = []
        self.known: dict[tuple[str, str], int] = {}
        self.counts: dict[str, int] = {}

    def run(self) -> None:
        state = self.layouts._initial
        for _ in range(MAX_STATES):
            if state is None:
                return
            spec = self.layouts._states[state]
            for op in spec.get("parser_ops", []):
                self.op(op)
            state = self.next_state(spec)

    def read(self, offset: int, width: int) -> int:
        if offset < 0 or offset + width > self.bits:
            raise _Unknown
        return self.value >> (self.bits - offset - width) & ((1 << width) - 1)

    def op(self, op: Mapping[str, Any]) -> None:
        parameters = op.get("parameters", [])
        match op["op"]:
            case "extract":
                self.extract(parameters[0], None)
            case "extract_VL":
                self.extract(parameters[0], self.evaluate(parameters[1]))
            case "set":
                header, name = parameters[0]["value"]
                try:
                    self.known[header, name] = self.evaluate(parameters[1])
                except _Unknown:
                    self.known.pop((header, name), None)
            case "advance":
                self.at += self.evaluate(parameters[0])
            case "shift":
                self.at += 8 * int(parameters[0])
            case _:
                return

    def extract(self, target: Mapping[str, Any], length: int | None) -> None:
        name = target["value"]
        if target["type"] == "stack":
            index = self.counts.get(name, 0)
            self.counts[name] = index + 1
            kind, name = self.layouts._stacks[name], f"{name}[{index}]"
        elif target["type"] == "regular":
            kind = self.layouts._headers[name]
        else:
            raise _Unknown
        fields = self.layouts._types[kind]
        total = sum(length or 0 if w == "*" else w for _, w in fields)
        if self.at + total > self.bits:
            raise _Unknown
        for field, width in fields:
            bits = (length or 0) if width == "*" else width
            if bits:
                self.fields.append(Field(f"{name}.{field}", self.at, bits))
                self.known[name, field] = self.read(self.at, bits)
            self.at += bits
        self.known[name, "$valid$"] = 1

    def evaluate(self, value: Mapping[str, Any]) -> int:
        match value["type"]:
            case "hexstr":
                return int(value["value"], 16)
            case "field":
                return self.field(*value["value"])
            case "stack_field":
                name, field = value["value"]
                return self.field(f"{name}[{self.counts.get(name, 0) - 1}]", field)
            case "lookahead":
                offset, width = value["value"]
                return self.read(self.at + offset, width)
            case "expression":
                return self.expression(value["value"])
            case _:
                raise _Unknown

    def field(self, header: str, name: str) -> int:
        if (header, name) in self.known:
            return self.known[header, name]
        if header in self.layouts._metadata and header != "standard_metadata":
            return 0  # as v1model starts them
        raise _Unknown

    def expression(self, value: Any) -> int:
        if "op" not in value:
            return self.evaluate(value)
        left = 0 if value.get("left") is None else self.evaluate(value["left"])
        right = self.evaluate(value["right"])
        match value["op"]:
            case "+":
                return left + right
            case "-":
                return left - right
            case "*":
                return left * right
            case "&":
                return left & right
            case "|":
                return left | right
            case "^":
                return left ^ right
            case "<<" if 0 <= right < 4096:
                return left << right
            case ">>" if right >= 0:
                return left >> right
            case _:
                raise _Unknown

    def next_state(self, spec: Mapping[str, Any]) -> str | None:
        keys = spec.get("transition_key", [])
        value = 0
        width = 0
        for key in keys:
            bits = self.key_width(key)
            value = value << bits | self.evaluate(key) & (1 << bits) - 1
            width += bits
        for transition in spec.get("transitions", []):
            match transition.get("type", "hexstr"):
                case "default":
                    return _name(transition)
                case "hexstr":
                    wanted = transition["value"]
                    if wanted == "default":
                        return _name(transition)
                    mask = transition.get("mask")
                    care = (1 << width) - 1 if mask is None else int(mask, 16)
                    if value & care == int(wanted, 16) & care:
                        return _name(transition)
                case _:
                    raise _Unknown
        return None

    def key_width(self, key: Mapping[str, Any]) -> int:
        if key["type"] == "lookahead":
            return int(key["value"][1])
        if key["type"] not in ("field", "stack_field"):
            raise _Unknown
        name, field = key["value"]
        kind = self.layouts._headers[name] if key["type"] == "field" else self.layouts._stacks[name]
        if field == "$valid$":
            width: Any = 1
        else:
            width = dict(self.layouts._types[kind])[field]
        # bmv2 compares whole bytes of each part of the key.
        return (int(width) + 7) // 8 * 8


def _name(transition: Mapping[str, Any]) -> str | None:
    state = transition.get("next_state")
    return None if state is None else str(state)
