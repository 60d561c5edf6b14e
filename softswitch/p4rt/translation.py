"""Types that the controller sees otherwise than the data plane: @p4runtime_translation.

A translation to a bit string of another width keeps the number (P4Info shows the width, the
engine refuses what its own cannot hold). A translation to strings needs a dictionary, which
this is: one per type, shared by all tables, actions and headers that use it (P4Runtime spec,
"User-defined types"). Which number a string stands for:

* a decimal number that fits stands for itself;
* the name of an interface stands for its port, in types with "port" in URI or name;
* in other types, any other string gets a free number, from the highest down, and keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from softswitch.p4rt.status import Code, P4RTError, invalid

MAX_STRING = 256
"""Longest SDN string in bytes."""


class StringSpace:
    """The strings of one translated type."""

    def __init__(self, name: str, uri: str, ports: Callable[[], Mapping[int, str]] = dict) -> None:
        """`ports`: interface names by port, as far as the switch has any."""
        self.name = name
        self.of_ports = "port" in name.lower() or "port" in uri.lower()
        self._ports = ports
        self._width = 64
        self._values: dict[bytes, int] = {}
        self._names: dict[int, bytes] = {}
        self._next: int | None = None

    def bound(self, width: int) -> None:
        """The type is used where the data plane has `width` bits."""
        if width > 0:
            self._width = min(self._width, width)

    def to_plane(self, data: bytes, what: str) -> int:
        """The data plane's number for a string; INVALID_ARGUMENT when there is none."""
        value = self._values.get(data)
        if value is not None:
            return value
        if not data:
            raise invalid(f"{what}: empty byte string")
        if len(data) > MAX_STRING:
            raise invalid(f"{what}: string of {len(data)} bytes, {MAX_STRING} is the most")
        return self._new(data, what)

    def to_sdn(self, value: int) -> bytes:
        """The string for a number of the data plane."""
        known = self._names.get(value)
        if known is not None:
            return known
        if self.of_ports and value in (ports := self._ports()):
            return ports[value].encode()
        return str(value).encode()

    def _new(self, data: bytes, what: str) -> int:
        value: int | None = None
        if data.isdigit() and (data == b"0" or data[:1] != b"0"):
            value = int(data)
            if value >> self._width:
                raise invalid(f"{what}: {value} does not fit in {self._width} bits")
            if value in self._names:
                taken = self._names[value].decode(errors="replace")
                raise invalid(f"{what}: {value} stands for '{taken}' already")
        elif self.of_ports:
            text = data.decode(errors="replace")
            value = next((port for port, name in self._ports().items() if name == text), None)
            if value is None:
                raise invalid(f"{what}: '{text:.40}' is neither a port number nor an interface")
        else:
            value = self._free(what)
        if value in self._names:
            # Two spellings of one port; it is read back as it was first written.
            return value
        self._values[data] = value
        self._names[value] = data
        return value

    def _free(self, what: str) -> int:
        value = (1 << self._width) - 1 if self._next is None else self._next
        while value > 0 and value in self._names:
            value -= 1
        if value <= 0:
            raise P4RTError(Code.RESOURCE_EXHAUSTED, f"{what}: type {self.name} has no number left")
        self._next = value - 1
        return value


class Translations:
    """The string spaces of a P4Info, by type name."""

    def __init__(self, type_info: Any, ports: Callable[[], Mapping[int, str]] = dict) -> None:
        self._spaces: dict[str, StringSpace] = {}
        self._translated: set[str] = set()
        for name, spec in type_info.new_types.items():
            if not spec.HasField("translated_type"):
                continue
            self._translated.add(name)
            if spec.translated_type.HasField("sdn_string"):
                self._spaces[name] = StringSpace(name, spec.translated_type.uri, ports)

    def strings(self, item: Any, plane_width: int = 0) -> StringSpace | None:
        """The space of a match field, parameter or metadata field; None when it is bits.

        INVALID_ARGUMENT when it has no width and no string type either.
        """
        space = self._spaces.get(item.type_name.name)
        if space is not None:
            space.bound(plane_width)
        elif item.bitwidth <= 0:
            raise invalid(f"P4Info: {item.name}: has no bitwidth")
        return space

    def is_translated(self, item: Any) -> bool:
        """Whether the data plane may have another width than the P4Info."""
        return item.type_name.name in self._translated
