"""Expressions and key sets (spec sections 8 and 12.6)."""

from __future__ import annotations

from softswitch.p4 import ast
from softswitch.p4.diagnostics import Stop
from softswitch.p4.lexer import IDENT, INT, STRING, parse_int
from softswitch.p4.parse_base import BASE_TYPES, ParserBase, _Speculation, parse_string

# Loosest first. In P4 the bit operators bind tighter than the comparisons.
_LEVELS: tuple[tuple[str, ...], ...] = (
    ("||",),
    ("&&",),
    ("==", "!="),
    ("<", ">", "<=", ">="),
    ("|",),
    ("^",),
    ("&",),
    ("<<", ">>"),
    ("++", "+", "-", "|+|", "|-|"),
    ("*", "/", "%"),
)
_TIGHTNESS = {op: level for level, operators in enumerate(_LEVELS) for op in operators}


class ExpressionParser(ParserBase):
    """Recursive descent over the precedence levels."""

    def expression(self) -> ast.Expr:
        self.nest()
        start = self.token.span
        cond = self._binary(0)
        if self.accept("?"):
            yes = self.expression()
            self.expect(":", "in a conditional expression")
            no = self.expression()
            cond = ast.Ternary(start.to(self.previous), cond, yes, no)
        self.depth -= 1
        return cond

    def _operator(self) -> tuple[str, int]:
        """The binary operator here and how tightly it binds; ("", -1) for none."""
        token = self.token
        if token.kind == STRING:
            return "", -1
        text = token.text
        if text == ">":
            following = self.ahead()
            if following.text == ">" and not following.after_space:
                text = ">>"
        return text, _TIGHTNESS.get(text, -1)

    def _binary(self, least: int) -> ast.Expr:
        """Operands joined by operators that bind at least so tightly."""
        start = self.token.span
        left = self._unary()
        while True:
            op, tightness = self._operator()
            if not op or tightness < least:
                return left
            self.next()
            if op == ">>":
                self.next()
            right = self._binary(tightness + 1)
            left = ast.Binary(start.to(self.previous), op, left, right)

    def _unary(self) -> ast.Expr:
        token = self.token
        start = token.span
        if self.at("!", "~", "-", "+"):
            self.nest()
            self.next()
            operand = self._unary()
            self.depth -= 1
            return ast.Unary(start.to(self.previous), token.text, operand)
        if self.at("(") and self._is_cast():
            self.nest()
            self.next()
            ref = self.type_ref()
            self.expect(")", "after the type of the cast")
            operand = self._unary()
            self.depth -= 1
            return ast.Cast(start.to(self.previous), ref, operand)
        return self._postfix(self._primary())

    def _is_cast(self) -> bool:
        token = self.ahead()
        if token.kind != IDENT and token.text != ".":
            return False
        named = self.ahead(2) if token.text == "." else token
        if named.text not in BASE_TYPES and not self.is_type_name(named.text):
            return False
        # `(T)` is a cast, `(T.x)` and `(error.X)` are not.
        saved, depth = self.pos, self.depth
        self.speculating += 1
        try:
            self.pos += 1
            self.type_ref()
            return self.at(")")
        except (_Speculation, Stop):
            return False
        finally:
            self.speculating -= 1
            self.pos, self.depth = saved, depth

    def _primary(self) -> ast.Expr:
        token = self.token
        span = token.span
        if token.kind == INT:
            self.next()
            literal = parse_int(token, self.reporter)
            return ast.IntLit(span, literal.value, literal.width, literal.signed, literal.base)
        if token.kind == STRING:
            self.next()
            return ast.StringLit(span, parse_string(token))
        if token.kind == IDENT:
            return self._named()
        if self.at("."):
            self.next()
            name = self.name()
            if self.is_type_name(name.text):
                ref = ast.TypeRef(span.to(name.span), name.text, absolute=True)
                return ast.TypeExpr(ref.span, ref)
            return ast.Name(span.to(name.span), name.text, absolute=True)
        if self.accept("("):
            inner = self.expression()
            self.expect(")", "to close the parenthesis")
            return inner
        if self.at("{"):
            return self._braces(None)
        if self.at("..."):
            self.next()
            return ast.DefaultExpr(span)
        raise self.fail(f"expected an expression, found {self.describe()}")

    def _named(self) -> ast.Expr:
        token = self.token
        if token.text in ("true", "false"):
            self.next()
            return ast.BoolLit(token.span, token.text == "true")
        if token.text == "this":
            raise self.fail("'this' (abstract methods) is not supported")
        if token.text in BASE_TYPES and token.text != "list":
            ref = self.type_ref()
            if not self.at(".", "{", "("):
                raise self.fail(f"unexpected type '{token.text}' in an expression", token.span)
            if self.at("{"):
                return self._braces(ref)
            return ast.TypeExpr(ref.span, ref)
        self.name("an expression")
        if self.is_type_name(token.text):
            self.pos -= 1
            return self._type_expression()
        return ast.Name(token.span, token.text)

    def _type_expression(self) -> ast.Expr:
        token = self.next()
        ref = ast.TypeRef(token.span, token.text)
        if self.at("<"):
            self.pos -= 1
            ref = self.type_ref()
        if self.at("{"):
            return self._braces(ref)
        return ast.TypeExpr(ref.span, ref)

    def _braces(self, ref: ast.TypeRef | None) -> ast.Expr:
        """`{ a, b }`, `{ x = a, y = b }`, `{}`, `{#}`, `S { x = a }`."""
        self.nest()
        start = ref.span if ref else self.token.span
        self.expect("{")
        result: ast.Expr
        if self.at("#") and not self.token.after_space:
            self.next()
            self.expect("}")
            result = ast.InvalidHeader(start)
            self.depth -= 1
            return result
        rest = False
        if self.token.kind == IDENT and self.ahead().text == "=":
            fields: list[tuple[str, ast.Expr]] = []
            while not self.at("}"):
                if self.accept("..."):
                    rest = True
                    break
                name = self.next()
                if name.kind != IDENT:
                    raise self.fail("expected the name of a field", name.span)
                self.expect("=", "after the name of the field")
                fields.append((name.text, self.expression()))
                if not self.accept(","):
                    break
            result = ast.StructExpr(start, fields, ref, rest)
        else:
            items: list[ast.Expr] = []
            while not self.at("}"):
                if self.accept("..."):
                    rest = True
                    break
                items.append(self.expression())
                if not self.accept(","):
                    break
            result = ast.ListExpr(start, items, rest)
            if ref is not None:
                self.expect("}", "to close the list")
                self.depth -= 1
                result.span = start.to(self.previous)
                return ast.Cast(result.span, ref, result)
        self.expect("}", "to close the list")
        result.span = start.to(self.previous)
        self.depth -= 1
        return result

    def _postfix(self, expr: ast.Expr) -> ast.Expr:
        while True:
            start = expr.span
            if self.at("."):
                self.next()
                token = self.token
                if token.kind != IDENT:
                    raise self.fail(f"expected a member name, found {self.describe()}")
                self.next()
                expr = ast.Member(start.to(token.span), expr, token.text, token.span)
            elif self.at("["):
                self.next()
                first = self.expression()
                if self.accept(":"):
                    low = self.expression()
                    self.expect("]", "after the slice")
                    expr = ast.Slice(start.to(self.previous), expr, first, low)
                elif self.at("+:"):
                    expr = self._part_select(expr, first)
                else:
                    self.expect("]", "after the index")
                    expr = ast.Index(start.to(self.previous), expr, first)
            elif self.at("("):
                args = self.arguments()
                expr = ast.Call(start.to(self.previous), expr, [], args)
            elif self.at("<") and isinstance(expr, (ast.Name, ast.Member)):
                type_args = self._call_type_args()
                if type_args is None:
                    return expr
                args = self.arguments()
                expr = ast.Call(start.to(self.previous), expr, type_args, args)
            else:
                return expr

    def _part_select(self, base: ast.Expr, low: ast.Expr) -> ast.Expr:
        """`x[low +: width]`"""
        self.next()
        width = self.expression()
        self.expect("]", "after the slice")
        above = ast.Binary(width.span, "+", low, width)
        high = ast.Binary(width.span, "-", above, ast.IntLit(width.span, 1))
        return ast.Slice(base.span.to(self.previous), base, high, low)

    def _call_type_args(self) -> list[ast.TypeRef] | None:
        """`<T>` before `(`, when the tokens read that way."""
        saved = self.pos
        depth = self.depth
        self.speculating += 1
        try:
            args = self.type_args()
            if self.at("("):
                return args
        except (_Speculation, Stop):
            pass
        finally:
            self.speculating -= 1
            self.depth = depth
        self.pos = saved
        return None

    def arguments(self) -> list[ast.Argument]:
        """`(a, name = b, _)`"""
        self.expect("(")
        args: list[ast.Argument] = []
        while not self.at(")"):
            start = self.token.span
            name: str | None = None
            if self.token.kind == IDENT and self.ahead().text == "=":
                name = self.next().text
                self.next()
            if self.at("_"):
                self.next()
                args.append(ast.Argument(start, None, name))
            else:
                expr = self.expression()
                args.append(ast.Argument(start.to(self.previous), expr, name))
            if not self.accept(","):
                break
        self.expect(")", "after the arguments")
        return args

    # ---- key sets

    def keyset(self) -> list[ast.Expr]:
        """The left side of a select case or table entry: one element per key."""
        if self.at("("):
            saved, depth = self.pos, self.depth
            self.speculating += 1
            try:
                self.next()
                items = self._keyset_list()
                self.expect(")")
                if self.at(":"):
                    return items
            except (_Speculation, Stop):
                pass
            finally:
                self.speculating -= 1
                self.depth = depth
            self.pos = saved
        return [self._keyset_element()]

    def _keyset_list(self) -> list[ast.Expr]:
        items = [self._keyset_element()]
        while self.accept(","):
            items.append(self._keyset_element())
        return items

    def _keyset_element(self) -> ast.Expr:
        start = self.token.span
        if self.at("default", "_"):
            self.next()
            return ast.DefaultExpr(start)
        left = self.expression()
        if self.accept("&&&"):
            right = self.expression()
            return ast.MaskExpr(start.to(self.previous), left, right)
        if self.accept(".."):
            right = self.expression()
            return ast.RangeExpr(start.to(self.previous), left, right)
        return left
