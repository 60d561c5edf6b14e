"""P4Info messages made by hand, for programs that need no compiler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from p4.config.v1 import p4info_pb2

KINDS = {
    "exact": p4info_pb2.MatchField.EXACT,
    "lpm": p4info_pb2.MatchField.LPM,
    "ternary": p4info_pb2.MatchField.TERNARY,
    "range": p4info_pb2.MatchField.RANGE,
    "optional": p4info_pb2.MatchField.OPTIONAL,
}


class Builder:
    """Adds actions, tables, selectors and counters with ids of its own."""

    def __init__(self) -> None:
        self.message = p4info_pb2.P4Info()
        self._next = 0x0100_0000
        self._ids: dict[str, int] = {}

    def _preamble(self, target, name: str) -> None:
        self._next += 1
        self._ids[name] = self._next
        target.preamble.id = self._next
        target.preamble.name = name
        target.preamble.alias = name.rsplit(".", 1)[-1]

    def action(self, name: str, **params: int) -> Builder:
        action = self.message.actions.add()
        self._preamble(action, name)
        for number, (param, width) in enumerate(params.items(), 1):
            action.params.add(id=number, name=param, bitwidth=width)
        return self

    def table(
        self, name: str, key: Mapping[str, tuple[str, int]], actions: Sequence[str]
    ) -> Builder:
        table = self.message.tables.add(size=1024)
        self._preamble(table, name)
        for number, (field, (kind, width)) in enumerate(key.items(), 1):
            table.match_fields.add(id=number, name=field, bitwidth=width, match_type=KINDS[kind])
        for action in actions:
            table.action_refs.add(id=self._ids[action])
        return self

    def selector(self, name: str, table: str, max_group_size: int = 0) -> Builder:
        profile = self.message.action_profiles.add(
            size=64, with_selector=True, max_group_size=max_group_size
        )
        self._preamble(profile, name)
        profile.table_ids.append(self._ids[table])
        for candidate in self.message.tables:
            if candidate.preamble.name == table:
                candidate.implementation_id = self._ids[name]
        return self

    def counter(self, name: str, size: int) -> Builder:
        self._preamble(self.message.counters.add(size=size), name)
        return self
