"""Kernel counters: network interfaces and the machine's load, from /proc."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")

_FIELDS = {
    "rx_bytes": 0,
    "rx_packets": 1,
    "rx_errors": 2,
    "rx_dropped": 3,
    "tx_bytes": 8,
    "tx_packets": 9,
    "tx_errors": 10,
    "tx_dropped": 11,
}


def parse_net_dev(text: str) -> dict[str, dict[str, int]]:
    """/proc/net/dev -> interface -> counters. Lines that are not counters are skipped."""
    found: dict[str, dict[str, int]] = {}
    for line in text.splitlines():
        name, colon, rest = line.partition(":")
        numbers = rest.split()
        if colon and len(numbers) >= 12 and all(n.isdigit() for n in numbers[:12]):
            found[name.strip()] = {key: int(numbers[i]) for key, i in _FIELDS.items()}
    return found


def interfaces(pids: Iterable[int | None], proc: Path = PROC) -> dict[str, dict[str, int]]:
    """Counters of all interfaces in the network namespaces of some processes (None: this
    one). Loopbacks are left out. A process that is gone contributes nothing."""
    found: dict[str, dict[str, int]] = {}
    for pid in pids:
        try:
            text = (proc / ("self" if pid is None else str(pid)) / "net/dev").read_text()
        except OSError:
            continue
        found.update(parse_net_dev(text))
    found.pop("lo", None)
    return found


@dataclass(frozen=True, slots=True)
class Load:
    """CPU time of the machine since boot, all cores, in clock ticks."""

    idle: int
    total: int

    def idle_share(self, earlier: Load) -> float:
        """Share of the machine's CPU time since `earlier` that was idle (1 when no time)."""
        span = self.total - earlier.total
        return (self.idle - earlier.idle) / span if span > 0 else 1.0


def parse_stat(text: str) -> Load:
    """The first line of /proc/stat. Waiting for disks counts as idle."""
    for line in text.splitlines():
        if line.startswith("cpu "):
            # user nice system idle iowait irq softirq steal (guest is part of user)
            ticks = [int(n) for n in line.split()[1:9]]
            return Load(idle=ticks[3] + (ticks[4] if len(ticks) > 4 else 0), total=sum(ticks))
    raise ValueError("/proc/stat has no line 'cpu'")


def load(proc: Path = PROC) -> Load:
    """The machine's load counters now."""
    return parse_stat((proc / "stat").read_text())


def pids_of(agents: Mapping[str, int]) -> list[int | None]:
    """Processes whose namespaces hold all interfaces: this one and every host's agent."""
    return [None, *agents.values()]
