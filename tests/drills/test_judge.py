"""The verdict, on hand-made records: each test breaks one thing of a run that passes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from drills.events import Event
from drills.measures import MEASURES
from drills.summary import SCHEMA, Summary
from tests.drills.synthetic import LINK, MS, S, SyntheticRun


def broken(summary: Summary) -> set[str]:
    return {item.name for item in summary.expectations if not item.ok}


def test_a_right_run_passes() -> None:
    summary = SyntheticRun().judged()
    assert summary.verdict == "pass"
    assert summary.why == ()
    assert summary.fidelity == "ok"
    assert summary.exit_status == 0


def test_figures_of_a_right_run() -> None:
    run = SyntheticRun()
    metrics = run.judged().metrics
    assert metrics["evs_assumed_bad"] == len(run.crossing)
    assert metrics["evs_crossing"] == len(run.crossing)
    assert 0.1 < len(run.crossing) / len(run.evs) < 0.4  # one of four uplinks
    assert metrics["goodput_share_before"] == pytest.approx(0.97, abs=0.005)
    assert metrics["goodput_share_after"] == pytest.approx(0.97, abs=0.005)
    # 60 ms of dip are part of the 3 s.
    assert metrics["goodput_share_during"] == pytest.approx(0.96, abs=0.01)
    assert metrics["steer_rtts"] == pytest.approx(20 / 12, abs=0.01)
    assert metrics["packets_lost"] == run.lost
    assert metrics["packets_retransmitted"] == run.lost
    # The other uplink of the plane carries all that the host's port can send.
    assert metrics["goodput_capacity_left_bps"] == pytest.approx(metrics["goodput_capacity_bps"])


def test_never_demoting_fails() -> None:
    """Broken endpoint: it keeps sending onto the dead link until the repair."""
    run = SyntheticRun(demote=False, goodput={"before": 0.97, "during": 0.74, "after": 0.97})
    summary = run.judged()
    assert summary.verdict == "fail"
    assert summary.exit_status == 1
    assert {
        "evs_not_demoted",
        "evs_assumed_bad",
        "steer_rtts",
        "goodput_share_during",
    } <= broken(summary)
    assert summary.metrics["evs_not_demoted"] == len(run.crossing)


def test_acknowledging_before_placing_fails() -> None:
    summary = SyntheticRun(destination_hash="bb" * 32).judged()
    assert summary.verdict == "fail"
    assert broken(summary) == {"memory_mismatches"}


def test_acknowledged_but_not_delivered_fails() -> None:
    summary = SyntheticRun(delivered_surplus=-4096).judged()
    assert summary.verdict == "fail"
    assert summary.metrics["bytes_missing"] == 4096
    assert broken(summary) == {"bytes_missing"}


def test_delivered_twice_fails() -> None:
    summary = SyntheticRun(delivered_surplus=2 * 4096).judged()
    assert summary.verdict == "fail"
    assert summary.metrics["duplicates_delivered"] == 2


def test_demoting_a_good_ev_fails() -> None:
    summary = SyntheticRun(wrong=1).judged()
    assert summary.verdict == "fail"
    assert broken(summary) == {"evs_wrongly_demoted"}
    assert summary.metrics["evs_wrongly_demoted"] == 1


def test_demoting_a_crossing_ev_while_the_link_is_up_is_wrong() -> None:
    def early(events: list[Event]) -> list[Event]:
        run = SyntheticRun()
        plane, ev = run.crossing[0]
        data = {"qpn": 17, "plane": plane, "ev": ev, "reason": "rto"}
        change = Event(run.cut - S, "h0", "ev_state", {**data, "from": "GOOD", "to": "ASSUMED_BAD"})
        return sorted([*events, change], key=lambda event: event.t)

    assert SyntheticRun(edit=early).judged().metrics["evs_wrongly_demoted"] == 1


def test_not_taking_evs_back_fails() -> None:
    run = SyntheticRun(recover=False)
    summary = run.judged()
    assert summary.verdict == "fail"
    assert summary.metrics["evs_not_recovered"] == len(run.crossing)


@pytest.mark.parametrize("phase", ["before", "during", "after"])
def test_too_little_goodput_fails(phase: str) -> None:
    goodput = {"before": 0.97, "during": 0.96, "after": 0.97, phase: 0.85}
    summary = SyntheticRun(goodput=goodput).judged()
    assert summary.verdict == "fail"
    assert broken(summary) == {f"goodput_share_{phase}"}


def test_steering_too_slowly_fails() -> None:
    summary = SyntheticRun(steer=5 * 12 * MS + 2 * MS).judged()
    assert broken(summary) == {"steer_rtts"}
    assert SyntheticRun(steer=5 * 12 * MS - 2 * MS).judged().verdict == "pass"


def test_not_even_noticing_counts_until_the_repair() -> None:
    """No loss reported, EVs still in use: the link was not left before it was repaired."""
    gone = ("loss_inferred", "ev_state")
    run = SyntheticRun(demote=False, edit=lambda events: [e for e in events if e.type not in gone])
    summary = run.judged()
    assert "steer_rtts" in broken(summary)
    assert summary.metrics["steer_rtts"] == pytest.approx(3_000 / 12)


def test_failed_messages_are_counted_as_such() -> None:
    """A connection whose eight messages failed is one connection in error, not nine."""
    run = SyntheticRun(
        qp_error=True,
        edit=lambda events: [
            Event(e.t, e.src, e.type, {**e.data, "posted": e["posted"] + 8, "failed": 8})
            if e.type == "delivery"
            else e
            for e in events
        ],
    )
    metrics = run.judged().metrics
    assert (metrics["qp_errors"], metrics["messages_failed"]) == (1, 8)
    assert metrics["messages_unfinished"] == 0


def test_qp_error_fails() -> None:
    assert broken(SyntheticRun(qp_error=True).judged()) == {"qp_errors"}


# -- void


def test_unbalanced_wire_is_void() -> None:
    summary = SyntheticRun(lose_unseen=1).judged()
    assert summary.verdict == "void"
    assert summary.exit_status == 3
    assert "1 frames unaccounted for" in summary.why[0]


def test_unbalanced_switch_is_void() -> None:
    assert SyntheticRun(vanish_in_switch=2).judged().verdict == "void"


@pytest.mark.parametrize(
    ("knob", "value", "word"),
    [
        ("late_p99_ns", 9 * MS, "switch queues late"),
        ("timer_late_ns", 40 * MS, "host timers late"),
        ("idle", 0.0, "CPU left"),
    ],
)
def test_a_slow_machine_is_void_and_says_why(knob: str, value: Any, word: str) -> None:
    summary = SyntheticRun(**{knob: value}).judged()
    assert summary.verdict == "void"
    assert summary.fidelity.startswith("degraded (")
    assert word in summary.fidelity
    assert "fidelity" in broken(summary)


@pytest.mark.parametrize("kind", ["ports", "cpu", "sample"])
def test_unmeasured_fidelity_never_passes(kind: str) -> None:
    run = SyntheticRun(edit=lambda events: [e for e in events if e.type != kind])
    assert run.judged().verdict == "void"


def test_degraded_does_not_hide_wrong_bytes() -> None:
    summary = SyntheticRun(idle=0.0, destination_hash="bb" * 32).judged()
    assert summary.verdict == "fail"
    assert any("did not keep up" in reason for reason in summary.why)


def test_a_slow_machine_turns_other_failures_into_void() -> None:
    goodput = {"before": 0.5, "during": 0.5, "after": 0.5}
    summary = SyntheticRun(idle=0.0, goodput=goodput).judged()
    assert summary.verdict == "void"
    assert len(summary.why) == 4  # why it is void, and what did not hold


def test_uncompared_memory_is_void() -> None:
    run = SyntheticRun(edit=lambda events: [e for e in events if e.type != "memory"])
    assert run.judged().verdict == "void"


@pytest.mark.parametrize("missing", ["counters", "phase"])
def test_incomplete_record_is_void(missing: str) -> None:
    run = SyntheticRun(edit=lambda events: [e for e in events if e.type != missing])
    summary = run.judged()
    assert summary.verdict == "void"
    assert "incomplete" in summary.why[0]
    assert set(MEASURES) <= set(summary.metrics)


def test_fault_not_as_wanted_is_void() -> None:
    def add(events: list[Event]) -> list[Event]:
        return [*events, Event(events[-1].t + 1, "drill", "void", {"why": f"{LINK} is not down"})]

    summary = SyntheticRun(edit=add).judged()
    assert summary.verdict == "void"
    assert summary.why[0] == f"{LINK} is not down"


# -- failover groups


def test_with_failover_groups_evs_need_not_be_given_up() -> None:
    run = SyntheticRun(failover_groups=True, demote=True, steer=4 * MS)
    summary = run.judged()
    assert summary.verdict == "pass"
    assert "evs_assumed_bad" not in {item.name for item in summary.expectations}


def test_without_failover_groups_the_same_tables_fail() -> None:
    """The groups variant excuses EVs that stay in use; the plain drill does not."""

    def keep_in_use(events: list[Event]) -> list[Event]:
        run = SyntheticRun()
        good = [[p, ev, "GOOD", "active"] for p, ev in run.evs]
        return [
            Event(e.t, e.src, e.type, {**e.data, "evs": good}) if e.type == "ev_table" else e
            for e in events
        ]

    assert "evs_not_demoted" in broken(SyntheticRun(edit=keep_in_use).judged())
    groups = SyntheticRun(edit=keep_in_use, failover_groups=True, steer=4 * MS)
    assert groups.judged().verdict == "pass"


# -- the stored form


def test_summary_has_the_promised_keys() -> None:
    stored = json.loads(SyntheticRun().judged().dumps())
    assert stored["schema"] == SCHEMA
    assert {
        "schema",
        "run_id",
        "drill",
        "verdict",
        "fidelity",
        "expectations",
        "metrics",
        "ledger",
        "versions",
    } <= set(stored)
    assert {
        "goodput_share_before",
        "goodput_share_during",
        "goodput_share_after",
        "steer_rtts",
        "packets_lost",
        "packets_retransmitted",
        "duplicates_delivered",
        "evs_assumed_bad",
        "evs_wrongly_demoted",
    } <= set(stored["metrics"])
    for item in stored["expectations"]:
        assert {"name", "ok", "measured", "bound", "unit"} <= set(item)


def test_summary_is_valid_json_even_when_nothing_was_measured() -> None:
    run = SyntheticRun(
        edit=lambda events: [
            Event(e.t, e.src, e.type, {**e.data, "rtt_ns": 0}) if e.type == "sample" else e
            for e in events
        ]
    )
    summary = run.judged()
    stored = json.loads(summary.dumps())
    assert stored["metrics"]["steer_rtts"] is None
    assert "steer_rtts" in broken(summary)


def test_judging_is_deterministic() -> None:
    assert SyntheticRun().judged().dumps() == SyntheticRun().judged().dumps()
