"""The drills that come with the lab, found by name or by path."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from mrclab.errors import UserError

CATALOG = Path(__file__).resolve().parent
SUFFIX = ".yaml"


def catalog_names() -> list[str]:
    """Names of the drills in the catalogue, sorted."""
    return sorted(path.stem for path in CATALOG.glob(f"*{SUFFIX}"))


def find(name: str) -> Path:
    """The file of the drill called `name`: a path to a YAML file, or a catalogue name.

    Raises UserError, with the nearest name, when there is no such drill.
    """
    path = Path(name)
    if path.suffix in (SUFFIX, ".yml") or "/" in name:
        if path.is_file():
            return path
        if path.is_dir():
            raise UserError(f"'{name}' is a folder; name the YAML file of a drill in it")
        raise UserError(f"no drill file '{name}'")
    known = catalog_names()
    if name in known:
        return CATALOG / f"{name}{SUFFIX}"
    near = get_close_matches(name, known, n=1)
    hint = f"; did you mean '{near[0]}'?" if near else ""
    raise UserError(f"no drill '{name}'{hint} (drills: {', '.join(known) or 'none'})")
