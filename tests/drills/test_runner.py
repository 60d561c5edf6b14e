"""The runner against a testbed that answers like a lab: order, files, and what can go wrong."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from drills.events import read_events
from drills.format import Bound, Drill, parse
from drills.progress import Plain, Silent
from drills.rejudge import main, rejudge
from drills.runner import run_drill
from drills.waiting import ConditionTimeout, Waiter
from mrclab.errors import UserError
from tests.drills.fake_testbed import FakeTestbed
from topologies.yamlspec import SpecError

QUICK = """\
name: quick
title: A quick link-down
workload:
  flows:
    - {from: h0, to: h2}
  message: 16 KiB
  outstanding: 2
  memory: 1 MiB
warmup: 100 ms
duration: 600 ms
timeline:
  - {fault: link_down, link: "p0t0-0:p0t1-0", at: 200 ms, until: 400 ms}
expect:
  memory_mismatches: {at_most: 0}
  bytes_missing: {at_most: 0}
  evs_not_demoted: {at_most: 0}
  evs_wrongly_demoted: {at_most: 0}
  goodput_share_during: {at_least: 0.9}
  steer_rtts: {at_most: 5}
fidelity: {cpu_left: 0 %}
"""


def quick() -> Drill:
    return parse(QUICK)


@pytest.fixture
def lab(tmp_path: Path) -> FakeTestbed:
    return FakeTestbed(tmp_path / "lab")


@pytest.fixture(autouse=True)
def no_pictures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes most of a run's second, and has tests of its own."""
    if "report" not in request.node.name:
        monkeypatch.setattr(
            "drills.runner.write_report", lambda path, *_rest: path.write_text("<html>")
        )


def test_a_run_writes_its_directory_with_report(lab: FakeTestbed, tmp_path: Path) -> None:
    out = tmp_path / "out"
    summary = run_drill(quick(), lab, out, seed=3)
    assert summary.verdict == "pass", summary.why
    stored = json.loads((out / "summary.json").read_text())
    assert stored["verdict"] == "pass"
    assert stored["run"]["seed"] == 3
    assert sorted(p.name for p in out.iterdir()) == [
        "drill.json",
        "events.jsonl",
        "fabric.json",
        "report.html",
        "run.json",
        "summary.json",
    ]
    events = read_events(out / "events.jsonl")
    assert [e.t for e in events] == sorted(e.t for e in events)
    phases = [e["name"] for e in events if e.type == "phase"]
    assert phases == ["start", "steady", "stop", "drained", "end"]
    assert lab.links.log == ["cut", "repair"]


def test_faults_are_made_when_due(lab: FakeTestbed, tmp_path: Path) -> None:
    run_drill(quick(), lab, tmp_path / "out")
    events = read_events(tmp_path / "out/events.jsonl")
    begin = next(e.t for e in events if e.type == "phase" and e["name"] == "start")
    cut, heal = (e for e in events if e.type == "fault")
    assert (cut["action"], heal["action"]) == ("invoke", "heal")
    assert 200e6 <= cut.t - begin < 300e6
    assert cut["confirmed"] >= cut.t
    assert 180e6 < heal.t - cut.t < 300e6


def test_a_stored_run_is_judged_the_same_again(lab: FakeTestbed, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run_drill(quick(), lab, out)
    assert rejudge(out).dumps() == (out / "summary.json").read_text()
    # The verdict is computed, not copied.
    text = (out / "events.jsonl").read_text()
    (out / "events.jsonl").write_text(text.replace('"type":"memory"', '"type":"other"'))
    assert rejudge(out).verdict == "void"


def test_a_folder_that_is_no_run_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    with pytest.raises(UserError, match=r"not a run directory: it has no run\.json"):
        rejudge(tmp_path)


def test_a_link_that_does_not_go_down_is_void_and_healed(
    lab: FakeTestbed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drills.runner.STATE_TIMEOUT", 30_000_000)
    lab.links.stuck = True
    summary = run_drill(quick(), lab, tmp_path / "out")
    assert summary.verdict == "void"
    assert "is not down" in summary.why[0]
    assert lab.links.log == ["cut", "repair"]


def test_a_lab_that_breaks_is_void(lab: FakeTestbed, tmp_path: Path) -> None:
    lab.links.broken = True
    summary = run_drill(quick(), lab, tmp_path / "out")
    assert summary.verdict == "void"
    assert "the side channel is gone" in summary.why[0]
    assert (tmp_path / "out/report.html").exists()


def test_wrong_bytes_fail(lab: FakeTestbed, tmp_path: Path) -> None:
    lab.corrupt = True
    assert run_drill(quick(), lab, tmp_path / "out").verdict == "fail"


def test_messages_that_never_complete_fail(
    lab: FakeTestbed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection that timed out is replaced: its next answer would be the late one."""
    lab.stuck = 2
    opened: list[str] = []

    def connect(path: str) -> object:
        opened.append(path)
        return lab.agents[path]

    monkeypatch.setattr("drills.flows.AgentClient", connect)
    drill = parse(QUICK).model_copy(update={"expect": {"messages_unfinished": Bound(at_most=0)}})
    summary = run_drill(drill, lab, tmp_path / "out")
    assert opened == ["h0"]
    assert summary.verdict == "fail"
    assert summary.metrics["messages_unfinished"] == 2


def test_too_slow_fails(tmp_path: Path) -> None:
    lab = FakeTestbed(tmp_path / "lab", rate=15e6)
    assert run_drill(quick(), lab, tmp_path / "out").verdict == "fail"


@pytest.mark.parametrize("when", ["sample", "report"])
def test_an_interrupted_run_leaves_no_summary_and_heals(
    lab: FakeTestbed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    def interrupt(*_args: object, **_fields: object) -> None:
        if when == "report" or lab.links.down:
            raise KeyboardInterrupt

    where = "drills.runner.write_report" if when == "report" else "drills.samples.kernel.load"
    if when == "sample":
        from drills import kernel

        real = kernel.load

        def load() -> object:
            interrupt()
            return real()

        monkeypatch.setattr(where, load)
        monkeypatch.setattr("drills.runner.CPU_EVERY", 20_000_000)
    else:
        monkeypatch.setattr(where, interrupt)
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        run_drill(quick(), lab, out)
    assert not (out / "summary.json").exists()
    assert not list(out.glob(".*.part"))
    assert not lab.links.down


def test_a_drill_that_does_not_fit_is_refused_before_anything_starts(
    lab: FakeTestbed, tmp_path: Path
) -> None:
    drill = parse(QUICK.replace("p0t1-0", "p0t1-7"))
    with pytest.raises(SpecError, match="no link"):
        run_drill(drill, lab, tmp_path / "out")
    assert not any(agent.calls for agent in lab.agents.values())


def test_piped_progress_is_plain_lines(lab: FakeTestbed, tmp_path: Path) -> None:
    out = io.StringIO()
    run_drill(quick(), lab, tmp_path / "out", progress=Plain(out, every=0.1))
    lines = out.getvalue().splitlines()
    assert any("p0t0-0:p0t1-0: link down" in line for line in lines)
    assert any("Mb/s" in line for line in lines)
    assert lines[-1].startswith("quick: PASS")
    assert "\x1b" not in out.getvalue()


def test_no_data_at_all_is_void(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drills.runner.FIRST_MESSAGE", 30_000_000)
    lab = FakeTestbed(tmp_path / "lab", rate=0.0)
    summary = run_drill(quick(), lab, tmp_path / "out", progress=Silent())
    assert summary.verdict == "void"
    assert "data reaches every destination: not within" in summary.why[0]


# -- waiting


def test_a_wait_ends_at_its_moment_and_when_woken() -> None:
    waiter = Waiter()
    begin = waiter.now()
    waiter.until(begin + 5_000_000)
    assert waiter.now() >= begin + 5_000_000
    waiter.wake()
    waiter.until(begin + 60_000_000_000)
    assert waiter.now() < begin + 1_000_000_000
    waiter.close()


def test_a_condition_that_never_holds_is_named() -> None:
    waiter = Waiter()
    with pytest.raises(ConditionTimeout, match=r"the moon is full: not within 0\.01 s"):
        waiter.for_condition("the moon is full", lambda: False, 10_000_000)
    waiter.close()
