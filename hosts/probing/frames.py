"""The bytes of a loop probe: IPv6 in IPv6, a uSID list that leads back to the sender.

    Ethernet / outer IPv6 (uSID list) / [SRH] / inner IPv6 (own address, both ways) / UDP / body

The body (28 B, network order) is ours: Clustermapper's is not published (reference, section 6).

    magic 4 | loop 4 | sequence 8 | sent, ns 8 | CRC-32 of the 24 bytes before 4

Its class is CONTROL, so that congestion does not look like loss; a damaged probe counts as lost.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import NamedTuple
from zlib import crc32

from hosts.wire.constants import (
    ETHERNET_BYTES,
    ETHERTYPE_IPV6,
    IPV6_BYTES,
    NEXT_HEADER_IPV6,
    NEXT_HEADER_ROUTING,
    NEXT_HEADER_UDP,
    Dscp,
)
from hosts.wire.encap import SrPath, outer_headers
from hosts.wire.template import mac_bytes

LOOP_PORT = 4793
"""UDP destination port; not assigned, and not MRC's, so that no endpoint answers."""
MAGIC = b"MRCL"
HOP_LIMIT = 64
_BODY = struct.Struct("!4sIQQ")
_CRC = struct.Struct("!I")
_UDP = struct.Struct("!4H")
UDP_BYTES = 8
BODY_BYTES = _BODY.size + _CRC.size

LOOP_FRAME_MAX = 14 + 2 * 40 + 8 + 16 + UDP_BYTES + BODY_BYTES
"""No loop probe is longer: with one SRH segment."""


class Returned(NamedTuple):
    """What a probe that came back says."""

    loop: int
    sequence: int
    sent_ns: int


@dataclass(frozen=True)
class LoopTemplate:
    """Everything of a loop's frames but the body."""

    loop: int
    head: bytes

    def frame(self, sequence: int, now: int) -> bytes:
        """One probe, `now` in ns."""
        body = _BODY.pack(MAGIC, self.loop, sequence, now)
        return self.head + body + _CRC.pack(crc32(body))


def loop_template(
    loop: int,
    src_mac: str,
    gateway_mac: str,
    address: str,
    destination: str,
    segments: Sequence[str] = (),
    *,
    dscp: int = Dscp().control,
    flow_label: int = 0,
) -> LoopTemplate:
    """A loop's template. `address`: the NIC port's own; `destination` and `segments`: the uSID
    containers in the order they are visited. Raises ValueError for a bad address or number."""
    if not 0 <= loop < 1 << 32:
        raise ValueError(f"loop {loop} does not fit 32 bits")
    own = IPv6Address(address).packed
    word = (6 << 28 | dscp << 22 | flow_label).to_bytes(4, "big")
    udp = _UDP.pack(LOOP_PORT, LOOP_PORT, UDP_BYTES + BODY_BYTES, 0)
    inner_rest = struct.pack("!HBB", len(udp) + BODY_BYTES, NEXT_HEADER_UDP, HOP_LIMIT)
    inner = word + inner_rest + own + own
    path = SrPath(IPv6Address(destination).packed, tuple(IPv6Address(s).packed for s in segments))
    outer = outer_headers(path, own, HOP_LIMIT)
    # outer_headers begins after the payload length.
    length = len(outer) + 6 - IPV6_BYTES + len(inner) + len(udp) + BODY_BYTES
    ethernet = mac_bytes(gateway_mac) + mac_bytes(src_mac) + ETHERTYPE_IPV6.to_bytes(2, "big")
    head = ethernet + word + length.to_bytes(2, "big") + outer + inner + udp
    return LoopTemplate(loop, head)


def parse_loop(frame: bytes | memoryview) -> Returned | None:
    """A probe that came back; None for any other frame, or a damaged one. Never raises."""
    data = bytes(frame[:512])
    at = ETHERNET_BYTES
    if data[12:14] != b"\x86\xdd" or len(data) < at + IPV6_BYTES:
        return None
    following = data[at + 6]
    at += IPV6_BYTES
    if following == NEXT_HEADER_ROUTING and len(data) >= at + 2:
        following = data[at]
        at += 8 + 8 * data[at + 1]
    if following == NEXT_HEADER_IPV6 and len(data) >= at + IPV6_BYTES:
        following = data[at + 6]
        at += IPV6_BYTES
    end = at + UDP_BYTES + BODY_BYTES
    if following != NEXT_HEADER_UDP or len(data) < end:
        return None
    if int.from_bytes(data[at + 2 : at + 4], "big") != LOOP_PORT:
        return None
    body = data[at + UDP_BYTES : end - _CRC.size]
    if not body.startswith(MAGIC) or crc32(body) != int.from_bytes(data[end - 4 : end], "big"):
        return None
    _, loop, sequence, sent = _BODY.unpack(body)
    return Returned(loop, sequence, sent)
