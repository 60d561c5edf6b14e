"""The soak: repeatable rounds, traces that replay, and that it finds what is broken."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from hosts.core.bitmap import ReceiveBitmap
from hosts.core.ev.selector import Rotation
from hosts.core.messages import Reassembly
from hosts.core.requestor import Requestor
from hosts.core.responder import Responder
from hosts.soak.run import WEIGHTS, Trace, replay, shorten, soak_round
from hosts.soak.setup import Setup
from hosts.soak.world import World
from mrclab.commands.soak import soak_command


def test_rounds_hold_and_repeat():
    """The same seed gives the same round, to the last frame."""
    traces = []
    for _ in range(2):
        trace, world = soak_round(11, 3, 60)
        assert trace.problem == ""
        traces.append((trace.to_text(), world.frames, world.now))
    assert traces[0] == traces[1]


def test_every_action_is_drawn_and_does_something():
    assert {name for name, _, _ in WEIGHTS} == set(World(Setup()).actions)


def test_a_trace_survives_its_text():
    trace, world = soak_round(5, 0, 80)
    again = Trace.from_text(trace.to_text())
    assert again == trace
    _, second = replay(again)
    assert (second.frames, second.now) == (world.frames, world.now)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1"),
        ("{}", "line 1: not a soak trace"),
        ('{"soak": 1, "setup": {"planets": 2}}', "line 1: setup: unknown field 'planets'"),
        ('{"soak": 1, "setup": {"interop": ["x", "y"]}}', "two of reference"),
        ('{"soak": 1, "setup": {}}\n["fly", 1]', "line 2: no action"),
        ('{"soak": 1, "setup": {}}\n["wait"]', "line 2: no action"),
    ],
)
def test_bad_traces_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        Trace.from_text(text)


def _break(monkeypatch, what):
    """One mistake in the endpoint."""
    if what == "acknowledges what it drops":
        monkeypatch.setattr(Responder, "_short_of", lambda *_: None)
        add = ReceiveBitmap.add
        monkeypatch.setattr(ReceiveBitmap, "add", lambda self, seq: add(self, seq + (seq % 7 == 0)))
    elif what == "takes messages out of order":
        feed = Reassembly.feed

        def wrong(self, packet):
            verdict = feed(self, packet)
            self.imm ^= self.completed & 1
            return verdict

        monkeypatch.setattr(Reassembly, "feed", wrong)
    elif what == "retransmits on the EV that lost the packet":
        monkeypatch.setattr(Rotation, "again", lambda self, port, now, avoid, lost_at: avoid)
    elif what == "forgets its timers":
        monkeypatch.setattr(Requestor, "next_deadline", lambda self: None)


@pytest.mark.sources
@pytest.mark.parametrize(
    "what",
    [
        "acknowledges what it drops",
        "takes messages out of order",
        "retransmits on the EV that lost the packet",
        "forgets its timers",
    ],
)
def test_it_finds_mistakes(monkeypatch, what):
    _break(monkeypatch, what)
    for number in range(12):
        trace, _ = soak_round(1, number, 100)
        if trace.problem:
            break
    assert trace.problem, "nothing was found"
    again, _ = replay(trace)
    assert again.problem == trace.problem


@pytest.mark.sources
def test_shortening_keeps_the_problem(monkeypatch):
    _break(monkeypatch, "takes messages out of order")
    trace = next(t for n in range(20) if (t := soak_round(2, n, 60)[0]).problem)
    short = shorten(trace)
    assert short.problem
    assert len(short.actions) < len(trace.actions)


@pytest.mark.sources
def test_the_command(tmp_path, monkeypatch):
    run = CliRunner()
    held = run.invoke(soak_command, ["--seed", "3", "--rounds", "2", "--steps", "40", "--json"])
    assert held.exit_code == 0
    assert json.loads(held.stdout)["rounds"] == 2
    _break(monkeypatch, "takes messages out of order")
    file = tmp_path / "bad.trace"
    options = ["--seed", "2", "--steps", "60", "--rounds", "30", "--trace", str(file)]
    found = run.invoke(soak_command, options, standalone_mode=False)
    assert found.return_value == 1
    assert f"--replay {file}" in found.stdout
    again = run.invoke(soak_command, ["--replay", str(file)], standalone_mode=False)
    assert again.return_value == 1
    assert "violated: step" in again.stdout
