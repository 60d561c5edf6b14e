"""`./lab doctor`: versions and what is absent."""

from __future__ import annotations

import click

from mrclab import ROOT
from mrclab.doctor import main


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor_command(as_json: bool) -> int:
    """Print versions of everything the lab uses, and what is absent.

    Exit status 1 when something that the lab needs is missing.

    \b
    Example:
      ./lab doctor --json
    """
    return main(["--json"] if as_json else [], ROOT)
