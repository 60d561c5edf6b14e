"""`./lab test`: lint, types, tests, in that order."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
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

# Debian packages that only tests want: command, package.
TEST_PACKAGES = (("tshark", "tshark"),)
APT_SECONDS = 300

PR_SET_PDEATHSIG = 1
EXIT_INTERRUPTED = 2
"""pytest's status after Ctrl-C or SIGTERM."""


def _run_bound(command: list[str], environment: dict[str, str]) -> int:
    """Exit status of a command that ends when this process does, however that ends."""
    parent = os.getpid()

    def bind() -> None:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)

    done = subprocess.run(command, cwd=ROOT, env=environment, check=False, preexec_fn=bind)
    return done.returncode


def install_test_packages() -> None:
    """As root, fetch what only tests want; without it those tests skip and say why."""
    missing = [package for command, package in TEST_PACKAGES if shutil.which(command) is None]
    if not missing or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    print(f"== Debian packages for tests: {' '.join(missing)}", flush=True)
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    install = ["apt-get", "-y", "-q", "--no-install-recommends", "install", *missing]
    for command in (install, ["apt-get", "-q", "update"], install):
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, check=False, timeout=APT_SECONDS
            )
        except subprocess.TimeoutExpired:
            break
        if done.returncode == 0 and command is install:
            return
    print("   can't be had now: the tests that want them skip", flush=True)


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
    if not pytest_args:
        install_test_packages()
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
        status = _run_bound([sys.executable, "-m", "pytest", *arguments], environment)
        if status != 0:
            failed.append(name)
        if status < 0 or status == EXIT_INTERRUPTED:  # somebody ended it: go no further
            break
    if failed:
        print(f"lab test: failed: {', '.join(failed)} (see above)", file=sys.stderr)
        return EXIT_FAIL
    return EXIT_PASS
