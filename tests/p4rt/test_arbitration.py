"""Arbitration as a state machine."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softswitch.p4rt.arbitration import Arbiter, Arbitration, Notification
from softswitch.p4rt.status import Code, P4RTError


def codes(notifications: list[Notification]) -> list[Any]:
    return [(item.stream, item.election_id, item.code) for item in notifications]


def test_primary_backup_and_takeover() -> None:
    arbiter = Arbiter(1)
    assert codes(arbiter.update("a", Arbitration(1, 5))) == [("a", 5, Code.OK)]
    assert codes(arbiter.update("b", Arbitration(1, 3))) == [("b", 5, Code.ALREADY_EXISTS)]
    # The others hear of the new primary before it does.
    assert codes(arbiter.update("c", Arbitration(1, 9))) == [
        ("a", 9, Code.ALREADY_EXISTS),
        ("b", 9, Code.ALREADY_EXISTS),
        ("c", 9, Code.OK),
    ]
    assert arbiter.is_primary_election(9)
    assert not arbiter.is_primary_election(5)
    assert not arbiter.is_primary_election(None)


def test_nobody_is_promoted_when_the_primary_leaves() -> None:
    arbiter = Arbiter(1)
    arbiter.update("a", Arbitration(1, 5))
    arbiter.update("b", Arbitration(1, 3))
    assert codes(arbiter.disconnect("a")) == [("b", 5, Code.NOT_FOUND)]
    assert arbiter.primary is None
    assert not arbiter.is_primary_election(5)
    # A lower id than ever seen stays backup; the highest ever seen may return.
    assert codes(arbiter.update("b", Arbitration(1, 4))) == [("b", 5, Code.NOT_FOUND)]
    assert codes(arbiter.update("d", Arbitration(1, 5))) == [
        ("b", 5, Code.ALREADY_EXISTS),
        ("d", 5, Code.OK),
    ]


def test_downgrade_tells_everybody() -> None:
    arbiter = Arbiter(1)
    arbiter.update("a", Arbitration(1, 5))
    arbiter.update("b", Arbitration(1, 3))
    news = codes(arbiter.update("a", Arbitration(1, 2)))
    assert sorted(news) == [("a", 5, Code.NOT_FOUND), ("b", 5, Code.NOT_FOUND)]


def test_no_election_id_is_below_all() -> None:
    arbiter = Arbiter(1)
    assert codes(arbiter.update("a", Arbitration(1, None))) == [("a", None, Code.NOT_FOUND)]
    assert codes(arbiter.update("b", Arbitration(1, 0)))[-1] == ("b", 0, Code.OK)
    arbiter.update("c", Arbitration(1, None))
    assert arbiter.primary == "b"


@pytest.mark.parametrize(
    ("message", "first", "later"),
    [
        (Arbitration(2, 1), Code.NOT_FOUND, Code.FAILED_PRECONDITION),
        (Arbitration(1, 1, role_name="r"), Code.INVALID_ARGUMENT, Code.FAILED_PRECONDITION),
        (Arbitration(1, 1, role_id=3), Code.INVALID_ARGUMENT, Code.FAILED_PRECONDITION),
        (Arbitration(1, 1, role_config=True), Code.INVALID_ARGUMENT, Code.INVALID_ARGUMENT),
        (Arbitration(1, 7), Code.INVALID_ARGUMENT, Code.INVALID_ARGUMENT),
    ],
)
def test_refusals(message: Arbitration, first: Code, later: Code) -> None:
    arbiter = Arbiter(1)
    arbiter.update("other", Arbitration(1, 7))
    with pytest.raises(P4RTError) as caught:
        arbiter.update("new", message)
    assert caught.value.code == first
    assert not arbiter.is_client("new")
    arbiter.update("new", Arbitration(1, 2))
    with pytest.raises(P4RTError) as caught:
        arbiter.update("new", message)
    assert caught.value.code == later


def test_roles_have_primaries_of_their_own() -> None:
    arbiter = Arbiter(1, roles=frozenset({"shell"}))
    assert codes(arbiter.update("c", Arbitration(1, 5))) == [("c", 5, Code.OK)]
    # The same election id is free in another role, and a lower one is enough there.
    news = arbiter.update("s", Arbitration(1, 5, role_name="shell"))
    assert [(item.stream, item.code, item.role) for item in news] == [("s", Code.OK, "shell")]
    assert arbiter.primaries() == ["c", "s"]
    assert arbiter.is_primary("s")
    assert arbiter.is_primary_election(5, "shell")
    assert not arbiter.is_primary_election(6, "shell")
    # A newer shell takes over from the older; the controller hears nothing.
    assert codes(arbiter.update("t", Arbitration(1, 6, role_name="shell"))) == [
        ("s", 6, Code.ALREADY_EXISTS),
        ("t", 6, Code.OK),
    ]
    assert codes(arbiter.disconnect("t")) == [("s", 6, Code.NOT_FOUND)]
    assert arbiter.primary == "c"
    with pytest.raises(P4RTError) as caught:
        arbiter.update("s", Arbitration(1, 7))
    assert caught.value.code == Code.FAILED_PRECONDITION
    with pytest.raises(P4RTError, match="knows the default role \\(no name\\), 'shell'"):
        arbiter.update("u", Arbitration(1, 7, role_name="other"))
    assert codes(arbiter.disconnect("c")) == []


def test_election_ids_have_128_bits() -> None:
    arbiter = Arbiter(1)
    assert codes(arbiter.update("a", Arbitration(1, 2**64 - 1)))[-1][2] == Code.OK
    assert codes(arbiter.update("b", Arbitration(1, 1 << 64)))[-1] == ("b", 1 << 64, Code.OK)
    assert not arbiter.is_primary_election(2**64 - 1)
    assert codes(arbiter.update("c", Arbitration(1, 0))) == [("c", 1 << 64, Code.ALREADY_EXISTS)]


def test_limit_of_streams() -> None:
    arbiter = Arbiter(1, max_streams=2)
    arbiter.update("a", Arbitration(1, None))
    arbiter.update("b", Arbitration(1, None))
    with pytest.raises(P4RTError) as caught:
        arbiter.update("c", Arbitration(1, 1))
    assert caught.value.code == Code.RESOURCE_EXHAUSTED


_steps = st.lists(
    st.tuples(st.sampled_from("abcd"), st.one_of(st.none(), st.integers(0, 4), st.just("leave"))),
    max_size=30,
)


@given(_steps)
def test_invariants(steps: list[Any]) -> None:
    """Election ids are unique; the primary has the highest ever seen; news are consistent."""
    arbiter = Arbiter(1)
    alive: dict[str, int | None] = {}
    highest = None
    for stream, step in steps:
        before = arbiter.primary
        if step == "leave":
            news = arbiter.disconnect(stream)
            alive.pop(stream, None)
        else:
            taken = step is not None and any(e == step and s != stream for s, e in alive.items())
            try:
                news = arbiter.update(stream, Arbitration(1, step))
            except P4RTError:
                assert taken
                continue
            assert not taken
            alive[stream] = step
            if step is not None:
                highest = step if highest is None else max(highest, step)
        owners = [s for s, e in alive.items() if e is not None and e == highest]
        assert len(owners) <= 1
        assert arbiter.primary == (owners[0] if owners else None)
        if arbiter.primary != before:
            assert {item.stream for item in news} == set(alive)
        for item in news:
            assert (item.code == Code.OK) == (item.stream == arbiter.primary)
