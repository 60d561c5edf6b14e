"""PSN arithmetic, receive bitmap, memory, messages, port serialiser: the small pure pieces."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosts.core.bitmap import ReceiveBitmap
from hosts.core.config import PortConfig
from hosts.core.memory import DirectPlacement, MemoryTable
from hosts.core.messages import (
    FIRST,
    LAST,
    LAST_IMM,
    MIDDLE,
    ONLY,
    Reassembly,
    SendMessage,
    Verdict,
    nominal_size,
)
from hosts.core.nic import Nic
from hosts.core.psn import psn_after, psn_diff, unwrap, wrap
from hosts.core.qpcc import Scheduler
from hosts.wire.constants import PSN_MASK

PSN = st.integers(0, PSN_MASK)
SEQ = st.integers(-(1 << 30), 1 << 40)


# --- PSNs ----------------------------------------------------------------------------------------


@given(PSN, st.integers(-(1 << 23), (1 << 23) - 1))
def test_psn_diff_undoes_addition(psn, d):
    assert psn_diff(psn + d & PSN_MASK, psn) == d


@given(PSN, PSN)
def test_psn_after_is_the_reference_definition(a, b):
    assert psn_after(a, b) == (1 <= (a - b) % 2**24 <= 2**23 - 1)


@given(SEQ, st.integers(-(1 << 23), (1 << 23) - 1))
def test_unwrap_finds_the_number_next_to_near(near, d):
    assert unwrap(wrap(near + d), near) == near + d


# --- receive bitmap ------------------------------------------------------------------------------


def test_sack_of_the_explainer_example():
    """PSNs 0-11 sent, 5 and 8 lost: cack 4, sack_offset 1, bits 1, 2, 4, 5, 6 (section 4.5)."""
    bitmap = ReceiveBitmap(0)
    for seq in range(12):
        if seq not in (5, 8):
            bitmap.add(seq)
    base, bits = bitmap.sack_window()
    assert bitmap.cack_psn == 4
    assert base - bitmap.cack_psn == 1
    assert bits == 1 << 1 | 1 << 2 | 1 << 4 | 1 << 5 | 1 << 6
    assert bitmap.rx_ooo_count == 5


@given(st.lists(st.integers(0, 300), max_size=200), st.integers(0, 1 << 24))
def test_bitmap_equals_a_set(offsets, first):
    bitmap = ReceiveBitmap(first)
    received: set[int] = set()
    cack = first - 1
    for offset in offsets:
        seq = first + offset
        assert bitmap.has(seq) == (seq in received or seq <= cack)
        if bitmap.has(seq):
            continue
        before = bitmap.cack_psn
        received.add(seq)
        moved = bitmap.add(seq)
        while cack + 1 in received:
            cack += 1
        assert (bitmap.cack_psn, bitmap.cack_psn - before) == (cack, moved)
        assert bitmap.bits & 1 == 0
        assert bitmap.max_rcv_psn == max(received)
        base, bits = bitmap.sack_window()
        assert base >= cack + 1
        assert bits == sum(1 << i for i in range(64) if base + i in received)


@given(st.sets(st.integers(1, 1000), min_size=1))
def test_successive_sacks_sweep_everything_above_the_gap(received):
    bitmap = ReceiveBitmap(0)  # 0 is missing
    for seq in received:
        bitmap.add(seq)
    reported: set[int] = set()
    for _ in range(1000 // 64 + 2):
        base, bits = bitmap.sack_window()
        reported |= {base + i for i in range(64) if bits >> i & 1}
    assert reported == received


# --- memory --------------------------------------------------------------------------------------


def test_memory_checks_key_permission_and_bounds():
    table = MemoryTable(Random(1))
    region, closed = table.register(100), table.register(100, remote_write=False)
    assert table.find(region.rkey, region.va, 100) is region
    assert table.find(region.rkey, region.va + 99, 1) is region
    assert table.find(region.rkey, region.va, 101) is None
    assert table.find(region.rkey, region.va - 1, 1) is None
    assert table.find(region.rkey + 1, region.va, 1) is None
    assert table.find(closed.rkey, closed.va, 1) is None
    assert closed.va >= region.va + 100
    table.deregister(region.rkey)
    assert table.find(region.rkey, region.va, 1) is None


def test_memory_must_be_writable():
    table = MemoryTable(Random(1))
    with pytest.raises(ValueError, match="writable"):
        table.register(memoryview(b"read only"))
    with pytest.raises(ValueError, match="not empty"):
        table.register(0)


def test_direct_placement_writes_at_the_address():
    region = MemoryTable(Random(1)).register(bytearray(b"........"))
    DirectPlacement().place(region, region.va + 3, memoryview(b"xy"))
    assert bytes(region.memory) == b"...xy..."


# --- messages ------------------------------------------------------------------------------------


def message(length: int, imm: int | None = None, pmtu: int = 256) -> SendMessage:
    source = memoryview(bytes(length))
    return SendMessage(1, source, 0, 0, imm, msn=0, rqmsn=0, first_seq=10, pmtu=pmtu)


@pytest.mark.parametrize(
    ("length", "opcodes"),
    [(1, [ONLY]), (256, [ONLY]), (257, [FIRST, LAST]), (1024, [FIRST, MIDDLE, MIDDLE, LAST])],
)
def test_cutting_a_write(length, opcodes):
    cut = message(length)
    assert [cut.opcode(s) for s in range(10, cut.last_seq + 1)] == opcodes
    assert cut.last_size == nominal_size((length - 1) % 256 + 1)


def test_immediate_is_on_the_last_packet_only():
    cut = message(512, imm=7)
    assert [cut.opcode(s) for s in (10, 11)] == [FIRST, LAST_IMM]


def feed(parts, pmtu=256):
    reassembly = Reassembly(pmtu)
    return [reassembly.feed(p) for p in parts], reassembly


def test_message_numbers_have_16_bits():
    """On both sides, and the responder's count of completed ones goes on."""
    reassembly = Reassembly(256)
    reassembly.completed = reassembly.imms = 0xFFFF
    for number in (0xFFFF, 0x10000):
        message = SendMessage(
            0, memoryview(b"x"), 0, 1, 7, msn=number, rqmsn=number, first_seq=0, pmtu=256
        )
        assert (message.msn, message.rqmsn) == (number & 0xFFFF, number & 0xFFFF)
        arrival = (message.opcode(0), message.msn, message.rqmsn, 1, 0, 1, 1, 7)
        assert reassembly.feed(arrival) is Verdict.COMPLETE_IMM
    assert reassembly.completed == 0x10001


def test_reassembly_in_order():
    verdicts, reassembly = feed(
        [
            (FIRST, 0, 0, 256, 1000, 5, 600, None),
            (MIDDLE, 0, 0, 256, 1256, 5, 600, None),
            (LAST, 0, 0, 88, 1512, 5, 600, None),
            (ONLY, 1, 0, 3, 50, 5, 3, None),
            (FIRST, 2, 0, 256, 0, 5, 257, None),
            (LAST_IMM, 2, 0, 1, 256, 5, 257, 77),
        ]
    )
    assert [v.name for v in verdicts] == [
        "OPEN", "OPEN", "COMPLETE", "COMPLETE", "OPEN", "COMPLETE_IMM",
    ]  # fmt: skip
    assert (reassembly.completed, reassembly.imms, reassembly.imm) == (3, 1, 77)


@pytest.mark.parametrize(
    "parts",
    [
        [(MIDDLE, 0, 0, 256, 0, 5, 600, None)],  # no First
        [(LAST, 0, 0, 25, 0, 5, 25, None)],
        [(ONLY, 1, 0, 3, 0, 5, 3, None)],  # message 0 is expected
        [(ONLY, 0, 0, 3, 0, 5, 4, None)],  # shorter than dmalen
        [(ONLY, 0, 1, 3, 0, 5, 3, None)],  # rqmsn on a plain write
        [(FIRST, 0, 0, 255, 0, 5, 600, None)],  # First must be a full PMTU
        [(FIRST, 0, 0, 256, 0, 5, 600, None), (FIRST, 0, 0, 256, 256, 5, 600, None)],
        [(FIRST, 0, 0, 256, 0, 5, 600, None), (MIDDLE, 0, 0, 256, 512, 5, 600, None)],
        [(FIRST, 0, 0, 256, 0, 5, 600, None), (MIDDLE, 0, 0, 256, 256, 6, 600, None)],
        [(FIRST, 0, 0, 256, 0, 5, 600, None), (LAST, 0, 0, 5, 256, 5, 600, None)],
    ],
)
def test_reassembly_refuses(parts):
    verdicts, _ = feed(parts)
    assert verdicts[-1] is Verdict.MALFORMED


# --- port serialiser -----------------------------------------------------------------------------


class Endless(Scheduler):
    """Always has 1,250-byte frames: 0.1 ms each at 100 Mb/s."""

    def __init__(self) -> None:
        super().__init__()
        self.any_ready = True
        self.sent_at: list[tuple[int, int]] = []

    def next_data(self, tx, now):
        self.sent_at.append((tx.port, now))
        return bytes(1250)


def nic(ports: int = 2, **settings: int) -> Nic:
    configs = [PortConfig(k, bytes(6), bytes(6), bytes(16), 100_000_000) for k in (1, 2)]
    return Nic(configs[:ports], 0, **settings)


@pytest.mark.sources
def test_a_port_is_busy_for_size_times_8_over_rate():
    n, source = nic(), Endless()
    assert [p for p, _ in n.transmit(0, source)] == [1, 2]
    assert n.transmit(99_999, source) == []
    assert n.next_free(True) == 100_000
    assert len(n.transmit(100_000, source)) == 2


@pytest.mark.sources
def test_late_service_is_made_up_for_within_the_allowance():
    n, source = nic(catch_up_ns=250_000), Endless()
    sent = len(n.transmit(0, source))
    sent += len(n.transmit(1_000_000, source))  # 900 us late: 250 us are made up
    assert sent == 2 + 2 * 3
    assert n.ports[1].free_at == 1_050_000


@pytest.mark.sources
def test_no_credit_for_a_port_that_had_nothing_to_send():
    n, source = nic(catch_up_ns=250_000), Endless()
    n.transmit(0, source)
    assert n.transmit(300_000, Scheduler()) == []
    assert len(n.transmit(1_000_000, source)) == 2


@pytest.mark.sources
def test_control_goes_first_and_takes_its_time():
    n, source = nic(ports=1), Endless()
    n.control(1, bytes(125))
    frames = n.transmit(0, source)
    assert [len(f) for _, f in frames] == [125]
    assert [len(f) for _, f in n.transmit(10_000, source)] == [1250]


@pytest.mark.sources
def test_frames_are_handed_out_ahead_in_a_short_ring():
    n, source = nic(ports=1, ahead_ns=300_000), Endless()
    assert len(n.transmit(0, source)) == 4
    assert n.next_free(True) == 400_000 - 150_000
    assert source.sent_at[-1] == (1, 300_000)  # the time it really leaves


@pytest.mark.sources
def test_a_port_that_is_down_sends_nothing():
    n, source = nic(), Endless()
    n.control(1, bytes(100))
    n.set_up(1, False, 0)
    assert {p for p, _ in n.transmit(0, source)} == {2}
    n.set_up(1, True, 50_000)
    assert {p for p, _ in n.transmit(50_000, source)} == {1}
