"""Macros of the preprocessor: their definitions and their expansion (C11 section 6.10.3).

The algorithm is Prosser's: each token carries the names of the macros it came out of (`hidden`),
which are not expanded again. Tokens that come out of a macro carry the place where the outermost
macro was used, so messages point at the user's text.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from softswitch.p4.diagnostics import Reporter, SourceFile, Span, did_you_mean
from softswitch.p4.lexer import IDENT, INT, STRING, Token, tokenize

MAX_TOKENS = 200_000
"""Tokens of a program after expansion, and tokens one expansion may make."""

_MAX_DEPTH = 100
_VA = "__VA_ARGS__"


@dataclass(frozen=True)
class Macro:
    """A macro; params is None for an object-like one."""

    name: str
    params: tuple[str, ...] | None
    body: tuple[Token, ...]
    variadic: bool = False

    def same(self, other: Macro) -> bool:
        """Is it a harmless repetition of the other definition?"""
        return (
            self.params == other.params
            and self.variadic == other.variadic
            and [t.text for t in self.body] == [t.text for t in other.body]
        )


def definition(rest: Sequence[Token], span: Span, reporter: Reporter) -> Macro:
    """The macro that `#define REST` declares."""
    if not rest or rest[0].kind != IDENT:
        raise reporter.fail(span, "#define needs a name")
    name = rest[0].text
    if name in ("defined", _VA, "__has_include"):
        raise reporter.fail(rest[0].span, f"'{name}' cannot be the name of a macro")
    body = list(rest[1:])
    if not body or body[0].text != "(" or body[0].after_space:
        _check_ends(name, body, reporter)
        return Macro(name, None, tuple(body))
    names, end, variadic = _parameters(name, body, span, reporter)
    body = body[end + 1 :]
    _check_ends(name, body, reporter)
    for i, token in enumerate(body):
        following = body[i + 1].text if i + 1 < len(body) else ""
        if token.text == "#" and following not in names:
            raise reporter.fail(
                token.span, f"macro '{name}': '#' has to stand before a parameter"
            )  # fmt: skip
    return Macro(name, tuple(names), tuple(body), variadic)


def _parameters(
    name: str, body: Sequence[Token], span: Span, reporter: Reporter
) -> tuple[list[str], int, bool]:
    """Names, index of the closing parenthesis, and whether the last one takes all the rest."""
    names: list[str] = []
    i = 1
    if i < len(body) and body[i].text == ")":
        return names, i, False
    while i < len(body):
        token = body[i]
        following = body[i + 1].text if i + 1 < len(body) else ""
        if token.text == "...":
            names.append(_VA)
            if following != ")":
                raise reporter.fail(token.span, f"macro '{name}': '...' has to come last")
            return names, i + 1, True
        if token.kind != IDENT:
            raise reporter.fail(token.span, "expected a parameter name")
        if token.text in names:
            raise reporter.fail(token.span, f"parameter '{token.text}' is there twice")
        names.append(token.text)
        if following == "..." and i + 2 < len(body) and body[i + 2].text == ")":
            return names, i + 2, True
        if following == ")":
            return names, i + 1, False
        if following != ",":
            break
        i += 2
    raise reporter.fail(span, f"macro '{name}': missing ')'")


def _check_ends(name: str, body: Sequence[Token], reporter: Reporter) -> None:
    for token in (*body[:1], *body[-1:]):
        if token.text == "##":
            raise reporter.fail(
                token.span, f"macro '{name}': '##' cannot stand at an end of the body"
            )


class Expander:
    """Expands macros; knows the ones defined."""

    def __init__(self, reporter: Reporter) -> None:
        self.reporter = reporter
        self.macros: dict[str, Macro] = {}
        self._counter = 0
        self._made = 0  # tokens substituted for the use being expanded
        self._special = {"__LINE__": self._line, "__FILE__": self._file, "__COUNTER__": self._count}

    def defined(self, name: str) -> bool:
        """Is it a macro?"""
        return name in self.macros or name in self._special

    def _line(self, token: Token) -> Token:
        return _made(INT, str(token.span.line), token)

    def _file(self, token: Token) -> Token:
        name = token.span.file.name.replace("\\", "\\\\").replace('"', '\\"')
        return _made(STRING, f'"{name}"', token)

    def _count(self, token: Token) -> Token:
        self._counter += 1
        return _made(INT, str(self._counter - 1), token)

    def expand(
        self, tokens: Sequence[Token], depth: int = 0, condition: bool = False
    ) -> list[Token]:
        """Macro-expand a run of tokens (which holds no directive).

        In a condition, the operand of `defined` is left alone.
        """
        out: list[Token] = []
        work = list(reversed(tokens))
        while work:
            token = work.pop()
            if depth == 0 and not token.hidden:
                self._made = 0
            if token.kind != IDENT or token.text in token.hidden:
                out.append(token)
                continue
            if condition and token.text == "defined":
                out.append(token)
                out.extend(_operand(work))
                continue
            special = self._special.get(token.text)
            macro = self.macros.get(token.text)
            if macro is None:
                out.append(special(token) if special is not None else token)
                continue
            hidden = token.hidden | {macro.name}
            args: list[list[Token]] = []
            if macro.params is not None:
                if not work or work[-1].text != "(":
                    out.append(token)
                    continue
                args, close = self._arguments(macro, token, work)
                hidden = (token.hidden & close.hidden) | {macro.name}
            if depth > _MAX_DEPTH:
                raise self._endless(macro, token)
            body = self._substitute(macro, args, token, hidden, depth)
            self._made += len(body) + 1
            if self._made > MAX_TOKENS or len(work) + len(body) > MAX_TOKENS:
                raise self._endless(macro, token)
            work.extend(reversed(body))
        return out

    def _endless(self, macro: Macro, token: Token) -> Exception:
        return self.reporter.fail(token.span, f"macro '{macro.name}' expands without end")

    def _arguments(
        self, macro: Macro, name: Token, work: list[Token]
    ) -> tuple[list[list[Token]], Token]:
        """The arguments and the closing parenthesis; takes them off `work`."""
        work.pop()
        args: list[list[Token]] = [[]]
        level = 0
        params = macro.params or ()
        while True:
            if not work:
                raise self.reporter.fail(name.span, f"macro '{macro.name}': missing ')'")
            token = work.pop()
            if token.text == ")" and level == 0 and token.kind != STRING:
                break
            level += {"(": 1, ")": -1}.get(token.text, 0)
            rest = macro.variadic and len(args) >= len(params)
            if token.text == "," and level == 0 and not rest:
                args.append([])
            else:
                args[-1].append(token)
        if not params and args == [[]]:
            return [], token
        short = macro.variadic and len(args) == len(params) - 1
        if len(args) != len(params) and not short:
            count = len(params)
            raise self.reporter.fail(
                name.span,
                f"macro '{macro.name}' takes {count} argument{'s' if count != 1 else ''}, "
                f"got {len(args)}",
            )
        return args + [[]] * (len(params) - len(args)), token

    def _substitute(
        self,
        macro: Macro,
        args: list[list[Token]],
        use: Token,
        hidden: frozenset[str],
        depth: int,
    ) -> list[Token]:
        params = dict(zip(macro.params or (), args, strict=False))
        expanded: dict[str, list[Token]] = {}
        va_name = macro.params[-1] if macro.variadic and macro.params else ""
        out: list[Token] = []
        body = macro.body
        i = 0
        while i < len(body):
            token = body[i]
            following = body[i + 1] if i + 1 < len(body) else None
            if token.text == "#" and macro.params is not None and following is not None:
                text = stringized(params[following.text])
                out.append(_made(STRING, text, use))
                i += 2
                continue
            if token.text == "##" and following is not None:
                raw = params.get(following.text) if following.kind == IDENT else None
                if raw is None:
                    self._paste(out, [following], use)
                elif following.text == va_name and out and out[-1].text == ",":
                    # GNU: the comma goes with an empty rest, and is not pasted to a full one.
                    if raw:
                        out.extend(raw)
                    else:
                        out.pop()
                else:
                    self._paste(out, raw, use)
                i += 2
                continue
            raw = params.get(token.text) if token.kind == IDENT else None
            if raw is None:
                out.append(token)
            elif following is not None and following.text == "##":
                out.extend(raw)
                if not raw:  # nothing to paste to: what follows stands for itself
                    i += 2
                    after = body[i]
                    other = params.get(after.text) if after.kind == IDENT else None
                    out.extend([after] if other is None else other)
            else:
                if token.text not in expanded:
                    expanded[token.text] = self.expand(raw, depth + 1)
                out.extend(expanded[token.text])
            if len(out) > MAX_TOKENS:
                raise self._endless(macro, use)
            i += 1
        return [t.with_span(use.span, t.hidden | hidden) for t in out]

    def _paste(self, out: list[Token], right: list[Token], use: Token) -> None:
        """Join the last token with the first of the right side."""
        if not right:
            return
        if not out:
            out.extend(right)
            return
        left = out.pop()
        text = left.text + right[0].text
        quiet = Reporter()
        made: list[Token] = []
        with contextlib.suppress(Exception):
            made = tokenize(SourceFile("<macro>", text, system=True), quiet)[:-1]
        if len(made) != 1 or quiet.errors:
            raise self.reporter.fail(
                use.span, f"pasting '{left.text[:40]}' and '{right[0].text[:40]}' makes no token"
            )
        out.append(made[0].with_span(use.span, left.hidden & right[0].hidden))
        out.extend(right[1:])

    def suggest(self, name: str) -> str:
        """`; did you mean ...?` among the macros."""
        return did_you_mean(name, self.macros)


def _made(kind: str, text: str, like: Token) -> Token:
    return Token(kind, text, like.span, False, like.after_space, frozenset(), 10)


def _operand(work: list[Token]) -> Iterator[Token]:
    """What `defined` applies to, as it stands."""
    if work and work[-1].text == "(":
        yield work.pop()
        if work:
            yield work.pop()
    if work:
        yield work.pop()


def stringized(tokens: Sequence[Token]) -> str:
    """The string literal that # makes of an argument."""
    parts: list[str] = []
    for n, token in enumerate(tokens):
        if n and token.after_space:
            parts.append(" ")
        text = token.text
        if token.kind == STRING:
            text = text.replace("\\", "\\\\").replace('"', '\\"')
        parts.append(text)
    return '"' + "".join(parts) + '"'
