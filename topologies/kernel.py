"""The kernel's side of a fabric: hosts' namespaces, interface settings, interface counters.

What is set here is read back: an interface that is not as wanted raises `WiringError`, one
line that names it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv6Network
from pathlib import Path

from topologies import addressing, netlink
from topologies.netlink import IfStats, LinkInfo, Netlink, VethEnd
from topologies.offloads import Offloads
from topologies.plan import HostPlan, Plan
from topologies.waiting import looks

_SYSCTL = Path("/proc/sys/net/ipv6/conf")

UP_SECONDS = 10.0
"""How long interfaces may take to come up; takes milliseconds on an idle machine."""

FIRST_NIC_INDEX = 101
"""Interface index of a host's NIC port in plane 0; the other planes follow."""
FIRST_PORT_INDEX = 10_001
"""Interface indices of T0 ports that face hosts start here."""

# A host speaks only when spoken to: no router solicitations, no link-local address (so no
# multicast reports from it), no duplicate address detection.
_HOST_DEFAULTS: Mapping[str, str] = {
    "accept_ra": "0",
    "router_solicitations": "0",
    "autoconf": "0",
    "addr_gen_mode": "1",
    "accept_dad": "0",
    "dad_transmits": "0",
}


class WiringError(Exception):
    """The kernel refused something, or an interface is not as wanted. One line."""


@dataclass(frozen=True)
class EndStats:
    """Kernel counters of both ends of a link."""

    a: IfStats
    b: IfStats


class Namespaces:
    """Handles on the network namespaces of hosts, with a netlink socket in each.

    ``None`` stands for the lab's own namespace, where the switches' interfaces are. Not
    thread-safe.
    """

    def __init__(self, pids: Mapping[str, int]) -> None:
        """``pids``: host name -> a process in its network namespace."""
        self._fds: dict[str | None, int | None] = {None: None}
        self._sockets: dict[str | None, Netlink] = {None: Netlink()}
        try:
            for host, pid in pids.items():
                self._fds[host] = netlink.namespace_fd(pid)
                with netlink.namespace(self._fds[host]):
                    self._sockets[host] = Netlink()
        except BaseException:
            self.close()
            raise

    def fd(self, host: str | None) -> int | None:
        """The namespace of a host, None for the lab's own."""
        return self._fds[host]

    def netlink(self, host: str | None) -> Netlink:
        """The socket in a namespace."""
        return self._sockets[host]

    def inside(self, host: str | None, action: Callable[[], None]) -> None:
        """Call ``action`` with this thread in a namespace."""
        with netlink.namespace(self._fds[host]):
            action()

    def close(self) -> None:
        """Close all handles. Idempotent."""
        for sock in self._sockets.values():
            sock.close()
        for fd in self._fds.values():
            if fd is not None:
                os.close(fd)
        self._fds = {None: None}
        self._sockets = {}

    def links(self) -> dict[str, LinkInfo]:
        """Every interface of the fabric by name (loopbacks left out): one dump a namespace."""
        found: dict[str, LinkInfo] = {}
        for sock in self._sockets.values():
            found.update(sock.links())
        found.pop("lo", None)
        return found

    def stats(self, plan: Plan) -> dict[str, EndStats]:
        """Kernel counters of every link of the plan."""
        links = self.links()
        return {
            name: EndStats(links[link.a.ifname].stats, links[link.b.ifname].stats)
            for name, link in plan.links.items()
        }


def _write(path: Path, value: str) -> None:
    """Set a sysctl unless it has the value. Absent ones (older kernels) are left alone."""
    try:
        if path.read_text().strip() != value:
            path.write_text(value)
    except FileNotFoundError:
        return
    except OSError as error:
        raise WiringError(f"set {path} to {value}: {error.strerror}") from None


def require_free_names(plan: Plan, spaces: Namespaces) -> None:
    """Raise WiringError when an interface of the plan's name is there already: it is not ours
    to change, nor to remove later."""
    taken = spaces.links()
    for name, _ in _macs(plan):
        if name in taken:
            raise WiringError(f"{name}: an interface of that name exists already")


def wire(plan: Plan, spaces: Namespaces) -> None:
    """Make all links of the plan, configure both ends, bring them up and check them.

    ``spaces`` has an entry for every host. Raises WiringError.
    """
    try:
        _prepare_hosts(plan, spaces)
        _make_links(plan, spaces)
        _finish_switch_ends(plan, spaces)
        for host in plan.hosts.values():
            _finish_host(plan, host, spaces)
    except OSError as error:
        raise WiringError(str(error)) from None
    _await_up(plan, spaces)
    check(plan, spaces)


def _await_up(plan: Plan, spaces: Namespaces) -> None:
    """Wait until every interface runs: the kernel turns carrier into state in the background."""
    names = [name for name, _ in _macs(plan)]
    for _ in looks(UP_SECONDS):
        links = spaces.links()
        waiting = [name for name in names if name not in links or not links[name].up]
        if not waiting:
            return
    listed = ", ".join(waiting[:4]) + (", ..." if len(waiting) > 4 else "")
    raise WiringError(f"not up after {UP_SECONDS:g} s: {listed}")


def _prepare_hosts(plan: Plan, spaces: Namespaces) -> None:
    def defaults() -> None:
        for name, value in _HOST_DEFAULTS.items():
            _write(_SYSCTL / "default" / name, value)

    for host in plan.hosts:
        spaces.inside(host, defaults)


def _make_links(plan: Plan, spaces: Namespaces) -> None:
    requests = []
    for number, link in enumerate(plan.links.values()):
        port = plan.switch(link.b.node).ports[link.b.port]
        if link.kind == "fabric":
            a = VethEnd(link.a.ifname, port.peer_mac)
            b = VethEnd(link.b.ifname, port.mac)
        else:
            # The kernel delays link state by a second when an interface and its peer in
            # another namespace happen to have the same index: give both one of their own.
            # Made from the end that is here, so that the peer is born where it belongs.
            space = spaces.fd(link.a.node)
            a = VethEnd(link.a.ifname, port.peer_mac, space, FIRST_NIC_INDEX + link.plane)
            b = VethEnd(link.b.ifname, port.mac, None, FIRST_PORT_INDEX + number)
        requests.append(netlink.new_veth(b, a, plan.mtu))
    spaces.netlink(None).send(requests)


def _finish_switch_ends(plan: Plan, spaces: Namespaces) -> None:
    sock = spaces.netlink(None)
    infos = sock.links()
    wanted = [infos[p.ifname] for s in plan.switches.values() for p in s.ports.values()]
    with Offloads() as offloads:
        for info in wanted:
            _write(_SYSCTL / info.name / "disable_ipv6", "1")
            _require_off(info.name, offloads.switch_off(info.name))
    # The loopback too: the switches' control sockets are on it.
    sock.send([netlink.set_up(info.index, info.name) for info in (infos["lo"], *wanted)])


def _finish_host(plan: Plan, host: HostPlan, spaces: Namespaces) -> None:
    sock = spaces.netlink(host.name)
    infos = sock.links()

    def offloads_off() -> None:
        with Offloads() as offloads:
            for nic in host.nics:
                _require_off(nic.ifname, offloads.switch_off(nic.ifname))

    spaces.inside(host.name, offloads_off)
    # What comes out of a list of uSIDs is for the agent's NICs; the kernel, which has no such
    # address, must not answer "no route" to it.
    usids = IPv6Network(str(plan.spec.usids))
    requests = [netlink.set_up(infos["lo"].index, "lo"), netlink.add_blackhole(usids)]
    for nic in host.nics:
        index = infos[nic.ifname].index
        both = netlink.IFF_UP | netlink.IFF_NOARP
        requests += [
            # NOARP: no neighbour discovery and no group reports ever leave this interface.
            netlink.set_flags(index, both, both, f"set {nic.ifname} up"),
            netlink.add_address(index, nic.ipv6, 128),
            netlink.add_neighbour(index, addressing.GATEWAY, nic.gateway_mac),
            netlink.add_route(
                index, addressing.plane_prefix(nic.plane), addressing.GATEWAY, nic.ipv6
            ),
        ]
    sock.send(requests)


def _require_off(ifname: str, active: list[str]) -> None:
    if active:
        raise WiringError(f"{ifname}: offloads can't be switched off: {', '.join(active)}")


def check(plan: Plan, spaces: Namespaces) -> None:
    """Read everything back: MTU, MAC, queueing discipline, offloads, IPv6 off on
    switch ends. Raises WiringError for the first difference."""
    links = spaces.links()
    for name, mac in _macs(plan):
        info = links.get(name)
        if info is None:
            raise WiringError(f"{name}: the interface is missing")
        _same(name, "MTU", info.mtu, plan.mtu)
        _same(name, "MAC", info.mac, mac)
        _same(name, "queueing discipline", info.qdisc, "noqueue")
    switch_ends = [p.ifname for s in plan.switches.values() for p in s.ports.values()]
    _check_offloads(switch_ends)
    for name in switch_ends:
        if (_SYSCTL / name).exists():
            _same(name, "disable_ipv6", (_SYSCTL / name / "disable_ipv6").read_text().strip(), "1")
    for host in plan.hosts.values():
        names = [nic.ifname for nic in host.nics]
        spaces.inside(host.name, lambda names=names: _check_offloads(names))  # type: ignore[misc]


def _macs(plan: Plan) -> Iterable[tuple[str, str]]:
    for switch in plan.switches.values():
        for port in switch.ports.values():
            yield port.ifname, port.mac
    for host in plan.hosts.values():
        for nic in host.nics:
            yield nic.ifname, nic.mac


def _check_offloads(names: Iterable[str]) -> None:
    with Offloads() as offloads:
        for name in names:
            _require_off(name, offloads.active(name))


def _same(name: str, what: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise WiringError(f"{name}: {what} is {found}, wanted {wanted}")
