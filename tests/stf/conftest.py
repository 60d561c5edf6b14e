"""The sample program, compiled once, and the kinds of switch a test can run on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from softswitch.p4 import compile_file

SAMPLES = Path(__file__).with_name("samples")


@pytest.fixture(scope="session")
def program() -> Mapping[str, Any]:
    return compile_file(SAMPLES / "everything.p4").json


@pytest.fixture(scope="session")
def program_json(program: Mapping[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stf") / "everything.json"
    path.write_text(json.dumps(program))
    return path


@pytest.fixture(
    params=[
        "builtin",
        pytest.param(
            "bmv2",
            marks=[
                pytest.mark.bmv2,
                pytest.mark.skipif(
                    shutil.which("simple_switch") is None,
                    reason="simple_switch is not on the PATH",
                ),
            ],
        ),
    ]
)
def switch(request: pytest.FixtureRequest) -> str:
    return str(request.param)
