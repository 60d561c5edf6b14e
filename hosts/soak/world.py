"""Two endpoints and a network in the hands of an adversary.

Frames are held, delivered in any order, dropped, duplicated, corrupted, marked and trimmed; old
ones come back; ports go down and up; planes go silent; time jumps; controllers meddle. Every action
takes small integers only and is deterministic, so that a list of (action, arguments) replays.

`check` holds the invariants after every step. `finish` makes the network honest: everything must
complete then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random

from hosts.core.config import CcConfig
from hosts.core.endpoint import Endpoint
from hosts.core.errors import EndpointError
from hosts.core.events import Completion, EvState, RecvCompletion
from hosts.core.interop import PROFILES
from hosts.soak.invariants import Violation, check, check_end, watch_sent
from hosts.soak.setup import HOP_NS, PMTU, RATE, Setup, endpoint_config, qp_config

SLOT = 2048
SLOTS = 24
HISTORY = 256
IMMS_MAX = 150
END_NS = 120_000_000_000
"""Virtual time after which an honest network must have brought everything through."""
RESTLESS = 20
"""Turns without a frame and without time passing that an endpoint may ask for."""
STEPS_NS = (1_000, HOP_NS, 5 * HOP_NS, 300_000, 3_000_000)


class Connection:
    """One QP of a side: what was posted on it and what it reported."""

    def __init__(self, qpn: int) -> None:
        self.qpn = qpn
        self.posted = 0
        self.lengths: list[int] = []
        self.imms: list[tuple[int, int]] = []  # (imm, length) in sending order
        self.completions: list[Completion] = []
        self.receives: list[RecvCompletion] = []
        self.last_ev: dict[int, int] = {}  # number -> EV of its newest copy


class Side:
    """One endpoint with its memory. `expected`: what the peer's memory must be in the end."""

    def __init__(self, setup: Setup, index: int) -> None:
        self.index = index
        self.endpoint = Endpoint(endpoint_config(setup, index), Random(setup.seed + index))
        self.region = self.endpoint.register_memory(SLOT * SLOTS * setup.qps)
        self.expected = bytearray(SLOT * SLOTS * setup.qps)
        self.connections: list[Connection] = []
        self.by_qpn: dict[int, Connection] = {}

    def take_events(self) -> None:
        for event in self.endpoint.events():
            if type(event) is Completion:
                self.by_qpn[event.qpn].completions.append(event)
            elif type(event) is RecvCompletion:
                self.by_qpn[event.qpn].receives.append(event)


class World:
    """See the module. `do(name, *arguments)` runs one action and checks."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.now = 0
        self.steps = 0
        self.frames = 0
        self.wire: list[tuple[int, int, bytes]] = []  # (target side, port, frame)
        self.old: deque[tuple[int, int, bytes]] = deque(maxlen=HISTORY)
        self.silent: set[int] = set()  # planes (ports) that swallow everything
        self.sides = [Side(setup, 0), Side(setup, 1)]
        config = qp_config(setup)
        for _ in range(setup.qps):
            infos = [side.endpoint.create_qp(config) for side in self.sides]
            for side, mine, other in zip(self.sides, infos, reversed(infos), strict=True):
                connection = Connection(mine.qpn)
                side.connections.append(connection)
                side.by_qpn[mine.qpn] = connection
                side.endpoint.connect_qp(mine.qpn, other, 0)
                for i in range(IMMS_MAX + 50):
                    side.endpoint.post_recv(mine.qpn, i)
        self.udp_at = {"v6": 54, "v4": 34, "srv6": 94}[setup.carrier]
        self.actions: dict[str, Callable[..., None]] = {
            "write": self.write,
            "deliver": self.deliver,
            "deliver_all": self.deliver_all,
            "drop": self.drop,
            "duplicate": self.duplicate,
            "replay": self.replay,
            "corrupt": self.corrupt,
            "mark": self.mark,
            "trim": self.trim,
            "garbage": self.garbage,
            "port": self.port,
            "plane": self.plane,
            "wait": self.wait,
            "deny": self.deny,
            "demote": self.demote,
            "replace": self.replace,
            "probe": self.probe,
            "penalty": self.penalty,
            "window": self.window,
            "control": self.control,
        }

    def do(self, name: str, *arguments: int) -> None:
        """One action, then the invariants. Raises Violation, or whatever the code throws."""
        self.steps += 1
        self.actions[name](*arguments)
        for side in self.sides:
            side.take_events()
        check(self)

    # --- what users do -------------------------------------------------------------------------

    def write(self, who: int, qp: int, slot: int, length: int, imm: int, fill: int) -> None:
        """A slot is written once: later writes to it could overtake in memory, as in RDMA."""
        side, other = self.sides[who % 2], self.sides[1 - who % 2]
        number = qp % len(side.connections)
        connection = side.connections[number]
        at = (number * SLOTS + slot % SLOTS) * SLOT
        length = 1 + length % SLOT
        if any(side.expected[at : at + SLOT]) or len(connection.imms) >= IMMS_MAX:
            return
        data = bytes((fill + i) % 255 + 1 for i in range(length))
        side.expected[at : at + length] = data
        wr_id = connection.posted
        connection.posted += 1
        connection.lengths.append(length)
        if imm:
            connection.imms.append((wr_id, length))
        side.endpoint.post_write(
            connection.qpn,
            wr_id,
            data,
            other.region.va + at,
            other.region.rkey,
            wr_id if imm else None,
        )
        self.transmit()

    # --- what the network does -----------------------------------------------------------------

    def deliver(self, count: int, order: int) -> None:
        """Some frames, in an order of the adversary's liking."""
        rng = Random(order)
        for _ in range(min(count, len(self.wire))):
            self.receive(self.wire.pop(rng.randrange(len(self.wire))))
        self.transmit()

    def deliver_all(self) -> None:
        batch, self.wire = self.wire, []
        for item in batch:
            self.receive(item)
        self.transmit()

    def drop(self, count: int, order: int) -> None:
        rng = Random(order)
        for _ in range(min(count, len(self.wire))):
            self.old.append(self.wire.pop(rng.randrange(len(self.wire))))

    def duplicate(self, which: int) -> None:
        if self.wire:
            self.receive(self.wire[which % len(self.wire)])
            self.transmit()

    def replay(self, which: int) -> None:
        """A frame from the past, seen before or lost."""
        if self.old:
            self.receive(self.old[which % len(self.old)])
            self.transmit()

    def corrupt(self, which: int, at: int, bit: int) -> None:
        """A flipped bit somewhere that the iCRC covers: never taken for good."""
        if not self.wire:
            return
        target, port, frame = self.wire.pop(which % len(self.wire))
        at = self.udp_at + at % (len(frame) - self.udp_at)
        if at - self.udp_at in (6, 7, 12):  # UDP checksum and BTH.var_res are not covered
            return
        bad = frame[:at] + bytes((frame[at] ^ 1 << bit % 8,)) + frame[at + 1 :]
        endpoint = self.sides[target].endpoint
        before = sum(endpoint.stats().drops.values())
        self.receive((target, port, bad), keep=False)
        if port not in self.silent and sum(endpoint.stats().drops.values()) != before + 1:
            raise Violation(f"a frame with bit {bit % 8} of byte {at} flipped was not dropped")

    def mark(self, which: int) -> None:
        """CE, on the outermost header."""
        if self.wire:
            which %= len(self.wire)
            target, port, frame = self.wire[which]
            if self._tc(frame) & 3:
                self.wire[which] = (target, port, self._set_tc(frame, self._tc(frame) | 3))

    def trim(self, which: int, lasthop: int) -> None:
        """A switch of the sender's fabric cuts the frame after TSETH."""
        size = self.udp_at + 8 + 12 + 8
        able = [i for i, item in enumerate(self.wire) if self._trimmable(item, size)]
        if not able:
            return
        target, port, frame = self.wire.pop(able[which % len(able)])
        dscp = PROFILES[self.setup.interop[1 - target]].dscp
        code = dscp.trimmed_lasthop if lasthop % 2 else dscp.trimmed
        self.receive((target, port, self._set_tc(frame[:size], code << 2)), keep=False)
        self.transmit()

    def garbage(self, who: int, port: int, seed: int) -> None:
        """Random bytes, or a real frame with random bytes in it: nothing may be raised."""
        rng = Random(seed)
        if self.old and seed % 2:
            frame = bytearray(rng.choice(self.old)[2])
            for _ in range(rng.randrange(1, 8)):
                frame[rng.randrange(len(frame))] = rng.getrandbits(8)
        else:
            frame = bytearray(rng.randbytes(rng.randrange(200)))
        self.receive((who % 2, 1 + port % self.setup.planes, bytes(frame)), keep=False)
        self.transmit()

    # --- ports and time ------------------------------------------------------------------------

    def port(self, who: int, port: int, up: int) -> None:
        """A port of a host; one plane stays usable."""
        port = 1 + port % self.setup.planes
        others = [p for p in range(1, self.setup.planes + 1) if p != port]
        alive = [p for p in others if all(s.endpoint.port_states()[str(p)] for s in self.sides)]
        if up % 2 or alive:
            self.sides[who % 2].endpoint.set_port(port, bool(up % 2), self.now)
            self.transmit()

    def plane(self, port: int, alive: int) -> None:
        """A plane swallows everything, without a word, or is whole again."""
        port = 1 + port % self.setup.planes
        if alive % 2:
            self.silent.discard(port)
        else:
            self.silent.add(port)

    def wait(self, step: int) -> None:
        self.now += STEPS_NS[step % len(STEPS_NS)]
        for side in self.sides:
            side.endpoint.on_deadline(self.now)
        self.transmit()

    # --- what controllers do -------------------------------------------------------------------

    def _ev(self, who: int, qp: int, which: int) -> tuple[Endpoint, int, int]:
        side = self.sides[who % 2]
        qpn = side.connections[qp % len(side.connections)].qpn
        table = side.endpoint.ev_table(qpn)
        return side.endpoint, qpn, table[which % len(table)].ev

    def deny(self, who: int, qp: int, which: int, denied: int) -> None:
        """Half of the EVs at most, so that every plane keeps some."""
        endpoint, qpn, ev = self._ev(who, qp, which)
        plane = endpoint.query_qp(qpn).evs
        entry = plane.by_ev[ev]
        others = [e for e in plane.by_ev.values() if e.port == entry.port]
        if denied % 2 and sum(e.state is EvState.DENIED for e in others) * 2 >= len(others) - 1:
            return
        endpoint.set_ev_denied(qpn, ev, bool(denied % 2), self.now)
        self.transmit()

    def demote(self, who: int, qp: int, which: int) -> None:
        """A path fails at the sender."""
        endpoint, qpn, ev = self._ev(who, qp, which)
        endpoint.path_failure(endpoint.query_qp(qpn).evs.by_ev[ev].port, ev, self.now)
        self.transmit()

    def replace(self, who: int, qp: int, which: int, ev: int) -> None:
        endpoint, qpn, old = self._ev(who, qp, which)
        new = 0xC000 | ev & 0x3FFF
        if PROFILES[self.setup.interop[who % 2]].ev_packing.name == "SPORT_HIGH":
            new <<= 16
        try:
            endpoint.replace_ev(qpn, old, new, self.now)
        except EndpointError:
            return  # in use already
        self.transmit()

    def probe(self, who: int, qp: int, which: int) -> None:
        endpoint, qpn, ev = self._ev(who, qp, which)
        endpoint.probe_ev(qpn, ev, self.now)
        self.transmit()

    def penalty(self, who: int, value: int) -> None:
        self.sides[who % 2].endpoint.set_receiver_penalty(value % 128)

    def window(self, who: int, qp: int, mpr: int) -> None:
        side = self.sides[who % 2]
        if self.setup.dynamic_mpr:
            qpn = side.connections[qp % len(side.connections)].qpn
            side.endpoint.set_receive_window(qpn, 1 + mpr % 8)

    def control(self, who: int, bdps: int) -> None:
        """Another window for a running QP's destination: through a CC profile of its own."""
        endpoint = self.sides[who % 2].endpoint
        config = CcConfig(self.setup.cc, 3 * HOP_NS, {"max_wnd_bdps": 1.0 + bdps % 4})
        if self.setup.cc == "fixed":
            config = CcConfig("fixed", 3 * HOP_NS, {"bdps": 1.0 + bdps % 4})
        endpoint.set_cc_profile("soak", config)
        self.transmit()

    # --- inside --------------------------------------------------------------------------------

    def _tc(self, frame: bytes) -> int:
        if frame[12] == 8:
            return frame[15]
        return (frame[14] & 15) << 4 | frame[15] >> 4

    def _set_tc(self, frame: bytes, tc: int) -> bytes:
        if frame[12] == 8:
            return frame[:15] + bytes((tc,)) + frame[16:]
        head = bytes((0x60 | tc >> 4, (tc & 15) << 4 | frame[15] & 15))
        return frame[:14] + head + frame[16:]

    def _trimmable(self, item: tuple[int, int, bytes], size: int) -> bool:
        target, _, frame = item
        dscp = PROFILES[self.setup.interop[1 - target]].dscp
        code = self._tc(frame) >> 2
        data = 0xC6 <= frame[self.udp_at + 8] <= 0xCB
        return data and len(frame) > size and code in (dscp.trimmable, dscp.trimmable_retx)

    def receive(self, item: tuple[int, int, bytes], keep: bool = True) -> None:
        target, port, frame = item
        if keep:
            self.old.append(item)
        if port not in self.silent:
            self.sides[target].endpoint.receive(port, frame, self.now)

    def transmit(self) -> None:
        """Let both send what they may within the next turn."""
        end = self.now + HOP_NS
        for side in self.sides:
            now = self.now
            idle = 0
            while True:
                frames = side.endpoint.frames_to_send(now)
                for port, frame in frames:
                    self.frames += 1
                    watch_sent(self, side, frame)
                    self.wire.append((1 - side.index, port, frame))
                due = side.endpoint.next_deadline()
                if due is None or due > end:
                    break
                idle = 0 if frames or due > now else idle + 1
                if idle > RESTLESS:
                    raise Violation(f"side {side.index}: due again and again, nothing to do")
                now = max(due, now)
                side.endpoint.on_deadline(now)
            side.take_events()
        self.now = end

    def finish(self) -> None:
        """The adversary leaves: everything must complete."""
        self.silent.clear()
        for side in self.sides:
            side.endpoint.set_receiver_penalty(0)
            for port in range(1, self.setup.planes + 1):
                side.endpoint.set_port(port, True, self.now)
        flying = deque((self.now, item) for item in self.wire)
        self.wire = []
        limit = self.now + END_NS
        while not self.complete():
            due = [x for s in self.sides if (x := s.endpoint.next_deadline()) is not None]
            if flying:
                due.append(flying[0][0])
            if not due:
                raise Violation("nothing to wait for, but not complete")
            self.now = max(self.now, min(due))
            if self.now > limit:
                raise Violation("stuck: not complete long after the network was whole again")
            while flying and flying[0][0] <= self.now:
                target, port, frame = flying.popleft()[1]
                self.sides[target].endpoint.receive(port, frame, self.now)
            for side in self.sides:
                side.endpoint.on_deadline(self.now)
                for port, frame in side.endpoint.frames_to_send(self.now):
                    self.frames += 1
                    watch_sent(self, side, frame)
                    flying.append((self.now + HOP_NS, (1 - side.index, port, frame)))
                side.take_events()
        check(self)
        check_end(self)

    def complete(self) -> bool:
        """All that was posted has completed."""
        return all(len(c.completions) >= c.posted for side in self.sides for c in side.connections)


__all__ = ["PMTU", "RATE", "Connection", "Side", "Violation", "World"]
