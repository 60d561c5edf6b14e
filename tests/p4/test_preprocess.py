"""The preprocessor and the lexer."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softswitch.p4 import P4Error, compile_text
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


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("#define F(x) <x ## 1>\nF() F(a)", "< 1 > < a1 >"),
        ("#define F(x, y) x ## y ## z\nF(a,) F(,b) F(a, b)", "az bz abz"),
        ("#define f(a) a*g\n#define g(a) f(a)\nf(2)(9)", "2 * 9 * g"),
        ('#define S(x) #x\n#define A 1\nS( A  b ) S("a\\\\")', r'"A b" "\"a\\\\\""'),
        ("#define E(f, ...) f(__VA_ARGS__)\nE(x) E(x, 1, 2)", "x ( ) x ( 1 , 2 )"),
        ("#define E(f, r...) f(, ## r)\nE(x) E(x, 1)", "x ( ) x ( , 1 )"),
        ("#define F(x) x\nF\n#define Z\n(1)", "F ( 1 )"),
        ("__LINE__\n#define L __LINE__\n\nL", "1 4"),
        ('#line 40\n__LINE__\n#line 7 "o.p4"\n__LINE__ __FILE__', '40 7 "o.p4"'),
        ("__COUNTER__ __COUNTER__", "0 1"),
        ('# 12 "o.p4" 1\n__LINE__', "12"),
        ("#if 0\nit isn't here\n#endif\nx", "x"),
        ("#define D defined(A)\n#define A\n#if D\nx\n#endif", "x"),
        ("#if 0 && 1 / 0\n#elif 010 == 8 && 5u > -1\nx\n#else\ny\n#endif", "y"),
        ("#ifdef A\n#elifdef B\n#elifndef B\nx\n#endif", "x"),
        ("#if __has_include(<nothere.p4>)\nx\n#endif", ""),
        ("a // comment \\\ngoes on\nb", "a b"),
        ("#define A(x) x\nA(\n1\n)", "1"),
    ],
)
def test_corners_as_cpp_has_them(text: str, wanted: str) -> None:
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
        ("#define F(x) x\nF(1, 2)", "takes 1 argument, got 2"),
        ("#define F(x) x\nF(1", "missing ')'"),
        ("#defin A", "unknown directive #defin; did you mean 'define'?"),
        ("#if 1 / 0\n#endif", "division by zero"),
        ('a "b', "string without a closing quote"),
        ("a /* b", "comment without an end"),
        ("#define F(x x", "missing ')'"),
        ("#define F(x, x) x", "'x' is there twice"),
        ("#define A ## b", "'##' cannot stand at an end"),
        ("#define F(x) #y", "'#' has to stand before a parameter"),
        ("#define F(x) x ## +\nF((1))", "makes no token"),
        ("#define defined 1", "cannot be the name of a macro"),
        ("#if 08\n#endif", "'08' is not an integer"),
        ("#if defined(A\n#endif", "'defined': missing ')'"),
        ("#line x", "#line needs a number"),
        ("#include", '#include needs <file> or "file"'),
        ('#error say "hello"  twice', '#error say "hello"  twice'),
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


def test_two_ways_into_the_same_file_end(tmp_path: Path) -> None:
    path = tmp_path / "a.p4"
    path.write_text('#include "a.p4"\n#include "a.p4"\n')
    reporter = Reporter()
    with pytest.raises(P4Error, match=r"'a\.p4' includes itself; put #ifndef around it"):
        Preprocessor(reporter, []).run(path, path.read_text())


def test_pragma_once(tmp_path: Path) -> None:
    (tmp_path / "a.p4").write_text("#pragma once\none")
    reporter = Reporter()
    tokens = Preprocessor(reporter, []).run(tmp_path / "m.p4", '#include "a.p4"\n' * 3)
    assert [t.text for t in tokens[:-1]] == ["one"]


def test_message_names_the_file_it_is_in(tmp_path: Path) -> None:
    (tmp_path / "inc.p4").write_text("// one\nheader H { bit<8 a; }\n")
    with pytest.raises(P4Error) as caught:
        compile_text('#include "inc.p4"\n', tmp_path / "m.p4")
    (found,) = caught.value.diagnostics
    assert (found.file, found.line) == (str(tmp_path / "inc.p4"), 2)


def test_line_directive_moves_messages() -> None:
    with pytest.raises(P4Error) as caught:
        compile_text('const bit<8> a = 1;\n#line 70 "other.p4"\nconst bit<8> b = c;\n')
    (found,) = caught.value.diagnostics
    assert (found.file, found.line) == ("other.p4", 70)
    assert found.source_line == "const bit<8> b = c;"


def test_undefine_and_macros_with_arguments_on_the_command_line() -> None:
    reporter = Reporter()
    defines = {"__p4c__": None, "ADD(x)": "x + 1"}
    tokens = Preprocessor(reporter, [], defines).run(Path("t.p4"), "__p4c__ ADD(2)")
    assert [t.text for t in tokens[:-1]] == ["__p4c__", "2", "+", "1"]


def test_a_macro_defined_twice_differently_is_a_warning() -> None:
    reporter = Reporter()
    text = "#define A 1\n#define A 1\n#define A 2\n"
    Preprocessor(reporter, []).run(Path("t.p4"), text)
    assert [w.line for w in reporter.warnings] == [3]
