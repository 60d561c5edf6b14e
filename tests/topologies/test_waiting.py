"""Looks at something until a limit, and the end of processes of others."""

from __future__ import annotations

import signal
import subprocess
from types import SimpleNamespace

import pytest

from topologies import waiting
from topologies.switches import kill


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which only pauses move on."""
    now = [100.0]

    def pause(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(waiting, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(waiting, "pause", pause)
    return now


def test_the_first_look_is_at_once_and_the_last_after_the_limit(clock: list[float]) -> None:
    assert [clock[0] for _ in waiting.looks(1, 0.4)] == pytest.approx([100, 100.4, 100.8, 101.2])
    assert clock[0] == pytest.approx(101.2)
    assert len(list(waiting.looks(0))) == 1


def test_a_slow_look_is_followed_by_another(clock: list[float]) -> None:
    """What came true during a look that took too long is not missed."""
    looked = 0
    for _ in waiting.looks(1, 0.4):
        looked += 1
        clock[0] += 5
    assert looked == 2


def test_killing_a_process_waits_for_its_end() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        assert kill(process.pid, 10)
        assert process.wait() == -signal.SIGKILL
    assert kill(process.pid, 0)
