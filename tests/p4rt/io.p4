#include <core.p4>
#include <v1model.p4>
@controller_header("packet_in") header in_t { bit<9> ingress_port; bit<7> _pad; }
@controller_header("packet_out") header out_t { bit<9> egress_port; bit<7> _pad; }
header eth_t { bit<48> dst; bit<48> src; bit<16> type; }
struct headers_t { out_t po; in_t pi; eth_t eth; }
struct meta_t { bit<8> class; }
parser P(packet_in pkt, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {
  state start { transition select(sm.ingress_port) { 510: from_cpu; default: eth; } }
  state from_cpu { pkt.extract(h.po); transition eth; }
  state eth { pkt.extract(h.eth); transition accept; }
}
control VC(inout headers_t h, inout meta_t m) { apply {} }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
  direct_counter(CounterType.packets_and_bytes) dc;
  counter(8, CounterType.packets) seen;
  register<bit<32>>(8) last;
  action drop() { mark_to_drop(sm); }
  action fwd(bit<9> port) { sm.egress_spec = port; }
  action to_cpu() { sm.egress_spec = 510; }
  action flood(bit<16> g) { sm.mcast_grp = g; }
  action mirror(bit<9> port) { sm.egress_spec = port; clone(CloneType.I2E, 5); }
  action setclass(bit<8> c) { m.class = c; }
  table l2 { key = { h.eth.dst: exact; } actions = { fwd; to_cpu; flood; mirror; drop; } default_action = drop(); counters = dc; size = 4096; }
  table acl { key = { h.eth.src: ternary; h.eth.type: range; sm.ingress_port: optional; } actions = { setclass; NoAction; } default_action = NoAction(); size = 64; }
  action_selector(HashAlgorithm.crc16, 64, 16) sel;
  table ecmp { key = { h.eth.type: lpm; h.eth.src: selector; } actions = { fwd; } implementation = sel; size = 16; }
  apply {
    seen.count((bit<32>)sm.ingress_port & 7); last.write(0, (bit<32>)sm.ingress_port);
    if (h.po.isValid()) { sm.egress_spec = h.po.egress_port; h.po.setInvalid(); }
    else { acl.apply(); if (!ecmp.apply().hit) { l2.apply(); } }
    if (m.class == 9) { drop(); }
  }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
  apply { if (sm.egress_port == 510) { h.pi.setValid(); h.pi.ingress_port = sm.ingress_port; } }
}
control CC(inout headers_t h, inout meta_t m) { apply {} }
control D(packet_out pkt, in headers_t h) { apply { pkt.emit(h.pi); pkt.emit(h.eth); } }
V1Switch(P(), VC(), I(), E(), CC(), D()) main;
