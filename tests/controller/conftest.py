from __future__ import annotations

from pathlib import Path

import pytest

from tests.controller.fake_switch import FakeSwitch

P4SRC = Path(__file__).parents[2] / "p4src"


@pytest.fixture
def switch():
    fake = FakeSwitch()
    yield fake
    fake.stop()


@pytest.fixture(scope="session")
def compiled(tmp_path_factory) -> tuple[Path, Path]:
    """The fabric program, compiled: JSON and P4Info."""
    from softswitch.p4 import compile_program

    return compile_program(P4SRC / "mrc_fabric.p4", tmp_path_factory.mktemp("fabric"), "builtin")
