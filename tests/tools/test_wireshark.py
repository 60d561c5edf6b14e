"""The Wireshark dissector against `hosts.wire.decode`, packet by packet, through tshark."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6 as Ip6
from scapy.layers.l2 import Ether

from hosts.capture.reader import LINKTYPE_ETHERNET
from hosts.capture.writer import PcapngWriter
from hosts.wire.constants import Opcode
from hosts.wire.decode import HEADERS, decode, headers_after_bth
from hosts.wire.encode import encode
from mrclab import ROOT
from tests.wire.test_golden import GOLDEN
from tests.wire.test_parse import FRAMES

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed"),
]

SCRIPT = ROOT / "tools" / "wireshark" / "mrc.lua"
IPV6 = {"src": "fd00::1", "dst": "fd00::2", "dscp": 4, "ecn": 2}
OUTER = {"src": "fd00::1", "dst": "5f00:0:1:2::", "dscp": 4}
ETH = {"dst": "02:00:00:00:00:02", "src": "02:00:00:00:00:01"}


def random_packet(rng: random.Random, opcode: int, ip: str) -> bytes:
    """A whole frame whose MRC headers are random bits, so that every bit of every field counts."""
    raw = bytes([opcode]) + rng.randbytes(11)
    bth = HEADERS["bth"][0].unpack(raw)._asdict()
    bth.update(tver=0, pad=0)
    packet: dict[str, Any] = {"eth": ETH, "ev": rng.getrandbits(16 if ip == "ipv4" else 32)}
    if ip == "srv6":
        packet["outer_ipv6"] = OUTER
    if ip == "srh":
        packet |= {"outer_ipv6": OUTER, "srh": {"segments": ["5f00:0:3::"], "segments_left": 0}}
    if ip == "ipv4":
        packet["ipv4"] = {"src": "10.0.0.1", "dst": "10.0.0.2", "dscp": 4, "ecn": 2}
    else:
        packet["ipv6"] = IPV6
    packet["bth"] = bth
    for key in headers_after_bth(opcode, bth["ts"]) or ():
        layout, size, _ = HEADERS[key]
        packet[key] = layout.unpack(rng.randbytes(size))._asdict()
        if key == "seth":
            packet[key].pop("probe_id", None)
    if "reth" in packet:
        payload = rng.randbytes(rng.randrange(1, 40))
        packet["payload"] = payload.hex()
        bth["pad"] = -len(payload) % 4
    return encode(packet)


def tshark(path: Path) -> list[dict[str, Any]]:
    done = subprocess.run(
        ["tshark", "-r", str(path), "-X", f"lua_script:{SCRIPT}", "-T", "json"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert "Lua" not in done.stderr, done.stderr
    return [item["_source"]["layers"]["mrc"] for item in json.loads(done.stdout)]


def flat(layer: dict[str, Any]) -> dict[str, str]:
    """abbreviation -> value of a packet, whatever the nesting."""
    out: dict[str, str] = {}
    for key, value in layer.items():
        if isinstance(value, dict):
            out |= flat(value)
        elif key.startswith("mrc."):
            out[key] = value
    return out


def number(text: str) -> int:
    return int(text, 0)


def write(path: Path, frames: list[bytes]) -> None:
    with path.open("wb") as file:
        writer = PcapngWriter(file)
        interface = writer.interface("h0-p0", LINKTYPE_ETHERNET)
        for at, frame in enumerate(frames):
            writer.packet(interface, at * 1000, frame)


def test_every_field_as_decode_has_it(tmp_path: Path) -> None:
    rng = random.Random(1)
    frames = list(FRAMES)
    for opcode in Opcode:
        for ip in ("ipv6", "ipv6", "ipv4", "srv6", "srh"):
            frames += [random_packet(rng, int(opcode), ip) for _ in range(2)]
    path = tmp_path / "all.pcapng"
    write(path, frames)
    layers = tshark(path)
    assert len(layers) == len(frames)
    for frame, layer in zip(frames, layers, strict=True):
        ours, theirs = decode(frame), flat(layer)
        for key in HEADERS.keys() & ours.keys():
            for name, value in ours[key].items():
                if key == "eeth" and name in ("res2", "res3"):
                    continue  # wider than an integer: shown as bytes
                if key == "seth" and name == "ack_psn_offset" and ours[key]["pr"]:
                    continue
                assert number(theirs[f"mrc.{key}.{name}"]) == value, (key, name, frame.hex())
        assert number(theirs["mrc.ev"]) == ours["ev"]
        assert theirs["mrc.icrc_ok"] in ("1", "True", "true"), frame.hex()
        assert ours["icrc_ok"] is True
        if "payload" in ours:
            assert theirs["mrc.payload"].replace(":", "") == ours["payload"]


def test_golden_packets(tmp_path: Path) -> None:
    """Bytes that are not ours, VLAN tags and trims in SRv6 among them."""
    golden = [g for g in GOLDEN if g["packing"] == "label-high"]
    path = tmp_path / "golden.pcapng"
    write(path, [bytes.fromhex(g["hex"]) for g in golden])
    layers = tshark(path)
    assert len(layers) == len(golden)
    for packet, layer in zip(golden, layers, strict=True):
        fields, theirs = packet["fields"], flat(layer)
        for key in HEADERS.keys() & fields.keys():
            for name, value in fields[key].items():
                if key == "seth" and name == "ack_psn_offset" and fields[key]["pr"]:
                    continue
                assert number(theirs[f"mrc.{key}.{name}"]) == value, (key, name, packet["what"])
        assert ("mrc.trimmed" in theirs) == (fields["icrc_ok"] is None), packet["what"]
        assert ("mrc.icrc_ok" in theirs) == (fields["icrc_ok"] is True), packet["what"]
        assert "mrc.bad" not in json.dumps(layer), packet["what"]


def test_problems_are_flagged(tmp_path: Path) -> None:
    data = bytearray(FRAMES[1])
    data[-1] ^= 1
    trimmed = bytearray(FRAMES[0][:110])
    trimmed[14] = 0x60 | 12 >> 2
    trimmed[15] = (12 & 3) << 6
    unknown = bytearray(FRAMES[0])
    unknown[62] = 0xDF
    path = tmp_path / "bad.pcapng"
    write(path, [bytes(data), bytes(trimmed), bytes(unknown)])
    bad, cut, strange = map(json.dumps, tshark(path))
    assert "mrc.bad_icrc" in bad
    assert "mrc.trimmed" in cut
    assert "mrc.bad_length" not in cut
    assert "mrc.bad_opcode" in strange


def test_the_info_column_says_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "info.pcapng"
    write(path, list(FRAMES))
    done = subprocess.run(
        [
            *("tshark", "-r", str(path), "-X", f"lua_script:{SCRIPT}"),
            *("-T", "fields", "-e", "_ws.col.Protocol", "-e", "_ws.col.Info"),
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    lines = done.stdout.splitlines()
    assert all(line.startswith("MRC\t") for line in lines), lines
    assert any("Reliability NACK" in line and "TRIMMED" in line for line in lines)


def protocols(path: Path) -> list[str]:
    done = subprocess.run(
        [
            *("tshark", "-r", str(path), "-X", f"lua_script:{SCRIPT}"),
            *("-T", "fields", "-e", "_ws.col.Protocol"),
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout.split()


def test_a_source_port_of_somebody_else(tmp_path: Path) -> None:
    """The lower half of an EV is the source port, and Wireshark asks the lower port first."""
    packet = {"eth": ETH, "ipv6": IPV6, "bth": {"opcode": int(Opcode.PROBE)}, "peth": {}}
    frames = [encode(packet | {"ev": ev}) for ev in (7, 13, 19, 53, 123, 4789, 4970, 5353)]
    path = tmp_path / "low.pcapng"
    write(path, frames)
    assert protocols(path) == ["MRC"] * len(frames)


def test_their_own_packets_stay_theirs(tmp_path: Path) -> None:
    query = bytes.fromhex("1234 0100 0001 0000 0000 0000 01 61 00 0001 0001")
    ethernet = bytes.fromhex("020000000002 020000000001 86dd")
    frames = [
        bytes(Ether(ethernet) / Ip6(src="fd00::1", dst="fd00::2") / UDP(sport=a, dport=b) / query)
        for a, b in ((53, 40000), (40000, 53))
    ]
    path = tmp_path / "dns.pcapng"
    write(path, frames)
    assert protocols(path) == ["DNS", "DNS"]
