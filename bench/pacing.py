"""How punctual a paced port is in real time, and whether reported queue depths are right.

Pacing: a burst for two ports at 100 Mb/s through the real driver; the kernel's time stamps
say how long the last of them took. Runs in a network namespace of its own (bench.switch).

Depths: random arrivals at a paced port without sockets; what the program reads as
`enq_qdepth` and `deq_qdepth` against a queue computed by hand.
"""

from __future__ import annotations

import random
import socket
import struct
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench import BENCH_CSRC
from softswitch.engine import Engine, PortConfig, Replica
from softswitch.engine.build import build_program

RATE = 100_000_000
"""Bits per second."""
FRAME = 1250
"""Bytes."""
SO_RCVBUFFORCE, SO_TIMESTAMPNS = 33, 35
PACKET_IGNORE_OUTGOING, SOL_PACKET = 23, 263

Json = dict[str, Any]


def field(header: str, name: str) -> Json:
    return {"type": "field", "value": [header, name]}


def assign(header: str, name: str, value: Json) -> Json:
    return {"op": "assign", "parameters": [field(header, name), value]}


def const(value: int) -> Json:
    return {"type": "hexstr", "value": hex(value)}


def program(ingress: list[Json], egress: list[Json]) -> Json:
    """bmv2 JSON with one action per pipeline; packets begin with two 16-bit numbers."""
    meta = [("ingress_port", 9), ("egress_spec", 9), ("egress_port", 9), ("instance_type", 32),
            ("packet_length", 32), ("mcast_grp", 16), ("enq_timestamp", 32), ("enq_qdepth", 19),
            ("deq_timedelta", 32), ("deq_qdepth", 19), ("pad", 7)]  # fmt: skip

    def pipe(name: str, number: int) -> Json:
        call = {"name": f"do_{name}", "id": number, "action_id": number, "next_node": None}
        return {"name": name, "id": number, "init_table": f"do_{name}", "tables": [],
                "action_calls": [call]}  # fmt: skip

    extract = {"op": "extract", "parameters": [{"type": "regular", "value": "h"}]}
    end = {"type": "default", "value": None, "mask": None, "next_state": None}
    state = {"name": "start", "id": 0, "parser_ops": [extract], "transition_key": [],
             "transitions": [end]}  # fmt: skip
    queueing = ("enq_timestamp", "enq_qdepth", "deq_timedelta", "deq_qdepth")
    return {
        "header_types": [
            {"name": "m", "id": 0, "fields": [[n, w, False] for n, w in meta]},
            {"name": "h_t", "id": 1, "fields": [["enq", 16, False], ["deq", 16, False]]},
        ],
        "headers": [
            {"name": "standard_metadata", "id": 0, "header_type": "m", "metadata": True},
            {"name": "h", "id": 1, "header_type": "h_t", "metadata": False},
        ],
        "parsers": [{"name": "parser", "id": 0, "init_state": "start", "parse_states": [state]}],
        "deparsers": [{"name": "deparser", "id": 0, "order": ["h"]}],
        "actions": [
            {"name": name, "id": i, "runtime_data": [], "primitives": body}
            for i, (name, body) in enumerate((("ingress", ingress), ("egress", egress)))
        ],
        "pipelines": [pipe("ingress", 0), pipe("egress", 1)],
        "field_aliases": [
            *([f"queueing_metadata.{f}", ["standard_metadata", f]] for f in queueing),
            ["intrinsic_metadata.mcast_grp", ["standard_metadata", "mcast_grp"]],
        ],
        "__meta__": {"version": [2, 23]},
    }  # fmt: skip


def depths(frames: int = 3000, seed: int = 1) -> dict[str, Any]:
    """How many frames report a depth that is not what a queue worked out by hand has."""
    out = assign("standard_metadata", "egress_spec", const(2))
    stamps = [assign("h", f, field("standard_metadata", f"{f}_qdepth")) for f in ("enq", "deq")]
    engine = Engine(program([out], stamps))
    engine.add_port(1)
    engine.add_port(2, PortConfig(rate_bps=RATE, queue_limits=(50,)))
    r, now, busy = random.Random(seed), 0, 0
    waiting: list[tuple[int, int]] = []  # (arrival, service begins) of frames in the queue
    want: list[tuple[int, int]] = []
    arrivals: list[tuple[int, int, int]] = []  # (arrival, service begins, depth it found)
    for _ in range(frames):
        size = r.randint(60, 1500)
        now += r.choice((0, r.randint(1, 40_000), r.randint(1, 100_000)))
        waiting = [w for w in waiting if w[1] > now]
        engine.receive(1, bytes(size), now)
        if len(waiting) < 50:
            begin = max(now, busy)
            busy = begin + size * 8 * 10**9 // RATE
            arrivals.append((now, begin, len(waiting)))
            if begin > now:
                waiting.append((now, begin))
    for i, (_, begin, found) in enumerate(arrivals):
        behind = sum(1 for a, _, _ in arrivals[i + 1 : i + 120] if a < begin)
        want.append((found, behind))
    got = [struct.unpack(">HH", f[:4]) for _, f in engine.frames_to_send(busy + 1)]
    engine.close()
    wrong = abs(len(got) - len(want)) + sum(1 for g, w in zip(got, want, strict=False) if g != w)
    return {"frames": len(want), "wrong_depths": wrong}


def _read(s: socket.socket, count: int, times: list[int]) -> None:
    """Kernel time stamps of frames, in nanoseconds."""
    while len(times) < count:
        _, aux, _, _ = s.recvmsg(2000, 100)
        times += [
            sec * 10**9 + ns
            for _, kind, value in aux
            if kind == SO_TIMESTAMPNS
            for sec, ns in [struct.unpack("=qq", value[:16])]
        ]


def _tap(name: str) -> socket.socket:
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    s.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    s.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    with suppress(PermissionError):
        s.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 16 << 20)
    s.bind((name, 3))
    s.settimeout(20)
    return s


def real_time(seconds: float = 1.0) -> Mapping[str, Any]:
    """Error of the rate over `seconds`, as a share: the worse of two ports served at once."""
    generator = build_program([BENCH_CSRC / "generator.c"], "generator", include=[BENCH_CSRC])
    names = [("c0", "d0"), ("c1", "d1"), ("c2", "d2")]
    for a, b in names:
        for args in (("link", "add", a, "type", "veth", "peer", "name", b),
                     ("link", "set", a, "up"), ("link", "set", b, "up")):  # fmt: skip
            subprocess.run(["ip", *args], check=True, capture_output=True)
        for name in (a, b):
            Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
    engine = Engine(program([assign("standard_metadata", "mcast_grp", const(1))], []))
    count = int(RATE * seconds / 8 / FRAME)
    try:
        engine.mc_group_set(1, [Replica(1), Replica(2)])
        engine.add_port(0)
        for p in (1, 2):
            engine.add_port(p, PortConfig(rate_bps=RATE, queue_limits=(2 * count,)))
        engine.start({p: names[p][1] for p in range(3)})
        taps = [_tap("c1"), _tap("c2")]
        stamps: list[list[int]] = [[], []]
        readers = [
            threading.Thread(target=_read, args=(s, count, x))
            for s, x in zip(taps, stamps, strict=True)
        ]
        for t in readers:
            t.start()
        # A little faster than the rate: the queue never runs dry, and the switch has time to
        # serve it; how it takes a burst is not what is measured.
        milliseconds = str(int(seconds * 1000))
        with tempfile.NamedTemporaryFile() as frames:
            frames.write(struct.pack("=I", FRAME) + bytes(FRAME))
            frames.flush()
            offered = str(int(1.2 * count / seconds))
            subprocess.run(
                [generator, "c0", frames.name, milliseconds, offered, "-1"],
                check=True,
                capture_output=True,
                timeout=20 + seconds,
            )
        for t in readers:
            t.join()
        want = (count - 1) * FRAME * 8 / RATE
        errors = [abs((x[-1] - x[0]) / 1e9 - want) / want for x in stamps]
        f = engine.fidelity()
        return {
            "rate_mbps": RATE / 1e6,
            "seconds": want,
            "rate_error": max(errors),
            "late_mean_us": f.late_mean_ns / 1e3,
            "late_p99_us": f.late_p99_ns / 1e3,
        }
    finally:
        engine.close()
        for a, _ in names:
            subprocess.run(["ip", "link", "del", a], capture_output=True, check=False)
