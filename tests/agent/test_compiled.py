"""`hosts.compiled`: which build belongs to the sources, and what is said when there is none."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

import pytest

from hosts import compiled

ROOT = Path(compiled.__file__).resolve().parents[1]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MRCLAB_CACHE", str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    return tmp_path


def test_every_module_that_is_compiled_exists() -> None:
    assert [m for m in compiled.MODULES if not (ROOT / m).is_file()] == []


def test_a_change_of_any_source_asks_for_another_build(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = tmp_path / "hosts"
    for part in ("core", "wire"):
        (hosts / part).mkdir(parents=True)
        (hosts / part / "a.py").write_text("A = 1\n")
    monkeypatch.setattr(compiled, "HERE", hosts)
    before = compiled.build_dir()
    assert before == compiled.build_dir()
    (hosts / "wire" / "a.py").write_text("A = 2\n")
    assert compiled.build_dir() != before


def test_without_a_build_the_sources_are_used(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    finders = list(sys.meta_path)
    assert not compiled.install()
    assert sys.meta_path == finders
    assert capsys.readouterr().err == (
        "MRCLAB_COMPILED: not compiled yet: python -m hosts.compiled\n"
    )


def test_the_modules_of_a_build_come_first(cache: Path) -> None:
    file = compiled.build_dir() / "hosts" / "core" / f"psn{compiled.SUFFIX}"
    file.parent.mkdir(parents=True)
    file.touch()
    assert compiled.install()
    finder = sys.meta_path[0]
    assert isinstance(finder, compiled.CompiledFinder)
    spec = finder.find_spec("hosts.core.psn", None)
    assert spec is not None
    assert spec.origin == str(file)
    assert finder.find_spec("hosts.core.qp", None) is None


def test_without_pythons_headers_it_says_what_to_install(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"include": str(cache)})
    assert compiled.main() == 1
    said = capsys.readouterr().err
    assert said == "hosts.compiled: no Python.h for this Python: apt install python3-dev\n"
    assert list(cache.rglob("endpoint-*")) == []
