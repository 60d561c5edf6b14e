"""The packet tests of the fabric pipeline (`./lab stf p4src/mrc_fabric.p4 tests/p4src/*.stf`)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from mrclab.cli import main

HERE = Path(__file__).parent
TESTS = sorted(HERE.glob("*.stf"))

SWITCHES = [
    "builtin",
    pytest.param(
        "bmv2",
        marks=[
            pytest.mark.bmv2,
            pytest.mark.skipif(
                shutil.which("simple_switch") is None, reason="simple_switch is not on the PATH"
            ),
        ],
    ),
]


@pytest.mark.parametrize("switch", SWITCHES)
def test_packet_tests(switch, capsys):
    program = HERE.parents[1] / "p4src" / "mrc_fabric.p4"
    status = main(["stf", str(program), *map(str, TESTS), "--json", "--switch", switch])
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    problems = [
        f"{Path(test['test']).name}:{f['line']}: {f['message']}"
        for test in found["tests"]
        for f in test.get("failures", [])
    ]
    assert not problems
    assert status == 0, captured.err
    assert [Path(test["test"]).stem for test in found["tests"]] == [p.stem for p in TESTS]
