"""P4Info by name: the ids, widths and match kinds that entities are checked against."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from google.protobuf import text_format
from p4.config.v1 import p4info_pb2

from controller.errors import EntityError


@dataclass(frozen=True)
class Field:
    """A match field, or an action parameter when `kind` is empty. `width` in bits."""

    name: str
    id: int
    width: int
    kind: str = ""

    @property
    def largest(self) -> int:
        """The largest value that fits."""
        return (1 << self.width) - 1


@dataclass(frozen=True)
class ActionInfo:
    """An action and its parameters, in order."""

    name: str
    id: int
    params: Mapping[str, Field]


@dataclass(frozen=True)
class TableInfo:
    """A table: match fields in order, the actions it lists, its selector or profile."""

    name: str
    id: int
    fields: Mapping[str, Field]
    action_ids: frozenset[int]
    profile_id: int
    const_default: bool
    size: int


@dataclass(frozen=True)
class ArrayInfo:
    """A counter or register array, or an action profile."""

    name: str
    id: int
    size: int
    table_ids: frozenset[int] = frozenset()
    max_group_size: int = 0


_KINDS = {
    p4info_pb2.MatchField.EXACT: "exact",
    p4info_pb2.MatchField.LPM: "lpm",
    p4info_pb2.MatchField.TERNARY: "ternary",
    p4info_pb2.MatchField.RANGE: "range",
    p4info_pb2.MatchField.OPTIONAL: "optional",
}


def load_p4info(path: Path) -> p4info_pb2.P4Info:
    """Read a text-format P4Info. EntityError says what is wrong with the file."""
    message = p4info_pb2.P4Info()
    try:
        text_format.Parse(path.read_text(encoding="utf-8"), message, allow_unknown_field=True)
    except OSError as error:
        raise EntityError(f"{path}: {error.strerror}") from None
    except (UnicodeDecodeError, text_format.ParseError) as error:
        raise EntityError(f"{path}: not a P4Info in text format: {error}") from None
    return message


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """End of a message: the nearest known name, or all names when none is near."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; known: {', '.join(names)}" if names else ""


class P4Names:
    """Look-ups into a P4Info, by name (full or alias) and by id.

    Every method raises EntityError, with the nearest known name, when there is none.
    """

    def __init__(self, p4info: p4info_pb2.P4Info) -> None:
        self.p4info = p4info
        self.tables: dict[str, TableInfo] = {}
        self.actions: dict[str, ActionInfo] = {}
        self.profiles: dict[str, ArrayInfo] = {}
        self.counters: dict[str, ArrayInfo] = {}
        self.registers: dict[str, ArrayInfo] = {}
        self._aliases: dict[tuple[str, str], str] = {}
        for action in p4info.actions:
            params = {p.name: Field(p.name, p.id, p.bitwidth) for p in action.params}
            name = self._name("action", action.preamble)
            self.actions[name] = ActionInfo(name, action.preamble.id, params)
        for table in p4info.tables:
            fields = {
                m.name: Field(m.name, m.id, m.bitwidth, _KINDS.get(m.match_type, "unknown"))
                for m in table.match_fields
            }
            name = self._name("table", table.preamble)
            self.tables[name] = TableInfo(
                name,
                table.preamble.id,
                fields,
                frozenset(ref.id for ref in table.action_refs),
                table.implementation_id,
                bool(table.const_default_action_id),
                table.size,
            )
        for profile in p4info.action_profiles:
            name = self._name("action profile", profile.preamble)
            self.profiles[name] = ArrayInfo(
                name,
                profile.preamble.id,
                profile.size,
                frozenset(profile.table_ids),
                profile.max_group_size,
            )
        for counter in p4info.counters:
            name = self._name("counter", counter.preamble)
            self.counters[name] = ArrayInfo(name, counter.preamble.id, counter.size)
        for register in p4info.registers:
            name = self._name("register", register.preamble)
            self.registers[name] = ArrayInfo(name, register.preamble.id, register.size)
        self._table_names = {info.id: name for name, info in self.tables.items()}
        self._action_names = {info.id: name for name, info in self.actions.items()}
        self._profile_names = {info.id: name for name, info in self.profiles.items()}
        self._counter_names = {info.id: name for name, info in self.counters.items()}

    def _name(self, what: str, preamble: p4info_pb2.Preamble) -> str:
        name: str = preamble.name
        if preamble.alias:
            self._aliases[what, preamble.alias] = name
        return name

    def _resolve(self, what: str, name: str, known: Iterable[str]) -> str:
        names = list(known)
        if name in names:
            return name
        full = self._aliases.get((what, name))
        if full is not None:
            return full
        raise EntityError(f"no {what} {name!r}{did_you_mean(name, names)}")

    def table(self, name: str) -> TableInfo:
        """A table by name or alias."""
        return self.tables[self._resolve("table", name, self.tables)]

    def action(self, name: str) -> ActionInfo:
        """An action by name or alias."""
        return self.actions[self._resolve("action", name, self.actions)]

    def profile(self, name: str) -> ArrayInfo:
        """An action profile or selector by name or alias."""
        return self.profiles[self._resolve("action profile", name, self.profiles)]

    def counter(self, name: str) -> ArrayInfo:
        """A counter array by name or alias."""
        return self.counters[self._resolve("counter", name, self.counters)]

    def table_by_id(self, id_: int) -> TableInfo:
        """A table by its P4Info id."""
        return self.tables[self._by_id("table", id_, self._table_names)]

    def action_by_id(self, id_: int) -> ActionInfo:
        """An action by its P4Info id."""
        return self.actions[self._by_id("action", id_, self._action_names)]

    def profile_by_id(self, id_: int) -> ArrayInfo:
        """An action profile by its P4Info id."""
        return self.profiles[self._by_id("action profile", id_, self._profile_names)]

    def counter_by_id(self, id_: int) -> ArrayInfo:
        """A counter array by its P4Info id."""
        return self.counters[self._by_id("counter", id_, self._counter_names)]

    @staticmethod
    def _by_id(what: str, id_: int, names: Mapping[int, str]) -> str:
        try:
            return names[id_]
        except KeyError:
            raise EntityError(f"no {what} with id {id_:#x}") from None
