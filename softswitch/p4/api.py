"""The calls other packages use: compile a file, a text, or with whichever compiler is there."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from softswitch.p4.bmv2json import write_json
from softswitch.p4.check import check
from softswitch.p4.diagnostics import Diagnostic, P4Error, Reporter, Stop
from softswitch.p4.lower import lower
from softswitch.p4.p4info import write_p4info
from softswitch.p4.parser import parse
from softswitch.p4.policy import WarningPolicy
from softswitch.p4.preprocess import Preprocessor, read_source

INCLUDE_DIR = Path(__file__).resolve().parent.parent / "p4include"
"""core.p4 and v1model.p4."""


RECURSION_LIMIT = 6_000
"""Frames the walks over deeply nested programs may take; the parser's own limit comes first."""


MAX_JSON_DEPTH = 900
"""Levels of nesting bmv2's JSON reader takes (jsoncpp: 1000)."""


@dataclass
class Compiled:
    """What a program becomes."""

    json: dict[str, Any]
    p4info: Any  # p4.config.v1.p4info_pb2.P4Info
    warnings: list[Diagnostic] = field(default_factory=list)


def compile_file(
    path: Path, include_dirs: Sequence[Path] = (), defines: Mapping[str, str | None] | None = None
) -> Compiled:
    """Compile one P4-16 v1model program.

    Raises P4Error when the program is refused or a file cannot be read.
    """
    try:
        text = read_source(path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise P4Error([Diagnostic(str(path), 1, 1, f"cannot read: {reason}")]) from None
    return compile_text(text, path, include_dirs, defines)


def compile_text(
    text: str,
    path: Path = Path("program.p4"),
    include_dirs: Sequence[Path] = (),
    defines: Mapping[str, str | None] | None = None,
) -> Compiled:
    """Like compile_file, for a text already read; `path` names it and roots its includes."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, RECURSION_LIMIT))
    try:
        return _compile(text, path, include_dirs, defines)
    finally:
        sys.setrecursionlimit(limit)


def _compile(
    text: str,
    path: Path,
    include_dirs: Sequence[Path],
    defines: Mapping[str, str | None] | None,
) -> Compiled:
    reporter = Reporter()
    try:
        preprocessor = Preprocessor(reporter, include_dirs, defines, INCLUDE_DIR)
        tokens = preprocessor.run(path, text)
        reporter.check()
        checked = check(parse(tokens, reporter), reporter)
        model = lower(checked, path.name, reporter)
        reporter.check()
        document = write_json(model, reporter)
        deep = _too_deep(document)
        if deep is not None:
            place = deep.get("filename", str(path)), deep.get("line", 1), deep.get("column", 0) + 1
            message = "an expression is nested too deeply for bmv2: use a variable for a part"
            raise P4Error([*reporter.errors, Diagnostic(*place, message)])
        p4info = write_p4info(model, reporter)
    except Stop:
        reporter.check()
        raise P4Error([Diagnostic(str(path), 1, 1, "the program was refused")]) from None
    except RecursionError:
        message = "the program is nested too deeply"
        raise P4Error([*reporter.errors, Diagnostic(str(path), 1, 1, message)]) from None
    reporter.check()
    return Compiled(document, p4info, list(reporter.warnings))


def _too_deep(document: object) -> dict[str, Any] | None:
    """The source_info of what nests deeper than bmv2's JSON reader takes, or None."""
    work: list[tuple[object, int, dict[str, Any]]] = [(document, 1, {})]
    while work:
        value, depth, source = work.pop()
        if depth > MAX_JSON_DEPTH:
            return source
        if isinstance(value, dict):
            source = value.get("source_info") or source
            inner: Iterable[object] = value.values()
        else:
            assert isinstance(value, list)
            inner = value
        work.extend((v, depth + 1, source) for v in inner if isinstance(v, (dict, list)))
    return None


def write_outputs(compiled: Compiled, out_dir: Path, name: str) -> tuple[Path, Path]:
    """Write NAME.json and NAME.p4info.txtpb; returns both paths."""
    from google.protobuf import text_format

    out_dir.mkdir(parents=True, exist_ok=True)
    json_path = out_dir / f"{name}.json"
    info_path = out_dir / f"{name}.p4info.txtpb"
    json_path.write_text(json.dumps(compiled.json, indent=2) + "\n")
    header = "# proto-file: p4/config/v1/p4info.proto\n# proto-message: p4.config.v1.P4Info\n\n"
    info_path.write_text(header + str(text_format.MessageToString(compiled.p4info)))
    return json_path, info_path


@dataclass
class Built:
    """What `build` wrote, and what there was to say."""

    json_path: Path
    p4info_path: Path
    warnings: list[Diagnostic]
    compiler: str


def build(
    path: Path,
    out_dir: Path,
    compiler: str = "auto",
    include_dirs: Sequence[Path] = (),
    defines: Mapping[str, str | None] | None = None,
    policy: WarningPolicy | None = None,
) -> Built:
    """Compile PATH into OUT_DIR with p4c or this compiler.

    compiler: "auto" takes p4c when it is on the PATH, else the one built in; "p4c" and
    "builtin" insist. Raises P4Error, also when `policy` makes a warning an error (then
    nothing is left in OUT_DIR), and OSError when OUT_DIR cannot be written.
    """
    from softswitch import p4c

    if compiler not in ("auto", "p4c", "builtin"):
        raise ValueError(f"compiler is {compiler!r}, not auto, p4c or builtin")
    policy = policy or WarningPolicy()
    if compiler == "p4c" or (compiler == "auto" and p4c.find() is not None):
        json_path, info_path, warnings = p4c.compile_with_p4c(path, out_dir, include_dirs, defines)
        try:
            return Built(json_path, info_path, policy.apply(warnings), "p4c")
        except P4Error:
            json_path.unlink(missing_ok=True)
            info_path.unlink(missing_ok=True)
            raise
    compiled = compile_file(path, include_dirs, defines)
    shown = policy.apply(compiled.warnings)
    return Built(*write_outputs(compiled, out_dir, path.stem), shown, "builtin")


def compile_program(path: Path, out_dir: Path, compiler: str = "auto") -> tuple[Path, Path]:
    """Like build; returns the paths of the bmv2 JSON and of the P4Info."""
    built = build(path, out_dir, compiler)
    return built.json_path, built.p4info_path
