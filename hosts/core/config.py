"""Everything that can be set on an endpoint, a QP and its peer. All times in nanoseconds.

`time_scale` is how much slower than the real figures this network runs (1 real, 1000 lab): it
multiplies the RTO unit, the probe spacing cap, the TSETH tick and NSCC's reference times (12 us,
1 us), and nothing else. Figures that belong to the network itself (base RTT, rates) are given as
they are in this network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from hosts.core import constants as c
from hosts.core.errors import ConfigError
from hosts.core.ev.format import EvKind
from hosts.core.interop import REFERENCE, InteropError, InteropProfile
from hosts.wire.constants import PSN_MASK, TICK_NS, Dscp, EvPacking
from hosts.wire.encap import Encap

if TYPE_CHECKING:
    from hosts.core.faults import Faults

__all__ = [
    "CcConfig",
    "ConfigError",
    "EncapSource",
    "EndpointConfig",
    "EvConfig",
    "PeerInfo",
    "PortConfig",
    "QpConfig",
    "ReceiverConfig",
    "RtoConfig",
]


class EncapSource(Protocol):
    """SRv6 by destination address: a dict, or an object that computes it."""

    def get(self, dst_ip: bytes, /) -> Encap | None: ...


@dataclass(frozen=True, slots=True)
class PortConfig:
    """A port of the NIC. Port k (from 1) belongs to plane k-1."""

    port: int
    mac: bytes  # 6 bytes
    gateway_mac: bytes  # 6 bytes: the T0's, destination of every frame sent here
    ip: bytes  # 16 bytes (IPv6) or 4 (IPv4)
    rate_bps: int  # the port sends a frame every frame_bytes x 8 / rate
    up: bool = True

    @property
    def plane(self) -> int:
        return self.port - 1


@dataclass(frozen=True, slots=True)
class EvConfig:
    """The entropy values of a QP (section 3). Sets are split equally over the planes."""

    active: int = c.EV_ACTIVE_DEFAULT
    backup: int = c.EV_BACKUP_DEFAULT
    min_active: int | None = None  # ev_min_active over all planes; None: a quarter of `active`
    recovery_successes: int = c.EV_RECOVERY_SUCCESSES
    recovery_cap_ns: int = c.EV_RECOVERY_CAP_NS  # x time_scale
    recovery_first_ns: int | None = None  # spacing of the first probes; None: one RTO
    trial_probes: int = c.EV_TRIAL_PROBES
    report_skip: bool = False  # also report GOOD <-> SKIP as events (busy)
    selector: str = "rotation"  # a name in `ev.selector.SELECTORS`
    kind: EvKind = EvKind.ECMP  # STRUCTURED: switches read fields of the EV
    profile: str | None = None  # a profile of the endpoint instead of all of this but `selector`
    # EXPLICIT mode: values by port, actives first then backups. None: AUTO, drawn from the rng.
    values: Mapping[int, Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class RtoConfig:
    """Timeout 1.024 us x 2^t x time_scale; `linear` retries at it, then `exp` doubling ones."""

    t: int = c.RTO_T_DEFAULT
    linear: int = c.RTO_LINEAR_DEFAULT
    exp: int = c.RTO_EXP_DEFAULT  # 25: unlimited

    def __post_init__(self) -> None:
        for name, most in (
            ("t", c.RTO_T_MAX),
            ("linear", c.RTO_LINEAR_MAX),
            ("exp", c.RTO_EXP_UNLIMITED),
        ):
            if not 0 <= getattr(self, name) <= most:
                raise ConfigError(f"rto.{name} {getattr(self, name)}: must be 0..{most}")

    def base_ns(self, time_scale: int) -> int:
        return (c.RTO_UNIT_NS << self.t) * time_scale


@dataclass(frozen=True, slots=True)
class CcConfig:
    """Congestion control by its name in `hosts.core.cc.registry` and its parameters.

    base_rtt_ns: the configured base RTT, lowered by smaller samples.
    params: overrides of the algorithm's profile, by field name (see `cc.nscc.NsccProfile`,
    `cc.fixed.FixedProfile`).
    """

    name: str = "nscc"
    base_rtt_ns: int = 12_000
    params: Mapping[str, float | int | bool] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class ReceiverConfig:
    """What a receiving host can take, over all its QPs. None: without limit.

    drain_bps      payload leaves the NIC's buffer for memory at this rate
    buffer_bytes   that buffer: full, packets are NACKed NO_PKT_BUFFER; the fuller, the higher
                   rcv_cwnd_pen (from `penalty_from` of it on) and the smaller a dynamic MPR
    ooo_packets    packets held above the first gap of a QP; beyond: NACK NO_BITMAP
    open_messages  messages of a QP under way at once; beyond: NACK NO_RESOURCE
    """

    drain_bps: int | None = None
    buffer_bytes: int = 1 << 20
    penalty_from: float = 0.25
    ooo_packets: int | None = None
    open_messages: int | None = None

    def __post_init__(self) -> None:
        if self.drain_bps is not None and self.drain_bps <= 0:
            raise ConfigError(f"receiver.drain_bps {self.drain_bps}: must be positive")
        if self.buffer_bytes < 1 or not 0 <= self.penalty_from < 1:
            raise ConfigError("receiver: buffer_bytes must be positive, penalty_from in 0..1")
        for name in ("ooo_packets", "open_messages"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"receiver.{name} {value}: must be at least 1")


@dataclass(frozen=True, slots=True)
class QpConfig:
    """Attributes of a QP (section 4.1)."""

    mpr: int = c.MPR_DEFAULT  # own receive window, x 128 PSNs
    dynamic_mpr: bool = False
    write_imm_limit: int = c.WRITE_IMM_LIMIT_DEFAULT
    first_psn: int | None = None  # None: drawn from the rng
    rto: RtoConfig = RtoConfig()
    ev: EvConfig = EvConfig()
    cc: CcConfig = CcConfig()
    trim_nack: bool = True  # we NACK trimmed packets
    svc_time: bool = c.SVC_TIME_DEFAULT  # we add our residence time to reflected stamps
    cc_profile: str | None = None  # a profile of the endpoint instead of `cc`

    def __post_init__(self) -> None:
        if not c.MPR_MIN <= self.mpr <= c.MPR_MAX:
            raise ConfigError(f"mpr {self.mpr}: must be {c.MPR_MIN}..{c.MPR_MAX}")
        if self.write_imm_limit < 1:
            raise ConfigError(f"write_imm_limit {self.write_imm_limit}: must be at least 1")


@dataclass(frozen=True, slots=True)
class PeerInfo:
    """What a QP must know of its peer, exchanged out of band. `create_qp` returns our own."""

    qpn: int
    psn: int  # first PSN the peer will send
    ips: Mapping[int, bytes]  # port -> address of the peer in that port's plane
    pmtu: int = 4096
    mpr: int = c.MPR_DEFAULT
    write_imm_limit: int = c.WRITE_IMM_LIMIT_DEFAULT
    dynamic_mpr: bool = False
    trim_nack: bool = True
    svc_time: bool = False
    rate_bps: int | None = None  # of all its ports together; None: as ours
    interop: InteropProfile | None = None  # None: as ours
    kind: EvKind | None = None  # of the peer's EVs; None: as ours
    encap: Mapping[int, Encap] | None = None  # SRv6 to the peer by port, over the endpoint's own

    def __post_init__(self) -> None:
        if not 0 <= self.psn <= PSN_MASK:
            raise ConfigError(f"peer psn {self.psn}: must fit 24 bits")
        if not c.MPR_MIN <= self.mpr <= c.MPR_MAX:
            raise ConfigError(f"peer mpr {self.mpr}: must be {c.MPR_MIN}..{c.MPR_MAX}")
        if self.write_imm_limit < 1:
            raise ConfigError(f"peer write_imm_limit {self.write_imm_limit}: must be at least 1")


@dataclass(frozen=True, slots=True)
class EndpointConfig:
    """A NIC with its ports. `faults` is for tests and drills that break the endpoint on purpose.

    `interop` answers the open points of section 9; the four fields after it replace single answers
    (None: the profile's). After construction all five are filled and agree.
    """

    ports: tuple[PortConfig, ...]
    pmtu: int = 4096
    time_scale: int = 1
    interop: InteropProfile = REFERENCE
    udp_port: int = None  # type: ignore[assignment]
    ev_packing: EvPacking = None  # type: ignore[assignment]
    dscp: Dscp = None  # type: ignore[assignment]
    sack_threshold: int = None  # type: ignore[assignment]
    hop_limit: int = 64
    encap: EncapSource | None = None  # SRv6: outer addresses by destination address
    receiver: ReceiverConfig = ReceiverConfig()
    # Port serialiser: a driver that wakes up late may make up for at most `catch_up_ns` of idle
    # port time; frames are handed out up to `ahead_ns` before the port is free (a short ring, fewer
    # wake-ups). Both 0: exact, as in virtual time.
    catch_up_ns: int = 0
    ahead_ns: int = 0
    check_icrc: bool = True
    faults: Faults | None = None

    def __post_init__(self) -> None:
        if not self.ports:
            raise ConfigError("ports: at least one port is needed")
        numbers = [p.port for p in self.ports]
        if len(set(numbers)) != len(numbers) or not all(1 <= n <= 32 for n in numbers):
            raise ConfigError(f"ports: {numbers}: must be distinct, 1..32")
        if len({len(p.ip) for p in self.ports}) != 1:
            raise ConfigError("ports: IPv4 and IPv6 addresses do not mix on one endpoint")
        for p in self.ports:
            if p.rate_bps <= 0:
                raise ConfigError(f"port {p.port}: rate_bps {p.rate_bps}: must be positive")
        if self.time_scale < 1:
            raise ConfigError(f"time_scale {self.time_scale}: must be at least 1")
        if not 256 <= self.pmtu <= 8192:
            raise ConfigError(f"pmtu {self.pmtu}: must be 256..8192")
        names = ("udp_port", "ev_packing", "dscp", "sack_threshold")
        given = {n: getattr(self, n) for n in names if getattr(self, n) is not None}
        try:
            profile = replace(self.interop, **given) if given else self.interop
        except InteropError as error:
            raise ConfigError(f"interop: {error}") from None
        object.__setattr__(self, "interop", profile)
        for name in names:
            object.__setattr__(self, name, getattr(profile, name))

    def with_interop(self, profile: InteropProfile) -> EndpointConfig:
        """The same endpoint with another profile, all of it."""
        own: dict[str, Any] = dict.fromkeys(("udp_port", "ev_packing", "dscp", "sack_threshold"))
        return replace(self, interop=profile, **own)

    @property
    def tick_ns(self) -> int:
        """Nanoseconds of one TSETH tick."""
        return TICK_NS * self.time_scale
