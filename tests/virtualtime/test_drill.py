"""The same drills, judge, ledger and report as on a running lab."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from drills.events import read_events
from drills.format import Drill, parse
from drills.rejudge import rejudge
from drills.runner import run_drill
from drills.summary import Summary
from virtualtime.profile import figures, scaled_drill
from virtualtime.testbed import VirtualTestbed

ROOT = Path(__file__).parents[2]
SHORT = """
name: short
title: A short drill
fabric: two-plane
workload:
  flows:
    - {{from: h0, to: h2}}
  message: 64 KiB
  outstanding: 16
  memory: 32 MiB
warmup: 200 ms
duration: 1200 ms
timeline:
  - {{{fault}, at: 300 ms, until: 700 ms}}
expect:
  memory_mismatches: {{at_most: 0}}
  bytes_missing: {{at_most: 0}}
  duplicates_delivered: {{at_most: 0}}
  messages_unfinished: {{at_most: 0}}
  qp_errors: {{at_most: 0}}
  evs_wrongly_demoted: {{at_most: 0}}
"""


def short(fault: str) -> Drill:
    return parse(SHORT.format(fault=fault))


def run(drill: Drill, spec, out: Path, profile="real", **options) -> Summary:
    chosen = figures(spec, profile)
    with VirtualTestbed(
        chosen.plan, tempo=chosen.tempo, run_id="test", run_dir=out, seed=3, **options
    ) as testbed:
        return run_drill(scaled_drill(drill, chosen.tempo), testbed, out, seed=3)


@pytest.fixture(scope="module")
def two_plane():
    from topologies.spec import load_spec

    return load_spec("two-plane")


@pytest.mark.parametrize("profile", ["lab", "real"])
def test_a_link_goes_down(profile, two_plane, tmp_path: Path) -> None:
    drill = short("fault: link_down, link: 'p0t0-0:p0t1-0'")
    summary = run(drill, two_plane, tmp_path, profile)
    assert summary.verdict == "pass", summary.why
    assert summary.fidelity == "ok (virtual time: nothing can be late)"
    assert summary.run["time"] == "virtual"
    metrics = summary.metrics
    assert metrics["packets_lost"] > 0
    assert metrics["evs_assumed_bad"] > 0
    assert metrics["evs_not_demoted"] == 0
    assert metrics["goodput_share_before"] > 0.98
    assert metrics["steer_rtts"] < 5
    assert 1 < metrics["steer_us"] < 100
    assert summary.ledger["balanced"]
    assert (tmp_path / "report.html").stat().st_size > 10_000
    assert rejudge(tmp_path).dumps() == (tmp_path / "summary.json").read_text()


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        ("fault: link_loss, link: 'p1t0-0:p1t1-1', loss: 2 %", "loss"),
        ("fault: link_blackhole, link: 'p1t0-0:p1t1-1'", "blackhole"),
    ],
)
def test_impaired_links(fault: str, cause: str, two_plane, tmp_path: Path) -> None:
    summary = run(short(fault), two_plane, tmp_path)
    assert summary.verdict == "pass", summary.why
    assert summary.ledger["drops"][cause] > 0


def test_corrupted_frames_are_caught_by_the_icrc(two_plane, tmp_path: Path) -> None:
    drill = short("fault: link_corrupt, link: 'p0t0-0:p0t1-0', corrupt: 5 %")
    summary = run(drill, two_plane, tmp_path)
    assert summary.verdict == "pass", summary.why
    events = read_events(tmp_path / "events.jsonl")
    dropped = [e["drops"].get("icrc", 0) for e in events if e.type == "sample"]
    assert max(dropped) > 0


def test_a_nic_port_that_is_down_needs_no_ev_given_up(two_plane, tmp_path: Path) -> None:
    summary = run(short("fault: link_down, link: 'h0:p1t0-0'"), two_plane, tmp_path)
    assert summary.verdict == "pass", summary.why
    assert summary.metrics["evs_not_demoted"] == 0
    assert 0.45 < summary.metrics["goodput_kept"] < 0.56  # half the ports, and one sample's blur
    assert summary.metrics["goodput_lost"] == 1 - summary.metrics["goodput_kept"]


def test_a_broken_endpoint_fails(two_plane, tmp_path: Path) -> None:
    drill = short("fault: link_down, link: 'p0t0-0:p0t1-0'")
    summary = run(drill, two_plane, tmp_path, faults=("never_demote",))
    assert summary.metrics["evs_assumed_bad"] == 0
    assert summary.metrics["evs_not_demoted"] > 0


def test_failover_groups_lose_less(two_plane, tmp_path: Path) -> None:
    drill = short("fault: link_down, link: 'p0t0-0:p0t1-0'")
    static = run(drill, two_plane, tmp_path / "static")
    groups = run(drill, two_plane, tmp_path / "groups", failover_groups=True)
    assert groups.metrics["packets_lost"] < static.metrics["packets_lost"]
    assert groups.run["failover_groups"] is True


DRIVER = """
import sys
from pathlib import Path
from tests.virtualtime.test_drill import run, short
from topologies.spec import load_spec
run(short("fault: link_loss, link: 'p0t0-0:p0t1-0', loss: 1 %"), load_spec("two-plane"),
    Path(sys.argv[1]), workers=int(sys.argv[2]))
"""


def test_one_seed_gives_one_outcome(tmp_path: Path) -> None:
    """Whatever the process, its hash seed and the number of workers."""
    for name, hash_seed, workers in (("a", "1", "1"), ("b", "31337", "3")):
        subprocess.run(
            [sys.executable, "-c", DRIVER, str(tmp_path / name), workers],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
            check=True,
            timeout=110,
        )
    first, second = (tmp_path / name / "events.jsonl" for name in "ab")
    assert first.read_bytes() == second.read_bytes()
    assert first.stat().st_size > 20_000
    summaries = [json.loads((tmp_path / name / "summary.json").read_text()) for name in "ab"]
    for summary in summaries:
        del summary["run"]["started"]
    assert summaries[0] == summaries[1]
    other = (tmp_path / "a" / "agents" / "h0.events.jsonl").read_bytes()
    assert other == (tmp_path / "b" / "agents" / "h0.events.jsonl").read_bytes()
