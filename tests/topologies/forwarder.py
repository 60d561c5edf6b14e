"""A backend for tests: the plan's forwarding in Python, without queues or a control plane.

It decides by the plan only (addresses, hash, ports), so that a ping through it proves
addressing, neighbours, routes, MAC addresses and wiring before any real switch is involved.
"""

from __future__ import annotations

import os
import selectors
import socket
import threading
from collections.abc import Mapping
from ipaddress import IPv6Address
from typing import Any

from topologies import addressing, ecmp
from topologies.netlink import Netlink
from topologies.plan import Plan, SwitchPlan
from topologies.switches import SwitchHandle

_ETH_P_ALL = 3
_SOL_PACKET, _IGNORE_OUTGOING = 263, 23


class FakeCtl:
    """The side channel's port calls; a port is up as the kernel says."""

    def __init__(self, switch: SwitchPlan) -> None:
        self.switch = switch
        self.config = {n: p.config.as_dict() for n, p in switch.ports.items()}
        self.netlink = Netlink()
        self.lies_up: bool | None = None
        """When set, what every port says of its state."""

    def ports(self) -> Mapping[int, Mapping[str, Any]]:
        links = self.netlink.links()
        return {
            n: {
                "name": p.ifname,
                "up": links[p.ifname].up if self.lies_up is None else self.lies_up,
                "config": dict(self.config[n]),
            }
            for n, p in self.switch.ports.items()
        }

    def set_port(self, port: int, **config: Any) -> Mapping[str, Any]:
        self.config[port].update(config)
        return dict(self.config[port])


class PythonForwarder:
    """Every switch of a plan in one thread."""

    name = "python"

    def __init__(self) -> None:
        self.unexpected: list[str] = []
        """Frames that nobody should have sent."""
        self._ctl: dict[str, FakeCtl] = {}
        self._selector = selectors.DefaultSelector()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._out: dict[tuple[str, int], socket.socket] = {}

    def start(self, plan: Plan) -> Mapping[str, SwitchHandle]:
        self.plan = plan
        for switch in plan.switches.values():
            self._ctl[switch.name] = FakeCtl(switch)
            for number, port in switch.ports.items():
                sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
                sock.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
                sock.bind((port.ifname, _ETH_P_ALL))
                self._out[switch.name, number] = sock
                self._selector.register(sock, selectors.EVENT_READ, (switch, number))
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return {
            s.name: SwitchHandle(s.name, s.device_id, os.getpid(), "", None)
            for s in plan.switches.values()
        }

    def start_switch(self, plan: Plan, switch: SwitchPlan) -> SwitchHandle:
        raise AssertionError("this stand-in starts all switches at once")

    def stop_switch(self, name: str) -> None:
        raise AssertionError("this stand-in stops all switches at once")

    def ctl(self) -> Mapping[str, Any]:
        return self._ctl

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        for sock in self._out.values():
            sock.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            for key, _ in self._selector.select(0.05):
                switch, number = key.data
                try:
                    frame = key.fileobj.recv(65536)  # type: ignore[union-attr]
                except OSError:  # the interface went down
                    continue
                self._forward(switch, number, frame)

    def _forward(self, switch: SwitchPlan, number: int, frame: bytes) -> None:
        if frame[12:14] != b"\x86\xdd" or frame[20] not in (17, 58):
            self.unexpected.append(f"{switch.name} port {number}: {frame[:60].hex()}")
            return
        if frame[:6] != bytes.fromhex(switch.ports[number].mac.replace(":", "")):
            self.unexpected.append(f"{switch.name} port {number}: not for its MAC")
            return
        port = self._choose(switch, frame)
        out = switch.ports[port]
        macs = bytes.fromhex((out.peer_mac + out.mac).replace(":", ""))
        rewritten = macs + frame[12:21] + bytes([frame[21] - 1]) + frame[22:]
        try:
            self._out[switch.name, port].send(rewritten)
        except OSError:
            return

    def _choose(self, switch: SwitchPlan, frame: bytes) -> int:
        src, dst = int.from_bytes(frame[22:38], "big"), int.from_bytes(frame[38:54], "big")
        where = addressing.locate(IPv6Address(dst))
        assert where is not None
        if switch.tier == 1:
            return where.t0 + 1
        if where.t0 == switch.index:
            return where.port
        label = int.from_bytes(frame[15:18], "big") & 0xFFFFF
        sport = int.from_bytes(frame[54:56], "big") if frame[20] == 17 else 0
        port = ecmp.pick(ecmp.flow_hash(switch.salt, src, dst, label, sport), switch.uplinks)
        assert port is not None
        return port
