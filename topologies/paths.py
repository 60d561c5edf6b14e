"""EV -> path -> links, both ways.

A path from ``src`` to ``dst`` in a plane is host, T0 of src, (T1, T0 of dst,) host. The EV
decides one thing, the T1 (the uplink of the first T0), so an EV names one T0-T1 link on the way
up and one on the way down. How it decides is the fabric's mode:

ecmp         a hash of addresses and EV with the first T0's salt (ecmp.py)
structured   the *uplink* field of the EV (evlayout.py)
srv6         the same field, written by the host into the list of uSIDs (srv6.py)

In the last two an EV says its path without any packet, and a field that names no uplink leads
nowhere: the first T0 drops such packets.

Control packets (SACK, NACK) take the same functions with source and destination swapped:
``path_of(plan, dst, src, plane, reverse_ev)``. In ecmp mode the same EV in the other direction
is in general another path, since addresses and salts enter the hash.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from topologies import addressing, ecmp
from topologies.plan import Plan, SwitchPlan

NO_LINKS: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Path:
    """The way of a packet: names of links and switches in order.

    ``lost_at``: where it is lost, None when it arrives: a link that is down (``links`` then
    ends with it), or a switch whose failover group has no live member.
    """

    links: tuple[str, ...]
    switches: tuple[str, ...]
    lost_at: str | None = None

    def __str__(self) -> str:
        lost = f" (lost at {self.lost_at})" if self.lost_at else ""
        return " > ".join(self.switches) + lost


def live_uplinks(switch: SwitchPlan, down: Collection[str]) -> tuple[int, ...]:
    """Uplink ports whose link is up, ascending: what a failover group chooses among."""
    return tuple(n for n in switch.uplinks if switch.ports[n].link not in down)


def uplink_of(
    plan: Plan,
    switch: SwitchPlan,
    src: str,
    dst: str,
    ev: int,
    down: Collection[str] = NO_LINKS,
    failover_groups: bool = False,
) -> int | None:
    """The uplink port a T0 takes for a packet; None when a failover group has no live member,
    or when the EV names an uplink that the T0 does not have.

    Without failover groups a port that is down stays a member: its packets are lost there.
    ``src`` and ``dst`` are host names; the addresses are those of the switch's plane. Failover
    groups choose in ecmp mode only: in the others the EV has chosen.
    """
    if plan.spec.mode != "ecmp":
        number = plan.ev_layout.uplink.get(ev)
        return switch.uplinks[number] if number < len(switch.uplinks) else None
    members = live_uplinks(switch, down) if failover_groups else switch.uplinks
    return ecmp.pick(_hash(plan, switch, src, dst, ev), members)


def _hash(plan: Plan, switch: SwitchPlan, src: str, dst: str, ev: int) -> int:
    label, sport = ecmp.split_ev(ev, plan.spec.ev.order)
    return ecmp.flow_hash(
        switch.salt,
        _address(plan, src, switch.plane),
        _address(plan, dst, switch.plane),
        label,
        sport,
    )


def _address(plan: Plan, host: str, plane: int) -> int:
    found = plan.host(host)
    return addressing.host_number(plane, found.t0, found.nics[plane].switch_port)


def path_of(
    plan: Plan,
    src: str,
    dst: str,
    plane: int,
    ev: int,
    *,
    down: Collection[str] = NO_LINKS,
    failover_groups: bool = False,
) -> Path:
    """The path of a packet from host ``src`` to host ``dst`` in a plane.

    ``down``: names of links that are down. With ``failover_groups`` the first T0 chooses
    among its live uplinks (a T1 has one port per T0 and cannot steer round it).
    Raises UnknownNameError for host names, ValueError when src is dst or the plane is not
    in the fabric.
    """
    source, target = plan.host(src), plan.host(dst)
    if src == dst:
        raise ValueError(f"{src} to itself crosses no link")
    if not 0 <= plane < plan.spec.planes:
        raise ValueError(f"plane {plane} is not in this fabric (0 to {plan.spec.planes - 1})")
    first, last = plan.at(plane, 0, source.t0), plan.at(plane, 0, target.t0)
    links = [source.nics[plane].link]
    switches = [first.name]
    if first is not last:
        port = uplink_of(plan, first, src, dst, ev, down, failover_groups)
        if port is None:
            return _cut(links, switches, down, lost_at=first.name)
        up = first.ports[port]
        t1 = plan.switch(up.peer)
        links += [up.link, t1.ports[target.t0 + 1].link]
        switches += [t1.name, last.name]
    links.append(target.nics[plane].link)
    return _cut(links, switches, down)


def _cut(
    links: list[str], switches: list[str], down: Collection[str], lost_at: str | None = None
) -> Path:
    """End the path at the first link that is down."""
    for i, link in enumerate(links):
        if link in down:
            return Path(tuple(links[: i + 1]), tuple(switches[:i]), link)
    return Path(tuple(links), tuple(switches), lost_at)


def links_of_ev(plan: Plan, src: str, dst: str, plane: int, ev: int) -> tuple[str, ...]:
    """The links an EV crosses when everything is up."""
    return path_of(plan, src, dst, plane, ev).links


def planned_evs(plan: Plan, plane: int, count: int | None = None) -> tuple[int, ...]:
    """The EVs of a plane that every host is given, active ones first; ``count`` of them, by
    default all (active and backup). Equally many for every uplink, in any stretch.

    In ecmp mode nobody is given EVs (endpoints draw their own), and this is empty.
    """
    spec = plan.spec
    if spec.mode == "ecmp":
        return ()
    if count is None:
        count = (spec.ev.active + spec.ev.backup) // spec.planes
    return tuple(plan.ev_layout.values(plane, spec.t1_per_plane, count))


def planes_of_ev(plan: Plan, ev: int) -> tuple[int, ...]:
    """The planes an EV can be of: the one in its *plane* field (none when there is no such
    plane), or all of them in ecmp mode."""
    if plan.spec.mode == "ecmp":
        return tuple(range(plan.spec.planes))
    plane = plan.ev_layout.plane.get(ev)
    return (plane,) if plane < plan.spec.planes else ()


def flows_over(plan: Plan, link: str) -> Iterator[tuple[str, str]]:
    """(source, destination) of hosts whose packets can cross a link, one pair per pair of T0s,
    for looking links up. Raises UnknownNameError."""
    found = plan.link(link)
    if found.kind == "host":
        host = plan.host(found.a.node)
        other = next((h for h in plan.hosts.values() if h.t0 != host.t0), None)
        other = other or next((h for h in plan.hosts.values() if h is not host), None)
        if other is not None:
            yield host.name, other.name
            yield other.name, host.name
        return
    t0 = plan.switch(found.a.node).index
    near = plan.hosts_under(t0)[0].name
    for index in range(plan.spec.t0_per_plane):
        if index != t0:
            far = plan.hosts_under(index)[0].name
            yield near, far
            yield far, near


def evs_of_link(
    plan: Plan,
    src: str,
    dst: str,
    link: str,
    evs: Iterable[tuple[int, int]],
    *,
    down: Collection[str] = NO_LINKS,
    failover_groups: bool = False,
) -> set[tuple[int, int]]:
    """Those of the (plane, EV) pairs whose path from src to dst crosses a link.

    With ``down`` (and ``failover_groups``) the paths are those of that state of the fabric.
    Raises UnknownNameError for an unknown link.
    """
    plane = plan.link(link).plane
    return {
        (p, ev)
        for p, ev in evs
        if p == plane
        and link in path_of(plan, src, dst, p, ev, down=down, failover_groups=failover_groups).links
    }


def spread(
    plan: Plan,
    src: str,
    dst: str,
    evs: Iterable[tuple[int, int]],
    *,
    down: Collection[str] = NO_LINKS,
    failover_groups: bool = False,
) -> Mapping[str, int]:
    """How many of the (plane, EV) pairs cross each link, for every link any of them crosses."""
    counts: dict[str, int] = {}
    for plane, ev in evs:
        path = path_of(plan, src, dst, plane, ev, down=down, failover_groups=failover_groups)
        for link in path.links:
            counts[link] = counts.get(link, 0) + 1
    return counts


def suspects(
    plan: Plan, src: str, dst: str, bad: Iterable[tuple[int, int]], good: Iterable[tuple[int, int]]
) -> list[str]:
    """Links that explain a set of failing (plane, EV) pairs: crossed by a failing one and by
    no working one; those that explain most failures first, then by name."""
    working: set[str] = set()
    for plane, ev in good:
        working.update(links_of_ev(plan, src, dst, plane, ev))
    counts = spread(plan, src, dst, bad)
    return sorted((n for n in counts if n not in working), key=lambda n: (-counts[n], n))
