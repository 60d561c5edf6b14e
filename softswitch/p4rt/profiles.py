"""Action profile members, selector groups and one-shot action sets.

Client ids map to engine handles. Members and groups made for one-shot entries have no
client id: they exist in the engine only and are read back as the one-shot they came from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from p4.v1 import p4runtime_pb2

from softswitch.engine import Engine
from softswitch.engine.types import ActionCall, GroupMember, GroupRef
from softswitch.p4rt import bytestrings, wire
from softswitch.p4rt.journal import Journal
from softswitch.p4rt.schema import ActionSpec, ProfileSpec, Schema, TableSpec
from softswitch.p4rt.status import Code, P4RTError, invalid, not_found

INSERT, MODIFY, DELETE = 1, 2, 3
MAX_GROUP = 1 << 16
"""Sum of weights of one group when the program sets no bound."""

WATCH_NONE, WATCH_INT, WATCH_BYTES = 0, 3, 4


@dataclass(frozen=True, slots=True)
class Watch:
    """A watched port and the form it was sent in: the field number, 0 when unset."""

    form: int = WATCH_NONE
    port: int | None = None

    def encode(self) -> bytes:
        """Field of Group.Member or ActionProfileAction."""
        if self.form == WATCH_NONE:
            return b""
        if self.form == WATCH_INT:
            return wire.varint(WATCH_INT << 3) + wire.varint(self.port or 0)
        data = b"" if self.port is None else bytestrings.encode(self.port)
        return wire.field_bytes(WATCH_BYTES, data)


@dataclass(slots=True)
class MemberRec:
    """A member as the client made it. `users` counts groups and entries that point here."""

    handle: int
    call: ActionCall
    users: int = 0


@dataclass(slots=True)
class GroupRec:
    """A group; `members` are (member id, weight, watch)."""

    handle: int
    max_size: int
    members: list[tuple[int, int, Watch]] = field(default_factory=list)
    users: int = 0


@dataclass(slots=True)
class OneShot:
    """A one-shot action set of an entry: its hidden group and members in the engine."""

    group: int
    members: list[int]
    actions: list[tuple[ActionCall, int, Watch]]


class ProfileStore:
    """One action profile or selector."""

    def __init__(
        self,
        spec: ProfileSpec,
        schema: Schema,
        engine: Engine,
        port_exists: Callable[[int], bool],
        journal: Journal | None = None,
    ) -> None:
        self.spec = spec
        self._engine = engine
        self._journal = journal or Journal()
        self._port_exists = port_exists
        self._tables = [schema.tables[item] for item in spec.table_ids if item in schema.tables]
        self._actions: dict[str, ActionSpec] = {}
        for table in self._tables:
            self._actions.update(table.actions_by_name)
        self.members: dict[int, MemberRec] = {}
        self.groups: dict[int, GroupRec] = {}
        self.oneshots = 0

    # -- members
    def write_member(self, update_type: int, member: Any) -> None:
        """An update of ActionProfileMember (protobuf message)."""
        name = self.spec.name
        member_id = member.member_id
        if member_id == 0:
            raise invalid(f"{name}: member id 0 is not allowed")
        record = self.members.get(member_id)
        if update_type == INSERT:
            if record is not None:
                raise P4RTError(Code.ALREADY_EXISTS, f"{name}: member {member_id} exists")
            self._refuse_mix()
            call = self._member_action(member)
            if (
                self.spec.size > 0
                and not self.spec.selector
                and len(self.members) >= (self.spec.size)
            ):
                raise P4RTError(
                    Code.RESOURCE_EXHAUSTED, f"{name}: {self.spec.size} members is all it holds"
                )
            handle = self._engine.member_add(name, call)
            self.members[member_id] = MemberRec(handle, call)
            self._journal.note(lambda: self._remove_member(member_id))
            return
        if record is None:
            raise not_found(f"{name}: there is no member {member_id}")
        if update_type == MODIFY:
            call = self._member_action(member)
            old = record.call
            self._change_member(record, call)
            self._journal.note(lambda: self._change_member(record, old))
            return
        if record.users:
            raise P4RTError(
                Code.FAILED_PRECONDITION,
                f"{name}: member {member_id} is used by {record.users} groups or entries",
            )
        self._remove_member(member_id)
        self._journal.note(lambda: self._reinstate_member(member_id, record))

    def _change_member(self, record: MemberRec, call: ActionCall) -> None:
        self._engine.member_modify(self.spec.name, record.handle, call)
        record.call = call

    def _remove_member(self, member_id: int) -> None:
        self._engine.member_delete(self.spec.name, self.members[member_id].handle)
        del self.members[member_id]

    def _reinstate_member(self, member_id: int, record: MemberRec) -> None:
        record.handle = self._engine.member_add(self.spec.name, record.call)
        self.members[member_id] = record

    def _member_action(self, member: Any) -> ActionCall:
        if not member.HasField("action"):
            raise invalid(f"{self.spec.name}: member {member.member_id} needs an action")
        return self._action(member.action)

    def _action(self, action: Any) -> ActionCall:
        if not self._tables:
            raise invalid(f"{self.spec.name}: no table uses this profile")
        raw = wire.RawAction(action.action_id, [(p.param_id, p.value) for p in action.params])
        return self._tables[0].decode_action(raw)

    def _refuse_mix(self) -> None:
        if self.oneshots:
            raise invalid(
                f"{self.spec.name}: has one-shot entries; members and groups cannot be mixed in"
            )

    # -- groups
    def write_group(self, update_type: int, group: Any) -> None:
        """An update of ActionProfileGroup (protobuf message)."""
        name = self.spec.name
        if not self.spec.selector:
            raise invalid(f"{name}: an action profile without selector has no groups")
        group_id = group.group_id
        if group_id == 0:
            raise invalid(f"{name}: group id 0 is not allowed")
        record = self.groups.get(group_id)
        if update_type == INSERT:
            if record is not None:
                raise P4RTError(Code.ALREADY_EXISTS, f"{name}: group {group_id} exists")
            self._refuse_mix()
            self._check_max_size(group.max_size)
            record = GroupRec(0, group.max_size)
            record.members = self._group_members(group, group.max_size)
            self._create_group(group_id, record)
            self._journal.note(lambda: self._remove_group(group_id))
            return
        if record is None:
            raise not_found(f"{name}: there is no group {group_id}")
        if update_type == MODIFY:
            if group.max_size != record.max_size:
                raise invalid(
                    f"{name}: group {group_id} was made with max_size {record.max_size}; "
                    "it cannot change"
                )
            old = record.members
            self._change_group(record, self._group_members(group, record.max_size))
            self._journal.note(lambda: self._change_group(record, old))
            return
        if record.users:
            raise P4RTError(
                Code.FAILED_PRECONDITION,
                f"{name}: group {group_id} is used by {record.users} entries",
            )
        self._remove_group(group_id)
        self._journal.note(lambda: self._create_group(group_id, record))

    def _create_group(self, group_id: int, record: GroupRec) -> None:
        name = self.spec.name
        record.handle = self._engine.group_create(name, record.max_size)
        try:
            self._engine.group_set_members(name, record.handle, self._resolve(record.members))
        except Exception:
            self._engine.group_delete(name, record.handle)
            raise
        self.groups[group_id] = record
        self._count(record.members, 1)

    def _change_group(self, record: GroupRec, members: list[tuple[int, int, Watch]]) -> None:
        self._engine.group_set_members(self.spec.name, record.handle, self._resolve(members))
        self._count(record.members, -1)
        self._count(members, 1)
        record.members = members

    def _remove_group(self, group_id: int) -> None:
        record = self.groups[group_id]
        self._engine.group_delete(self.spec.name, record.handle)
        self._count(record.members, -1)
        del self.groups[group_id]

    def _check_max_size(self, max_size: int) -> None:
        name, bound = self.spec.name, self.spec.max_group_size
        if max_size < 0:
            raise invalid(f"{name}: max_size {max_size} is negative")
        if bound > 0 and not 0 < max_size <= bound:
            raise invalid(f"{name}: max_size {max_size} is not in 1..{bound}")
        if max_size > MAX_GROUP:
            raise P4RTError(
                Code.RESOURCE_EXHAUSTED, f"{name}: max_size {max_size} exceeds {MAX_GROUP}"
            )

    def _group_members(self, group: Any, max_size: int) -> list[tuple[int, int, Watch]]:
        name = f"{self.spec.name}: group {group.group_id}"
        members: list[tuple[int, int, Watch]] = []
        seen: set[int] = set()
        for member in group.members:
            member_id = member.member_id
            if member_id in seen:
                raise invalid(f"{name}: member {member_id} is listed twice; use weights")
            seen.add(member_id)
            if member_id not in self.members:
                raise not_found(f"{name}: there is no member {member_id}")
            weight = self._weight(member.weight, f"{name}: member {member_id}")
            members.append((member_id, weight, self._watch(member, name)))
        self._check_size([weight for _, weight, _ in members], max_size, name)
        return members

    def _weight(self, weight: int, what: str) -> int:
        if weight <= 0:
            raise invalid(f"{what}: weight {weight} must be above 0")
        limit = self.spec.max_member_weight
        if self.spec.sum_of_members and 0 < limit < weight:
            raise invalid(f"{what}: weight {weight} exceeds max_member_weight {limit}")
        return weight

    def _check_size(
        self, weights: list[int], max_size: int, what: str, code: Code = Code.RESOURCE_EXHAUSTED
    ) -> None:
        size = len(weights) if self.spec.sum_of_members else sum(weights)
        bound = max_size or self.spec.max_group_size or MAX_GROUP
        if size > bound:
            raise P4RTError(code, f"{what}: size {size} exceeds {bound}")

    def _watch(self, item: Any, what: str) -> Watch:
        form = item.WhichOneof("watch_kind")
        if form is None:
            return Watch()
        if form == "watch":
            port = item.watch
            if port == 0:
                return Watch(WATCH_INT, None)
            watch = Watch(WATCH_INT, port)
        else:
            if not item.watch_port:
                return Watch(WATCH_BYTES, None)
            port = int.from_bytes(item.watch_port, "big")
            watch = Watch(WATCH_BYTES, port)
        if not self._port_exists(port):
            raise invalid(f"{what}: watch_port {port}: the switch has no such port")
        return watch

    def _resolve(self, members: list[tuple[int, int, Watch]]) -> list[GroupMember]:
        return [
            GroupMember(self.members[member_id].handle, weight, watch.port)
            for member_id, weight, watch in members
        ]

    def _count(self, members: list[tuple[int, int, Watch]], by: int) -> None:
        for member_id, _, _ in members:
            self.members[member_id].users += by

    # -- one-shot
    def oneshot_create(self, table: TableSpec, data: bytes) -> OneShot:
        """Members and group for an ActionProfileActionSet; nothing is left on an error."""
        name = self.spec.name
        if not self.spec.selector:
            raise invalid(f"table {table.name}: its profile has no selector: no action sets")
        if self.members or self.groups:
            raise invalid(f"{name}: has members or groups; one-shot action sets cannot be mixed in")
        try:
            message = p4runtime_pb2.ActionProfileActionSet.FromString(data)
        except Exception:
            raise invalid(f"table {table.name}: malformed action set") from None
        actions: list[tuple[ActionCall, int, Watch]] = []
        for item in message.action_profile_actions:
            raw = wire.RawAction(
                item.action.action_id, [(p.param_id, p.value) for p in item.action.params]
            )
            call = table.decode_action(raw)
            what = f"table {table.name}: action set"
            actions.append((call, self._weight(item.weight, what), self._watch(item, what)))
        self._check_size(
            [weight for _, weight, _ in actions], 0, f"{name}: action set", Code.INVALID_ARGUMENT
        )
        shot = OneShot(0, [], actions)
        self.oneshot_revive(shot)
        return shot

    def oneshot_revive(self, shot: OneShot) -> None:
        """Make the group and members of a one-shot; nothing is left on an error."""
        name = self.spec.name
        shot.group, shot.members = self._engine.group_create(name, 0), []
        self.oneshots += 1
        try:
            for call, _, _ in shot.actions:
                shot.members.append(self._engine.member_add(name, call))
            members = [
                GroupMember(handle, weight, watch.port)
                for handle, (_, weight, watch) in zip(shot.members, shot.actions, strict=True)
            ]
            self._engine.group_set_members(name, shot.group, members)
        except Exception:
            self.oneshot_delete(shot)
            raise

    def oneshot_delete(self, shot: OneShot) -> None:
        """Free what `oneshot_create` made; no entry may refer to it any more."""
        self.oneshots -= 1
        self._engine.group_delete(self.spec.name, shot.group)
        for handle in shot.members:
            self._engine.member_delete(self.spec.name, handle)

    def encode_oneshot(self, shot: OneShot) -> bytes:
        """Body of ActionProfileActionSet."""
        parts = []
        for call, weight, watch in shot.actions:
            body = wire.field_bytes(1, self._actions[call.name].encode(call.args))
            parts.append(wire.field_bytes(1, body + wire.field_varint(2, weight) + watch.encode()))
        return b"".join(parts)

    def group_ref(self, shot: OneShot) -> GroupRef:
        """How an entry points at a one-shot."""
        return GroupRef(shot.group)

    # -- reading: bodies of Entity
    def read_members(self, member_id: int) -> Iterator[bytes]:
        """All members, or the one with that id (NOT_FOUND if there is none)."""
        for key in self._selected(self.members, member_id, "member"):
            call = self.members[key].call
            body = wire.field_bytes(3, self._actions[call.name].encode(call.args))
            yield wire.field_bytes(
                3, wire.field_varint(1, self.spec.id) + wire.field_varint(2, key) + body
            )

    def read_groups(self, group_id: int) -> Iterator[bytes]:
        """All groups, or the one with that id (NOT_FOUND if there is none)."""
        for key in self._selected(self.groups, group_id, "group"):
            group = self.groups[key]
            parts = [wire.field_varint(1, self.spec.id), wire.field_varint(2, key)]
            for member_id, weight, watch in group.members:
                body = wire.field_varint(1, member_id) + wire.field_varint(2, weight)
                parts.append(wire.field_bytes(3, body + watch.encode()))
            parts.append(wire.field_varint(4, group.max_size))
            yield wire.field_bytes(4, b"".join(parts))

    def _selected(self, records: dict[int, Any], wanted: int, what: str) -> list[int]:
        if wanted == 0:
            return list(records)
        if wanted not in records:
            raise not_found(f"{self.spec.name}: there is no {what} {wanted}")
        return [wanted]
