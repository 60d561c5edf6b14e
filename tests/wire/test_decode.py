"""decode names every field; encode gives the same bytes back; neither raises."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet6 import IPv6, IPv6ExtHdrSegmentRouting
from scapy.layers.l2 import Ether

from hosts.wire.decode import Start, decode
from hosts.wire.encode import EncodeError, encode
from hosts.wire.frame import parse
from tests.wire.samples import DataSample, data_samples
from tests.wire.test_parse import FLOW, FRAMES

DATA, SACK = FRAMES[0], FRAMES[3]


def srv6_frame() -> bytes:
    outer = Ether(DATA[:14]) / IPv6(src="fc00::1", dst="fc00:0:1:2::")
    return bytes(outer / IPv6ExtHdrSegmentRouting(addresses=["fc00:0:3::"]) / IPv6(DATA[14:]))


def test_data_frame_in_full() -> None:
    got = decode(FRAMES[1])
    icrc = got.pop("icrc")
    assert icrc == int.from_bytes(FRAMES[1][-4:], "little")
    assert got == {
        "eth": {"dst": "02:00:00:00:00:02", "src": "02:00:00:00:00:01", "type": 0x86DD},
        "ipv6": {
            "version": 6,
            "dscp": 4,
            "ecn": 2,
            "flow_label": 0,
            "payload_length": 60,
            "next_header": 17,
            "hop_limit": 64,
            "src": "fd00:1::1",
            "dst": "fd00:2::2",
        },
        "udp": {"sport": 3, "dport": 4791, "length": 60, "checksum": 0},
        "ev": 3,
        "bth": {
            "opcode": 0xCB,
            "m": 0,
            "se": 0,
            "pad": 3,
            "tver": 0,
            "p_key": 0xFFFF,
            "var_res": 0,
            "dqp": 17,
            "a": 0,
            "r": 0,
            "rtx": 0,
            "ts": 1,
            "inv_res": 0,
            "psn": 9,
        },
        "meth": {"rqmsn": 0, "msn": 1},
        "tseth": {"tx_timestamp": 7, "tsr": 0, "ftype": 1},
        "reth": {"va": 0x1000, "r_key": 3, "dmalen": 5},
        "immdt": {"imm": 7},
        "payload": b"hello".hex(),
        "pad_bytes": "000000",
        "icrc_ok": True,
        "problems": [],
    }


def test_from_ip_and_from_bth() -> None:
    whole = decode(SACK)
    assert decode(SACK[14:], "ip")["seth"] == whole["seth"]
    alone = decode(SACK[62:], "bth")
    assert alone["seth"] == whole["seth"]
    assert (alone["icrc"], alone["icrc_ok"]) == (whole["icrc"], None)
    no_icrc = decode(SACK[62:-4], "bth")
    assert no_icrc["cc_state"] == whole["cc_state"]
    assert (no_icrc["icrc"], no_icrc["problems"]) == (None, [])


def test_probe_id_is_shown_for_pr() -> None:
    frame = FLOW.sack(46, 5, 17, 0, 1, 1, 0xBEEF, 5, 1, 2, 3, 0, 1, 5, 6, 7, 0, 0, 8)
    assert decode(frame)["seth"]["probe_id"] == 0xBEEF
    assert encode(decode(frame)) == frame


def changed(frame: bytes, at: int, value: int) -> bytes:
    return frame[:at] + bytes((value,)) + frame[at + 1 :]


@pytest.mark.parametrize(
    ("frame", "problem"),
    [
        (changed(DATA, 120, 0xEE), "icrc: "),
        (changed(DATA, 59, 5), "udp: length 5, but IP carries"),
        (changed(DATA, 63, 0x01), "bth: tver is 1"),
        (changed(DATA, 62, 0xDF), "bth: unknown opcode 0xdf"),
        (changed(DATA, 62, 0x11), "bth: opcode 0x11 is not MRC's"),
        (changed(DATA, 64, 0), "bth: p_key 0x00ff"),
        (changed(SACK, 75, 0x61), "seth: reserved bits res2 = 0x1"),
        (changed(SACK, 75, 0x60), "seth: m 0x3 is not defined"),
        (changed(DATA, 56, 0), "udp: dport 183 is not an MRC port"),
        (DATA[:90], "captured"),
        (DATA[:50], "ipv6: 40 bytes needed"),
        (changed(DATA, 13, 6), "eth: type 0x8606"),
        (changed(FRAMES[9], 24, 1), "ipv4: bad header checksum"),
        (b"", "eth: 14 bytes needed, 0 left"),
    ],
)
def test_problems(frame: bytes, problem: str) -> None:
    assert any(problem in line for line in decode(frame)["problems"]), decode(frame)["problems"]
    assert encode(json.loads(json.dumps(decode(frame)))) == frame


def test_trimmed_is_no_problem() -> None:
    frame = FLOW.data(0xC7, 12, 2, 5, 17, 9, 0, 0, 0, 1, 7, 0x1000, 3, 8192, bytes(4096))[:128]
    got = decode(frame)
    assert got["problems"] == []
    assert got["reth"]["dmalen"] == 8192
    assert got["icrc_ok"] is None
    assert encode(got) == frame


def test_srv6_with_srh() -> None:
    frame = srv6_frame()
    got = decode(frame)
    assert got["problems"] == []
    assert got["srh"]["segments"] == ["fc00:0:3::"]
    assert got["outer_ipv6"]["dst"] == "fc00:0:1:2::"
    assert got["icrc_ok"] is True
    assert got["ipv6"]["src"] == "fd00:1::1"
    assert encode(got) == frame


@settings(max_examples=60)
@given(sample=data_samples())
def test_good_packets_have_no_problems_and_come_back(sample: DataSample) -> None:
    frame = sample.build()
    got = decode(frame, packing=sample.packing)
    if sample.args["dscp"] not in (12, 16):  # those mean trimmed
        assert got["problems"] == []
        assert got["icrc_ok"] is True
        assert got["payload"] == sample.args["payload"].hex()
    assert got["ev"] == sample.args["ev"]
    assert encode(json.loads(json.dumps(got)), packing=sample.packing) == frame


@settings(max_examples=300)
@given(data=st.data())
def test_any_bytes_come_back(data: st.DataObject) -> None:
    raw = bytearray(data.draw(st.sampled_from([*FRAMES, srv6_frame()])))
    for _ in range(data.draw(st.integers(0, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    start: Start = data.draw(st.sampled_from(("frame", "ip", "bth")))
    raw = raw[{"frame": 0, "ip": 14, "bth": 62}[start] :]
    if data.draw(st.booleans()):
        raw = raw[: data.draw(st.integers(0, len(raw)))]
    wire = bytes(raw)
    got = decode(wire, start)
    assert encode(json.loads(json.dumps(got))) == wire
    packet = parse(wire) if start == "frame" else None
    if packet is not None and packet.known and packet.icrc_ok() and packet.dscp not in (12, 16):
        assert got["icrc_ok"] in (True, False)
        if not any("more than" in line for line in got["problems"]):
            assert got["icrc_ok"] is True


@given(raw=st.binary(max_size=120), start=st.sampled_from(("frame", "ip", "bth")))
def test_random_bytes_come_back(raw: bytes, start: Start) -> None:
    assert encode(decode(raw, start)) == raw


def test_written_by_hand_is_completed() -> None:
    frame = encode(
        {
            "eth": {"src": "02:00:00:00:00:01", "dst": "02:00:00:00:00:02"},
            "ipv6": {"src": "fd00:1::1", "dst": "fd00:2::2", "dscp": 4, "ecn": 2},
            "ev": 3,
            "bth": {"opcode": 0xCB, "dqp": 17, "psn": 9},
            "meth": {"msn": 1},
            "tseth": {"tx_timestamp": 7},
            "reth": {"va": 0x1000, "r_key": 3, "dmalen": 5},
            "immdt": {"imm": 7},
            "payload": b"hello".hex(),
        }
    )
    assert frame == FRAMES[1]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"bth": {"opcod": 1}}, "bth.opcod: unknown field"),
        ({"bth": {"opcode": 0xD1, "psn": 1 << 24}, "aeth": {}}, "bth.psn: 16777216 does not fit"),
        ({"bth": {"opcode": 0xD1, "psn": "1"}, "aeth": {}}, "bth.psn: '1' is not an integer"),
        ({"bth": {"opcode": 0xDC}}, "seth: missing for opcode 0xdc"),
        ({"udp": {}}, "udp: no ipv6 or ipv4"),
        ({"ipv6": {"src": "nowhere", "dst": "::"}}, "nowhere"),
        ({"bth": {"opcode": 0xCA}, "payload": "zz"}, "packet: "),
    ],
)
def test_encode_says_what_is_wrong(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(EncodeError, match=message):
        encode(fields)
