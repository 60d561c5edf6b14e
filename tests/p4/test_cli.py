"""The two command lines, -W options, and a p4c that is only pretended."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from mrclab.cli import main as lab
from softswitch import p4c
from softswitch.p4 import P4Error
from softswitch.p4.__main__ import main
from softswitch.p4.api import build
from softswitch.p4.diagnostics import WARNINGS, Diagnostic
from softswitch.p4.policy import WarningPolicy
from tests.p4.support import source

FAKE = """#!{python}
import sys
from pathlib import Path
arguments = sys.argv[1:]
Path({log!r}).write_text("\\n".join(arguments))
out = arguments[arguments.index("-o") + 1]
info = arguments[arguments.index("--p4runtime-files") + 1]
text = {stderr!r}
sys.stderr.write(text)
if {write!r}:
    if Path(out).is_dir():
        out = str(Path(out) / (Path(arguments[-1]).stem + ".json"))
    Path(out).write_text("{{}}")
    Path(info).write_text("")
sys.exit({status})
"""
WARNING = """prog.p4(7): [--Wwarn=unused] warning: 'x' is unused
    bit<8> x;
           ^
prog.p4(9): [--Winfo=removed] info: removing control 'c'
control c() {
        ^
"""
ERRORS = """prog.p4(3): [--Werror=type-error] error: 'package top'
package top();
        ^^^
  ---- Actual error:
prog.p4(4):syntax error, unexpected }, expecting ;
}
^
[--Werror=overlimit] error: 2 errors encountered, aborting compilation
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "prog.p4"
    path.write_text(source(apply="bit<8> v; m.x = N;"))
    return path


def fake(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str = "p4c-bm2-ss",
    stderr: str = "",
    status: int = 0,
    write: bool = True,
) -> Path:
    """A compiler that does nothing but note how it was called."""
    (folder / "bin").mkdir()
    log = folder / "arguments"
    tool = folder / "bin" / name
    tool.write_text(
        FAKE.format(python=sys.executable, log=str(log), stderr=stderr, status=status, write=write)
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder / "bin"))
    return log


# ---- -W


def warning(kind: str) -> Diagnostic:
    return Diagnostic("a.p4", 1, 1, "text", severity="warning", kind=kind)


def test_all_warnings_are_shown_unless_told_otherwise() -> None:
    some = [warning(k) for k in WARNINGS]
    assert WarningPolicy().apply(some) == some
    assert WarningPolicy.parse([], silent=True).apply(some) == []
    policy = WarningPolicy.parse(["no-unused", "no-keys"])
    assert {w.kind for w in policy.apply(some)} == set(WARNINGS) - {"unused", "keys"}
    assert len(WarningPolicy.parse(["no-unused", "unused"]).apply(some)) == len(some)


@pytest.mark.parametrize("options", [["error"], ["error=unused"], ["no-unused", "error=unused"]])
def test_warnings_can_be_errors(options: list[str]) -> None:
    policy = WarningPolicy.parse(options)
    with pytest.raises(P4Error) as caught:
        policy.apply([warning("unused"), warning("keys")])
    assert caught.value.diagnostics[0].severity == "error"
    assert policy.apply([]) == []


def test_later_options_win() -> None:
    policy = WarningPolicy.parse(["error", "no-error=unused"])
    assert policy.apply([warning("unused")])
    assert WarningPolicy.parse(["error", "no-error"]).apply([warning("keys")])


@pytest.mark.parametrize("option", ["no-unusd", "error=unusd", "unusd", "no-error=unusd"])
def test_unknown_kind(option: str) -> None:
    with pytest.raises(ValueError, match="did you mean 'unused'"):
        WarningPolicy.parse([option])


# ---- command lines


def test_lab_compile_shows_warnings(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["compile", str(program), "--compiler", "builtin", "-o", str(program.parent)]
    assert lab([*arguments, "-DN=3"]) == 0
    out, err = capsys.readouterr()
    assert "variable 'v' is not used [unused]" in err
    assert out.splitlines()[0].endswith("prog.json")
    assert lab([*arguments, "-DN=3", "-w"]) == 0
    assert capsys.readouterr().err == ""
    assert lab([*arguments, "-DN=3", "-Werror=unused"]) == 2
    assert "error: variable 'v' is not used" in capsys.readouterr().err


def test_refused_by_a_warning_leaves_nothing(program: Path) -> None:
    folder = program.parent / "out"
    assert main([str(program), "-o", str(folder), "-D", "N=3", "--werror"]) == 2
    assert not folder.exists()


def test_lab_compile_json(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["compile", str(program), "--compiler", "builtin", "-o", str(program.parent)]
    assert lab([*arguments, "--json", "-D", "N=3"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is True
    assert report["compiler"] == "builtin"
    assert [d["kind"] for d in report["diagnostics"]] == ["unused"]
    assert lab([*arguments, "--json"]) == 2
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is False
    assert report["diagnostics"][0]["message"].startswith("unknown name 'N'")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["-o", ""], "it is empty"),
        (["-W", "no-such"], "no kind of warning"),
        (["-D", "1x"], "is not a name"),
    ],
)
def test_bad_options_in_one_line(
    program: Path, capsys: pytest.CaptureFixture[str], more: list[str], said: str
) -> None:
    assert lab(["compile", str(program), *more]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert "Traceback" not in err
    with pytest.raises(SystemExit) as caught:
        main([str(program), *more])
    assert caught.value.code == 2
    assert said in capsys.readouterr().err


# ---- p4c


def test_p4c_gets_its_flags(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = fake(tmp_path, monkeypatch)
    built = build(program, tmp_path / "out", "auto", [Path("inc")], {"N": "3"})
    assert built.compiler == "p4c"
    assert log.read_text().splitlines() == [
        "--std", "p4-16", "-I", "inc", "-D", "N=3",
        "--p4runtime-files", str(tmp_path / "out" / "prog.p4info.txtpb"),
        "-o", str(tmp_path / "out" / "prog.json"), str(program),
    ]  # fmt: skip


def test_driver_is_told_target_and_architecture(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = fake(tmp_path, monkeypatch, name="p4c")
    built = build(program, tmp_path / "out", "p4c")
    words = log.read_text().splitlines()
    assert words[words.index("--target") + 1] == "bmv2"
    assert words[words.index("--arch") + 1] == "v1model"
    assert words[words.index("-o") + 1] == str(tmp_path / "out")
    assert built.json_path.is_file()


def test_warnings_of_p4c_become_ours(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(tmp_path, monkeypatch, stderr=WARNING)
    (found,) = build(program, tmp_path / "out").warnings
    assert (found.file, found.line, found.column, found.kind) == ("prog.p4", 7, 12, "unused")
    assert found.message == "'x' is unused"
    with pytest.raises(P4Error):
        build(program, tmp_path / "out", policy=WarningPolicy.parse(["error"]))
    assert not list((tmp_path / "out").iterdir())


def test_errors_of_p4c(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path, monkeypatch, stderr=ERRORS, status=1, write=False)
    with pytest.raises(P4Error) as caught:
        build(program, tmp_path / "out")
    first, second, *_ = caught.value.diagnostics
    assert (first.line, first.column, first.length) == (3, 9, 3)
    assert (second.line, second.message) == (4, "syntax error, unexpected }, expecting ;")


def test_a_p4c_that_breaks(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path, monkeypatch, stderr="Segmentation fault\n", status=139, write=False)
    with pytest.raises(P4Error, match="p4c-bm2-ss: Segmentation fault"):
        build(program, tmp_path / "out")


def test_a_p4c_that_writes_nothing(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(tmp_path, monkeypatch, write=False)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "prog.json").write_text("old")
    with pytest.raises(P4Error, match=r"p4c-bm2-ss wrote no prog\.json"):
        build(program, tmp_path / "out")


def test_p4c_that_is_not_there(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(P4Error, match="not on the PATH"):
        build(program, program.parent / "out", "p4c")


def test_awkward_paths() -> None:
    words = p4c.command_line("/usr/bin/p4c-bm2-ss", Path("-x.p4"), Path("o.json"), Path("o.txtpb"))
    assert words[-1] == "./-x.p4"
