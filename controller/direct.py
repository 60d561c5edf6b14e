"""Install a switch's program into an engine in this process, without P4Runtime.

For the packet tests of p4src and for running switches in virtual time: the same
`SwitchProgram` that the fabric controller writes over gRPC.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.entities import Action, Codec, GroupRef, MatchValue, MemberRef, TableEntry
from controller.errors import EntityError
from controller.p4names import Field
from controller.program import SwitchProgram

if TYPE_CHECKING:
    from softswitch.engine import Engine
    from softswitch.engine.types import ActionCall, Entry
    from softswitch.engine.types import MatchValue as EngineMatch


def install(engine: Engine, program: SwitchProgram, codec: Codec, *, check: bool = True) -> None:
    """Write everything into an engine whose tables are empty.

    `check`: that every entity fits the P4Info, as on the way over gRPC; of many switches that
    hold the same kinds of entries it is enough to check one. Raises EntityError as the codec
    does, and the engine's own errors.
    """
    from softswitch.engine import types

    for entity in program.entities if check else ():
        codec.encode(entity)
    members: dict[tuple[str, int], int] = {}
    for member in sorted(program.members, key=lambda m: m.id):
        members[member.profile, member.id] = engine.member_add(
            member.profile, _call(codec, member.action)
        )
    groups: dict[tuple[str, int], int] = {}
    for group in program.groups:
        handle = engine.group_create(group.profile)
        groups[group.profile, group.id] = handle
        engine.group_set_members(
            group.profile,
            handle,
            [
                types.GroupMember(members[group.profile, m.member], m.weight, m.watch_port)
                for m in group.members
            ],
        )
    for entry in program.entries:
        profile = _profile(codec, entry)
        action: Entry
        if isinstance(entry.action, MemberRef):
            action = types.MemberRef(members[profile, entry.action.member])
        elif isinstance(entry.action, GroupRef):
            action = types.GroupRef(groups[profile, entry.action.group])
        else:
            action = _call(codec, entry.action)
        fields = codec.names.table(entry.table).fields.values()
        match = [engine_match(field, entry.match.get(field.name)) for field in fields]
        engine.table_add(entry.table, match, action, entry.priority)
    for default in program.defaults:
        engine.table_set_default(default.table, _call(codec, default.action))


def _profile(codec: Codec, entry: TableEntry) -> str:
    id_ = codec.names.table(entry.table).profile_id
    return codec.names.profile_by_id(id_).name if id_ else ""


def _call(codec: Codec, action: Action) -> ActionCall:
    from softswitch.engine import types

    info = codec.names.action(action.name)
    return types.ActionCall(info.name, tuple(action.params[name] for name in info.params))


def engine_match(field: Field, value: MatchValue | None) -> EngineMatch:
    """A match value in the engine's words; None is a field that does not matter."""
    from softswitch.engine import types

    if field.kind == "exact" and isinstance(value, int):
        return types.Exact(value)
    if field.kind == "optional" and not isinstance(value, tuple):
        return types.Optional_(value)
    pair = value if isinstance(value, tuple) else None
    if field.kind == "lpm":
        return types.Lpm(*(pair or (0, 0)))
    if field.kind == "ternary":
        return types.Ternary(*(pair or (0, 0)))
    if field.kind == "range":
        return types.Range(*(pair or (0, field.largest)))
    raise EntityError(f"{field.name}: {value!r} is no {field.kind} match")
