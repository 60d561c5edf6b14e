/* Tables, action profiles and selectors: what the control plane does to them. */
#include <stdlib.h>
#include "table.h"

static size_t ent_stride(u32 words) { return sizeof(struct entry) + 8 * (size_t)words; }

int tables_make(struct sw *sw) {
  const struct mrc_program *pr = sw->prog;
  struct sw_core *c = &sw->core;
  c->tables = calloc(pr->n_tables ? pr->n_tables : 1, sizeof *c->tables);
  c->profiles = calloc(pr->n_profiles ? pr->n_profiles : 1, sizeof *c->profiles);
  if (!c->tables || !c->profiles) return ERR_MEMORY;
  for (u32 i = 0; i < pr->n_tables; i++) {
    struct table *t = &c->tables[i];
    t->def = &pr->tables[i];
    t->stride = ent_stride(t->def->data_words);
    t->node_stride = sizeof(struct trie_node) + 8 * (size_t)t->def->words;
    t->free_list = t->root = t->free_node = NIL;
    t->dflt = calloc(1, t->stride);
    if (!t->dflt) return ERR_MEMORY;
    t->dflt->action = -1;
  }
  for (u32 i = 0; i < pr->n_profiles; i++) {
    struct profile *p = &c->profiles[i];
    p->def = &pr->profiles[i];
    p->stride = sizeof(struct member) + 8 * (size_t)p->def->data_words;
  }
  return 0;
}

void tables_free(struct sw *sw) {
  struct sw_core *c = &sw->core;
  for (u32 i = 0; c->tables && i < sw->prog->n_tables; i++) {
    struct table *t = &c->tables[i];
    free(t->ent);
    free(t->dflt);
    free(t->keys);
    free(t->masks);
    free(t->hash);
    free(t->nodes);
    free(t->jumps);
    ternary_free(t);
  }
  for (u32 i = 0; c->profiles && i < sw->prog->n_profiles; i++) {
    struct profile *p = &c->profiles[i];
    for (u32 g = 0; g < p->cap_g; g++) {
      free(p->grp[g].m);
      free(p->grp[g].active);
    }
    free(p->grp);
    free(p->mem);
  }
  free(c->tables);
  free(c->profiles);
  c->tables = NULL;
  c->profiles = NULL;
}

static struct table *table_get(struct sw *sw, u32 i) {
  return sw->prog && i < sw->prog->n_tables ? &sw->core.tables[i] : NULL;
}
static struct profile *profile_get(struct sw *sw, u32 i) {
  return sw->prog && i < sw->prog->n_profiles ? &sw->core.profiles[i] : NULL;
}

void *grow(void *old, size_t old_n, size_t new_n, size_t size) {
  u8 *p = realloc(old, new_n * size);
  if (p) memset(p + old_n * size, 0, (new_n - old_n) * size);
  return p;
}

/* ---- exact ---------------------------------------------------------------------------- */

static void hash_put(struct table *t, u32 e) {
  u32 w = t->def->words, i = key_hash(t->keys + (size_t)e * w, w) & t->hash_mask;
  while (t->hash[i]) i = (i + 1) & t->hash_mask;
  t->hash[i] = e + 1;
}

static void hash_del(struct table *t, u32 e) {
  u32 w = t->def->words, m = t->hash_mask, i = key_hash(t->keys + (size_t)e * w, w) & m;
  while (t->hash[i] != e + 1) i = (i + 1) & m;
  for (;;) {  /* close the gap */
    t->hash[i] = 0;
    u32 j = i;
    for (;;) {
      j = (j + 1) & m;
      if (!t->hash[j]) return;
      u32 home = key_hash(t->keys + (size_t)(t->hash[j] - 1) * w, w) & m;
      if (((j - home) & m) >= ((j - i) & m)) break;
    }
    t->hash[i] = t->hash[j];
    i = j;
  }
}

static int hash_grow(struct table *t) {
  u32 size = 16;
  while (size < 2 * t->cap) size *= 2;
  u32 *h = calloc(size, sizeof *h);
  if (!h) return ERR_MEMORY;
  free(t->hash);
  t->hash = h;
  t->hash_mask = size - 1;
  for (u32 e = 0; e < t->cap; e++)
    if (ent_at(t, e)->flags & EF_USED) hash_put(t, e);
  return 0;
}

/* ---- entries --------------------------------------------------------------------------------- */

static int table_grow(struct table *t) {
  u32 cap = t->cap ? 2 * t->cap : 8, w = t->def->words;
  u8 *ent = grow(t->ent, t->cap, cap, t->stride);
  if (!ent) return ERR_MEMORY;
  t->ent = ent;
  if (w) {
    u64 *k = grow(t->keys, t->cap, cap, 8 * (size_t)w);
    if (!k) return ERR_MEMORY;
    t->keys = k;
    u64 *m = grow(t->masks, t->cap, cap, 8 * (size_t)w);
    if (!m) return ERR_MEMORY;
    t->masks = m;
  }
  for (u32 i = cap; i-- > t->cap;) {
    ent_at(t, i)->ref = t->free_list;  /* free entries are chained through ref */
    t->free_list = i;
  }
  t->cap = cap;
  if (t->def->match == T_EXACT && hash_grow(t)) return ERR_MEMORY;
  return 0;
}

static int ref_ok(struct sw *sw, struct table *t, u32 kind, u32 ref) {
  if (kind == E_ACTION) return t->def->profile < 0 ? 0 : ERR_ACTION;
  if (t->def->profile < 0) return ERR_ACTION;
  struct profile *p = &sw->core.profiles[t->def->profile];
  if (kind == E_MEMBER) return ref < p->cap_m && mem_at(p, ref)->used ? 0 : ERR_MEMBER;
  return kind == E_GROUP && p->def->selector && ref < p->cap_g && p->grp[ref].used ? 0 : ERR_GROUP;
}
static void ref_count(struct sw *sw, struct table *t, u32 kind, u32 ref, int by) {
  if (t->def->profile < 0) return;
  struct profile *p = &sw->core.profiles[t->def->profile];
  if (kind == E_MEMBER && ref < p->cap_m) mem_at(p, ref)->refs += (u32)by;
  if (kind == E_GROUP && ref < p->cap_g) p->grp[ref].refs += (u32)by;
}

static void entry_set(struct table *t, struct entry *e, u32 kind, u32 ref, i32 action,
                      const u64 *data) {
  e->kind = kind;
  e->ref = ref;
  e->action = kind == E_ACTION ? action : -1;
  if (data && t->def->data_words) memcpy(e->data, data, 8 * (size_t)t->def->data_words);
}

static void idle_soon(struct sw *sw, const struct table *t, i64 ttl);

int64_t mrc_entry_add(mrc_sw *sw, uint32_t table, const uint64_t *key, const uint64_t *mask,
                      uint32_t plen, int32_t prio, uint32_t kind, uint32_t ref, int32_t action,
                      const uint64_t *data, int64_t ttl, int is_const) {
  i64 rc = 0;
  sw_lock(sw);
  struct table *t = table_get(sw, table);
  u32 w = t ? t->def->words : 0;
  if (!t) rc = ERR_TABLE;
  else if (!w) rc = ERR_FULL;
  else if (t->n >= t->def->max_size && !is_const) rc = ERR_FULL;
  else if (t->def->match == T_EXACT && t->n && find_exact(t, key, w)) rc = ERR_DUP;
  else if (t->def->match == T_LPM && plen > w * 64) rc = ERR_RANGE;
  else if (t->def->match == T_LPM && trie_find(t, key, plen) >= 0) rc = ERR_DUP;
  else rc = ref_ok(sw, t, kind, ref);
  if (!rc && t->free_list == NIL) rc = table_grow(t);
  if (!rc) {
    u32 i = t->free_list;
    struct entry *e = ent_at(t, i);
    u32 next = e->ref;
    memset(e, 0, t->stride);
    memcpy(t->keys + (size_t)i * w, key, 8 * (size_t)w);
    if (mask) memcpy(t->masks + (size_t)i * w, mask, 8 * (size_t)w);
    if (t->def->match == T_LPM) {
      t->masks[(size_t)i * w] = plen;
      rc = trie_put(t, key, plen, i);
    }
    e->prio = prio;
    e->seq = t->seq++;
    if (t->def->match == T_TERNARY) rc = ternary_put(t, i);
    if (rc) {
      e->ref = next;
    } else {
      t->free_list = next;
      e->flags = EF_USED | (is_const ? EF_CONST : 0);
      e->ttl = ttl;
      e->last = sw->core.now;
      entry_set(t, e, kind, ref, action, data);
      ref_count(sw, t, kind, ref, 1);
      if (t->def->match == T_EXACT) hash_put(t, i);
      t->n++;
      if (t->def->match == T_LPM) trie_settle(t);
      idle_soon(sw, t, ttl);
      rc = i;
    }
  }
  sw_unlock(sw);
  return rc;
}

static struct entry *entry_get(struct table *t, u32 i) {
  if (!t) return NULL;
  if (i == NIL) return t->dflt;
  return i < t->cap && ent_at(t, i)->flags & EF_USED ? ent_at(t, i) : NULL;
}

int mrc_entry_modify(mrc_sw *sw, uint32_t table, uint32_t entry, uint32_t kind, uint32_t ref,
                     int32_t action, const uint64_t *data, int64_t ttl) {
  int rc;
  sw_lock(sw);
  struct table *t = table_get(sw, table);
  struct entry *e = entry == NIL ? NULL : entry_get(t, entry);
  if (!e) rc = t ? ERR_ENTRY : ERR_TABLE;
  else if (!(rc = ref_ok(sw, t, kind, ref))) {
    ref_count(sw, t, e->kind, e->ref, -1);
    entry_set(t, e, kind, ref, action, data);
    ref_count(sw, t, kind, ref, 1);
    e->ttl = ttl;
    e->last = sw->core.now;
    idle_soon(sw, t, ttl);
  }
  sw_unlock(sw);
  return rc;
}

int mrc_entry_delete(mrc_sw *sw, uint32_t table, uint32_t entry) {
  int rc = 0;
  sw_lock(sw);
  struct table *t = table_get(sw, table);
  struct entry *e = entry == NIL ? NULL : entry_get(t, entry);
  if (!e) rc = t ? ERR_ENTRY : ERR_TABLE;
  else {
    u64 *key = t->keys + (size_t)entry * t->def->words;
    if (t->def->match == T_EXACT) hash_del(t, entry);
    else if (t->def->match == T_LPM)
      trie_del(t, key, (u32)t->masks[(size_t)entry * t->def->words]);
    else
      ternary_del(t, entry);
    ref_count(sw, t, e->kind, e->ref, -1);
    if (t->def->meter >= 0) {
      struct meter *m = sw->core.meters[t->def->meter];
      if (entry < sw->prog->meters[t->def->meter].size) m[entry].set = 0;
    }
    e->flags = 0;
    e->ref = t->free_list;
    t->free_list = entry;
    t->n--;
  }
  sw_unlock(sw);
  return rc;
}

int mrc_entry_get(mrc_sw *sw, uint32_t table, uint32_t entry, struct mrc_entry *out) {
  sw_lock(sw);
  struct table *t = table_get(sw, table);
  struct entry *e = entry_get(t, entry);
  if (e) {
    out->action = e->action;
    out->kind = e->kind;
    out->ref = e->ref;
    out->flags = e->flags;
    out->prio = e->prio;
    out->pkts = e->pkts;
    out->bytes = e->bytes;
    out->ttl = e->ttl;
    out->idle = sw->core.now - e->last;
  }
  sw_unlock(sw);
  return e ? 0 : t ? ERR_ENTRY : ERR_TABLE;
}

int mrc_entry_count_set(mrc_sw *sw, uint32_t table, uint32_t entry, uint64_t pkts,
                        uint64_t bytes) {
  sw_lock(sw);
  struct table *t = table_get(sw, table);
  struct entry *e = entry_get(t, entry);
  if (e) {
    e->pkts = pkts;
    e->bytes = bytes;
  }
  sw_unlock(sw);
  return e ? 0 : t ? ERR_ENTRY : ERR_TABLE;
}

int mrc_default_set(mrc_sw *sw, uint32_t table, uint32_t kind, uint32_t ref, int32_t action,
                    const uint64_t *data) {
  int rc = 0;
  sw_lock(sw);
  struct table *t = table_get(sw, table);
  if (!t) rc = ERR_TABLE;
  else if (kind != E_ACTION) rc = ref_ok(sw, t, kind, ref);
  if (!rc) {
    struct entry *e = t->dflt;
    ref_count(sw, t, e->kind, e->ref, -1);
    entry_set(t, e, kind, ref, action, data);
    ref_count(sw, t, kind, ref, 1);
  }
  sw_unlock(sw);
  return rc;
}

/* Tell about entries that outlived their time, and find out when to look again: when the
 * next one does, but no sooner than a share of the shortest time to live. */
void idle_scan(struct sw *sw, i64 now) {
  i64 next = NEVER, shortest = NEVER;
  for (u32 i = 0; sw->prog && i < sw->prog->n_tables; i++) {
    struct table *t = &sw->core.tables[i];
    if (!t->def->timeout || !t->n) continue;
    for (u32 e = 0; e < t->cap; e++) {
      struct entry *x = ent_at(t, e);
      if (!(x->flags & EF_USED) || x->ttl <= 0) continue;
      if (now - x->last >= x->ttl) {
        u32 ids[2] = {i, e};
        event_push(sw, EV_IDLE, ids, 8, NULL, 0);
        x->last = now;  /* again after another time to live */
      }
      if (x->last + x->ttl < next) next = x->last + x->ttl;
      if (x->ttl < shortest) shortest = x->ttl;
    }
  }
  if (next != NEVER && next < now + shortest / IDLE_SHARE) next = now + shortest / IDLE_SHARE;
  if (next != NEVER && next > now + IDLE_PERIOD) next = now + IDLE_PERIOD;
  sw->idle_next = next != NEVER && next <= now ? now + 1 : next;
}

static void idle_soon(struct sw *sw, const struct table *t, i64 ttl) {
  i64 at = sw->core.now + (ttl < IDLE_PERIOD ? ttl : IDLE_PERIOD);
  if (!t->def->timeout || ttl <= 0 || at >= sw->idle_next) return;
  sw->idle_next = at;
  driver_kick(sw);
}

/* ---- action profiles ---------------------------------------------------------------------------- */

int64_t mrc_member_add(mrc_sw *sw, uint32_t profile, int32_t action, const uint64_t *data) {
  i64 rc = 0;
  sw_lock(sw);
  struct profile *p = profile_get(sw, profile);
  if (!p) rc = ERR_TABLE;
  else if (p->n_m >= p->def->max_size) rc = ERR_FULL;
  else {
    u32 i = 0;
    while (i < p->cap_m && mem_at(p, i)->used) i++;
    if (i == p->cap_m) {
      u32 cap = p->cap_m ? 2 * p->cap_m : 8;
      u8 *m = grow(p->mem, p->cap_m, cap, p->stride);
      if (!m) rc = ERR_MEMORY;
      else {
        p->mem = m;
        p->cap_m = cap;
      }
    }
    if (!rc) {
      struct member *m = mem_at(p, i);
      m->action = action;
      m->used = 1;
      m->refs = 0;
      if (p->def->data_words) memcpy(m->data, data, 8 * (size_t)p->def->data_words);
      p->n_m++;
      rc = i;
    }
  }
  sw_unlock(sw);
  return rc;
}

int mrc_member_modify(mrc_sw *sw, uint32_t profile, uint32_t member, int32_t action,
                      const uint64_t *data) {
  int rc = 0;
  sw_lock(sw);
  struct profile *p = profile_get(sw, profile);
  if (!p) rc = ERR_TABLE;
  else if (member >= p->cap_m || !mem_at(p, member)->used) rc = ERR_MEMBER;
  else {
    struct member *m = mem_at(p, member);
    m->action = action;
    if (p->def->data_words) memcpy(m->data, data, 8 * (size_t)p->def->data_words);
  }
  sw_unlock(sw);
  return rc;
}

int mrc_member_delete(mrc_sw *sw, uint32_t profile, uint32_t member) {
  int rc = 0;
  sw_lock(sw);
  struct profile *p = profile_get(sw, profile);
  if (!p) rc = ERR_TABLE;
  else if (member >= p->cap_m || !mem_at(p, member)->used) rc = ERR_MEMBER;
  else if (mem_at(p, member)->refs) rc = ERR_IN_USE;
  else {
    mem_at(p, member)->used = 0;
    p->n_m--;
  }
  sw_unlock(sw);
  return rc;
}

static int watch_up(struct sw *sw, i32 watch) {
  if (watch < 0) return 1;
  struct port *pt = port_get(sw, (u32)watch);
  return pt && pt->up && pt->admin;
}

static void group_refresh(struct sw *sw, struct group *g) {
  g->n_active = 0;
  for (u32 i = 0; i < g->n; i++)
    if (watch_up(sw, g->m[i].watch))
      for (u32 w = 0; w < g->m[i].weight; w++) g->active[g->n_active++] = g->m[i].member;
}

void groups_refresh(struct sw *sw, i32 port) {
  for (u32 i = 0; sw->prog && i < sw->prog->n_profiles; i++) {
    struct profile *p = &sw->core.profiles[i];
    for (u32 j = 0; j < p->cap_g; j++) {
      struct group *g = &p->grp[j];
      for (u32 k = 0; g->used && k < g->n; k++)
        if (g->m[k].watch == port) {
          group_refresh(sw, g);
          break;
        }
    }
  }
}

int64_t mrc_group_new(mrc_sw *sw, uint32_t profile, uint32_t max_size) {
  i64 rc = 0;
  sw_lock(sw);
  struct profile *p = profile_get(sw, profile);
  if (!p || !p->def->selector) rc = ERR_TABLE;
  else {
    u32 i = 0;
    while (i < p->cap_g && p->grp[i].used) i++;
    if (i == p->cap_g) {
      u32 cap = p->cap_g ? 2 * p->cap_g : 8;
      struct group *g = grow(p->grp, p->cap_g, cap, sizeof *g);
      if (!g) rc = ERR_MEMORY;
      else {
        p->grp = g;
        p->cap_g = cap;
      }
    }
    if (!rc) {
      memset(&p->grp[i], 0, sizeof p->grp[i]);
      p->grp[i].used = 1;
      p->grp[i].max_size = max_size;
      p->n_g++;
      rc = i;
    }
  }
  sw_unlock(sw);
  return rc;
}

static int gm_cmp(const void *a, const void *b) {
  u32 x = ((const struct group_member *)a)->member, y = ((const struct group_member *)b)->member;
  return (x > y) - (x < y);
}

int mrc_group_set(mrc_sw *sw, uint32_t profile, uint32_t group, uint32_t n, const uint32_t *members,
                  const uint32_t *weights, const int32_t *watch) {
  int rc = 0;
  struct group_member *m = NULL;
  u32 *active = NULL;
  u64 total = 0;
  sw_lock(sw);
  struct profile *p = profile_get(sw, profile);
  if (!p) rc = ERR_TABLE;
  else if (group >= p->cap_g || !p->grp[group].used) rc = ERR_GROUP;
  for (u32 i = 0; !rc && i < n; i++) {
    if (members[i] >= p->cap_m || !mem_at(p, members[i])->used) rc = ERR_MEMBER;
    total += weights[i];
  }
  if (!rc && total > (1u << 20)) rc = ERR_FULL;
  if (!rc && p->grp[group].max_size && total > p->grp[group].max_size) rc = ERR_FULL;
  if (!rc) {
    m = malloc((n ? n : 1) * sizeof *m);
    active = malloc((total ? total : 1) * sizeof *active);
    if (!m || !active) rc = ERR_MEMORY;
  }
  if (!rc) {
    struct group *g = &p->grp[group];
    for (u32 i = 0; i < g->n; i++) mem_at(p, g->m[i].member)->refs--;
    for (u32 i = 0; i < n; i++) {
      m[i] = (struct group_member){members[i], weights[i], watch[i]};
      mem_at(p, members[i])->refs++;
    }
    qsort(m, n, sizeof *m, gm_cmp);
    free(g->m);
    free(g->active);
    g->m = m;
    g->active = active;
    g->n = n;
    group_refresh(sw, g);
    m = NULL;
    active = NULL;
  }
  sw_unlock(sw);
  free(m);
  free(active);
  return rc;
}

int mrc_group_delete(mrc_sw *sw, uint32_t profile, uint32_t group) {
  int rc = 0;
  sw_lock(sw);
  struct profile *p = profile_get(sw, profile);
  if (!p) rc = ERR_TABLE;
  else if (group >= p->cap_g || !p->grp[group].used) rc = ERR_GROUP;
  else if (p->grp[group].refs) rc = ERR_IN_USE;
  else {
    struct group *g = &p->grp[group];
    for (u32 i = 0; i < g->n; i++) mem_at(p, g->m[i].member)->refs--;
    free(g->m);
    free(g->active);
    memset(g, 0, sizeof *g);
    p->n_g--;
  }
  sw_unlock(sw);
  return rc;
}
