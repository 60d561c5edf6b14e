from __future__ import annotations

from pathlib import Path

import pytest

from controller.entities import Codec
from controller.p4names import P4Names
from softswitch.p4 import compile_file
from tests.p4src.switch import PLAN, Switch
from topologies.plan import Plan

SOURCE = Path(__file__).parents[2] / "p4src" / "mrc_fabric.p4"


@pytest.fixture(scope="session")
def program():
    """The compiled fabric program."""
    return compile_file(SOURCE)


@pytest.fixture
def make(program):
    """make(name, failover_groups=..., ...) -> Switch, closed at the end."""
    made = []
    codec = Codec(P4Names(program.p4info))

    def build(name: str = "p0t0-0", fabric: Plan = PLAN, **options) -> Switch:
        switch = Switch(program.json, codec, fabric.switch(name), fabric=fabric, **options)
        made.append(switch)
        return switch

    yield build
    for switch in made:
        switch.close()
