"""The uSID list of every way, for hosts (encapsulation) and for people.

A way across a T1 is the list *first T0, T1, last T0, port of the last T0 that faces the host*;
under one T0 it is *T0, port*. Every switch finds its own uSID first, removes it and forwards by
the next one; the last T0 finds its port next, removes that as well, and the host gets a
destination in which nothing but the block is left.

With ``srv6.srh`` the port travels in the one segment of an SRH instead, which the last T0
fetches when the list in the destination has ended.

The same lists with source and destination the same host are loops for probes: host, T0, host
(``uplink=None``) or host, T0, T1, T0, host.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Any

from topologies.plan import HostPlan, Plan, SwitchPlan
from topologies.usid import Sid, SidKind, address_shift

T1_PLACE = 1
"""Place of the T1 in a list that crosses one."""


@dataclass(frozen=True)
class SidList:
    """A list and the containers it travels in."""

    sids: tuple[Sid, ...]
    destination: IPv6Address
    """Outer destination address as the host sends it."""
    segment: IPv6Address | None
    """The SRH's segment; None: no SRH."""

    def __str__(self) -> str:
        return " > ".join(map(str, self.sids))


def sid_of(switch: SwitchPlan) -> Sid:
    """The uSID of a switch."""
    kind: SidKind = "t0" if switch.tier == 0 else "t1"
    return Sid(kind, switch.plane, switch.index)


def sid_list(plan: Plan, src: str, dst: str, plane: int, uplink: int | None) -> SidList:
    """The list for packets from a host to a host. ``uplink``: which uplink of the first T0;
    None, or hosts under the same T0 that differ: no T1.

    Raises UnknownNameError for host names, ValueError for an uplink or plane out of range.
    """
    source, target = plan.host(src), plan.host(dst)
    _check_plane(plan, plane)
    if source.t0 == target.t0 and source is not target:
        uplink = None
    elif uplink is None and source is not target:
        raise ValueError(f"from {src} to {dst} crosses a T1: an uplink is needed")
    sids = [Sid("t0", plane, source.t0)]
    if uplink is not None:
        if not 0 <= uplink < plan.spec.t1_per_plane:
            raise ValueError(f"uplink {uplink} is not 0 to {plan.spec.t1_per_plane - 1}")
        sids += [Sid("t1", plane, uplink), Sid("t0", plane, target.t0)]
    sids.append(_port(target, plane))
    return pack(plan, sids)


def pack(plan: Plan, sids: list[Sid]) -> SidList:
    """A list in its containers."""
    blocks = plan.spec.usids
    numbers = [blocks.usid(sid) for sid in sids]
    if plan.spec.srv6.srh:
        last = blocks.container(numbers[-1:])
        return SidList(tuple(sids), blocks.container(numbers[:-1]), last)
    return SidList(tuple(sids), blocks.container(numbers), None)


def encapsulation(plan: Plan, src: str, dst: str, plane: int) -> dict[str, Any]:
    """How a host computes the outer addresses of an EV: the `encap` object of hosts/wire.

    ``base`` is the list with T1 0; the EV's uplink bits are ored into the T1's place. Under one
    T0 there is nothing to insert.
    """
    same = plan.host(src).t0 == plan.host(dst).t0
    first = sid_list(plan, src, dst, plane, None if same else 0)
    uplink = plan.ev_layout.uplink
    inserts = [] if same else [[uplink.shift, uplink.width, address_shift(T1_PLACE)]]
    made: dict[str, Any] = {"base": str(first.destination), "inserts": inserts}
    if first.segment is not None:
        made["segments"] = [{"base": str(first.segment), "inserts": []}]
    return made


def _port(host: HostPlan, plane: int) -> Sid:
    return Sid("port", plane, host.nics[plane].switch_port)


def _check_plane(plan: Plan, plane: int) -> None:
    if not 0 <= plane < plan.spec.planes:
        raise ValueError(f"plane {plane} is not in this fabric (0 to {plan.spec.planes - 1})")
