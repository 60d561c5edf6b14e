/* The runtime as Python sees it (cffi, ABI mode). Plain C declarations only: this file
 * is also given to cffi's parser. Functions return 0 or an index, or a negative ERR_*. */

typedef struct sw mrc_sw;

struct mrc_port_config {
  uint64_t rate_bps;        /* 0: unlimited */
  uint32_t limits[8];       /* packets per priority */
  int64_t tx_delay_ns, rx_delay_ns;
  double loss, corrupt;     /* probabilities per frame that leaves */
  double rx_loss, rx_corrupt;  /* per frame that arrives */
  uint8_t blackhole, rx_blackhole, admin_up;
};

struct mrc_port_stats {
  uint64_t rx_packets, rx_bytes, tx_packets, tx_bytes;
  uint64_t drops[16];       /* by DROP_* */
  uint64_t corrupted, rx_corrupted, enqueued, dequeued, recirculated;
  uint32_t depth[8];
  uint32_t depth_max, in_flight;
  uint8_t up;
};

struct mrc_totals {
  uint64_t received;        /* from ports, the CPU port included */
  int64_t copies;           /* made by multicast and clones, less originals not sent */
  uint64_t sent;            /* out of ports */
  uint64_t packet_in;       /* to the CPU port */
  uint64_t dropped;         /* all causes that took a packet out of the switch */
  uint64_t held;            /* in queues, delay lines and batches */
};

struct mrc_fidelity {
  uint64_t late_max, late_sum, late_count, loops, cpu_ns, wall_ns;
  uint64_t hist[256];       /* lateness, bucket = 4 * log2(ns) */
};

struct mrc_entry {
  int32_t action;
  uint32_t kind, ref, flags;
  int32_t prio;
  uint64_t pkts, bytes;
  int64_t ttl, idle;
};

mrc_sw *mrc_new(uint64_t seed, uint32_t queues, uint32_t drop_port, uint32_t packets);
void mrc_free(mrc_sw *sw);
int mrc_load(mrc_sw *sw, const char *path, char *err, uint32_t errlen);
void mrc_commit(mrc_sw *sw);
int mrc_loaded(mrc_sw *sw);

int mrc_receive(mrc_sw *sw, uint32_t port, const uint8_t *data, uint32_t len, int64_t now);
int64_t mrc_next_out(mrc_sw *sw, int64_t now, uint8_t *buf, uint32_t cap, uint32_t *port);
int64_t mrc_deadline(mrc_sw *sw);
void mrc_advance(mrc_sw *sw, int64_t now);
int64_t mrc_next_event(mrc_sw *sw, uint8_t *buf, uint32_t cap);
int mrc_wait_event(mrc_sw *sw, int64_t timeout_ns);
void mrc_wake_waiters(mrc_sw *sw);
int mrc_digest_hold(mrc_sw *sw, int64_t ns);
void mrc_hold(mrc_sw *sw);
void mrc_release(mrc_sw *sw);
int64_t mrc_clock(void);
void mrc_set_epoch(mrc_sw *sw, int64_t t0);

int mrc_port_add(mrc_sw *sw, uint32_t port, int is_cpu);
int mrc_port_remove(mrc_sw *sw, uint32_t port);
int mrc_port_set(mrc_sw *sw, uint32_t port, const struct mrc_port_config *c, int64_t now);
int mrc_port_up(mrc_sw *sw, uint32_t port, int up, int64_t now);
int mrc_port_stats(mrc_sw *sw, uint32_t port, struct mrc_port_stats *out, int reset_max);
void mrc_get_totals(mrc_sw *sw, struct mrc_totals *out);
void mrc_get_fidelity(mrc_sw *sw, struct mrc_fidelity *out, int reset);

int64_t mrc_entry_add(mrc_sw *sw, uint32_t table, const uint64_t *key, const uint64_t *mask,
                      uint32_t plen, int32_t prio, uint32_t kind, uint32_t ref, int32_t action,
                      const uint64_t *data, int64_t ttl, int is_const);
int mrc_entry_modify(mrc_sw *sw, uint32_t table, uint32_t entry, uint32_t kind, uint32_t ref,
                     int32_t action, const uint64_t *data, int64_t ttl);
int mrc_entry_delete(mrc_sw *sw, uint32_t table, uint32_t entry);
int mrc_entry_get(mrc_sw *sw, uint32_t table, uint32_t entry, struct mrc_entry *out);
int mrc_entry_count_set(mrc_sw *sw, uint32_t table, uint32_t entry, uint64_t pkts, uint64_t bytes);
int mrc_default_set(mrc_sw *sw, uint32_t table, uint32_t kind, uint32_t ref, int32_t action,
                    const uint64_t *data);
int64_t mrc_member_add(mrc_sw *sw, uint32_t profile, int32_t action, const uint64_t *data);
int mrc_member_modify(mrc_sw *sw, uint32_t profile, uint32_t member, int32_t action,
                      const uint64_t *data);
int mrc_member_delete(mrc_sw *sw, uint32_t profile, uint32_t member);
int64_t mrc_group_new(mrc_sw *sw, uint32_t profile, uint32_t max_size);
int mrc_group_set(mrc_sw *sw, uint32_t profile, uint32_t group, uint32_t n, const uint32_t *members,
                  const uint32_t *weights, const int32_t *watch);
int mrc_group_delete(mrc_sw *sw, uint32_t profile, uint32_t group);

int mrc_counter_read(mrc_sw *sw, uint32_t array, uint32_t first, uint32_t n, uint64_t *pkts,
                     uint64_t *bytes);
int mrc_counter_write(mrc_sw *sw, uint32_t array, uint32_t index, uint64_t pkts, uint64_t bytes);
int mrc_register_read(mrc_sw *sw, uint32_t array, uint32_t first, uint32_t n, uint64_t *words);
int mrc_register_write(mrc_sw *sw, uint32_t array, uint32_t index, const uint64_t *words);
int mrc_meter_set(mrc_sw *sw, uint32_t array, uint32_t index, uint32_t n, const double *per_us,
                  const uint64_t *burst, int64_t now);
int mrc_entry_meter_set(mrc_sw *sw, uint32_t table, uint32_t entry, uint32_t n,
                        const double *per_us, const uint64_t *burst, int64_t now);
int mrc_vset_set(mrc_sw *sw, uint32_t vset, uint32_t n, const uint64_t *words);

int mrc_mcast_set(mrc_sw *sw, uint32_t gid, uint32_t n, const uint32_t *ports,
                  const uint32_t *rids);
int mrc_clone_set(mrc_sw *sw, uint32_t sid, uint32_t n, const uint32_t *ports,
                  const uint32_t *rids, uint32_t length, uint32_t cos);

int mrc_start(mrc_sw *sw, char *err, uint32_t errlen);
int mrc_attach(mrc_sw *sw, uint32_t port, const char *ifname, char *err, uint32_t errlen);
int mrc_detach(mrc_sw *sw, uint32_t port);
void mrc_stop(mrc_sw *sw);
void mrc_kick(mrc_sw *sw);
