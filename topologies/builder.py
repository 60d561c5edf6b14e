"""The fabric as a running Mininet network.

``build(plan, backend)`` makes it and returns a `Fabric`; ``Fabric.stop()`` takes it down. It
runs in the network namespace it is called in, which is the lab's own. Hosts are Mininet hosts
in namespaces of their own; switches' interfaces stay in the lab's.

Mininet is used for its nodes, its Python objects and its prompt. Its wiring (a process per
command) is replaced by kernel.py, and what it does to the machine (raising system limits,
killing by name, insisting on ifconfig) is never reached.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from topologies import netlink
from topologies.kernel import Namespaces, WiringError, require_free_names, wire
from topologies.links import LinkControl, LinkError
from topologies.plan import LinkEnd, LinkPlan, NicPlan, Plan, SwitchPlan
from topologies.switches import Backend, SideChannel, SwitchError, SwitchHandle
from topologies.waiting import looks


def _import_shim() -> None:
    """Mininet imports distutils, gone in Python 3.12, for an Open vSwitch version check."""
    try:
        import distutils.version  # noqa: F401
    except ImportError:
        package, module = types.ModuleType("distutils"), types.ModuleType("distutils.version")
        module.StrictVersion = str  # type: ignore[attr-defined]
        package.version = module  # type: ignore[attr-defined]
        sys.modules.setdefault("distutils", package)
        sys.modules.setdefault("distutils.version", module)


_import_shim()

from mininet.link import Intf, Link  # noqa: E402
from mininet.net import Mininet  # noqa: E402
from mininet.node import Host, Node, Switch  # noqa: E402

Progress = Callable[[str], None]


class BuildError(Exception):
    """The fabric could not be built. One line."""


class FabricIntf(Intf):  # type: ignore[misc]
    """An interface that exists and is configured already."""

    def config(self, **_params: object) -> dict[str, Any]:
        return {}

    def updateIP(self) -> str | None:
        """The IPv6 address (plane 0 of a host when a node's name is typed at the prompt)."""
        address: str | None = self.ip
        return address

    def updateMAC(self) -> str | None:
        mac: str | None = self.mac
        return mac

    def updateAddr(self) -> tuple[str | None, str | None]:
        return self.ip, self.mac

    def ifconfig(self, *args: str) -> str:
        """Only ``up`` and ``down``, as Mininet's own code uses it."""
        if args not in (("up",), ("down",)):
            return "only up and down are possible here; use ip\n"
        out: str = self.cmd("ip link set dev", self.name, args[0])
        return out

    def isUp(self, setUp: bool = False) -> bool:
        if setUp:
            return not self.ifconfig("up")
        return ",UP" in self.cmd("ip -br link show dev", self.name)


class FabricLink(Link):  # type: ignore[misc]
    """A link of the plan, wired already."""

    def __init__(
        self, fabric: Fabric, plan: LinkPlan, node1: Node, node2: Node, macs: tuple[str, str]
    ) -> None:
        self.fabric = fabric
        self.plan = plan
        self.fast = True
        self.intf1 = self._intf(node1, plan.a, macs[0])
        self.intf2 = self._intf(node2, plan.b, macs[1])

    def _intf(self, node: Node, end: LinkEnd, mac: str) -> FabricIntf:
        return FabricIntf(
            end.ifname, node=node, port=end.port, link=self, mac=mac, moveIntfFn=self._ignore
        )

    def status(self) -> str:
        """For ``links`` at the prompt: as kernel and switches see the link now."""
        try:
            return str(self.fabric.links.state(self.plan.name))
        except LinkError as problem:
            return f"({problem})"

    def stop(self) -> None:
        """The fabric removes all interfaces in one go."""


class FabricHost(Host):  # type: ignore[misc]
    """A host in a network namespace of its own."""

    isSetup = True

    def config(self, **_params: object) -> dict[str, Any]:
        return {}


class P4Switch(Switch):  # type: ignore[misc]
    """A switch of the plan. Its shell (in the lab's namespace) starts when first used."""

    isSetup = True

    def __init__(self, name: str, plan: SwitchPlan, fabric: Fabric, **params: object) -> None:
        self.plan = plan
        self.fabric = fabric
        self.handle: SwitchHandle | None = None
        self._shell_wanted = False
        Node.__init__(self, name, **{**params, "inNamespace": False})
        self.dpid = f"{plan.device_id:016x}"
        self.opts = ""
        self.listenPort = None
        self.controlIntf = None

    def startShell(self, mnopts: str | None = None) -> None:
        if self._shell_wanted:
            Node.startShell(self, mnopts)
        else:
            self.execed = False
            self.pid = os.getpid()

    def _need_shell(self) -> None:
        if not self.shell:
            self._shell_wanted = True
            self.startShell()

    def cmd(self, *args: Any, **kwargs: Any) -> Any:
        self._need_shell()
        return Node.cmd(self, *args, **kwargs)

    def sendCmd(self, *args: Any, **kwargs: Any) -> None:
        self._need_shell()
        Node.sendCmd(self, *args, **kwargs)

    def config(self, **_params: object) -> dict[str, Any]:
        return {}

    def start(self, _controllers: object) -> None:
        """Start the process again after stop(); its tables are empty then."""
        self.fabric.start_switch(self.name)

    def stop(self, deleteIntfs: bool = False) -> None:
        """End the process; the interfaces stay."""
        self.fabric.stop_switch(self.name)

    def connected(self) -> bool:
        return self.handle is not None


class FabricNet(Mininet):  # type: ignore[misc]
    """A Mininet whose nodes and links are those of a plan."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self.terms: list[Any] = []
        Mininet.inited = True  # no root check, no changes to system limits
        super().__init__(
            controller=None, switch=P4Switch, host=FabricHost, link=FabricLink, build=False
        )
        self.built = True

    def configHosts(self) -> None:
        """Hosts are configured by kernel.wire."""

    def start(self) -> None:
        """Everything runs already."""

    def stop(self) -> None:
        self.fabric.stop()

    def stopXterms(self) -> None:
        """End the terminals opened from the prompt; these only."""
        for terminal in self.terms:
            if terminal.poll() is None:
                terminal.terminate()
        self.terms.clear()

    def ping(self, hosts: Any = None, timeout: Any = None) -> float:
        """As Mininet's, but gives up on an answer after 2 s (not 10) unless told otherwise."""
        dropped: float = super().ping(hosts, timeout or "2")
        return dropped

    def configLinkStatus(self, src: str, dst: str, status: str) -> None:
        """``link A B up|down`` at the prompt: repair or cut, read back."""
        from mininet.log import error

        names = [n for n in (f"{src}:{dst}", f"{dst}:{src}") if n in self.fabric.plan.links]
        if not names or status not in ("up", "down"):
            error(f"no link between {src} and {dst}\n" if not names else "use up or down\n")
            return
        try:
            change = self.fabric.links.repair if status == "up" else self.fabric.links.cut
            change(names[0])
        except LinkError as problem:
            error(f"{problem}\n")


@dataclass
class Fabric:
    """A running fabric. A context manager that takes it down."""

    plan: Plan
    backend: Backend
    net: FabricNet = field(init=False)
    spaces: Namespaces = field(init=False)
    links: LinkControl = field(init=False)
    switches: dict[str, SwitchHandle] = field(default_factory=dict)
    timings: dict[str, float] = field(default_factory=dict)
    """Seconds of each step of the build."""
    _wired: bool = False
    """Interfaces of the plan's names are ours to remove."""
    _stopped: bool = False

    def __enter__(self) -> Fabric:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    @property
    def host_pids(self) -> dict[str, int]:
        """A process in each host's namespaces (for ``mnexec -a PID``)."""
        return {host.name: host.pid for host in self.net.hosts}

    @property
    def ctl(self) -> Mapping[str, SideChannel]:
        """Side channels by switch."""
        return self.backend.ctl()

    @property
    def grpc(self) -> dict[str, str]:
        """P4Runtime addresses by switch."""
        return {name: handle.grpc for name, handle in self.switches.items()}

    def start_switch(self, name: str) -> SwitchHandle:
        """Start a stopped switch again: port settings as planned, no program. SwitchError."""
        handle = self.backend.start_switch(self.plan, self.plan.switch(name))
        self._attach({name: handle})
        self.links.restore(name)
        return handle

    def stop_switch(self, name: str) -> None:
        """End a switch process, as a crash would. The interfaces stay up."""
        self.plan.switch(name)
        self.backend.stop_switch(name)
        self.switches.pop(name, None)
        self.net[name].handle = None

    def _attach(self, handles: Mapping[str, SwitchHandle]) -> None:
        for name, handle in handles.items():
            self.switches[name] = handle
            self.net[name].handle = handle

    def stop(self) -> None:
        """End switches and hosts and remove the interfaces. Idempotent."""
        if self._stopped:
            return
        self._stopped = True
        self.backend.stop()
        if hasattr(self, "spaces"):
            if self._wired:
                _remove_interfaces(self.plan, self.spaces)
            self.spaces.close()
        if hasattr(self, "net"):
            self.net.stopXterms()
            for node in [*self.net.hosts, *self.net.switches]:
                node.terminate()


def build(plan: Plan, backend: Backend, progress: Progress | None = None) -> Fabric:
    """Build and start a fabric; every port is up and has its settings on return.

    ``progress`` is called with the name of each step. Raises BuildError and leaves nothing.
    """
    if shutil.which("mnexec") is None:
        raise BuildError("mnexec is not on the PATH; install Debian's mininet package")
    _try_mnexec()
    fabric = Fabric(plan, backend)
    say = progress or (lambda _step: None)
    try:
        _steps(fabric, say)
    except (WiringError, SwitchError, LinkError, OSError) as error:
        fabric.stop()
        raise BuildError(str(error)) from None
    except BaseException:
        fabric.stop()
        raise
    return fabric


def _try_mnexec() -> None:
    """Mininet waits for ever for a host whose mnexec refused to start. Raises BuildError."""
    done = subprocess.run(
        ["mnexec", "-n", "true"], capture_output=True, text=True, timeout=30, check=False
    )
    if done.returncode != 0:
        why = " ".join(done.stderr.split()) or f"status {done.returncode}"
        raise BuildError(f"mnexec can't make a network namespace here: {why}")


def _steps(fabric: Fabric, say: Progress) -> None:
    plan = fabric.plan
    began = time.monotonic()

    def done(step: str) -> None:
        nonlocal began
        now = time.monotonic()
        fabric.timings[step] = now - began
        began = now

    say("hosts")
    fabric.net = FabricNet(fabric)
    for host in plan.hosts.values():
        fabric.net.addHost(host.name, ip=None)
    for switch in plan.switches.values():
        fabric.net.addSwitch(switch.name, plan=switch, fabric=fabric)
    done("hosts")
    say("links")
    fabric.spaces = Namespaces(fabric.host_pids)
    require_free_names(plan, fabric.spaces)
    fabric._wired = True
    wire(plan, fabric.spaces)
    _register_links(fabric)
    done("links")
    say("switches")
    fabric._attach(fabric.backend.start(plan))
    fabric.links = LinkControl(plan, fabric.spaces, fabric.backend.ctl())
    done("switches")
    say("ports")
    _await_ports(fabric)
    done("ports")


def _register_links(fabric: Fabric) -> None:
    net = fabric.net
    nics: dict[str, NicPlan] = {n.ifname: n for h in fabric.plan.hosts.values() for n in h.nics}
    for link in fabric.plan.links.values():
        port = fabric.plan.switch(link.b.node).ports[link.b.port]
        made = FabricLink(
            fabric, link, net[link.a.node], net[link.b.node], (port.peer_mac, port.mac)
        )
        if link.a.ifname in nics:
            made.intf1.ip, made.intf1.prefixLen = nics[link.a.ifname].ipv6, "128"
        net.links.append(made)


def _await_ports(fabric: Fabric) -> None:
    """Wait until every switch takes every port for up."""
    for _ in looks(LinkControl.LIMIT_SECONDS, LinkControl.POLL_SECONDS):
        waiting = [name for name, state in fabric.links.states().items() if not state.up]
        if not waiting:
            return
    raise BuildError(f"not up after {LinkControl.LIMIT_SECONDS:g} s: {', '.join(waiting[:4])}")


def _remove_interfaces(plan: Plan, spaces: Namespaces) -> None:
    """Remove every link that is still there; removing one end removes both."""
    sock = spaces.netlink(None)
    infos = sock.links()
    ends = [infos[link.b.ifname] for link in plan.links.values() if link.b.ifname in infos]
    sock.send([netlink.delete_link(info.index, info.name) for info in ends])
