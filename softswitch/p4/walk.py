"""Walks over syntax trees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from softswitch.p4 import ast

_LINKS = frozenset(
    ("span", "type", "value", "decl", "target", "bound", "type_values", "resolved", "table",
     "type_vars", "return_type", "type_span", "member_span", "match_span", "tokens")
)  # fmt: skip
"""Fields that hold no part of the tree but what the type checker found out."""


_known: dict[type, tuple[str, ...]] = {}


def _parts(node: ast.Node) -> tuple[str, ...]:
    kind = type(node)
    if kind not in _known:
        links = _LINKS - {"decl"} if issubclass(kind, ast.Stmt) else _LINKS
        _known[kind] = tuple(f.name for f in fields(node) if f.name not in links)
    return _known[kind]


def children(node: ast.Node) -> Iterator[ast.Node]:
    """The nodes right below one, in the order of the source where the tree keeps it."""
    for name in _parts(node):
        yield from _nodes(getattr(node, name))


def _nodes(value: Any) -> Iterator[ast.Node]:
    if isinstance(value, ast.Node):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _nodes(item)


def walk(*roots: ast.Node) -> Iterator[ast.Node]:
    """The nodes of trees, each before what is below it."""
    work = list(reversed(roots))
    while work:
        node = work.pop()
        yield node
        work.extend(reversed(list(children(node))))


def same_source(a: ast.Node | None, b: ast.Node | None) -> bool:
    """Do two checked expressions say the same thing?"""
    if a is None or b is None:
        return a is b
    if isinstance(a, ast.Cast) and a.ref is None:  # inserted by the type checker
        return same_source(a.operand, b)
    if isinstance(b, ast.Cast) and b.ref is None:
        return same_source(a, b.operand)
    if isinstance(a, ast.Expr) and isinstance(b, ast.Expr) and a.value is not None:
        return bool(a.value == b.value)
    if isinstance(a, ast.StructExpr) and isinstance(b, ast.StructExpr):
        return len(a.fields) == len(b.fields) and all(
            n == m and same_source(x, y) for (n, x), (m, y) in zip(a.fields, b.fields, strict=True)
        )
    if type(a) is not type(b):
        return False
    for name in ("name", "member", "op", "number", "text", "hi", "lo"):
        if getattr(a, name, None) != getattr(b, name, None):
            return False
    mine, theirs = list(children(a)), list(children(b))
    return len(mine) == len(theirs) and all(
        same_source(x, y) for x, y in zip(mine, theirs, strict=True)
    )
