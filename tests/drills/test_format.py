"""The drill file: what is accepted, and one clear line for what is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from drills import catalog
from drills.format import Drill, check_names, load_drill
from drills.measures import MEASURES
from mrclab.errors import UserError
from tests.drills.synthetic import plan
from topologies.plan import Plan
from topologies.spec import load_spec
from topologies.yamlspec import SpecError

GOOD = """\
name: mine
title: A drill
workload:
  flows:
    - {from: h0, to: h2}
duration: 4 s
timeline:
  - {fault: link_down, link: "p0t0-0:p0t1-0", at: 1 s, until: 2 s}
expect:
  goodput_share_before: {at_least: 0.9}
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    return path


def load(tmp_path: Path, text: str) -> Drill:
    return load_drill(write(tmp_path, text))


def test_a_small_drill_loads(tmp_path: Path) -> None:
    drill = load(tmp_path, GOOD)
    assert drill.fabric == "two-plane"
    assert drill.workload.flows[0].src == "h0"
    assert drill.timeline[0].at == 1_000_000_000


@pytest.mark.parametrize("name", catalog.catalog_names())
def test_catalogue_drills_load_and_fit_their_fabric(name: str) -> None:
    drill = load_drill(catalog.find(name))
    assert drill.name == name
    fabric = Plan.from_spec(load_spec(drill.fabric))
    check_names(drill, list(fabric.links), list(fabric.hosts))
    assert set(drill.expectations(True)) <= set(MEASURES)


def test_link_down_covers_every_byte() -> None:
    """The memory is longer than what the flow can write, so nothing is overwritten."""
    drill = load_drill(catalog.find("link-down"))
    most = 200_000_000 / 8 * (drill.duration / 1e9 + 0.5)
    assert drill.workload.memory > most


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("at_least: 0.9", "at_leest: 0.9", r"mine.yaml:10: .*unknown key; did you mean 'at_least'"),
        ("goodput_share_before", "goodput_befor", "mine.yaml:10: .*no such measure; did you mean"),
        ("link_down", "link_dwon", "mine.yaml:8: .*link_dwon.*did you mean 'link_down'"),
        ("duration: 4 s", "duration: 4", "mine.yaml:6: duration: .*no unit"),
        ("until: 2 s", "until: 9 s", r"mine.yaml:8: timeline\[0\].until: must not be after"),
        ("until: 2 s", "until: 1 s", "mine.yaml:8: .*until: must be after 'at'"),
        ("at: 1 s", "at: 100 ms", "mine.yaml:8: .*warm-up"),
        ("to: h2", "to: h0", "mine.yaml:5: .*same host"),
        ("{at_least: 0.9}", "{}", "mine.yaml:10: .*needs either"),
        ("{at_least: 0.9}", "{at_least: 0.9, at_most: 1}", "mine.yaml:10: .*needs either"),
        ("name: mine", "name: My Drill", "mine.yaml:1: name"),
        (
            "duration: 4 s",
            "duration: 500 ms",
            "mine.yaml:6: duration: must be longer than the warm",
        ),
        ("workload:", "workload:\n  message: 4 B", "mine.yaml:4: workload.message: .*between 8 B"),
        ("link_down, ", "link_loss, loss: 0 %, ", r"mine.yaml:8: timeline\[0\].loss: must be"),
    ],
)
def test_mistakes_are_one_line_with_their_place(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    with pytest.raises(SpecError, match=message) as error:
        load(tmp_path, GOOD.replace(old, new))
    assert "\n" not in str(error.value)


def test_a_limit_of_zero_is_a_limit(tmp_path: Path) -> None:
    """Not "nothing given", which would mean the default."""
    drill = load(tmp_path, GOOD + "fidelity: {queue_late_p99: 0 ms}\n")
    scaled = drill.fidelity.scaled(2000)
    assert scaled.queue_late_p99 == 0
    assert scaled.timer_late_p95 == 30_000_000


def test_overlapping_faults_on_one_link_are_refused(tmp_path: Path) -> None:
    second = '  - {fault: link_loss, link: "p0t0-0:p0t1-0", loss: 1 %, at: 1500 ms, until: 3 s}\n'
    with pytest.raises(SpecError, match=r"overlaps timeline\[0\]"):
        load(tmp_path, GOOD.replace("expect:", f"{second}expect:"))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("p0t0-0:p0t1-0", "p0t0-0:p0t1-9", "mine.yaml:8: .*no link .*did you mean"),
        ("from: h0", "from: h9", r"mine.yaml:5: workload.flows\[0\].from: no host 'h9'"),
    ],
)
def test_names_the_fabric_does_not_have(tmp_path: Path, old: str, new: str, message: str) -> None:
    drill = load(tmp_path, GOOD.replace(old, new))
    with pytest.raises(SpecError, match=message):
        check_names(drill, list(plan().links), list(plan().hosts))


def test_variant_bounds_replace_and_remove(tmp_path: Path) -> None:
    text = GOOD + (
        "  steer_rtts: {at_most: 5}\n"
        "variants:\n"
        "  failover_groups:\n"
        "    without: [goodput_share_before]\n"
        "    expect:\n"
        "      steer_rtts: {at_most: 1}\n"
    )
    drill = load(tmp_path, text)
    assert drill.expectations(False)["steer_rtts"].at_most == 5
    groups = drill.expectations(True)
    assert list(groups) == ["steer_rtts"]
    assert groups["steer_rtts"].at_most == 1


def test_variant_without_something_not_expected_is_refused(tmp_path: Path) -> None:
    text = GOOD + "variants:\n  failover_groups:\n    without: [steer_rtts]\n"
    with pytest.raises(SpecError, match="steer_rtts is not expected"):
        load(tmp_path, text)


def test_a_stored_drill_loads_again(tmp_path: Path) -> None:
    drill = load_drill(catalog.find("link-down"))
    stored = drill.model_dump(mode="json", by_alias=True, exclude_none=True)
    again = Drill.model_validate(stored)
    assert again.model_dump() == drill.model_dump()


def test_unknown_drill_suggests_the_nearest() -> None:
    with pytest.raises(UserError, match="did you mean 'link-down'"):
        catalog.find("link-dwn")
    with pytest.raises(UserError, match="no drill file"):
        catalog.find("./nothing.yaml")


def test_a_path_is_found(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    assert catalog.find(str(path)) == path
