"""Value sets, idle entries, digests and log messages: what the control plane sees and sets."""

from __future__ import annotations

import pytest

from softswitch.engine import (
    ActionCall,
    Digest,
    Engine,
    Exact,
    IdleTimeout,
    InvalidValue,
    LogMessage,
    PortChange,
)
from tests.engine.programs import Build, Json, assign, const, fld, op, prim

SM = "standard_metadata"
MS = 1_000_000


def started(program: Json) -> Engine:
    engine = Engine(program)
    for p in (1, 2):
        engine.add_port(p)
    engine.events()
    return engine


def value_set_program() -> Json:
    """Headers whose two keys are in the set get a second header."""
    b = Build()
    b.header("h", [("a", 8), ("b", 3), ("pad", 5)])
    b.header("more", [("seen", 8)])
    b.run(
        "ingress",
        "out",
        [
            assign(SM, "egress_spec", const(1)),
            prim("remove_header", {"type": "header", "value": "more"}),
        ],
    )
    program = b.json()
    program["parse_vsets"] = [{"name": "vs", "id": 0, "compressed_bitwidth": 11}]
    (start,) = program["parsers"][0]["parse_states"]
    more = start["parser_ops"].pop()
    end = {"type": "default", "value": None, "mask": None, "next_state": None}
    start["transition_key"] = [fld("h", "a"), fld("h", "b")]
    start["transitions"] = [
        {"type": "parse_vset", "value": "vs", "mask": None, "next_state": "more"},
        end,
    ]
    program["parsers"][0]["parse_states"].append(
        {
            "name": "more",
            "id": 1,
            "parser_ops": [more],
            "transition_key": [],
            "transitions": [end],
        }
    )
    return program


def test_value_sets_of_several_fields_with_masks() -> None:
    engine = started(value_set_program())

    def member(a: int, b: int) -> bool:
        engine.receive(2, bytes([a, b << 5, 0xEE, 0xFF]), 0)
        ((_, frame),) = engine.frames_to_send(0)
        return len(frame) == 3  # the second header was found and taken away

    assert not member(7, 5)
    engine.value_set_set("vs", [7 << 3 | 5, (0x10 << 3 | 1, 0xF0 << 3 | 7)])
    assert engine.value_set_get("vs") == [61, (0x81, 0x787)]
    assert [member(7, 5), member(7, 4), member(8, 5)] == [True, False, False]
    assert [member(0x10, 1), member(0x1F, 1), member(0x20, 1), member(0x1F, 0)] == [
        True,
        True,
        False,
        False,
    ]
    engine.value_set_set("vs", [])
    assert not member(7, 5)
    with pytest.raises(InvalidValue):
        engine.value_set_set("vs", [1 << 11])


def test_idle_entries_are_told_soon_after_their_time() -> None:
    """Within an eighth of it, whatever it is; a match starts it anew."""
    b = Build()
    b.header("h", [("k", 8)])
    hit = b.action("hit", [assign(SM, "egress_spec", const(1))])
    b.table("ingress", "t", [("exact", "h", "k")], [hit], support_timeout=True)
    engine = started(b.json())
    assert engine.next_deadline() is None, "nothing to wait for without entries that expire"
    call = ActionCall("hit")
    fast = engine.table_add("t", [Exact(1)], call, ttl_ns=80 * MS)
    engine.table_add("t", [Exact(2)], call)
    slow = engine.table_add("t", [Exact(3)], call, ttl_ns=5000 * MS)
    engine.receive(2, b"\1", 50 * MS)
    assert len(engine.frames_to_send(50 * MS)) == 1
    told: list[tuple[int, int]] = []
    while (t := engine.next_deadline()) is not None and t <= 5200 * MS:
        engine.on_deadline(t)
        for e in engine.events():
            assert isinstance(e, IdleTimeout)
            told.append((e.handle, t // MS))
    firsts = [next(t for h, t in told if h == x) for x in (fast, slow)]
    assert 130 <= firsts[0] <= 140
    assert 5000 <= firsts[1] <= 5000 + 5000 // 8
    assert len([h for h, _ in told if h == fast]) > 50, "again after each time to live"
    assert engine.entry_idle_ns("t", fast) <= 90 * MS


def noisy(bits: int = 8) -> Engine:
    """Every packet makes a digest of its first bits and a log message."""
    b = Build()
    b.header("h", [("k", bits)])
    b.run(
        "ingress",
        "tell",
        [
            assign(SM, "egress_spec", const(1)),
            prim("generate_digest", const(0), const(1)),
            prim(
                "log_msg",
                {"type": "string", "value": "k is {}"},
                {"type": "parameters_vector", "value": [op("&", fld("h", "k"), const(255))]},
            ),
        ],
    )
    program = b.json()
    program["learn_lists"] = [{"id": 1, "name": "d", "elements": [fld("h", "k")]}]
    return started(program)


def test_like_digests_can_be_held_back() -> None:
    engine = noisy()

    def digests(now: int) -> list[int]:
        for k in (1, 2, 1, 1, 2):
            engine.receive(2, bytes([k]), now)
        engine.frames_to_send(now)
        return [e.values[0] for e in engine.events() if isinstance(e, Digest)]

    assert digests(0) == [1, 2, 1, 1, 2]
    engine.digest_hold(10 * MS)
    assert digests(1) == [1, 2]
    assert digests(5 * MS) == []
    assert digests(11 * MS) == [1, 2]
    engine.digest_hold(0)
    assert digests(12 * MS) == [1, 2, 1, 1, 2]
    with pytest.raises(InvalidValue):
        engine.digest_hold(-1)


def test_log_messages_are_bounded_and_say_so() -> None:
    engine = noisy()

    def logs(count: int, now: int) -> list[str]:
        for _ in range(count):
            engine.receive(2, b"\5", now)
            engine.frames_to_send(now)
        return [e.text for e in engine.events() if isinstance(e, LogMessage)]

    assert logs(1500, 0) == ["k is 5"] * 1000
    assert logs(2, 1100 * MS) == ["500 more messages in a second were not logged"] + ["k is 5"] * 2


def test_a_flood_of_digests_leaves_room_for_port_changes() -> None:
    engine = noisy(8000)
    for _ in range(5000):
        engine.receive(2, bytes(1000), 0)
        engine.frames_to_send(0)
    engine.set_port_up(2, False, 1)
    assert PortChange(2, False, 1) in engine.events()
