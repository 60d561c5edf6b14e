"""Parser, deparser, hashes and checksums as C."""

from __future__ import annotations

from typing import Any

from softswitch.engine.cgen_actions import Actions
from softswitch.engine.cgen_headers import assign_code
from softswitch.engine.expr import Expr, u64_lit
from softswitch.engine.program import HeaderType, Instance, Program, fail, get, hexstr, items

HASHES = {
    "crc32": "h_crc32",
    "crc32_custom": "h_crc32",
    "crc16": "h_crc16",
    "crc16_custom": "h_crc16",
    "crcCCITT": "h_ccitt",
    "csum16": "h_csum16",
    "cksum16": "h_csum16",
    "xor16": "h_xor16",
    "xor32": "h_xor32",
    "identity": "h_identity",
    "xxh64": "h_xxh64",
    "crc8_custom": "h_crc8_custom",
    "crc64_custom": "h_crc64_custom",
    "toeplitz": "h_toeplitz",
}
"""Names in the JSON and what computes them; the custom ones and toeplitz with the settings
that bmv2 starts with."""

M64 = (1 << 64) - 1


class Parsers:
    """Compiler of everything that touches packet bytes."""

    def __init__(self, program: Program, expr: Expr, actions: Actions) -> None:
        self.p = program
        self.x = expr
        self.a = actions
        self._vset_words: dict[str, int] = {}
        self.vset_widths: dict[str, list[int]] = {}
        """Widths of the key parts that each value set is compared with."""

    def vset_words(self, name: str) -> int:
        return self._vset_words.get(name, (self.p.vsets[name][1] + 63) // 64 or 1)

    def error(self, name: str) -> str:
        return f"{{ p->error = {self.p.errors[name]}u; goto done; }}"

    # -- parser

    def parser(self) -> str:
        parsers = items(self.p.root, "parsers")
        out = [
            "static void prog_parse(struct sw *sw, struct pkt *p) {",
            "  struct phv *h = phv_of(p);",
            "  const u8 *b = p->buf + p->head;",
            "  const u32 len = p->len;",
            "  u32 pos = 0, steps = 0;",
            "  (void)sw; (void)h; (void)b; (void)steps; (void)len;",
            f"  p->error = {self.p.errors['NoError']}u;",
            "  p->csum_err = 0;",
        ]
        if parsers:
            parser = parsers[0]
            states = items(parser, "parse_states", "parser")
            self.states = {get(s, "name", str, "parse_states"): i for i, s in enumerate(states)}
            out.append(f"  {self._goto(parser.get('init_state'))}")
            for i, s in enumerate(states):
                out.append(f"s{i}: {{")
                timeout = self.error("ParserTimeout")
                out.append(f"  if (unlikely(++steps > PARSER_STEPS)) {timeout}")
                for op in items(s, "parser_ops", "parser"):
                    out.append(f"  {self._op(op)}")
                out += self._transition(s)
                out.append("}")
            out.append("  goto done;")
        out.append("done:")
        out.append("  p->parsed = pos;")
        out += self._verify()
        out.append("}")
        return "\n".join(out)

    def _goto(self, name: Any) -> str:
        if name is None:
            return "goto done;"
        if name not in self.states:
            fail(f"parser: unknown state {name!r:.60}")
        return f"goto s{self.states[name]};"

    def _extract(self, path: str, ht: HeaderType, inst: Instance | None, vl: str | None) -> str:
        others = "".join(f" {s}.valid = 0;" for s in (inst.siblings if inst else []))
        size = ht.fixed_bits // 8
        short = self.error("PacketTooShort")
        if vl is None:
            if ht.varbit is not None:
                fail(f"header type '{ht.name}': a variable-length header needs extract_VL")
            return (
                f"if (unlikely(len - pos < {size}u)) {short} "
                f"ext{ht.index}(&{path}, b + pos, p->head + pos, 0);{others} pos += {size};"
            )
        if ht.varbit is None:
            fail(f"header type '{ht.name}': extract_VL of a fixed-length header")
        most = ht.fields[ht.varbit].width
        return (
            f"{{ u32 vl = (u32){vl}; if (vl % 8) {self.error('ParserInvalidArgument')} "
            f"if (unlikely(len - pos < {size}u || len - pos - {size}u < vl / 8)) {short} "
            f"if (vl > {most}u) {self.error('HeaderTooShort')} "
            f"ext{ht.index}(&{path}, b + pos, p->head + pos, vl);{others} "
            f"pos += {size} + vl / 8; }}"
        )

    def _op(self, op: Any) -> str:
        kind = get(op, "op", str, "parser")
        params = items(op, "parameters", "parser")
        if kind in ("extract", "extract_VL"):
            vl = None
            if kind == "extract_VL":
                if len(params) != 2:
                    fail("extract_VL takes two parameters")
                vl = self.x.mod(params[1], 32)
            if not params:
                fail("extract takes a parameter")
            return self._extract_op(params[0], vl)
        if kind == "set":
            return self._set_op(params)
        if kind == "verify":
            if len(params) != 2:
                fail("verify takes two parameters")
            cond = self.x.boolean(params[0])
            code = f"{params[1]}u" if isinstance(params[1], int) else self.x.mod(params[1], 32)
            return f"if (!{cond}) {{ p->error = (u32){code}; goto done; }}"
        if kind == "advance":
            if len(params) != 1:
                fail("advance takes one parameter")
            v = self.x.mod(params[0], 64)
            return (
                f"{{ u64 n = {v}; if (n % 8) {self.error('ParserInvalidArgument')} "
                f"if (len - pos < n / 8) {self.error('PacketTooShort')} pos += (u32)(n / 8); }}"
            )
        if kind == "shift":
            n = params[0] if len(params) == 1 and isinstance(params[0], int) else -1
            if n < 0:
                fail("shift takes a number of bytes")
            return f"if (len - pos < {n}ull) {self.error('PacketTooShort')} pos += {n}u;"
        if kind == "primitive":
            prim = params[0] if params else None
            name = get(prim, "op", str, "parser primitive")
            return self.a.primitive(name, items(prim, "parameters", "parser primitive"))
        return fail(f"parser operation '{kind:.40}' is not known")

    def _extract_op(self, target: Any, vl: str | None) -> str:
        kind, ref = get(target, "type", str, "extract"), target.get("value")
        if kind == "regular":
            inst = self.p.instance(ref)
            return self._extract(inst.path, inst.type, inst, vl)
        full = self.error("StackOutOfBounds")
        if kind == "stack":
            s = self.x.stack(ref)
            if s.type is None:
                fail("extract: not a header stack")
            body = self._extract(f"{s.path}[{s.path}n]", s.type, None, vl)
            return f"if ({s.path}n >= {s.size}) {full} {body} {s.path}n++;"
        if kind == "union_stack":
            if not isinstance(ref, list) or len(ref) != 2:
                fail("extract: union_stack needs [stack, member]")
            s = self.x.stack(ref[0])
            names = [n for n, _ in s.union.members] if s.union else []
            if s.union is None or ref[1] not in names:
                fail("extract: unknown member of a union stack")
            k = names.index(ref[1])
            elem = f"{s.path}[{s.path}n]"
            body = self._extract(f"{elem}.m{k}", s.union.members[k][1], None, vl)
            clear = "".join(f" {elem}.m{j}.valid = 0;" for j in range(len(names)) if j != k)
            return f"if ({s.path}n >= {s.size}) {full} {body}{clear} {s.path}n++;"
        return fail(f"extract: unknown type '{kind:.40}'")

    def _lookahead(self, ref: Any) -> tuple[int, int]:
        if (
            not isinstance(ref, list)
            or len(ref) != 2
            or not all(isinstance(v, int) and 0 <= v <= 16384 for v in ref)
            or ref[1] < 1
        ):
            fail("lookahead needs [bit offset, width]")
        return ref[0], ref[1]

    def _peek(self, off: int, width: int, words: int) -> str:
        """Statement that fills `u64 w[words]` from the packet, or raises PacketTooShort."""
        need = (off + width + 7) // 8
        return (
            f"u64 w[{words}]; if (len - pos < {need}u) {self.error('PacketTooShort')} "
            f"bits_get(b + pos, {off}, {width}, w, {words});"
        )

    def _set_op(self, params: Any) -> str:
        if len(params) != 2:
            fail("set takes two parameters")
        kind, ref = self.x.node(params[1])
        if kind != "lookahead":
            return self.a.assign(params[0], params[1])
        off, width = self._lookahead(ref)
        path, ht, index, meta = self.x.lvalue(params[0])
        words = max((width + 63) // 64, ht.fields[index].words)
        f = ht.fields[index]
        if f.width <= 64:
            put = assign_code(path, ht, index, meta, "w[0]", min(64, width))
        elif f.width <= 128:
            mask = "" if f.width == 128 else f" & (((u128)1 << {f.width}) - 1)"
            put = f"{path}.f{index} = U128(w[1], w[0]){mask};"
        else:
            self.x.need(0, 1 << f.width)
            put = f"w_store({path}.f{index}, {f.words}, w_mask(w_load(w, {words}), {f.width}));"
        if not meta and f.width > 64:
            put += f" {path}.dirty = 1;"
        return f"{{ {self._peek(off, width, words)} {put} }}"

    # -- select

    def _parts(self, key: Any) -> tuple[list[str], list[int], list[list[str]]]:
        """Declarations, widths and word names of a transition key."""
        decls, widths, names = [], [], []
        for i, part in enumerate(key):
            kind, ref = self.x.node(part)
            if kind == "lookahead":
                off, width = self._lookahead(ref)
                words = (width + 63) // 64
                peek = self._peek(off, width, words).replace("u64 w[", f"u64 k{i}[", 1)
                decls.append(peek.replace(", w, ", f", k{i}, "))
            else:
                if kind == "union_stack_field":
                    v, width = self._union_stack_field(ref)
                else:
                    val = self.x.exact(part)
                    if kind == "field":
                        inst, index = self.p.field(ref)
                        width = 1 if index < 0 else inst.type.fields[index].width
                    elif kind == "stack_field":
                        _, ht, index, _ = self.x.lvalue(part)
                        width = ht.fields[index].width
                    else:
                        width = max(1, val.hi.bit_length())
                    v = val
                words = (width + 63) // 64
                if words == 1:
                    low = self.x.conv(v, "u64")
                    mask = "" if width == 64 or v.lo >= 0 else f" & {u64_lit((1 << width) - 1)}"
                    decls.append(f"u64 k{i}[1] = {{{low}{mask}}};")
                elif width <= 128:
                    code = self.x.conv(v, "u128")
                    if v.lo < 0:
                        code = f"({code} & ((u128)-1 >> {128 - width}))"
                    decls.append(
                        f"u128 q{i} = {code}; u64 k{i}[2] = {{(u64)q{i}, (u64)(q{i} >> 64)}};"
                    )
                else:
                    code = f"w_mask({v.code}, {width})" if v.lo < 0 else v.code
                    decls.append(f"u64 k{i}[{words}]; w_store(k{i}, {words}, {code});")
            widths.append(width)
            names.append([f"k{i}[{j}]" for j in range(words)])
        return decls, widths, names

    def _union_stack_field(self, ref: Any) -> tuple[Any, int]:
        if not isinstance(ref, list) or len(ref) != 3:
            fail("union_stack_field needs [stack, member, field]")
        s = self.x.stack(ref[0])
        names = [n for n, _ in s.union.members] if s.union else []
        if s.union is None or ref[1] not in names:
            fail("union_stack_field: unknown member")
        k = names.index(ref[1])
        ht = s.union.members[k][1]
        if ref[2] not in ht.by_name:
            fail("union_stack_field: unknown field")
        index = ht.by_name[ref[2]]
        path = f"{self.x.last(s)}.m{k}"
        return self.x.read(path, ht.fields[index], index), ht.fields[index].width

    @staticmethod
    def _cut(value: int, widths: list[int]) -> list[list[int]]:
        """A value made of byte-padded parts, as words of each part."""
        out: list[list[int]] = []
        for w in reversed(widths):
            size = (w + 7) // 8 * 8
            part = value & (1 << size) - 1
            value >>= size
            out.append([part >> 64 * j & M64 for j in range((w + 63) // 64)])
        return out[::-1]

    def _transition(self, state: Any) -> list[str]:
        key = items(state, "transition_key", "parser")
        decls, widths, names = self._parts(key)
        out = [f"  {d}" for d in decls]
        default = None
        for t in items(state, "transitions", "parser"):
            kind = t.get("type", "hexstr" if t.get("value") not in (None, "default") else "default")
            target = self._goto(t.get("next_state"))
            if kind == "default" or t.get("value") == "default":
                default = target
                continue
            if not key:
                fail("parser: a transition has a value but the state has no key")
            mask = None if t.get("mask") is None else hexstr(t["mask"], "transition mask")
            masks = self._cut(mask, widths) if mask is not None else None
            if kind == "parse_vset":
                out.append(f"  {self._vset(t.get('value'), widths, names, masks)} {target}")
                continue
            if kind != "hexstr":
                fail(f"parser: unknown transition type '{kind!r:.40}'")
            values = self._cut(hexstr(t.get("value"), "transition value"), widths)
            terms = []
            for i, words in enumerate(names):
                for j, name in enumerate(words):
                    m = M64 if masks is None else masks[i][j]
                    if m == 0:
                        continue
                    left = name if m == M64 else f"({name} & {u64_lit(m)})"
                    terms.append(f"{left} == {u64_lit(values[i][j] & m)}")
            out.append(f"  if ({' && '.join(terms) or '1'}) {target}")
        out.append(f"  {default or 'goto done;'}")
        return out

    def _vset(
        self,
        name: Any,
        widths: list[int],
        names: list[list[str]],
        masks: list[list[int]] | None,
    ) -> str:
        if name not in self.p.vsets:
            fail(f"parser: unknown value set {name!r:.60}")
        flat = [n for words in names for n in words]
        if self._vset_words.setdefault(name, len(flat)) != len(flat):
            fail(f"value set '{name}' is compared with keys of different widths")
        self.vset_widths[name] = widths
        mask = [m for words in masks for m in words] if masks else [M64] * len(flat)
        return (
            f"if (vset_has(sw, {self.p.vsets[name][0]}, (const u64[]){{{', '.join(flat)}}}, "
            f"(const u64[]){{{', '.join(u64_lit(m) for m in mask)}}}, {len(flat)}))"
        )

    # -- hashes and checksums

    def hash_function(self, name: str, spec: Any) -> str:
        algo = get(spec, "algo", str, "hash")
        body: list[str] = []
        bits = 0
        payload = False
        for e in items(spec, "input", "hash"):
            kind, ref = self.x.node(e)
            if kind == "payload":
                payload = True
            elif kind == "field":
                inst, index = self.p.field(ref)
                f = inst.type.fields[index] if index >= 0 else None
                guard = "" if inst.metadata or index < 0 else f"if ({inst.path}.valid) "
                bits += f.width if f else 1
                body.append(guard + self._put_field(inst, index))
            elif kind == "hexstr":
                width = e.get("bitwidth")
                if not isinstance(width, int) or not 0 < width <= 16384:
                    fail("hash: a constant needs a bitwidth")
                bits += width
                v = hexstr(ref, "hash input") & (1 << width) - 1
                count = (width + 63) // 64
                words = ", ".join(u64_lit(v >> 64 * j & M64) for j in range(count))
                body.append(f"bw_words(&w, (const u64[]){{{words}}}, {width});")
            elif kind == "header":
                inst = self.p.instance(ref)
                bits += sum(f.width for f in inst.type.fields)
                put = " ".join(self._put_field(inst, k) for k in range(len(inst.type.fields)))
                body.append(put if inst.metadata else f"if ({inst.path}.valid) {{ {put} }}")
            else:
                fail(f"hash: unknown input '{kind:.40}'")
        if bits > 8 * 8192:
            fail("hash: the input is longer than 8 kB")
        out = [
            f"static u64 {name}(struct sw *sw, const struct pkt *p, const struct phv *h) {{",
            "  (void)sw; (void)p; (void)h;",
        ]
        if algo == "round_robin":
            out.append("  return CORE(sw)->round_robin++;\n}")
            return "\n".join(out)
        if algo == "random":
            out.append("  return rng_next(CORE(sw)->rng);\n}")
            return "\n".join(out)
        if algo not in HASHES:
            fail(f"hash algorithm '{algo:.40}' is not supported")
        if payload:
            out.append("  u8 *buf = CORE(sw)->scratch;")
        else:
            out.append(f"  u8 buf[{bits // 8 + 16}];")
        out.append("  struct bitw w = {buf, 0, 0, 0};")
        out += [f"  {line}" for line in body]
        out.append("  u32 n = bw_end(&w);")
        if payload:
            out.append("  u32 pay = p->len - p->parsed;")
            out.append("  if (pay > p->trunc) pay = p->trunc;")
            out.append("  memcpy(buf + n, p->buf + p->head + p->parsed, pay);")
            out.append("  n += pay;")
        out.append(f"  return {HASHES[algo]}(buf, n);")
        out.append("}")
        return "\n".join(out)

    def _put_field(self, inst: Instance, index: int) -> str:
        if index < 0:
            return f"bw_put(&w, {self.x.valid(inst)}, 1);"
        f, at = inst.type.fields[index], f"{inst.path}.f{index}"
        if f.varbit:
            return f"bw_bytes(&w, {at}, {at}_bits / 8);"
        if f.width <= 64:
            return f"bw_put(&w, {at}, {f.width});"
        if f.width <= 128:
            return f"bw_put128(&w, {at}, {f.width});"
        return f"bw_words(&w, {at}, {f.width});"

    def calculations(self) -> list[str]:
        return [self.hash_function(f"calc{n}", c) for n, c in self.p.calculations.values()]

    def _checksums(self, which: str) -> list[tuple[Any, Instance, int, str]]:
        out = []
        for c in items(self.p.root, "checksums"):
            if not c.get(which, True):
                continue
            if c.get("type", "generic") != "generic":
                fail("checksums: only the generic type is supported")
            name = c.get("calculation")
            if name not in self.p.calculations:
                fail(f"checksums: unknown calculation {name!r:.60}")
            inst, index = self.p.field(c.get("target"))
            if index < 0:
                fail("checksums: the target must be a field")
            out.append((c, inst, index, f"calc{self.p.calculations[name][0]}(sw, p, h)"))
        return out

    def _condition(self, c: Any) -> str:
        return "1" if c.get("if_cond") is None else self.x.boolean(c["if_cond"])

    def _verify(self) -> list[str]:
        out = []
        for c, inst, index, calc in self._checksums("verify"):
            have = self.x.conv(self.x.read(inst.path, inst.type.fields[index], index), "u64")
            there = "1" if inst.metadata else f"{inst.path}.valid"
            out.append(f"  if ({there} && {self._condition(c)} && {calc} != {have})")
            out.append("    p->csum_err = 1;")
        return out

    # -- deparser

    def deparser(self) -> str:
        spec = items(self.p.root, "deparsers")
        order = [self.p.instance(n) for n in items(spec[0], "order", "deparser")] if spec else []
        order = [i for i in order if not i.metadata]
        prims = items(spec[0], "primitives", "deparser") if spec else []
        out = [
            "static int prog_deparse(struct sw *sw, struct pkt *p) {",
            "  struct phv *h = phv_of(p);",
            "  u32 total = 0, end = p->head + p->parsed, pay = p->len - p->parsed;",
            "  (void)h;",
        ]
        for c, inst, index, calc in self._checksums("update"):
            put = assign_code(inst.path, inst.type, index, inst.metadata, calc, 64)
            out.append(f"  if ({self._condition(c)}) {{ {put} }}")
        for q in prims:
            name = get(q, "op", str, "deparser primitive")
            out.append("  " + self.a.primitive(name, items(q, "parameters", "deparser")))
        for i in order:
            out.append(f"  if ({i.path}.valid) total += len{i.type.index}(&{i.path});")
        out.append("  if (total > end || total + pay > MAX_FRAME) return 0;")
        out.append("  u32 at = end - total, moved = 0;")
        out.append("  u8 *buf = p->buf;")
        for i in order:
            out.append(
                f"  if ({i.path}.valid) {{ moved |= !{i.path}.dirty & ({i.path}.off != at); "
                f"at += len{i.type.index}(&{i.path}); }}"
            )
        out.append("  at = end - total;")
        out.append("  if (moved) memcpy(CORE(sw)->scratch, buf + p->head, p->parsed);")
        for i in order:
            out.append(f"  if ({i.path}.valid) {{")
            out.append(f"    u32 n = len{i.type.index}(&{i.path});")
            out.append(f"    if ({i.path}.dirty) pack{i.type.index}(&{i.path}, buf + at);")
            out.append(
                f"    else if (moved) memcpy(buf + at, CORE(sw)->scratch + "
                f"({i.path}.off - p->head), n);"
            )
            out.append("    at += n;")
            out.append("  }")
        out.append("  p->head = end - total;")
        out.append("  p->len = total + pay;")
        out.append("  return p->len != 0;")
        out.append("}")
        return "\n".join(out)
