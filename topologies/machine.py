"""Whether a machine can carry a fabric: a rough model of its cost in processors and memory.

The model only refuses what has no chance; whether a run kept up is measured while it runs
(the fidelity figure). The costs are measurements on one x86-64 core at about 3 GHz, rounded
against us, and count one direction of traffic at full rate between half of the hosts and the
other half, the load of the drills.
"""

from __future__ import annotations

from dataclasses import dataclass

from topologies.spec import FabricSpec, LinkSpec
from topologies.units import format_rate, format_size

ENDPOINT_PACKETS_PER_S = 25_000
"""Packets sent or received per second that one core carries in a host agent."""
SWITCH_PACKETS_PER_S = 250_000
"""Packets forwarded per second that one core carries in the switches."""
SWITCH_BYTES = 24 << 20
"""Measured: 17 MiB of its own with the program loaded."""
HOST_BYTES = 64 << 20
"""Measured: 13 MiB idle; the rest is for registered memory and packets in flight."""
BASE_BYTES = 200 << 20
"""Controller, runner with its plots, the process that switches are forked from."""
MAX_PROCESSES_PER_CPU = 64


@dataclass(frozen=True)
class Cost:
    """What a fabric needs: cores' worth of processor at full load, and bytes of memory."""

    cpus: float
    memory: int
    processes: int


def cost(spec: FabricSpec) -> Cost:
    """The cost of a fabric at full load."""
    flows = max(1, spec.hosts // 2)
    packets = flows * spec.planes * spec.link.rate / (8 * spec.data_frame_bytes)
    hops = 3 if spec.t0_per_plane > 1 else 1
    # A data packet is sent and received once and passes every hop; SACKs are about a quarter.
    cpus = packets * 2 / ENDPOINT_PACKETS_PER_S + packets * hops * 1.25 / SWITCH_PACKETS_PER_S
    memory = BASE_BYTES + spec.switches * SWITCH_BYTES + spec.hosts * HOST_BYTES
    return Cost(cpus, memory, spec.switches + spec.hosts)


def fits(spec: FabricSpec, cpus: float, mem_bytes: int) -> str | None:
    """None when a machine with so many processors and free bytes can carry the fabric.

    Otherwise one sentence: what is short, and the size that would fit.
    """
    need = cost(spec)
    if need.memory > mem_bytes or need.processes > cpus * MAX_PROCESSES_PER_CPU:
        if need.memory > mem_bytes:
            short = f"{format_size_mib(need.memory)} of memory and has {format_size_mib(mem_bytes)}"
        else:
            short = (
                f"{need.processes} processes; {cpus:g} processors carry "
                f"{int(cpus * MAX_PROCESSES_PER_CPU)}"
            )
        return f"fabric {spec.name} needs {short}; {_smaller(spec, cpus, mem_bytes)}"
    if need.cpus > cpus:
        rate = int(spec.link.rate * cpus / need.cpus) // 1_000_000 * 1_000_000
        remedy = (
            f"set link.rate to {format_rate(rate)} and scale link.delay and time_scale by "
            f"{spec.link.rate / rate:.1f}"
            if rate >= 1_000_000
            else _smaller(spec, cpus, mem_bytes)
        )
        return (
            f"fabric {spec.name} at {format_rate(spec.link.rate)} needs {need.cpus:.1f} processors "
            f"at full load and the machine has {cpus:g}; {remedy}"
        )
    return None


def format_size_mib(size: int) -> str:
    """Bytes rounded up to whole MiB, for messages."""
    return format_size(-(-size >> 20) << 20)


def _smaller(spec: FabricSpec, cpus: float, mem_bytes: int) -> str:
    """The nearest smaller fabric that fits, as advice."""
    slow = LinkSpec.model_construct(rate=1_000_000, delay=spec.link.delay)
    shape = [spec.planes, spec.t0_per_plane, spec.t1_per_plane, spec.hosts_per_t0]
    while max(shape) > 1:
        shape[shape.index(max(shape))] -= 1
        planes, t0, t1, hosts = shape
        smaller = spec.model_copy(
            update={
                "planes": planes,
                "t0_per_plane": t0,
                "t1_per_plane": t1,
                "hosts_per_t0": hosts,
                "link": slow,
            }
        )
        need = cost(smaller)
        if need.memory <= mem_bytes and need.processes <= cpus * MAX_PROCESSES_PER_CPU:
            return (
                f"planes: {planes}, t0_per_plane: {t0}, t1_per_plane: {t1}, "
                f"hosts_per_t0: {hosts} would fit"
            )
    least = BASE_BYTES + 2 * SWITCH_BYTES + HOST_BYTES
    return f"no fabric fits; at least {format_size_mib(least)} is needed"
