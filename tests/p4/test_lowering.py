"""Where values live once a program is lowered."""

from __future__ import annotations

import json

import pytest

from tests.p4.support import Machine, compiled, execute, find, refused, tables

A, B, C, D = (("h", n) for n in "abcd")
X = ("scalars", "meta.x")


def test_a_key_that_is_wider_than_its_field_is_stored_first() -> None:
    """bmv2 takes a key's width from the field, the control plane from the type."""
    document = compiled(
        locals='table t { key = { (bit<16>)hdr.h.a: exact @name("k"); } actions = { NoAction; } '
        "const entries = { 0x105: NoAction(); } }",
        apply="t.apply();",
    ).json
    (key,) = tables(document)["I.t"]["key"]
    assert key["target"][0] == "scalars"
    widths = {name: bits for name, bits, _ in document["header_types"][0]["fields"]}
    assert widths[key["target"][1]] == 16


def test_a_hash_over_a_widened_field_reads_all_its_bits() -> None:
    document = compiled(
        apply="hash(m.x, HashAlgorithm.csum16, 8w0, { (bit<32>)hdr.h.a }, 8w255);"
    ).json
    (calculation,) = document["calculations"]
    assert calculation["input"][0]["value"][0] == "scalars"


def test_the_alternatives_of_a_cast_choice_keep_their_type() -> None:
    machine = execute({A: 5}, apply="hdr.h.d = (bit<32>)(hdr.h.a == 5 ? hdr.h.a : hdr.h.b);")
    assert machine.fields[D] == 5


def test_old_style_copies_keep_the_fields_they_name() -> None:
    document = compiled(
        apply="clone3(CloneType.I2E, 32w5, { m.x, sm.ingress_port }); resubmit(m);",
        eapply="recirculate({ m.y });",
    ).json
    lists = {entry["id"]: entry["elements"] for entry in document["field_lists"]}
    clone, again = find(document, "clone_ingress_pkt_to_egress")[0], find(document, "resubmit")[0]
    kept = [x["value"] for x in lists[int(clone["parameters"][1]["value"], 16)]]
    assert kept == [["scalars", "meta.x"], ["standard_metadata", "ingress_port"]]
    assert len(lists[int(again["parameters"][0]["value"], 16)]) == 4


def test_checksums_inside_ifs_and_controls() -> None:
    document = compiled(
        top="control Sub(inout headers h, in bool wanted) { apply { "
        "update_checksum(wanted, { h.h.a, h.h.b }, h.h.c, HashAlgorithm.csum16); } }",
        update="if (hdr.g.isValid()) { Sub.apply(hdr, m.t); } else "
        "{ update_checksum(true, { hdr.h.a }, hdr.h.d, HashAlgorithm.crc32); }",
    ).json
    first, second = document["checksums"]
    assert first["target"] == ["h", "c"]
    assert first["if_cond"]["value"]["op"] == "and"
    assert second["target"] == ["h", "d"]
    assert second["if_cond"]["value"]["op"] == "not"


def test_generic_functions() -> None:
    machine = execute(
        {A: 5, B: 3, C: 7},
        top="T pick<T>(in bool first, in T a, in T b) { if (first) { return a; } return b; } "
        "T other<T>(in T a, in T b) { T z = pick(a == b, a, b); return z; } "
        "void swap<T>(inout T a, inout T b) { T t = a; a = b; b = t; }",
        apply="swap(hdr.h.a, hdr.h.b); hdr.h.c = other(hdr.h.c, 9); m.x = other<bit<8>>(1, 6);",
    )
    assert (machine.fields[A], machine.fields[B]) == (3, 5)
    assert (machine.fields[C], machine.fields[X]) == (9, 6)


def test_generic_functions_that_cannot_be_copied() -> None:
    top = "T f<T>(in T a) { return f(a); }"
    assert "calls itself" in refused(top=top, apply="m.x = f(m.x);")
    top = "T f<T>(in T a) { return a; }"
    assert "give the number for 'T' a width" in refused(top=top, apply="m.t = f(1) == 1;")


UNIONS = {
    "types": "header W { bit<16> y; } header_union U { B b; W w; } struct more { U u; U[3] us; }",
    "meta": "more extra;",
}


@pytest.mark.parametrize("index", [0, 1, 2])
def test_elements_of_a_union_stack_chosen_at_run_time(index: int) -> None:
    """bmv2 cannot index such stacks: every element is asked whether it is the one."""
    parts = {
        **UNIONS,
        "apply": "m.extra.us[hdr.h.a].w.y = 7; hdr.h.d = (bit<32>)m.extra.us[hdr.h.b].w.y;",
    }
    document = compiled(**parts).json
    assert "access_union_header" not in json.dumps(document)
    machine = Machine(document, {A: index, B: index})
    machine.run()
    stack = next(s["name"] for s in document["header_union_stacks"])
    assert {i: machine.fields.get((f"{stack}[{i}].w", "y"), 0) for i in range(3)} == {
        i: 7 if i == index else 0 for i in range(3)
    }
    assert machine.fields[D] == 7


def test_fields_copied_unseen_are_decoded() -> None:
    """bmv2 decodes only fields that something names; assign_union names none."""
    document = compiled(**UNIONS, apply="m.extra.u = m.extra.us[0];").json
    decoded = {header for header, _ in document["force_arith"]}
    unions = {h["name"] for h in document["headers"] if h["header_type"] == "W"}
    assert {name for name in unions if "us" not in name} <= decoded


def test_an_inout_argument_is_read_before_later_arguments_change_it() -> None:
    machine = execute(
        {A: 1},
        top="bit<8> f(out bit<8> p) { p = 9; return 2; } "
        "void g(inout bit<8> p, in bit<8> q) { p = p + q; }",
        apply="g(hdr.h.a, f(hdr.h.a));",
    )
    assert machine.fields[A] == 3


def test_the_last_of_two_arguments_in_one_place_wins() -> None:
    """An inout parameter nobody touches is still copied back when another wrote its place."""
    machine = execute(
        {A: 1},
        locals="action g(out bit<8> p, inout bit<8> q) { p = 9; } "
        "action h(inout bit<8> q) { hdr.h.b = 5; }",
        apply="g(hdr.h.a, hdr.h.a); hdr.h.b = 3; h(hdr.h.b);",
    )
    assert (machine.fields[A], machine.fields[B]) == (1, 3)


@pytest.mark.parametrize("body", ["", "m.x = 4;", "bit<8> v = m.x; m.x = v + 4;"])
def test_an_inout_argument_that_nobody_touches_is_not_copied_back(body: str) -> None:
    """bmv2 ends at an element past the end of a stack, even at a copy onto itself."""
    document = compiled(
        locals=f"action g(inout bit<8> p) {{ {body} }}", apply="g(hdr.st[hdr.h.a].x);"
    ).json
    assert "dereference_header_stack" not in json.dumps(document)


@pytest.mark.parametrize("body", ["hdr.st[0].x = 4;", "f();"])
def test_an_inout_argument_that_may_have_changed_is_copied_back(body: str) -> None:
    machine = execute(
        {A: 0, ("st[0]", "x"): 9},
        locals=f"action f() {{ hdr.st[0].x = 4; }} action g(inout bit<8> p) {{ {body} }}",
        apply="g(hdr.st[hdr.h.a].x);",
    )
    assert machine.fields["st[0]", "x"] == 9


def test_part_selects_and_elements_of_tuples() -> None:
    machine = execute(
        {D: 0x11223344},
        apply="hdr.h.a = hdr.h.d[8 +: 8]; hdr.h.d[0 +: 8] = 5; "
        "tuple<bit<8>, bit<16>> p = { 1, 2 }; p[1] = 7; hdr.h.c = p[1]; hdr.h.b = p[0];",
    )
    assert [machine.fields[x] for x in (A, B, C, D)] == [0x33, 1, 7, 0x11223305]


@pytest.mark.parametrize("key", ["k", "{ hdr.h.a, hdr.h.c }"])
def test_structs_and_tuples_in_selects(key: str) -> None:
    parser = (
        f"K k; state start {{ pkt.extract(hdr.h); k = {{ hdr.h.a, hdr.h.c }}; "
        f"transition select({key}, hdr.h.b) {{ ({{ 1, 2 }}, 3): accept; (_, 4): more; }} }} "
        "state more { transition accept; }"
    )
    document = compiled(types="struct K { bit<8> p; bit<16> q; }", parser=parser).json
    start = next(s for s in document["parsers"][0]["parse_states"] if s["name"] == "start")
    assert len(start["transition_key"]) == 3
    first, second, _ = start["transitions"]
    assert (first["value"], first["mask"]) == ("0x01000203", None)
    assert second["mask"] == "0x000000ff"


def test_arguments_of_externs_and_operands_are_read_in_their_turn() -> None:
    top = "bit<8> f(inout bit<8> p) { p = p + 1; return 5; } "
    top += "bool g(inout H h) { h.a = 9; return true; }"
    parts = {
        "top": top,
        "locals": "register<bit<8>>(4) r; H k;",
        "apply": "r.write((bit<32>)hdr.h.a, f(hdr.h.a)); k = hdr.h; "
        "m.t = { hdr.h.a, g(hdr.h) } == { k.a, true };",
    }
    machine = execute({A: 1}, **parts)
    assert machine.fields["scalars", "meta.t"] == 1
    (write,) = find(compiled(**parts).json, "register_write")
    assert write["parameters"][1]["value"][0] == "scalars"
