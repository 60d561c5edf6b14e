"""A mistake on the command line: one line that says what, exit status 2, no lab started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mrclab import ROOT
from mrclab.cli import main
from mrclab.commands import attach
from mrclab.commands.drill import prepare_out
from mrclab.errors import EXIT_USAGE, UserError
from mrclab.namespace import RunningLab


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["dril"], "did you mean 'drill'"),
        (["drill"], "which drill?"),
        (["drill", "link-dwon"], "did you mean 'link-down'"),
        (["drill", "link-down", "--out", ""], "it is empty"),
        (["drill", "/tmp"], "is a folder"),
        (["drill", "link-down", "--seed", "-1"], "--seed"),
        (["fabric", "--json", "--mermaid"], "goes alone"),
        (["fabric", "/tmp"], "folder"),
        (["up", "nope"], "two-plane"),
        (["bench", "virtual", "--plot", "curve.foo"], ".svg or .png"),
        (["bench", "virtual", "--plot", "no/such/curve.svg"], "no folder"),
        (["exec", "h0"], "COMMAND"),
    ],
)
def test_one_line(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == EXIT_USAGE
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert err.count("\n") == 1


def test_the_list_of_fabrics_is_two_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fabric", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    width = max(len(line.split()[0]) for line in lines) + 2
    assert any(line.startswith("eight-plane-small  ") for line in lines)
    assert all(line[:width].endswith("  ") and line[width] != " " for line in lines)


def test_ps_keeps_its_columns_apart(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = RunningLab("20261201-042830-30144", 30183)
    state = {"command": "drill uplink-down-full", "fabric": "eight-plane-wide"}
    monkeypatch.setattr(RunningLab, "state", lambda self: state)
    monkeypatch.setattr(attach, "running_labs", lambda: [lab])
    assert main(["ps"]) == 0
    head, row = capsys.readouterr().out.splitlines()
    assert row.endswith("  drill uplink-down-full  eight-plane-wide")
    assert head.index("FABRIC") == row.index("eight-plane-wide")


def test_no_command_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == EXIT_USAGE
    assert "\n  drill " in capsys.readouterr().err


def test_out_refuses_what_the_lab_would_lose(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="below /run"):
        prepare_out(Path("/run/mine"), "id")
    (tmp_path / "summary.json").touch()
    with pytest.raises(UserError, match="holds a run"):
        prepare_out(tmp_path, "id")
    assert prepare_out(tmp_path / "a" / "b", "id").is_dir()


def test_a_full_disk_under_standard_output() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "mrclab", "fabric"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            check=False,
        )
    assert done.returncode == EXIT_USAGE
    assert done.stderr == "lab: can't write: No space left on device; make room and try again\n"
