"""The C preprocessor as p4c's users rely on it: token stream in, token stream out.

`#include`, `#define` (with arguments, `#`, `##`, `...`), `#undef`, all conditionals, `#error`,
`#warning`, `#line` and line markers, `#pragma once` (other pragmas are ignored). `macros.py`
expands macros, `ifexpr.py` evaluates conditions.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from softswitch.p4.diagnostics import (
    BUILTIN,
    P4Error,
    Reporter,
    SourceFile,
    Span,
    Stop,
    did_you_mean,
)
from softswitch.p4.ifexpr import evaluate
from softswitch.p4.lexer import EOF, IDENT, INT, OTHER, STRING, Token, tokenize
from softswitch.p4.macros import MAX_TOKENS, Expander, Macro, definition

MAX_INCLUDE_DEPTH = 64
MAX_INCLUDES = 2_000
"""Files one program may include, each as often as it is included."""

MAX_SOURCE = 16 << 20
"""Bytes of a source file: nobody writes more, and /dev/zero has more."""

_DIRECTIVES = (
    "include", "define", "undef", "if", "ifdef", "ifndef", "elif", "elifdef", "elifndef", "else",
    "endif", "error", "warning", "pragma", "line",
)  # fmt: skip
PREDEFINED = {"__p4c__": "1", "__P4_16__": "1", "__TARGET_BMV2__": "1"}


@dataclass
class _Condition:
    span: Span
    active: bool  # this branch is being read
    taken: bool  # some branch has been read
    parent: bool  # the enclosing text is being read
    seen_else: bool = False


@dataclass
class _File:
    """The file being read. #line makes `shown` another name and numbering for its text."""

    source: SourceFile
    directory: Path
    depth: int
    chain: tuple[Path, ...]
    shown: SourceFile
    conditions: list[_Condition]

    def active(self) -> bool:
        return all(c.active for c in self.conditions[-1:])

    def place(self, token: Token) -> Token:
        """The token with the place messages are to give."""
        if self.shown is self.source:
            return token
        span = token.span
        delta = self.shown.first - self.source.first
        moved = Span(
            self.shown, span.line + delta, span.column, span.end_line + delta, span.end_column
        )
        return Token(
            token.kind, token.text, moved, token.line_start, token.after_space, token.hidden,
            token.base,
        )  # fmt: skip


class Preprocessor:
    """One preprocessing run; `run` gives the tokens the parser reads."""

    def __init__(
        self,
        reporter: Reporter,
        include_dirs: Sequence[Path] = (),
        defines: Mapping[str, str | None] | None = None,
        system_dir: Path | None = None,
    ) -> None:
        """defines: values of macros; None takes a predefined one away (-U)."""
        self.reporter = reporter
        self.include_dirs = list(include_dirs)
        self.system_dir = system_dir
        self.expander = Expander(reporter)
        self.files: list[SourceFile] = []
        self._out: list[Token] = []
        self._once: set[Path] = set()
        self._includes = 0
        for name, value in {**PREDEFINED, **(defines or {})}.items():
            if value is None:
                self.macros.pop(name.partition("(")[0], None)
            else:
                self._define_text(name, value)

    @property
    def macros(self) -> dict[str, Macro]:
        """The macros defined at this point."""
        return self.expander.macros

    def run(self, path: Path, text: str) -> list[Token]:
        """Tokens of a program, ending with EOF."""
        try:
            end = self._file(SourceFile(str(path), plain(text)), path.parent, 0, (path,))
        except Stop:
            self.reporter.check()
            raise
        self._out.append(end)
        return self._out

    def _define_text(self, name: str, value: str) -> None:
        source = SourceFile("<command line>", f"{name} {value}", system=True)
        with contextlib.suppress(Stop):
            tokens = tokenize(source, self.reporter)
            macro = definition(tokens[:-1], tokens[0].span, self.reporter)
            self.macros[macro.name] = macro

    # ---- files and lines

    def _file(
        self, source: SourceFile, directory: Path, depth: int, chain: tuple[Path, ...]
    ) -> Token:
        self.files.append(source)
        tokens = tokenize(source, self.reporter)
        file = _File(source, directory, depth, chain, source, [])
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
                    line = [file.place(t) for t in tokens[i + 1 : j]]
                    self._directive(line, file.place(token), file)
                i = j
                continue
            if file.active():
                if token.kind == OTHER and token.text == '"':
                    place = file.place(token).span
                    self.reporter.error(place, "string without a closing quote")
                run.append(file.place(token))
            i += 1
        self._flush(run)
        for condition in file.conditions:
            self.reporter.error(condition.span, "conditional without #endif")
        return file.place(tokens[-1])

    def _flush(self, run: list[Token]) -> None:
        if run:
            with contextlib.suppress(Stop):
                self._out.extend(self.expander.expand(run))
            run.clear()
            if len(self._out) > MAX_TOKENS:
                self.reporter.error(self._out[-1].span, f"more than {MAX_TOKENS} tokens")
                raise P4Error(self.reporter.errors)

    def _directive(self, line: list[Token], hash_token: Token, file: _File) -> None:
        if not line:
            return
        name, rest, span = line[0].text, line[1:], line[0].span
        if name in ("if", "ifdef", "ifndef"):
            active = file.active()
            value = active and self._condition(name, rest, span, file)
            file.conditions.append(_Condition(hash_token.span, value, value, active))
        elif name in ("elif", "elifdef", "elifndef", "else", "endif"):
            self._branch(name, rest, span, file)
        elif file.active():
            self._active(name, rest, line[0], file)

    def _branch(self, name: str, rest: list[Token], span: Span, file: _File) -> None:
        if not file.conditions:
            raise self.reporter.fail(span, f"#{name} without #if")
        top = file.conditions[-1]
        if name == "endif":
            file.conditions.pop()
            return
        if top.seen_else:
            raise self.reporter.fail(span, f"#{name} after #else")
        if name == "else":
            top.seen_else = True
            top.active = top.parent and not top.taken
        elif top.taken or not top.parent:
            top.active = False
        else:
            top.active = False  # also when the condition turns out to be malformed
            top.active = self._condition(name[2:], rest, span, file)
        top.taken = top.taken or top.active

    def _active(self, name: str, rest: list[Token], word: Token, file: _File) -> None:
        """A directive that is no conditional, in text that is being read."""
        span = word.span
        if name == "include":
            self._include(rest, span, file)
        elif name == "define":
            self._define(rest, span)
        elif name == "undef":
            if len(rest) != 1 or rest[0].kind != IDENT:
                raise self.reporter.fail(span, "#undef needs one name")
            self.macros.pop(rest[0].text, None)
        elif name in ("error", "warning"):
            text = f"#{name} {_raw(word)}".rstrip()
            if name == "error":
                self.reporter.error(span, text)
            else:
                self.reporter.warn(span, text, "preprocessor")
        elif name == "pragma":
            if rest and rest[0].text == "once":
                self._once.add(file.chain[-1])
        elif name == "line":
            self._line(self.expander.expand(rest), word, file)
        elif word.kind == INT:
            self._line([word, *rest], word, file)
        elif name != "ident":
            hint = did_you_mean(name, _DIRECTIVES)
            self.reporter.error(span, f"unknown directive #{name[:40]}{hint}")

    def _line(self, rest: list[Token], word: Token, file: _File) -> None:
        """`#line 12 "other.p4"`: number and file of the next line."""
        if not rest or rest[0].kind != INT or not rest[0].text.isdigit():
            raise self.reporter.fail(word.span, '#line needs a number: #line 12 "file"')
        number = int(rest[0].text[:9])
        name = file.shown.name
        if len(rest) > 1:
            if rest[1].kind != STRING:
                raise self.reporter.fail(rest[1].span, '#line: the file has to be a "name"')
            name = rest[1].text[1:-1]
        physical = word.span.line - file.shown.first + 1
        shown = SourceFile(name, file.source.text, system=file.source.system)
        shown.first = number - physical
        file.shown = shown

    def _define(self, rest: list[Token], span: Span) -> None:
        macro = definition(rest, span, self.reporter)
        old = self.macros.get(macro.name)
        if old is not None and not macro.same(old):
            self.reporter.warn(
                rest[0].span, f"macro '{macro.name}' is defined again, differently", "preprocessor"
            )
        self.macros[macro.name] = macro

    # ---- includes

    def _include(self, rest: list[Token], span: Span, file: _File) -> None:
        self._includes += 1
        if self._includes > MAX_INCLUDES:
            self.reporter.error(span, f"more than {MAX_INCLUDES} files included")
            raise P4Error(self.reporter.errors)
        if rest and rest[0].kind == IDENT:
            rest = self.expander.expand(rest)
        name, quoted = self._included_name(rest, span)
        shown = rest[0].span.to(rest[-1].span)
        for path, system in self._candidates(name, quoted, file.directory):
            try:
                if not path.is_file():
                    continue
                if path in self._once:
                    return
                if file.depth >= MAX_INCLUDE_DEPTH:
                    cycle = path in file.chain
                    raise self.reporter.fail(
                        shown,
                        f"includes nested deeper than {MAX_INCLUDE_DEPTH}"
                        + (f": '{name}' includes itself; put #ifndef around it" if cycle else ""),
                    )
                text = read_source(path)
            except (OSError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) else str(error)
                raise self.reporter.fail(shown, f"cannot read '{name}': {reason}") from None
            label = f"<{name}>" if system else str(path)
            source = SourceFile(label, plain(text), system=system)
            self._file(source, path.parent, file.depth + 1, (*file.chain, path))
            return
        folders = [file.directory] if quoted else []
        folders += self.include_dirs
        folders += [self.system_dir] if self.system_dir is not None else []
        known: list[str] = []
        with contextlib.suppress(OSError):
            known = [p.name for f in folders if f.is_dir() for p in f.glob("*.p4")]
        hint = did_you_mean(name, known)
        where = ", ".join(str(f) for f in folders if f != self.system_dir)
        raise self.reporter.fail(
            shown,
            f"include file '{name[:200]}' not found{hint}"
            + (f" (looked in {where})" if where and not hint else ""),
        )

    def _included_name(self, rest: list[Token], span: Span) -> tuple[str, bool]:
        if rest and rest[0].kind == STRING and len(rest[0].text) > 2:
            return rest[0].text[1:-1], True
        if len(rest) >= 3 and rest[0].text == "<":
            end = next((i for i, t in enumerate(rest) if t.text == ">"), None)
            if end is not None and end > 1:
                first, last = rest[0].span, rest[end].span
                if first.line == last.line and first.column < last.column:
                    text = first.file.line(first.line)[first.column : last.column - 1]
                    return text.strip(), False
                return "".join(t.text for t in rest[1:end]), False  # out of a macro
        raise self.reporter.fail(span, '#include needs <file> or "file"')

    def _candidates(self, name: str, quoted: bool, directory: Path) -> Iterator[tuple[Path, bool]]:
        """Where an included file can be, and whether it would come with the compiler."""
        if "\0" in name:
            return
        if quoted:
            yield directory / name, False
        for folder in self.include_dirs:
            yield folder / name, False
        if self.system_dir is not None:
            yield self.system_dir / name, True

    # ---- conditions

    def _condition(self, kind: str, rest: list[Token], span: Span, file: _File) -> bool:
        if kind in ("ifdef", "ifndef", "def", "ndef"):
            if not rest or rest[0].kind != IDENT:
                raise self.reporter.fail(span, f"#{kind} needs a name")
            return self.expander.defined(rest[0].text) == (kind in ("ifdef", "def"))
        # The operand of `defined` is not expanded, here or in what macros give.
        expanded = self.expander.expand(self._resolved(rest, file), condition=True)
        return evaluate(self._resolved(expanded, file), span, self.reporter) != 0

    def _resolved(self, tokens: list[Token], file: _File) -> list[Token]:
        """Tokens with `defined X` and `__has_include(...)` replaced by 0 or 1."""
        out: list[Token] = []
        i = 0
        while i < len(tokens):
            token = tokens[i]
            if token.text == "defined" and token.kind == IDENT:
                value, i = self._defined(tokens, i)
            elif token.text == "__has_include" and token.kind == IDENT:
                value, i = self._has_include(tokens, i, file)
            else:
                out.append(token)
                i += 1
                continue
            out.append(
                Token(INT, str(int(value)), token.span, False, True, frozenset(), 10)
            )  # fmt: skip
        return out

    def _defined(self, tokens: list[Token], i: int) -> tuple[bool, int]:
        texts = [t.text for t in tokens[i + 1 : i + 4]]
        paren = texts[:1] == ["("]
        at = i + 2 if paren else i + 1
        if at >= len(tokens) or tokens[at].kind != IDENT:
            raise self.reporter.fail(tokens[i].span, "'defined' needs a name")
        if paren and texts[2:] != [")"]:
            raise self.reporter.fail(tokens[i].span, "'defined': missing ')'")
        return self.expander.defined(tokens[at].text), at + (2 if paren else 1)

    def _has_include(self, tokens: list[Token], i: int, file: _File) -> tuple[bool, int]:
        inner = tokens[i + 2 :]
        end = next((n for n, t in enumerate(inner) if t.text == ")"), None)
        if i + 1 >= len(tokens) or tokens[i + 1].text != "(" or end is None:
            raise self.reporter.fail(tokens[i].span, "'__has_include' needs (<file>)")
        name, quoted = self._included_name(inner[:end], tokens[i].span)
        with contextlib.suppress(OSError, ValueError):
            found = any(p.is_file() for p, _ in self._candidates(name, quoted, file.directory))
            return found, i + 2 + end + 1
        return False, i + 2 + end + 1


def read_source(path: Path) -> str:
    """The text of a file of up to MAX_SOURCE bytes; raises OSError, or ValueError with why."""
    with path.open("rb") as file:
        data = file.read(MAX_SOURCE + 1)
    if len(data) > MAX_SOURCE:
        raise ValueError(f"longer than {MAX_SOURCE >> 20} MiB")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 text (byte {error.start})") from None


def plain(text: str) -> str:
    """The text without a byte order mark, and with line ends where it has old ones."""
    text = text.removeprefix("\ufeff")
    return text.replace("\r", "\n") if "\r" in text and "\n" not in text else text


def _raw(word: Token) -> str:
    """The rest of the line after a word, as written."""
    line = word.span.file.line(word.span.line)
    return line[word.span.end_column - 1 :].strip()


__all__ = ["BUILTIN", "Macro", "Preprocessor"]
