"""Conversions between types, what can be assigned to, and elements of key sets."""

from __future__ import annotations

from softswitch.p4 import ast, fold
from softswitch.p4 import types as t
from softswitch.p4.check.base import CheckerBase
from softswitch.p4.check.nodes import done, is_literal, typed
from softswitch.p4.diagnostics import did_you_mean


class ConvertChecker(CheckerBase):
    """Explicit and implicit casts (spec section 8.11 and after)."""

    def cast(self, e: ast.Cast) -> ast.Expr:
        assert e.ref is not None
        target = self.type_of(e.ref)
        e.operand = self.expr(e.operand, target)
        source = typed(e.operand)
        if not self._castable(source, target):
            if is_literal(e.operand) or isinstance(source, (t.TTuple, t.TRecord, t.TInvalid)):
                return self.coerce(e.operand, target)
            hint = ""
            a, b = t.base(source), t.base(target)
            if isinstance(a, t.TBits) and isinstance(b, t.TBits):
                hint = f"; cast to '{t.bits(a.width, b.signed)}' first"
            raise self.reporter.fail(e.span, f"cannot cast '{source}' to '{target}'{hint}")
        return self._converted(e, e.operand, target)

    def _converted(self, e: ast.Cast, operand: ast.Expr, target: t.Type) -> ast.Expr:
        value = operand.value
        if isinstance(t.base(target), t.TBool) and isinstance(value, int):
            if value not in (0, 1):
                raise self.reporter.fail(e.span, f"only 0 and 1 can become a bool, not {value}")
            value = bool(value)
        elif isinstance(t.base(target), t.TBits) and isinstance(value, int):
            value = fold.wrap(int(value), target)
        elif isinstance(t.base(target), t.TInt) and isinstance(value, int):
            value = int(value)
        return done(e, target, value)

    def _castable(self, source: t.Type, target: t.Type) -> bool:
        if t.same(source, target):
            return True
        a = t.base(source) if not isinstance(source, t.TEnum) else source
        b = t.base(target)
        if isinstance(source, t.TNew) or isinstance(target, t.TNew):
            return t.same(a, b) or isinstance(a, t.TInt)
        if isinstance(a, t.TInt):
            return isinstance(b, (t.TBits, t.TInt, t.TBool))
        if isinstance(a, t.TBool):
            return isinstance(b, t.TBits) and b.width == 1 and not b.signed
        if isinstance(a, t.TBits):
            if isinstance(b, t.TBool):
                return a.width == 1 and not a.signed
            if isinstance(b, t.TBits):
                return a.signed == b.signed or a.width == b.width
            if isinstance(b, t.TInt):
                return True
        return False

    def coerce(self, e: ast.Expr, target: t.Type, what: str = "") -> ast.Expr:
        source = typed(e)
        if is_literal(e) and not isinstance(source, (t.TStruct, t.TStack, t.TList)):
            shaped = self._shape(e, target, what)
            if shaped is not None:
                return shaped
        if t.same(source, target) or isinstance(target, t.TUnknown):
            return e
        number = t.base(target) if isinstance(target, t.TNew) else target
        if isinstance(source, t.TInt) and isinstance(number, (t.TBits, t.TInt)):
            if isinstance(e.value, int) and not fold.fits(e.value, number):
                assert isinstance(number, t.TBits)
                if number.signed and e.value >= 0:
                    limit = f"-{1 << (number.width - 1)}..{(1 << (number.width - 1)) - 1}"
                else:
                    limit = f"0..{(1 << number.width) - 1}"
                self.reporter.warn(
                    e.span, f"{e.value} does not fit in '{target}' ({limit})", "mismatch"
                )
            return self._implicit(e, target)
        if isinstance(source, t.TSerEnum) and t.same(source.underlying, target):
            return self._implicit(e, target)
        if isinstance(source, t.TBits) and isinstance(target, t.TInt) and e.value is not None:
            return self._implicit(e, target)
        prefix = f"{what}: " if what else ""
        hint = ""
        if isinstance(source, t.TBits) and isinstance(target, t.TBits):
            hint = f"; write ({target}) to convert"
        elif isinstance(target, t.TBool) and isinstance(source, (t.TBits, t.TInt)):
            hint = "; compare it, such as '!= 0'"
        elif isinstance(source, t.TBool) and target == t.bits(1):
            hint = "; write (bit<1>) to convert"
        elif isinstance(source, t.TTuple) and isinstance(target, t.TStruct):
            hint = "; only a list written here can become a struct"
        raise self.reporter.fail(e.span, f"{prefix}expected '{target}', found '{source}'{hint}")

    def _implicit(self, e: ast.Expr, target: t.Type) -> ast.Expr:
        cast = ast.Cast(e.span, None, e)
        return self._converted(cast, e, target)

    def _shape(self, e: ast.Expr, target: t.Type, what: str) -> ast.Expr | None:
        """Give a list, record, `{#}` or `...` the type it is used as."""
        if isinstance(e, ast.DefaultExpr):
            if not has_default(target):
                raise self.reporter.fail(e.span, f"'{target}' has no default value for '...'")
            return done(e, target)
        if isinstance(e, ast.InvalidHeader):
            if isinstance(target, t.TStruct) and target.kind != "struct":
                return done(e, target)
            return None
        if isinstance(e, ast.ListExpr):
            return self._shape_list(e, target, what)
        if isinstance(e, ast.StructExpr) and isinstance(target, t.TStruct):
            return self._shape_record(e, target)
        return None

    def _shape_list(self, e: ast.ListExpr, target: t.Type, what: str) -> ast.Expr | None:
        if isinstance(target, t.TStruct) and target.kind != "header_union":
            names = list(target.fields)
            if len(e.items) > len(names) or (len(e.items) < len(names) and not e.default_rest):
                raise self.reporter.fail(
                    e.span,
                    f"{what or 'list'}: '{target}' has {len(names)} fields, the list has "
                    f"{len(e.items)} values",
                )
            pairs = list(zip(names, e.items, strict=False))
            record = ast.StructExpr(e.span, pairs, None, e.default_rest)
            return self._shape_record(record, target)
        if isinstance(target, t.TTuple):
            if e.default_rest:
                missing = target.items[len(e.items) :]
                e.items += [done(ast.DefaultExpr(e.span), item) for item in missing]
                e.default_rest = False
            if len(e.items) != len(target.items):
                raise self.reporter.fail(
                    e.span, f"the tuple has {len(target.items)} elements, not {len(e.items)}"
                )
            e.items = [self.coerce(i, tt) for i, tt in zip(e.items, target.items, strict=True)]
        elif isinstance(target, (t.TList, t.TStack)):
            if isinstance(target, t.TStack) and (
                len(e.items) > target.size or (len(e.items) < target.size and not e.default_rest)
            ):
                raise self.reporter.fail(
                    e.span, f"the stack has {target.size} elements, the list {len(e.items)}"
                )
            e.items = [self.coerce(i, target.element) for i in e.items]
        else:
            return None
        values = [i.value for i in e.items]
        return done(e, target, values if values and all(v is not None for v in values) else None)

    def _shape_record(self, e: ast.StructExpr, target: t.TStruct) -> ast.Expr:
        given = dict(e.fields)
        for name, value in e.fields:
            if name not in target.fields:
                hint = did_you_mean(name, target.fields)
                raise self.reporter.fail(
                    value.span, f"{target.kind} '{target}' has no field '{name}'{hint}"
                )
        if len(given) != len(e.fields):
            raise self.reporter.fail(e.span, "a field is given twice")
        fields: list[tuple[str, ast.Expr]] = []
        for name, type_ in target.fields.items():
            item = given.get(name)
            if item is None:
                if not e.default_rest:
                    raise self.reporter.fail(e.span, f"field '{name}' of '{target}' is missing")
                item = done(ast.DefaultExpr(e.span), type_)
            else:
                item = self.coerce(self.expr(item, type_), type_, f"field '{name}'")
            fields.append((name, item))
        e.fields = fields
        values = {n: x.value for n, x in fields}
        constant = target.kind == "struct" and all(v is not None for v in values.values())
        return done(e, target, values if constant and values else None)

    def struct_expr(self, e: ast.StructExpr) -> ast.Expr:
        if e.ref is not None:
            target = self.type_of(e.ref)
            if not isinstance(target, t.TStruct) or target.kind == "header_union":
                raise self.reporter.fail(
                    e.span, f"'{target}' cannot be built from a list of fields"
                )
            return self._shape_record(e, target)
        e.fields = [(n, self.expr(x, t.UNKNOWN)) for n, x in e.fields]
        return done(e, t.TRecord(tuple((n, typed(x)) for n, x in e.fields)))

    # ---- what can be assigned to

    def lvalue(self, e: ast.Expr, what: str = "assignment") -> None:
        """Report unless the (checked) expression can be written."""
        reason = self._not_writable(e)
        if reason:
            raise self.reporter.fail(e.span, f"{what}: {reason}")

    def _not_writable(self, e: ast.Expr) -> str:
        if isinstance(e, ast.Name):
            decl = e.decl
            if isinstance(decl, ast.VarDecl):
                return ""
            if isinstance(decl, ast.Param):
                if decl.direction in ("out", "inout"):
                    return ""
                kind = "an 'in' parameter" if decl.direction else "a parameter without direction"
                return f"'{e.name}' is {kind} and cannot be changed"
            if isinstance(decl, ast.ConstDecl):
                return f"'{e.name}' is a constant"
            return f"'{e.name}' cannot be assigned to"
        if isinstance(e, ast.Member):
            if isinstance(e.base, ast.TypeExpr):
                return "a constant cannot be changed"
            base = e.base.type
            if isinstance(base, t.TStack) and e.member in ("lastIndex", "size"):
                return f"'{e.member}' of a stack cannot be changed"
            return self._not_writable(e.base)
        if isinstance(e, (ast.Index, ast.Slice)):
            return self._not_writable(e.base)
        return "this expression cannot be assigned to"

    # ---- key sets

    def keyset_element(self, e: ast.Expr, key: t.Type) -> ast.Expr:
        """Check one element of a select case or table entry against the type of its key."""
        if isinstance(e, ast.DefaultExpr):
            return done(e, key)
        if isinstance(e, (ast.MaskExpr, ast.RangeExpr)):
            kind = t.base(key)
            if not isinstance(kind, t.TBits):
                raise self.reporter.fail(e.span, f"a key of type '{key}' has no masks or ranges")
            plain = key if isinstance(key, t.TBits) else kind
            e.left = self.coerce(self._as_plain(self.expr(e.left), key), plain)
            e.right = self.coerce(self._as_plain(self.expr(e.right), key), plain)
            return done(e, t.TSet(key))
        if isinstance(e, ast.ListExpr) and len(e.items) == 1:
            e = e.items[0]
        e = self.expr(e, key)
        if isinstance(e.type, t.TSet):
            if not self._set_matches(e.type.element, key):
                raise self.reporter.fail(
                    e.span, f"the value set holds '{e.type.element}', the key is a '{key}'"
                )
            return e
        return self.coerce(e, key, "key")

    def _as_plain(self, e: ast.Expr, key: t.Type) -> ast.Expr:
        if isinstance(key, (t.TNew, t.TSerEnum)) and t.same(typed(e), key):
            return done(ast.Cast(e.span, None, e), t.base(key), e.value)
        return e

    def _set_matches(self, element: t.Type, key: t.Type) -> bool:
        if t.same(element, key) or t.same(t.base(element), t.base(key)):
            return True
        fields = list(element.fields.values()) if isinstance(element, t.TStruct) else []
        return len(fields) == 1 and t.same(fields[0], key)


def has_default(type_: t.Type) -> bool:
    """Is there a value `...` can stand for?"""
    kind = t.base(type_)
    if isinstance(kind, t.TStruct):
        return all(map(has_default, kind.fields.values()))
    if isinstance(kind, t.TTuple):
        return all(map(has_default, kind.items))
    if isinstance(kind, t.TStack):
        return has_default(kind.element)
    return isinstance(
        kind,
        (t.TBits, t.TInt, t.TBool, t.TEnum, t.TError, t.TString, t.TVarbit, t.TUnknown, t.TVar),
    )
