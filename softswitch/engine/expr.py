"""Expressions of the bmv2 JSON as C.

bmv2 computes with integers of any size and truncates only when a value is stored. C does
not, so every expression is compiled in one of two ways:

* `exact`: a C value that equals the mathematical one. Its range is known, and the C type
  is the narrowest of u64, i64, u128, i128 and `wide` that holds the range.
* `mod(n)`: a C value whose low n bits are right, which is all that an assignment to an
  n-bit field or a mask needs; sums, products and the like then wrap harmlessly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from softswitch.engine.program import Action, Instance, Program, Stack, fail, hexstr

MAX_BITS = 8192
"""Widest intermediate value; beyond it a program is refused."""
MAX_DEPTH = 200


@dataclass(frozen=True)
class Value:
    """A C expression with the range of the integer it stands for."""

    code: str
    lo: int
    hi: int

    @property
    def ctype(self) -> str:
        return ctype(self.lo, self.hi)


def ctype(lo: int, hi: int) -> str:
    if lo >= 0 and hi < 1 << 64:
        return "u64"
    if lo >= -(1 << 63) and hi < 1 << 63:
        return "i64"
    if lo >= 0 and hi < 1 << 128:
        return "u128"
    if lo >= -(1 << 127) and hi < 1 << 127:
        return "i128"
    return "wide"


def modtype(n: int) -> str:
    return "u64" if n <= 64 else "u128" if n <= 128 else "wide"


def u64_lit(v: int) -> str:
    return f"{v:#x}ull" if v > 9 else f"{v}ull"


class Expr:
    """Compiler of expressions; `action` gives meaning to runtime data."""

    def __init__(self, program: Program) -> None:
        self.p = program
        self.action: Action | None = None
        self.limbs = 0
        """Words that the widest value needs, 0 when none is wider than 128 bits."""
        self._depth = 0

    # -- types

    def need(self, lo: int, hi: int) -> None:
        bits = max(lo.bit_length(), hi.bit_length()) + 1
        if bits > MAX_BITS:
            fail(f"an expression needs more than {MAX_BITS} bits")
        self.limbs = max(self.limbs, (bits + 63) // 64, 3)

    def value(self, code: str, lo: int, hi: int) -> Value:
        if ctype(lo, hi) == "wide":
            self.need(lo, hi)
        return Value(code, lo, hi)

    def conv(self, v: Value, to: str) -> str:
        """The value in another type, modulo that type's size."""
        have = v.ctype
        if have == to:
            return v.code
        if to == "wide":
            self.limbs = max(self.limbs, 3)
            return f"w_{have}({v.code})"
        if have == "wide":
            return f"(({to}){'w_lo64' if to in ('u64', 'i64') else 'w_lo128'}({v.code}))"
        return f"(({to}){v.code})"

    def const(self, n: int) -> Value:
        t = ctype(n, n)
        if t == "u64":
            return Value(u64_lit(n), n, n)
        if t == "i64":
            return Value(f"((i64){u64_lit(n & (1 << 64) - 1)})", n, n)
        low = n & (1 << 128) - 1
        if t in ("u128", "i128"):
            code = f"U128({u64_lit(low >> 64)}, {u64_lit(low & (1 << 64) - 1)})"
            return Value(code if t == "u128" else f"((i128){code})", n, n)
        self.need(n, n)
        count = (n.bit_length() + 64) // 64
        words = ", ".join(u64_lit(n >> 64 * i & (1 << 64) - 1) for i in range(count))
        code = f"w_load((const u64[]){{{words}}}, {count})"
        if n < 0:
            code = f"w_sext({code}, {64 * count})"
        return Value(code, n, n)

    # -- leaves

    def read(self, inst: str, f: Any, index: int) -> Value:
        """Field `index` (a program.Field) of the header at C path `inst`."""
        w, code = f.width, f"{inst}.f{index}"
        if f.varbit:
            fail(f"variable-length field '{f.name}' used as a number")
        if w <= 64:
            if f.signed:
                up = 64 - w
                return Value(
                    f"((i64)((u64){code} << {up}) >> {up})", -(1 << w - 1), (1 << w - 1) - 1
                )
            return Value(f"((u64){code})", 0, (1 << w) - 1)
        if w <= 128:
            if f.signed:
                up = 128 - w
                return self.value(
                    f"((i128)({code} << {up}) >> {up})", -(1 << w - 1), (1 << w - 1) - 1
                )
            return self.value(code, 0, (1 << w) - 1)
        self.need(0, 1 << w)
        load = f"w_load({code}, {f.words})"
        if f.signed:
            return self.value(f"w_sext({load}, {w})", -(1 << w - 1), (1 << w - 1) - 1)
        return self.value(load, 0, (1 << w) - 1)

    def field(self, ref: Any) -> Value:
        inst, index = self.p.field(ref)
        if index < 0:
            return Value(self.valid(inst), 0, 1)
        return self.read(inst.path, inst.type.fields[index], index)

    @staticmethod
    def valid(inst: Instance) -> str:
        return "1ull" if inst.metadata else f"((u64){inst.path}.valid)"

    def param(self, index: Any) -> Value:
        act = self.action
        if act is None or not isinstance(index, int) or not 0 <= index < len(act.params):
            fail(f"reference to action parameter {index!r:.20}, which does not exist")
        at, width = act.offsets[index], act.params[index][1]
        if width <= 64:
            return Value(f"d[{at}]", 0, (1 << width) - 1)
        if width <= 128:
            return Value(f"U128(d[{at + 1}], d[{at}])", 0, (1 << width) - 1)
        return self.value(f"w_load(d + {at}, {(width + 63) // 64})", 0, (1 << width) - 1)

    def register(self, ref: Any) -> Value:
        if not isinstance(ref, list) or len(ref) != 2 or ref[0] not in self.p.registers:
            fail(f"unknown register {ref!r:.60}")
        n, size, width = self.p.registers[ref[0]]
        words = (width + 63) // 64
        idx = f"(u32)({self.mod(ref[1], 32)})"
        cell = f"reg_cell(sw, {n}, {idx}, {size}, {words})"
        if width <= 64:
            return Value(f"(*{cell})", 0, (1 << width) - 1)
        if width <= 128:
            return Value(f"ld_u128({cell})", 0, (1 << width) - 1)
        return self.value(f"w_load({cell}, {words})", 0, (1 << width) - 1)

    # -- headers and stacks

    def stack(self, ref: Any) -> Stack:
        name = ref
        if isinstance(ref, Mapping):
            if ref.get("type") not in ("header_stack", "header_union_stack"):
                fail(f"a header stack is expected, not {ref.get('type')!r:.40}")
            name = ref.get("value")
        found = self.p.stacks.get(name) or self.p.union_stacks.get(name)
        return found or fail(f"unknown header stack {name!r:.60}")

    def last(self, s: Stack) -> str:
        """Path of the last element; element [size] is a spare that is never valid."""
        return f"{s.path}[{s.path}n ? {s.path}n - 1 : {s.size}]"

    def at(self, s: Stack, index: Any) -> str:
        return f"{s.path}[clamp({self.mod(index, 64)}, {s.size})]"

    def header(self, e: Any) -> tuple[str, Any, Instance | None]:
        """(C path, header type, instance when it is a fixed one) of a header expression."""
        kind, v = self.node(e)
        if kind == "header":
            inst = self.p.instance(v)
            return inst.path, inst.type, inst
        if kind == "expression":
            op = v.get("op")
            if op == "dereference_header_stack":
                s = self.stack(v.get("left"))
                if s.type is None:
                    fail("a union stack is used as a header stack")
                return self.at(s, v.get("right")), s.type, None
            if op == "access_union_header":
                path, ut = self.union(v.get("left"))
                k = v.get("right")
                if not isinstance(k, int) or not 0 <= k < len(ut.members):
                    fail("access_union_header: no such member")
                return f"{path}.m{k}", ut.members[k][1], None
            if op is None and "type" in v:
                return self.header(v)
        return fail(f"a header is expected, not {kind!r:.40}")

    def union(self, e: Any) -> tuple[str, Any]:
        kind, v = self.node(e)
        if kind == "header_union":
            u = self.p.unions.get(v) or fail(f"unknown header union {v!r:.60}")
            return u.path, u.type
        if kind == "expression" and v.get("op") == "dereference_union_stack":
            s = self.stack(v.get("left"))
            if s.union is None:
                fail("a header stack is used as a union stack")
            return self.at(s, v.get("right")), s.union
        return fail(f"a header union is expected, not {kind!r:.40}")

    def lvalue(self, e: Any) -> tuple[str, Any, int, bool]:
        """(header path, header type, field index, is metadata) of something to write."""
        kind, v = self.node(e)
        if kind == "field":
            inst, index = self.p.field(v)
            if index < 0:
                fail("the validity of a header cannot be assigned")
            return inst.path, inst.type, index, inst.metadata
        if kind == "stack_field":
            s = self.stack(v[0] if isinstance(v, list) and v else None)
            if s.type is None or not isinstance(v, list) or len(v) != 2:
                fail("bad stack_field")
            index = s.type.by_name.get(v[1], -1)
            return self.last(s), s.type, index if index >= 0 else fail("no such field"), False
        if kind == "expression":
            if v.get("op") is None and "type" in v:
                return self.lvalue(v)
            if v.get("op") == "access_field":
                path, ht, inst2 = self.header(v.get("left"))
                k = v.get("right")
                if not isinstance(k, int) or not 0 <= k < len(ht.fields):
                    fail("access_field: no such field")
                return path, ht, k, bool(inst2 and inst2.metadata)
        return fail(f"something to assign to is expected, not {kind!r:.40}")

    # -- dispatch

    @staticmethod
    def node(e: Any) -> tuple[str, Any]:
        """(type, value) with nested "expression" wrappers taken off."""
        for _ in range(MAX_DEPTH):
            if not isinstance(e, Mapping):
                fail(f"bad expression {e!r:.60}")
            kind, v = e.get("type"), e.get("value")
            if kind == "expression" and isinstance(v, Mapping) and "op" not in v:
                e = v
                continue
            if kind == "expression" and not isinstance(v, Mapping):
                fail("bad expression: no value")
            if not isinstance(kind, str):
                fail("bad expression: no type")
            return kind, v
        return fail("an expression is nested too deeply")

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._depth = 0
            fail(f"an expression is nested more than {MAX_DEPTH} deep")

    def is_bool(self, e: Any) -> bool:
        kind, v = self.node(e)
        if kind == "bool":
            return True
        if kind != "expression":
            return False
        op = v.get("op")
        if op == "?":
            return self.is_bool(v.get("left"))
        return op in {
            "==", "!=", ">", ">=", "<", "<=", "and", "or", "not", "valid", "valid_union", "d2b",
        }  # fmt: skip

    def boolean(self, e: Any) -> str:
        self._enter()
        code = self._boolean(e)
        self._depth -= 1
        return code

    def _boolean(self, e: Any) -> str:
        kind, v = self.node(e)
        if kind == "bool":
            return "1" if v else "0"
        if kind != "expression":
            fail(f"a condition is expected, not {kind!r:.40}")
        op, left, right = v.get("op"), v.get("left"), v.get("right")
        if op in ("and", "or"):
            return f"({self.boolean(left)} {'&&' if op == 'and' else '||'} {self.boolean(right)})"
        if op == "not":
            return f"(!{self.boolean(right)})"
        if op == "d2b":
            val = self.exact(right)
            if val.ctype == "wide":
                return f"(w_cmp({val.code}, w_u64(0)) != 0)"
            return f"({val.code} != 0)"
        if op == "valid":
            path, _, inst = self.header(right)
            return "1" if inst and inst.metadata else f"({path}.valid != 0)"
        if op == "valid_union":
            path, ut = self.union(right)
            return "(" + " | ".join(f"{path}.m{k}.valid" for k in range(len(ut.members))) + ")"
        if op == "?":
            return f"({self.boolean(v.get('cond'))} ? {self.boolean(left)} : {self.boolean(right)})"
        if op in ("==", "!="):
            return self._equal(op, left, right)
        if op in (">", ">=", "<", "<="):
            return self._compare(op, self.exact(left), self.exact(right))
        return fail(f"operation {op!r:.40} does not give a condition")

    def _equal(self, op: str, left: Any, right: Any) -> str:
        if self.is_bool(left):
            return f"(!{self.boolean(left)} {op} !{self.boolean(right)})"
        kind, v = self.node(left)
        sub = v.get("op") if kind == "expression" else None
        neg = "!" if op == "!=" else ""
        if kind == "header" or sub in ("dereference_header_stack", "access_union_header"):
            a, ta, _ = self.header(left)
            b, tb, _ = self.header(right)
            if ta is not tb:
                return "1" if neg else "0"
            return f"({neg}eq{ta.index}(&{a}, &{b}))"
        if kind == "header_union" or sub == "dereference_union_stack":
            a, ua = self.union(left)
            b, ub = self.union(right)
            if ua is not ub:
                return "1" if neg else "0"
            terms = [f"eq{t.index}(&{a}.m{k}, &{b}.m{k})" for k, (_, t) in enumerate(ua.members)]
            return f"({neg}({' || '.join(terms) or '0'}))"
        pair = self._varbits(left, right)
        if pair:
            (a, i), (b, k) = pair
            same = (
                f"({a}.f{i}_bits == {b}.f{k}_bits && "
                f"!memcmp({a}.f{i}, {b}.f{k}, {a}.f{i}_bits / 8))"
            )
            return f"(!{same})" if neg else same
        return self._compare(op, self.exact(left), self.exact(right))

    def _varbits(self, *sides: Any) -> list[tuple[str, int]] | None:
        """(header path, field) of both sides when they are variable-length fields."""
        out = []
        for e in sides:
            kind, v = self.node(e)
            if kind not in ("field", "stack_field") and not (
                kind == "expression" and v.get("op") == "access_field"
            ):
                return None
            if kind == "field" and self.p.field(v)[1] < 0:
                return None
            path, ht, index, _ = self.lvalue(e)
            if not ht.fields[index].varbit:
                return None
            out.append((path, index))
        return out

    def _compare(self, op: str, a: Value, b: Value) -> str:
        if a.lo == a.hi and b.lo == b.hi:
            both = {
                "==": a.lo == b.lo, "!=": a.lo != b.lo, ">": a.lo > b.lo,
                ">=": a.lo >= b.lo, "<": a.lo < b.lo, "<=": a.lo <= b.lo,
            }  # fmt: skip
            return "1" if both[op] else "0"
        t = ctype(min(a.lo, b.lo), max(a.hi, b.hi))
        if t == "wide":
            self.need(min(a.lo, b.lo), max(a.hi, b.hi))
            return f"(w_cmp({self.conv(a, t)}, {self.conv(b, t)}) {op} 0)"
        return f"({self.conv(a, t)} {op} {self.conv(b, t)})"

    # -- data, exact

    def exact(self, e: Any) -> Value:
        self._enter()
        v = self._exact(e)
        self._depth -= 1
        return v

    def _leaf(self, kind: str, v: Any) -> Value | None:
        if kind == "field":
            return self.field(v)
        if kind == "hexstr":
            return self.const(hexstr(v, "constant"))
        if kind in ("local", "runtime_data"):
            return self.param(v)
        if kind == "register":
            return self.register(v)
        if kind == "stack_field":
            path, ht, index, _ = self.lvalue({"type": kind, "value": v})
            return self.read(path, ht.fields[index], index)
        if kind == "bool":
            return Value("1ull" if v else "0ull", int(bool(v)), int(bool(v)))
        return None

    def _exact(self, e: Any) -> Value:
        if e is None:
            return self.const(0)
        kind, v = self.node(e)
        leaf = self._leaf(kind, v)
        if leaf is not None:
            return leaf
        if kind != "expression":
            fail(f"a number is expected, not {kind!r:.40}")
        op, left, right = v.get("op"), v.get("left"), v.get("right")
        if op == "b2d":
            return Value(f"((u64)(0 != {self.boolean(right)}))", 0, 1)
        if op == "access_field":
            path, ht, index, _ = self.lvalue(e)
            return self.read(path, ht.fields[index], index)
        if op == "last_stack_index":
            s = self.stack(right)
            return Value(f"((i64){s.path}n - 1)", -1, s.size - 1)
        if op == "size_stack":
            s = self.stack(right)
            return Value(f"((u64){s.path}n)", 0, s.size)
        if op == "?":
            return self._choose(self.boolean(v.get("cond")), self.exact(left), self.exact(right))
        if op in ("two_comp_mod", "sat_cast", "usat_cast"):
            return self._cast(op, left, right)
        if op in ("&", "|", "^", "~"):
            return self._bitwise(op, left, right)
        if op in ("+", "-", "*"):
            return self._sum(op, self.exact(left), self.exact(right))
        if op in ("/", "%"):
            return self._divide(op, self.exact(left), self.exact(right))
        if op in ("<<", ">>"):
            return self._shift(op, self.exact(left), self.exact(right))
        if self.is_bool(e):
            return Value(f"((u64)(0 != {self.boolean(e)}))", 0, 1)
        return fail(f"operation {op!r:.40} is not known")

    def _choose(self, cond: str, a: Value, b: Value) -> Value:
        lo, hi = min(a.lo, b.lo), max(a.hi, b.hi)
        t = ctype(lo, hi)
        return self.value(f"({cond} ? {self.conv(a, t)} : {self.conv(b, t)})", lo, hi)

    def _width(self, e: Any) -> int:
        v = self.exact(e)
        if v.lo != v.hi or not 0 < v.lo <= MAX_BITS:
            fail("the width of a cast must be a positive constant")
        return v.lo

    def _cast(self, op: str, left: Any, right: Any) -> Value:
        w = self._width(right)
        if op == "two_comp_mod":
            lo, hi = -(1 << w - 1), (1 << w - 1) - 1
            code = self.mod(left, w)
            if w <= 64:
                return Value(f"((i64)({code} << {64 - w}) >> {64 - w})", lo, hi)
            if w <= 128:
                return self.value(f"((i128)({code} << {128 - w}) >> {128 - w})", lo, hi)
            return self.value(f"w_sext({code}, {w})", lo, hi)
        a = self.exact(left)
        lo, hi = (0, (1 << w) - 1) if op == "usat_cast" else (-(1 << w - 1), (1 << w - 1) - 1)
        if lo <= a.lo and a.hi <= hi:
            return a
        # a name for the operand: written out twice, casts within casts would double each time
        v = Value("v", a.lo, a.hi)
        at_least = self._choose(self._compare("<", v, self.const(lo)), self.const(lo), v)
        out = self._choose(self._compare(">", v, self.const(hi)), self.const(hi), at_least)
        code = self._recast(out.code, out.ctype, ctype(lo, hi))
        return self.value(f"({{ {a.ctype} v = {a.code}; {code}; }})", lo, hi)

    def _bitwise(self, op: str, left: Any, right: Any) -> Value:
        if op == "~":
            a = self.exact(right)
            lo, hi = ~a.hi, ~a.lo
            t = ctype(min(lo, a.lo), max(hi, a.hi))
            code = self.conv(a, t)
            if t == "wide":
                self.need(min(lo, a.lo), max(hi, a.hi))
            out = Value(f"w_not({code})" if t == "wide" else f"(~{code})", a.lo, a.hi)
            # the complement has its own, possibly narrower, type
            return self.value(self._recast(out.code, t, ctype(lo, hi)), lo, hi)
        if op == "&":
            masks = [(self._constant(a), b) for a, b in ((left, right), (right, left))]
            found = min(((m, b) for m, b in masks if m is not None and m >= 0),
                        key=lambda x: x[0], default=None)  # fmt: skip
            if found is not None:
                m, b = found
                n = max(1, m.bit_length())
                return self.value(self._mask(self.mod(b, n), n, m), 0, m)
        a, b = self.exact(left), self.exact(right)
        lo, hi = min(a.lo, b.lo), max(a.hi, b.hi)
        if lo >= 0:
            top = (1 << hi.bit_length()) - 1
            rlo, rhi = (0, min(a.hi, b.hi)) if op == "&" else (0, top)
        else:
            bits = max(lo.bit_length(), hi.bit_length())
            rlo, rhi = -(1 << bits), (1 << bits) - 1
            if op == "&" and (a.lo >= 0 or b.lo >= 0):
                rlo, rhi = 0, a.hi if a.lo >= 0 else b.hi
        t = ctype(min(lo, rlo), max(hi, rhi))
        if t == "wide":
            self.need(min(lo, rlo), max(hi, rhi))
            name = {"&": "w_and", "|": "w_or", "^": "w_xor"}[op]
            code = f"{name}({self.conv(a, t)}, {self.conv(b, t)})"
        else:
            code = f"({self.conv(a, t)} {op} {self.conv(b, t)})"
        return self.value(self._recast(code, t, ctype(rlo, rhi)), rlo, rhi)

    def _recast(self, code: str, have: str, want: str) -> str:
        if have == want:
            return code
        if have == "wide":
            return f"(({want}){'w_lo64' if want in ('u64', 'i64') else 'w_lo128'}({code}))"
        if want == "wide":
            return f"w_{have}({code})"
        return f"(({want}){code})"

    def _constant(self, e: Any) -> int | None:
        if e is None:
            return 0
        kind, v = self.node(e)
        return hexstr(v, "constant") if kind == "hexstr" else None

    def _mask(self, code: str, n: int, mask: int) -> str:
        t = modtype(n)
        if t == "wide":
            c = self.const(mask)
            self.need(0, mask)
            out = f"w_and({code}, {self.conv(c, 'wide')})"
        else:
            out = f"({code} & {self.conv(self.const(mask), t)})"
        return self._recast(out, t, ctype(0, mask))

    def _sum(self, op: str, a: Value, b: Value) -> Value:
        if op == "+":
            lo, hi = a.lo + b.lo, a.hi + b.hi
        elif op == "-":
            lo, hi = a.lo - b.hi, a.hi - b.lo
        else:
            ends = [x * y for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
            lo, hi = min(ends), max(ends)
        t = ctype(min(lo, a.lo, b.lo), max(hi, a.hi, b.hi))
        if t == "wide":
            self.need(min(lo, a.lo, b.lo), max(hi, a.hi, b.hi))
            name = {"+": "w_add", "-": "w_sub", "*": "w_mul"}[op]
            code = f"{name}({self.conv(a, t)}, {self.conv(b, t)})"
        else:
            code = f"({self.conv(a, t)} {op} {self.conv(b, t)})"
        return self.value(self._recast(code, t, ctype(lo, hi)), lo, hi)

    def _divide(self, op: str, a: Value, b: Value) -> Value:
        """Of numbers that are not negative, as bmv2 demands; by zero: 0."""
        hi = a.hi if op == "/" else min(a.hi, max(b.hi - 1, 0))
        t = ctype(0, max(a.hi, b.hi, 0))
        if t == "wide":
            self.need(0, max(a.hi, b.hi))
            code = f"w_divmod({self.conv(a, t)}, {self.conv(b, t)}, {int(op == '%')})"
            return self.value(self._recast(code, t, ctype(0, max(hi, 0))), 0, max(hi, 0))
        fn = f"{'div' if op == '/' else 'mod'}_{t}"
        code = f"{fn}({self.conv(a, t)}, {self.conv(b, t)})"
        return self.value(self._recast(code, t, ctype(0, max(hi, 0))), 0, max(hi, 0))

    def _shift(self, op: str, a: Value, b: Value) -> Value:
        by = f"(u64)({self.conv(Value(b.code, b.lo, b.hi), 'u64')})"
        if op == ">>":
            lo, hi = (a.lo >> max(b.lo, 0), a.hi >> max(b.lo, 0))
            lo, hi = min(lo, 0 if a.lo >= 0 else a.lo), max(hi, -1 if a.hi < 0 else 0)
            if a.ctype == "wide":
                return self.value(
                    self._recast(f"w_shr({a.code}, {by})", "wide", ctype(lo, hi)), lo, hi
                )
            return self.value(
                self._recast(f"shr_{a.ctype}({a.code}, {by})", a.ctype, ctype(lo, hi)), lo, hi
            )
        if b.hi > MAX_BITS:
            fail("a left shift by a variable amount must be masked")
        ends = [x << s for x in (a.lo, a.hi) for s in (max(b.lo, 0), max(b.hi, 0))]
        lo, hi = min(ends), max(ends)
        t = ctype(min(lo, a.lo), max(hi, a.hi))
        if t == "wide":
            self.need(lo, hi)
            return self.value(f"w_shl({self.conv(a, t)}, {by})", lo, hi)
        wide = "u128" if t in ("u128", "i128") else "u64"
        return self.value(f"(({t})shl_{wide}(({wide}){self.conv(a, t)}, {by}))", lo, hi)

    # -- data, low bits only

    def mod(self, e: Any, n: int) -> str:
        """C code of type modtype(n) whose low n bits are those of the value."""
        self._enter()
        code = self._mod(e, n)
        self._depth -= 1
        return code

    def _mod(self, e: Any, n: int) -> str:
        t = modtype(n)
        if t == "wide":
            self.need(0, 1 << n)
        if e is None:
            return self.conv(self.const(0), t)
        kind, v = self.node(e)
        op = v.get("op") if kind == "expression" else None
        left, right = (v.get("left"), v.get("right")) if kind == "expression" else (None, None)
        if op in ("+", "-", "*", "|", "^"):
            a, b = self.mod(left, n), self.mod(right, n)
            if t == "wide":
                name = {"+": "add", "-": "sub", "*": "mul", "|": "or", "^": "xor"}[op]
                return f"w_{name}({a}, {b})"
            return f"({a} {op} {b})"
        if op == "&":
            for x, y in ((left, right), (right, left)):
                m = self._constant(x)
                if m is not None:
                    m &= (1 << n) - 1
                    k = max(1, m.bit_length())
                    if m == (1 << n) - 1:
                        return self.mod(y, n)
                    masked = self._mask(self.mod(y, k), k, m)
                    return self._recast(masked, ctype(0, m), t)
            a, b = self.mod(left, n), self.mod(right, n)
            return f"w_and({a}, {b})" if t == "wide" else f"({a} & {b})"
        if op == "~":
            a = self.mod(right, n)
            return f"w_not({a})" if t == "wide" else f"(~{a})"
        if op == "<<":
            by = self.exact(right)
            a = self.mod(left, n)
            if by.lo == by.hi:
                if by.lo >= n or by.lo < 0:
                    return self.conv(self.const(0), t)
                return f"w_shl({a}, {by.lo})" if t == "wide" else f"({a} << {by.lo})"
            amount = f"(u64)({self._saturated(by)})"
            return f"w_shl({a}, {amount})" if t == "wide" else f"shl_{t}({a}, {amount})"
        if op == "?":
            cond = self.boolean(v.get("cond"))
            return f"({cond} ? {self.mod(left, n)} : {self.mod(right, n)})"
        if op == "two_comp_mod" and n <= self._width(right):
            return self.mod(left, n)
        return self.conv(self.exact(e), t)

    def _saturated(self, by: Value) -> str:
        if by.ctype == "u64":
            return by.code
        if by.ctype == "wide":
            return f"(w_cmp({by.code}, w_u64(0xffffffffu)) > 0 ? 0xffffffffull : w_lo64({by.code}))"
        return f"({by.code} > 0xffffffffu ? 0xffffffffull : (u64){by.code})"
