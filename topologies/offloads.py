"""Offloads of an interface: everything that merges, splits or checks packets is switched off.

A veth pair passes packets between two stacks without a wire; with offloads on, a packet may
arrive larger than the MTU or without its checksum. Set and read back through one ioctl each.
"""

from __future__ import annotations

import ctypes
import fcntl
import socket
import struct

_SIOCETHTOOL = 0x8946
_GSSET_INFO, _GSTRINGS, _GFEATURES, _SFEATURES = 0x37, 0x1B, 0x3A, 0x3B
_SET_FEATURES = 4
_NAME_BYTES = 32

UNWANTED = (
    "rx-checksum",
    "rx-gro",
    "rx-hashing",
    "rx-lro",
    "rx-udp-gro",
    "rx-vlan",
    "tx-checksum",
    "tx-generic-segmentation",
    "tx-scatter-gather",
    "tx-sctp-segmentation",
    "tx-tcp",
    "tx-udp",
    "tx-gso",
    "tx-gre",
    "tx-ipxip",
    "tx-esp",
    "tx-vlan",
)
"""Beginnings of the kernel's feature names that must be off."""


def _ioctl(sock: socket.socket, ifname: str, command: bytearray) -> bytearray:
    buffer = (ctypes.c_char * len(command)).from_buffer(command)
    request = struct.pack("16sQ16x", ifname.encode(), ctypes.addressof(buffer))
    fcntl.ioctl(sock, _SIOCETHTOOL, request)
    return command


def _names(ifname: str) -> tuple[str, ...]:
    """Feature names by bit number. The kernel has one list for all interfaces."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        info = _ioctl(
            sock, ifname, bytearray(struct.pack("=IIQI", _GSSET_INFO, 0, 1 << _SET_FEATURES, 0))
        )
        count = struct.unpack_from("=I", info, 16)[0]
        head = struct.pack("=III", _GSTRINGS, _SET_FEATURES, count)
        raw = _ioctl(sock, ifname, bytearray(head + bytes(count * _NAME_BYTES)))[12:]
    return tuple(
        raw[i : i + _NAME_BYTES].split(b"\0")[0].decode() for i in range(0, len(raw), _NAME_BYTES)
    )


_cached_names: list[tuple[str, ...]] = []


def feature_names(ifname: str) -> tuple[str, ...]:
    """Names of the kernel's features, in bit order (read once per process)."""
    if not _cached_names:
        _cached_names.append(_names(ifname))
    return _cached_names[0]


def _unwanted_mask(names: tuple[str, ...]) -> int:
    return sum(1 << i for i, name in enumerate(names) if name.startswith(UNWANTED))


class Offloads:
    """Reads and sets features of interfaces of the namespace it is made in."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def __enter__(self) -> Offloads:
        return self

    def __exit__(self, *exc: object) -> None:
        self._socket.close()

    def active(self, ifname: str) -> list[str]:
        """Names of the unwanted features that are on."""
        names = feature_names(ifname)
        mask = _unwanted_mask(names) & self._masks(ifname)[0]
        return [name for i, name in enumerate(names) if mask >> i & 1]

    def switch_off(self, ifname: str) -> list[str]:
        """Switch all unwanted features off; the names of those that stayed on (read back)."""
        names = feature_names(ifname)
        active, fixed = self._masks(ifname)
        mask = _unwanted_mask(names) & active & ~fixed
        if mask:
            words = (len(names) + 31) // 32
            blocks = b"".join(
                struct.pack("=II", mask >> 32 * i & 0xFFFFFFFF, 0) for i in range(words)
            )
            _ioctl(self._socket, ifname, bytearray(struct.pack("=II", _SFEATURES, words) + blocks))
        return self.active(ifname)

    def _masks(self, ifname: str) -> tuple[int, int]:
        """Features that are on, and those that can't be changed, as bit masks."""
        words = (len(feature_names(ifname)) + 31) // 32
        command = bytearray(struct.pack("=II", _GFEATURES, words) + bytes(16 * words))
        reply = _ioctl(self._socket, ifname, command)
        active = fixed = 0
        for i in range(words):
            _available, _requested, on, never = struct.unpack_from("=IIII", reply, 8 + 16 * i)
            active |= on << 32 * i
            fixed |= never << 32 * i
        return active, fixed
