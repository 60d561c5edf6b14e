"""Second implementations of what the reference states exactly, written from its text alone, and
random histories that both must agree on: NSCC (5), the responder (4.2, 4.5), the rotation (3.4).
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hosts.core.cc.base import PathFigures
from hosts.core.cc.nscc import Nscc, NsccProfile
from hosts.core.ev.evset import EvSet
from hosts.core.ev.state import EvInput
from hosts.core.events import EvState
from hosts.wire.constants import NackReason, Opcode
from hosts.wire.frame import FlowTemplate, parse
from tests.core.duo import Duo, endpoint, qp_config

MTU = 4096 + 100


class TextNscc:
    """Section 5.3 in the order of its sentences; 5.2 for the parameters."""

    def __init__(self, rate_bps: int, base_rtt: int, trimming: bool) -> None:
        self.rate, self.base_rtt, self.trimming = rate_bps, base_rtt, trimming
        self.inflight = 0
        self.ignored = self.received = self.achieved = self.to_ignore = 0
        self.inc = self.average = 0.0
        self.fi_count, self.mode = 0, False
        self.last_decrease: int | None = None
        self.period_start: int | None = None
        self.saved: float | None = None
        self.qa_end, self.trigger = 0, False
        self.cwnd = self.max_wnd

    @property
    def bdp(self) -> int:
        return self.rate * self.base_rtt // 8_000_000_000

    @property
    def max_wnd(self) -> float:
        return max(1.5 * self.bdp, MTU)

    @property
    def t(self) -> int:
        return int((0.75 if self.trimming else 1.0) * self.base_rtt)

    def lower(self, rtt: int) -> None:
        if rtt < self.base_rtt:
            self.base_rtt = rtt
            self.cwnd = min(self.cwnd, self.max_wnd)

    def sack(self, n, rtt, m, p, restore, now) -> None:
        self.inflight -= n
        self.ignored += n
        self.received += n
        self.achieved += n
        if p > 0:
            if self.saved is None:
                self.saved = self.cwnd
            self.cwnd = min(self.cwnd, self.inflight)
            self.cwnd = max(MTU, self.cwnd - ((p * n) >> 7))
        elif restore and self.saved is not None:
            self.cwnd, self.saved = min(self.saved, self.max_wnd), None
        if rtt is None:
            return
        self.lower(rtt)
        d, t = rtt - self.base_rtt, self.t
        sample = 0.25 * self.base_rtt if not m and d > t else d
        self.average += 0.0125 * (sample - self.average)
        if self.quick_adapt(False, m, d, now):
            return
        a = self.bdp / 150_000
        b = t / 12_000
        if not m and d >= t and not p:
            self.mode, self.fi_count = False, 0
            self.inc += 5 * MTU * a * n
        if not m and d < t and not p:
            if d < 1000:
                self.fi_count += n
                self.mode = self.fi_count > self.cwnd or self.mode
                if self.mode:
                    self.cwnd = min(self.cwnd + 0.25 * a * n, self.max_wnd)
            else:
                self.fi_count, self.mode = 0, False
            if not self.mode:
                self.inc += 4 * a * b * MTU / t * n * (t - d)
        if m and d >= t:
            self.mode, self.fi_count = False, 0
            big = self.average
            rested = self.last_decrease is None or now - self.last_decrease > self.base_rtt
            if big > t and rested:
                self.cwnd = max(self.cwnd * max(1 - 0.8 * (big - t) / big, 0.5), MTU)
                self.last_decrease = now
        if p:
            return  # increases suspended
        if self.period_start is None:
            self.period_start = now
        elapsed = now - self.period_start >= self.base_rtt
        if elapsed or self.received > 8 * MTU:
            self.cwnd += self.inc / self.cwnd
            if elapsed:
                self.cwnd += 0.15 * MTU * a
                self.period_start = now
            self.cwnd = min(self.cwnd, self.max_wnd)
            self.inc, self.received = 0.0, 0

    def quick_adapt(self, loss, m, d, now) -> bool:
        handled = False
        if self.ignored < self.to_ignore and m:
            handled = True
        elif now >= self.qa_end:
            late = not self.trimming and d > 4 * self.t
            low = self.achieved < self.max_wnd / 8
            if self.qa_end != 0 and (self.trigger or loss or late) and low:
                self.cwnd = max(self.achieved, MTU)
                self.to_ignore, self.ignored, self.trigger = self.inflight, 0, False
                handled = True
            self.achieved = 0
            self.qa_end = now + self.base_rtt + self.t
        if handled:
            self.inc, self.received = 0.0, 0
        return handled

    def loss(self, size) -> None:
        self.cwnd = max(self.cwnd - size, MTU)
        self.ignored += size
        self.inflight -= size

    def nack(self, size, trimmed, rtt, now) -> None:
        self.inflight -= size
        if rtt is not None:
            self.lower(rtt)
        if trimmed:
            self.average += 0.0125 * (self.base_rtt - self.average)
            self.ignored += size
            self.trigger = True
            if not self.quick_adapt(True, True, 0, now):
                self.cwnd = max(self.cwnd - size, MTU)


@pytest.mark.parametrize("trimming", [True, False])
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_nscc_is_the_text(trimming, seed):
    rng = Random(seed)
    rate, base = rng.choice([(100 * 10**9, 12_000), (800 * 10**9, 10_000), (10**9, 200_000)])
    ours = Nscc(PathFigures(MTU, rate, base, 1, trimming), NsccProfile())
    text = TextNscc(rate, base, trimming)
    now = 0
    mood = 0.5  # of the network: how often marked, how long queues are
    for _ in range(400):
        now += rng.randrange(1, base // 4)
        if rng.random() < 0.02:
            mood = rng.random()
        while ours.inflight + MTU <= ours.cwnd and rng.random() < 0.7:
            ours.on_send(MTU)
            text.inflight += MTU
        size = rng.choice([MTU, MTU, 300])
        rtt = int(base * (0.9 + 6 * mood * rng.random())) + rng.choice([0, 0, 500])
        rtt_or_none = rtt if rng.random() < 0.9 else None
        what = rng.random()
        if what < 0.85:
            penalty = rng.choice([0] * 8 + [3, 64, 127]) if seed % 3 == 0 else 0
            n = rng.randrange(0, 64) * 256
            event = (n, rtt_or_none, rng.random() < mood, penalty, rng.random() < 0.5, now)
            ours.on_sack(*event)
            text.sack(*event)
        elif what < 0.92:
            ours.on_loss(size, now)
            text.loss(size)
        else:
            trimmed = rng.random() < 0.7
            ours.on_nack(size, trimmed, rtt_or_none, now)
            text.nack(size, trimmed, rtt_or_none, now)
        assert ours.cwnd == pytest.approx(text.cwnd, rel=1e-9)
        assert (ours.inflight, ours.base_rtt_ns) == (text.inflight, text.base_rtt)
        assert ours.delay_mean_ns == pytest.approx(text.average, rel=1e-9, abs=1e-9)
        assert MTU <= ours.cwnd <= max(ours.max_wnd, MTU)


# --- the responder -------------------------------------------------------------------------------

WINDOW = 8 * 128
PAYLOAD = 256


class TextResponder:
    """Sections 4.2 and 4.5: what each arriving packet draws."""

    def __init__(self, first: int) -> None:
        self.cack = first - 1
        self.got: set[int] = set()
        self.max_rcv = first - 1
        self.lowest = first
        self.trigger = 0
        self.nominal = 0

    def arrive(self, psn: int, a: int, ce: bool, rtx: int, size: int):
        """Reply kinds in order."""
        ahead = (psn - self.cack) & 0xFFFFFF
        if 1 <= ahead <= WINDOW:
            seq = self.cack + ahead
            if seq in self.got:
                return ["sack"], seq
            self.got.add(seq)
            self.max_rcv = max(self.max_rcv, seq)
            while self.cack + 1 in self.got:
                self.cack += 1
            self.nominal += size
            self.trigger += max(size, 1024)
            due = self.trigger >= 16384 or a or ce or rtx
            return (["sack"] if due else []), seq
        behind = (self.cack - psn) & 0xFFFFFF
        if behind <= (1 << 23) - 1:
            return ["sack"], self.cack - behind
        return ["nack"], None

    def sack(self):
        self.trigger = 0
        base = max(self.lowest, self.cack + 1)
        if base + 63 > self.max_rcv:
            base = max(self.max_rcv - 63, self.cack + 1)
        bits = sum(1 << i for i in range(64) if base + i in self.got)
        self.lowest = base + 64 if base + 64 <= self.max_rcv else self.cack + 1
        held = sum(1 for s in self.got if s > self.cack)
        return base - self.cack, bits, held, -(-self.nominal // 256) & 0xFFFFFF


def first_psns() -> st.SearchStrategy[int]:
    return st.sampled_from((0, 5, 0xFFFFFF, 0xFFFFF0, 0x7FFFFF, 0x800000))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1 << 32), first=first_psns())
def test_the_responder_is_the_text(seed, first):
    rng = Random(seed)
    duo = Duo(endpoint(0), endpoint(1), qp_config(mpr=8, first_psn=first))
    target, region = duo.ends[1], duo.region
    flow = FlowTemplate(
        bytes(6), bytes(6), duo.ends[0].config.ports[0].ip, target.config.ports[0].ip
    )
    text = TextResponder(first)
    now = 0
    for _ in range(150):
        now += 1_000_000
        jump = rng.choice([1, 1, 1, 1, 2, 3, rng.randrange(1, 100)])
        near = text.max_rcv + jump if rng.random() < 0.6 else text.cack + rng.randrange(-3, 70)
        psn = rng.choice([near] * 12 + [text.cack + WINDOW + d for d in (-1, 0, 1)]
                         + [text.cack - (1 << 23) + d for d in (0, 1, 2)]) & 0xFFFFFF  # fmt: skip
        a, rtx = int(rng.random() < 0.1), int(rng.random() < 0.1)
        ecn = 3 if rng.random() < 0.1 else 2
        msn = (psn - first) & 0xFFFF  # each packet a message of its own
        frame = flow.data(
            Opcode.WRITE_ONLY, 4, ecn, 0x10001, duo.qpns[1], psn, a, rtx, 0, msn, 7, region.va,
            region.rkey, PAYLOAD, bytes(PAYLOAD),
        )  # fmt: skip
        kinds, seq = text.arrive(psn, a, ecn == 3, rtx, len(frame) - 14 - 40 + 40)
        target.receive(1, frame, now)
        replies = [parse(f) for _, f in target.frames_to_send(now)]
        now += 1_000_000
        replies += [parse(f) for _, f in target.frames_to_send(now)]
        found = [p for p in replies if p is not None and p.opcode in (Opcode.SACK, Opcode.NACK)]
        assert [Opcode(p.opcode).name.lower() for p in found] == kinds
        for packet in found:
            if packet.neth is not None:
                assert packet.neth.nack_reason == NackReason.PSN_OOR_WINDOW
                assert (packet.psn, packet.neth.nack_psn) == (psn, psn)
                continue
            seth, state = packet.seth, packet.cc_state
            base, bits, held, rcvd = text.sack()
            assert packet.psn == seth.cack_psn == text.cack & 0xFFFFFF
            assert (seth.sack_offset, seth.sack_bitmap) == (base, bits)
            assert (state.ooo_count, state.rcvd_bytes, state.tx_timestamp) == (held, rcvd, 7)
            offset = min(max(seq - text.cack, -(1 << 15)), (1 << 15) - 1)
            assert (seth.ack_psn_offset, seth.pr, packet.rtx) == (offset, 0, rtx)
            assert (seth.entropy, seth.m) == (0x10001, int(ecn == 3))
            assert (seth.mpr, state.restore_cwnd, state.rcv_cwnd_pen) == (0, 0, 0)  # unused
            assert (seth.spdcid, seth.dpdcid) == tuple(q & 0xFFFF for q in reversed(duo.qpns))


# --- the rotation --------------------------------------------------------------------------------


@settings(max_examples=100)
@given(
    steps=st.lists(st.one_of(st.none(), st.integers(0, 5)), max_size=60), seed=st.integers(0, 99)
)
def test_the_rotation_is_the_text(steps, seed):
    """None: a packet is sent; a number: that EV of six gets SKIP_ONCE."""
    evs = EvSet({1: (list(range(10, 16)), [])}, Random(seed), qpn=1, min_active=0)
    row = list(evs.planes[1].active)
    skip: set[int] = set()
    pointer = 0
    for step in steps:
        if step is not None:
            evs.feed(row[step], EvInput.SACK_SKIP_ONCE, 0)
            skip.add(step)
            continue
        restored = None
        for turn in range(6):
            at = (pointer + turn) % 6
            if at not in skip:
                used = at
                break
            if restored is None:  # at most one; not used for this packet
                restored = at
                skip.discard(at)
        else:
            used = restored  # a full turn found nothing but SKIP
        pointer = (used + 1) % 6
        assert evs.pick(1, 0) is row[used]
        assert {i for i, e in enumerate(row) if e.state is EvState.SKIP} == skip
