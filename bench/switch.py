"""The switch beside a bare AF_PACKET forwarder, on the same links in the same run.

    generator -> g0 == s0 -> forwarder or switch -> s1 == k0

Everything is in a network namespace of its own. What arrives at k0 is read from the
interface's counter. The offered load is above what either can do, so the figure is the
rate at which frames come through; CPU time per frame, kernel work for it included, is
given beside it because it does not depend on who else uses the machine.

Forwarder and switch are measured in turn, several times, and the medians compared, so that
slow drifts of the machine hit both; ratios are taken within a round.

`run` adds what else a switch is measured by: the cost of a packet by table size
(bench.lookup), pacing and queue depths (bench.pacing), start and memory (bench.startup) and
table writes (bench.writes). `table` shows all of it beside what it should be.
"""

from __future__ import annotations

import json as jsonlib
import os
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bench import bmv2, lookup, pacing, startup, writes
from softswitch.engine import (
    ActionCall,
    Engine,
    Exact,
    GroupMember,
    GroupRef,
    Lpm,
    PortConfig,
)
from softswitch.engine.build import build_program

HERE = Path(__file__).resolve().parent
CSRC = HERE / "csrc"
FABRIC = HERE.parent / "p4src" / "mrc_fabric.p4"
ROUND_MS = 700
ROUNDS = 5
GENERATOR_CPU, SUBJECT_CPU = 0, 1
DESTINATION = 0xFD00_0000_0001_0000_0000_0000_0000_0002
SOURCE = 0xFD00_0000_0000_0000_0000_0000_0000_0001


class BenchError(Exception):
    """A measurement could not be made."""


def mrc_frame(size: int, label: int) -> bytes:
    """A trimmable MRC WRITE Middle of `size` bytes, ECT(0), with its own entropy."""
    udp_len = size - 14 - 40
    eth = bytes.fromhex("020000000001020000000002") + b"\x86\xdd"
    tclass = 10 << 2 | 2
    ip6 = struct.pack(">IHBB", 6 << 28 | tclass << 20 | label & 0xFFFFF, udp_len, 17, 64)
    ip6 += SOURCE.to_bytes(16, "big") + DESTINATION.to_bytes(16, "big")
    udp = struct.pack(">HHHH", 0xC000 | label & 0x3FFF, 4791, udp_len, 0)
    bth = struct.pack(">BBHII", 0xC7, 0, 0xFFFF, 0x000003, label & 0xFFFFFF)
    body = eth + ip6 + udp + bth
    return body + bytes(size - len(body))


def set_up_fabric(engine: Engine, out: int) -> None:
    """mrc_fabric as on a T0: routes, one uplink group, classes, trimming, ECN."""
    info = engine.info.tables
    engine.table_set_default(
        "FabricIngress.salt", ActionCall("FabricIngress.set_salt", (0x1234567,))
    )
    for i in range(8):
        host = DESTINATION + (i + 1 << 64)
        engine.table_add(
            "FabricIngress.route", [Lpm(host, 128)], ActionCall("FabricIngress.forward", (1, 2, 3))
        )
    engine.table_add(
        "FabricIngress.route", [Lpm(DESTINATION, 48)], ActionCall("FabricIngress.spray", (1,))
    )
    members = [
        engine.member_add(
            "FabricIngress.uplink_selector", ActionCall("FabricIngress.forward", (out, 2, 3 + i))
        )
        for i in range(4)
    ]
    group = engine.group_create("FabricIngress.uplink_selector")
    engine.group_set_members(
        "FabricIngress.uplink_selector", group, [GroupMember(m, 1, out) for m in members]
    )
    engine.table_add("FabricIngress.uplinks", [Exact(1)], GroupRef(group))
    for dscp, action in ((10, "trimmable_class"), (14, "trimmable_class"), (46, "control_class")):
        engine.table_add(
            "FabricIngress.classes", [Exact(dscp)], ActionCall(f"FabricIngress.{action}")
        )
    engine.table_add(
        "FabricIngress.trim_profile",
        [Exact(out)],
        ActionCall("FabricIngress.trim_at", (30, 168, 12, 1_000_000)),
    )
    if "FabricEgress.ecn" in info:
        engine.table_add(
            "FabricEgress.ecn", [Exact(out)], ActionCall("FabricEgress.mark_between", (6, 24, 3641))
        )


def load_program(program: Path | None) -> tuple[Mapping[str, Any], str]:
    """(bmv2 JSON, name): a given JSON or P4 file, else the fabric program."""
    source = program or FABRIC
    if source.suffix == ".json":
        return jsonlib.loads(source.read_text()), source.name
    from softswitch.p4 import compile_file

    return compile_file(source).json, source.name


def _run(*args: str) -> None:
    done = subprocess.run(args, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"{' '.join(args)}: {done.stderr.strip() or done.returncode}")


@contextmanager
def links() -> Iterator[None]:
    """The two veth pairs, in the namespace we are in."""
    pairs = (("g0", "s0"), ("s1", "k0"))
    _run("ip", "link", "set", "lo", "up")
    for a, b in pairs:
        _run(
            "ip", "link", "add", a, "mtu", "9216", "type", "veth", "peer", "name", b, "mtu", "9216"
        )
        for name in (a, b):
            with suppress(OSError):
                Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
            _run("ip", "link", "set", name, "up")
    try:
        yield
    finally:
        for a, _ in pairs:
            subprocess.run(["ip", "link", "del", a], capture_output=True, check=False)


def received(ifname: str) -> int:
    """Frames that arrived at an interface of this namespace."""
    for line in Path("/proc/self/net/dev").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name.strip() == ifname:
            return int(rest.split()[1])
    raise BenchError(f"no interface {ifname}")


def _pin(cpu: int) -> set[int]:
    old = os.sched_getaffinity(0)
    if cpu in old:
        os.sched_setaffinity(0, {cpu})
    return old


class Bench:
    """Measures one frame size."""

    def __init__(self, size: int, tmp: Path) -> None:
        self.size = size
        self.frames = tmp / f"frames{size}"
        data = b"".join(mrc_frame(size, i * 0x9E37 + 1) for i in range(256))
        self.frames.write_bytes(struct.pack("=I", size) + data)
        self.forwarder = build_program([CSRC / "forwarder.c"], "forwarder", include=[CSRC])
        self.generator = build_program([CSRC / "generator.c"], "generator", include=[CSRC])

    def through(self, rate: int = 0) -> tuple[float, int]:
        """(frames/s at k0, frames offered) while the generator runs, at `rate`/s or flat out."""
        before, start = received("k0"), time.monotonic()
        out = subprocess.run(
            [self.generator, "g0", self.frames, str(ROUND_MS), str(rate), str(GENERATOR_CPU)],
            stdout=subprocess.PIPE,
            text=True,
            timeout=30,
            check=True,
        ).stdout
        seconds = time.monotonic() - start
        sent = int(jsonlib.loads(out)["sent"])
        return (received("k0") - before) / seconds, sent

    def bare(self) -> dict[str, float]:
        """One round with the forwarder."""
        proc = subprocess.Popen(
            [str(self.forwarder), "s0", "s1", str(ROUND_MS + 600), str(SUBJECT_CPU)],
            stdout=subprocess.PIPE,
            text=True,
        )
        if proc.stdout is None or proc.stdout.readline().strip() != "ready":
            raise BenchError("the bare forwarder did not start")
        rate, sent = self.through()
        out, _ = proc.communicate(timeout=30)
        r = jsonlib.loads(out)
        return {"pps": rate, "cpu_ns": r["cpu_ns"] / max(1, r["frames"]), "offered": float(sent)}

    def switch(self, program: Mapping[str, Any]) -> dict[str, float]:
        """One round with the engine, its ports without a rate limit."""
        old = _pin(SUBJECT_CPU)  # the data-path thread inherits it
        engine = Engine(program, seed=1)
        try:
            engine.add_port(1, PortConfig())
            engine.add_port(2, PortConfig())
            if "FabricIngress.route" in engine.info.tables:
                set_up_fabric(engine, 2)
            elif "I.route" in engine.info.tables:
                member = engine.member_add("I.sel", ActionCall("I.out_port", (2,)))
                group = engine.group_create("I.sel")
                engine.group_set_members("I.sel", group, [GroupMember(member)])
                engine.table_add("I.route", [Lpm(DESTINATION, 48)], GroupRef(group))
            engine.start({1: "s0", 2: "s1"})
            cpu = engine.fidelity().cpu_ns
            rate, sent = self.through()
            stats = engine.port_stats(2)
            if stats.tx_packets == 0:
                raise BenchError("the program forwarded nothing: its tables are not known here")
            used = engine.fidelity().cpu_ns - cpu
            return {
                "pps": rate,
                "cpu_ns": used / max(1, stats.tx_packets),
                "offered": float(sent),
            }
        finally:
            engine.close()
            os.sched_setaffinity(0, old)

    def measure(self, program: Mapping[str, Any]) -> dict[str, Any]:
        """Medians of several rounds of both, and their ratios."""
        bare, ours = [], []
        for _ in range(ROUNDS):
            bare.append(self.bare())
            ours.append(self.switch(program))
        pairs = list(zip(bare, ours, strict=True))

        def middle(rounds: list[dict[str, float]], key: str) -> float:
            return statistics.median(r[key] for r in rounds)

        return {
            "frame_bytes": self.size,
            "forwarder_pps": middle(bare, "pps"),
            "switch_pps": middle(ours, "pps"),
            "ratio": statistics.median(o["pps"] / max(1.0, b["pps"]) for b, o in pairs),
            "forwarder_cpu_ns_per_frame": middle(bare, "cpu_ns"),
            "switch_cpu_ns_per_frame": middle(ours, "cpu_ns"),
            "cpu_ratio": statistics.median(b["cpu_ns"] / max(1.0, o["cpu_ns"]) for b, o in pairs),
            "offered_pps": middle(ours, "offered") / (ROUND_MS / 1e3),
        }


def measure(program: Path | None, sizes: tuple[int, ...]) -> dict[str, Any]:
    """Measure inside the current network namespace, which must be our own."""
    source, name = load_program(program)
    out: dict[str, Any] = {"program": name, "cpus": len(os.sched_getaffinity(0))}
    with links(), tempfile.TemporaryDirectory() as tmp:
        benches = {size: Bench(size, Path(tmp)) for size in sizes}
        for size, bench in benches.items():
            out[f"{size} B"] = bench.measure(source)
        beside = bmv2.measure(
            source, DESTINATION, sizes, Path(tmp), lambda size, rate: benches[size].through(rate)[0]
        )
        for size in sizes if beside else ():
            theirs = beside[f"{size} B pps"]
            out[f"{size} B"]["simple_switch_pps"] = theirs
            ours = out[f"{size} B"]["switch_pps"]
            out[f"{size} B"]["times_simple_switch"] = ours / max(1.0, theirs)
    return out


def others() -> dict[str, Any]:
    """All but the comparison with the forwarder; inside a network namespace of our own."""
    out: dict[str, Any] = {}
    for name, call in (
        ("pacing", pacing.real_time),
        ("depths", pacing.depths),
        ("tables", lookup.run),
        ("writes", writes.run),
        ("startup", startup.run),
    ):
        with links():
            out[name] = call()
    return out


RATIO = {"128 B": 0.7, "4096 B": 0.85}
"""What the switch should reach of the bare forwarder, by frame size."""


def checks(result: Mapping[str, Any]) -> list[tuple[str, float, str, str, bool]]:
    """(what, value, unit, what it should be, whether it is) of a result of `run`."""
    out: list[tuple[str, float, str, str, bool]] = []

    def add(what: str, value: float, unit: str, op: str, limit: float) -> None:
        ok = value >= limit if op == ">=" else value <= limit
        out.append((what, value, unit, f"{op} {limit:g}", ok))

    for size, least in RATIO.items():
        if size in result:
            row = result[size]
            add(f"rate at {size} / bare forwarder", row["ratio"], "", ">=", least)
            add(f"CPU of the forwarder / ours at {size}", row["cpu_ratio"], "", ">=", least)
            if "times_simple_switch" in row:
                add(f"rate at {size} / simple_switch", row["times_simple_switch"], "", ">=", 5)
    tables = result.get("tables", {})
    flat, double = ("10000", 1.25), ("1000", 2.0)
    for kind, (size, limit) in {
        "exact": flat, "lpm": flat, "ternary": double, "range": double,
    }.items():  # fmt: skip
        if kind in tables:
            cost = tables[kind][size]["times_smallest"]
            add(f"cost of a packet, {kind}, {size} / 10 entries", cost, "", "<=", limit)
    if "writes" in result:
        add("P4Runtime table writes", result["writes"]["updates_per_s"], "/s", ">=", 5000)
    if "pacing" in result:
        add("pacing error over a second", 100 * result["pacing"]["rate_error"], "%", "<=", 1)
    if "depths" in result:
        add("wrong queue depths", result["depths"]["wrong_depths"], "", "<=", 0)
    if "startup" in result:
        s = result["startup"]
        add("start of one switch, warm", s["one_seconds"], "s", "<=", 0.5)
        add("memory of a switch (RSS)", s["farm_rss_mib"], "MiB", "<=", 50)
        add(f"start of {s['farm_switches']} switches", s["farm_seconds"], "s", "<=", 30)
    return out


def table(result: Mapping[str, Any]) -> list[str]:
    """The result for people, in 80 columns."""
    lines = [f"{'':<46}{'measured':>14}{'should be':>12}"]
    for what, value, unit, limit, ok in checks(result):
        text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
        lines.append(f"{what:<46}{text + ' ' + unit:>14}{limit:>12}{'' if ok else '   no'}")
    lines += ["", f"{'ns of CPU a packet':<26}{'entries':>12}{'ns':>10}{'entries/s':>14}"]
    for kind, rows in result.get("tables", {}).items():
        for size, row in rows.items():
            numbers = f"{size:>12}{row['frame_ns']:>10.0f}{row['entries_per_s']:>14,.0f}"
            lines.append(f"{kind:<26}{numbers}")
    lines += ["", f"{'frames/s':<26}{'bare forwarder':>16}{'switch':>12}{'simple_switch':>16}"]
    for size, row in result.items():
        if isinstance(row, Mapping) and "forwarder_pps" in row:
            theirs = row.get("simple_switch_pps")
            beside = f"{theirs:,.0f}" if theirs else "not here"
            numbers = f"{row['forwarder_pps']:>16,.0f}{row['switch_pps']:>12,.0f}{beside:>16}"
            lines.append(f"{size:<26}{numbers}")
    return lines


def run(
    program: Path | None = None, sizes: tuple[int, ...] = (128, 4096), json: bool = False
) -> dict[str, Any]:
    """Measure in a fresh network namespace and return the figures; `json` prints them too.

    Raises BenchError when a namespace cannot be had or a step fails.
    """
    unshare = shutil.which("unshare")
    if unshare is None:
        raise BenchError("unshare (util-linux) is not installed")
    how = ["--net"] if os.geteuid() == 0 else ["--user", "--map-root-user", "--net"]
    command = [unshare, *how, sys.executable, "-m", "bench.switch", "--sizes"]
    command += [",".join(map(str, sizes)), "--all"]
    if program is not None:
        command += ["--program", str(program)]
    done = subprocess.run(
        command,
        cwd=HERE.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise BenchError(f"switch bench failed: {lines[-1]}")
    result: dict[str, Any] = jsonlib.loads(done.stdout)
    if json:
        print(jsonlib.dumps(result, indent=2))
    return result


def main(argv: list[str]) -> int:
    """The child: --program FILE, --sizes N,N, --rounds N, --ms N, --all; prints JSON."""
    global ROUNDS, ROUND_MS  # noqa: PLW0603
    program: Path | None = None
    sizes: tuple[int, ...] = (128, 4096)
    everything = False
    args = iter(argv)
    for a in args:
        if a == "--program":
            program = Path(next(args))
        elif a == "--sizes":
            sizes = tuple(int(x) for x in next(args).split(","))
        elif a == "--rounds":
            ROUNDS = int(next(args))
        elif a == "--ms":
            ROUND_MS = int(next(args))
        elif a == "--all":
            everything = True
    try:
        result = measure(program, sizes)
        if everything:
            result |= others()
        print(jsonlib.dumps(result))
    except Exception as e:
        print(f"{type(e).__name__}: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
