"""Faults and the names that the MRC controller gave them; a switch that goes dark."""

from __future__ import annotations

from typing import Any

import pytest

from drills.events import Event
from drills.faults import build
from drills.format import SwitchDown, links_of_switch, parse
from drills.naming import judge_naming
from drills.phases import Outage
from topologies.yamlspec import SpecError

S = 10**9


def outage(target: str, start: int, end: int) -> Outage:
    return Outage("link_down", target, (target,), start * S, start * S, end * S, end * S)


def incident(t: float, number: int, kind: str, *suspects: str) -> Event:
    data: dict[str, Any] = {"kind": kind, "number": number, "suspects": list(suspects)}
    return Event(int(t * S), "mrc", "incident", data)


def test_named_in_time_after_a_moment_of_doubt() -> None:
    events = [
        incident(10.2, 1, "opened", "a:b", "b:c"),
        incident(10.5, 1, "changed", "a:b"),
        incident(15.5, 1, "closed", "a:b"),
    ]
    naming = judge_naming(events, [outage("a:b", 10, 15)], S)
    assert (naming.not_named, naming.misnamed) == ((), ())
    assert naming.metrics()["naming_ms"] == 500


def test_what_is_not_named_and_what_is_named_wrongly() -> None:
    events = [
        incident(10.2, 1, "opened", "a:b", "b:c"),  # never decided
        incident(21, 2, "opened", "x:y"),  # something else
        incident(40, 3, "opened", "a:b"),  # the right name, long after
    ]
    naming = judge_naming(events, [outage("a:b", 10, 15), outage("c:d", 20, 25)], S)
    assert naming.not_named == ("a:b", "c:d")
    assert naming.misnamed == ("a:b or b:c", "x:y", "a:b")
    assert naming.metrics()["naming_ms"] is None


def test_nothing_fails_and_nothing_is_named() -> None:
    naming = judge_naming([], [], S)
    assert naming.metrics() == {"faults_not_named": 0, "faults_misnamed": 0, "naming_ms": None}


LINKS = ("h0:p0t0-0", "p0t0-0:p0t1-0", "p0t0-1:p0t1-0", "p1t0-0:p1t1-0")


class Control:
    """Records what is done to links."""

    def __init__(self) -> None:
        self.down: set[str] = set()

    def cut(self, link: str) -> None:
        self.down.add(link)

    def repair(self, link: str) -> None:
        self.down.discard(link)

    def state(self, link: str) -> Any:
        class State:
            down = link in self.down
            up = link not in self.down

            class impaired_up:
                loss = corrupt = 0.0
                blackhole = False

            impaired_down = impaired_up

        return State


def test_a_dark_switch_is_all_of_its_links() -> None:
    spec = SwitchDown.model_validate(
        {"fault": "switch_down", "switch": "p0t1-0", "at": "1 s", "until": "2 s"}
    )
    control = Control()
    fault = build(spec, control, LINKS)  # type: ignore[arg-type]
    assert fault.links == links_of_switch("p0t1-0", LINKS) == LINKS[1:3]
    fault.set_up()
    fault.invoke()
    assert control.down == set(LINKS[1:3])
    assert fault.read_back() is None
    control.repair(LINKS[1])
    assert fault.read_back() == f"{LINKS[1]} is not down"
    fault.heal()
    assert fault.read_healed() is None


DRILL = """
name: x
title: x
workload: {{flows: [{{from: h0, to: h2}}]}}
duration: 9 s
{extra}
timeline:
{timeline}
expect: {expect}
"""


@pytest.mark.parametrize(
    ("extra", "timeline", "expect", "message"),
    [
        ("", "  []", "{naming_ms: {at_most: 1}}", "needs 'mrc_controller: true'"),
        (
            "mrc_controller: true",
            "  - {fault: switch_down, switch: s, at: 1 s, until: 3 s}\n"
            "  - {fault: link_down, link: 's:t', at: 2 s, until: 4 s}",
            "{naming_ms: {at_most: 1}}",
            r"overlaps timeline\[0\] at s",
        ),
    ],
)
def test_bad_drills(extra: str, timeline: str, expect: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        parse(DRILL.format(extra=extra, timeline=timeline, expect=expect))
