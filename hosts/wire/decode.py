"""A packet as a JSON-able dict under the reference's names, and what is wrong with it.

Keys, in wire order, each present when the header is: `eth`, `outer_ipv6`, `srh`, `ipv6` or
`ipv4`, `udp`, `ev`, `bth`, `meth`, `tseth`, `reth`, `immdt`, `aeth`, `seth`, `cc_state`, `neth`,
`peth`, `erth`, `eeth`, `payload` (hex), `pad_bytes` (hex), `icrc` (integer as in zlib, least
significant byte first on the wire; null: there is none), `icrc_ok` (null: nothing to judge by),
`rest` (hex: bytes that belong to no field), `problems` (one line each). Fields are integers;
addresses are text. Reserved fields appear only when they are not zero.

`hosts.wire.encode` turns such a dict back into the same bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from ipaddress import ip_address
from typing import Any, Literal

from hosts.wire.constants import (
    ETHERTYPE_IPV4,
    ETHERTYPE_IPV6,
    NEXT_HEADER_IPV6,
    NEXT_HEADER_ROUTING,
    NEXT_HEADER_UDP,
    OPCODE_MRC,
    P_KEY,
    UDP_PORTS,
    Dscp,
    EvPacking,
    NackReason,
    Opcode,
    Syndrome,
)
from hosts.wire.entropy import join_ev
from hosts.wire.headers import (
    Aeth,
    Bth,
    CcState,
    Eeth,
    Erth,
    Header,
    ImmDt,
    Meth,
    Neth,
    Peth,
    Reth,
    Seth,
    Tseth,
)
from hosts.wire.icrc import icrc_ip

Start = Literal["frame", "ip", "bth"]

# Layout, bytes, and the fields in wire order.
_TYPE_NXT = ("type", "nxt", "res1")
_STAMP = ("tx_timestamp", "tsr", "res4", "ftype")
HEADERS: dict[str, tuple[type[Header], int, tuple[str, ...]]] = {
    "bth": (
        Bth,
        12,
        (
            *("opcode", "m", "se", "pad", "tver", "p_key", "var_res"),
            *("dqp", "a", "r", "rtx", "ts", "inv_res", "psn"),
        ),
    ),
    "meth": (Meth, 4, ("rqmsn", "msn")),
    "tseth": (Tseth, 4, ("tx_timestamp", "tsr", "res", "ftype")),
    "reth": (Reth, 16, ("va", "r_key", "dmalen")),
    "immdt": (ImmDt, 4, ("imm",)),
    "aeth": (Aeth, 4, ("syndrome", "msn")),
    "seth": (
        Seth,
        28,
        (
            *("type", "nxt", "m", "res1", "pr", "res2", "ack_psn_offset", "probe_id", "entropy"),
            *("spdcid", "dpdcid", "res3", "cack_psn", "cc_type", "cc_flags", "mpr"),
            *("sack_offset", "sack_bitmap"),
        ),
    ),
    "cc_state": (
        CcState,
        8,
        ("tx_timestamp", "res", "ooo_count", "restore_cwnd", "rcv_cwnd_pen", "rcvd_bytes"),
    ),
    "neth": (
        Neth,
        20,
        (
            *(*_TYPE_NXT, "nack_reason", "vendor_info", "entropy", "spdcid", "dpdcid", "res2"),
            *("nack_psn", "cc_type", "cc_flags", "res3", "tx_timestamp"),
        ),
    ),
    "peth": (
        Peth,
        16,
        (
            *("type", "nh", "res1", "res2", "vendor_info", "probe_id", "res3"),
            *("spdcid", "dpdcid", *_STAMP),
        ),
    ),
    "erth": (
        Erth,
        16,
        (*_TYPE_NXT, "op", "res2", "vendor_info", "port_status_mask", "res3", *_STAMP),
    ),
    "eeth": (Eeth, 36, (*_TYPE_NXT, "op", "res2", "tx_timestamp", "res3")),
}
PMTUS = (256, 512, 1024, 2048, 4096, 8192)
"""Bytes: what First and Middle packets may carry."""
_RESERVED = ("res", "res1", "res2", "res3", "res4")
_CONTROL = {
    Opcode.ACK: ("aeth",),
    Opcode.ENDPOINT_REQUEST: ("erth",),
    Opcode.ENDPOINT_RESPONSE: ("eeth",),
    Opcode.SACK: ("seth", "cc_state"),
    Opcode.NACK: ("neth",),
    Opcode.PROBE: ("peth",),
}


def headers_after_bth(opcode: int, ts: int) -> tuple[str, ...] | None:
    """Keys of the headers that follow BTH (section 2.1); None for an unknown opcode."""
    if opcode in _CONTROL:
        return _CONTROL[Opcode(opcode)]
    if not Opcode.WRITE_FIRST <= opcode <= Opcode.WRITE_ONLY_IMM:
        return None
    imm = opcode in (Opcode.WRITE_LAST_IMM, Opcode.WRITE_ONLY_IMM)
    return ("meth", *(("tseth",) if ts else ()), "reth", *(("immdt",) if imm else ()))


class _Reader:
    """Bytes with a position, and the dict and problems that grow from them."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.out: dict[str, Any] = {}
        self.problems: list[str] = []

    @property
    def left(self) -> int:
        return len(self.data) - self.at

    def take(self, count: int, what: str) -> bytes | None:
        """The next `count` bytes, or None (and a problem) when they are not all there."""
        if self.left < count:
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


def decode(
    data: bytes,
    start: Start = "frame",
    *,
    packing: EvPacking = EvPacking.LABEL_HIGH,
    ports: frozenset[int] = UDP_PORTS,
    dscp: Dscp | None = None,
    bth_icrc: bool | None = None,
) -> dict[str, Any]:
    """Decode a frame, an IP packet, or bytes from BTH on. Never raises, whatever the bytes.

    `dscp` names the code points on which a cut packet is no problem. `bth_icrc` says whether
    bytes from BTH on end with the iCRC; None leaves it to their lengths.
    """
    reader = _Reader(bytes(data))
    if start == "bth":
        _bth_on(reader, None, trimmed=False, has_icrc=bth_icrc)
    elif start == "ip":
        version = reader.data[0] >> 4 if reader.data else 0
        _ip(reader, ETHERTYPE_IPV4 if version == 4 else ETHERTYPE_IPV6, packing, ports, dscp)
    else:
        raw = reader.take(14, "eth")
        if raw is not None:
            ethertype = int.from_bytes(raw[12:], "big")
            reader.out["eth"] = {
                "dst": raw[:6].hex(":"),
                "src": raw[6:12].hex(":"),
                "type": ethertype,
            }
            _ip(reader, ethertype, packing, ports, dscp)
    return reader.finish()


def _ip(
    r: _Reader, ethertype: int, packing: EvPacking, ports: frozenset[int], dscp: Dscp | None
) -> None:
    if ethertype not in (ETHERTYPE_IPV4, ETHERTYPE_IPV6):
        r.problems.append(f"eth: type {ethertype:#06x} is neither IPv4 nor IPv6")
        return
    at = r.at
    if ethertype == ETHERTYPE_IPV4:
        fields = _ipv4(r)
        if fields is None:
            return
        protocol, room = fields["protocol"], fields["total_length"] - (r.at - at)
    else:
        fields = _ipv6_chain(r)
        if fields is None:
            return
        at = r.at - 40
        protocol, room = fields["next_header"], fields["payload_length"]
    if protocol != NEXT_HEADER_UDP:
        r.problems.append("ip: does not carry UDP")
        return
    udp_at = r.at
    raw = r.take(8, "udp")
    if raw is None:
        return
    sport, dport, length, checksum = struct.unpack("!4H", raw)
    r.out["udp"] = {"sport": sport, "dport": dport, "length": length, "checksum": checksum}
    r.out["ev"] = join_ev(fields.get("flow_label", 0), sport, packing)
    if dport not in ports:
        r.problems.append(f"udp: dport {dport} is not an MRC port")
    codes = dscp or Dscp()
    trimmed = fields["dscp"] in (codes.trimmed, codes.trimmed_lasthop)
    if room != length and not trimmed:
        r.problems.append(f"udp: length {length}, but IP carries {room} bytes")
    end = udp_at + length
    if end > len(r.data):
        if not trimmed:
            r.problems.append(f"udp: length {length}, but only {len(r.data) - udp_at} captured")
        _bth_on(r, None, trimmed=True)
        return
    if trimmed:  # lengths rewritten by the switch: whole by them, and still without iCRC
        _bth_on(r, None, trimmed=True)
        return
    _bth_on(r, (at, udp_at, end), trimmed=False)


def _ipv4(r: _Reader) -> dict[str, Any] | None:
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


def _ipv6(r: _Reader, key: str) -> dict[str, Any] | None:
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


def _ipv6_chain(r: _Reader) -> dict[str, Any] | None:
    """IPv6, or IPv6 (with SRH or not) around IPv6: the innermost one."""
    ahead = r.data[r.at + 6] if r.left > 6 else NEXT_HEADER_UDP
    if ahead not in (NEXT_HEADER_IPV6, NEXT_HEADER_ROUTING):
        return _ipv6(r, "ipv6")
    outer = _ipv6(r, "outer_ipv6")
    if outer is None:
        return None
    inner_at = r.at
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
    if outer["payload_length"] != len(r.data) - inner_at:
        r.problems.append(
            f"outer_ipv6: payload_length {outer['payload_length']}, "
            f"{len(r.data) - inner_at} bytes follow"
        )
    return _ipv6(r, "ipv6")


def _bth_on(
    r: _Reader,
    spans: tuple[int, int, int] | None,
    *,
    trimmed: bool,
    has_icrc: bool | None = True,
) -> None:
    """BTH and all after it. `spans`: offsets of IP and UDP and the end by the UDP length."""
    bth = _header(r, "bth")
    if bth is None:
        return
    r.out["icrc"] = r.out["icrc_ok"] = None
    opcode = bth["opcode"]
    if opcode >> 5 != OPCODE_MRC:
        r.problems.append(f"bth: opcode {opcode:#04x} is not MRC's")
    keys = headers_after_bth(opcode, bth["ts"])
    if keys is None:
        if opcode >> 5 == OPCODE_MRC:
            r.problems.append(f"bth: unknown opcode {opcode:#04x}")
        return
    _judge_bth(r, bth)
    for key in keys:
        if trimmed and r.left < HEADERS[key][1]:
            return
        fields = _header(r, key)
        if fields is None:
            return
        _judge(r, key, fields)
    if has_icrc is None:
        has_icrc = _ends_with_icrc(r, bth)
    _trailer(r, spans, bth, keys, trimmed, has_icrc)


def _ends_with_icrc(r: _Reader, bth: dict[str, Any]) -> bool:
    """Whether bytes from BTH on end with an iCRC, as far as the lengths tell (else: yes)."""
    if "reth" not in r.out:
        return r.left != 0
    whole = int(r.out["reth"]["dmalen"])
    without = r.left - int(bth["pad"])
    having = without - 4
    opcode = bth["opcode"]
    if opcode in (Opcode.WRITE_ONLY, Opcode.WRITE_ONLY_IMM):
        return without != whole
    if opcode in (Opcode.WRITE_FIRST, Opcode.WRITE_MIDDLE):
        return without not in PMTUS
    fits = {whole % pmtu or pmtu for pmtu in PMTUS}
    return without not in fits or having in fits


def _trailer(
    r: _Reader,
    spans: tuple[int, int, int] | None,
    bth: dict[str, Any],
    keys: tuple[str, ...],
    trimmed: bool,
    has_icrc: bool,
) -> None:
    """Payload, pad bytes, iCRC."""
    end = spans[2] if spans else len(r.data)
    pad = int(bth["pad"])
    data = "reth" in keys
    if trimmed or not has_icrc:
        fill = 0 if trimmed else min(pad, end - r.at)
        if data:
            r.out["payload"] = r.data[r.at : end - fill].hex()
            r.at = end - fill
        if fill:
            r.out["pad_bytes"] = r.data[r.at : end].hex()
            r.at = end
        return
    room = end - r.at - pad - 4
    if room < 0:
        r.problems.append(f"length: {end - r.at} bytes left for {pad} pad bytes and the iCRC")
        r.out["icrc_ok"] = False
        return
    if data:
        r.out["payload"] = r.data[r.at : r.at + room].hex()
        r.at += room
    elif room:
        r.problems.append(f"length: {room} bytes more than the opcode's headers")
        r.out["icrc_ok"] = False
        return
    if pad:
        r.out["pad_bytes"] = r.data[r.at : r.at + pad].hex()
        r.at += pad
    if data and (room + pad) % 4:
        r.problems.append(f"bth: pad {pad} does not fill {room} payload bytes to 4")
    sent = int.from_bytes(r.data[r.at : end], "little")
    r.out["icrc"] = sent
    if spans is not None:
        right = icrc_ip(r.data, spans[0], spans[1], r.at)
        r.out["icrc_ok"] = right == sent
        if right != sent:
            r.problems.append(f"icrc: {sent:#010x}, computed {right:#010x}")
    r.at = end


def _header(r: _Reader, key: str) -> dict[str, Any] | None:
    layout, size, order = HEADERS[key]
    raw = r.take(size, key)
    if raw is None:
        return None
    header = layout.unpack(raw)
    values = header._asdict()
    if isinstance(header, Seth) and header.pr:
        values["probe_id"] = header.probe_id
    fields: dict[str, Any] = {}
    for name in order:
        value = values.get(name)
        if value is None or (name in _RESERVED and not value):
            continue
        fields[name] = value
        if name in _RESERVED:
            r.problems.append(f"{key}: reserved bits {name} = {value:#x}")
    r.out[key] = fields
    return fields


def _judge_bth(r: _Reader, bth: dict[str, Any]) -> None:
    for name, wanted in (("tver", 0), ("m", 0), ("se", 0), ("var_res", 0), ("r", 0)):
        if bth[name] != wanted:
            r.problems.append(f"bth: {name} is {bth[name]}, not {wanted}")
    if bth["inv_res"]:
        r.problems.append(f"bth: inv_res is {bth['inv_res']}, not 0")
    if bth["p_key"] != P_KEY:
        r.problems.append(f"bth: p_key {bth['p_key']:#06x} is not the default {P_KEY:#06x}")


_KNOWN: dict[tuple[str, str], Callable[[int], bool]] = {
    ("aeth", "syndrome"): lambda v: v in set(Syndrome),
    ("neth", "nack_reason"): lambda v: v in set(NackReason),
    ("seth", "m"): lambda v: v != 3,
    ("erth", "op"): lambda v: v < 2,
    ("tseth", "ftype"): lambda v: v == 1,
}


def _judge(r: _Reader, key: str, fields: dict[str, Any]) -> None:
    for (where, name), known in _KNOWN.items():
        if where == key and not known(fields[name]):
            r.problems.append(f"{key}: {name} {fields[name]:#x} is not defined")


def ones_complement_sum(data: bytes) -> int:
    """16-bit one's complement sum, as in the IPv4 header checksum."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data[: len(data) & ~1]))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total
