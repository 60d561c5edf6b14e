"""Bytes from a codec that shares nothing with ours: written bit by bit from the reference.

`golden.jsonl` holds one packet a line: what it is, its bytes, the EV packing, and the fields by
the reference's names (section 1 and 2). Every reader and writer of the project meets them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hosts.wire.constants import EvPacking
from hosts.wire.decode import HEADERS, decode
from hosts.wire.encode import encode
from hosts.wire.frame import parse
from hosts.wire.show import lines

GOLDEN: list[dict[str, Any]] = [
    json.loads(line) for line in Path(__file__).with_name("golden.jsonl").read_text().splitlines()
]
WHOLE = [g for g in GOLDEN if g["fields"]["icrc_ok"] and "vlan" not in g["fields"]]


def name(golden: dict[str, Any]) -> str:
    return str(golden["what"]).replace(" ", "-")


def packing(golden: dict[str, Any]) -> EvPacking:
    return EvPacking[golden["packing"].upper().replace("-", "_")]


@pytest.mark.parametrize("golden", GOLDEN, ids=name)
def test_decode_and_encode(golden: dict[str, Any]) -> None:
    frame = bytes.fromhex(golden["hex"])
    got = decode(frame, packing=packing(golden))
    assert got["problems"] == []
    assert {key: got.get(key) for key in golden["fields"]} == golden["fields"]
    assert {key for key in got if key in HEADERS} == {k for k in golden["fields"] if k in HEADERS}
    assert encode(json.loads(json.dumps(got)), packing=packing(golden)) == frame
    assert all(len(row) <= 80 for text in lines(got) for row in text.splitlines())


@pytest.mark.parametrize("golden", WHOLE, ids=name)
def test_encode_completes_what_is_left_out(golden: dict[str, Any]) -> None:
    frame = bytes.fromhex(golden["hex"])
    got = decode(frame, packing=packing(golden))
    for key in ("icrc", "icrc_ok", "pad_bytes", "problems"):
        got.pop(key, None)
    for key, left_out in (
        ("eth", ("type",)),
        ("ipv4", ("version", "ihl", "total_length", "protocol", "checksum")),
        ("ipv6", ("version", "payload_length", "next_header", "flow_label")),
        ("outer_ipv6", ("version", "payload_length", "next_header", "flow_label")),
        ("udp", ("sport", "length", "checksum")),
        ("bth", ("pad", "ts", "m", "se", "r", "tver", "var_res", "inv_res", "p_key")),
        ("srh", ("next_header", "hdr_ext_len", "routing_type", "last_entry", "flags", "tag")),
    ):
        for field in left_out:
            got.get(key, {}).pop(field, None)
    assert encode(got, packing=packing(golden)) == frame


@pytest.mark.parametrize("golden", WHOLE, ids=name)
def test_the_endpoint_reads_the_same(golden: dict[str, Any]) -> None:
    packet = parse(bytes.fromhex(golden["hex"]), packing(golden))
    assert packet is not None
    fields = golden["fields"]
    assert packet.icrc_ok()
    assert packet.ev == fields["ev"]
    assert bytes(packet.payload).hex() == fields.get("payload", "")
    for key in ("opcode", "dqp", "psn", "a", "rtx", "ts", "p_key", "tver"):
        assert getattr(packet, key) == fields["bth"][key], key
    for header, wanted in fields.items():
        if header in ("bth", "tseth") or header not in HEADERS:
            continue
        inline = header in ("meth", "reth", "immdt")
        read = packet if inline else getattr(packet, header)
        for key, value in wanted.items():
            assert getattr(read, key) == value, (header, key)
    if "tseth" in fields:
        assert (packet.tx_timestamp, packet.tsr) == (
            fields["tseth"]["tx_timestamp"],
            fields["tseth"]["tsr"],
        )
