// For tests that see a switch through P4Runtime alone: every packet comes from the controller,
// which says by which port it means it to have come, and goes back to it with what the tables
// decided. So neither interfaces nor root are needed, and any switch can be asked.
#include <core.p4>
#include <v1model.p4>

const bit<9> CPU = 510;
const bit<16> FENCE = 0xffff;  // comes back at once: what was sent before it is done

@controller_header("packet_out")
header out_t { bit<9> port; bit<7> _pad; }
@controller_header("packet_in")
header in_t { bit<9> port; bit<7> _pad; bit<16> instance; bit<8> clone; bit<8> class; }
header eth_t { bit<48> dst; bit<48> src; bit<16> type; }

struct headers_t { in_t pi; out_t po; eth_t eth; }
struct meta_t { bit<9> from; bit<9> to; bit<8> class; bit<2> colour; }
struct learn_t { bit<48> src; bit<9> port; }

parser P(packet_in pkt, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {
  value_set<bit<16>>(4) special;
  state start { transition select(sm.ingress_port) { CPU: out_; default: accept; } }
  state out_ { pkt.extract(h.po); m.from = h.po.port; pkt.extract(h.eth);
    transition select(h.eth.type) { special: known; default: accept; } }
  state known { m.class = 99; transition accept; }
}
control VC(inout headers_t h, inout meta_t m) { apply {} }

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
  direct_counter(CounterType.packets_and_bytes) hits;
  direct_meter<bit<2>>(MeterType.packets) rate;
  counter(8, CounterType.packets_and_bytes) seen;
  meter(4, MeterType.packets) police;
  register<bit<32>>(8) last;
  action drop() { mark_to_drop(sm); }
  action fwd(bit<9> port) { m.to = port; sm.egress_spec = CPU; }
  action flood(bit<16> group) { sm.mcast_grp = group; }
  action mirror(bit<9> port, bit<32> session) {
    m.to = port; sm.egress_spec = CPU; clone(CloneType.I2E, session);
  }
  action set_class(bit<8> class) { m.class = class; }
  action metered(bit<9> port) { rate.read(m.colour); m.to = port; sm.egress_spec = CPU; }
  action learn() { digest<learn_t>(1, { h.eth.src, m.from }); }

  table l2 {
    key = { h.eth.dst: exact; }
    actions = { fwd; flood; mirror; drop; }
    default_action = drop();
    counters = hits;
    size = 64;
  }
  table acl {
    key = { h.eth.src: ternary; h.eth.type: range; m.from: optional; }
    actions = { set_class; NoAction; }
    default_action = NoAction();
    size = 64;
  }
  table route {
    key = { h.eth.dst: lpm; }
    actions = { metered; drop; }
    default_action = drop();
    meters = rate;
    size = 4;
  }
  table smac {
    key = { h.eth.src: exact; }
    actions = { NoAction; learn; }
    default_action = NoAction();
    support_timeout = true;
    size = 16;
  }
  @max_group_size(8)
  action_selector(HashAlgorithm.crc16, 64, 16) sel;
  table ecmp {
    key = { h.eth.type: exact; h.eth.src: selector; }
    actions = { fwd; drop; }
    implementation = sel;
    size = 16;
  }
  table fixed {
    key = { h.eth.type: exact; }
    actions = { set_class; NoAction; }
    const entries = { 0x0800: set_class(1); }
    const default_action = NoAction();
  }
  apply {
    if (h.eth.type == FENCE) {
      sm.egress_spec = CPU;
    } else {
      seen.count((bit<32>) m.from & 7);
      police.execute_meter((bit<32>) m.from & 3, m.colour);
      last.write(1, (bit<32>) m.from);
      fixed.apply(); acl.apply(); smac.apply();
      if (!ecmp.apply().hit && !route.apply().hit) { l2.apply(); }
    }
  }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
  apply {
    h.po.setInvalid();
    h.pi.setValid();
    h.pi.port = m.to;
    h.pi.instance = sm.egress_rid;
    h.pi.clone = sm.instance_type == 1 ? 8w1 : 8w0;
    h.pi.class = m.class;
  }
}
control CC(inout headers_t h, inout meta_t m) { apply {} }
control D(packet_out pkt, in headers_t h) { apply { pkt.emit(h.pi); pkt.emit(h.eth); } }
V1Switch(P(), VC(), I(), E(), CC(), D()) main;
