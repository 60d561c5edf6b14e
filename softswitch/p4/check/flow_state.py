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


class State:
    """Flags of places. A place without flags of its own has those of what it is part of."""

    __slots__ = ("flags", "reached")

    def __init__(self, flags: dict[Path, int] | None = None, reached: bool = True) -> None:
        self.flags = flags if flags is not None else {}
        self.reached = reached

    def copy(self) -> State:
        return State(dict(self.flags), self.reached)

    def join(self, other: State) -> State:
        """Where two ways through the program meet."""
        if not other.reached:
            return self.copy()
        if not self.reached:
            return other.copy()
        keys = self.flags.keys() | other.flags.keys()
        return State({k: self._of(k) | other._of(k) for k in keys})

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, State) and self.reached == other.reached and self.flags == other.flags
        )

    __hash__ = None  # type: ignore[assignment]

    def _of(self, key: Path) -> int:
        found = self.flags.get(key)
        if found is not None:
            return found
        if key[-1] == _VALIDITY:
            return self._inherited(key[:-1], (_VALIDITY,))
        return self._inherited(key, ())

    def _inherited(self, path: Path, suffix: Path) -> int:
        for n in range(len(path), 0, -1):
            found = self.flags.get(path[:n] + suffix)
            if found is not None:
                return found
        return 0

    # ---- values

    def unset(self, path: Path) -> bool:
        """Can the place itself be without a value?"""
        return bool(self._inherited(path, ()) & UNSET)

    def set(self, path: Path, flag: int = 0) -> None:
        """A value was assigned to the place and all its parts (or, with UNSET, to none)."""
        for key in [k for k in self.flags if k[: len(path)] == path and k[-1] != _VALIDITY]:
            del self.flags[key]
        self.flags[path] = flag

    # ---- headers

    def validity(self, path: Path) -> int:
        """VALID, INVALID or both; 0 where nothing is known."""
        return self._inherited(path, (_VALIDITY,))

    def set_validity(self, path: Path, flags: int) -> None:
        """Now the header, or all headers of the place, are valid or not (0: not known)."""
        for key in [k for k in self.flags if k[: len(path)] == path and k[-1] == _VALIDITY]:
            del self.flags[key]
        self.flags[(*path, _VALIDITY)] = flags

    def move(self, target: Path, source: Path) -> None:
        """Headers of the target become what those of the source are."""
        size = len(source)
        inner = [
            (k[size:-1], v)
            for k, v in self.flags.items()
            if k[-1] == _VALIDITY and k[:size] == source
        ]
        self.set_validity(target, self.validity(source))
        for rest, flags in inner:
            self.flags[(*target, *rest, _VALIDITY)] = flags


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
