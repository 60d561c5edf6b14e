"""./lab decode and ./lab encode as commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from scapy.layers.l2 import ARP, Ether
from scapy.utils import wrpcap

from hosts.capture.reader import read_capture
from hosts.capture.writer import PcapngWriter
from mrclab.commands.decode import decode_command, encode_command
from mrclab.errors import UserError
from tests.wire.test_parse import FRAMES

DATA, SACK = FRAMES[0], FRAMES[3]


def decode(*arguments: str, text: str = "") -> Result:
    done = CliRunner().invoke(decode_command, list(arguments), input=text, standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done


def encode(text: str, *arguments: str) -> Result:
    done = CliRunner().invoke(encode_command, list(arguments), input=text, standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done


def test_every_start_and_back() -> None:
    for start, skip in (("frame", 0), ("ip", 14), ("bth", 62)):
        for frame in FRAMES:
            raw = frame[skip:].hex()
            done = decode("--from", start, "--json", raw)
            assert "bth" in json.loads(done.stdout)
            assert encode(done.stdout).stdout.strip() == raw


def test_bth_with_and_without_icrc() -> None:
    middle = bytearray(DATA[62:])
    middle[0] = 0xC7
    del middle[36:]  # BTH, METH, TSETH, RETH; then one PMTU and an iCRC
    middle += bytes(1024 + 4)
    # A Middle of a length that is no PMTU tells nothing.
    from_bth = [f[62:] for f in FRAMES if f[62] >> 5 == 6 and f[62] != 0xC7]
    for whole in (bytes(middle), *from_bth):
        for end in (None, -4):
            raw = whole[:end].hex()
            packet = json.loads(decode("--from", "bth", "--json", raw).stdout)
            assert packet["problems"] == []
            assert (packet["icrc"] is None) == (end is not None), raw
            assert packet["icrc_ok"] is None
            assert encode(json.dumps(packet)).stdout.strip() == raw


def test_text_names_values_and_fits_80_columns() -> None:
    done = decode(*(frame.hex() for frame in FRAMES))
    assert "opcode=0xdc(SACK)" in done.stdout
    assert f"{len(FRAMES)} packets, 0 with problems" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_check_exits_1_on_a_bad_icrc() -> None:
    bad = DATA[:-1] + bytes([DATA[-1] ^ 1])
    done = decode("--check", bad.hex())
    assert done.return_value == 1
    assert "WRONG" in done.stdout
    assert decode("--check", DATA.hex()).return_value == 0


def test_a_capture_without_what_is_not_mrc(tmp_path: Path) -> None:
    path = tmp_path / "x.pcap"
    wrpcap(str(path), [Ether() / ARP(), Ether(DATA), Ether(SACK)])
    done = decode("--json", str(path))
    packets = [json.loads(line) for line in done.stdout.splitlines()]
    assert [p["bth"]["psn"] for p in packets] == [
        json.loads(decode("--json", f.hex()).stdout)["bth"]["psn"] for f in (DATA, SACK)
    ]
    assert packets[0]["capture"]["number"] == 2
    assert "1 packets that are not MRC" in done.stderr
    assert len(decode("--json", "--all", str(path)).stdout.splitlines()) == 3
    out = tmp_path / "y.pcapng"
    encode(done.stdout, "--pcap", str(out))
    assert [item.data for item in read_capture(out)] == [DATA, SACK]


def test_standard_input() -> None:
    done = decode("--json", "-", text=f"{DATA.hex()}\n# SACK\n{SACK.hex()}\n")
    assert len(done.stdout.splitlines()) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["zz"], "zz: 'z' is not a hex digit"),
        (["abc"], "half"),
        (["nowhere.pcap"], "no such file"),
        (["f" * 5001], "ffff"),
        (["-"], "no packet"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        decode(*arguments)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "standard input:1:2"),
        ("[1]", "item 1: a packet is an object"),
        ('{"bth": {"opcode": 999}}', "standard input:1: bth.opcode: 999 does not fit"),
        ('{"bth": {"opcode": 220}}', "seth: missing"),
        ("", "no packet"),
        ("{}", "no header in it"),
        ('{"bth": {"opcode": "x"}}', "bth.opcode: 'x' is not an integer"),
        ('{"bth": {"opcode": 202}, "payload": "xy"}', "payload: not hexadecimal"),
        ("[" * 100_000, "standard input:1"),
    ],
)
def test_bad_json_is_one_line(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        encode(text)
    assert "\n" not in str(caught.value)


def test_a_capture_that_kept_the_headers(tmp_path: Path) -> None:
    """Snap length: told beside the packet, no problem of it, and kept by encode."""
    path, out = tmp_path / "x.pcapng", tmp_path / "y.pcapng"
    with path.open("wb") as file:
        writer = PcapngWriter(file)
        writer.packet(writer.interface("nic"), 5, DATA[:100], wire_length=len(DATA))
    done = decode("--check", "--json", str(path))
    assert done.return_value == 0
    packet = json.loads(done.stdout)
    assert (packet["capture"]["kept"], packet["capture"]["length"]) == (100, len(DATA))
    assert f"(100 of {len(DATA)} bytes kept)" in decode(str(path)).stdout
    encode(done.stdout, "--pcap", str(out))
    (item,) = read_capture(out)
    assert (item.data, item.wire_length) == (DATA[:100], len(DATA))


def test_interop_names_the_code_points_of_trims() -> None:
    """DSCP 9 means trimmed in one profile only; the packing is the profile's too."""
    packet = json.loads(decode("--json", DATA.hex()).stdout)
    packet["ipv6"]["dscp"] = 9
    cut = encode(json.dumps(packet)).stdout.strip()[:200]
    assert "bytes there" in json.loads(decode("--json", cut).stdout)["problems"][0]
    assert json.loads(decode("--json", "--interop", "simulator", cut).stdout)["problems"] == []
    swapped = json.loads(decode("--json", "--interop", "emulator-structured", cut).stdout)["ev"]
    assert swapped == (packet["ev"] & 0xFFFF) << 16 | packet["ev"] >> 16
    assert "dscp=9(TRIMMED)" in decode("--interop", "simulator", cut).stdout
    with pytest.raises(UserError, match="--interop: interop 'nobody': unknown; known: reference"):
        decode("--interop", "nobody", cut)
