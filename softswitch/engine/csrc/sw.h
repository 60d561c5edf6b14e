/* Private parts of the switch: ports, queues, packet store, events. */
#ifndef MRC_SW_H
#define MRC_SW_H

#include <pthread.h>
#include <stdatomic.h>
#include "rt.h"
/* Only the calls of api.h are visible outside: libc has an advance() of its own. */
#pragma GCC visibility push(default)
#include "api.h"
#pragma GCC visibility pop

#define MAX_QUEUES 8
#define MAX_PORT 65536u
#define MAX_HOPS 1024
#define NEVER INT64_MAX
#define IDLE_PERIOD 1000000000ll  /* most ns between looks for idle entries, as bmv2 */
#define IDLE_SHARE 8              /* an idle entry is told of within this part of its time */
#define LOG_PERIOD 1000000000ll
#define LOG_MOST 1000             /* log messages in a period; what is beyond is counted */
#define HELD_DIGESTS 1024         /* samples that a duplicate is looked for among */

enum { ERR_TABLE = -1, ERR_FULL = -2, ERR_DUP = -3, ERR_ENTRY = -4, ERR_ACTION = -5,
       ERR_RANGE = -6, ERR_CONST = -7, ERR_IN_USE = -8, ERR_MEMBER = -9, ERR_GROUP = -10,
       ERR_PORT = -11, ERR_MEMORY = -12, ERR_STATE = -13, ERR_SYS = -14, ERR_LENGTH = -15 };

enum { DROP_QUEUE, DROP_DOWN, DROP_LOSS, DROP_BLACKHOLE, DROP_PIPELINE, DROP_RX_SOCKET,
       DROP_TX, DROP_LONG, DROP_BUFFER, DROP_EGRESS, DROP_NO_PORT, DROP_PRIORITY, DROP_LOOP,
       DROP_RELOAD, DROP_RX_LOSS, DROP_RX_BLACKHOLE, N_DROPS };
_Static_assert(N_DROPS <= 16, "mrc_port_stats.drops is too short");

enum { EV_PACKET_IN = 1, EV_DIGEST = 2, EV_PORT = 3, EV_IDLE = 4, EV_LOG = 5 };

struct fifo { struct pkt *head, *tail; u32 n; };

struct port {
  u32 num;
  u8 cpu, up, admin, blackhole, rx_blackhole, due;
  u64 rate;
  u64 rem;                 /* leftover of the division that gives serialisation times */
  i64 busy_until;
  i64 next;                /* ns: earliest thing to do, NEVER when nothing */
  i64 tx_delay, rx_delay;
  u64 loss, corrupt, rx_loss, rx_corrupt;  /* compared with 63 random bits */
  struct fifo q[MAX_QUEUES];
  u32 limit[MAX_QUEUES];
  u32 depth_max;
  struct fifo txd, rxd;    /* serialiser and delay lines */
  struct fifo ready;       /* real time: waiting for the next batch of system calls */
  struct mrc_port_stats st;
  int fd;                  /* driver: -1 when not attached */
  int ifindex;
  u8 want_out;
  void *wire;              /* virtual time: what this port is wired to, see net.c */
};

struct replica { u32 port, rid; };
struct replicas { u32 id, n, length, cos; struct replica *r; struct replicas *next; };
#define PRE_BUCKETS 256

struct evring { u8 *buf; u32 cap, head, used; };

struct driver;

struct held { u64 hash; i64 until; };

/* Packet buffers. A switch has its own; switches of one virtual network share one, so that a
 * frame goes from switch to switch without a copy. */
struct store {
  u8 *pool;
  size_t bytes;
  u32 packets, carved;        /* slots; how many were ever handed out */
  size_t head, stride;
  struct pkt *free_pkts;
};

/* Virtual time: whoever owns the clock is told what a switch would do next and what leaves
 * it. NULL when the switch stands alone. */
struct sw_hooks {
  void (*next)(struct sw *sw, struct port *pt);                 /* pt->next has changed */
  void (*leave)(struct sw *sw, struct port *pt, struct pkt *p); /* a frame is out, at core.now */
};

struct sw {
  struct sw_core core;     /* first: the program casts to it */
  pthread_mutex_t mu;
  pthread_cond_t ev_cond;
  atomic_int waiters;
  u32 queues;
  u64 link_rng[4];
  const struct mrc_program *prog;
  void *dl;
  u8 running;
  const struct sw_hooks *hooks;
  struct store own, *store;
  u32 held;
  /* ports */
  struct port **ports;     /* MAX_PORT pointers */
  struct port **list;
  u32 n_ports, cap_ports;
  struct port **due;
  u32 n_due;
  i64 next_dl;
  i64 idle_next;           /* next look for idle entries, NEVER when none has a time to live */
  struct fifo redo;        /* resubmitted and recirculated */
  struct fifo out;         /* sans-I/O: frames that leave */
  u8 real_time;
  struct mrc_totals tot;
  struct mrc_fidelity fid;
  struct replicas *mcast[PRE_BUCKETS], *clones[PRE_BUCKETS];
  struct evring ev;
  int ev_wake;
  i64 log_began;           /* start of the period of logs */
  u32 logs, logs_lost;     /* in this period */
  i64 digest_hold;         /* ns that a sample of a digest is not told again, 0: never mind */
  struct held *held_digests;
  struct driver *drv;
};

static inline void sw_lock(struct sw *sw) {
  atomic_fetch_add(&sw->waiters, 1);
  pthread_mutex_lock(&sw->mu);
  atomic_fetch_sub(&sw->waiters, 1);
}
static inline void sw_unlock(struct sw *sw) { pthread_mutex_unlock(&sw->mu); }

static inline void fifo_push(struct fifo *f, struct pkt *p) {
  p->next = NULL;
  if (f->tail) f->tail->next = p;
  else f->head = p;
  f->tail = p;
  f->n++;
}
static inline struct pkt *fifo_pop(struct fifo *f) {
  struct pkt *p = f->head;
  if (p) {
    f->head = p->next;
    if (!f->head) f->tail = NULL;
    f->n--;
  }
  return p;
}

static inline struct pkt *store_take(struct store *st) {
  struct pkt *p = st->free_pkts;
  if (likely(p != NULL)) {
    st->free_pkts = p->next;
  } else if (st->carved < st->packets) {
    /* slots are touched only when needed, so that memory follows use */
    u8 *at = st->pool + st->stride * st->carved++;
    p = (struct pkt *)at;
    p->buf = at + st->head;
  }
  return p;
}
static inline void store_give(struct store *st, struct pkt *p) {
  p->next = st->free_pkts;
  st->free_pkts = p;
}
static inline struct pkt *pkt_alloc(struct sw *sw) {
  struct pkt *p = store_take(sw->store);
  if (p) sw->held++;
  return p;
}
static inline void pkt_free(struct sw *sw, struct pkt *p) {
  store_give(sw->store, p);
  sw->held--;
}
static inline struct port *port_get(struct sw *sw, u32 n) {
  return n < MAX_PORT ? sw->ports[n] : NULL;
}

/* sw.c */
int store_make(struct store *st, u32 phv_size, u32 buffer);
void store_drop(struct store *st);
void event_push(struct sw *sw, u32 type, const void *a, u32 alen, const void *b, u32 blen);
void seed_rng(u64 s[4], u64 seed);
/* table.c */
int tables_make(struct sw *sw);
void tables_free(struct sw *sw);
void groups_refresh(struct sw *sw, i32 port);
/* state.c */
int state_make(struct sw *sw);
void state_free(struct sw *sw);
void pre_free(struct sw *sw);
struct replicas *pre_find(struct replicas **b, u32 id);
/* tm.c */
void pkt_reset(struct pkt *p, u32 port, u32 len);
void rx_frame(struct sw *sw, struct port *pt, struct pkt *p, i64 now);
void rx_arrived(struct sw *sw, struct port *pt, struct pkt *p);
void port_step(struct sw *sw, struct port *pt, i64 t, i64 now);
void advance(struct sw *sw, i64 now);
void port_state(struct sw *sw, struct port *pt, int up, i64 now);
void drop_all(struct sw *sw, int cause);
void port_next(struct sw *sw, struct port *pt);
void idle_scan(struct sw *sw, i64 now);
i64 deadline(struct sw *sw);
/* driver.c */
void driver_kick(struct sw *sw);
void driver_pause(struct sw *sw);
void driver_resume(struct sw *sw);
void driver_socket_drops(struct port *pt);

#endif
