"""Everything that can be set on an endpoint, a QP and its peer. All times in nanoseconds.

`time_scale` is how much slower than the real figures this network runs (1 real, 1000 lab): it
multiplies the RTO unit, the probe spacing cap, the TSETH tick and NSCC's reference times (12 us,
1 us), and nothing else. Figures that belong to the network itself (base RTT, rates) are given as
they are in this network.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from hosts.core import constants as c
from hosts.wire.constants import PSN_MASK, TICK_NS, UDP_PORT, Dscp, EvPacking

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hosts.core.faults import Faults


class ConfigError(ValueError):
    """A value that cannot work; str() says which one and why."""


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
    # EXPLICIT mode: values by port, actives first then backups. None: AUTO, drawn from the rng.
    values: Mapping[int, Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class RtoConfig:
    """Timeout 1.024 us x 2^t x time_scale; `linear` retries at it, then `exp` doubling ones."""

    t: int = c.RTO_T_DEFAULT
    linear: int = c.RTO_LINEAR_DEFAULT
    exp: int = c.RTO_EXP_DEFAULT  # 25: unlimited

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

    def __post_init__(self) -> None:
        if not 0 <= self.psn <= PSN_MASK:
            raise ConfigError(f"peer psn {self.psn}: must fit 24 bits")
        if not c.MPR_MIN <= self.mpr <= c.MPR_MAX:
            raise ConfigError(f"peer mpr {self.mpr}: must be {c.MPR_MIN}..{c.MPR_MAX}")


@dataclass(frozen=True, slots=True)
class EndpointConfig:
    """A NIC with its ports. `faults` is for tests and drills that break the endpoint on purpose."""

    ports: tuple[PortConfig, ...]
    pmtu: int = 4096
    time_scale: int = 1
    udp_port: int = UDP_PORT
    ev_packing: EvPacking = EvPacking.LABEL_HIGH
    dscp: Dscp = Dscp()  # noqa: RUF009  (frozen)
    hop_limit: int = 64
    sack_threshold: int = c.SACK_THRESHOLD_BYTES
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
        for p in self.ports:
            if p.rate_bps <= 0:
                raise ConfigError(f"port {p.port}: rate_bps {p.rate_bps}: must be positive")
        if self.time_scale < 1:
            raise ConfigError(f"time_scale {self.time_scale}: must be at least 1")
        if not 256 <= self.pmtu <= 8192:
            raise ConfigError(f"pmtu {self.pmtu}: must be 256..8192")

    @property
    def tick_ns(self) -> int:
        """Nanoseconds of one TSETH tick."""
        return TICK_NS * self.time_scale
