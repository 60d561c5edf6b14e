"""Specs and plans that tests share."""

from __future__ import annotations

from functools import cache

from topologies.plan import Plan
from topologies.spec import FabricSpec, load_spec
from topologies.yamlspec import parse_model


def text(**changes: str) -> str:
    """A small valid fabric as YAML; ``changes`` replace or add top-level lines."""
    lines = {
        "name": "t",
        "planes": "2",
        "t0_per_plane": "2",
        "t1_per_plane": "2",
        "hosts_per_t0": "2",
        "link": "{rate: 100 Mb/s, delay: 1 ms}",
        **changes,
    }
    return "".join(f"{key}: {value}\n" for key, value in lines.items() if value)


def spec(**changes: str) -> FabricSpec:
    return parse_model(text(**changes), FabricSpec, "t.yaml")


@cache
def two_plane() -> Plan:
    return Plan.from_spec(load_spec("two-plane"))


@cache
def plan(planes: int, t0: int, t1: int, hosts: int) -> Plan:
    return Plan.from_spec(
        spec(
            planes=str(planes),
            t0_per_plane=str(t0),
            t1_per_plane=str(t1),
            hosts_per_t0=str(hosts),
            ev=f"{{active: {planes * 8}, backup: {planes * 4}}}",
        )
    )
