"""What the compiler says about programs it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from softswitch.p4 import P4Error, compile_file, compile_text
from softswitch.p4.__main__ import main
from tests.p4.support import compiled, refused, source

BAD = [
    ({"apply": "hdr.h.aa = 1;"}, "has no field 'aa'; did you mean 'a'?"),
    ({"apply": "hrd.h.a = 1;"}, "unknown name 'hrd'; did you mean 'hdr'?"),
    ({"apply": "m.x = hdr.h.c;"}, "expected 'bit<8>', found 'bit<16>'; write (bit<8>) to convert"),
    ({"apply": "m.x = m.x + m.y;"}, "operands are 'bit<8>' and 'bit<32>'"),
    ({"apply": "if (m.x) {}"}, "the condition: expected 'bool', found 'bit<8>'"),
    ({"apply": "m.t = 1;"}, "expected 'bool'"),
    ({"apply": "m.x = m.x / 0;"}, "division by zero"),
    ({"apply": "m.x[9:0] = 1;"}, "slice [9:0] does not fit 'bit<8>'"),
    ({"apply": "hdr.st[4].x = 1;"}, "index 4 is outside the stack of 4 headers"),
    ({"apply": "hdr.h.setvalid();"}, "no method 'setvalid'; did you mean 'setValid'?"),
    ({"apply": "hdr.h.isValid = true;"}, "has to be called"),
    ({"apply": "mark_to_dropp(sm);"}, "did you mean 'mark_to_drop'?"),
    ({"apply": "truncate(1, 2);"}, "'truncate' takes 1 arguments, got 2"),
    ({"apply": "hash(m.x, HashAlgorithm.crc8, 8w0, {m.x}, 8w1);"}, "has no member 'crc8'"),
    ({"apply": "tt.apply();", "locals": "table t { actions = { NoAction; } }"}, "mean 't'?"),
    ({"apply": "t.aply();", "locals": "table t { actions = { NoAction; } }"}, "no methods"),
    ({"apply": "exit"}, "expected ';'"),
    ({"apply": "m.x == 1;"}, "an expression alone is not a statement"),
    ({"apply": "bit<0> z;"}, "width 0 is outside 1..2048"),
    ({"apply": "bit<8> m = 1; bit<8> m = 2;"}, "'m' is declared twice"),
    ({"apply": "sm.ingress_port = 16w1;"}, "expected 'bit<9>'"),
    ({"apply": "clone(CloneType.E2E, 1);"}, "can be made in egress only"),
    ({"apply": "resubmit({ m.x + 1 });"}, "only metadata fields can be kept"),
    ({"apply": "verify(true, error.NoMatch);"}, "in a parser only"),
    ({"apply": "m.x = hdr.st.next.x;"}, "can be used in parsers only"),
    ({"locals": "const bit<8> c = m.x;"}, "not known at compile time"),
    ({"locals": "action f(in bit<8> a) { a = 1; }"}, "'a' is an 'in' parameter"),
    ({"locals": "action f(bit<8> a) { a = 1; }"}, "without direction and cannot be changed"),
    ({"locals": "action f(bit<8> a, in bit<8> b) {}"}, "those with a direction come first"),
    ({"locals": "table t { actions = { f; } }"}, "unknown action 'f'"),
    ({"locals": "table t { key = { m.x: exakt; } actions = { NoAction; } }"},
     "did you mean 'exact'?"),
    ({"locals": "table t { key = { m.x: exact; } }"}, "table 't' has no 'actions'"),
    ({"locals": "action f() {} table t { actions = { NoAction; } default_action = f(); }"},
     "is not in 'actions' of 't'"),
    ({"locals": "action f(bit<8> n) {} table t { actions = { f; } default_action = f(); }"},
     "'n' missing"),
    ({"locals": "table t { key = { m.x: exact; } actions = { NoAction; } "
      "const entries = { (1, 2): NoAction(); } }"}, "the table has 1 keys, the entry 2"),
    ({"locals": "table t { key = { m.x: exact; } actions = { NoAction; } "
      "const entries = { 1 &&& 1: NoAction(); } }"}, "a key matched exact has no mask"),
    ({"locals": "table t { actions = { NoAction; } size = m.x; }"}, "'size' has to be a constant"),
    ({"locals": "action_profile(4) p; table t { actions = { NoAction; } implementation = q; }"},
     "unknown name 'q'"),
    ({"types": "header X { bit<3> x; }", "locals": "X v;", "apply": "v.setValid();"},
     "bmv2 needs whole bytes (5 bits are missing)"),
    ({"types": "struct R { R r; }"}, "unknown type 'R'"),
    ({"types": "enum E { A, A }"}, "'A' is declared twice"),
    ({"types": "enum bit<2> E { A = 9 }", "apply": "m.x = E.B;"}, "has no member 'B'"),
    ({"parser": "state strat { transition accept; }"}, "has no state 'start'"),
    ({"parser": "state start { transition acept; }"}, "unknown state 'acept'; did you mean"),
    ({"parser": "state start { transition select(m.x) { 300: accept; _: reject; } }",
      "apply": "q = 1;"}, "unknown name 'q'"),
    ({"parser": "state start { transition select(m.x, m.y) { 1: accept; } }"},
     "the select has 2 keys, the case 1"),
    ({"parser": "state start { pkt.extract(m.x); transition accept; }"},
     "extract needs a header, not 'bit<8>'"),
    ({"top": "bit<8> f(in bit<8> a) { if (a == 1) { return 1; } }"}, "without a return value"),
    ({"top": "bit<8> f() { return true; }"}, "return: expected 'bit<8>', found 'bool'"),
    ({"locals": "table t { actions = { NoAction; } }",
      "apply": "t.apply(); m.x = 1; t.apply();"}, "applied twice for the same packet"),
    ({"apply": "break;"}, "'break' stands outside of a loop"),
    ({"locals": "table t { actions = { NoAction; } }",
      "apply": "for (bit<8> i in 1..3) { t.apply(); }"}, "a table cannot be applied in a loop"),
    ({"parser": "state start { for (bit<8> i in 1..3) { } transition accept; }"},
     "a parser state loops by transitions"),
    ({"apply": "for (bool i in 1..3) { }"}, "a range is walked by a bit<> or int<>"),
    ({"apply": "for (bit<8> i in m.y) { }"}, "use a range, a list or a stack"),
    ({"update": "m.x = 1;"}, "only calls of update_checksum"),
    ({"locals": 'table t { actions = { NoAction; } } @name("t") table u { actions = {NoAction;} }',
      "apply": "t.apply(); u.apply();"}, "another table is called 'I.t'"),
]  # fmt: skip


@pytest.mark.parametrize(("parts", "message"), BAD, ids=[m[:40] for _, m in BAD])
def test_refused_with_a_reason(parts: dict[str, str], message: str) -> None:
    assert message in refused(**parts)


def test_message_points_at_the_place() -> None:
    text = source(apply="\n    m.x = hdr.h.aa;\n")
    line = next(n for n, s in enumerate(text.splitlines(), 1) if "hdr.h.aa" in s)
    with pytest.raises(P4Error) as caught:
        compile_text(text, Path("dir/prog.p4"))
    (found,) = caught.value.diagnostics
    assert (found.file, found.line, found.column) == ("dir/prog.p4", line, 17)
    assert str(found).splitlines()[1:] == ["        m.x = hdr.h.aa;", "                    ^^"]


def test_missing_semicolon_is_shown_where_it_belongs() -> None:
    with pytest.raises(P4Error) as caught:
        compile_text("const bit<8> a = 1\nconst bit<8> b = 2;\n", Path("x.p4"))
    (found,) = caught.value.diagnostics
    assert (found.line, found.column) == (1, 19)


def test_all_errors_are_reported_together() -> None:
    message = refused(apply="m.x = q1; m.y = q2; hdr.h.zz = 3;")
    assert message.count("error:") == 3


def test_literal_that_does_not_fit_is_a_warning() -> None:
    found = compiled(apply="m.x = 300;")
    assert "300 does not fit in 'bit<8>' (0..255)" in found.warnings[0].message


def test_no_main() -> None:
    with pytest.raises(P4Error, match="has no 'main'"):
        compile_text("#include <v1model.p4>\n", Path("x.p4"))


def test_cli_reports_and_exits_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.p4"
    bad.write_text(source(apply="q = 1;"))
    assert main([str(bad), "-o", str(tmp_path)]) == 2
    assert "bad.p4: 1 error" in capsys.readouterr().err
    assert main([str(tmp_path / "none.p4"), "-o", str(tmp_path)]) == 2
    assert "cannot read" in capsys.readouterr().err


def test_cli_writes_both_files(tmp_path: Path) -> None:
    good = tmp_path / "good.p4"
    good.write_text(source(apply="m.x = N;"))
    assert main([str(good), "-o", str(tmp_path / "out"), "-D", "N=5"]) == 0
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "good.json",
        "good.p4info.txtpb",
    ]


def test_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "x.p4"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(P4Error, match="not UTF-8"):
        compile_file(path)


def test_a_file_without_end() -> None:
    with pytest.raises(P4Error, match="cannot read: longer than 16 MiB"):
        compile_file(Path("/dev/zero"))


def test_an_include_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.p4").write_bytes(b"abc\xff")
    with pytest.raises(P4Error, match=r"cannot read 'a\.p4': not UTF-8 text \(byte 3\)"):
        compile_text('#include "a.p4"\n', tmp_path / "m.p4")
