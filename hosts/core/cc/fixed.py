"""A fixed window: the baseline that reacts to nothing."""

from __future__ import annotations

from dataclasses import dataclass

from mypy_extensions import mypyc_attr

from hosts.core.cc.base import CongestionControl, PathFigures


@dataclass(frozen=True, slots=True)
class FixedProfile:
    """window_bytes 0: `bdps` times the BDP at the configured base RTT."""

    window_bytes: int = 0
    bdps: float = 1.5


@mypyc_attr(allow_interpreted_subclasses=True)
class FixedWindow(CongestionControl):
    """cwnd never changes."""

    __slots__ = ()

    def __init__(self, figures: PathFigures, profile: FixedProfile) -> None:
        super().__init__(figures)
        wanted = profile.window_bytes or profile.bdps * self.bdp_bytes
        self.cwnd = max(wanted, figures.mtu)

    def on_sack(
        self, n: int, rtt_ns: int | None, marked: bool, penalty: int, restore: bool, now: int
    ) -> None:
        self.inflight -= n
        if rtt_ns is not None:
            self.base_rtt_ns = min(self.base_rtt_ns, rtt_ns)
            self._sample(rtt_ns)

    def on_loss(self, size: int, now: int) -> None:
        self.inflight -= size

    def on_nack(self, size: int, trimmed: bool, rtt_ns: int | None, now: int) -> None:
        self.inflight -= size
