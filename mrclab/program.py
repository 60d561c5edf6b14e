"""The compiled fabric pipeline, kept between runs."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from mrclab import ROOT
from mrclab.errors import UserError

SOURCE = ROOT / "p4src" / "mrc_fabric.p4"
DIGEST = "sha256"
"""File beside the compiled ones that says what they must be."""


def cache_dir() -> Path:
    """Where compiled things are kept: MRCLAB_CACHE, or mrclab below the user's cache."""
    given = os.environ.get("MRCLAB_CACHE")
    if given:
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "mrclab"


def _fingerprint(source: Path, p4c: str | None) -> str:
    """Changes when the program, its includes or the compiler change."""
    inputs = [p for p in sorted(source.parent.rglob("*")) if p.suffix in (".p4", ".h")]
    if p4c is None:
        front_end = ROOT / "softswitch"
        inputs += sorted((front_end / "p4").rglob("*.py"))
        inputs += sorted((front_end / "p4include").iterdir())
    else:
        inputs.append(Path(p4c))
    digest = hashlib.sha256(str(p4c).encode())
    for path in inputs:
        digest.update(f"\0{path.name}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:20]


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.name != DIGEST:
            digest.update(f"\0{path.name}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _whole(folder: Path) -> bool:
    """True when the files are there as they were written."""
    try:
        return (folder / DIGEST).read_text() == _digest(folder)
    except (OSError, ValueError):
        return False


def compiled(source: Path = SOURCE) -> tuple[Path, Path]:
    """(bmv2 JSON, P4Info) of a program, compiled when it has changed since the last time.

    Raises UserError with the compiler's message.
    """
    from softswitch import p4c
    from softswitch.p4 import P4Error, compile_program

    folder = cache_dir() / "p4" / _fingerprint(source, p4c.find())
    json_path = folder / f"{source.stem}.json"
    info_path = folder / f"{source.stem}.p4info.txtpb"
    if _whole(folder):
        return json_path, info_path
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            made = Path(scratch) / "out"
            compile_program(source, made)
            (made / DIGEST).write_text(_digest(made))
            # Whole or not at all; another lab may have been faster.
            if folder.exists() and not _whole(folder):
                folder.rename(Path(scratch) / "damaged")
            if not folder.exists():
                made.rename(folder)
    except P4Error as error:
        raise UserError(str(error)) from None
    except OSError as error:
        raise UserError(
            f"can't write the compiled program to {folder}: {error.strerror}; set MRCLAB_CACHE"
        ) from None
    return json_path, info_path
