"""The layers below BTH of a packet to decode: Ethernet, VLAN tags, IPv4, IPv6 in IPv6, UDP."""

from __future__ import annotations

import struct
from ipaddress import ip_address
from typing import Any, NamedTuple

from hosts.wire.constants import (
    BTH_BYTES,
    ETHERTYPE_IPV4,
    ETHERTYPE_IPV6,
    ETHERTYPES_VLAN,
    ICRC_BYTES,
    NEXT_HEADER_IPV6,
    NEXT_HEADER_ROUTING,
    NEXT_HEADER_UDP,
    UDP_BYTES,
    Dscp,
    EvPacking,
)
from hosts.wire.entropy import join_ev
from hosts.wire.icrc import icrc_ip


class Reader:
    """Bytes with a position, and the dict and problems that grow from them."""

    def __init__(self, data: bytes, size: int | None = None) -> None:
        self.data = data
        self.size = len(data) if size is None else max(size, len(data))  # on the wire
        self.at = 0
        self.out: dict[str, Any] = {}
        self.problems: list[str] = []

    @property
    def left(self) -> int:
        return len(self.data) - self.at

    def take(self, count: int, what: str) -> bytes | None:
        """The next `count` bytes, or None (and a problem) when they are not all there."""
        if self.left < count:
            if self.at + count > self.size:
                self.problems.append(f"{what}: {count} bytes needed, {self.left} left")
            return None
        self.at += count
        return self.data[self.at - count : self.at]

    def finish(self) -> dict[str, Any]:
        for name in ("icrc", "icrc_ok"):  # known early, shown after the payload
            if name in self.out:
                self.out[name] = self.out.pop(name)
        if self.left:
            self.out["rest"] = self.data[self.at :].hex()
        self.out["problems"] = self.problems
        return self.out


class Span(NamedTuple):
    """Where the packet that carries BTH lies: offsets of IP and UDP, the end by the UDP length.
    `cut`: no iCRC at the end, and lengths mean nothing (trimmed, or the capture ends before)."""

    ip: int
    udp: int
    end: int
    cut: bool


def read_ethernet(r: Reader) -> int | None:
    """Reads Ethernet and VLAN tags (802.1Q, 802.1ad, any number); the EtherType after them."""
    raw = r.take(14, "eth")
    if raw is None:
        return None
    ethertype = int.from_bytes(raw[12:], "big")
    r.out["eth"] = {"dst": raw[:6].hex(":"), "src": raw[6:12].hex(":"), "type": ethertype}
    while ethertype in ETHERTYPES_VLAN:
        tag = r.take(4, "vlan")
        if tag is None:
            return None
        tci, ethertype = struct.unpack("!HH", tag)
        r.out.setdefault("vlan", []).append(
            {"pcp": tci >> 13, "dei": tci >> 12 & 1, "vid": tci & 0xFFF, "type": ethertype}
        )
    return ethertype


def read_ip(
    r: Reader, ethertype: int, packing: EvPacking, ports: frozenset[int], codes: Dscp
) -> Span | None:
    """Reads IP and UDP; None when BTH cannot be found behind them."""
    if ethertype not in (ETHERTYPE_IPV4, ETHERTYPE_IPV6):
        r.problems.append(f"eth: type {ethertype:#06x} is neither IPv4 nor IPv6")
        return None
    at = r.at
    if ethertype == ETHERTYPE_IPV4:
        fields = _ipv4(r)
        if fields is None:
            return None
        protocol, room = fields["protocol"], fields["total_length"] - (r.at - at)
    else:
        fields = _ipv6_chain(r)
        if fields is None:
            return None
        at = r.at - 40
        protocol, room = fields["next_header"], fields["payload_length"]
    if protocol != NEXT_HEADER_UDP:
        r.problems.append("ip: does not carry UDP")
        return None
    udp_at = r.at
    raw = r.take(8, "udp")
    if raw is None:
        return None
    sport, dport, length, checksum = struct.unpack("!4H", raw)
    r.out["udp"] = {"sport": sport, "dport": dport, "length": length, "checksum": checksum}
    r.out["ev"] = join_ev(fields.get("flow_label", 0), sport, packing)
    if dport not in ports:
        r.problems.append(f"udp: dport {dport} is not an MRC port")
    # Switches look at the outer header, and write there that they trimmed.
    seen = r.out.get("outer_ipv6", fields)
    trimmed = seen["dscp"] in (codes.trimmed, codes.trimmed_lasthop)
    end = udp_at + length
    if trimmed and room == length and _icrc_right(r.data, at, udp_at, end):
        trimmed = False  # somebody else's meaning of that code point
    if not trimmed:
        _judge_lengths(r, room, length, udp_at)
    return Span(at, udp_at, end, trimmed or end > len(r.data))


def _icrc_right(data: bytes, ip: int, udp: int, end: int) -> bool:
    if not udp + UDP_BYTES + BTH_BYTES + ICRC_BYTES <= end <= len(data):
        return False
    return icrc_ip(data, ip, udp, end - 4) == int.from_bytes(data[end - 4 : end], "little")


def _judge_lengths(r: Reader, room: int, length: int, udp_at: int) -> None:
    outer = r.out.get("outer_ipv6")
    if outer is not None:
        srh = r.out.get("srh")
        inner = r.out["ipv6"]["payload_length"] + 40 + (8 + 8 * srh["hdr_ext_len"] if srh else 0)
        if outer["payload_length"] != inner:
            r.problems.append(
                f"outer_ipv6: payload_length {outer['payload_length']}, but {inner} bytes inside"
            )
    if room != length:
        r.problems.append(f"udp: length {length}, but IP carries {room} bytes")
    if udp_at + length > r.size:
        r.problems.append(f"udp: length {length}, but only {r.size - udp_at} bytes there")


def _ipv4(r: Reader) -> dict[str, Any] | None:
    raw = r.take(20, "ipv4")
    if raw is None:
        return None
    first, tos, total, ident, fragment, ttl, protocol, checksum, src, dst = struct.unpack(
        "!BBHHHBBH4s4s", raw
    )
    fields: dict[str, Any] = {
        "version": first >> 4,
        "ihl": first & 15,
        "dscp": tos >> 2,
        "ecn": tos & 3,
        "total_length": total,
        "id": ident,
        "fragment": fragment,
        "ttl": ttl,
        "protocol": protocol,
        "checksum": checksum,
        "src": str(ip_address(src)),
        "dst": str(ip_address(dst)),
    }
    r.out["ipv4"] = fields
    if first >> 4 != 4 or first & 15 < 5:
        r.problems.append(f"ipv4: version and header length {first:#04x} make no sense")
        return None
    extra = (first & 15) * 4 - 20
    if extra:
        options = r.take(extra, "ipv4 options")
        if options is None:
            return None
        fields["options"] = options.hex()
        raw += options
    if ones_complement_sum(raw) != 0xFFFF:
        r.problems.append("ipv4: bad header checksum")
    if fragment & 0x3FFF:
        r.problems.append("ipv4: a fragment")
        return None
    return fields


def _ipv6(r: Reader, key: str) -> dict[str, Any] | None:
    raw = r.take(40, key)
    if raw is None:
        return None
    word, plen, next_header, hop_limit, src, dst = struct.unpack("!IHBB16s16s", raw)
    fields = {
        "version": word >> 28,
        "dscp": word >> 22 & 63,
        "ecn": word >> 20 & 3,
        "flow_label": word & 0xFFFFF,
        "payload_length": plen,
        "next_header": next_header,
        "hop_limit": hop_limit,
        "src": str(ip_address(src)),
        "dst": str(ip_address(dst)),
    }
    r.out[key] = fields
    if word >> 28 != 6:
        r.problems.append(f"{key}: version {word >> 28}")
        return None
    return fields


def _ipv6_chain(r: Reader) -> dict[str, Any] | None:
    """IPv6, or IPv6 (with SRH or not) around IPv6: the innermost one."""
    ahead = r.data[r.at + 6] if r.left > 6 else NEXT_HEADER_UDP
    if ahead not in (NEXT_HEADER_IPV6, NEXT_HEADER_ROUTING):
        return _ipv6(r, "ipv6")
    outer = _ipv6(r, "outer_ipv6")
    if outer is None:
        return None
    if ahead == NEXT_HEADER_ROUTING:
        size = 8 + 8 * r.data[r.at + 1] if r.left >= 2 else 8
        raw = r.take(size, "srh")
        if raw is None:
            return None
        segments = raw[4]
        r.out["srh"] = {
            "next_header": raw[0],
            "hdr_ext_len": raw[1],
            "routing_type": raw[2],
            "segments_left": raw[3],
            "last_entry": raw[4],
            "flags": raw[5],
            "tag": int.from_bytes(raw[6:8], "big"),
            "segments": [
                str(ip_address(raw[i : i + 16]))
                for i in range(8, min(8 + 16 * (segments + 1), size - 15), 16)
            ],
        }
        used = 8 + 16 * len(r.out["srh"]["segments"])
        if used < size:
            r.out["srh"]["tlvs"] = raw[used:].hex()
        if raw[0] != NEXT_HEADER_IPV6 or raw[2] != 4:
            r.problems.append("srh: not a segment routing header before IPv6")
            return None
    return _ipv6(r, "ipv6")


def ones_complement_sum(data: bytes) -> int:
    """16-bit one's complement sum, as in the IPv4 header checksum."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data[: len(data) & ~1]))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total
