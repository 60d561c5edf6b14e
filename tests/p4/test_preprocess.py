"""The preprocessor and the lexer."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softswitch.p4 import P4Error
from softswitch.p4.diagnostics import Reporter, SourceFile
from softswitch.p4.lexer import EOF, parse_int, tokenize
from softswitch.p4.preprocess import Preprocessor


def expand(text: str, **defines: str) -> str:
    reporter = Reporter()
    tokens = Preprocessor(reporter, [], defines).run(Path("t.p4"), text)
    reporter.check()
    return " ".join(t.text for t in tokens[:-1])


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("#define A 1\nA B", "1 B"),
        ("#define A B\n#define B A\nA", "A"),
        ("#define F(x, y) x + y\nF(1, (2, 3))", "1 + ( 2 , 3 )"),
        ("#define F(x) x\nF\nF(1)", "F 1"),
        ("#define F(x) #x\nF(a b)", '"a b"'),
        ("#define F(x) x ## _t\nF(eth)", "eth_t"),
        ("#define F(a, ...) a __VA_ARGS__\nF(1, 2, 3)", "1 2 , 3"),
        ("#define A (1)\nA", "( 1 )"),
        ("#ifdef A\nx\n#else\ny\n#endif", "y"),
        ("#define A\n#ifdef A\nx\n#endif", "x"),
        ("#if defined(A) || !defined B\nx\n#endif", "x"),
        ("#define V 3\n#if V >= 2 && V < 4\nx\n#elif 1\ny\n#endif", "x"),
        ("#if 0\n#if 1\na\n#endif\n#elif (1 << 3) == 8\nb\n#else\nc\n#endif", "b"),
        ("#if 1 ? 0 : 1\na\n#endif b", ""),
        ("a /* x\ny */ b // c\nd", "a b d"),
        ("#define A 1 \\\n + 2\nA", "1 + 2"),
        ("#define A 1\n#undef A\nA", "A"),
        ("#pragma once\n#line 3\nx", "x"),
    ],
)
def test_expansion(text: str, wanted: str) -> None:
    assert expand(text) == wanted


def test_defines_from_the_command_line() -> None:
    assert expand("N", N="4 + 1") == "4 + 1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#if\n#endif", "expression expected"),
        ("#if 1\n", "without #endif"),
        ("#endif", "#endif without #if"),
        ("#else", "#else without #if"),
        ("#if 1\n#else\n#else\n#endif", "#else after #else"),
        ("#error no way", "#error no way"),
        ("#include <nothere.p4>", "include file 'nothere.p4' not found"),
        ("#define F(x) x\nF(1, 2)", "takes 1 arguments, got 2"),
        ("#define F(x) x\nF(1", "missing ')'"),
        ("#defin A", "unknown directive #defin; did you mean 'define'?"),
        ("#if 1 / 0\n#endif", "division by zero"),
        ('a "b', "string without a closing quote"),
        ("a /* b", "comment without an end"),
    ],
)
def test_bad_directive(text: str, message: str) -> None:
    with pytest.raises(P4Error) as caught:
        expand(text)
    assert message in str(caught.value)


def test_exponential_macros_end() -> None:
    lines = ["#define A0 x x x x x x x x"]
    lines += [f"#define A{n} " + f"A{n - 1} " * 8 for n in range(1, 12)]
    with pytest.raises(P4Error, match="expands without end"):
        expand("\n".join([*lines, "A11"]))


def test_include_loop_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.p4"
    path.write_text('#include "a.p4"\n')
    reporter = Reporter()
    Preprocessor(reporter, []).run(path, path.read_text())
    with pytest.raises(P4Error, match="nested deeper"):
        reporter.check()


def test_include_is_found_beside_the_file_and_in_the_folders(tmp_path: Path) -> None:
    (tmp_path / "inc").mkdir()
    (tmp_path / "one.p4").write_text("one")
    (tmp_path / "inc" / "two.p4").write_text("two")
    reporter = Reporter()
    text = '#include "one.p4"\n#include <two.p4>\n'
    tokens = Preprocessor(reporter, [tmp_path / "inc"]).run(tmp_path / "m.p4", text)
    assert [t.text for t in tokens[:-1]] == ["one", "two"]
    assert tokens[0].span.file.name == str(tmp_path / "one.p4")


def literal(text: str) -> tuple[int, int | None, bool]:
    token = tokenize(SourceFile("x", text), reporter := Reporter())[0]
    found = parse_int(token, reporter)
    return found.value, found.width, found.signed


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("10", (10, None, False)),
        ("0x1F", (31, None, False)),
        ("0b1010", (10, None, False)),
        ("0o17", (15, None, False)),
        ("8w255", (255, 8, False)),
        ("8s127", (127, 8, True)),
        ("8s0xff", (-1, 8, True)),
        ("32w0x_dead_beef", (0xDEADBEEF, 32, False)),
        ("16w0d10", (10, 16, False)),
        ("1_000", (1000, None, False)),
    ],
)
def test_integer(text: str, wanted: tuple[int, int | None, bool]) -> None:
    assert literal(text) == wanted


@given(st.integers(1, 128), st.integers(0, 1 << 128))
def test_integer_round_trip(width: int, value: int) -> None:
    value %= 1 << width
    for text in (f"{width}w{value}", f"{width}w{value:#x}", f"{width}w{value:#b}"):
        assert literal(text) == (value, width, False)


@given(st.text())
def test_any_text_becomes_tokens_that_cover_it(text: str) -> None:
    tokens = tokenize(SourceFile("x", text), Reporter())
    assert tokens[-1].kind == EOF
    for token in tokens[:-1]:
        line = token.span.file.line(token.span.line)
        assert line[token.span.column - 1 :].startswith(token.text.split("\n")[0])
