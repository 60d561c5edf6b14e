"""Look-ups against a plain search, and the control plane's errors."""

from __future__ import annotations

import random
from typing import Any

import pytest

from softswitch.engine import (
    ActionCall,
    CounterValue,
    DuplicateEntry,
    Engine,
    EngineError,
    Exact,
    ImmutableEntry,
    InvalidValue,
    Lpm,
    MatchValue,
    NoSuchAction,
    NoSuchEntry,
    NoSuchTable,
    Optional_,
    Range,
    TableFull,
    Ternary,
)
from tests.engine.programs import Build, assign, const

WIDTHS = {"a": 16, "b": 128, "c": 9}


def engine_with(kinds: dict[str, str], **more: Any) -> Engine:
    """A table over fields of the first header; the action writes its argument into `out`."""
    b = Build()
    b.header("h", [("a", 16), ("b", 128), ("c", 9), ("pad", 7), ("out", 32)])
    hit = b.action(
        "hit",
        [
            assign("h", "out", {"type": "runtime_data", "value": 0}),
            assign("standard_metadata", "egress_spec", const(1)),
        ],
        [("v", 32)],
    )
    b.table(
        "ingress", "t", [(m, "h", f) for f, m in kinds.items()], [hit], hit, ["0xffffffff"],
        with_counters=True, **more,
    )  # fmt: skip
    engine = Engine(b.json())
    engine.add_port(0)
    engine.add_port(1)
    return engine


def look_up(engine: Engine, key: dict[str, int]) -> int:
    full = {"a": 0, "b": 0, "c": 0} | key
    bits = full["a"] << 144 | full["b"] << 16 | full["c"] << 7
    engine.receive(0, bits.to_bytes(20, "big") + bytes(4), 0)
    ((_, frame),) = engine.frames_to_send(0)
    return int.from_bytes(frame[-4:], "big")


def matches(m: Any, value: int, width: int) -> bool:
    if isinstance(m, Exact):
        return value == m.value
    if isinstance(m, Lpm):
        return (value ^ m.value) >> (width - m.prefix_len) == 0
    if isinstance(m, Ternary):
        return value & m.mask == m.value & m.mask
    if isinstance(m, Optional_):
        return m.value is None or m.value == value
    return m.lo <= value <= m.hi  # type: ignore[no-any-return]


def random_match(r: random.Random, kind: str, width: int) -> Any:
    v = r.getrandbits(width)
    if r.random() < 0.6:  # many entries share parts
        v &= (1 << width) - (1 << max(0, width - 4))
    if kind == "exact":
        return Exact(v)
    if kind == "lpm":
        n = r.randint(0, width)
        return Lpm(v, n)
    if kind == "ternary":
        return Ternary(v, r.getrandbits(width) & r.getrandbits(width))
    if kind == "optional":
        return Optional_(None if r.random() < 0.4 else v)
    lo = r.getrandbits(width)
    return Range(lo, r.randint(lo, (1 << width) - 1))


def sample(r: random.Random, entries: list[Any], kinds: dict[str, str]) -> dict[str, int]:
    """A key that is likely to match something."""
    key = {f: r.getrandbits(WIDTHS[f]) for f in kinds}
    if entries and r.random() < 0.8:
        match = r.choice(entries)[0]
        for f, m in zip(kinds, match, strict=True):
            w = WIDTHS[f]
            if isinstance(m, Exact):
                key[f] = m.value
            elif isinstance(m, Lpm):
                low = w - m.prefix_len
                key[f] = m.value >> low << low | r.getrandbits(low) if low else m.value
            elif isinstance(m, Ternary):
                key[f] = m.value & m.mask | key[f] & ~m.mask & (1 << w) - 1
            elif isinstance(m, Optional_):
                key[f] = key[f] if m.value is None else m.value
            else:
                key[f] = r.randint(m.lo, m.hi)
    return key


@pytest.mark.parametrize(
    "kinds",
    [
        {"a": "exact"},
        {"a": "exact", "b": "exact", "c": "exact"},
        {"b": "lpm"},
        {"a": "exact", "b": "lpm", "c": "exact"},
        {"c": "lpm"},
        {"a": "ternary", "b": "ternary"},
        {"c": "optional", "b": "ternary"},
        {"a": "range", "c": "exact"},
        {"a": "range", "b": "ternary", "c": "range"},
        {"b": "range"},
        {"b": "range", "c": "range"},
    ],
    ids=lambda k: "-".join(f"{f}_{m}" for f, m in k.items()),
)
def test_lookup_equals_search(kinds: dict[str, str]) -> None:
    r = random.Random(repr(kinds))
    engine = engine_with(kinds)
    best_first = any(m in ("ternary", "range", "optional") for m in kinds.values())
    entries: list[tuple[tuple[Any, ...], int, int, int]] = []
    for step in range(700):
        if r.random() < 0.35 or len(entries) < 3:
            match = tuple(random_match(r, m, WIDTHS[f]) for f, m in kinds.items())
            prio = r.randint(1, 10**6) if best_first else 0
            try:
                handle = engine.table_add("t", match, ActionCall("hit", (step,)), prio)
            except DuplicateEntry:
                continue
            entries.append((match, prio, step, handle))
        elif r.random() < 0.15:
            gone = entries.pop(r.randrange(len(entries)))
            engine.table_delete("t", gone[3])
        else:
            key = sample(r, entries, kinds)
            hits = [
                e
                for e in entries
                if all(matches(m, key[f], WIDTHS[f]) for f, m in zip(kinds, e[0], strict=True))
            ]
            if best_first:
                hits.sort(key=lambda e: -e[1])
            else:
                hits.sort(key=lambda e: -sum(m.prefix_len for m in e[0] if isinstance(m, Lpm)))
            assert look_up(engine, key) == (hits[0][2] if hits else 0xFFFFFFFF)
    assert len(entries) > 40, "enough for the rows of ternary tables"
    assert len(engine.table_entries("t")) == len(entries)


def clustered(r: random.Random, kind: str, width: int) -> Any:
    """Matches as they come in practice: nested, overlapping, close to each other."""
    if kind == "lpm":
        length = r.choice((0, 7, 8, 9, 16, 24, 48, 64, width))
        return Lpm((0xFD00 << 112 | r.getrandbits(20) << 60 | r.getrandbits(3)), length)
    if kind == "ternary":
        mask = r.choice((0xFF00, 0x0FF0, 0xFFFF, 0, 1 << r.randrange(16)))
        return Ternary(r.getrandbits(16) & mask, mask)
    lo = r.getrandbits(r.choice((4, 8, width)))
    return Range(lo, min((1 << width) - 1, lo + r.getrandbits(r.randint(1, width))))


@pytest.mark.parametrize(
    ("field", "kind"), [("b", "lpm"), ("a", "ternary"), ("a", "range"), ("b", "range")]
)
def test_large_tables_equal_search_while_they_grow_and_shrink(field: str, kind: str) -> None:
    r = random.Random(field + kind)
    width = WIDTHS[field]
    engine = engine_with({field: kind}, max_size=4096)
    entries: dict[int, tuple[Any, int]] = {}

    def check(times: int) -> None:
        for _ in range(times):
            some = r.choice(list(entries.values()))[0] if entries and r.random() < 0.9 else None
            key = r.getrandbits(width)
            if isinstance(some, Lpm):
                key = some.value ^ r.getrandbits(r.randint(1, 30))
            elif isinstance(some, Range):
                key = min(r.choice((some.lo, some.hi, some.hi + 1)), (1 << width) - 1)
            hits = [h for h, (m, _) in entries.items() if matches(m, key, width)]
            if kind == "lpm":
                hits.sort(key=lambda h: -entries[h][0].prefix_len)
            else:  # earlier entries go first among equals
                hits.sort(key=lambda h: (-entries[h][1], h))
            want = entries[hits[0]][0] if hits else None
            got = look_up(engine, {field: key})
            assert (None if got == 0xFFFFFFFF else entries[got][0]) == want
            assert not hits or kind == "lpm" or got == hits[0]

    def add(count: int) -> None:
        for _ in range(count):
            match, prio = clustered(r, kind, width), 0 if kind == "lpm" else r.randint(1, 50)
            try:
                h = engine.table_add("t", [match], ActionCall("hit", (0,)), prio)
            except DuplicateEntry:
                continue
            engine.table_modify("t", h, ActionCall("hit", (h,)))
            entries[h] = (match, prio)

    def delete(count: int) -> None:
        for h in r.sample(list(entries), min(count, len(entries))):
            engine.table_delete("t", h)
            del entries[h]

    for grow, shrink in ((30, 5), (70, 40), (800, 300), (500, 900), (900, 2000), (20, 0)):
        add(grow)
        check(40)
        delete(shrink)
        check(40)


def test_default_modify_find_and_counts() -> None:
    engine = engine_with({"a": "exact"})
    assert engine.table_default("t") == ActionCall("hit", (0xFFFFFFFF,))
    h = engine.table_add("t", [Exact(5)], ActionCall("hit", (1,)))
    assert engine.table_find("t", [Exact(5)]) == h
    assert engine.table_find("t", [Exact(6)]) is None
    assert look_up(engine, {"a": 5}) == 1
    engine.table_modify("t", h, ActionCall("hit", (2,)))
    assert look_up(engine, {"a": 5}) == 2
    engine.table_set_default("t", ActionCall("hit", (3,)))
    assert look_up(engine, {"a": 9}) == 3
    engine.table_set_default("t", None)
    assert look_up(engine, {"a": 9}) == 0xFFFFFFFF
    assert engine.direct_counter_read("t", h) == CounterValue(2, 48)
    assert engine.direct_counter_read("t", None) == CounterValue(2, 48)
    engine.direct_counter_write("t", h, CounterValue(7, 8))
    assert engine.direct_counter_read("t", h) == CounterValue(7, 8)


def test_errors_leave_the_table_alone() -> None:
    engine = engine_with({"a": "exact"}, max_size=2)
    call = ActionCall("hit", (1,))
    engine.table_add("t", [Exact(1)], call)
    refused: list[tuple[type[EngineError], list[MatchValue], ActionCall]] = [
        (DuplicateEntry, [Exact(1)], call),
        (InvalidValue, [Exact(1 << 16)], call),
        (InvalidValue, [Exact(-1)], call),
        (InvalidValue, [Ternary(1, 1)], call),
        (InvalidValue, [], call),
        (InvalidValue, [Exact(2)], ActionCall("hit", ())),
        (InvalidValue, [Exact(2)], ActionCall("hit", (1 << 32,))),
        (NoSuchAction, [Exact(2)], ActionCall("miss", (1,))),
    ]
    for error, match, action in refused:
        with pytest.raises(error):
            engine.table_add("t", match, action)
    engine.table_add("t", [Exact(2)], call)
    with pytest.raises(TableFull, match="2 of 2"):
        engine.table_add("t", [Exact(3)], call)
    with pytest.raises(NoSuchEntry):
        engine.table_delete("t", 99)
    with pytest.raises(NoSuchTable):
        engine.table_add("nope", [Exact(3)], call)
    assert len(engine.table_entries("t")) == 2


def test_const_entries() -> None:
    entries = [
        {
            "match_key": [{"match_type": "ternary", "key": "0x0010", "mask": "0x00f0"}],
            "action_entry": {"action_id": 0, "action_data": ["0x1"]},
            "priority": 1,
        },
        {
            "match_key": [{"match_type": "ternary", "key": "0x0000", "mask": "0x0000"}],
            "action_entry": {"action_id": 0, "action_data": ["0x2"]},
            "priority": 2,
        },
    ]
    engine = engine_with({"a": "ternary"}, entries=entries)
    assert look_up(engine, {"a": 0x13}) == 1
    assert look_up(engine, {"a": 0x23}) == 2
    with pytest.raises(ImmutableEntry):
        engine.table_add("t", [Ternary(1, 1)], ActionCall("hit", (9,)), 5)
    first = engine.table_entries("t")[0]
    assert first.const
    with pytest.raises(ImmutableEntry):
        engine.table_delete("t", first.handle)


def test_invalid_header_matches_as_zero() -> None:
    """bmv2: the key of a header that is not there is zero."""
    b = Build()
    b.header("h", [("a", 8)])
    b.header("x", [("v", 8)])
    hit = b.action("hit", [assign("standard_metadata", "egress_spec", const(1))])
    miss = b.action("miss", [assign("standard_metadata", "egress_spec", const(2))])
    b.table("ingress", "t", [("exact", "x", "v")], [hit, miss], miss)
    engine = Engine(b.json())
    for p in (0, 1, 2):
        engine.add_port(p)
    engine.table_add("t", [Exact(0)], ActionCall("hit"))
    engine.receive(0, b"\x07\x09", 0)
    engine.receive(0, b"\x07", 0)  # too short for x
    assert [(p, len(f)) for p, f in engine.frames_to_send(0)] == [(2, 2), (1, 1)]


def test_idle_time_out() -> None:
    engine = engine_with({"a": "exact"}, support_timeout=True)
    engine.events()
    h = engine.table_add("t", [Exact(1)], ActionCall("hit", (1,)), ttl_ns=3_000_000_000)
    for second in range(1, 6):
        engine.on_deadline(second * 1_000_000_000)
    (event,) = engine.events()
    assert (type(event).__name__, event.handle) == ("IdleTimeout", h)  # type: ignore[union-attr]
    assert engine.entry_idle_ns("t", h) >= 1_000_000_000
