"""SRv6 templates: the outer headers byte by byte, and what the receiver's NIC makes of them."""

from __future__ import annotations

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosts.wire.constants import EvPacking, Opcode
from hosts.wire.encap import (
    EncapTemplate,
    Insert,
    SrPath,
    TableEncap,
    UsidEncap,
    UsidTemplate,
    flow_template,
    usid_container,
)
from hosts.wire.frame import FlowTemplate, parse
from hosts.wire.headers import Erth, Neth, Peth

MACS = ("02:00:00:00:00:01", "02:00:00:00:00:02")
IPS = ("fd00::1", "fd00::2")
BASE = usid_container(0xFCBB0000, [0x1000, 0x2000, 0x3000])
# plane (EV bits 24-27) into every uSID, uplink (EV bits 0-7) into the second
INSERTS = (*(Insert(24, 4, s) for s in (80, 64, 48)), Insert(0, 8, 68))


def template(segments=0, src=None, **more):
    return EncapTemplate(
        *MACS,
        *IPS,
        encap=UsidEncap(
            UsidTemplate(BASE, INSERTS), (UsidTemplate(BASE[::-1]),) * segments, src=src
        ),
        **more,
    )


def test_usid_container_is_block_usids_zeros():
    assert str(ip_address(usid_container("fcbb:bb01::", [1, 2]))) == "fcbb:bb01:1:2::"
    assert usid_container(0xFCBB0000, []) == bytes.fromhex("fcbb0000") + bytes(12)
    with pytest.raises(ValueError, match="six"):
        usid_container(0, [1] * 7)


def test_the_path_copies_ev_bits_into_the_template():
    path = UsidEncap(UsidTemplate(BASE, INSERTS)).path(0x05ABCD7E)
    assert str(ip_address(path.da)) == "fcbb:0:1005:27e5:3005::"
    assert path.segments == ()


def test_plain_outer_header_byte_by_byte():
    flow = template()
    frame = flow.probe(4, 2, 0x01020304, 17, Peth(9, 77))
    plain = FlowTemplate(*MACS, *IPS).probe(4, 2, 0x01020304, 17, Peth(9, 77))
    outer = frame[14:54]
    assert outer[:4] == plain[14:18]  # class and label of the inner header
    assert int.from_bytes(outer[4:6], "big") == len(plain) - 14
    assert outer[6:8] == bytes((41, 64))
    assert outer[8:24] == plain[22:38]
    assert outer[24:40] == UsidEncap(UsidTemplate(BASE, INSERTS)).path(0x01020304).da
    assert frame[54:] == plain[14:]


def test_srh_has_one_segment_and_costs_24_bytes():
    bare, routed = template(), template(1, src=bytes(15) + b"\7")
    a = bare.probe(4, 2, 5, 17, Peth(9, 77))
    b = routed.probe(4, 2, 5, 17, Peth(9, 77))
    assert len(b) == len(a) + 24
    assert b[20] == 43
    assert b[22:38] == bytes(15) + b"\7"
    assert b[54:62] == bytes((41, 2, 4, 1, 0, 0, 0, 0))
    assert b[62:78] == BASE[::-1]
    assert int.from_bytes(b[18:20], "big") == len(b) - 54
    assert b[78:] == a[54:]


@given(
    ev=st.integers(0, 2**32 - 1),
    size=st.integers(0, 300),
    segments=st.integers(0, 2),
    packing=st.sampled_from([EvPacking.LABEL_HIGH, EvPacking.SPORT_HIGH]),
    imm=st.none() | st.integers(0, 2**32 - 1),
)
def test_the_receiver_sees_the_inner_packet(ev, size, segments, packing, imm):
    flow = template(segments, packing=packing)
    opcode = Opcode.WRITE_ONLY if imm is None else Opcode.WRITE_ONLY_IMM
    payload = bytes(range(256)) * 2
    frame = flow.data(
        opcode, 4, 2, ev, 17, 99, 1, 0, 0, 3, 55, 1 << 40, 6, size, payload[:size], imm
    )
    packet = parse(frame, packing)
    assert packet.icrc_ok()
    assert (packet.ev, packet.psn, packet.dqp, packet.imm) == (ev, 99, 17, imm)
    assert bytes(packet.payload) == payload[:size]
    assert packet.dst_ip == ip_address(IPS[1]).packed
    assert packet.udp_length == len(frame) - packet.udp_offset  # nominal size ignores SRv6


def test_every_builder_is_encapsulated():
    flow = template(1)
    frames = [
        flow.sack(46, 1, 17, 0, 0, 0, 0, 1, 2, 3, 4, 0, 1, 5, 6, 0, 0, 0, 7),
        flow.nack(46, 1, 17, Neth(1, 1, 2, 3)),
        flow.endpoint_request(46, 0, 1, 8, Erth(1, 0, 5)),
    ]
    for frame in frames:
        assert frame[20] == 43
        assert parse(frame).icrc_ok()


def test_marks_and_trims_on_the_outer_header_count():
    frame = bytearray(template().data(0xC7, 4, 2, 1, 17, 9, 0, 0, 0, 0, 1, 2, 3, 64, bytes(64)))
    tc = 12 << 2 | 3
    frame[14], frame[15] = 0x60 | tc >> 4, (tc & 15) << 4
    packet = parse(frame)
    assert (packet.dscp, packet.ecn) == (12, 3)
    assert packet.icrc_ok()  # the inner packet is untouched


def test_a_mark_on_the_inner_header_survives():
    frame = bytearray(template().data(0xC7, 4, 2, 1, 17, 9, 0, 0, 0, 0, 1, 2, 3, 64, bytes(64)))
    tc = 4 << 2 | 3
    frame[54], frame[55] = 0x60 | tc >> 4, (tc & 15) << 4
    assert parse(frame).ecn == 3


def test_table_paths():
    paths = {7: SrPath(BASE), 9: SrPath(BASE[::-1], (BASE,))}
    table = TableEncap(paths)
    assert table.path(9) == paths[9]
    assert table.path(1000) in paths.values()
    with pytest.raises(ValueError, match="empty"):
        TableEncap({})
    with pytest.raises(ValueError, match="IPv6"):
        TableEncap({1: SrPath(b"1234")})


def test_flow_template_chooses_and_refuses():
    assert type(flow_template(*MACS, *IPS)) is FlowTemplate
    encap = UsidEncap(UsidTemplate(BASE))
    assert type(flow_template(*MACS, *IPS, encap=encap)) is EncapTemplate
    with pytest.raises(ValueError, match="IPv4"):
        flow_template(*MACS, "10.0.0.1", "10.0.0.2", encap=encap)
    with pytest.raises(ValueError, match="32 bits"):
        UsidTemplate(BASE, (Insert(30, 4, 0),))
    with pytest.raises(ValueError, match="128 bits"):
        UsidTemplate(BASE, (Insert(0, 4, 126),))
