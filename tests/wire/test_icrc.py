"""iCRC against Scapy's own RoCEv2 layer, an implementation that is not ours."""

import struct
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given, settings
from scapy.contrib import roce
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Raw

from hosts.wire.constants import EvPacking
from hosts.wire.icrc import MaskDelta, icrc_ip
from tests.wire.samples import ADDRESSES, DataSample, data_samples


def outside(sample: DataSample, after_bth: bytes, frame: bytes) -> bytes:
    """The packet of `sample` as Scapy's RoCE layer would end it: from IP to iCRC."""
    args = sample.args
    src, dst = ADDRESSES[sample.version]
    sport = int.from_bytes(frame[-len(after_bth) - 24 :][:2], "big")
    tc = args["dscp"] << 2 | args["ecn"]
    label = int.from_bytes(frame[14:18], "big") & 0xFFFFF
    ip = (
        IPv6(src=src, dst=dst, tc=tc, fl=label, hlim=64)
        if sample.version == 6
        else IP(src=src, dst=dst, tos=tc, ttl=64, id=0, flags="DF")
    )
    bth = roce.BTH(
        opcode=args["opcode"],
        padcount=-len(args["payload"]) & 3,
        dqpn=args["dqp"],
        ackreq=args["a"],
        resv7=args["rtx"] << 5 | (args["tx_timestamp"] is not None) << 4,
        psn=args["psn"],
    )
    return bytes(ip / UDP(sport=sport, dport=sample.port, chksum=0) / bth / Raw(after_bth))


@settings(max_examples=60, deadline=None)
@given(sample=data_samples())
def test_equal_to_scapy_roce(sample: DataSample) -> None:
    frame = sample.build()
    bth = frame.index(bytes((sample.args["opcode"],)), 14 + (48 if sample.version == 6 else 28))
    after_bth = frame[bth + 12 : -4]
    assert outside(sample, after_bth, frame) == frame[14:]


def test_by_the_definition() -> None:
    """One IPv6 packet, the covered bytes written out."""
    ip = bytes.fromhex("6ab12345 0018 11 40") + bytes(range(32))
    udp = bytes.fromhex("1234 12b7 0018 5555")
    bth = bytes.fromhex("d1 00 ffff 99 000011 00 000001")
    covered = (
        b"\xff" * 8
        + bytes.fromhex("6fffffff 0018 11 ff")
        + bytes(range(32))
        + bytes.fromhex("1234 12b7 0018 ffff")
        + bytes.fromhex("d1 00 ffff ff 000011 00 000001")
    )
    packet = b"junk" + ip + udp + bth
    assert icrc_ip(packet, 4, 44, len(packet)) == crc32(covered)


@pytest.mark.parametrize("length", [13, 20, 60, 4164])
def test_mask_delta(length: int) -> None:
    tail = bytes((i * 7 + 1) & 0xFF for i in range(length))
    plain = tail[:6] + b"\0\0" + tail[8:12] + b"\0" + tail[13:]
    ones = tail[:6] + b"\xff\xff" + tail[8:12] + b"\xff" + tail[13:]
    assert crc32(plain, 77) ^ MaskDelta.of(length) == crc32(ones, 77)


def test_mutable_fields_do_not_matter_and_others_do() -> None:
    frame = bytearray(DataSample(6, EvPacking.LABEL_HIGH, 4791, _args()).build())
    end = len(frame) - 4
    right = struct.unpack("<I", frame[end:])[0]
    mutable = {14, 15, 16, 17, 21, 60, 61, 66}  # tc, label, hop limit, UDP checksum, var_res
    for at in range(14, end):
        changed = bytearray(frame)
        changed[at] ^= 0x0F if at == 14 else 0xFF
        assert (icrc_ip(changed, 14, 54, end) == right) == (at in mutable), at


def _args() -> dict[str, Any]:
    return {
        "opcode": 0xCA,
        "dscp": 4,
        "ecn": 2,
        "ev": 0x00010002,
        "dqp": 17,
        "psn": 3,
        "a": 1,
        "rtx": 0,
        "rqmsn": 0,
        "msn": 1,
        "tx_timestamp": 9,
        "va": 0x1000,
        "r_key": 5,
        "dmalen": 5,
        "payload": b"hello",
    }
