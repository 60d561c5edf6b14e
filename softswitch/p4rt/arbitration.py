"""Who may write: client arbitration as a pure state machine.

One device and the roles it was started with; the default role has no name. A client is a
stream that sent a valid MasterArbitrationUpdate; per role, the primary is the connected client
whose election id is the highest the device has ever received for that role. Inputs are stream
updates and disconnections; outputs are the notifications to send, in order (P4Runtime spec,
"Client Arbitration and Controller Replication"). Nothing here knows gRPC.

Roles here are for sharing, not for partitioning: every role has full pipeline access, so that
a shell can write beside the controller without taking its place.
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
    role: str = ""


class _Client(NamedTuple):
    role: str
    election_id: int | None


@dataclass
class Arbiter:
    """Streams of one device and, per role, the highest election id they ever sent."""

    device_id: int
    max_streams: int = MAX_STREAMS
    roles: frozenset[str] = frozenset()
    """Names of roles beside the default one."""
    _highest: dict[str, int] = field(default_factory=dict)
    _clients: dict[Hashable, _Client] = field(default_factory=dict)

    @property
    def highest(self) -> int | None:
        """Highest election id ever seen in the default role."""
        return self._highest.get("")

    @property
    def primary(self) -> Hashable | None:
        """The stream of the default role's primary, if it is connected."""
        return self.primary_of("")

    def primary_of(self, role: str) -> Hashable | None:
        """The stream of a role's primary, if it is connected."""
        highest = self._highest.get(role)
        if highest is None:
            return None
        wanted = _Client(role, highest)
        for stream, client in self._clients.items():
            if client == wanted:
                return stream
        return None

    def primaries(self) -> list[Hashable]:
        """The streams of all roles' primaries; those get what the switch has to tell."""
        found = [self.primary_of(role) for role in ("", *sorted(self.roles))]
        return [stream for stream in found if stream is not None]

    def is_client(self, stream: Hashable) -> bool:
        """Whether the stream took part in arbitration."""
        return stream in self._clients

    def is_primary(self, stream: Hashable) -> bool:
        """Whether the stream is the primary of its role."""
        client = self._clients.get(stream)
        return client is not None and self.primary_of(client.role) is stream

    def knows_role(self, role: str, role_id: int = 0) -> bool:
        """Whether requests may name the role; the deprecated integer ids are not known."""
        return not role_id and (not role or role in self.roles)

    def is_primary_election(self, election_id: int | None, role: str = "") -> bool:
        """Whether a Write with this election id and role comes from the primary."""
        return (
            election_id is not None
            and election_id == self._highest.get(role)
            and self.primary_of(role) is not None
        )

    def update(self, stream: Hashable, message: Arbitration) -> list[Notification]:
        """A MasterArbitrationUpdate arrived. P4RTError: terminate the stream with it."""
        old = self._clients.get(stream)
        self._check(message, old)
        role, election = message.role_name, message.election_id
        if election is not None and any(
            client == (role, election) and other != stream
            for other, client in self._clients.items()
        ):
            raise invalid(f"election id {describe(election)} is used by another client")
        if old is None and len(self._clients) >= self.max_streams:
            raise P4RTError(
                Code.RESOURCE_EXHAUSTED, f"{self.max_streams} clients are connected already"
            )
        was_primary = old is not None and self.primary_of(role) == stream
        self._clients[stream] = _Client(role, election)
        if election is not None and election >= self._highest.get(role, 0):
            self._highest[role] = election
            others = [other for other in self._members(role) if other != stream]
            return self._notify(role, [*others, stream])
        if was_primary:
            return self._notify(role, self._members(role))
        return self._notify(role, [stream])

    def disconnect(self, stream: Hashable) -> list[Notification]:
        """The stream ended. Others of its role hear of it when it was the primary."""
        client = self._clients.get(stream)
        if client is None:
            return []
        was_primary = self.primary_of(client.role) == stream
        del self._clients[stream]
        return self._notify(client.role, self._members(client.role)) if was_primary else []

    def _members(self, role: str) -> list[Hashable]:
        return [stream for stream, client in self._clients.items() if client.role == role]

    def _check(self, message: Arbitration, old: _Client | None) -> None:
        if message.device_id != self.device_id:
            text = f"device id {message.device_id}: this is device {self.device_id}"
            raise (P4RTError(Code.FAILED_PRECONDITION, text) if old else not_found(text))
        role = message.role_name
        if old is not None and (role != old.role or message.role_id):
            raise P4RTError(
                Code.FAILED_PRECONDITION,
                f"role '{role or message.role_id}': this stream has role '{old.role}'; "
                "open another stream for another role",
            )
        if not self.knows_role(role, message.role_id):
            raise invalid(self.role_text(role, message.role_id))
        if message.role_config:
            raise invalid("role.config: roles are not configurable here; leave it unset")

    def role_text(self, role: str, role_id: int = 0) -> str:
        """Why a role is refused."""
        if role_id:
            return f"role id {role_id}: roles have names; integer ids are deprecated"
        others = "".join(f", '{name}'" for name in sorted(self.roles))
        known = f"this switch knows the default role (no name){others}"
        return f"role '{role}': {known}; see --role"

    def _notify(self, role: str, streams: list[Hashable]) -> list[Notification]:
        primary, highest = self.primary_of(role), self._highest.get(role)
        out = []
        for stream in streams:
            if primary is None:
                code, text = Code.NOT_FOUND, "there is no primary"
            elif stream == primary:
                code, text = Code.OK, "you are the primary"
            else:
                code, text = Code.ALREADY_EXISTS, "you are a backup; another client is primary"
            out.append(Notification(stream, highest, code, text, role))
        return out


def describe(election_id: int) -> str:
    """Election id as (high, low), the way clients give it."""
    return f"({election_id >> 64}, {election_id & (1 << 64) - 1})"
