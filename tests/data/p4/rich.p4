// Most of the language in one small program, for the compiler's tests.
// Copyright the mrclab authors. SPDX-License-Identifier: Apache-2.0
#include <core.p4>
#include <v1model.p4>

#define ETHERTYPE 0x86dd
#define DOUBLE(x) ((x) + (x))

typedef bit<48> mac_t;
@p4runtime_translation("lab/port", 32)
type bit<9> port_t;
enum Mode { plain, structured }
enum bit<8> Next { udp = 17, tcp = 6 }
error { TooDeep }
const bit<8> LIMIT = DOUBLE(4);
const tuple<bit<8>, bool> PAIR = { 3, true };

header eth_t { mac_t dst; mac_t src; bit<16> type; }
header ip_t { bit<4> version; bit<6> dscp; bit<2> ecn; bit<20> label; bit<8> next; bit<8> hops; bit<128> src; bit<128> dst; }
header opt_t { bit<8> size; varbit<320> data; }
header tag_t { bit<7> id; bit<1> bottom; }
header a_t { int<16> v; }
header b_t { bit<16> v; }
header_union u_t { a_t a; b_t b; }
@controller_header("packet_out") header po_t { port_t port; bit<7> pad; }

struct headers { eth_t eth; ip_t ip; opt_t opt; tag_t[3] tags; u_t u; po_t po; }
struct inner { bit<8> depth; bool seen; }
struct meta {
  @field_list(1) bit<8> keep;
  inner n;
  bit<32> sum;
  Mode mode;
  port_t port;
}
struct report { bit<8> depth; bit<128> dst; }

bit<16> fold(in bit<32> v) {
  if (v > 0xffff) { return v[31:16] ^ v[15:0]; }
  return v[15:0];
}

bool acl_hit(in bit<32> v) { return v != 0; }

parser Tags(packet_in p, inout headers h, inout meta m)(bit<8> limit) {
  state start {
    p.extract(h.tags.next);
    m.n.depth = m.n.depth + 1;
    verify(m.n.depth < limit, error.TooDeep);
    transition select(h.tags.last.bottom) { 0: start; 1: accept; }
  }
}

parser P(packet_in p, out headers h, inout meta m, inout standard_metadata_t sm) {
  value_set<bit<16>>(4) extra;
  Tags(LIMIT) tags;
  state start {
    m.mode = Mode.plain;
    transition select(sm.ingress_port) { 510: out_; default: eth; }
  }
  state out_ { p.extract(h.po); transition eth; }
  state eth {
    p.extract(h.eth);
    transition select(h.eth.type, p.lookahead<bit<4>>()) {
      (ETHERTYPE, 6): ip;
      (0x8000 &&& 0xff00, _): tagged;
      (1..5, _): more;
      default: accept;
    }
  }
  state tagged { tags.apply(p, h, m); transition ip; }
  state ip {
    p.extract(h.ip);
    if (h.ip.hops == 0) { m.n.seen = true; }
    transition select(h.ip.next) { Next.udp: union_a; Next.tcp: union_b; 60: more; _: accept; }
  }
  state more {
    p.advance(8);
    p.extract(h.opt, (bit<32>)(p.lookahead<bit<8>>()) * 8);
    transition select(h.eth.type) { extra: accept; default: accept; }
  }
  state union_a { p.extract(h.u.a); transition accept; }
  state union_b { p.extract(h.u.b); transition accept; }
}

control VC(inout headers h, inout meta m) { apply { } }

control Count(in port_t port, inout bit<32> sum)(bit<32> size) {
  counter(size, CounterType.packets_and_bytes) c;
  apply { c.count((bit<32>)(bit<9>)port); sum = sum + 1; }
}

control I(inout headers h, inout meta m, inout standard_metadata_t sm) {
  Count(512) first; Count(16) second;
  register<bit<32>>(64) state_;
  direct_counter(CounterType.packets) dc;
  meter(16, MeterType.bytes) mt;
  action_selector(HashAlgorithm.crc32, 64, 16) sel;
  bit<32> scratch = 5;
  action drop() { mark_to_drop(sm); exit; }
  action forward(port_t port, mac_t dmac) {
    sm.egress_spec = (bit<9>)port;
    m.port = port;
    h.eth.dst = dmac;
    h.ip.hops = h.ip.hops |-| 1;
  }
  action remember(in bit<6> i, bit<32> n) {
    bit<32> v;
    state_.read(v, (bit<32>)i);
    if (v == n) { return; } else { v = v << 1 | n; }
    state_.write((bit<32>)i, v);
    dc.count();
  }
  table route {
    key = { h.ip.dst: lpm; h.ip.label: selector; h.ip.src: selector; }
    actions = { forward; drop; }
    implementation = sel;
    size = 256;
  }
  table acl {
    key = {
      h.ip.isValid(): exact;
      h.ip.src: ternary @name("source");
      h.ip.dscp: range;
      h.ip.next: optional;
      h.ip.label & 0xff: ternary;
    }
    actions = { remember(h.ip.dscp); @defaultonly drop; NoAction; }
    const default_action = NoAction();
    counters = dc;
    const entries = {
      (true, 1 &&& 1, 0..5, 17, _): remember(3);
      (false, _, _, _, 2 &&& 3): NoAction();
    }
  }
  apply {
    if (!h.ip.isValid()) { drop(); }
    route.apply();
    switch (acl.apply().action_run) {
      remember: { first.apply(m.port, m.sum); }
      default: { second.apply(m.port, scratch); }
    }
    if (acl_hit(m.sum) && h.ip.ecn != 0 || m.n.seen) {
      h.ip.ecn = 3;
      h.ip.label[7:0] = (bit<8>)fold(m.sum);
    }
    hash(m.sum, HashAlgorithm.crc32, 32w0, { h.ip.label, m.keep, PAIR[0] }, 32w1024);
    random(m.keep, 8w0, 8w255);
    bit<2> color;
    mt.execute_meter(3, color);
    switch (color) { 0: 1: { m.mode = Mode.structured; } default: { truncate(128); } }
    if (m.mode == Mode.structured) {
      digest<report>(1, { m.n.depth, h.ip.dst });
      clone_preserving_field_list(CloneType.I2E, 7, 1);
    }
    h.tags.push_front(1);
    h.tags[0] = { id = 3, bottom = 1 };
    h.tags[m.n.depth & 1].id = 7w0x7f;
    log_msg("depth {} sum {}", { m.n.depth, m.sum });
  }
}

control E(inout headers h, inout meta m, inout standard_metadata_t sm) {
  apply {
    if (sm.instance_type == 1) { recirculate_preserving_field_list(1); }
    else { h.u.a.setInvalid(); }
  }
}
control CC(inout headers h, inout meta m) {
  apply { update_checksum(h.ip.isValid(), { h.ip.src, h.ip.dst }, h.eth.type, HashAlgorithm.csum16); }
}
control D(packet_out p, in headers h) {
  apply { p.emit(h.eth); p.emit(h.tags); p.emit(h.ip); p.emit(h.opt); p.emit(h.u); }
}
V1Switch(P(), VC(), I(), E(), CC(), D()) main;
