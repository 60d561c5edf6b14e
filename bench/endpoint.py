"""Endpoint packets/s beside plain Scapy, on the same veth pair, in one process, in one run.

Four figures, all for full 4 KiB WRITE packets, each packet counted once:

bare      `send` and `recv` of ready frames on packet sockets: the floor under everything
codec     build with iCRC, send, receive, parse, check iCRC: hosts.wire without a transport
endpoint  two hosts.core endpoints that write memory to each other's: all of the above, plus
          EV choice, congestion control, SACKs (sent, received, processed), memory placement
scapy     build from layers with iCRC, send, sniff (dissected): what one would write by hand

Runs in a network namespace of its own; needs root (or the lab).
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from hosts.agent.nic import Nic
from hosts.core.config import CcConfig, EndpointConfig, PortConfig, QpConfig
from hosts.core.endpoint import Endpoint
from hosts.wire.constants import UDP_PORTS
from hosts.wire.frame import FlowTemplate, parse

ROOT = Path(__file__).resolve().parents[1]
PMTU = 4096
MACS = (bytes.fromhex("020000000001"), bytes.fromhex("020000000002"))
IPS = ("fd00::1", "fd00::2")
PACKED = tuple(bytes.fromhex("fd00" + "00" * 13 + f"{i + 1:02x}") for i in (0, 1))
BATCH = 32
MESSAGE = 16 * PMTU
WINDOW_PACKETS = 64
AHEAD_NS = 20_000  # 400 Gb/s carry far more than the window in it: the port never limits


class BenchError(Exception):
    """The measurement could not be taken; str() is one line."""


def run(as_json: bool = False, seconds: float = 1.0) -> dict[str, Any]:
    """Measure for about `seconds` per figure and return the figures."""
    result = subprocess.run(
        ["unshare", "--net", sys.executable, "-m", "bench.endpoint", "--inside", str(seconds)],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    if result.returncode:
        lines = result.stderr.strip().splitlines() or ["no reason given"]
        raise BenchError(f"bench endpoint: {lines[-1]}")
    figures: dict[str, Any] = json.loads(result.stdout)
    if as_json:
        print(json.dumps(figures, indent=2))
    return figures


def ip(*argv: str) -> None:
    subprocess.run(["ip", *argv], check=True, capture_output=True)


def make_wire() -> tuple[Nic, Nic]:
    """A veth pair with its packet sockets."""
    mtu = str(PMTU + 256)
    ip("link", "add", "v0", "mtu", mtu, "type", "veth", "peer", "name", "v1", "mtu", mtu)
    for name in ("v0", "v1"):
        Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
        ip("link", "set", name, "up")
    nics = tuple(Nic(1, name, UDP_PORTS, ipv4=False) for name in ("v0", "v1"))
    return nics[0], nics[1]


def rate(step: Callable[[], int], seconds: float) -> float:
    """Packets per second of `step`, which returns how many it did; the first one is not timed."""
    step()
    count, start = 0, time.perf_counter()
    while True:
        count += step()
        took = time.perf_counter() - start
        if took >= seconds:
            return count / took


def template() -> FlowTemplate:
    return FlowTemplate(MACS[0], MACS[1], *IPS)


def build(flow: FlowTemplate, number: int, payload: memoryview) -> bytes:
    ev = number * 0x9E3779B1 & 0xFFFFFFFF
    va = 0x1000_0000 + number * PMTU
    return flow.data(
        *(0xC7, 4, 2, ev, 17, number & 0xFFFFFF, 0, 0, 0, 1, number & 0xFFFF),
        *(va, 5, 1 << 24, payload),
    )


def bare(a: Nic, b: Nic) -> int:
    frame = build(template(), 1, memoryview(bytes(PMTU)))
    for _ in range(BATCH):
        a.send(frame)
    got = 0
    while b.receive() is not None:
        got += 1
    return got


def codec(a: Nic, b: Nic, flow: FlowTemplate, payload: memoryview) -> int:
    for number in range(BATCH):
        a.send(build(flow, number, payload))
    good = 0
    while (frame := b.receive()) is not None:
        packet = parse(frame)
        good += packet is not None and packet.icrc_ok()
    return good


class Transfer:
    """Two endpoints that write to each other over the wire, as fast as they can."""

    def __init__(self, nics: tuple[Nic, Nic]) -> None:
        self.nics = nics
        self.ends = [self.endpoint(side) for side in (0, 1)]
        self.source = memoryview(bytearray(Random(1).randbytes(MESSAGE * 16)))
        config = QpConfig(
            cc=CcConfig("fixed", 1_000_000, {"window_bytes": WINDOW_PACKETS * (PMTU + 128)})
        )
        now = time.monotonic_ns()
        peers = [end.create_qp(config) for end in self.ends]
        for side, end in enumerate(self.ends):
            end.connect_qp(peers[side].qpn, peers[1 - side], now)
        self.target = self.ends[1].register_memory(len(self.source))
        self.qpn = peers[0].qpn
        self.peer_qpn = peers[1].qpn
        self.posted = 0
        self.completed = 0
        self.turn()

    def endpoint(self, side: int) -> Endpoint:
        port = PortConfig(1, MACS[side], MACS[1 - side], PACKED[side], 400_000_000_000)
        return Endpoint(
            EndpointConfig((port,), pmtu=PMTU, ahead_ns=AHEAD_NS), Random(side), time.monotonic_ns()
        )

    def post(self) -> None:
        while self.posted - self.completed < 8:
            at = self.posted % 16 * MESSAGE
            self.ends[0].post_write(
                self.qpn,
                self.posted,
                self.source[at : at + MESSAGE],
                self.target.va + at,
                self.target.rkey,
            )
            self.posted += 1

    def delivered(self) -> int:
        return self.ends[1].stats().qps[self.peer_qpn].delivered_packets

    def turn(self) -> int:
        """Some turns of both loops; data packets delivered."""
        before = self.delivered()
        for _ in range(8):
            self.post()
            for end, nic in zip(self.ends, self.nics, strict=True):
                while (frame := nic.receive()) is not None:
                    end.receive(1, frame, time.monotonic_ns())
                now = time.monotonic_ns()
                due = end.next_deadline()
                if due is not None and now >= due:
                    end.on_deadline(now)
                for _, out in end.frames_to_send(now):
                    nic.send(out)
            self.completed += sum(
                type(event).__name__ == "Completion" for event in self.ends[0].events()
            )
            self.ends[1].events()
        return self.delivered() - before

    def check(self) -> None:
        """Memory is equal, nothing was retransmitted."""
        if bytes(self.target.memory) != bytes(self.source):
            raise BenchError("the target memory differs from the source")


def scapy(payload: bytes) -> Callable[[], int]:
    """A step of plain Scapy."""
    from scapy.config import conf
    from scapy.layers.l2 import Ether
    from scapy.sendrecv import sniff

    from hosts.wire.layers import BTH, METH, RETH, TSETH, ip_udp

    sender, receiver = conf.L2socket(iface="v0"), conf.L2socket(iface="v1")
    src, dst = (mac.hex(":") for mac in MACS)
    batch = 8  # as many as Scapy's socket buffer holds

    def step() -> int:
        for number in range(batch):
            sender.send(
                Ether(src=src, dst=dst)
                / ip_udp(*IPS, number * 0x9E3779B1 & 0xFFFFFFFF, 4, 2)
                / BTH(opcode=0xC7, dqp=17, psn=number)
                / METH(msn=1)
                / TSETH(tx_timestamp=number)
                / RETH(va=0x1000_0000 + number * PMTU, r_key=5, dmalen=1 << 24)
                / payload
            )
        return sum(BTH in p for p in sniff(opened_socket=receiver, count=batch, timeout=5))

    return step


def start_seconds() -> float:
    """From exec to a ready interpreter with the agent imported; the best of three."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import hosts.agent.__main__"], check=True, cwd=ROOT)
        times.append(time.perf_counter() - start)
    return min(times)


def inside(seconds: float) -> dict[str, Any]:
    """All figures; in a namespace made for it."""
    a, b = make_wire()
    payload = Random(7).randbytes(PMTU)
    flow, view = template(), memoryview(payload)
    figures: dict[str, Any] = {"packet_bytes": len(build(flow, 1, view))}
    figures["bare_packets_per_s"] = rate(lambda: bare(a, b), seconds)
    figures["codec_packets_per_s"] = rate(lambda: codec(a, b, flow, view), seconds)
    transfer = Transfer((a, b))
    figures["endpoint_packets_per_s"] = rate(transfer.turn, seconds)
    transfer.check()
    figures["endpoint_retransmitted"] = transfer.ends[0].stats().total("retransmitted_packets")
    figures["socket_drops"] = a.sock_drops + b.sock_drops
    for nic in (a, b):
        nic.close()
    figures["scapy_packets_per_s"] = rate(scapy(payload), seconds)
    figures["endpoint_over_scapy"] = (
        figures["endpoint_packets_per_s"] / figures["scapy_packets_per_s"]
    )
    figures["agent_start_s"] = start_seconds()
    return figures


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        print(json.dumps(inside(float(sys.argv[2]))))
    else:
        run(as_json=True)
