"""Ids, aliases and what else the control plane sees."""

from __future__ import annotations

import pytest

from softswitch.p4.p4info_ids import ACTION, REGISTER, TABLE, Aliases, Ids, local_ids, name_hash
from tests.p4.support import compiled, refused

GOLDEN = [  # from p4c
    (TABLE, "I.salt", 36353176),
    (TABLE, "I.route", 49275211),
    (ACTION, "NoAction", 21257015),
    (ACTION, "I.admit", 31688982),
    (REGISTER, "occupancy", 375748934),
]


@pytest.mark.parametrize(("kind", "name", "wanted"), GOLDEN)
def test_id_is_p4cs(kind: int, name: str, wanted: int) -> None:
    ids = Ids()
    ids.add(kind, name)
    ids.assign()
    assert ids[kind, name] == wanted


def test_collision_moves_on_in_alphabetical_order() -> None:
    fixed = TABLE << 24 | name_hash("I.t") & 0xFFFFFF
    ids = Ids()
    ids.add(TABLE, "I.t")
    assert ids.add(TABLE, "other", fixed) == ""
    ids.assign()
    assert ids[TABLE, "other"] == fixed
    assert ids[TABLE, "I.t"] == fixed + 1


def test_bad_fixed_ids() -> None:
    ids = Ids()
    assert "wrong prefix" in ids.add(TABLE, "a", 0x01000001)
    assert ids.add(TABLE, "b", 5) == ""
    assert "more than one" in ids.add(TABLE, "c", 5)


def test_alias_is_the_shortest_unique_suffix() -> None:
    aliases = Aliases(["I.c.t", "I.d.t", "I.u", "t2"])
    assert [aliases.of(n) for n in ("I.c.t", "I.d.t", "I.u", "t2")] == ["c.t", "d.t", "u", "t2"]


def test_local_ids_fill_round_fixed_ones() -> None:
    assert local_ids([None, 5, None]) == [1, 5, 2]
    assert local_ids([None, 1, None]) == [2, 1, 3]


def test_id_annotation_is_respected() -> None:
    info = compiled(
        locals="@id(77) action f(@id(4) bit<8> n) {}"
        "@id(0x02000007) table t { key = { hdr.h.a: exact @id(9); } actions = { f; } }",
        apply="t.apply();",
    ).p4info
    (table,) = info.tables
    assert table.preamble.id == 0x02000007
    assert table.match_fields[0].id == 9
    action = next(a for a in info.actions if a.preamble.name == "I.f")
    assert action.preamble.id == 0x0100004D
    assert action.params[0].id == 4


def test_clashing_ids_are_refused() -> None:
    assert "more than one object" in refused(
        locals="@id(7) table t { actions = { NoAction; } }"
        "@id(7) table u { actions = { NoAction; } }",
        apply="t.apply(); u.apply();",
    )


def test_scopes_sizes_and_const_entries() -> None:
    info = compiled(
        locals="action f() {} action g() {} table t { key = { hdr.h.a: exact; }"
        "actions = { @tableonly f; @defaultonly g; } const default_action = g(); size = 9;"
        "const entries = { 1: f(); } }",
        apply="t.apply();",
    ).p4info
    (table,) = info.tables
    assert [r.scope for r in table.action_refs] == [1, 2]
    assert table.const_default_action_id == table.action_refs[1].id
    assert (table.size, table.is_const_table, table.has_initial_entries) == (9, True, True)


def test_unused_actions_and_tables_are_left_out() -> None:
    info = compiled(locals="action f() {} table t { actions = { f; } }").p4info
    assert not info.tables
    assert not info.actions


def test_packet_io_headers() -> None:
    info = compiled(
        types='@controller_header("packet_in") header pin { bit<9> port; bit<7> pad; }'
    ).p4info
    (meta,) = info.controller_packet_metadata
    assert meta.preamble.name == "packet_in"
    assert [(m.id, m.name, m.bitwidth) for m in meta.metadata] == [(1, "port", 9), (2, "pad", 7)]


def test_packet_io_header_with_a_struct() -> None:
    info = compiled(
        types='struct S { bit<4> a; bit<4> b; } @controller_header("packet_in") '
        "header pin { S s; bit<8> c; }"
    ).p4info
    (meta,) = info.controller_packet_metadata
    assert [(m.id, m.name) for m in meta.metadata] == [(1, "s.a"), (2, "s.b"), (3, "c")]


def test_type_of_a_type() -> None:
    info = compiled(
        types="type bit<8> one_t; type one_t two_t; struct d_t { two_t x; }",
        apply="digest<d_t>(1, { (two_t)(one_t)m.x });",
    ).p4info
    assert list(info.type_info.new_types) == ["two_t"]
    assert info.type_info.new_types["two_t"].original_type.bitstring.bit.bitwidth == 8


def test_translated_type() -> None:
    info = compiled(
        types='@p4runtime_translation("lab/port", 32) type bit<9> port_t;',
        meta="port_t p;",
        locals="action f(port_t p) { m.p = p; } table t { key = { m.p: exact; } actions = { f; } }",
        apply="t.apply();",
    ).p4info
    assert info.tables[0].match_fields[0].bitwidth == 32
    assert info.tables[0].match_fields[0].type_name.name == "port_t"
    assert info.type_info.new_types["port_t"].translated_type.uri == "lab/port"


def test_digest_and_names_of_sub_controls() -> None:
    info = compiled(
        types="struct d_t { bit<8> a; bit<16> b; }",
        top="control C(inout headers hdr) { table t { key = { hdr.h.b: exact; }"
        "actions = { NoAction; } } apply { t.apply(); } }",
        locals="C() c1; C() c2;",
        apply="digest<d_t>(1, { hdr.h.a, hdr.h.c }); c1.apply(hdr); c2.apply(hdr);",
    ).p4info
    assert info.digests[0].preamble.name == "d_t"
    assert info.type_info.structs["d_t"].members[1].type_spec.bitstring.bit.bitwidth == 16
    assert [t.preamble.name for t in info.tables] == ["I.c1.t", "I.c2.t"]
    assert [t.preamble.alias for t in info.tables] == ["c1.t", "c2.t"]
