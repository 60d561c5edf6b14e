"""Every header against bytes worked out by hand from the reference's tables, and both ways."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosts.wire.decode import HEADERS
from hosts.wire.headers import (
    Aeth,
    Bth,
    CcState,
    Eeth,
    Erth,
    ImmDt,
    Meth,
    Neth,
    Peth,
    Reth,
    Seth,
    Tseth,
)

# Each row: header, its bytes in hex with one group per table row of the reference.
GOLDEN = [
    # opcode CA; m0 se0 pad2 tver0 -> 0010 0000; p_key; var_res; dqp; a1 r0 rtx1 ts1 -> B0; psn
    (Bth(0xCA, 0x000011, 0x0A0B0C, a=1, rtx=1, ts=1, pad=2), "ca 20 ffff 00 000011 b0 0a0b0c"),
    (Bth(0xD8, 2, 0x00BEEF), "d8 00 ffff 00 000002 00 00beef"),
    (
        Bth(0xC6, 1, 2, m=1, se=1, tver=5, r=1, inv_res=9, var_res=7),
        "c6 c5 ffff 07 000001 49 000002",
    ),
    (Meth(rqmsn=0x0102, msn=0x0304), "0102 0304"),
    (Tseth(tx_timestamp=0xABCD), "abcd 0001"),
    (Tseth(tx_timestamp=1, tsr=1, ftype=2, res=0x7FF), "0001 fff2"),
    (
        Reth(va=0x1122334455667788, r_key=0x99AABBCC, dmalen=0xDDEEFF00),
        "1122334455667788 99aabbcc ddeeff00",
    ),
    (ImmDt(imm=0xDEADBEEF), "deadbeef"),
    (Aeth(syndrome=0x1F, msn=0x000102), "1f 000102"),
    (Aeth(syndrome=0x62, msn=0xFFFFFF), "62 ffffff"),
    # type/nxt/m(bits 9-10)/pr(bit 14): m=1 -> 0x0020
    (
        Seth(
            m=1,
            pr=0,
            ack_psn_offset=-2,
            entropy=0x12345678,
            cack_psn=0x0000AA,
            sack_offset=1,
            sack_bitmap=0b1110110,
            mpr=32,
            spdcid=0x0011,
            dpdcid=0x0012,
        ),
        "0020 fffe 12345678 0011 0012 00 0000aa 00 20 0001 0000000000000076",
    ),
    (
        Seth(
            m=2,
            pr=1,
            ack_psn_offset=0xBEEF,
            entropy=0,
            cack_psn=0,
            sack_offset=-1,
            sack_bitmap=1 << 63,
        ),
        "0042 beef 00000000 0000 0000 00 000000 00 00 ffff 8000000000000000",
    ),
    (
        CcState(
            tx_timestamp=0x0102,
            ooo_count=0x7FFE,
            restore_cwnd=1,
            rcv_cwnd_pen=64,
            rcvd_bytes=0x030405,
        ),
        "0102 7ffe c0 030405",
    ),
    # reason, vendor, entropy, ids, res, psn, cc_type 2 flags 0, res, timestamp
    (
        Neth(
            nack_reason=0x01,
            entropy=0xCAFEBABE,
            nack_psn=0x010203,
            tx_timestamp=0x0405,
            spdcid=6,
            dpdcid=7,
        ),
        "0000 01 00 cafebabe 0006 0007 00 010203 20 00 0405",
    ),
    (
        Peth(probe_id=0x1234, tx_timestamp=0x5678, spdcid=1, dpdcid=2, vendor_info=3),
        "0000 00 03 1234 0000 0001 0002 5678 0001",
    ),
    (
        Erth(op=1, port_status_mask=0x00000005, tx_timestamp=0x0A0B, tsr=1),
        "0001 00 00 00000005 00000000 0a0b 8001",
    ),
    (Eeth(op=1, tx_timestamp=0x0C0D), "0004" + "00" * 26 + "0c0d 000000000000"),
]


@pytest.mark.parametrize(("header", "wire"), GOLDEN, ids=lambda v: type(v).__name__)
def test_golden_bytes(header, wire) -> None:
    raw = bytes.fromhex(wire)
    assert header.pack() == raw
    back = type(header).unpack(raw)
    if isinstance(header, Seth) and header.pr:
        assert back.probe_id == header.probe_id == 0xBEEF
    else:
        assert back == header


@pytest.mark.parametrize("key", HEADERS)
@given(data=st.data())
def test_any_bytes_survive_unpack_and_pack(key: str, data: st.DataObject) -> None:
    layout, size, order = HEADERS[key]
    raw = data.draw(st.binary(min_size=size, max_size=size))
    assert layout.unpack(b"xyz" + raw, 3).pack() == raw
    assert set(order) - ({"probe_id"} if key == "seth" else set()) == set(layout._fields)


@pytest.mark.parametrize("key", HEADERS)
def test_short_buffer_is_refused(key: str) -> None:
    layout, size, _ = HEADERS[key]
    with pytest.raises(struct.error):
        layout.unpack(bytes(size - 1))


def test_dissenting_eeth_op_bits_are_readable() -> None:
    assert Eeth.unpack(bytes.fromhex("0010" + "00" * 34)).op_as_5_4 == 1
