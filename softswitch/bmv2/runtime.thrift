// The part of bmv2's Thrift service that this project calls: what the wire needs, and no
// more. Methods, numbers and types are those of bmv2 1.15's runtime and of simple_switch;
// the three services are told apart by their multiplexed names (client.py).

enum MatchType { EXACT = 0, LPM = 1, TERNARY = 2, VALID = 3, RANGE = 4 }

struct MatchExact { 1: binary key }
struct MatchLpm { 1: binary key, 2: i32 prefix_length }
struct MatchTernary { 1: binary key, 2: binary mask }
struct MatchValid { 1: bool key }
struct MatchRange { 1: binary start, 2: binary end_ }

struct Match {
  1: MatchType type,
  2: optional MatchExact exact,
  3: optional MatchLpm lpm,
  4: optional MatchTernary ternary,
  5: optional MatchValid valid,
  6: optional MatchRange range
}

struct EntryOptions { 1: optional i32 priority }
struct CounterValue { 1: i64 bytes, 2: i64 packets }
struct MeterRate { 1: double units_per_micros, 2: i32 burst_size }

struct PortInfo {
  1: i32 port_num,
  2: string iface_name,
  3: bool is_up,
  4: map<string, string> extra
}

exception TableProblem { 1: i32 code }
exception CounterProblem { 1: i32 code }
exception MeterProblem { 1: i32 code }
exception RegisterProblem { 1: i32 code }
exception PortProblem { 1: i32 code }
exception MulticastProblem { 1: i32 code }
exception MirrorProblem { 1: i32 code }

service Standard {
  i32 bm_mt_add_entry(
    1: i32 cxt_id, 2: string table, 3: list<Match> key, 4: string action,
    5: list<binary> data, 6: EntryOptions options) throws (1: TableProblem problem),
  void bm_mt_set_default_action(
    1: i32 cxt_id, 2: string table, 3: string action, 4: list<binary> data)
    throws (1: TableProblem problem),
  void bm_mt_delete_entry(1: i32 cxt_id, 2: string table, 3: i32 handle)
    throws (1: TableProblem problem),

  i32 bm_mt_act_prof_add_member(
    1: i32 cxt_id, 2: string profile, 3: string action, 4: list<binary> data)
    throws (1: TableProblem problem),
  void bm_mt_act_prof_delete_member(1: i32 cxt_id, 2: string profile, 3: i32 member)
    throws (1: TableProblem problem),
  void bm_mt_act_prof_modify_member(
    1: i32 cxt_id, 2: string profile, 3: i32 member, 4: string action, 5: list<binary> data)
    throws (1: TableProblem problem),
  i32 bm_mt_act_prof_create_group(1: i32 cxt_id, 2: string profile)
    throws (1: TableProblem problem),
  void bm_mt_act_prof_delete_group(1: i32 cxt_id, 2: string profile, 3: i32 group)
    throws (1: TableProblem problem),
  void bm_mt_act_prof_add_member_to_group(
    1: i32 cxt_id, 2: string profile, 3: i32 member, 4: i32 group)
    throws (1: TableProblem problem),
  void bm_mt_act_prof_remove_member_from_group(
    1: i32 cxt_id, 2: string profile, 3: i32 member, 4: i32 group)
    throws (1: TableProblem problem),

  i32 bm_mt_indirect_add_entry(
    1: i32 cxt_id, 2: string table, 3: list<Match> key, 4: i32 member, 5: EntryOptions options)
    throws (1: TableProblem problem),
  void bm_mt_indirect_delete_entry(1: i32 cxt_id, 2: string table, 3: i32 handle)
    throws (1: TableProblem problem),
  void bm_mt_indirect_set_default_member(1: i32 cxt_id, 2: string table, 3: i32 member)
    throws (1: TableProblem problem),
  i32 bm_mt_indirect_ws_add_entry(
    1: i32 cxt_id, 2: string table, 3: list<Match> key, 4: i32 group, 5: EntryOptions options)
    throws (1: TableProblem problem),
  void bm_mt_indirect_ws_set_default_group(1: i32 cxt_id, 2: string table, 3: i32 group)
    throws (1: TableProblem problem),

  CounterValue bm_mt_read_counter(1: i32 cxt_id, 2: string table, 3: i32 handle)
    throws (1: TableProblem problem),
  void bm_mt_write_counter(
    1: i32 cxt_id, 2: string table, 3: i32 handle, 4: CounterValue value)
    throws (1: TableProblem problem),
  void bm_mt_set_meter_rates(
    1: i32 cxt_id, 2: string table, 3: i32 handle, 4: list<MeterRate> rates)
    throws (1: TableProblem problem),
  list<MeterRate> bm_mt_get_meter_rates(1: i32 cxt_id, 2: string table, 3: i32 handle)
    throws (1: TableProblem problem),

  CounterValue bm_counter_read(1: i32 cxt_id, 2: string counter, 3: i32 index)
    throws (1: CounterProblem problem),
  void bm_counter_reset_all(1: i32 cxt_id, 2: string counter)
    throws (1: CounterProblem problem),
  void bm_counter_write(
    1: i32 cxt_id, 2: string counter, 3: i32 index, 4: CounterValue value)
    throws (1: CounterProblem problem),

  void bm_meter_set_rates(
    1: i32 cxt_id, 2: string meter, 3: i32 index, 4: list<MeterRate> rates)
    throws (1: MeterProblem problem),
  list<MeterRate> bm_meter_get_rates(1: i32 cxt_id, 2: string meter, 3: i32 index)
    throws (1: MeterProblem problem),

  i64 bm_register_read(1: i32 cxt_id, 2: string array, 3: i32 index)
    throws (1: RegisterProblem problem),
  void bm_register_write(1: i32 cxt_id, 2: string array, 3: i32 index, 4: i64 value)
    throws (1: RegisterProblem problem),
  void bm_register_reset(1: i32 cxt_id, 2: string array)
    throws (1: RegisterProblem problem),

  list<PortInfo> bm_dev_mgr_show_ports() throws (1: PortProblem problem)
}

service SimplePreLAG {
  i32 bm_mc_mgrp_create(1: i32 cxt_id, 2: i32 group) throws (1: MulticastProblem problem),
  void bm_mc_mgrp_destroy(1: i32 cxt_id, 2: i32 handle) throws (1: MulticastProblem problem),
  i32 bm_mc_node_create(1: i32 cxt_id, 2: i32 rid, 3: string port_map, 4: string lag_map)
    throws (1: MulticastProblem problem),
  void bm_mc_node_associate(1: i32 cxt_id, 2: i32 handle, 3: i32 node)
    throws (1: MulticastProblem problem),
  void bm_mc_node_dissociate(1: i32 cxt_id, 2: i32 handle, 3: i32 node)
    throws (1: MulticastProblem problem),
  void bm_mc_node_destroy(1: i32 cxt_id, 2: i32 node) throws (1: MulticastProblem problem),
  void bm_mc_node_update(1: i32 cxt_id, 2: i32 node, 3: string port_map, 4: string lag_map)
    throws (1: MulticastProblem problem)
}

struct MirrorSession { 1: optional i32 port, 2: optional i32 mgid }

service SimpleSwitch {
  void mirroring_session_add(1: i32 session, 2: MirrorSession config)
    throws (1: MirrorProblem problem),
  void mirroring_session_delete(1: i32 session) throws (1: MirrorProblem problem),
  MirrorSession mirroring_session_get(1: i32 session) throws (1: MirrorProblem problem),
  i32 set_egress_priority_queue_depth(1: i32 port, 2: i32 priority, 3: i32 packets),
  i32 set_egress_priority_queue_rate(1: i32 port, 2: i32 priority, 3: i64 packets_per_s)
}
