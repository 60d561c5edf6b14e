"""`./lab compile`: P4-16 to bmv2 JSON and P4Info."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from mrclab.commands.options import OutFolder
from mrclab.errors import EXIT_USAGE, UserError


@click.command("compile")
@click.argument("program", type=click.Path(path_type=Path), metavar="FILE.p4")
@click.option(
    "-o",
    "--out",
    type=OutFolder(path_type=Path, file_okay=False),
    metavar="DIR",
    default=".",
    help="Where the two files go (default: here).",
)
@click.option(
    "--compiler",
    type=click.Choice(["auto", "p4c", "builtin"]),
    default="auto",
    show_default=True,
    help="auto: p4c where it is on the PATH, else the one built in.",
)
@click.option("-I", "includes", multiple=True, metavar="DIR", help="Look for includes here too.")
@click.option("-D", "defines", multiple=True, metavar="NAME[=VALUE]", help="Define a macro.")
@click.option("-U", "undefines", multiple=True, metavar="NAME", help="Take a macro away.")
@click.option(
    "-W",
    "warn",
    multiple=True,
    metavar="KIND",
    help="no-KIND: hide these warnings; error, error=KIND: refuse the program for them.",
)
@click.option("--werror", is_flag=True, help="Warnings refuse the program.")
@click.option("-w", "--no-warn", is_flag=True, help="No warnings.")
@click.option("--json", "as_json", is_flag=True, help="Print paths and messages as JSON.")
def compile_command(
    program: Path,
    out: Path,
    compiler: str,
    includes: tuple[str, ...],
    defines: tuple[str, ...],
    undefines: tuple[str, ...],
    warn: tuple[str, ...],
    werror: bool,
    no_warn: bool,
    as_json: bool,
) -> int:
    """Compile a P4-16 program for v1model.

    Writes NAME.json (bmv2 JSON) and NAME.p4info.txtpb (P4Info). Messages have file, line,
    column, the line and what is wrong; docs/p4.md explains them. Exit status: 0 compiled,
    2 refused.

    \b
    Examples:
      ./lab compile p4src/mrc_fabric.p4 -o /tmp/out
      ./lab compile mine.p4 --compiler builtin -I include -D DEBUG=1
      ./lab compile mine.p4 -Wno-unused -Werror
    """
    from softswitch.p4 import P4Error
    from softswitch.p4.__main__ import as_json as report
    from softswitch.p4.__main__ import defines_of, summary
    from softswitch.p4.api import build
    from softswitch.p4.policy import WarningPolicy

    try:
        policy = WarningPolicy.parse(warn, werror=werror, silent=no_warn)
        macros = defines_of(defines, undefines)
    except ValueError as error:
        raise UserError(str(error)) from None
    try:
        built = build(program, out, compiler, [Path(i) for i in includes], macros, policy)
    except P4Error as error:
        if as_json:
            print(report(error.diagnostics, ok=False))
        else:
            print(f"{error}\n{summary(program, error.diagnostics)}", file=sys.stderr)
        return EXIT_USAGE
    except OSError as error:
        print(f"lab compile: {error.filename or out}: {error.strerror}", file=sys.stderr)
        return EXIT_USAGE
    if as_json:
        paths = {"json": str(built.json_path), "p4info": str(built.p4info_path)}
        print(report(built.warnings, ok=True, compiler=built.compiler, **paths))
        return 0
    for warning in built.warnings:
        print(warning, file=sys.stderr)
    print(f"{built.json_path}\n{built.p4info_path}")
    return 0
