"""The fabric as a judge sees it: links with their two ends, and the way an EV takes.

Built from `topologies.plan.Plan` by `view_of`; tests build it by hand. Directed links are
named `a>b` after the nodes; rates are bits per second of the whole frame.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from topologies.plan import LinkEnd, Plan

Route = Callable[[str, str, int, int], Sequence[str]]
"""(source host, destination host, plane, EV) -> names of the links in order."""

WRITE_OVERHEAD = 102
"""Bytes of a WRITE frame beside its payload: Ethernet 14, IPv6 40, UDP 8, BTH 12, METH 4,
TSETH 4, RETH 16, iCRC 4 (reference, sections 1 and 2)."""


@dataclass(frozen=True, slots=True)
class End:
    """One end of a link. `port` is the switch port, or the NIC port (1-based) of a host."""

    node: str
    port: int
    ifname: str
    is_host: bool = False


@dataclass(frozen=True, slots=True)
class Link:
    """A link; `a` is the end of the lower tier, so `a -> b` is upward."""

    name: str
    plane: int
    a: End
    b: End
    rate_bps: int
    delay_ns: int

    def ends(self) -> tuple[tuple[End, End], tuple[End, End]]:
        """Both directions as (sender, receiver): upward first."""
        return ((self.a, self.b), (self.b, self.a))


@dataclass(frozen=True)
class FabricView:
    """What judging needs to know of the fabric."""

    name: str
    links: Mapping[str, Link]
    pmtu: int
    time_scale: int
    route: Route = field(repr=False)
    failover_groups: bool = False
    ecn_kmin: int = 0
    """Packets at which marking begins (0: not known)."""
    trim: int = 0
    """Packets at which trimming begins (0: not known, or off)."""
    outer_bytes: int = 0
    """What the srv6 mode puts in front of every packet."""

    @property
    def payload_share(self) -> float:
        """Payload of a full data packet as a share of its frame."""
        return self.pmtu / (self.pmtu + WRITE_OVERHEAD + self.outer_bytes)

    def directed(self, src: str, dst: str, plane: int, ev: int) -> tuple[tuple[Link, bool], ...]:
        """The way of an EV: links in order, each with True when it is taken upward."""
        at = src
        steps: list[tuple[Link, bool]] = []
        for name in self.route(src, dst, plane, ev):
            link = self.links[name]
            upward = link.a.node == at
            at = link.b.node if upward else link.a.node
            steps.append((link, upward))
        return tuple(steps)


def direction_name(link: Link, upward: bool) -> str:
    """`p0t0-0 > p0t1-1`: how a direction of a link is written in reports."""
    first, second = (link.a, link.b) if upward else (link.b, link.a)
    return f"{first.node} > {second.node}"


def view_of(plan: Plan, failover_groups: bool = False) -> FabricView:
    """The view of a fabric's plan."""
    from topologies.paths import path_of  # views made by hand need no plan

    def end(place: LinkEnd) -> End:
        return End(place.node, place.port, place.ifname, place.node in plan.hosts)

    links = {
        link.name: Link(
            link.name,
            link.plane,
            end(link.a),
            end(link.b),
            plan.spec.link.rate,
            plan.spec.link.delay,
        )
        for link in plan.links.values()
    }
    return FabricView(
        name=plan.spec.name,
        links=links,
        pmtu=plan.spec.pmtu,
        time_scale=plan.spec.time_scale,
        route=lambda src, dst, plane, ev: path_of(plan, src, dst, plane, ev).links,
        failover_groups=failover_groups,
        ecn_kmin=plan.spec.thresholds.kmin,
        trim=plan.spec.thresholds.trim if plan.spec.trim.enabled else 0,
        outer_bytes=plan.spec.outer_bytes,
    )
