"""Keys, entries and selects: the numbers bmv2 matches on."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softswitch.p4.lower.parser import range_masks
from tests.p4.support import compiled, refused, tables


def table(**parts: str) -> dict[str, Any]:
    return tables(compiled(apply="t.apply();", **parts).json)["I.t"]


def one_key(key: str, more: str = "") -> dict[str, Any]:
    return table(locals=f"table t {{ key = {{ {key}; }} actions = {{ NoAction; }} {more} }}")


@pytest.mark.parametrize(
    ("key", "kind", "name", "target"),
    [
        ("hdr.h.a: exact", "exact", "hdr.h.a", ["h", "a"]),
        ("hdr.h.w: lpm", "lpm", "hdr.h.w", ["h", "w"]),
        ("hdr.h.a: ternary", "ternary", "hdr.h.a", ["h", "a"]),
        ("hdr.h.a: range", "range", "hdr.h.a", ["h", "a"]),
        ("hdr.h.a: optional", "ternary", "hdr.h.a", ["h", "a"]),
        ("hdr.h.isValid(): exact", "exact", "hdr.h.$valid$", ["h", "$valid$"]),
        ("hdr.st[1].x: exact", "exact", "hdr.st[1].x", ["st[1]", "x"]),
        ('m.x: exact @name("alias")', "exact", "alias", ["scalars", "meta.x"]),
        ("sm.egress_spec: exact", "exact", "sm.egress_spec", ["standard_metadata", "egress_spec"]),
    ],
)
def test_key(key: str, kind: str, name: str, target: list[str]) -> None:
    found = one_key(key)
    assert found["key"] == [{"match_type": kind, "name": name, "target": target, "mask": None}]
    assert found["match_type"] == kind


def test_masked_key() -> None:
    assert one_key("hdr.h.c & 0xff0: ternary")["key"][0]["mask"] == "0x0ff0"


def test_sliced_key_is_computed_before_the_table() -> None:
    found = one_key("hdr.h.c[11:4]: exact")
    assert found["key"][0]["name"] == "hdr.h.c[11:4]"
    assert found["key"][0]["target"][0] == "scalars"


def test_unnamed_key_asks_for_a_name() -> None:
    assert "add @name" in refused(
        locals="table t { key = { hdr.h.a + 1: exact; } actions = { NoAction; } }",
        apply="t.apply();",
    )


def test_entries_of_every_kind() -> None:
    found = table(
        locals="action f(bit<8> n) { m.x = n; } table t { key = { hdr.h.a: exact;"
        "hdr.h.b: ternary; hdr.h.c: range; hdr.h.d: optional; } actions = { f; NoAction; }"
        "const entries = { (1, 2 &&& 3, 4..5, 6): f(7); (8, _, _, _): f(9); } }",
    )
    first, second = found["entries"]
    assert first["match_key"] == [
        {"match_type": "exact", "key": "0x01"},
        {"match_type": "ternary", "key": "0x02", "mask": "0x03"},
        {"match_type": "range", "start": "0x0004", "end": "0x0005"},
        {"match_type": "ternary", "key": "0x00000006", "mask": "0xffffffff"},
    ]
    assert first["action_entry"]["action_data"] == ["0x7"]
    assert second["match_key"][1:] == [
        {"match_type": "ternary", "key": "0x00", "mask": "0x00"},
        {"match_type": "range", "start": "0x0000", "end": "0xffff"},
        {"match_type": "ternary", "key": "0x00000000", "mask": "0x00000000"},
    ]
    assert [e["priority"] for e in found["entries"]] == [1, 2]
    assert found["match_type"] == "range"


def test_lpm_entry_prefix() -> None:
    found = one_key(
        "hdr.h.d: lpm",
        "const entries = { 0x0a000000 &&& 0xff000000: NoAction(); 5: NoAction(); _: NoAction(); }",
    )
    assert [(e["match_key"][0]["key"], e["match_key"][0]["prefix_length"])
            for e in found["entries"]] == [("0x0a000000", 8), ("0x00000005", 32),
                                           ("0x00000000", 0)]  # fmt: skip


def test_largest_priority_wins_becomes_bmv2s_order() -> None:
    found = one_key(
        "hdr.h.a: ternary",
        "entries = { priority = 10: 1 &&& 1: NoAction(); priority = 30: 2: NoAction();"
        "priority = 20: 3: NoAction(); }",
    )
    assert [e["priority"] for e in found["entries"]] == [3, 1, 2]


def test_table_without_default_gets_no_action() -> None:
    found = table(locals="action f() {} table t { key = { hdr.h.a: exact; } actions = { f; } }")
    assert found["actions"] == ["I.f", "NoAction"]
    assert found["default_entry"]["action_const"] is False


def test_selector_keys_are_the_input_of_the_hash() -> None:
    document = compiled(
        locals="action f() {} action_selector(HashAlgorithm.crc16, 64, 10) s;"
        "table t { key = { hdr.h.a: exact; hdr.h.b: selector; m.y: selector; }"
        "actions = { f; } implementation = s; }",
        apply="t.apply();",
    ).json
    profile = document["pipelines"][0]["action_profiles"][0]
    assert profile["selector"]["input"] == [
        {"type": "field", "value": ["h", "b"]},
        {"type": "field", "value": ["scalars", "meta.y"]},
    ]
    assert tables(document)["I.t"]["type"] == "indirect_ws"
    assert "default_entry" not in tables(document)["I.t"]


# ---- parsers


def states(body: str, **parts: str) -> dict[str, dict[str, Any]]:
    document = compiled(parser=body, **parts).json
    return {s["name"]: s for s in document["parsers"][0]["parse_states"]}


def test_select_joins_byte_padded_keys() -> None:
    start = states(
        "state start { pkt.extract(hdr.h); transition select(hdr.h.c[11:0], hdr.h.a) {"
        "(0xaba, 3): one; (0x10 &&& 0xff0, _): one; (_, 4): one; default: accept; } }"
        "state one { transition accept; }"
    )["start"]
    assert [(t["value"], t["mask"]) for t in start["transitions"]] == [
        ("0x0aba03", None),
        ("0x001000", "0x0ff000"),
        ("0x000004", "0x0000ff"),
        (None, None),
    ]
    assert start["transition_key"][1] == {"type": "field", "value": ["h", "a"]}


def test_select_range_becomes_masks() -> None:
    start = states(
        "state start { pkt.extract(hdr.h); transition select(hdr.h.a) { 3..6: one; _: accept; } }"
        "state one { transition accept; }"
    )["start"]
    pairs = [(t["value"], t["mask"]) for t in start["transitions"][:-1]]
    assert pairs == [("0x03", None), ("0x04", "0xfe"), ("0x06", None)]


@given(st.integers(1, 16), st.data())
def test_range_masks_cover_exactly_the_range(bits: int, data: st.DataObject) -> None:
    low = data.draw(st.integers(0, (1 << bits) - 1))
    high = data.draw(st.integers(low, (1 << bits) - 1))
    masks = range_masks(low, high, bits)
    probes = {low, high, max(0, low - 1), min((1 << bits) - 1, high + 1), (low + high) // 2}
    for value in probes:
        assert any(value & m == v for v, m in masks) == (low <= value <= high)
    assert len(masks) <= 2 * bits


def test_select_without_default_signals_no_match() -> None:
    found = states("state start { pkt.extract(hdr.h); transition select(hdr.h.a) { 1: accept; } }")
    assert found["start"]["transitions"][-1]["next_state"] == "noMatch"
    assert found["noMatch"]["parser_ops"][0]["op"] == "verify"


def test_stack_next_last_and_lookahead() -> None:
    start = states(
        "state start { pkt.extract(hdr.st.next); m.x = pkt.lookahead<bit<8>>();"
        "transition select(hdr.st.last.x, pkt.lookahead<bit<16>>()) { (0, 1): start; _: accept; } }"
    )["start"]
    assert start["parser_ops"][0]["parameters"] == [{"type": "stack", "value": "st"}]
    assert start["parser_ops"][1]["parameters"][1] == {"type": "lookahead", "value": [0, 8]}
    assert start["transition_key"] == [
        {"type": "stack_field", "value": ["st", "x"]},
        {"type": "lookahead", "value": [0, 16]},
    ]


def test_sub_parser_states_come_between() -> None:
    found = states(
        "Sub() sub; state start { sub.apply(pkt, hdr.h); transition rest; }"
        "state rest { m.x = hdr.h.a; transition accept; }",
        top="parser Sub(packet_in p, out H h) { state start { p.extract(h);"
        "transition select(h.a) { 1: more; _: accept; } } state more { h.b = 1;"
        "transition accept; } }",
    )
    name, seen = "start", []
    while name is not None and name not in seen:
        seen.append(name)
        name = found[name]["transitions"][-1]["next_state"]
    assert "rest" in seen
    extracts = [o for s in found.values() for o in s["parser_ops"] if o["op"] == "extract"]
    assert [e["parameters"][0]["value"] for e in extracts] == ["h"]


def test_if_in_a_state_splits_it() -> None:
    found = states(
        "state start { pkt.extract(hdr.h); if (hdr.h.a == 1) { m.x = 1; } else { m.x = 2; }"
        "m.y = 3; transition accept; }"
    )
    assert len(found) >= 4
    values = {
        o["parameters"][1]["value"]
        for s in found.values()
        for o in s["parser_ops"]
        if o["op"] == "set" and o["parameters"][0]["value"] == ["scalars", "meta.x"]
    }
    assert values == {"0x01", "0x02"}


def test_value_set() -> None:
    document = compiled(
        parser="value_set<bit<8>>(4) vs; state start { pkt.extract(hdr.h);"
        "transition select(hdr.h.a) { vs: one; default: accept; } }"
        "state one { transition accept; }"
    )
    assert document.json["parse_vsets"][0]["compressed_bitwidth"] == 8
    transition = document.json["parsers"][0]["parse_states"][0]["transitions"][0]
    assert transition["type"] == "parse_vset"
    assert document.p4info.value_sets[0].size == 4


def test_nested_structs_are_flattened_with_numbered_names() -> None:
    document = compiled(types="struct inner { bit<8> p; bit<4> q; }", meta="inner n;",
                        apply="m.n.q = 3;").json  # fmt: skip
    names = [f[0] for f in document["header_types"][0]["fields"]]
    assert {"meta._x0", "meta._n_p4", "meta._n_q5"} <= set(names)
