"""What a congestion control is to the rest of the endpoint. One per destination (section 5.5)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from mypy_extensions import mypyc_attr

from hosts.wire.constants import RCVD_BYTES_UNIT


@dataclass(frozen=True, slots=True)
class PathFigures:
    """What a congestion control must know of the network, in this network's own time.

    mtu: nominal size of a full data packet (section 5.1); rate_bps: of the whole NIC (all ports),
    the smaller of both ends; base_rtt_ns: as configured; time_scale multiplies the reference
    times of the algorithm (12 us, 1 us); trimming: whether the fabric trims.
    """

    mtu: int
    rate_bps: int
    base_rtt_ns: int
    time_scale: int = 1
    trimming: bool = True

    def bdp_bytes(self, base_rtt_ns: int) -> int:
        return self.rate_bps * base_rtt_ns // 8_000_000_000


@mypyc_attr(allow_interpreted_subclasses=True)
class CongestionControl(ABC):
    """Window and bytes in flight. The requestor reads `cwnd`, `inflight`, `mtu` directly:
    a packet may leave while inflight + mtu <= cwnd (section 9 #30).

    inflight may briefly be negative: the peer reports in units of 256 bytes.
    """

    __slots__ = ("base_rtt_ns", "cwnd", "figures", "inflight", "mtu", "rtt_mean_ns", "rtt_ns")

    def __init__(self, figures: PathFigures) -> None:
        self.figures = figures
        self.mtu = figures.mtu
        self.cwnd = float(figures.mtu)
        self.inflight = 0
        self.base_rtt_ns = figures.base_rtt_ns
        self.rtt_ns = 0
        self.rtt_mean_ns: float = 0.0

    # --- events --------------------------------------------------------------------------------

    @abstractmethod
    def on_sack(
        self, n: int, rtt_ns: int | None, marked: bool, penalty: int, restore: bool, now: int
    ) -> None:
        """n: bytes newly received by the peer. rtt_ns: None without a valid sample."""

    @abstractmethod
    def on_loss(self, size: int, now: int) -> None:
        """A packet in flight counts as lost (inferred or timed out)."""

    @abstractmethod
    def on_nack(self, size: int, trimmed: bool, rtt_ns: int | None, now: int) -> None:
        """A packet in flight was refused; trimmed: on its way or on the last hop."""

    def on_send(self, size: int) -> None:
        self.inflight += size

    def undo_loss(self, size: int) -> None:
        """A packet that counted as lost, and was not sent again yet, turned out received."""
        self.inflight += size

    def bound_inflight(self, most: int) -> None:
        """`most` bytes are unacknowledged: inflight is not more, and not below rounding."""
        if self.inflight > most:
            self.inflight = most
        elif self.inflight < -RCVD_BYTES_UNIT:
            self.inflight = -RCVD_BYTES_UNIT

    def seed_base_rtt(self, rtt_ns: int) -> None:
        """An unloaded sample (a probe in the control class)."""
        self.base_rtt_ns = min(self.base_rtt_ns, rtt_ns)

    # --- figures -------------------------------------------------------------------------------

    @property
    def bdp_bytes(self) -> int:
        return self.figures.bdp_bytes(self.base_rtt_ns)

    def _sample(self, rtt_ns: int) -> None:
        """Keep the newest RTT and a smoothed one (weight 1/8) for whoever looks."""
        self.rtt_ns = rtt_ns
        mean = self.rtt_mean_ns
        self.rtt_mean_ns = mean + (rtt_ns - mean) / 8 if mean else float(rtt_ns)
