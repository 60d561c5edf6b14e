"""What emitted programs compute, against the language's rules."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.p4.support import action, compiled, execute, find, tables

A, B, C, D, E, W, S = (("h", n) for n in "abcdews")
X, Y, T, SIGNED = (("scalars", f"meta.{n}") for n in "xyti")


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("hdr.h.a + hdr.h.b", (200 + 100) % 256),
        ("hdr.h.b - hdr.h.a", (100 - 200) % 256),
        ("hdr.h.a - 1", 199),
        ("hdr.h.a * hdr.h.b", 200 * 100 % 256),
        ("hdr.h.a |+| hdr.h.b", 255),
        ("hdr.h.b |-| hdr.h.a", 0),
        ("-hdr.h.b", 156),
        ("~hdr.h.a", 55),
        ("hdr.h.a << 1", 144),
        ("hdr.h.a << 9", 0),
        ("hdr.h.a >> 3", 25),
        ("hdr.h.a / 8", 25),
        ("hdr.h.a % 8", 0),
        ("hdr.h.a & 0xf", 8),
        ("hdr.h.a ^ hdr.h.b", 200 ^ 100),
        ("hdr.h.c[15:8]", 0x12),
        ("hdr.h.c[7:0]", 0x34),
        ("hdr.h.c[11:4]", 0x23),
        ("hdr.h.a[3:0] ++ hdr.h.b[7:4]", 0x86),
        ("hdr.h.a > hdr.h.b ? hdr.h.a : hdr.h.b", 200),
        ("hdr.h.a < hdr.h.b ? 8w1 : 8w2", 2),
        ("(bit<8>)hdr.h.c", 0x34),
        ("(bit<8>)hdr.h.s", 0xFE),
        ("hdr.h.a == 200 && hdr.h.b != 3 || hdr.h.c == 0 ? 8w1 : 0", 1),
        ("(bit<8>)(bit<1>)(hdr.h.a == 200)", 1),
        ("(bool)hdr.h.a[3:3] ? 8w7 : 8w9", 7),
        ("hdr.h.isValid() ? 8w1 : 8w0", 1),
        ("hdr.g.isValid() ? 8w1 : 8w0", 0),
        ("{ hdr.h.a, hdr.h.b } == { 8w200, 8w100 } ? 8w1 : 8w0", 1),
        ("hdr.h == hdr.g ? 8w1 : 8w0", 0),
    ],
)
def test_expression(expression: str, wanted: int) -> None:
    fields = {A: 200, B: 100, C: 0x1234, S: -2}
    assert execute(fields, apply=f"m.x = {expression};").fields[X] == wanted


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("hdr.h.s + hdr.h.s", -4),
        ("hdr.h.s - 127", 127),
        ("hdr.h.s |-| 127", -128),
        ("hdr.h.s * 100", 56),
        ("hdr.h.s >> 1", -1),
        ("-hdr.h.s", 2),
        ("(int<8>)hdr.h.a", -56),
    ],
)
def test_signed(expression: str, wanted: int) -> None:
    assert execute({S: -2, A: 200}, apply=f"hdr.h.s = {expression};").fields[S] == wanted


def test_128_bit_arithmetic() -> None:
    big = (1 << 127) + 12345
    machine = execute({W: big}, apply="hdr.h.w = hdr.h.w * 3 + 1; hdr.h.e = hdr.h.w[127:64];")
    product = (big * 3 + 1) % (1 << 128)
    assert machine.fields[W] == product
    assert machine.fields[E] == product >> 64


def test_assigning_a_slice_keeps_the_other_bits() -> None:
    assert execute({C: 0xABCD, A: 0x5}, apply="hdr.h.c[11:8] = hdr.h.a[3:0];").fields[C] == 0xA5CD


def test_booleans_are_stored_and_read_back() -> None:
    machine = execute({A: 5}, apply="m.t = hdr.h.a > 3; if (m.t) { m.x = 1; } m.t = !m.t;")
    assert (machine.fields[X], machine.fields[T]) == (1, 0)


def test_struct_assignment_through_itself_swaps() -> None:
    machine = execute(
        {A: 1, B: 2},
        types="struct pair { bit<8> p; bit<8> q; }",
        apply="pair v = { hdr.h.a, hdr.h.b }; v = { v.q, v.p }; m.x = v.p; hdr.h.b = v.q;",
    )
    assert (machine.fields[X], machine.fields[B]) == (2, 1)


def test_headers_carry_validity_with_assignment() -> None:
    machine = execute({A: 9}, apply="hdr.g = hdr.h; hdr.h.setInvalid(); m.x = hdr.g.a;")
    assert machine.valid == {"g"}
    assert machine.fields[X] == 9


def test_header_literal_is_valid() -> None:
    machine = execute(apply="hdr.st[2] = { 7 };")
    assert "st[2]" in machine.valid
    assert machine.fields["st[2]", "x"] == 7


def test_run_time_index_reads_and_writes() -> None:
    fields = {("st[2]", "x"): 77, A: 2}
    machine = execute(fields, apply="m.x = hdr.st[hdr.h.a].x; hdr.st[hdr.h.a].x = 5;")
    assert machine.fields[X] == 77
    assert machine.fields["st[2]", "x"] == 5


# ---- calls


def test_copy_out_happens_in_order() -> None:
    """Both parameters end in one field: the last copy-out wins."""
    machine = execute(
        {A: 1},
        locals="action f(inout bit<8> p, inout bit<8> q) { p = 10; q = q + 1; }",
        apply="f(hdr.h.a, hdr.h.a);",
    )
    assert machine.fields[A] == 2


def test_in_parameter_is_a_copy() -> None:
    machine = execute(
        {A: 1},
        locals="action f(in bit<8> p) { hdr.h.a = 9; m.x = p; }",
        apply="f(hdr.h.a);",
    )
    assert (machine.fields[A], machine.fields[X]) == (9, 1)


def test_function_returns_early() -> None:
    top = "bit<8> f(in bit<8> v) { if (v > 10) { return 1; } if (v > 5) { return 2; } return 3; }"
    for value, wanted in ((11, 1), (6, 2), (0, 3)):
        assert execute({A: value}, top=top, apply="m.x = f(hdr.h.a);").fields[X] == wanted


def test_left_operand_is_read_before_the_right_one_changes_it() -> None:
    top = "bit<8> f(inout bit<8> v) { v = v + 1; return v; }"
    machine = execute({A: 1}, top=top, apply="m.x = hdr.h.a + f(hdr.h.a);")
    assert machine.fields[X] == 1 + 2


def test_index_with_a_side_effect_is_evaluated_once() -> None:
    top = "bit<8> next(inout bit<8> v) { v = v + 1; return v; }"
    machine = execute({A: 0, ("st[1]", "x"): 3}, top=top, apply="hdr.st[next(hdr.h.a)].x += 4;")
    assert machine.fields[A] == 1
    assert machine.fields["st[1]", "x"] == 7


def test_short_circuit_skips_the_call() -> None:
    top = "bool f(inout bit<8> v) { v = 1; return true; }"
    machine = execute({A: 5}, top=top, apply="if (hdr.h.b == 3 && f(hdr.h.a)) { m.x = 1; }")
    assert machine.fields[A] == 5
    assert machine.fields.get(X, 0) == 0


def test_exit_in_an_action_copies_out_and_ends_the_pipeline() -> None:
    machine = execute(
        locals="action f(inout bit<8> p) { p = 3; exit; }",
        apply="f(hdr.h.a); m.x = 1;",
    )
    assert machine.fields[A] == 3
    assert X not in machine.fields


def test_return_in_an_action_ends_the_action_only() -> None:
    machine = execute(
        {A: 1},
        locals="action f() { if (hdr.h.a == 1) { return; } m.x = 5; }",
        apply="f(); m.y = 7;",
    )
    assert X not in machine.fields
    assert machine.fields[Y] == 7


def test_return_in_a_sub_control_ends_the_sub_control_only() -> None:
    top = "control C(inout bit<8> v)() { apply { if (v == 1) { v = 2; return; } v = 3; } }"
    machine = execute(
        {A: 1, B: 0}, top=top, locals="C() c1; C() c2;",
        apply="c1.apply(hdr.h.a); c2.apply(hdr.h.b);",
    )  # fmt: skip
    assert (machine.fields[A], machine.fields[B]) == (2, 3)


def test_one_instance_applied_twice_with_different_arguments() -> None:
    top = "control C(inout bit<32> v, in bit<8> n) { apply { v = v + (bit<32>)n; } }"
    machine = execute(top=top, locals="C() c;", apply="c.apply(m.y, 5); c.apply(m.y, 7);")
    assert machine.fields[Y] == 12


def test_constructor_parameters_are_constants() -> None:
    top = "control C(inout bit<8> v)(bit<8> n) { apply { v = n + 1; } }"
    machine = execute(
        top=top, locals="C(4) c1; C(9) c2;", apply="c1.apply(hdr.h.a); c2.apply(hdr.h.b);"
    )
    assert (machine.fields[A], machine.fields[B]) == (5, 10)


def test_action_arguments_of_a_direct_call() -> None:
    machine = execute(locals="action f(bit<8> p) { m.x = p; }", apply="f(42);")
    assert machine.fields[X] == 42


def test_directed_parameter_bound_in_the_table() -> None:
    machine = execute(
        {A: 4},
        locals="action f(inout bit<8> p, bit<8> q) { p = p + q; }"
        "table t { actions = { f(hdr.h.a); } default_action = f(hdr.h.a, 3); }",
        apply="t.apply();",
    )
    assert machine.fields[A] == 7


def test_switch_on_a_value_falls_through_labels() -> None:
    body = "switch (hdr.h.a) { 1: 2: { m.x = 10; } 3: { m.x = 20; } default: { m.x = 30; } }"
    for value, wanted in ((1, 10), (2, 10), (3, 20), (4, 30)):
        assert execute({A: value}, apply=body).fields[X] == wanted


def test_hit_and_miss_branches() -> None:
    locals_ = "table t { key = { hdr.h.a: exact; } actions = { NoAction; } }"
    document = compiled(locals=locals_, apply="if (t.apply().hit) { m.x = 1; } else { m.x = 2; }")
    following = tables(document.json)["I.t"]["next_tables"]
    assert set(following) == {"__HIT__", "__MISS__"}
    assert execute(locals=locals_, apply="m.t = !t.apply().hit;").fields[T] == 1
    assert execute(locals=locals_, apply="if (!t.apply().hit) { m.x = 2; }").fields[X] == 2


def test_switch_on_action_run() -> None:
    document = compiled(
        locals="action f() {} action g() {} action k() {}"
        "table t { key = { hdr.h.a: exact; } actions = { f; g; k; } default_action = k; }",
        apply="switch (t.apply().action_run) { f: { m.x = 1; } default: { m.x = 2; } } m.y = 3;",
    ).json
    following = tables(document)["I.t"]["next_tables"]
    assert following["I.g"] == following["I.k"] != following["I.f"]


def test_action_shared_by_tables_is_one_action() -> None:
    document = compiled(
        locals="action f() { m.x = 1; } table t { actions = { f; } } table u { actions = { f; } }",
        apply="t.apply(); u.apply();",
    ).json
    assert [a["name"] for a in document["actions"]].count("I.f") == 1


# ---- random programs against a direct reading of the language


class Program:
    """Random statements on 8-bit variables, and what they do in Python."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def expression(self, depth: int) -> tuple[str, str]:
        """P4 text and Python text (over the dict v) of the same value."""
        r = self.rng
        if depth == 0 or r.random() < 0.25:
            if r.random() < 0.4:
                n = r.randrange(256)
                return f"8w{n}", str(n)
            name = r.choice("abcd")
            return name, f"v['{name}']"
        left, pleft = self.expression(depth - 1)
        right, pright = self.expression(depth - 1)
        op = r.choice(["+", "-", "*", "&", "|", "^", "|+|", "|-|", "<<", ">>", "?", "~", "-u"])
        if op == "|+|":
            return f"({left} |+| {right})", f"min(255, {pleft} + {pright})"
        if op == "|-|":
            return f"({left} |-| {right})", f"max(0, {pleft} - {pright})"
        if op == "<<":
            n = r.randrange(10)
            return f"({left} << {n})", f"(({pleft} << {n}) & 255)"
        if op == ">>":
            n = r.randrange(10)
            return f"({left} >> {n})", f"({pleft} >> {n})"
        if op == "~":
            return f"(~{left})", f"((~{pleft}) & 255)"
        if op == "-u":
            return f"(-{left})", f"((-{pleft}) & 255)"
        if op == "?":
            cond, pcond = self.condition(depth - 1)
            return f"({cond} ? {left} : {right})", f"({pleft} if {pcond} else {pright})"
        return f"({left} {op} {right})", f"(({pleft} {op} {pright}) & 255)"

    def condition(self, depth: int) -> tuple[str, str]:
        left, pleft = self.expression(max(0, depth))
        right, pright = self.expression(max(0, depth))
        op = self.rng.choice(["==", "!=", "<", "<=", ">", ">="])
        text = (f"({left} {op} {right})", f"({pleft} {op} {pright})")
        if depth > 0 and self.rng.random() < 0.5:
            other, pother = self.condition(depth - 1)
            both = self.rng.choice([("&&", "and"), ("||", "or")])
            text = (f"({text[0]} {both[0]} !{other})", f"({text[1]} {both[1]} not {pother})")
        return text

    def statements(self, depth: int, indent: str) -> tuple[str, str]:
        p4, python = "", ""
        for _ in range(self.rng.randrange(1, 4)):
            if depth and self.rng.random() < 0.4:
                cond, pcond = self.condition(1)
                yes, pyes = self.statements(depth - 1, indent + "  ")
                no, pno = self.statements(depth - 1, indent + "  ")
                p4 += f"if ({cond}) {{ {yes} }} else {{ {no} }}\n"
                python += f"{indent}if {pcond}:\n{pyes}{indent}else:\n{pno}"
            else:
                name = self.rng.choice("abcd")
                value, pvalue = self.expression(2)
                p4 += f"{name} = {value};\n"
                python += f"{indent}v['{name}'] = {pvalue}\n"
        return p4, python


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 32), st.lists(st.integers(0, 255), min_size=4, max_size=4))
def test_random_programs(seed: int, values: list[int]) -> None:
    p4, python = Program(seed).statements(2, "")
    wanted = dict(zip("abcd", values, strict=True))
    exec(python, {"v": wanted})
    fields = {("h", "a"): values[0], ("h", "b"): values[1]}
    start = (
        f"bit<8> a = hdr.h.a; bit<8> b = hdr.h.b; bit<8> c = {values[2]}; bit<8> d = {values[3]};"
    )
    end = "hdr.h.a = a; hdr.h.b = b; hdr.st[0].x = c; hdr.st[1].x = d;"
    # In an action (jumps) and in a control (conditionals) alike.
    in_action = execute(fields, locals=f"action f() {{ {start} {p4} {end} }}", apply="f();")
    in_control = execute(fields, apply=f"{start} {p4} {end}")
    for machine in (in_action, in_control):
        assert machine.fields["h", "a"] == wanted["a"]
        assert machine.fields["h", "b"] == wanted["b"]
        assert machine.fields["st[0]", "x"] == wanted["c"]
        assert machine.fields["st[1]", "x"] == wanted["d"]


# ---- externs


def test_register_read_modify_write_in_order() -> None:
    document = compiled(
        top="register<bit<32>>(16) r;",
        locals="action f(bit<32> n) { bit<32> v; r.read(v, n); r.write(n, v + 1); }"
        "table t { actions = { f; } default_action = f(3); }",
        apply="t.apply();",
    ).json
    assert [p["op"] for p in action(document, "I.f")["primitives"]] == [
        "register_read", "assign", "register_write",
    ]  # fmt: skip
    assert document["register_arrays"][0]["bitwidth"] == 32


def test_hash_names_its_fields_with_widths() -> None:
    document = compiled(
        apply="hash(m.x, HashAlgorithm.crc16, 8w0, { hdr.h.a, 4w3, hdr.h.c[3:0] }, 8w16);"
    ).json
    calculation = document["calculations"][0]
    assert calculation["algo"] == "crc16"
    assert calculation["input"][0] == {"type": "field", "value": ["h", "a"]}
    assert calculation["input"][1] == {"type": "hexstr", "value": "0x03", "bitwidth": 4}
    assert calculation["input"][2]["value"][0] == "scalars"
    assert find(document, "modify_field_with_hash_based_offset")


def test_random_truncate_and_clone() -> None:
    document = compiled(
        meta="@field_list(1) bit<8> keep;",
        apply="random(m.x, 8w1, 8w6); truncate(100); clone(CloneType.I2E, 5);"
        "clone_preserving_field_list(CloneType.I2E, 6, 1);",
    ).json
    assert [p["value"] for p in find(document, "modify_field_rng_uniform")[0]["parameters"]] == [
        ["scalars", "meta.x"], "0x01", "0x06",
    ]  # fmt: skip
    assert find(document, "truncate")[0]["parameters"][0]["value"] == "0x00000064"
    first, second = find(document, "clone_ingress_pkt_to_egress")
    lists = {f["id"]: f["elements"] for f in document["field_lists"]}
    assert lists[int(first["parameters"][1]["value"], 16)] == []
    assert lists[int(second["parameters"][1]["value"], 16)] == [
        {"type": "field", "value": ["scalars", "meta.keep"]}
    ]
    assert 0 not in lists


def test_direct_counter_and_meter_bind_to_their_table() -> None:
    document = compiled(
        locals="direct_counter(CounterType.packets) c; direct_meter<bit<8>>(MeterType.bytes) q;"
        "action f() { c.count(); q.read(m.x); }"
        "table t { key = { hdr.h.a: exact; } actions = { f; } counters = c; meters = q; }",
        apply="t.apply();",
    ).json
    assert document["counter_arrays"][0]["binding"] == "I.t"
    assert document["meter_arrays"][0]["result_target"] == ["scalars", "meta.x"]
    assert tables(document)["I.t"]["with_counters"] is True
    assert action(document, "I.f")["primitives"] == []


def test_checksums() -> None:
    document = compiled(
        update="update_checksum(hdr.h.isValid(), { hdr.h.a, hdr.h.b }, hdr.h.c,"
        "HashAlgorithm.csum16);",
        verify="verify_checksum_with_payload(true, { hdr.h.a }, hdr.h.c, HashAlgorithm.csum16);",
    ).json
    verify, update = document["checksums"]
    assert (verify["verify"], verify["update"]) == (True, False)
    assert verify["if_cond"] == {"type": "bool", "value": True}
    assert update["target"] == ["h", "c"]
    inputs = {c["name"]: c["input"] for c in document["calculations"]}
    assert inputs[verify["calculation"]][-1] == {"type": "payload", "value": None}
