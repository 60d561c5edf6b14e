"""Virtual time: how long it takes, how much memory, and how that grows with the fabric.

    ./lab bench virtual                    both figures and the curve up to 1,024 NICs
    python -m bench.virtual --nics 64      one fabric

Everything runs at real figures (8 x 100 Gb/s a host, 4 KiB payload). Each measurement has a
process of its own, so that memory is that of the one fabric. A *packet-hop* is one frame that
arrives at one switch; the work of the hosts (in Python) is in the same seconds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click

from topologies.spec import FabricSpec, load_spec
from virtualtime.profile import figures
from virtualtime.testbed import VirtualTestbed

BASE = "thousand"
LINE = "eight-plane"
SIZES = (16, 64, 256, 1024)
CURVE_US = 20
"""Simulated microseconds of the curve's smaller fabrics."""
LARGE_US = 100
LINE_US = 1000
LARGE = 1024
MESSAGE = 64 << 10
WINDOW = 24
MB = 1 << 20


def spec_of(nics: int) -> FabricSpec:
    """Eight planes, up to 32 hosts a T0, as many T1s as hosts under a T0: nothing is scarce."""
    under = min(32, nics // 2)
    values = load_spec(BASE).model_dump(mode="json", by_alias=True)
    values.update(name=f"nics-{nics}", t0_per_plane=nics // under, t1_per_plane=under)
    values["hosts_per_t0"] = under
    return FabricSpec.model_validate(values)


def measure(spec: FabricSpec, us: int, workers: int, seed: int = 1) -> dict[str, Any]:
    """A permutation: every host writes at full rate to one under another T0."""
    begin = time.monotonic()
    chosen = figures(spec, "real")
    with tempfile.TemporaryDirectory() as scratch:
        testbed = VirtualTestbed(
            chosen.plan,
            tempo=chosen.tempo,
            run_id="bench",
            run_dir=Path(scratch),
            seed=seed,
            workers=workers,
            samples=False,
        )
        with testbed:
            flows = _connect(testbed)
            for index, (source, qpn, target, _) in enumerate(flows):
                testbed.agents[source].call(
                    "workload_start",
                    qpn=qpn,
                    message_bytes=MESSAGE,
                    window=WINDOW,
                    region_bytes=MESSAGE * WINDOW,
                    remote_va=target["va"],
                    rkey=target["rkey"],
                    seed=index,
                )
            ready = time.monotonic()
            world = testbed.world
            pids = (os.getpid(), *testbed.worker_pids)
            cpu = sum(map(_cpu, pids))
            world.run(world.now + us * 1000)
            took = time.monotonic() - ready
            cpu = sum(map(_cpu, pids)) - cpu
            network = world.fabric.network.figures()
            placed = _placed(testbed)
            memory = sum(map(_memory, pids))
            line = 8 * spec.link.rate * spec.time_scale
    return {
        "nics": spec.hosts,
        "switches": spec.switches,
        "simulated_us": us,
        "workers": workers,
        "setup_s": round(ready - begin, 2),
        "seconds": round(took, 2),
        "cpu_s": round(cpu, 2),
        "packet_hops": network.hops,
        "cpu_us_per_hop": round(cpu * 1e6 / max(1, network.hops), 2),
        "frames": network.injected,
        "memory_mb": memory // MB,
        "goodput_share": round(placed * 8e6 / us / spec.hosts / line, 4),
    }


def _cpu(pid: int) -> float:
    """CPU seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory(pid: int) -> int:
    """Bytes of a process, pages that it shares counted by its part of them."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


Flow = tuple[str, int, dict[str, Any], str]
"""Source, its QPN, the region at the destination, destination."""


def _connect(testbed: VirtualTestbed) -> list[Flow]:
    hosts = list(testbed.plan.hosts)
    flows: list[Flow] = []
    for i, source in enumerate(hosts):
        target = hosts[(i + len(hosts) // 2) % len(hosts)]
        a, b = testbed.agents[source], testbed.agents[target]
        region = b.call("register_memory", length=MESSAGE * WINDOW)
        mine, theirs = a.call("create_qp"), b.call("create_qp")
        a.call("connect_qp", qpn=mine["qpn"], peer=theirs)
        b.call("connect_qp", qpn=theirs["qpn"], peer=mine)
        flows.append((source, int(mine["qpn"]), region, target))
    return flows


def _placed(testbed: VirtualTestbed) -> int:
    total = 0
    for agent in testbed.agents.values():
        qps = agent.call("stats")["endpoint"]["qps"]
        total += sum(qp["delivered_bytes"] for qp in qps.values())
    return total


def run(workers: int | None = None, largest: int = LARGE) -> dict[str, Any]:
    """All measurements: `line` (8 hosts x 800 Gb/s for a millisecond) and `curve`."""
    workers = workers or len(os.sched_getaffinity(0))
    line = _apart(LINE, LINE_US, workers)
    curve = [
        _apart(str(nics), LARGE_US if nics == LARGE else CURVE_US, workers)
        for nics in SIZES
        if nics <= largest
    ]
    return {"line": line, "curve": curve}


def _apart(fabric: str, us: int, workers: int) -> dict[str, Any]:
    """One measurement in a process of its own."""
    command = [sys.executable, "-m", "bench.virtual", "--fabric", fabric, "--us", str(us)]
    command += ["--workers", str(workers), "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[1:])}: status {done.returncode}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


COLUMNS = (
    ("nics", "NICs", 6),
    ("switches", "switches", 9),
    ("simulated_us", "sim us", 7),
    ("packet_hops", "packet-hops", 12),
    ("seconds", "seconds", 8),
    ("cpu_s", "CPU s", 8),
    ("cpu_us_per_hop", "us/hop", 7),
    ("setup_s", "set-up", 7),
    ("memory_mb", "MB", 7),
    ("goodput_share", "goodput", 8),
)


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Rows as aligned lines of at most 80 columns."""
    lines = ["".join(f"{title:>{width}}" for _, title, width in COLUMNS)]
    for row in rows:
        cells = []
        for key, _, width in COLUMNS:
            value = row[key]
            text = f"{value:.0%}" if key == "goodput_share" else f"{value:,}"
            cells.append(f"{text:>{width}}")
        lines.append("".join(cells))
    return lines


def lines(result: dict[str, Any]) -> list[str]:
    """The result for a terminal."""
    return [
        "8 hosts x 800 Gb/s for a millisecond (a permutation, everything real figures)",
        *table([result["line"]]),
        "",
        "the same permutation on larger fabrics",
        *table(result["curve"]),
    ]


def plot(result: dict[str, Any], path: Path) -> None:
    """CPU seconds over packet-hops, both logarithmic, with the line of constant cost."""
    from matplotlib.figure import Figure

    rows = sorted([result["line"], *result["curve"]], key=lambda row: row["packet_hops"])
    hops = [row["packet_hops"] for row in rows]
    seconds = [row["cpu_s"] for row in rows]
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    axes.loglog(hops, seconds, "o-", color="#0072B2", label="measured")
    cost = seconds[-1] / hops[-1]
    axes.loglog(hops, [n * cost for n in hops], "--", color="#8a8f98", label="linear")
    for row in rows:
        axes.annotate(
            f"{row['nics']:,} NICs, {row['simulated_us']} us",
            (row["packet_hops"], row["cpu_s"]),
            xytext=(6, -10),
            textcoords="offset points",
            fontsize=8,
        )
    axes.set_xlabel("packet-hops")
    axes.set_ylabel("CPU seconds, all processes")
    axes.legend(frameon=False)
    axes.grid(color="#e6e8eb")
    figure.savefig(path)


@click.command()
@click.option("--fabric", default=LINE, show_default=True, help="A catalogue name, or NICs.")
@click.option("--us", type=click.IntRange(1, 1_000_000), default=CURVE_US, show_default=True)
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(fabric: str, us: int, workers: int, as_json: bool) -> None:
    """One measurement."""
    spec = spec_of(int(fabric)) if fabric.isdigit() else load_spec(fabric)
    result = measure(spec, us, workers)
    print(json.dumps(result) if as_json else "\n".join(table([result])))


if __name__ == "__main__":
    main()
