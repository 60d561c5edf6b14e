"""Packet replication engine: multicast groups and clone sessions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from p4.v1 import p4runtime_pb2

from softswitch.engine import Engine
from softswitch.engine.types import CloneSession, Replica
from softswitch.p4rt.journal import Journal
from softswitch.p4rt.status import Code, P4RTError, invalid, not_found

INSERT, MODIFY, DELETE = 1, 2, 3
MAX_GROUP_ID = 0xFFFF
"""standard_metadata.mcast_grp is 16 bits."""
MAX_SESSION_ID = 0x7FFF
"""bmv2 keeps 32,768 clone sessions."""
MAX_INSTANCE = 0xFFFF
"""standard_metadata.egress_rid is 16 bits."""
MAX_PORT = 511


@dataclass(frozen=True, slots=True)
class _Group:
    """What the client sent, for reading back, and what the engine got."""

    message: Any
    replicas: list[Replica]


@dataclass(frozen=True, slots=True)
class _Session:
    """The same for a clone session."""

    message: Any
    made: CloneSession


_Recorded = TypeVar("_Recorded", _Group, _Session)


class ReplicationStore:
    """Groups and sessions of one engine. They outlive a pipeline only by RECONCILE."""

    def __init__(
        self, engine: Engine, priority_queues: int, journal: Journal | None = None
    ) -> None:
        self._engine = engine
        self._journal = journal or Journal()
        self._classes = priority_queues
        self.groups: dict[int, _Group] = {}
        self.sessions: dict[int, _Session] = {}

    def write(self, update_type: int, entry: Any) -> None:
        """An update of PacketReplicationEngineEntry."""
        which = entry.WhichOneof("type")
        if which == "multicast_group_entry":
            self._write_group(update_type, entry.multicast_group_entry)
        elif which == "clone_session_entry":
            self._write_session(update_type, entry.clone_session_entry)
        else:
            raise invalid("packet replication entry: neither a multicast group nor a session")

    def _write_group(self, update_type: int, group: Any) -> None:
        gid = group.multicast_group_id
        what = f"multicast group {gid}"
        if gid == 0:
            raise invalid("multicast group: id 0 is not allowed")
        if gid > MAX_GROUP_ID:
            raise P4RTError(Code.OUT_OF_RANGE, f"{what}: ids go up to {MAX_GROUP_ID}")
        self._check_presence(update_type, gid in self.groups, what)
        old = self.groups.get(gid)
        if update_type == DELETE:
            self._put_group(gid, None)
        else:
            self._put_group(gid, _Group(_canonical(group), _replicas(group.replicas, what)))
        self._journal.note(lambda: self._put_group(gid, old))

    def _put_group(self, gid: int, group: _Group | None) -> None:
        if group is not None:
            self._engine.mc_group_set(gid, group.replicas)
            self.groups[gid] = group
        elif gid in self.groups:
            self._engine.mc_group_delete(gid)
            del self.groups[gid]

    def _write_session(self, update_type: int, session: Any) -> None:
        sid = session.session_id
        what = f"clone session {sid}"
        if sid == 0:
            raise invalid("clone session: id 0 is not allowed")
        if sid > MAX_SESSION_ID:
            raise P4RTError(Code.OUT_OF_RANGE, f"{what}: ids go up to {MAX_SESSION_ID}")
        self._check_presence(update_type, sid in self.sessions, what)
        old = self.sessions.get(sid)
        if update_type == DELETE:
            self._put_session(sid, None)
            self._journal.note(lambda: self._put_session(sid, old))
            return
        if not 0 <= session.class_of_service < self._classes:
            raise invalid(
                f"{what}: class_of_service {session.class_of_service}: "
                f"the switch has {self._classes} priority queues"
            )
        if session.packet_length_bytes < 0:
            raise invalid(f"{what}: packet_length_bytes {session.packet_length_bytes} is negative")
        made = CloneSession(
            sid,
            tuple(_replicas(session.replicas, what)),
            session.packet_length_bytes,
            session.class_of_service,
        )
        self._put_session(sid, _Session(_canonical(session), made))
        self._journal.note(lambda: self._put_session(sid, old))

    def _put_session(self, sid: int, session: _Session | None) -> None:
        if session is not None:
            self._engine.clone_session_set(session.made)
            self.sessions[sid] = session
        elif sid in self.sessions:
            self._engine.clone_session_delete(sid)
            del self.sessions[sid]

    @staticmethod
    def _check_presence(update_type: int, present: bool, what: str) -> None:
        if update_type == INSERT and present:
            raise P4RTError(Code.ALREADY_EXISTS, f"{what} exists")
        if update_type != INSERT and not present:
            raise not_found(f"there is no {what}")

    def clear(self) -> None:
        """Remove all groups and sessions."""
        for gid in list(self.groups):
            self._engine.mc_group_delete(gid)
        for sid in list(self.sessions):
            self._engine.clone_session_delete(sid)
        self.groups.clear()
        self.sessions.clear()

    def read(self, entry: Any) -> Iterator[bytes]:
        """Bodies of Entity. Id 0 reads all; with neither kind set, groups and sessions."""
        which = entry.WhichOneof("type")
        if which != "clone_session_entry":
            wanted = entry.multicast_group_entry.multicast_group_id
            for record in _selected(self.groups, wanted, "multicast group"):
                out = p4runtime_pb2.Entity()
                target = out.packet_replication_engine_entry.multicast_group_entry
                target.CopyFrom(record.message)
                yield out.SerializeToString()
        if which != "multicast_group_entry":
            wanted = entry.clone_session_entry.session_id
            for session in _selected(self.sessions, wanted, "clone session"):
                out = p4runtime_pb2.Entity()
                target = out.packet_replication_engine_entry.clone_session_entry
                target.CopyFrom(session.message)
                yield out.SerializeToString()


def _selected(records: Mapping[int, _Recorded], wanted: int, what: str) -> list[_Recorded]:
    if wanted == 0:
        return list(records.values())
    if wanted not in records:
        raise not_found(f"there is no {what} {wanted}")
    return [records[wanted]]


def _replicas(replicas: Any, what: str) -> list[Replica]:
    out: list[Replica] = []
    seen: set[tuple[int, int]] = set()
    for replica in replicas:
        form = replica.WhichOneof("port_kind")
        if form == "port":
            if not replica.port:
                raise invalid(f"{what}: a replica's port is an empty byte string")
            port = int.from_bytes(replica.port, "big")
        elif form == "egress_port":
            port = replica.egress_port
        else:
            raise invalid(f"{what}: a replica has no port")
        if port > MAX_PORT:
            raise invalid(f"{what}: port {port} is not in 0..{MAX_PORT}")
        if replica.instance > MAX_INSTANCE:
            raise invalid(f"{what}: instance {replica.instance} is not in 0..{MAX_INSTANCE}")
        if (port, replica.instance) in seen:
            raise invalid(f"{what}: port {port} instance {replica.instance} is given twice")
        seen.add((port, replica.instance))
        out.append(Replica(port, replica.instance))
    return out


def _canonical(message: Any) -> Any:
    """A copy with shortest byte strings."""
    copy = type(message)()
    copy.CopyFrom(message)
    for replica in copy.replicas:
        if replica.WhichOneof("port_kind") == "port":
            replica.port = replica.port.lstrip(b"\0") or b"\0"
    return copy
