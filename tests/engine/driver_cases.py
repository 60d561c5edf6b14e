"""What test_driver.py runs inside a network namespace: `python -m ... CASE` prints ok."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from softswitch.engine import (
    DriverError,
    DuplicateEntry,
    Engine,
    EngineError,
    PortChange,
    PortConfig,
    Replica,
)
from tests.engine.frames import mrc
from tests.engine.programs import forwarder
from tests.waiting import wait_for

IGNORE_OUTGOING = 23
SO_RCVBUFFORCE = 33


def ip(*args: str) -> None:
    subprocess.run(["ip", *args], check=True, capture_output=True)


def pair(a: str, b: str) -> None:
    ip("link", "add", a, "mtu", "9216", "type", "veth", "peer", "name", b, "mtu", "9216")
    for name in (a, b):
        with open(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6", "w") as f:
            f.write("1")
        ip("link", "set", name, "up")


def tap(name: str) -> socket.socket:
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    s.setsockopt(263, IGNORE_OUTGOING, 1)
    with contextlib.suppress(PermissionError):
        s.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20)
    s.bind((name, 3))
    s.settimeout(30)
    return s


def two_ports(program: object = None, config: PortConfig | None = None) -> Engine:
    pair("hosta", "s1")
    pair("hostb", "s2")
    engine = Engine(program or forwarder(2))  # type: ignore[arg-type]
    engine.add_port(1)
    engine.add_port(2, config or PortConfig())
    engine.start({1: "s1", 2: "s2"})
    return engine


def forward() -> None:
    engine = two_ports()
    a, b = tap("hosta"), tap("hostb")
    for size in (14, 60, 1514, 4200, 9216):
        frame = bytes.fromhex("02000000000102000000000286dd") + bytes(size - 14)
        a.send(frame)
        assert b.recv(10000) == frame
    wait_for("all counted", lambda: engine.port_stats(2).tx_packets == 5)
    s = engine.port_stats(1)
    assert (s.rx_packets, s.rx_bytes) == (5, 14 + 60 + 1514 + 4200 + 9216)
    t = engine.totals()
    assert (t.received, t.sent, t.dropped, t.held) == (5, 5, 0, 0)
    engine.stop()
    engine.receive(1, bytes(60), time.monotonic_ns())  # without I/O again
    assert len(engine.frames_to_send(time.monotonic_ns())) == 1


def vlan() -> None:
    """Tags that the kernel takes out of frames are put back."""
    engine = two_ports()
    a, b = tap("hosta"), tap("hostb")
    b.setsockopt(263, 8, 1)  # PACKET_AUXDATA
    frame = bytes.fromhex("02000000000102000000000281002064 0800") + b"payload" * 10
    a.send(frame)
    data, aux, _, _ = b.recvmsg(2000, 100)
    for _, kind, value in aux:
        status, _, _, _, _, tci, tpid = struct.unpack("=IIIHHHH", value[:20])
        if kind == 8 and status & 0x10:
            data = data[:12] + struct.pack(">HH", tpid or 0x8100, tci) + data[12:]
    assert data == frame
    assert engine.port_stats(1).rx_bytes == len(frame)


def link_state() -> None:
    engine = two_ports()
    engine.events()
    assert engine.port_up(2)
    ip("link", "set", "hostb", "down")
    wait_for("down seen", lambda: not engine.port_up(2))
    a = tap("hosta")
    a.send(bytes(60))
    wait_for("dropped", lambda: engine.port_stats(2).drops["port_down"] == 1)
    ip("link", "set", "hostb", "up")
    wait_for("up seen", lambda: engine.port_up(2))
    changes = [(e.port, e.up) for e in engine.events() if isinstance(e, PortChange)]
    assert changes == [(2, False), (2, True)], changes
    b = tap("hostb")
    a.send(b"\1" * 60)
    assert b.recv(100) == b"\1" * 60
    ip("link", "set", "s2", "down")
    wait_for("own end down seen", lambda: not engine.port_up(2))
    ip("link", "set", "s2", "up")
    wait_for("own end up seen", lambda: engine.port_up(2))
    a.send(b"\2" * 60)
    assert b.recv(100) == b"\2" * 60
    ip("link", "del", "hostb")
    wait_for("removed seen", lambda: not engine.port_up(2))


def reload() -> None:
    """Programs change while frames flow; every frame is forwarded or counted."""
    engine = two_ports()
    a = tap("hosta")
    sent = 0
    for i in range(10):
        for _ in range(200):
            a.send(bytes(60))
            sent += 1
        engine.load(forwarder(2 if i % 2 else 1))
    wait_for("all received", lambda: engine.totals().received == sent)
    wait_for("all settled", lambda: engine.totals().held == 0)
    t = engine.totals()
    assert t.received == t.sent + t.dropped


def refusal(call: Callable[[], object], kind: type[EngineError]) -> str:
    """The message with which a call is refused."""
    try:
        call()
    except kind as e:
        return str(e)
    raise AssertionError("not refused")


def errors() -> None:
    pair("hosta", "s1")
    engine = Engine(forwarder(2))
    engine.add_port(1)
    for interfaces, text in (({1: "nope"}, "nope"), ({1: "s1", 7: "s1"}, "no port 7")):
        assert text in refusal(lambda i=interfaces: engine.start(i), EngineError)  # type: ignore[misc]
    engine.start({1: "s1"})
    assert refusal(lambda: engine.start({}), DriverError)
    assert refusal(lambda: engine.attach(1, "s1"), DuplicateEntry)
    assert refusal(lambda: engine.receive(1, b"x", 0), DriverError)
    engine.detach(1)
    engine.attach(1, "s1")
    engine.remove_port(1)
    engine.add_port(1)
    engine.attach(1, "s1")
    engine.close()


def idle() -> None:
    """With nothing to do the thread sleeps: its rounds stand still."""
    engine = two_ports()
    taps = [tap("hosta"), tap("hostb")]

    def still() -> bool:
        before = engine.fidelity().loops
        assert select.select(taps, [], [], 0.2)[0] == []
        return engine.fidelity().loops == before

    wait_for("no rounds", still)


def control() -> None:
    """Control calls are answered while the data path is busy."""
    engine = two_ports(config=PortConfig(rate_bps=1_000_000_000))
    a = tap("hosta")
    sent = 0
    for _ in range(200):
        for _ in range(50):
            a.send(bytes(60))
            sent += 1
        assert engine.port_stats(1).rx_packets <= sent
    wait_for("all received", lambda: engine.port_stats(1).rx_packets == sent)
    wait_for("all settled", lambda: engine.totals().held == 0)


def pacing() -> None:
    """No frame of a burst arrives before the rate lets it, on any machine; none is lost.

    How punctual the driver is depends on the machine: `./lab bench switch` measures it.
    """
    rate, size, count = 100_000_000, 1250, 1000
    frame_ns = size * 8 * 10**9 // rate
    pair("hosta", "s1")
    for p in (2, 3):
        pair(f"host{p}", f"s{p}")
    engine = Engine(forwarder(2, field="mcast_grp"))
    engine.mc_group_set(2, [Replica(2), Replica(3)])
    engine.add_port(1)
    for p in (2, 3):
        engine.add_port(p, PortConfig(rate_bps=rate, queue_limits=(10_000,)))
    engine.start({1: "s1", 2: "s2", 3: "s3"})
    taps = {p: tap(f"host{p}") for p in (2, 3)}
    arrivals: dict[int, list[int]] = {p: [] for p in taps}

    def read(s: socket.socket, times: list[int]) -> None:
        s.settimeout(40)
        while len(times) < count:
            s.recv(2000)
            times.append(time.monotonic_ns())

    readers = [threading.Thread(target=read, args=(s, arrivals[p])) for p, s in taps.items()]
    for t in readers:
        t.start()
    a = tap("hosta")
    began = time.monotonic_ns()
    for i in range(count):
        a.send(mrc(size, label=i))
    for t in readers:
        t.join()
    for p, times in arrivals.items():
        assert len(times) == count
        early = [i for i, t in enumerate(times) if t < began + (i + 1) * frame_ns]
        assert not early, (p, early[:5])
        assert engine.port_stats(p).drops["queue_full"] == 0


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print("ok")
