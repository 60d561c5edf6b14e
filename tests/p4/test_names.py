"""Names are the program's to choose: they neither break the files written nor reach C."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from google.protobuf import text_format
from hypothesis import given, settings
from hypothesis import strategies as st
from p4.config.v1 import p4info_pb2

from softswitch.engine.engine import compile_program
from softswitch.p4 import compile_text, write_outputs
from softswitch.p4.api import Compiled
from tests.p4.support import compiled, source, tables

EVIL = 'a"); system("id"); /* */ #define x \\ \n%s ünï'


def quoted(text: str) -> str:
    """The text as a P4 string."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def program(name: str) -> Compiled:
    note = f"@name({quoted(name)})"
    return compiled(
        locals=f"{note} action f(bit<8> p) {{ m.x = p; }} counter(4, CounterType.bytes) c;"
        f"{note} table t {{ key = {{ m.x: exact {note}; }} actions = {{ f; }} }}",
        apply='t.apply(); c.count(1); log_msg("evil {}", { m.x });',
    )


def check_files(made: Compiled, folder: Path) -> None:
    """Both files read back as what was written; the engine's C has ASCII only."""
    json_path, info_path = write_outputs(made, folder, "names")
    assert json.loads(json_path.read_text()) == made.json
    info = text_format.Parse(info_path.read_text(), p4info_pb2.P4Info())
    assert info == made.p4info
    _, text = compile_program(made.json)
    assert text.isascii()
    assert "system" not in text
    assert "%s" not in text


def test_a_hostile_name(tmp_path: Path) -> None:
    made = program(EVIL)
    assert "I." + EVIL in tables(made.json)
    assert made.p4info.tables[0].match_fields[0].name == EVIL
    check_files(made, tmp_path)


@settings(max_examples=15, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1))
def test_any_name(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    made = program(name)
    json_path, info_path = write_outputs(made, tmp_path_factory.mktemp("names"), "names")
    assert json.loads(json_path.read_text()) == made.json
    assert text_format.Parse(info_path.read_text(), p4info_pb2.P4Info()) == made.p4info
    assert compile_program(made.json)[1].isascii()


def test_words_of_c_are_names_in_p4(tmp_path: Path) -> None:
    made = compiled(
        types="header static { bit<8> volatile; bit<8> main; bit<8> goto; bit<8> sizeof; }"
        "enum union { class, register_ }",
        meta="bit<8> restrict; bit<8> auto; static inline;",
        locals="action double(bit<8> short) { m.restrict = short; m.inline.goto = 1; }"
        "table while { key = { m.auto: exact; } actions = { double; } }",
        apply="while.apply();",
    )
    check_files(made, tmp_path)


def test_name_of_the_file(tmp_path: Path) -> None:
    made = compile_text(source(), Path('x"; int evil;\n.p4'))
    check_files(made, tmp_path)
    assert "evil" not in compile_program(made.json)[1]


def test_pragma_is_an_annotation_that_ends_with_the_line() -> None:
    made = compiled(
        locals='@pragma name ".other"\n@pragma stage 3, "x"\n'
        "table t { key = { m.x: exact; } actions = { @pragma tableonly\n NoAction; } }",
        apply="t.apply();",
    )
    (table,) = made.p4info.tables
    assert table.preamble.name == "other"
    assert list(table.preamble.annotations) == ['@stage(3, "x")']
    assert table.action_refs[0].scope == table.action_refs[0].TABLE_ONLY
