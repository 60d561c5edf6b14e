"""From what a switch holds to what it should hold. Pure; compares decoded integers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

from controller.entities import Entity, Group, GroupRef, Member, TableEntry
from controller.program import SwitchProgram

Operation: TypeAlias = Literal["INSERT", "MODIFY", "DELETE"]
E = TypeVar("E", Member, Group, TableEntry)


@dataclass(frozen=True)
class Update:
    """One update of a Write request."""

    operation: Operation
    entity: Entity

    def __str__(self) -> str:
        return f"{self.operation} {self.entity}"


def reconcile(wanted: SwitchProgram, existing: Iterable[Entity] = ()) -> list[list[Update]]:
    """Batches of updates, each one Write request, in order; empty batches left out.

    Nothing in a batch depends on another update of it, since a switch may reorder them:
    entries go before the groups they use, groups before members, and the reverse when added.
    Default entries cannot be inserted or deleted, so they are modified when not as wanted.
    """
    held: dict[tuple[object, ...], Entity] = {entity.key: entity for entity in existing}
    keep = {entity.key for entity in wanted.entities} - _to_replace(wanted, held)
    gone = [entity for key, entity in held.items() if key not in keep]
    for entity in gone:
        del held[entity.key]
    batches = [
        [Update("DELETE", entity) for entity in gone if isinstance(entity, TableEntry)],
        [Update("DELETE", entity) for entity in gone if isinstance(entity, Group)],
        _changes(wanted.members, held),
        _changes(wanted.groups, held),
        [
            *_changes(wanted.entries, held),
            *(
                Update("MODIFY", entity)
                for entity in wanted.defaults
                if held.get(entity.key) != entity
            ),
        ],
        [Update("DELETE", entity) for entity in gone if isinstance(entity, Member)],
    ]
    return [batch for batch in batches if batch]


def _to_replace(
    wanted: SwitchProgram, held: dict[tuple[object, ...], Entity]
) -> set[tuple[object, ...]]:
    """Keys of groups that must be deleted and inserted again, and of the entries that use them.

    bmv2 refuses to modify a group in which a member that stays gets another watch port ("error
    when activating member").
    """
    keys: set[tuple[object, ...]] = set()
    ids: set[int] = set()
    for group in wanted.groups:
        old = held.get(group.key)
        if isinstance(old, Group):
            before = {member.member: member.watch_port for member in old.members}
            if any(
                before.get(member.member, member.watch_port) != member.watch_port
                for member in group.members
            ):
                keys.add(group.key)
                ids.add(group.id)
    keys |= {
        entity.key
        for entity in held.values()
        if isinstance(entity, TableEntry)
        and isinstance(entity.action, GroupRef)
        and entity.action.group in ids
    }
    return keys


def _changes(wanted: Sequence[E], held: dict[tuple[object, ...], Entity]) -> list[Update]:
    updates = []
    for entity in wanted:
        old = held.get(entity.key)
        if old is None:
            updates.append(Update("INSERT", entity))
        elif not same(old, entity):
            updates.append(Update("MODIFY", entity))
    return updates


def same(one: Entity, other: Entity) -> bool:
    """Whether two entities with the same key say the same; order in a group does not matter."""
    if isinstance(one, Group) and isinstance(other, Group):
        return set(one.members) == set(other.members)
    return one == other
