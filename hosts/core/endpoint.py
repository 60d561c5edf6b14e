"""The MRC endpoint: one NIC with its ports, memory and QPs, driven by five calls.

endpoint = Endpoint(config, random.Random(seed))
region = endpoint.register_memory(1 << 20)              # va, rkey to tell the peer
mine = endpoint.create_qp(QpConfig())                   # PeerInfo to tell the peer
endpoint.connect_qp(mine.qpn, peers_info, now)          # -> RTS
endpoint.post_write(mine.qpn, 1, source, remote_va, remote_rkey)

driver:  receive(port, frame, now) for each frame that came in,
         on_deadline(now) when next_deadline() has passed,
         then frames_to_send(now) and events(), then wait for a frame or next_deadline().
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hosts.core.config import EndpointConfig, PeerInfo, QpConfig
from hosts.core.events import Event, EvState, QpState

if TYPE_CHECKING:
    from random import Random

    from hosts.core.memory import MemoryRegion


class EndpointError(Exception):
    """A verb that cannot be done as asked; str() says what and why in one line."""


@dataclass(frozen=True, slots=True)
class EvInfo:
    """One entropy value of a QP as the controller sees it."""

    ev: int
    port: int
    plane: int
    state: EvState
    role: str  # "active", "backup" or "out" (neither: ASSUMED_BAD or DENIED)
    drops: int  # losses that spoke against it


@dataclass(frozen=True, slots=True)
class QpStats:
    """Counters of a QP; bytes are payload bytes. Times in ns, windows in bytes."""

    qpn: int
    state: QpState
    sent_packets: int  # data packets, retransmissions included
    sent_bytes: int
    retransmitted_packets: int
    lost_inferred: int
    nacks_received: int
    rtos: int
    acked_bytes: int  # posted bytes whose message completed
    delivered_packets: int  # as responder: new data packets accepted
    delivered_bytes: int  # as responder: unique payload bytes placed
    duplicate_packets: int  # as responder
    trimmed_packets: int  # as responder
    sacks_sent: int
    sacks_received: int
    cwnd: int
    inflight: int
    base_rtt_ns: int
    rtt_ns: int  # newest sample; 0 before the first
    rtt_mean_ns: int  # smoothed
    outstanding_packets: int
    ev_counts: dict[str, int]  # "GOOD", "SKIP", "ASSUMED_BAD", "DENIED" over active + backup + out


@dataclass(frozen=True, slots=True)
class EndpointStats:
    """Counters of the endpoint. drops: received frames not used, by cause."""

    frames_received: int
    frames_sent: int
    bytes_sent: int
    drops: dict[str, int]  # "not_mrc", "icrc", "unknown_qp", "bad_state", "opcode", ...
    qps: dict[int, QpStats]

    def total(self, name: str) -> int:
        """Sum of one counter over all QPs."""
        return sum(getattr(q, name) for q in self.qps.values())


class Endpoint:
    """See the module. Not thread-safe; no call blocks or reads a clock."""

    def __init__(self, config: EndpointConfig, rng: Random, now: int = 0) -> None:
        raise NotImplementedError

    # --- the five calls ------------------------------------------------------------------------

    def receive(self, port: int, frame: bytes | bytearray | memoryview, now: int) -> None:
        """A frame arrived on a port. The buffer may be reused after the call returns."""
        raise NotImplementedError

    def frames_to_send(self, now: int) -> list[tuple[int, bytes]]:
        """(port, frame) that leave now, at most what the ports' line rate allows."""
        raise NotImplementedError

    def next_deadline(self) -> int | None:
        """When to call on_deadline (and frames_to_send) again; None: only when a frame arrives."""
        raise NotImplementedError

    def on_deadline(self, now: int) -> None:
        """Serve timers due at `now`; harmless when none is."""
        raise NotImplementedError

    def events(self) -> list[Event]:
        """Events since the last call."""
        raise NotImplementedError

    # --- verbs ---------------------------------------------------------------------------------

    def register_memory(
        self, memory: int | bytearray | memoryview, *, remote_write: bool = True
    ) -> MemoryRegion:
        """Register zeroed memory of a length, or a writable buffer."""
        raise NotImplementedError

    def deregister_memory(self, rkey: int) -> None:
        raise NotImplementedError

    def create_qp(self, config: QpConfig | None = None) -> PeerInfo:
        """A QP in INIT; returns what the peer must be told. EVs are chosen now (see ev_table)."""
        raise NotImplementedError

    def connect_qp(self, qpn: int, peer: PeerInfo, now: int) -> None:
        """INIT -> RTR -> RTS."""
        raise NotImplementedError

    def destroy_qp(self, qpn: int, now: int) -> None:
        """Flush what is outstanding and forget the QP."""
        raise NotImplementedError

    def post_write(
        self,
        qpn: int,
        wr_id: int,
        source: bytes | bytearray | memoryview,
        remote_va: int,
        rkey: int,
        imm: int | None = None,
    ) -> None:
        """Write `source` (kept by reference until the completion) to the peer's memory.

        With `imm` it is a write with immediate. Raises EndpointError: QP not RTS, empty source.
        """
        raise NotImplementedError

    def post_recv(self, qpn: int, wr_id: int) -> None:
        """A receive work request: one is consumed by each write with immediate."""
        raise NotImplementedError

    # --- control -------------------------------------------------------------------------------

    def set_port(self, port: int, up: bool, now: int) -> None:
        """A local port went down or came up: its EVs stop or start, peers are told."""
        raise NotImplementedError

    def set_ev_denied(self, qpn: int, ev: int, denied: bool, now: int) -> None:
        """Controller: any state -> DENIED, or DENIED -> GOOD."""
        raise NotImplementedError

    def probe_ev(self, qpn: int, ev: int, now: int, timeout_ns: int | None = None) -> None:
        """Send an EV probe; an EvProbeResult event follows."""
        raise NotImplementedError

    def ev_table(self, qpn: int) -> list[EvInfo]:
        raise NotImplementedError

    def stats(self) -> EndpointStats:
        raise NotImplementedError

    def outstanding(self, qpn: int) -> int:
        """Posted writes not yet completed."""
        raise NotImplementedError
