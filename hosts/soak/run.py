"""Rounds of a world with random set-ups and actions, and replays of a recorded round.

Everything follows from a seed: round `n` of a soak is seeded by (seed, n), so it can be repeated
alone; a trace lists its actions, so that it can also be shortened by hand.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from hosts.soak.setup import Setup, draw
from hosts.soak.world import SLOT, Violation, World

Action = tuple[str, tuple[int, ...]]
VERSION = 1

# (action, weight, how many arguments): arguments are drawn below 2^16
WEIGHTS: tuple[tuple[str, int, int], ...] = (
    ("write", 24, 6),
    ("deliver", 40, 2),
    ("deliver_all", 14, 0),
    ("drop", 10, 2),
    ("duplicate", 6, 1),
    ("replay", 4, 1),
    ("corrupt", 5, 3),
    ("mark", 6, 1),
    ("trim", 8, 2),
    ("garbage", 3, 3),
    ("port", 3, 3),
    ("plane", 3, 2),
    ("wait", 20, 1),
    ("deny", 2, 4),
    ("demote", 2, 3),
    ("replace", 2, 4),
    ("probe", 2, 3),
    ("penalty", 1, 2),
    ("window", 1, 3),
    ("control", 1, 2),
)


@dataclass
class Trace:
    """A round: its set-up and actions, and what went wrong (empty: nothing)."""

    setup: Setup
    actions: list[Action] = field(default_factory=list)
    seed: int = 0
    round: int = 0
    problem: str = ""

    def to_text(self) -> str:
        """JSON lines: a head, then one action per line."""
        head = {
            "soak": VERSION,
            "seed": self.seed,
            "round": self.round,
            "problem": self.problem,
            "setup": self.setup.to_json(),
        }
        lines = [json.dumps(head), *(json.dumps([name, *args]) for name, args in self.actions)]
        return "\n".join(lines) + "\n"

    @classmethod
    def from_text(cls, text: str) -> Trace:
        """Raises ValueError with the line."""
        lines = text.splitlines()
        try:
            head: dict[str, Any] = json.loads(lines[0])
            if head.get("soak") != VERSION:
                raise ValueError(f"not a soak trace of version {VERSION}")
            trace = cls(
                Setup.from_json(head["setup"]),
                seed=int(head.get("seed", 0)),
                round=int(head.get("round", 0)),
                problem=str(head.get("problem", "")),
            )
        except (IndexError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"line 1: no soak trace: {error!r}") from None
        except ValueError as error:
            raise ValueError(f"line 1: {error}") from None
        arity = {name: count for name, _, count in WEIGHTS}
        for number, line in enumerate(lines[1:], 2):
            try:
                name, *args = json.loads(line)
                if arity[name] != len(args) or not all(type(a) is int and a >= 0 for a in args):
                    raise ValueError
            except (ValueError, KeyError, TypeError):
                raise ValueError(f"line {number}: no action: {line[:60]!r}") from None
            trace.actions.append((name, tuple(args)))
        return trace


def draw_actions(rng: Random, steps: int) -> Iterator[Action]:
    """Random actions; bursts of one kind, as faults come."""
    names = [name for name, _, _ in WEIGHTS]
    weights = [weight for _, weight, _ in WEIGHTS]
    arity = {name: count for name, _, count in WEIGHTS}
    for _ in range(steps):
        name = rng.choices(names, weights)[0]
        args = [rng.getrandbits(16) for _ in range(arity[name])]
        if name in ("deliver", "drop"):
            args[0] = 1 + args[0] % 24
        elif name == "write":
            args[3] = rng.choice([args[3] % SLOT, SLOT - 1, 0, 255, 256])
        yield name, tuple(args)


def play(trace: Trace, actions: Iterator[Action], record: bool) -> World:
    """Run actions to the end of the round. What goes wrong is in `trace.problem`."""
    world = World(trace.setup)
    try:
        for name, args in actions:
            if record:
                trace.actions.append((name, args))
            world.do(name, *args)
        world.finish()
    except Violation as violation:
        trace.problem = f"step {world.steps}: {violation}"
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        trace.problem = (
            f"step {world.steps}: {type(error).__name__}: {error} "
            f"({where.filename.rsplit('/', 1)[-1]}:{where.lineno})"
        )
    return world


def soak_round(seed: int, number: int, steps: int) -> tuple[Trace, World]:
    """One round from its seed."""
    rng = Random(f"{seed}:{number}")
    trace = Trace(draw(rng), seed=seed, round=number)
    count = rng.randrange(steps // 4, steps + 1)
    return trace, play(trace, draw_actions(rng, count), record=True)


def replay(trace: Trace) -> tuple[Trace, World]:
    """The same round again; the problem is found anew."""
    again = Trace(trace.setup, list(trace.actions), trace.seed, trace.round)
    return again, play(again, iter(trace.actions), record=False)


def shorten(trace: Trace, tell: Callable[[int], None] = lambda count: None) -> Trace:
    """A shorter trace that still goes wrong, by leaving actions out: halves, then smaller parts."""
    best = trace
    size = max(1, len(best.actions) // 2)
    while size:
        at = 0
        while at < len(best.actions):
            fewer = best.actions[:at] + best.actions[at + size :]
            again, _ = replay(Trace(best.setup, fewer, best.seed, best.round))
            if again.problem:
                best = again
                tell(len(best.actions))
            else:
                at += size
        size //= 2
    return best
