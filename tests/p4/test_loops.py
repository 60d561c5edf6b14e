"""What loops compute."""

from __future__ import annotations

import pytest

from tests.p4.support import Machine, compiled, execute, refused

A, B, D = ("h", "a"), ("h", "b"), ("h", "d")
X, Y = ("scalars", "meta.x"), ("scalars", "meta.y")
SUM = "hdr.h.d = hdr.h.d + (bit<32>)i;"


@pytest.mark.parametrize(
    ("apply", "wanted"),
    [
        (f"for (bit<8> i = 1; i <= hdr.h.a; i = i + 1) {{ {SUM} }}", 15),
        (f"for (bit<8> i = 9; i < hdr.h.a; i = i + 1) {{ {SUM} }}", 0),
        (f"for (bit<8> i in 1..hdr.h.a) {{ {SUM} }}", 15),
        (f"for (bit<8> i in 250..255) {{ {SUM} }}", sum(range(250, 256))),
        (f"for (bit<8> i in 6..hdr.h.a) {{ {SUM} }}", 0),
        (f"for (bit<8> i in 1..9) {{ if (i == hdr.h.a) break; {SUM} }}", 10),
        (f"for (bit<8> i in 1..9) {{ if (i == hdr.h.a) continue; {SUM} }}", 40),
        (f"for (bit<8> i in 1..9) {{ if (i == hdr.h.a) return; {SUM} }} hdr.h.d = 99;", 10),
        (f"for (bit<8> i in 1..9) {{ if (i == hdr.h.a) exit; {SUM} }} hdr.h.d = 99;", 10),
        (f"for (bit<8> i in 1..3) {{ {SUM} i = 200; }}", 6),
        (f"for (bit<8> i in 1..hdr.h.a) {{ {SUM} hdr.h.a = 2; }}", 15),
        (f"for (bit<8> i in (list<bit<8>>){{1, 2, hdr.h.a}}) {{ hdr.h.a = 7; {SUM} }}", 8),
        ("for (bit<3> i = 0; i < 7; i = i + 3) { hdr.h.d = hdr.h.d * 8 + (bit<32>)i; }", 0o3614),
        ("for (bit<8> i in 1..3) { for (bit<8> j in 1..i) { hdr.h.d = hdr.h.d + 1; } }", 6),
        (f"for (bit<8> i = 0, bit<8> j = 5; j > 0; i += 2, j -= 1) {{ {SUM} }}", 20),
        (f"bit<8> i; for (i = 0; i < 4; i = i + 1) {{ }} {SUM}", 4),
        ("for (bit<8> i in 0..255) { hdr.h.d = hdr.h.d + 1; }", 256),
        ("for (B x in hdr.st) { hdr.h.d = hdr.h.d + 1; }", 4),
    ],
)
def test_loop(apply: str, wanted: int) -> None:
    assert execute({A: 5}, apply=apply).fields.get(D, 0) == wanted


def test_loops_in_actions_and_functions() -> None:
    machine = execute(
        {A: 5},
        top="bit<8> find(in bit<8> n) { for (bit<8> i in 0..9) { if (i * i > n) { return i; } } "
        "return 0; }",
        locals="action go() { for (bit<8> i in 1..3) { if (i == 3) { return; } m.x = m.x + i; } }",
        apply="go(); hdr.h.b = find(hdr.h.a); go();",
    )
    assert (machine.fields[X], machine.fields[B]) == (6, 3)


def test_a_table_in_two_places_goes_on_where_it_was_applied() -> None:
    parts = {
        "locals": "action go() { m.y = m.y + 1; } table t { actions = { go; } "
        "default_action = go(); }",
        "apply": "if (hdr.h.a == 1) { t.apply(); m.x = 1; } else if (hdr.h.a == 2) "
        "{ if (t.apply().hit) { m.x = 2; } else { m.x = 3; } } else { t.apply(); } "
        "m.y = m.y + 10;",
    }
    document = compiled(**parts).json
    for value, x in ((1, 1), (2, 3), (3, 0)):
        machine = Machine(document, {A: value})
        machine.run()
        assert (machine.fields.get(X, 0), machine.fields[Y]) == (x, 11)


def test_hit_in_one_place_and_action_run_in_another() -> None:
    message = refused(
        locals="table t { actions = { NoAction; } }",
        apply="if (m.t) { if (t.apply().hit) { m.x = 1; } } "
        "else { switch (t.apply().action_run) { NoAction: { m.x = 2; } } }",
    )
    assert "in one place for hit or miss" in message
