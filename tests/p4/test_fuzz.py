"""No text makes the compiler fail other than with P4Error."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from softswitch.p4 import P4Error, compile_text

DATA = Path(__file__).resolve().parent.parent / "data" / "p4"
EXAMPLE = (DATA / "trim_ecn_spray.p4").read_text()
RICH = (DATA / "rich.p4").read_text()
WORD = re.compile(r"\w+|\s+|[^\w\s]")
EXTRA = [
    "0", "1", "-1", "8w255", "300w1", "0x", "bit<8>", "int<4>", "bool", "true", "{", "}", "(", ")",
    "<", ">", ";", ",", ".", "@name", "#define", "#if", "++", "<<", "&&&", "..", "?", ":", "==",
    "apply", "table", "action", "control", "header", "struct", "exit", "return", "default", "_",
    "select", "next", "last", "isValid", "setValid", "error", "enum", "typedef", "type", "const",
    "inout", "out", "...", "{#}", "[", "]", "varbit<16>", "tuple<bit<1>>", "switch", "\n", '"',
]  # fmt: skip


def check(text: str) -> None:
    """Compiles, or is refused with a place and a reason."""
    diagnostics = None
    try:
        json.dumps(compile_text(text, Path("fuzz.p4")).json)
    except P4Error as error:
        diagnostics = error.diagnostics
    if diagnostics is not None:
        assert diagnostics
        assert all(d.message and d.line >= 1 and d.column >= 1 for d in diagnostics)


def mutate(text: str, rng: random.Random) -> str:
    words = WORD.findall(text)
    for _ in range(rng.randrange(1, 4)):
        i = rng.randrange(len(words))
        choice = rng.randrange(6)
        if choice == 0:
            del words[i]
        elif choice == 1:
            words.insert(i, rng.choice(EXTRA))
        elif choice == 2:
            words[i] = rng.choice(words)
        elif choice == 3:
            j = rng.randrange(len(words))
            words[i], words[j] = words[j], words[i]
        elif choice == 4:
            words[i] = rng.choice(EXTRA)
        else:
            j = min(len(words), i + rng.randrange(1, 30))
            words[i:i] = words[i:j]
    return "".join(words)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 1 << 32), st.booleans())
def test_mutated_programs(seed: int, rich: bool) -> None:
    check(mutate(RICH if rich else EXAMPLE, random.Random(seed)))


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=300))
def test_random_text(text: str) -> None:
    check(text)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(EXTRA), max_size=60))
def test_random_words(words: list[str]) -> None:
    check("#include <v1model.p4>\n" + " ".join(words))


def test_deep_nesting_is_refused() -> None:
    for text in ("(" * 5000, "{" * 5000, "const bit<8> a = " + "~" * 5000 + "1;",
                 "const int a = " + "1 + " * 20000 + "1;", "struct " * 3000):  # fmt: skip
        check("#include <v1model.p4>\n" + text)


def test_cut_anywhere() -> None:
    step = max(1, len(EXAMPLE) // 60)
    for n in range(0, len(EXAMPLE), step):
        check(EXAMPLE[:n])
