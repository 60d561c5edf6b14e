"""Damaged programs: refused in one line, never a traceback."""

from __future__ import annotations

import copy
import random
from collections.abc import Mapping, Set
from typing import Any, NoReturn

import pytest

from softswitch.stf.commands import StfError
from softswitch.stf.layout import Layouts
from softswitch.stf.suite import Suite
from softswitch.stf.target import TargetError
from tests.stf.conftest import SAMPLES

ODD: tuple[Any, ...] = (None, -1, "x", [], {}, "0xzz", 1 << 70, [1], {"type": "hexstr"}, 2.5)
FRAME = bytes.fromhex("0900000000000000112304569900")


def damaged(program: Mapping[str, Any], rng: random.Random) -> Any:
    """A copy with one to three values replaced or gone."""
    found = copy.deepcopy(program)
    for _ in range(rng.randint(1, 3)):
        node: Any = found
        while node:
            key = rng.choice(list(node) if isinstance(node, dict) else range(len(node)))
            if isinstance(node[key], dict | list) and node[key] and rng.random() < 0.85:
                node = node[key]
                continue
            node[key] = rng.choice(ODD)
            if rng.random() < 0.2:
                node.pop(key)
            break
    return found


def no_switch(_program: Mapping[str, Any], _ports: Set[int]) -> NoReturn:
    raise TargetError("there is no switch in this test")


@pytest.mark.parametrize("seed", range(4))
def test_damaged_programs(program: Mapping[str, Any], seed: int) -> None:
    rng = random.Random(seed)
    text = (SAMPLES / "tables.stf").read_text()
    for _ in range(60):
        with pytest.raises(StfError) as caught:
            Suite(damaged(program, rng), no_switch, "p.json").run(text, "t.stf")
        assert "\n" not in str(caught.value)


def test_damaged_parsers_lay_out_what_they_can(program: Mapping[str, Any]) -> None:
    rng = random.Random(9)
    laid_out = 0
    parts = {k: program[k] for k in ("header_types", "headers", "header_stacks", "parsers")}
    for _ in range(200):
        try:
            layouts = Layouts(damaged(parts, rng))
        except (LookupError, TypeError, ValueError, AttributeError):
            continue
        layout = layouts.of(FRAME)
        assert all(0 <= f.offset <= 8 * len(FRAME) for f in layout.fields)
        laid_out += bool(layout.fields)
    assert laid_out > 20
