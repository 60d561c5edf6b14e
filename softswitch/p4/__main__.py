"""`python -m softswitch.p4 FILE.p4 -o DIR`"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from softswitch.p4 import P4Error, compile_file, write_outputs


def main(argv: list[str] | None = None) -> int:
    """Compile one file; exit status 0, or 2 when the program is refused."""
    parser = argparse.ArgumentParser(
        prog="python -m softswitch.p4",
        description="Compile P4-16 (v1model) to bmv2 JSON and P4Info.",
    )
    parser.add_argument("file", type=Path, help="program to compile")
    parser.add_argument("-o", "--out", type=Path, default=Path("."), help="output folder")
    parser.add_argument("-I", dest="include", action="append", default=[], type=Path)
    parser.add_argument("-D", dest="define", action="append", default=[], metavar="NAME[=VALUE]")
    parser.add_argument("--json", action="store_true", help="report as JSON on standard output")
    parser.add_argument("-w", dest="quiet", action="store_true", help="no warnings")
    args = parser.parse_args(argv)
    defines = {}
    for item in args.define:
        name, _, value = item.partition("=")
        defines[name] = value if _ else "1"
    try:
        compiled = compile_file(args.file, args.include, defines)
        paths = write_outputs(compiled, args.out, args.file.stem)
    except P4Error as error:
        if args.json:
            print(json.dumps({"ok": False, "diagnostics": [vars(d) for d in error.diagnostics]}))
        else:
            print(error, file=sys.stderr)
            count = sum(1 for d in error.diagnostics if d.severity == "error")
            print(f"{args.file}: {count} error{'s' if count != 1 else ''}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"{args.out}: cannot write: {error.strerror}", file=sys.stderr)
        return 2
    if args.json:
        shown = {
            "ok": True,
            "json": str(paths[0]),
            "p4info": str(paths[1]),
            "diagnostics": [vars(d) for d in compiled.warnings],
        }
        print(json.dumps(shown))
        return 0
    if not args.quiet:
        for warning in compiled.warnings:
            print(warning, file=sys.stderr)
    print(f"{paths[0]}\n{paths[1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
