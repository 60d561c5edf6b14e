"""Actions: bmv2 primitives as C statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from softswitch.engine.cgen_headers import assign_code
from softswitch.engine.expr import Expr, ctype, u64_lit
from softswitch.engine.program import Action, HeaderType, Instance, Program, fail

Primitive = Callable[["Actions", Sequence[Any]], str]

ARITHMETIC = {
    "add": "+",
    "subtract": "-",
    "bit_xor": "^",
    "bit_or": "|",
    "bit_and": "&",
    "shift_left": "<<",
    "shift_right": ">>",
}
"""P4_14 three-operand primitives and the operation they stand for."""

MAX_TURNS = 1 << 20
"""Backward jumps an action makes for one packet before it is ended: loops have to end."""


class Actions:
    """Compiler of primitives; shared by actions, parser and deparser."""

    def __init__(self, program: Program, expr: Expr) -> None:
        self.p = program
        self.x = expr
        self.log_formats: list[str] = []
        """Formats of log_msg by number; the C code passes the number."""

    # -- actions

    @staticmethod
    def exits(a: Action) -> bool:
        return any(
            isinstance(q, Mapping) and q.get("op") in ("exit", "assert", "assume")
            for q in a.primitives
        )

    def function(self, a: Action) -> str:
        self.x.action = a
        out = [
            f"static void act{a.index}(struct sw *sw, struct pkt *p, struct phv *h, "
            "const u64 *d) {",
            "  (void)sw; (void)p; (void)h; (void)d;",
            "  u32 turns = 0; (void)turns;",
        ]
        try:
            targets, body = self._body(a)
        except Exception:
            self.x.action = None
            raise
        for i, code in enumerate(body):
            if i in targets:
                out.append(f"L{i}:;")
            out.append(f"  {{ {code} }}")  # a scope, so that big temporaries share their place
        if len(body) in targets:
            out.append(f"L{len(body)}:;")
        out.append("}")
        self.x.action = None
        return "\n".join(out)

    def _body(self, a: Action) -> tuple[set[int], list[str]]:
        targets: set[int] = set()
        body: list[str] = []
        for i, q in enumerate(a.primitives):
            op = q.get("op") if isinstance(q, Mapping) else None
            params = q.get("parameters") if isinstance(q, Mapping) else None
            if not isinstance(op, str) or not isinstance(params, list):
                fail(f"action '{a.name}': a primitive needs 'op' and 'parameters'")
            if op in ("_jump", "_jump_if_zero"):
                self._count(op, params, 1 if op == "_jump" else 2)
                to = self.x.exact(params[-1])
                if to.lo != to.hi or not 0 <= to.lo <= len(a.primitives):
                    fail(f"action '{a.name}': a jump leads out of the action")
                targets.add(to.lo)
                jump = f"goto L{to.lo};"
                if to.lo <= i:  # a loop: one that does not end ends the action
                    targets.add(len(a.primitives))
                    limit = f"if (++turns > {MAX_TURNS}u) goto L{len(a.primitives)};"
                    jump = f"{{ {limit} {jump} }}"
                if op == "_jump_if_zero":
                    jump = f"if (!{self.truth(params[0])}) {jump}"
                body.append(jump)
            else:
                body.append(self.primitive(op, params))
        return targets, body

    def primitive(self, op: str, params: Sequence[Any]) -> str:
        if op in ARITHMETIC:
            self._count(op, params, 3)
            e = {"op": ARITHMETIC[op], "left": params[1], "right": params[2]}
            return self.assign(params[0], {"type": "expression", "value": e})
        found = PRIMITIVES.get(op)
        if found is None:
            fail(f"primitive '{op:.40}' is not supported")
        count, make = found
        self._count(op, params, count)
        return make(self, params)

    @staticmethod
    def _count(op: str, params: Sequence[Any], n: int) -> None:
        if len(params) != n:
            fail(f"primitive '{op}' takes {n} parameters, not {len(params)}")

    def truth(self, e: Any) -> str:
        """C condition: the value is not zero."""
        if self.x.is_bool(e):
            return self.x.boolean(e)
        v = self.x.exact(e)
        return f"(w_cmp({v.code}, w_u64(0)) != 0)" if v.ctype == "wide" else f"({v.code} != 0)"

    # -- assignments

    def assign(self, dst: Any, src: Any) -> str:
        kind, ref = self.x.node(dst)
        if kind == "register":
            return self.write_register(ref, src)
        path, ht, index, meta = self.x.lvalue(dst)
        if ht.fields[index].varbit:
            return self.assign_varbit([dst, src])
        return self.store(path, ht, index, meta, src)

    def store(self, path: str, ht: HeaderType, index: int, meta: bool, src: Any) -> str:
        f = ht.fields[index]
        if f.saturating:
            op = "sat_cast" if f.signed else "usat_cast"
            width = {"type": "hexstr", "value": hex(f.width)}
            src = {"type": "expression", "value": {"op": op, "left": src, "right": width}}
        code = self.x.mod(src, f.width)
        dirty = "" if meta else f" {path}.dirty = 1;"
        lhs = f"{path}.f{index}"
        if f.width <= 64:
            mask = "" if f.width == 64 else f" & {u64_lit((1 << f.width) - 1)}"
            return f"{lhs} = {code}{mask};{dirty}"
        if f.width <= 128:
            mask = "" if f.width == 128 else f" & (((u128)1 << {f.width}) - 1)"
            return f"{lhs} = {code}{mask};{dirty}"
        return f"w_store({lhs}, {f.words}, w_mask({code}, {f.width}));{dirty}"

    def result(self, dst: Any, code: str, bits: int = 64) -> str:
        """Store a u64 C expression of `bits` bits."""
        path, ht, index, meta = self.x.lvalue(dst)
        return assign_code(path, ht, index, meta, code, bits)

    def assign_varbit(self, params: Sequence[Any]) -> str:
        path, ht, index, meta = self.x.lvalue(params[0])
        src, st, k, _ = self.x.lvalue(params[1])
        f, g = ht.fields[index], st.fields[k]
        if not f.varbit or not g.varbit:
            fail("assign_VL: both sides must be variable-length fields")
        most = min(f.width, g.width)
        dirty = "" if meta else f" {path}.dirty = 1;"
        return (
            f"{{ u32 n = {src}.f{k}_bits; if (n > {most}) n = {most}; "
            f"memmove({path}.f{index}, {src}.f{k}, n / 8); {path}.f{index}_bits = n; }}{dirty}"
        )

    def write_register(self, ref: Any, src: Any) -> str:
        if not isinstance(ref, list) or len(ref) != 2:
            fail("bad register reference")
        return self.register_write([{"value": ref[0]}, ref[1], src])

    def register_write(self, params: Sequence[Any]) -> str:
        n, size, width = self._register(params[0])
        words = (width + 63) // 64
        code = self.x.mod(params[2], width)
        cell = f"CORE(sw)->regs[{n}] + (size_t)i * {words}"
        if width <= 64:
            mask = "" if width == 64 else f" & {u64_lit((1 << width) - 1)}"
            put = f"*({cell}) = {code}{mask};"
        elif width <= 128:
            mask = "" if width == 128 else f" & (((u128)1 << {width}) - 1)"
            put = f"u128 v = {code}{mask}; u64 *c = {cell}; c[0] = (u64)v; c[1] = (u64)(v >> 64);"
        else:
            put = f"w_store({cell}, {words}, w_mask({code}, {width}));"
        return f"{{ u32 i = (u32){self.x.mod(params[1], 32)}; if (i < {size}u) {{ {put} }} }}"

    def register_read(self, params: Sequence[Any]) -> str:
        name = params[1].get("value") if isinstance(params[1], Mapping) else None
        _, size, _ = self._register(params[1])
        idx = self.x.mod(params[2], 32)
        get = self.assign(params[0], {"type": "register", "value": [name, params[2]]})
        return f"if ((u32){idx} < {size}u) {{ {get} }}"

    def _register(self, ref: Any) -> tuple[int, int, int]:
        name = ref.get("value") if isinstance(ref, Mapping) else None
        return self.p.registers.get(name) or fail(f"unknown register {name!r:.60}")  # type: ignore[arg-type]

    # -- headers

    def make_valid(self, path: str, inst: Instance | None) -> str:
        others = "".join(f" {s}.valid = 0;" for s in (inst.siblings if inst else []))
        return f"{path}.valid = 1;{others}"

    def _size(self, path: str, ht: HeaderType) -> str:
        return f"len{ht.index}(&{path})"

    def add_header(self, params: Sequence[Any]) -> str:
        path, ht, inst = self.x.header(params[0])
        if inst and inst.metadata:
            return ";"
        return (
            f"if (!{path}.valid) {{ memset(&{path}, 0, sizeof {path}); "
            f"{self.make_valid(path, inst)} {path}.dirty = 1; "
            f"p->plen += (i32){self._size(path, ht)}; }}"
        )

    def remove_header(self, params: Sequence[Any]) -> str:
        path, ht, inst = self.x.header(params[0])
        if inst and inst.metadata:
            return ";"
        return f"if ({path}.valid) {{ p->plen -= (i32){self._size(path, ht)}; {path}.valid = 0; }}"

    def assign_header(self, params: Sequence[Any]) -> str:
        dst, td, inst = self.x.header(params[0])
        src, ts, src_inst = self.x.header(params[1])
        if td is not ts:
            fail("assign_header: the headers differ in type")
        return self._copy(dst, src, inst, bool(src_inst and src_inst.metadata))

    def _copy(self, dst: str, src: str, inst: Instance | None, always: bool = False) -> str:
        if dst == src:
            return ";"
        copy = f"{dst} = {src};"
        others = "".join(f" {s}.valid = 0;" for s in (inst.siblings if inst else []))
        if always:
            return copy
        return f"if ({src}.valid) {{ {copy}{others} }} else {dst}.valid = 0;"

    def assign_union(self, params: Sequence[Any]) -> str:
        a, ta = self.x.union(params[0])
        b, tb = self.x.union(params[1])
        if ta is not tb:
            fail("assign_union: the unions differ in type")
        return f"{a} = {b};" if a != b else ";"

    def assign_stack(self, params: Sequence[Any]) -> str:
        a, b = self.x.stack(params[0]), self.x.stack(params[1])
        if a.size != b.size or a.type is not b.type or a.union is not b.union:
            fail("assign_header_stack: the stacks differ")
        if a is b:
            return ";"
        return f"memcpy({a.path}, {b.path}, sizeof {a.path}); {a.path}n = {b.path}n;"

    def push(self, params: Sequence[Any]) -> str:
        s = self.x.stack(params[0])
        return (
            f"{{ u32 n = clamp({self.x.mod(params[1], 64)}, {s.size}); "
            f"memmove({s.path} + n, {s.path}, ({s.size} - n) * sizeof {s.path}[0]); "
            f"memset({s.path}, 0, n * sizeof {s.path}[0]); "
            f"{s.path}n = clamp({s.path}n + n, {s.size}); }}"
        )

    def pop(self, params: Sequence[Any]) -> str:
        s = self.x.stack(params[0])
        return (
            f"{{ u32 n = clamp({self.x.mod(params[1], 64)}, {s.size}); "
            f"memmove({s.path}, {s.path} + n, ({s.size} - n) * sizeof {s.path}[0]); "
            f"memset({s.path} + {s.size} - n, 0, n * sizeof {s.path}[0]); "
            f"{s.path}n = {s.path}n > n ? {s.path}n - n : 0; }}"
        )

    # -- the rest

    def drop(self, _: Sequence[Any]) -> str:
        out = []
        for name, alias, code in (
            ("egress_spec", "standard_metadata", "(u64)CORE(sw)->drop_port"),
            ("mcast_grp", "intrinsic_metadata", "0ull"),
        ):
            ref = self.p.standard(name, alias)
            if ref:
                inst, index = ref
                out.append(assign_code(inst.path, inst.type, index, inst.metadata, code, 32))
        return " ".join(out) or ";"

    def hash(self, params: Sequence[Any]) -> str:
        name = params[2].get("value") if isinstance(params[2], Mapping) else None
        calc = self.p.calculations.get(name) if isinstance(name, str) else None
        if calc is None:
            fail(f"unknown calculation {name!r:.60}")
        base, size = self.x.mod(params[1], 64), self.x.mod(params[3], 64)
        code = f"({base} + mod_u64(calc{calc[0]}(sw, p, h), m ? m : 1))"
        return f"{{ u64 m = {size}; {self.result(params[0], code)} }}"

    def random(self, params: Sequence[Any]) -> str:
        lo, hi = self.x.mod(params[1], 64), self.x.mod(params[2], 64)
        put = self.result(params[0], "rng_between(CORE(sw)->rng, lo, hi)")
        return f"{{ u64 lo = {lo}, hi = {hi}; if (lo <= hi) {{ {put} }} }}"

    def count(self, params: Sequence[Any]) -> str:
        name = params[0].get("value") if isinstance(params[0], Mapping) else None
        if name in self.p.direct_counters:
            return ";"
        index = self.p.counters.get(name) if isinstance(name, str) else None
        if index is None:
            fail(f"unknown counter {name!r:.60}")
        return f"count_cell(sw, {index}, (u32){self.x.mod(params[1], 32)}, p);"

    def meter(self, params: Sequence[Any]) -> str:
        name = params[0].get("value") if isinstance(params[0], Mapping) else None
        m = self.p.meters.get(name) if isinstance(name, str) else None
        if m is None:
            fail(f"unknown meter {name!r:.60}")
        put = self.result(params[2], f"(u64)run_meter(sw, {m.index}, i, p)", 2)
        return f"{{ u32 i = (u32){self.x.mod(params[1], 32)}; if (i < {m.size}u) {{ {put} }} }}"

    def flag(self, name: str, e: Any, valid_bit: bool = False) -> str:
        code = f"(u16){self.x.mod(e, 16)}"
        return f"p->{name} = {code}{' | 0x8000' if valid_bit else ''};"

    def clone(self, params: Sequence[Any]) -> str:
        sid, fields = self.flag("clone_sid", params[0], True), self.flag("clone_list", params[1])
        return f"{sid} {fields}"

    def truncate(self, params: Sequence[Any]) -> str:
        v = self.x.mod(params[0], 32)
        return f"{{ u32 n = (u32){v}; if (n < p->trunc) p->trunc = n; }}"

    def log(self, params: Sequence[Any]) -> str:
        text = params[0].get("value") if isinstance(params[0], Mapping) else None
        values = params[1].get("value") if isinstance(params[1], Mapping) else None
        if not isinstance(text, str) or not isinstance(values, list):
            fail("log_msg: a format and a list of values are expected")
        self.log_formats.append(text)
        words = []
        for v in values[:32]:
            val = self.x.exact(v)
            wide = self.x.conv(val, "i128" if ctype(val.lo, val.hi) != "u128" else "u128")
            words += [f"(u64){wide}", f"(u64)((u128){wide} >> 64)"]
        n = len(words)
        return (
            f"{{ u64 w[{max(1, n)}] = {{{', '.join(words) or '0'}}}; "
            f"CORE(sw)->ops->log(sw, {len(self.log_formats) - 1}, w, {n}); }}"
        )

    def check(self, params: Sequence[Any], what: str) -> str:
        """assert and assume: bmv2 aborts; here the packet is dropped and logged."""
        self.log_formats.append(f"{what} failed")
        return (
            f"if (!{self.truth(params[0])}) {{ CORE(sw)->ops->log(sw, "
            f"{len(self.log_formats) - 1}, NULL, 0); {self.drop(())} p->exit = 1; return; }}"
        )


PRIMITIVES: dict[str, tuple[int, Primitive]] = {
    "assign": (2, lambda a, q: a.assign(q[0], q[1])),
    "modify_field": (2, lambda a, q: a.assign(q[0], q[1])),
    "assign_VL": (2, Actions.assign_varbit),
    "assign_header": (2, Actions.assign_header),
    "copy_header": (2, Actions.assign_header),
    "assign_union": (2, Actions.assign_union),
    "assign_header_stack": (2, Actions.assign_stack),
    "assign_union_stack": (2, Actions.assign_stack),
    "push": (2, Actions.push),
    "pop": (2, Actions.pop),
    "add_header": (1, Actions.add_header),
    "add_header_fast": (1, Actions.add_header),
    "remove_header": (1, Actions.remove_header),
    "add_to_field": (
        2,
        lambda a, q: a.assign(
            q[0], {"type": "expression", "value": {"op": "+", "left": q[0], "right": q[1]}}
        ),
    ),
    "subtract_from_field": (
        2,
        lambda a, q: a.assign(
            q[0], {"type": "expression", "value": {"op": "-", "left": q[0], "right": q[1]}}
        ),
    ),
    "no_op": (0, lambda a, q: ";"),
    "drop": (0, Actions.drop),
    "mark_to_drop": (1, Actions.drop),
    "exit": (0, lambda a, q: "p->exit = 1;"),
    "register_read": (3, Actions.register_read),
    "register_write": (3, Actions.register_write),
    "count": (2, Actions.count),
    "execute_meter": (3, Actions.meter),
    "modify_field_with_hash_based_offset": (4, Actions.hash),
    "modify_field_rng_uniform": (3, Actions.random),
    "clone_ingress_pkt_to_egress": (2, Actions.clone),
    "clone_egress_pkt_to_egress": (2, Actions.clone),
    "resubmit": (1, lambda a, q: a.flag("resubmit_list", q[0])),
    "recirculate": (1, lambda a, q: a.flag("recirc_list", q[0])),
    "generate_digest": (2, lambda a, q: a.flag("digest_list", q[1])),
    "truncate": (1, Actions.truncate),
    "log_msg": (2, Actions.log),
    "assert": (1, lambda a, q: a.check(q, "assert")),
    "assume": (1, lambda a, q: a.check(q, "assume")),
}
