"""Characters -> tokens, for P4 text and for preprocessor lines alike (spec section 6.4)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from softswitch.p4.diagnostics import Reporter, SourceFile, Span

IDENT = "identifier"
INT = "integer"
STRING = "string"
PUNCT = "punctuation"
OTHER = "character"
EOF = "end of file"

_PUNCTUATION = (
    "|+|=", "|-|=", "<<=", ">>=", "&&&", "...",
    "|+|", "|-|", "<<", "<=", "==", "!=", "&&", "||", "++", "..", "##",
    "+:", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", ">=",
    "(", ")", "{", "}", "[", "]", "<", ">", "=", "!", "~", "?", ":", ";", ",", ".",
    "+", "-", "*", "/", "%", "&", "|", "^", "@", "#", "\\",
)  # fmt: skip

_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r\f\v]+)
  | (?P<splice>\\\r?\n)
  | (?P<newline>\n)
  | (?P<line_comment>//(?:\\\r?\n|[^\n])*)
  | (?P<block_comment>/\*.*?\*/)
  | (?P<ident>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<int>[0-9][0-9_]*[ws]?[A-Za-z0-9_]*)
  | (?P<string>"(?:[^"\\]|\\.)*")
  | (?P<punct>"""
    + "|".join(re.escape(p) for p in _PUNCTUATION)
    + r""")
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)

_INT = re.compile(
    r"(?:(?P<width>[0-9][0-9_]*)(?P<sign>[ws]))?"
    r"(?:0[xX](?P<hex>[0-9a-fA-F_]+)|0[bB](?P<bin>[01_]+)|0[oO](?P<oct>[0-7_]+)"
    r"|0[dD](?P<dec2>[0-9_]+)|(?P<dec>[0-9][0-9_]*))$"
)

MAX_WIDTH = 2048
"""Widest bit<N> the lexer and the type checker accept, as in bmv2."""


@dataclass(eq=False)
class Token:
    """One token. `line_start` is set on the first token of a line (directives need it)."""

    __slots__ = ("after_space", "base", "hidden", "kind", "line_start", "span", "text")

    kind: str
    text: str
    span: Span
    line_start: bool
    after_space: bool
    hidden: frozenset[str]
    base: int

    def with_span(self, span: Span, hidden: frozenset[str]) -> Token:
        """A copy at another place, as macro expansion needs it."""
        return Token(self.kind, self.text, span, False, self.after_space, hidden, self.base)


@dataclass(frozen=True)
class IntLiteral:
    """Value of an integer literal; width is None for an arbitrary-precision one."""

    value: int
    width: int | None
    signed: bool
    base: int


def tokenize(source: SourceFile, reporter: Reporter) -> list[Token]:
    """All tokens of a file, without comments; the last one is EOF."""
    tokens: list[Token] = []
    text = source.text
    position, line, line_begin = 0, 1, 0
    start_of_line, space = True, False
    length = len(text)
    while position < length:
        match = _TOKEN.match(text, position)
        if match is None:  # cannot happen: `other` matches anything
            break
        kind = match.lastgroup
        value = match.group()
        end = match.end()
        column = position - line_begin + 1
        if kind == "space":
            space = True
        elif kind == "newline":
            line += 1
            line_begin = end
            start_of_line, space = True, True
        elif kind in ("splice", "line_comment", "block_comment"):
            newlines = value.count("\n")
            if newlines:
                line += newlines
                line_begin = position + value.rfind("\n") + 1
            space = True
        else:
            span = Span(source, line, column, line, column + len(value))
            newlines = value.count("\n") if kind == "string" else 0
            if newlines:  # strings may go on over lines
                line += newlines
                line_begin = position + value.rfind("\n") + 1
                span = Span(source, span.line, column, line, end - line_begin + 1)
            tokens.append(
                Token(_KINDS[kind or ""], value, span, start_of_line, space, frozenset(), 10)
            )
            if value == "/" and text.startswith("/*", position):
                reporter.error(span, "comment without an end")
                tokens.pop()
                break
            start_of_line, space = False, False
        position = end
    last = len(source.lines)
    column = len(source.lines[-1]) + 1
    tokens.append(
        Token(EOF, "", Span(source, last, column, last, column), True, True, frozenset(), 10)
    )
    return tokens


_KINDS = {"ident": IDENT, "int": INT, "string": STRING, "punct": PUNCT, "other": OTHER}


def parse_int(token: Token, reporter: Reporter) -> IntLiteral:
    """The value of an INT token; a malformed or too wide one is reported."""
    match = _INT.match(token.text)
    if match is None:
        raise reporter.fail(token.span, f"'{token.text}' is not an integer literal")
    width: int | None = None
    if match["width"] is not None:
        width = int(match["width"].replace("_", "")[:9] or "0")
        if not 1 <= width <= MAX_WIDTH:
            raise reporter.fail(token.span, f"width {width} is outside 1..{MAX_WIDTH}")
    value, base = 0, 10
    for group, radix in (("hex", 16), ("bin", 2), ("oct", 8), ("dec2", 10), ("dec", 10)):
        digits = match[group]
        if digits is not None:
            digits = digits.replace("_", "")
            if not digits or len(digits) > MAX_WIDTH:
                raise reporter.fail(token.span, f"'{token.text}' is not an integer literal")
            value, base = int(digits, radix), radix
    signed = match["sign"] == "s"
    if width is not None:
        limit = 1 << width
        if value >= limit:
            reporter.warn(
                token.span, f"{token.text}: value does not fit in {width} bits", "overflow"
            )
            value %= limit
        if signed and value >= limit >> 1:
            value -= limit
    return IntLiteral(value, width, signed, base)


def parse_string(token: Token) -> str:
    """The characters of a STRING token."""
    body = token.text[1:-1]
    return re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t"}.get(m[1], m[1]), body, flags=re.DOTALL)
