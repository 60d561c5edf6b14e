/* Small functions that only generated programs use. */
#ifndef MRC_PROGRT_H
#define MRC_PROGRT_H

#define PARSER_STEPS 4096  /* states a packet may go through before ParserTimeout */

static inline u32 clamp(u64 i, u32 size) { return i < size ? (u32)i : size; }
static inline u128 ld_u128(const u64 *w) { return U128(w[1], w[0]); }
static inline u64 us_at(struct sw *sw, i64 t) { return (u64)(t - CORE(sw)->t0) / 1000u; }

static inline u64 shl_u64(u64 v, u64 n) { return n < 64 ? v << n : 0; }
static inline u128 shl_u128(u128 v, u64 n) { return n < 128 ? v << n : 0; }
static inline u64 shr_u64(u64 v, u64 n) { return n < 64 ? v >> n : 0; }
static inline i64 shr_i64(i64 v, u64 n) { return v >> (n < 64 ? n : 63); }
static inline u128 shr_u128(u128 v, u64 n) { return n < 128 ? v >> n : 0; }
static inline i128 shr_i128(i128 v, u64 n) { return v >> (n < 128 ? n : 127); }
static inline u64 div_u64(u64 a, u64 b) { return b ? a / b : 0; }
static inline u64 mod_u64(u64 a, u64 b) { return b ? a % b : 0; }
static inline u128 div_u128(u128 a, u128 b) { return b ? a / b : 0; }
static inline u128 mod_u128(u128 a, u128 b) { return b ? a % b : 0; }

/* The cell past the end stands for all that are out of range; it is never written. */
static inline u64 *reg_cell(struct sw *sw, u32 array, u32 index, u32 size, u32 words) {
  return CORE(sw)->regs[array] + (size_t)(index < size ? index : size) * words;
}
static inline struct member *pick_member(struct sw *sw, u32 profile, const struct entry *e,
                                         u64 hash) {
  struct profile *p = &CORE(sw)->profiles[profile];
  if (e->kind == E_MEMBER) return e->ref < p->cap_m ? mem_at(p, e->ref) : NULL;
  if (e->kind != E_GROUP || e->ref >= p->cap_g) return NULL;
  const struct group *g = &p->grp[e->ref];
  /* bmv2's hash is 32 bits wide here */
  return g->n_active ? mem_at(p, g->active[(u32)hash % g->n_active]) : NULL;
}

static inline u32 direct_meter(struct sw *sw, u32 array, u32 index, const struct pkt *p);

static inline int vset_has(struct sw *sw, u32 set, const u64 *key, const u64 *mask, u32 words) {
  const struct vset *s = &CORE(sw)->vsets[set];
  for (u32 i = 0; i < s->n; i++) {
    const u64 *v = s->v + (size_t)i * 2 * words;  /* value, then the bits that count */
    u64 diff = 0;
    for (u32 j = 0; j < words; j++) diff |= (v[j] ^ key[j]) & mask[j] & v[words + j];
    if (!diff) return 1;
  }
  return 0;
}

extern const struct mrc_program mrc_program;

static inline u32 direct_meter(struct sw *sw, u32 array, u32 index, const struct pkt *p) {
  const struct meter_def *d = &mrc_program.meters[array];
  if (index >= d->size) return 0;
  return meter_run(&CORE(sw)->meters[array][index], d, p, CORE(sw)->now);
}
static inline u32 run_meter(struct sw *sw, u32 array, u64 index, const struct pkt *p) {
  return index < mrc_program.meters[array].size ? direct_meter(sw, array, (u32)index, p) : 0;
}
#endif
