"""Members, groups, one-shot action sets."""

from __future__ import annotations

from typing import Any

import pytest
from p4.v1 import p4runtime_pb2 as pb

from softswitch.engine.types import ActionCall, GroupMember, GroupRef
from softswitch.p4rt.status import BatchError, Code
from tests.p4rt import programs as p
from tests.p4rt.client import (
    DELETE,
    FWD,
    INSERT,
    MODIFY,
    Direct,
    call,
    code_of,
    entry,
    exact,
    group,
    lpm,
    member,
)

NET = lpm(1, b"\x0a\0\0\0", 8)


def to_group(group_id: int) -> Any:
    return entry(p.INDIRECT, NET, action=pb.TableAction(action_profile_group_id=group_id))


def to_member(member_id: int) -> Any:
    return entry(p.INDIRECT, NET, action=pb.TableAction(action_profile_member_id=member_id))


def one_shot(*actions: tuple[Any, int, int | None]) -> Any:
    table_action = pb.TableAction()
    for action, weight, port in actions:
        item = table_action.action_profile_action_set.action_profile_actions.add(weight=weight)
        item.action.CopyFrom(action)
        if port is not None:
            item.watch_port = bytes((port,))
    return entry(p.INDIRECT, NET, action=table_action)


def test_members(direct: Direct) -> None:
    assert direct.code(INSERT, member(1)) == Code.OK
    assert direct.code(INSERT, member(1)) == Code.ALREADY_EXISTS
    assert direct.code(INSERT, member(0)) == Code.INVALID_ARGUMENT
    assert direct.code(INSERT, member(2, action=None)) == Code.INVALID_ARGUMENT
    assert direct.code(INSERT, member(2, action=call(299))) == Code.INVALID_ARGUMENT
    assert direct.code(INSERT, member(2, profile=999)) == Code.INVALID_ARGUMENT
    assert direct.code(MODIFY, member(2)) == Code.NOT_FOUND
    assert direct.code(MODIFY, member(1, action=call(p.DROP))) == Code.OK
    assert direct.read(pb.ActionProfileMember()) == [member(1, action=call(p.DROP))]
    assert direct.read(member(1, action=None)) == [member(1, action=call(p.DROP))]
    assert direct.code(DELETE, member(1)) == Code.OK
    assert direct.code(DELETE, member(1)) == Code.NOT_FOUND


def test_profile_size(direct: Direct) -> None:
    for index in range(1, 5):
        assert direct.code(INSERT, member(index, profile=p.PLAIN)) == Code.OK
    assert direct.code(INSERT, member(5, profile=p.PLAIN)) == Code.RESOURCE_EXHAUSTED
    lone = group(1, (1, 1), profile=p.PLAIN)
    assert direct.code(INSERT, lone) == Code.INVALID_ARGUMENT


def test_groups(direct: Direct) -> None:
    direct.write((INSERT, member(1)), (INSERT, member(2, action=call(p.DROP))))
    ok = group(7, (1, 2), (2, 1))
    ok.members[0].watch_port = b"\x02"
    ok.members[1].watch = 3
    assert direct.code(INSERT, ok) == Code.OK
    assert direct.read(pb.ActionProfileGroup()) == [ok]
    handles = list(direct.engine._members["sel"])
    assert list(direct.engine._groups["sel"].values()) == [
        [GroupMember(handles[0], 2, 2), GroupMember(handles[1], 1, 3)]
    ]
    assert direct.code(INSERT, ok) == Code.ALREADY_EXISTS
    assert direct.code(INSERT, group(0, (1, 1))) == Code.INVALID_ARGUMENT
    assert direct.code(INSERT, group(8, (9, 1))) == Code.NOT_FOUND
    assert direct.code(INSERT, group(8, (1, 1), (1, 1))) == Code.INVALID_ARGUMENT
    assert direct.code(INSERT, group(8, (1, 0))) == Code.INVALID_ARGUMENT
    assert direct.code(INSERT, group(8, (1, 9))) == Code.RESOURCE_EXHAUSTED
    assert direct.code(INSERT, group(8, (1, 1), max_size=9)) == Code.INVALID_ARGUMENT
    assert direct.code(INSERT, group(8, (1, 1), max_size=0)) == Code.INVALID_ARGUMENT
    bad_port = group(8, (1, 1))
    bad_port.members[0].watch_port = b"\x63"
    assert direct.code(INSERT, bad_port) == Code.INVALID_ARGUMENT
    assert direct.code(MODIFY, group(8, (1, 1))) == Code.NOT_FOUND
    assert direct.code(MODIFY, group(7, (1, 1), max_size=4)) == Code.INVALID_ARGUMENT
    assert direct.code(DELETE, member(2)) == Code.FAILED_PRECONDITION
    assert direct.code(MODIFY, group(7, (1, 1))) == Code.OK
    assert direct.code(DELETE, member(2)) == Code.OK
    assert direct.code(DELETE, group(7)) == Code.OK
    assert direct.code(DELETE, group(7)) == Code.NOT_FOUND


def test_entries_hold_what_they_point_at(direct: Direct) -> None:
    assert direct.code(INSERT, to_group(7)) == Code.NOT_FOUND
    assert direct.code(INSERT, to_member(1)) == Code.NOT_FOUND
    direct.write((INSERT, member(1)))
    direct.write((INSERT, group(7, (1, 1))))
    direct.write((INSERT, to_group(7)))
    assert direct.read(pb.TableEntry(table_id=p.INDIRECT)) == [to_group(7)]
    assert direct.code(DELETE, group(7)) == Code.FAILED_PRECONDITION
    direct.write((MODIFY, to_member(1)))
    assert direct.code(DELETE, group(7)) == Code.OK
    assert direct.code(DELETE, member(1)) == Code.FAILED_PRECONDITION
    direct.write((DELETE, to_member(1)))
    assert direct.code(DELETE, member(1)) == Code.OK


def test_plain_profile_takes_members_only(direct: Direct) -> None:
    direct.write((INSERT, member(1, profile=p.PLAIN)))
    by_member = entry(p.PROF, exact(1, b"\1"), action=pb.TableAction(action_profile_member_id=1))
    assert direct.code(INSERT, by_member) == Code.OK
    by_group = entry(p.PROF, exact(1, b"\2"), action=pb.TableAction(action_profile_group_id=1))
    assert direct.code(INSERT, by_group) == Code.INVALID_ARGUMENT
    table_action = pb.TableAction()
    table_action.action_profile_action_set.action_profile_actions.add(weight=1)
    shot = entry(p.PROF, exact(1, b"\3"), action=table_action)
    assert direct.code(INSERT, shot) == Code.INVALID_ARGUMENT


def test_default_of_an_indirect_table_is_const(direct: Direct) -> None:
    default = entry(p.INDIRECT, is_default_action=True)
    assert direct.code(MODIFY, default) == Code.PERMISSION_DENIED


def test_one_shot(direct: Direct) -> None:
    first = one_shot((FWD, 1, 1), (call(p.DROP), 2, None), (FWD, 3, 2))
    direct.write((INSERT, first))
    assert direct.read(pb.TableEntry(table_id=p.INDIRECT)) == [first]
    # Neither its group nor its members show.
    assert direct.read(pb.ActionProfileMember(), pb.ActionProfileGroup()) == []
    engine = direct.engine
    (group_handle,) = engine._groups["sel"]
    (only,) = engine.tables["indirect"].values()
    assert only.action == GroupRef(group_handle)
    assert [m.weight for m in engine._groups["sel"][group_handle]] == [1, 2, 3]
    assert [m.watch_port for m in engine._groups["sel"][group_handle]] == [1, None, 2]
    assert len(engine._members["sel"]) == 3
    direct.write((MODIFY, one_shot((call(p.DROP), 1, None))))
    assert list(engine._members["sel"].values()) == [ActionCall("drop", ())]
    assert len(engine._groups["sel"]) == 1
    direct.write((DELETE, entry(p.INDIRECT, NET, action=None)))
    assert engine._members["sel"] == {}
    assert engine._groups["sel"] == {}


@pytest.mark.parametrize(
    "bad",
    [
        one_shot((FWD, 0, None)),
        one_shot((FWD, 9, None)),
        one_shot((FWD, 1, 99)),
        one_shot((FWD, 1, None), (call(p.FWD, b"\1"), 1, None)),
    ],
)
def test_bad_one_shots_leave_nothing(direct: Direct, bad: Any) -> None:
    assert direct.code(INSERT, bad) == Code.INVALID_ARGUMENT
    assert direct.engine._members["sel"] == {}
    assert direct.engine._groups["sel"] == {}


def test_styles_do_not_mix(direct: Direct) -> None:
    shot = one_shot((FWD, 1, None))
    direct.write((INSERT, member(1)))
    assert direct.code(INSERT, shot) == Code.INVALID_ARGUMENT
    direct.write((DELETE, member(1)))
    direct.write((INSERT, shot))
    assert direct.code(INSERT, member(1)) == Code.INVALID_ARGUMENT
    assert direct.code(MODIFY, to_member(1)) == Code.INVALID_ARGUMENT


def test_order_and_codes_of_a_batch(direct: Direct) -> None:
    with pytest.raises(BatchError) as caught:
        direct.write(
            (INSERT, member(1)),
            (INSERT, member(1)),
            (INSERT, to_group(3)),
            (INSERT, to_member(1)),
        )
    codes = [code_of(caught.value, index) for index in range(4)]
    assert codes == [Code.OK, Code.ALREADY_EXISTS, Code.NOT_FOUND, Code.OK]
    assert len(direct.read(pb.TableEntry(table_id=p.INDIRECT))) == 1
