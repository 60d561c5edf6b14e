"""`./lab bench`: measurements, each beside a yardstick taken in the same run."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import click

from mrclab.enter import rerun_in_lab
from mrclab.errors import UserError
from mrclab.namespace import inside
from mrclab.progress import Steps

SUBJECTS = ("switch", "endpoint", "p4rt", "bringup")
ALONE = "virtual"
"""Needs no lab, takes minutes, and is measured only when it is named."""
PLOTS = (".svg", ".png")


def as_lines(result: dict[str, Any], indent: str = "  ") -> list[str]:
    """A nested result as aligned lines; numbers with the digits that mean something."""
    lines = []
    for key, value in result.items():
        name = key.replace("_", " ")
        if isinstance(value, dict):
            lines += [f"{indent}{name}", *as_lines(value, indent + "  ")]
        elif isinstance(value, float):
            text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
            lines.append(f"{indent}{name:<{max(1, 46 - len(indent))}}{text:>12}")
        else:
            text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value
            lines.append(f"{indent}{name:<{max(1, 46 - len(indent))}}{text!s:>12}")
    return lines


def _virtual(nics: int, workers: int | None, plot: Path | None, as_json: bool) -> int:
    from bench import virtual

    if plot is not None and plot.suffix not in PLOTS:
        raise UserError(f"--plot {plot}: name a file that ends with {' or '.join(PLOTS)}")
    if plot is not None and not plot.absolute().parent.is_dir():
        raise UserError(f"--plot {plot}: no folder {plot.parent}")
    with Steps(quiet=as_json).step("bench virtual"):
        result = virtual.run(workers, nics)
    # Before the picture: what took minutes must not be lost to a full disk.
    print(json.dumps(result, indent=2) if as_json else "\n".join(virtual.lines(result)), flush=True)
    if plot is not None:
        try:
            virtual.plot(result, plot)
        except (OSError, ValueError) as error:
            raise UserError(f"--plot {plot}: {error}") from None
    return 0


@click.command("bench")
@click.argument("subjects", nargs=-1, type=click.Choice((*SUBJECTS, ALONE)))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--nics",
    type=click.Choice(["16", "64", "256", "1024"]),
    default="1024",
    show_default=True,
    help="virtual: the largest fabric of the curve.",
)
@click.option("--workers", type=click.IntRange(1, 64), help="virtual: processes (default: CPUs).")
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="virtual: draw the curve (.svg, .png).",
)
def bench_command(
    subjects: tuple[str, ...], as_json: bool, nics: str, workers: int | None, plot: Path | None
) -> int:
    """Measure switch, endpoint, p4rt or bringup (default: all), or virtual.

    Figures are ratios taken in one run on this machine: the switch beside a bare
    AF_PACKET forwarder in C on the same links, the endpoint beside plain Scapy. p4rt is
    entries per second, start and memory of switches under P4Runtime. virtual, which
    needs no root and runs alone, is seconds and memory of virtual time: 8 hosts x
    800 Gb/s for a millisecond, and the curve up to 1,024 NICs.

    \b
    Examples:
      sudo ./lab bench switch
      sudo ./lab bench endpoint bringup --json
      ./lab bench virtual --nics 256 --plot curve.svg
    """
    if ALONE in subjects:
        if len(subjects) > 1:
            raise UserError(f"{ALONE} is measured alone; run the others separately")
        return _virtual(int(nics), workers, plot, as_json)
    if plot is not None or workers is not None:
        raise UserError(f"{'--plot' if plot else '--workers'} is for bench {ALONE}")
    if inside() is None:
        return rerun_in_lab()
    steps = Steps(quiet=as_json)
    results: dict[str, Any] = {}
    for subject in subjects or SUBJECTS:
        module = importlib.import_module(f"bench.{subject}")
        with steps.step(f"bench {subject}"):
            results[subject] = module.run()
    if as_json:
        print(json.dumps(results, indent=2))
    else:
        for subject, result in results.items():
            module = importlib.import_module(f"bench.{subject}")
            lines = module.table(result) if hasattr(module, "table") else as_lines(result)
            print("\n".join([subject, *lines]))
    return 0
