/* Longest prefixes: a binary tree with path compression, and shortcuts through it.
 *
 * The tree alone costs a step per bit that distinguishes entries. A node with many others
 * close below it therefore has a jump: for each value of the next eight bits, the best entry
 * on the way and the node to go on with. Jumps are laid out anew each time the number of
 * entries doubles and kept right in between. */
#include <stdlib.h>
#include "table.h"

#define JUMP_MIN 32   /* entries from which a table has jumps at all */
#define JUMP_NODES 8  /* nodes within the next eight bits that are worth one */

static u32 node_new(struct table *t, const u64 *key, u32 plen, u32 entry) {
  u32 i = t->free_node;
  if (i != NIL) t->free_node = node_at(t, i)->child[0];
  else i = t->n_nodes++;
  struct trie_node *n = node_at(t, i);
  n->child[0] = n->child[1] = NIL;
  n->entry = entry;
  n->plen = plen;
  n->jump = NIL;
  memcpy(n->key, key, 8 * (size_t)t->def->words);
  return i;
}

static void node_free(struct table *t, u32 i) {
  node_at(t, i)->child[0] = t->free_node;
  t->free_node = i;
}

static u32 key_bit(const u64 *k, u32 i) { return k[i >> 6] >> (63 - (i & 63)) & 1; }

static u32 common_bits(const u64 *a, const u64 *b, u32 max) {
  u32 n = 0;
  for (u32 j = 0; n < max; j++, n += 64)
    if (a[j] != b[j]) {
      n += (u32)__builtin_clzll(a[j] ^ b[j]);
      break;
    }
  return n < max ? n : max;
}

/* ---- jumps ------------------------------------------------------------------------------ */

/* What the jump at node `at` says for the value `i` of its eight bits. */
static void jump_fill(struct table *t, u32 at, u32 i) {
  const struct trie_node *n = node_at(t, at);
  struct jump *j = &t->jumps[n->jump];
  const u32 p = n->plen, end = p + 8;
  u64 key[KEY_WORDS];
  memcpy(key, n->key, 8 * (size_t)t->def->words);
  for (u32 b = 0; b < 8; b++) {
    u64 bit = 1ull << (63 - ((p + b) & 63));
    if (i >> (7 - b) & 1) key[(p + b) >> 6] |= bit;
    else key[(p + b) >> 6] &= ~bit;
  }
  j->at[i].best = j->at[i].next = NIL;
  for (;;) {
    u32 c = n->child[key_bit(key, n->plen)];
    if (c == NIL) return;
    n = node_at(t, c);
    u32 known = n->plen < end ? n->plen : end;
    if (common_bits(key, n->key, known) < known) return;
    if (n->plen >= end) {
      j->at[i].next = c;
      return;
    }
    if (n->entry != NIL) j->at[i].best = n->entry;
  }
}

/* After a change of the prefix: the jumps above it. */
static void jump_touch(struct table *t, const u64 *k, u32 plen) {
  u32 cur = t->n_jumps ? t->root : NIL;
  while (cur != NIL) {
    struct trie_node *n = node_at(t, cur);
    if (n->plen >= plen || !prefix_eq(k, n->key, n->plen, t->def->words)) return;
    if (n->jump != NIL) {
      u32 i = eight_bits(k, n->plen, t->def->words);
      u32 count = plen >= n->plen + 8 ? 1 : 1u << (n->plen + 8 - plen);
      i &= ~(count - 1);
      for (u32 end = i + count; i < end; i++) jump_fill(t, cur, i);
    }
    cur = n->child[key_bit(k, n->plen)];
  }
}

static u32 nodes_below(struct table *t, u32 at, u32 end, u32 most) {
  u32 count = 0;
  for (int side = 0; side < 2 && count < most; side++) {
    u32 c = node_at(t, at)->child[side];
    if (c != NIL && node_at(t, c)->plen <= end) count += 1 + nodes_below(t, c, end, most);
  }
  return count;
}

static void jump_build(struct table *t, u32 at) {
  struct trie_node *n = node_at(t, at);
  if (n->plen + 8 > t->def->words * 64 || nodes_below(t, at, n->plen + 8, JUMP_NODES) < JUMP_NODES ||
      t->n_jumps == t->cap_jumps) {
    for (int side = 0; side < 2; side++)
      if (n->child[side] != NIL) jump_build(t, n->child[side]);
    return;
  }
  n->jump = t->n_jumps++;
  for (u32 i = 0; i < 256; i++) {
    jump_fill(t, at, i);
    u32 next = t->jumps[n->jump].at[i].next;
    if (next != NIL) jump_build(t, next);
  }
}

void trie_settle(struct table *t) {
  if (t->n < JUMP_MIN || t->n < t->jump_at) return;
  t->jump_at = 2 * t->n;
  t->n_jumps = 0;
  for (u32 i = 0; i < t->n_nodes; i++) node_at(t, i)->jump = NIL;
  u32 cap = t->n_nodes / JUMP_NODES + 1;
  struct jump *j = realloc(t->jumps, cap * sizeof *j);
  if (!j) return;  /* the tree answers by itself */
  t->jumps = j;
  t->cap_jumps = cap;
  if (t->root != NIL) jump_build(t, t->root);
}

/* ---- the tree --------------------------------------------------------------------------- */

int trie_find(const struct table *t, const u64 *k, u32 plen) {
  u32 cur = t->root;
  while (cur != NIL) {
    const struct trie_node *n = node_at(t, cur);
    if (n->plen > plen || !prefix_eq(k, n->key, n->plen, t->def->words)) return -1;
    if (n->plen == plen) return n->entry == NIL ? -1 : (int)n->entry;
    cur = n->child[key_bit(k, n->plen)];
  }
  return -1;
}

static void put(struct table *t, const u64 *k, u32 plen, u32 entry) {
  u32 *link = &t->root;
  while (*link != NIL) {
    u32 cur = *link;
    struct trie_node *n = node_at(t, cur);
    u32 max = plen < n->plen ? plen : n->plen, c = common_bits(k, n->key, max);
    if (c < n->plen) {
      u32 side = key_bit(n->key, c);
      if (c == plen) {
        u32 i = node_new(t, k, plen, entry);
        node_at(t, i)->child[side] = cur;
        *link = i;
      } else {
        u32 glue = node_new(t, k, c, NIL), leaf = node_new(t, k, plen, entry);
        node_at(t, glue)->child[side] = cur;
        node_at(t, glue)->child[!side] = leaf;
        *link = glue;
      }
      return;
    }
    if (n->plen == plen) {
      n->entry = entry;
      return;
    }
    link = &n->child[key_bit(k, n->plen)];
  }
  *link = node_new(t, k, plen, entry);
}

int trie_put(struct table *t, const u64 *k, u32 plen, u32 entry) {
  if (t->n_nodes + 2 > t->cap_nodes) {
    u32 cap = t->cap_nodes ? 2 * t->cap_nodes : 16;
    u8 *p = grow(t->nodes, t->cap_nodes, cap, t->node_stride);
    if (!p) return ERR_MEMORY;
    t->nodes = p;
    t->cap_nodes = cap;
  }
  put(t, k, plen, entry);
  jump_touch(t, k, plen);
  return 0;
}

void trie_del(struct table *t, const u64 *k, u32 plen) {
  u32 *link = &t->root, *up = NULL;
  while (*link != NIL) {
    struct trie_node *n = node_at(t, *link);
    if (n->plen == plen) break;
    up = link;
    link = &n->child[key_bit(k, n->plen)];
  }
  if (*link == NIL) return;
  u32 cur = *link;
  struct trie_node *n = node_at(t, cur);
  n->entry = NIL;
  if (n->child[0] == NIL || n->child[1] == NIL) {
    *link = n->child[0] != NIL ? n->child[0] : n->child[1];
    node_free(t, cur);
    if (up && *link == NIL) {  /* the parent may now be a branching point with one branch */
      u32 par = *up;
      struct trie_node *q = node_at(t, par);
      if (q->entry == NIL) {
        *up = q->child[0] != NIL ? q->child[0] : q->child[1];
        node_free(t, par);
      }
    }
  }
  jump_touch(t, k, plen);
}
