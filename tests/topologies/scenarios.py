"""What happens inside namespaces; each function is one scenario (see inside.py)."""

from __future__ import annotations

import os
import random
import select
import socket
import struct
import subprocess
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any

import pytest

from tests.topologies.fabrics import plan as small_plan
from tests.topologies.fabrics import two_plane
from tests.topologies.forwarder import PythonForwarder
from topologies import ecmp
from topologies.builder import BuildError, Fabric, build
from topologies.kernel import WiringError, check
from topologies.links import LinkError
from topologies.netlink import Netlink, NetlinkError, VethEnd, namespace, new_veth, set_up
from topologies.offloads import Offloads
from topologies.paths import path_of
from topologies.plan import Plan, UnknownNameError

Evs = list[tuple[int, int]]


def _ping(fabric: Fabric, src: str, dst: str, plane: int, size: int = 56) -> bool:
    target = fabric.plan.host(dst).nics[plane].ipv6
    _out, err, status = fabric.net[src].pexec(f"ping -6 -c 1 -W 5 -M do -s {size} {target}")
    assert "invalid" not in err, err
    return bool(status == 0)


def _names() -> set[str]:
    with Netlink() as sock:
        return set(sock.links())


def every_pair_of_hosts_reaches_each_other(_tmp: Path) -> None:
    backend = PythonForwarder()
    with build(two_plane(), backend) as fabric:
        for plane in range(2):
            for src in fabric.plan.hosts:
                for dst in fabric.plan.hosts:
                    assert src == dst or _ping(fabric, src, dst, plane), (src, dst, plane)
        # A full-size packet passes whole: MTU on every interface.
        assert _ping(fabric, "h0", "h3", 1, fabric.plan.mtu - 48)
        assert not _ping(fabric, "h0", "h3", 1, fabric.plan.mtu - 47)
        assert backend.unexpected == []
    assert _names() == {"lo"}


def interfaces_are_silent(_tmp: Path) -> None:
    """Nobody says anything unasked: no router solicitation, no multicast report."""
    backend = PythonForwarder()
    with build(two_plane(), backend) as fabric:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as anything:
            # Reports and solicitations come within about a second.
            assert select.select([anything], [], [], 1.5)[0] == []
        for name, ends in fabric.links.stats().items():
            assert (ends.a.tx_packets, ends.b.tx_packets) == (0, 0), name
        assert backend.unexpected == []


def what_is_wrong_is_found(_tmp: Path) -> None:
    """check() notices each setting when it is changed behind its back."""
    with build(two_plane(), PythonForwarder()) as fabric:
        host = fabric.net["h0"]
        lab = fabric.net["p0t0-0"]
        for node, break_it, mend, expected in [
            (
                host,
                "ip link set h0-p0 mtu 1500",
                "ip link set h0-p0 mtu 4252",
                "h0-p0: MTU is 1500",
            ),
            (
                lab,
                "ip link set p0t0-0-3 mtu 9000",
                "ip link set p0t0-0-3 mtu 4252",
                "p0t0-0-3: MTU",
            ),
            (
                lab,
                "sysctl -qw net.ipv6.conf.p0t0-0-3.disable_ipv6=0",
                "sysctl -qw net.ipv6.conf.p0t0-0-3.disable_ipv6=1",
                "p0t0-0-3: disable_ipv6 is 0",
            ),
            (
                lab,
                "ip link set p1t1-0-1 address 02:00:00:00:00:99",
                "ip link set p1t1-0-1 address 02:20:01:00:00:01",
                "p1t1-0-1: MAC",
            ),
            (host, "ethtool -K h0-p1 tx on", "ethtool -K h0-p1 tx off", "h0-p1: offloads"),
        ]:
            node.cmd(break_it)
            with pytest.raises(WiringError) as caught:
                check(fabric.plan, fabric.spaces)
            assert str(caught.value).startswith(expected), str(caught.value)
            node.cmd(mend)
            check(fabric.plan, fabric.spaces)


def cut_and_repair(_tmp: Path) -> None:
    with build(two_plane(), PythonForwarder()) as fabric:
        links = fabric.links
        for name in ("p0t0-0:p0t1-1", "h0:p0t0-0"):
            state = links.cut(name)
            assert state.down
            assert not state.up
            assert not state.b.admin_up
            assert state.a.admin_up  # it lost its carrier only
            assert links.cut(name).down  # again changes nothing
            assert links.down_links() == {name}
            assert links.repair(name).up
            assert links.repair(name).up
            assert links.down_links() == frozenset()
        # Addresses and routes of the host survived the cut of its link.
        assert _ping(fabric, "h0", "h2", 0)
        links.cut("h0:p0t0-0")
        assert not _ping_quickly(fabric, "h0", "h2")
        with pytest.raises(UnknownNameError):
            links.cut("h0:p0t0-9")


def _ping_quickly(fabric: Fabric, src: str, dst: str) -> bool:
    target = fabric.plan.host(dst).nics[0].ipv6
    return bool(fabric.net[src].pexec(f"ping -6 -c 1 -W 1 {target}")[2] == 0)


def a_switch_that_does_not_see_the_cut_is_an_error(_tmp: Path) -> None:
    backend = PythonForwarder()
    with build(two_plane(), backend) as fabric:
        fabric.links.LIMIT_SECONDS = 0.3
        backend._ctl["p0t1-1"].lies_up = True
        with pytest.raises(LinkError) as caught:
            fabric.links.cut("p0t0-0:p0t1-1")
        assert str(caught.value) == (
            "p0t0-0:p0t1-1: not down after 0.3 s: p0t0-0-4 is down, switch says down; "
            "p0t1-1-1 is down, switch says up"
        )


def impairments_compose_by_value(_tmp: Path) -> None:
    backend = PythonForwarder()
    with build(two_plane(), backend) as fabric:
        links, name = fabric.links, "p0t0-0:p0t1-1"
        up, down = backend._ctl["p0t0-0"].config[4], backend._ctl["p0t1-1"].config[1]
        links.impair(name, loss=0.1)
        assert (up["loss"], down["loss"]) == (0.1, 0.1)
        links.impair(name, corrupt=0.2, direction="up")
        assert (up["loss"], up["corrupt"], down["loss"]) == (0.0, 0.2, 0.1)
        assert up["tx_delay_ns"] == fabric.plan.spec.link.delay
        assert up["rate_bps"] == fabric.plan.spec.link.rate
        state = links.impair(name, blackhole=True, direction="down")
        assert (state.impaired_down.blackhole, state.impaired_up.corrupt) == (True, 0.2)
        assert state.up
        # A switch that forgot its settings gets them again.
        up.update(corrupt=0.0, rate_bps=0)
        links.restore("p0t0-0")
        assert (up["corrupt"], up["rate_bps"]) == (0.2, fabric.plan.spec.link.rate)
        links.clear(name)
        links.clear(name)
        for config in (up, down):
            assert (config["loss"], config["corrupt"], config["blackhole"]) == (0.0, 0.0, False)
        # What a host sends can be impaired only by a switch that can do so on receipt.
        host = backend._ctl["p0t0-0"].config[1]
        with pytest.raises(LinkError, match="can't impair what a host sends"):
            links.impair("h0:p0t0-0", loss=0.5)
        assert host["loss"] == 0.0
        links.impair("h0:p0t0-0", loss=0.5, direction="down")
        assert host["loss"] == 0.5
        host.update(rx_loss=0.0, rx_corrupt=0.0, rx_blackhole=False)
        links.impair("h0:p0t0-0", loss=0.25)
        assert (host["loss"], host["rx_loss"]) == (0.25, 0.25)
        with pytest.raises(ValueError, match="share between 0 and 1"):
            links.impair(name, loss=2)


def counters_add_up(_tmp: Path) -> None:
    with build(two_plane(), PythonForwarder()) as fabric:
        before = fabric.links.stats()
        assert _ping(fabric, "h0", "h1", 0)
        after = fabric.links.stats()
        moved = {
            name: (
                after[name].a.tx_packets - before[name].a.tx_packets,
                after[name].b.tx_packets - before[name].b.tx_packets,
            )
            for name in after
        }
        assert {n: m for n, m in moved.items() if m != (0, 0)} == {
            "h0:p0t0-0": (1, 1),
            "h1:p0t0-0": (1, 1),
        }


def mininet_prompt_works(_tmp: Path) -> None:
    import io

    from mininet.cli import CLI
    from mininet.log import lg

    said = io.StringIO()

    class Silent(CLI):  # type: ignore[misc]
        def __init__(self, net: object, script: str) -> None:
            CLI.__init__(self, net, script=script)

    script = Path(_tmp) / "script"
    script.write_text(
        "h0 ping -c 1 h3\npingall\nlinks\nlink p0t0-0 p0t1-0 down\nnodes\nnet\nlinks\n"
        "h2 ip -c=never -br a\n"
    )
    with build(two_plane(), PythonForwarder()) as fabric:
        import logging

        lg.handlers[0] = logging.StreamHandler(said)
        lg.handlers[0].terminator = ""
        Silent(fabric.net, str(script))
        assert fabric.links.down_links() == {"p0t0-0:p0t1-0"}
        fabric.links.impair("p1t0-0:p1t1-0", loss=0.01, direction="down")
        impaired = fabric.net.linksBetween(fabric.net["p1t0-0"], fabric.net["p1t1-0"])[0]
        assert impaired.status() == "(OK OK); p1t1-0 sends with 1.000% loss"
    text = said.getvalue()
    name = "p0t0-0-3<->p0t1-0-1"
    shown = [line for line in text.splitlines() if line.startswith(name)]
    assert [line.split()[1] for line in shown] == ["(OK", "DOWN:"], shown
    assert "p0t0-0-3 is down" in shown[1]
    assert "p0t1-0-1 is down" in shown[1]
    assert sum(line.rstrip().endswith("(OK OK)") for line in text.splitlines()) == 2 * 16 - 1
    assert "1 received" in text
    assert "h0-p0:p0t0-0-1" in text
    assert "fd4d:5243:0:1::1/128" in text
    assert "Results: " in text


def failures_leave_nothing(_tmp: Path) -> None:
    """An interface in the way: one line, and no interface, process or handle is left."""
    with Netlink() as sock:
        sock.send(
            [
                new_veth(
                    VethEnd("p1t1-1-2", "02:00:00:00:00:01"),
                    VethEnd("x", "02:00:00:00:00:02"),
                    1500,
                )
            ]
        )
        before = set(sock.links())
        children = _children()
        with pytest.raises(BuildError, match="p1t1-1-2: an interface of that name exists already"):
            build(two_plane(), PythonForwarder())
        assert set(sock.links()) == before
        assert _children() == children

    class Broken(PythonForwarder):
        def start(self, plan):  # type: ignore[no-untyped-def]
            raise OSError("no switch today")

    with pytest.raises(BuildError, match="no switch today"):
        build(small_plan(1, 1, 1, 1), Broken())
    assert _names() == before
    assert _children() == children


def _children() -> int:
    out = subprocess.run(["ps", "-e", "-o", "stat="], capture_output=True, text=True, check=True)
    return sum(not line.startswith("Z") for line in out.stdout.split())


def netlink_explains_refusals(_tmp: Path) -> None:
    with Netlink() as sock:
        with pytest.raises(NetlinkError, match="interface nope: No such device"):
            sock.link("nope")
        with pytest.raises(NetlinkError, match="set nope up: "):
            sock.send([set_up(4242, "nope")])
        pair = [
            new_veth(
                VethEnd(f"a{i}", f"02:00:00:00:01:{i:02x}"),
                VethEnd(f"b{i}", f"02:00:00:00:02:{i:02x}"),
                1400,
            )
            for i in range(60)
        ]
        sock.send(pair)
        links = sock.links()
        assert len(links) == 121
        assert (links["a7"].mtu, links["b7"].mac, links["a7"].up) == (
            1400,
            "02:00:00:00:02:07",
            False,
        )
        with Offloads() as offloads:
            assert offloads.active("a1")
            assert offloads.switch_off("a1") == []
        out = os.popen("ethtool -k a1").read()
        for feature in (
            "rx-checksumming: off",
            "tx-checksumming: off",
            "scatter-gather: off",
            "tcp-segmentation-offload: off",
            "generic-segmentation-offload: off",
            "generic-receive-offload: off",
        ):
            assert feature in out


def evs_take_the_predicted_links(tmp: Path) -> None:
    """On the real switches, programmed by the real controller: every packet goes where the
    plan says, with static tables and with failover groups around a cut link."""
    from controller.fabric import FabricController
    from mrclab.program import compiled
    from topologies.switches import BuiltinBackend

    program, p4info = compiled()
    fabric_plan = two_plane()
    rng = random.Random(7)
    evs = [(i % 2, rng.getrandbits(32)) for i in range(160)]
    cut = "p0t0-0:p0t1-1"
    for groups in (False, True):
        with (
            build(fabric_plan, BuiltinBackend(tmp / str(groups))) as fabric,
            FabricController(
                fabric_plan,
                fabric.grpc,
                program,
                p4info,
                failover_groups=groups,
                on_failure=print,
            ) as controller,
        ):
            controller.connect()
            controller.program()
            taps = _taps(fabric)
            for src, dst in (("h0", "h2"), ("h3", "h1")):
                assert _links_seen(fabric, taps, src, dst, evs) == _predicted(src, dst, evs)
            fabric.links.cut(cut)
            assert _links_seen(fabric, taps, "h0", "h2", evs) == _predicted(
                "h0", "h2", evs, down={cut}, failover_groups=groups
            )
            _what_a_host_sends_is_lost(fabric, taps)


def _what_a_host_sends_is_lost(fabric: Fabric, taps: Taps) -> None:
    """A NIC has no settings, so its T0 port impairs what arrives from it."""
    link, ctl = "h0:p0t0-0", fabric.ctl["p0t0-0"]
    evs = [(plane, ev) for plane in range(2) for ev in range(20)]
    before = ctl.stats()["ports"][1]["drops"]["rx_blackhole"]
    state = fabric.links.impair(link, blackhole=True, direction="up")
    assert str(state) == "(OK OK); h0 sends with a blackhole"
    seen = _links_seen(fabric, taps, "h0", "h1", evs)
    assert seen["h1:p1t0-0"] == {(1, ev) for ev in range(20)}
    assert "h1:p0t0-0" not in seen
    assert ctl.stats()["ports"][1]["drops"]["rx_blackhole"] == before + 20
    fabric.links.clear(link)
    assert _links_seen(fabric, taps, "h0", "h1", evs)["h1:p0t0-0"] == {(0, ev) for ev in range(20)}


def _predicted(src: str, dst: str, evs: Evs, **state: Any) -> dict[str, set[tuple[int, int]]]:
    """Link -> the EVs that come out of it at the far end."""
    found: dict[str, set[tuple[int, int]]] = {}
    for plane, ev in evs:
        path = path_of(two_plane(), src, dst, plane, ev, **state)
        for link in path.links:
            if link != path.lost_at:
                found.setdefault(link, set()).add((plane, ev))
    return found


Taps = dict[socket.socket, tuple[str, int]]


def _taps(fabric: Fabric) -> Taps:
    """A socket for what arrives at each end of each link, with the link and its plane."""
    taps: Taps = {}
    for link in fabric.plan.links.values():
        for end in (link.a, link.b):
            space = fabric.spaces.fd(end.node) if end.node in fabric.plan.hosts else None
            with namespace(space):
                sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            sock.setsockopt(263, 23, 1)  # PACKET_IGNORE_OUTGOING: arrivals only
            sock.bind((end.ifname, 0x86DD))
            taps[sock] = (link.name, link.plane)
    return taps


def _links_seen(
    fabric: Fabric, taps: Taps, src: str, dst: str, evs: Evs
) -> dict[str, set[tuple[int, int]]]:
    """Send one packet per EV; link -> the EVs that arrived at one of its ends."""
    plan = fabric.plan
    seen: dict[str, set[tuple[int, int]]] = {}
    with namespace(fabric.spaces.fd(src)):
        senders = [socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) for _ in range(2)]
    for sender, nic in zip(senders, plan.host(src).nics, strict=True):
        sender.bind((nic.ifname, 0))
    for start in range(0, len(evs), 80):
        for plane, ev in evs[start : start + 80]:
            senders[plane].send(_frame(plan, src, dst, plane, ev))
        _drain(taps, seen, quiet=0.1)
    for sender in senders:
        sender.close()
    return seen


def _frame(plan: Plan, src: str, dst: str, plane: int, ev: int) -> bytes:
    nic, far = plan.host(src).nics[plane], plan.host(dst).nics[plane]
    label, sport = ecmp.split_ev(ev)
    payload = bytes(64)
    udp = struct.pack("!HHHH", sport, 9, 8 + len(payload), 0) + payload
    ip = struct.pack("!IHBB", 6 << 28 | label, len(udp), 17, 64)
    ip += IPv6Address(nic.ipv6).packed + IPv6Address(far.ipv6).packed
    return bytes.fromhex((nic.gateway_mac + nic.mac).replace(":", "")) + b"\x86\xdd" + ip + udp


def _drain(sockets: Taps, seen: dict[str, set[tuple[int, int]]], quiet: float) -> None:
    """Read until nothing has come for ``quiet`` seconds."""
    while True:
        ready, _, _ = select.select(list(sockets), [], [], quiet)
        if not ready:
            return
        for sock in ready:
            try:
                frame = sock.recv(65536)
            except OSError:  # told once by a socket on an interface that is down
                continue
            if frame[20] == 17:
                link, plane = sockets[sock]
                label = int.from_bytes(frame[15:18], "big") & 0xFFFFF
                ev = ecmp.join_ev(label, int.from_bytes(frame[54:56], "big"))
                seen.setdefault(link, set()).add((plane, ev))
