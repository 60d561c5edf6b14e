"""The integer expression of an #if: C's operators on 64-bit numbers, signed or (`1u`) not."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from softswitch.p4.diagnostics import Reporter, Span
from softswitch.p4.lexer import IDENT, INT, PUNCT, Token

_NUMBER = re.compile(
    r"(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<bin>[01]+)|(?P<oct>0[0-7]*)|(?P<dec>[1-9][0-9]*))"
    r"(?P<suffix>[uUlL]*)$"
)
_LEVELS = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="),
    ("<", ">", "<=", ">="), ("<<", ">>"), ("+", "-"), ("*", "/", "%"),
)  # fmt: skip
_MAX_DEPTH = 50


def evaluate(tokens: Sequence[Token], span: Span, reporter: Reporter) -> int:
    """Value of the macro-expanded tokens after #if; reports and raises Stop when malformed."""
    return _Evaluator(tokens, span, reporter).value()[0]


Value = tuple[int, bool]
"""A number and whether it is unsigned."""


def _wrap(value: int, unsigned: bool) -> Value:
    """As a 64-bit integer, the type cpp computes in."""
    value %= 1 << 64
    if not unsigned and value >> 63:
        value -= 1 << 64
    return value, unsigned


class _Evaluator:
    def __init__(self, tokens: Sequence[Token], span: Span, reporter: Reporter) -> None:
        self.tokens = tokens
        self.span = span
        self.reporter = reporter
        self.i = 0
        self.depth = 0
        self.idle = 0  # inside the operand that && || ?: leave out

    def value(self) -> Value:
        result = self._ternary()
        if self.i < len(self.tokens):
            token = self.tokens[self.i]
            raise self.reporter.fail(token.span, f"#if: unexpected '{token.text}'")
        return result

    def _peek(self) -> str:
        return self.tokens[self.i].text if self.i < len(self.tokens) else ""

    def _skipping(self, skip: bool, parse: Callable[[], Value]) -> Value:
        self.idle += skip
        try:
            return parse()
        finally:
            self.idle -= skip

    def _ternary(self) -> Value:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise self.reporter.fail(self.span, "#if: expression nested too deeply")
        condition = self._binary(0)
        if self._peek() == "?":
            self.i += 1
            yes = self._skipping(not condition[0], self._ternary)
            if self._peek() != ":":
                raise self.reporter.fail(self.span, "#if: expected ':'")
            self.i += 1
            no = self._skipping(bool(condition[0]), self._ternary)
            chosen = yes if condition[0] else no
            condition = _wrap(chosen[0], yes[1] or no[1])
        self.depth -= 1
        return condition

    def _operator(self, level: int) -> tuple[str, int]:
        """The operator of that level here and its number of tokens, ("", 0) for none."""
        text = self._peek()
        if text == ">":  # P4's lexer leaves >> and >= in two for types' sake
            following = self.tokens[self.i + 1 : self.i + 2]
            if following and following[0].text == ">" and not following[0].after_space:
                return (">>", 2) if ">>" in _LEVELS[level] else ("", 0)
        return (text, 1) if text in _LEVELS[level] else ("", 0)

    def _binary(self, level: int) -> Value:
        if level == len(_LEVELS):
            return self._unary()
        left = self._binary(level + 1)
        while True:
            op, size = self._operator(level)
            if not op:
                return left
            self.i += size
            skip = (op == "&&" and not left[0]) or (op == "||" and bool(left[0]))
            right = self._skipping(skip, lambda: self._binary(level + 1))
            left = self._apply(op, left, right)

    def _apply(self, op: str, a: Value, b: Value) -> Value:
        if op in ("<<", ">>"):
            left, right = a[0], b[0]
            if right < 0:
                op, right = (">>" if op == "<<" else "<<"), -right
            right = min(right, 64)
            return _wrap(left << right if op == "<<" else left >> right, a[1])
        if op in ("&&", "||"):
            both = bool(a[0]) and bool(b[0])
            return int(both if op == "&&" else bool(a[0] or b[0])), False
        unsigned = a[1] or b[1]
        left, right = _wrap(a[0], unsigned)[0], _wrap(b[0], unsigned)[0]
        if op in ("/", "%"):
            if right == 0:
                if self.idle:
                    return 0, unsigned
                raise self.reporter.fail(self.span, "#if: division by zero")
            quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
            return _wrap(quotient if op == "/" else left - right * quotient, unsigned)
        compared = {
            "==": left == right, "!=": left != right, "<": left < right,
            ">": left > right, "<=": left <= right, ">=": left >= right,
        }  # fmt: skip
        if op in compared:
            return int(compared[op]), False
        computed = {
            "|": left | right, "^": left ^ right, "&": left & right,
            "+": left + right, "-": left - right, "*": left * right,
        }  # fmt: skip
        return _wrap(computed[op], unsigned)

    def _unary(self) -> Value:
        if self.i >= len(self.tokens):
            raise self.reporter.fail(self.span, "#if: expression expected")
        signs: list[str] = []
        while self.i < len(self.tokens) and self.tokens[self.i].kind == PUNCT:
            if self.tokens[self.i].text not in ("!", "-", "+", "~"):
                break
            signs.append(self.tokens[self.i].text)
            self.i += 1
        value = self._primary()
        for sign in reversed(signs):
            number, unsigned = value
            value = {
                "!": (int(not number), False),
                "-": _wrap(-number, unsigned),
                "+": value,
                "~": _wrap(~number, unsigned),
            }[sign]
        return value

    def _primary(self) -> Value:
        if self.i >= len(self.tokens):
            raise self.reporter.fail(self.span, "#if: expression expected")
        token = self.tokens[self.i]
        self.i += 1
        if token.text == "(":
            inner = self._ternary()
            if self._peek() != ")":
                raise self.reporter.fail(token.span, "#if: missing ')'")
            self.i += 1
            return inner
        if token.kind == INT:
            return self._number(token)
        if token.kind == IDENT:
            if token.text in ("true", "false"):
                self.reporter.warn(
                    token.span,
                    f"'{token.text}' is a name without a value in #if and counts as 0; "
                    "write 1 or 0",
                    "preprocessor",
                )
            return 0, False
        raise self.reporter.fail(token.span, f"#if: unexpected '{token.text}'")

    def _number(self, token: Token) -> Value:
        match = _NUMBER.match(token.text[:200])
        if match is None:
            raise self.reporter.fail(token.span, f"#if: '{token.text[:40]}' is not an integer")
        for group, base in (("hex", 16), ("bin", 2), ("oct", 8), ("dec", 10)):
            if match[group] is not None:
                value = int(match[group], base)
                if value >= 1 << 64:
                    raise self.reporter.fail(token.span, "#if: the integer is too large")
                unsigned = "u" in match["suffix"].lower() or value >= 1 << 63
                return _wrap(value, unsigned)
        return 0, False
