"""Functions with type parameters: one copy for every list of types they are called with."""

from __future__ import annotations

import copy
from abc import abstractmethod

from softswitch.p4 import ast
from softswitch.p4 import types as t
from softswitch.p4.check.expr import ExprChecker
from softswitch.p4.diagnostics import Span
from softswitch.p4.walk import walk

MAX_COPIES = 256
"""Copies of one function before the program is refused: calls that never stop needing more."""


class GenericChecker(ExprChecker):
    """Makes and checks the copies."""

    @abstractmethod
    def function_body(self, decl: ast.FunctionDecl) -> None:
        """Check a function whose types are all known (in check.program)."""

    def specialise(
        self, function: ast.FunctionDecl, types: list[t.Type], span: Span
    ) -> ast.FunctionDecl:
        """The function for these types, checked."""
        for var, type_ in zip(function.type_vars, types, strict=True):
            if isinstance(type_, t.TInt):
                raise self.reporter.fail(
                    span, f"'{function.name}': give the number for '{var}' a width, such as 32w1"
                )
        key = (function, *types)
        known = self.copies.get(key)
        if known is not None:
            if known.return_type is None:
                raise self.reporter.fail(span, f"function '{function.name}' calls itself")
            return known
        if sum(k[0] is function for k in self.copies) >= MAX_COPIES:
            raise self.reporter.fail(span, f"function '{function.name}' needs too many copies")
        texts = {id(n.span.file): n.span.file for n in walk(function)}
        made = copy.deepcopy(function, dict[int, object](texts))
        made.type_params, made.type_vars = [], []
        self.copies[key] = made
        outer, self.scope = self.scope, self.globals
        try:
            with self.scoped():
                for param, type_ in zip(function.type_params, types, strict=True):
                    self.scope.names[param.name] = type_
                self.function_body(made)
        finally:
            self.scope = outer
        return made
