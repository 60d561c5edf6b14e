/* Virtual time: a network of switches in one process, worked off in the order of time.
 *
 *   NIC -> serialiser, cable -> switch port ... queue, serialiser, delay -> switch port ... -> NIC
 *
 * One heap holds every switch port that has something to do and every NIC whose cable carries
 * a frame, by (time, number); numbers are given when ports and NICs are wired, so equal times
 * have one order. What leaves a switch arrives at the next one at the same instant (the delay
 * is the sender's), after the step that sent it: arrivals wait in a line of their own and are
 * worked off first in, first out.
 *
 * Packets are in one store for all, and go from switch to switch by pointer. No locks, no clock,
 * no randomness of its own.
 */
#include <stdlib.h>
#include "sw.h"
#pragma GCC visibility push(default)
#include "net_api.h"
#pragma GCC visibility pop

struct node {
  u32 id;
  u32 at;                  /* place in the heap, NIL when not there */
  struct sw *sw;           /* of a switch port: its own; of a NIC: the one it is wired to */
  struct port *pt;
  struct net *net;
  struct node *peer;       /* of a switch port: the port at the other end, or NULL */
  i64 nic;                 /* of a switch port: NIC at the other end, -1 none; of a NIC: itself */
  u8 is_nic;
  /* of a NIC */
  u64 rate, rem;           /* rem: left over from the division that gives times, as in tm.c */
  i64 delay, busy_until;
  u32 group;
  struct fifo cable;       /* on the way to the switch; t_out: when they arrive there */
};

struct slot { i64 t; struct node *n; };

struct arrival { i64 t; struct node *to; struct pkt *p; };

struct outbox { struct fifo q; u64 bytes; };

struct net {
  struct store store;
  u32 frame_bytes;
  u32 phv_size;
  i64 now;
  struct node **nodes;     /* all, by id */
  u32 n_nodes, cap_nodes;
  struct node **nics;
  u32 n_nics, cap_nics;
  struct slot *heap;
  u32 n_heap;
  struct arrival *line;    /* ring */
  u32 line_cap, line_head, line_used;
  struct sw **sws;
  u32 n_sws, cap_sws;
  struct outbox *out;
  u32 n_out;
  int broken;              /* out of memory in a hook */
  struct mrc_net_figures fig;
};

/* ---- heap of four children, by (time, id) ------------------------------------------------- */

static inline int before(const struct slot *a, const struct slot *b) {
  return a->t < b->t || (a->t == b->t && a->n->id < b->n->id);
}
static inline void put(struct net *net, u32 i, struct slot s) {
  net->heap[i] = s;
  s.n->at = i;
}
static void sift_up(struct net *net, u32 i) {
  struct slot s = net->heap[i];
  while (i) {
    u32 up = (i - 1) >> 2;
    if (!before(&s, &net->heap[up])) break;
    put(net, i, net->heap[up]);
    i = up;
  }
  put(net, i, s);
}
static void sift_down(struct net *net, u32 i) {
  struct slot s = net->heap[i];
  for (;;) {
    u32 c = 4 * i + 1, best = c;
    if (c >= net->n_heap) break;
    for (u32 k = c + 1; k < c + 4 && k < net->n_heap; k++)
      if (before(&net->heap[k], &net->heap[best])) best = k;
    if (!before(&net->heap[best], &s)) break;
    put(net, i, net->heap[best]);
    i = best;
  }
  put(net, i, s);
}
/* When a node is due next; NEVER takes it out. The heap has room for every node. */
static void schedule(struct net *net, struct node *n, i64 t) {
  u32 i = n->at;
  if (i == NIL) {
    if (t == NEVER) return;
    i = net->n_heap++;
    put(net, i, (struct slot){t, n});
    sift_up(net, i);
    return;
  }
  i64 old = net->heap[i].t;
  if (t == old) return;
  if (t == NEVER) {
    n->at = NIL;
    struct slot last = net->heap[--net->n_heap];
    if (last.n == n) return;
    put(net, i, last);
    sift_up(net, i);
    sift_down(net, last.n->at);
    return;
  }
  net->heap[i].t = t;
  if (t < old) sift_up(net, i);
  else sift_down(net, i);
}

/* ---- what switches tell us ------------------------------------------------------------------ */

static void on_next(struct sw *sw, struct port *pt) {
  (void)sw;
  struct node *n = pt->wire;
  if (n) schedule(n->net, n, pt->next);
}

static void on_leave(struct sw *sw, struct port *pt, struct pkt *p) {
  struct node *n = pt->wire;
  sw->tot.sent++;
  sw->held--;
  if (n && n->nic >= 0) {
    struct outbox *o = &n->net->out[n->net->nics[n->nic]->group];
    p->t_out = sw->core.now;
    p->egress_spec = (u32)n->nic;
    fifo_push(&o->q, p);
    o->bytes += 16 + ((p->len + 7) & ~7u);
    n->net->fig.delivered++;
    return;
  }
  struct net *net = n ? n->net : NULL;
  if (!net || !n->peer) {   /* a port that leads nowhere */
    store_give(sw->store, p);
    return;
  }
  if (net->line_used == net->line_cap) {
    u32 cap = net->line_cap * 2;
    struct arrival *a = malloc(cap * sizeof *a);
    if (!a) {
      net->broken = 1;
      store_give(sw->store, p);
      return;
    }
    for (u32 i = 0; i < net->line_used; i++)
      a[i] = net->line[(net->line_head + i) % net->line_cap];
    free(net->line);
    net->line = a;
    net->line_cap = cap;
    net->line_head = 0;
  }
  net->line[(net->line_head + net->line_used++) % net->line_cap] =
      (struct arrival){sw->core.now, n->peer, p};
}

static const struct sw_hooks hooks = {on_next, on_leave};

/* ---- building ----------------------------------------------------------------------------------- */

mrc_net *mrc_net_new(uint32_t frame_bytes, uint32_t packets) {
  struct net *net = calloc(1, sizeof *net);
  if (!net) return NULL;
  net->frame_bytes = frame_bytes > MAX_FRAME ? MAX_FRAME : frame_bytes;
  net->store.packets = packets;
  net->line_cap = 256;
  net->line = malloc(net->line_cap * sizeof *net->line);
  net->out = calloc(1, sizeof *net->out);
  net->n_out = 1;
  if (net->line && net->out) return net;
  mrc_net_free(net);
  return NULL;
}

/* The switches must not be used after this: their packets are gone. */
void mrc_net_free(mrc_net *net) {
  if (!net) return;
  for (u32 i = 0; i < net->n_nodes; i++) {
    if (net->nodes[i]->pt && net->nodes[i]->pt->wire == net->nodes[i])
      net->nodes[i]->pt->wire = NULL;
    free(net->nodes[i]);
  }
  for (u32 i = 0; i < net->n_sws; i++) {
    struct sw *sw = net->sws[i];
    drop_all(sw, DROP_RELOAD);
    sw->running = 0;
    sw->hooks = NULL;
    sw->store = &sw->own;
  }
  store_drop(&net->store);
  free(net->nodes);
  free(net->nics);
  free(net->heap);
  free(net->line);
  free(net->sws);
  free(net->out);
  free(net);
}

static int room(void **array, u32 n, u32 *cap, size_t size) {
  if (n < *cap) return 0;
  u32 more = *cap ? 2 * *cap : 64;
  void *a = realloc(*array, more * size);
  if (!a) return ERR_MEMORY;
  *array = a;
  *cap = more;
  return 0;
}

static struct node *node_new(struct net *net) {
  u32 cap = net->cap_nodes;
  if (room((void **)&net->nodes, net->n_nodes, &net->cap_nodes, sizeof *net->nodes)) return NULL;
  if (cap != net->cap_nodes) {
    struct slot *h = realloc(net->heap, net->cap_nodes * sizeof *h);
    if (!h) {
      net->cap_nodes = cap;
      return NULL;
    }
    net->heap = h;
  }
  struct node *n = calloc(1, sizeof *n);
  if (!n) return NULL;
  n->id = net->n_nodes;
  n->at = NIL;
  n->net = net;
  n->nic = -1;
  return net->nodes[net->n_nodes++] = n;
}

/* A switch with its program loaded and its ports added. Its packets come from our store now. */
int mrc_net_add(mrc_net *net, mrc_sw *sw) {
  if (!sw->prog || sw->drv || sw->hooks) return ERR_STATE;
  if (!net->n_sws) {
    net->phv_size = sw->prog->phv_size;
    /* what enters may be longer than what the pipeline makes of it by any header it adds */
    if (store_make(&net->store, net->phv_size, HEADROOM + net->frame_bytes + 64 + TAILROOM))
      return ERR_MEMORY;
  }
  if (sw->prog->phv_size > net->phv_size) return ERR_LENGTH;
  if (room((void **)&net->sws, net->n_sws, &net->cap_sws, sizeof *net->sws)) return ERR_MEMORY;
  drop_all(sw, DROP_RELOAD);
  store_drop(&sw->own);
  sw->own.packets = 0;
  for (u32 i = 0; i < sw->n_ports; i++) {
    struct port *pt = sw->list[i];
    struct node *n = node_new(net);
    if (!n) return ERR_MEMORY;
    n->sw = sw;
    n->pt = pt;
    pt->wire = n;
  }
  sw->store = &net->store;
  sw->hooks = &hooks;
  net->sws[net->n_sws++] = sw;
  return 0;
}

static struct node *node_of(struct sw *sw, u32 port) {
  struct port *pt = port_get(sw, port);
  return pt ? pt->wire : NULL;
}

int mrc_net_wire(mrc_net *net, mrc_sw *a, uint32_t port_a, mrc_sw *b, uint32_t port_b) {
  struct node *x = node_of(a, port_a), *y = node_of(b, port_b);
  if (!x || !y || x->net != net || y->net != net) return ERR_PORT;
  if (x->peer || y->peer || x->nic >= 0 || y->nic >= 0) return ERR_DUP;
  x->peer = y;
  y->peer = x;
  return 0;
}

/* A NIC behind a switch port. rate and delay are those of the way to the switch (the other way is
 * the switch port's own). `group`: whose output it is in. */
int64_t mrc_net_nic(mrc_net *net, mrc_sw *sw, uint32_t port, uint64_t rate_bps, int64_t delay_ns,
                    uint32_t group) {
  struct node *x = node_of(sw, port);
  if (!x || x->net != net) return ERR_PORT;
  if (x->peer || x->nic >= 0) return ERR_DUP;
  if (group >= net->n_out) {
    struct outbox *o = realloc(net->out, (group + 1) * sizeof *o);
    if (!o) return ERR_MEMORY;
    memset(o + net->n_out, 0, (group + 1 - net->n_out) * sizeof *o);
    net->out = o;
    net->n_out = group + 1;
  }
  if (room((void **)&net->nics, net->n_nics, &net->cap_nics, sizeof *net->nics)) return ERR_MEMORY;
  struct node *n = node_new(net);
  if (!n) return ERR_MEMORY;
  n->is_nic = 1;
  n->sw = sw;
  n->pt = x->pt;
  n->rate = rate_bps;
  n->delay = delay_ns;
  n->group = group;
  n->nic = x->nic = net->n_nics;
  net->nics[net->n_nics++] = n;
  return n->nic;
}

/* ---- running -------------------------------------------------------------------------------------- */

/* Frames that NICs begin to send. They queue behind what the NIC still sends, and arrive when
 * the last bit has gone over the cable; that must not be before the time run() got to. */
int mrc_net_send(mrc_net *net, const uint8_t *records, uint64_t bytes) {
  for (u64 at = 0; at < bytes;) {
    struct { i64 t; u32 nic, len; } h;
    if (bytes - at < sizeof h) return ERR_LENGTH;
    memcpy(&h, records + at, sizeof h);
    at += sizeof h;
    if (h.nic >= net->n_nics) return ERR_PORT;
    if (!h.len || h.len > net->frame_bytes || h.len > bytes - at) return ERR_LENGTH;
    struct node *n = net->nics[h.nic];
    if (h.t > n->busy_until) {
      n->busy_until = h.t;
      n->rem = 0;
    }
    if (n->rate) {
      u128 bits = (u128)h.len * 8000000000ull + n->rem;
      n->busy_until += (i64)(bits / n->rate);
      n->rem = (u64)(bits % n->rate);
    }
    net->fig.injected++;
    struct pkt *p = store_take(&net->store);
    if (!p) {
      n->pt->st.rx_packets++;
      n->pt->st.rx_bytes += h.len;
      n->pt->st.drops[DROP_BUFFER]++;
      n->sw->tot.received++;
      n->sw->tot.dropped++;
    } else {
      pkt_reset(p, n->pt->num, h.len);
      memcpy(p->buf + p->head, records + at, h.len);
      p->t_out = n->busy_until + n->delay;
      fifo_push(&n->cable, p);
      schedule(net, n, n->cable.head->t_out);
    }
    at += (h.len + 7) & ~(u64)7;
  }
  return 0;
}

/* A frame that headers were added to or taken from on the way: back to where frames start, when
 * it has moved so far that the next switch might lack room in front. */
static void recentre(struct net *net, struct pkt *p, u32 head) {
  u32 most = net->frame_bytes + 64;
  if ((head < HEADROOM - 128 || head > HEADROOM + 64) && p->len <= most)
    memmove(p->buf + HEADROOM, p->buf + head, p->len);
  else
    p->head = head;
}

static void arrive(struct net *net, struct sw *sw, struct port *pt, struct pkt *p, i64 t) {
  if (t > sw->core.now) sw->core.now = t;
  sw->held++;
  net->fig.hops++;
  rx_arrived(sw, pt, p);
}

/* Arrivals of this instant; each may cause more. */
static void work_off(struct net *net) {
  while (net->line_used) {
    struct arrival a = net->line[net->line_head];
    net->line_head = (net->line_head + 1) % net->line_cap;
    net->line_used--;
    u32 head = a.p->head;
    pkt_reset(a.p, a.to->pt->num, a.p->len);
    recentre(net, a.p, head);
    arrive(net, a.to->sw, a.to->pt, a.p, a.t);
  }
}

int64_t mrc_net_next(mrc_net *net) {
  if (net->line_used) return net->line[net->line_head].t;
  return net->n_heap ? net->heap[0].t : -1;
}

/* Everything that happens before `until`. */
int mrc_net_run(mrc_net *net, int64_t until) {
  work_off(net);
  while (net->n_heap && net->heap[0].t < until) {
    struct node *n = net->heap[0].n;
    i64 t = net->heap[0].t;
    net->now = t;
    net->fig.events++;
    if (n->is_nic) {
      struct pkt *p = fifo_pop(&n->cable);
      schedule(net, n, n->cable.head ? n->cable.head->t_out : NEVER);
      if (p) arrive(net, n->sw, n->pt, p, t);
    } else {
      port_step(n->sw, n->pt, t, t);
    }
    work_off(net);
  }
  if (until > net->now) net->now = until;
  return net->broken ? ERR_MEMORY : 0;
}

/* ---- what has reached NICs ---------------------------------------------------------------------------- */

uint64_t mrc_net_waiting(mrc_net *net, uint32_t group) {
  return group < net->n_out ? net->out[group].bytes : 0;
}

/* As many whole records as fit, in the order of time; returns the bytes written. */
uint64_t mrc_net_take(mrc_net *net, uint32_t group, uint8_t *buf, uint64_t cap) {
  if (group >= net->n_out) return 0;
  struct outbox *o = &net->out[group];
  u64 at = 0;
  for (struct pkt *p; (p = o->q.head);) {
    u64 size = 16 + ((p->len + 7) & ~7u);
    if (size > cap - at) break;
    fifo_pop(&o->q);
    memcpy(buf + at, &p->t_out, 8);
    memcpy(buf + at + 8, &p->egress_spec, 4);
    memcpy(buf + at + 12, &p->len, 4);
    memcpy(buf + at + 16, p->buf + p->head, p->len);
    at += size;
    o->bytes -= size;
    store_give(&net->store, p);
  }
  return at;
}

/* The cable of a NIC is cut: what is on it is lost, as frames in a port's delay line are. */
int mrc_net_cut(mrc_net *net, uint32_t nic, int64_t now) {
  if (nic >= net->n_nics) return ERR_PORT;
  struct node *n = net->nics[nic];
  for (struct pkt *p; (p = fifo_pop(&n->cable));) {
    n->pt->st.rx_packets++;
    n->pt->st.rx_bytes += p->len;
    n->pt->st.drops[DROP_DOWN]++;
    n->sw->tot.received++;
    n->sw->tot.dropped++;
    store_give(&net->store, p);
  }
  if (n->busy_until > now) n->busy_until = now;
  n->rem = 0;
  schedule(net, n, NEVER);
  return 0;
}

/* Frames between a NIC and its switch, both ways. */
uint64_t mrc_net_in_flight(mrc_net *net, uint32_t nic) {
  return nic < net->n_nics ? net->nics[nic]->cable.n : 0;
}

void mrc_net_get_figures(mrc_net *net, struct mrc_net_figures *out) {
  *out = net->fig;
  out->packets = net->store.carved;
  out->packet_bytes = net->store.stride;
}
