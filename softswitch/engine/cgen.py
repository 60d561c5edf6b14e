"""From a checked program to the C source of its data path.

The source holds numbers and generated identifiers only: no name, string or comment of the
program gets into it. Its parts: header structures with extract, pack and compare
functions (`cgen_headers`), the parser and deparser (`cgen_parser`), actions
(`cgen_actions`), and here the pipelines, the tables' descriptions and the glue to the
runtime in csrc/rt.h.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from softswitch.engine.cgen_actions import Actions
from softswitch.engine.cgen_headers import (
    assign_code,
    header_functions,
    header_struct,
    vector_struct,
)
from softswitch.engine.cgen_parser import Parsers
from softswitch.engine.expr import Expr, u64_lit
from softswitch.engine.program import KeyField, Program, Table, fail

PRELUDE = """\
#include "rt.h"
#define WIDE_LIMBS {limbs}
#include "wide.h"
#include "progrt.h"
"""


MAX_DIGEST_WORDS = 1024
MAX_SOURCE = 1 << 25
"""Longest C source in bytes; a compiler would take minutes for more."""


def generate(program: Program) -> str:
    """The whole C file."""
    return Generator(program).text()


class Generator:
    """One compilation."""

    def __init__(self, program: Program) -> None:
        self.p = program
        self.x = Expr(program)
        self.actions = Actions(program, self.x)
        self.parsers = Parsers(program, self.x, self.actions)
        self.labels: dict[str, dict[str, str]] = {}

    def text(self) -> str:
        p = self.p
        parts: list[str] = []
        for ht in p.types.values():
            parts.append(header_struct(ht))
        parts.append(vector_struct(p))
        for ht in p.types.values():
            parts.append(header_functions(ht))
        parts += self.parsers.calculations()
        parts += [self._selectors()]
        parts += [self.actions.function(a) for a in p.actions]
        parts.append(self.parsers.parser())
        parts.append(self.parsers.deparser())
        for pipe in ("ingress", "egress"):
            parts.append(self._pipeline(pipe))
        parts.append(self._glue())
        parts.append(self._descriptor())
        body = "\n".join(parts)
        if len(body) > MAX_SOURCE:
            fail(f"program: it becomes {len(body)} bytes of C, more than {MAX_SOURCE}")
        return PRELUDE.format(limbs=max(self.x.limbs, 3)) + body

    # -- control flow

    def _goto(self, pipe: str, name: Any) -> str:
        if name is None:
            return "return;"
        label = self.labels[pipe].get(name)
        if label is None:
            fail(f"pipeline {pipe}: unknown node {name!r:.60}")
        return f"goto {label};"

    def _pipeline(self, pipe: str) -> str:
        nodes = self.p.nodes[pipe]
        self.labels[pipe] = {name: f"n{i}" for i, name in enumerate(nodes)}
        out = [
            f"static void pipe_{pipe}(struct sw *sw, struct pkt *p) {{",
            "  struct phv *h = phv_of(p);",
            "  (void)sw; (void)h;",
            f"  {self._goto(pipe, self.p.init[pipe])}",
        ]
        for name, node in nodes.items():
            out.append(f"{self.labels[pipe][name]}: {{")
            if node.kind == "if":
                yes, no = (self._goto(pipe, n) for n in node.next)
                cond = self.x.boolean(node.body)
                out.append(f"  if ({cond}) {yes}\n  else {no}")
            elif node.kind == "call":
                out.append(f"  act{node.body.index}(sw, p, h, NULL);")
                if self.actions.exits(node.body):
                    out.append("  if (p->exit) return;")
                out.append(f"  {self._goto(pipe, node.next[0])}")
            else:
                out += self._apply(pipe, node.body)
            out.append("}")
        out.append("}")
        return "\n".join(out)

    def _key_words(self, t: Table) -> list[str]:
        words = [""] * t.words
        for k in t.key:
            inst = self.p.instance_list[k.instance]
            if k.field < 0:
                words[k.word] = self.x.valid(inst)
                continue
            f = replace(inst.type.fields[k.field], signed=False)  # bits are compared
            raw = self.x.read(inst.path, f, k.field).code
            for j, w in enumerate(self._split(raw, k, t.match == "lpm")):
                if k.mask is not None:
                    m = (k.mask << k.shift) & (1 << 64 * k.words) - 1
                    pos = k.words - 1 - j if t.match == "lpm" else j
                    w = f"({w} & {u64_lit(m >> 64 * pos & (1 << 64) - 1)})"
                words[k.word + j] = w if inst.metadata else f"({inst.path}.valid ? {w} : 0)"
        return words

    def _split(self, code: str, k: KeyField, big_first: bool) -> list[str]:
        """The key field in u64 words; most significant first for prefix tables."""
        if k.width <= 64:
            return [f"({code} << {k.shift})" if k.shift else code]
        if k.width <= 128:
            val = f"((u128){code} << {k.shift})" if k.shift else f"((u128){code})"
            low, high = f"(u64){val}", f"(u64)({val} >> 64)"
            return [high, low] if big_first else [low, high]
        val = f"w_shl({code}, {k.shift})" if k.shift else code
        words = [f"({val}).w[{i}]" for i in range(k.words)]
        self.x.need(0, 1 << 64 * k.words)
        return words[::-1] if big_first else words

    def _apply(self, pipe: str, t: Table) -> list[str]:
        out = [f"  struct table *t = &CORE(sw)->tables[{t.index}];"]
        lookup = "NULL"
        if t.words:
            out.append(f"  u64 k[{t.words}] = {{{', '.join(self._key_words(t))}}};")
            lookup = f"find_{t.match}(t, k, {t.words}"
            if t.match == "ternary":
                ranges, more = range_words(t)
                lookup += f", {u64_lit(ranges)}, {u64_lit(more)}"
            lookup += ")"
        out.append(f"  struct entry *e = {lookup};")
        out.append("  int hit = e != NULL;")
        out.append("  if (!hit) e = t->dflt;")
        if t.with_counters:
            out.append("  count_entry(e, p);")
        if t.timeout:
            out.append("  e->last = CORE(sw)->now;")
        if t.meter >= 0:
            out += self._direct_meter(t)
        out.append("  i32 action = e->action;")
        out.append("  const u64 *d = e->data;")
        if t.profile >= 0:
            sel = f"sel{t.profile}(sw, p, h)" if t.kind == "indirect_ws" else "0"
            out.append("  if (e->kind != E_ACTION) {")
            out.append(
                f"    const struct member *m = pick_member(sw, {t.profile}, e, "
                f"e->kind == E_GROUP ? {sel} : 0);"
            )
            out.append("    action = m ? m->action : -1;")
            out.append("    d = m ? m->data : NULL;")
            out.append("  }")
        out.append("  switch (action) {")
        hit_miss = "__HIT__" in t.next or "__MISS__" in t.next
        for a in {x.index: x for x in t.actions}.values():
            out.append(f"  case {a.index}:")
            out.append(f"    act{a.index}(sw, p, h, d);")
            if self.actions.exits(a):
                out.append("    if (p->exit) return;")
            if hit_miss:
                out.append("    break;")
            else:
                target = t.next.get(a.name, t.default_next)
                out.append(f"    {self._goto(pipe, target)}")
        out.append("  default: break;")
        out.append("  }")
        if hit_miss:
            yes = self._goto(pipe, t.next.get("__HIT__", t.default_next))
            no = self._goto(pipe, t.next.get("__MISS__", t.default_next))
            out.append(f"  if (hit) {yes}\n  else {no}")
        else:
            out.append("  (void)hit;")
            out.append(f"  {self._goto(pipe, t.default_next)}")
        return out

    def _direct_meter(self, t: Table) -> list[str]:
        m = list(self.p.meters.values())[t.meter]
        if m.target is None:
            return []
        inst = self.p.instance_list[m.target[0]]
        color = f"(u64)direct_meter(sw, {m.index}, (u32)(((u8 *)e - t->ent) / t->stride), p)"
        code = assign_code(inst.path, inst.type, m.target[1], inst.metadata, color, 2)
        return ["  if (hit) {", f"    {code}", "  }"]

    def _selectors(self) -> str:
        out = []
        for i, prof in enumerate(self.p.profiles.values()):
            if isinstance(prof.selector, Mapping):
                out.append(self.parsers.hash_function(f"sel{i}", prof.selector))
        return "\n".join(out)

    # -- glue

    def _set(self, name: str, code: str, bits: int, alias: str = "standard_metadata") -> str:
        ref = self.p.standard(name, alias)
        if ref is None:
            return ""
        inst, index = ref
        return "  " + assign_code(inst.path, inst.type, index, inst.metadata, code, bits) + "\n"

    def _get(self, name: str, alias: str = "standard_metadata") -> str:
        ref = self.p.standard(name, alias)
        if ref is None:
            return "0"
        inst, index = ref
        return self.x.conv(self.x.read(inst.path, inst.type.fields[index], index), "u64")

    def _glue(self) -> str:
        im, qm = "intrinsic_metadata", "queueing_metadata"
        s, g = self._set, self._get
        clear = "".join(
            f"  memset(&{i.path}, 0, sizeof {i.path});\n"
            for i in self.p.instance_list
            if i.metadata
        )
        lists = ""
        for list_id, elements in self.p.field_lists:
            body = ""
            for e in elements:
                if isinstance(e, Mapping) and e.get("type") == "field":
                    inst, index = self.p.field(e.get("value"))
                    if index < 0:
                        continue
                    src = inst.path.replace("h->", "o->", 1)
                    body += f"    memcpy(&{inst.path}.f{index}, &{src}.f{index}, "
                    body += f"sizeof {inst.path}.f{index});\n"
            lists += f"  case {list_id & 0xFFFFFFFF}u:\n{body}    break;\n"
        return f"""
static void prog_init(struct sw *sw, struct pkt *p) {{
  struct phv *h = phv_of(p);
  memset(h, 0, sizeof *h);
{s("ingress_port", "(u64)(u32)p->ingress_port", 32)}\
{s("packet_length", "(u64)p->len", 32)}\
{s("ingress_global_timestamp", "now_us(sw)", 64, im)}\
  (void)sw;
}}
static void prog_ingress(struct sw *sw, struct pkt *p) {{
  struct phv *h = phv_of(p);
  prog_parse(sw, p);
{s("parser_error", "(u64)p->error", 32)}{s("checksum_error", "(u64)p->csum_err", 8)}\
  pipe_ingress(sw, p);
  p->exit = 0;
  p->egress_spec = (u32){g("egress_spec")};
  p->mcast_grp = (u32){g("mcast_grp", im)};
  p->prio = (u32){g("priority", im)};
}}
static void prog_egress(struct sw *sw, struct pkt *p) {{
  struct phv *h = phv_of(p);
{s("egress_global_timestamp", "now_us(sw)", 64, im)}\
{s("enq_timestamp", "us_at(sw, p->t_enq)", 64, qm)}\
{s("enq_qdepth", "(u64)p->enq_qdepth", 32, qm)}\
{s("deq_timedelta", "(now_us(sw) - us_at(sw, p->t_enq))", 64, qm)}\
{s("deq_qdepth", "(u64)p->deq_qdepth", 32, qm)}\
{s("qid", "(u64)p->prio", 32, qm) if self._has_qid() else ""}\
{s("egress_port", "(u64)p->egress_port", 32)}\
{s("egress_rid", "(u64)p->rid", 32, im)}\
{s("egress_spec", "(u64)(CORE(sw)->drop_port + 1)", 32)}\
{s("packet_length", "(u64)(u32)p->plen", 32)}\
  pipe_egress(sw, p);
  p->egress_spec = (u32){g("egress_spec")};
}}
static void prog_reset_metadata(struct pkt *p) {{
  struct phv *h = phv_of(p);
{clear}  (void)h;
}}
static void prog_copy_fields(u32 list, struct pkt *dst, const struct pkt *src) {{
  struct phv *h = phv_of(dst);
  const struct phv *o = (const struct phv *)src->phv;
  (void)h; (void)o;
  switch (list) {{
{lists}  default: break;
  }}
}}
static void prog_set_instance(struct pkt *p, u32 type, u32 length) {{
  struct phv *h = phv_of(p);
  p->inst = (u8)type;
{s("instance_type", "(u64)type", 32)}\
  if (length != UINT32_MAX) {{
  {s("packet_length", "(u64)length", 32)}  }}
  p->prio = (u32){g("priority", im)};
  (void)h;
}}
{self._digest()}"""

    def _has_qid(self) -> bool:
        ref = self.p.standard("qid", "queueing_metadata")
        return ref is not None

    def _digest(self) -> str:
        cases = ""
        for n, (list_id, _, elements) in enumerate(self.p.learn_lists):
            body, at = "", 0
            for e in elements:
                if not isinstance(e, Mapping) or e.get("type") not in ("field", "hexstr"):
                    fail("learn_lists: only fields and constants are supported")
                if e.get("type") == "hexstr":
                    v = self.x.exact(e)
                    body += f"    w[{at}] = {self.x.conv(v, 'u64')};\n"
                    at += 1
                    continue
                inst, index = self.p.field(e.get("value"))
                words = 1 if index < 0 else inst.type.fields[index].words
                if index < 0:
                    body += f"    w[{at}] = {self.x.valid(inst)};\n"
                elif words == 1:
                    body += f"    w[{at}] = (u64){inst.path}.f{index};\n"
                elif words == 2 and inst.type.fields[index].width <= 128:
                    body += f"    w[{at}] = (u64){inst.path}.f{index};\n"
                    body += f"    w[{at + 1}] = (u64)({inst.path}.f{index} >> 64);\n"
                else:
                    body += f"    memcpy(w + {at}, {inst.path}.f{index}, {8 * words});\n"
                at += words
            if at > MAX_DIGEST_WORDS:
                fail(f"learn_lists: a digest of more than {8 * MAX_DIGEST_WORDS} bytes")
            if list_id & 0xFFFF != list_id:
                fail("learn_lists: an id must be 0..65535")
            cases += f"  case {list_id}u: {{\n    u64 w[{max(1, at)}];\n{body}"
            cases += f"    CORE(sw)->ops->digest(sw, {n}, w, {at});\n    break;\n  }}\n"
        return f"""\
static void prog_digest(struct sw *sw, const struct pkt *p) {{
  const struct phv *h = (const struct phv *)p->phv;
  (void)sw; (void)h;
  switch (p->digest_list) {{
{cases}  default: break;
  }}
}}"""

    # -- description for the runtime

    def _descriptor(self) -> str:
        p = self.p
        tables = ",\n".join(self._table_def(t) for t in p.tables.values())
        profiles = ", ".join(
            f"{{{pr.max_size}u, {int(isinstance(pr.selector, Mapping))}, {pr.data_words}}}"
            for pr in p.profiles.values()
        )
        regs = ", ".join(f"{{{s}u, {(w + 63) // 64}u}}" for _, s, w in p.registers.values())
        meters = ", ".join(
            f"{{{m.size}u, {m.rates}, {int(m.bytes)}, {int(m.direct)}}}" for m in p.meters.values()
        )
        vsets = ", ".join(f"{{{self.parsers.vset_words(n)}}}" for n in p.vsets)
        counters = ", ".join(f"{c}u" for c in p.counter_sizes)

        def array(kind: str, name: str, body: str) -> str:
            return f"static const {kind} {name}[] = {{{body or '0'}}};\n"

        return (
            array("struct table_def", "d_tables", f"\n{tables}\n" if tables else "{0}")
            + array("struct profile_def", "d_profiles", profiles or "{0}")
            + array("u32", "d_counters", counters)
            + array("struct reg_def", "d_regs", regs or "{0}")
            + array("struct meter_def", "d_meters", meters or "{0}")
            + array("struct vset_def", "d_vsets", vsets or "{0}")
            + f"""\
const struct mrc_program mrc_program = {{
  .abi = MRC_ABI, .phv_size = sizeof(struct phv),
  .n_tables = {len(p.tables)}, .n_profiles = {len(p.profiles)},
  .n_counters = {len(p.counter_sizes)}, .n_regs = {len(p.registers)},
  .n_meters = {len(p.meters)}, .n_vsets = {len(p.vsets)},
  .tables = d_tables, .profiles = d_profiles, .counters = d_counters, .regs = d_regs,
  .meters = d_meters, .vsets = d_vsets,
  .init = prog_init, .parse = prog_parse, .ingress = prog_ingress, .egress = prog_egress,
  .deparse = prog_deparse, .reset_metadata = prog_reset_metadata,
  .copy_fields = prog_copy_fields, .set_instance = prog_set_instance, .digest = prog_digest,
}};
"""
        )

    @staticmethod
    def _table_def(t: Table) -> str:
        ranges, more = range_words(t)
        fields = {
            "match": {"exact": 0, "lpm": 1, "ternary": 2}[t.match],
            "words": t.words,
            "data_words": t.data_words,
            "counters": int(t.with_counters),
            "timeout": int(t.timeout),
            "profile": t.profile,
            "meter": t.meter,
            "max_size": f"{min(t.max_size, 0xFFFFFFFF)}u",
            "range_words": u64_lit(ranges),
            "range_more": u64_lit(more),
            "key_bytes": f"{{{', '.join(map(str, key_bytes(t)))}}}",
        }
        return "  {" + ", ".join(f".{k} = {v}" for k, v in fields.items()) + "}"


def range_words(t: Table) -> tuple[int, int]:
    """(words, more): bit i of `words` is set when key word i is compared as a range, of `more`
    when the range goes on in word i + 1."""
    words = more = 0
    for k in t.key:
        if k.match == "range":
            words |= (1 << k.words) - 1 << k.word
            more |= (1 << k.words - 1) - 1 << k.word
    return words, more


def key_bytes(t: Table) -> list[int]:
    """For each key word, how many of its bytes the field fills."""
    out = [8] * max(1, t.words)
    for k in t.key:
        top = k.width - 64 * (k.words - 1)
        out[k.word + k.words - 1] = (top + 7) // 8
    return out
