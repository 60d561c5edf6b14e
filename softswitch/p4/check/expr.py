"""Types and compile-time values of expressions (spec section 8)."""

from __future__ import annotations

from typing import Any

from softswitch.p4 import ast, fold
from softswitch.p4 import types as t
from softswitch.p4.check.convert import ConvertChecker
from softswitch.p4.check.never import check_comparison
from softswitch.p4.check.nodes import done, is_literal, is_open, typed
from softswitch.p4.diagnostics import Span, did_you_mean

_INCOMPARABLE = (
    t.TExtern, t.TFunction, t.TTable, t.TAction, t.TVoid, t.TBlock, t.TArch, t.TApplyResult, t.TSet,
)  # fmt: skip
_COMPARE = ("==", "!=", "<", "<=", ">", ">=")


class ExprChecker(ConvertChecker):
    """Every method returns the node that takes the place of the one given."""

    def expr(self, e: ast.Expr, expected: t.Type | None = None) -> ast.Expr:
        if e.type is not None:
            return e
        if isinstance(e, ast.IntLit):
            return self._int(e)
        if isinstance(e, ast.BoolLit):
            return done(e, t.BOOL, e.boolean)
        if isinstance(e, ast.StringLit):
            return done(e, t.STRING, e.text)
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
            return self.cast(e)
        if isinstance(e, ast.Call):
            return self.call(e, expected)
        if isinstance(e, ast.ListExpr):
            e.items = [self.expr(i, t.UNKNOWN) for i in e.items]
            values = [i.value for i in e.items]
            value = values if all(v is not None for v in values) and values else None
            return done(e, t.TTuple(tuple(typed(i) for i in e.items)), value)
        if isinstance(e, ast.StructExpr):
            return self.struct_expr(e)
        if isinstance(e, ast.InvalidHeader):
            return done(e, t.INVALID)
        if isinstance(e, ast.DefaultExpr):
            if expected is None:
                raise self.reporter.fail(
                    e.span, "'...' stands for a default value; no type is known here"
                )
            return done(e, t.UNKNOWN)
        if isinstance(e, ast.TypeExpr):
            raise self.reporter.fail(e.span, f"'{e.ref.name}' is a type; a value is expected here")
        raise self.reporter.fail(e.span, "this expression cannot be used here")

    def _int(self, e: ast.IntLit) -> ast.Expr:
        type_: t.Type = t.INT if e.width is None else t.bits(e.width, e.signed)
        return done(e, type_, e.number)

    # ---- names

    def _name(self, e: ast.Name) -> ast.Expr:
        decl = self.lookup(e.name, e.span, absolute=e.absolute)
        e.decl = decl
        if isinstance(decl, list):
            return done(e, t.FUNCTION)
        self.used.add(decl)
        if isinstance(decl, ast.ConstDecl):
            if decl.type is None:
                raise self.reporter.fail(
                    e.span, f"constant '{e.name}' is used in its own declaration"
                )
            return done(e, decl.type, decl.init.value)
        if isinstance(decl, (ast.VarDecl, ast.Param, ast.InstanceDecl)):
            if decl.type is None:
                raise self.reporter.fail(e.span, f"'{e.name}' cannot be used here")
            return done(e, decl.type)
        if isinstance(decl, ast.ActionDecl):
            return done(e, t.TAction(decl))
        if isinstance(decl, ast.TableDecl):
            return done(e, t.TTable(decl))
        if isinstance(decl, ast.ValueSetDecl):
            assert decl.type is not None
            return done(e, t.TSet(decl.type))
        raise self.reporter.fail(e.span, f"'{e.name}' is not a value")

    def _member(self, e: ast.Member) -> ast.Expr:
        if isinstance(e.base, ast.TypeExpr):
            return self._type_member(e, e.base)
        e.base = self.expr(e.base)
        base = typed(e.base)
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
            return done(e, found, value)
        if isinstance(base, t.TStack):
            if e.member in ("next", "last"):
                if self.context != "parser":
                    raise self.reporter.fail(e.span, f"'{e.member}' can be used in parsers only")
                return done(e, base.element)
            if e.member == "lastIndex":
                if self.context != "parser":
                    raise self.reporter.fail(e.span, "'lastIndex' can be used in parsers only")
                return done(e, t.bits(32))
            if e.member == "size":
                return done(e, t.bits(32), base.size)
            names = ["next", "last", "lastIndex", "size", "push_front", "pop_front"]
            raise self.reporter.fail(
                e.member_span,
                f"a header stack has no member '{e.member}'{did_you_mean(e.member, names)}",
            )
        if isinstance(base, t.TApplyResult):
            if e.member in ("hit", "miss"):
                return done(e, t.BOOL)
            if e.member == "action_run":
                return done(e, t.TActionRun(base.decl))
            hint = did_you_mean(e.member, ["hit", "miss", "action_run"])
            raise self.reporter.fail(
                e.member_span, f"the result of apply() has no member '{e.member}'{hint}"
            )
        if isinstance(base, t.TUnknown):
            return done(e, t.UNKNOWN)
        raise self.reporter.fail(e.member_span, f"a value of type '{base}' has no members")

    def _type_member(self, e: ast.Member, base: ast.TypeExpr) -> ast.Expr:
        type_ = self.type_of(base.ref)
        if isinstance(type_, t.TError):
            if e.member not in self.errors:
                hint = did_you_mean(e.member, self.errors)
                raise self.reporter.fail(e.member_span, f"unknown error '{e.member}'{hint}")
            return done(e, t.ERROR, fold.Symbol("error", e.member))
        if isinstance(type_, (t.TEnum, t.TSerEnum)):
            if e.member not in type_.members:
                hint = did_you_mean(e.member, type_.members)
                raise self.reporter.fail(
                    e.member_span, f"enum '{type_}' has no member '{e.member}'{hint}"
                )
            if isinstance(type_, t.TSerEnum):
                return done(e, type_, type_.members[e.member])
            return done(e, type_, fold.Symbol(type_.name, e.member))
        raise self.reporter.fail(e.span, f"type '{type_}' has no member '{e.member}'")

    def _index(self, e: ast.Index) -> ast.Expr:
        e.base = self.expr(e.base)
        base = typed(e.base)
        e.index = self.expr(e.index)
        index = e.index.value
        if isinstance(base, t.TTuple):
            if not isinstance(index, int):
                raise self.reporter.fail(e.index.span, "the index of a tuple has to be a constant")
            if not 0 <= index < len(base.items):
                raise self.reporter.fail(e.index.span, f"index {index} is outside the tuple")
            value = e.base.value[index] if isinstance(e.base.value, list) else None
            return done(e, base.items[index], value)
        if not isinstance(base, t.TStack):
            raise self.reporter.fail(e.span, f"a value of type '{base}' cannot be indexed")
        if not isinstance(t.base(typed(e.index)), (t.TInt, t.TBits)):
            raise self.reporter.fail(
                e.index.span, f"the index is a '{e.index.type}', not an integer"
            )
        if isinstance(index, int) and not 0 <= index < base.size:
            raise self.reporter.fail(
                e.index.span, f"index {index} is outside the stack of {base.size} headers"
            )
        return done(e, base.element)

    def _slice(self, e: ast.Slice) -> ast.Expr:
        e.base = self.expr(e.base)
        base = t.base(typed(e.base))
        if isinstance(base, t.TUnknown):
            return done(e, t.UNKNOWN)
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
        return done(e, t.bits(width), value)

    # ---- operators

    def _unary(self, e: ast.Unary) -> ast.Expr:
        e.operand = self.expr(e.operand)
        type_ = typed(e.operand)
        kind = t.base(type_) if isinstance(type_, t.TSerEnum) else type_
        if e.op == "!":
            if not isinstance(kind, (t.TBool, t.TUnknown)):
                raise self.reporter.fail(e.span, f"'!' needs a bool, not '{type_}'")
        elif not isinstance(kind, (t.TBits, t.TInt, t.TUnknown)):
            raise self.reporter.fail(e.span, f"'{e.op}' cannot be applied to '{type_}'")
        value = None
        if e.operand.value is not None:
            value = fold.unary(e.op, e.operand.value, kind)
        return done(e, kind, value)

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
            return done(e, t.BOOL, value)
        if op == "++":
            return self._concat(e)
        if op in ("<<", ">>"):
            return self._shift(e)
        if op in ("/", "%"):
            for side in (e.left, e.right):
                if isinstance(side.value, int) and side.value < 0:
                    raise self.reporter.fail(
                        side.span, f"'{op}' is not defined for negative numbers"
                    )
        self._balance(e)
        left = typed(e.left)
        if op in ("==", "!="):
            self._comparable(e, left)
            return done(e, t.BOOL, self._fold(e, t.BOOL))
        kind = t.base(left) if isinstance(left, t.TSerEnum) else left
        if isinstance(kind, t.TUnknown) or isinstance(e.right.type, t.TUnknown):
            return done(e, t.BOOL if op in _COMPARE else t.UNKNOWN)
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
            check_comparison(e, self.reporter)
            return done(e, t.BOOL, self._fold(e, t.BOOL))
        return done(e, kind, self._fold(e, kind))

    def _fold(self, e: ast.Binary, type_: t.Type) -> Any:
        left, right = e.left.value, e.right.value
        if e.op in ("/", "%") and right == 0 and isinstance(right, int):
            raise self.reporter.fail(e.right.span, "division by zero")
        if left is None or right is None:
            self._run_time_division(e)
            return None
        try:
            return fold.binary(e.op, left, right, type_)
        except fold.FoldError as error:
            raise self.reporter.fail(e.span, str(error)) from None

    def _run_time_division(self, e: ast.Binary) -> None:
        """P4 divides at compile time only; shifts and masks do the rest."""
        if e.op not in ("/", "%") or not isinstance(t.base(typed(e.left)), t.TBits):
            return
        right = e.right.value
        if e.left.value == 0:
            return
        if isinstance(right, int):
            if right & (right - 1) == 0:
                return
        elif self.known_later(e.right):
            return
        raise self.reporter.fail(
            e.span,
            f"'{e.op}' can only be computed at compile time, or by a constant power of two",
        )

    def _concat(self, e: ast.Binary) -> ast.Expr:
        if isinstance(e.left.type, t.TString) and isinstance(e.right.type, t.TString):
            texts = e.left.value, e.right.value
            joined = "".join(texts) if all(isinstance(x, str) for x in texts) else None
            return done(e, t.STRING, joined)
        widths: list[int] = []
        for side in (e.left, e.right):
            kind = t.base(typed(side))
            if not isinstance(kind, t.TBits):
                hint = ": give it a width" if isinstance(kind, t.TInt) else ""
                raise self.reporter.fail(
                    side.span, f"'++' cannot be applied to '{side.type}'{hint}"
                )
            widths.append(kind.width)
        left = t.base(typed(e.left))
        assert isinstance(left, t.TBits)
        type_ = t.bits(sum(widths), left.signed)
        value = None
        if isinstance(e.left.value, int) and isinstance(e.right.value, int):
            low = e.right.value & ((1 << widths[1]) - 1)
            value = fold.wrap((e.left.value << widths[1]) | low, type_)
        return done(e, type_, value)

    def _shift(self, e: ast.Binary) -> ast.Expr:
        left, right = t.base(typed(e.left)), t.base(typed(e.right))
        if not isinstance(left, (t.TBits, t.TInt, t.TUnknown)):
            raise self.reporter.fail(e.left.span, f"'{e.op}' cannot be applied to '{e.left.type}'")
        if not isinstance(right, (t.TBits, t.TInt, t.TUnknown)):
            raise self.reporter.fail(e.right.span, f"cannot shift by a '{e.right.type}'")
        if isinstance(e.right.type, t.TNew):
            raise self.reporter.fail(
                e.right.span, f"cannot shift by a '{e.right.type}': cast it to '{right}'"
            )
        amount = e.right.value
        if isinstance(right, t.TBits) and right.signed and not isinstance(amount, int):
            raise self.reporter.fail(e.right.span, "cannot shift by a signed amount")
        if isinstance(left, t.TInt) and e.left.value is not None and e.right.value is None:
            raise self.reporter.fail(e.left.span, "give the shifted constant a width, such as 32w1")
        if isinstance(amount, int) and amount < 0:
            raise self.reporter.fail(e.right.span, "cannot shift by a negative amount")
        if (
            isinstance(left, t.TBits)
            and isinstance(e.right.value, int)
            and e.right.value >= left.width
        ):
            self.reporter.warn(
                e.span, f"shifting a {left.width}-bit value by {e.right.value}", "overflow"
            )
        return done(e, left, self._fold(e, left))

    def _balance(self, e: ast.Binary) -> None:
        """Make both operands the same type by implicit conversions."""
        e.left, e.right = self._same_type(e.left, e.right, e.span, f"'{e.op}'")

    def _same_type(
        self, left: ast.Expr, right: ast.Expr, span: Span, what: str
    ) -> tuple[ast.Expr, ast.Expr]:
        a, b = typed(left), typed(right)
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
        if is_open(right) and not is_open(left):
            return left, self.coerce(right, a)
        if is_open(left):
            return self.coerce(left, b), right
        hint = ""
        if isinstance(a, t.TBits) and isinstance(b, t.TBits):
            hint = f"; cast one side, such as ({a}) ..."
        raise self.reporter.fail(span, f"{what}: operands are '{a}' and '{b}'{hint}")

    def _comparable(self, e: ast.Binary, type_: t.Type) -> None:
        if isinstance(type_, t.TActionRun):
            raise self.reporter.fail(
                e.span, "'action_run' can be used in a switch only: switch (t.apply().action_run)"
            )
        if isinstance(type_, _INCOMPARABLE):
            raise self.reporter.fail(e.span, f"values of type '{type_}' cannot be compared")
        if is_literal(e.left) and is_literal(e.right) and isinstance(type_, t.TRecord):
            raise self.reporter.fail(
                e.span, "no struct is known for these lists: cast one, such as (S){...}"
            )

    def _ternary(self, e: ast.Ternary, expected: t.Type | None) -> ast.Expr:
        e.cond = self.coerce(self.expr(e.cond), t.BOOL, "the condition")
        e.yes = self.expr(e.yes, expected)
        e.no = self.expr(e.no, expected)
        if expected is not None and (
            isinstance(t.base(expected), (t.TStruct, t.TStack))
            or (
                isinstance(t.base(expected), t.TBits)
                and isinstance(typed(e.yes), t.TInt)
                and isinstance(typed(e.no), t.TInt)
            )
        ):
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
        return done(e, typed(e.yes), value)


_HEADER_METHODS = ("isValid", "setValid", "setInvalid")
