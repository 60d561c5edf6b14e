/* The traffic manager and the life of a packet.
 *
 *   wire -> rx delay -> parser, ingress -> queue -> egress, deparser -> serialiser
 *        -> tx delay -> wire
 *
 * Each port is one server: strict priority, one rate shared by all its queues. A service
 * begins at the later of "the last frame has left" and "a frame is waiting", whatever the
 * time is when the driver comes round to it; so a late driver delays frames but does not
 * change rates, order or queue depths. Events of all ports are worked off in time order.
 */
#include "sw.h"

/* ---- accounting ------------------------------------------------------------------------- */

static void drop(struct sw *sw, struct port *pt, struct pkt *p, int cause) {
  if (pt) pt->st.drops[cause]++;
  sw->tot.dropped++;
  pkt_free(sw, p);
}
/* causes that belong to the port the packet came in on */
static void drop_in(struct sw *sw, struct pkt *p, int cause) {
  drop(sw, port_get(sw, (u32)p->ingress_port), p, cause);
}

void port_next(struct sw *sw, struct port *pt) {
  i64 t = NEVER, first = NEVER;
  for (u32 q = 0; q < sw->queues; q++)
    if (pt->q[q].head && pt->q[q].head->t_enq < first) first = pt->q[q].head->t_enq;
  if (first != NEVER) t = first > pt->busy_until ? first : pt->busy_until;
  if (pt->txd.head && pt->txd.head->t_out < t) t = pt->txd.head->t_out;
  if (pt->rxd.head && pt->rxd.head->t_out < t) t = pt->rxd.head->t_out;
  pt->next = t;
  if (t < sw->next_dl) sw->next_dl = t;
  if (sw->hooks) sw->hooks->next(sw, pt);
}

static void make_due(struct sw *sw, struct port *pt) {
  if (!pt->due) {
    pt->due = 1;
    sw->due[sw->n_due++] = pt;
  }
}

/* ---- out of the switch -------------------------------------------------------------------- */

static void leave(struct sw *sw, struct port *pt, struct pkt *p) {
  if (pt->cpu) {
    pt->st.tx_packets++;
    pt->st.tx_bytes += p->len;
    sw->tot.packet_in++;
    event_push(sw, EV_PACKET_IN, p->buf + p->head, p->len, NULL, 0);
    pkt_free(sw, p);
  } else if (sw->real_time) {
    fifo_push(&pt->ready, p);
  } else {
    pt->st.tx_packets++;
    pt->st.tx_bytes += p->len;
    if (sw->hooks) sw->hooks->leave(sw, pt, p);
    else fifo_push(&sw->out, p);
  }
}

static int chance(struct sw *sw, u64 threshold) {
  return unlikely(threshold != 0) && rng_next(sw->link_rng) >> 1 < threshold;
}
/* One random bit of the frame; 0 when it has none. */
static u32 flip(struct sw *sw, struct pkt *p) {
  if (!p->len) return 0;
  u64 bit = rng_between(sw->link_rng, 0, (u64)p->len * 8 - 1);
  p->buf[p->head + (bit >> 3)] ^= (u8)(1u << (bit & 7));
  return 1;
}

/* a frame goes onto the wire at `start` */
static void transmit(struct sw *sw, struct port *pt, struct pkt *p, i64 start) {
  i64 end = start;
  if (!pt->up || !pt->admin) {
    drop(sw, pt, p, DROP_DOWN);
    return;
  }
  if (pt->rate) {
    if (start > pt->busy_until) pt->rem = 0;  /* the line was idle */
    u128 bits = (u128)p->len * 8000000000ull + pt->rem;
    end += (i64)(bits / pt->rate);
    pt->rem = (u64)(bits % pt->rate);
    pt->busy_until = end;
  }
  if (pt->blackhole) {
    drop(sw, pt, p, DROP_BLACKHOLE);
    return;
  }
  if (chance(sw, pt->loss)) {
    drop(sw, pt, p, DROP_LOSS);
    return;
  }
  if (chance(sw, pt->corrupt)) pt->st.corrupted += flip(sw, p);
  p->t_out = end + pt->tx_delay;
  if (p->t_out <= start && !pt->txd.head) {
    leave(sw, pt, p);
    return;
  }
  if (pt->txd.tail && pt->txd.tail->t_out > p->t_out) p->t_out = pt->txd.tail->t_out;
  fifo_push(&pt->txd, p);
}

/* ---- copies -------------------------------------------------------------------------------- */

static struct pkt *copy(struct sw *sw, const struct pkt *p) {
  struct pkt *c = pkt_alloc(sw);
  if (!c) {
    struct port *pt = port_get(sw, (u32)p->ingress_port);
    if (pt) pt->st.drops[DROP_BUFFER]++;
    sw->tot.copies++;
    sw->tot.dropped++;
    return NULL;
  }
  u8 *buf = c->buf;
  memcpy(c, p, sizeof *c + sw->prog->phv_size);
  c->buf = buf;
  c->next = NULL;
  memcpy(buf + p->head, p->buf + p->head, p->len);
  c->clone_sid = c->clone_list = c->resubmit_list = c->recirc_list = c->digest_list = 0;
  c->exit = 0;
  c->trunc = UINT32_MAX;  /* as on bmv2, copies are whole again */
  sw->tot.copies++;
  return c;
}

static void enqueue(struct sw *sw, struct pkt *p, u32 port);

static void multicast(struct sw *sw, struct pkt *p, u32 gid) {
  struct replicas *g = pre_find(sw->mcast, gid);
  for (u32 i = 0; g && i < g->n; i++) {
    struct pkt *c = copy(sw, p);
    if (!c) continue;
    c->rid = g->r[i].rid;
    enqueue(sw, c, g->r[i].port);
  }
}

static void clone_out(struct sw *sw, struct pkt *c, const struct replicas *s) {
  if (s->cos && s->cos < sw->queues) c->prio = s->cos;
  for (u32 i = 0; i < s->n; i++) {
    struct pkt *x = copy(sw, c);
    if (!x) continue;
    x->rid = s->r[i].rid;
    if (s->length) x->trunc = s->length;
    enqueue(sw, x, s->r[i].port);
  }
}

/* The clone starts from the packet as it came in, parsed anew. */
static void clone_ingress(struct sw *sw, struct pkt *p) {
  struct replicas *s = pre_find(sw->clones, p->clone_sid & 0x7fff);
  if (!s || p->hops >= MAX_HOPS) return;
  struct pkt *c = copy(sw, p);
  if (!c) return;
  c->hops++;
  c->plen = (i32)c->len;
  c->rid = 0;
  sw->prog->init(sw, c);
  sw->prog->parse(sw, c);
  sw->prog->reset_metadata(c);
  sw->prog->copy_fields(p->clone_list, c, p);
  sw->prog->set_instance(c, INST_INGRESS_CLONE, UINT32_MAX);
  clone_out(sw, c, s);
  sw->tot.copies--;  /* only a template */
  pkt_free(sw, c);
}

static void clone_egress(struct sw *sw, struct pkt *p) {
  struct replicas *s = pre_find(sw->clones, p->clone_sid & 0x7fff);
  if (!s || p->hops >= MAX_HOPS) return;
  struct pkt *c = copy(sw, p);
  if (!c) return;
  c->hops++;
  c->rid = 0;
  sw->prog->reset_metadata(c);
  sw->prog->copy_fields(p->clone_list, c, p);
  sw->prog->set_instance(c, INST_EGRESS_CLONE, UINT32_MAX);
  clone_out(sw, c, s);
  sw->tot.copies--;
  pkt_free(sw, c);
}

/* ---- queues ---------------------------------------------------------------------------------- */

/* Egress processing of a packet that leaves its queue at `now`. */
static void dequeue(struct sw *sw, struct port *pt, struct pkt *p, i64 now) {
  i64 saved = sw->core.now;
  sw->core.now = now;
  p->exit = 0;
  sw->prog->egress(sw, p);
  if (p->clone_sid) {
    clone_egress(sw, p);
    p->clone_sid = p->clone_list = 0;
  }
  if (p->egress_spec == sw->core.drop_port) {
    if (pt) drop(sw, pt, p, DROP_EGRESS);
    else drop_in(sw, p, DROP_EGRESS);
  } else if (!sw->prog->deparse(sw, p)) {
    if (pt) drop(sw, pt, p, DROP_LONG);
    else drop_in(sw, p, DROP_LONG);
  } else if (p->recirc_list) {
    if (pt) pt->st.recirculated++;
    if (++p->hops >= MAX_HOPS) drop_in(sw, p, DROP_LOOP);
    else {
      u32 list = p->recirc_list;
      /* the copy holds the fields while the header vector is cleared */
      struct pkt *c = copy(sw, p);
      if (!c) {
        drop_in(sw, p, DROP_BUFFER);
      } else {
        c->ingress_len = c->len;
        c->plen = (i32)c->len;
        c->rid = 0;
        c->parsed = 0;
        sw->prog->init(sw, c);
        sw->prog->reset_metadata(c);
        sw->prog->copy_fields(list, c, p);
        sw->prog->set_instance(c, INST_RECIRC, c->len);
        sw->tot.copies--;
        pkt_free(sw, p);
        fifo_push(&sw->redo, c);
      }
    }
  } else if (!pt) {
    drop_in(sw, p, DROP_NO_PORT);
  } else if (!p->trunc) {
    drop(sw, pt, p, DROP_LONG);
  } else {
    if (p->trunc < p->len) p->len = p->trunc;
    transmit(sw, pt, p, now);
  }
  sw->core.now = saved;
}

static void enqueue(struct sw *sw, struct pkt *p, u32 port) {
  struct port *pt = port_get(sw, port);
  u32 q = p->prio;
  p->egress_port = port;
  if (q >= sw->queues) {
    drop_in(sw, p, DROP_PRIORITY);
    return;
  }
  p->t_enq = sw->core.now;
  if (!pt || !pt->up || !pt->admin) {
    /* egress still runs, as on a switch whose link is dark: its registers and counters
     * must not drift; the frame is lost after it, in no time */
    p->enq_qdepth = p->deq_qdepth = 0;
    if (pt) pt->st.enqueued++, pt->st.dequeued++;
    dequeue(sw, pt, p, sw->core.now);
    return;
  }
  if (pt->q[q].n >= pt->limit[q]) {
    drop(sw, pt, p, DROP_QUEUE);
    return;
  }
  p->enq_qdepth = pt->q[q].n;
  fifo_push(&pt->q[q], p);
  pt->st.enqueued++;
  if (pt->q[q].n > pt->depth_max) pt->depth_max = pt->q[q].n;
  make_due(sw, pt);
}

/* How much later than due something was done (ns), in buckets of a quarter octave. */
static void lateness(struct sw *sw, i64 late) {
  struct mrc_fidelity *f = &sw->fid;
  u64 d = late > 0 ? (u64)late : 0;
  u32 b = (u32)d, top;
  if (d >= 4) {
    top = 63 - (u32)__builtin_clzll(d);
    b = 4 * top + (u32)(d >> (top - 2) & 3);
  }
  f->late_sum += d;
  f->late_count++;
  if (d > f->late_max) f->late_max = d;
  f->hist[b < 256 ? b : 255]++;
}

/* Serve a port up to `now`; `real` is what the clock shows, -1 when it is not late. */
static void serve(struct sw *sw, struct port *pt, i64 now, i64 real) {

  for (;;) {
    i64 first = NEVER;
    for (u32 q = 0; q < sw->queues; q++)
      if (pt->q[q].head && pt->q[q].head->t_enq < first) first = pt->q[q].head->t_enq;
    if (first == NEVER) break;
    i64 t = first > pt->busy_until ? first : pt->busy_until;
    if (t > now) break;
    u32 q = sw->queues;
    while (q-- > 0)
      if (pt->q[q].head && pt->q[q].head->t_enq <= t) break;
    struct pkt *p = fifo_pop(&pt->q[q]);
    p->deq_qdepth = pt->q[q].n;
    pt->st.dequeued++;
    if (real >= 0) lateness(sw, real - t);
    dequeue(sw, pt, p, t);
  }
}

/* ---- ingress ------------------------------------------------------------------------------------ */

void pkt_reset(struct pkt *p, u32 port, u32 len) {
  p->head = HEADROOM;
  p->len = p->ingress_len = len;
  p->plen = (i32)len;
  p->trunc = UINT32_MAX;
  p->ingress_port = (i32)port;
  p->parsed = p->rid = p->prio = p->error = 0;
  p->egress_port = p->egress_spec = p->mcast_grp = 0;
  p->clone_sid = p->clone_list = p->resubmit_list = p->recirc_list = p->digest_list = 0;
  p->hops = 0;
  p->exit = p->csum_err = p->failed = p->inst = 0;
}

static void after_ingress(struct sw *sw, struct pkt *p) {
  if (p->clone_sid) {
    clone_ingress(sw, p);
    p->clone_sid = p->clone_list = 0;
  }
  if (p->digest_list) {
    sw->prog->digest(sw, p);
    p->digest_list = 0;
  }
  if (p->resubmit_list) {
    if (++p->hops >= MAX_HOPS) {
      drop_in(sw, p, DROP_LOOP);
      return;
    }
    struct pkt *c = copy(sw, p);
    if (!c) {
      drop_in(sw, p, DROP_BUFFER);
      return;
    }
    c->plen = (i32)c->len;
    c->parsed = 0;
    sw->prog->init(sw, c);
    sw->prog->reset_metadata(c);
    sw->prog->copy_fields(p->resubmit_list, c, p);
    sw->prog->set_instance(c, INST_RESUBMIT, c->len);
    sw->tot.copies--;
    pkt_free(sw, p);
    fifo_push(&sw->redo, c);
    return;
  }
  if (p->mcast_grp) {
    struct replicas *g = pre_find(sw->mcast, p->mcast_grp);
    sw->prog->set_instance(p, INST_REPLICATION, UINT32_MAX);
    if (!g || !g->n) {
      drop_in(sw, p, DROP_PIPELINE);
      return;
    }
    multicast(sw, p, p->mcast_grp);
    sw->tot.copies--;  /* the original is not sent */
    pkt_free(sw, p);
    return;
  }
  if (p->egress_spec == sw->core.drop_port) {
    drop_in(sw, p, DROP_PIPELINE);
    return;
  }
  sw->prog->set_instance(p, INST_NORMAL, UINT32_MAX);
  enqueue(sw, p, p->egress_spec);
}

/* Everything that a packet sets off at this instant. */
static void settle(struct sw *sw) {
  for (;;) {
    struct pkt *p;
    while ((p = fifo_pop(&sw->redo))) {
      sw->prog->ingress(sw, p);
      after_ingress(sw, p);
    }
    if (!sw->n_due) return;
    struct port *pt = sw->due[--sw->n_due];
    pt->due = 0;
    serve(sw, pt, sw->core.now, -1);
    port_next(sw, pt);
  }
}

static void ingress(struct sw *sw, struct pkt *p) {
  if (!sw->running) {
    drop_in(sw, p, DROP_PIPELINE);
    return;
  }
  sw->prog->init(sw, p);
  sw->prog->ingress(sw, p);
  after_ingress(sw, p);
  settle(sw);
}

/* Counts a frame and does to it what the port does to what arrives; 0 when it is lost. */
static int rx_enter(struct sw *sw, struct port *pt, struct pkt *p) {
  int cause = -1;
  pt->st.rx_packets++;
  pt->st.rx_bytes += p->len;
  sw->tot.received++;
  if (!pt->up || !pt->admin) cause = DROP_DOWN;
  else if (pt->rx_blackhole) cause = DROP_RX_BLACKHOLE;
  else if (chance(sw, pt->rx_loss)) cause = DROP_RX_LOSS;
  else if (chance(sw, pt->rx_corrupt)) pt->st.rx_corrupted += flip(sw, p);
  if (cause >= 0) drop(sw, pt, p, cause);
  return cause < 0;
}

/* A frame that has come all the way, the port's rx delay included. */
void rx_arrived(struct sw *sw, struct port *pt, struct pkt *p) {
  if (rx_enter(sw, pt, p)) ingress(sw, p);
}

/* A frame from the wire; p is filled. Caller has called advance(now). */
void rx_frame(struct sw *sw, struct port *pt, struct pkt *p, i64 now) {
  if (!rx_enter(sw, pt, p)) return;
  if (pt->rx_delay > 0 || pt->rxd.head) {
    p->t_out = now + pt->rx_delay;
    if (pt->rxd.tail && pt->rxd.tail->t_out > p->t_out) p->t_out = pt->rxd.tail->t_out;
    fifo_push(&pt->rxd, p);
    port_next(sw, pt);
    return;
  }
  ingress(sw, p);
}

/* ---- time --------------------------------------------------------------------------------------- */

/* What a port has to do at `t`: all that reaches the end of the wire, then one frame that came
 * in or the queues. `now` is what the clock shows. */
void port_step(struct sw *sw, struct port *pt, i64 t, i64 now) {
  struct pkt *p;
  if (t > sw->core.now) sw->core.now = t;
  while (pt->txd.head && pt->txd.head->t_out <= t) {
    p = fifo_pop(&pt->txd);
    leave(sw, pt, p);
  }
  if (pt->rxd.head && pt->rxd.head->t_out <= t) {
    p = fifo_pop(&pt->rxd);
    ingress(sw, p);
  } else {
    serve(sw, pt, t, now);
    settle(sw);
  }
  port_next(sw, pt);
}

void advance(struct sw *sw, i64 now) {
  if (sw->idle_next <= now) {
    idle_scan(sw, now);
  }
  while (sw->next_dl <= now) {
    struct port *pt = NULL;
    i64 t = NEVER;
    for (u32 i = 0; i < sw->n_ports; i++)
      if (sw->list[i]->next < t) {
        t = sw->list[i]->next;
        pt = sw->list[i];
      }
    sw->next_dl = t;
    if (t > now) break;
    port_step(sw, pt, t, now);
  }
  if (now > sw->core.now) sw->core.now = now;
}

i64 deadline(struct sw *sw) {
  i64 t = NEVER;
  for (u32 i = 0; i < sw->n_ports; i++)
    if (sw->list[i]->next < t) t = sw->list[i]->next;
  sw->next_dl = t;
  return t < sw->idle_next ? t : sw->idle_next;
}

void port_state(struct sw *sw, struct port *pt, int up, i64 now) {
  int was = pt->up && pt->admin;
  if (now > sw->core.now) advance(sw, now);
  pt->up = (u8)(up != 0);
  int is = pt->up && pt->admin;
  groups_refresh(sw, (i32)pt->num);
  if (was && !is) {
    /* the queue drains at once through egress; then everything in flight is lost */
    for (u32 q = sw->queues; q-- > 0;)
      for (struct pkt *p; (p = fifo_pop(&pt->q[q]));) {
        p->deq_qdepth = pt->q[q].n;
        pt->st.dequeued++;
        dequeue(sw, pt, p, sw->core.now);
      }
    for (struct pkt *p; (p = fifo_pop(&pt->txd));) drop(sw, pt, p, DROP_DOWN);
    for (struct pkt *p; (p = fifo_pop(&pt->rxd));) drop(sw, pt, p, DROP_DOWN);
    for (struct pkt *p; (p = fifo_pop(&pt->ready));) drop(sw, pt, p, DROP_DOWN);
    pt->busy_until = sw->core.now;
    pt->rem = 0;
    if (sw->running) settle(sw);
  }
  port_next(sw, pt);
  if (was != is) {
    u32 v[2] = {pt->num, (u32)is};
    event_push(sw, EV_PORT, v, 8, NULL, 0);
  }
}

/* Empty every queue and line without running the program (it is being replaced). */
void drop_all(struct sw *sw, int cause) {
  struct pkt *p;
  for (u32 i = 0; i < sw->n_ports; i++) {
    struct port *pt = sw->list[i];
    for (u32 q = 0; q < MAX_QUEUES; q++)
      while ((p = fifo_pop(&pt->q[q]))) pt->st.dequeued++, drop(sw, pt, p, cause);
    while ((p = fifo_pop(&pt->txd))) drop(sw, pt, p, cause);
    while ((p = fifo_pop(&pt->rxd))) drop(sw, pt, p, cause);
    while ((p = fifo_pop(&pt->ready))) drop(sw, pt, p, cause);
    pt->due = 0;
    pt->next = NEVER;
    pt->busy_until = 0;
  }
  while ((p = fifo_pop(&sw->redo))) drop(sw, NULL, p, cause);
  while ((p = fifo_pop(&sw->out))) {
    struct port *pt = port_get(sw, p->egress_port);
    if (pt) pt->st.tx_packets--, pt->st.tx_bytes -= p->len;
    drop(sw, pt, p, cause);
  }
  sw->n_due = 0;
  sw->next_dl = NEVER;
}

/* ---- the five calls ------------------------------------------------------------------------------- */

int mrc_receive(mrc_sw *sw, uint32_t port, const uint8_t *data, uint32_t len, int64_t now) {
  int rc = 0;
  sw_lock(sw);
  struct port *pt = port_get(sw, port);
  if (now < sw->core.now) now = sw->core.now;
  if (!pt) {
    rc = ERR_PORT;
  } else if (len > MAX_FRAME || len == 0) {
    rc = ERR_LENGTH;
  } else {
    advance(sw, now);
    struct pkt *p = pkt_alloc(sw);
    if (!p) {
      pt->st.rx_packets++;
      pt->st.rx_bytes += len;
      pt->st.drops[DROP_BUFFER]++;
      sw->tot.received++;
      sw->tot.dropped++;
    } else {
      pkt_reset(p, port, len);
      memcpy(p->buf + p->head, data, len);
      rx_frame(sw, pt, p, now);
    }
  }
  sw_unlock(sw);
  driver_kick(sw);
  return rc;
}

/* Next frame that has left by `now`: its length and port, 0 when there is none. */
int64_t mrc_next_out(mrc_sw *sw, int64_t now, uint8_t *buf, uint32_t cap, uint32_t *port) {
  i64 rc = 0;
  sw_lock(sw);
  if (now > sw->core.now) advance(sw, now);
  struct pkt *p = sw->out.head;
  if (p && p->len <= cap) {
    fifo_pop(&sw->out);
    memcpy(buf, p->buf + p->head, p->len);
    *port = p->egress_port;
    rc = p->len;
    sw->tot.sent++;
    pkt_free(sw, p);
  }
  sw_unlock(sw);
  return rc;
}

int64_t mrc_deadline(mrc_sw *sw) {
  sw_lock(sw);
  i64 t = sw->out.head ? sw->core.now : deadline(sw);
  sw_unlock(sw);
  return t == NEVER ? -1 : t;
}

void mrc_advance(mrc_sw *sw, int64_t now) {
  sw_lock(sw);
  if (now > sw->core.now) advance(sw, now);
  sw_unlock(sw);
}
