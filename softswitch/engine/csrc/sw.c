/* Creation, packet store, program loading, events, ports. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include "sw.h"

#define EVENT_RING (4u << 20)

void seed_rng(u64 s[4], u64 seed) {  /* splitmix64 */
  for (int i = 0; i < 4; i++) {
    u64 z = seed += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    s[i] = z ^ z >> 31;
  }
}

int64_t mrc_clock(void) {
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return (i64)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* ---- events: length, type, payload; the oldest stay, new ones are lost when full ---- */

static void ring_put(struct evring *r, const void *src, u32 n) {
  if (!n) return;
  u32 tail = (r->head + r->used) % r->cap, first = r->cap - tail;
  if (first > n) first = n;
  memcpy(r->buf + tail, src, first);
  memcpy(r->buf, (const u8 *)src + first, n - first);
  r->used += n;
}
static void ring_get(struct evring *r, void *dst, u32 n) {
  u32 first = r->cap - r->head;
  if (first > n) first = n;
  if (dst) {
    memcpy(dst, r->buf + r->head, first);
    memcpy((u8 *)dst + first, r->buf, n - first);
  }
  r->head = (r->head + n) % r->cap;
  r->used -= n;
}

void event_push(struct sw *sw, u32 type, const void *a, u32 alen, const void *b, u32 blen) {
  u32 len = alen + blen + 8;
  u32 head[2] = {type, 0};
  /* what packets alone can cause leaves room for what must not be missed */
  u32 keep = type == EV_DIGEST || type == EV_LOG ? sw->ev.cap / 4 : 0;
  if (sw->ev.cap - sw->ev.used < len + 8 + keep) {
    if (type == EV_PACKET_IN) sw->tot.dropped++, sw->tot.packet_in--;
    return;
  }
  head[1] = len;
  i64 now = sw->core.now;
  ring_put(&sw->ev, head, 8);
  ring_put(&sw->ev, &now, 8);
  ring_put(&sw->ev, a, alen);
  ring_put(&sw->ev, b, blen);
  pthread_cond_broadcast(&sw->ev_cond);
}

/* One event into buf: u32 type, i64 time, payload. Returns its length, 0 when there is
 * none, -needed when it does not fit. */
int64_t mrc_next_event(mrc_sw *sw, uint8_t *buf, uint32_t cap) {
  i64 rc = 0;
  sw_lock(sw);
  if (sw->ev.used) {
    struct evring peek = sw->ev;
    u32 head[2];
    ring_get(&peek, head, 8);
    if (head[1] + 4 > cap) {
      rc = -(i64)(head[1] + 4);
    } else {
      ring_get(&sw->ev, NULL, 8);
      memcpy(buf, &head[0], 4);
      ring_get(&sw->ev, buf + 4, head[1]);
      rc = head[1] + 4;
    }
  }
  sw_unlock(sw);
  return rc;
}

int mrc_wait_event(mrc_sw *sw, int64_t timeout_ns) {
  struct timespec ts;
  i64 end = mrc_clock() + timeout_ns;
  ts.tv_sec = end / 1000000000;
  ts.tv_nsec = end % 1000000000;
  sw_lock(sw);
  while (!sw->ev.used && !sw->ev_wake)
    if (pthread_cond_timedwait(&sw->ev_cond, &sw->mu, &ts)) break;
  sw->ev_wake = 0;
  int rc = sw->ev.used != 0;
  sw_unlock(sw);
  return rc;
}

/* Between the two, no packet is processed; control calls of the holding thread are. */
void mrc_hold(mrc_sw *sw) { sw_lock(sw); }
void mrc_release(mrc_sw *sw) { sw_unlock(sw); }

void mrc_wake_waiters(mrc_sw *sw) {
  sw_lock(sw);
  sw->ev_wake = 1;
  pthread_cond_broadcast(&sw->ev_cond);
  sw_unlock(sw);
}

/* True when the same sample was told of less than `digest_hold` ago. */
static int digest_held(struct sw *sw, u32 list, const u64 *words, u32 n) {
  u64 h = list * 0x9e3779b97f4a7c15ull;
  for (u32 i = 0; i < n; i++) {
    h = (h ^ words[i]) * 0xff51afd7ed558ccdull;
    h ^= h >> 29;
  }
  struct held *x = &sw->held_digests[h % HELD_DIGESTS];
  if (x->hash == h && sw->core.now < x->until) return 1;
  x->hash = h;
  x->until = sw->core.now + sw->digest_hold;
  return 0;
}
static void op_digest(struct sw *sw, u32 list, const u64 *words, u32 n) {
  if (sw->digest_hold && digest_held(sw, list, words, n)) return;
  event_push(sw, EV_DIGEST, &list, 4, words, n * 8);
}
static void op_log(struct sw *sw, u32 fmt, const u64 *words, u32 n) {
  if (sw->core.now - sw->log_began >= LOG_PERIOD) {
    u32 none = NIL;
    u64 lost = sw->logs_lost;
    if (lost) event_push(sw, EV_LOG, &none, 4, &lost, 8);
    sw->log_began = sw->core.now;
    sw->logs = sw->logs_lost = 0;
  }
  if (sw->logs++ < LOG_MOST) event_push(sw, EV_LOG, &fmt, 4, words, n * 8);
  else sw->logs_lost++;
}

int mrc_digest_hold(mrc_sw *sw, int64_t ns) {
  int rc = 0;
  sw_lock(sw);
  if (ns > 0 && !sw->held_digests) {
    sw->held_digests = calloc(HELD_DIGESTS, sizeof *sw->held_digests);
    if (!sw->held_digests) rc = ERR_MEMORY;
  }
  if (!rc) sw->digest_hold = ns;
  sw_unlock(sw);
  return rc;
}
static const struct rt_ops ops = {op_digest, op_log};

/* ---- packet store ------------------------------------------------------------------ */

int store_make(struct store *st, u32 phv_size, u32 buffer) {
  size_t head = (sizeof(struct pkt) + phv_size + 63) & ~(size_t)63;
  size_t stride = head + ((buffer + 63) & ~(size_t)63);
  size_t bytes = stride * st->packets;
  u8 *mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                 -1, 0);
  if (mem == MAP_FAILED) return ERR_MEMORY;
  store_drop(st);
  st->pool = mem;
  st->bytes = bytes;
  st->head = head;
  st->stride = stride;
  return 0;
}

void store_drop(struct store *st) {
  if (st->pool) munmap(st->pool, st->bytes);
  st->pool = NULL;
  st->free_pkts = NULL;
  st->carved = 0;
}

mrc_sw *mrc_new(uint64_t seed, uint32_t queues, uint32_t drop_port, uint32_t packets) {
  struct sw *sw = calloc(1, sizeof *sw);
  if (!sw) return NULL;
  pthread_condattr_t ca;
  pthread_mutexattr_t ma;
  pthread_mutexattr_init(&ma);
  pthread_mutexattr_settype(&ma, PTHREAD_MUTEX_RECURSIVE);  /* for mrc_hold */
  pthread_mutex_init(&sw->mu, &ma);
  pthread_mutexattr_destroy(&ma);
  pthread_condattr_init(&ca);
  pthread_condattr_setclock(&ca, CLOCK_MONOTONIC);
  pthread_cond_init(&sw->ev_cond, &ca);
  pthread_condattr_destroy(&ca);
  sw->queues = queues < 1 ? 1 : queues > MAX_QUEUES ? MAX_QUEUES : queues;
  sw->own.packets = packets < 16 ? 16 : packets;
  sw->store = &sw->own;
  sw->core.drop_port = drop_port;
  sw->core.ops = &ops;
  sw->next_dl = sw->idle_next = NEVER;
  seed_rng(sw->core.rng, seed);
  seed_rng(sw->link_rng, seed ^ 0x6c696e6b73ull);
  sw->ports = calloc(MAX_PORT, sizeof *sw->ports);
  sw->core.scratch = malloc(2 * BUF_SIZE);
  sw->ev.buf = mmap(NULL, EVENT_RING, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  sw->ev.cap = EVENT_RING;
  if (!sw->ports || !sw->core.scratch || sw->ev.buf == MAP_FAILED ||
      store_make(&sw->own, 64, BUF_SIZE)) {
    if (sw->ev.buf == MAP_FAILED) sw->ev.buf = NULL;
    mrc_free(sw);
    return NULL;
  }
  return sw;
}

static void program_drop(struct sw *sw) {
  if (!sw->prog) return;
  drop_all(sw, DROP_RELOAD);
  sw->idle_next = NEVER;
  tables_free(sw);
  state_free(sw);
  sw->prog = NULL;
  if (sw->dl) dlclose(sw->dl);
  sw->dl = NULL;
}

void mrc_free(mrc_sw *sw) {
  if (!sw) return;
  mrc_stop(sw);
  program_drop(sw);
  pre_free(sw);
  for (u32 i = 0; i < sw->n_ports; i++) free(sw->list[i]);
  free(sw->list);
  free(sw->due);
  free(sw->ports);
  free(sw->core.scratch);
  free(sw->held_digests);
  if (sw->ev.buf) munmap(sw->ev.buf, sw->ev.cap);
  store_drop(&sw->own);
  pthread_mutex_destroy(&sw->mu);
  pthread_cond_destroy(&sw->ev_cond);
  free(sw);
}

/* Replace the program. Frames inside the switch are dropped (cause: reload); frames that
 * arrive before mrc_commit() are dropped as well, so that a half-filled pipeline never
 * sees a packet. */
int mrc_load(mrc_sw *sw, const char *path, char *err, uint32_t errlen) {
  if (sw->hooks) {
    snprintf(err, errlen, "the switch is part of a virtual network; load its program before");
    return ERR_STATE;
  }
  void *dl = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!dl) {
    snprintf(err, errlen, "%s", dlerror());
    return ERR_SYS;
  }
  const struct mrc_program *pr = dlsym(dl, "mrc_program");
  if (!pr || pr->abi != MRC_ABI) {
    snprintf(err, errlen, "program was built for another version of the engine");
    dlclose(dl);
    return ERR_SYS;
  }
  driver_pause(sw);
  sw_lock(sw);
  sw->running = 0;
  program_drop(sw);
  sw->dl = dl;
  sw->prog = pr;
  sw->store = &sw->own;
  sw->held = 0;
  int rc = store_make(&sw->own, pr->phv_size, BUF_SIZE);
  if (!rc) rc = tables_make(sw);
  if (!rc) rc = state_make(sw);
  if (rc) {
    snprintf(err, errlen, "out of memory for the tables of the program");
    program_drop(sw);
  }
  sw_unlock(sw);
  driver_resume(sw);
  return rc;
}

void mrc_commit(mrc_sw *sw) {
  sw_lock(sw);
  sw->running = sw->prog != NULL;
  sw->idle_next = NEVER;
  if (sw->running) idle_scan(sw, sw->core.now);
  sw_unlock(sw);
}
int mrc_loaded(mrc_sw *sw) { return sw->prog != NULL; }

void mrc_set_epoch(mrc_sw *sw, int64_t t0) {
  sw_lock(sw);
  sw->core.t0 = t0;
  sw_unlock(sw);
}

/* ---- ports --------------------------------------------------------------------------- */

int mrc_port_add(mrc_sw *sw, uint32_t num, int is_cpu) {
  if (num >= MAX_PORT) return ERR_RANGE;
  struct port *pt = calloc(1, sizeof *pt);
  if (!pt) return ERR_MEMORY;
  pt->num = num;
  pt->cpu = (u8)is_cpu;
  pt->up = pt->admin = 1;
  pt->next = NEVER;
  pt->fd = -1;
  for (u32 i = 0; i < MAX_QUEUES; i++) pt->limit[i] = 64;
  sw_lock(sw);
  if (sw->ports[num]) {
    sw_unlock(sw);
    free(pt);
    return ERR_DUP;
  }
  if (sw->n_ports == sw->cap_ports) {
    u32 cap = sw->cap_ports ? 2 * sw->cap_ports : 16;
    struct port **a = realloc(sw->list, cap * sizeof *a);
    if (a) sw->list = a;
    struct port **b = a ? realloc(sw->due, cap * sizeof *b) : NULL;
    if (b) sw->due = b;
    if (!b) {
      sw_unlock(sw);
      free(pt);
      return ERR_MEMORY;
    }
    sw->cap_ports = cap;
  }
  sw->list[sw->n_ports++] = pt;
  sw->ports[num] = pt;
  groups_refresh(sw, (i32)num);
  sw_unlock(sw);
  return 0;
}

int mrc_port_remove(mrc_sw *sw, uint32_t num) {
  mrc_detach(sw, num);
  sw_lock(sw);
  struct port *pt = port_get(sw, num);
  if (!pt || pt->wire) {
    sw_unlock(sw);
    return pt ? ERR_IN_USE : ERR_PORT;
  }
  port_state(sw, pt, 0, sw->core.now);
  for (struct pkt *p; (p = fifo_pop(&pt->ready));) {
    sw->tot.dropped++;
    pkt_free(sw, p);
  }
  sw->ports[num] = NULL;
  for (u32 i = 0; i < sw->n_ports; i++)
    if (sw->list[i] == pt) sw->list[i] = sw->list[--sw->n_ports];
  groups_refresh(sw, (i32)num);
  sw_unlock(sw);
  free(pt);
  return 0;
}

static u64 threshold(double p) {
  if (!(p > 0)) return 0;
  return p >= 1 ? 1ull << 63 : (u64)(p * 9223372036854775808.0);
}

int mrc_port_set(mrc_sw *sw, uint32_t num, const struct mrc_port_config *c, int64_t now) {
  sw_lock(sw);
  struct port *pt = port_get(sw, num);
  if (!pt) {
    sw_unlock(sw);
    return ERR_PORT;
  }
  if (now > sw->core.now) advance(sw, now);
  pt->rate = c->rate_bps;
  pt->rem = 0;
  for (u32 i = 0; i < MAX_QUEUES; i++) pt->limit[i] = c->limits[i];
  pt->tx_delay = c->tx_delay_ns;
  pt->rx_delay = c->rx_delay_ns;
  pt->loss = threshold(c->loss);
  pt->corrupt = threshold(c->corrupt);
  pt->rx_loss = threshold(c->rx_loss);
  pt->rx_corrupt = threshold(c->rx_corrupt);
  pt->blackhole = c->blackhole;
  pt->rx_blackhole = c->rx_blackhole;
  if (pt->admin != c->admin_up) {
    int up = pt->up;
    pt->admin = c->admin_up;
    pt->up = !up;  /* force the transition */
    port_state(sw, pt, up, now);
  }
  port_next(sw, pt);
  sw_unlock(sw);
  return 0;
}

int mrc_port_up(mrc_sw *sw, uint32_t num, int up, int64_t now) {
  sw_lock(sw);
  struct port *pt = port_get(sw, num);
  if (pt) port_state(sw, pt, up, now);
  sw_unlock(sw);
  return pt ? 0 : ERR_PORT;
}

int mrc_port_stats(mrc_sw *sw, uint32_t num, struct mrc_port_stats *out, int reset_max) {
  sw_lock(sw);
  struct port *pt = port_get(sw, num);
  if (pt) {
    driver_socket_drops(pt);
    *out = pt->st;
    for (u32 i = 0; i < MAX_QUEUES; i++) out->depth[i] = pt->q[i].n;
    out->depth_max = pt->depth_max;
    out->in_flight = pt->txd.n + pt->rxd.n + pt->ready.n;
    out->up = pt->up && pt->admin;
    if (reset_max) {
      pt->depth_max = 0;
      for (u32 i = 0; i < MAX_QUEUES; i++)
        if (pt->q[i].n > pt->depth_max) pt->depth_max = pt->q[i].n;
    }
  }
  sw_unlock(sw);
  return pt ? 0 : ERR_PORT;
}

void mrc_get_totals(mrc_sw *sw, struct mrc_totals *out) {
  sw_lock(sw);
  *out = sw->tot;
  out->held = 0;
  for (u32 i = 0; i < sw->n_ports; i++) {
    struct port *pt = sw->list[i];
    for (u32 q = 0; q < MAX_QUEUES; q++) out->held += pt->q[q].n;
    out->held += pt->txd.n + pt->rxd.n + pt->ready.n;
  }
  out->held += sw->out.n + sw->redo.n;
  sw_unlock(sw);
}
