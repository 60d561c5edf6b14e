"""The endpoint on a fabric that fails, queues, marks, trims and reorders (virtual time).

The figures are the lab's: 2 planes x 100 Mb/s, about 9 ms round trip, 4 KiB PMTU, 128 + 64 EVs.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from hosts.core.config import CcConfig, EvConfig, QpConfig
from hosts.core.ev.evset import PLANE_LEAD_PACKETS
from hosts.core.events import EvState, EvStateChange, LossInferred, NackReceived, RtoExpired
from hosts.core.faults import named
from hosts.wire.constants import NackReason
from hosts.wire.frame import parse
from tests.core.simnet import MS, RATE, SEC, Flow, Sim, Stream, connect

CAPACITY = 2 * RATE / 8 * 4096 / 4198  # payload bytes per second over both planes
LINK = ("p0t0-0", "p0t1-1")


def goodput(flows: list[Flow], streams: list[Stream], since: int, until: int) -> float:
    """Share of one host's capacity delivered between two times."""
    sim = flows[0].sim
    sim.run(since)
    before = sum(s.delivered() for s in streams)
    sim.run(until)
    return (sum(s.delivered() for s in streams) - before) / ((until - since) / SEC) / CAPACITY


def demoted(flow: Flow) -> set[int]:
    return {
        e.ev
        for e in flow.src.events
        if isinstance(e, EvStateChange) and e.new is EvState.ASSUMED_BAD
    }


def crossing(flow: Flow, a: str = LINK[0], b: str = LINK[1]) -> set[int]:
    """EVs of the flow whose way crosses the link."""
    wires = flow.sim.both(a, b)
    return {
        e.ev
        for e in flow.src.endpoint.ev_table(flow.qpn)
        if any(w in wires for w in flow.sim.path(e.plane, flow.src.index, flow.dst.index, e.ev))
    }


class Drill:
    """One stream h0 -> h2; a T0-T1 link of plane 0 dies at 400 ms and is repaired at `repair`."""

    def __init__(self, seed: int = 1, late: int = 0, fault: str | None = None, repair: int = SEC):
        faults = named([fault] if fault else [])
        self.sim = Sim(
            seed=seed,
            config=lambda c: replace(c, faults=faults, catch_up_ns=2 * MS if late else 0),
        )
        for host in self.sim.hosts:
            host.late = late
        self.flow = connect(self.sim, 0, 2, memory=4 << 20)
        self.stream = Stream(self.flow)
        self.before = self.share(200 * MS, 400 * MS)
        self.rtt = self.flow.stats.rtt_mean_ns
        self.sim.cut(*LINK)
        self.during = self.share(400 * MS, repair)
        self.table = self.flow.src.endpoint.ev_table(self.flow.qpn)
        self.lost = [item for wire in self.sim.both(*LINK) for item in wire.lost_data]
        self.sim.cut(*LINK, cut=False)

    def share(self, since: int, until: int) -> float:
        return goodput([self.flow], [self.stream], since, until)

    @property
    def steer_rtts(self) -> float:
        times = [when for when, _ in self.lost]
        return (max(times) - min(times)) / self.rtt

    def finish(self) -> None:
        self.stream.stop()
        self.sim.run(self.sim.now + 2 * SEC, self.stream.drained)


@pytest.mark.parametrize(("seed", "late"), [(1, 0), (2, 0), (3, 2 * MS), (4, 3 * MS)])
def test_a_dead_link_is_left_and_taken_back(seed, late):
    drill = Drill(seed, late)
    flow = drill.flow
    assert drill.before >= 0.95
    assert drill.during >= 0.90
    assert drill.steer_rtts <= 5
    # Every EV that crosses the link, and only those.
    assert demoted(flow) == crossing(flow)
    assert not {e.ev for e in drill.table if e.role == "active"} & crossing(flow)
    # Each cost about one packet.
    copies = Counter(parse(frame).ev for _, frame in drill.lost)
    assert len(drill.lost) <= 1.25 * len(copies)
    # After the repair all come back, and the line is full again.
    assert drill.share(1800 * MS, 2300 * MS) >= 0.95
    drill.finish()
    assert {e.state for e in flow.src.endpoint.ev_table(flow.qpn)} <= {EvState.GOOD, EvState.SKIP}
    # Every byte, exactly once, no error.
    assert drill.stream.drained()
    assert not drill.stream.failed
    assert bytes(flow.region.memory) == drill.stream.data
    assert flow.peer_stats.delivered_bytes == drill.stream.posted * drill.stream.message
    assert not [e for e in flow.src.events if isinstance(e, RtoExpired)]
    assert flow.stats.lost_inferred == len(drill.lost)


def test_an_endpoint_that_never_demotes_keeps_losing():
    drill = Drill(fault="never_demote", repair=700 * MS)
    assert demoted(drill.flow) == set()
    assert drill.steer_rtts > 20


def test_an_endpoint_that_acknowledges_before_placing_has_wrong_memory():
    sim = Sim(config=lambda c: replace(c, faults=named(["ack_before_placing"])))
    flow = connect(sim, 0, 2)
    stream = Stream(flow, window=4)
    stream.stop()
    sim.run(SEC, stream.drained)
    assert stream.drained()
    assert bytes(flow.region.memory) != stream.data


def test_a_whole_plane_can_die():
    sim = Sim(seed=5)
    flow = connect(sim, 0, 2, memory=4 << 20)
    stream = Stream(flow)
    assert goodput([flow], [stream], 200 * MS, 300 * MS) >= 0.95
    for t1 in ("p0t1-0", "p0t1-1"):
        sim.cut("p0t0-0", t1)
    assert goodput([flow], [stream], 500 * MS, 900 * MS) >= 0.45
    assert demoted(flow) == {e.ev for e in flow.src.endpoint.ev_table(flow.qpn) if e.plane == 0}
    assert not stream.failed
    for t1 in ("p0t1-0", "p0t1-1"):
        sim.cut("p0t0-0", t1, cut=False)
    assert goodput([flow], [stream], 3 * SEC, 3300 * MS) >= 0.95


def test_a_port_then_a_plane():
    """Of four planes: a port down leaves three quarters, a plane silent besides leaves half; the
    planes left carry the same."""
    sim = Sim(planes=4, seed=6)
    flow = connect(sim, 0, 2, memory=8 << 20)
    stream = Stream(flow, window=16)
    four = 2  # CAPACITY is of two planes
    assert goodput([flow], [stream], 300 * MS, 450 * MS) >= 0.93 * four
    flow.src.endpoint.set_port(2, False, sim.now)
    sim.pump(flow.src)
    assert goodput([flow], [stream], 500 * MS, 650 * MS) == pytest.approx(0.75 * four, rel=0.06)
    assert demoted(flow) == set()  # the port explains what was on its way
    for t1 in ("p0t1-0", "p0t1-1"):
        sim.cut("p0t0-0", t1)
    assert goodput([flow], [stream], 900 * MS, 1200 * MS) == pytest.approx(0.5 * four, rel=0.1)
    sent = flow.src.endpoint.query_qp(flow.qpn).evs.planes
    assert abs(sent[3].sent - sent[4].sent) <= PLANE_LEAD_PACKETS
    flow.src.endpoint.set_port(2, True, sim.now)
    sim.pump(flow.src)
    for t1 in ("p0t1-0", "p0t1-1"):
        sim.cut("p0t0-0", t1, cut=False)
    assert goodput([flow], [stream], 3 * SEC, 3100 * MS) >= 0.93 * four
    assert not stream.failed


def test_total_loss_stops_at_the_floor_and_heals():
    sim = Sim(seed=6)
    qp = QpConfig(cc=CcConfig(base_rtt_ns=10 * MS), ev=EvConfig(min_active=16))
    flow = connect(sim, 0, 2, qp=qp, memory=4 << 20)
    stream = Stream(flow)
    sim.run(100 * MS)
    sim.every(cut=True)
    sim.run(2 * SEC)
    table = flow.src.endpoint.ev_table(flow.qpn)
    assert sum(e.role == "active" for e in table) >= 16
    sim.every(cut=False)
    assert goodput([flow], [stream], 8 * SEC, 8200 * MS) >= 0.9
    assert not stream.failed


def test_lost_sacks_demote_nobody():
    sim = Sim(seed=7)
    for name, wire in sim.wires.items():
        if name.startswith(("p0t0-1>p0t1", "p1t0-1>p1t1")):
            wire.loss = 0.4  # the way back only
    flow = connect(sim, 0, 2, memory=4 << 20)
    stream = Stream(flow)
    assert goodput([flow], [stream], 200 * MS, 700 * MS) >= 0.9
    assert demoted(flow) == set()
    assert flow.peer_stats.duplicate_packets == 0


@pytest.mark.parametrize("late", [0, 3 * MS])
def test_planes_of_different_length_demote_nobody(late):
    """Plane 0 is longer by 6 ms each way: everything on it arrives 37 packets late."""
    sim = Sim(seed=8, config=lambda c: replace(c, catch_up_ns=late))
    for host in sim.hosts:
        host.late = late
    for name, wire in sim.wires.items():
        if "p0t1" in name:
            wire.delay += 3 * MS
    qp = QpConfig(cc=CcConfig(base_rtt_ns=20 * MS))
    flow = connect(sim, 0, 2, qp=qp, memory=4 << 20)
    stream = Stream(flow)
    sim.run(SEC)
    assert demoted(flow) == set()
    assert stream.completed > 40
    assert flow.stats.retransmitted_packets == 0


@pytest.mark.parametrize("index", [0, 2])
@pytest.mark.parametrize("pause", [5 * MS, 20 * MS, 60 * MS, 200 * MS])
def test_a_host_that_is_not_scheduled_demotes_nobody(index, pause):
    """Sender (0) or target (2) stands still now and then, and reads its ports one by one."""
    sim = Sim(seed=15, config=lambda c: replace(c, catch_up_ns=2 * MS))
    flow = connect(sim, 0, 2, memory=4 << 20)
    stream = Stream(flow)
    for when in range(100 * MS, SEC, pause + 70 * MS):
        sim.at(when, lambda: sim.pause(sim.hosts[index], pause))
    sim.run(1200 * MS)
    assert demoted(flow) == set()
    assert flow.stats.lost_inferred == 0
    stream.stop()
    sim.run(2 * SEC, stream.drained)
    assert stream.drained()
    assert bytes(flow.region.memory) == stream.data or stream.posted < stream.slots


def test_random_reordering_demotes_nobody_without_shared_evs():
    sim = Sim(seed=9)
    for name, wire in sim.wires.items():
        if "t1" in name:
            wire.jitter = 4 * MS
    flow = connect(sim, 0, 2, memory=4 << 20)
    stream = Stream(flow)
    sim.run(SEC)
    assert demoted(flow) == set()
    assert stream.completed > 40


def test_incast_is_trimmed_and_nobody_is_demoted():
    """Three senders to one host: the last hop overflows and trims."""
    sim = Sim(seed=10)
    flows = [connect(sim, src, 3, memory=1 << 20) for src in (0, 1, 2)]
    streams = [Stream(f, window=4) for f in flows]
    total = goodput(flows, streams, 300 * MS, SEC)
    assert total >= 0.9
    reasons = Counter(e.reason for f in flows for e in f.src.events if isinstance(e, NackReceived))
    assert reasons[NackReason.TRIMMED_LASTHOP] > 0
    for flow in flows:
        assert demoted(flow) == set()
        assert not [e for e in flow.src.events if isinstance(e, LossInferred)]
    near, far = streams[2].delivered(), [s.delivered() for s in streams[:2]]
    assert min(far) > 0.8 * max(far)
    assert near > 0  # half the RTT, half the target delay: it yields to the other two
    for flow, stream in zip(flows, streams, strict=True):
        stream.stop()
        sim.run(sim.now + SEC, stream.drained)
        assert stream.drained()
        assert bytes(flow.region.memory) == stream.data


def test_marks_make_evs_skip():
    """A second flow on the same uplinks: marked EVs are skipped, nobody is demoted."""
    sim = Sim(seed=11)
    qp = QpConfig(cc=CcConfig(base_rtt_ns=10 * MS), ev=EvConfig(report_skip=True))
    flows = [connect(sim, 0, 2, qp=qp), connect(sim, 1, 3, qp=qp)]
    streams = [Stream(f, window=4) for f in flows]
    total = goodput(flows, streams, 300 * MS, 800 * MS)
    assert sum(w.counts["marked"] for w in sim.wires.values()) > 50
    skipped = [
        e
        for f in flows
        for e in f.src.events
        if isinstance(e, EvStateChange) and e.new is EvState.SKIP
    ]
    assert len(skipped) > 20
    assert all(demoted(f) == set() for f in flows)
    assert total >= 1.7  # both hosts nearly full: 4 uplinks for 4 ports


def test_random_loss_is_repaired_by_fast_retransmits():
    sim = Sim(seed=12)
    sim.every(loss=0.001)
    flow = connect(sim, 0, 2, memory=4 << 20)
    stream = Stream(flow)
    sim.run(SEC)
    stream.stop()
    sim.run(3 * SEC, stream.drained)
    assert stream.drained()
    assert bytes(flow.region.memory) == stream.data
    assert flow.stats.lost_inferred > 5


def test_small_messages_with_tail_loss_recover_by_time_out():
    sim = Sim(seed=13)
    flow = connect(sim, 0, 2)
    flow.write(1, bytes(range(200)))
    sim.every(cut=True)
    sim.run(100 * MS)
    sim.every(cut=False)
    sim.run(400 * MS)
    assert bytes(flow.region.memory[:200]) == bytes(range(200))
    assert flow.stats.rtos == 1
    assert flow.stats.probes_sent >= 1  # goes with the time-out


def test_same_ev_order_finds_a_loss_at_once_with_few_evs():
    sim = Sim(seed=14)
    qp = QpConfig(cc=CcConfig(base_rtt_ns=10 * MS), ev=EvConfig(active=4, backup=2, min_active=2))
    flow = connect(sim, 0, 2, qp=qp, memory=4 << 20)
    Stream(flow)
    sim.run(50 * MS)
    wire = sim.wires["h0>p0t0-0"]
    wire.cut = True
    sim.run(51 * MS)
    wire.cut = False
    sim.run(66 * MS)
    losses = [e for e in flow.src.events if isinstance(e, LossInferred)]
    assert losses
    assert {e.rule for e in losses} == {"same_ev"}
    assert max(e.now - e.sent for e in losses) < 1.5 * flow.stats.rtt_mean_ns
