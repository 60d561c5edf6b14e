"""P4Runtime object ids and aliases, computed the way p4c does it.

An id is the kind of object in the upper 8 bits and, below, the lower 24 bits of the
one-at-a-time hash of the name; collisions move on to the next free number, names in
alphabetical order. An alias is the shortest suffix of the name that no other object has.
"""

from __future__ import annotations

from collections.abc import Iterable

ACTION, TABLE, VALUE_SET, CONTROLLER_HEADER = 0x01, 0x02, 0x03, 0x04
ACTION_PROFILE, COUNTER, DIRECT_COUNTER = 0x11, 0x12, 0x13
METER, DIRECT_METER, REGISTER, DIGEST = 0x14, 0x15, 0x16, 0x17


def name_hash(name: str) -> int:
    """Jenkins' one-at-a-time hash, 32 bits."""
    value = 0
    for byte in name.encode():
        value = (value + byte) & 0xFFFFFFFF
        value = (value + (value << 10)) & 0xFFFFFFFF
        value ^= value >> 6
    value = (value + (value << 3)) & 0xFFFFFFFF
    value ^= value >> 11
    return (value + (value << 15)) & 0xFFFFFFFF


class Ids:
    """Ids of all objects of a program."""

    def __init__(self) -> None:
        self._names: dict[int, dict[str, int | None]] = {}
        self._taken: set[int] = set()

    def add(self, kind: int, name: str, fixed: int | None = None) -> str:
        """Register an object; returns what is wrong with its @id, or ""."""
        names = self._names.setdefault(kind, {})
        if name in names:
            return ""
        names[name] = None
        if fixed is None:
            return ""
        if not 0 < fixed < 1 << 32:
            return "@id has to be a positive 32-bit number"
        if fixed >> 24 not in (0, kind):
            return "@id has the wrong prefix for this kind of object"
        fixed |= kind << 24
        if fixed in self._taken:
            return f"@id {fixed} is assigned to more than one object"
        self._taken.add(fixed)
        names[name] = fixed
        return ""

    def assign(self) -> None:
        """Compute the ids that were not fixed."""
        for kind in sorted(self._names):
            names = self._names[kind]
            for name in sorted(names, key=str.encode):
                if names[name] is not None:
                    continue
                suffix = name_hash(name)
                while (kind << 24 | suffix & 0xFFFFFF) in self._taken:
                    suffix += 1
                ident = kind << 24 | suffix & 0xFFFFFF
                self._taken.add(ident)
                names[name] = ident

    def __getitem__(self, key: tuple[int, str]) -> int:
        found = self._names[key[0]][key[1]]
        assert found is not None
        return found

    def names(self) -> Iterable[str]:
        """All names, of every kind."""
        return {n for names in self._names.values() for n in names}


class Aliases:
    """Shortest unique suffixes."""

    def __init__(self, names: Iterable[str]) -> None:
        self._count: dict[tuple[str, ...], int] = {}
        for name in set(names):
            parts = name.split(".")
            for n in range(1, len(parts) + 1):
                suffix = tuple(parts[-n:])
                self._count[suffix] = self._count.get(suffix, 0) + 1

    def of(self, name: str) -> str:
        """The alias of a registered name."""
        parts = name.split(".")
        for n in range(1, len(parts) + 1):
            if self._count.get(tuple(parts[-n:]), 0) < 2:
                return ".".join(parts[-n:])
        return name


def local_ids(fixed: list[int | None]) -> list[int]:
    """Ids of match fields, parameters: 1, 2, 3... around those given by @id."""
    taken = {x for x in fixed if x is not None}
    result: list[int] = []
    index = 1
    for ident in fixed:
        if ident is not None:
            result.append(ident)
            index += 1
            continue
        while index in taken:
            index += 1
        taken.add(index)
        result.append(index)
    return result
