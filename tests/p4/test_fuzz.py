"""No text makes the compiler fail other than with P4Error."""

from __future__ import annotations

import contextlib
import json
import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softswitch.p4 import P4Error, compile_file, compile_text
from tests.p4.support import compiled, refused

DATA = Path(__file__).resolve().parent.parent / "data" / "p4"
EXAMPLE = (DATA / "trim_ecn_spray.p4").read_text()
RICH = (DATA / "rich.p4").read_text()
WORD = re.compile(r"\w+|\s+|[^\w\s]")
EXTRA = [
    "0", "1", "-1", "8w255", "300w1", "0x", "bit<8>", "int<4>", "bool", "true", "{", "}", "(", ")",
    "<", ">", ";", ",", ".", "@name", "#define", "#if", "++", "<<", "&&&", "..", "?", ":", "==",
    "apply", "table", "action", "control", "header", "struct", "exit", "return", "default", "_",
    "select", "next", "last", "isValid", "setValid", "error", "enum", "typedef", "type", "const",
    "inout", "out", "...", "{#}", "[", "]", "varbit<16>", "tuple<bit<1>>", "switch", "\n", '"',
]  # fmt: skip


def check(text: str) -> None:
    """Compiles, or is refused with a place and a reason."""
    diagnostics = None
    try:
        json.dumps(compile_text(text, Path("fuzz.p4")).json)
    except P4Error as error:
        diagnostics = error.diagnostics
    if diagnostics is not None:
        assert diagnostics
        assert all(d.message and d.line >= 1 and d.column >= 1 for d in diagnostics)


def mutate(text: str, rng: random.Random) -> str:
    words = WORD.findall(text)
    for _ in range(rng.randrange(1, 4)):
        i = rng.randrange(len(words))
        choice = rng.randrange(6)
        if choice == 0:
            del words[i]
        elif choice == 1:
            words.insert(i, rng.choice(EXTRA))
        elif choice == 2:
            words[i] = rng.choice(words)
        elif choice == 3:
            j = rng.randrange(len(words))
            words[i], words[j] = words[j], words[i]
        elif choice == 4:
            words[i] = rng.choice(EXTRA)
        else:
            j = min(len(words), i + rng.randrange(1, 30))
            words[i:i] = words[i:j]
    return "".join(words)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 1 << 32), st.booleans())
def test_mutated_programs(seed: int, rich: bool) -> None:
    check(mutate(RICH if rich else EXAMPLE, random.Random(seed)))


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=300))
def test_random_text(text: str) -> None:
    check(text)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(EXTRA), max_size=60))
def test_random_words(words: list[str]) -> None:
    check("#include <v1model.p4>\n" + " ".join(words))


STRUCTS = "struct S0 { bit<8> a; bit<8> b; }" + "".join(
    f"struct S{n + 1} {{ S{n} a; S{n} b; }}" for n in range(40)
)
TUPLES = "typedef tuple<bit<8>, bit<8>> T0;" + "".join(
    f"typedef tuple<T{n}, T{n}> T{n + 1};" for n in range(40)
)
SQUARES = "const int k0 = 2;" + "".join(f"const int k{n + 1} = k{n} * k{n};" for n in range(60))
COSTLY = [
    ({"apply": "m.x = " + "(" * 10_000 + "1" + ")" * 10_000 + ";"}, "nested deeper than"),
    ({"apply": "m.x = " + "~" * 10_000 + "1;"}, "nested deeper than"),
    ({"apply": "m.x = " + "(bit<8>)" * 5_000 + "1;"}, "nested deeper than"),
    ({"apply": "{" * 10_000}, "nested deeper than"),
    ({"apply": "if (m.t) {" * 500 + "}" * 500}, "nested deeper than"),
    ({"apply": "m.x = " + "m.t ? 8w1 : " * 500 + "8w2;"}, "nested deeper than"),
    ({"apply": "m.x = " + " + ".join(["m.x"] * 1_000) + ";"}, "nested too deeply for bmv2"),
    ({"apply": "m.x = " + " + ".join(["m.x"] * 9_000) + ";"}, "nested too deeply"),
    ({"apply": "m.x = hdr.h.a" + "[7:0]" * 9_000 + ";"}, "nested too deeply"),
    ({"apply": "bit<1000000> z;"}, "width 1000000 is outside 1..2048"),
    ({"apply": "m.x = 0x" + "f" * 100_000 + ";"}, "is not an integer literal"),
    ({"apply": "m.x = " + "9" * 100_000 + "w1;"}, "is outside 1..2048"),
    ({"types": "struct Q { B[1000000000] b; }"}, "stack size 1000000000 is outside 1..1024"),
    ({"apply": "hdr.st.push_front(1000000000000);"}, "the number of headers"),
    ({"top": "const int q = 1 << 1099511627776;"}, "shift by an absurd amount"),
    ({"top": SQUARES}, "value too large"),
    ({"types": STRUCTS}, "has more than 20000 fields"),
    ({"types": TUPLES}, "more than 20000"),
    ({"parser": "value_set<bit<8>>(1000000000000) v; state start { transition accept; }"},
     "size 1000000000000 of value set 'v' is out of range"),
    ({"locals": "@id(99999999999999999999) table t { actions = { NoAction; } }",
      "apply": "t.apply();"}, "@id has to be a positive 32-bit number"),
    ({"meta": "@field_list(99999999999) bit<8> q;"}, "@field_list takes numbers from 0 to 255"),
    ({"locals": "counter(4000000000, CounterType.bytes) c;", "apply": "c.count(1);"},
     "size 4000000000 is out of range"),
    ({"apply": "x" * 100_000 + " = 1;"}, "unknown name 'xxxxxxxx"),
    ({"apply": "m.x = 1;" * 1_000 + "m.x = \0;"}, "expected an expression"),
    ({"apply": "m.x = \x1b[31m1;"}, "expected an expression"),
    ({"locals": "@a(" + "(" * 5_000 + ")" * 5_000 + ") action f() {}", "apply": "q = 1;"},
     "unknown name 'q'"),
]  # fmt: skip


@pytest.mark.parametrize(("parts", "message"), COSTLY, ids=[m[:30] for _, m in COSTLY])
def test_costly_programs_are_refused(parts: dict[str, str], message: str) -> None:
    said = refused(**parts)
    assert message in said
    assert len(said) < 40_000  # what is quoted is shortened
    assert "\0" not in said
    assert "\x1b" not in said


@pytest.mark.parametrize(
    "text",
    [
        "/*" * 5_000, "#" * 5_000, "#ifdef A\n" * 5_000, "#if " + "(" * 5_000 + "\n#endif\n",
        "#if " + "!" * 5_000 + "1\n#endif\n", "#if " + "1?" * 5_000 + "1\n#endif\n",
        "#define F(x) x x\n" + "F(" * 40 + "a" + ")" * 40, "struct " * 3_000, '"' * 5_000,
        "struct S<T> { T t; } const S" + "<S" * 3_000, "\\\n" * 5_000, "\0" * 5_000,
    ],
    ids=range(12),
)  # fmt: skip
def test_costly_text_ends(text: str) -> None:
    check(text)


@settings(max_examples=25, deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "bytes.p4"
    path.write_bytes(data)
    with contextlib.suppress(P4Error):
        compile_file(path)


def test_a_place_in_a_long_line_is_shown() -> None:
    said = refused(apply="m.x = 1;" * 500 + "m.x = q;" + "m.x = 2;" * 500)
    line, caret = said.splitlines()[1:3]
    assert len(line) < 200
    assert line[caret.index("^")] == "q"


def test_parentheses_people_write_are_fine() -> None:
    compiled(apply="m.x = " + "(" * 100 + "m.x" + ")" * 100 + ";")
    compiled(apply="m.x = " + " + ".join(["m.x"] * 150) + ";")


def test_cut_anywhere() -> None:
    step = max(1, len(EXAMPLE) // 60)
    for n in range(0, len(EXAMPLE), step):
        check(EXAMPLE[:n])
