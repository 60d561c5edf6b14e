"""A hand-cranked endpoint, for tests of what drives it."""

from __future__ import annotations

from random import Random
from typing import Any

from hosts.core.config import EndpointConfig, PeerInfo, PortConfig
from hosts.core.endpoint import Endpoint, EndpointStats, EvInfo
from hosts.core.events import Completion, EvState, Status
from hosts.core.memory import MemoryTable


class FakeEndpoint:
    """Writes wait in `posted` until `complete`; frames in `out` are handed out once."""

    def __init__(self, *_: object) -> None:
        self.table = MemoryTable(Random(1))
        self.posted: list[tuple[int, int, bytes, int, int, int | None]] = []
        self.pending: list[Completion] = []
        self.received: list[tuple[int, bytes]] = []
        self.out: list[tuple[int, bytes]] = []
        self.ports: list[tuple[int, bool]] = []
        self.peers: dict[int, PeerInfo] = {}
        self.configs: list[object] = []
        self.deadline: int | None = None
        self.recvs: list[int] = []
        port = PortConfig(1, bytes(6), bytes(6), bytes(16), 1_000_000_000)
        self.real = Endpoint(EndpointConfig((port,)), Random(1))

    def __getattr__(self, name: str) -> Any:
        """What is not faked is a real endpoint's."""
        return getattr(self.real, name)

    def receive(self, port: Any, frame: Any, now: Any) -> Any:
        self.received.append((port, bytes(frame)))

    def frames_to_send(self, now: Any) -> Any:
        out, self.out = self.out, []
        return out

    def next_deadline(self) -> Any:
        return self.deadline

    def on_deadline(self, now: Any) -> Any:
        self.deadline = None

    def events(self) -> Any:
        pending, self.pending = self.pending, []
        return pending

    def register_memory(self, memory: Any, *, remote_write: Any = True) -> Any:
        return self.table.register(memory, remote_write)

    def deregister_memory(self, rkey: Any) -> Any:
        self.table.deregister(rkey)

    def create_qp(self, config: Any = None) -> Any:
        self.configs.append(config)
        return PeerInfo(qpn=15 + len(self.configs), psn=7, ips={1: bytes(16)})

    def connect_qp(self, qpn: Any, peer: Any, now: Any) -> Any:
        self.peers[qpn] = peer

    def destroy_qp(self, qpn: Any, now: Any) -> Any:
        self.peers.pop(qpn, None)

    def post_write(
        self, qpn: Any, wr_id: Any, source: Any, remote_va: Any, rkey: Any, imm: Any = None
    ) -> Any:
        self.posted.append((qpn, wr_id, bytes(source), remote_va, rkey, imm))

    def post_recv(self, qpn: Any, wr_id: Any) -> Any:
        self.recvs.append(wr_id)

    def complete(self, status: Any = Status.SUCCESS) -> Any:
        """Finish the oldest write."""
        qpn, wr_id, source, *_ = self.posted.pop(0)
        self.pending.append(Completion(1, qpn, wr_id, status, len(source)))
        return source

    def set_port(self, port: Any, up: Any, now: Any) -> Any:
        self.ports.append((port, up))

    def ev_table(self, qpn: Any) -> Any:
        return [EvInfo(5, 1, 0, EvState.GOOD, "active", 0)]

    def set_ev_denied(self, qpn: Any, ev: Any, denied: Any, now: Any) -> Any:
        pass

    def probe_ev(self, qpn: Any, ev: Any, now: Any, timeout_ns: Any = None) -> Any:
        pass

    def stats(self) -> Any:
        return EndpointStats(0, 0, 0, {"not_mrc": 2}, {})
