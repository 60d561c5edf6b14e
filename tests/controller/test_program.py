from __future__ import annotations

from ipaddress import IPv6Address

import pytest

from controller import program as p
from controller.counters import CAUSES, Count, cells, cells_of_port, port_counters
from controller.entities import (
    Action,
    DefaultEntry,
    Entity,
    Group,
    GroupMember,
    GroupRef,
    TableEntry,
)
from controller.reconcile import Update, reconcile
from topologies.plan import Plan
from topologies.spec import load_spec

PLAN = Plan.from_spec(load_spec("two-plane"))
T0, T1 = "p0t0-1", "p1t1-0"


def programs(failover_groups: bool = False):
    return p.fabric_program(PLAN, failover_groups=failover_groups)


def entries(switch: str, table: str, failover_groups: bool = False):
    return [e for e in programs(failover_groups)[switch].entries if e.table == table]


def longest_prefix(switch: str, address: str) -> Action:
    value = int(IPv6Address(address))
    best = (-1, None)
    for entry in entries(switch, p.ROUTE):
        prefix, length = entry.match["hdr.ipv6.dst"]
        if value >> (128 - length) == prefix >> (128 - length) and length > best[0]:
            best = (length, entry.action)
    assert best[1] is not None
    return best[1]


def test_every_switch_is_programmed():
    assert set(programs()) == set(PLAN.switches)


def test_following_the_routes_reaches_every_host_from_every_other():
    """Walk the entries: up over any uplink, down by prefix, to the right NIC's MAC."""
    for source in PLAN.hosts.values():
        for target in PLAN.hosts.values():
            if source is target:
                continue
            for nic, wanted in zip(source.nics, target.nics, strict=True):
                for uplink in PLAN.switch(nic.switch).uplinks:
                    here, hops = nic.switch, 0
                    while here in PLAN.switches:
                        hops += 1
                        assert hops <= 3
                        action = longest_prefix(here, wanted.ipv6)
                        port = action.params.get("port", uplink)
                        if action.name == "FabricIngress.spray":
                            assert action.params == {"group": p.UPLINK_GROUP}
                        else:
                            mac = int(PLAN.switch(here).ports[port].peer_mac.replace(":", ""), 16)
                            assert action.params["dmac"] == mac
                        here = PLAN.switch(here).ports[port].peer
                    assert here == target.name
                    assert hops == (1 if source.t0 == target.t0 else 3)


def test_a_host_that_does_not_exist_is_discarded_at_its_own_t0():
    nobody = str(IPv6Address(PLAN.hosts["h0"].nics[0].ipv6) + 0x77)
    assert longest_prefix("p0t0-0", nobody).name == "FabricIngress.discard"
    assert longest_prefix("p0t1-0", nobody).name == "FabricIngress.forward"


def test_static_groups_watch_nothing_and_have_no_guard():
    t0 = programs()[T0]
    (group,) = t0.groups
    assert group.members == (GroupMember(3), GroupMember(4))
    assert not entries(T0, p.GUARD)
    assert entries(T0, p.UPLINKS)[0].action == GroupRef(p.UPLINK_GROUP)
    assert not programs()[T1].groups
    assert not programs()[T1].members


def test_failover_groups_watch_their_ports_behind_a_guard_that_is_first():
    t0 = programs(failover_groups=True)[T0]
    uplinks, guard = t0.groups
    assert uplinks.members == (GroupMember(3, 3), GroupMember(4, 4))
    assert guard.members[0] == GroupMember(p.DEAD_MEMBER)
    assert [m.watch_port for m in guard.members[1:]] == [3, 4]
    assert min(m.member for m in guard.members) == p.DEAD_MEMBER
    actions = {m.id: m.action.name for m in t0.members if m.profile == p.GUARD_SELECTOR}
    assert actions[p.DEAD_MEMBER] == "FabricIngress.no_uplink"
    assert set(actions.values()) == {"FabricIngress.no_uplink", "FabricIngress.live"}


def test_marking_only_inside_the_fabric_and_last_hop_trimming_only_towards_hosts():
    for switch in PLAN.switches.values():
        hosts = {n for n, port in switch.ports.items() if port.kind == "host"}
        fabric = set(switch.ports) - hosts
        assert {e.match["std.egress_port"] for e in entries(switch.name, p.ECN)} == fabric
        trims = {e.match["std.egress_spec"]: e.action for e in entries(switch.name, p.TRIM)}
        assert set(trims) == set(switch.ports)
        for number, action in trims.items():
            last = number in hosts
            assert (action.name == "FabricIngress.trim_at_lasthop") is last
            assert action.params["limit"] == (45 if last else 30)
            assert action.params["dscp"] == (16 if last else 12)


def test_no_trimming_when_the_fabric_does_not_trim():
    spec = PLAN.spec.model_copy(
        update={"trim": PLAN.spec.trim.model_copy(update={"enabled": False})}
    )
    plan = Plan.from_spec(spec)
    switch = plan.switch(T0)
    assert p.trim_profiles(plan, switch) == []


def test_trim_length_keeps_the_deepest_header_stack():
    deepest = 14 + 40 + 24 + 40 + 8 + 12 + 4 + 4 + 16 + 4
    assert deepest <= p.TRIM_LENGTH
    assert p.TRIM_LENGTH % 4 == 0


@pytest.mark.parametrize(("kmin", "kmax"), [(6, 24), (1, 2), (10, 60000)])
def test_the_slope_reaches_certainty_at_kmax(kmin, kmax):
    slope = p.ecn_slope(kmin, kmax)
    assert (kmax - kmin) * slope >= 65536
    assert (kmax - kmin) * (slope - 1) < 65536
    assert (kmax - kmin - 1) * slope < 1 << 32


def test_patience_is_ten_drain_times():
    assert p.patience_us(30, 4252, 100_000_000) == 102_048
    assert p.patience_us(1, 1, 10**12) == 1


def test_salts_differ_and_are_set_by_default_entries():
    salts = [sp.defaults[0].action.params["value"] for sp in programs().values()]
    assert len(set(salts)) == len(PLAN.switches)
    assert all(isinstance(d, DefaultEntry) for sp in programs().values() for d in sp.defaults)


# -- reconcile


def replay(batches: list[list[Update]], held: dict[tuple, Entity]) -> dict[tuple, Entity]:
    """Apply updates as a strict switch does."""
    held = dict(held)
    for batch in batches:
        for update in batch:
            key = update.entity.key
            if update.operation == "INSERT":
                assert key not in held
                held[key] = update.entity
            elif update.operation == "MODIFY":
                assert key in held or isinstance(update.entity, DefaultEntry)
                held[key] = update.entity
            else:
                del held[key]
            members = {k[1:] for k in held if k[0] == "member"}
            groups = {k[1:] for k in held if k[0] == "group"}
            for entity in held.values():
                if isinstance(entity, Group):
                    used = {(entity.profile, member.member) for member in entity.members}
                    assert used <= members, update
                elif isinstance(entity, TableEntry) and isinstance(entity.action, GroupRef):
                    profile = {p.UPLINKS: p.UPLINK_SELECTOR, p.GUARD: p.GUARD_SELECTOR}
                    assert (profile[entity.table], entity.action.group) in groups, update
    return held


def by_key(program: p.SwitchProgram) -> dict[tuple, Entity]:
    return {entity.key: entity for entity in program.entities}


@pytest.mark.parametrize("switch", [T0, T1])
@pytest.mark.parametrize("before", [None, False, True])
@pytest.mark.parametrize("after", [False, True])
def test_reconcile_leads_from_any_state_to_the_wanted_one(switch, before, after):
    held = {} if before is None else by_key(programs(before)[switch])
    wanted = programs(after)[switch]
    batches = reconcile(wanted, held.values())
    assert replay(batches, held) == by_key(wanted)
    if before is after:
        assert batches == []


def test_a_group_whose_watch_ports_change_is_replaced():
    """bmv2 cannot modify it."""
    batches = reconcile(programs(True)[T0], by_key(programs(False)[T0]).values())
    changes = [(u.operation, str(u.entity).split()[0]) for batch in batches for u in batch]
    assert ("MODIFY", p.UPLINK_SELECTOR) not in changes
    assert changes[:2] == [("DELETE", p.UPLINKS), ("DELETE", p.UPLINK_SELECTOR)]
    assert ("INSERT", p.UPLINK_SELECTOR) in changes


def test_a_fresh_switch_takes_three_writes():
    batches = reconcile(programs(True)[T0])
    assert [batch[0].operation for batch in batches] == ["INSERT"] * 3


# -- counters


def test_cells_of_a_port_are_distinct_and_inside_the_arrays():
    sizes = {
        "FabricIngress.drops": 8192,
        "FabricIngress.forwarded": 1024,
        "FabricEgress.transmitted": 1024,
    }
    seen = cells([1, 2, 510])
    assert len(set(seen)) == len(seen)
    assert all(0 <= index < sizes.get(name, 512) for name, index in seen)


def test_counts_land_where_they_belong():
    values = {cell: Count(n, 100 * n) for n, cell in enumerate(cells_of_port(3).values(), 1)}
    port = port_counters([3], values)[3]
    flat = [port.received, port.trimmed, port.trimmed_lasthop, port.marked]
    assert [c.packets for c in flat] == [1, 2, 3, 4]
    assert list(port.drops) == list(CAUSES.values())
    assert port.forwarded["control"] == values["FabricIngress.forwarded", 7]
    assert port.transmitted["data"] == values["FabricEgress.transmitted", 6]
    assert port_counters([9], {})[9].marked == Count()
