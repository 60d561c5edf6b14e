"""The report: one file, nothing from elsewhere, small, and it says what happened."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest

from drills.events import Event
from drills.report import number, render
from tests.drills.synthetic import SyntheticRun

VOID = {"meta", "br", "link", "img", "input", "hr"}


class Checker(HTMLParser):
    """Collects ids and external references, and that elements are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.outside: list[str] = []
        self.open: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("src", "href", "xlink:href") and not (value or "").startswith("#"):
                self.outside.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def page(**knobs: Any) -> str:
    run = SyntheticRun(**knobs)
    return render(run.judged(), run.events(), run.drill, run.view)


@pytest.fixture(scope="module")
def passed() -> str:
    return page()


def test_it_is_whole_and_self_contained(passed: str) -> None:
    checker = Checker()
    checker.feed(passed)
    assert checker.open == []
    assert checker.outside == []
    assert "script" not in checker.tags
    assert len(checker.ids) == len(set(checker.ids))
    assert "@import" not in passed
    assert not re.search(r"url\((?!#)", passed)
    assert len(passed) < 400_000


def test_references_inside_pictures_lead_somewhere(passed: str) -> None:
    checker = Checker()
    checker.feed(passed)
    used = set(re.findall(r"url\(#([^)]+)\)", passed)) | set(
        re.findall(r'xlink:href="#([^"]+)"', passed)
    )
    assert used
    assert used <= set(checker.ids)


def test_it_says_what_happened(passed: str) -> None:
    for text in (
        ">PASS<",
        "A T0-T1 link goes down",
        "entropy values given up",
        "capacity for payload",
        "plane 0",
        "p0t0-0 &gt; p0t1-0",
        "Balanced",
        "Versions",
    ):
        assert text in passed, text
    assert passed.count("<svg") == 3


def test_a_failure_is_told_first() -> None:
    text = page(demote=False)
    assert ">FAIL<" in text
    assert text.index("must be at least") < text.index("<svg")
    assert "✗ broken" in text


def test_void_says_why() -> None:
    text = page(lose_unseen=3)
    assert ">VOID<" in text
    assert "3 frames unaccounted for" in text


def test_a_run_without_phases_still_has_a_report() -> None:
    text = page(edit=lambda events: [e for e in events if e.type != "phase"])
    assert ">VOID<" in text
    assert "<svg" not in text


def test_a_steering_time_without_a_round_trip_has_a_report() -> None:
    """A fault at the very beginning: no RTT was measured before it (once an OverflowError)."""
    run = SyntheticRun(
        edit=lambda events: [
            Event(e.t, e.src, e.type, {**e.data, "rtt_ns": 0}) if e.type == "sample" else e
            for e in events
        ]
    )
    summary = run.judged()
    assert summary.metrics["steer_rtts"] is None
    assert "not measured" in render(summary, run.events(), run.drill, run.view)


def test_text_from_outside_is_escaped() -> None:
    run = SyntheticRun()
    drill = run.drill.model_copy(update={"title": "<script>alert(1)</script>"})
    text = render(run.judged(), run.events(), drill, run.view)
    assert "<script>" not in text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.9571, "share", "95.7%"),
        (1.6666, "RTT", "1.67 RTT"),
        (20933, "packets", "20,933 packets"),
        (5.0, "RTT", "5 RTT"),
        (None, "EVs", "not measured"),
    ],
)
def test_numbers_read_well(value: float | None, unit: str, text: str) -> None:
    assert number(value, unit) == text
