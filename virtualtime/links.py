"""Faults and repairs of links in virtual time: `topologies.links.LinkControl` on a `World`.

The wanted state of every link, impairments by value and reading back are the same code; only
cutting and looking go to the virtual fabric instead of the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from topologies import netlink
from topologies.kernel import EndStats, Namespaces
from topologies.links import LinkControl, LinkState
from topologies.netlink import IfStats, LinkInfo
from topologies.plan import LinkEnd, LinkPlan, Plan
from virtualtime.world import World

NO_STATS = IfStats(0, 0, 0, 0, 0, 0, 0, 0)
HostStats = Callable[[str], Mapping[str, Any]]
"""Host -> counters of its NIC ports by number (text), as the agent's `stats` has them."""


class _Interfaces(Namespaces):
    """What `LinkControl` reads of all interfaces at once."""

    def __init__(self, links: VirtualLinks, plan: Plan, host_stats: HostStats) -> None:
        self._links = links
        self._plan = plan
        self._host_stats = host_stats

    def links(self) -> dict[str, LinkInfo]:
        """Every interface of the fabric by name."""
        return {
            end.ifname: self._links.info(link, end)
            for link in self._plan.links.values()
            for end in (link.a, link.b)
        }

    def stats(self, plan: Plan) -> dict[str, EndStats]:
        """Counters of both ends of every link. A switch has no other counters than its own."""
        hosts: dict[str, Mapping[str, Any]] = {}

        def end(place: LinkEnd) -> IfStats:
            if place.node not in plan.hosts:
                return NO_STATS
            if place.node not in hosts:
                hosts[place.node] = self._host_stats(place.node)
            nic = hosts[place.node][str(place.port)]
            return IfStats(
                nic["rx_packets"], nic["tx_packets"], nic["rx_bytes"], nic["tx_bytes"], 0, 0, 0, 0
            )

        return {name: EndStats(end(link.a), end(link.b)) for name, link in plan.links.items()}


class VirtualLinks(LinkControl):
    """Cuts, repairs and impairs the links of a virtual fabric; takes no time."""

    def __init__(self, plan: Plan, world: World, host_stats: HostStats) -> None:
        super().__init__(plan, _Interfaces(self, plan, host_stats), world.fabric.ctl)
        self._world = world
        self._cut: set[str] = set()

    def info(self, link: LinkPlan, end: LinkEnd) -> LinkInfo:
        """An end as the kernel would show it: a cut is the end `b` set down, see LinkControl."""
        cut = link.name in self._cut
        flags = 0 if cut and end == link.b else netlink.IFF_UP
        if not cut:
            flags |= netlink.IFF_RUNNING
        state = "down" if cut else "up"
        return LinkInfo(
            0, end.ifname, flags, self._plan.mtu, "", state, not cut, "noqueue", NO_STATS
        )

    def _info(self, plan: LinkPlan, end: LinkEnd) -> LinkInfo:
        return self.info(plan, end)

    def _set_admin(self, plan: LinkPlan, *, up: bool) -> None:
        if up == (plan.name not in self._cut):
            return
        if up:
            self._cut.discard(plan.name)
        else:
            self._cut.add(plan.name)
        self._world.set_link(plan.name, up)

    def _await(self, plan: LinkPlan, holds: Callable[[LinkState], bool], word: str) -> LinkState:
        state = self.state(plan.name)
        if not holds(state):
            raise AssertionError(f"{plan.name} is not {word}")
        return state
