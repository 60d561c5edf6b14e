"""A real switch process on veth pairs: run in a network namespace of its own.

    unshare -n python -m tests.p4src.live JSON P4INFO COMMAND...

starts COMMAND with the flags of simple_switch_grpc, programs it over P4Runtime as the fabric
controller does, sends frames into port 1, and prints what came out of which port as JSON.
"""

from __future__ import annotations

import contextlib
import json
import random
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from controller.client import SwitchClient
from controller.counters import cells, port_counters
from controller.errors import ConnectError
from controller.program import switch_program
from controller.session import Pipeline, SwitchSession
from tests.p4src import frames
from tests.waiting import wait_for
from topologies.plan import Plan
from topologies.spec import load_spec

PLAN = Plan.from_spec(load_spec("two-plane"))
SWITCH = PLAN.switch("p0t0-0")
H0, H1, H2 = (PLAN.hosts[f"h{i}"].nics[0].ipv6 for i in range(3))
ADDRESS = "127.0.0.1:19559"


def sh(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def make_ports() -> dict[int, socket.socket]:
    sh("ip", "link", "set", "lo", "up")
    sockets = {}
    for port in SWITCH.ports:
        sh("ip", "link", "add", f"s{port}", "type", "veth", "peer", "name", f"t{port}")
        for name in (f"s{port}", f"t{port}"):
            Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
            sh("ip", "link", "set", name, "mtu", "9000", "up")
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        sock.bind((f"t{port}", 0x86DD))
        sock.setsockopt(263, 23, 1)  # SOL_PACKET, PACKET_IGNORE_OUTGOING
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 20)
        sockets[port] = sock
    return sockets


def connect(device_id: int) -> SwitchClient:
    def connected() -> SwitchClient | None:
        with contextlib.suppress(ConnectError):
            return SwitchClient("switch", ADDRESS, device_id, 1, lambda reason: None)
        return None

    return wait_for("the switch listens", connected)


def collect(sockets: dict[int, socket.socket], wanted: int, seconds: float) -> list:
    """[(port, frame)] until as many as wanted came, or the time is over."""
    got: list[tuple[int, bytes]] = []
    end = time.monotonic() + seconds
    ports = {sock: port for port, sock in sockets.items()}
    while len(got) < wanted and (left := end - time.monotonic()) > 0:
        for sock in select.select(list(ports), [], [], left)[0]:
            with contextlib.suppress(OSError):  # ENETDOWN, once, after the link went down
                got.append((ports[sock], sock.recv(9100)))
    return got


def cases() -> list[bytes]:
    """Frames whose way does not depend on queues."""
    rng = random.Random(11)
    spread = [frames.mrc(H0, H2, ev=rng.getrandbits(32), payload=64) for _ in range(60)]
    spread += [frames.ipv6(H0, H2, b"x" * 8, 59, rng.getrandbits(20)) for _ in range(20)]
    kinds = [
        frames.mrc(H0, H1, opcode=opcode, ts=ts, payload=31)
        for opcode in (0xC6, 0xC8, 0xCB, 0xDC, 0x0A)
        for ts in (0, 1)
    ]
    dropped = [
        frames.mrc(H0, H2, hop_limit=1),
        frames.mrc(H0, "ff02::1"),
        frames.ipv6(H0, H2, b"", version=4),
        frames.mrc(H0, H0[:-1] + "77"),
    ]
    cut = [frames.mrc(H0, H1, payload=8)[:length] for length in (54, 60, 62, 70, 74, 80, 90)]
    return [*spread, *kinds, *dropped, *cut]


def run(program: Path, p4info: Path, command: list[str]) -> dict:
    sockets = make_ports()
    ports = [word for port in SWITCH.ports for word in ("-i", f"{port}@s{port}")]
    flags = ["--no-p4", "--device-id", "1", "--log-level", "off", *ports]
    target = ["--", "--grpc-server-addr", ADDRESS, "--cpu-port", "510", "--priority-queues", "2"]
    process = subprocess.Popen([*command, *flags, *target], stdout=sys.stderr)
    try:
        session = SwitchSession(connect(1), Pipeline.load(program, p4info))
        result: dict = {"updates": [], "again": []}
        for failover in (False, True, False):
            wanted = switch_program(PLAN, SWITCH, failover_groups=failover)
            result["updates"].append(session.apply(wanted))
            result["again"].append(session.apply(wanted))
        out: list[tuple[int, bytes]] = []
        for frame in cases():
            sockets[1].send(frame)
            out += collect(sockets, 1, 0.5 if not out else 0.15)
        result["out"] = [(port, frame.hex()) for port, frame in out]
        result["counters"] = counters(session)
        session.apply(switch_program(PLAN, SWITCH, failover_groups=True))
        result["failover"] = [failover_ports(sockets, down) for down in ((), (3,), (3, 4), (4,))]
        session.close()
        result["alive"] = process.poll() is None
        return result
    finally:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
        if process.poll() is None:
            process.kill()


def failover_ports(sockets: dict[int, socket.socket], down: tuple[int, ...]) -> list[int]:
    """Ports that were used with some uplinks down, once the switch has noticed."""
    for port in (3, 4):
        sh("ip", "link", "set", f"t{port}", "down" if port in down else "up")
    live = {3, 4} - set(down)
    end = time.monotonic() + 5
    rng = random.Random(2)
    used: set[int] = set()
    while time.monotonic() < end:
        collect({p: s for p, s in sockets.items() if p in live}, 1000, 0.05)
        for _ in range(20):
            sockets[1].send(frames.mrc(H0, H2, ev=rng.getrandbits(32), payload=64))
        got = collect({p: s for p, s in sockets.items() if p in live}, 20, 0.3)
        used = {port for port, _ in got}
        if used == live and len(got) == (20 if live else 0):
            break
    return sorted(used)


def counters(session: SwitchSession) -> dict:
    values = session.read_counters(cells(SWITCH.ports))
    return {
        str(port): value.as_dict() for port, value in port_counters(SWITCH.ports, values).items()
    }


if __name__ == "__main__":
    print(json.dumps(run(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])))
