/* Ternary and range tables: sets of entries as bits, one row of bits for each value of each
 * key byte, holding the entries that this value does not exclude. What a key matches is the
 * intersection of one row per byte.
 *
 * Entries live in blocks of 64, one word of every row. Blocks are in the order of priority,
 * entries within a block are not: an entry goes in by setting bits of one block, and a block
 * that is full is split like the leaf of a tree. Each row has a summary that says which of its
 * words are not zero, so that most blocks of a large table are never looked at.
 *
 * Bytes that no entry cares about have no rows. A table with up to TERN_FEW entries has no
 * rows at all and is searched from the best entry to the worst. */
#include <stdlib.h>
#include "table.h"

#define MERGE 16  /* entries in a block at which it looks for a neighbour to join */

static u32 width_of(const struct table *t, u32 byte) { return t->def->key_bytes[byte >> 3]; }

/* What an entry lets through in one byte of the key: values x in lo..hi with x & mask = val. */
struct pass { u32 lo, hi, mask, val; };

static struct pass pass_of(const struct table *t, u32 e, u32 byte) {
  const u32 j = byte >> 3, s = 8 * (byte & 7);
  const u64 *v = t->keys + (size_t)e * t->def->words, *m = t->masks + (size_t)e * t->def->words;
  if (!(t->def->range_words >> j & 1))
    return (struct pass){0, 255, (u32)(m[j] >> s & 255), (u32)(v[j] >> s & 255)};
  /* the bytes above must agree before this one is bounded */
  u64 above = s == 56 ? 0 : (v[j] ^ m[j]) >> (s + 8);
  for (u32 w = j; !above && t->def->range_more >> w & 1; w++) above = v[w + 1] ^ m[w + 1];
  if (above) return (struct pass){0, 255, 0, 0};
  return (struct pass){(u32)(v[j] >> s & 255), (u32)(m[j] >> s & 255), 0, 0};
}
static int cares(struct pass p) { return p.mask != 0 || p.lo != 0 || p.hi != 255; }
static int passes(struct pass p, u32 x) { return x >= p.lo && x <= p.hi && (x & p.mask) == p.val; }

static void activate(struct tern *n) {
  n->n_active = 0;
  for (u32 b = 0; b < n->bytes; b++)
    if (n->rows[b]) n->active[n->n_active++] = (u16)b;
}

/* A row for each value, letting through all entries that there are. */
static int rows_new(struct tern *n, u32 byte) {
  u64 *rows = malloc((size_t)256 * n->cap * 8), *sums = calloc((size_t)256 * n->sum, 8);
  if (!rows || !sums) {
    free(rows);
    free(sums);
    return ERR_MEMORY;
  }
  for (u32 x = 0; x < 256; x++) {
    memcpy(rows + (size_t)x * n->cap, n->used, 8 * (size_t)n->cap);
    for (u32 b = 0; b < n->cap; b++)
      if (n->used[b]) sums[(size_t)x * n->sum + (b >> 6)] |= 1ull << (b & 63);
  }
  n->rows[byte] = rows;
  n->sums[byte] = sums;
  activate(n);
  return 0;
}

static int bits_set(struct table *t, u32 e, u32 slot) {
  struct tern *n = t->tern;
  u32 b = slot >> 6;
  for (u32 byte = 0; byte < n->bytes; byte++)
    if (!n->rows[byte] && (byte & 7) < width_of(t, byte) && cares(pass_of(t, e, byte)) &&
        rows_new(n, byte))
      return ERR_MEMORY;
  for (u32 i = 0; i < n->n_active; i++) {
    u32 byte = n->active[i];
    struct pass p = pass_of(t, e, byte);
    n->care[byte] += (u32)cares(p);
    for (u32 x = p.lo; x <= p.hi; x++)
      if (passes(p, x)) {
        n->rows[byte][(size_t)x * n->cap + b] |= 1ull << (slot & 63);
        n->sums[byte][(size_t)x * n->sum + (b >> 6)] |= 1ull << (b & 63);
      }
  }
  n->used[b] |= 1ull << (slot & 63);
  n->entry[slot] = e;
  ent_at(t, e)->slot = slot;
  return 0;
}

static void bits_clear(struct table *t, u32 e) {
  struct tern *n = t->tern;
  u32 slot = ent_at(t, e)->slot, b = slot >> 6;
  for (u32 i = 0; i < n->n_active; i++) {
    u32 byte = n->active[i];
    struct pass p = pass_of(t, e, byte);
    n->care[byte] -= (u32)cares(p);
    for (u32 x = p.lo; x <= p.hi; x++)
      if (passes(p, x)) {
        u64 *r = n->rows[byte] + (size_t)x * n->cap + b;
        *r &= ~(1ull << (slot & 63));
        if (!*r) n->sums[byte][(size_t)x * n->sum + (b >> 6)] &= ~(1ull << (b & 63));
      }
  }
  n->used[b] &= ~(1ull << (slot & 63));
}

static void rows_sweep(struct tern *n) {
  for (u32 b = 0; b < n->bytes; b++)
    if (n->rows[b] && !n->care[b]) {
      free(n->rows[b]);
      free(n->sums[b]);
      n->rows[b] = n->sums[b] = NULL;
    }
  activate(n);
}

/* ---- blocks ------------------------------------------------------------------------------- */

static int resize(struct tern *n, u32 cap) {
  u32 sum = (cap + 63) / 64;
  u64 *used = grow(n->used, n->cap, cap, 8), *least, *rank;
  u32 *order, *entry;
  if (used) n->used = used;
  if ((least = grow(n->least, n->cap, cap, 8))) n->least = least;
  if ((rank = grow(n->rank, 64 * (size_t)n->cap, 64 * (size_t)cap, 8))) n->rank = rank;
  if ((order = grow(n->order, n->cap, cap, 4))) n->order = order;
  if ((entry = grow(n->entry, 64 * (size_t)n->cap, 64 * (size_t)cap, 4))) n->entry = entry;
  if (!used || !least || !rank || !order || !entry) return ERR_MEMORY;
  u64 *rows[TERN_BYTES], *sums[TERN_BYTES];
  int failed = 0;
  for (u32 i = 0; i < n->n_active; i++) {
    rows[i] = calloc((size_t)256 * cap, 8);
    sums[i] = calloc((size_t)256 * sum, 8);
    failed |= !rows[i] || !sums[i];
  }
  for (u32 i = 0; i < n->n_active; i++) {
    u32 byte = n->active[i];
    u64 *old_rows = n->rows[byte], *old_sums = n->sums[byte];
    if (failed) {
      old_rows = rows[i];
      old_sums = sums[i];
    } else {
      for (u32 x = 0; x < 256; x++) {
        memcpy(rows[i] + (size_t)x * cap, old_rows + (size_t)x * n->cap, 8 * (size_t)n->cap);
        memcpy(sums[i] + (size_t)x * sum, old_sums + (size_t)x * n->sum, 8 * (size_t)n->sum);
      }
      n->rows[byte] = rows[i];
      n->sums[byte] = sums[i];
    }
    free(old_rows);
    free(old_sums);
  }
  if (failed) return ERR_MEMORY;
  n->cap = cap;
  n->sum = sum;
  return 0;
}

/* An empty block at the place `at` of the order; its number, or NIL. */
static u32 block_new(struct tern *n, u32 at) {
  if (n->n == n->cap && resize(n, n->cap ? 2 * n->cap : 1)) return NIL;
  u32 b = 0;
  while (n->used[b]) b++;
  memmove(n->order + at + 1, n->order + at, (n->n - at) * sizeof *n->order);
  n->order[at] = b;
  n->least[b] = UINT64_MAX;
  n->n++;
  return b;
}

static void block_drop(struct tern *n, u32 at) {
  n->n--;
  memmove(n->order + at, n->order + at + 1, (n->n - at) * sizeof *n->order);
}

static u32 count(const struct tern *n, u32 b) { return (u32)__builtin_popcountll(n->used[b]); }

static void least_of(struct tern *n, u32 b) {
  n->least[b] = UINT64_MAX;
  for (u64 m = n->used[b]; m; m &= m - 1) {
    u64 r = n->rank[b * 64 + (u32)__builtin_ctzll(m)];
    if (r < n->least[b]) n->least[b] = r;
  }
}

static int place(struct table *t, u32 e, u32 b, u64 rank) {
  struct tern *n = t->tern;
  u32 slot = b * 64 + (u32)__builtin_ctzll(~n->used[b]);
  if (bits_set(t, e, slot)) return ERR_MEMORY;
  n->rank[slot] = rank;
  if (rank < n->least[b]) n->least[b] = rank;
  return 0;
}

/* All entries of `from` for which `which` holds go to `to`. */
static int move(struct table *t, u32 from, u32 to, u64 which) {
  struct tern *n = t->tern;
  for (u64 m = which; m; m &= m - 1) {
    u32 slot = from * 64 + (u32)__builtin_ctzll(m), e = n->entry[slot];
    bits_clear(t, e);
    if (place(t, e, to, n->rank[slot])) return ERR_MEMORY;
  }
  least_of(n, from);
  return 0;
}

static int rank_cmp(const void *a, const void *b) {
  u64 x = *(const u64 *)a, y = *(const u64 *)b;
  return (x > y) - (x < y);
}

/* The block that takes an entry of this rank: the last that begins before it, and if that one
 * is full, a neighbour or half of it. */
static u32 block_for(struct table *t, u64 rank) {
  struct tern *n = t->tern;
  if (!n->n) return block_new(n, 0);
  u32 lo = 0, hi = n->n;
  while (lo < hi) {
    u32 mid = (lo + hi) / 2;
    if (n->least[n->order[mid]] <= rank) lo = mid + 1;
    else hi = mid;
  }
  u32 at = lo ? lo - 1 : 0, b = n->order[at];
  if (~n->used[b]) return b;
  u64 ranks[64];
  for (u32 i = 0; i < 64; i++) ranks[i] = n->rank[b * 64 + i];
  qsort(ranks, 64, sizeof *ranks, rank_cmp);
  if (rank < ranks[0]) return block_new(n, at);
  if (rank > ranks[63]) {
    if (at + 1 < n->n && ~n->used[n->order[at + 1]]) return n->order[at + 1];
    return block_new(n, at + 1);
  }
  u32 half = block_new(n, at + 1);
  if (half == NIL) return NIL;
  u64 upper = 0;
  for (u32 i = 0; i < 64; i++)
    if (n->rank[b * 64 + i] >= ranks[32]) upper |= 1ull << i;
  if (move(t, b, half, upper)) return NIL;
  return rank < ranks[32] ? b : half;
}

static u64 rank_of(const struct entry *e) {
  return (u64)(u32)(INT32_MAX - (i64)e->prio) << 32 | (u32)e->seq;
}

static void tern_free(struct tern *n) {
  if (!n) return;
  for (u32 b = 0; b < n->bytes; b++) {
    free(n->rows[b]);
    free(n->sums[b]);
  }
  free(n->used);
  free(n->least);
  free(n->rank);
  free(n->order);
  free(n->entry);
  free(n);
}
void ternary_free(struct table *t) {
  tern_free(t->tern);
  t->tern = NULL;
}

static int insert(struct table *t, u32 e) {
  struct tern *n = t->tern;
  u64 rank = rank_of(ent_at(t, e));
  u32 b = block_for(t, rank), at = 0;
  if (b == NIL) return ERR_MEMORY;
  int rc = place(t, e, b, rank);
  while (rc && !n->used[b] && n->order[at] != b) at++;
  if (rc && !n->used[b]) block_drop(n, at);
  return rc;
}

static int few_first(const struct table *t, u32 a, u32 b) {
  return rank_of(ent_at(t, a)) < rank_of(ent_at(t, b));
}

/* seq fits 32 bits for a rank: numbers are given anew before they do not. */
static void renumber(struct table *t) {
  u32 *all = malloc((t->n ? t->n : 1) * sizeof *all), n = 0;
  if (!all) return;
  for (u32 e = 0; e < t->cap; e++)
    if (ent_at(t, e)->flags & EF_USED) all[n++] = e;
  for (u32 gap = n / 2; gap; gap /= 2)  /* by seq; rare, so any sort does */
    for (u32 i = gap; i < n; i++)
      for (u32 j = i; j >= gap && ent_at(t, all[j - gap])->seq > ent_at(t, all[j])->seq; j -= gap) {
        u32 x = all[j];
        all[j] = all[j - gap];
        all[j - gap] = x;
      }
  for (u32 i = 0; i < n; i++) {
    struct entry *x = ent_at(t, all[i]);
    x->seq = i;
    if (t->tern) t->tern->rank[x->slot] = rank_of(x);
  }
  if (t->tern)
    for (u32 i = 0; i < t->tern->n; i++) least_of(t->tern, t->tern->order[i]);
  t->seq = n;
  free(all);
}

/* `e` is filled and not yet counted in t->n. */
int ternary_put(struct table *t, u32 e) {
  if (t->seq >= UINT32_MAX - 1) {
    u32 flags = ent_at(t, e)->flags;
    ent_at(t, e)->flags = 0;
    renumber(t);
    ent_at(t, e)->flags = flags;
    ent_at(t, e)->seq = t->seq++;
  }
  if (!t->tern && t->n < TERN_FEW) {
    u32 i = t->n;
    while (i && few_first(t, e, t->few[i - 1])) t->few[i] = t->few[i - 1], i--;
    t->few[i] = e;
    return 0;
  }
  if (!t->tern) {
    struct tern *n = calloc(1, sizeof *n);
    if (!n) return ERR_MEMORY;
    n->bytes = t->def->words * 8u;
    t->tern = n;
    for (u32 i = 0; i < t->n; i++)
      if (insert(t, t->few[i])) {
        ternary_free(t);
        return ERR_MEMORY;
      }
    if (!insert(t, e)) return 0;
    ternary_free(t);
    return ERR_MEMORY;
  }
  return insert(t, e);
}

/* `e` is still counted in t->n. */
void ternary_del(struct table *t, u32 e) {
  struct tern *n = t->tern;
  if (!n) {
    u32 i = 0;
    while (t->few[i] != e) i++;
    memmove(t->few + i, t->few + i + 1, (t->n - 1 - i) * sizeof *t->few);
    return;
  }
  u32 b = ent_at(t, e)->slot >> 6, at = 0;
  bits_clear(t, e);
  rows_sweep(n);
  least_of(n, b);
  while (n->order[at] != b) at++;
  if (!n->used[b]) {
    block_drop(n, at);
  } else if (count(n, b) <= MERGE) {
    u32 near = at + 1 < n->n ? at + 1 : at - 1;
    if (n->n > 1 && count(n, n->order[near]) <= MERGE) {
      u32 into = n->order[near];
      if (!move(t, b, into, n->used[b])) block_drop(n, at);
    }
  }
}
