"""The command line: options that do not go together, in one line."""

from __future__ import annotations

import pytest

from mrclab.cli import main
from mrclab.errors import EXIT_USAGE


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--profile", "real"], "--profile is for --time virtual"),
        (["--workers", "2"], "--workers is for --time virtual"),
        (["--snaplen", "64"], "--snaplen is for --capture"),
        (["--time", "virtual", "--capture", "all"], "--capture"),
        (["--time", "virtual", "--profile", "fast"], "fast"),
        (["--time", "never"], "never"),
    ],
)
def test_one_line(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drill", "link-down", *arguments]) == EXIT_USAGE
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert len(err.strip().splitlines()) == 1


def test_bench_options_belong_to_virtual(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "switch", "--workers", "2"]) == EXIT_USAGE
    assert main(["bench", "switch", "virtual"]) == EXIT_USAGE
    assert "alone" in capsys.readouterr().err
