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
        _known[kind] = tuple(f.name for f in fields(node) if f.name not in _LINKS)
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
