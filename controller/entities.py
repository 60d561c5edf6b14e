"""P4Runtime entities as values: names and integers in, canonical bytes out, and back.

The dataclasses say what is wanted in the words of the P4 program; `Codec` checks them
against the P4Info and turns them into protobuf messages and back. Values are always
integers: bytes are compared only after decoding, because a switch may pad them.

Encoding: canonical byte strings (no leading zero bytes, one byte for 0), don't-care match
fields left out, as P4Runtime 1.4 section 9.1.1 and 8.4 ask. Decoding accepts any padding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from p4.v1 import p4runtime_pb2

from controller.errors import EntityError
from controller.p4names import ActionInfo, Field, P4Names, TableInfo, did_you_mean

MatchValue: TypeAlias = "int | tuple[int, int]"
"""exact and optional: the value; lpm: (value, prefix length); ternary: (value, mask);
range: (low, high)."""


@dataclass(frozen=True)
class Action:
    """An action with its parameters by name."""

    name: str
    params: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{k}={v}' for k, v in self.params.items())})"


@dataclass(frozen=True)
class MemberRef:
    """A table entry that uses one member of the table's profile."""

    member: int

    def __str__(self) -> str:
        return f"member {self.member}"


@dataclass(frozen=True)
class GroupRef:
    """A table entry that uses one group of the table's selector."""

    group: int

    def __str__(self) -> str:
        return f"group {self.group}"


@dataclass(frozen=True)
class TableEntry:
    """One entry of a table. `priority` only where the key has ternary, range or optional."""

    table: str
    match: Mapping[str, MatchValue]
    action: Action | MemberRef | GroupRef
    priority: int = 0

    @property
    def key(self) -> tuple[object, ...]:
        """What identifies the entry in its table."""
        return ("entry", self.table, tuple(sorted(self.match.items())), self.priority)

    def __str__(self) -> str:
        match = ", ".join(f"{name}={_show(value)}" for name, value in self.match.items())
        priority = f" priority {self.priority}" if self.priority else ""
        return f"{self.table} [{match}]{priority} -> {self.action}"


@dataclass(frozen=True)
class DefaultEntry:
    """What a table does on a miss."""

    table: str
    action: Action

    @property
    def key(self) -> tuple[object, ...]:
        """What identifies it."""
        return ("default", self.table)

    def __str__(self) -> str:
        return f"{self.table} default -> {self.action}"


@dataclass(frozen=True)
class Member:
    """A member of an action profile or selector."""

    profile: str
    id: int
    action: Action

    @property
    def key(self) -> tuple[object, ...]:
        """What identifies it."""
        return ("member", self.profile, self.id)

    def __str__(self) -> str:
        return f"{self.profile} member {self.id} = {self.action}"


@dataclass(frozen=True)
class GroupMember:
    """A member in a group. `watch_port` None: always active."""

    member: int
    watch_port: int | None = None
    weight: int = 1

    def __str__(self) -> str:
        watch = "" if self.watch_port is None else f" while port {self.watch_port} is up"
        weight = "" if self.weight == 1 else f" x{self.weight}"
        return f"{self.member}{weight}{watch}"


@dataclass(frozen=True)
class Group:
    """A group of a selector, members in order of selection."""

    profile: str
    id: int
    members: tuple[GroupMember, ...]

    @property
    def key(self) -> tuple[object, ...]:
        """What identifies it."""
        return ("group", self.profile, self.id)

    def __str__(self) -> str:
        return f"{self.profile} group {self.id} = {{{', '.join(map(str, self.members))}}}"


Entity: TypeAlias = "TableEntry | DefaultEntry | Member | Group"


def _show(value: MatchValue) -> str:
    return f"{value:#x}" if isinstance(value, int) else f"{value[0]:#x}/{value[1]:#x}"


def to_bytes(value: int) -> bytes:
    """The canonical byte string of an unsigned integer: shortest, at least one byte."""
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def from_bytes(data: bytes) -> int:
    """The integer of a byte string with any padding."""
    return int.from_bytes(data, "big")


def _check(value: object, field_: Field, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise EntityError(f"{where}.{field_.name}: {value!r} is not an integer")
    if not 0 <= value <= field_.largest:
        raise EntityError(f"{where}.{field_.name}: {value} does not fit in {field_.width} bits")
    return value


class Codec:
    """Turns entities into `p4.v1.Entity` messages and back, for one P4 program.

    encode() raises EntityError when an entity does not fit the P4Info: unknown table, field,
    action or parameter, a missing one, a value too wide, bits outside a prefix or mask.
    """

    def __init__(self, names: P4Names) -> None:
        self.names = names

    # -- values -> messages

    def encode(self, entity: Entity) -> p4runtime_pb2.Entity:
        """The message of one entity."""
        if isinstance(entity, TableEntry):
            return self._encode_entry(entity)
        if isinstance(entity, DefaultEntry):
            return self._encode_default(entity)
        if isinstance(entity, Member):
            return self._encode_member(entity)
        return self._encode_group(entity)

    def _encode_entry(self, entry: TableEntry) -> p4runtime_pb2.Entity:
        table = self.names.table(entry.table)
        message = p4runtime_pb2.Entity()
        target = message.table_entry
        target.table_id = table.id
        for name in entry.match:
            if name not in table.fields:
                raise EntityError(
                    f"{table.name}: no match field {name!r}{did_you_mean(name, table.fields)}"
                )
        for name, info in table.fields.items():
            self._encode_match(target, table, info, entry.match.get(name))
        needs_priority = any(f.kind in ("ternary", "range", "optional") for f in _fields(table))
        if needs_priority != (entry.priority > 0):
            need = "needs a priority above 0" if needs_priority else "takes no priority"
            raise EntityError(f"{table.name}: {need}, not {entry.priority}")
        target.priority = entry.priority
        action = entry.action
        if isinstance(action, Action):
            if table.profile_id:
                raise EntityError(f"{table.name}: entries name a member or group, not an action")
            self._encode_action(target.action.action, action, table)
        else:
            if not table.profile_id:
                raise EntityError(f"{table.name}: has no action profile for {action}")
            if isinstance(action, MemberRef):
                target.action.action_profile_member_id = action.member
            else:
                target.action.action_profile_group_id = action.group
        return message

    @staticmethod
    def _encode_match(
        target: p4runtime_pb2.TableEntry, table: TableInfo, info: Field, value: MatchValue | None
    ) -> None:
        where = table.name
        if info.kind == "exact":
            if value is None:
                raise EntityError(f"{where}.{info.name}: exact match field is missing")
            if isinstance(value, tuple):
                raise EntityError(f"{where}.{info.name}: exact match takes one value")
            match = target.match.add(field_id=info.id)
            match.exact.value = to_bytes(_check(value, info, where))
            return
        if value is None:
            return
        if info.kind == "optional":
            if isinstance(value, tuple):
                raise EntityError(f"{where}.{info.name}: optional match takes one value")
            match = target.match.add(field_id=info.id)
            match.optional.value = to_bytes(_check(value, info, where))
            return
        if not isinstance(value, tuple) or len(value) != 2:
            raise EntityError(f"{where}.{info.name}: {info.kind} match takes a pair")
        first = _check(value[0], info, where)
        if info.kind == "lpm":
            length = value[1]
            if not 0 <= length <= info.width:
                raise EntityError(f"{where}.{info.name}: prefix length {length} of {info.width}")
            if first & ((1 << (info.width - length)) - 1):
                raise EntityError(
                    f"{where}.{info.name}: {first:#x} has bits set beyond prefix length {length}"
                )
            if length:
                match = target.match.add(field_id=info.id)
                match.lpm.value = to_bytes(first)
                match.lpm.prefix_len = length
            return
        second = _check(value[1], info, where)
        if info.kind == "ternary":
            if first & ~second:
                raise EntityError(
                    f"{where}.{info.name}: {first:#x} has bits set outside the mask {second:#x}"
                )
            if second:
                match = target.match.add(field_id=info.id)
                match.ternary.value = to_bytes(first)
                match.ternary.mask = to_bytes(second)
            return
        if info.kind == "range":
            if first > second:
                raise EntityError(f"{where}.{info.name}: range {first}..{second} is empty")
            if (first, second) != (0, info.largest):
                match = target.match.add(field_id=info.id)
                match.range.low = to_bytes(first)
                match.range.high = to_bytes(second)
            return
        raise EntityError(f"{where}.{info.name}: match kind {info.kind!r} is not supported")

    def _encode_action(
        self, target: p4runtime_pb2.Action, action: Action, table: TableInfo | None
    ) -> ActionInfo:
        info = self.names.action(action.name)
        if table is not None and info.id not in table.action_ids:
            listed = (self.names.action_by_id(id_).name for id_ in table.action_ids)
            raise EntityError(
                f"{table.name}: has no action {action.name!r}{did_you_mean(action.name, listed)}"
            )
        for name in action.params:
            if name not in info.params:
                raise EntityError(
                    f"{info.name}: no parameter {name!r}{did_you_mean(name, info.params)}"
                )
        target.action_id = info.id
        for name, param in info.params.items():
            if name not in action.params:
                raise EntityError(f"{info.name}.{name}: parameter is missing")
            value = _check(action.params[name], param, info.name)
            target.params.add(param_id=param.id, value=to_bytes(value))
        return info

    def _encode_default(self, entry: DefaultEntry) -> p4runtime_pb2.Entity:
        table = self.names.table(entry.table)
        if table.profile_id:
            raise EntityError(f"{table.name}: a table with an action profile has no default")
        if table.const_default:
            raise EntityError(f"{table.name}: the default action is const")
        message = p4runtime_pb2.Entity()
        message.table_entry.table_id = table.id
        message.table_entry.is_default_action = True
        self._encode_action(message.table_entry.action.action, entry.action, table)
        return message

    def _encode_member(self, member: Member) -> p4runtime_pb2.Entity:
        profile = self.names.profile(member.profile)
        if member.id <= 0:
            raise EntityError(f"{profile.name}: member id {member.id} is not above 0")
        message = p4runtime_pb2.Entity()
        target = message.action_profile_member
        target.action_profile_id = profile.id
        target.member_id = member.id
        info = self._encode_action(target.action, member.action, None)
        for table_id in profile.table_ids:
            if info.id not in self.names.table_by_id(table_id).action_ids:
                raise EntityError(
                    f"{profile.name}: {self.names.table_by_id(table_id).name} "
                    f"has no action {info.name!r}"
                )
        return message

    def _encode_group(self, group: Group) -> p4runtime_pb2.Entity:
        profile = self.names.profile(group.profile)
        if group.id <= 0:
            raise EntityError(f"{profile.name}: group id {group.id} is not above 0")
        size = sum(member.weight for member in group.members)
        if profile.max_group_size and size > profile.max_group_size:
            raise EntityError(
                f"{profile.name}: group {group.id} has {size} members, "
                f"at most {profile.max_group_size} fit"
            )
        message = p4runtime_pb2.Entity()
        target = message.action_profile_group
        target.action_profile_id = profile.id
        target.group_id = group.id
        target.max_size = profile.max_group_size
        seen: set[int] = set()
        for member in group.members:
            if member.member in seen:
                raise EntityError(f"{profile.name}: member {member.member} twice in {group.id}")
            if member.weight < 1:
                raise EntityError(f"{profile.name}: weight {member.weight} is not above 0")
            seen.add(member.member)
            added = target.members.add(member_id=member.member, weight=member.weight)
            if member.watch_port is not None:
                added.watch_port = to_bytes(member.watch_port)
        return message

    # -- messages -> values

    def decode(self, message: p4runtime_pb2.Entity) -> Entity:
        """The value of a message read from a switch; EntityError when it does not fit."""
        kind = message.WhichOneof("entity")
        if kind == "table_entry":
            return self._decode_entry(message.table_entry)
        if kind == "action_profile_member":
            member = message.action_profile_member
            profile = self.names.profile_by_id(member.action_profile_id)
            return Member(profile.name, member.member_id, self._decode_action(member.action))
        if kind == "action_profile_group":
            group = message.action_profile_group
            profile = self.names.profile_by_id(group.action_profile_id)
            return Group(
                profile.name, group.group_id, tuple(_decode_group(m) for m in group.members)
            )
        raise EntityError(f"a switch sent an entity of kind {kind}")

    def _decode_entry(self, entry: p4runtime_pb2.TableEntry) -> TableEntry | DefaultEntry:
        table = self.names.table_by_id(entry.table_id)
        if entry.is_default_action:
            return DefaultEntry(table.name, self._decode_action(entry.action.action))
        by_id = {info.id: info for info in _fields(table)}
        match: dict[str, MatchValue] = {}
        for item in entry.match:
            info = by_id.get(item.field_id)
            if info is None:
                raise EntityError(f"{table.name}: no match field with id {item.field_id}")
            match[info.name] = _decode_match(item)
        kind = entry.action.WhichOneof("type")
        action: Action | MemberRef | GroupRef
        if kind == "action_profile_member_id":
            action = MemberRef(entry.action.action_profile_member_id)
        elif kind == "action_profile_group_id":
            action = GroupRef(entry.action.action_profile_group_id)
        else:
            action = self._decode_action(entry.action.action)
        return TableEntry(table.name, match, action, entry.priority)

    def _decode_action(self, action: p4runtime_pb2.Action) -> Action:
        info = self.names.action_by_id(action.action_id)
        by_id = {param.id: param.name for param in info.params.values()}
        params: dict[str, int] = {}
        for item in action.params:
            if item.param_id not in by_id:
                raise EntityError(f"{info.name}: no parameter with id {item.param_id}")
            params[by_id[item.param_id]] = from_bytes(item.value)
        return Action(info.name, params)


def _fields(table: TableInfo) -> Sequence[Field]:
    return tuple(table.fields.values())


def _decode_group(member: p4runtime_pb2.ActionProfileGroup.Member) -> GroupMember:
    kind = member.WhichOneof("watch_kind")
    watch: int | None = None
    if kind == "watch_port":
        watch = from_bytes(member.watch_port)
    elif kind == "watch" and member.watch:
        watch = member.watch
    return GroupMember(member.member_id, watch, member.weight)


def _decode_match(match: p4runtime_pb2.FieldMatch) -> MatchValue:
    kind = match.WhichOneof("field_match_type")
    if kind == "exact":
        return from_bytes(match.exact.value)
    if kind == "lpm":
        return from_bytes(match.lpm.value), match.lpm.prefix_len
    if kind == "ternary":
        return from_bytes(match.ternary.value), from_bytes(match.ternary.mask)
    if kind == "range":
        return from_bytes(match.range.low), from_bytes(match.range.high)
    if kind == "optional":
        return from_bytes(match.optional.value)
    raise EntityError(f"a switch sent a match of kind {kind}")
