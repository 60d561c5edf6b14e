"""Statements, parser states and tables (spec sections 11 to 14)."""

from __future__ import annotations

from softswitch.p4 import ast
from softswitch.p4.diagnostics import Span, Stop
from softswitch.p4.lexer import EOF, IDENT
from softswitch.p4.parse_base import BASE_TYPES, _Speculation
from softswitch.p4.parse_expr import ExpressionParser

_ASSIGNMENTS = ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "|+|=", "|-|=")


class StatementParser(ExpressionParser):
    """Bodies of actions, functions, controls and parsers."""

    def block(self) -> ast.BlockStmt:
        """`{ ... }`"""
        self.nest()
        annotations = self.annotations()
        start = self.expect("{").span
        self.scopes.append({})
        body: list[ast.Stmt] = []
        while not self.at("}"):
            if self.token.kind == EOF:
                raise self.fail("missing '}'", start)
            body.append(self.statement())
        self.next()
        self.scopes.pop()
        self.depth -= 1
        return ast.BlockStmt(start.to(self.previous), body, annotations)

    def statement(self) -> ast.Stmt:
        """One statement or local declaration."""
        annotations = self.annotations() if self.at("@") else []
        token = self.token
        start = token.span
        if self.at(";"):
            self.next()
            return ast.EmptyStmt(start)
        if self.at("{"):
            block = self.block()
            block.annotations = annotations
            return block
        if token.kind == IDENT:
            if token.text == "if":
                return self._if()
            if token.text == "switch":
                return self._switch()
            if token.text == "return":
                self.next()
                expr = None if self.at(";") else self.expression()
                self.expect(";", "after return")
                return ast.ReturnStmt(start.to(self.previous), expr)
            if token.text == "exit":
                self.next()
                self.expect(";", "after exit")
                return ast.ExitStmt(start.to(self.previous))
            if token.text == "for":
                return self._for()
            if token.text in ("break", "continue"):
                self.next()
                self.expect(";", f"after {token.text}")
                kind = ast.BreakStmt if token.text == "break" else ast.ContinueStmt
                return kind(start)
            if token.text in ("const", "abstract") or self._starts_declaration():
                return ast.DeclStmt(start, self.local_declaration(annotations))
        stmt = self._simple_statement()
        what = "assignment" if isinstance(stmt, ast.AssignStmt) else "statement"
        self.expect(";", f"after the {what}")
        return stmt

    def _simple_statement(self) -> ast.Stmt:
        """An assignment or a call, up to its semicolon."""
        start = self.token.span
        left = self.expression()
        if self.at(*_ASSIGNMENTS):
            op = self.next().text
            right = self.expression()
            return ast.AssignStmt(start.to(self.previous), left, right, op)
        span = start.to(self.previous)
        if not isinstance(left, ast.Call):
            if self.at("=="):
                raise self.fail("'==' compares; an assignment is written '='")
            if self.at(";"):
                raise self.fail("an expression alone is not a statement", span)
        return ast.CallStmt(span, left)

    def _for(self) -> ast.Stmt:
        """Both kinds of loops (spec section 12.8)."""
        self.nest()
        start = self.next().span
        self.expect("(", "after 'for'")
        self.scopes.append({})
        notes = self.annotations() if self.at("@") else []
        init: list[ast.Stmt] = []
        while not self.at(";"):
            if self.token.kind == IDENT and self._starts_declaration():
                decl = self._loop_variable(notes)
                if self.at("in") and not init and decl.init is None:
                    return self._for_in(start, decl)
                init.append(ast.DeclStmt(decl.span, decl))
            else:
                init.append(self._simple_statement())
            if not self.accept(","):
                break
        self.expect(";", "after the start of the loop")
        cond = self.expression()
        self.expect(";", "after the condition of the loop")
        update: list[ast.Stmt] = []
        while not self.at(")"):
            update.append(self._simple_statement())
            if not self.accept(","):
                break
        self.expect(")", "to close the head of the loop")
        span = start.to(self.previous)
        body = self.statement()
        self.scopes.pop()
        self.depth -= 1
        return ast.ForStmt(span, init, cond, update, body)

    def _loop_variable(self, annotations: ast.Annotations) -> ast.VarDecl:
        start = self.token.span
        ref = self.type_ref()
        name = self.name("the name of the loop variable")
        value = self.expression() if self.accept("=") else None
        self.declare(name.text, False)
        return ast.VarDecl(start.to(name.span), name.text, annotations, ref, value)

    def _for_in(self, start: Span, decl: ast.VarDecl) -> ast.ForInStmt:
        self.next()
        collection = self.expression()
        if self.accept(".."):
            high = self.expression()
            collection = ast.RangeExpr(collection.span.to(self.previous), collection, high)
        self.expect(")", "to close the head of the loop")
        span = start.to(self.previous)
        body = self.statement()
        self.scopes.pop()
        self.depth -= 1
        return ast.ForInStmt(span, decl, collection, body)

    def _if(self) -> ast.IfStmt:
        self.nest()
        start = self.next().span
        self.expect("(", "after 'if'")
        cond = self.expression()
        self.expect(")", "after the condition")
        yes = self.statement()
        no = self.statement() if self.accept("else") else None
        self.depth -= 1
        return ast.IfStmt(start, cond, yes, no)

    def _switch(self) -> ast.SwitchStmt:
        self.nest()
        start = self.next().span
        self.expect("(", "after 'switch'")
        expr = self.expression()
        self.expect(")", "after the expression")
        span = start.to(self.previous)
        self.expect("{", "to open the cases")
        cases: list[ast.SwitchCase] = []
        while not self.at("}"):
            label_span = self.token.span
            if self.at("default", "_"):
                label: ast.Expr = ast.DefaultExpr(self.next().span)
            else:
                label = self.expression()
            self.expect(":", "after the label")
            body = self.block() if self.at("{", "@") else None
            cases.append(ast.SwitchCase(label_span, [label], body))
        self.next()
        self.depth -= 1
        return ast.SwitchStmt(span, expr, cases)

    def _starts_declaration(self) -> bool:
        token = self.token
        if token.text in BASE_TYPES and token.text != "list":
            return self.ahead().text not in (".", "(")
        following = self.ahead()
        if self.is_name(following):
            return True
        if following.text not in ("<", "[", "("):
            return False
        saved, depth = self.pos, self.depth
        self.speculating += 1
        try:
            self.type_ref()
            if self.at("("):
                self._skip_parens()
            return self.is_name(self.token)
        except (_Speculation, Stop):
            return False
        finally:
            self.speculating -= 1
            self.pos, self.depth = saved, depth

    def _skip_parens(self) -> None:
        level = 0
        while self.token.kind != EOF:
            if self.at("("):
                level += 1
            elif self.at(")"):
                level -= 1
                if level == 0:
                    self.next()
                    return
            self.next()

    def local_declaration(self, annotations: ast.Annotations) -> ast.Decl:
        """A constant, variable or instance; used inside bodies and at the top level."""
        start = self.token.span
        if self.accept("const"):
            ref = self.type_ref()
            name = self.name("the name of the constant")
            self.expect("=", "after the name of the constant")
            init = self.expression()
            self.expect(";", "after the constant")
            self.declare(name.text, False)
            return ast.ConstDecl(name.span, name.text, annotations, ref, init)
        ref = self.type_ref()
        if self.at("("):
            args = self.arguments()
            name = self.name("the name of the instance")
            has_body = self.at("=")
            if has_body:
                raise self.fail("instances with abstract methods are not supported")
            self.expect(";", "after the instance")
            self.declare(name.text, False)
            return ast.InstanceDecl(name.span, name.text, annotations, ref, args)
        name = self.name("the name of the variable")
        value = self.expression() if self.accept("=") else None
        self.expect(";", "after the declaration")
        self.declare(name.text, False)
        return ast.VarDecl(start.to(name.span), name.text, annotations, ref, value)

    # ---- parser states

    def state(self, annotations: ast.Annotations) -> ast.StateDecl:
        """`state s { statements; transition ...; }`"""
        self.next()
        name = self.name("the name of the state")
        self.expect("{", "to open the state")
        self.scopes.append({})
        body: list[ast.Stmt] = []
        transition: ast.Transition | None = None
        while not self.at("}"):
            if self.token.kind == EOF:
                raise self.fail("missing '}'", name.span)
            if self.at("transition"):
                transition = self._transition()
                if not self.at("}"):
                    raise self.fail("the transition has to be the last statement of a state")
                break
            body.append(self.statement())
        self.next()
        self.scopes.pop()
        return ast.StateDecl(name.span, name.text, annotations, body, transition)

    def _transition(self) -> ast.Transition:
        start = self.next().span
        if not self.at("select"):
            name = self.name("the name of a state")
            span = name.span
            self.expect(";", "after the transition")
            return ast.Transition(span, name.text)
        self.next()
        self.expect("(", "after 'select'")
        keys: list[ast.Expr] = []
        while not self.at(")"):
            keys.append(self.expression())
            if not self.accept(","):
                break
        self.expect(")", "after the select keys")
        transition = ast.Transition(start.to(self.previous), "", keys)
        self.expect("{", "to open the cases")
        while not self.at("}"):
            case_start = self.token.span
            sets = self.keyset()
            self.expect(":", "after the key set")
            state = self.name("the name of a state")
            self.expect(";", "after the case")
            transition.cases.append(ast.SelectCase(case_start.to(state.span), sets, state.text))
        self.next()
        self.accept(";")
        return transition

    # ---- tables

    def table(self, annotations: ast.Annotations) -> ast.TableDecl:
        """`table t { key = {...} actions = {...} ... }`"""
        self.next()
        name = self.name("the name of the table")
        table = ast.TableDecl(name.span, name.text, annotations)
        self.declare(name.text, False)
        self.expect("{", "to open the table")
        while not self.at("}"):
            if self.token.kind == EOF:
                raise self.fail("missing '}'", name.span)
            self._table_property(table)
        self.next()
        return table

    def _table_property(self, table: ast.TableDecl) -> None:
        annotations = self.annotations()
        const = self.accept("const")
        token = self.token
        if token.kind != IDENT:
            raise self.fail(f"expected a table property, found {self.describe()}")
        self.next()
        self.expect("=", f"after the table property '{token.text}'")
        if token.text in ("key", "actions", "entries", "default_action"):
            seen = getattr(table, token.text)
            if seen is not None:
                raise self.fail(f"table '{table.name}' has '{token.text}' twice", token.span)
        if token.text == "key":
            table.key = self._key()
        elif token.text == "actions":
            table.actions = self._actions()
        elif token.text == "entries":
            table.entries, table.entries_const = self._entries(const), const
        elif token.text == "default_action":
            table.default_action, table.default_const = self._action_ref([]), const
            self.expect(";", "after default_action")
        else:
            expr = self.expression()
            self.expect(";", "after the property")
            table.properties.append(ast.Property(token.span, token.text, expr, const, annotations))

    def _key(self) -> list[ast.KeyElement]:
        self.expect("{", "to open the key")
        elements: list[ast.KeyElement] = []
        while not self.at("}"):
            start = self.token.span
            expr = self.expression()
            self.expect(":", "and the match kind after the key")
            kind = self.name("a match kind")
            annotations = self.annotations()
            self.expect(";", "after the key element")
            elements.append(
                ast.KeyElement(start.to(expr.span), expr, kind.text, kind.span, annotations)
            )
        self.next()
        self.accept(";")
        return elements

    def _actions(self) -> list[ast.ActionRef]:
        self.expect("{", "to open the action list")
        actions: list[ast.ActionRef] = []
        while not self.at("}"):
            actions.append(self._action_ref(self.annotations()))
            self.expect(";", "after the action")
        self.next()
        self.accept(";")
        return actions

    def _action_ref(self, annotations: ast.Annotations) -> ast.ActionRef:
        start = self.token.span
        absolute = self.accept(".")
        name = self.name("the name of an action")
        args = self.arguments() if self.at("(") else []
        return ast.ActionRef(start.to(self.previous), name.text, args, annotations, absolute)

    def _entries(self, all_const: bool) -> list[ast.Entry]:
        self.expect("{", "to open the entries")
        entries: list[ast.Entry] = []
        while not self.at("}"):
            start: Span = self.token.span
            const = self.accept("const") or all_const
            priority: ast.Expr | None = None
            if self.at("priority") and self.ahead().text == "=":
                self.next()
                self.next()
                priority = self.expression()
                self.expect(":", "after the priority")
            keys = self.keyset()
            self.expect(":", "after the key set")
            action = self._action_ref([])
            annotations = self.annotations()
            span = start.to(self.previous)
            self.expect(";", "after the entry")
            entries.append(ast.Entry(span, keys, action, annotations, priority, const))
        self.next()
        self.accept(";")
        return entries
