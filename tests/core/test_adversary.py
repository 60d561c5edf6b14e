"""Two endpoints and an adversary who owns the network: frames are held, delivered in any order,
dropped, duplicated, corrupted and trimmed, ports go down and up, and time jumps.

After every step the invariants hold; in the end the network becomes honest, and then everything
completes: memory equal, completions in order, nothing stuck, nobody in ERROR.
"""

from __future__ import annotations

from random import Random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hosts.core.config import CcConfig, EndpointConfig, EvConfig, PortConfig, QpConfig, RtoConfig
from hosts.core.endpoint import Endpoint
from hosts.core.events import Completion, EvState, RecvCompletion, Status
from hosts.core.sendwindow import LOST, OUT
from tests.core.simnet import DSCP, TRIM_BYTES, dscp_of, set_tc

RATE = 1_000_000_000
PMTU = 256
SLOT = 2048
SLOTS = 24
HOP = 20_000
MEMORY = SLOT * SLOTS


class Side:
    """One endpoint, what it posted and what it reported."""

    def __init__(self, index: int, seed: int) -> None:
        ports = tuple(
            PortConfig(
                k, bytes((2, 0, 0, 0, index, k)), bytes(6), bytes((0xFD, *[0] * 13, index, k)), RATE
            )
            for k in (1, 2)
        )
        self.endpoint = Endpoint(EndpointConfig(ports, pmtu=PMTU), Random(seed))
        self.region = self.endpoint.register_memory(MEMORY)
        self.expected = bytearray(MEMORY)  # what the peer's memory must be in the end
        self.posted = 0
        self.imms: list[tuple[int, int]] = []  # (imm, length) in sending order
        self.completions: list[Completion] = []
        self.receives: list[RecvCompletion] = []
        self.qpn = 0

    def take_events(self) -> None:
        for event in self.endpoint.events():
            if isinstance(event, Completion):
                self.completions.append(event)
            elif isinstance(event, RecvCompletion):
                self.receives.append(event)


class Adversary(RuleBasedStateMachine):
    """See the module."""

    @initialize(
        seed=st.integers(0, 1 << 32),
        cc=st.sampled_from(["nscc", "fixed"]),
        evs=st.sampled_from([(2, 0, 2), (8, 4, 2), (64, 32, 16)]),
        psn=st.sampled_from([0, 1000, 0xFFFFFF - 5]),
    )
    def start(self, seed, cc, evs, psn):
        self.now = 0
        self.wire: list[tuple[int, int, bytes]] = []  # (target side, port, frame)
        self.sides = [Side(0, seed), Side(1, seed + 1)]
        qp = QpConfig(
            mpr=8,
            first_psn=psn,
            write_imm_limit=4,
            rto=RtoConfig(t=8),
            ev=EvConfig(active=evs[0], backup=evs[1], min_active=evs[2]),
            cc=CcConfig(cc, base_rtt_ns=3 * HOP),
        )
        infos = [s.endpoint.create_qp(qp) for s in self.sides]
        for side, mine, other in zip(self.sides, infos, reversed(infos), strict=True):
            side.qpn = mine.qpn
            side.endpoint.connect_qp(mine.qpn, other, 0)
            for i in range(200):
                side.endpoint.post_recv(mine.qpn, i)

    # --- what users do -------------------------------------------------------------------------

    @rule(
        who=st.integers(0, 1),
        slot=st.integers(0, SLOTS - 1),
        length=st.one_of(st.integers(1, SLOT), st.sampled_from([1, PMTU, PMTU + 1, SLOT])),
        imm=st.booleans(),
        fill=st.integers(0, 255),
    )
    def write(self, who, slot, length, imm, fill):
        side, other = self.sides[who], self.sides[1 - who]
        # A slot is written once: later writes to it could overtake in memory, as in RDMA.
        if any(side.expected[slot * SLOT : (slot + 1) * SLOT]) or len(side.imms) >= 150:
            return
        data = bytes((fill + i) % 255 + 1 for i in range(length))
        side.expected[slot * SLOT : slot * SLOT + length] = data
        number = side.posted
        side.posted += 1
        if imm:
            side.imms.append((number, length))
        side.endpoint.post_write(
            side.qpn,
            number,
            data,
            other.region.va + slot * SLOT,
            other.region.rkey,
            number if imm else None,
        )
        self.transmit()

    # --- what the adversary does ---------------------------------------------------------------

    @precondition(lambda self: self.wire)
    @rule(data=st.data(), count=st.integers(1, 12))
    def deliver(self, data, count):
        """Some frames in an order of the adversary's liking."""
        for _ in range(min(count, len(self.wire))):
            self.receive(self.wire.pop(data.draw(st.integers(0, len(self.wire) - 1))))
        self.transmit()

    @precondition(lambda self: self.wire)
    @rule()
    def deliver_all(self):
        batch, self.wire = self.wire, []
        for item in batch:
            self.receive(item)
        self.transmit()

    @precondition(lambda self: self.wire)
    @rule(data=st.data(), count=st.integers(1, 20))
    def drop(self, data, count):
        for _ in range(min(count, len(self.wire))):
            self.wire.pop(data.draw(st.integers(0, len(self.wire) - 1)))

    @precondition(lambda self: self.wire)
    @rule(data=st.data())
    def duplicate(self, data):
        self.receive(self.wire[data.draw(st.integers(0, len(self.wire) - 1))])
        self.transmit()

    @precondition(lambda self: self.wire)
    @rule(data=st.data())
    def corrupt(self, data):
        """A flipped bit somewhere that the iCRC covers: never taken for good."""
        target, port, frame = self.wire.pop(data.draw(st.integers(0, len(self.wire) - 1)))
        at = data.draw(st.integers(54, len(frame) - 1))
        if at in (60, 61, 66):  # UDP checksum and BTH.var_res are not covered
            return
        bad = frame[:at] + bytes((frame[at] ^ 1 << data.draw(st.integers(0, 7)),)) + frame[at + 1 :]
        before = sum(self.sides[target].endpoint.stats().drops.values())
        self.receive((target, port, bad))
        assert sum(self.sides[target].endpoint.stats().drops.values()) == before + 1

    @precondition(lambda self: any(self.trimmable(f) for _, _, f in self.wire))
    @rule(data=st.data(), lasthop=st.booleans())
    def trim(self, data, lasthop):
        indices = [i for i, (_, _, f) in enumerate(self.wire) if self.trimmable(f)]
        target, port, frame = self.wire.pop(data.draw(st.sampled_from(indices)))
        dscp = DSCP.trimmed_lasthop if lasthop else DSCP.trimmed
        self.receive((target, port, set_tc(frame[:TRIM_BYTES], dscp, 0)))
        self.transmit()

    @rule(who=st.integers(0, 1), port=st.integers(1, 2), up=st.booleans())
    def port(self, who, port, up):
        """One port of a host, so that a plane is left."""
        endpoint = self.sides[who].endpoint
        if up or all(self.sides[w].endpoint._nic.ports[3 - port].up for w in (0, 1)):
            endpoint.set_port(port, up, self.now)
            self.transmit()

    @rule(step=st.sampled_from([1_000, HOP, 5 * HOP, 300_000, 3_000_000]))
    def wait(self, step):
        self.now += step
        for side in self.sides:
            side.endpoint.on_deadline(self.now)
        self.transmit()

    # --- inside --------------------------------------------------------------------------------

    @staticmethod
    def trimmable(frame: bytes) -> bool:
        return len(frame) > TRIM_BYTES and dscp_of(frame) in (DSCP.trimmable, DSCP.trimmable_retx)

    def receive(self, item: tuple[int, int, bytes]) -> None:
        target, port, frame = item
        self.sides[target].endpoint.receive(port, frame, self.now)

    def transmit(self) -> None:
        """Let both send what they may within the next 20 us."""
        end = self.now + HOP
        for index, side in enumerate(self.sides):
            now = self.now
            while True:
                for port, frame in side.endpoint.frames_to_send(now):
                    self.wire.append((1 - index, port, frame))
                due = side.endpoint.next_deadline()
                if due is None or due > end:
                    break
                now = max(due, now + 1)
                side.endpoint.on_deadline(now)
            side.take_events()
        self.now = end

    @invariant()
    def consistent(self):
        if not hasattr(self, "sides"):
            return
        for side in self.sides:
            qp = side.endpoint._qps[side.qpn]
            assert qp.parts is not None
            requestor, responder = qp.parts.requestor, qp.parts.responder
            w = requestor.window
            assert not w.acked & 1
            assert w.next - w.unack_psn < 8 * 128
            states = [w.flag[s & w.mask] for s in range(w.unack_psn, w.next)]
            assert w.lost_count == sum(bool(f & LOST) for f in states)
            assert not any(f & LOST and f & OUT for f in states)
            for offset, f in enumerate(states):
                if w.acked >> offset & 1:
                    assert f == 0
            assert not responder.bitmap.bits & 1
            assert requestor.cc.inflight <= requestor.sent_packets * 400
            for plane in qp.evs.planes.values():
                assert all(e.state in (EvState.GOOD, EvState.SKIP) for e in plane.active)
            # Completions: in order, good, each once.
            assert [e.wr_id for e in side.completions] == list(range(len(side.completions)))
            assert all(e.status is Status.SUCCESS for e in side.completions)
        for side, other in zip(self.sides, reversed(self.sides), strict=True):
            got = [(e.imm, e.length) for e in other.receives]
            assert got == side.imms[: len(got)]

    def teardown(self):
        """The adversary leaves: everything must complete."""
        if not hasattr(self, "sides"):
            return
        for side in self.sides:
            for port in (1, 2):
                side.endpoint.set_port(port, True, self.now)
        inflight: list[tuple[int, tuple[int, int, bytes]]] = [(self.now, x) for x in self.wire]
        limit = self.now + 60_000_000_000
        while any(len(s.completions) < s.posted for s in self.sides):
            due = [x for s in self.sides if (x := s.endpoint.next_deadline()) is not None]
            if inflight:
                due.append(inflight[0][0])
            assert due, "nothing to wait for, but not complete"
            self.now = max(self.now, min(due))
            assert self.now < limit, "stuck"
            while inflight and inflight[0][0] <= self.now:
                self.receive(inflight.pop(0)[1])
            for index, side in enumerate(self.sides):
                side.endpoint.on_deadline(self.now)
                for port, frame in side.endpoint.frames_to_send(self.now):
                    inflight.append((self.now + HOP, (1 - index, port, frame)))
                side.take_events()
        self.consistent()
        for side, other in zip(self.sides, reversed(self.sides), strict=True):
            assert bytes(other.region.memory) == bytes(side.expected)
            assert len(other.receives) == len(side.imms)
            delivered = other.endpoint.stats().qps[other.qpn].delivered_bytes
            assert delivered == sum(e.length for e in side.completions)


Adversary.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestAdversary = Adversary.TestCase
