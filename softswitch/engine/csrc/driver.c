/* Real time: one thread moves frames between AF_PACKET sockets and the switch.
 *
 * It sleeps in ppoll() until a frame arrives, a queue is due or somebody wakes it, reads
 * and writes in batches straight from and to packet buffers, and watches the link state of
 * its interfaces through rtnetlink. It changes nothing on the machine but its own sockets.
 *
 * Locks: `io` is held while sockets are used (not while sleeping), the switch mutex while
 * packets are processed (not during system calls). io is taken before the mutex.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "sw.h"

#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif
#define BATCH 64
#define SOCKET_BUFFER (4 << 20)  /* bytes, each way */
#define READY_LIMIT 1024         /* frames waiting for a socket that does not take them */

struct driver {
  pthread_t thread;
  pthread_mutex_t io;
  atomic_int stop, io_waiters, changed;
  int wake, netlink;
  i64 started;      /* what wall and CPU time of the fidelity figures count from */
  u64 cpu_before;
  struct pkt *rx[BATCH];
  u32 n_rx;
};

static void set_err(char *err, u32 n, const char *what, const char *name) {
  snprintf(err, n, "%s %s: %s", what, name, strerror(errno));
}

/* The data path yields to control calls that wait: a pthread mutex is not fair. */
static void path_lock(struct sw *sw) {
  for (int i = 0; i < 100 && atomic_load_explicit(&sw->waiters, memory_order_relaxed); i++)
    sched_yield();
  pthread_mutex_lock(&sw->mu);
}

static void kick(struct driver *d) {
  u64 one = 1;
  ssize_t rc = write(d->wake, &one, sizeof one);
  (void)rc;
}
void driver_kick(struct sw *sw) {
  if (sw->drv) kick(sw->drv);
}

void mrc_kick(mrc_sw *sw) { driver_kick(sw); }

/* ---- receive ------------------------------------------------------------------------------- */

/* The kernel takes VLAN tags out of frames; put one back. */
static void vlan_restore(struct msghdr *h, struct pkt *p) {
  for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c)) {
    if (c->cmsg_level != SOL_PACKET || c->cmsg_type != PACKET_AUXDATA) continue;
    struct tpacket_auxdata a;
    memcpy(&a, CMSG_DATA(c), sizeof a);
    if (!(a.tp_status & TP_STATUS_VLAN_VALID) || p->len < 12) return;
    u32 tpid = a.tp_status & TP_STATUS_VLAN_TPID_VALID ? a.tp_vlan_tpid : 0x8100;
    memmove(p->buf + p->head - 4, p->buf + p->head, 12);
    p->head -= 4;
    p->len += 4;
    st_be(p->buf + p->head + 12, 2, tpid);
    st_be(p->buf + p->head + 14, 2, a.tp_vlan_tci);
    p->ingress_len = p->len;
    p->plen = (i32)p->len;
    return;
  }
}

/* One batch from a port. Returns how many frames came. */
static int receive_batch(struct sw *sw, struct driver *d, struct port *pt) {
  struct mmsghdr m[BATCH];
  struct iovec iov[BATCH];
  union { char b[CMSG_SPACE(sizeof(struct tpacket_auxdata))]; struct cmsghdr align; } ctl[BATCH];
  if (d->n_rx < BATCH) {
    path_lock(sw);
    for (struct pkt *p; d->n_rx < BATCH && (p = pkt_alloc(sw));) d->rx[d->n_rx++] = p;
    sw_unlock(sw);
    if (!d->n_rx) return 0;
  }
  for (u32 i = 0; i < d->n_rx; i++) {
    iov[i].iov_base = d->rx[i]->buf + HEADROOM;
    iov[i].iov_len = MAX_FRAME;
    memset(&m[i].msg_hdr, 0, sizeof m[i].msg_hdr);
    m[i].msg_hdr.msg_iov = &iov[i];
    m[i].msg_hdr.msg_iovlen = 1;
    m[i].msg_hdr.msg_control = ctl[i].b;
    m[i].msg_hdr.msg_controllen = sizeof ctl[i].b;
  }
  int n = recvmmsg(pt->fd, m, d->n_rx, MSG_DONTWAIT, NULL);
  if (n <= 0) return 0;
  i64 now = mrc_clock();
  path_lock(sw);
  if (now < sw->core.now) now = sw->core.now;
  advance(sw, now);
  for (int i = 0; i < n; i++) {
    struct pkt *p = d->rx[i];
    if (m[i].msg_hdr.msg_flags & MSG_TRUNC || !m[i].msg_len) {
      pt->st.rx_packets++;
      pt->st.rx_bytes += m[i].msg_len;
      pt->st.drops[DROP_LONG]++;
      sw->tot.received++;
      sw->tot.dropped++;
      pkt_free(sw, p);
      continue;
    }
    pkt_reset(p, pt->num, m[i].msg_len);
    vlan_restore(&m[i].msg_hdr, p);
    rx_frame(sw, pt, p, now);
  }
  d->n_rx -= (u32)n;
  memmove(d->rx, d->rx + n, d->n_rx * sizeof *d->rx);
  sw_unlock(sw);
  return n;
}

/* ---- send ----------------------------------------------------------------------------------- */

static void send_ready(struct sw *sw, struct port *pt) {
  struct mmsghdr m[BATCH];
  struct iovec iov[BATCH];
  struct pkt *tx[BATCH];
  for (;;) {
    u32 n = 0;
    path_lock(sw);
    while (n < BATCH && pt->ready.head) tx[n++] = fifo_pop(&pt->ready);
    if (pt->fd < 0)
      while (n) {
        pt->st.drops[DROP_TX]++;
        sw->tot.dropped++;
        pkt_free(sw, tx[--n]);
      }
    sw_unlock(sw);
    if (!n) return;
    for (u32 i = 0; i < n; i++) {
      iov[i].iov_base = tx[i]->buf + tx[i]->head;
      iov[i].iov_len = tx[i]->len;
      memset(&m[i].msg_hdr, 0, sizeof m[i].msg_hdr);
      m[i].msg_hdr.msg_iov = &iov[i];
      m[i].msg_hdr.msg_iovlen = 1;
    }
    int sent = sendmmsg(pt->fd, m, n, MSG_DONTWAIT);
    int failed = sent < 0, full = failed && (errno == EAGAIN || errno == EINTR);
    u32 done = failed ? 0 : (u32)sent;
    path_lock(sw);
    for (u32 i = 0; i < done; i++) {
      pt->st.tx_packets++;
      pt->st.tx_bytes += tx[i]->len;
      sw->tot.sent++;
      pkt_free(sw, tx[i]);
    }
    if (failed && !full) {
      pt->st.drops[DROP_TX]++;
      sw->tot.dropped++;
      pkt_free(sw, tx[done++]);
    }
    for (u32 i = n; i-- > done;) {  /* back to where they were */
      tx[i]->next = pt->ready.head;
      pt->ready.head = tx[i];
      if (!pt->ready.tail) pt->ready.tail = tx[i];
      pt->ready.n++;
    }
    while (pt->ready.n > READY_LIMIT) {
      pt->st.drops[DROP_TX]++;
      sw->tot.dropped++;
      pkt_free(sw, fifo_pop(&pt->ready));
    }
    u8 more = pt->ready.head != NULL;
    pt->want_out = (u8)(full && more);
    sw_unlock(sw);
    if (full || !more) return;
  }
}

/* ---- link state --------------------------------------------------------------------------------- */

static int link_is_up(unsigned flags) { return (flags & IFF_UP) && (flags & IFF_RUNNING); }

static void link_set(struct sw *sw, int ifindex, int up) {
  path_lock(sw);
  i64 now = mrc_clock();
  for (u32 i = 0; i < sw->n_ports; i++) {
    struct port *pt = sw->list[i];
    if (pt->fd >= 0 && pt->ifindex == ifindex && pt->up != up) port_state(sw, pt, up, now);
  }
  sw_unlock(sw);
}

static int query_flags(int ifindex, unsigned *flags) {
  struct ifreq r;
  memset(&r, 0, sizeof r);
  int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  int rc = -1;
  if (if_indextoname((unsigned)ifindex, r.ifr_name) && !ioctl(fd, SIOCGIFFLAGS, &r)) {
    *flags = (unsigned)(unsigned short)r.ifr_flags;
    rc = 0;
  }
  close(fd);
  return rc;
}

static void link_requery(struct sw *sw) {
  int idx[512];
  u32 n = 0;
  path_lock(sw);
  for (u32 i = 0; i < sw->n_ports && n < 512; i++)
    if (sw->list[i]->fd >= 0) idx[n++] = sw->list[i]->ifindex;
  sw_unlock(sw);
  for (u32 i = 0; i < n; i++) {
    unsigned flags = 0;
    link_set(sw, idx[i], !query_flags(idx[i], &flags) && link_is_up(flags));
  }
}

static void read_netlink(struct sw *sw, struct driver *d) {
  union { char b[16384]; struct nlmsghdr align; } buf;
  for (;;) {
    ssize_t len = recv(d->netlink, buf.b, sizeof buf.b, MSG_DONTWAIT);
    if (len < 0 && errno == ENOBUFS) {
      link_requery(sw);
      continue;
    }
    if (len <= 0) return;
    unsigned left = (unsigned)len;
    for (struct nlmsghdr *h = &buf.align; NLMSG_OK(h, left); h = NLMSG_NEXT(h, left)) {
      if (h->nlmsg_type != RTM_NEWLINK && h->nlmsg_type != RTM_DELLINK) continue;
      if (h->nlmsg_len < NLMSG_LENGTH(sizeof(struct ifinfomsg))) continue;
      const struct ifinfomsg *i = NLMSG_DATA(h);
      if (i->ifi_family != AF_UNSPEC) continue;
      link_set(sw, i->ifi_index, h->nlmsg_type == RTM_NEWLINK && link_is_up(i->ifi_flags));
    }
  }
}

/* ---- the thread ------------------------------------------------------------------------------------- */

static void io_lock(struct driver *d) {
  for (int i = 0; i < 100 && atomic_load(&d->io_waiters); i++) sched_yield();
  pthread_mutex_lock(&d->io);
}

static void *run(void *arg) {
  struct sw *sw = arg;
  struct driver *d = sw->drv;
  struct pollfd *fds = NULL;
  u32 *nums = NULL, n = 0;
  prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0);
  /* Before ordinary processes and before the hosts' agents (priority 1): a queue that is served
   * late is a link that is slower than it says. Where it is not allowed, the fidelity figures
   * show what it costs. */
  struct sched_param priority = {.sched_priority = 2};
  (void)pthread_setschedparam(pthread_self(), SCHED_RR, &priority);
  prctl(PR_SET_NAME, "datapath", 0, 0, 0);
  io_lock(d);
  while (!atomic_load(&d->stop)) {
    struct timespec ts, *to = NULL;
    if (atomic_exchange(&d->changed, 0)) {
      path_lock(sw);
      struct pollfd *f = realloc(fds, (sw->n_ports + 2) * sizeof *f);
      u32 *p = realloc(nums, (sw->n_ports + 1) * sizeof *p);
      if (f) fds = f;
      if (p) nums = p;
      n = 0;
      for (u32 i = 0; f && p && i < sw->n_ports; i++)
        if (sw->list[i]->fd >= 0) {
          nums[n] = sw->list[i]->num;
          fds[2 + n++].fd = sw->list[i]->fd;
        }
      sw_unlock(sw);
      if (!f || !p) break;
      fds[0].fd = d->wake;
      fds[1].fd = d->netlink;
      fds[0].events = fds[1].events = POLLIN;
    }
    path_lock(sw);
    i64 now = mrc_clock();
    if (now > sw->core.now) advance(sw, now);
    i64 dl = deadline(sw);
    int waiting = 0;
    for (u32 i = 0; i < n; i++) {
      struct port *pt = port_get(sw, nums[i]);
      waiting |= pt->ready.head && !pt->want_out;
    }
    sw->fid.loops++;
    sw_unlock(sw);
    if (waiting)
      for (u32 i = 0; i < n; i++) {
        struct port *pt = port_get(sw, nums[i]);
        if (pt->ready.head && !pt->want_out) send_ready(sw, pt);
      }
    for (u32 i = 0; i < n; i++)
      fds[2 + i].events = POLLIN | (port_get(sw, nums[i])->want_out ? POLLOUT : 0);
    if (dl != NEVER) {
      i64 left = dl - mrc_clock();
      if (left < 0) left = 0;
      ts.tv_sec = left / 1000000000;
      ts.tv_nsec = left % 1000000000;
      to = &ts;
    }
    pthread_mutex_unlock(&d->io);
    int rc = ppoll(fds, n + 2, to, NULL);
    io_lock(d);
    if (rc <= 0 || atomic_load(&d->changed)) continue;
    if (fds[0].revents) {
      u64 v;
      ssize_t got = read(d->wake, &v, sizeof v);
      (void)got;
    }
    if (fds[1].revents) read_netlink(sw, d);
    for (u32 i = 0; i < n; i++) {
      struct port *pt = port_get(sw, nums[i]);
      if (fds[2 + i].revents & POLLOUT) pt->want_out = 0;
      if (fds[2 + i].revents & (POLLIN | POLLERR)) receive_batch(sw, d, pt);
      if (fds[2 + i].revents & POLLERR) {
        int e;
        socklen_t l = sizeof e;
        getsockopt(pt->fd, SOL_SOCKET, SO_ERROR, &e, &l);
      }
    }
  }
  pthread_mutex_unlock(&d->io);
  free(fds);
  free(nums);
  return NULL;
}

/* Stops the thread between two rounds; it looks at the changes when it goes on. */
static void io_enter(struct driver *d) {
  atomic_fetch_add(&d->io_waiters, 1);
  kick(d);
  pthread_mutex_lock(&d->io);
  atomic_fetch_sub(&d->io_waiters, 1);
}
static void io_leave(struct driver *d) {
  atomic_store(&d->changed, 1);
  kick(d);
  pthread_mutex_unlock(&d->io);
}

/* Around a change of program: no packet buffer of the old store may be held. */
void driver_pause(struct sw *sw) {
  if (!sw->drv) return;
  io_enter(sw->drv);
  sw->drv->n_rx = 0;
}
void driver_resume(struct sw *sw) {
  if (sw->drv) io_leave(sw->drv);
}

int mrc_start(mrc_sw *sw, char *err, uint32_t errlen) {
  if (sw->drv) return ERR_STATE;
  struct driver *d = calloc(1, sizeof *d);
  if (!d) return ERR_MEMORY;
  pthread_mutex_init(&d->io, NULL);
  d->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  d->netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
  struct sockaddr_nl a = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK};
  if (d->wake < 0 || d->netlink < 0 || bind(d->netlink, (struct sockaddr *)&a, sizeof a)) {
    set_err(err, errlen, "cannot open", "a netlink socket");
    goto fail;
  }
  sw_lock(sw);
  sw->drv = d;
  sw->real_time = 1;
  sw->core.now = d->started = mrc_clock();
  sw->core.t0 = sw->core.now;
  sw_unlock(sw);
  atomic_store(&d->changed, 1);
  errno = pthread_create(&d->thread, NULL, run, sw);
  if (!errno) return 0;
  set_err(err, errlen, "cannot start", "the data path thread");
  sw->drv = NULL;
  sw->real_time = 0;
fail:
  if (d->wake >= 0) close(d->wake);
  if (d->netlink >= 0) close(d->netlink);
  pthread_mutex_destroy(&d->io);
  free(d);
  return ERR_SYS;
}

int mrc_attach(mrc_sw *sw, uint32_t num, const char *ifname, char *err, uint32_t errlen) {
  struct driver *d = sw->drv;
  if (!d) return ERR_STATE;
  unsigned index = if_nametoindex(ifname), flags = 0;
  if (!index) {
    set_err(err, errlen, "interface", ifname);
    return ERR_SYS;
  }
  int one = 1, size = SOCKET_BUFFER;
  int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) {
    set_err(err, errlen, "cannot open a packet socket for", ifname);
    return ERR_SYS;
  }
  setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one);
  setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof one);
  setsockopt(fd, SOL_PACKET, PACKET_AUXDATA, &one, sizeof one);
  if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size))
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
  if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size))
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
  struct sockaddr_ll ll = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL),
                           .sll_ifindex = (int)index};
  if (bind(fd, (struct sockaddr *)&ll, sizeof ll)) {
    set_err(err, errlen, "cannot bind to", ifname);
    close(fd);
    return ERR_SYS;
  }
  int rc = 0;
  io_enter(d);
  sw_lock(sw);
  struct port *pt = port_get(sw, num);
  if (!pt) rc = ERR_PORT;
  else if (pt->fd >= 0) rc = ERR_DUP;
  else {
    pt->fd = fd;
    pt->ifindex = (int)index;
    /* the watcher is bound already: a change after this query is not missed */
    int up = !query_flags((int)index, &flags) && link_is_up(flags);
    if (pt->up != up) port_state(sw, pt, up, mrc_clock());
  }
  sw_unlock(sw);
  io_leave(d);
  if (rc) close(fd);
  return rc;
}

int mrc_detach(mrc_sw *sw, uint32_t num) {
  struct driver *d = sw->drv;
  if (!d) return 0;
  int fd = -1;
  io_enter(d);
  sw_lock(sw);
  struct port *pt = port_get(sw, num);
  if (pt) {
    fd = pt->fd;
    pt->fd = -1;
    pt->want_out = 0;
    for (struct pkt *p; (p = fifo_pop(&pt->ready));) {
      pt->st.drops[DROP_DOWN]++;
      sw->tot.dropped++;
      pkt_free(sw, p);
    }
  }
  sw_unlock(sw);
  io_leave(d);
  if (fd >= 0) close(fd);
  return pt ? 0 : ERR_PORT;
}

void mrc_stop(mrc_sw *sw) {
  struct driver *d = sw->drv;
  if (!d) return;
  atomic_store(&d->stop, 1);
  kick(d);
  pthread_join(d->thread, NULL);
  sw_lock(sw);
  for (u32 i = 0; i < sw->n_ports; i++) {
    struct port *pt = sw->list[i];
    if (pt->fd >= 0) close(pt->fd);
    pt->fd = -1;
    pt->want_out = 0;
    for (struct pkt *p; (p = fifo_pop(&pt->ready));) {
      pt->st.drops[DROP_DOWN]++;
      sw->tot.dropped++;
      pkt_free(sw, p);
    }
  }
  while (d->n_rx) pkt_free(sw, d->rx[--d->n_rx]);
  sw->drv = NULL;
  sw->real_time = 0;
  sw_unlock(sw);
  close(d->wake);
  close(d->netlink);
  pthread_mutex_destroy(&d->io);
  free(d);
}

/* Frames the kernel dropped because the socket was full; the counter resets on read. */
void driver_socket_drops(struct port *pt) {
  struct tpacket_stats s;
  socklen_t l = sizeof s;
  if (pt->fd >= 0 && !getsockopt(pt->fd, SOL_PACKET, PACKET_STATISTICS, &s, &l))
    pt->st.drops[DROP_RX_SOCKET] += s.tp_drops;
}

void mrc_get_fidelity(mrc_sw *sw, struct mrc_fidelity *out, int reset) {
  sw_lock(sw);
  struct driver *d = sw->drv;
  clockid_t clk;
  struct timespec ts;
  if (d && !pthread_getcpuclockid(d->thread, &clk) && !clock_gettime(clk, &ts)) {
    u64 cpu = (u64)ts.tv_sec * 1000000000u + (u64)ts.tv_nsec;
    i64 now = mrc_clock();
    sw->fid.cpu_ns = cpu - d->cpu_before;
    sw->fid.wall_ns = (u64)(now - d->started);
    if (reset) {
      d->cpu_before = cpu;
      d->started = now;
    }
  }
  *out = sw->fid;
  if (reset) memset(&sw->fid, 0, sizeof sw->fid);
  sw_unlock(sw);
}
