"""Scapy layers of MRC: build, show and dissect every header of reference sections 1 and 2.

    from hosts.wire.layers import *
    p = ip_udp("fd00::1", "fd00::2", ev=0x12345678, dscp=4) / BTH(dqp=17, psn=5) \\
        / METH(msn=1) / TSETH(tx_timestamp=9) / RETH(va=0x1000, r_key=7, dmalen=4) / b"data"
    p.show2()

Left to themselves, `BTH.opcode` follows the next layer, `BTH.ts` says whether TSETH is there,
`BTH.pad` fits the payload and `BTH.icrc` is computed. Reserved bits are fields too (`res...`).
A dissected packet that is shorter than its UDP length (trimmed) has `icrc == ABSENT`.

Written for reading and for captures: the endpoint uses `hosts.wire.frame`, tested for equality
with these layers both ways.
"""

from __future__ import annotations

import struct
from typing import Any

from scapy.fields import (
    BitEnumField,
    BitField,
    ByteEnumField,
    ByteField,
    FCSField,
    IntField,
    ShortField,
    SignedShortField,
    StrField,
    XBitField,
    XByteField,
    XIntField,
    XLongField,
    XShortField,
)
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Packet, Raw, bind_bottom_up, bind_layers

from hosts.wire.constants import (
    IMM_OPCODES,
    UDP_PORT,
    UDP_PORT_AS_PRINTED,
    EndpointOp,
    EvPacking,
    NackReason,
    Opcode,
    PathFeedback,
    Syndrome,
)
from hosts.wire.entropy import split_ev
from hosts.wire.icrc import icrc_ip

ABSENT = -1  # BTH.icrc of a packet that was cut before its iCRC


def _names(values: Any) -> dict[int, str]:
    return {int(value): value.name for value in values}


class _IcrcField(FCSField):  # type: ignore[misc]
    """The last four bytes of the packet, least significant first."""

    def getfield(self, pkt: Any, s: bytes) -> tuple[bytes, int]:
        udp = pkt.underlayer
        whole = not isinstance(udp, UDP) or udp.len is None or udp.len == len(s) + 20
        if not whole or len(s) < 4:
            return s, ABSENT
        return super().getfield(pkt, s)  # type: ignore[no-any-return]

    def addfield(self, pkt: Any, s: bytes, val: int | None) -> bytes:
        if val == ABSENT:
            return s
        return super().addfield(pkt, s, val)  # type: ignore[no-any-return]

    def i2repr(self, pkt: Any, x: int | None) -> str:
        return "absent (trimmed)" if x == ABSENT else super().i2repr(pkt, x)  # type: ignore[no-any-return]


class _PadField(StrField):  # type: ignore[misc]
    """The pad bytes in front of the iCRC: `pad` of them, taken from the end of what is left."""

    def getfield(self, pkt: Any, s: bytes) -> tuple[bytes, bytes]:
        count = 0 if pkt.icrc == ABSENT else min(pkt.pad, len(s))
        return s[: len(s) - count], s[len(s) - count :]

    def addfield(self, pkt: Any, s: bytes, val: bytes | None) -> bytes:
        previous = pkt.post_build

        def post_build(p: bytes, pay: bytes) -> bytes:
            pkt.post_build = previous
            fill = bytes(-len(pay) & 3) if val is None else val
            return previous(p, pay + fill)  # type: ignore[no-any-return]

        pkt.post_build = post_build
        return s


class BTH(Packet):  # type: ignore[misc]
    """Base transport header. `pad_bytes` and `icrc` are the packet's trailer."""

    name = "MRC BTH"
    fields_desc = [  # noqa: RUF012
        ByteEnumField("opcode", Opcode.WRITE_ONLY, _names(Opcode)),
        BitField("m", 0, 1),
        BitField("se", 0, 1),
        BitField("pad", None, 2),
        BitField("tver", 0, 4),
        XShortField("p_key", 0xFFFF),
        XByteField("var_res", 0),
        XBitField("dqp", 0, 24),
        BitField("a", 0, 1),
        BitField("r", 0, 1),
        BitField("rtx", 0, 1),
        BitField("ts", None, 1),
        BitField("inv_res", 0, 4),
        BitField("psn", 0, 24),
        _IcrcField("icrc", None, fmt="<I"),
        _PadField("pad_bytes", None),
    ]

    def post_build(self, p: bytes, pay: bytes) -> bytes:
        """`pay` ends with the pad bytes and, unless absent, four bytes for the iCRC."""
        head = bytearray(p)
        trailer = 0 if self.icrc == ABSENT else 4
        if self.pad is None:
            pad_bytes = self.pad_bytes
            inner = len(raw_payload(self)) if pad_bytes is None else 0
            head[1] |= (-inner & 3 if pad_bytes is None else len(pad_bytes) & 3) << 4
        if self.ts is None and self.haslayer(TSETH):
            head[8] |= 0x10
        whole = bytes(head) + pay
        if self.icrc is None and trailer:
            whole = whole[:-4] + self.compute_icrc(whole[:-4])
        return whole

    def compute_icrc(self, bth_to_pad: bytes) -> bytes:
        """iCRC over the enclosing UDP and IP layers and these bytes; zeros without them."""
        udp = self.underlayer
        ip = udp.underlayer if isinstance(udp, UDP) else None
        if not isinstance(ip, (IP, IPv6)):
            return bytes(4)
        length = 8 + len(bth_to_pad) + 4
        udp_bytes = struct.pack("!HHHH", udp.sport, udp.dport, udp.len or length, 0)
        bare = ip.copy()
        bare.remove_payload()
        if isinstance(ip, IPv6):
            bare.plen = length if ip.plen is None else ip.plen
            bare.nh = ip.overloaded_fields.get("nh", ip.nh)
        else:
            bare.len = len(bytes(bare)) + length if ip.len is None else ip.len
            bare.proto = ip.overloaded_fields.get("proto", ip.proto)
        ip_bytes = bytes(bare)
        packet = ip_bytes + udp_bytes + bth_to_pad
        return struct.pack("<I", icrc_ip(packet, 0, len(ip_bytes), len(packet)))

    def icrc_ok(self) -> bool | None:
        """Whether the packet's iCRC fits the rest of it; None where there is none to judge by."""
        udp = self.underlayer
        if self.icrc in (ABSENT, None) or not isinstance(udp, UDP) or udp.underlayer is None:
            return None
        raw = bytes(self)
        return self.compute_icrc(raw[:-4]) == raw[-4:]


def raw_payload(packet: Packet) -> bytes:
    """What `packet` carries, as bytes."""
    return bytes(packet.payload)


class _Inner(Packet):  # type: ignore[misc]
    """A header after BTH."""

    def bth(self) -> BTH | None:
        layer = self.underlayer
        while layer is not None and not isinstance(layer, BTH):
            layer = layer.underlayer
        return layer


class METH(_Inner):
    """Message header of data packets."""

    name = "MRC METH"
    fields_desc = [ShortField("rqmsn", 0), ShortField("msn", 0)]  # noqa: RUF012

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        bth = self.bth()
        stamped = bth is not None and bth.ts
        needed, layer = (4, TSETH) if stamped else (16, RETH)
        return layer if len(payload) >= needed else Raw


class TSETH(_Inner):
    """Time stamp header; 128 ns ticks when tsr is 0."""

    name = "MRC TSETH"
    fields_desc = [  # noqa: RUF012
        ShortField("tx_timestamp", 0),
        BitField("tsr", 0, 1),
        BitField("res", 0, 11),
        BitField("ftype", 1, 4),
    ]

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        return RETH if len(payload) >= 16 else Raw


class RETH(_Inner):
    """RDMA header: this packet's address, key, length of the whole message."""

    name = "MRC RETH"
    fields_desc = [XLongField("va", 0), XIntField("r_key", 0), IntField("dmalen", 0)]  # noqa: RUF012

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        bth = self.bth()
        imm = bth is not None and bth.opcode in IMM_OPCODES
        return ImmDt if imm and len(payload) >= 4 else Raw


class ImmDt(_Inner):
    """Immediate data."""

    name = "MRC ImmDt"
    fields_desc = [XIntField("imm", 0)]  # noqa: RUF012


class AETH(_Inner):
    """Transport ACK or NAK."""

    name = "MRC AETH"
    fields_desc = [  # noqa: RUF012
        ByteEnumField("syndrome", Syndrome.ACK, _names(Syndrome)),
        BitField("msn", 0, 24),
    ]


class CC_STATE(_Inner):
    """Congestion state that follows SETH."""

    name = "MRC CC_STATE"
    fields_desc = [  # noqa: RUF012
        ShortField("tx_timestamp", 0),
        BitField("res", 0, 1),
        BitField("ooo_count", 0, 15),
        BitField("restore_cwnd", 0, 1),
        BitField("rcv_cwnd_pen", 0, 7),
        BitField("rcvd_bytes", 0, 24),
    ]


class SETH(_Inner):
    """Selective acknowledgement. With pr=1 `ack_psn_offset` holds the probe id."""

    name = "MRC SETH"
    fields_desc = [  # noqa: RUF012
        BitField("type", 0, 4),
        BitField("nxt", 0, 5),
        BitEnumField("m", 0, 2, _names(PathFeedback)),
        BitField("res1", 0, 3),
        BitField("pr", 0, 1),
        BitField("res2", 0, 1),
        SignedShortField("ack_psn_offset", 0),
        XIntField("entropy", 0),
        ShortField("spdcid", 0),
        ShortField("dpdcid", 0),
        ByteField("res3", 0),
        BitField("cack_psn", 0, 24),
        BitField("cc_type", 0, 4),
        BitField("cc_flags", 0, 4),
        ByteField("mpr", 0),
        SignedShortField("sack_offset", 0),
        XLongField("sack_bitmap", 0),
    ]

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        return CC_STATE if len(payload) >= 8 else Raw


class NETH(_Inner):
    """Negative acknowledgement."""

    name = "MRC NETH"
    fields_desc = [  # noqa: RUF012
        BitField("type", 0, 4),
        BitField("nxt", 0, 5),
        BitField("res1", 0, 7),
        ByteEnumField("nack_reason", NackReason.TRIMMED, _names(NackReason)),
        ByteField("vendor_info", 0),
        XIntField("entropy", 0),
        ShortField("spdcid", 0),
        ShortField("dpdcid", 0),
        ByteField("res2", 0),
        BitField("nack_psn", 0, 24),
        BitField("cc_type", 2, 4),
        BitField("cc_flags", 0, 4),
        ByteField("res3", 0),
        ShortField("tx_timestamp", 0),
    ]


class PETH(_Inner):
    """Reliability probe."""

    name = "MRC PETH"
    fields_desc = [  # noqa: RUF012
        BitField("type", 0, 4),
        BitField("nh", 0, 5),
        BitField("res1", 0, 7),
        ByteField("res2", 0),
        ByteField("vendor_info", 0),
        ShortField("probe_id", 0),
        ShortField("res3", 0),
        ShortField("spdcid", 0),
        ShortField("dpdcid", 0),
        ShortField("tx_timestamp", 0),
        BitField("tsr", 0, 1),
        BitField("res4", 0, 11),
        BitField("ftype", 1, 4),
    ]


class ERTH(_Inner):
    """Endpoint request: port status update or EV probe."""

    name = "MRC ERTH"
    fields_desc = [  # noqa: RUF012
        BitField("type", 0, 4),
        BitField("nxt", 0, 5),
        BitField("res1", 0, 5),
        BitEnumField("op", 0, 2, _names(EndpointOp)),
        ByteField("res2", 0),
        ByteField("vendor_info", 0),
        XIntField("port_status_mask", 0),
        IntField("res3", 0),
        ShortField("tx_timestamp", 0),
        BitField("tsr", 0, 1),
        BitField("res4", 0, 11),
        BitField("ftype", 1, 4),
    ]


class EETH(_Inner):
    """Endpoint response."""

    name = "MRC EETH"
    fields_desc = [  # noqa: RUF012
        BitField("type", 0, 4),
        BitField("nxt", 0, 5),
        BitField("res1", 0, 3),
        BitEnumField("op", 0, 2, _names(EndpointOp)),
        BitField("res2", 0, 210),
        ShortField("tx_timestamp", 0),
        BitField("res3", 0, 48),
    ]


def ip_udp(
    src: str,
    dst: str,
    ev: int,
    dscp: int = 0,
    ecn: int = 0,
    dport: int = UDP_PORT,
    packing: EvPacking = EvPacking.LABEL_HIGH,
    hop_limit: int = 64,
) -> Packet:
    """IPv6/UDP or IPv4/UDP carrying `ev` as the endpoint would send it."""
    label, sport = split_ev(ev, packing)
    udp = UDP(sport=sport, dport=dport, chksum=0)
    tc = dscp << 2 | ecn
    if ":" in src:
        return IPv6(src=src, dst=dst, fl=label, tc=tc, hlim=hop_limit) / udp
    return IP(src=src, dst=dst, tos=tc, ttl=hop_limit, id=0, flags="DF") / udp


def _bind() -> None:
    for opcode in sorted(set(Opcode), reverse=True):
        if Opcode.WRITE_FIRST <= opcode <= Opcode.WRITE_ONLY_IMM and opcode != Opcode.WRITE_ONLY:
            bind_bottom_up(BTH, METH, opcode=opcode)
    for layer, opcode in (
        (METH, Opcode.WRITE_ONLY),
        (AETH, Opcode.ACK),
        (ERTH, Opcode.ENDPOINT_REQUEST),
        (EETH, Opcode.ENDPOINT_RESPONSE),
        (SETH, Opcode.SACK),
        (NETH, Opcode.NACK),
        (PETH, Opcode.PROBE),
    ):
        bind_layers(BTH, layer, opcode=opcode)
    bind_layers(METH, TSETH)
    bind_layers(METH, RETH)
    bind_layers(TSETH, RETH)
    bind_layers(RETH, ImmDt)
    bind_layers(SETH, CC_STATE)
    bind_bottom_up(UDP, BTH, dport=UDP_PORT_AS_PRINTED)
    bind_layers(UDP, BTH, dport=UDP_PORT)
    # Any source port is an EV: ours must be asked before protocols bound to a source port.
    ours = [guess for guess in UDP.payload_guess if guess[1] is BTH]
    UDP.payload_guess = ours + [guess for guess in UDP.payload_guess if guess[1] is not BTH]


_bind()

__all__ = [
    "ABSENT",
    "AETH",
    "BTH",
    "CC_STATE",
    "EETH",
    "ERTH",
    "ImmDt",
    "METH",
    "NETH",
    "PETH",
    "RETH",
    "SETH",
    "TSETH",
    "ip_udp",
]
