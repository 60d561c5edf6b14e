"""Ill-typed programs p4c refuses, as small as they get; each says why."""

from __future__ import annotations

import pytest

from softswitch.p4 import P4Error, compile_text
from tests.p4.support import compiled, refused, source

_T = "actions = { NoAction; }"
BAD = [
    ({"parser": "state start { transition start; }"}, "never reaches accept or reject"),
    ({"top": "extern X { X(); void f(in X x); }"}, "cannot take itself"),
    ({"top": "extern X { void X(); }"}, "constructor 'X' cannot have a return type"),
    ({"top": "extern X { X(bit<8> a); X(bit<8> a); }"}, "declares 'X' twice"),
    ({"top": "extern X { } control C(in X x) { apply {} }"}, "cannot have a direction"),
    ({"top": "extern void f(out bit<8> x = 1);"}, "'out' parameters have no default value"),
    ({"top": "extern void f(@optional in bit<8> x = 1);"}, "one of the two"),
    ({"top": "bit<8> f(@optional in bit<8> x) { return x; }"}, "cannot be @optional"),
    ({"top": "control C()(in bit<8> x) { apply {} }"}, "cannot have a direction ('in')"),
    ({"top": "control A() { apply {} } control C()(A a) { apply {} }"}, "cannot have type 'A'"),
    ({"top": "extern X<T> { X(); } control C(X x) { apply {} }"}, "needs type arguments: X<T>"),
    ({"top": "extern void f<T>(in T x);", "apply": "f(5);"}, "a width, such as 32w5"),
    ({"top": "extern void f<T>(in T x);", "apply": "f({a = m.x});"}, "no struct is known"),
    ({"top": "extern void f<T>(in T x);", "apply": 'f("s");'}, "a 'string' cannot be passed"),
    ({"top": "extern void f<T>(in T x);", "locals": f"table t {{ {_T} }}", "apply": "f(t);"},
     "a 'table' cannot be passed"),
    ({"types": "enum bit<4> E { A = 16 }"}, "16 does not fit in 'bit<4>'"),
    ({"types": "type bit<8> b_t; enum b_t E { A = 1 }"}, "an enum needs bit<> or int<>"),
    ({"types": "header V { varbit<8> v; }", "parser":
      "V v; state start { pkt.extract(v); transition accept; }"}, "extract needs its length"),
    ({"parser": "state start { pkt.extract(hdr.h, 8); transition accept; }"},
     "has no varbit field"),
    ({"parser": "state start { pkt.lookahead<void>(); transition accept; }"},
     "lookahead needs a type of fixed width"),
    ({"parser": "value_set<bit<8>>(m.x) v; state start { transition accept; }"},
     "the size of value set 'v' has to be a constant"),
    ({"types": "header_union U<T> { T t; }", "apply": "U<bit<8>> u;"},
     "members of a header union have to be headers"),
    ({"types": "header G<T> { T t; }", "apply": "G<int> g;"}, "a field cannot have type 'int'"),
    ({"types": "struct S<T> { T t; }", "apply": "S<_> s;"}, "'_' is no type here"),
    ({"apply": "tuple<void, bit<8>> s;"}, "a value cannot contain a 'void'"),
    ({"apply": "if ((...) && (...)) {}"}, "'...' stands for a default value"),
    ({"apply": "switch (...) {}"}, "'...' stands for a default value"),
    ({"apply": "m.t = {a = 8w1} == {a = 8w1};"}, "no struct is known for these lists"),
    ({"locals": f"table t {{ {_T} }}", "apply": "m.t = t.apply() == t.apply();"},
     "cannot be compared"),
    ({"types": "type bit<8> s_t;", "apply": "m.x = m.x << (s_t)1;"}, "cannot shift by a 's_t'"),
    ({"locals": "action f() {}", "apply": "f<bit<8>>();"}, "takes no type arguments"),
    ({"locals": f"table t {{ default_action = NoAction; {_T} }}"}, "has to come after 'actions'"),
    ({"locals": f"table t {{ {_T} entries = {{ 1: NoAction; }} key = {{ m.x: exact; }} }}"},
     "have to come after 'key'"),
    ({"locals": f"table t {{ {_T} entries = {{ 1: NoAction; }} }}"}, "has entries but no key"),
    ({"locals": "@a[] @a[] action f() {}"}, "@a[...] is given twice"),
    ({"locals": "@name(4) action f() {}"}, '@name needs one text: @name("...")'),
    ({"locals": '@name(".") action f() {}'}, "@name needs a name"),
    ({"locals": "@hidden(1) action f() {}"}, "@hidden takes no argument"),
    ({"locals": '@id("x") action f() {}'}, "@id needs one number"),
    ({"types": "struct V { @match(1 + 1) bit<8> f; }"}, "@match needs a match kind"),
    ({"types": '@p4runtime_translation("u", bool) type bit<8> b_t;'}, "needs a URI and a type"),
    ({"top": "@pkginfo() const bit<8> k = 1;"}, "@pkginfo needs keys and values"),
    ({"types": "struct S { bit<8> _; }"}, "'_' is not a name"),
    ({"locals": "action f(in bit<8> a, bit<8> b) {} table t { actions = { f(m.x); }"
      "default_action = f(8w2, 1); }"}, "argument 'a' differs from the one in 'actions' of 't'"),
    ({"top": "action f() {}", "locals": "action f() {} table t { actions = { f; }"
      "default_action = .f(); }"}, "this 'f' is not the one in 'actions'"),
    ({"apply": "m.x = m.x / hdr.h.b;"}, "'/' can only be computed at compile time"),
    ({"apply": "m.x = m.x % 7;"}, "'%' can only be computed at compile time"),
    ({"apply": "m.x = m.x / -1;"}, "'/' is not defined for negative numbers"),
    ({"apply": "tuple<bit<8>> q = {1}; B v; v = q;"}, "only a list written here can become"),
    ({"apply": "B[2] q; q = { {1} };"}, "the stack has 2 elements, the list 1"),
    ({"top": "extern X { X(list<bit<8>> v = ...); }"}, "has no default value for '...'"),
    ({"apply": "headers hdr = hdr;"}, "'hdr' hides parameter 'hdr'"),
    ({"top": "extern X { X(); abstract void f(); }", "locals": "X() x;"}, "has abstract methods"),
    ({"top": "extern X { X(); abstract void f(); } control C();"
      "package Q(X x); Q(X()) q;"}, "has abstract methods"),
    ({"locals": f"table t {{ {_T} size = true; }}"}, "'size' has to be a constant number"),
    ({"locals": f"table t {{ {_T} priority_delta = {{#}}; }}"}, "has to be a constant number"),
    ({"locals": f"table t {{ key = {{ m.x: ternary; }} {_T} entries = {{ 1: NoAction; "
      "priority = 2: 2: NoAction; } }"}, "the first entry needs a priority too"),
    ({"locals": f"table t {{ key = {{ m.x: ternary; }} {_T} largest_priority_wins = true; entries ="
      "{ priority = 0: 1: NoAction; 2: NoAction; } }"}, "would be negative (-1)"),
    ({"top": "control K(); extern X { X(K k); }"}, "extern 'X' cannot take a control"),
    ({"top": "package Q<T>(T t); extern X<T> { X(); } control C(X<_> x) { apply {} }"},
     "'_' is no type here"),
    ({"top": "T f<T>(in T a) { return a + a; }"}, "'+' cannot be applied to 'T'"),
    ({"top": "bit<8> h() { return 1; } void f(in bit<8> a = h()) {}"},
     "the default of 'a' has to be known at compile time"),
    ({"locals": "@a[x = {1, 2}] action f() {}"}, "takes numbers, strings and bools only"),
    ({"top": "const B k = { # };"}, "expected an expression, found '#'"),
    ({"top": "extern main { }"}, "'main' has to be the instance of a package"),
]  # fmt: skip


@pytest.mark.parametrize(("parts", "message"), BAD, ids=[m[:40] for _, m in BAD])
def test_refused_with_a_reason(parts: dict[str, str], message: str) -> None:
    assert message in refused(**parts)


def test_no_action_has_to_be_one() -> None:
    with pytest.raises(P4Error, match="'NoAction' has to be an action without parameters"):
        compile_text(
            "action NoAction(bit<8> x) {} control c() { table t { actions = {} } apply {} }"
        )


def test_unknown_version_of_v1model() -> None:
    with pytest.raises(P4Error, match="V1MODEL_VERSION is 20990101"):
        compile_text("#define V1MODEL_VERSION 20990101\n" + source())


def test_signatures_of_blocks_are_compared() -> None:
    text = source().replace("control CC(inout headers hdr, inout meta m)",
                            "control CC(inout meta hdr, inout headers m)")  # fmt: skip
    with pytest.raises(P4Error, match="parameter 'hdr' of 'CC' is a 'meta'"):
        compile_text(text)


def test_a_local_may_hide_a_parameter_of_its_control() -> None:
    program = compiled(locals="bit<8> sm = 1;", apply="m.x = sm;")
    assert any("'sm' hides the parameter" in w.message for w in program.warnings)


def test_what_p4c_takes_is_taken() -> None:
    compiled(
        types='@name("a" ++ "b") struct G<T> { T a; } struct G1<T> { T b; }'
        "struct N<T> { G<G1<T>> n; } const N<bit<8>> n = { n = { a = { b = 1 } } };",
        top="const int<6> one = 1; const int two = 8w2; const tuple<bit<8>, bool> z = { 1, ... };"
        "extern void ext(in bit<8> a = 1, in bit<8> b);",
        locals="table t { key = { m.x: exact; } actions = { NoAction; } }",
        apply="m.x = m.x << one; m.y = two + (z[1] ? 32w1 : 0);"
        "m.t = (B) { x = 1 } == { x = 2 }; switch (t.apply().action_run) { NoAction: }",
    )
