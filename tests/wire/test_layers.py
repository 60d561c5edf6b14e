"""The Scapy layers and the fast codec are the same bytes, built and dissected."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrSegmentRouting
from scapy.layers.l2 import Ether
from scapy.packet import Packet as ScapyPacket

from hosts.wire import headers, layers
from hosts.wire.constants import EvPacking, Opcode
from hosts.wire.decode import HEADERS, headers_after_bth
from hosts.wire.frame import parse
from tests.wire.samples import (
    ADDRESSES,
    DST_MAC,
    SRC_MAC,
    DataSample,
    bits,
    data_samples,
    evs,
    template,
)

LAYERS: dict[str, Any] = {
    "bth": layers.BTH,
    "meth": layers.METH,
    "tseth": layers.TSETH,
    "reth": layers.RETH,
    "immdt": layers.ImmDt,
    "aeth": layers.AETH,
    "seth": layers.SETH,
    "cc_state": layers.CC_STATE,
    "neth": layers.NETH,
    "peth": layers.PETH,
    "erth": layers.ERTH,
    "eeth": layers.EETH,
}
CONTROL = {
    Opcode.ACK: ("aeth",),
    Opcode.ENDPOINT_REQUEST: ("erth",),
    Opcode.ENDPOINT_RESPONSE: ("eeth",),
    Opcode.SACK: ("seth", "cc_state"),
    Opcode.NACK: ("neth",),
    Opcode.PROBE: ("peth",),
}


def below(version: int, ev: int, dscp: int, ecn: int, port: int, packing: EvPacking) -> Any:
    src, dst = ADDRESSES[version]
    ether = Ether(src=SRC_MAC, dst=DST_MAC)
    return ether / layers.ip_udp(src, dst, ev, dscp, ecn, port, packing)


def scapy_data(sample: DataSample) -> Any:
    """The same packet written with layers only; opcode given, ts, pad, icrc left to them."""
    a = sample.args
    packet = below(sample.version, a["ev"], a["dscp"], a["ecn"], sample.port, sample.packing)
    packet /= layers.BTH(opcode=a["opcode"], dqp=a["dqp"], psn=a["psn"], a=a["a"], rtx=a["rtx"])
    packet /= layers.METH(rqmsn=a["rqmsn"], msn=a["msn"])
    if a["tx_timestamp"] is not None:
        packet /= layers.TSETH(tx_timestamp=a["tx_timestamp"], tsr=a["tsr"])
    packet /= layers.RETH(va=a["va"], r_key=a["r_key"], dmalen=a["dmalen"])
    if a["imm"] is not None:
        packet /= layers.ImmDt(imm=a["imm"])
    return packet / a["payload"] if a["payload"] else packet


def rebuilt(packet: ScapyPacket) -> bytes:
    """Bytes from the fields, not from what scapy remembers of the dissection."""
    layer = packet
    while layer:
        layer.raw_packet_cache = None
        layer = layer.payload
    return bytes(packet)


@settings(max_examples=80, deadline=None)
@given(sample=data_samples())
def test_data_both_ways(sample: DataSample) -> None:
    a = sample.args
    frame = sample.build()
    assert bytes(scapy_data(sample)) == frame

    seen = Ether(frame)
    fast = parse(frame, sample.packing)
    assert fast is not None
    assert fast.icrc_ok()
    bth, meth, reth = seen[layers.BTH], seen[layers.METH], seen[layers.RETH]
    assert (fast.opcode, fast.dqp, fast.psn, fast.a, fast.rtx, fast.ts) == (
        *(bth.opcode, bth.dqp, bth.psn, bth.a, bth.rtx, bth.ts),
    )
    assert (fast.rqmsn, fast.msn, fast.va, fast.r_key, fast.dmalen) == (
        *(meth.rqmsn, meth.msn, reth.va, reth.r_key, reth.dmalen),
    )
    stamp = seen[layers.TSETH].tx_timestamp if layers.TSETH in seen else None
    assert (fast.tx_timestamp if fast.has_tseth else None) == stamp
    assert fast.imm == (seen[layers.ImmDt].imm if layers.ImmDt in seen else None)
    last = seen.lastlayer()
    assert bytes(fast.payload) == a["payload"]
    assert (last.load if a["payload"] else b"") == a["payload"]
    assert (fast.ev, fast.dscp, fast.ecn) == (a["ev"], a["dscp"], a["ecn"])
    assert rebuilt(seen) == frame
    del bth.icrc  # now computed again
    assert rebuilt(seen) == frame


@st.composite
def header_values(draw: st.DrawFn, key: str) -> dict[str, int]:
    """Random values for every field of a header, reserved ones too, by the layers' widths."""
    values = {}
    for field in LAYERS[key].fields_desc:
        width = abs(field.size) if hasattr(field, "size") else field.sz * 8
        value = draw(bits(width))
        signed = field.name in ("ack_psn_offset", "sack_offset")
        values[field.name] = value - (value >> 15 << 16) if signed else value
    return values


@pytest.mark.parametrize("key", [key for key in LAYERS if key != "bth"])
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_header_alone_equal_both_ways(key: str, data: st.DataObject) -> None:
    values = data.draw(header_values(key))
    layout = HEADERS[key][0]
    assert set(values) == set(layout._fields)
    packed = layout(**values).pack()
    assert bytes(LAYERS[key](**values)) == packed
    seen = LAYERS[key](packed)
    assert {name: getattr(seen, name) for name in values} == layout.unpack(packed)._asdict()
    assert {name: getattr(seen, name) for name in values} == values


@given(raw=st.binary(min_size=12, max_size=12))
def test_bth_fields_equal(raw: bytes) -> None:
    seen = layers.BTH(raw + b"\x01\x02\x03\x04")
    fast = headers.Bth.unpack(raw)
    assert {name: getattr(seen, name) for name in fast._fields} == fast._asdict()
    assert seen.icrc == 0x04030201


@pytest.mark.parametrize("opcode", CONTROL)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_control_both_ways(opcode: Opcode, data: st.DataObject) -> None:
    version = data.draw(st.sampled_from((6, 4)))
    ev = data.draw(evs(version, EvPacking.LABEL_HIGH))
    dqp, psn, dscp, ecn, rtx = (data.draw(bits(w)) for w in (24, 24, 6, 2, 1))
    keys = CONTROL[opcode]
    assert headers_after_bth(opcode, 0) == keys
    values = [data.draw(header_values(key)) for key in keys]
    ext = b"".join(HEADERS[k][0](**v).pack() for k, v in zip(keys, values, strict=True))
    frame = template(version).control(opcode, dscp, ecn, ev, dqp, psn, ext, rtx=rtx)

    packet = below(version, ev, dscp, ecn, 4791, EvPacking.LABEL_HIGH)
    packet /= layers.BTH(dqp=dqp, psn=psn, rtx=rtx)  # the opcode follows the next layer
    for key, fields in zip(keys, values, strict=True):
        packet /= LAYERS[key](**fields)
    assert bytes(packet) == frame

    fast = parse(frame)
    seen = Ether(frame)
    assert fast is not None
    assert fast.icrc_ok()
    assert rebuilt(seen) == frame
    for key in keys:
        header = getattr(fast, key)
        assert {f: getattr(seen[LAYERS[key]], f) for f in header._fields} == header._asdict()


@pytest.mark.parametrize("version", [6, 4])
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_sack_template_equals_its_headers(version: int, data: st.DataObject) -> None:
    """The flat SACK builder against header tuples."""
    names = ("m", "pr", "entropy", "spdcid", "dpdcid", "cack_psn", "mpr", "sack_bitmap")
    widths = (2, 1, 32, 16, 16, 24, 8, 64)
    seth = {n: data.draw(bits(w)) for n, w in zip(names, widths, strict=True)}
    seth["ack_psn_offset"] = data.draw(st.integers(-32768, 32767))
    seth["sack_offset"] = data.draw(st.integers(-32768, 32767))
    cc_names = ("tx_timestamp", "ooo_count", "restore_cwnd", "rcv_cwnd_pen", "rcvd_bytes")
    cc = {n: data.draw(bits(w)) for n, w in zip(cc_names, (16, 15, 1, 7, 24), strict=True)}
    ev = data.draw(evs(version, EvPacking.LABEL_HIGH))
    flow = template(version)
    ext = headers.Seth(**seth).pack() + headers.CcState(**cc).pack()
    assert flow.sack(46, ev, 17, 1, **seth, **cc) == flow.control(
        Opcode.SACK, 46, 0, ev, 17, seth["cack_psn"], ext, rtx=1
    )


def test_source_port_never_decides_the_protocol() -> None:
    """An EV may look like DNS, DHCP or VXLAN to Scapy."""
    flow = template()
    for sport in (53, 67, 123, 4789, 5353):
        frame = flow.control(Opcode.ACK, 46, 0, sport, 17, 0, headers.Aeth(0x1F, 1).pack())
        assert layers.AETH in Ether(frame)


@pytest.mark.parametrize("with_srh", [False, True])
def test_inside_srv6(with_srh: bool) -> None:
    inner = layers.ip_udp("fd00:1::1", "fd00:2::2", 0x00050006, 4, 2)
    inner /= layers.BTH(dqp=17, psn=1) / layers.METH() / layers.TSETH() / layers.RETH() / b"abcd"
    outer: Any = Ether(src=SRC_MAC, dst=DST_MAC) / IPv6(src="fc00::1", dst="fc00:0:1:2::")
    if with_srh:
        outer /= IPv6ExtHdrSegmentRouting(addresses=["fc00:0:3::"], segleft=0)
    frame = bytes(outer / inner)
    fast = parse(frame)
    assert fast is not None
    assert fast.icrc_ok()
    assert (fast.ev, fast.psn, bytes(fast.payload)) == (0x00050006, 1, b"abcd")
    plain = parse(bytes(Ether(src=SRC_MAC, dst=DST_MAC) / inner))
    assert plain is not None
    assert plain.frame[-4:] == frame[-4:]  # the outer packet is not covered
    changed = bytearray(frame)
    changed[14 + 24 + 3] ^= 0xFF  # the outer destination shifts on the way
    assert parse(changed).icrc_ok()  # type: ignore[union-attr]


def test_trimmed_packet_shows_what_is_left() -> None:
    frame = template().data(0xC7, 12, 2, 5, 17, 9, 0, 0, 0, 1, 7, 0x1000, 3, 8192, bytes(4096))
    seen = Ether(frame[:128])
    assert seen[layers.BTH].icrc == layers.ABSENT
    assert seen[layers.RETH].dmalen == 8192
    assert rebuilt(seen) == frame[:128]
    fast = parse(frame[:128])
    assert fast is not None
    assert (fast.psn, fast.tx_timestamp, fast.dmalen, fast.headers_ok) == (9, 7, 8192, True)
    assert not fast.length_ok
    assert not fast.icrc_ok()
    assert len(fast.payload) == 0
    assert fast.nominal_size == len(frame) - 14


def test_ipv4_and_udp_layers_are_ours_to_name() -> None:
    assert UDP in below(4, 7, 0, 0, 4791, EvPacking.LABEL_HIGH)
    assert IP in below(4, 7, 0, 0, 4791, EvPacking.LABEL_HIGH)
