"""Runs p4c's bmv2 compiler where a machine has it."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from softswitch.p4.diagnostics import WARNINGS, Diagnostic, P4Error

TIMEOUT_S = 300
"""Longest run of the compiler."""

_MESSAGE = re.compile(
    r"^(?:(?P<file>[^\s(][^(]*)\((?P<line>\d+)\):\s*)?"
    r"(?:\[--W(?:error|warn|info)=(?P<kind>[\w -]+)\]\s*)?"
    r"(?P<severity>syntax error|error|warning|info)(?P<sep>[:,]?)\s*(?P<text>.*)$"
)


def find() -> str | None:
    """Path of p4c-bm2-ss, or of the driver p4c, or None."""
    return shutil.which("p4c-bm2-ss") or shutil.which("p4c")


def command_line(
    tool: str,
    path: Path,
    json_path: Path,
    info_path: Path,
    include_dirs: Sequence[Path] = (),
    defines: Mapping[str, str | None] | None = None,
) -> list[str]:
    """The command that compiles PATH.

    p4c-bm2-ss names the JSON with -o; the driver p4c takes a folder there, names the JSON
    after the program and has to be told target and architecture.
    """
    options = ["--std", "p4-16"]
    for folder in include_dirs:
        options += ["-I", str(folder)]
    for name, value in (defines or {}).items():
        options += ["-U", name] if value is None else ["-D", f"{name}={value}"]
    options += ["--p4runtime-files", str(info_path)]
    if Path(tool).name == "p4c":
        options += ["--target", "bmv2", "--arch", "v1model", "-o", str(json_path.parent)]
    else:
        options += ["-o", str(json_path)]
    # A name that begins with a dash would be read as an option.
    name = str(path)
    return [tool, *options, f"./{name}" if name.startswith("-") else name]


def compile_with_p4c(
    path: Path,
    out_dir: Path,
    include_dirs: Sequence[Path] = (),
    defines: Mapping[str, str | None] | None = None,
) -> tuple[Path, Path, list[Diagnostic]]:
    """NAME.json and NAME.p4info.txtpb by p4c, and what it warned of.

    Raises P4Error with p4c's own messages, OSError when OUT_DIR cannot be written.
    """
    tool = find()
    if tool is None:
        message = "p4c-bm2-ss is not on the PATH; use the builtin compiler"
        raise P4Error([Diagnostic(str(path), 1, 1, message)])
    if not path.is_file():
        raise P4Error([Diagnostic(str(path), 1, 1, "cannot read: no such file")])
    out_dir.mkdir(parents=True, exist_ok=True)
    json_path = out_dir / f"{path.stem}.json"
    info_path = out_dir / f"{path.stem}.p4info.txtpb"
    if "," in str(info_path):
        message = f"p4c cannot write to a path with a comma: {info_path}"
        raise P4Error([Diagnostic(str(path), 1, 1, message)])
    for old in (json_path, info_path):
        old.unlink(missing_ok=True)  # what is left of an earlier run is no result
    name = Path(tool).name
    command = command_line(tool, path, json_path, info_path, include_dirs, defines)
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        message = f"{name} took longer than {TIMEOUT_S} s"
        raise P4Error([Diagnostic(str(path), 1, 1, message)]) from None
    except OSError as error:
        message = f"{name} cannot be run: {error.strerror}"
        raise P4Error([Diagnostic(str(path), 1, 1, message)]) from None
    found = messages(done.stderr, path)
    errors = [d for d in found if d.severity == "error"]
    if done.returncode != 0 or errors:
        if not errors:
            lines = done.stderr.strip().splitlines()
            said = lines[-1] if lines else f"it ended with status {done.returncode}"
            errors = [Diagnostic(str(path), 1, 1, f"{name}: {said}")]
        raise P4Error([*errors, *(d for d in found if d.severity != "error")])
    for made in (json_path, info_path):
        if not made.is_file():
            message = f"{name} wrote no {made.name}"
            raise P4Error([Diagnostic(str(path), 1, 1, message)])
    return json_path, info_path, found


def messages(text: str, path: Path) -> list[Diagnostic]:
    """p4c's messages: `file(line): [--Werror=kind] error: text`, the source line, carets."""
    found: list[Diagnostic] = []
    lines = text.splitlines()
    for n, line in enumerate(lines):
        match = _MESSAGE.match(line)
        if match is None or match["severity"] == "info":
            continue
        warning = match["severity"] == "warning"
        said = match["text"]
        if match["severity"] == "syntax error":
            said = f"syntax error{match['sep']} {said}".rstrip()
        kind = match["kind"] or ""
        diagnostic = Diagnostic(
            match["file"] or str(path),
            int(match["line"] or 1),
            1,
            said,
            severity="warning" if warning else "error",
            kind=(kind if kind in WARNINGS else "other") if warning else "",
        )
        source = lines[n + 1] if n + 1 < len(lines) else ""
        caret = lines[n + 2] if n + 2 < len(lines) else ""
        if caret.strip() and not caret.strip().strip("^"):
            column = len(caret) - len(caret.lstrip()) + 1
            diagnostic = replace(
                diagnostic, column=column, source_line=source, length=caret.count("^")
            )
        found.append(diagnostic)
    return found
