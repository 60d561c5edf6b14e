"""Which running lab a command means that names none."""

from __future__ import annotations

from typing import Any

import pytest

from mrclab import namespace
from mrclab.errors import UserError
from mrclab.namespace import RunningLab, pick_lab

STATES: dict[str, dict[str, Any]] = {
    "up-1": {"command": "up"},
    "up-2": {"command": "up"},
    "drill-1": {"command": "drill"},
    "drill-2": {"command": "drill"},
    "new": {},
}


@pytest.mark.parametrize(
    ("running", "wanted", "found"),
    [
        (["up-1"], None, "up-1"),
        (["drill-1"], None, "drill-1"),
        (["drill-1", "up-1", "drill-2", "new"], None, "up-1"),
        (["drill-1", "up-1"], "drill", "drill-1"),
    ],
)
def test_the_only_one_or_the_only_one_that_is_up(
    running: list[str], wanted: str | None, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(running, monkeypatch)
    assert pick_lab(wanted).run_id == found


@pytest.mark.parametrize(
    ("running", "wanted", "said"),
    [
        ([], None, "no lab is running"),
        (["up-1", "up-2"], None, r"2 labs are running \(up-1, up-2\): choose one with --lab ID"),
        (["drill-1", "drill-2"], None, "choose one with --lab ID"),
        (["up-1", "up-2"], "up", "--lab up: no such running lab"),
    ],
)
def test_otherwise_it_asks(
    running: list[str], wanted: str | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(running, monkeypatch)
    with pytest.raises(UserError, match=said):
        pick_lab(wanted)


def run(running: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    labs = [RunningLab(name, n) for n, name in enumerate(running, 1)]
    monkeypatch.setattr(namespace, "running_labs", lambda: labs)
    monkeypatch.setattr(RunningLab, "state", lambda self: STATES[self.run_id])
