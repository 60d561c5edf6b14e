"""Warnings about declarations nothing refers to."""

from __future__ import annotations

from collections.abc import Iterator

from softswitch.p4 import ast
from softswitch.p4.diagnostics import Reporter
from softswitch.p4.walk import walk

_WHAT: dict[type, str] = {
    ast.VarDecl: "variable",
    ast.ConstDecl: "constant",
    ast.ActionDecl: "action",
    ast.TableDecl: "table",
    ast.ValueSetDecl: "value set",
    ast.InstanceDecl: "instance",
    ast.FunctionDecl: "function",
    ast.ControlDecl: "control",
    ast.ParserDecl: "parser",
    ast.TypedefDecl: "type",
}


def warn_unused(program: ast.Program, used: set[ast.Node], reporter: Reporter) -> None:
    """Warn about what was declared and not used, as p4c does.

    Headers, structs and enums may be declared for others to use; so may what comes with the
    compiler, names that begin with two underscores and extern functions.
    """
    for decl in program.decls:
        if decl.span.file.system:
            continue
        for found in _declared(decl):
            if found in used or _excused(found):
                continue
            what = "parameter" if isinstance(found, ast.Param) else _WHAT[type(found)]
            reporter.warn(found.span, f"{what} '{found.name}' is not used", "unused")


def _declared(decl: ast.Decl) -> Iterator[ast.Decl]:
    if isinstance(decl, ast.FunctionDecl) and decl.type_params and decl.body is not None:
        yield decl  # only copies of it are checked
        return
    for node in walk(decl):
        if isinstance(node, ast.FunctionDecl) and (node.is_extern or node.body is None):
            continue
        if type(node) in _WHAT:
            assert isinstance(node, ast.Decl)
            yield node
        if isinstance(node, ast.ActionDecl):
            yield from node.params


def _excused(decl: ast.Decl) -> bool:
    if decl.name == "main" or decl.name.startswith("__"):
        return True
    if isinstance(decl, ast.ConstDecl) and isinstance(decl.init, ast.Call):
        return True  # static_assert
    return silenced(decl, "unused")


def silenced(decl: ast.Decl, kind: str) -> bool:
    """Does the declaration carry @noWarn("kind")?"""
    return any(a.name == "noWarn" and f'"{kind}"' in a.tokens for a in decl.annotations)
