"""`./lab stf`: exit status, output for people and for scripts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mrclab.cli import main
from tests.stf.conftest import SAMPLES

GOOD = "add exact_t b:1 count_out(port:1)\npacket 5 01000001 00000000\nexpect 1 01000001\n"
BAD = GOOD + "expect 2 00\n"


@pytest.fixture
def tests_dir(tmp_path: Path) -> Path:
    (tmp_path / "good.stf").write_text(GOOD)
    (tmp_path / "bad.stf").write_text(BAD)
    (tmp_path / "odd.stf").write_text("expect\n")
    return tmp_path


def test_pass(program_json: Path, tests_dir: Path, switch: str, capsys) -> None:
    test = str(tests_dir / "good.stf")
    assert main(["stf", str(program_json), test, "--switch", switch]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{test}: pass (1 packets in, 1 expected)\n"
    assert captured.err == ""


def test_fail(program_json: Path, tests_dir: Path, switch: str, capsys) -> None:
    test = str(tests_dir / "bad.stf")
    assert main(["stf", str(program_json), test, "--switch", switch]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{test}:4: port 2: the expected packet did not come"
    assert lines[-1] == f"{test}: FAIL, 1 wrong (1 packets in, 2 expected)"


def test_several(program_json: Path, tests_dir: Path, capsys) -> None:
    names = [str(tests_dir / f"{n}.stf") for n in ("good", "odd", "bad", "absent")]
    assert main(["stf", str(program_json), *names]) == 2
    captured = capsys.readouterr()
    assert [line.split()[-2] for line in captured.out.splitlines()[-5:-1]] == [
        "pass", "error", "fail", "error",
    ]  # fmt: skip
    assert captured.out.splitlines()[-1].startswith("1 of 4 tests pass")
    assert captured.err.splitlines() == [
        f"lab stf: {names[1]}:1: a port is missing at the end of the line",
        f"lab stf: {names[3]}: No such file or directory",
    ]
    assert all(len(line) <= 80 for line in captured.out.splitlines()[-6:])


def test_json(program_json: Path, tests_dir: Path, switch: str, capsys) -> None:
    names = [str(tests_dir / f"{n}.stf") for n in ("good", "bad", "odd")]
    assert main(["stf", str(program_json), *names, "--json", "--switch", switch]) == 2
    found = json.loads(capsys.readouterr().out)
    assert found["switch"] == switch
    good, bad, odd = found["tests"]
    assert (good["verdict"], good["packets"], good["failures"]) == ("pass", 1, [])
    assert bad["verdict"] == "fail"
    assert bad["failures"][0]["line"] == 4
    assert bad["failures"][0]["port"] == 2
    assert (odd["verdict"], odd["error"]) == (
        "error", f"{names[2]}:1: a port is missing at the end of the line",
    )  # fmt: skip


def test_verbose_shows_fields(program_json: Path, tests_dir: Path, capsys) -> None:
    assert main(["stf", str(program_json), str(tests_dir / "good.stf"), "-v"]) == 0
    out = capsys.readouterr().out
    assert "line 2: in  5    8 bytes\n    h: kind=0x01 a=0x00 b=0x0001 c=0x00000000" in out
    assert "line 2: out 1    8 bytes" in out


def test_a_program_in_p4_with_macros(tmp_path: Path, capsys) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    (folder / "part.p4").write_text((SAMPLES / "everything.p4").read_text())
    program = tmp_path / "p.p4"
    program.write_text('#ifdef PART\n#include "part.p4"\n#else\nnothing\n#endif\n')
    test = tmp_path / "t.stf"
    test.write_text(GOOD)
    arguments = ["stf", str(program), str(test), "--compiler", "builtin"]
    assert main([*arguments, "-I", str(folder), "-D", "PART"]) == 0
    assert main(arguments) == 2
    assert "p.p4:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("p.json", None, "No such file"),
        ("p.json", "[]", "not a bmv2 JSON"),
        ("p.json", "{", "not JSON"),
        ("p.json", '{"pipelines": [], "actions": [5]}', "not a bmv2 JSON"),
        ("p.p4", None, "cannot read"),
    ],
)
def test_a_program_that_is_none(
    name: str, text: str | None, words: str, tests_dir: Path, capsys
) -> None:
    program = tests_dir / name
    if text is not None:
        program.write_text(text)
    assert main(["stf", str(program), str(tests_dir / "good.stf")]) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert str(program) in captured.err
    assert captured.err.count("\n") == 1 or name == "p.p4"


def test_bmv2_that_is_absent(
    program_json: Path, tests_dir: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tests_dir))
    arguments = ["stf", str(program_json), str(tests_dir / "good.stf"), "--switch", "bmv2"]
    assert main(arguments) == 2
    assert capsys.readouterr().err == (
        "lab: --switch bmv2: simple_switch is not on the PATH; install bmv2 or use "
        "--switch builtin\n"
    )
