"""`hosts.compiled` and `hosts.compile`: which build belongs to the sources, and its outcome."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from hosts import compile as compiler
from hosts import compiled


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment without a build."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    kept = [f for f in sys.meta_path if not isinstance(f, compiled.CompiledFinder)]
    monkeypatch.setattr(sys, "meta_path", kept)
    monkeypatch.delenv(compiled.VARIABLE, raising=False)
    return tmp_path


def test_every_module_that_is_compiled_exists() -> None:
    assert [m for m in compiled.MODULES if not (compiled.ROOT / m).is_file()] == []


def test_a_change_of_any_source_asks_for_another_build(
    prefix: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for part in compiled.READ:
        (tmp_path / part).mkdir(parents=True)
        (tmp_path / part / "a.py").write_text("A = 1\n")
    monkeypatch.setattr(compiled, "ROOT", tmp_path)
    before = compiled.build_dir()
    assert before == compiled.build_dir()
    for part in compiled.READ:
        (tmp_path / part / "a.py").write_text("A = 2\n")
        after = compiled.build_dir()
        assert after != before
        before = after


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (None, ""),
        ("0", ""),
        ("1", "MRCLAB_COMPILED: not compiled: python -m hosts.compile\n"),
    ],
)
def test_without_a_build_the_sources_are_used(
    asked: str | None,
    said: str,
    prefix: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if asked is not None:
        monkeypatch.setenv(compiled.VARIABLE, asked)
    finders = list(sys.meta_path)
    assert not compiled.install()
    assert sys.meta_path == finders
    assert not compiled.in_use()
    assert capsys.readouterr().err == said


def test_the_modules_of_a_build_come_first(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = compiled.build_dir() / "hosts" / "core" / f"psn{compiled.SUFFIX}"
    file.parent.mkdir(parents=True)
    file.touch()
    monkeypatch.setenv(compiled.VARIABLE, "0")
    assert not compiled.install()
    monkeypatch.delenv(compiled.VARIABLE)
    assert compiled.install()
    assert compiled.in_use()
    finder = sys.meta_path[0]
    assert isinstance(finder, compiled.CompiledFinder)
    spec = finder.find_spec("hosts.core.psn", None)
    assert spec is not None
    assert spec.origin == str(file)
    assert finder.find_spec("hosts.core.qp", None) is None


def test_without_pythons_headers_it_says_what_to_install(
    prefix: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"include": str(prefix)})
    assert compiler.main([]) == 1
    said = capsys.readouterr().err
    assert said == "hosts.compile: no Python.h for this Python: apt install python3-dev\n"
    assert compiler.main(["--check"]) == 1
    assert list(prefix.rglob("endpoint-*")) == []


def test_an_argument_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert compiler.main(["--chekc"]) == 2
    assert capsys.readouterr().err == "usage: python -m hosts.compile [--check]\n"


PROBE = "import hosts.core.endpoint as e; print(e.__file__.endswith('.py'))"
DRILL = ("-m", "mrclab", "drill", "link-down", "--time", "virtual", "--profile", "real")


def run(*command: str, asked: str) -> str:
    environment = {**os.environ, compiled.VARIABLE: asked}
    done = subprocess.run(
        [sys.executable, *command],
        cwd=compiled.ROOT, env=environment, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def build() -> None:
    """A build of the sources; without the set-up's it is made: a minute."""
    try:
        compiler.build()
    except compiler.CompileError as error:
        pytest.skip(str(error))
    assert run("-c", PROBE, asked="1") == "False\n"
    assert run("-c", PROBE, asked="0") == "True\n"


@pytest.mark.slow
@pytest.mark.usefixtures("build")
@pytest.mark.parametrize("mode", ["ecmp", "structured", "srv6"])
def test_the_outcome_is_the_same_byte_for_byte(mode: str, tmp_path: Path) -> None:
    """A fault, trims, probes and recovery."""
    for asked in ("0", "1"):
        run(*DRILL, "--mode", mode, "--out", str(tmp_path / asked), asked=asked)
    events = [(tmp_path / asked / "events.jsonl").read_bytes() for asked in ("0", "1")]
    assert events[0] == events[1]
    assert len(events[0]) > 10_000


@pytest.mark.slow
@pytest.mark.usefixtures("build")
@pytest.mark.parametrize("tests", ["core", "wire", "virtualtime"])
def test_what_holds_for_the_sources_holds_for_the_compiled(tests: str) -> None:
    """Compiled code checks types at run time: what a type only claims to be shows here."""
    said = run("-m", "pytest", "-q", "-p", "no:cacheprovider", f"tests/{tests}", asked="1")
    assert " passed" in said
