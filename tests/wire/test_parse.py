"""parse survives any bytes and says what is wrong with them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hosts.wire.constants import EvPacking, Opcode
from hosts.wire.entropy import join_ev, split_ev
from hosts.wire.frame import FlowTemplate, Packet, parse
from hosts.wire.headers import Aeth, Eeth, Erth, Neth, Peth
from tests.wire.samples import DataSample, data_samples, template

FLOW = template()
FRAMES = [
    FLOW.data(0xC7, 4, 2, 0x00010002, 17, 9, 0, 0, 0, 1, 7, 0x1000, 3, 8192, bytes(64)),
    FLOW.data(0xCB, 4, 2, 3, 17, 9, 0, 0, 0, 1, 7, 0x1000, 3, 5, b"hello", imm=7),
    FLOW.data(0xCA, 4, 2, 3, 17, 9, 0, 0, 0, 1, None, 0x1000, 3, 5, b"hello"),
    FLOW.sack(46, 5, 17, 0, 1, 0, -1, 5, 1, 2, 3, 0, 1, 5, 6, 7, 0, 0, 8),
    FLOW.nack(46, 5, 17, Neth(1, 2, 3, 4)),
    FLOW.ack(46, 5, 17, 1, Aeth(0x1F, 1)),
    FLOW.probe(4, 2, 5, 17, Peth(1, 2)),
    FLOW.endpoint_request(46, 0, 5, 77, Erth(1, 3, 4)),
    FLOW.endpoint_response(46, 5, 77, Eeth(1, 4)),
    template(4).data(0xC8, 4, 2, 3, 17, 9, 1, 1, 0, 1, 7, 0x1000, 3, 8192, bytes(9)),
]


def opcode_name(frame: bytes) -> str:
    return f"{frame[62 if frame[12] == 0x86 else 42]:#x}"


def use(packet: Packet | None) -> None:
    """Touch everything: no attribute may be missing, nothing may raise."""
    if packet is None:
        return
    for name in [n for n in dir(Packet) if not n.startswith("_")]:
        getattr(packet, name)
    assert packet.nominal_size >= 40
    assert packet.tver in range(16)
    assert packet.icrc_ok() in (True, False)


@given(raw=st.binary(max_size=200))
def test_random_bytes(raw: bytes) -> None:
    use(parse(raw))


@settings(max_examples=300)
@given(data=st.data())
def test_damaged_frames(data: st.DataObject) -> None:
    raw = bytearray(data.draw(st.sampled_from(FRAMES)))
    for _ in range(data.draw(st.integers(0, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        raw = raw[: data.draw(st.integers(0, len(raw)))]
    if len(raw) > 20 and data.draw(st.booleans()):
        raw = raw[:14] + raw[14:54] + raw[14:]  # as if encapsulated
        raw[20] = data.draw(st.sampled_from((17, 41, 43)))
    use(parse(memoryview(raw)))


@settings(max_examples=40)
@given(sample=data_samples(), junk=st.binary(max_size=20))
def test_ethernet_padding_is_ignored(sample: DataSample, junk: bytes) -> None:
    packet = parse(sample.build() + junk, sample.packing)
    assert packet is not None
    assert packet.icrc_ok()
    assert bytes(packet.payload) == sample.args["payload"]


@pytest.mark.parametrize("frame", FRAMES, ids=opcode_name)
def test_every_single_bit_flip_is_noticed(frame: bytes) -> None:
    """Ethernet aside, a flip either shows (iCRC, not MRC) or hits a field mutable on the way."""
    v6 = frame[12] == 0x86
    ip_mutable = {15, 16, 17, 21} if v6 else {15, 22, 24, 25}
    udp = 54 if v6 else 34
    mutable = ip_mutable | {14} | {udp + 6, udp + 7, udp + 12}
    for at in range(14, len(frame)):
        for bit in range(8):
            raw = bytearray(frame)
            raw[at] ^= 1 << bit
            packet = parse(raw)
            if packet is not None and packet.icrc_ok():
                assert at in mutable, (at, bit)


@pytest.mark.parametrize("frame", FRAMES, ids=opcode_name)
def test_every_cut(frame: bytes) -> None:
    """A cut frame is None before the end of BTH, and never of good length after it."""
    bth_end = (54 if frame[12] == 0x86 else 34) + 20
    for size in range(len(frame)):
        packet = parse(frame[:size])
        assert (packet is None) == (size < bth_end), size
        if packet is not None:
            assert not packet.length_ok
            assert len(packet.payload) == 0
            use(packet)


def test_cut_inside_reth_keeps_the_time_stamp() -> None:
    packet = parse(FRAMES[0][: 74 + 8 + 3])
    assert packet is not None
    assert (packet.msn, packet.tx_timestamp, packet.has_tseth) == (1, 7, True)
    assert not packet.headers_ok


def test_unknown_opcode_is_told_from_foreign_traffic() -> None:
    frame = bytearray(FRAMES[5])
    frame[62] = 0xDF
    packet = parse(frame)
    assert packet is not None
    assert not packet.known
    frame[62] = 0x11  # RoCEv2 RC acknowledge: same port, other transport
    assert parse(frame) is None


def test_other_ports_are_not_ours_unless_asked_for() -> None:
    flow = FlowTemplate(
        "02::01".replace("::", ":00:00:00:00:"), bytes(6), "fd00::1", "fd00::2", 5000
    )
    frame = flow.ack(46, 5, 17, 1, Aeth(0x1F, 1))
    assert parse(frame) is None
    assert parse(frame, ports=frozenset((5000,))) is not None


def test_lengths_that_disagree() -> None:
    frame = bytearray(FRAMES[0])
    frame[59] -= 4  # UDP length
    packet = parse(frame)
    assert packet is not None
    assert not packet.length_ok


@pytest.mark.parametrize("packing", EvPacking)
@given(ev=st.integers(0, 0xFFFFF))
def test_ev_there_and_back(packing: EvPacking, ev: int) -> None:
    label, sport = split_ev(ev, packing)
    assert 0 <= label <= 0xFFFFF
    assert 0 <= sport <= 0xFFFF
    assert join_ev(label, sport, packing) == ev


def test_default_packing_is_label_high() -> None:
    assert split_ev(0x12345678) == (0x1234, 0x5678)
    packet = parse(FLOW.ack(46, 0x12345678, 17, 1, Aeth(0x1F, 1)))
    assert packet is not None
    assert (packet.flow_label, packet.sport, packet.ev) == (0x1234, 0x5678, 0x12345678)


@pytest.mark.parametrize(
    ("ev", "packing"),
    [(1 << 32, EvPacking.LABEL_HIGH), (-1, EvPacking.SPORT_HIGH), (1 << 20, EvPacking.LABEL20)],
)
def test_ev_that_does_not_fit_is_refused(ev: int, packing: EvPacking) -> None:
    with pytest.raises(ValueError, match="EV"):
        split_ev(ev, packing)


def test_template_refuses_nonsense() -> None:
    with pytest.raises(ValueError, match="IP versions differ"):
        FlowTemplate(bytes(6), bytes(6), "fd00::1", "10.0.0.1")
    with pytest.raises(ValueError, match="not a MAC"):
        FlowTemplate("02:00", bytes(6), "fd00::1", "fd00::2")
    with pytest.raises(ValueError, match="not an MRC opcode"):
        FLOW.control(0x11, 0, 0, 0, 0, 0, b"")
    with pytest.raises(ValueError, match="IPv4 carries only"):
        template(4).ack(46, 0x00010002, 17, 1, Aeth(0x1F, 1))
    with pytest.raises(ValueError, match="IPv4 carries only"):
        template(4, EvPacking.LABEL20).ack(46, 0x10002, 17, 1, Aeth(0x1F, 1))


def test_opcode_table_is_complete() -> None:
    missing = {Opcode.WRITE_FIRST, Opcode.WRITE_LAST_IMM}
    assert {int(opcode_name(f), 16) for f in FRAMES} == {int(op) for op in set(Opcode) - missing}
