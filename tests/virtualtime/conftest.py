from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from topologies.plan import Plan
from topologies.spec import FabricSpec, load_spec
from virtualtime.profile import ProfileName, figures
from virtualtime.testbed import VirtualTestbed

TINY = """
name: tiny
planes: {planes}
t0_per_plane: 2
t1_per_plane: {t1}
hosts_per_t0: {hosts}
mode: {mode}
time_scale: 2000
link: {{rate: 50 Mb/s, delay: 800 us, switch_latency: 1200 us}}
queues: {{data: 72 packets, control: 1000 packets}}
ecn: {{kmin: 5 packets, kmax: 19 packets}}
trim: {{enabled: true, threshold: 24 packets, last_hop: 36 packets}}
ev: {{active: {active}, backup: {backup}, min_active: 2}}
"""


@pytest.fixture
def tiny(tmp_path: Path):
    """tiny(planes=..., t1=..., hosts=...) -> a small fabric's spec."""

    def make(
        planes: int = 2,
        t1: int = 2,
        hosts: int = 1,
        mode: str = "ecmp",
        active: int = 32,
        backup: int = 0,
    ) -> FabricSpec:
        file = tmp_path / "tiny.yaml"
        file.write_text(
            TINY.format(planes=planes, t1=t1, hosts=hosts, mode=mode, active=active, backup=backup)
        )
        return load_spec(str(file))

    return make


@pytest.fixture
def bed(tmp_path: Path):
    """bed(spec or name, profile, ...) -> a running testbed, closed at the end."""

    @contextmanager
    def up(spec: FabricSpec | str, profile: ProfileName = "real", **more) -> Iterator:
        chosen = figures(load_spec(spec) if isinstance(spec, str) else spec, profile)
        options = {"run_id": "test", "run_dir": tmp_path / "run", "seed": 1, **more}
        with VirtualTestbed(chosen.plan, tempo=chosen.tempo, **options) as testbed:
            yield testbed

    return up


def one_flow(testbed, src: str, dst: str, *, message: int = 1 << 16, window: int = 64) -> int:
    """Connect two hosts and start writing; the QPN at the source."""
    a, b = testbed.agents[src], testbed.agents[dst]
    target = b.call("register_memory", length=message * window)
    mine, theirs = a.call("create_qp"), b.call("create_qp")
    a.call("connect_qp", qpn=mine["qpn"], peer=theirs)
    b.call("connect_qp", qpn=theirs["qpn"], peer=mine)
    a.call(
        "workload_start",
        qpn=mine["qpn"],
        message_bytes=message,
        window=window,
        region_bytes=message * window,
        remote_va=target["va"],
        rkey=target["rkey"],
        seed=5,
    )
    return int(mine["qpn"])


def delivered(testbed, host: str) -> int:
    """Payload bytes that a host's QPs have placed."""
    qps = testbed.agents[host].call("stats")["endpoint"]["qps"]
    return sum(qp["delivered_bytes"] for qp in qps.values())


def plan_of(testbed) -> Plan:
    return testbed.plan
