// Ingress: route, spray, class, trim.
// SPDX-License-Identifier: Apache-2.0
#ifndef MRC_INGRESS_P4
#define MRC_INGRESS_P4

// Data packets waiting per egress port, as trimming sees them: ingress adds one for each
// packet it admits, egress writes down what the queue still holds whenever a data packet
// leaves. Writing the depth instead of subtracting one makes the register right again after
// packets that never left (tail drop), whatever lost them.
register<bit<32>>(512) occupancy;

// When the queue last moved: the last data packet left, or the first came into an empty
// queue. Microseconds of the switch, modulo 2^32. If the port died with packets waiting, the
// occupancy would stay above the limit, every packet would be trimmed, and no data packet
// would ever leave to correct it; this clock ends that.
register<bit<32>>(512) moved_at;

control FabricIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    // Index: ingress port.
    counter(512, CounterType.packets_and_bytes) received;
    // Index: ingress port * 16 + cause.
    counter(8192, CounterType.packets_and_bytes) drops;
    // Index: egress port * 2 + class (0 data, 1 control). Handed to the queue; what the queue
    // then refuses is the difference to `transmitted`.
    counter(1024, CounterType.packets_and_bytes) forwarded;
    // Index: egress port.
    counter(512, CounterType.packets_and_bytes) trimmed;
    counter(512, CounterType.packets_and_bytes) trimmed_lasthop;

    // --- salt: this switch's number in the spraying hash -------------------------------

    action set_salt(bit<32> value) {
        meta.salt = value;
    }

    table salt {
        actions = { set_salt; }
        default_action = set_salt(0);
    }

    // --- route: where to, by destination -----------------------------------------------

    action forward(port_t port, mac_t smac, mac_t dmac) {
        std.egress_spec = port;
        hdr.ethernet.src = smac;
        hdr.ethernet.dst = dmac;
    }

    action spray(group_t group) {
        meta.group = group;
    }

    action discard() {
        meta.cause = CAUSE_DISCARDED;
    }

    action no_route() {
        meta.cause = CAUSE_NO_ROUTE;
    }

    // Structured EV: `shift` and `mask` cut this hop's bits out of flow label ++ source port.
    // Whatever is no MRC packet has no EV and is sprayed over the same group.
    action steer(group_t group, bit<8> shift, bit<16> mask) {
        meta.group = group;
        meta.path = (bit<16>) ((hdr.ipv6.flow_label[15:0] ++ meta.source_port) >> shift) & mask;
        meta.steered = 1;
    }

    // SRv6: plain MRC packets have no way in such a fabric; everything else does.
    action forward_others(port_t port, mac_t smac, mac_t dmac) {
        forward(port, smac, dmac);
        meta.others_only = 1;
    }

    action spray_others(group_t group) {
        meta.group = group;
        meta.others_only = 1;
    }

    // uN (RFC 9800): the first uSID is this switch's. The next one takes its place, zeroes come
    // in behind, and `next_sid` looks the new top 48 bits up.
    action shift_list() {
        hdr.ipv6.dst = hdr.ipv6.dst[127:96] ++ hdr.ipv6.dst[79:0] ++ 16w0;
        meta.own_sid = 1;
    }

    // uA: the first uSID names a port of this switch. It is used up as well.
    action cross(port_t port, mac_t smac, mac_t dmac) {
        hdr.ipv6.dst = hdr.ipv6.dst[127:96] ++ hdr.ipv6.dst[79:0] ++ 16w0;
        forward(port, smac, dmac);
    }

    table route {
        key = { hdr.ipv6.dst: lpm; }
        actions = {
            forward; spray; discard; no_route;
            steer; forward_others; spray_others; shift_list; cross;
        }
        default_action = no_route();
        size = 16384;
    }

    // --- SRv6 uSID: the list after this switch's own ----------------------------------

    // Where the uSID list is continued in the segment of the SRH.
    action next_container() {
        hdr.ipv6.dst = hdr.srh.segment;
        hdr.srh.segments_left = 0;
    }

    table next_sid {
        key = { hdr.ipv6.dst[127:80]: exact @name("prefix"); }
        actions = { forward; cross; no_route; }
        default_action = no_route();
        size = 2048;
    }

    // --- structured EV: the uplink that the packet names ---------------------------------

    action no_path() {
        meta.cause = CAUSE_NO_PATH;
    }

    table paths {
        key = {
            meta.group: exact;
            meta.path: exact;
        }
        actions = { forward; no_path; }
        default_action = no_path();
        size = 4096;
    }

    // --- spraying: an uplink per packet ------------------------------------------------

    // The exact formula, with test vectors, is in README.md; topologies/ecmp.py computes the
    // same. A CRC is linear, so a salt that was merely one more key would shift all choices by
    // the same constant: multiply to mix it in.
    action mix_entropy() {
        bit<32> h = meta.salt;
        h = (h ^ hdr.ipv6.src[127:96] ^ hdr.ipv6.src[95:64]
               ^ hdr.ipv6.src[63:32] ^ hdr.ipv6.src[31:0]) * 0x85EBCA6B;
        h = h ^ (h >> 13);
        h = (h ^ hdr.ipv6.dst[127:96] ^ hdr.ipv6.dst[95:64]
               ^ hdr.ipv6.dst[63:32] ^ hdr.ipv6.dst[31:0]
               ^ (bit<32>) hdr.ipv6.flow_label[19:16]) * 0xC2B2AE35;
        h = h ^ (h >> 16);
        h = (h ^ (hdr.ipv6.flow_label[15:0] ++ meta.source_port)) * 0x9E3779B1;
        h = h ^ (h >> 15);
        h = h * 0x85EBCA6B;
        h = h ^ (h >> 16);
        meta.selector_key = h;
    }

    action no_uplink() {
        meta.cause = CAUSE_NO_UPLINK;
    }

    action live() { }

    // guard: has the group a live member? bmv2 takes hash mod (active members), which ends
    // the process when none is active, so a group whose members watch ports must not be asked
    // then. And a drop member that is always active, put into the group itself, would take its
    // share of the packets while the others live. So it sits in a group of its own, first, and
    // that group is asked with a key whose CRC-32 is 1: 1 mod (1 + live) is 0, the drop member,
    // exactly when nothing lives. Without failover groups this table is empty and passes all.
    @max_group_size(512)
    action_selector(HashAlgorithm.crc32, 4096, 32) guard_selector;

    table guard {
        key = {
            meta.group: exact;
            meta.selector_key: selector;
        }
        actions = { no_uplink; live; NoAction; }
        implementation = guard_selector;
        size = 256;
    }

    @max_group_size(512)
    action_selector(HashAlgorithm.crc32, 4096, 32) uplink_selector;

    // A table with a selector has no default action on bmv2: a miss leaves egress_spec at
    // DROP_PORT, which is what it holds before.
    table uplinks {
        key = {
            meta.group: exact;
            meta.selector_key: selector;
        }
        actions = { forward; NoAction; }
        implementation = uplink_selector;
        size = 256;
    }

    // --- classes: by DSCP --------------------------------------------------------------

    action control_class() {
        std.priority = CONTROL_PRIORITY;
    }

    action trimmable_class() {
        meta.trimmable = 1;
    }

    // Any other packet is data that must not be trimmed.
    table classes {
        key = { hdr.ipv6.dscp: exact; }
        actions = { control_class; trimmable_class; NoAction; }
        default_action = NoAction();
        size = 64;
    }

    // --- trimming ----------------------------------------------------------------------

    action trim_at(bit<32> limit, bit<32> length, dscp_t dscp, bit<32> patience) {
        meta.trim_limit = limit;
        meta.trim_length = length;
        meta.trim_dscp = dscp;
        meta.trim_patience = patience;
    }

    action trim_at_lasthop(bit<32> limit, bit<32> length, dscp_t dscp, bit<32> patience) {
        meta.lasthop = 1;
        meta.trim_limit = limit;
        meta.trim_length = length;
        meta.trim_dscp = dscp;
        meta.trim_patience = patience;
    }

    table trim_profile {
        key = { std.egress_spec: exact; }
        actions = { trim_at; trim_at_lasthop; NoAction; }
        default_action = NoAction();
        size = 512;
    }

    // One action reads, compares and writes: bmv2 locks the registers of an action for its
    // whole duration; spread over two actions, updates between them are lost.
    action admit() {
        bit<32> waiting;
        bit<32> since;
        occupancy.read(waiting, (bit<32>) std.egress_spec);
        moved_at.read(since, (bit<32>) std.egress_spec);
        bit<32> now = (bit<32>) std.ingress_global_timestamp;
        bit<32> still = now - since;
        waiting = (waiting >= meta.trim_limit && still > meta.trim_patience) ? 32w0 : waiting;
        meta.trim = (waiting >= meta.trim_limit) ? 1w1 : 1w0;
        moved_at.write((bit<32>) std.egress_spec, (waiting == 0) ? now : since);
        occupancy.write((bit<32>) std.egress_spec,
                        (waiting >= meta.trim_limit) ? waiting : waiting + 1);
    }

    // The IPv6 and UDP lengths stay as they were: receivers read the original size from
    // them and accept the mismatch on the trimmed codepoints.
    action cut() {
        hdr.ipv6.dscp = meta.trim_dscp;
        std.priority = CONTROL_PRIORITY;
        truncate(meta.trim_length);
    }

    apply {
        mark_to_drop(std);
        received.count((bit<32>) std.ingress_port);

        if (!hdr.ipv6.isValid()) {
            meta.cause = CAUSE_NOT_IPV6;
        } else if (hdr.ipv6.version != 6) {
            meta.cause = CAUSE_MALFORMED;
        } else if (hdr.ipv6.hop_limit <= 1) {
            meta.cause = CAUSE_HOP_LIMIT;
        } else {
            route.apply();
            if (meta.own_sid == 1) {
                if (hdr.ipv6.dst[95:80] == 0) {
                    if (hdr.srh.isValid() && hdr.srh.segments_left == 1) {
                        next_container();
                    } else {
                        meta.cause = CAUSE_LIST_END;
                    }
                }
                if (meta.cause == CAUSE_NONE) {
                    next_sid.apply();
                }
            } else if (meta.others_only == 1 && hdr.bth.isValid()) {
                meta.cause = CAUSE_NOT_ENCAP;
            } else if (meta.steered == 1 && hdr.bth.isValid()) {
                paths.apply();
            } else if (meta.group != 0) {
                meta.selector_key = GUARD_KEY;
                guard.apply();
                if (meta.cause == CAUSE_NONE) {
                    salt.apply();
                    mix_entropy();
                    uplinks.apply();
                    if (std.egress_spec == DROP_PORT) {
                        meta.cause = CAUSE_NO_UPLINK;
                    }
                }
            }
        }

        if (meta.cause != CAUSE_NONE) {
            mark_to_drop(std);
            drops.count((bit<32>) (std.ingress_port ++ meta.cause));
        } else {
            hdr.ipv6.hop_limit = hdr.ipv6.hop_limit - 1;
            classes.apply();
            if (std.priority == 0) {
                meta.trim_limit = NO_LIMIT;
                if (meta.trimmable == 1) {
                    trim_profile.apply();
                    if (std.packet_length <= meta.trim_length) {
                        meta.trim_limit = NO_LIMIT;
                    }
                }
                admit();
                if (meta.trim == 1) {
                    cut();
                    if (meta.lasthop == 1) {
                        trimmed_lasthop.count((bit<32>) std.egress_spec);
                    } else {
                        trimmed.count((bit<32>) std.egress_spec);
                    }
                }
            }
            forwarded.count((bit<32>) (std.egress_spec ++ std.priority[0:0]));
        }
    }
}

#endif
