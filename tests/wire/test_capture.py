"""Hex text, captures in, captures out."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Ether
from scapy.utils import PcapWriter, wrpcap

from hosts.capture.hextext import HexTextError, parse_hex, parse_packets
from hosts.capture.reader import CaptureError, is_capture, read_capture
from hosts.capture.writer import INBOUND, LINKTYPE_RAW, PcapngWriter
from tests.wire.test_parse import FRAMES


@pytest.mark.parametrize("text", ["0xdc00FF", "dc 00 ff", "dc:00:ff", "DC-00-ff\n", " dc_00_ff"])
def test_hex_in_every_dress(text: str) -> None:
    assert parse_hex(text) == b"\xdc\x00\xff"


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "no hex digits"), ("abc", "half"), ("abxz", "'x' is not a hex digit")],
)
def test_hex_that_is_none(text: str, message: str) -> None:
    with pytest.raises(HexTextError, match=message):
        parse_hex(text)


def xxd(data: bytes) -> str:
    rows = []
    for at in range(0, len(data), 16):
        row = data[at : at + 16]
        words = " ".join(row[i : i + 2].hex() for i in range(0, len(row), 2))
        ascii_column = "".join(chr(b) if 32 <= b < 127 else "." for b in row)
        rows.append(f"{at:08x}: {words:<39}  {ascii_column}")
    return "\n".join(rows)


def tcpdump_xx(data: bytes) -> str:
    rows = ["12:00:00.000000 IP6 fd00::1.3 > fd00::2.4791: UDP, length 52"]
    for at in range(0, len(data), 16):
        row = data[at : at + 16]
        words = " ".join(row[i : i + 2].hex() for i in range(0, len(row), 2))
        rows.append(f"\t0x{at:04x}:  {words}")
    return "\n".join(rows)


@given(st.lists(st.binary(min_size=1, max_size=80), min_size=1, max_size=4))
def test_dumps_and_plain_lines(packets: list[bytes]) -> None:
    for write in (xxd, tcpdump_xx):
        text = "# a comment\n\n" + "\n".join(map(write, packets))
        assert [data for _, data in parse_packets(text)] == packets
    plain = "\n".join(p.hex() for p in packets)
    assert parse_packets(plain) == list(enumerate(packets, 1))


def test_a_wrong_line_is_named() -> None:
    with pytest.raises(HexTextError, match="line 2: 'z'"):
        parse_packets("dc00\nzz\n")


def test_pcap_of_either_resolution(tmp_path: Path) -> None:
    for nano in (False, True):
        path = tmp_path / f"{nano}.pcap"
        with PcapWriter(str(path), nano=nano) as writer:
            for number, frame in enumerate(FRAMES):
                packet = Ether(frame)
                packet.time = 1_700_000_000 + number
                writer.write(packet)
        assert is_capture(path.read_bytes()[:4])
        found = list(read_capture(path))
        assert [item.data for item in found] == list(FRAMES)
        assert [item.time_ns for item in found] == [
            (1_700_000_000 + i) * 10**9 for i in range(len(FRAMES))
        ]
        assert {item.start for item in found} == {"frame"}


def test_cooked_and_raw_captures(tmp_path: Path) -> None:
    ip = FRAMES[0][14:]
    sll2 = b"\x86\xdd" + bytes(18) + ip
    for linktype, data, start in (
        (101, ip, "ip"),
        (276, sll2, "ip"),
        (276, b"\x08\x06" + bytes(18), None),
        (113, bytes(14) + b"\x86\xdd" + ip, "ip"),
        (147, b"what", None),
    ):
        path = tmp_path / "x.pcap"
        with PcapWriter(str(path), linktype=linktype) as writer:
            writer.write_header(None)
            writer.write_packet(data, sec=1, usec=0)
        (item,) = read_capture(path)
        assert item.start == start
        if start:
            assert item.data == ip


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.pcapng"
    path.write_bytes(b"\x0a\x0d\x0d\x0a nothing more")
    with pytest.raises(CaptureError, match=r"x\.pcapng: not a readable"):
        list(read_capture(path))
    path = tmp_path / "y.pcap"
    wrpcap(str(path), [Ether() / ARP()])
    path.write_bytes(path.read_bytes()[:-5])
    assert len(list(read_capture(path))) <= 1  # cut in the last packet: no traceback


def test_what_the_writer_writes_is_read() -> None:
    out = io.BytesIO()
    writer = PcapngWriter(out, comment="seed 1")
    writer.names({"fd00::1": "h0", "10.0.0.1": "h0-v4"})
    first = writer.interface("h0-p0", description="NIC port 1 of h0")
    assert writer.interface("h0-p0") == first
    raw = writer.interface("tun", LINKTYPE_RAW)
    writer.packet(first, 1_700_000_000_123_456_789, FRAMES[0], direction=INBOUND, comment="lost")
    writer.packet(raw, 5, bytes(IPv6())[:20], wire_length=40)
    path = Path("/dev/null")  # scapy wants a name; the bytes come from the file object
    assert path.exists()
    from scapy.utils import RawPcapNgReader

    out.seek(0)
    reader = RawPcapNgReader.__new__(RawPcapNgReader)
    reader.__init__("mem", fdesc=out, magic=out.read(4))  # type: ignore[misc]
    (one, meta), (two, meta2) = list(reader)
    assert one == FRAMES[0]
    assert (meta.tshigh << 32 | meta.tslow) == 1_700_000_000_123_456_789
    assert meta.tsresol == 10**9
    assert meta.ifname in (b"h0-p0", "h0-p0")
    assert meta.comments in (b"lost", [b"lost"])
    assert (len(two), meta2.wirelen, meta2.linktype) == (20, 40, LINKTYPE_RAW)
