"""The fabric spec: what a person writes in ``catalog/*.yaml``, validated on load.

``load_spec("two-plane")`` (a catalogue entry) or ``load_spec("./mine.yaml")`` (a file) returns
a frozen `FabricSpec`, or raises `SpecError`, one line that names file, line, field and remedy.
Rules between fields are checked here; whether the machine can carry the fabric is `fits()` in
machine.py, and everything computed from the spec is `Plan` in plan.py.

Figures are lab figures. ``time_scale`` says how much slower than the real ones they are: times
of the protocol (RTO, probe spacing) are multiplied by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, field_validator, model_validator

from topologies.evlayout import EvLayout
from topologies.steerspec import (
    EvFieldsSpec,
    Mode,
    Srv6Spec,
    check_layout,
    check_room,
    check_usids,
    layout_of,
)
from topologies.units import (
    Duration,
    Packets,
    Rate,
    Size,
    format_duration,
    format_packets,
    format_rate,
    format_size,
    parse_depth,
)
from topologies.usid import UsidBlocks
from topologies.yamlspec import (
    Bool,
    FieldError,
    Int,
    SpecModel,
    Str,
    find_file,
    parse_text,
    read_text,
    validate,
)

CATALOG = Path(__file__).parent / "catalog"

MAX_PORTS = 510
"""Ports per switch: 9-bit port numbers less the CPU port (510) and the drop port (511)."""
MAX_IFNAME = 15
"""Characters in an interface name (Linux IFNAMSIZ - 1)."""
MAX_PLANES = 32
"""Bits of the MRC port status mask (reference 2.5)."""

ETHERNET_BYTES = 14
DATA_HEADER_BYTES = 40 + 8 + 12 + 4 + 4 + 16 + 4
"""IPv6, UDP, BTH, METH, TSETH, RETH and iCRC of a data packet (reference 1, 2.2)."""
OUTER_BYTES = 40
"""Outer IPv6 header of the srv6 mode."""
SRH_BYTES = 24
"""SRH with one segment."""
MAX_HEADER_BYTES = DATA_HEADER_BYTES + 4 + OUTER_BYTES + SRH_BYTES
"""The largest stack: that, ImmDt, outer IPv6 and an SRH with one segment. MTU = PMTU + this."""
PMTUS = (256, 512, 1024, 2048, 4096, 8192)


@dataclass(frozen=True)
class Depth:
    """A queue depth as written: a number of packets, or a multiple of the plane's BDP."""

    packets: int | None = None
    bdp: float | None = None

    def __str__(self) -> str:
        return format_packets(self.packets) if self.packets is not None else f"{self.bdp:g} BDP"


def _depth(value: object) -> Depth:
    if isinstance(value, Depth):
        return value
    number, unit = parse_depth(value)
    return Depth(bdp=number) if unit == "BDP" else Depth(packets=int(number))


QueueDepth = Annotated[Depth, BeforeValidator(_depth), PlainSerializer(str, when_used="json")]


class LinkSpec(SpecModel):
    """Every link of the fabric, host links included."""

    rate: Rate
    delay: Duration = 0
    """Propagation, one way."""
    switch_latency: Duration = 0
    """Time in the switch that sends a frame, beside its queue and serialisation."""

    @field_validator("rate")
    @classmethod
    def _rate(cls, rate: int) -> int:
        if not 1_000_000 <= rate <= 1_600_000_000_000:
            raise ValueError(f"must be between 1 Mb/s and 1600 Gb/s, found {format_rate(rate)}")
        return rate

    @field_validator("delay")
    @classmethod
    def _delay(cls, delay: int) -> int:
        if delay > 10_000_000_000:
            raise ValueError(f"must be at most 10 s, found {format_duration(delay)}")
        return delay


class QueueSpec(SpecModel):
    """Limits of the two queues of every switch port."""

    data: QueueDepth = Depth(bdp=3.0)
    control: Packets = 1000
    """Trimmed headers and control packets; strict priority over data."""


class EcnSpec(SpecModel):
    """CE marking on fabric ports, by depth of the data queue: none at kmin, all at kmax."""

    kmin: QueueDepth = Depth(bdp=0.2)
    kmax: QueueDepth = Depth(bdp=0.8)


class TrimSpec(SpecModel):
    """Cutting data packets to their headers when a queue is deeper than the threshold."""

    enabled: Bool = True
    threshold: QueueDepth = Depth(bdp=1.0)
    last_hop: QueueDepth = Depth(bdp=1.5)


class DscpSpec(SpecModel):
    """DSCP of each class (reference 7; no source fixes the numbers)."""

    no_trim: Int = Field(default=0, ge=0, le=63)
    trimmable: Int = Field(default=4, ge=0, le=63)
    trimmable_retx: Int = Field(default=8, ge=0, le=63)
    trimmed: Int = Field(default=12, ge=0, le=63)
    trimmed_lasthop: Int = Field(default=16, ge=0, le=63)
    control: Int = Field(default=46, ge=0, le=63)

    @model_validator(mode="after")
    def _distinct(self) -> DscpSpec:
        seen: dict[int, str] = {}
        for name in type(self).model_fields:
            value = getattr(self, name)
            if value in seen:
                raise FieldError((name,), f"{value} is already the DSCP of {seen[value]}")
            seen[value] = name
        return self


class EvSpec(SpecModel):
    """Entropy values of a QP (reference 3): how many, and where their bits go."""

    active: Int = Field(default=128, ge=1, le=65536)
    backup: Int = Field(default=64, ge=0, le=65536)
    min_active: Int = Field(default=1, ge=1)
    """Floor per QP below which EVs are no longer moved to ASSUMED_BAD."""
    order: Literal["label-high", "sport-high"] = "label-high"
    """label-high: EV[31:16] is flow_label[15:0] and EV[15:0] the UDP source port."""
    fields: EvFieldsSpec = EvFieldsSpec()
    """Bit fields of the structured and srv6 modes."""


class RtoSpec(SpecModel):
    """Retransmission time-out 1.024 us x 2^exponent x time_scale (reference 4.6)."""

    exponent: Int = Field(default=8, ge=0, le=24)
    linear: Int = Field(default=7, ge=0, le=7)
    exponential: Int = Field(default=5, ge=0, le=25)
    """Retries with doubling interval after the linear ones; 25 is without end."""


@dataclass(frozen=True)
class Thresholds:
    """Queue thresholds of the fabric, in packets."""

    kmin: int
    kmax: int
    trim: int
    trim_last_hop: int
    data_limit: int
    control_limit: int


class FabricSpec(SpecModel):
    """A multi-plane two-tier Clos fabric."""

    name: Str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")
    description: Str = ""
    planes: Int = Field(ge=1, le=MAX_PLANES)
    t0_per_plane: Int = Field(ge=1, le=MAX_PORTS)
    t1_per_plane: Int = Field(ge=1, le=MAX_PORTS)
    hosts_per_t0: Int = Field(ge=1, le=MAX_PORTS)
    mode: Mode = "ecmp"
    """How a switch turns an EV into an uplink: a hash, bits of the EV, or a uSID list."""
    pmtu: Size = 4096
    """Payload bytes of a full data packet."""
    time_scale: Int = Field(default=1000, ge=1, le=1_000_000)
    link: LinkSpec
    queues: QueueSpec = QueueSpec()
    ecn: EcnSpec = EcnSpec()
    trim: TrimSpec = TrimSpec()
    udp_port: Int = Field(default=4791, ge=1, le=65535)
    dscp: DscpSpec = DscpSpec()
    ev: EvSpec = EvSpec()
    srv6: Srv6Spec = Srv6Spec()
    rto: RtoSpec = RtoSpec()

    # --- derived figures ---

    @property
    def hosts(self) -> int:
        """Hosts in the fabric; each has one NIC port per plane."""
        return self.t0_per_plane * self.hosts_per_t0

    @property
    def switches(self) -> int:
        """Switches in all planes."""
        return self.planes * (self.t0_per_plane + self.t1_per_plane)

    @property
    def mtu(self) -> int:
        """MTU of every interface, bytes after the Ethernet header."""
        return self.pmtu + MAX_HEADER_BYTES

    @property
    def outer_bytes(self) -> int:
        """Bytes that the srv6 mode puts in front of the IPv6 packet; 0 in the other modes."""
        if self.mode != "srv6":
            return 0
        return OUTER_BYTES + (SRH_BYTES if self.srv6.srh else 0)

    @property
    def data_frame_bytes(self) -> int:
        """Bytes of a full data packet on a link, Ethernet header included."""
        return ETHERNET_BYTES + self.outer_bytes + DATA_HEADER_BYTES + self.pmtu

    @property
    def ev_layout(self) -> EvLayout:
        """Where an EV's fields are. Only the structured and srv6 modes read them."""
        return layout_of(self.ev.fields, self.ev.order, self.planes, self.t1_per_plane)

    @property
    def usids(self) -> UsidBlocks:
        """The numbering of uSIDs. Switches know theirs in every mode (probes use them)."""
        return self.srv6.blocks

    def base_rtt_ns(self, links_each_way: int = 4) -> int:
        """RTT of a full data packet and its SACK in an empty fabric, in nanoseconds.

        Four links each way between hosts under different T0s, two under one T0. The SACK's
        own serialisation is counted at 128 bytes.
        """
        serialise = (self.data_frame_bytes + 128) * 8 * 1_000_000_000 // self.link.rate
        switches = 2 * (links_each_way - 1) * self.link.switch_latency
        return links_each_way * (2 * self.link.delay + serialise) + switches

    @property
    def bdp_bytes(self) -> int:
        """Bandwidth-delay product of one plane over the longest path."""
        return self.link.rate * self.base_rtt_ns() // 8_000_000_000

    def packets(self, depth: Depth) -> int:
        """A depth in packets; multiples of the BDP are rounded to the nearest, at least 1."""
        if depth.packets is not None:
            return depth.packets
        return max(1, round((depth.bdp or 0.0) * self.bdp_bytes / self.data_frame_bytes))

    @property
    def thresholds(self) -> Thresholds:
        """All queue thresholds in packets."""
        return Thresholds(
            kmin=self.packets(self.ecn.kmin),
            kmax=self.packets(self.ecn.kmax),
            trim=self.packets(self.trim.threshold),
            trim_last_hop=self.packets(self.trim.last_hop),
            data_limit=self.packets(self.queues.data),
            control_limit=self.queues.control,
        )

    @property
    def rto_ns(self) -> int:
        """The base retransmission time-out in lab time, nanoseconds."""
        return (1024 << self.rto.exponent) * self.time_scale

    # --- rules between fields ---

    @field_validator("pmtu")
    @classmethod
    def _pmtu(cls, pmtu: int) -> int:
        if pmtu not in PMTUS:
            near = min(PMTUS, key=lambda p: abs(p - pmtu))
            raise ValueError(
                f"{format_size(pmtu)} is not a PMTU; the nearest is '{near} B' "
                f"(one of {', '.join(map(str, PMTUS))} B)"
            )
        return pmtu

    @model_validator(mode="after")
    def _consistent(self) -> FabricSpec:
        self._check_size()
        self._check_depths()
        self._check_evs()
        return self

    def _check_size(self) -> None:
        ports = self.hosts_per_t0 + self.t1_per_plane
        if ports > MAX_PORTS:
            raise FieldError(
                ("hosts_per_t0",),
                f"a T0 would need {ports} ports (hosts_per_t0 + t1_per_plane) and has "
                f"{MAX_PORTS}; at most {max(1, MAX_PORTS - self.t1_per_plane)} hosts fit "
                f"with {self.t1_per_plane} T1",
            )
        p = self.planes - 1
        longest = max(
            (
                f"p{p}t0-{self.t0_per_plane - 1}-{ports}",
                f"p{p}t1-{self.t1_per_plane - 1}-{self.t0_per_plane}",
                f"h{self.hosts - 1}-p{p}",
            ),
            key=len,
        )
        if len(longest) > MAX_IFNAME:
            raise FieldError(
                ("planes",),
                f"the interface name {longest!r} would be longer than {MAX_IFNAME} characters; "
                "use fewer planes, switches or hosts",
            )

    def _check_depths(self) -> None:
        def text(depth: Depth) -> str:
            inside = "" if depth.packets is not None else f" ({self.packets(depth)} packets)"
            return f"{depth}{inside}"

        def below(low: tuple[str, ...], high: tuple[str, ...], strict: bool = True) -> None:
            a, b = self._at(low), self._at(high)
            x, y = self.packets(a), self.packets(b)
            if x > y or (strict and x == y):
                word = "below" if strict else "at most"
                problem = f"{text(a)} must be {word} {'.'.join(high)}, which is {text(b)}"
                raise FieldError(low, problem, near=high)

        if self.packets(self.ecn.kmin) < 1:
            raise FieldError(("ecn", "kmin"), "must be at least 1 packet")
        if self.queues.control < 1:
            raise FieldError(("queues", "control"), "must be at least 1 packet")
        if self.packets(self.queues.data) > 65_535:
            raise FieldError(
                ("queues", "data"), f"{text(self.queues.data)} is more than 65535 packets"
            )
        below(("ecn", "kmin"), ("ecn", "kmax"))
        if self.trim.enabled:
            below(("ecn", "kmax"), ("trim", "threshold"))
            below(("trim", "threshold"), ("trim", "last_hop"), strict=False)
            below(("trim", "last_hop"), ("queues", "data"))
        else:
            below(("ecn", "kmax"), ("queues", "data"))

    def _at(self, path: tuple[str, ...]) -> Depth:
        section = getattr(self, path[0])
        depth = getattr(section, path[1])
        assert isinstance(depth, Depth)
        return depth

    def _check_evs(self) -> None:
        for name, count in (("active", self.ev.active), ("backup", self.ev.backup)):
            if count % self.planes:
                near = max(1, round(count / self.planes)) * self.planes
                raise FieldError(
                    ("ev", name),
                    f"{count} is not the same number for each of {self.planes} planes; "
                    f"the nearest is {near}",
                )
        if self.ev.min_active > self.ev.active:
            raise FieldError(
                ("ev", "min_active"), f"must be at most active, which is {self.ev.active}"
            )
        check_layout(self.ev.fields, self.ev.order, self.planes, self.t1_per_plane)
        ports = max(self.hosts_per_t0 + self.t1_per_plane, self.t0_per_plane)
        check_usids(self.srv6, self.planes, ports)
        if self.mode != "ecmp":
            counts = {"active": self.ev.active, "backup": self.ev.backup}
            lack = check_room(self.ev_layout, self.planes, self.t1_per_plane, counts)
            if lack is not None:
                raise FieldError(("ev", lack[0]), lack[1], near=("ev", "fields"))


def catalog_names() -> list[str]:
    """Names of the fabrics that come with the lab."""
    return sorted(p.stem for p in CATALOG.glob("*.yaml"))


def load_spec(path_or_name: str | Path, mode: Mode | None = None) -> FabricSpec:
    """Load a fabric by catalogue name or by path of a YAML file; `mode` replaces the file's.

    Raises SpecError.
    """
    path = find_file(str(path_or_name), CATALOG, "fabric")
    doc = parse_text(read_text(path), str(path))
    if mode is not None and isinstance(doc.data, dict):
        doc.data["mode"] = mode
    return validate(doc, FabricSpec)
