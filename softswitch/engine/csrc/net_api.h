/* Virtual time as Python sees it (cffi, ABI mode): switches wired to each other and to NICs.
 * Plain C declarations only, as in api.h. Functions return 0 or a number, or a negative ERR_*.
 *
 * Frames come and go as records, 8-byte aligned: i64 time, u32 NIC, u32 length, the frame,
 * padding. Going in, the time is when a NIC begins to send the frame; coming out, when its
 * last bit has reached the NIC. */

typedef struct net mrc_net;

struct mrc_net_figures {
  uint64_t hops;          /* frames that arrived at a switch */
  uint64_t events;        /* heap entries worked off */
  uint64_t injected, delivered;
  uint64_t packets;       /* buffers ever used at the same time */
  uint64_t packet_bytes;  /* of one buffer */
};

mrc_net *mrc_net_new(uint32_t frame_bytes, uint32_t packets);
void mrc_net_free(mrc_net *net);
int mrc_net_add(mrc_net *net, mrc_sw *sw);
int mrc_net_wire(mrc_net *net, mrc_sw *a, uint32_t port_a, mrc_sw *b, uint32_t port_b);
int64_t mrc_net_nic(mrc_net *net, mrc_sw *sw, uint32_t port, uint64_t rate_bps, int64_t delay_ns,
                    uint32_t group);
int mrc_net_send(mrc_net *net, const uint8_t *records, uint64_t bytes);
int64_t mrc_net_next(mrc_net *net);
int mrc_net_run(mrc_net *net, int64_t until);
uint64_t mrc_net_waiting(mrc_net *net, uint32_t group);
uint64_t mrc_net_take(mrc_net *net, uint32_t group, uint8_t *buf, uint64_t cap);
int mrc_net_cut(mrc_net *net, uint32_t nic, int64_t now);
uint64_t mrc_net_in_flight(mrc_net *net, uint32_t nic);
void mrc_net_get_figures(mrc_net *net, struct mrc_net_figures *out);
