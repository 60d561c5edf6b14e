"""`./lab fabric`: EV to way and link to EVs, for people and scripts, and what it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mrclab.commands.fabric import fabric_command
from mrclab.errors import UserError
from topologies.describe import bit_drawing, ev_json, link_json
from topologies.evlayout import EvLayout
from topologies.paths import path_of, planned_evs
from topologies.plan import Plan
from topologies.spec import load_spec
from topologies.steerspec import MODES, Mode


def lab_fabric(*arguments: str) -> Result:
    return CliRunner().invoke(fabric_command, arguments)


def refused(*arguments: str) -> str:
    result = lab_fabric(*arguments)
    assert result.exit_code != 0
    assert result.exception is not None
    text = str(result.exception) if isinstance(result.exception, UserError) else result.output
    assert "Traceback" not in text
    return text


def as_json(*arguments: str) -> dict[str, Any]:
    result = lab_fabric(*arguments, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.output)
    return found


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["one-plane", "two-plane", "three-uplinks", "eight-plane-small"])
def test_every_fabric_is_shown_in_every_mode(name: str, mode: Mode) -> None:
    result = lab_fabric(name, "--mode", mode)
    assert result.exit_code == 0, result.output
    assert f"mode      {mode}: " in result.output
    assert all(len(line) <= 80 for line in result.output.splitlines())
    assert ("EV, most significant bit first" in result.output) == (mode != "ecmp")
    assert ("uSIDs in fd53:4944::/32" in result.output) == (mode == "srv6")
    found = as_json(name, "--mode", mode)
    assert found["mode"] == mode
    assert set(found["usids"]) == set(found["switches"])


def test_the_fields_are_drawn() -> None:
    assert bit_drawing(EvLayout(4, 1)) == [
        "31..28 |  27   | 26..0",
        "uplink | plane |  tag",
        "bits 31..16: flow label; bits 15..0: UDP source port",
    ]
    assert bit_drawing(EvLayout(4, 1, "sport-high"))[-1].startswith("bits 31..16: UDP source port")


@pytest.mark.parametrize("mode", MODES)
def test_an_ev_and_its_links_say_the_same(mode: Mode) -> None:
    plan = Plan.from_spec(load_spec("three-uplinks", mode))
    evs = planned_evs(plan, 1, 7) or (1, 2, 0xFFFFFFFF)
    for ev in evs:
        found = ev_json(plan, ev, "h0", "h4", 1)
        assert [(w["from"], w["to"]) for w in found["paths"]] == [("h0", "h4"), ("h4", "h0")]
        for way in found["paths"]:
            path = path_of(plan, way["from"], way["to"], 1, ev)
            assert way["links"] == list(path.links)
            assert way["lost_at"] == path.lost_at
            if mode != "ecmp":
                for link in way["links"]:
                    (flow, _back) = link_json(plan, link, way["from"], way["to"])["flows"]
                    assert ev in flow["evs"]


def test_an_ev_is_shown_with_its_usids() -> None:
    found = as_json("--mode", "srv6", "--ev", "0xC0000001", "--from", "h0", "--to", "h2")
    (forth, _back) = found["paths"]
    assert found["fields"] == {"uplink": 1, "plane": 1, "tag": 1}
    assert forth["sids"]["destination"] == "fd53:4944:4200:8201:4201:c201::"
    assert [sid["name"] for sid in forth["sids"]["list"]] == [
        "p1t0-0", "p1t1-1", "p1t0-1", "port 1",
    ]  # fmt: skip
    text = lab_fabric("--mode", "srv6", "--ev", "0xC0000001", "--from", "h0", "--to", "h2").output
    assert "destination  fd53:4944:4200:8201:4201:c201::" in text
    assert "  p1t0-0:p1t1-1\n" in text


def test_a_link_lists_the_evs_that_cross_it() -> None:
    found = as_json("--mode", "structured", "--link", "p0t0-0:p0t1-1")
    assert found["among"] == 96
    assert [len(flow["evs"]) for flow in found["flows"]] == [48, 48]
    text = lab_fabric("--mode", "structured", "--link", "p0t0-0:p0t1-1").output
    assert "h0 to h2: 48 of 96" in text
    half = as_json("--link", "p0t0-0:p0t1-1", "--from", "h0", "--to", "h2")
    assert 0 < len(half["flows"][0]["evs"]) < half["among"] == 256


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--ev", "zz", "--from", "h0", "--to", "h2"], "'zz' is not a number"),
        (["--ev", "0x100000000", "--from", "h0", "--to", "h2"], "more than 32 bits"),
        (["--ev", "1"], "needs --from HOST and --to HOST"),
        (["--ev", "1", "--from", "h0", "--to", "h9"], "no host 'h9'"),
        (["--ev", "1", "--from", "h0", "--to", "h0"], "crosses no link"),
        (["--ev", "1", "--from", "h0", "--to", "h2", "--plane", "2"], "plane 2 is not in"),
        (["--link", "p0t0-0:p0t1-7"], "no link 'p0t0-0:p0t1-7'"),
        (["--link", "p0t0-0:p0t1-1", "--from", "h0"], "--from and --to go together"),
        (["--link", "p0t0-0:p0t1-1", "--ev", "1"], "not both"),
        (["--from", "h0"], "are for --ev or --link"),
        (["--mermaid", "--json"], "goes alone"),
        (["--mode", "srv7"], "srv7"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(arguments: list[str], text: str) -> None:
    assert text in refused("two-plane", *arguments)


def test_an_ev_of_no_plane_is_refused() -> None:
    bits = ["three-uplinks", "--mode", "structured", "--from", "h0", "--to", "h4"]
    assert lab_fabric(*bits, "--ev", hex(2 << 30)).exit_code == 0
    lost = as_json(*bits, "--ev", hex(3 << 30))
    assert lost["paths"][0]["lost_at"] == "p0t0-0"
    plan = Plan.from_spec(load_spec("three-uplinks", "structured"))
    assert plan.spec.ev_layout.plane_bits == 1
