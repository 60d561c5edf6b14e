"""Who may write: client arbitration as a pure state machine.

One device, one (default) role. A client is a stream that sent a valid
MasterArbitrationUpdate; the primary is the connected client whose election id is the
highest the device has ever received. Inputs are stream updates and disconnections;
outputs are the notifications to send, in order (P4Runtime spec, "Client Arbitration and
Controller Replication"). Nothing here knows gRPC.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import NamedTuple

from softswitch.p4rt.status import Code, P4RTError, invalid, not_found

MAX_STREAMS = 48
"""Clients of one device; each holds a thread of the server."""


class Arbitration(NamedTuple):
    """What a client says in MasterArbitrationUpdate. Election id None: unset."""

    device_id: int
    election_id: int | None
    role_name: str = ""
    role_id: int = 0
    role_config: bool = False


class Notification(NamedTuple):
    """What to tell one stream: highest election id ever seen from a primary and status."""

    stream: Hashable
    election_id: int | None
    code: Code
    message: str


@dataclass
class Arbiter:
    """Streams of one device and the highest election id they ever sent."""

    device_id: int
    max_streams: int = MAX_STREAMS
    highest: int | None = None
    _clients: dict[Hashable, int | None] = field(default_factory=dict)

    @property
    def primary(self) -> Hashable | None:
        """The stream of the primary, if it is connected."""
        if self.highest is None:
            return None
        for stream, election in self._clients.items():
            if election == self.highest:
                return stream
        return None

    def is_client(self, stream: Hashable) -> bool:
        """Whether the stream took part in arbitration."""
        return stream in self._clients

    def is_primary_election(self, election_id: int | None) -> bool:
        """Whether a Write with this election id comes from the primary."""
        return election_id is not None and election_id == self.highest and self.primary is not None

    def update(self, stream: Hashable, message: Arbitration) -> list[Notification]:
        """A MasterArbitrationUpdate arrived. P4RTError: terminate the stream with it."""
        known = stream in self._clients
        self._check(message, known)
        if message.election_id is not None and any(
            election == message.election_id and other != stream
            for other, election in self._clients.items()
        ):
            raise invalid(f"election id {describe(message.election_id)} is used by another client")
        if not known and len(self._clients) >= self.max_streams:
            raise P4RTError(
                Code.RESOURCE_EXHAUSTED, f"{self.max_streams} clients are connected already"
            )
        was_primary = self.primary == stream and known
        self._clients[stream] = message.election_id
        if message.election_id is not None and (
            self.highest is None or message.election_id >= self.highest
        ):
            self.highest = message.election_id
            others = [other for other in self._clients if other != stream]
            return self._notify([*others, stream])
        if was_primary:
            return self._notify(list(self._clients))
        return self._notify([stream])

    def disconnect(self, stream: Hashable) -> list[Notification]:
        """The stream ended. Others hear of it when it was the primary."""
        was_primary = self.primary == stream and stream in self._clients
        self._clients.pop(stream, None)
        return self._notify(list(self._clients)) if was_primary else []

    def _check(self, message: Arbitration, known: bool) -> None:
        if message.device_id != self.device_id:
            text = f"device id {message.device_id}: this is device {self.device_id}"
            raise P4RTError(Code.FAILED_PRECONDITION, text) if known else not_found(text)
        if message.role_name or message.role_id:
            role = message.role_name or str(message.role_id)
            text = f"role '{role}': only the default role (no role) exists here"
            raise P4RTError(Code.FAILED_PRECONDITION, text) if known else invalid(text)
        if message.role_config:
            raise invalid("role.config: roles are not configurable here; leave it unset")

    def _notify(self, streams: list[Hashable]) -> list[Notification]:
        primary = self.primary
        out = []
        for stream in streams:
            if primary is None:
                code, text = Code.NOT_FOUND, "there is no primary"
            elif stream == primary:
                code, text = Code.OK, "you are the primary"
            else:
                code, text = Code.ALREADY_EXISTS, "you are a backup; another client is primary"
            out.append(Notification(stream, self.highest, code, text))
        return out


def describe(election_id: int) -> str:
    """Election id as (high, low), the way clients give it."""
    return f"({election_id >> 64}, {election_id & (1 << 64) - 1})"
