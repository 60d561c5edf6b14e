"""What a value means for a key of some kind and width."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softswitch.engine.types import Exact, Lpm, Optional_, Range, Ternary, Valid
from softswitch.stf.shape import Key, NameProblem, Table, key_of, resolve
from softswitch.stf.values import ValueProblem, match_value


@pytest.mark.parametrize(
    ("kind", "width", "text", "wanted"),
    [
        ("exact", 8, "0x1f", Exact(31)),
        ("exact", 8, "255", Exact(255)),
        ("exact", 1, "true", Exact(1)),
        ("valid", 1, "1", Valid(True)),
        ("lpm", 32, "0x0a000000/8", Lpm(0x0A000000, 8)),
        ("lpm", 32, "0x0a0000**", Lpm(0x0A000000, 24)),
        ("lpm", 32, "0x0a000001", Lpm(0x0A000001, 32)),
        ("lpm", 8, "0b1010****", Lpm(0xA0, 4)),
        ("lpm", 32, "7", Lpm(7, 32)),
        ("ternary", 16, "0x12**", Ternary(0x1200, 0xFF00)),
        # digits that are not written do not count: p4c's rule
        ("ternary", 16, "0x12", Ternary(0x12, 0xFF)),
        ("ternary", 16, "18", Ternary(0x12, 0xFFFF)),
        ("ternary", 8, "0b1*1", Ternary(5, 5)),
        ("ternary", 9, "0x1**", Ternary(0x100, 0x100)),
        ("ternary", 8, "0xf5&&&0xf0", Ternary(0xF0, 0xF0)),
        ("ternary", 8, "0xf0/4", Ternary(0xF0, 0xF0)),
        ("ternary", 8, "*", Ternary(0, 0)),
        ("range", 8, "1..5", Range(1, 5)),
        ("range", 8, "0x1->0xf", Range(1, 15)),
        ("range", 8, "7", Range(7, 7)),
        ("optional", 8, "0x07", Optional_(7)),
        ("optional", 16, "0x7", Optional_(7)),
        ("optional", 8, "0x**", Optional_(None)),
    ],
)
def test_meaning(kind: str, width: int, text: str, wanted: object) -> None:
    assert match_value(text, Key("k", kind, width), "t") == wanted


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        ("exact", "256", "does not fit into 8 bits"),
        ("exact", "0x1*", "don't-care digits"),
        ("exact", "1/4", "matched exactly"),
        ("exact", "x", "'x' is not a number"),
        ("lpm", "1/9", "not 0..8"),
        ("lpm", "0x*1", "not a prefix"),
        ("lpm", "1&&&1", "by prefix"),
        ("ternary", "0xfff*", "does not fit"),
        ("ternary", "1*", "has don't-care digits"),
        ("ternary", "1&&&x", "not a number"),
        ("range", "5..1", "empty"),
        ("range", "1..", "not a number"),
        ("optional", "0x*1", "compared whole or not"),
    ],
)
def test_refused(kind: str, text: str, words: str) -> None:
    with pytest.raises(ValueProblem, match=r"table t, field k: ") as caught:
        match_value(text, Key("k", kind, 8), "t")
    assert words in str(caught.value)


@given(
    st.sampled_from(["exact", "lpm", "ternary", "range", "optional", "valid"]),
    st.integers(1, 130),
    st.text("0123456789abxf*&/.->", max_size=12),
)
def test_any_value_has_a_meaning_or_is_refused(kind: str, width: int, text: str) -> None:
    problem = ""
    try:
        match_value(text, Key("k", kind, width), "t")
    except ValueProblem as error:
        problem = str(error)
    assert "\n" not in problem


def test_names() -> None:
    names = ["ingress.route", "egress.route", "ingress.sub.mark", "x.remark"]
    assert resolve("ingress.route", names, "table") == "ingress.route"
    assert resolve("mark", names, "table") == "ingress.sub.mark"
    assert resolve("sub.mark", names, "table") == "ingress.sub.mark"
    assert resolve("emark", names, "table") == "x.remark"
    with pytest.raises(NameProblem, match=r"could be egress\.route or ingress\.route"):
        resolve("route", names, "table")
    with pytest.raises(NameProblem, match=r"no table 'rout'; did you mean"):
        resolve("rout", names[:1], "table")
    with pytest.raises(NameProblem, match="the program has no register"):
        resolve("r", [], "register")


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("hdr.h.a", "hdr.h.a"),
        ("a", "hdr.h.a"),
        ("h.a", "hdr.h.a"),
        ("s$1.x", "hdr.s[1].x"),
        ("hdr.s[1].x", "hdr.s[1].x"),
        ("v.valid", "hdr.v.$valid$"),
        ("v.$valid$", "hdr.v.$valid$"),
        ("v.isValid()", "hdr.v.$valid$"),
        ("hdr.v", "hdr.v.$valid$"),
        ("valid", "hdr.v.$valid$"),
    ],
)
def test_keys(name: str, wanted: str) -> None:
    names = ("hdr.h.a", "hdr.s[1].x", "hdr.v.$valid$")
    table = Table("t", tuple(Key(n, "exact", 8) for n in names), "simple", "exact", ())
    assert key_of(table, name).name == wanted


def test_key_that_is_not_there() -> None:
    table = Table("t", (Key("a.x", "exact", 8), Key("b.x", "exact", 8)), "simple", "exact", ())
    with pytest.raises(NameProblem, match=r"could be a\.x or b\.x"):
        key_of(table, "x")
    with pytest.raises(NameProblem, match=r"no field 'y' \(it has a\.x, b\.x\)"):
        key_of(table, "y")
