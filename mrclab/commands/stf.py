"""`./lab stf`: packet tests in p4c's STF format."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mrclab.errors import EXIT_FAIL, EXIT_PASS, EXIT_USAGE, UserError

if TYPE_CHECKING:
    from softswitch.stf.suite import Result, Suite

PASS, FAIL, ERROR = "pass", "fail", "error"


@click.command("stf")
@click.argument("program", type=click.Path(path_type=Path), metavar="PROGRAM")
@click.argument(
    "tests", type=click.Path(path_type=Path), metavar="TEST.stf...", nargs=-1, required=True
)
@click.option(
    "--switch",
    type=click.Choice(["builtin", "bmv2"]),
    default="builtin",
    show_default=True,
    help="builtin: in memory; bmv2: simple_switch from the PATH.",
)
@click.option(
    "--compiler",
    type=click.Choice(["auto", "p4c", "builtin"]),
    default="auto",
    show_default=True,
    help="auto: p4c where it is on the PATH, else the one built in.",
)
@click.option("-I", "includes", multiple=True, metavar="DIR", help="Look for includes here too.")
@click.option("-D", "defines", multiple=True, metavar="NAME[=VALUE]", help="Define a macro.")
@click.option("-v", "--verbose", is_flag=True, help="Show every packet, field by field.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def stf_command(
    program: Path,
    tests: tuple[Path, ...],
    switch: str,
    compiler: str,
    includes: tuple[str, ...],
    defines: tuple[str, ...],
    verbose: bool,
    as_json: bool,
) -> int:
    """Run packet tests (STF) against a P4 program.

    PROGRAM is P4-16 for v1model, or a compiled bmv2 JSON. Nothing is needed of
    the machine: the switch runs in memory, in virtual time, without root. The
    format is in docs/stf.md. Exit status: 0 all pass, 1 one fails, 2 bad input.

    \b
    Examples:
      ./lab stf p4src/mrc_fabric.p4 tests/p4src/*.stf
      ./lab stf mine.p4 mine.stf --verbose
      ./lab stf mine.json mine.stf --switch bmv2 --json
    """
    from softswitch.stf.commands import StfError
    from softswitch.stf.suite import Suite

    document = load_program(program, compiler, includes, defines)
    began = time.monotonic()
    try:
        suite = Suite(document, target_maker(switch), str(program))
    except StfError as error:
        raise UserError(str(error)) from None
    outcomes = [_one(suite, test) for test in tests]
    if as_json:
        print(json.dumps(_json(program, switch, outcomes), indent=2))
    else:
        for outcome in outcomes:
            _show(outcome, verbose)
        if len(outcomes) > 1:
            _table(outcomes, time.monotonic() - began)
    verdicts = {outcome.verdict for outcome in outcomes}
    if ERROR in verdicts:
        return EXIT_USAGE
    return EXIT_FAIL if FAIL in verdicts else EXIT_PASS


def target_maker(switch: str) -> Any:
    """What makes the switch of a test; UserError when the machine has none."""
    if switch == "builtin":
        from softswitch.stf.engine import EngineTarget

        return EngineTarget
    from softswitch.stf.bmv2 import Bmv2Target, find_switch
    from softswitch.stf.target import TargetError

    try:
        find_switch()
    except TargetError as error:
        raise UserError(f"--switch bmv2: {error}") from None
    return Bmv2Target


def load_program(
    program: Path, compiler: str, includes: tuple[str, ...], defines: tuple[str, ...]
) -> Mapping[str, Any]:
    """The bmv2 JSON of a program, compiled when it is P4. UserError."""
    if program.suffix == ".json":
        from softswitch.options import UsageError
        from softswitch.switch import load_program as load_json

        try:
            return load_json(program)
        except UsageError as error:
            raise UserError(str(error)) from None
    from softswitch import p4c
    from softswitch.p4 import P4Error, compile_file

    folders = [Path(folder) for folder in includes]
    macros = dict(_macro(text) for text in defines)
    try:
        if compiler == "builtin" or (compiler == "auto" and p4c.find() is None):
            return compile_file(program, folders, macros).json
        with tempfile.TemporaryDirectory() as scratch:
            made = p4c.compile_with_p4c(program, Path(scratch), folders, macros)[0]
            document: Mapping[str, Any] = json.loads(made.read_text())
            return document
    except P4Error as error:
        raise UserError(str(error)) from None


def _macro(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name.isidentifier():
        raise UserError(f"-D {text}: '{name}' is not a name")
    return name, value if equals else "1"


class _Outcome:
    """A test and what came of it."""

    def __init__(self, test: Path, result: Result | None, error: str, seconds: float) -> None:
        self.test, self.result, self.error, self.seconds = test, result, error, seconds

    @property
    def verdict(self) -> str:
        if self.result is None:
            return ERROR
        return PASS if self.result.passed else FAIL


def _one(suite: Suite, test: Path) -> _Outcome:
    from softswitch.stf.commands import StfError

    began = time.monotonic()
    result, problem = None, ""
    try:
        result = suite.run(test.read_text("utf-8"), str(test))
    except StfError as error:
        problem = str(error)
    except UnicodeDecodeError:
        problem = f"{test}: not a text file"
    except OSError as error:
        problem = f"{test}: {error.strerror}"
    return _Outcome(test, result, problem, time.monotonic() - began)


def _json(program: Path, switch: str, outcomes: list[_Outcome]) -> dict[str, Any]:
    return {
        "program": str(program),
        "switch": switch,
        "tests": [
            {
                **(o.result.to_json() if o.result else {"test": str(o.test), "passed": False}),
                "verdict": o.verdict,
                "error": o.error or None,
                "seconds": round(o.seconds, 3),
            }
            for o in outcomes
        ],
    }


def _show(outcome: _Outcome, verbose: bool) -> None:
    from softswitch.stf.explain import lines_of

    result = outcome.result
    if result is None:
        print(f"lab stf: {outcome.error}", file=sys.stderr, flush=True)
        return
    if verbose:
        for line in result.trace:
            print(line)
    for number, text in result.said:
        print(f"{outcome.test}:{number}: {text}")
    for failure in result.failures:
        first, *rest = lines_of(failure)
        print(f"{outcome.test}:{failure.line}: {first}")
        for line in rest:
            print(line)
    for note in result.notes:
        print(f"{outcome.test}: note: {note}")
    counts = f"{result.packets} packets in, {result.expected} expected"
    word = "pass" if result.passed else f"FAIL, {len(result.failures)} wrong"
    print(f"{outcome.test}: {word} ({counts})", flush=True)


def _table(outcomes: list[_Outcome], seconds: float) -> None:
    names = [str(o.test) if len(str(o.test)) <= 44 else f"...{str(o.test)[-41:]}" for o in outcomes]
    width = max(4, *map(len, names))
    print(f"\n{'test':<{width}}  packets  expected  result       ms")
    for name, o in zip(names, outcomes, strict=True):
        packets = o.result.packets if o.result else 0
        expected = o.result.expected if o.result else 0
        print(
            f"{name:<{width}}  {packets:>7}  {expected:>8}  {o.verdict:<6}  {o.seconds * 1e3:>7.0f}"
        )
    passed = sum(o.verdict == PASS for o in outcomes)
    print(f"{passed} of {len(outcomes)} tests pass, {seconds:.2f} s")
