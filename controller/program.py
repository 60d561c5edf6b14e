"""What every table of every switch holds, computed from the plan. Pure: nothing is sent here.

The names are those of p4src/mrc_fabric.p4; p4src/README.md explains the tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controller.entities import (
    Action,
    DefaultEntry,
    Entity,
    Group,
    GroupMember,
    GroupRef,
    Member,
    TableEntry,
)
from controller.errors import ControllerError
from topologies import addressing
from topologies.plan import Plan, PortPlan, SwitchPlan
from topologies.spec import FabricSpec
from topologies.srv6 import sid_of
from topologies.usid import Sid, UsidBlocks

ROUTE = "FabricIngress.route"
NEXT_SID = "FabricIngress.next_sid"
PATHS = "FabricIngress.paths"
GUARD = "FabricIngress.guard"
UPLINKS = "FabricIngress.uplinks"
SALT = "FabricIngress.salt"
CLASSES = "FabricIngress.classes"
TRIM = "FabricIngress.trim_profile"
ECN = "FabricEgress.ecn"
GUARD_SELECTOR = "FabricIngress.guard_selector"
UPLINK_SELECTOR = "FabricIngress.uplink_selector"

TRIM_LENGTH = 168
"""Bytes kept of a trimmed packet, counted from the first of Ethernet.

The deepest stack that must survive whole: Ethernet 14, outer IPv6 40, SRH with one segment
24, inner IPv6 40, UDP 8, BTH 12, METH 4, TSETH 4, RETH 16, ImmDt 4 = 166, rounded up to a
multiple of 4 as switches do.
"""

UPLINK_GROUP = 1
"""The one group of a T0: all its uplinks."""

DEAD_MEMBER = 1
"""The guard's member that drops; the lowest id, since the guard takes index 0 when alone."""

PATIENCE_FACTOR = 10
"""Drain times of a queue at its trim limit after which its occupancy is not believed."""


@dataclass(frozen=True)
class SwitchProgram:
    """Everything to write into one switch, in the order it must be written."""

    switch: str
    device_id: int
    members: tuple[Member, ...]
    groups: tuple[Group, ...]
    entries: tuple[TableEntry, ...]
    defaults: tuple[DefaultEntry, ...]

    @property
    def batches(self) -> tuple[Sequence[Entity], ...]:
        """One Write request each: a switch may reorder the updates of one request."""
        return (self.members, self.groups, (*self.entries, *self.defaults))

    @property
    def entities(self) -> tuple[Entity, ...]:
        """All of them."""
        return (*self.members, *self.groups, *self.entries, *self.defaults)


def fabric_program(plan: Plan, *, failover_groups: bool) -> dict[str, SwitchProgram]:
    """The contents of all switches of a fabric, by switch name.

    With ``failover_groups`` the members of uplink groups watch their ports, so that a switch
    leaves out an uplink that is down by itself; without, the groups are static.
    """
    return {
        name: switch_program(plan, switch, failover_groups=failover_groups)
        for name, switch in plan.switches.items()
    }


def switch_program(plan: Plan, switch: SwitchPlan, *, failover_groups: bool) -> SwitchProgram:
    """The contents of one switch. Raises as `fabric_program`."""
    mode = plan.spec.mode
    if failover_groups and mode != "ecmp":
        raise ControllerError(
            f"failover groups choose among uplinks in ecmp mode only; in {mode} mode the EV has "
            "chosen, and what it names is down until the endpoint takes another"
        )
    members: list[Member] = []
    groups: list[Group] = []
    entries: list[TableEntry] = []
    if switch.uplinks:
        members += uplink_members(switch)
        groups.append(uplink_group(switch, watch=failover_groups))
        entries.append(TableEntry(UPLINKS, {"meta.group": UPLINK_GROUP}, GroupRef(UPLINK_GROUP)))
        if failover_groups:
            members += guard_members(switch)
            groups.append(guard_group(switch))
            entries.append(TableEntry(GUARD, {"meta.group": UPLINK_GROUP}, GroupRef(UPLINK_GROUP)))
    entries += routes(plan, switch)
    entries += next_sids(plan, switch)
    if mode == "structured":
        entries += named_paths(switch)
    entries += classes(plan)
    entries += trim_profiles(plan, switch)
    entries += ecn_profiles(plan, switch)
    return SwitchProgram(
        switch=switch.name,
        device_id=switch.device_id,
        members=tuple(members),
        groups=tuple(groups),
        entries=tuple(entries),
        defaults=(DefaultEntry(SALT, Action("FabricIngress.set_salt", {"value": switch.salt})),),
    )


# -- uplinks


FORWARD = "FabricIngress.forward"


def forward(port: PortPlan, action: str = FORWARD) -> Action:
    """Send out of a port, from its address to that of its peer."""
    return Action(
        action,
        {"port": port.number, "smac": _mac(port.mac), "dmac": _mac(port.peer_mac)},
    )


def uplink_members(switch: SwitchPlan) -> list[Member]:
    """A member per uplink, ids ascending with the port: the order of selection."""
    return [
        Member(UPLINK_SELECTOR, number, forward(switch.ports[number])) for number in switch.uplinks
    ]


def uplink_group(switch: SwitchPlan, *, watch: bool) -> Group:
    """All uplinks of a switch."""
    members = tuple(
        GroupMember(number, watch_port=number if watch else None) for number in switch.uplinks
    )
    return Group(UPLINK_SELECTOR, UPLINK_GROUP, members)


def guard_members(switch: SwitchPlan) -> list[Member]:
    """The drop member first, then one that passes for each uplink."""
    return [
        Member(GUARD_SELECTOR, DEAD_MEMBER, Action("FabricIngress.no_uplink")),
        *(
            Member(GUARD_SELECTOR, DEAD_MEMBER + number, Action("FabricIngress.live"))
            for number in switch.uplinks
        ),
    ]


def guard_group(switch: SwitchPlan) -> Group:
    """The drop member, always active, and the uplinks, each while its port is up."""
    return Group(
        GUARD_SELECTOR,
        UPLINK_GROUP,
        (
            GroupMember(DEAD_MEMBER),
            *(GroupMember(DEAD_MEMBER + number, watch_port=number) for number in switch.uplinks),
        ),
    )


# -- routes


def routes(plan: Plan, switch: SwitchPlan) -> list[TableEntry]:
    """A T0: a /128 per host port, the plane's /48 up. A T1: a /64 per T0. Both: their own uSID.

    A T0 discards its own /64 otherwise, or a packet to a host that does not exist would
    bounce between the tiers until its hop limit ends it. In srv6 mode these routes are for what
    is not MRC; MRC packets have a list of uSIDs.
    """
    entries: list[TableEntry] = []
    down = "FabricIngress.forward_others" if plan.spec.mode == "srv6" else FORWARD
    for number, port in sorted(switch.ports.items()):
        if port.kind == "host":
            address = addressing.host_number(switch.plane, switch.index, number)
            entries.append(_route(address, 128, forward(port, down)))
        elif port.kind == "t0":
            below = plan.switch(port.peer)
            prefix = addressing.host_number(switch.plane, below.index, 0)
            entries.append(_route(prefix, 64, forward(port, down)))
    if switch.uplinks:
        own = addressing.host_number(switch.plane, switch.index, 0)
        entries.append(_route(own, 64, Action("FabricIngress.discard")))
        above = addressing.host_number(switch.plane, 0, 0)
        entries.append(_route(above, 48, way_up(plan.spec)))
    blocks = plan.spec.usids
    mine = blocks.block << 96 | blocks.usid(sid_of(switch)) << 80
    entries.append(_route(mine, 48, Action("FabricIngress.shift_list")))
    return entries


def way_up(spec: FabricSpec) -> Action:
    """How packets for another T0 find their uplink."""
    group = {"group": UPLINK_GROUP}
    if spec.mode == "structured":
        layout = spec.ev_layout
        cut = {"shift": layout.wire_shift, "mask": layout.uplink.mask}
        return Action("FabricIngress.steer", {**group, **cut})
    name = "FabricIngress.spray_others" if spec.mode == "srv6" else "FabricIngress.spray"
    return Action(name, group)


def _route(prefix: int, length: int, action: Action) -> TableEntry:
    return TableEntry(ROUTE, {"hdr.ipv6.dst": (prefix, length)}, action)


def next_sids(plan: Plan, switch: SwitchPlan) -> list[TableEntry]:
    """Where to go by the uSID after the own one: neighbours (uN), and each port (uA).

    In every mode: data packets have uSIDs in srv6 mode only, but probes that loop through
    switches have them always.
    """
    blocks = plan.spec.usids
    entries = []
    for number, port in sorted(switch.ports.items()):
        here = Sid("port", switch.plane, number)
        entries.append(_sid(blocks, here, forward(port, "FabricIngress.cross")))
        if port.kind != "host":
            entries.append(_sid(blocks, sid_of(plan.switch(port.peer)), forward(port)))
    return entries


def _sid(blocks: UsidBlocks, sid: Sid, action: Action) -> TableEntry:
    return TableEntry(NEXT_SID, {"prefix": blocks.block << 16 | blocks.usid(sid)}, action)


def named_paths(switch: SwitchPlan) -> list[TableEntry]:
    """Structured mode: value of the EV's uplink field -> port. Other values are dropped."""
    return [
        TableEntry(
            PATHS, {"meta.group": UPLINK_GROUP, "meta.path": value}, forward(switch.ports[number])
        )
        for value, number in enumerate(switch.uplinks)
    ]


# -- classes and queue profiles


def classes(plan: Plan) -> list[TableEntry]:
    """Control and trimmed packets first; data that may be trimmed; the rest is plain data."""
    dscp = plan.spec.dscp
    control = (dscp.control, dscp.trimmed, dscp.trimmed_lasthop)
    trimmable = (dscp.trimmable, dscp.trimmable_retx)
    return [
        *(_class(value, "FabricIngress.control_class") for value in sorted(control)),
        *(_class(value, "FabricIngress.trimmable_class") for value in sorted(trimmable)),
    ]


def _class(dscp: int, action: str) -> TableEntry:
    return TableEntry(CLASSES, {"hdr.ipv6.dscp": dscp}, Action(action))


def trim_profiles(plan: Plan, switch: SwitchPlan) -> list[TableEntry]:
    """Limit and codepoint of every port; none when the fabric does not trim."""
    spec = plan.spec
    if not spec.trim.enabled:
        return []
    depths = spec.thresholds
    entries = []
    for number, port in sorted(switch.ports.items()):
        last = port.kind == "host"
        limit = depths.trim_last_hop if last else depths.trim
        params = {
            "limit": limit,
            "length": TRIM_LENGTH,
            "dscp": spec.dscp.trimmed_lasthop if last else spec.dscp.trimmed,
            "patience": patience_us(limit, spec.mtu, port.config.rate_bps),
        }
        name = "FabricIngress.trim_at_lasthop" if last else "FabricIngress.trim_at"
        entries.append(TableEntry(TRIM, {"std.egress_spec": number}, Action(name, params)))
    return entries


def patience_us(limit: int, mtu: int, rate_bps: int) -> int:
    """Microseconds after which a queue of `limit` packets that does not move is not believed."""
    return max(1, -(-PATIENCE_FACTOR * limit * mtu * 8 * 1_000_000 // rate_bps))


def ecn_profiles(plan: Plan, switch: SwitchPlan) -> list[TableEntry]:
    """Marking on ports inside the fabric only (reference 7: off on the last hop)."""
    depths = plan.spec.thresholds
    params = {
        "kmin": depths.kmin,
        "kmax": depths.kmax,
        "slope": ecn_slope(depths.kmin, depths.kmax),
    }
    return [
        TableEntry(ECN, {"std.egress_port": number}, Action("FabricEgress.mark_between", params))
        for number, port in sorted(switch.ports.items())
        if port.kind != "host"
    ]


def ecn_slope(kmin: int, kmax: int) -> int:
    """Rise of the marking probability per packet of depth, in 1/65536, rounded up."""
    return -(-65536 // (kmax - kmin))


def _mac(text: str) -> int:
    return int(text.replace(":", ""), 16)


def entity_counts(programs: Mapping[str, SwitchProgram]) -> int:
    """How many entities a fabric holds."""
    return sum(len(p.entities) for p in programs.values())
