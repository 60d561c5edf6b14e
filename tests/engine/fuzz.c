/* Random packets, table entries and port changes through one program.
 *
 *   fuzz SEED_FRAME ROUNDS PROGRAM.so
 *
 * Built with sanitizers by test_robustness.py; prints "balanced" when every packet was
 * accounted for. */
#include <stdio.h>
#include <stdlib.h>
#include "sw.h"

static u64 rng[4];
static u32 below(u32 n) { return (u32)rng_between(rng, 0, n - 1); }

static void random_entries(mrc_sw *sw) {
  for (u32 t = 0; t < sw->prog->n_tables; t++) {
    const struct table_def *d = &sw->prog->tables[t];
    u64 key[64] = {0}, mask[64] = {0}, data[256] = {0};
    for (u32 i = 0; i < d->words; i++) {
      mask[i] = rng_next(rng) & rng_next(rng);
      key[i] = rng_next(rng) & mask[i];
    }
    for (u32 i = 0; i < d->data_words; i++) data[i] = below(4);
    if (d->profile >= 0) continue;
    i64 e = mrc_entry_add(sw, t, key, mask, below(d->words * 64 + 1), (i32)below(99), E_ACTION, 0,
                          (i32)below(12), data, 0, 0);
    if (e >= 0 && below(3) == 0) mrc_entry_delete(sw, t, (u32)e);
  }
}

int main(int argc, char **argv) {
  static u8 seed[MAX_FRAME], frame[MAX_FRAME], out[1 << 15];
  char err[256] = "";
  if (argc != 4) return 2;
  FILE *f = fopen(argv[1], "rb");
  u32 seed_len = f ? (u32)fread(seed, 1, sizeof seed, f) : 0;
  if (f) fclose(f);
  seed_rng(rng, 42);
  mrc_sw *sw = mrc_new(1, 2, 511, 300);
  if (!sw || mrc_load(sw, argv[3], err, sizeof err)) {
    printf("%s\n", err);
    return 1;
  }
  mrc_commit(sw);
  for (u32 p = 0; p < 4; p++) mrc_port_add(sw, p, p == 3);
  u32 ports[3] = {1, 2, 3}, rids[3] = {1, 2, 3}, port;
  mrc_mcast_set(sw, 1, 3, ports, rids);
  mrc_clone_set(sw, 1, 3, ports, rids, 100, 0);
  i64 now = 0;
  for (int i = 0; i < atoi(argv[2]); i++) {
    u32 len = below(8) ? 1 + below(400) : 1 + below(MAX_FRAME);
    for (u32 k = 0; k < len; k++) frame[k] = k < seed_len ? seed[k] : (u8)rng_next(rng);
    if (below(2))
      for (u32 k = 0; k < len && k < 64; k++) frame[k] = (u8)rng_next(rng);
    for (u32 k = below(4); k > 0; k--) frame[below(len)] = (u8)rng_next(rng);
    now += below(200000);
    mrc_receive(sw, below(3), frame, len, now);
    if (below(20) == 0) random_entries(sw);
    if (below(50) == 0) mrc_port_up(sw, below(3), (int)below(2), now);
    if (below(50) == 0) {
      struct mrc_port_config c = {.rate_bps = below(2) ? 100000000 : 0, .admin_up = 1};
      for (int q = 0; q < 8; q++) c.limits[q] = below(20);
      c.tx_delay_ns = below(1000000);
      c.rx_delay_ns = below(1000000);
      c.loss = c.corrupt = below(2) * 0.1;
      c.rx_loss = c.rx_corrupt = below(2) * 0.1;
      mrc_port_set(sw, below(3), &c, now);
    }
    if (below(3) == 0)
      while (mrc_next_out(sw, now, out, sizeof out, &port) > 0) {}
    while (mrc_next_event(sw, out, sizeof out) > 0) {}
  }
  struct mrc_totals t;
  mrc_get_totals(sw, &t);
  if (t.received + (u64)t.copies == t.sent + t.packet_in + t.dropped + t.held)
    printf("balanced: %llu packets\n", (unsigned long long)t.received);
  mrc_free(sw);
  return 0;
}
