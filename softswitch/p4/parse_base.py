"""What every part of the parser shares: token access, scopes of type names, types, annotations."""

from __future__ import annotations

from abc import ABC, abstractmethod

from softswitch.p4 import ast
from softswitch.p4.diagnostics import Reporter, Span, Stop, did_you_mean
from softswitch.p4.lexer import EOF, IDENT, INT, STRING, Token, parse_int, parse_string

RESERVED = frozenset(
    [
        "abstract",
        "action",
        "bit",
        "bool",
        "break",
        "const",
        "continue",
        "control",
        "default",
        "else",
        "enum",
        "error",
        "exit",
        "extern",
        "false",
        "for",
        "header",
        "header_union",
        "if",
        "in",
        "inout",
        "int",
        "match_kind",
        "out",
        "package",
        "parser",
        "return",
        "select",
        "string",
        "struct",
        "switch",
        "table",
        "this",
        "transition",
        "true",
        "tuple",
        "typedef",
        "varbit",
        "valueset",
        "void",
    ]
)
BASE_TYPES = frozenset(
    "bit int varbit bool error string tuple list void match_kind".split()  # noqa: SIM905
)
MAX_NESTING = 150


class _Speculation(Exception):
    """An attempt to read the tokens one way failed; another way follows."""


class ParserBase(ABC):
    """Token cursor with one-token error messages."""

    def __init__(self, tokens: list[Token], reporter: Reporter) -> None:
        self.tokens = tokens
        self.reporter = reporter
        self.pos = 0
        self.speculating = 0
        self.depth = 0
        self.scopes: list[dict[str, bool]] = [{}]  # name -> is it a type

    # ---- tokens

    @property
    def token(self) -> Token:
        return self.tokens[self.pos]

    def ahead(self, distance: int = 1) -> Token:
        """The token that many after the current one (the last is EOF)."""
        return self.tokens[min(self.pos + distance, len(self.tokens) - 1)]

    @property
    def previous(self) -> Span:
        return self.tokens[max(0, self.pos - 1)].span

    def at(self, *texts: str) -> bool:
        """Is the current token one of these (and no string)?"""
        token = self.tokens[self.pos]
        return token.text in texts and token.kind != STRING

    def accept(self, text: str) -> bool:
        """Step over the token if it is this one."""
        if self.at(text):
            self.pos += 1
            return True
        return False

    def next(self) -> Token:
        """The current token; the cursor moves on."""
        token = self.tokens[self.pos]
        if token.kind != EOF:
            self.pos += 1
        return token

    def fail(self, message: str, span: Span | None = None) -> Stop:
        """Report a syntax error here (or fail the current attempt); raise what it returns."""
        if self.speculating:
            raise _Speculation
        self.reporter.error(span or self.token.span, message)
        return Stop()

    def expect(self, text: str, context: str = "") -> Token:
        """The next token, which has to be this one."""
        if not self.at(text):
            what = f" {context}" if context else ""
            # A missing semicolon is best shown where it should have been.
            span = None
            if text == ";" and self.pos > 0:
                end = self.previous
                span = Span(
                    end.file, end.end_line, end.end_column, end.end_line, end.end_column + 1
                )
            raise self.fail(f"expected '{text}'{what}, found {self.describe()}", span)
        return self.next()

    def describe(self) -> str:
        """The current token in words."""
        token = self.token
        return "end of file" if token.kind == EOF else f"'{token.text}'"

    def name(self, what: str = "a name") -> Token:
        """An identifier that is no reserved word."""
        token = self.token
        if token.kind != IDENT:
            raise self.fail(f"expected {what}, found {self.describe()}")
        if token.text in RESERVED:
            raise self.fail(f"expected {what}, found the reserved word '{token.text}'")
        return self.next()

    def is_name(self, token: Token) -> bool:
        return token.kind == IDENT and token.text not in RESERVED

    def nest(self) -> None:
        """Enter a nested construct; refuses absurd depth."""
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise self.fail(f"nested deeper than {MAX_NESTING} levels")

    # ---- scopes: which names are types

    def declare(self, name: str, is_type: bool) -> None:
        self.scopes[-1][name] = is_type

    def is_type_name(self, name: str) -> bool:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return False

    # ---- types

    def type_ref(self) -> ast.TypeRef:
        """A type, with type arguments and stack sizes."""
        self.nest()
        start = self.token.span
        ref = self._type_core(start)
        while self.at("["):
            self.next()
            ref.stack.append(self.expression())
            self.expect("]", "after the size of the stack")
        ref.span = start.to(self.previous)
        self.depth -= 1
        return ref

    def _type_core(self, start: Span) -> ast.TypeRef:
        token = self.token
        if (
            token.kind == IDENT
            and token.text in BASE_TYPES
            and not (token.text == "list" and self.ahead().text != "<")
        ):
            self.next()
            ref = ast.TypeRef(start, token.text)
            if token.text in ("bit", "int", "varbit") and self.accept("<"):
                ref.size = self._width()
                self._close_angle()
            elif token.text in ("tuple", "list") and self.at("<"):
                ref.args = self.type_args()
            return ref
        absolute = self.accept(".")
        if self.token.kind == IDENT and self.token.text in RESERVED:
            raise self.fail(f"expected a type, found the reserved word '{self.token.text}'")
        if self.token.kind != IDENT:
            raise self.fail(f"expected a type, found {self.describe()}")
        ref = ast.TypeRef(start, self.next().text, absolute=absolute)
        if self.at("<"):
            ref.args = self.type_args()
        return ref

    def _width(self) -> ast.Expr:
        token = self.token
        if token.kind == INT:
            self.next()
            literal = parse_int(token, self.reporter)
            return ast.IntLit(token.span, literal.value, literal.width, literal.signed)
        if self.accept("("):
            width = self.expression()
            self.expect(")", "after the width")
            return width
        if self.is_name(token):
            self.next()
            return ast.Name(token.span, token.text)
        raise self.fail(f"expected a width, found {self.describe()}")

    def _close_angle(self) -> None:
        self.expect(">", "to close the type")

    def type_args(self) -> list[ast.TypeRef]:
        """`<T, _>`"""
        self.expect("<")
        args: list[ast.TypeRef] = []
        while not self.at(">"):
            if self.at("_"):
                args.append(ast.TypeRef(self.next().span, "_", dont_care=True))
            else:
                args.append(self.type_ref())
            if not self.accept(","):
                break
        self._close_angle()
        return args

    def type_params(self) -> list[ast.TypeParam]:
        """Optional `<T, U>` of a declaration; the names become types of the current scope."""
        params: list[ast.TypeParam] = []
        if self.accept("<"):
            while not self.at(">"):
                token = self.name("a type parameter")
                params.append(ast.TypeParam(token.span, token.text, []))
                self.declare(token.text, True)
                if not self.accept(","):
                    break
            self._close_angle()
        return params

    # ---- annotations

    def annotations(self) -> ast.Annotations:
        """Any number of `@name`, `@name(...)`, `@name[...]`, `@pragma name ...`."""
        found: ast.Annotations = []
        while self.at("@"):
            start = self.next().span
            pragma = self.token.text == "pragma"
            if pragma:
                self.next()
            if self.token.kind != IDENT:
                raise self.fail(f"expected the name of an annotation, found {self.describe()}")
            annotation = ast.Annotation(start, self.next().text)
            if pragma:
                self._pragma_body(annotation)
            elif self.at("(", "["):
                annotation.has_body = True
                self._annotation_body(annotation)
            annotation.span = start.to(self.previous)
            found.append(annotation)
        return found

    def _annotation_body(self, annotation: ast.Annotation) -> None:
        close = ")" if self.at("(") else "]"
        open_text = self.next().text
        begin = self.pos
        level = 1
        texts: list[str] = []
        while True:
            if self.token.kind == EOF:
                raise self.fail(f"annotation @{annotation.name}: missing '{close}'")
            if self.at(open_text):
                level += 1
            elif self.at(close):
                level -= 1
                if level == 0:
                    break
            token = self.next()
            texts.append(token.text)
        end = self.pos
        self.next()
        annotation.tokens = texts
        annotation.text = f"@{annotation.name}{open_text}{' '.join(texts)}{close}"
        self._annotation_args(annotation, begin, end)

    def _pragma_body(self, annotation: ast.Annotation) -> None:
        """What is left of the line, as p4c reads it."""
        begin = self.pos
        while self.token.kind != EOF:
            last, this = self.previous, self.token.span
            if this.file is not last.file or this.line != last.end_line:
                break
            annotation.tokens.append(self.next().text)
        annotation.text = f"@{annotation.name}"
        if annotation.tokens:
            annotation.has_body = True
            annotation.text += f"({' '.join(annotation.tokens)})"
            self._annotation_args(annotation, begin, self.pos)

    def _annotation_args(self, annotation: ast.Annotation, begin: int, end: int) -> None:
        after, depth = self.pos, self.depth
        self.pos = begin
        self.speculating += 1
        try:
            if (
                end - begin > 1
                and self.tokens[begin].kind == IDENT
                and self.tokens[begin + 1].text == "="
            ):
                while self.pos < end:
                    key = self.next().text
                    self.expect("=")
                    annotation.pairs.append((key, self.expression()))
                    if not self.accept(","):
                        break
            else:
                while self.pos < end:
                    annotation.args.append(self.expression())
                    if not self.accept(","):
                        break
        except (_Speculation, Stop):
            annotation.args, annotation.pairs = [], []
        finally:
            self.speculating -= 1
            self.pos, self.depth = after, depth

    # ---- provided by the expression part

    @abstractmethod
    def expression(self) -> ast.Expr:
        """Any expression."""

    def suggest(self, word: str, words: frozenset[str] | list[str]) -> str:
        return did_you_mean(word, words)


__all__ = ["BASE_TYPES", "RESERVED", "ParserBase", "_Speculation", "parse_string"]
