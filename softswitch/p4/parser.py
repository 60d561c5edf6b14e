"""Top-level declarations: tokens -> syntax tree (spec section 7 and 10 to 17)."""

from __future__ import annotations

from softswitch.p4 import ast
from softswitch.p4.diagnostics import Reporter, Span, Stop
from softswitch.p4.lexer import EOF, IDENT, Token
from softswitch.p4.parse_base import BASE_TYPES
from softswitch.p4.parse_stmt import StatementParser

_TOP_WORDS = (
    "const", "extern", "action", "parser", "control", "package", "header", "header_union",
    "struct", "enum", "typedef", "type", "error", "match_kind", "table", "state",
)  # fmt: skip


def parse(tokens: list[Token], reporter: Reporter) -> ast.Program:
    """The syntax tree of a program; raises P4Error after a syntax error."""
    parser = Parser(tokens, reporter)
    decls: list[ast.Decl] = []
    try:
        while parser.token.kind != EOF:
            decls.extend(parser.declaration())
    except Stop:
        reporter.check()
    reporter.check()
    return ast.Program(tokens[0].span, decls)


class Parser(StatementParser):
    """Adds the declarations."""

    def declaration(self) -> list[ast.Decl]:
        """One top-level declaration (none for a stray semicolon)."""
        if self.accept(";"):
            return []
        annotations = self.annotations()
        token = self.token
        if token.kind != IDENT and token.text != ".":
            raise self.fail(f"expected a declaration, found {self.describe()}")
        word = token.text
        if word in ("header", "struct", "header_union"):
            return [self._struct(annotations)]
        if word == "typedef" or (word == "type" and self.ahead().text not in ("(", "=", ";")):
            return [self._typedef(annotations)]
        if word == "enum":
            return [self._enum(annotations)]
        if word == "error" and self.ahead().text == "{":
            self.next()
            return [ast.ErrorDecl(token.span, "error", annotations, self._members(False))]
        if word == "match_kind":
            self.next()
            return [ast.MatchKindDecl(token.span, "match_kind", annotations, self._members(False))]
        if word == "extern":
            return [self._extern(annotations)]
        if word == "action":
            return [self._action(annotations)]
        if word == "parser":
            return [self._parser(annotations)]
        if word == "control":
            return [self._control(annotations)]
        if word == "package":
            return [self._package(annotations)]
        if self._is_function():
            return [self._function(annotations)]
        if (
            word not in BASE_TYPES
            and word != "const"
            and not self.is_type_name(word)
            and self.ahead().text in ("{", "(")
            and (hint := self.suggest(word, list(_TOP_WORDS)))
        ):
            raise self.fail(f"expected a declaration, found '{word}'{hint}")
        return [self._checked_top(annotations)]

    def _checked_top(self, annotations: ast.Annotations) -> ast.Decl:
        decl = self.local_declaration(annotations)
        if isinstance(decl, ast.VarDecl):
            raise self.fail(
                "variables cannot be declared at the top level; use 'const' or declare it in a "
                "parser, control or action",
                decl.span,
            )
        return decl

    # ---- types

    def _struct(self, annotations: ast.Annotations) -> ast.StructLike:
        kind = self.next().text
        name = self.name(f"the name of the {kind}")
        self.declare(name.text, True)
        self.scopes.append({})
        params = self.type_params()
        self.expect("{", f"to open the {kind}")
        fields: list[ast.FieldDecl] = []
        while not self.at("}"):
            notes = self.annotations()
            ref = self.type_ref()
            field = self.token
            if field.kind != IDENT:
                raise self.fail(f"expected the name of a field, found {self.describe()}")
            self.next()
            self.expect(";", "after the field")
            fields.append(ast.FieldDecl(field.span, field.text, notes, ref))
        self.next()
        self.scopes.pop()
        return ast.StructLike(name.span, name.text, annotations, kind, params, fields)

    def _typedef(self, annotations: ast.Annotations) -> ast.TypedefDecl:
        is_new = self.next().text == "type"
        annotations = annotations + self.annotations()
        ref = self.type_ref()
        name = self.name("the name of the type")
        self.expect(";", "after the type")
        self.declare(name.text, True)
        return ast.TypedefDecl(name.span, name.text, annotations, ref, is_new)

    def _enum(self, annotations: ast.Annotations) -> ast.EnumDecl:
        self.next()
        ref: ast.TypeRef | None = None
        if self.at(*BASE_TYPES) or self.is_name(self.ahead()):
            ref = self.type_ref()
        name = self.name("the name of the enum")
        self.declare(name.text, True)
        return ast.EnumDecl(name.span, name.text, annotations, ref, self._members(ref is not None))

    def _members(self, values: bool) -> list[ast.EnumMemberDecl]:
        self.expect("{", "to open the list of members")
        members: list[ast.EnumMemberDecl] = []
        while not self.at("}"):
            notes = self.annotations()
            token = self.token
            if token.kind != IDENT:
                raise self.fail(f"expected the name of a member, found {self.describe()}")
            self.next()
            init = None
            if values:
                self.expect("=", "and the value of the member")
                init = self.expression()
            members.append(ast.EnumMemberDecl(token.span, token.text, notes, init))
            if not self.accept(","):
                break
        self.expect("}", "to close the list of members")
        return members

    # ---- parameters, functions, externs

    def params(self) -> list[ast.Param]:
        """`(in T a, out U b = 3)`; the names are values of the current scope."""
        self.expect("(", "to open the parameters")
        params: list[ast.Param] = []
        while not self.at(")"):
            notes = self.annotations()
            direction = self.next().text if self.at("in", "out", "inout") else ""
            ref = self.type_ref()
            token = self.token
            if token.kind != IDENT:
                raise self.fail(f"expected the name of a parameter, found {self.describe()}")
            self.next()
            default = self.expression() if self.accept("=") else None
            params.append(
                ast.Param(token.span, token.text, notes, direction, ref, default, None, ref.span)
            )
            self.declare(token.text, False)
            if not self.accept(","):
                break
        self.expect(")", "after the parameters")
        return params

    def _is_function(self) -> bool:
        """Does a function declaration `T name<..>(..) {` start here?"""
        saved, depth = self.pos, self.depth
        self.speculating += 1
        try:
            self.type_ref()
            if not self.is_name(self.token):
                return False
            self.next()
            return self.at("(", "<")
        except Exception:
            return False
        finally:
            self.speculating -= 1
            self.pos, self.depth = saved, depth

    def _function(self, annotations: ast.Annotations, is_extern: bool = False) -> ast.FunctionDecl:
        self.scopes.append({})
        returns_at = self.pos
        # `T f<T>(...)` uses T before declaring it: read the type parameters first.
        self._predeclare_type_params()
        self.pos = returns_at
        returns = self.type_ref()
        name = self.name("the name of the function")
        type_params = self.type_params()
        params = self.params()
        body = None
        if is_extern:
            self.expect(";", "after the function")
        else:
            body = self.block()
        self.scopes.pop()
        self.declare(name.text, False)
        return ast.FunctionDecl(
            name.span, name.text, annotations, type_params, returns, params, body, is_extern
        )

    def _predeclare_type_params(self) -> None:
        depth = self.depth
        self.speculating += 1
        try:
            self.type_ref()
            self.name()
            self.type_params()
        except Exception:
            pass
        finally:
            self.speculating -= 1
            self.depth = depth

    def _extern(self, annotations: ast.Annotations) -> ast.Decl:
        start = self.next().span
        if self.is_name(self.token) and self._is_extern_object():
            return self._extern_object(annotations)
        function = self._function(annotations, True)
        function.span = start if function.span is None else function.span
        return function

    def _is_extern_object(self) -> bool:
        if self.ahead().text in ("{", ";"):
            return True
        if self.ahead().text != "<":
            return False
        i = self.pos + 1
        while self.tokens[i].kind != EOF and self.tokens[i].text != ">":
            i += 1
        return i + 1 < len(self.tokens) and self.tokens[i + 1].text == "{"

    def _extern_object(self, annotations: ast.Annotations) -> ast.ExternDecl:
        name = self.name("the name of the extern")
        self.declare(name.text, True)
        if self.accept(";"):
            return ast.ExternDecl(name.span, name.text, annotations, [], [])
        self.scopes.append({})
        type_params = self.type_params()
        self.expect("{", "to open the extern")
        methods: list[ast.FunctionDecl] = []
        while not self.at("}"):
            if self.token.kind == EOF:
                raise self.fail("missing '}'", name.span)
            notes = self.annotations()
            abstract = self.accept("abstract")
            if self.at(name.text) and self.ahead().text == "(":
                token = self.next()
                self.scopes.append({})
                params = self.params()
                self.scopes.pop()
                self.expect(";", "after the constructor")
                methods.append(
                    ast.FunctionDecl(
                        token.span, token.text, notes, [], None, params, None, True, abstract
                    )
                )
            else:
                method = self._function(notes, True)
                method.abstract = abstract
                methods.append(method)
        self.next()
        self.scopes.pop()
        return ast.ExternDecl(name.span, name.text, annotations, type_params, methods)

    # ---- actions, parsers, controls, packages

    def _action(self, annotations: ast.Annotations) -> ast.ActionDecl:
        self.next()
        name = self.name("the name of the action")
        self.declare(name.text, False)
        self.scopes.append({})
        params = self.params()
        body = self.block()
        self.scopes.pop()
        return ast.ActionDecl(name.span, name.text, annotations, params, body)

    def _parser(self, annotations: ast.Annotations) -> ast.Decl:
        self.next()
        name = self.name("the name of the parser")
        self.declare(name.text, True)
        self.scopes.append({})
        type_params = self.type_params()
        params = self.params()
        if self.accept(";"):
            self.scopes.pop()
            return ast.ArchDecl(name.span, name.text, annotations, "parser", type_params, params)
        self._no_generics(type_params, name.span, "parser")
        ctor = self.params() if self.at("(") else []
        self.expect("{", "to open the parser")
        decl = ast.ParserDecl(name.span, name.text, annotations, params, ctor, [], [])
        while not self.at("}"):
            if self.token.kind == EOF:
                raise self.fail("missing '}'", name.span)
            if self.accept(";"):
                continue
            notes = self.annotations()
            if self.at("state"):
                decl.states.append(self.state(notes))
            elif self.at("value_set", "valueset") and self.ahead().text == "<":
                decl.locals.append(self._value_set(notes))
            else:
                decl.locals.append(self.local_declaration(notes))
        self.next()
        self.scopes.pop()
        return decl

    def _value_set(self, annotations: ast.Annotations) -> ast.ValueSetDecl:
        self.next()
        self.expect("<")
        ref = self.type_ref()
        self.expect(">")
        self.expect("(", "and the size of the value set")
        size = self.expression()
        self.expect(")")
        name = self.name("the name of the value set")
        self.expect(";", "after the value set")
        self.declare(name.text, False)
        return ast.ValueSetDecl(name.span, name.text, annotations, ref, size)

    def _control(self, annotations: ast.Annotations) -> ast.Decl:
        self.next()
        name = self.name("the name of the control")
        self.declare(name.text, True)
        self.scopes.append({})
        type_params = self.type_params()
        params = self.params()
        if self.accept(";"):
            self.scopes.pop()
            return ast.ArchDecl(name.span, name.text, annotations, "control", type_params, params)
        self._no_generics(type_params, name.span, "control")
        ctor = self.params() if self.at("(") else []
        self.expect("{", "to open the control")
        body: ast.BlockStmt | None = None
        locals_: list[ast.Decl] = []
        while not self.at("}"):
            if self.token.kind == EOF:
                raise self.fail("missing '}'", name.span)
            if self.accept(";"):
                continue
            notes = self.annotations()
            if self.at("apply") and self.ahead().text in ("{", "@"):
                if body is not None:
                    raise self.fail("a control has only one apply block")
                self.next()
                body = self.block()
            elif body is not None:
                raise self.fail("declarations go before the apply block")
            elif self.at("action"):
                locals_.append(self._action(notes))
            elif self.at("table"):
                locals_.append(self.table(notes))
            elif self.at("value_set", "valueset"):
                raise self.fail("value sets belong in parsers")
            else:
                locals_.append(self.local_declaration(notes))
        if body is None:
            raise self.fail(f"control '{name.text}' has no apply block", name.span)
        self.next()
        self.scopes.pop()
        return ast.ControlDecl(name.span, name.text, annotations, params, ctor, locals_, body)

    def _no_generics(self, params: list[ast.TypeParam], span: Span, what: str) -> None:
        if params:
            raise self.fail(f"a {what} with a body cannot have type parameters", span)

    def _package(self, annotations: ast.Annotations) -> ast.ArchDecl:
        self.next()
        name = self.name("the name of the package")
        self.declare(name.text, True)
        self.scopes.append({})
        type_params = self.type_params()
        params = self.params()
        self.expect(";", "after the package")
        self.scopes.pop()
        return ast.ArchDecl(name.span, name.text, annotations, "package", type_params, params)
