"""Tests that use every command, on both switches; and that wrong expectations are found."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from softswitch.stf.commands import StfError
from softswitch.stf.explain import lines_of
from softswitch.stf.parse import STATEMENTS, parse
from softswitch.stf.suite import Result, Suite
from tests.stf.conftest import SAMPLES

TESTS = sorted(SAMPLES.glob("*.stf"))
Run = Callable[[str], Result]


def target(switch: str) -> Any:
    if switch == "bmv2":
        from softswitch.stf.bmv2 import Bmv2Target

        return Bmv2Target
    from softswitch.stf.engine import EngineTarget

    return EngineTarget


@pytest.fixture
def run(switch: str, program: Mapping[str, Any]) -> Run:
    suite = Suite(program, target(switch))
    return lambda text: suite.run(text, "t.stf")


@pytest.mark.parametrize("path", TESTS, ids=lambda p: p.stem)
def test_sample(path: Any, run: Run) -> None:
    result = run(path.read_text())
    assert result.passed, "\n".join(line for f in result.failures for line in lines_of(f))
    assert result.packets


def test_the_samples_use_every_command() -> None:
    used = {
        line.split()[0].lower()
        for path in TESTS
        for line in path.read_text().splitlines()
        if line.strip() and not line.startswith("#")
    }
    assert used == set(STATEMENTS)


@pytest.mark.parametrize("path", TESTS, ids=lambda p: p.stem)
def test_every_expectation_is_looked_at(path: Any, program: Mapping[str, Any]) -> None:
    """Turn one expectation after the other into a wrong one: each must be found, at its line."""
    suite = Suite(program, target("builtin"))
    lines = path.read_text().splitlines()
    for number, line in enumerate(lines, start=1):
        wrong = spoilt(line)
        if wrong is None:
            continue
        result = suite.run("\n".join([*lines[: number - 1], wrong, *lines[number:]]), "t.stf")
        assert number in {f.line for f in result.failures}, f"{number}: {wrong}"


def spoilt(line: str) -> str | None:
    """The line with what it expects turned into its contrary; None: it expects nothing."""
    if found := re.fullmatch(r"(expect \d+ )([0-9a-fA-F])(.*)", line):
        return f"{found[1]}{'f' if found[2] != 'f' else '0'}{found[3]}"
    contrary = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
    if found := re.fullmatch(r"(check_\w+ .*?) (==|!=|<=|>=|<|>) (\d+)", line):
        return f"{found[1]} {contrary[found[2]]} {found[3]}"
    return None


def test_what_a_failure_says(run: Run) -> None:
    result = run(
        "add exact_t b:1 write(value:7, port:1)\n"
        "packet 5 01000001 00000000 aabb\n"
        "expect 1 01080001 0000000* aacc $\n"
        "packet 5 09000001 00000000 1123 0456\n"
        "expect 2 09\n"
        "packet 5 01000001 00000000\n"
    )
    first, second, third = result.failures
    assert [f.line for f in result.failures] == [3, 5, 6]
    assert lines_of(first) == [
        "port 1: packet 1 differs in 2 places",
        "  h.a      expected 0x08  got 0x07  (byte 1)",
        "  payload  expected cc  got bb  (byte 9)",
        "  expected 010800010000000*aacc$",
        "  got      0107000100000000aabb",
    ]
    assert second.message == "port 2: the expected packet did not come"
    assert third.message == "port 1: packet 2 was not expected (h)"


def test_lengths(run: Run) -> None:
    text = "add exact_t b:1 send_it\n"
    with pytest.raises(StfError, match=r"^t\.stf:1: "):
        run(text)
    head = "add exact_t b:1 count_out(port:1)\npacket 5 01000001 00000000 aa\n"
    assert run(head + "expect 1 01000001 00000000").passed
    longer = run(head + "expect 1 01000001 00000000 $").failures
    assert [f.message for f in longer] == ["port 1: packet 1 is 9 bytes, longer than 8"]
    shorter = run(head + "expect 1 01000001 00000000 aabb").failures
    assert "is 9 bytes, shorter than 10" in shorter[0].message


def test_a_packet_elsewhere_is_mentioned(run: Run) -> None:
    head = "add exact_t b:1 count_out(port:9)\npacket 5 01000001 00000000\n"
    (failure,) = run(head + "expect 1 01").failures
    assert failure.hints == ("1 packet left by port 9, which no line names",)
    ignored = run(head)
    assert ignored.passed
    assert ignored.notes == ["1 packet left by port 9, which no line names"]
    assert not run(head + "no_packet").passed


def test_order_is_kept_on_a_port_only(run: Run) -> None:
    head = (
        "add exact_t b:1 count_out(port:1)\nadd exact_t b:2 count_out(port:2)\n"
        "packet 5 01000001 00000000 01\npacket 5 01000002 00000000 02\n"
        "packet 5 01000001 00000000 03\n"
    )
    one, two, three = (
        f"expect {p} 0100000{p} 00000000 0{n}$\n" for p, n in ((1, 1), (2, 2), (1, 3))
    )
    assert run(head + two + one + three).passed
    assert run(two + one + head + three).passed
    swapped = run(head + three + two + one)
    assert [f.line for f in swapped.failures] == [6, 8]


def test_missing_and_unexpected_are_told_apart(run: Run) -> None:
    head = "add exact_t b:1 count_out(port:1)\n" + "".join(
        f"packet 5 01000001 00000000 0{i}\n" for i in range(4)
    )
    text = head + "".join(f"expect 1 01000001 00000000 0{i}\n" for i in (0, 2, 3))
    (failure,) = run(text).failures
    assert failure.line == 3
    assert failure.message == "port 1: packet 2 was not expected (h / 1 bytes)"
    text = head + "".join(f"expect 1 01000001 00000000 0{i}\n" for i in (0, 1, 9, 2, 3))
    (failure,) = run(text).failures
    assert failure.line == 8
    assert "did not come" in failure.message


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("add fixed_t b:1 drop()", "const entries"),
        ("mc_node_associate 1 0", "no multicast node 0"),
        ("mirroring_get 3", "no (such )?mirroring session"),
        ("add profile_t b:1 member(0)", "no member 0 of I.plain"),
        ("add exact_t b:1 member(0)", "no action profile"),
        ("add profile_t b:1 group(0)", "not a selector"),
        ("remove exact_t b:1", "no such entry"),
        ("remove nobody", "no entry was named"),
        ("check_counter hits(1)", "belongs to the entries of I.exact_t"),
        ("check_counter hits($x)", "no entry was named"),
        ("register_write last_b 0 0x10000", "does not fit into 16 bits"),
        ("register_read last_b 4", "not 0..3"),
        ("add exact_t b:1 b:2 drop()", "given twice"),
        ("add exact_t b:1 write(port:1)", "needs value"),
        ("meter_set_rates rate 0 2:1 1:1", "must not fall"),
        ("act_prof_create_member plain write 1", "takes value port"),
    ],
)
def test_refused(line: str, words: str, run: Run) -> None:
    with pytest.raises(StfError, match=rf"^t\.stf:2: .*{words}"):
        run(f"wait\n{line}\n")


def test_a_duplicate_is_refused(run: Run) -> None:
    with pytest.raises(StfError, match=r"^t\.stf:2: .*exists"):
        run("add exact_t b:1 drop()\nadd exact_t b:1 drop()\n")


def test_nothing_runs_before_all_is_checked(program: Mapping[str, Any]) -> None:
    def make(_program: object, _ports: object) -> Any:
        raise AssertionError("a switch was started")

    with pytest.raises(StfError, match=r"^t\.stf:2: "):
        Suite(program, make).run("packet 0 00\nadd nothing k:1 a()\n", "t.stf")


def test_parse_keeps_the_text() -> None:
    assert parse("wait\nwait").lines == ("wait", "wait")
