"""The C preprocessor as P4 uses it: token stream in, token stream out.

`#include`, `#define` (with arguments, `#`, `##`), `#undef`, the conditionals, `#error`,
`#warning`; `#pragma` and `#line` are ignored. Tokens that come out of a macro carry the place
where the macro is used, so messages point at the user's text.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from softswitch.p4.diagnostics import BUILTIN, Reporter, SourceFile, Span, Stop, did_you_mean
from softswitch.p4.lexer import EOF, IDENT, INT, PUNCT, STRING, Token, parse_int, tokenize

MAX_INCLUDE_DEPTH = 64
MAX_TOKENS = 200_000
_MAX_EXPANSION_DEPTH = 100


@dataclass(frozen=True)
class Macro:
    """A macro; params is None for an object-like one."""

    name: str
    params: tuple[str, ...] | None
    body: tuple[Token, ...]
    variadic: bool = False


@dataclass
class _Condition:
    span: Span
    active: bool  # this branch is being read
    taken: bool  # some branch has been read
    parent: bool  # the enclosing text is being read
    seen_else: bool = False


class Preprocessor:
    """One preprocessing run; `run` gives the tokens the parser reads."""

    def __init__(
        self,
        reporter: Reporter,
        include_dirs: Sequence[Path] = (),
        defines: Mapping[str, str] | None = None,
        system_dir: Path | None = None,
    ) -> None:
        self.reporter = reporter
        self.include_dirs = list(include_dirs)
        self.system_dir = system_dir
        self.macros: dict[str, Macro] = {}
        self.files: list[SourceFile] = []
        self._out: list[Token] = []
        for name, value in {"__p4c__": "1", "__P4_16__": "1", **(defines or {})}.items():
            self._define_text(name, value)

    def run(self, path: Path, text: str) -> list[Token]:
        """Tokens of a program, ending with EOF."""
        try:
            end = self._file(SourceFile(str(path), text), path.parent, 0)
        except Stop:
            self.reporter.check()
            raise
        self._out.append(end)
        return self._out

    def _define_text(self, name: str, value: str) -> None:
        tokens = tokenize(SourceFile("<command line>", value, system=True), self.reporter)[:-1]
        self.macros[name] = Macro(name, None, tuple(tokens))

    # ---- files and lines

    def _file(self, source: SourceFile, directory: Path, depth: int) -> Token:
        self.files.append(source)
        tokens = tokenize(source, self.reporter)
        conditions: list[_Condition] = []
        run: list[Token] = []
        i = 0
        while tokens[i].kind != EOF:
            token = tokens[i]
            if token.line_start and token.text == "#":
                self._flush(run)
                j = i + 1
                while tokens[j].kind != EOF and not tokens[j].line_start:
                    j += 1
                with contextlib.suppress(Stop):
                    self._directive(tokens[i + 1 : j], token, conditions, directory, depth)
                i = j
                continue
            if all(c.active for c in conditions[-1:]):
                run.append(token)
            i += 1
        self._flush(run)
        for condition in conditions:
            self.reporter.error(condition.span, "conditional without #endif")
        return tokens[-1]

    def _flush(self, run: list[Token]) -> None:
        if run:
            self._out.extend(self.expand(run))
            run.clear()
            if len(self._out) > MAX_TOKENS:
                raise self.reporter.fail(self._out[-1].span, f"more than {MAX_TOKENS} tokens")

    def _directive(
        self,
        line: list[Token],
        hash_token: Token,
        conditions: list[_Condition],
        directory: Path,
        depth: int,
    ) -> None:
        if not line:
            return
        name, rest, span = line[0].text, line[1:], line[0].span
        active = all(c.active for c in conditions[-1:])
        if name in ("if", "ifdef", "ifndef"):
            value = active and self._condition(name, rest, span)
            conditions.append(_Condition(hash_token.span, value, value, active))
            return
        if name in ("elif", "else", "endif"):
            if not conditions:
                raise self.reporter.fail(span, f"#{name} without #if")
            top = conditions[-1]
            if name == "endif":
                conditions.pop()
                return
            if top.seen_else:
                raise self.reporter.fail(span, f"#{name} after #else")
            if name == "else":
                top.seen_else = True
                top.active = top.parent and not top.taken
            elif top.taken or not top.parent:
                top.active = False
            else:
                top.active = self._condition("if", rest, span)
            top.taken = top.taken or top.active
            return
        if not active:
            return
        if name == "include":
            self._include(rest, span, directory, depth)
        elif name == "define":
            self._define(rest, span)
        elif name == "undef":
            if len(rest) != 1 or rest[0].kind != IDENT:
                raise self.reporter.fail(span, "#undef needs one name")
            self.macros.pop(rest[0].text, None)
        elif name in ("error", "warning"):
            text = " ".join(t.text for t in rest)
            if name == "error":
                self.reporter.error(span, f"#error {text}")
            else:
                self.reporter.warn(span, f"#warning {text}", "preprocessor")
        elif name not in ("pragma", "line", "ident"):
            known = ("include", "define", "undef", "if", "ifdef", "ifndef", "elif", "else")
            self.reporter.error(span, f"unknown directive #{name}{did_you_mean(name, known)}")

    def _include(self, rest: list[Token], span: Span, directory: Path, depth: int) -> None:
        if depth >= MAX_INCLUDE_DEPTH:
            raise self.reporter.fail(span, f"includes nested deeper than {MAX_INCLUDE_DEPTH}")
        if rest and rest[0].kind == IDENT:
            rest = self.expand(rest)
        if rest and rest[0].kind == STRING:
            name, quoted = rest[0].text[1:-1], True
        elif len(rest) >= 3 and rest[0].text == "<" and any(t.text == ">" for t in rest):
            end = next(i for i, t in enumerate(rest) if t.text == ">")
            name, quoted = "".join(t.text for t in rest[1:end]), False
        else:
            raise self.reporter.fail(span, '#include needs <file> or "file"')
        dirs = [(directory, False)] if quoted else []
        dirs += [(d, False) for d in self.include_dirs]
        if self.system_dir is not None:
            dirs.append((self.system_dir, True))
        for folder, system in dirs:
            path = folder / name
            try:
                if not path.is_file():
                    continue
                text = path.read_text("utf-8")
            except (OSError, ValueError) as error:
                raise self.reporter.fail(rest[0].span, f"cannot read '{name}': {error}") from None
            shown = f"<{name}>" if system else str(path)
            self._file(SourceFile(shown, text, system=system), path.parent, depth + 1)
            return
        known = [p.name for folder, _ in dirs if folder.is_dir() for p in folder.glob("*.p4")]
        raise self.reporter.fail(
            rest[0].span.to(rest[-1].span),
            f"include file '{name}' not found{did_you_mean(name, known)}",
        )

    def _define(self, rest: list[Token], span: Span) -> None:
        if not rest or rest[0].kind != IDENT:
            raise self.reporter.fail(span, "#define needs a name")
        name = rest[0].text
        params: tuple[str, ...] | None = None
        body = rest[1:]
        variadic = False
        if body and body[0].text == "(" and not body[0].after_space:
            names: list[str] = []
            i = 1
            while i < len(body) and body[i].text != ")":
                if body[i].text == "...":
                    variadic = True
                    names.append("__VA_ARGS__")
                elif body[i].kind == IDENT:
                    names.append(body[i].text)
                elif body[i].text != ",":
                    raise self.reporter.fail(body[i].span, "expected a parameter name")
                i += 1
            if i >= len(body):
                raise self.reporter.fail(span, f"macro '{name}': missing ')'")
            params, body = tuple(names), body[i + 1 :]
        self.macros[name] = Macro(name, params, tuple(body), variadic)

    # ---- conditions

    def _condition(self, kind: str, rest: list[Token], span: Span) -> bool:
        if kind != "if":
            if not rest or rest[0].kind != IDENT:
                raise self.reporter.fail(span, f"#{kind} needs a name")
            return (rest[0].text in self.macros) == (kind == "ifdef")
        resolved: list[Token] = []
        i = 0
        while i < len(rest):
            token = rest[i]
            if token.text == "defined":
                inner = [t for t in rest[i + 1 : i + 4] if t.text not in ("(", ")")][:1]
                if not inner or inner[0].kind != IDENT:
                    raise self.reporter.fail(token.span, "'defined' needs a name")
                has_paren = i + 1 < len(rest) and rest[i + 1].text == "("
                i += 4 if has_paren else 2
                value = "1" if inner[0].text in self.macros else "0"
                resolved.append(Token(INT, value, token.span, False, True, frozenset(), 10))
                continue
            resolved.append(token)
            i += 1
        return _Conditional(self.expand(resolved), span, self.reporter).value() != 0

    # ---- expansion

    def expand(self, tokens: Sequence[Token], depth: int = 0) -> list[Token]:
        """Macro-expand a run of tokens (which holds no directive)."""
        out: list[Token] = []
        work = list(reversed(tokens))
        steps = 0
        while work:
            token = work.pop()
            macro = self.macros.get(token.text) if token.kind == IDENT else None
            if macro is None or macro.name in token.hidden:
                out.append(token)
                continue
            steps += 1
            if steps > MAX_TOKENS or len(out) > MAX_TOKENS or depth > _MAX_EXPANSION_DEPTH:
                raise self.reporter.fail(token.span, f"macro '{macro.name}' expands without end")
            args: list[list[Token]] = []
            if macro.params is not None:
                if not work or work[-1].text != "(":
                    out.append(token)
                    continue
                args = self._arguments(macro, token, work)
            hidden = token.hidden | {macro.name}
            body = self._substitute(macro, args, token, hidden, depth)
            if len(work) + len(body) > MAX_TOKENS:
                raise self.reporter.fail(token.span, f"macro '{macro.name}' expands without end")
            work.extend(reversed(body))
        return out

    def _arguments(self, macro: Macro, name: Token, work: list[Token]) -> list[list[Token]]:
        work.pop()
        args: list[list[Token]] = [[]]
        level = 0
        params = macro.params or ()
        while True:
            if not work:
                raise self.reporter.fail(name.span, f"macro '{macro.name}': missing ')'")
            token = work.pop()
            if token.text == ")" and level == 0:
                break
            level += {"(": 1, ")": -1}.get(token.text, 0)
            rest = macro.variadic and len(args) >= len(params)
            if token.text == "," and level == 0 and not rest:
                args.append([])
            else:
                args[-1].append(token)
        if not params and args == [[]]:
            return []
        if len(args) != len(params) and not (macro.variadic and len(args) == len(params) - 1):
            raise self.reporter.fail(
                name.span, f"macro '{macro.name}' takes {len(params)} arguments, got {len(args)}"
            )
        return args + [[]] * (len(params) - len(args))

    def _substitute(
        self,
        macro: Macro,
        args: list[list[Token]],
        use: Token,
        hidden: frozenset[str],
        depth: int,
    ) -> list[Token]:
        params = dict(zip(macro.params or (), args, strict=False))
        out: list[Token] = []
        body = macro.body
        i = 0
        while i < len(body):
            token = body[i]
            if token.text == "#" and i + 1 < len(body) and body[i + 1].text in params:
                text = "".join(
                    (" " if t.after_space and n else "") + t.text
                    for n, t in enumerate(params[body[i + 1].text])
                )
                text = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
                out.append(Token(STRING, text, use.span, False, True, hidden, 10))
                i += 2
                continue
            if token.text == "##" and out and i + 1 < len(body):
                right = params.get(body[i + 1].text, [body[i + 1]])
                out.extend(self._paste(out.pop(), list(right), use.span, hidden))
                i += 2
                continue
            if token.text in params and token.kind == IDENT:
                argument = params[token.text]
                pasted = i + 1 < len(body) and body[i + 1].text == "##"
                out.extend(argument if pasted else self.expand(argument, depth + 1))
            else:
                out.append(token.with_span(use.span, token.hidden | hidden))
            i += 1
        return out

    def _paste(
        self, left: Token, right: list[Token], span: Span, hidden: frozenset[str]
    ) -> list[Token]:
        if not right:
            return [left]
        text = left.text + right[0].text
        made = tokenize(SourceFile("<macro>", text, system=True), self.reporter)[:-1]
        return [t.with_span(span, hidden) for t in made] + right[1:]


class _Conditional:
    """Evaluates the integer expression of an #if."""

    _LEVELS = (
        ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="),
        ("<", ">", "<=", ">="), ("<<", ">>"), ("+", "-"), ("*", "/", "%"),
    )  # fmt: skip

    def __init__(self, tokens: list[Token], span: Span, reporter: Reporter) -> None:
        self.tokens = tokens
        self.span = span
        self.reporter = reporter
        self.i = 0
        self.depth = 0

    def value(self) -> int:
        result = self._ternary()
        if self.i < len(self.tokens):
            raise self.reporter.fail(self.tokens[self.i].span, "unexpected text in #if")
        return result

    def _peek(self) -> str:
        return self.tokens[self.i].text if self.i < len(self.tokens) else ""

    def _ternary(self) -> int:
        condition = self._binary(0)
        if self._peek() != "?":
            return condition
        self.i += 1
        yes = self._ternary()
        if self._peek() != ":":
            raise self.reporter.fail(self.span, "#if: expected ':'")
        self.i += 1
        no = self._ternary()
        return yes if condition else no

    def _binary(self, level: int) -> int:
        if level == len(self._LEVELS):
            return self._unary()
        left = self._binary(level + 1)
        while self._peek() in self._LEVELS[level] or (
            self._peek() == ">" and ">>" in self._LEVELS[level] and self._double_gt()
        ):
            op = self._peek()
            if op == ">" and self._double_gt():
                if ">>" not in self._LEVELS[level]:
                    break
                op = ">>"
                self.i += 1
            self.i += 1
            right = self._binary(level + 1)
            left = self._apply(op, left, right)
        return left

    def _double_gt(self) -> bool:
        following = self.tokens[self.i + 1 : self.i + 2]
        return bool(following) and following[0].text == ">" and not following[0].after_space

    def _apply(self, op: str, left: int, right: int) -> int:
        if op in ("/", "%"):
            if right == 0:
                raise self.reporter.fail(self.span, "#if: division by zero")
            quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
            return quotient if op == "/" else left - right * quotient
        if op in ("<<", ">>"):
            right = max(0, min(right, 64))
            return left << right & ((1 << 128) - 1) if op == "<<" else left >> right
        table = {
            "||": int(bool(left or right)), "&&": int(bool(left and right)),
            "|": left | right, "^": left ^ right, "&": left & right,
            "==": int(left == right), "!=": int(left != right), "<": int(left < right),
            ">": int(left > right), "<=": int(left <= right), ">=": int(left >= right),
            "+": left + right, "-": left - right, "*": left * right % (1 << 128),
        }  # fmt: skip
        return table[op]

    def _unary(self) -> int:
        self.depth += 1
        if self.depth > 200:
            raise self.reporter.fail(self.span, "#if: expression nested too deeply")
        if self.i >= len(self.tokens):
            raise self.reporter.fail(self.span, "#if: expression expected")
        token = self.tokens[self.i]
        self.i += 1
        try:
            if token.kind == PUNCT and token.text in ("!", "-", "+", "~"):
                inner = self._unary()
                return {"!": int(not inner), "-": -inner, "+": inner, "~": ~inner}[token.text]
            if token.text == "(":
                inner = self._ternary()
                if self._peek() != ")":
                    raise self.reporter.fail(token.span, "#if: missing ')'")
                self.i += 1
                return inner
            if token.kind == INT:
                return parse_int(token, self.reporter).value
            if token.kind == IDENT:
                return 1 if token.text == "true" else 0
        finally:
            self.depth -= 1
        raise self.reporter.fail(token.span, f"#if: unexpected '{token.text}'")


__all__ = ["BUILTIN", "Macro", "Preprocessor"]
