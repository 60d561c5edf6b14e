"""`./lab drill`: a failure drill, its verdict and its report."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from hosts.agent.planned import Transport
from hosts.core.faults import FAULTS as ENDPOINT_FAULTS
from mrclab import ROOT
from mrclab.commands.captureopts import CAPTURE_FILE, bytes_kept, capture_options
from mrclab.commands.options import OutFolder, check_failover, check_switch, testbed_options
from mrclab.commands.slow import (
    check_faults,
    slow_factor,
    slow_option,
    slowed_drill,
    slowed_plan,
)
from mrclab.commands.virtualopts import check_time, virtual_options
from mrclab.enter import end_on_sigterm, new_run_id, rerun_in_lab
from mrclab.errors import EXIT_FAIL, EXIT_PASS, EXIT_VOID, UserError
from mrclab.namespace import RUN_ENV, inside
from mrclab.progress import Steps
from topologies.steerspec import Mode
from topologies.units import format_rate
from virtualtime.profile import ProfileName

EXIT_OF = {"pass": EXIT_PASS, "fail": EXIT_FAIL, "void": EXIT_VOID}

DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)


def give_to_caller(path: Path) -> None:
    """Under sudo, what a run wrote belongs to the user who called sudo."""
    uid, gid = os.environ.get("SUDO_UID"), os.environ.get("SUDO_GID")
    if os.geteuid() != 0 or uid is None or gid is None:
        return
    above = (ROOT / "runs",) if path.parent == ROOT / "runs" else ()
    for entry in (*above, path, *path.rglob("*")):
        with contextlib.suppress(OSError):
            os.chown(entry, int(uid), int(gid), follow_symlinks=False)


def prepare_out(out: Path | None, run_id: str) -> Path:
    """The run directory, made. Raises UserError when it holds another run or can't be made."""
    if out is not None and out.resolve().is_relative_to("/run"):
        # There the lab has a tmpfs of its own: the run would be gone with it.
        raise UserError(f"--out {out}: a lab can't write below /run; name another folder")
    directory = (out if out is not None else ROOT / "runs" / run_id).absolute()
    if (directory / "summary.json").exists():
        raise UserError(f"--out {directory}: holds a run already; name another folder")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        probe = directory / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        hint = "" if out is not None else "; name a folder of yours with --out"
        raise UserError(f"can't write {directory}: {error.strerror}{hint}") from None
    return directory


def _tidy(run_dir: Path, *, made_here: bool) -> str:
    """After a lab that did not come up: words on where its logs are; no folder without a use."""
    if any(path.stat().st_size for path in run_dir.rglob("*.log")):
        return f" (logs: {run_dir})"
    if made_here:
        shutil.rmtree(run_dir, ignore_errors=True)
    return ""


@contextlib.contextmanager
def _writing(run_dir: Path, *, made_here: bool) -> Iterator[None]:
    """Around a run: a full disk, and a lab that does not come up, in one line; then the folder
    is the caller's."""
    try:
        yield
    except OSError as error:
        if error.errno not in DISK_ERRORS:
            raise
        raise UserError(
            f"can't write {run_dir}: {error.strerror}; the run has no verdict, make room or "
            "name another folder with --out"
        ) from None
    except UserError as error:
        raise type(error)(f"{error}{_tidy(run_dir, made_here=made_here)}") from None
    finally:
        give_to_caller(run_dir)


def _end(run_dir: Path, verdict: str, as_json: bool) -> int:
    """Say where the result is; the exit status."""
    if as_json:
        print((run_dir / "summary.json").read_text(), end="")
    else:
        print(f"report: {run_dir / 'report.html'}", file=sys.stderr)
    return EXIT_OF[verdict]


@click.command("drill")
@click.argument("drill", required=False)
@testbed_options
@slow_option
@click.option(
    "--out",
    type=OutFolder(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Run directory (default: runs/<run id>).",
)
@click.option(
    "--break",
    "faults",
    multiple=True,
    type=click.Choice(ENDPOINT_FAULTS),
    help="Break the endpoint on purpose, to see the drill catch it.",
)
@click.option(
    "--mrc-controller",
    is_flag=True,
    help="Run the MRC controller too (./lab ctl); it names what fails.",
)
@capture_options
@virtual_options
@click.option("--json", "json_", is_flag=True, help="Print summary.json to standard output.")
@click.option("--list", "list_", is_flag=True, help="List the drills that come with the lab.")
def drill_command(
    drill: str | None,
    mode: Mode | None,
    switch: str,
    failover: str,
    seed: int,
    slow: int | None,
    out: Path | None,
    faults: tuple[str, ...],
    mrc_controller: bool,
    capture: str | None,
    snaplen: int | None,
    time_: str,
    profile: ProfileName | None,
    workers: int | None,
    json_: bool,
    list_: bool,
) -> int:
    """Run DRILL: a name from the catalogue or a YAML file.

    Brings the fabric up, runs the workload, makes and mends the faults, judges.
    Exit status: 0 pass, 1 fail, 2 usage, 3 void (the machine could not keep up
    or the packet ledger did not balance).

    \b
    Examples:
      sudo ./lab drill link-down
      sudo ./lab drill link-down --mode srv6
      sudo ./lab drill link-down --failover groups --seed 7 --out /tmp/run
      sudo ./lab drill mine.yaml --json
      sudo ./lab drill link-down --switch bmv2
      ./lab drill link-down --time virtual
      ./lab drill link-down --time virtual --profile real --seed 3
      sudo ./lab drill link-down --break never_demote      must fail
    """
    from drills.catalog import catalog_names, find
    from drills.format import check_names, load_drill
    from mrclab.commands.fabric import load_plan
    from mrclab.virtual import run_virtual_drill
    from topologies.yamlspec import SpecError

    if list_:
        for name in catalog_names():
            print(f"{name:<18}{load_drill(find(name)).title}")
        return EXIT_PASS
    if drill is None:
        raise UserError(f"which drill? One of {', '.join(catalog_names())}, or a YAML file")
    try:
        file = find(drill)
        loaded = load_drill(file)
        beside = file.parent / loaded.fabric  # a path counts from the drill's own folder
        plan = load_plan(str(beside if beside.is_file() else loaded.fabric), mode)
        check_names(loaded, list(plan.links), list(plan.hosts))
    except SpecError as error:
        raise UserError(str(error)) from None
    if mrc_controller:
        loaded = loaded.model_copy(update={"mrc_controller": True})
    check_switch(switch)
    check_failover(failover, plan.spec.mode)
    check_faults(loaded, switch)
    if slow is not None and time_ == "virtual":
        raise UserError("--slow: virtual time is never late; leave it out")
    factor = slow_factor(slow, switch)
    plan, loaded = slowed_plan(plan, factor), slowed_drill(loaded, factor)
    kept = bytes_kept(capture, snaplen)
    if check_time(time_, profile, workers, switch, capture):
        run_id = new_run_id()
        run_dir = prepare_out(out, run_id)
        with _writing(run_dir, made_here=out is None):
            verdict = run_virtual_drill(
                loaded,
                plan.spec,
                run_dir,
                run_id=run_id,
                profile=profile or "lab",
                seed=seed,
                failover_groups=failover == "groups",
                faults=faults,
                workers=workers or 1,
                quiet=json_,
            )
        return _end(run_dir, verdict, json_)
    if inside() is None:
        return rerun_in_lab()
    end_on_sigterm()

    from drills.runner import run_drill
    from mrclab.capture import Recorder, capture_points, host_names
    from mrclab.testbed import Testbed

    run_id = os.environ[RUN_ENV]
    run_dir = prepare_out(out, run_id)
    steps = Steps(quiet=json_)
    steps.say(f"{loaded.name} on {plan.spec.name} ({plan.spec.mode}), seed {seed}, run {run_id}")
    if factor != 1:
        rate = format_rate(plan.spec.link.rate)
        steps.say(f"{factor} times slower than written: links of {rate}, all times longer")
    with _writing(run_dir, made_here=out is None), contextlib.ExitStack() as stack:
        testbed = Testbed(
            plan,
            run_id=run_id,
            run_dir=run_dir,
            seed=seed,
            switch=switch,
            failover_groups=failover == "groups",
            steps=steps,
            faults=faults,
            mrc=loaded.mrc_controller,
            visible=capture is not None,
            transport=lambda host: Transport(**loaded.transport_at(host).model_dump()),
            command=f"drill {loaded.name}",
        )
        stack.enter_context(testbed)
        recorder = None
        if capture is not None:
            recorder = Recorder(
                capture_points(plan, testbed.fabric.host_pids, capture),
                run_dir / CAPTURE_FILE,
                host_names(plan),
                snaplen=kept,
                comment=f"{loaded.name} on {plan.spec.name}, seed {seed}, run {run_id}",
            )
            stack.enter_context(recorder)
        verdict = run_drill(loaded, testbed, run_dir, seed=seed, progress=not json_).verdict
    if recorder is not None and recorder.result is not None:
        steps.say(recorder.result.describe())
    return _end(run_dir, verdict, json_)
