"""Our output for the project's example beside p4c's (p4c 1.2.5)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from p4.config.v1 import p4info_pb2

from softswitch.p4 import compile_file
from softswitch.p4.api import Compiled
from tests.p4.support import tables

DATA = Path(__file__).resolve().parent.parent / "data" / "p4"


@pytest.fixture(scope="module")
def ours() -> Compiled:
    return compile_file(DATA / "trim_ecn_spray.p4")


@pytest.fixture(scope="module")
def golden() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((DATA / "trim_ecn_spray.json").read_text())
    return document


def plain(value: Any) -> Any:
    """Without what may differ: places in the source and numbers of objects."""
    if isinstance(value, dict):
        dropped = ("source_info", "id", "action_id", "action_ids")
        return {k: plain(x) for k, x in value.items() if k not in dropped}
    return [plain(x) for x in value] if isinstance(value, list) else value


def test_p4info_is_the_same(ours: Compiled) -> None:
    wanted = p4info_pb2.P4Info()
    text_format.Parse((DATA / "trim_ecn_spray.p4info.txtpb").read_text(), wanted)
    assert ours.p4info == wanted


def test_sections_and_their_order(ours: Compiled, golden: dict[str, Any]) -> None:
    assert list(ours.json) == list(golden)


@pytest.mark.parametrize(
    "section",
    ["parsers", "parse_vsets", "deparsers", "register_arrays", "counter_arrays", "meter_arrays",
     "errors", "enums", "headers", "header_stacks", "field_lists", "field_aliases",
     "calculations", "checksums", "learn_lists", "program"],
)  # fmt: skip
def test_section_is_the_same(ours: Compiled, golden: dict[str, Any], section: str) -> None:
    assert plain(ours.json[section]) == plain(golden[section])


def test_header_types(ours: Compiled, golden: dict[str, Any]) -> None:
    assert plain(ours.json["header_types"][1:]) == plain(golden["header_types"][1:])
    fields = {tuple(f) for f in ours.json["header_types"][0]["fields"]}
    assert {("meta_t.trim", 1, False), ("meta_t.salt", 32, False)} <= fields


TABLE_KEYS = (
    "key", "match_type", "type", "max_size", "with_counters", "support_timeout", "direct_meters",
    "actions", "default_entry", "entries", "action_profile",
)  # fmt: skip


def test_tables(ours: Compiled, golden: dict[str, Any]) -> None:
    mine, theirs = tables(ours.json), tables(golden)
    assert list(mine) == list(theirs)
    for name, table in theirs.items():
        for key in TABLE_KEYS:
            assert plain(mine[name].get(key)) == plain(table.get(key)), (name, key)
        assert list(mine[name]) == list(table)


def test_selector(ours: Compiled, golden: dict[str, Any]) -> None:
    for mine, theirs in zip(ours.json["pipelines"], golden["pipelines"], strict=True):
        assert plain(mine["action_profiles"]) == plain(theirs["action_profiles"])


def walk(document: dict[str, Any], pipeline: dict[str, Any], node: str | None) -> Any:
    """The graph below a node with conditionals named by what they test."""
    if node is None:
        return None
    for c in pipeline["conditionals"]:
        if c["name"] == node:
            return (
                json.dumps(c["expression"], sort_keys=True),
                walk(document, pipeline, c["true_next"]),
                walk(document, pipeline, c["false_next"]),
            )
    table = tables(document)[node]
    following = {k: walk(document, pipeline, x) for k, x in table["next_tables"].items()}
    return (node, following)


def test_control_flow(ours: Compiled, golden: dict[str, Any]) -> None:
    for mine, theirs in zip(ours.json["pipelines"], golden["pipelines"], strict=True):
        assert walk(ours.json, mine, mine["init_table"]) == walk(
            golden, theirs, theirs["init_table"]
        )


def test_actions_have_the_same_parameters(ours: Compiled, golden: dict[str, Any]) -> None:
    mine = {a["name"]: a["runtime_data"] for a in ours.json["actions"]}
    theirs = {a["name"]: a["runtime_data"] for a in golden["actions"]}
    assert mine == theirs


def test_the_occupancy_action_stays_one_action(ours: Compiled) -> None:
    ops = [p["op"] for a in ours.json["actions"] if a["name"] == "I.admit" for p in a["primitives"]]
    assert ops.count("register_read") == 1
    assert ops.count("register_write") == 1


def test_source_info_names_the_file_without_its_folder(ours: Compiled) -> None:
    table = tables(ours.json)["I.route"]["source_info"]
    assert table == {
        "filename": "trim_ecn_spray.p4",
        "line": 27,
        "column": 8,
        "source_fragment": "route",
    }


def test_warns_about_the_default_action_bmv2_ignores(ours: Compiled) -> None:
    assert [w.line for w in ours.warnings] == [28]
    assert "ignores default_action" in ours.warnings[0].message
