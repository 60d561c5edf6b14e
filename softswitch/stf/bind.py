"""Commands of a test bound to a program: every name and value checked before anything runs.

`bind` turns each command into a step, a function of the run. What only the switch can know
(that a table is full, an entry there twice) shows when the step runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from softswitch.engine.types import ActionCall, Entry, GroupRef, MatchValue, MemberRef
from softswitch.stf.commands import (
    Add,
    Call,
    Check,
    Command,
    Direct,
    Expect,
    Named,
    NoPacket,
    Packet,
    Remove,
    SetDefault,
    StfError,
    Test,
    Wait,
)
from softswitch.stf.parse import number
from softswitch.stf.run import Run
from softswitch.stf.shape import Action, Array, Key, NameProblem, Shape, Table, key_of, resolve
from softswitch.stf.values import ValueProblem, default, fitting, integer, match_value

Do = Callable[[Run], None]


@dataclass(frozen=True)
class Step:
    """One command, ready to run."""

    line: int
    do: Do


class Binder:
    """Binds the commands of one test to one program."""

    def __init__(self, test: Test, shape: Shape) -> None:
        self._test = test
        self._shape = shape
        self._entries: dict[str, str] = {}
        """Name of an entry -> its table."""
        self.notes: list[tuple[int, str]] = []
        """(line, what a reader may not expect)."""

    def steps(self) -> list[Step]:
        """StfError names file and line."""
        return [Step(c.line, self._bind(c)) for c in self._test.commands]

    def _bind(self, command: Command) -> Do:
        try:
            match command:
                case Packet():
                    return lambda run: run.packet(command)
                case Expect():
                    return lambda run: run.expect(command)
                case NoPacket():
                    return lambda run: run.no_packet(command)
                case Wait():
                    return lambda run: run.wait()
                case Add():
                    return self._add(command)
                case SetDefault():
                    return self._set_default(command)
                case Remove():
                    return self._remove(command)
                case Check():
                    return self._check(command)
                case Direct():
                    return self._direct(command)
        except (NameProblem, ValueProblem) as error:
            raise StfError(str(error), self._test.file, command.line) from None

    # -- tables

    def _table(self, name: str) -> Table:
        return self._shape.tables[resolve(name, self._shape.tables, "table")]

    def _match(self, table: Table, given: Sequence[Named], line: int) -> tuple[MatchValue, ...]:
        values: dict[str, MatchValue] = {}
        for item in given:
            key = key_of(table, item.name)
            if key.name in values:
                raise NameProblem(f"field {key.name} of table {table.name} is given twice")
            values[key.name] = match_value(item.value, key, table.name)
        for key in table.key:
            if key.name not in values and key.match in ("exact", "valid"):
                self.notes.append((line, f"field {key.name} is not given: 0 is matched"))
        return tuple(values.get(key.name, default(key)) for key in table.key)

    @staticmethod
    def _call(action: Action, given: Sequence[Named]) -> ActionCall:
        params = dict(action.params)
        values: dict[str, int] = {}
        for item in given:
            if item.name not in params:
                listed = ", ".join(params) or "none"
                raise NameProblem(
                    f"action {action.name} has no parameter '{item.name}' (it has {listed})"
                )
            if item.name in values:
                raise NameProblem(f"argument {item.name} of {action.name} is given twice")
            what = f"action {action.name}, {item.name}"
            values[item.name] = integer(item.value, params[item.name], what)
        lacking = [name for name in params if name not in values]
        if lacking:
            raise NameProblem(f"action {action.name} needs {', '.join(lacking)}")
        return ActionCall(action.name, tuple(values[name] for name in params))

    @staticmethod
    def _action(actions: Sequence[Action], name: str, where: str) -> Action:
        found = resolve(name, [a.name for a in actions], f"action of {where}")
        return next(a for a in actions if a.name == found)

    def _entry(self, table: Table, call: Call) -> Callable[[Run], Entry]:
        """What an entry points at; members and groups are numbered as bmv2 would.

        A plain action for a table with an action profile gets a member of its own, without a
        number (P4Runtime calls that one-shot).
        """
        if call.handle is None:
            where = f"table {table.name}"
            made = self._call(self._action(table.actions, call.name, where), call.args)
            if table.profile is None:
                return lambda _run: made
            owner = table.profile
            return lambda run: MemberRef(run.target.member_add(owner, made))
        if table.profile is None:
            raise NameProblem(f"table {table.name} has no action profile: give an action")
        if call.name == "group" and table.kind != "indirect_ws":
            raise NameProblem(f"{table.profile} is not a selector: it has no groups")
        profile, handle = table.profile, call.handle
        if call.name == "member":
            return lambda run: MemberRef(run.members.real(profile, handle))
        return lambda run: GroupRef(run.groups.real(profile, handle))

    def _add(self, command: Add) -> Do:
        table = self._table(command.table)
        match = self._match(table, command.match, command.line)
        entry = self._entry(table, command.action)
        priority = self._priority(table, command)
        name = command.entry
        if name is not None:
            self._entries[name] = table.name
        return lambda run: run.add(table.name, match, entry(run), priority, name)

    def _priority(self, table: Table, command: Add) -> int:
        if not table.ordered:
            return 0
        if command.priority is None:
            self.notes.append((command.line, f"table {table.name} orders entries: priority 0"))
        return command.priority or 0

    def _set_default(self, command: SetDefault) -> Do:
        table = self._table(command.table)
        entry = self._entry(table, command.action)
        return lambda run: run.target.default_set(table.name, entry(run))

    def _remove(self, command: Remove) -> Do:
        if command.entry is not None:
            name = command.entry
            if name not in self._entries:
                raise NameProblem(f"no entry was named '{name}' above (add ... = {name})")
            return lambda run: run.remove_named(name)
        if command.table is None:
            return lambda run: run.remove_all(None)
        table = self._table(command.table)
        if command.match is None:
            return lambda run: run.remove_all(table.name)
        match = self._match(table, command.match, command.line)
        priority = command.priority
        return lambda run: run.remove_entry(table.name, match, priority)

    # -- counters, registers, meters

    def _check(self, command: Check) -> Do:
        if command.what == "register":
            register = self._array("register", command.name, command.index)
            return lambda run: run.check_register(command, register.name, int(command.index))
        counter = self._shape.counters[resolve(command.name, self._shape.counters, "counter")]
        if isinstance(command.index, str):
            table = self._entry_table(command.index)
            if counter.table != table:
                raise NameProblem(f"counter {counter.name} does not count for table {table}")
            name = command.index
            return lambda run: run.check_entry(command, table, name)
        counter = self._array("counter", command.name, command.index)
        index = command.index
        return lambda run: run.check_counter(command, counter.name, index)

    def _entry_table(self, name: str) -> str:
        table = self._entries.get(name)
        if table is None:
            raise NameProblem(f"no entry was named '{name}' above (add ... = {name})")
        return table

    def _array(self, what: str, name: str, index: int | str | None) -> Array:
        """An indirect counter, register or meter with an index that it has."""
        known = {
            "counter": self._shape.counters,
            "register": self._shape.registers,
            "meter": self._shape.meters,
        }[what]
        array = known[resolve(name, known, what)]
        if array.table is not None:
            raise NameProblem(f"{what} {array.name} belongs to the entries of {array.table}")
        if isinstance(index, int) and index >= array.size:
            raise ValueProblem(f"{what} {array.name}: index {index} is not 0..{array.size - 1}")
        return array

    # -- the words of bmv2's command line

    def _direct(self, command: Direct) -> Do:
        method = getattr(self, f"_do_{command.verb}", None)
        if method is not None:
            found: Do = method(command)
            return found
        raise NameProblem(f"{command.verb} is not supported")

    def _do_mirroring_add(self, c: Direct) -> Do:
        session, port = self._session(c), c.numbers[1]
        return lambda run: run.target.mirror_set(session, port, None)

    def _do_mirroring_add_mc(self, c: Direct) -> Do:
        session, group = self._session(c), c.numbers[1]
        return lambda run: run.target.mirror_set(session, None, group)

    def _do_mirroring_delete(self, c: Direct) -> Do:
        session = self._session(c)
        return lambda run: run.target.mirror_delete(session)

    def _do_mirroring_get(self, c: Direct) -> Do:
        session = self._session(c)
        return lambda run: run.say(c.line, run.target.mirror_get(session))

    @staticmethod
    def _session(c: Direct) -> int:
        if c.numbers[0] >= 1 << 15:
            raise ValueProblem(f"mirroring session {c.numbers[0]} is not 0..32767")
        return c.numbers[0]

    @staticmethod
    def _group(c: Direct) -> int:
        if not 0 < c.numbers[0] < 1 << 16:
            raise ValueProblem(f"multicast group {c.numbers[0]} is not 1..65535")
        return c.numbers[0]

    def _do_mc_mgrp_create(self, c: Direct) -> Do:
        group = self._group(c)
        return lambda run: run.target.mcast_create(group)

    def _do_mc_mgrp_destroy(self, c: Direct) -> Do:
        group = self._group(c)
        return lambda run: run.target.mcast_destroy(group)

    def _do_mc_node_create(self, c: Direct) -> Do:
        rid, ports = c.numbers[0], c.numbers[1:]
        if rid >= 1 << 16:
            raise ValueProblem(f"replication id {rid} is not 0..65535")
        return lambda run: run.nodes.made("", run.target.node_create(rid, ports))

    def _do_mc_node_update(self, c: Direct) -> Do:
        node, ports = c.numbers[0], c.numbers[1:]
        return lambda run: run.target.node_update(run.nodes.real("", node), ports)

    def _do_mc_node_destroy(self, c: Direct) -> Do:
        return lambda run: run.target.node_destroy(run.nodes.gone("", c.numbers[0]))

    def _do_mc_node_associate(self, c: Direct) -> Do:
        group, node = self._group(c), c.numbers[1]
        return lambda run: run.target.node_join(group, run.nodes.real("", node))

    def _do_mc_node_dissociate(self, c: Direct) -> Do:
        group, node = self._group(c), c.numbers[1]
        return lambda run: run.target.node_leave(group, run.nodes.real("", node))

    def _do_counter_read(self, c: Direct) -> Do:
        name, index = self._array("counter", c.name, c.numbers[0]).name, c.numbers[0]
        return lambda run: run.say_counter(c.line, name, index)

    def _do_counter_write(self, c: Direct) -> Do:
        index, packets, octets = c.numbers
        name = self._array("counter", c.name, index).name
        for value in (packets, octets):
            fitting(value, 64, f"counter {name}")
        return lambda run: run.target.counter_write(name, index, packets, octets)

    def _do_counter_reset(self, c: Direct) -> Do:
        name = self._array("counter", c.name, None).name
        return lambda run: run.target.counter_reset(name)

    def _do_register_read(self, c: Direct) -> Do:
        index = c.numbers[0] if c.numbers else None
        array = self._array("register", c.name, index)
        wanted = range(array.size) if index is None else (index,)
        return lambda run: run.say_register(c.line, array.name, wanted)

    def _do_register_write(self, c: Direct) -> Do:
        index, value = c.numbers
        array = self._array("register", c.name, index)
        fitting(value, array.width, f"register {array.name}")
        return lambda run: run.target.register_write(array.name, index, value)

    def _do_register_reset(self, c: Direct) -> Do:
        name = self._array("register", c.name, None).name
        return lambda run: run.target.register_reset(name)

    def _do_meter_get_rates(self, c: Direct) -> Do:
        index = c.numbers[0]
        name = self._array("meter", c.name, index).name
        return lambda run: run.say_meter(c.line, name, index)

    def _do_meter_set_rates(self, c: Direct) -> Do:
        index = c.numbers[0]
        array = self._array("meter", c.name, index)
        rates = self._rates(array, c)
        return lambda run: run.target.meter_set(array.name, index, rates)

    def _do_meter_array_set_rates(self, c: Direct) -> Do:
        array = self._array("meter", c.name, None)
        rates = self._rates(array, c)

        def do(run: Run) -> None:
            for index in range(array.size):
                run.target.meter_set(array.name, index, rates)

        return do

    @staticmethod
    def _rates(array: Array, c: Direct) -> tuple[tuple[float, int], ...]:
        if len(c.rates) != array.rates:
            raise ValueProblem(f"meter {array.name} has {array.rates} rates, not {len(c.rates)}")
        if any(a[0] > b[0] for a, b in zip(c.rates, c.rates[1:], strict=False)):
            raise ValueProblem(f"meter {array.name}: rates must not fall")
        return c.rates

    def _profile(self, name: str) -> tuple[str, tuple[Action, ...]]:
        found = resolve(name, self._shape.profiles, "action profile")
        return found, self._shape.profiles[found]

    def _words_call(self, action: Action, words: Sequence[str]) -> ActionCall:
        if len(words) != len(action.params):
            listed = " ".join(name for name, _ in action.params) or "no argument"
            raise NameProblem(f"action {action.name} takes {listed}, not {len(words)} arguments")
        return ActionCall(
            action.name,
            tuple(
                integer(word, width, f"action {action.name}, {name}")
                for word, (name, width) in zip(words, action.params, strict=True)
            ),
        )

    def _do_act_prof_create_member(self, c: Direct) -> Do:
        profile, actions = self._profile(c.name)
        action = self._action(actions, c.words[0], profile)
        call = self._words_call(action, c.words[1:])
        return lambda run: run.members.made(profile, run.target.member_add(profile, call))

    def _do_act_prof_modify_member(self, c: Direct) -> Do:
        profile, actions = self._profile(c.name)
        action = self._action(actions, c.words[0], profile)
        member = number(c.words[1]) if len(c.words) > 1 else None
        if member is None:
            raise ValueProblem("act_prof_modify_member PROFILE ACTION MEMBER [ARGUMENT...]")
        call = self._words_call(action, c.words[2:])
        return lambda run: run.target.member_modify(
            profile, run.members.real(profile, member), call
        )

    def _do_act_prof_delete_member(self, c: Direct) -> Do:
        profile, _ = self._profile(c.name)

        def do(run: Run) -> None:
            run.target.member_delete(profile, run.members.real(profile, c.numbers[0]))
            run.members.gone(profile, c.numbers[0])

        return do

    def _do_act_prof_create_group(self, c: Direct) -> Do:
        profile, _ = self._profile(c.name)
        return lambda run: run.groups.made(profile, run.target.group_add(profile))

    def _do_act_prof_delete_group(self, c: Direct) -> Do:
        profile, _ = self._profile(c.name)

        def do(run: Run) -> None:
            run.target.group_delete(profile, run.groups.real(profile, c.numbers[0]))
            run.groups.gone(profile, c.numbers[0])

        return do

    def _do_act_prof_add_member_to_group(self, c: Direct) -> Do:
        profile, _ = self._profile(c.name)
        member, group = c.numbers
        return lambda run: run.target.group_join(
            profile, run.members.real(profile, member), run.groups.real(profile, group)
        )

    def _do_act_prof_remove_member_from_group(self, c: Direct) -> Do:
        profile, _ = self._profile(c.name)
        member, group = c.numbers
        return lambda run: run.target.group_leave(
            profile, run.members.real(profile, member), run.groups.real(profile, group)
        )

    def _indirect_add(self, c: Direct, kind: str) -> Do:
        table = self._table(c.name)
        words = list(c.words)
        if words.count("=>") != 1:
            raise ValueProblem(f"{c.verb}: '=>' is needed before the {kind}")
        cut = words.index("=>")
        values, target = words[:cut], [number(w) for w in words[cut + 1 :]]
        if len(values) != len(table.key):
            raise ValueProblem(
                f"table {table.name} has {len(table.key)} match fields, not {len(values)}"
            )
        if None in target or not 1 <= len(target) <= 2:
            raise ValueProblem(f"{c.verb}: a {kind} and perhaps a priority come after '=>'")
        match = tuple(
            match_value(text, key, table.name) for text, key in zip(values, table.key, strict=True)
        )
        entry = self._entry(table, Call(kind, (), target[0]))
        # The command line has bmv2's order: the lowest number wins.
        priority = BMV2_PRIORITIES - (target[1] or 0) if len(target) > 1 else 0
        return lambda run: run.add(table.name, match, entry(run), priority, None)

    def _do_table_indirect_add(self, c: Direct) -> Do:
        return self._indirect_add(c, "member")

    def _do_table_indirect_add_with_group(self, c: Direct) -> Do:
        return self._indirect_add(c, "group")

    def _do_table_indirect_set_default(self, c: Direct) -> Do:
        table = self._table(c.name)
        entry = self._entry(table, Call("member", (), c.numbers[0]))
        return lambda run: run.target.default_set(table.name, entry(run))

    def _do_table_indirect_set_default_with_group(self, c: Direct) -> Do:
        table = self._table(c.name)
        entry = self._entry(table, Call("group", (), c.numbers[0]))
        return lambda run: run.target.default_set(table.name, entry(run))


BMV2_PRIORITIES = 10_000
"""Priority P of a test is 10000 - P on bmv2, where the lowest wins (as in p4c's runner)."""

__all__ = ["BMV2_PRIORITIES", "Binder", "Key", "Step"]
