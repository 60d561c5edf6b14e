"""The inverse of `hosts.wire.decode`: a dict to bytes.

What decode gave comes back byte for byte. Lengths, checksums, iCRC, pad and most fields may be
left out: they are computed or 0 (BTH: p_key 0xFFFF, ts and pad as the rest needs them). An
`icrc` of null means "cut before the iCRC": headers may then be missing too. Names that no
packet has, and values that do not fit their fields, are refused.
"""

from __future__ import annotations

import struct
from ipaddress import ip_address
from typing import Any

from hosts.wire.constants import (
    ETHERTYPE_IPV4,
    ETHERTYPE_IPV6,
    ETHERTYPE_VLAN,
    NEXT_HEADER_IPV6,
    NEXT_HEADER_ROUTING,
    NEXT_HEADER_UDP,
    UDP_PORT,
    EvPacking,
)
from hosts.wire.decode import HEADERS, headers_after_bth
from hosts.wire.decode_ip import ones_complement_sum
from hosts.wire.entropy import split_ev
from hosts.wire.headers import Header
from hosts.wire.icrc import icrc_ip
from hosts.wire.template import mac_bytes

_TEXT = 0


def _widths(spec: str) -> dict[str, int]:
    return {name: int(bits or _TEXT) for name, _, bits in (w.partition(":") for w in spec.split())}


_V6 = _widths(
    "version:4 dscp:6 ecn:2 flow_label:20 payload_length:16 next_header:8 hop_limit:8 src dst"
)
_LAYERS = {
    "eth": _widths("dst src type:16"),
    "vlan": _widths("pcp:3 dei:1 vid:12 type:16"),
    "outer_ipv6": _V6,
    "srh": _widths(
        "next_header:8 hdr_ext_len:8 routing_type:8 segments_left:8 "
        "last_entry:8 flags:8 tag:16 segments tlvs"
    ),
    "ipv6": _V6,
    "ipv4": _widths(
        "version:4 ihl:4 dscp:6 ecn:2 total_length:16 id:16 fragment:16 ttl:8 protocol:8 "
        "checksum:16 src dst options"
    ),
    "udp": _widths("sport:16 dport:16 length:16 checksum:16"),
}
"""Bits of each field of the layers below BTH; 0: text."""
_PLAIN = {"ev": 32, "icrc": 32, "payload": _TEXT, "pad_bytes": _TEXT, "rest": _TEXT}
_IGNORED = ("icrc_ok", "problems", "capture")


class EncodeError(ValueError):
    """A dict that is no packet; str() names the key and what is wrong."""


def encode(fields: dict[str, Any], *, packing: EvPacking = EvPacking.LABEL_HIGH) -> bytes:
    """Bytes of the packet: from Ethernet, IP or BTH on, whichever is the outermost key."""
    try:
        return _encode(fields, packing)
    except EncodeError:
        raise
    except (struct.error, ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise EncodeError(f"packet: {error}") from None


def _check(fields: dict[str, Any]) -> None:
    """Refuses names that no packet has, and numbers that do not fit (below BTH)."""
    for key, value in fields.items():
        if key in _IGNORED or (key == "icrc" and value is None):
            continue
        if key in _PLAIN:
            _check_field(key, value, _PLAIN[key])
        elif key in _LAYERS:
            listed = value if key == "vlan" and isinstance(value, list) else [value]
            for layer in listed:
                _check_layer(key, layer)
        elif key not in HEADERS:
            known = ", ".join((*_LAYERS, *HEADERS, *_PLAIN))
            raise EncodeError(f"{key}: unknown key; known: {known}")
        elif not isinstance(value, dict):
            raise EncodeError(f"{key}: {value!r} is not an object")
    if "ipv4" in fields and ("ipv6" in fields or "outer_ipv6" in fields):
        raise EncodeError("ipv4: beside IPv6; a packet has one of them")


def _check_layer(key: str, layer: Any) -> None:
    if not isinstance(layer, dict):
        raise EncodeError(f"{key}: {layer!r} is not an object")
    widths = _LAYERS[key]
    for name, value in layer.items():
        if name not in widths:
            raise EncodeError(f"{key}.{name}: unknown field; known: {', '.join(widths)}")
        _check_field(f"{key}.{name}", value, widths[name])


def _check_field(name: str, value: Any, width: int) -> None:
    if width == _TEXT:
        if not isinstance(value, (str, list)):
            raise EncodeError(f"{name}: {value!r} is not text")
    elif not isinstance(value, int) or isinstance(value, bool):
        raise EncodeError(f"{name}: {value!r} is not an integer")
    elif not 0 <= value < 1 << width:
        raise EncodeError(f"{name}: {value} does not fit {width} bits")


def _hex(fields: dict[str, Any], key: str) -> bytes:
    """Bytes written in hexadecimal; none when the key is absent."""
    try:
        return bytes.fromhex(fields.get(key, ""))
    except ValueError:
        raise EncodeError(f"{key}: not hexadecimal") from None


def _encode(fields: dict[str, Any], packing: EvPacking) -> bytes:
    _check(fields)
    tail = _from_bth(fields)
    icrc_absent = _cut(fields)
    rest = _hex(fields, "rest")
    ip_key = next((key for key in ("ipv6", "ipv4") if key in fields), None)
    if ip_key is None:
        if "udp" in fields:
            raise EncodeError("udp: no ipv6 or ipv4 to carry it")
        return _ethernet(fields, _outer(fields, tail, packing)) + tail + _icrc(fields, None) + rest
    trailer = 0 if icrc_absent else 4
    udp = b""
    if "udp" in fields or "bth" in fields:
        udp = _udp(fields, packing, len(tail) + trailer)
    ip = (
        _ipv6(fields["ipv6"], fields, packing, len(udp) + len(tail) + trailer, NEXT_HEADER_UDP)
        if (ip_key == "ipv6")
        else _ipv4(fields["ipv4"], len(udp) + len(tail) + trailer)
    )
    packet = ip + udp + tail
    if "bth" in fields and not icrc_absent:
        packet += _icrc(fields, (packet, len(ip)))
    return _ethernet(fields, _outer(fields, packet, packing)) + packet + rest


def _cut(fields: dict[str, Any]) -> bool:
    return "icrc" in fields and fields["icrc"] is None


def _from_bth(fields: dict[str, Any]) -> bytes:
    """BTH up to the last pad byte."""
    if "bth" not in fields:
        return b""
    bth = dict(fields["bth"])
    for name, value in bth.items():
        if not isinstance(value, int) or isinstance(value, bool):
            raise EncodeError(f"bth.{name}: {value!r} is not an integer")
    payload = _hex(fields, "payload")
    bth.setdefault("pad", -len(payload) & 3)
    bth.setdefault("ts", int("tseth" in fields))
    fill = 0 if _cut(fields) else int(bth["pad"])
    pad = _hex(fields, "pad_bytes") if "pad_bytes" in fields else bytes(fill)
    keys = headers_after_bth(int(bth.get("opcode", 0)), int(bth["ts"])) or ()
    parts = [_header("bth", bth)]
    for key in keys:
        if key in fields:
            parts.append(_header(key, fields[key]))
        elif not _cut(fields):
            raise EncodeError(f"{key}: missing for opcode {bth.get('opcode', 0):#04x}")
    return b"".join((*parts, payload, pad))


def _header(key: str, given: dict[str, Any]) -> bytes:
    layout, _, _ = HEADERS[key]
    values = dict(given)
    if key == "seth" and "probe_id" in values:
        values["ack_psn_offset"] = _probe_id(values)
    names = layout._fields
    unknown = sorted(set(values) - set(names))
    if unknown:
        raise EncodeError(f"{key}.{unknown[0]}: unknown field; known: {', '.join(names)}")
    for name in names:
        if name not in values and name not in layout._field_defaults:
            values[name] = 0
    for name, value in values.items():
        if not isinstance(value, int) or isinstance(value, bool):
            raise EncodeError(f"{key}.{name}: {value!r} is not an integer")
    try:
        raw = layout(**values).pack()
    except struct.error as error:
        wide = next((n for n, v in values.items() if _alone(layout, n, v) is None), None)
        what = f"{key}.{wide}: {values[wide]} does not fit" if wide else f"{key}: {error}"
        raise EncodeError(what) from None
    back = layout.unpack(raw)._asdict()
    for name, value in values.items():
        if back[name] != value and not (key == "seth" and name == "ack_psn_offset"):
            raise EncodeError(f"{key}.{name}: {value} does not fit")
    return raw


def _probe_id(seth: dict[str, Any]) -> int:
    """Takes `probe_id` out: the same 16 bits as ack_psn_offset, when pr is 1 (section 2.3)."""
    probe_id = seth.pop("probe_id")
    offset = seth.get("ack_psn_offset", probe_id)
    if not isinstance(probe_id, int) or not 0 <= probe_id < 1 << 16:
        raise EncodeError(f"seth.probe_id: {probe_id!r} does not fit 16 bits")
    if not seth.get("pr"):
        raise EncodeError("seth.probe_id: only with pr = 1")
    if isinstance(offset, int) and offset & 0xFFFF != probe_id:
        raise EncodeError(
            f"seth.probe_id {probe_id} and seth.ack_psn_offset {offset} are the same 16 bits: "
            "leave one out"
        )
    return probe_id


def _alone(layout: type[Header], name: str, value: int) -> bytes | None:
    """A header with this one field set, or None when the field does not hold the value."""
    zeros = {n: 0 for n in layout._fields if n not in layout._field_defaults}
    try:
        return layout(**{**zeros, name: value}).pack()
    except struct.error:
        return None


def _udp(fields: dict[str, Any], packing: EvPacking, carried: int) -> bytes:
    udp = fields.get("udp", {})
    sport = split_ev(int(fields["ev"]), packing)[1] if "ev" in fields else 0
    return struct.pack(
        "!4H",
        udp.get("sport", sport),
        udp.get("dport", UDP_PORT),
        udp.get("length", 8 + carried),
        udp.get("checksum", 0),
    )


def _ipv6(
    ip: dict[str, Any], fields: dict[str, Any], packing: EvPacking, carried: int, following: int
) -> bytes:
    label = split_ev(int(fields["ev"]), packing)[0] if "ev" in fields else 0
    word = (
        ip.get("version", 6) << 28
        | ip.get("dscp", 0) << 22
        | ip.get("ecn", 0) << 20
        | ip.get("flow_label", label)
    )
    return (
        struct.pack(
            "!IHBB",
            word,
            ip.get("payload_length", carried),
            ip.get("next_header", following),
            ip.get("hop_limit", 64),
        )
        + ip_address(ip["src"]).packed
        + ip_address(ip["dst"]).packed
    )


def _ipv4(ip: dict[str, Any], carried: int) -> bytes:
    options = bytes.fromhex(ip.get("options", ""))
    raw = struct.pack(
        "!BBHHHBBH4s4s",
        ip.get("version", 4) << 4 | ip.get("ihl", 5 + len(options) // 4),
        ip.get("dscp", 0) << 2 | ip.get("ecn", 0),
        ip.get("total_length", 20 + len(options) + carried),
        ip.get("id", 0),
        ip.get("fragment", 0x4000),
        ip.get("ttl", 64),
        ip.get("protocol", NEXT_HEADER_UDP),
        ip.get("checksum", 0),
        ip_address(ip["src"]).packed,
        ip_address(ip["dst"]).packed,
    )
    raw += options
    if "checksum" not in ip:
        raw = raw[:10] + (ones_complement_sum(raw) ^ 0xFFFF).to_bytes(2, "big") + raw[12:]
    return raw


def _icrc(fields: dict[str, Any], covered: tuple[bytes, int] | None) -> bytes:
    if _cut(fields):
        return b""
    if "icrc" in fields:
        return int(fields["icrc"]).to_bytes(4, "little")
    if covered is None:
        return b""
    packet, udp_at = covered
    return icrc_ip(packet, 0, udp_at, len(packet)).to_bytes(4, "little")


def _outer(fields: dict[str, Any], inner: bytes, packing: EvPacking) -> bytes:
    if "outer_ipv6" not in fields:
        return b""
    srh = b""
    following = NEXT_HEADER_IPV6
    if "srh" in fields:
        given = fields["srh"]
        segments = b"".join(ip_address(s).packed for s in given.get("segments", []))
        segments += bytes.fromhex(given.get("tlvs", ""))
        srh = (
            struct.pack(
                "!BBBBBBH",
                given.get("next_header", NEXT_HEADER_IPV6),
                given.get("hdr_ext_len", len(segments) // 8),
                given.get("routing_type", 4),
                given.get("segments_left", 0),
                given.get("last_entry", max(0, len(segments) // 16 - 1)),
                given.get("flags", 0),
                given.get("tag", 0),
            )
            + segments
        )
        following = NEXT_HEADER_ROUTING
    outer = _ipv6(fields["outer_ipv6"], fields, packing, len(srh) + len(inner), following)
    return outer + srh


def _ethernet(fields: dict[str, Any], outer: bytes) -> bytes:
    tags = fields.get("vlan", [])
    if "eth" not in fields:
        if tags:
            raise EncodeError("vlan: no eth to carry it")
        return outer
    eth = fields["eth"]
    kind = ETHERTYPE_IPV4 if "ipv4" in fields else ETHERTYPE_IPV6
    following = [ETHERTYPE_VLAN] * len(tags) + [kind]
    out = [mac_bytes(eth["dst"]), mac_bytes(eth["src"])]
    out.append(struct.pack("!H", eth.get("type", following[0])))
    for tag, default in zip(tags, following[1:], strict=True):
        tci = tag.get("pcp", 0) << 13 | tag.get("dei", 0) << 12 | tag.get("vid", 0)
        out.append(struct.pack("!HH", tci, tag.get("type", default)))
    return b"".join((*out, outer))
