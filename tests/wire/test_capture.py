"""Hex text, captures in, captures out."""

from __future__ import annotations

import io
import struct
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
    with pytest.raises(CaptureError, match=r"y\.pcap: ends in the middle of packet 1"):
        list(read_capture(path))
    wrpcap(str(path), [Ether() / ARP()])
    path.write_bytes(path.read_bytes() + b"half a record")
    with pytest.raises(CaptureError, match=r"y\.pcap: ends in the middle of packet 2"):
        list(read_capture(path))


def block(order: str, kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) & 3)
    size = len(body) + 12
    return struct.pack(order + "II", kind, size) + body + struct.pack(order + "I", size)


def section(order: str, *interfaces: tuple[int, int, int | None]) -> bytes:
    """Section header, and interfaces of (link type, snap length, resolution)."""
    head = struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1)
    out = block(order, 0x0A0D0D0A, head)
    for linktype, snaplen, resolution in interfaces:
        body = struct.pack(order + "HHI", linktype, 0, snaplen)
        body += struct.pack(order + "HH4s", 2, 4, b"nic0")
        if resolution is not None:
            body += struct.pack(order + "HHB3xHH", 9, 1, resolution, 0, 0)
        out += block(order, 1, body)
    return out


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(
    ("resolution", "ticks"), [(None, 10**6), (6, 10**6), (9, 10**9), (0x80 | 20, 1 << 20)]
)
def test_pcapng_by_hand(tmp_path: Path, order: str, resolution: int | None, ticks: int) -> None:
    """Both byte orders, three interfaces of two kinds, resolutions, a foreign block, two
    sections, snap length."""
    out = section(order, (1, 0, resolution), (101, 0, resolution), (1, 80, resolution))
    out += block(order, 0xBAD, b"nobody knows")
    stamp = 1_700_000_000 * ticks + ticks // 2
    frame = FRAMES[0]
    for interface, data in ((0, frame), (1, frame[14:]), (2, frame[:80])):
        whole = len(frame[14:] if interface == 1 else frame)
        head = (interface, stamp >> 32, stamp & 0xFFFFFFFF, len(data), whole)
        body = struct.pack(order + "IIIII", *head) + data + bytes(-len(data) & 3)
        out += block(order, 6, body + struct.pack(order + "HH4sHH", 1, 4, b"lost", 0, 0))
    path = tmp_path / "x.pcapng"
    path.write_bytes(out + section("<", (1, 0, None)) + block("<", 3, b"\x02\0\0\0ab"))
    *found, last = read_capture(path)
    assert [item.data for item in found] == [frame, frame[14:], frame[:80]]
    assert [item.start for item in found] == ["frame", "ip", "frame"]
    assert {item.time_ns for item in found} == {1_700_000_000_500_000_000}
    assert {item.interface for item in found} == {"nic0"}
    assert [item.wire_length - item.kept for item in found] == [0, 0, len(frame) - 80]
    assert (last.data, last.time_ns) == (b"ab", None)


@pytest.mark.parametrize("snaplen", [0, 100])
def test_simple_packet_blocks(tmp_path: Path, snaplen: int) -> None:
    frame = FRAMES[0]
    kept = frame[: snaplen or None]
    path = tmp_path / "x.pcapng"
    body = struct.pack("<I", len(frame)) + kept
    path.write_bytes(section("<", (1, snaplen, None)) + block("<", 3, body))
    (item,) = read_capture(path)
    assert (item.data, item.wire_length, item.kept) == (kept, len(frame), len(kept))


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("magic", [0xA1B2C3D4, 0xA1B23C4D])
def test_pcap_by_hand(tmp_path: Path, order: str, magic: int) -> None:
    frame = FRAMES[0]
    path = tmp_path / "x.pcap"
    linktype = 1 | 0x54000000  # frames end with four bytes of check sequence
    path.write_bytes(
        struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 70, linktype)
        + struct.pack(order + "IIII", 9, 123456, 70, len(frame))
        + frame[:70]
    )
    (item,) = read_capture(path)
    assert (item.data, item.start) == (frame[:70], "frame")
    assert (item.wire_length, item.kept) == (len(frame), 70)
    assert item.time_ns == 9 * 10**9 + 123456 * (1 if magic == 0xA1B23C4D else 1000)


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
