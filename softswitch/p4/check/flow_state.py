"""What is known about storage at one point of a program: initialised, valid, or neither."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from softswitch.p4 import types as t

UNSET = 1
"""Flag of a place: there is a way here on which nothing was assigned to it."""

VALID, INVALID = 2, 4
"""Flags of a header: it can be valid, it can be invalid here."""

Path = tuple[Any, ...]
"""A declaration, then names of fields and numbers of stack elements ('*': some element)."""

_VALIDITY = "$valid"

Places = dict[Path, int]
"""Flags of the parts of one declaration, by what follows it in the path; never changed in place."""


class State:
    """Flags of places. A place without flags of its own has those of what it is part of."""

    __slots__ = ("reached", "roots")

    def __init__(self, roots: dict[Any, Places] | None = None, reached: bool = True) -> None:
        self.roots = roots if roots is not None else {}
        self.reached = reached

    def copy(self) -> State:
        return State(dict(self.roots), self.reached)

    def join(self, other: State) -> State:
        """Where two ways through the program meet."""
        if not other.reached:
            return self.copy()
        if not self.reached:
            return other.copy()
        joined = dict(self.roots)
        for root, theirs in other.roots.items():
            mine = joined.get(root)
            if mine is None:
                joined[root] = theirs
            elif mine is not theirs:
                keys = mine.keys() | theirs.keys()
                joined[root] = {k: _of(mine, k) | _of(theirs, k) for k in keys}
        return State(joined)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, State) and self.reached == other.reached and self.roots == other.roots
        )

    __hash__ = None  # type: ignore[assignment]

    def _get(self, path: Path, suffix: Path = ()) -> int:
        return _inherited(self.roots.get(path[0], {}), path[1:], suffix)

    # ---- values

    def unset(self, path: Path) -> bool:
        """Can the place itself be without a value?"""
        return bool(self._get(path) & UNSET)

    def set(self, path: Path, flag: int = 0) -> None:
        """A value was assigned to the place and all its parts (or, with UNSET, to none)."""
        root, rest = path[0], path[1:]
        size = len(rest)
        kept = {
            k: v
            for k, v in self.roots.get(root, {}).items()
            if k[:size] != rest or k[-1:] == (_VALIDITY,)
        }
        kept[rest] = flag
        self.roots[root] = kept

    # ---- headers

    def validity(self, path: Path) -> int:
        """VALID, INVALID or both; 0 where nothing is known."""
        return self._get(path, (_VALIDITY,))

    def set_validity(self, path: Path, flags: int) -> None:
        """Now the header, or all headers of the place, are valid or not (0: not known)."""
        root, rest = path[0], path[1:]
        size = len(rest)
        kept = {
            k: v
            for k, v in self.roots.get(root, {}).items()
            if k[:size] != rest or k[-1:] != (_VALIDITY,)
        }
        kept[(*rest, _VALIDITY)] = flags
        self.roots[root] = kept

    def move(self, target: Path, source: Path) -> None:
        """Headers of the target become what those of the source are."""
        size = len(source) - 1
        inner = [
            (k[size:-1], v)
            for k, v in self.roots.get(source[0], {}).items()
            if k[-1:] == (_VALIDITY,) and k[:size] == source[1:]
        ]
        self.set_validity(target, self.validity(source))
        places = self.roots[target[0]] = dict(self.roots[target[0]])
        for rest, flags in inner:
            places[(*target[1:], *rest, _VALIDITY)] = flags


def _of(places: Places, key: Path) -> int:
    found = places.get(key)
    if found is not None:
        return found
    if key[-1:] == (_VALIDITY,):
        return _inherited(places, key[:-1], (_VALIDITY,))
    return _inherited(places, key, ())


def _inherited(places: Places, path: Path, suffix: Path) -> int:
    for n in range(len(path), -1, -1):
        found = places.get(path[:n] + suffix)
        if found is not None:
            return found
    return 0


def leaves(type_: t.Type | None, limit: int = 256) -> Iterator[Path]:
    """Paths of the scalar fields of a type that are not inside headers."""
    work: list[tuple[Path, t.Type | None]] = [((), type_)]
    while work and limit > 0:
        path, kind = work.pop()
        base = t.base(kind) if kind is not None else t.UNKNOWN
        if isinstance(base, t.TStruct):
            if base.kind == "struct":
                work.extend(
                    reversed([((*path, name), field) for name, field in base.fields.items()])
                )
        elif isinstance(base, t.TTuple):
            work.extend(reversed([((*path, n), item) for n, item in enumerate(base.items)]))
        elif not isinstance(base, (t.TStack, t.TExtern, t.TArch, t.TBlock)):
            limit -= 1
            yield path
