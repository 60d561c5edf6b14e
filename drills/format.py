"""The drill file: workload, timeline of faults, and what must hold.

Loaded through `topologies.yamlspec`, so every mistake is one line with file and line. The
written form is documented in docs/drills.md.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, PrivateAttr, model_validator

from drills.measures import MEASURES, NAMING
from drills.transport import TransportSpec
from topologies.units import Duration, Share, Size, format_duration, format_size
from topologies.yamlspec import (
    Bool,
    Document,
    FieldError,
    Float,
    Int,
    SpecModel,
    Str,
    load_document,
    parse_text,
    suggest,
    validate,
)

MS = 1_000_000
MIB = 1 << 20
MIN_MESSAGE = 8
"""Bytes; every packet's worth of a message carries the message's 64-bit number."""


class FlowSpec(SpecModel):
    """One connection: all writes go from host `from` to host `to`."""

    src: Str = Field(alias="from")
    dst: Str = Field(alias="to")

    @model_validator(mode="after")
    def _differ(self) -> FlowSpec:
        if self.src == self.dst:
            raise FieldError(("to",), f"is the same host as 'from' ({self.src})")
        return self


class Workload(SpecModel):
    """Steady writes: `outstanding` messages of `message` bytes are kept posted per flow.

    They walk through `memory` bytes at both ends. When that is more than a flow can write in
    the drill, the comparison of both ends at the end covers every byte that was sent.
    """

    flows: Annotated[list[FlowSpec], Field(min_length=1, max_length=256)]
    message: Size = 256 * 1024
    outstanding: Annotated[Int, Field(ge=1, le=1024)] = 8
    memory: Size = 64 * MIB

    @model_validator(mode="after")
    def _bounds(self) -> Workload:
        if not MIN_MESSAGE <= self.message <= 64 * MIB:
            raise FieldError(("message",), f"must be between {MIN_MESSAGE} B and 64 MiB")
        if self.memory > 1024 * MIB:
            raise FieldError(("memory",), "must be at most 1 GiB")
        if self.message * self.outstanding > self.memory:
            need = format_size(self.message * self.outstanding)
            raise FieldError(("memory",), f"must hold the outstanding messages ({need})")
        return self


class _Timed(SpecModel):
    at: Duration
    until: Duration

    @model_validator(mode="after")
    def _order(self) -> _Timed:
        if self.until <= self.at:
            raise FieldError(("until",), f"must be after 'at' ({format_duration(self.at)})")
        return self


class LinkDown(_Timed):
    """The link loses carrier at both ends."""

    fault: Literal["link_down"]
    link: Str


class LinkLoss(_Timed):
    """Frames on the link are lost at random, in both directions."""

    fault: Literal["link_loss"]
    link: Str
    loss: Annotated[Share, Field(gt=0)]


class LinkCorrupt(_Timed):
    """One bit of some frames on the link is flipped, in both directions."""

    fault: Literal["link_corrupt"]
    link: Str
    corrupt: Annotated[Share, Field(gt=0)]


class LinkBlackhole(_Timed):
    """The link swallows everything while both ends stay up."""

    fault: Literal["link_blackhole"]
    link: Str


class SwitchDown(_Timed):
    """A switch goes dark: all its links lose carrier, one after the other."""

    fault: Literal["switch_down"]
    switch: Str


FaultSpec = Annotated[
    LinkDown | LinkLoss | LinkCorrupt | LinkBlackhole | SwitchDown,
    Field(discriminator="fault"),
]


def links_of_switch(switch: str, links: Collection[str]) -> tuple[str, ...]:
    """Names of the links that end at a switch (a link is named NODE:NODE)."""
    return tuple(link for link in links if switch in link.split(":"))


def target_of(fault: FaultSpec) -> str:
    """The link or switch that a fault is made at."""
    return fault.switch if isinstance(fault, SwitchDown) else fault.link


def _touch(one: str, other: str) -> bool:
    """Whether two links, or a switch and a link at it, have to do with each other."""
    if one == other:
        return True
    names = (set(one.split(":")), set(other.split(":")))
    return min(map(len, names)) == 1 and not names[0].isdisjoint(names[1])


class Bound(SpecModel):
    """What a measure must be: exactly one of the two."""

    at_least: Float | None = None
    at_most: Float | None = None

    @model_validator(mode="after")
    def _one(self) -> Bound:
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError("needs either 'at_least' or 'at_most'")
        return self

    def holds(self, measured: float) -> bool:
        """True when `measured` is within the bound."""
        if self.at_least is not None:
            return measured >= self.at_least
        return self.at_most is not None and measured <= self.at_most


Expectations = dict[str, Bound]


class FidelityBounds(SpecModel):
    """When the machine counts as too slow for the run to mean anything. Lab times.

    What is not given follows from how slow the fabric is: see `scaled`.
    """

    queue_late_p99: Duration | None = None
    queue_late_max: Duration = 100 * MS
    timer_late_p95: Duration | None = None
    timer_late_max: Duration = 100 * MS
    cpu_left: Share = 0.08

    def scaled(self, time_scale: int) -> FidelityBounds:
        """With every limit filled in: 2 us for queues and 15 us for timers in real time."""
        late, timer = self.queue_late_p99, self.timer_late_p95
        return self.model_copy(
            update={
                "queue_late_p99": 2_000 * time_scale if late is None else late,
                "timer_late_p95": 15_000 * time_scale if timer is None else timer,
            }
        )


class Variant(SpecModel):
    """Differences when the lab runs in another way: these bounds replace or join the others."""

    expect: Expectations = Field(default_factory=dict)
    without: list[Str] = Field(default_factory=list)
    """Expectations of the drill that do not apply."""


class Drill(SpecModel):
    """A drill file."""

    name: Annotated[Str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=64)]
    title: Annotated[Str, Field(pattern=r"^[^\r\n]+$")]
    about: Str = ""
    fabric: Str = "two-plane"
    workload: Workload
    transport: TransportSpec = TransportSpec()
    transport_of: dict[str, TransportSpec] = Field(default_factory=dict)
    """By host, instead of `transport`: two vendors in one fabric."""
    warmup: Duration = 500 * MS
    """From the start of the workload until it counts as steady."""
    duration: Duration
    """From the start of the workload until it is told to stop."""
    timeline: list[FaultSpec] = Field(default_factory=list)
    expect: Expectations
    mrc_controller: Bool = False
    """Run the MRC controller, so that faults get a name."""
    variants: dict[Literal["failover_groups"], Variant] = Field(default_factory=dict)
    fidelity: FidelityBounds = FidelityBounds()
    _document: Document | None = PrivateAttr(default=None)
    """The file it came from, so that later checks can name a line."""

    @model_validator(mode="after")
    def _consistent(self) -> Drill:
        for name in self.expect:
            if name not in MEASURES:
                raise FieldError(("expect", name), f"no such measure; {suggest(name, MEASURES)}")
            if name in NAMING and not self.mrc_controller:
                raise FieldError(("expect", name), "needs 'mrc_controller: true'")
        for key, variant in self.variants.items():
            for name in variant.expect:
                if name not in MEASURES:
                    at = ("variants", key, "expect", name)
                    raise FieldError(at, f"no such measure; {suggest(name, MEASURES)}")
            for i, name in enumerate(variant.without):
                if name not in self.expect:
                    at_index = ("variants", key, "without", i)
                    hint = suggest(name, self.expect)
                    raise FieldError(at_index, f"{name} is not expected by the drill; {hint}")
        if self.duration <= self.warmup:
            warm = format_duration(self.warmup)
            raise FieldError(("duration",), f"must be longer than the warm-up ({warm})")
        for i, fault in enumerate(self.timeline):
            if fault.at < self.warmup:
                warm = format_duration(self.warmup)
                raise FieldError(("timeline", i, "at"), f"must not be within the warm-up ({warm})")
            if fault.until > self.duration:
                end = format_duration(self.duration)
                raise FieldError(("timeline", i, "until"), f"must not be after duration ({end})")
            for j, other in enumerate(self.timeline[:i]):
                # A switch's faults would make and mend the links of others.
                same = _touch(target_of(other), target_of(fault))
                if same and other.at < fault.until and fault.at < other.until:
                    raise FieldError(
                        ("timeline", i, "at"),
                        f"overlaps timeline[{j}] at {target_of(other)}",
                    )
        return self

    def transport_at(self, host: str) -> TransportSpec:
        """What a host's endpoint is set to."""
        return self.transport_of.get(host, self.transport)

    def expectations(self, failover_groups: bool) -> Expectations:
        """The bounds that apply, in the order of the file."""
        variant = self.variants.get("failover_groups") if failover_groups else None
        if variant is None:
            return dict(self.expect)
        kept = {k: v for k, v in self.expect.items() if k not in variant.without}
        return {**kept, **variant.expect}


def load_drill(path: Path) -> Drill:
    """Read a drill file. Raises SpecError."""
    drill, document = load_document(path, Drill)
    drill._document = document
    return drill


def parse(text: str, file: str = "<drill>") -> Drill:
    """Validate a drill given as text. Raises SpecError."""
    return validate(parse_text(text, file), Drill)


def check_names(drill: Drill, links: Collection[str], hosts: Collection[str]) -> None:
    """Raise SpecError when the drill names a link or host that the fabric does not have."""
    document = drill._document or Document(drill.name, {})
    for i, flow in enumerate(drill.workload.flows):
        for key, host in (("from", flow.src), ("to", flow.dst)):
            if host not in hosts:
                at = ("workload", "flows", i, key)
                raise document.error(
                    at, f"no host {host!r} in {drill.fabric}; {suggest(host, hosts)}"
                )
    for host in drill.transport_of:
        if host not in hosts:
            raise document.error(
                ("transport_of", host),
                f"no host {host!r} in {drill.fabric}; {suggest(host, hosts)}",
            )
    switches = {end for link in links for end in link.split(":")} - set(hosts)
    for i, fault in enumerate(drill.timeline):
        if isinstance(fault, SwitchDown):
            if fault.switch not in switches:
                hint = suggest(fault.switch, switches)
                raise document.error(
                    ("timeline", i, "switch"),
                    f"no switch {fault.switch!r} in {drill.fabric}; {hint}",
                )
        elif fault.link not in links:
            hint = suggest(fault.link, links)
            raise document.error(
                ("timeline", i, "link"), f"no link {fault.link!r} in {drill.fabric}; {hint}"
            )
