"""A damaged cache is made again, not used."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from mrclab.program import compiled
from softswitch.engine.build import build_shared

PROGRAM = Path(__file__).resolve().parent.parent.parent / "p4src" / "mrc_fabric.p4"


@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_compiled_program(damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRCLAB_CACHE", str(tmp_path))
    whole = [path.read_bytes() for path in compiled(PROGRAM)]
    json_path, info_path = compiled(PROGRAM)
    if damage == "cut":
        info_path.write_bytes(whole[1][:1000])
    else:
        json_path.unlink()
    assert [path.read_bytes() for path in compiled(PROGRAM)] == whole
    assert [p.name for p in (tmp_path / "p4").iterdir()] == [json_path.parent.name]


def test_shared_object(tmp_path: Path) -> None:
    def build() -> Path:
        return build_shared(["int seven(void) { return 7; }"], "seven", directory=tmp_path)

    path = build()
    whole = path.read_bytes()
    path.write_bytes(whole[:1000])
    assert build() == path
    assert ctypes.CDLL(str(path)).seven() == 7
    before = path.stat().st_mtime_ns
    assert build().stat().st_mtime_ns == before
