/* The yardstick: move frames from one interface to another with recvmmsg and sendmmsg on
 * AF_PACKET sockets, doing nothing else.
 *
 *   forwarder IN OUT MILLISECONDS CPU
 *
 * Prints one JSON line: frames, CPU nanoseconds of the process, kernel drops at its socket. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "packet_socket.h"

#define BATCH 64
#define FRAME 9280

int main(int argc, char **argv) {
  if (argc != 5) return 2;
  pin(atoi(argv[4]));
  /* as the data path of the switch; on a busy machine it would win by that alone */
  struct sched_param priority = {.sched_priority = 2};
  (void)sched_setscheduler(0, SCHED_RR, &priority);
  int in = packet_socket(argv[1], ETH_P_ALL), out = packet_socket(argv[2], 0);
  if (in < 0 || out < 0) {
    perror("forwarder");
    return 1;
  }
  static unsigned char buf[BATCH][FRAME];
  struct mmsghdr m[BATCH];
  struct iovec iov[BATCH];
  memset(m, 0, sizeof m);
  long long end = now_ns(CLOCK_MONOTONIC) + atoll(argv[3]) * 1000000, frames = 0;
  printf("ready\n");
  fflush(stdout);
  while (now_ns(CLOCK_MONOTONIC) < end) {
    struct pollfd p = {.fd = in, .events = POLLIN};
    if (poll(&p, 1, 20) <= 0) continue;
    for (int i = 0; i < BATCH; i++) {
      iov[i] = (struct iovec){buf[i], FRAME};
      m[i].msg_hdr.msg_iov = &iov[i];
      m[i].msg_hdr.msg_iovlen = 1;
    }
    int n = recvmmsg(in, m, BATCH, MSG_DONTWAIT, NULL);
    for (int i = 0; i < n; i++) iov[i].iov_len = m[i].msg_len;
    for (int done = 0; done < n;) {
      int s = sendmmsg(out, m + done, (unsigned)(n - done), 0);
      if (s < 0 && errno != ENOBUFS && errno != EINTR) break;
      if (s > 0) {
        done += s;
        frames += s;
      }
    }
  }
  struct tpacket_stats st = {0};
  socklen_t l = sizeof st;
  getsockopt(in, SOL_PACKET, PACKET_STATISTICS, &st, &l);
  printf("{\"frames\": %lld, \"cpu_ns\": %lld, \"drops\": %u}\n", frames,
         now_ns(CLOCK_PROCESS_CPUTIME_ID), st.tp_drops);
  return 0;
}
