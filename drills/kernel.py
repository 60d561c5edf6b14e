"""The machine's load, from /proc/stat."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


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
