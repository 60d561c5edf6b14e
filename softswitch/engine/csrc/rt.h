/* What a generated program and the runtime share: packets, tables, state.
 *
 * A program (one shared object per P4 program, see codegen) sees the switch only
 * through this header. Everything here is either a plain structure or a small static
 * function, so that the compiler specialises look-ups for the key width of each table.
 * Nothing in this file allocates memory; nothing reads or writes past a bound it has
 * not checked. All of it runs under the switch mutex.
 */
#ifndef MRC_RT_H
#define MRC_RT_H

#include <stdint.h>
#include <stddef.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t i32;
typedef int64_t i64;
typedef unsigned __int128 u128;
typedef __int128 i128;

#define MRC_ABI 4
#define NIL 0xffffffffu
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define U128(hi, lo) (((u128)(hi) << 64) | (u128)(lo))

/* Room in front of a received frame for headers that the program adds, in bytes. */
#define HEADROOM 512
/* Longest frame on a port, in bytes (jumbo MTU plus link headers). */
#define MAX_FRAME 9264
/* Readable bytes after the longest frame, so that wide loads stay inside. */
#define TAILROOM 32
#define BUF_SIZE (HEADROOM + MAX_FRAME + TAILROOM)

/* bmv2's values of standard_metadata.instance_type */
enum { INST_NORMAL = 0, INST_INGRESS_CLONE = 1, INST_EGRESS_CLONE = 2, INST_COALESCED = 3,
       INST_RECIRC = 4, INST_REPLICATION = 5, INST_RESUBMIT = 6 };

struct sw;

struct pkt {
  struct pkt *next;
  u8 *buf;          /* BUF_SIZE bytes */
  i64 t_enq;        /* ns: entered the queue */
  i64 t_out;        /* ns: leaves the delay line it is in */
  u32 head;         /* offset of the first byte in buf */
  u32 len;          /* bytes from head */
  u32 parsed;       /* bytes the parser consumed, from head */
  u32 ingress_len;  /* what counters and meters count, in bytes */
  i32 plen;         /* packet length register: follows added and removed headers */
  u32 trunc;        /* truncate(): most bytes that leave; UINT32_MAX when not set */
  i32 ingress_port;
  u32 egress_port;
  u32 egress_spec;  /* out of ingress */
  u32 mcast_grp;    /* out of ingress */
  u32 rid;
  u32 prio;         /* queue, out of ingress */
  u32 enq_qdepth, deq_qdepth;
  u32 error;        /* parser error code of the program */
  u16 clone_sid;    /* bit 15: a clone was asked for */
  u16 clone_list, resubmit_list, recirc_list, digest_list;
  u16 hops;         /* resubmissions, recirculations and clones so far */
  u8 exit, csum_err, failed;
  u8 inst;
  u64 phv[] __attribute__((aligned(16)));
};

/* ---- tables --------------------------------------------------------------------- */

enum { T_EXACT = 0, T_LPM = 1, T_TERNARY = 2 };
enum { E_ACTION = 0, E_MEMBER = 1, E_GROUP = 2 };
enum { EF_USED = 1, EF_CONST = 2 };

struct entry {
  i32 action;       /* program-wide action index, -1: none */
  u32 flags;
  i32 prio;
  u32 kind;         /* E_* */
  u32 ref;          /* member or group index */
  u32 meter;        /* slot in the direct meter array */
  u64 pkts, bytes;  /* direct counter */
  i64 ttl, last;    /* ns: time to live (0 none), last match */
  u64 seq;          /* insertion order */
  u32 slot;         /* ternary: place in the rows */
  u64 data[];       /* action arguments */
};

struct trie_node {
  u32 child[2];
  u32 entry;        /* NIL: only a branching point */
  u32 plen;
  u32 jump;         /* NIL: none */
  u64 key[];
};

/* From a node over its next eight bits: the best entry on the way, the node to go on with. */
struct jump { struct { u32 best, next; } at[256]; };

#define KEY_WORDS 60               /* most u64 words in a key */
#define TERN_BYTES (8 * KEY_WORDS)
#define TERN_FEW 8                 /* entries up to which a ternary table is just a list */

/* Ternary tables, see ternary.c. A row has `cap` words; word b is block b, its bits are slots
 * 64 b .. 64 b + 63. The `sum` words of a row's summary say which of them are not zero. */
struct tern {
  u32 cap, sum;
  u32 n;             /* blocks in use */
  u32 *order;        /* blocks, best priorities first */
  u64 *used;         /* per block: slots in use */
  u64 *least;        /* per block: best rank; lower is better */
  u64 *rank;         /* per slot */
  u32 *entry;        /* per slot */
  u32 bytes, n_active;
  u16 active[TERN_BYTES];    /* bytes that have rows */
  u32 care[TERN_BYTES];      /* entries that care about a byte */
  u64 *rows[TERN_BYTES];     /* 256 rows, NULL: nobody cares */
  u64 *sums[TERN_BYTES];     /* 256 summaries: small, so that they stay in the cache */
};

struct table_def {
  u8 match;         /* T_* */
  u8 words;         /* u64 words in a key */
  u8 data_words;    /* u64 words of the longest action data */
  u8 counters, timeout;
  i32 profile;      /* index, -1: none */
  i32 meter;        /* direct meter array, -1: none */
  u32 max_size;
  /* ternary only */
  u64 range_words;  /* bit i: key word i is of a range field */
  u64 range_more;   /* bit i: and so is word i + 1, which is more significant */
  u8 key_bytes[60]; /* bytes of each key word that can differ from zero */
};

struct table {
  const struct table_def *def;
  u32 cap, n, free_list;
  size_t stride;
  u8 *ent;          /* cap entries of stride bytes */
  struct entry *dflt;
  u64 *keys, *masks;
  u32 *hash;        /* exact: entry index + 1, 0 empty */
  u32 hash_mask;
  u8 *nodes;        /* lpm */
  size_t node_stride;
  u32 root, n_nodes, cap_nodes, free_node;
  struct jump *jumps;
  u32 n_jumps, cap_jumps, jump_at;
  u32 few[TERN_FEW]; /* ternary: entries, best first, while there is no tern */
  struct tern *tern;
  u64 seq;
};

struct member { i32 action; u32 used, refs; u64 data[]; };
struct group_member { u32 member, weight; i32 watch; /* -1: always active */ };
struct group {
  u32 used, refs, n, n_active, max_size;
  struct group_member *m;
  u32 *active;
};
struct profile_def { u32 max_size; u8 selector, data_words; };
struct profile {
  const struct profile_def *def;
  u32 cap_m, n_m, cap_g, n_g;
  size_t stride;
  u8 *mem;
  struct group *grp;
};

struct counter { u64 pkts, bytes; };
struct reg_def { u32 size, words; };
struct meter_def { u32 size; u8 rates, bytes, direct; };
struct meter_rate { double per_us; u64 burst, tokens, last; };
#define METER_RATES 2
struct meter { u8 set; i64 t0; struct meter_rate r[METER_RATES]; };
struct vset_def { u8 words; };
struct vset { u32 n, cap; u64 *v; };

struct mrc_program {
  u32 abi, phv_size, phv_zero;
  u32 n_tables, n_profiles, n_counters, n_regs, n_meters, n_vsets;
  const struct table_def *tables;
  const struct profile_def *profiles;
  const u32 *counters;
  const struct reg_def *regs;
  const struct meter_def *meters;
  const struct vset_def *vsets;
  /* zero the header vector and fill the metadata of a packet from the wire */
  void (*init)(struct sw *, struct pkt *);
  void (*parse)(struct sw *, struct pkt *);
  void (*ingress)(struct sw *, struct pkt *);
  void (*egress)(struct sw *, struct pkt *);
  /* compose the frame; 0: does not fit */
  int (*deparse)(struct sw *, struct pkt *);
  void (*reset_metadata)(struct pkt *);
  /* copy the fields of a field list; unknown list: nothing */
  void (*copy_fields)(u32 list, struct pkt *dst, const struct pkt *src);
  void (*set_instance)(struct pkt *, u32 type, u32 length);
  void (*digest)(struct sw *, const struct pkt *);
};

/* State that the program reaches. The rest of struct sw is private to the runtime. */
struct rt_ops {
  void (*digest)(struct sw *, u32 list, const u64 *words, u32 n);
  void (*log)(struct sw *, u32 fmt, const u64 *words, u32 n);
};

struct sw_core {
  struct table *tables;
  struct profile *profiles;
  struct counter **counters;
  u32 *counter_size;
  u64 **regs;
  struct meter **meters;
  struct vset *vsets;
  u64 rng[4];        /* for the program's random() */
  u64 round_robin;   /* for the hash of that name */
  i64 now;           /* ns: the instant being processed */
  i64 t0;            /* ns: what timestamp 0 stands for */
  u32 drop_port;
  const struct rt_ops *ops;
  u8 *scratch;       /* 2 * BUF_SIZE bytes for hashes over payloads */
};
#define CORE(sw) ((struct sw_core *)(sw))

static inline u64 now_us(struct sw *sw) {
  return (u64)(CORE(sw)->now - CORE(sw)->t0) / 1000u;
}

/* ---- bytes ---------------------------------------------------------------------- */

static inline u64 ld_be(const u8 *p, unsigned n) {
  switch (n) {
    case 1: return p[0];
    case 2: { u16 v; memcpy(&v, p, 2); return __builtin_bswap16(v); }
    case 4: { u32 v; memcpy(&v, p, 4); return __builtin_bswap32(v); }
    case 8: { u64 v; memcpy(&v, p, 8); return __builtin_bswap64(v); }
    case 3: return ld_be(p, 2) << 8 | p[2];
    case 5: return ld_be(p, 4) << 8 | p[4];
    case 6: return ld_be(p, 4) << 16 | ld_be(p + 4, 2);
    case 7: return ld_be(p, 4) << 24 | ld_be(p + 4, 3);
    default: return 0;
  }
}

static inline void st_be(u8 *p, unsigned n, u64 v) {
  switch (n) {
    case 1: p[0] = (u8)v; break;
    case 2: { u16 x = __builtin_bswap16((u16)v); memcpy(p, &x, 2); break; }
    case 4: { u32 x = __builtin_bswap32((u32)v); memcpy(p, &x, 4); break; }
    case 8: { u64 x = __builtin_bswap64(v); memcpy(p, &x, 8); break; }
    case 3: st_be(p, 2, v >> 8); p[2] = (u8)v; break;
    case 5: st_be(p, 4, v >> 8); p[4] = (u8)v; break;
    case 6: st_be(p, 4, v >> 16); st_be(p + 4, 2, v); break;
    case 7: st_be(p, 4, v >> 24); st_be(p + 4, 3, v); break;
    default: break;
  }
}

static inline u128 ld_be128(const u8 *p, unsigned n) {
  if (n <= 8) return ld_be(p, n);
  return (u128)ld_be(p, n - 8) << 64 | ld_be(p + n - 8, 8);
}

static inline void st_be128(u8 *p, unsigned n, u128 v) {
  if (n <= 8) { st_be(p, n, (u64)v); return; }
  st_be(p, n - 8, (u64)(v >> 64));
  st_be(p + n - 8, 8, (u64)v);
}

/* `width` bits at bit `off` of p into `words` words, least significant first. */
static inline void bits_get(const u8 *p, u32 off, u32 width, u64 *out, u32 words) {
  for (u32 i = 0; i < words; i++) out[i] = 0;
  for (u32 i = 0; i < width; i++) {
    u32 src = off + width - 1 - i;
    u64 bit = (p[src >> 3] >> (7 - (src & 7))) & 1u;
    if (i >> 6 < words) out[i >> 6] |= bit << (i & 63);
  }
}

static inline void bits_put(u8 *p, u32 off, u32 width, const u64 *in, u32 words) {
  for (u32 i = 0; i < width; i++) {
    u32 dst = off + width - 1 - i;
    u8 bit = (i >> 6) < words ? (u8)((in[i >> 6] >> (i & 63)) & 1u) : 0;
    u8 m = (u8)(1u << (7 - (dst & 7)));
    p[dst >> 3] = (u8)((p[dst >> 3] & ~m) | (bit ? m : 0));
  }
}

/* Bit writer for hash inputs: fields back to back, most significant bit first, the last
 * byte filled with zeros. The buffer must hold everything that is put. */
struct bitw { u8 *p; u32 n; u64 acc; u32 nacc; };

static inline void bw_put(struct bitw *b, u64 v, u32 width) {
  if (width > 32) { bw_put(b, v >> 32, width - 32); v &= 0xffffffffu; width = 32; }
  b->acc = b->acc << width | (width == 64 ? v : v & ((1ull << width) - 1));
  b->nacc += width;
  while (b->nacc >= 8) { b->nacc -= 8; b->p[b->n++] = (u8)(b->acc >> b->nacc); }
}
static inline void bw_put128(struct bitw *b, u128 v, u32 width) {
  if (width > 64) { bw_put(b, (u64)(v >> 64), width - 64); width = 64; }
  bw_put(b, (u64)v, width);
}
static inline void bw_words(struct bitw *b, const u64 *w, u32 width) {
  u32 top = width & 63, n = width >> 6;
  if (top) bw_put(b, w[n], top);
  while (n) bw_put(b, w[--n], 64);
}
static inline void bw_bytes(struct bitw *b, const u8 *s, u32 n) {
  for (u32 i = 0; i < n; i++) bw_put(b, s[i], 8);
}
static inline u32 bw_end(struct bitw *b) {
  if (b->nacc) { b->p[b->n++] = (u8)(b->acc << (8 - b->nacc)); b->nacc = 0; }
  return b->n;
}

/* ---- random --------------------------------------------------------------------- */

static inline u64 rng_next(u64 s[4]) {  /* xoshiro256** */
  u64 r = s[1] * 5, t = s[1] << 17;
  r = (r << 7 | r >> 57) * 9;
  s[2] ^= s[0]; s[3] ^= s[1]; s[1] ^= s[2]; s[0] ^= s[3];
  s[2] ^= t;
  s[3] = s[3] << 45 | s[3] >> 19;
  return r;
}

/* uniform in lo..hi; the caller has checked lo <= hi */
static inline u64 rng_between(u64 s[4], u64 lo, u64 hi) {
  u64 span = hi - lo;
  if (span == UINT64_MAX) return rng_next(s);
  span++;
  u128 m = (u128)rng_next(s) * span;
  if (unlikely((u64)m < span)) {
    u64 floor = -span % span;
    while ((u64)m < floor) m = (u128)rng_next(s) * span;
  }
  return lo + (u64)(m >> 64);
}

/* ---- look-ups ------------------------------------------------------------------- */

static inline struct entry *ent_at(const struct table *t, u32 i) {
  return (struct entry *)(t->ent + (size_t)i * t->stride);
}
static inline struct trie_node *node_at(const struct table *t, u32 i) {
  return (struct trie_node *)(t->nodes + (size_t)i * t->node_stride);
}
static inline struct member *mem_at(const struct profile *p, u32 i) {
  return (struct member *)(p->mem + (size_t)i * p->stride);
}

static inline u32 key_hash(const u64 *k, u32 words) {
  u64 h = 0x9e3779b97f4a7c15ull;
  for (u32 i = 0; i < words; i++) {
    h = (h ^ k[i]) * 0xff51afd7ed558ccdull;
    h ^= h >> 32;
  }
  return (u32)(h ^ h >> 17);
}

static inline struct entry *find_exact(const struct table *t, const u64 *k, const u32 words) {
  if (!t->n) return NULL;
  u32 i = key_hash(k, words) & t->hash_mask;
  for (;;) {
    u32 e = t->hash[i];
    if (!e) return NULL;
    const u64 *q = t->keys + (size_t)(e - 1) * words;
    u64 diff = 0;
    for (u32 j = 0; j < words; j++) diff |= q[j] ^ k[j];
    if (!diff) return ent_at(t, e - 1);
    i = (i + 1) & t->hash_mask;
  }
}

/* Keys of lpm tables: words from the most significant on, prefix bits left aligned. */
static inline int prefix_eq(const u64 *a, const u64 *b, u32 plen, const u32 words) {
  u64 diff = 0;  /* without branches: lengths are anything */
  for (u32 j = 0; j < words; j++) {
    u32 n = plen > 64 ? 64 : plen;
    diff |= (a[j] ^ b[j]) & (n ? ~0ull << (64 - n) : 0);
    plen -= n;
  }
  return !diff;
}

/* Bits p .. p + 7 of a key; p + 8 is not past its end. */
static inline u32 eight_bits(const u64 *k, u32 p, const u32 words) {
  u32 j = p >> 6, off = p & 63;
  u64 v = k[j] << off;
  if (off > 56 && j + 1 < words) v |= k[j + 1] >> (64 - off);
  return (u32)(v >> 56);
}

static inline struct entry *find_lpm(const struct table *t, const u64 *k, const u32 words) {
  u32 cur = t->root, best = NIL;
  while (cur != NIL) {
    const struct trie_node *n = node_at(t, cur);
    if (!prefix_eq(k, n->key, n->plen, words)) break;
    if (n->entry != NIL) best = n->entry;
    if (n->plen >= words * 64) break;
    if (n->jump != NIL) {
      const struct jump *j = &t->jumps[n->jump];
      u32 i = eight_bits(k, n->plen, words);
      if (j->at[i].best != NIL) best = j->at[i].best;
      cur = j->at[i].next;
    } else {
      cur = n->child[k[n->plen >> 6] >> (63 - (n->plen & 63)) & 1];
    }
  }
  return best == NIL ? NULL : ent_at(t, best);
}

/* `ranges` and `more` as in struct table_def. */
static inline int tern_eq(const struct table *t, u32 e, const u64 *k, const u32 words,
                          const u64 ranges, const u64 more) {
  const u64 *v = t->keys + (size_t)e * words, *m = t->masks + (size_t)e * words;
  u64 diff = 0, below = 0, above = 0;
  for (u32 j = 0; j < words; j++) {
    if (ranges >> j & 1) {
      below = (u64)(k[j] < v[j]) | ((u64)(k[j] == v[j]) & below);
      above = (u64)(k[j] > m[j]) | ((u64)(k[j] == m[j]) & above);
      if (!(more >> j & 1)) {
        diff |= below | above;
        below = above = 0;
      }
    } else {
      diff |= (k[j] & m[j]) ^ v[j];
    }
  }
  return !diff;
}

static inline struct entry *find_ternary(const struct table *t, const u64 *k, const u32 words,
                                         const u64 ranges, const u64 more) {
  const struct tern *n = t->tern;
  if (!n) {
    for (u32 i = 0; i < t->n; i++)
      if (tern_eq(t, t->few[i], k, words, ranges, more)) return ent_at(t, t->few[i]);
    return NULL;
  }
  const u32 rows = n->n_active, sum = n->sum;
  u64 best = UINT64_MAX;
  u32 found = NIL;
  for (u32 w = 0; w < sum; w++) {
    u64 blocks = ~0ull;
    if (w == sum - 1 && n->cap & 63) blocks = (1ull << (n->cap & 63)) - 1;
    for (u32 i = 0; i < rows && blocks; i++) {
      u32 b = n->active[i];
      blocks &= n->sums[b][(size_t)(k[b >> 3] >> (8 * (b & 7)) & 255) * sum + w];
    }
    for (; blocks; blocks &= blocks - 1) {
      u32 block = w * 64 + (u32)__builtin_ctzll(blocks);
      if (n->least[block] > best) continue;
      u64 cand = n->used[block];
      for (u32 i = 0; i < rows && cand; i++) {
        u32 b = n->active[i];
        cand &= n->rows[b][(size_t)(k[b >> 3] >> (8 * (b & 7)) & 255) * n->cap + block];
      }
      for (; cand; cand &= cand - 1) {
        u32 slot = block * 64 + (u32)__builtin_ctzll(cand);
        if (n->rank[slot] > best) continue;
        /* the bytes of a range are not independent of each other */
        if (ranges && !tern_eq(t, n->entry[slot], k, words, ranges, more)) continue;
        best = n->rank[slot];
        found = n->entry[slot];
      }
    }
  }
  return found == NIL ? NULL : ent_at(t, found);
}

static inline void count_entry(struct entry *e, const struct pkt *p) {
  e->pkts++;
  e->bytes += p->ingress_len;
}

static inline void count_cell(struct sw *sw, u32 array, u64 index, const struct pkt *p) {
  struct sw_core *c = CORE(sw);
  if (likely(index < c->counter_size[array])) {
    c->counters[array][index].pkts++;
    c->counters[array][index].bytes += p->ingress_len;
  }
}

/* Two-rate three-colour meter as bmv2 computes it: 0 green, 1 yellow, 2 red. */
static inline u32 meter_run(struct meter *m, const struct meter_def *d, const struct pkt *p,
                            i64 now) {
  if (!m->set) return 0;
  u64 us = (u64)(now - m->t0) / 1000u, need = d->bytes ? p->ingress_len : 1;
  for (u32 i = 0; i < d->rates && i < METER_RATES; i++) {
    /* bmv2 keeps the higher rate first: too fast for it is red */
    struct meter_rate *r = &m->r[d->rates - 1 - i];
    u64 total = (u64)((double)us * r->per_us);
    u64 fresh = total > r->last ? total - r->last : 0;
    r->last = total;
    r->tokens = r->tokens + fresh > r->burst ? r->burst : r->tokens + fresh;
    if (r->tokens < need) return (u32)(d->rates - i);
    r->tokens -= need;
  }
  return 0;
}

#include "hash.h"

#endif
