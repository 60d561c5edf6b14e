"""`./lab bench`: measurements, each beside a yardstick taken in the same run."""

from __future__ import annotations

import importlib
import json
from typing import Any

import click

from mrclab.enter import rerun_in_lab
from mrclab.namespace import inside
from mrclab.progress import Steps

SUBJECTS = ("switch", "endpoint", "bringup")


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


@click.command("bench")
@click.argument("subjects", nargs=-1, type=click.Choice(SUBJECTS))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def bench_command(subjects: tuple[str, ...], as_json: bool) -> int:
    """Measure switch, endpoint or bringup (default: all three).

    Figures are ratios taken in one run on this machine: the switch beside a bare
    AF_PACKET forwarder in C on the same links, the endpoint beside plain Scapy.

    \b
    Examples:
      sudo ./lab bench switch
      sudo ./lab bench endpoint bringup --json
    """
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
            print("\n".join([subject, *as_lines(result)]))
    return 0
