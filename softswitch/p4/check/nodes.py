"""Reading and writing the annotations on expressions."""

from __future__ import annotations

from typing import Any

from softswitch.p4 import ast
from softswitch.p4 import types as t


def done(e: ast.Expr, type_: t.Type, value: Any = None) -> ast.Expr:
    """Note the type and the compile-time value of an expression; returns it."""
    e.type = type_
    e.value = value
    return e


def typed(e: ast.Expr) -> t.Type:
    """The type of a checked expression."""
    return e.type if e.type is not None else t.UNKNOWN


def is_literal(e: ast.Expr) -> bool:
    """Does the expression take its type from where it is used?"""
    return isinstance(e, (ast.ListExpr, ast.StructExpr, ast.InvalidHeader, ast.DefaultExpr))


def is_open(e: ast.Expr) -> bool:
    """Is it a literal that has not got its type yet?"""
    return is_literal(e) and not isinstance(e.type, (t.TStruct, t.TStack, t.TList))
