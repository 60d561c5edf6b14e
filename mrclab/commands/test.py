"""`./lab test`: lint, types, tests, in that order."""

from __future__ import annotations

import os
import subprocess
import sys

import click

from mrclab import ROOT
from mrclab.errors import EXIT_FAIL, EXIT_PASS
from mrclab.namespace import own_root

CHECKS = (
    ("ruff check", ["ruff", "check", "--quiet", "."]),
    ("ruff format", ["ruff", "format", "--check", "--quiet", "."]),
    ("mypy", ["mypy", "--no-error-summary", "."]),
)


@click.command(
    "test", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": True}
)
@click.option("--no-checks", is_flag=True, help="Only the tests, no lint and no types.")
@click.argument("pytest_args", nargs=-1, type=click.UNPROCESSED)
def test_command(no_checks: bool, pytest_args: tuple[str, ...]) -> int:
    """Run all checks and tests; further arguments go to pytest.

    Network tests run in namespaces of their own and need root.

    \b
    Examples:
      sudo ./lab test
      ./lab test --no-checks tests/core -k nscc
    """
    own_root()
    environment = dict(os.environ, PYTHONPATH=str(ROOT))
    failed = []
    if not no_checks and not pytest_args:
        for name, arguments in CHECKS:
            print(f"== {name}", flush=True)
            done = subprocess.run(
                [sys.executable, "-m", *arguments], cwd=ROOT, env=environment, check=False
            )
            if done.returncode != 0:
                failed.append(name)
    # Real-time labs need the machine to themselves; the rest runs on all cores.
    rounds = (
        [("pytest", list(pytest_args))]
        if pytest_args
        else [
            ("pytest: real-time labs, one at a time", ["-q", "-m", "realtime"]),
            (
                "pytest: all others",
                ["-q", "-m", "not realtime", "-n", "auto", "--dist", "worksteal"],
            ),
        ]
    )
    for name, arguments in rounds:
        print(f"== {name}", flush=True)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *arguments], cwd=ROOT, env=environment, check=False
        )
        if done.returncode != 0:
            failed.append(name)
    if failed:
        print(f"lab test: failed: {', '.join(failed)} (see above)", file=sys.stderr)
        return EXIT_FAIL
    return EXIT_PASS
