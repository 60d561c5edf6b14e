"""The plan: every switch, port, host, NIC and link of a fabric, computed from its spec.

Names, numbering and addresses are those of docs/architecture.md and addressing.py. Nothing
decides a role by parsing a name: it is in a field here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeVar

from topologies import addressing
from topologies.evlayout import EvLayout
from topologies.spec import FabricSpec
from topologies.yamlspec import suggest

PortKind = Literal["host", "t1", "t0"]
LinkKind = Literal["host", "fabric"]
T = TypeVar("T")

DATA_PRIORITY = 0
CONTROL_PRIORITY = 1
"""Queue of control and trimmed packets; the higher number is served first."""


class UnknownNameError(KeyError):
    """No switch, host or link of that name; ``str()`` suggests the nearest."""

    def __init__(self, kind: str, name: str, known: Mapping[str, object]) -> None:
        super().__init__(name)
        self.text = f"no {kind} {name!r} in this fabric; {suggest(name, known)}"

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class PortSettings:
    """Wanted settings of a switch port; the fields of the switch's port configuration.

    Rates in bits per second, delays in nanoseconds, loss and corruption as shares 0..1.
    """

    rate_bps: int
    queue_limits: tuple[int, int]
    """Packets, by priority: data, control."""
    tx_delay_ns: int
    rx_delay_ns: int = 0
    loss: float = 0.0
    corrupt: float = 0.0
    blackhole: bool = False
    admin_up: bool = True

    def as_dict(self) -> dict[str, Any]:
        """As JSON for the switch's side channel."""
        return {**asdict(self), "queue_limits": list(self.queue_limits)}


@dataclass(frozen=True)
class PortPlan:
    """A switch port."""

    number: int
    kind: PortKind
    """What it faces."""
    peer: str
    """Name of the node at the other end."""
    peer_port: int
    """Its port there: a switch port, or the host's NIC port (plane + 1)."""
    ifname: str
    mac: str
    peer_mac: str
    link: str
    config: PortSettings


@dataclass(frozen=True)
class SwitchPlan:
    """A switch."""

    name: str
    plane: int
    tier: int
    """0: T0, faces hosts; 1: T1."""
    index: int
    """Within plane and tier."""
    device_id: int
    """P4Runtime device id, from 1."""
    salt: int
    """32-bit salt of the entropy hash; different for every switch."""
    ports: Mapping[int, PortPlan]

    @cached_property
    def uplinks(self) -> tuple[int, ...]:
        """Ports that face T1s, ascending (empty on a T1)."""
        return tuple(n for n, p in sorted(self.ports.items()) if p.kind == "t1")


@dataclass(frozen=True)
class NicPlan:
    """A host's NIC port in one plane."""

    plane: int
    port: int
    """As in the MRC API: plane + 1."""
    ifname: str
    mac: str
    ipv6: str
    gateway_mac: str
    """MAC of the T0 port it is wired to."""
    link: str
    switch: str
    switch_port: int


@dataclass(frozen=True)
class HostPlan:
    """A host."""

    name: str
    index: int
    t0: int
    """Index of its T0, the same in every plane."""
    nics: tuple[NicPlan, ...]
    """By plane."""


@dataclass(frozen=True)
class LinkEnd:
    """One end of a link."""

    node: str
    port: int
    ifname: str


@dataclass(frozen=True)
class LinkPlan:
    """A link; ``a`` is the end of the lower tier, ``b`` is always a switch."""

    name: str
    kind: LinkKind
    plane: int
    a: LinkEnd
    b: LinkEnd


@dataclass(frozen=True)
class Plan:
    """A whole fabric; build it with ``Plan.from_spec``."""

    spec: FabricSpec
    switches: Mapping[str, SwitchPlan]
    hosts: Mapping[str, HostPlan]
    links: Mapping[str, LinkPlan]
    _by_place: Mapping[tuple[int, int, int], str] = field(repr=False)

    @classmethod
    def from_spec(cls, spec: FabricSpec) -> Plan:
        """Compute the plan; the spec has been validated, so this cannot fail."""
        return _Planner(spec).plan()

    def switch(self, name: str) -> SwitchPlan:
        """A switch by name. Raises UnknownNameError."""
        return _get("switch", name, self.switches)

    def host(self, name: str) -> HostPlan:
        """A host by name. Raises UnknownNameError."""
        return _get("host", name, self.hosts)

    def link(self, name: str) -> LinkPlan:
        """A link by name. Raises UnknownNameError."""
        return _get("link", name, self.links)

    def at(self, plane: int, tier: int, index: int) -> SwitchPlan:
        """The switch at a position (tier 0: T0, 1: T1). Raises KeyError."""
        return self.switches[self._by_place[plane, tier, index]]

    def hosts_under(self, t0: int) -> list[HostPlan]:
        """Hosts under the T0s of that index."""
        first = t0 * self.spec.hosts_per_t0
        return [self.hosts[f"h{i}"] for i in range(first, first + self.spec.hosts_per_t0)]

    @property
    def mtu(self) -> int:
        """MTU of every interface."""
        return self.spec.mtu

    @cached_property
    def ev_layout(self) -> EvLayout:
        """The spec's EV layout, computed once: paths need it for every EV."""
        return self.spec.ev_layout


def _get(kind: str, name: str, known: Mapping[str, T]) -> T:
    try:
        return known[name]
    except KeyError:
        raise UnknownNameError(kind, name, known) from None


def salt_of(device_id: int) -> int:
    """The hash salt of a switch: an odd-multiplier walk, so neighbours differ in many bits."""
    return (device_id * 0x9E3779B1 ^ 0x5BD1E995) & 0xFFFFFFFF


class _Planner:
    """Builds the parts of a plan; ports and links refer to each other by name only."""

    def __init__(self, spec: FabricSpec) -> None:
        self.spec = spec
        depth = spec.thresholds
        self.limits = (depth.data_limit, depth.control_limit)
        self.links: dict[str, LinkPlan] = {}

    def name(self, plane: int, tier: int, index: int) -> str:
        return f"p{plane}t{tier}-{index}"

    def plan(self) -> Plan:
        spec = self.spec
        switches: dict[str, SwitchPlan] = {}
        places: dict[tuple[int, int, int], str] = {}
        for plane in range(spec.planes):
            for tier, count in ((0, spec.t0_per_plane), (1, spec.t1_per_plane)):
                for index in range(count):
                    name = self.name(plane, tier, index)
                    ports = (
                        self.t0_ports(plane, index) if tier == 0 else self.t1_ports(plane, index)
                    )
                    device_id = len(switches) + 1
                    switches[name] = SwitchPlan(
                        name, plane, tier, index, device_id, salt_of(device_id), ports
                    )
                    places[plane, tier, index] = name
        hosts = {f"h{i}": self.host(i) for i in range(spec.hosts)}
        return Plan(spec, switches, hosts, self.links, places)

    def host(self, index: int) -> HostPlan:
        t0, slot = divmod(index, self.spec.hosts_per_t0)
        nics = []
        for plane in range(self.spec.planes):
            switch = self.name(plane, 0, t0)
            nics.append(
                NicPlan(
                    plane=plane,
                    port=plane + 1,
                    ifname=f"h{index}-p{plane}",
                    mac=addressing.host_mac(plane, index),
                    ipv6=str(addressing.host_address(plane, t0, slot + 1)),
                    gateway_mac=addressing.switch_mac(plane, 0, t0, slot + 1),
                    link=f"h{index}:{switch}",
                    switch=switch,
                    switch_port=slot + 1,
                )
            )
        return HostPlan(f"h{index}", index, t0, tuple(nics))

    def t0_ports(self, plane: int, index: int) -> dict[int, PortPlan]:
        spec = self.spec
        me = self.name(plane, 0, index)
        ports: dict[int, PortPlan] = {}
        for slot in range(spec.hosts_per_t0):
            number = slot + 1
            host = index * spec.hosts_per_t0 + slot
            end = LinkEnd(f"h{host}", plane + 1, f"h{host}-p{plane}")
            ports[number] = PortPlan(
                number=number,
                kind="host",
                peer=end.node,
                peer_port=end.port,
                ifname=f"{me}-{number}",
                mac=addressing.switch_mac(plane, 0, index, number),
                peer_mac=addressing.host_mac(plane, host),
                link=self.link("host", plane, end, LinkEnd(me, number, f"{me}-{number}")),
                config=self.settings(faces_host=True),
            )
        for t1 in range(spec.t1_per_plane):
            number = spec.hosts_per_t0 + t1 + 1
            peer = self.name(plane, 1, t1)
            far = LinkEnd(peer, index + 1, f"{peer}-{index + 1}")
            ports[number] = PortPlan(
                number=number,
                kind="t1",
                peer=peer,
                peer_port=index + 1,
                ifname=f"{me}-{number}",
                mac=addressing.switch_mac(plane, 0, index, number),
                peer_mac=addressing.switch_mac(plane, 1, t1, index + 1),
                link=self.link("fabric", plane, LinkEnd(me, number, f"{me}-{number}"), far),
                config=self.settings(faces_host=False),
            )
        return ports

    def t1_ports(self, plane: int, index: int) -> dict[int, PortPlan]:
        me = self.name(plane, 1, index)
        ports: dict[int, PortPlan] = {}
        for t0 in range(self.spec.t0_per_plane):
            number = t0 + 1
            peer = self.name(plane, 0, t0)
            peer_port = self.spec.hosts_per_t0 + index + 1
            ports[number] = PortPlan(
                number=number,
                kind="t0",
                peer=peer,
                peer_port=peer_port,
                ifname=f"{me}-{number}",
                mac=addressing.switch_mac(plane, 1, index, number),
                peer_mac=addressing.switch_mac(plane, 0, t0, peer_port),
                link=f"{peer}:{me}",
                config=self.settings(faces_host=False),
            )
        return ports

    def link(self, kind: LinkKind, plane: int, a: LinkEnd, b: LinkEnd) -> str:
        name = f"{a.node}:{b.node}"
        self.links[name] = LinkPlan(name, kind, plane, a, b)
        return name

    def settings(self, *, faces_host: bool) -> PortSettings:
        """A host has no delay line of its own, so its T0 port delays both directions."""
        link = self.spec.link
        return PortSettings(
            rate_bps=link.rate,
            queue_limits=self.limits,
            tx_delay_ns=link.delay + link.switch_latency,
            rx_delay_ns=link.delay if faces_host else 0,
        )
