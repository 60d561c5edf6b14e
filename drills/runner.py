"""Runs a drill on a testbed and writes the run directory.

    drill.json, fabric.json, run.json   what was asked for; written first
    events.jsonl                        everything recorded, sorted by time
    report.html                         for people
    summary.json                        for machines; written last, so that where it is the
                                        run is whole

Each file appears whole or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from rich.console import Console

from drills import faults as fault_objects
from drills.api import Testbed
from drills.capacity import goodput_capacity
from drills.events import DRILL, Event, Tail, merge, write_atomic, write_events
from drills.faults import Fault, FaultError
from drills.flows import Flows
from drills.format import Drill, check_names
from drills.goodput import series
from drills.judge import judge, verdict_lines
from drills.phases import Window
from drills.progress import Progress, Silent, Status, for_console, rate
from drills.record import RunInfo, split
from drills.report import write_report
from drills.samples import Sampler, quiet, same_traffic
from drills.summary import Summary
from drills.view import FabricView, view_of
from drills.waiting import ConditionTimeout, Waiter
from hosts.agent.client import AgentError
from softswitch.ctl import CtlError
from topologies.links import LinkError

MS = 1_000_000
S = 1_000_000_000
PORTS_EVERY = 100 * MS
MARKS_EVERY = 500 * MS
CPU_EVERY = 500 * MS
SHOW_EVERY = 200 * MS
FIRST_MESSAGE = 10 * S
STATE_TIMEOUT = 2 * S
SETTLE_TIMEOUT = 5 * S


class DrillVoid(Exception):
    """The run cannot mean anything any more. The text says why."""


@dataclass
class _Step:
    """Something due at a moment of the drill."""

    due: int
    index: int
    heal: bool


class _Run:
    """One run in progress."""

    def __init__(
        self,
        drill: Drill,
        testbed: Testbed,
        view: FabricView,
        waiter: Waiter,
        seed: int,
        show: Progress,
    ) -> None:
        self.drill, self.testbed, self.view = drill, testbed, view
        self.waiter, self.show = waiter, show
        agents = dict(testbed.agents)
        self.flows = Flows(drill.workload, agents)
        self.sampler = Sampler(testbed, agents, waiter.now)
        self.tails = [Tail(path) for path in testbed.event_files.values()]
        self.events: list[Event] = []
        self.agent_events: list[Event] = []
        self.faults = [
            fault_objects.build(spec, testbed.links, view.links) for spec in drill.timeline
        ]
        self.active: dict[int, Fault] = {}
        self.capacity = goodput_capacity(view, [(f.src, f.dst) for f in drill.workload.flows])
        self.seed = seed
        self.tempo = int(getattr(testbed, "tempo", 1))
        self.begin = 0
        self.phase = "warm-up"

    # -- recording

    def record(self, kind: str, **data: object) -> None:
        self.events.append(Event(self.waiter.now(), DRILL, kind, data))

    def mark(self, name: str) -> None:
        self.phase = {"start": "warm-up", "steady": "before"}.get(name, name)
        self.record("phase", name=name)

    def read_agents(self) -> None:
        for tail in self.tails:
            self.agent_events.extend(tail.read())

    # -- the parts of a run

    def prepare(self) -> None:
        """Connect, check that the fabric is whole, and take the first counters."""
        for fault in self.faults:
            fault.set_up()
        self.flows.connect()
        self.events.extend(self.flows.describe(self.waiter.now))
        self.events.extend(self.flows.ev_tables(self.waiter.now))
        self.testbed.set_probing(False)
        self.settle("start")
        self.testbed.set_probing(True)

    def start(self) -> None:
        self.flows.start(self.seed)
        # Forget what the self-test left as the deepest queue.
        self.sampler.ports(marks=False)
        self.mark("start")
        wanted = set(self.flows.destinations)

        def arrived() -> bool:
            self.read_agents()
            seen = {
                e.src for e in self.agent_events if e.type == "sample" and e.get("delivered_bytes")
            }
            return wanted <= seen

        self.waiter.for_condition("data reaches every destination", arrived, FIRST_MESSAGE)
        self.begin = self.waiter.now()

    def follow(self) -> None:
        """Sample until the workload's time is over, making and healing faults when due."""
        steps = [_Step(self.begin + s.at, i, False) for i, s in enumerate(self.drill.timeline)]
        steps += [_Step(self.begin + s.until, i, True) for i, s in enumerate(self.drill.timeline)]
        steps.sort(key=lambda step: (step.due, not step.heal))
        stop = self.begin + self.drill.duration
        steady = self.begin + self.drill.warmup
        due = {"ports": self.begin, "marks": self.begin, "cpu": self.begin, "show": self.begin}
        while (now := self.waiter.now()) < stop:
            if steady and now >= steady:
                self.mark("steady")
                steady = 0
            while steps and now >= steps[0].due:
                self.step(steps.pop(0))
            self.sample(now, due)
            following = [*due.values(), stop, *(step.due for step in steps[:1])]
            self.waiter.until(min([*following, steady] if steady else following))
        for step in steps:
            self.step(step)

    def sample(self, now: int, due: dict[str, int]) -> None:
        def is_due(name: str, every: int) -> bool:
            if now < due[name]:
                return False
            every //= self.tempo
            # Never catch up on readings that are past.
            due[name] = max(due[name] + every, now + every // 2)
            return True

        if is_due("ports", PORTS_EVERY):
            self.events.extend(self.sampler.ports(marks=is_due("marks", MARKS_EVERY)))
        if is_due("cpu", CPU_EVERY):
            self.events.extend(self.sampler.cpu())
        if is_due("show", SHOW_EVERY):
            self.read_agents()
            self.show.show(self.status(now))
        due["marks"] = max(due["marks"], due["ports"])

    def status(self, now: int) -> Status:
        recent = [e for e in self.agent_events[-400:] if e.type == "sample"]
        goodput = series(recent, self.flows.destinations, "delivered_bytes")
        window = Window(now - 500 * MS // self.tempo, now - 100 * MS // self.tempo)
        newest = {e.src: e for e in recent if e.src in set(self.flows.sources)}
        counts = [e.get("ev_counts") or {} for e in newest.values()]
        return Status(
            phase=self.phase,
            elapsed_s=(now - self.begin) * self.tempo / S,
            total_s=self.drill.duration * self.tempo / S,
            goodput_bps=goodput.rate(window) * 8,
            capacity_bps=self.capacity,
            bad_evs=sum(int(c.get("ASSUMED_BAD", 0)) for c in counts),
            retransmitted=sum(int(e.get("retransmitted") or 0) for e in newest.values()),
        )

    def step(self, step: _Step) -> None:
        fault = self.faults[step.index]
        self.events.extend(self.flows.ev_tables(self.waiter.now))
        asked = self.waiter.now()
        if step.heal:
            fault.heal()
            self.active.pop(step.index, None)
            self.confirm(f"{fault.kind} of {fault.target} healed", fault.read_healed)
        else:
            self.active[step.index] = fault
            fault.invoke()
            self.confirm(f"{fault.kind} of {fault.target} made", fault.read_back)
        data = {
            "index": step.index,
            "action": "heal" if step.heal else "invoke",
            "fault": fault.kind,
            "target": fault.target,
            "links": list(fault.links),
            "confirmed": self.waiter.now(),
        }
        self.events.append(Event(asked, DRILL, "fault", data))
        self.phase = "during" if self.active else "after"
        done = "repaired" if step.heal else fault.kind.replace("_", " ")
        at = (asked - self.begin) * self.tempo / S
        self.show.say(f"  {at:4.1f} s  {fault.target}: {done}")

    def confirm(self, name: str, read: Callable[[], str | None]) -> None:
        problem: list[str | None] = [None]

        def holds() -> bool:
            problem[0] = read()
            return problem[0] is None

        try:
            self.waiter.for_condition(name, holds, STATE_TIMEOUT)
        except ConditionTimeout as error:
            raise DrillVoid(f"{error} ({problem[0]})") from None

    def stop(self) -> None:
        self.mark("stop")
        self.events.extend(self.flows.stop(self.waiter.now))
        self.mark("drained")
        self.events.extend(self.flows.ev_tables(self.waiter.now))
        self.events.extend(self.flows.compare_memory(self.waiter.now))
        self.testbed.set_probing(False)
        self.settle("end")
        self.mark("end")

    def settle(self, name: str) -> None:
        """Read all counters once nothing moves (or, at the latest, after SETTLE_TIMEOUT)."""
        snapshots = [self.sampler.snapshot(name)]

        def still() -> bool:
            snapshots.append(self.sampler.snapshot(name))
            return quiet(snapshots[-1]) and same_traffic(snapshots[-2], snapshots[-1])

        try:
            self.waiter.for_condition("the fabric is quiet", still, SETTLE_TIMEOUT, 20 * MS)
        except ConditionTimeout:
            self.record("note", text=f"counters '{name}' were read while packets moved")
        self.events.append(snapshots[-1])

    def heal_all(self) -> None:
        for fault in list(self.active.values()):
            fault.heal()
        self.active.clear()


@contextmanager
def _display(progress: Progress | bool) -> Iterator[Progress]:
    if progress is True:
        shown: Progress = for_console(Console(stderr=True))
    else:
        shown = progress if progress else Silent()
    try:
        yield shown
    finally:
        shown.close()


def _record(run: _Run) -> None:
    """The whole course of the run; what goes wrong in the lab is recorded as void."""
    try:
        run.prepare()
        run.show.say(
            f"  flows: {', '.join(f'{c.src} > {c.dst}' for c in run.flows.connections)}; "
            f"capacity {rate(run.capacity)} of payload"
        )
        run.start()
        run.follow()
        run.stop()
    except (DrillVoid, FaultError, ConditionTimeout) as error:
        run.record("void", why=str(error))
    except (AgentError, CtlError, LinkError) as error:
        # An agent or a switch that is gone: the run has no meaning, and says why.
        run.record("void", why=f"the lab failed: {' '.join(str(error).split())}")
    finally:
        try:
            run.heal_all()
        except (CtlError, FaultError, LinkError) as error:
            run.record("void", why=f"not repaired: {' '.join(str(error).split())}")
    run.read_agents()


def run_drill(
    drill: Drill,
    testbed: Testbed,
    out_dir: Path,
    *,
    seed: int = 0,
    progress: Progress | bool = False,
    run_id: str | None = None,
    switch: str = "builtin",
) -> Summary:
    """Run a drill and write its directory. Returns the verdict; a drill that does not fit the
    fabric raises SpecError before anything is started. Interrupted, it heals the faults, leaves
    no summary and raises."""
    plan = testbed.plan
    check_names(drill, list(plan.links), list(plan.hosts))
    view = view_of(plan, testbed.failover_groups)
    info = RunInfo(
        run_id=run_id or str(getattr(testbed, "run_id", out_dir.name)),
        seed=seed,
        switch=str(getattr(testbed, "switch", switch)),
        failover_groups=testbed.failover_groups,
        time="virtual" if getattr(testbed, "virtual", False) else "real",
        started=datetime.now(timezone.utc).astimezone().isoformat(timespec="seconds"),
        versions=dict(testbed.versions),
    )
    out_dir.mkdir(parents=True, exist_ok=True)
    for name, value in (
        ("drill.json", drill.model_dump(mode="json", by_alias=True, exclude_none=True)),
        ("fabric.json", plan.spec.model_dump(mode="json", by_alias=True)),
        ("run.json", info.to_json()),
    ):
        write_atomic(out_dir / name, json.dumps(value, indent=2) + "\n")
    # A testbed in virtual time brings its own clock.
    waiter = testbed.waiter() if hasattr(testbed, "waiter") else Waiter()
    try:
        with _display(progress) as show:
            run = _Run(drill, testbed, view, waiter, seed, show)
            _record(run)
            everything = merge(run.events, run.agent_events)
            write_events(out_dir / "events.jsonl", everything)
            summary = judge(*split(everything), drill, view, info)
            finish(out_dir, summary, everything, drill, view)
            for line in verdict_lines(summary):
                show.say(line)
    finally:
        waiter.close()
    return summary


def finish(
    out_dir: Path, summary: Summary, everything: list[Event], drill: Drill, view: FabricView
) -> None:
    """Write report.html and then summary.json."""
    write_report(out_dir / "report.html", summary, everything, drill, view)
    write_atomic(out_dir / "summary.json", summary.dumps())
