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
SACK_OF: dict[str, Any] = {"bth": {"opcode": 0xDC}, "cc_state": {}}


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
        (DATA[:90], "udp: length 112, but only 36 bytes there"),
        (DATA[:50], "ipv6: 40 bytes needed"),
        (changed(DATA, 13, 6), "eth: type 0x8606"),
        (changed(FRAMES[9], 24, 1), "ipv4: bad header checksum"),
        (b"", "eth: 14 bytes needed, 0 left"),
    ],
)
def test_problems(frame: bytes, problem: str) -> None:
    assert any(problem in line for line in decode(frame)["problems"]), decode(frame)["problems"]
    assert encode(json.loads(json.dumps(decode(frame)))) == frame


def sack(**changes: int) -> bytes:
    """SACK with fields of its headers replaced, iCRC right."""
    packet = decode(SACK)
    for name, value in changes.items():
        header, field = name.split("__")
        packet[header][field] = value
    del packet["icrc"]
    return encode(packet)


def only(payload: bytes, dmalen: int, opcode: int = 0xCA, **bth: int) -> bytes:
    packet = decode(DATA)
    packet["bth"] |= {"opcode": opcode, **bth}
    packet["reth"]["dmalen"] = dmalen
    packet["payload"] = payload.hex()
    for key in ("icrc", "pad_bytes"):
        packet.pop(key, None)
    del packet["bth"]["pad"], packet["ipv6"]["payload_length"], packet["udp"]["length"]
    return encode(packet)


@pytest.mark.parametrize(
    ("frame", "problem"),
    [
        (sack(seth__type=1), "seth: type is 1, not 0"),
        (sack(seth__nxt=9), "seth: nxt is 9, not 0"),
        (sack(seth__cc_type=1), "seth: cc_type is 1, not 0"),
        (sack(seth__cc_flags=8), "seth: cc_flags is 8, not 0"),
        (sack(seth__res3=255), "seth: reserved bits res3 = 0xff"),
        (sack(cc_state__res=1), "cc_state: reserved bits res = 0x1"),
        (sack(seth__cack_psn=99), "bth: psn 3 is not seth.cack_psn 99"),
        (sack(bth__dqp=2), "bth: dqp 0x000002 is for endpoint operations"),
        (sack(bth__ts=1), "bth: ts is 1, but opcode 0xdc has no TSETH"),
        (sack(bth__r=1), "bth: r is 1, not 0"),
        (sack(bth__inv_res=3), "bth: inv_res is 3, not 0"),
        (only(b"hello", 6), "reth: dmalen 6 does not fit 5 payload bytes in a WRITE_ONLY"),
        (only(b"", 0), "reth: dmalen is 0"),
        (only(b"hello", 5, 0xC6), "reth: dmalen 5 does not fit 5 payload bytes in a WRITE_FIRST"),
        (only(b"", 5, 0xC8), "reth: dmalen 5 does not fit 0 payload bytes in a WRITE_LAST"),
        (only(b"hello", 5, dqp=2), "bth: dqp 0x000002 is for endpoint operations"),
    ],
)
def test_contradictions_are_problems(frame: bytes, problem: str) -> None:
    got = decode(frame)
    assert [line for line in got["problems"] if line.startswith(problem)] == got["problems"]
    assert got["icrc_ok"] is True
    assert encode(json.loads(json.dumps(got))) == frame


def test_bytes_beyond_the_headers_are_covered_and_told() -> None:
    packet = decode(SACK)
    packet["payload"] = "0102030405060708"
    for where, name in (("ipv6", "payload_length"), ("udp", "length")):
        packet[where][name] += 8
    del packet["icrc"]
    got = decode(encode(packet))
    assert got["problems"] == ["length: 8 bytes more than the opcode's headers"]
    assert (got["payload"], got["icrc_ok"]) == ("0102030405060708", True)


def test_what_the_capture_did_not_keep_is_no_problem() -> None:
    for frame in (DATA, srv6_frame()):
        for kept in range(len(frame)):
            got = decode(frame[:kept], size=len(frame))
            assert (got["problems"], got.get("icrc_ok")) == ([], None)
            assert encode(got) == frame[:kept]
        assert decode(frame[:-1], size=len(frame) - 1)["problems"] != []


def test_an_unknown_opcode_still_has_an_icrc() -> None:
    packet = decode(DATA)
    del packet["icrc"]
    packet["bth"]["opcode"] = 0xDF
    for key in ("meth", "tseth", "reth"):
        del packet[key]
    got = decode(encode(packet | {"payload": "00" * 88}))
    assert got["problems"] == [
        "bth: unknown opcode 0xdf",
        "bth: ts is 1, but opcode 0xdf has no TSETH",
    ]
    assert got["icrc_ok"] is True


def test_trailing_bytes_are_no_problem() -> None:
    """A frame check sequence, or Ethernet padding, also behind SRv6."""
    for frame in (DATA, srv6_frame()):
        got = decode(frame + b"\x11\x22\x33\x44")
        assert (got["problems"], got["rest"], got["icrc_ok"]) == ([], "11223344", True)


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
    # Any dmalen and dqp are drawn; some contradict the rest.
    drawn = ("reth: dmalen", "bth: dqp")
    assert [line for line in got["problems"] if not line.startswith(drawn)] == []
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
    if packet is not None and packet.known and packet.icrc_ok():
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
        ({"bth": {"opcode": 0xCA}, "payload": "zz"}, "payload: not hexadecimal"),
        ({"bht": {}}, "bht: unknown key; known: eth, vlan"),
        ({"ipv6": {"dscp": 64, "src": "::", "dst": "::"}}, "ipv6.dscp: 64 does not fit 6 bits"),
        ({"ipv6": {"label": 1, "src": "::", "dst": "::"}}, "ipv6.label: unknown field"),
        ({"udp": {"sport": True}}, "udp.sport: True is not an integer"),
        ({"eth": {}, "vlan": [{"vid": 4096}]}, "vlan.vid: 4096 does not fit 12 bits"),
        ({"vlan": [{}], "bth": {"opcode": 0xD1}, "aeth": {}}, "vlan: no eth to carry it"),
        ({"eth": {}, "vlan": 5}, "vlan: 5 is not an object"),
        ({"ipv4": {}, "ipv6": {}}, "ipv4: beside IPv6"),
        ({"ev": 1 << 32}, "ev: 4294967296 does not fit 32 bits"),
        ({"icrc": -1}, "icrc: -1 does not fit 32 bits"),
        ({"bth": []}, "bth: .* is not an object"),
        ({"payload": 5}, "payload: 5 is not text"),
        (SACK_OF | {"seth": {"probe_id": 5}}, "seth.probe_id: only with pr = 1"),
        (SACK_OF | {"seth": {"pr": 1, "probe_id": 1 << 16}}, "seth.probe_id: 65536 does not fit"),
        (
            SACK_OF | {"seth": {"pr": 1, "probe_id": 5, "ack_psn_offset": 6}},
            "seth.probe_id 5 and seth.ack_psn_offset 6 are the same 16 bits",
        ),
    ],
)
def test_encode_says_what_is_wrong(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(EncodeError, match=message):
        encode(fields)
