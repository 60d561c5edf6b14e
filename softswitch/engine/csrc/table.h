/* What the kinds of tables have in common. */
#ifndef MRC_TABLE_H
#define MRC_TABLE_H

#include "sw.h"

/* realloc() whose new part is zero. */
void *grow(void *old, size_t old_n, size_t new_n, size_t size);

/* trie.c */
int trie_find(const struct table *t, const u64 *k, u32 plen);
int trie_put(struct table *t, const u64 *k, u32 plen, u32 entry);
void trie_del(struct table *t, const u64 *k, u32 plen);
void trie_settle(struct table *t);
/* ternary.c */
int ternary_put(struct table *t, u32 e);
void ternary_del(struct table *t, u32 e);
void ternary_free(struct table *t);

#endif
