// A program with one of everything that a packet test can command. `kind` chooses the part.

#include <core.p4>
#include <v1model.p4>

header head_t {
    bit<8>  kind;
    bit<8>  a;
    bit<16> b;
    bit<32> c;
}

header tag_t {
    bit<4>  low;
    bit<12> id;
}

struct headers_t {
    head_t   h;
    tag_t[2] tags;
}

struct meta_t {
    bit<2> colour;
    @field_list(1)
    bit<8> kept;
}

parser P(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.h);
        transition select(hdr.h.kind) {
            0x09: tag;
            default: accept;
        }
    }
    state tag {
        packet.extract(hdr.tags.next);
        transition select(hdr.tags.last.low) {
            1: tag;
            default: accept;
        }
    }
}

control Verify(inout headers_t hdr, inout meta_t meta) {
    apply { }
}

control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    counter(4, CounterType.packets_and_bytes) by_a;
    direct_counter(CounterType.packets_and_bytes) hits;
    register<bit<16>>(4) last_b;
    meter(2, MeterType.packets) rate;

    action drop() { mark_to_drop(std); }
    action send(bit<9> port) { std.egress_spec = port; }
    action write(bit<8> value, bit<9> port) {
        hdr.h.a = value;
        std.egress_spec = port;
    }
    action count_out(bit<9> port) {
        hits.count();
        std.egress_spec = port;
    }
    action to_group(bit<16> group) { std.mcast_grp = group; }
    action mirror(bit<32> session, bit<9> port) {
        clone_preserving_field_list(CloneType.I2E, session, 1);
        std.egress_spec = port;
    }

    table exact_t {
        key = { hdr.h.b : exact; }
        actions = { count_out; write; drop; }
        counters = hits;
        default_action = drop();
    }
    table lpm_t {
        key = { hdr.h.c : lpm; }
        actions = { send; drop; }
        default_action = drop();
    }
    table ternary_t {
        key = { hdr.h.b : ternary; hdr.h.a : ternary; }
        actions = { write; drop; }
        default_action = drop();
    }
    table range_t {
        key = { hdr.h.b : range; }
        actions = { send; drop; }
        default_action = drop();
    }
    table optional_t {
        key = { hdr.h.a : optional; hdr.h.b : exact; }
        actions = { send; drop; }
        default_action = drop();
    }
    table valid_t {
        key = { hdr.tags[1].isValid() : exact; hdr.tags[0].id : ternary; }
        actions = { send; drop; }
        default_action = drop();
    }
    action_profile(8) plain;
    table profile_t {
        key = { hdr.h.b : exact; }
        actions = { write; send; }
        implementation = plain;
    }
    action_selector(HashAlgorithm.crc32, 8, 8) spread;
    table selector_t {
        key = { hdr.h.b : exact; hdr.h.c : selector; }
        actions = { send; }
        implementation = spread;
    }
    table group_t {
        key = { hdr.h.b : exact; }
        actions = { to_group; mirror; drop; }
        default_action = drop();
    }
    table fixed_t {
        key = { hdr.h.b : exact; }
        actions = { send; drop; }
        const entries = { 7 : send(7); }
        default_action = drop();
    }

    apply {
        std.egress_spec = 511;
        by_a.count((bit<32>)(hdr.h.a & 3));
        last_b.write((bit<32>)(hdr.h.a & 3), hdr.h.b);
        meta.kept = hdr.h.a;
        if (hdr.h.kind == 1) { exact_t.apply(); }
        else if (hdr.h.kind == 2) { lpm_t.apply(); }
        else if (hdr.h.kind == 3) { ternary_t.apply(); }
        else if (hdr.h.kind == 4) { range_t.apply(); }
        else if (hdr.h.kind == 5) { optional_t.apply(); }
        else if (hdr.h.kind == 6) { profile_t.apply(); }
        else if (hdr.h.kind == 7) { selector_t.apply(); }
        else if (hdr.h.kind == 8) { group_t.apply(); }
        else if (hdr.h.kind == 9) { valid_t.apply(); }
        else if (hdr.h.kind == 10) {
            rate.execute_meter((bit<32>)(hdr.h.a & 1), meta.colour);
            hdr.h.b = (bit<16>)meta.colour;
            std.egress_spec = 1;
        }
        else if (hdr.h.kind == 11) { fixed_t.apply(); }
    }
}

control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        if (std.instance_type == 1) { hdr.h.c = 0xc10e0000 | (bit<32>)meta.kept; }
        if (std.egress_rid != 0) { hdr.h.c = (bit<32>)std.egress_rid; }
    }
}

control Compute(inout headers_t hdr, inout meta_t meta) {
    apply { }
}

control D(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.h);
        packet.emit(hdr.tags);
    }
}

V1Switch(P(), Verify(), I(), E(), Compute(), D()) main;
