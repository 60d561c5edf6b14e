"""What a bmv2 JSON offers to the control plane, and the names a test may use for it.

Read from the JSON alone, so that a program of p4c's for bmv2 need not be one that the engine
here can run. Names are matched as p4c's test runner does: the whole name, else its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

Json = Mapping[str, Any]

MAX_BITS = 16384
"""Of a field, an argument or a register cell."""


class NameProblem(Exception):
    """A name that stands for nothing, or for several things. One line."""


@dataclass(frozen=True)
class Key:
    """One match field of a table. `match`: exact, lpm, ternary, range, optional or valid."""

    name: str
    match: str
    width: int


@dataclass(frozen=True)
class Action:
    """An action; parameters with their width in bits."""

    name: str
    params: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Table:
    """A table. `kind`: simple, indirect or indirect_ws."""

    name: str
    key: tuple[Key, ...]
    kind: str
    match: str
    actions: tuple[Action, ...]
    profile: str | None = None
    const_entries: bool = False

    @property
    def ordered(self) -> bool:
        """Entries have priorities."""
        return any(k.match in ("ternary", "range", "optional") for k in self.key)


@dataclass(frozen=True)
class Array:
    """A counter, register or meter. `table`: the one it belongs to, when it is direct."""

    name: str
    size: int
    width: int = 0
    table: str | None = None
    rates: int = 0


@dataclass(frozen=True)
class Shape:
    """Everything by its full name."""

    tables: Mapping[str, Table] = field(default_factory=dict)
    profiles: Mapping[str, tuple[Action, ...]] = field(default_factory=dict)
    """Action profile -> actions that its members may use."""
    counters: Mapping[str, Array] = field(default_factory=dict)
    registers: Mapping[str, Array] = field(default_factory=dict)
    meters: Mapping[str, Array] = field(default_factory=dict)


def resolve(name: str, known: Iterable[str], what: str) -> str:
    """The one of `known` that a test means by `name`. NameProblem.

    The whole name; else the names that end with `.name`; else those that end with it.
    """
    names = list(known)
    if name in names:
        return name
    for ends in (f".{name}", name):
        found = [n for n in names if n.endswith(ends)]
        if len(found) == 1:
            return found[0]
        if found:
            raise NameProblem(f"{what} '{name}' could be {' or '.join(sorted(found))}")
    short = {n.rpartition(".")[2]: n for n in names}
    close = get_close_matches(name.rpartition(".")[2], [*names, *short], n=1)
    if close:
        hint = f"; did you mean {short.get(close[0], close[0])}?"
    elif names:
        listed = ", ".join(sorted(names)[:6]) + (", ..." if len(names) > 6 else "")
        hint = f" (there is {listed})"
    else:
        hint = f" (the program has no {what})"
    raise NameProblem(f"no {what} '{name}'{hint}")


def key_of(table: Table, name: str) -> Key:
    """The match field a test means. `a$1.b` stands for `a[1].b`; `h.valid`, `valid` and
    `h.$valid$` for the validity of a header. NameProblem."""
    names = {k.name: k for k in table.key}
    for wanted in _spellings(name):
        if wanted in names:
            return names[wanted]
    for wanted in _spellings(name):
        found = [k for k in table.key if k.name.endswith(f".{wanted}")]
        if len(found) == 1:
            return found[0]
        if found:
            listed = " or ".join(k.name for k in found)
            raise NameProblem(f"field '{name}' of table {table.name} could be {listed}")
    if name == "valid":
        found = [k for k in table.key if _is_validity(k.name)]
        if len(found) == 1:
            return found[0]
    listed = ", ".join(names) or "none"
    raise NameProblem(f"table {table.name} has no field '{name}' (it has {listed})")


def _is_validity(name: str) -> bool:
    return name.endswith(("$valid$", "isValid()"))


def _spellings(name: str) -> list[str]:
    head, dollar, tail = name.partition("$")
    digits = tail.split(".", 1)[0]
    if dollar and digits.isdigit():
        name = f"{head}[{digits}]{tail[len(digits) :]}"
    found = [name, f"{name}$", f"{name}.$valid$", f"{name}.isValid()"]
    for ending in (".valid", ".$valid$", ".$valid", ".isValid()", ".isValid"):
        if name.endswith(ending):
            stem = name[: -len(ending)]
            found += [f"{stem}.$valid$", f"{stem}.isValid()", f"{stem}$valid$"]
    return found


# -- reading the JSON -----------------------------------------------------------------------


def _list(owner: Any, key: str) -> Sequence[Any]:
    value = owner.get(key) if isinstance(owner, Mapping) else None
    return value if isinstance(value, list) else ()


def field_widths(program: Json) -> dict[tuple[str, str], int]:
    """(header, field) -> bits; `$valid$` included, variable-length fields with their most."""
    types: dict[str, list[tuple[str, int]]] = {}
    for kind in _list(program, "header_types"):
        fields = []
        for entry in _list(kind, "fields"):
            width = entry[1] if isinstance(entry[1], int) else int(kind.get("max_length") or 0) * 8
            if not 0 <= width <= MAX_BITS:
                raise ValueError(f"a field of {width} bits")
            fields.append((str(entry[0]), width))
        types[str(kind["name"])] = fields
    widths: dict[tuple[str, str], int] = {}
    for header in _list(program, "headers"):
        name = str(header["name"])
        widths[name, "$valid$"] = 1
        for field_name, width in types.get(str(header["header_type"]), ()):
            widths[name, field_name] = width
    for union in _list(program, "header_unions"):
        widths[str(union["name"]), "$valid$"] = 1
    return widths


def _width(value: Any) -> int:
    width = int(value)
    if not 0 <= width <= MAX_BITS:
        raise ValueError(f"a width of {width} bits")
    return width


def _key(entry: Any, widths: Mapping[tuple[str, str], int], table: str) -> Key:
    match, target = str(entry["match_type"]), entry["target"]
    parts = target if isinstance(target, list) else [target, "$valid$"]
    name = entry.get("name") or ".".join(map(str, parts))
    width = 1 if match == "valid" else widths.get((str(parts[0]), str(parts[-1])), 0)
    mask = entry.get("mask")
    if width == 0:
        raise NameProblem(f"table {table}: the width of key {name} is not known")
    if isinstance(mask, str):
        width = max(width, _width(int(mask, 16).bit_length()))
    return Key(str(name), match, width)


def shape_of(program: Json) -> Shape:
    """Read a bmv2 JSON. NameProblem when it is not one."""
    try:
        return _shape_of(program)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        text = " ".join(str(error).split())[:120]
        raise NameProblem(
            f"not a bmv2 JSON that can be read: {type(error).__name__}: {text}"
        ) from None


def _shape_of(program: Json) -> Shape:
    widths = field_widths(program)
    actions = {
        int(a["id"]): Action(
            str(a["name"]),
            tuple((str(p["name"]), _width(p["bitwidth"])) for p in _list(a, "runtime_data")),
        )
        for a in _list(program, "actions")
    }
    tables: dict[str, Table] = {}
    profiles: dict[str, dict[str, Action]] = {}
    counter_of: dict[str, str] = {}
    for pipeline in _list(program, "pipelines"):
        for profile in _list(pipeline, "action_profiles"):
            profiles.setdefault(str(profile["name"]), {})
        for t in _list(pipeline, "tables"):
            name = str(t["name"])
            mine = tuple(actions[i] for i in _list(t, "action_ids"))
            profile_name = t.get("action_profile")
            tables[name] = Table(
                name,
                tuple(_key(k, widths, name) for k in _list(t, "key")),
                str(t.get("type", "simple")),
                str(t["match_type"]),
                mine,
                profile_name,
                bool(t.get("entries")),
            )
            if profile_name is not None:
                profiles.setdefault(str(profile_name), {}).update({a.name: a for a in mine})
            if isinstance(t.get("direct_meters"), str):
                counter_of[f"meter {t['direct_meters']}"] = name
    counters = {
        str(c["name"]): Array(
            str(c["name"]),
            int(c.get("size") or 0),
            table=str(c["binding"]) if c.get("is_direct") else None,
        )
        for c in _list(program, "counter_arrays")
    }
    registers = {
        str(r["name"]): Array(str(r["name"]), int(r["size"]), _width(r["bitwidth"]))
        for r in _list(program, "register_arrays")
    }
    meters = {
        str(m["name"]): Array(
            str(m["name"]),
            int(m.get("size") or 0),
            table=counter_of.get(f"meter {m['name']}") or m.get("binding"),
            rates=int(m.get("rate_count") or 2),
        )
        for m in _list(program, "meter_arrays")
    }
    return Shape(
        tables,
        {name: tuple(found.values()) for name, found in profiles.items()},
        counters,
        registers,
        meters,
    )
