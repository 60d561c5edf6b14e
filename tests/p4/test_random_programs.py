"""What random programs do to packets, against what the rules of P4 say they do.

The programs are made with the answer: `random_nodes` gives every expression and statement a
meaning of its own in Python. Compiled, they run in the engine. A seed always makes the same
program; to look at one: `print(Program(SEED, SIZE).text())`.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from softswitch.engine import Engine
from softswitch.p4 import compile_text
from tests.p4.random_nodes import Undefined
from tests.p4.random_programs import Program

PACKETS = 12
LENGTH = 400
MS = 1_000_000


# 1156 and 1015 call with arguments that overlap: the compiler once got them wrong.
PROGRAMS = [(0, 4), (1, 4), (2, 4), (5, 4), (1156, 7), (1015, 7)]


@pytest.mark.parametrize(("seed", "size"), PROGRAMS)
def test_packets_are_what_the_language_says(seed: int, size: int) -> None:
    program = Program(seed, size)
    document = compile_text(program.text(), Path(f"random{seed}.p4")).json
    rng = random.Random(seed)
    checked = 0
    engine = Engine(document)
    try:
        engine.add_port(0)
        engine.add_port(1)
        for n in range(PACKETS):
            packet = bytes(LENGTH) if n == 0 else rng.randbytes(LENGTH)
            try:
                wanted, mask = program.run(packet)
            except Undefined:
                continue
            engine.receive(0, packet, n * MS)
            ((port, frame),) = engine.frames_to_send(n * MS + MS // 2)
            assert port == 1
            assert len(frame) == len(wanted)
            wrong = [i for i, m in enumerate(mask) if (frame[i] ^ wanted[i]) & m]
            assert not wrong, f"packet {n}: bytes {wrong}"
            checked += 1
    finally:
        engine.close()
    assert checked >= PACKETS // 2
