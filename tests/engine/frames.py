"""Frames and programs for the engine's tests."""

from __future__ import annotations

import struct
from pathlib import Path

EXAMPLE = Path(__file__).with_name("data") / "trim_ecn_spray.json"
FABRIC_DST = 0xFD00_0000_0001_0000_0000_0000_0000_0002


def mrc(
    size: int,
    *,
    label: int = 0,
    sport: int = 0xC000,
    dscp: int = 10,
    ecn: int = 2,
    dst: int = FABRIC_DST,
    hop_limit: int = 64,
    opcode: int = 0xC7,
    ts: int = 0,
) -> bytes:
    """An Ethernet frame of `size` bytes (at least its headers): IPv6, UDP 4791, BTH, zeros."""
    udp_len = max(size, 74) - 54
    first = 6 << 28 | dscp << 22 | ecn << 20 | label
    frame = bytes.fromhex("02000000000102000000000286dd")
    frame += struct.pack(">IHBB", first, udp_len, 17, hop_limit)
    frame += (1).to_bytes(16, "big") + dst.to_bytes(16, "big")
    frame += struct.pack(">HHHH", sport, 4791, udp_len, 0)
    frame += struct.pack(">BBHII", opcode, 0, 0xFFFF, 3, ts << 28 | 5)
    return frame + bytes(max(0, size - len(frame)))
