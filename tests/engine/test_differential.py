"""Random programs on the engine and on simple_switch: the same frames, the same counters.

More of them than the suite has time for: `python -m tests.engine.test_differential FIRST LAST`.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from softswitch.engine import CloneSession, Engine, Replica
from tests.engine import bmv2_harness as bmv2
from tests.engine.differential import PORTS, RandomProgram

SEEDS = (10, 12, 17, 22)
START_SECONDS = 10
"""Several simple_switch start at once."""

GROUP = (Replica(2, 7), Replica(3, 7), Replica(4, 9))


def prepared(program: RandomProgram) -> Engine:
    """An engine with the ports, groups and sessions that `commands` give to simple_switch."""
    engine = Engine(program.json, priority_queues=1)
    for p in PORTS:
        engine.add_port(p)
    engine.mc_group_set(1, GROUP)
    engine.clone_session_set(CloneSession(5, (Replica(4),)))
    engine.clone_session_set(CloneSession(6, GROUP))
    return engine


def differences(seed: int) -> list[str]:
    """One line each, empty when both agree; raises RuntimeError when simple_switch dies."""
    program = RandomProgram(seed)
    engine = prepared(program)
    ours: dict[int, Counter[bytes]] = {p: Counter() for p in PORTS}
    for i, (port, data) in enumerate(program.packets):
        engine.receive(port, data, i * 1000)
        for p, frame in engine.frames_to_send(i * 1000):
            ours[p][frame] += 1
    with tempfile.TemporaryDirectory() as tmp:
        theirs, text = bmv2.run(
            program.json, program.commands, program.packets, PORTS, Path(tmp), priority_queues=1,
            start_seconds=START_SECONDS, read=[f"counter_read cnt {i}" for i in range(4)],
        )  # fmt: skip
    out = []
    for p in PORTS:
        them = Counter(theirs[p])
        for name, frames in (("engine", ours[p] - them), ("bmv2", them - ours[p])):
            out += [f"seed {seed}, port {p}: only {name} sends {f.hex()}" for f in frames]
    counted = [(int(n), int(b)) for b, n in re.findall(r"(\d+) bytes, (\d+) packets", text)]
    mine = [(c.packets, c.bytes) for c in engine.counter_read_all("cnt")]
    if counted != mine:
        out.append(f"seed {seed}: engine counts {mine}, bmv2 {counted}")
    return out


@pytest.mark.bmv2
@pytest.mark.slow
@pytest.mark.skipif(not bmv2.available(), reason="simple_switch is not on the PATH")
def test_random_programs_do_the_same_as_on_bmv2() -> None:
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(differences, SEEDS):
            assert not found, found[0][:1500]


@pytest.mark.parametrize("seed", [3, 8])
def test_random_programs_keep_their_books(seed: int) -> None:
    """Without simple_switch: random programs compile, and no packet is lost from sight."""
    program = RandomProgram(seed)
    engine = prepared(program)
    for i, (port, data) in enumerate(program.packets):
        engine.receive(port, data, i)
    sent = len(engine.frames_to_send(len(program.packets)))
    t = engine.totals()
    assert (t.received, t.sent, t.held) == (len(program.packets), sent, 0)
    assert t.received + t.copies == t.sent + t.packet_in + t.dropped
    assert t.sent > 50


def main(first: int, last: int) -> None:
    def safe(seed: int) -> list[str]:
        try:
            return differences(seed)
        except RuntimeError as e:  # simple_switch has bugs of its own
            return [f"seed {seed}: simple_switch: {' '.join(str(e).split())[-200:]}"]

    with ThreadPoolExecutor(6) as pool:
        for seed, found in enumerate(pool.map(safe, range(first, last)), first):
            print(f"seed {seed}: {len(found)} differences", *found[:2], sep="\n    ", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
