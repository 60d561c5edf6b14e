"""A packet as a JSON-able dict under the reference's names, and what is wrong with it.

Keys, in wire order, each present when the header is: `eth`, `vlan` (an array: tags from the
outermost on), `outer_ipv6`, `srh`, `ipv6` or `ipv4`, `udp`, `ev`, `bth`, `meth`, `tseth`, `reth`,
`immdt`, `aeth`, `seth`, `cc_state`, `neth`, `peth`, `erth`, `eeth`, `payload` (hex; also what
follows the headers of an opcode that carries no data), `pad_bytes` (hex), `icrc` (integer as in
zlib, least significant byte first on the wire; null: there is none), `icrc_ok` (null: nothing to
judge by), `rest` (hex: bytes that belong to no field), `problems` (one line each). Fields are
integers; addresses are text. Reserved fields appear only when they are not zero.

`hosts.wire.encode` turns such a dict back into the same bytes.
"""

from __future__ import annotations

from typing import Any, Literal

from hosts.wire.constants import (
    ETHERTYPE_IPV4,
    ETHERTYPE_IPV6,
    OPCODE_MRC,
    UDP_PORTS,
    Dscp,
    EvPacking,
    Opcode,
)
from hosts.wire.decode_ip import Reader, Span, read_ethernet, read_ip
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
from hosts.wire.judge import RESERVED, judge

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


def decode(
    data: bytes,
    start: Start = "frame",
    *,
    packing: EvPacking = EvPacking.LABEL_HIGH,
    ports: frozenset[int] = UDP_PORTS,
    dscp: Dscp | None = None,
    bth_icrc: bool | None = None,
    size: int | None = None,
) -> dict[str, Any]:
    """Decode a frame, an IP packet, or bytes from BTH on. Never raises, whatever the bytes.

    `dscp` names the code points on which a cut packet is no problem. `bth_icrc` says whether
    bytes from BTH on end with the iCRC; None leaves it to their lengths. `size`: bytes that the
    packet had on the wire, when the capture kept fewer; their absence is no problem then.
    """
    reader = Reader(bytes(data), size)
    if start == "bth":
        _bth_on(reader, None, bth_icrc)
        return reader.finish()
    ethertype: int | None
    if start == "ip":
        version = reader.data[0] >> 4 if reader.data else 0
        ethertype = ETHERTYPE_IPV4 if version == 4 else ETHERTYPE_IPV6
    else:
        ethertype = read_ethernet(reader)
    if ethertype is not None:
        span = read_ip(reader, ethertype, packing, ports, dscp or Dscp())
        if span is not None:
            _bth_on(reader, span, not span.cut)
    return reader.finish()


def _bth_on(r: Reader, span: Span | None, has_icrc: bool | None) -> None:
    """BTH and all after it. `span`: where the packet lies, None: bytes begin with BTH."""
    bth = _header(r, "bth")
    if bth is None:
        return
    r.out["icrc"] = r.out["icrc_ok"] = None
    opcode = bth["opcode"]
    keys = headers_after_bth(opcode, bth["ts"])
    if opcode >> 5 != OPCODE_MRC:
        r.problems.append(f"bth: opcode {opcode:#04x} is not MRC's")
    elif keys is None:
        r.problems.append(f"bth: unknown opcode {opcode:#04x}")
    cut = span is not None and span.cut
    complete = all(_next_header(r, key, cut) for key in keys or ())
    if complete:
        if has_icrc is None:
            has_icrc = _ends_with_icrc(r, bth)
        _trailer(r, span, bth, keys, has_icrc)
    r.problems.extend(judge(r.out, whole=complete and not cut))


def _next_header(r: Reader, key: str, cut: bool) -> bool:
    """Reads a header; False when its bytes are not all there (which is no problem once cut)."""
    if cut and r.left < HEADERS[key][1]:
        return False
    return _header(r, key) is not None


def _ends_with_icrc(r: Reader, bth: dict[str, Any]) -> bool:
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
    r: Reader,
    span: Span | None,
    bth: dict[str, Any],
    keys: tuple[str, ...] | None,
    has_icrc: bool,
) -> None:
    """Payload, pad bytes, iCRC."""
    cut = span is not None and span.cut
    end = len(r.data) if span is None or cut else span.end
    pad = 0 if cut else int(bth["pad"])
    room = end - r.at - pad - (4 if has_icrc else 0)
    if room < 0:
        what = " and the iCRC" if has_icrc else ""
        r.problems.append(f"length: {max(0, end - r.at)} bytes left for {pad} pad bytes{what}")
        r.out["icrc_ok"] = False if has_icrc else None
        return
    if room or "reth" in r.out or keys is None:
        if keys is not None and "reth" not in keys and not cut:
            r.problems.append(f"length: {room} bytes more than the opcode's headers")
        r.out["payload"] = r.data[r.at : r.at + room].hex()
        r.at += room
        if (room + pad) % 4 and not cut:
            r.problems.append(f"bth: pad {pad} does not fill {room} payload bytes to 4")
    if pad:
        r.out["pad_bytes"] = r.data[r.at : r.at + pad].hex()
        r.at += pad
    if not has_icrc:
        return
    sent = int.from_bytes(r.data[r.at : end], "little")
    r.out["icrc"] = sent
    if span is not None:
        right = icrc_ip(r.data, span.ip, span.udp, r.at)
        r.out["icrc_ok"] = right == sent
        if right != sent:
            r.problems.append(f"icrc: {sent:#010x}, computed {right:#010x}")
    r.at = end


def _header(r: Reader, key: str) -> dict[str, Any] | None:
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
        if value is None or (name in RESERVED and not value):
            continue
        fields[name] = value
    r.out[key] = fields
    return fields
