"""Lines of a test as commands, and what is said about wrong ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softswitch.stf.commands import (
    Add,
    Call,
    Check,
    Direct,
    Expect,
    Named,
    NoPacket,
    Packet,
    Remove,
    SetDefault,
    StfError,
    Wait,
)
from softswitch.stf.parse import STATEMENTS, number, parse


def one(line: str):
    (command,) = parse(line).commands
    return command


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("packet 3 00 ab CD # comment", Packet(1, 3, b"\x00\xab\xcd")),
        ("PACKET 3 00", Packet(1, 3, b"\x00")),
        ("expect 3 0*aB $", Expect(1, 3, "0*ab", True)),
        ("expect 3 0*a", Expect(1, 3, "0*a", False)),
        ("expect 3 $", Expect(1, 3, "", True)),
        ("expect 3", Expect(1, 3, None)),
        ("no_packet", NoPacket(1)),
        ("wait", Wait(1)),
        ("add t k:1 a()", Add(1, "t", None, (Named("k", "1"),), Call("a"))),
        (
            'add "c.t" 7 a$0.b:0x1* "x.y":2&&&3 z : 1/8 "a.b"("p":1, q:2) = $E',
            Add(
                1,
                "c.t",
                7,
                (Named("a$0.b", "0x1*"), Named("x.y", "2&&&3"), Named("z", "1/8")),
                Call("a.b", (Named("p", "1"), Named("q", "2"))),
                "E",
            ),
        ),
        ("add t k:1..5 member(3)", Add(1, "t", None, (Named("k", "1..5"),), Call("member", (), 3))),
        ("add t k:1->5 a()", Add(1, "t", None, (Named("k", "1->5"),), Call("a"))),
        ("add t 1 a()", Add(1, "t", 1, (), Call("a"))),
        ("setdefault t a(p:1)", SetDefault(1, "t", Call("a", (Named("p", "1"),)))),
        ("remove all", Remove(1)),
        ("remove all t", Remove(1, table="t")),
        ("remove $E", Remove(1, entry="E")),
        ("remove t 5 k:1", Remove(1, table="t", priority=5, match=(Named("k", "1"),))),
        ("check_counter c($A)", Check(1, "counter", "c", "A")),
        ("check_counter c(10) bytes<=12", Check(1, "counter", "c", 10, "bytes", "<=", 12)),
        ("check_register r(0x10) != 1", Check(1, "register", "r", 16, None, "!=", 1)),
        ("mc_node_create 400 6 7", Direct(1, "mc_node_create", "", (400, 6, 7))),
        ("register_read a.r", Direct(1, "register_read", "a.r")),
        (
            "meter_set_rates m 2 0.000005:4 2e-3:5",
            Direct(1, "meter_set_rates", "m", (2,), (), ((0.000005, 4), (0.002, 5))),
        ),
        (
            "table_indirect_add t 1 0x2 => 3",
            Direct(1, "table_indirect_add", "t", (), ("1", "0x2", "=>", "3")),
        ),
    ],
)
def test_commands(line: str, wanted: object) -> None:
    assert one(line) == wanted


def test_blank_lines_and_comments_count() -> None:
    test = parse('# packet 0 00\n\n   \n\twait # "x\nadd t k:1 "a#b"()\r\n')
    assert [c.line for c in test.commands] == [4, 5]
    assert isinstance(test.commands[1], Add)
    assert test.commands[1].action.name == "a#b"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("pakcet 0 00", "there is no command 'pakcet'; did you mean packet?"),
        ("packet", "a port is missing"),
        ("packet x 00", "a port number is expected, not 'x'"),
        ("packet 0", "a packet needs data"),
        ("packet 0 0", "half a byte"),
        ("packet 0 0x00", "without 0x"),
        ("packet 0 0*", "not '*'"),
        ("packet 70000 00", "more than 65535"),
        ("packet 0 " + "00" * 9217, "9217 bytes"),
        ("expect 0 0$0", "last character"),
        ("expect 0 xy", "not 'x'"),
        ("no_packet 1", "too much"),
        ("add t", "the action is missing"),
        ("add t k:1", "the action is missing"),
        ("add t k:1 a", "'(' is missing"),
        ("add t k:1 a(p)", "':' is expected after argument 'p'"),
        ("add t k:1 a(p:1 q:2)", "',' is expected"),
        ("add t k:1 a() = ", "name of the entry is missing"),
        ("add t k:1 a() x", "'=' is expected"),
        ("add t k: a()", "',' or ':'"),
        ('add t "k', "cannot read"),
        ("add t 4294967296 k:1 a()", "priority"),
        ("add t k:1 member(x)", "'x' is not the number of a member"),
        ("check_counter c(1) packets", "a comparison is missing"),
        ("check_counter c(1) frames == 1", "packets or bytes is expected"),
        ("check_register r(A) == 1", "index must be a number"),
        ("mirroring_add 1", "mirroring_add SESSION PORT"),
        ("mirroring_add 1 2 3", "'3' is too much"),
        ("meter_set_rates m 1 x:1", "rate in units per microsecond"),
        ("meter_set_rates m 1", "something is missing"),
    ],
)
def test_wrong_lines(line: str, words: str) -> None:
    with pytest.raises(StfError) as caught:
        parse(f"wait\n{line}", "dir/x.stf")
    message = str(caught.value)
    assert message.startswith("dir/x.stf:2: ")
    assert "\n" not in message
    if words != "',' or ':'":
        assert words in message


def test_numbers() -> None:
    assert [number(t) for t in ("12", "0x1F", "0b101", "0o17", "0XfF")] == [12, 31, 5, 15, 255]
    assert [number(t) for t in ("", "0x", "0b2", "1_0", "-1", "x", "0x1*", "٣")] == [None] * 8


def problem_of(text: str) -> str:
    """What is said about a text that is refused; "" when it is read."""
    try:
        parse(text)
    except StfError as error:
        return str(error)
    return ""


def test_long_words_are_quoted_in_part() -> None:
    problem = problem_of("packet " + "x" * 100_000 + " ab")
    assert problem.startswith("test.stf:1: ")
    assert "xx ... xx" in problem
    assert len(problem) < 500


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    assert "\n" not in problem_of(text)


words = st.sampled_from(
    ["t", "1", "0x1*", ":", "(", ")", "=", "=>", "$A", '"a b"', "all", ",", "==", "packets", "#"]
)


@given(st.sampled_from(sorted(STATEMENTS)), st.lists(words, max_size=9))
def test_any_words_after_a_command_are_read_or_refused(verb: str, rest: list[str]) -> None:
    problem = problem_of(" ".join([verb, *rest]))
    assert not problem or problem.startswith("test.stf:1: ")
