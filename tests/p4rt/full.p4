// One of everything that P4Runtime can control, for tests on the real engine.
#include <core.p4>
#include <v1model.p4>

@p4runtime_translation("mrclab.example/port", 32) type bit<9> port_num_t;
@p4runtime_translation("mrclab.example/nexthop", string) type bit<16> nexthop_t;

@controller_header("packet_in")
header in_t { bit<9> ingress_port; bit<7> _pad; }
@controller_header("packet_out")
header out_t { bit<9> egress_port; bit<7> _pad; }
header eth_t { bit<48> dst; bit<48> src; bit<16> type; }
header two_t { bit<16> a; bit<8> b; bit<8> c; }

struct headers_t { out_t po; in_t pi; eth_t eth; two_t two; }
struct meta_t { bit<8> class; bit<8> seen; port_num_t port; nexthop_t hop; bit<32> colour; }
struct learn_t { bit<48> src; bit<9> port; bit<16> type; }
struct pair_t { @match(ternary) bit<16> a; bit<8> b; }

parser P(packet_in pkt, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {
  value_set<bit<16>>(4) types;
  @name("pairs") value_set<pair_t>(4) pairs;
  state start {
    m.port = (port_num_t) sm.ingress_port;
    transition select(sm.ingress_port) { 510: from_cpu; default: eth; }
  }
  state from_cpu { pkt.extract(h.po); transition eth; }
  state eth {
    pkt.extract(h.eth);
    transition select(h.eth.type) { types: two; default: accept; }
  }
  state two {
    pkt.extract(h.two);
    m.seen = 1;
    transition select(h.two.a, h.two.b) { pairs: both; default: accept; }
  }
  state both { m.seen = 2; transition accept; }
}

control VC(inout headers_t h, inout meta_t m) { apply {} }

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
  direct_counter(CounterType.packets_and_bytes) hits;
  direct_meter<bit<32>>(MeterType.bytes) rate;
  counter(16, CounterType.packets_and_bytes) seen;
  meter(4, MeterType.packets) police;
  register<bit<32>>(8) last;
  register<int<16>>(4) level;
  register<bit<1>>(4) flag;

  action drop() { mark_to_drop(sm); }
  action fwd(bit<9> port) { sm.egress_spec = port; }
  action to(port_num_t port) { sm.egress_spec = (bit<9>) port; }
  action hop(nexthop_t id, bit<9> port) { m.hop = id; sm.egress_spec = port; }
  action to_cpu() { sm.egress_spec = 510; }
  action flood(bit<16> group) { sm.mcast_grp = group; }
  action mirror(bit<9> port, bit<32> session) {
    sm.egress_spec = port;
    clone(CloneType.I2E, session);
  }
  action learn() {
    digest<learn_t>(1, { h.eth.src, sm.ingress_port, h.eth.type });
  }
  action metered(bit<9> port) { rate.read(m.colour); sm.egress_spec = port; }
  action set_class(bit<8> class) { m.class = class; }
  @defaultonly action refuse() { mark_to_drop(sm); }

  table l2 {
    key = { h.eth.dst: exact; }
    actions = { fwd; to; to_cpu; flood; mirror; @tableonly drop; @defaultonly refuse; }
    default_action = refuse();
    counters = hits;
    size = 4096;
  }
  table smac {
    key = { h.eth.src: exact; }
    actions = { NoAction; learn; }
    default_action = learn();
    support_timeout = true;
    size = 64;
  }
  table acl {
    key = { h.eth.src: ternary; h.eth.type: range; sm.ingress_port: optional; }
    actions = { set_class; drop; NoAction; }
    const default_action = NoAction();
    size = 64;
  }
  table route {
    key = { h.eth.dst: lpm; }
    actions = { metered; drop; }
    default_action = drop();
    meters = rate;
    size = 64;
  }
  @max_group_size(8)
  action_selector(HashAlgorithm.crc16, 64, 16) sel;
  table ecmp {
    key = { h.eth.type: lpm; h.eth.src: selector; }
    actions = { fwd; NoAction; }
    implementation = sel;
    size = 16;
  }
  action_profile(16) prof;
  table profiled {
    key = { h.eth.type: exact; m.class: exact; }
    actions = { fwd; drop; NoAction; }
    implementation = prof;
    size = 16;
  }
  table fixed {
    key = { h.eth.type: ternary; }
    actions = { set_class; NoAction; }
    const entries = { 0x0800: set_class(1); 0x0806 &&& 0xfffe: set_class(2); }
    default_action = NoAction();
  }
  table preset {
    key = { h.eth.type: exact; }
    actions = { set_class; NoAction; }
    entries = { 0x1111: set_class(7); 0x2222: NoAction(); }
    default_action = NoAction();
    size = 32;
  }
  table translated {
    key = { m.port: exact; }
    actions = { hop; NoAction; }
    default_action = NoAction();
    size = 16;
  }
  table by_hop {
    key = { m.hop: exact; }
    actions = { set_class; NoAction; }
    default_action = NoAction();
    size = 16;
  }
  table always { actions = { set_class; NoAction; } default_action = NoAction(); }

  apply {
    bit<32> colour;
    seen.count((bit<32>) sm.ingress_port & 15);
    police.execute_meter((bit<32>) sm.ingress_port & 3, colour);
    last.write(0, (bit<32>) sm.ingress_port);
    last.write(1, (bit<32>) m.seen);
    level.write(0, -2);
    flag.write(0, 1);
    always.apply(); fixed.apply(); preset.apply(); translated.apply(); by_hop.apply();
    last.write(2, (bit<32>) m.class);
    if (h.po.isValid()) {
      sm.egress_spec = h.po.egress_port;
      h.po.setInvalid();
    } else {
      smac.apply(); acl.apply();
      if (!profiled.apply().hit && !ecmp.apply().hit && !route.apply().hit) { l2.apply(); }
    }
    last.write(3, m.colour);
  }
}

control E(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
  apply {
    if (sm.egress_port == 510) { h.pi.setValid(); h.pi.ingress_port = sm.ingress_port; }
  }
}
control CC(inout headers_t h, inout meta_t m) { apply {} }
control D(packet_out pkt, in headers_t h) {
  apply { pkt.emit(h.pi); pkt.emit(h.eth); pkt.emit(h.two); }
}
V1Switch(P(), VC(), I(), E(), CC(), D()) main;
