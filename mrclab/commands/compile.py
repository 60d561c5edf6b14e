"""`./lab compile`: P4-16 to bmv2 JSON and P4Info."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from mrclab.errors import EXIT_USAGE


@click.command("compile")
@click.argument("program", type=click.Path(path_type=Path), metavar="FILE.p4")
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    default=Path(),
    help="Where the two files go (default: here).",
)
@click.option(
    "--compiler",
    type=click.Choice(["auto", "p4c", "builtin"]),
    default="auto",
    show_default=True,
    help="auto: p4c where it is on the PATH, else the one built in.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the paths as JSON.")
def compile_command(program: Path, out: Path, compiler: str, as_json: bool) -> int:
    """Compile a P4-16 program for v1model.

    Writes NAME.json (bmv2 JSON) and NAME.p4info.txtpb (P4Info).

    \b
    Examples:
      ./lab compile p4src/mrc_fabric.p4 -o /tmp/out
      ./lab compile mine.p4 --compiler builtin
    """
    from softswitch.p4 import P4Error, compile_program

    try:
        json_path, info_path = compile_program(program, out, compiler)
    except P4Error as error:
        print(error, file=sys.stderr)
        return EXIT_USAGE
    except OSError as error:
        print(f"lab compile: {error.filename or out}: {error.strerror}", file=sys.stderr)
        return EXIT_USAGE
    if as_json:
        print(json.dumps({"json": str(json_path), "p4info": str(info_path)}))
    else:
        print(f"{json_path}\n{info_path}")
    return 0
