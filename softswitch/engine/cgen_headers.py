"""C of header types: structure, extraction from bytes, packing into bytes, equality."""

from __future__ import annotations

from softswitch.engine.expr import u64_lit
from softswitch.engine.program import Field, HeaderType, Program, fail


def field_decl(f: Field, index: int) -> str:
    if f.varbit:
        return f"u32 f{index}_bits; u8 f{index}[{f.width // 8}];"
    for bits in (8, 16, 32, 64):
        if f.width <= bits:
            return f"u{bits} f{index};"
    return f"u128 f{index};" if f.width <= 128 else f"u64 f{index}[{f.words}];"


def header_struct(ht: HeaderType) -> str:
    fields = " ".join(field_decl(f, i) for i, f in enumerate(ht.fields))
    return (
        f"/* off: where in the packet buffer the bytes lie that the fields came from */\n"
        f"struct ht{ht.index} {{ u8 valid, dirty; u16 off; {fields} }};"
    )


def vector_struct(p: Program) -> str:
    """Everything known about a packet; zeroed for each one."""
    out = ["struct phv {"]
    for u in p.union_types.values():
        members = " ".join(f"struct ht{t.index} m{k};" for k, (_, t) in enumerate(u.members))
        out.insert(0, f"struct ut{u.index} {{ {members or 'u8 none;'} }};")
    for i in p.instance_list:
        if i.path == f"h->h{i.index}":
            out.append(f"  struct ht{i.type.index} h{i.index};")
    for s in p.stacks.values():
        if s.type is None:
            fail("internal: header stack without a type")
        out.append(f"  struct ht{s.type.index} s{s.index}[{s.size + 1}];")
        out.append(f"  u32 s{s.index}n;")
    stacked = {f"v{s.index}" for s in p.union_stacks.values()}
    for u2 in p.unions.values():
        if u2.path.split("[")[0][3:] not in stacked:
            out.append(f"  struct ut{u2.type.index} {u2.path[3:]};")
    for s in p.union_stacks.values():
        if s.union is None:
            fail("internal: union stack without a type")
        out.append(f"  struct ut{s.union.index} v{s.index}[{s.size + 1}];")
        out.append(f"  u32 v{s.index}n;")
    out += ["  u8 end;", "};"]
    out.append("static inline struct phv *phv_of(struct pkt *p) { return (struct phv *)p->phv; }")
    return "\n".join(out)


def assign_code(
    path: str, ht: HeaderType, index: int, metadata: bool, value: str, bits: int
) -> str:
    """Store `value`, a u64 expression of which the low `bits` bits count."""
    f = ht.fields[index]
    if f.varbit:
        fail(f"field '{f.name}' has no fixed length")
    dirty = "" if metadata else f" {path}.dirty = 1;"
    if f.width > 128:
        rest = "".join(f" {path}.f{index}[{i}] = 0;" for i in range(1, f.words))
        return f"{path}.f{index}[0] = {value};{rest}{dirty}"
    if f.width < bits:
        value = f"({value}) & {u64_lit((1 << f.width) - 1)}"
    return f"{path}.f{index} = {value};{dirty}"


def _groups(ht: HeaderType) -> list[tuple[int, list[int]]]:
    """Runs of fields that begin and end at a byte: (bit offset, field indexes)."""
    out: list[tuple[int, list[int]]] = []
    run: list[int] = []
    start = at = 0
    for i, f in enumerate(ht.fields):
        if f.varbit:
            out.append((at, [i]))
            continue
        if not run:
            start = at
        run.append(i)
        at += f.width
        if at % 8 == 0:
            out.append((start, run))
            run = []
    if run:
        out.append((start, run))
    return out


def header_functions(ht: HeaderType) -> str:
    return "\n".join([_extract(ht), _pack(ht), _equal(ht), _length(ht)])


def _length(ht: HeaderType) -> str:
    vl = ht.varbit
    extra = f" + x->f{vl}_bits / 8" if vl is not None else ""
    return (
        f"static inline u32 len{ht.index}(const struct ht{ht.index} *x) "
        f"{{ (void)x; return {ht.fixed_bits // 8}{extra}; }}"
    )


def _extract(ht: HeaderType) -> str:
    """Fields from bytes; the caller has checked that they are there."""
    out = [
        f"static inline void ext{ht.index}(struct ht{ht.index} *x, const u8 *b, u32 off, u32 vl) {{"
    ]
    shifted = False
    for start, run in _groups(ht):
        first = ht.fields[run[0]]
        base = f"b + {start // 8}" + (" + vl / 8" if shifted else "")
        if first.varbit:
            i = run[0]
            out.append(f"  x->f{i}_bits = vl; memcpy(x->f{i}, {base}, vl / 8);")
            shifted = True
            continue
        bits = sum(ht.fields[i].width for i in run)
        if bits <= 128:
            ctype, load = ("u64", "ld_be") if bits <= 64 else ("u128", "ld_be128")
            out.append(f"  {{ {ctype} g = {load}({base}, {(bits + 7) // 8});")
            left = (bits + 7) // 8 * 8
            for i in run:
                w = ht.fields[i].width
                left -= w
                code = f"g >> {left}" if left else "g"
                if w < 64:
                    code = f"({code}) & {u64_lit((1 << w) - 1)}"
                elif w == 64 and ctype == "u128":
                    code = f"(u64)({code})"
                elif 64 < w < bits:
                    code = f"({code}) & (((u128)1 << {w}) - 1)"
                out.append(f"    x->f{i} = {code};")
            out.append("  }")
            continue
        at = 0
        for i in run:
            f = ht.fields[i]
            if f.width > 128:
                out.append(f"  bits_get({base}, {at}, {f.width}, x->f{i}, {f.words});")
            else:
                out.append(f"  {{ u64 w[2]; bits_get({base}, {at}, {f.width}, w, 2);")
                val = "w[0]" if f.width <= 64 else "U128(w[1], w[0])"
                out.append(f"    x->f{i} = {val}; }}")
            at += f.width
    out.append("  x->valid = 1; x->dirty = 0; x->off = (u16)off; (void)b; (void)vl;")
    out.append("}")
    return "\n".join(out)


def _pack(ht: HeaderType) -> str:
    out = [f"static inline void pack{ht.index}(const struct ht{ht.index} *x, u8 *b) {{"]
    shifted = ""
    for start, run in _groups(ht):
        first = ht.fields[run[0]]
        base = f"b + {start // 8}{shifted}"
        if first.varbit:
            i = run[0]
            out.append(f"  memcpy({base}, x->f{i}, x->f{i}_bits / 8);")
            shifted = f" + x->f{i}_bits / 8"
            continue
        bits = sum(ht.fields[i].width for i in run)
        if bits <= 128:
            ctype, store = ("u64", "st_be") if bits <= 64 else ("u128", "st_be128")
            left, terms = (bits + 7) // 8 * 8, []
            for i in run:
                left -= ht.fields[i].width
                terms.append(f"({ctype})x->f{i} << {left}" if left else f"({ctype})x->f{i}")
            out.append(f"  {store}({base}, {(bits + 7) // 8}, {' | '.join(terms)});")
            continue
        at = 0
        for i in run:
            f = ht.fields[i]
            if f.width > 128:
                out.append(f"  bits_put({base}, {at}, {f.width}, x->f{i}, {f.words});")
            else:
                hi = f"(u64)(x->f{i} >> 64)" if f.width > 64 else "0"
                out.append(f"  {{ u64 w[2] = {{(u64)x->f{i}, {hi}}};")
                out.append(f"    bits_put({base}, {at}, {f.width}, w, 2); }}")
            at += f.width
    out.append("  (void)x; (void)b;\n}")
    return "\n".join(out)


def _equal(ht: HeaderType) -> str:
    """bmv2 calls two headers equal only when both are valid."""
    terms = ["a->valid && b->valid"]
    for i, f in enumerate(ht.fields):
        if f.varbit:
            terms.append(f"a->f{i}_bits == b->f{i}_bits")
            terms.append(f"!memcmp(a->f{i}, b->f{i}, a->f{i}_bits / 8)")
        elif f.width > 128:
            terms.append(f"!memcmp(a->f{i}, b->f{i}, sizeof a->f{i})")
        else:
            terms.append(f"a->f{i} == b->f{i}")
    n = ht.index
    return (
        f"static inline int eq{n}(const struct ht{n} *a, const struct ht{n} *b) "
        f"{{ return {' && '.join(terms)}; }}"
    )
