"""Table keys and entries: names the control plane sees, match values."""

from __future__ import annotations

from softswitch.p4 import ast
from softswitch.p4 import types as t
from softswitch.p4.check.nodes import typed
from softswitch.p4.lower import values as v
from softswitch.p4.lower.base import Context
from softswitch.p4.lower.model import KeyValue
from softswitch.p4.lower.stmt import StmtLowering
from softswitch.p4.lower.storage import control_plane_name


def key_name(element: ast.KeyElement) -> str | None:
    """The @name of a key, else the name its expression spells; None when it spells none."""
    for annotation in element.annotations:
        if annotation.name == "name" and annotation.args:
            literal = annotation.args[0]
            if isinstance(literal, ast.StringLit):
                return literal.text
    return spelled(element.expr)


def spelled(e: ast.Expr) -> str | None:
    """P4Runtime's default name for a key expression."""
    if isinstance(e, ast.Name):
        return e.name
    if isinstance(e, ast.Member):
        if isinstance(e.base, ast.TypeExpr):
            return None
        base_type = typed(e.base)
        name = e.member
        if isinstance(base_type, t.TStruct):
            field = next((f for f in base_type.decl.fields if f.name == e.member), None)
            if field is not None:
                name = control_plane_name(field)
        if name.startswith("."):
            return name[1:]
        base = spelled(e.base)
        return None if base is None else f"{base}.{name}"
    if isinstance(e, ast.Index):
        base, index = spelled(e.base), spelled(e.index)
        return None if base is None or index is None else f"{base}[{index}]"
    if isinstance(e, ast.Slice):
        base = spelled(e.base)
        return None if base is None else f"{base}[{e.hi}:{e.lo}]"
    if isinstance(e, ast.IntLit):
        return _number(e)
    if isinstance(e, ast.Cast) and e.ref is None:
        return spelled(e.operand)
    if isinstance(e, ast.Binary) and e.op == "&":
        left, right = spelled(e.left), spelled(e.right)
        return None if left is None or right is None else f"{left} & {right}"
    if isinstance(e, ast.Call) and e.kind == "builtin" and e.target == "isValid":
        assert isinstance(e.func, ast.Member)
        base = spelled(e.func.base)
        return None if base is None else f"{base}.$valid$"
    return None


def _number(e: ast.IntLit) -> str:
    if e.base == 16:
        return f"0x{e.number:x}"
    if e.base == 8:
        return f"0o{e.number:o}"
    if e.base == 2:
        return f"0b{e.number:b}"
    return str(e.number)


class KeyLowering(StmtLowering):
    """Values of entries."""

    def entry_key(self, key: ast.Expr, element: ast.KeyElement, ctx: Context) -> KeyValue:
        """One element of an entry, in the terms of its match kind."""
        bits = v.width(typed(element.expr))
        full = (1 << bits) - 1
        kind = element.match_kind
        if isinstance(key, ast.DefaultExpr):
            if kind == "range":
                return KeyValue(kind, 0, high=full)
            return KeyValue(kind, 0, mask=0, prefix=0)
        if isinstance(key, ast.MaskExpr):
            mask = self.number(key.right, ctx) & full
            value = self.number(key.left, ctx) & full
            prefix = bits - (full ^ mask).bit_length()
            return KeyValue(kind, value & mask, mask=mask, prefix=prefix)
        if isinstance(key, ast.RangeExpr):
            low, high = self.number(key.left, ctx), self.number(key.right, ctx)
            return KeyValue(kind, low & full, high=high & full)
        value = self.number(key, ctx) & full
        return KeyValue(kind, value, mask=full, high=value, prefix=bits)

    def number(self, e: ast.Expr, ctx: Context) -> int:
        """A compile-time number (constructor parameters are known by now)."""
        found = self.leaf(e, ctx)
        if not isinstance(found, v.Const):
            raise self.fail(e, "this has to be known at compile time")
        return found.value
