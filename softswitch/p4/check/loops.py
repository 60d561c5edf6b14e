"""Loops (spec section 12.8)."""

from __future__ import annotations

from abc import abstractmethod

from softswitch.p4 import ast
from softswitch.p4 import types as t
from softswitch.p4.check.call import CallChecker
from softswitch.p4.check.nodes import typed


class LoopChecker(CallChecker):
    """`for`, `break` and `continue`."""

    loops = 0
    """How many loops of the body at hand enclose the current statement."""

    @abstractmethod
    def statement(self, s: ast.Stmt) -> None:
        """Check one statement (in check.stmt)."""

    def loop(self, s: ast.ForStmt | ast.ForInStmt) -> None:
        """The head of a loop in a scope of its own, then its body."""
        if self.context == "parser":
            raise self.reporter.fail(s.span, "a parser state loops by transitions, not by 'for'")
        with self.scoped():
            if isinstance(s, ast.ForStmt):
                self._head(s)
            else:
                self._in(s)
            self.loops += 1
            try:
                with self.scoped():
                    self.statement(s.body)
            finally:
                self.loops -= 1

    def leave_loop(self, s: ast.BreakStmt | ast.ContinueStmt) -> None:
        """`break` and `continue` need a loop around them."""
        if not self.loops:
            word = "break" if isinstance(s, ast.BreakStmt) else "continue"
            raise self.reporter.fail(s.span, f"'{word}' stands outside of a loop")

    def _head(self, s: ast.ForStmt) -> None:
        for stmt in s.init:
            self.statement(stmt)
        s.cond = self.coerce(self.expr(s.cond), t.BOOL, "the condition of the loop")
        for stmt in s.update:
            self.statement(stmt)

    def _in(self, s: ast.ForInStmt) -> None:
        decl = s.decl
        type_ = self.type_of(decl.ref)
        if isinstance(s.collection, ast.RangeExpr):
            if not isinstance(t.base(type_), (t.TBits, t.TUnknown)):
                raise self.reporter.fail(
                    decl.ref.span, f"a range is walked by a bit<> or int<>, not by '{type_}'"
                )
            ends = s.collection
            ends.left = self.coerce(self.expr(ends.left, type_), type_, "the start of the range")
            ends.right = self.coerce(self.expr(ends.right, type_), type_, "the end of the range")
        else:
            s.collection = self.expr(s.collection)
            found = typed(s.collection)
            if isinstance(found, t.TList) or isinstance(s.collection, ast.ListExpr):
                self._list(s, type_)
            elif not isinstance(found, t.TStack) or not t.same(found.element, type_):
                raise self.reporter.fail(
                    s.collection.span,
                    f"a '{type_}' cannot walk over a '{found}': use a range, a list or a stack",
                )
        decl.type = type_
        self.declare(decl)

    def _list(self, s: ast.ForInStmt, type_: t.Type) -> None:
        source = s.collection
        if isinstance(source, ast.ListExpr):
            s.collection = self.coerce(source, t.TList(type_), "the list")
        elif isinstance(typed(source), t.TList):
            element = typed(source)
            assert isinstance(element, t.TList)
            if not t.same(element.element, type_) and not isinstance(element.element, t.TInt):
                raise self.reporter.fail(
                    s.collection.span, f"the list holds '{element.element}', not '{type_}'"
                )
