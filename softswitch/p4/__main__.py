"""`python -m softswitch.p4 FILE.p4 -o DIR`"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from softswitch.p4 import P4Error
from softswitch.p4.api import build
from softswitch.p4.diagnostics import Diagnostic
from softswitch.p4.policy import HELP, WarningPolicy

EXIT_REFUSED = 2


_MACRO = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\([A-Za-z0-9_, .]*\))?")


def defines_of(items: Iterable[str], undefined: Iterable[str] = ()) -> dict[str, str | None]:
    """`-D NAME`, `-D NAME=VALUE`, `-D 'F(x)=x+1'` and `-U NAME` as a mapping.

    Raises ValueError for a bad name.
    """
    found: dict[str, str | None] = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not _MACRO.fullmatch(name):
            raise ValueError(f"-D: '{name}' is not a name; write -D NAME or -D NAME=VALUE")
        found[name] = value if equals else "1"
    for name in undefined:
        if not name.isidentifier():
            raise ValueError(f"-U: '{name}' is not a name")
        found[name] = None
    return found


def as_json(diagnostics: Iterable[Diagnostic], **more: Any) -> str:
    """The report scripts read: ok, paths, diagnostics (file, line, column, message, ...)."""
    return json.dumps({**more, "diagnostics": [asdict(d) for d in diagnostics]})


def summary(path: Path, diagnostics: Iterable[Diagnostic]) -> str:
    """`FILE: 2 errors`"""
    count = sum(1 for d in diagnostics if d.severity == "error")
    return f"{path}: {count} error{'s' if count != 1 else ''}"


def main(argv: Sequence[str] | None = None) -> int:
    """Compile one file; exit status 0, or 2 when the program is refused."""
    parser = argparse.ArgumentParser(
        prog="python -m softswitch.p4",
        description="Compile P4-16 (v1model) to bmv2 JSON and P4Info.",
        epilog="example: python -m softswitch.p4 mine.p4 -o out -D DEBUG=1 -Wno-unused",
    )
    parser.add_argument("file", type=Path, help="program to compile")
    parser.add_argument("-o", "--out", default=".", metavar="DIR", help="output folder")
    parser.add_argument(
        "-I", dest="include", action="append", default=[], type=Path, metavar="DIR",
        help="look for #include files here too",
    )  # fmt: skip
    parser.add_argument(
        "-D", dest="define", action="append", default=[], metavar="NAME[=VALUE]",
        help="define a macro",
    )  # fmt: skip
    parser.add_argument(
        "-U", dest="undefine", action="append", default=[], metavar="NAME",
        help="take a predefined macro away",
    )  # fmt: skip
    parser.add_argument("-W", dest="warn", action="append", default=[], metavar="KIND", help=HELP)
    parser.add_argument("--werror", action="store_true", help="warnings refuse the program")
    parser.add_argument("-w", "--no-warn", action="store_true", help="no warnings")
    parser.add_argument("--json", action="store_true", help="report as JSON on standard output")
    args = parser.parse_args(argv)
    try:
        policy = WarningPolicy.parse(args.warn, werror=args.werror, silent=args.no_warn)
        defines = defines_of(args.define, args.undefine)
        if not args.out:
            raise ValueError("-o: it is empty, name a folder")
    except ValueError as error:
        parser.error(str(error))
    try:
        built = build(args.file, Path(args.out), "builtin", args.include, defines, policy)
    except P4Error as error:
        if args.json:
            print(as_json(error.diagnostics, ok=False))
        else:
            print(f"{error}\n{summary(args.file, error.diagnostics)}", file=sys.stderr)
        return EXIT_REFUSED
    except OSError as error:
        print(f"{args.out}: cannot write: {error.strerror}", file=sys.stderr)
        return EXIT_REFUSED
    if args.json:
        paths = {"json": str(built.json_path), "p4info": str(built.p4info_path)}
        print(as_json(built.warnings, ok=True, **paths))
        return 0
    for warning in built.warnings:
        print(warning, file=sys.stderr)
    print(f"{built.json_path}\n{built.p4info_path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
