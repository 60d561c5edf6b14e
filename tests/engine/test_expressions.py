"""Arithmetic is that of unbounded integers, truncated when stored: against Python's."""

from __future__ import annotations

import random
from typing import Any

import pytest

from softswitch.engine import Engine
from tests.engine.programs import Build, Json, assign, const, fld, op

WIDTHS = [1, 3, 8, 9, 16, 24, 31, 32, 33, 48, 63, 64, 65, 100, 127, 128, 129, 200]


class Maker:
    """Random expressions together with their value."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.fields = [(f"u{w}", w, False) for w in WIDTHS] + [
            (f"s{w}", w, True) for w in WIDTHS if w > 1
        ]
        self.values: dict[str, int] = {}
        for name, w, signed in self.fields:
            raw = self.r.choice([0, (1 << w) - 1, 1 << w - 1, self.r.getrandbits(w)])
            self.values[name] = raw - (1 << w) if signed and raw >> w - 1 else raw

    def leaf(self) -> tuple[Json, int]:
        if self.r.random() < 0.3:
            v = self.r.choice([0, 1, 255, (1 << 32) - 1, 1 << 64, -1, -5, self.r.getrandbits(140)])
            return const(v), v
        name = self.r.choice(self.fields)[0]
        return fld("in", name), self.values[name]

    def data(self, depth: int) -> tuple[Json, int]:
        if depth == 0 or self.r.random() < 0.1:
            return self.leaf()
        kind = self.r.choice(
            ["+", "-", "*", "&", "|", "^", "~", "<<", ">>", "?", "two_comp_mod", "usat_cast",
             "sat_cast", "mask", "b2d", "/", "%", "neg"]
        )  # fmt: skip
        a, x = self.data(depth - 1)
        b, y = self.data(depth - 1)
        w = self.r.choice(WIDTHS)
        if kind in ("+", "-", "*", "&", "|", "^"):
            f = {"+": x + y, "-": x - y, "*": x * y, "&": x & y, "|": x | y, "^": x ^ y}
            return op(kind, a, b), f[kind]
        if kind == "neg":
            return op("-", None, a), -x
        if kind == "~":
            return op("~", None, a), ~x
        if kind in ("<<", ">>"):
            n = self.r.choice([0, 1, 7, 31, 64, 70])
            return op(kind, a, const(n)), x << n if kind == "<<" else x >> n
        if kind == "?":
            c, t = self.boolean(depth - 1)
            return op("?", a, b, c), x if t else y
        if kind == "mask":
            return op("&", a, const((1 << w) - 1)), x & (1 << w) - 1
        if kind == "b2d":
            c, t = self.boolean(depth - 1)
            return op("b2d", None, c), int(t)
        if kind in ("/", "%"):
            d = self.r.choice([1, 3, 10, 1 << 20])
            m = op("&", a, const((1 << w) - 1))
            x &= (1 << w) - 1
            return op(kind, m, const(d)), x // d if kind == "/" else x % d
        w = max(w, 2)
        if kind == "two_comp_mod":
            v = x & (1 << w) - 1
            return op(kind, a, const(w)), v - (1 << w) if v >> w - 1 else v
        lo, hi = (0, (1 << w) - 1) if kind == "usat_cast" else (-(1 << w - 1), (1 << w - 1) - 1)
        return op(kind, a, const(w)), max(lo, min(hi, x))

    def boolean(self, depth: int) -> tuple[Json, bool]:
        if depth <= 0 or self.r.random() < 0.2:
            value = self.r.random() < 0.5
            return {"type": "bool", "value": value}, value
        kind = self.r.choice(["==", "!=", "<", "<=", ">", ">=", "and", "or", "not", "d2b"])
        if kind in ("and", "or"):
            a, x = self.boolean(depth - 1)
            b, y = self.boolean(depth - 1)
            return op(kind, a, b), (x and y) if kind == "and" else (x or y)
        if kind == "not":
            a, x = self.boolean(depth - 1)
            return op("not", None, a), not x
        p, u = self.data(depth - 1)
        if kind == "d2b":
            return op("d2b", None, p), u != 0
        q, v = self.data(depth - 1)
        if self.r.random() < 0.2:
            q, v = p, u
        f = {"==": u == v, "!=": u != v, "<": u < v, "<=": u <= v, ">": u > v, ">=": u >= v}
        return op(kind, p, q), f[kind]


def pack(fields: list[tuple[str, int, bool]], values: dict[str, int]) -> bytes:
    bits = n = 0
    for name, w, _ in fields:
        bits = bits << w | values[name] & (1 << w) - 1
        n += w
    pad = -n % 8
    return (bits << pad).to_bytes((n + pad) // 8, "big")


@pytest.mark.parametrize("seed", range(4))
def test_random_expressions(seed: int) -> None:
    m = Maker(seed)
    b = Build()
    total = sum(w for _, w, _ in m.fields)
    b.header("in", [*m.fields, ("pad", -total % 8 or 8)])
    outs: list[tuple[str, int, bool]] = []
    want: dict[str, int] = {}
    program: list[Any] = [assign("standard_metadata", "egress_spec", const(1))]
    for i in range(60):
        w = m.r.choice(WIDTHS)
        e, v = m.data(4)
        outs.append((f"o{i}", w, False))
        want[f"o{i}"] = v
        program.append(assign("out", f"o{i}", e))
    size = sum(w for _, w, _ in outs)
    outs.append(("pad", -size % 8 or 8, False))
    want["pad"] = 0
    b.header("out", outs)
    b.run("ingress", "compute", program)
    engine = Engine(b.json())
    engine.add_port(0)
    engine.add_port(1)
    head = pack([*m.fields, ("pad", -total % 8 or 8, False)], {**m.values, "pad": 0})
    blank = bytes(sum(w for _, w, _ in outs) // 8)
    engine.receive(0, head + blank, 0)
    ((port, frame),) = engine.frames_to_send(0)
    assert port == 1
    assert frame[: len(head)] == head, "what was not written comes out as it went in"
    got = int.from_bytes(frame[len(head) :], "big")
    for name, w, _ in reversed(outs):
        assert got & (1 << w) - 1 == want[name] & (1 << w) - 1, name
        got >>= w


def test_division_by_zero_and_wide_shift_are_defined() -> None:
    b = Build()
    b.header("h", [("a", 32), ("b", 32), ("c", 32), ("d", 32)])
    b.run(
        "ingress",
        "x",
        [
            assign("standard_metadata", "egress_spec", const(1)),
            assign("h", "c", op("/", fld("h", "a"), fld("h", "b"))),
            assign("h", "d", op("&", op("<<", fld("h", "a"), fld("h", "a")), const(0xFFFFFFFF))),
        ],
    )
    engine = Engine(b.json())
    engine.add_port(0)
    engine.add_port(1)
    engine.receive(0, (100).to_bytes(4, "big") + bytes(12), 0)
    ((_, frame),) = engine.frames_to_send(0)
    assert frame[8:] == bytes(8)
