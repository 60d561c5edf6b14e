"""What a packet costs by match kind and number of entries, and how fast entries go in.

Frames pass through an engine without sockets, in a C loop (csrc/replay.c); the time is CPU
time of the thread. Keys are as wide as in practice: 32 bits for ranges, an IPv6 address for
the others. Half of the frames hit an entry; every ternary entry has a mask of its own.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Any

from cffi import FFI

from bench import BENCH_CSRC
from softswitch.engine import ActionCall, Engine, Exact, Lpm, MatchValue, Range, Ternary, native
from softswitch.engine.build import build_shared

SIZES: dict[str, tuple[int, ...]] = {
    "exact": (10, 1000, 10_000),
    "lpm": (10, 1000, 10_000),
    "ternary": (10, 1000, 10_000),
    "range": (10, 1000, 10_000),
}
"""Entries in the table, by match kind."""
FRAMES, TURNS, ROUNDS = 1024, 4, 40


def program(kind: str, size: int) -> dict[str, Any]:
    """bmv2 JSON: one table over an address or a number chooses the port."""
    standard = [("ingress_port", 9), ("egress_spec", 9), ("egress_port", 9)]
    standard += [("instance_type", 32), ("packet_length", 32), ("pad", 5)]
    field = "number" if kind == "range" else "address"
    action = {
        "name": "out", "id": 0, "runtime_data": [{"name": "port", "bitwidth": 9}],
        "primitives": [{"op": "assign", "parameters": [
            {"type": "field", "value": ["standard_metadata", "egress_spec"]},
            {"type": "runtime_data", "value": 0},
        ]}],
    }  # fmt: skip
    table = {
        "name": "t", "id": 0, "match_type": kind, "type": "simple", "max_size": size,
        "with_counters": False, "support_timeout": False, "direct_meters": None,
        "key": [{"match_type": kind, "name": field, "target": ["h", field], "mask": None}],
        "action_ids": [0], "actions": ["out"], "base_default_next": None,
        "next_tables": {"out": None},
        "default_entry": {"action_id": 0, "action_data": ["0x1"]},
    }  # fmt: skip
    state = {
        "name": "start", "id": 0, "transition_key": [],
        "parser_ops": [{"op": "extract", "parameters": [{"type": "regular", "value": "h"}]}],
        "transitions": [{"type": "default", "value": None, "mask": None, "next_state": None}],
    }  # fmt: skip
    return {
        "header_types": [
            {"name": "m", "id": 0, "fields": [[n, w, False] for n, w in standard]},
            {"name": "h_t", "id": 1, "fields": [["address", 128, False], ["number", 32, False]]},
        ],
        "headers": [
            {"name": "standard_metadata", "id": 0, "header_type": "m", "metadata": True},
            {"name": "h", "id": 1, "header_type": "h_t", "metadata": False},
        ],
        "parsers": [{"name": "parser", "id": 0, "init_state": "start", "parse_states": [state]}],
        "deparsers": [{"name": "deparser", "id": 0, "order": ["h"]}],
        "actions": [action],
        "pipelines": [
            {"name": "ingress", "id": 0, "init_table": "t", "tables": [table]},
            {"name": "egress", "id": 1, "init_table": None, "tables": []},
        ],
        "__meta__": {"version": [2, 23]},
    }


def entry(r: random.Random, kind: str) -> tuple[MatchValue, Callable[[], int]]:
    """(match, a value that it matches)."""
    if kind == "range":
        lo = r.getrandbits(32)
        hi = min(lo + r.getrandbits(20), (1 << 32) - 1)
        return Range(lo, hi), lambda: r.randint(lo, hi)
    value = r.getrandbits(128)
    if kind == "exact":
        return Exact(value), lambda: value
    full = (1 << 128) - 1
    if kind == "lpm":
        length = r.choice((32, 48, 56, 64, 128))
        host = full >> length
        return Lpm(value & ~host, length), lambda: value & ~host | r.getrandbits(128) & host
    mask = r.getrandbits(128) | r.getrandbits(128)
    return Ternary(value & mask, mask), lambda: value & mask | r.getrandbits(128) & ~mask


class Replay:
    """Frames through an engine, in C."""

    def __init__(self) -> None:
        self.ffi = FFI()
        self.ffi.cdef(
            "uint64_t replay(void *, void *, void *, uint32_t, const uint8_t *, uint32_t,"
            " uint32_t, uint32_t, int64_t, uint64_t *);"
        )
        self.lib = self.ffi.dlopen(str(build_shared([BENCH_CSRC / "replay.c"], "replay")))

    def __call__(self, engine: Engine, frames: Sequence[bytes], turns: int) -> float:
        """Nanoseconds of CPU for one frame, in and out."""
        ffi, lib = native.runtime()

        def pointer(value: Any) -> Any:
            return self.ffi.cast("void *", int(ffi.cast("uintptr_t", value)))

        data, out = b"".join(frames), self.ffi.new("uint64_t *")
        took = self.lib.replay(
            pointer(lib.mrc_receive), pointer(lib.mrc_next_out), pointer(engine._sw), 0,
            self.ffi.from_buffer(data), len(frames[0]), len(frames), turns, 0, out,
        )  # fmt: skip
        if out[0] != len(frames) * turns:
            raise RuntimeError(f"{out[0]} of {len(frames) * turns} frames came out")
        return float(took) / (len(frames) * turns)


class Case:
    """A table of one kind and size, and frames for it."""

    def __init__(self, kind: str, size: int) -> None:
        r = random.Random(size)
        self.engine = engine = Engine(program(kind, size))
        engine.add_port(0)
        engine.add_port(1)
        made = [entry(r, kind) for _ in range(size)]
        call = ActionCall("out", (1,))
        priorities = [r.randint(1, 1 << 20) for _ in made]
        began = time.thread_time()
        for (match, _), priority in zip(made, priorities, strict=True):
            engine.table_add("t", [match], call, priority=priority)
        self.entries_per_s = size / (time.thread_time() - began)
        width = 32 if kind == "range" else 128
        self.frames = []
        for _ in range(FRAMES):
            v = r.choice(made)[1]() if r.random() < 0.5 else r.getrandbits(width)
            address, number = (0, v) if kind == "range" else (v, 0)
            self.frames.append((address << 32 | number).to_bytes(20, "big") + bytes(44))
        self.frame_ns = float("inf")


def run(sizes: dict[str, tuple[int, ...]] | None = None) -> dict[str, Any]:
    """Kind -> size -> figures, with the slow-down against the smallest size.

    Sizes take turns and the least of many short rounds counts: what disturbs the machine
    only ever adds time.
    """
    replay = Replay()
    out: dict[str, Any] = {}
    for kind, counts in (sizes or SIZES).items():
        cases = {n: Case(kind, n) for n in counts}
        for _ in range(ROUNDS):
            for case in cases.values():
                took = replay(case.engine, case.frames, TURNS)
                case.frame_ns = min(case.frame_ns, took)
        least = cases[counts[0]].frame_ns
        out[kind] = {
            str(n): {
                "frame_ns": case.frame_ns,
                "times_smallest": case.frame_ns / least,
                "entries_per_s": case.entries_per_s,
            }
            for n, case in cases.items()
        }
        for case in cases.values():
            case.engine.close()
    return out


if __name__ == "__main__":
    for kind, rows in run().items():
        for n, row in rows.items():
            print(
                f"{kind:8} {n:>6} {row['frame_ns']:8.1f} ns {row['times_smallest']:5.2f}x "
                f"{row['entries_per_s']:10.0f} entries/s"
            )
