"""`./lab soak`: two endpoints against an adversary, for as long as you like."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, Any

import click

from mrclab.errors import UserError

if TYPE_CHECKING:
    from hosts.soak.run import Trace

EXIT_VIOLATED = 1
TELL_S = 10.0


@dataclass
class Tally:
    """What a soak did so far."""

    rounds: int = 0
    steps: int = 0
    frames: int = 0
    virtual_ns: int = 0


@click.command("soak")
@click.option("--minutes", type=click.FloatRange(min=0), default=1.0, show_default=True,
              help="How long; 0 runs until interrupted.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0), help="Of all rounds (default: a fresh one).")
@click.option("--steps", type=click.IntRange(4, 100_000), default=200, show_default=True,
              help="Most actions in a round.")  # fmt: skip
@click.option("--from", "first", type=click.IntRange(0), default=0, show_default=True,
              help="First round.")  # fmt: skip
@click.option("--rounds", type=click.IntRange(1), help="At most so many rounds.")
@click.option("--replay", type=click.Path(path_type=Path, dir_okay=False),
              help="Run one recorded round again, and say where it goes wrong.")  # fmt: skip
@click.option("--shorten", is_flag=True, help="With --replay: leave out what is not needed.")
@click.option("--trace", type=click.Path(path_type=Path, dir_okay=False),
              help="Where to write the trace of a violation (soak-SEED-ROUND.trace).")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def soak_command(
    minutes: float,
    seed: int | None,
    steps: int,
    first: int,
    rounds: int | None,
    replay: Path | None,
    shorten: bool,
    trace: Path | None,
    as_json: bool,
) -> int:
    """Let two MRC endpoints live through an adversary's network, in virtual time.

    Each round draws a set-up (planes, QPs, congestion control, path selector, interop
    profiles, IPv4, IPv6 or SRv6, ...) and then loses, reorders, duplicates, corrupts,
    marks, trims and delays frames, takes ports and planes away, and meddles with EVs.
    After every step the invariants are checked; in the end the network is made whole,
    and memory must be equal and nothing stuck. Stops at the first violation, writes a
    trace and exits with status 1. Needs no root.

    \b
    Examples:
      ./lab soak --minutes 5
      ./lab soak --seed 7 --from 41 --rounds 1     one round of a known soak
      ./lab soak --replay soak-7-41.trace --shorten
    """
    if replay is not None:
        return _replay(replay, shorten, trace, as_json)
    if shorten:
        raise UserError("--shorten works on a trace: give --replay FILE")
    seed = SystemRandom().getrandbits(32) if seed is None else seed
    return _soak(minutes, seed, steps, first, rounds, trace, as_json)


def _soak(
    minutes: float,
    seed: int,
    steps: int,
    first: int,
    rounds: int | None,
    trace_file: Path | None,
    as_json: bool,
) -> int:
    from hosts.soak.run import soak_round

    begin = told = time.monotonic()
    until = begin + minutes * 60 if minutes else float("inf")
    tally, number = Tally(), first
    bad: Trace | None = None
    try:
        while bad is None and time.monotonic() < until:
            if rounds is not None and tally.rounds >= rounds:
                break
            trace, world = soak_round(seed, number, steps)
            number += 1
            tally.rounds += 1
            tally.steps += world.steps
            tally.frames += world.frames
            tally.virtual_ns += world.now
            bad = trace if trace.problem else None
            now = time.monotonic()
            if not as_json and now - told >= TELL_S:
                told = now
                print(f"  {_counts(tally)}, {now - begin:.0f} s", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        if not as_json:
            print("  interrupted", file=sys.stderr)
    result: dict[str, Any] = {
        "seed": seed,
        "first": first,
        "rounds": tally.rounds,
        "steps": tally.steps,
        "frames": tally.frames,
        "virtual_s": round(tally.virtual_ns / 1e9, 3),
        "seconds": round(time.monotonic() - begin, 1),
        "violation": None,
    }
    if bad is not None:
        file = trace_file or Path(f"soak-{seed}-{bad.round}.trace")
        _write(file, bad)
        result["violation"] = {"round": bad.round, "problem": bad.problem, "trace": str(file)}
    if as_json:
        print(json.dumps(result, indent=2))
    elif bad is not None:
        print(
            f"violated in round {bad.round} of seed {seed}: {bad.problem}\n"
            f"  trace: {file}\n"
            f"  again: ./lab soak --replay {file} --shorten"
        )
    else:
        print(f"held: {_counts(tally)}, seed {seed}")
    return EXIT_VIOLATED if bad is not None else 0


def _counts(tally: Tally) -> str:
    return f"{tally.rounds:,} rounds, {tally.steps:,} steps, {tally.frames:,} frames"


def _write(file: Path, trace: Trace) -> None:
    try:
        file.write_text(trace.to_text())
    except OSError as error:
        raise UserError(f"{file}: cannot write the trace: {error.strerror}") from None


def _replay(file: Path, shorter: bool, trace_file: Path | None, as_json: bool) -> int:
    from hosts.soak.run import Trace, replay, shorten

    try:
        recorded = Trace.from_text(file.read_text())
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}") from None
    except ValueError as error:
        raise UserError(f"{file}: {error}") from None
    again, world = replay(recorded)
    if again.problem and shorter:
        again = shorten(again)
        out = trace_file or file.with_suffix(".short.trace")
        _write(out, again)
        if not as_json:
            print(f"  {len(again.actions)} of {len(recorded.actions)} actions left: {out}")
    if as_json:
        shown = {
            "seed": again.seed,
            "round": again.round,
            "steps": len(again.actions),
            "problem": again.problem or None,
            "setup": again.setup.to_json(),
        }
        print(json.dumps(shown, indent=2))
    elif again.problem:
        print(f"violated: {again.problem}")
    else:
        print(f"held: {world.steps} steps, {world.frames} frames")
    return EXIT_VIOLATED if again.problem else 0
