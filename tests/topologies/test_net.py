"""The built fabric, in namespaces of its own (scenarios.py)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.topologies.inside import run

pytestmark = [
    pytest.mark.net,
    pytest.mark.skipif(shutil.which("mnexec") is None, reason="no mnexec (Debian's mininet)"),
]


@pytest.mark.parametrize(
    "scenario",
    [
        "netlink_explains_refusals",
        "every_pair_of_hosts_reaches_each_other",
        "interfaces_are_silent",
        "what_is_wrong_is_found",
        "cut_and_repair",
        "a_switch_that_does_not_see_the_cut_is_an_error",
        "impairments_compose_by_value",
        "counters_add_up",
        "mininet_prompt_works",
        "failures_leave_nothing",
        "evs_take_the_predicted_links",
    ],
)
def test_scenario(scenario: str, tmp_path: Path) -> None:
    run(scenario, tmp_path)
