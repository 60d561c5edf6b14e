"""Select keys that are structs or tuples become one key for every field (spec section 13.6)."""

from __future__ import annotations

from softswitch.p4 import ast
from softswitch.p4 import types as t
from softswitch.p4.check.nodes import done, typed


def parts_of(type_: t.Type) -> dict[str, t.Type] | None:
    """The fields of a struct or tuple; None for anything else."""
    if isinstance(type_, t.TStruct) and type_.kind == "struct":
        return type_.fields
    if isinstance(type_, t.TTuple):
        return {str(n): item for n, item in enumerate(type_.items)}
    return None


def repeatable(e: ast.Expr) -> bool:
    """Can the expression be evaluated once for every field? (Calls can have effects.)"""
    if isinstance(e, (ast.ListExpr, ast.Name)):
        return True
    if isinstance(e, (ast.Member, ast.Index, ast.Cast)):
        return repeatable(e.operand if isinstance(e, ast.Cast) else e.base)
    return isinstance(e, ast.Call) and getattr(e.target, "name", "") == "lookahead"


def spread_key(e: ast.Expr) -> list[ast.Expr]:
    """The keys a (checked) select expression stands for."""
    parts = parts_of(typed(e))
    if parts is None:
        return [e]
    if isinstance(e, ast.ListExpr):
        return [x for item in e.items for x in spread_key(item)]
    found: list[ast.Expr] = []
    for n, (name, type_) in enumerate(parts.items()):
        part: ast.Expr
        if isinstance(typed(e), t.TTuple):
            index = done(ast.IntLit(e.span, n), t.INT, n)
            part = ast.Index(e.span, e, index)
        else:
            part = ast.Member(e.span, e, name, e.span)
        found += spread_key(done(part, type_))
    return found


def spread_set(e: ast.Expr, type_: t.Type) -> list[ast.Expr] | None:
    """What a key set says about each of those keys; None when it does not fit."""
    parts = parts_of(type_)
    if parts is None:
        return [e]
    if isinstance(e, ast.DefaultExpr):
        items: list[ast.Expr] = [ast.DefaultExpr(e.span) for _ in parts]
    elif isinstance(e, ast.ListExpr) and len(e.items) == len(parts):
        items = list(e.items)
    else:
        return None
    found: list[ast.Expr] = []
    for item, part in zip(items, parts.values(), strict=True):
        inner = spread_set(item, part)
        if inner is None:
            return None
        found += inner
    return found
