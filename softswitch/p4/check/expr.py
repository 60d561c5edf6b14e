"""Types and compile-time values of expressions (spec section 8)."""

from __future__ import annotations

from typing import Any

from softswitch.p4 import ast, fold
from softswitch.p4 import types as t
from softswitch.p4.check.base import CheckerBase
from softswitch.p4.diagnostics import Span, did_you_mean

_COMPARE = ("==", "!=", "<", "<=", ">", ">=")


class ExprChecker(CheckerBase):
    """Every method returns the node that takes the place of the one given."""

    def expr(self, e: ast.Expr, expected: t.Type | None = None) -> ast.Expr:
        if e.type is not None:
            return e
        if isinstance(e, ast.IntLit):
            return self._int(e)
        if isinstance(e, ast.BoolLit):
            return _done(e, t.BOOL, e.boolean)
        if isinstance(e, ast.StringLit):
            return _done(e, t.STRING, e.text)
        if isinstance(e, ast.Name):
            return self._name(e)
        if isinstance(e, ast.Member):
            return self._member(e)
        if isinstance(e, ast.Index):
            return self._index(e)
        if isinstance(e, ast.Slice):
            return self._slice(e)
        if isinstance(e, ast.Unary):
            return self._unary(e)
        if isinstance(e, ast.Binary):
            return self._binary(e)
        if isinstance(e, ast.Ternary):
            return self._ternary(e, expected)
        if isinstance(e, ast.Cast):
            return self._cast(e)
        if isinstance(e, ast.Call):
            return self.call(e, expected)
        if isinstance(e, ast.ListExpr):
            e.items = [self.expr(i) for i in e.items]
            values = [i.value for i in e.items]
            value = values if all(v is not None for v in values) and values else None
            return _done(e, t.TTuple(tuple(_type(i) for i in e.items)), value)
        if isinstance(e, ast.StructExpr):
            return self._struct_expr(e)
        if isinstance(e, ast.InvalidHeader):
            return _done(e, t.INVALID)
        if isinstance(e, ast.DefaultExpr):
            return _done(e, t.UNKNOWN)
        if isinstance(e, ast.TypeExpr):
            raise self.reporter.fail(e.span, f"'{e.ref.name}' is a type; a value is expected here")
        raise self.reporter.fail(e.span, "this expression cannot be used here")

    def _int(self, e: ast.IntLit) -> ast.Expr:
        type_: t.Type = t.INT if e.width is None else t.bits(e.width, e.signed)
        return _done(e, type_, e.number)

    # ---- names

    def _name(self, e: ast.Name) -> ast.Expr:
        decl = self.lookup(e.name, e.span, absolute=e.absolute)
        e.decl = decl
        if isinstance(decl, list):
            return _done(e, t.FUNCTION)
        self.used.add(decl)
        if isinstance(decl, ast.ConstDecl):
            if decl.type is None:
                raise self.reporter.fail(
                    e.span, f"constant '{e.name}' is used in its own declaration"
                )
            return _done(e, decl.type, decl.init.value)
        if isinstance(decl, (ast.VarDecl, ast.Param, ast.InstanceDecl)):
            if decl.type is None:
                raise self.reporter.fail(e.span, f"'{e.name}' cannot be used here")
            return _done(e, decl.type)
        if isinstance(decl, ast.ActionDecl):
            return _done(e, t.TAction(decl))
        if isinstance(decl, ast.TableDecl):
            return _done(e, t.TTable(decl))
        if isinstance(decl, ast.ValueSetDecl):
            assert decl.type is not None
            return _done(e, t.TSet(decl.type))
        raise self.reporter.fail(e.span, f"'{e.name}' is not a value")

    def _member(self, e: ast.Member) -> ast.Expr:
        if isinstance(e.base, ast.TypeExpr):
            return self._type_member(e, e.base)
        e.base = self.expr(e.base)
        base = _type(e.base)
        if isinstance(base, t.TStruct):
            found = base.fields.get(e.member)
            if found is None:
                names = list(base.fields)
                if e.member in _HEADER_METHODS and base.kind != "struct":
                    raise self.reporter.fail(
                        e.member_span, f"'{e.member}' has to be called: add '()'"
                    )
                raise self.reporter.fail(
                    e.member_span,
                    f"{base.kind} '{base}' has no field '{e.member}'"
                    + did_you_mean(e.member, names),
                )
            value = e.base.value.get(e.member) if isinstance(e.base.value, dict) else None
            return _done(e, found, value)
        if isinstance(base, t.TStack):
            if e.member in ("next", "last"):
                if self.context != "parser":
                    raise self.reporter.fail(e.span, f"'{e.member}' can be used in parsers only")
                return _done(e, base.element)
            if e.member == "lastIndex":
                if self.context != "parser":
                    raise self.reporter.fail(e.span, "'lastIndex' can be used in parsers only")
                return _done(e, t.bits(32))
            if e.member == "size":
                return _done(e, t.bits(32), base.size)
            names = ["next", "last", "lastIndex", "size", "push_front", "pop_front"]
            raise self.reporter.fail(
                e.member_span,
                f"a header stack has no member '{e.member}'{did_you_mean(e.member, names)}",
            )
        if isinstance(base, t.TApplyResult):
            if e.member in ("hit", "miss"):
                return _done(e, t.BOOL)
            if e.member == "action_run":
                return _done(e, t.TActionRun(base.decl))
            hint = did_you_mean(e.member, ["hit", "miss", "action_run"])
            raise self.reporter.fail(
                e.member_span, f"the result of apply() has no member '{e.member}'{hint}"
            )
        if isinstance(base, t.TUnknown):
            return _done(e, t.UNKNOWN)
        raise self.reporter.fail(e.member_span, f"a value of type '{base}' has no members")

    def _type_member(self, e: ast.Member, base: ast.TypeExpr) -> ast.Expr:
        type_ = self.type_of(base.ref)
        if isinstance(type_, t.TError):
            if e.member not in self.errors:
                hint = did_you_mean(e.member, self.errors)
                raise self.reporter.fail(e.member_span, f"unknown error '{e.member}'{hint}")
            return _done(e, t.ERROR, fold.Symbol("error", e.member))
        if isinstance(type_, (t.TEnum, t.TSerEnum)):
            if e.member not in type_.members:
                hint = did_you_mean(e.member, type_.members)
                raise self.reporter.fail(
                    e.member_span, f"enum '{type_}' has no member '{e.member}'{hint}"
                )
            if isinstance(type_, t.TSerEnum):
                return _done(e, type_, type_.members[e.member])
            return _done(e, type_, fold.Symbol(type_.name, e.member))
        raise self.reporter.fail(e.span, f"type '{type_}' has no member '{e.member}'")

    def _index(self, e: ast.Index) -> ast.Expr:
        e.base = self.expr(e.base)
        base = _type(e.base)
        e.index = self.expr(e.index)
        index = e.index.value
        if isinstance(base, t.TTuple):
            if not isinstance(index, int):
                raise self.reporter.fail(e.index.span, "the index of a tuple has to be a constant")
            if not 0 <= index < len(base.items):
                raise self.reporter.fail(e.index.span, f"index {index} is outside the tuple")
            value = e.base.value[index] if isinstance(e.base.value, list) else None
            return _done(e, base.items[index], value)
        if not isinstance(base, t.TStack):
            raise self.reporter.fail(e.span, f"a value of type '{base}' cannot be indexed")
        if not isinstance(t.base(_type(e.index)), (t.TInt, t.TBits)):
            raise self.reporter.fail(
                e.index.span, f"the index is a '{e.index.type}', not an integer"
            )
        if isinstance(index, int) and not 0 <= index < base.size:
            raise self.reporter.fail(
                e.index.span, f"index {index} is outside the stack of {base.size} headers"
            )
        return _done(e, base.element)

    def _slice(self, e: ast.Slice) -> ast.Expr:
        e.base = self.expr(e.base)
        base = t.base(_type(e.base))
        if isinstance(base, t.TUnknown):
            return _done(e, t.UNKNOWN)
        if not isinstance(base, t.TBits):
            raise self.reporter.fail(e.span, f"a value of type '{e.base.type}' cannot be sliced")
        e.hi = self.constant_int(e.high, "the upper bit of a slice")
        e.lo = self.constant_int(e.low, "the lower bit of a slice")
        if e.lo < 0 or e.hi < e.lo or e.hi >= base.width:
            raise self.reporter.fail(
                e.span, f"slice [{e.hi}:{e.lo}] does not fit '{base}' (needs 0 <= low <= high < "
                f"{base.width})"
            )  # fmt: skip
        width = e.hi - e.lo + 1
        value = None
        if isinstance(e.base.value, int):
            value = (e.base.value >> e.lo) & ((1 << width) - 1)
        return _done(e, t.bits(width), value)

    # ---- operators

    def _unary(self, e: ast.Unary) -> ast.Expr:
        e.operand = self.expr(e.operand)
        type_ = _type(e.operand)
        kind = t.base(type_) if isinstance(type_, t.TSerEnum) else type_
        if e.op == "!":
            if not isinstance(kind, (t.TBool, t.TUnknown)):
                raise self.reporter.fail(e.span, f"'!' needs a bool, not '{type_}'")
        elif not isinstance(kind, (t.TBits, t.TInt, t.TUnknown)):
            raise self.reporter.fail(e.span, f"'{e.op}' cannot be applied to '{type_}'")
        value = None
        if e.operand.value is not None:
            value = fold.unary(e.op, e.operand.value, kind)
        return _done(e, kind, value)

    def _binary(self, e: ast.Binary) -> ast.Expr:
        e.left = self.expr(e.left)
        e.right = self.expr(e.right)
        op = e.op
        if op in ("&&", "||"):
            for side in (e.left, e.right):
                if not isinstance(side.type, (t.TBool, t.TUnknown)):
                    raise self.reporter.fail(
                        side.span, f"'{op}' needs bool operands, not '{side.type}'"
                    )
            value = None
            if e.left.value is not None and e.right.value is not None:
                value = fold.binary(op, e.left.value, e.right.value, t.BOOL)
            return _done(e, t.BOOL, value)
        if op == "++":
            return self._concat(e)
        if op in ("<<", ">>"):
            return self._shift(e)
        self._balance(e)
        left = _type(e.left)
        if op in ("==", "!="):
            self._comparable(e, left)
            return _done(e, t.BOOL, self._fold(e, t.BOOL))
        kind = t.base(left) if isinstance(left, t.TSerEnum) else left
        if isinstance(kind, t.TUnknown) or isinstance(e.right.type, t.TUnknown):
            return _done(e, t.BOOL if op in _COMPARE else t.UNKNOWN)
        arithmetic = isinstance(kind, (t.TBits, t.TInt)) or (
            op in _COMPARE and isinstance(t.base(kind), t.TBits)
        )
        if not arithmetic:
            raise self.reporter.fail(e.span, f"'{op}' cannot be applied to '{left}'")
        if op in ("/", "%") and isinstance(kind, t.TBits) and kind.signed:
            raise self.reporter.fail(e.span, f"'{op}' is not defined for signed types")
        if op in ("|+|", "|-|") and isinstance(kind, t.TInt):
            raise self.reporter.fail(e.span, f"'{op}' needs operands of a fixed width")
        if op in _COMPARE:
            return _done(e, t.BOOL, self._fold(e, t.BOOL))
        return _done(e, kind, self._fold(e, kind))

    def _fold(self, e: ast.Binary, type_: t.Type) -> Any:
        left, right = e.left.value, e.right.value
        if e.op in ("/", "%") and right == 0 and isinstance(right, int):
            raise self.reporter.fail(e.right.span, "division by zero")
        if left is None or right is None:
            return None
        try:
            return fold.binary(e.op, left, right, type_)
        except fold.FoldError as error:
            raise self.reporter.fail(e.span, str(error)) from None

    def _concat(self, e: ast.Binary) -> ast.Expr:
        widths: list[int] = []
        for side in (e.left, e.right):
            kind = t.base(_type(side))
            if not isinstance(kind, t.TBits):
                hint = ": give it a width" if isinstance(kind, t.TInt) else ""
                raise self.reporter.fail(
                    side.span, f"'++' cannot be applied to '{side.type}'{hint}"
                )
            widths.append(kind.width)
        left = t.base(_type(e.left))
        assert isinstance(left, t.TBits)
        type_ = t.bits(sum(widths), left.signed)
        value = None
        if isinstance(e.left.value, int) and isinstance(e.right.value, int):
            low = e.right.value & ((1 << widths[1]) - 1)
            value = fold.wrap((e.left.value << widths[1]) | low, type_)
        return _done(e, type_, value)

    def _shift(self, e: ast.Binary) -> ast.Expr:
        left, right = t.base(_type(e.left)), t.base(_type(e.right))
        if not isinstance(left, (t.TBits, t.TInt, t.TUnknown)):
            raise self.reporter.fail(e.left.span, f"'{e.op}' cannot be applied to '{e.left.type}'")
        if not isinstance(right, (t.TBits, t.TInt, t.TUnknown)):
            raise self.reporter.fail(e.right.span, f"cannot shift by a '{e.right.type}'")
        if isinstance(right, t.TBits) and right.signed:
            raise self.reporter.fail(e.right.span, "cannot shift by a signed amount")
        if isinstance(left, t.TInt) and e.left.value is not None and e.right.value is None:
            raise self.reporter.fail(e.left.span, "give the shifted constant a width, such as 32w1")
        if isinstance(right, t.TInt) and isinstance(e.right.value, int) and e.right.value < 0:
            raise self.reporter.fail(e.right.span, "cannot shift by a negative amount")
        if (
            isinstance(left, t.TBits)
            and isinstance(e.right.value, int)
            and e.right.value >= left.width
        ):
            self.reporter.warn(e.span, f"shifting a {left.width}-bit value by {e.right.value}")
        return _done(e, left, self._fold(e, left))

    def _balance(self, e: ast.Binary) -> None:
        """Make both operands the same type by implicit conversions."""
        e.left, e.right = self._same_type(e.left, e.right, e.span, f"'{e.op}'")

    def _same_type(
        self, left: ast.Expr, right: ast.Expr, span: Span, what: str
    ) -> tuple[ast.Expr, ast.Expr]:
        a, b = _type(left), _type(right)
        if t.same(a, b):
            return left, right
        if isinstance(a, t.TInt) and isinstance(b, t.TBits):
            return self.coerce(left, b), right
        if isinstance(b, t.TInt) and isinstance(a, t.TBits):
            return left, self.coerce(right, a)
        if isinstance(a, t.TSerEnum) and isinstance(t.base(b), (t.TBits, t.TInt)):
            return self._same_type(self.coerce(left, a.underlying), right, span, what)
        if isinstance(b, t.TSerEnum) and isinstance(t.base(a), (t.TBits, t.TInt)):
            return self._same_type(left, self.coerce(right, b.underlying), span, what)
        if _is_literal(right) and not _is_literal(left):
            return left, self.coerce(right, a)
        if _is_literal(left):
            return self.coerce(left, b), right
        hint = ""
        if isinstance(a, t.TBits) and isinstance(b, t.TBits):
            hint = f"; cast one side, such as ({a}) ..."
        raise self.reporter.fail(span, f"{what}: operands are '{a}' and '{b}'{hint}")

    def _comparable(self, e: ast.Binary, type_: t.Type) -> None:
        if isinstance(type_, (t.TExtern, t.TFunction, t.TTable, t.TAction, t.TVoid, t.TBlock)):
            raise self.reporter.fail(e.span, f"values of type '{type_}' cannot be compared")

    def _ternary(self, e: ast.Ternary, expected: t.Type | None) -> ast.Expr:
        e.cond = self.coerce(self.expr(e.cond), t.BOOL, "the condition")
        e.yes = self.expr(e.yes, expected)
        e.no = self.expr(e.no, expected)
        if expected is not None and isinstance(t.base(expected), t.TBits):
            e.yes = self.coerce(e.yes, expected)
            e.no = self.coerce(e.no, expected)
        else:
            e.yes, e.no = self._same_type(e.yes, e.no, e.span, "'?:'")
        value = None
        if isinstance(e.cond.value, bool):
            value = e.yes.value if e.cond.value else e.no.value
        if isinstance(e.yes.type, t.TInt) and value is None:
            raise self.reporter.fail(
                e.span, "'?:' needs alternatives of a fixed width, such as 8w1"
            )
        return _done(e, _type(e.yes), value)

    # ---- conversions

    def _cast(self, e: ast.Cast) -> ast.Expr:
        assert e.ref is not None
        target = self.type_of(e.ref)
        e.operand = self.expr(e.operand, target)
        source = _type(e.operand)
        if not self._castable(source, target):
            if _is_literal(e.operand) or isinstance(source, (t.TTuple, t.TRecord, t.TInvalid)):
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
            value = bool(value)
        elif isinstance(t.base(target), t.TBits) and isinstance(value, int):
            value = fold.wrap(int(value), target)
        elif isinstance(t.base(target), t.TInt) and isinstance(value, int):
            value = int(value)
        return _done(e, target, value)

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
        source = _type(e)
        if isinstance(e, (ast.ListExpr, ast.StructExpr, ast.InvalidHeader, ast.DefaultExpr)):
            shaped = self._shape(e, target, what)
            if shaped is not None:
                return shaped
        if t.same(source, target) or isinstance(target, t.TUnknown):
            return e
        if isinstance(source, t.TInt) and isinstance(target, (t.TBits, t.TInt)):
            if isinstance(e.value, int) and not fold.fits(e.value, target):
                if isinstance(target, t.TBits) and target.signed and e.value >= 0:
                    limit = f"-{1 << (target.width - 1)}..{(1 << (target.width - 1)) - 1}"
                else:
                    assert isinstance(target, t.TBits)
                    limit = f"0..{(1 << target.width) - 1}"
                self.reporter.warn(e.span, f"{e.value} does not fit in '{target}' ({limit})")
            return self._implicit(e, target)
        if isinstance(source, t.TSerEnum) and t.same(source.underlying, target):
            return self._implicit(e, target)
        if isinstance(source, t.TTuple) and isinstance(target, t.TStruct):
            return self._tuple_to_struct(e, source, target, what)
        prefix = f"{what}: " if what else ""
        hint = ""
        if isinstance(source, t.TBits) and isinstance(target, t.TBits):
            hint = f"; write ({target}) to convert"
        elif isinstance(target, t.TBool) and isinstance(source, (t.TBits, t.TInt)):
            hint = "; compare it, such as '!= 0'"
        elif isinstance(source, t.TBool) and target == t.bits(1):
            hint = "; write (bit<1>) to convert"
        raise self.reporter.fail(e.span, f"{prefix}expected '{target}', found '{source}'{hint}")

    def _implicit(self, e: ast.Expr, target: t.Type) -> ast.Expr:
        cast = ast.Cast(e.span, None, e)
        return self._converted(cast, e, target)

    def _tuple_to_struct(
        self, e: ast.Expr, source: t.TTuple, target: t.TStruct, what: str
    ) -> ast.Expr:
        fields = list(target.fields.values())
        if len(fields) == len(source.items) and all(
            t.same(a, b) for a, b in zip(source.items, fields, strict=True)
        ):
            return _done(ast.Cast(e.span, None, e), target)
        raise self.reporter.fail(e.span, f"{what or 'value'}: '{source}' does not match '{target}'")

    def _shape(self, e: ast.Expr, target: t.Type, what: str) -> ast.Expr | None:
        """Give a list, record, `{#}` or `...` the type it is used as."""
        if isinstance(e, ast.DefaultExpr):
            return _done(e, target)
        if isinstance(e, ast.InvalidHeader):
            if isinstance(target, t.TStruct) and target.kind != "struct":
                return _done(e, target)
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
            if len(e.items) != len(target.items):
                raise self.reporter.fail(
                    e.span, f"the tuple has {len(target.items)} elements, not {len(e.items)}"
                )
            e.items = [self.coerce(i, tt) for i, tt in zip(e.items, target.items, strict=True)]
        elif isinstance(target, (t.TList, t.TStack)):
            if isinstance(target, t.TStack) and len(e.items) > target.size:
                raise self.reporter.fail(e.span, f"the stack has {target.size} elements")
            e.items = [self.coerce(i, target.element) for i in e.items]
        else:
            return None
        values = [i.value for i in e.items]
        return _done(e, target, values if values and all(v is not None for v in values) else None)

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
                item = _done(ast.DefaultExpr(e.span), type_)
            else:
                item = self.coerce(self.expr(item, type_), type_, f"field '{name}'")
            fields.append((name, item))
        e.fields = fields
        values = {n: x.value for n, x in fields}
        constant = target.kind == "struct" and all(v is not None for v in values.values())
        return _done(e, target, values if constant and values else None)

    def _struct_expr(self, e: ast.StructExpr) -> ast.Expr:
        if e.ref is not None:
            target = self.type_of(e.ref)
            if not isinstance(target, t.TStruct) or target.kind == "header_union":
                raise self.reporter.fail(
                    e.span, f"'{target}' cannot be built from a list of fields"
                )
            return self._shape_record(e, target)
        e.fields = [(n, self.expr(x)) for n, x in e.fields]
        return _done(e, t.TRecord(tuple((n, _type(x)) for n, x in e.fields)))

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
            if isinstance(e.base.type, t.TTuple):
                return "elements of a tuple cannot be changed"
            return self._not_writable(e.base)
        return "this expression cannot be assigned to"

    # ---- key sets

    def keyset_element(self, e: ast.Expr, key: t.Type) -> ast.Expr:
        """Check one element of a select case or table entry against the type of its key."""
        if isinstance(e, ast.DefaultExpr):
            return _done(e, key)
        if isinstance(e, (ast.MaskExpr, ast.RangeExpr)):
            kind = t.base(key)
            if not isinstance(kind, t.TBits):
                raise self.reporter.fail(e.span, f"a key of type '{key}' has no masks or ranges")
            plain = key if isinstance(key, t.TBits) else kind
            e.left = self.coerce(self._as_plain(self.expr(e.left), key), plain)
            e.right = self.coerce(self._as_plain(self.expr(e.right), key), plain)
            return _done(e, t.TSet(key))
        if isinstance(e, ast.ListExpr) and len(e.items) == 1:
            e = e.items[0]
        e = self.expr(e, key)
        if isinstance(e.type, t.TSet):
            if not self._set_matches(e.type.element, key):
                raise self.reporter.fail(
                    e.span, f"the value set holds '{e.type.element}', the key is a '{key}'"
                )
            return e
        if isinstance(key, t.TNew) and isinstance(e.type, t.TInt):
            raise self.reporter.fail(e.span, f"expected '{key}', found 'int'; write ({key}) ...")
        return self.coerce(e, key, "key")

    def _as_plain(self, e: ast.Expr, key: t.Type) -> ast.Expr:
        if isinstance(key, (t.TNew, t.TSerEnum)) and t.same(_type(e), key):
            return _done(ast.Cast(e.span, None, e), t.base(key), e.value)
        return e

    def _set_matches(self, element: t.Type, key: t.Type) -> bool:
        if t.same(element, key) or t.same(t.base(element), t.base(key)):
            return True
        fields = list(element.fields.values()) if isinstance(element, t.TStruct) else []
        return len(fields) == 1 and t.same(fields[0], key)


_HEADER_METHODS = ("isValid", "setValid", "setInvalid")


def _done(e: ast.Expr, type_: t.Type, value: Any = None) -> ast.Expr:
    e.type = type_
    e.value = value
    return e


def _type(e: ast.Expr) -> t.Type:
    return e.type if e.type is not None else t.UNKNOWN


def _is_literal(e: ast.Expr) -> bool:
    return isinstance(e, (ast.ListExpr, ast.StructExpr, ast.InvalidHeader, ast.DefaultExpr))
