"""Addresses computed from the position in the fabric, and back.

IPv6, one unique-local /48 per plane, one /64 per T0, one /128 per NIC port::

    fd4d:5243:<plane>:<t0>::<port>      plane, T0 index and T0 port in hexadecimal

where <port> is the number of the T0 port that faces the host (1-based), so that
``fd4d:5243:1:0::2`` reads "plane 1, T0 0, port 2". A T1 needs one /64 route per T0, a T0 one
/128 per host of its own and the plane's /48 for everything that goes up. (4d 52 43 is "MRC".)

MAC addresses are locally administered and tell what owns them::

    02:00:<plane>:<host, 24 bits>             host NIC
    02:1<p>:<plane>:<index, 16 bits>:<p>      T0 port; <p> is the 9-bit port number
    02:2<p>:<plane>:<index, 16 bits>:<p>      T1 port
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import AddressValueError, IPv6Address, IPv6Network

FABRIC_PREFIX = IPv6Network("fd4d:5243::/32")
_FABRIC = int(FABRIC_PREFIX.network_address)
GATEWAY = "fe80::1"
"""Next hop in every host's routes; a static neighbour entry gives it the T0 port's MAC."""


@dataclass(frozen=True)
class Position:
    """Where an address sits: the T0 port that faces the NIC."""

    plane: int
    t0: int
    port: int


def _network(high: int, prefix: int) -> IPv6Network:
    return IPv6Network((int(FABRIC_PREFIX.network_address) | high, prefix))


def plane_prefix(plane: int) -> IPv6Network:
    """The /48 that holds every host of a plane."""
    return _network(plane << 80, 48)


def t0_prefix(plane: int, t0: int) -> IPv6Network:
    """The /64 of the hosts under one T0."""
    return _network(plane << 80 | t0 << 64, 64)


def host_number(plane: int, t0: int, port: int) -> int:
    """host_address as a number; T0 and port 0 give the network's."""
    return _FABRIC | plane << 80 | t0 << 64 | port


def host_address(plane: int, t0: int, port: int) -> IPv6Address:
    """The address of the NIC port behind port ``port`` of a T0."""
    return IPv6Address(host_number(plane, t0, port))


def locate(address: str | IPv6Address) -> Position | None:
    """The inverse of host_address; None for anything that is not a fabric address."""
    try:
        address = IPv6Address(address)
    except AddressValueError:
        return None
    value = int(address)
    port = value & (1 << 64) - 1
    if address not in FABRIC_PREFIX or not 1 <= port < 512:
        return None
    return Position(value >> 80 & 0xFFFF, value >> 64 & 0xFFFF, port)


def _mac(*octets: int) -> str:
    return ":".join(f"{octet:02x}" for octet in octets)


def host_mac(plane: int, host: int) -> str:
    """MAC of a host's NIC port in a plane."""
    return _mac(0x02, 0x00, plane, host >> 16 & 0xFF, host >> 8 & 0xFF, host & 0xFF)


def switch_mac(plane: int, tier: int, index: int, port: int) -> str:
    """MAC of a switch port."""
    kind = (tier + 1) << 4 | port >> 8
    return _mac(0x02, kind, plane, index >> 8, index & 0xFF, port & 0xFF)
