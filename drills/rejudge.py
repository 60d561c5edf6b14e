"""Judge a stored run again from its directory alone."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from drills.events import Event, read_events
from drills.format import Drill
from drills.judge import judge, verdict_lines
from drills.record import RunInfo, split
from drills.summary import Summary
from drills.view import FabricView, view_of
from mrclab.errors import EXIT_USAGE, UserError
from topologies.plan import Plan
from topologies.spec import FabricSpec


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"'{path.parent}' is not a run directory: it has no {path.name}") from None
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read '{path}': {' '.join(str(error).split())}") from None
    if not isinstance(value, dict):
        raise UserError(f"'{path}' must hold a JSON object")
    return value


def load_run(run_dir: Path) -> tuple[Drill, FabricView, RunInfo, list[Event]]:
    """All that a run directory says. Raises UserError when something is absent or damaged."""
    info = _json(run_dir / "run.json")
    try:
        drill = Drill.model_validate(_json(run_dir / "drill.json"))
        spec = FabricSpec.model_validate(_json(run_dir / "fabric.json"))
        run = RunInfo(
            run_id=str(info["run_id"]),
            seed=int(info["seed"]),
            switch=str(info["switch"]),
            failover_groups=bool(info["failover_groups"]),
            time=str(info.get("time", "real")),
            started=str(info.get("started", "")),
            versions=dict(info.get("versions", {})),
        )
    except (KeyError, TypeError, ValueError) as error:
        first = str(error).splitlines()[0]
        raise UserError(f"'{run_dir}' is damaged: {first}") from None
    view = view_of(Plan.from_spec(spec), run.failover_groups)
    return drill, view, run, read_events(run_dir / "events.jsonl")


def rejudge(run_dir: Path) -> Summary:
    """The verdict of a stored run, computed from its events; nothing is written."""
    drill, view, info, events = load_run(run_dir)
    return judge(*split(events), drill, view, info)


def main(argv: list[str]) -> int:
    """`python -m drills.rejudge RUN_DIR`: print the verdict; the exit status is a drill's."""
    if len(argv) != 1:
        print("usage: python -m drills.rejudge RUN_DIR", file=sys.stderr)
        return EXIT_USAGE
    try:
        summary = rejudge(Path(argv[0]))
    except UserError as error:
        print(f"rejudge: {error}", file=sys.stderr)
        return EXIT_USAGE
    print("\n".join(verdict_lines(summary)))
    return summary.exit_status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
