// Egress: occupancy, ECN, counting.
// SPDX-License-Identifier: Apache-2.0
#ifndef MRC_EGRESS_P4
#define MRC_EGRESS_P4

control FabricEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    // Index: egress port * 2 + class (0 data, 1 control). Left the queue.
    counter(1024, CounterType.packets_and_bytes) transmitted;
    // Index: egress port.
    counter(512, CounterType.packets_and_bytes) marked;

    action departed() {
        occupancy.write((bit<32>) std.egress_port, (bit<32>) std.deq_qdepth);
        moved_at.write((bit<32>) std.egress_port, (bit<32>) std.egress_global_timestamp);
    }

    // slope = ceil(65536 / (kmax - kmin)): with a random number r below 65536, the packet is
    // marked when (depth - kmin) * slope > r, so with a probability that rises from 0 at kmin
    // to 1 at kmax.
    action mark_between(bit<19> kmin, bit<19> kmax, bit<32> slope) {
        meta.ecn_kmin = kmin;
        meta.ecn_kmax = kmax;
        meta.ecn_slope = slope;
    }

    // No entry for ports that face hosts: a mark means imbalance inside the fabric, which
    // another path avoids, and never incast, which no path avoids.
    table ecn {
        key = { std.egress_port: exact; }
        actions = { mark_between; NoAction; }
        default_action = NoAction();
        size = 512;
    }

    action mark() {
        hdr.ipv6.ecn = ECN_CE;
        marked.count((bit<32>) std.egress_port);
    }

    apply {
        transmitted.count((bit<32>) (std.egress_port ++ std.priority[0:0]));
        if (std.priority == 0) {
            departed();
            // The depth the packet leaves behind: the mark is as fresh as it can be.
            if (hdr.ipv6.ecn != ECN_NOT_ECT && hdr.ipv6.ecn != ECN_CE) {
                ecn.apply();
                if (meta.ecn_kmax != 0) {
                    if (std.deq_qdepth >= meta.ecn_kmax) {
                        mark();
                    } else if (std.deq_qdepth > meta.ecn_kmin) {
                        bit<32> r;
                        random(r, 32w0, 32w65535);
                        if ((bit<32>) (std.deq_qdepth - meta.ecn_kmin) * meta.ecn_slope > r) {
                            mark();
                        }
                    }
                }
            }
        }
    }
}

#endif
