"""Packet in and out: the headers marked @controller_header in front of the payload.

The P4Info lists the fields in the order of the header; the program sees the header in
front of the packet on the CPU port, in both directions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from softswitch.p4rt import bytestrings
from softswitch.p4rt.status import P4RTError, invalid
from softswitch.p4rt.translation import StringSpace

_PADDING = re.compile(r"^_*(pad|padding|unused|reserved)\d*$", re.IGNORECASE)


class ControllerHeader:
    """Codec of one controller header. Without any in the P4Info it is empty."""

    def __init__(
        self,
        metadata: Any = (),
        widths: Mapping[int, int] | None = None,
        strings: Mapping[int, StringSpace] | None = None,
    ) -> None:
        """`metadata`: the repeated ControllerPacketMetadata.Metadata of the P4Info. `widths`:
        bits in the program's header by field id, where they are not those of the P4Info.
        `strings`: fields translated to strings."""
        widths = widths or {}
        self._strings = strings or {}
        self.fields = [
            (item.id, widths.get(item.id, item.bitwidth), item.name) for item in metadata
        ]
        self._optional = {
            item.id
            for item in metadata
            if _PADDING.match(item.name)
            or any(text.startswith("@padding") for text in item.annotations)
        }
        self._names = {item.id: item.name for item in metadata}
        bits: int = sum(width for _, width, _ in self.fields)
        self.length: int = (bits + 7) // 8
        """Bytes of the header."""
        self._tail: int = self.length * 8 - bits

    def pack(self, metadata: dict[int, bytes], payload: bytes) -> bytes:
        """Frame for the program: header and payload. Every field once, padding may lack."""
        for field_id in metadata:
            if field_id not in self._names:
                raise invalid(f"metadata id {field_id} is not in the packet_out header")
        header = 0
        for field_id, width, name in self.fields:
            data = metadata.get(field_id)
            if data is None:
                if field_id not in self._optional:
                    raise invalid(f"metadata {name} (id {field_id}) is missing")
                value = 0
            elif field_id in self._strings:
                value = self._strings[field_id].to_plane(data, f"metadata {name}")
            else:
                value = bytestrings.decode(data, width, f"metadata {name}")
            header = header << width | value
        return (header << self._tail).to_bytes(self.length, "big") + payload

    def unpack(self, frame: bytes) -> tuple[list[tuple[int, bytes]], bytes]:
        """(fields as (id, canonical bytes), payload) of a frame from the program."""
        if len(frame) < self.length:
            raise invalid(f"a frame of {len(frame)} B is shorter than the packet_in header")
        header = int.from_bytes(frame[: self.length], "big") >> self._tail
        out: list[tuple[int, bytes]] = []
        for field_id, width, _ in reversed(self.fields):
            value = header & ((1 << width) - 1)
            header >>= width
            space = self._strings.get(field_id)
            out.append((field_id, space.to_sdn(value) if space else bytestrings.encode(value)))
        out.reverse()
        return out, frame[self.length :]


def check_payload(payload: bytes, limit: int) -> None:
    """Refuse a packet out that no port could carry."""
    if len(payload) > limit:
        raise invalid(f"payload of {len(payload)} B exceeds {limit} B")


__all__ = ["ControllerHeader", "P4RTError", "check_payload"]
