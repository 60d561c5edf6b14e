/* Counters, registers, meters, value sets; multicast groups and clone sessions. */
#include <stdlib.h>
#include "sw.h"

int state_make(struct sw *sw) {
  const struct mrc_program *pr = sw->prog;
  struct sw_core *c = &sw->core;
  c->counters = calloc(pr->n_counters + 1, sizeof *c->counters);
  c->counter_size = calloc(pr->n_counters + 1, sizeof *c->counter_size);
  c->regs = calloc(pr->n_regs + 1, sizeof *c->regs);
  c->meters = calloc(pr->n_meters + 1, sizeof *c->meters);
  c->vsets = calloc(pr->n_vsets + 1, sizeof *c->vsets);
  if (!c->counters || !c->counter_size || !c->regs || !c->meters || !c->vsets) return ERR_MEMORY;
  for (u32 i = 0; i < pr->n_counters; i++) {
    c->counter_size[i] = pr->counters[i];
    c->counters[i] = calloc(pr->counters[i] + 1, sizeof **c->counters);
    if (!c->counters[i]) return ERR_MEMORY;
  }
  for (u32 i = 0; i < pr->n_regs; i++) {
    c->regs[i] = calloc((size_t)pr->regs[i].size + 1, 8 * (size_t)pr->regs[i].words);
    if (!c->regs[i]) return ERR_MEMORY;
  }
  for (u32 i = 0; i < pr->n_meters; i++) {
    c->meters[i] = calloc((size_t)pr->meters[i].size + 1, sizeof **c->meters);
    if (!c->meters[i]) return ERR_MEMORY;
  }
  return 0;
}

void state_free(struct sw *sw) {
  const struct mrc_program *pr = sw->prog;
  struct sw_core *c = &sw->core;
  for (u32 i = 0; c->counters && i < pr->n_counters; i++) free(c->counters[i]);
  for (u32 i = 0; c->regs && i < pr->n_regs; i++) free(c->regs[i]);
  for (u32 i = 0; c->meters && i < pr->n_meters; i++) free(c->meters[i]);
  for (u32 i = 0; c->vsets && i < pr->n_vsets; i++) free(c->vsets[i].v);
  free(c->counters);
  free(c->counter_size);
  free(c->regs);
  free(c->meters);
  free(c->vsets);
  c->counters = NULL;
  c->counter_size = NULL;
  c->regs = NULL;
  c->meters = NULL;
  c->vsets = NULL;
}

int mrc_counter_read(mrc_sw *sw, uint32_t array, uint32_t first, uint32_t n, uint64_t *pkts,
                     uint64_t *bytes) {
  int rc = 0;
  sw_lock(sw);
  if (!sw->prog || array >= sw->prog->n_counters) rc = ERR_TABLE;
  else if (first > sw->prog->counters[array] || n > sw->prog->counters[array] - first)
    rc = ERR_RANGE;
  else
    for (u32 i = 0; i < n; i++) {
      pkts[i] = sw->core.counters[array][first + i].pkts;
      bytes[i] = sw->core.counters[array][first + i].bytes;
    }
  sw_unlock(sw);
  return rc;
}

int mrc_counter_write(mrc_sw *sw, uint32_t array, uint32_t index, uint64_t pkts, uint64_t bytes) {
  int rc = 0;
  sw_lock(sw);
  if (!sw->prog || array >= sw->prog->n_counters) rc = ERR_TABLE;
  else if (index >= sw->prog->counters[array]) rc = ERR_RANGE;
  else sw->core.counters[array][index] = (struct counter){pkts, bytes};
  sw_unlock(sw);
  return rc;
}

int mrc_register_read(mrc_sw *sw, uint32_t array, uint32_t first, uint32_t n, uint64_t *words) {
  int rc = 0;
  sw_lock(sw);
  if (!sw->prog || array >= sw->prog->n_regs) rc = ERR_TABLE;
  else if (first > sw->prog->regs[array].size || n > sw->prog->regs[array].size - first)
    rc = ERR_RANGE;
  else {
    size_t w = sw->prog->regs[array].words;
    memcpy(words, sw->core.regs[array] + first * w, 8 * w * n);
  }
  sw_unlock(sw);
  return rc;
}

int mrc_register_write(mrc_sw *sw, uint32_t array, uint32_t index, const uint64_t *words) {
  int rc = 0;
  sw_lock(sw);
  if (!sw->prog || array >= sw->prog->n_regs) rc = ERR_TABLE;
  else if (index >= sw->prog->regs[array].size) rc = ERR_RANGE;
  else {
    size_t w = sw->prog->regs[array].words;
    memcpy(sw->core.regs[array] + index * w, words, 8 * w);
  }
  sw_unlock(sw);
  return rc;
}

static void meter_conf(struct meter *m, u32 n, const double *per_us, const u64 *burst, i64 now) {
  memset(m, 0, sizeof *m);
  if (!n) return;
  m->t0 = now;
  for (u32 i = 0; i < n && i < METER_RATES; i++)
    m->r[i] = (struct meter_rate){per_us[i], burst[i], burst[i], 0};
  m->set = 1;
}

/* n 0 takes the configuration away (everything is green) */
int mrc_meter_set(mrc_sw *sw, uint32_t array, uint32_t index, uint32_t n, const double *per_us,
                  const uint64_t *burst, int64_t now) {
  int rc = 0;
  sw_lock(sw);
  if (!sw->prog || array >= sw->prog->n_meters) rc = ERR_TABLE;
  else if (index >= sw->prog->meters[array].size) rc = ERR_RANGE;
  else meter_conf(&sw->core.meters[array][index], n, per_us, burst, now);
  sw_unlock(sw);
  return rc;
}

int mrc_entry_meter_set(mrc_sw *sw, uint32_t table, uint32_t entry, uint32_t n,
                        const double *per_us, const uint64_t *burst, int64_t now) {
  int rc = 0;
  sw_lock(sw);
  if (!sw->prog || table >= sw->prog->n_tables) rc = ERR_TABLE;
  else {
    struct table *t = &sw->core.tables[table];
    i32 a = t->def->meter;
    if (a < 0) rc = ERR_TABLE;
    else if (entry >= t->cap || !(ent_at(t, entry)->flags & EF_USED)) rc = ERR_ENTRY;
    else if (entry >= sw->prog->meters[a].size) rc = ERR_RANGE;
    else meter_conf(&sw->core.meters[a][entry], n, per_us, burst, now);
  }
  sw_unlock(sw);
  return rc;
}

int mrc_vset_set(mrc_sw *sw, uint32_t vset, uint32_t n, const uint64_t *words) {
  int rc = 0;
  sw_lock(sw);
  if (!sw->prog || vset >= sw->prog->n_vsets) rc = ERR_TABLE;
  else {
    size_t bytes = 16 * (size_t)sw->prog->vsets[vset].words * n;
    u64 *v = malloc(bytes ? bytes : 1);
    if (!v) rc = ERR_MEMORY;
    else {
      memcpy(v, words, bytes);
      free(sw->core.vsets[vset].v);
      sw->core.vsets[vset] = (struct vset){n, n, v};
    }
  }
  sw_unlock(sw);
  return rc;
}

/* ---- packet replication ---------------------------------------------------------------- */

struct replicas *pre_find(struct replicas **b, u32 id) {
  struct replicas *r = b[id % PRE_BUCKETS];
  while (r && r->id != id) r = r->next;
  return r;
}

static int pre_set(struct sw *sw, struct replicas **b, u32 id, u32 n, const u32 *ports,
                   const u32 *rids, u32 length, u32 cos) {
  struct replicas *fresh = NULL;
  if (n != NIL) {
    fresh = calloc(1, sizeof *fresh);
    if (fresh && n) fresh->r = malloc(n * sizeof *fresh->r);
    if (!fresh || (n && !fresh->r)) {
      free(fresh);
      return ERR_MEMORY;
    }
    *fresh = (struct replicas){id, n, length, cos, fresh->r, NULL};
    for (u32 i = 0; i < n; i++) fresh->r[i] = (struct replica){ports[i], rids[i]};
  }
  sw_lock(sw);
  struct replicas **link = &b[id % PRE_BUCKETS], *old;
  while (*link && (*link)->id != id) link = &(*link)->next;
  old = *link;
  if (old) *link = old->next;
  if (fresh) {
    fresh->next = b[id % PRE_BUCKETS];
    b[id % PRE_BUCKETS] = fresh;
  }
  sw_unlock(sw);
  if (old) free(old->r);
  free(old);
  return old || fresh ? 0 : ERR_GROUP;
}

/* n = UINT32_MAX deletes */
int mrc_mcast_set(mrc_sw *sw, uint32_t gid, uint32_t n, const uint32_t *ports,
                  const uint32_t *rids) {
  return pre_set(sw, sw->mcast, gid, n, ports, rids, 0, 0);
}
int mrc_clone_set(mrc_sw *sw, uint32_t sid, uint32_t n, const uint32_t *ports,
                  const uint32_t *rids, uint32_t length, uint32_t cos) {
  return pre_set(sw, sw->clones, sid, n, ports, rids, length, cos);
}

void pre_free(struct sw *sw) {
  for (int k = 0; k < 2; k++)
    for (u32 i = 0; i < PRE_BUCKETS; i++) {
      struct replicas *r = k ? sw->clones[i] : sw->mcast[i];
      while (r) {
        struct replicas *n = r->next;
        free(r->r);
        free(r);
        r = n;
      }
    }
}
