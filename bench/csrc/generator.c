/* Traffic: send frames from a file in turn, at a given rate or as fast as it goes.
 *
 *   generator OUT FILE MILLISECONDS PACKETS_PER_SECOND CPU
 *
 * The file holds frames of equal length, its first four bytes being that length (native
 * order). Rate 0 is unlimited. Prints one JSON line: frames sent and refused. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "packet_socket.h"

#define BATCH 64

int main(int argc, char **argv) {
  static unsigned char buf[1 << 22];
  unsigned len = 0;
  if (argc != 6) return 2;
  pin(atoi(argv[5]));
  FILE *f = fopen(argv[2], "rb");
  if (!f || fread(&len, 4, 1, f) != 1 || !len || len > 9264) return 2;
  size_t count = fread(buf, 1, sizeof buf, f) / len;
  fclose(f);
  int out = packet_socket(argv[1], 0);
  if (out < 0 || !count) {
    perror("generator");
    return 1;
  }
  long long rate = atoll(argv[4]), start = now_ns(CLOCK_MONOTONIC);
  long long end = start + atoll(argv[3]) * 1000000, sent = 0, refused = 0;
  size_t next = 0;
  struct mmsghdr m[BATCH];
  struct iovec iov[BATCH];
  memset(m, 0, sizeof m);
  for (;;) {
    long long now = now_ns(CLOCK_MONOTONIC), n = BATCH;
    if (now >= end) break;
    if (rate) {
      n = (long long)((double)(now - start) * 1e-9 * (double)rate) - sent - refused;
      if (n > BATCH) n = BATCH;
      if (n <= 0) continue;
    }
    for (int i = 0; i < n; i++) {
      iov[i] = (struct iovec){buf + next * len, len};
      m[i].msg_hdr.msg_iov = &iov[i];
      m[i].msg_hdr.msg_iovlen = 1;
      next = (next + 1) % count;
    }
    int s = sendmmsg(out, m, (unsigned)n, 0);
    if (s > 0) sent += s;
    else refused++;
  }
  printf("{\"sent\": %lld, \"refused\": %lld}\n", sent, refused);
  return 0;
}
