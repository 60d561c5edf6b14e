"""What compiles and is still worth a word."""

from __future__ import annotations

from pathlib import Path

import pytest

from softswitch.p4 import compile_file
from softswitch.p4.diagnostics import WARNINGS
from tests.p4.support import compiled, refused

CASES = [
    ({"locals": "action f() { m.x = 1; }"}, "action 'f' is not used"),
    ({"locals": "table t { actions = { NoAction; } }"}, "table 't' is not used"),
    ({"apply": "bit<8> v;"}, "variable 'v' is not used"),
    ({"parser": "state start { transition accept; } state s { transition accept; }"},
     "state 's' is never reached"),
    ({"parser": "state start { transition reject; }"}, "bmv2 has no reject"),
    ({"parser": "state start { transition select(m.x) { _: accept; 1: start; } }"},
     "this case is never reached"),
    ({"apply": "m.x = 256;"}, "256 does not fit in 'bit<8>' (0..255)"),
    ({"apply": "m.x = m.x << 8;"}, "shifting a 8-bit value by 8"),
    ({"apply": "resubmit_preserving_field_list(3);"}, "no metadata field is tagged @field_list(3)"),
    ({"locals": "direct_counter(CounterType.bytes) c;"}, "direct counter 'I.c' is not used"),
    ({"top": "counter(4, CounterType.bytes) c;", "apply": "c.count(4);"},
     "index 4 is outside 'c' of size 4"),
    ({"apply": "mark_to_drop();"}, "'mark_to_drop' is deprecated"),
    # never matching
    ({"parser": "state start { transition select(m.x) { 1: accept; 1 &&& 3: accept; 5: reject;"
      "1: reject; } }"}, "this case is never reached: the one at line"),
    ({"parser": "state start { transition select(m.x) { 0..9: accept; 3..4: reject; } }"},
     "this case is never reached"),
    ({"locals": "table t { key = { m.x: ternary; } actions = { NoAction; } const entries = {"
      "_: NoAction; 1: NoAction; } }", "apply": "t.apply();"}, "this entry never matches"),
    ({"locals": "table t { key = { m.x: ternary; } actions = { NoAction; } entries = {"
      "priority = 3: 1: NoAction; priority = 3: 2: NoAction; } }", "apply": "t.apply();"},
     "another entry has priority 3 too"),
    ({"locals": "table t { key = { m.x: ternary; } actions = { NoAction; } entries = {"
      "priority = 3: 1: NoAction; priority = 4: 2: NoAction; } }", "apply": "t.apply();"},
     "priority 4 after 3"),
    ({"locals": "table t { key = { m.x: ternary; } actions = { NoAction; } const entries = {"
      "7 &&& 3: NoAction; } }", "apply": "t.apply();"}, "has bits outside its mask 0x3"),
    ({"locals": "table t { key = { 8w1: exact; } actions = { NoAction; } }", "apply": "t.apply();"},
     "this key is the same for every packet"),
    ({"apply": "if (m.x > 255) { m.y = 1; }"}, "always false: a 'bit<8>' is 0..255"),
    ({"apply": "if (0 <= m.x) { m.y = 1; }"}, "always true: a 'bit<8>' is 0..255"),
    ({"apply": "if (hdr.h.s < -128) { m.y = 1; }"}, "always false: a 'int<8>' is -128..127"),
    ({"apply": "exit; m.x = 1;"}, "this statement is never reached"),
    ({"apply": "if (m.t) { return; } else { exit; } m.x = 1;"}, "this statement is never reached"),
    ({"apply": "m.x = 8w256;"}, "8w256: value does not fit in 8 bits"),
    # uninitialised
    ({"apply": "bit<8> v; m.x = v;"}, "'v' may be read before it has a value"),
    ({"apply": "bit<8> v; if (m.t) { v = 1; } m.x = v;"}, "'v' may be read before it has a value"),
    ({"apply": "bit<8> v; switch (m.x) { 1: { v = 1; } } m.x = v;"}, "'v' may be read before"),
    ({"locals": "bit<8> v; action f() { m.x = v; } action g() {} table t { actions = { f; g; } }",
      "apply": "t.apply();"}, "'v' may be read before it has a value"),
    ({"types": "struct S { bit<8> a; bit<8> b; }", "top": "void f(in S s) {}",
      "apply": "S s; s.a = 1; f(s);"}, "'s.b' may have no value here"),
    ({"top": "void f(out bit<8> x) { if (x == 1) {} x = 1; }", "apply": "f(m.x);"},
     "'x' may be read before it has a value"),
    ({"top": "void f(out bit<8> x, in bool t) { if (t) { x = 1; } }", "apply": "f(m.x, m.t);"},
     "out parameter 'x': 'x' may have no value when 'f' ends"),
    ({"apply": "B v; m.x = v.x;"}, "header 'v' is not valid here: field 'x' has no value"),
    ({"apply": "hdr.g.setInvalid(); m.x = hdr.g.a;"}, "header 'hdr.g' is not valid here"),
    ({"apply": "if (!hdr.g.isValid()) { } B b; if (b.isValid()) { } else { b.x = 1; }"},
     "header 'b' is not valid here"),
    ({"parser": "state start { transition select(hdr.g.a) { _: accept; } }"},
     "header 'hdr.g' is not valid here"),
    ({"types": "header_union U { B one; B two; }", "apply":
      "U u; u.one.setValid(); u.one.x = 1; m.x = u.two.x;"}, "header 'u.two' is not valid here"),
    # ignored
    ({"locals": "@max_group_size(4) action_profile(4) p; table t { key = { m.x: exact; } actions ="
      "{ NoAction; } implementation = p; }", "apply": "t.apply();"}, "means nothing without a"),
    ({"locals": "@defaultOnly action f() {} table t { actions = { f; } }", "apply": "t.apply();"},
     "@defaultOnly has no meaning; did you mean @defaultonly?"),
    ({"locals": "table t { key = { m.x: ternary; } actions = { NoAction; } const entries = {"
      "1: NoAction @priority(1); } }", "apply": "t.apply();"}, "@priority is ignored"),
    # unused
    ({"top": "const bit<8> k = 1;"}, "constant 'k' is not used"),
    ({"top": "typedef bit<8> k_t;"}, "type 'k_t' is not used"),
    ({"top": "bit<8> f() { return 1; }"}, "function 'f' is not used"),
    ({"top": "control C() { apply {} }"}, "control 'C' is not used"),
    ({"locals": "action f(bit<8> p) {} table t { actions = { f; } }", "apply": "t.apply();"},
     "parameter 'p' is not used"),
    ({"locals": "register<bit<8>>(4) r;"}, "instance 'r' is not used"),
    ({"parser": "value_set<bit<8>>(4) v; state start { transition accept; }"},
     "value set 'v' is not used"),
    ({"top": "action f() {}", "locals": "action f() { m.x = 1; }", "apply": "f(); "},
     "'f' hides the one declared at line"),
]  # fmt: skip


@pytest.mark.parametrize(("parts", "message"), CASES, ids=[m for _, m in CASES])
def test_warning(parts: dict[str, str], message: str) -> None:
    assert any(message in w.message for w in compiled(**parts).warnings)


def test_nowarn_is_respected() -> None:
    assert not compiled(locals='@noWarn("unused") action f() {}').warnings


def test_a_clean_program_is_silent() -> None:
    assert not compiled(apply="m.x = hdr.h.a;").warnings


FINE = [
    {"apply": "bit<8> v; if (m.t) { v = 1; } else { v = 2; } m.x = v;"},
    {"apply": "bit<8> v; if (m.t) { v = 1; } else { return; } m.x = v;"},
    {"apply": "bit<8> v; switch (m.x) { 1: { v = 1; } default: { v = 2; } } m.x = v;"},
    {"locals": "bit<8> v; action f() { v = 1; } action g() { v = 2; }"
     "table t { actions = { f; g; } default_action = g; }", "apply": "t.apply(); m.x = v;"},
    {"locals": "bit<8> v; action f() { v = 1; } table t { key = { m.x: exact; } actions = { f;"
     "@defaultonly NoAction; } }", "apply": "if (t.apply().hit) { m.x = v; }"},
    {"locals": "bit<8> v; action f() { v = 1; } table t { key = { m.x: exact; } actions = { f;"
     "NoAction; } }", "apply": "switch (t.apply().action_run) { f: { m.x = v; } }"},
    {"apply": "B b; b.setValid(); b.x = 1; m.x = b.x;"},
    {"apply": "B b; b = { 1 }; m.x = b.x;"},
    {"apply": "B b; if (m.t) { b.setValid(); b.x = 1; } if (b.isValid()) { m.x = b.x; }"},
    {"apply": "m.x = hdr.g.a; hdr.st[m.x].x = 1;"},
    {"apply": "bit<8> v; hash(v, HashAlgorithm.crc16, 8w0, { m.x }, 8w255); m.x = v;"},
    {"apply": "bit<8> n = 0; for (bit<8> i = 0; i < 4; i = i + 1) { n = n + i; } m.x = n;"},
    {"parser": "state start { pkt.extract(hdr.h); transition select(hdr.h.a) { 1: more;"
     "_: accept; } } state more { pkt.extract(hdr.st.next); transition select(hdr.st.last.x) {"
     "1: more; _: accept; } }"},
    {"parser": "state start { transition select(m.x) { 1: accept; 2: accept; 0 &&& 1: accept;"
     "_: reject_it; } } state reject_it { transition accept; }"},
    {"locals": "table t { key = { m.x: ternary; } actions = { NoAction; } const entries = {"
     "1: NoAction; 2 &&& 2: NoAction; _: NoAction; } }", "apply": "t.apply();"},
    {"apply": "if (m.x >= 1 && m.x <= 254 && m.x < 255 && m.x > 0) { m.y = 1; }"},
    {"top": "#define DEBUG 0\n", "apply": "if (DEBUG == 1) { m.x = 1; }"},
]  # fmt: skip


@pytest.mark.parametrize("parts", FINE, ids=range(len(FINE)))
def test_no_false_alarm(parts: dict[str, str]) -> None:
    assert [str(w) for w in compiled(**parts).warnings] == []


def test_entry_twice_is_an_error() -> None:
    assert "has an entry with the same key" in refused(
        locals="table t { key = { m.x: exact; } actions = { NoAction; } const entries = {"
        "1: NoAction; 1: NoAction; } }"
    )


def test_every_kind_is_described() -> None:
    for parts, _ in CASES:
        for found in compiled(**parts).warnings:
            assert found.kind in WARNINGS


def test_fabric_program_is_clean() -> None:
    program = Path(__file__).resolve().parents[2] / "p4src" / "mrc_fabric.p4"
    assert [str(w) for w in compile_file(program).warnings] == []
