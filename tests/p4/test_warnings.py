"""What compiles and is still worth a word."""

from __future__ import annotations

import pytest

from tests.p4.support import compiled

CASES = [
    ({"locals": "action f() { m.x = 1; }"}, "action 'f' is not used"),
    ({"locals": "table t { actions = { NoAction; } }"}, "table 't' is not used"),
    ({"apply": "bit<8> v;"}, "variable 'v' is not used"),
    ({"parser": "state start { transition accept; } state s { transition accept; }"},
     "state 's' is never reached"),
    ({"parser": "state start { transition reject; }"}, "bmv2 has no reject"),
    ({"parser": "state start { transition select(m.x) { _: accept; 1: start; } }"},
     "this case is never reached"),
    ({"apply": "m.x = 256;"}, "256 does not fit in 'bit<8>' (0..255)"),
    ({"apply": "m.x = m.x << 8;"}, "shifting a 8-bit value by 8"),
    ({"apply": "resubmit_preserving_field_list(3);"}, "no metadata field is tagged @field_list(3)"),
    ({"locals": "direct_counter(CounterType.bytes) c;"}, "direct counter 'I.c' is not used"),
    ({"top": "counter(4, CounterType.bytes) c;", "apply": "c.count(4);"},
     "index 4 is outside 'c' of size 4"),
    ({"apply": "mark_to_drop();"}, "'mark_to_drop' is deprecated"),
]  # fmt: skip


@pytest.mark.parametrize(("parts", "message"), CASES, ids=[m for _, m in CASES])
def test_warning(parts: dict[str, str], message: str) -> None:
    assert any(message in w.message for w in compiled(**parts).warnings)


def test_nowarn_is_respected() -> None:
    assert not compiled(locals='@noWarn("unused") action f() {}').warnings


def test_a_clean_program_is_silent() -> None:
    assert not compiled(apply="m.x = hdr.h.a;").warnings
