/* Frames through a switch without sockets, in one loop: what a packet costs, and no more.
 *
 * The calls are given as pointers because the runtime is a library that is loaded already. */
#include <stdint.h>
#include <time.h>

typedef int (*receive_fn)(void *sw, uint32_t port, const uint8_t *data, uint32_t len, int64_t now);
typedef int64_t (*next_fn)(void *sw, int64_t now, uint8_t *buf, uint32_t cap, uint32_t *port);

static uint64_t cpu_ns(void) {
  struct timespec ts;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
  return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* `rounds` times `count` frames of `len` bytes; returns the nanoseconds of CPU they took. */
uint64_t replay(void *receive, void *next, void *sw, uint32_t port, const uint8_t *frames,
                uint32_t len, uint32_t count, uint32_t rounds, int64_t now, uint64_t *out) {
  static uint8_t buf[16384];
  uint32_t from;
  uint64_t began = cpu_ns(), seen = 0;
  for (uint32_t r = 0; r < rounds; r++)
    for (uint32_t i = 0; i < count; i++) {
      ((receive_fn)receive)(sw, port, frames + (uint64_t)i * len, len, now);
      while (((next_fn)next)(sw, now, buf, sizeof buf, &from) > 0) seen++;
    }
  *out = seen;
  return cpu_ns() - began;
}
