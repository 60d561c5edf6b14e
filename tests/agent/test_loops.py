"""The agent's loop operations: start, what comes back, what does not, stop."""

from __future__ import annotations

from typing import Any

import pytest

from hosts.agent.ops import Operations
from hosts.probing.frames import LOOP_FRAME_MAX, parse_loop
from tests.agent.test_ops import FakeAgent, agent, ask, ops, refused

__all__ = ["agent", "ops"]  # fixtures

LOOP: dict[str, Any] = {"loop": 7, "port": 1, "destination": "5f00:0:100:e001::"}
START: dict[str, Any] = {"interval_ns": 10_000, "timeout_ns": 5_000, "loops": [LOOP]}


def test_start_take_stop(ops: Operations, agent: FakeAgent) -> None:
    assert not ops.loops.active
    assert ask(ops, "loops_take")["loops"] == {}
    assert ask(ops, "loops_start", **START) == {"loops": 1}
    assert ops.raw_deadline() == 1000
    ops.serve_raw(1000)
    (frame,) = agent.nics[1].sent
    assert len(frame) <= LOOP_FRAME_MAX
    found = parse_loop(frame)
    assert found is not None
    assert (found.loop, found.sent_ns) == (7, 1000)
    assert ops.loops.receive(1, frame, 1400)
    assert not ops.loops.receive(1, b"something else", 1400)
    ops.serve_raw(11_000)
    ops.serve_raw(16_000)  # the second one's time is over
    taken = ask(ops, "loops_take")
    assert taken["loops"] == {"7": {"sent": 2, "lost": 1, "rtt_ns": 400}}
    ask(ops, "loops_stop")
    ops.serve_raw(21_000)
    assert ops.raw_deadline() is None
    assert not ops.loops.active


def test_a_second_start_replaces_the_first(ops: Operations, agent: FakeAgent) -> None:
    ask(ops, "loops_start", **START)
    ask(ops, "loops_start", **{**START, "loops": [{**LOOP, "loop": 8}]})
    ops.serve_raw(1000)
    ops.serve_raw(1001)
    assert [f.loop for frame in agent.nics[1].sent if (f := parse_loop(frame))] == [8]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"loops": []}, "must be 1 to"),
        ({"interval_ns": 10}, "too short"),
        ({"loops": [{**LOOP, "port": 2}]}, "port: 2 is no port"),
        ({"loops": [{**LOOP, "destination": "nowhere"}]}, "loop 7"),
        ({"loops": [LOOP, LOOP]}, "twice"),
        ({"loops": [{**LOOP, "prot": 1}]}, "did you mean"),
        ({"loops": [3]}, "JSON object"),
    ],
)
def test_nonsense_is_refused(ops: Operations, change: dict[str, Any], message: str) -> None:
    assert message in refused(ops, "loops_start", **{**START, **change})
    assert not ops.loops.active
