"""NSCC as in section 5 of the reference; step numbers are those of 5.3.

Bytes and nanoseconds throughout. `inc` is in bytes squared: it is divided by cwnd when applied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hosts.core.cc.base import CongestionControl, PathFigures

REFERENCE_BDP_BYTES: Final = 150_000  # 100 Gb/s x 12 us
REFERENCE_RTT_NS: Final = 12_000
PENALTY_SHIFT: Final = 7


@dataclass(frozen=True, slots=True)
class NsccProfile:
    """Parameters (section 5.2). None: the reference's formula."""

    max_wnd_bdps: float = 1.5
    target_qdelay_ns: int | None = None  # T: 0.75 x base_rtt with trimming, 1.0 without
    alpha_factor: float = 4.0
    fi_mtus: float = 5.0
    fi_scale_factor: float = 0.25
    eta_mtus: float = 0.15
    gamma: float = 0.8
    max_md_jump: float = 0.5
    quick_adapt: bool = True
    qa_gate: int = 3
    qa_threshold_ns: int | None = None  # 4 x T untrimmed, infinite with trimming
    qa_drop_bdps: float | None = None  # instead: (drop threshold in plane BDPs - 1) x base RTT
    adjust_mtus: float = 8.0
    adjust_period_ns: int | None = None  # one base RTT
    near_zero_ns: int = 1_000  # x time_scale
    delay_weight: float = 0.0125  # of the average queueing delay
    unmarked_feed: float = 0.25  # base RTTs fed to the average by an unmarked sample beyond T


class Nscc(CongestionControl):
    """Network-signalled congestion control: delay and ECN, one window per destination."""

    __slots__ = (
        "_adjust_at",
        "_adjust_bytes",
        "_alpha",
        "_eta",
        "_fi",
        "_fi_count",
        "_fi_scale",
        "_inc",
        "_last_md",
        "_near_zero",
        "_period",
        "_qa_end",
        "_qa_threshold",
        "_received",
        "_saved_cwnd",
        "achieved",
        "delay_mean_ns",
        "fast",
        "ignored",
        "max_wnd",
        "profile",
        "target_ns",
        "to_ignore",
        "trigger",
    )

    def __init__(self, figures: PathFigures, profile: NsccProfile) -> None:
        super().__init__(figures)
        self.profile = profile
        self.delay_mean_ns = 0.0
        self.fast = False
        self.trigger = False
        self.ignored = 0
        self.to_ignore = 0
        self.achieved = 0
        self._received = 0
        self._inc = 0.0
        self._fi_count = 0
        self._last_md: int | None = None
        self._adjust_at: int | None = None
        self._qa_end = 0
        self._saved_cwnd: float | None = None
        self._near_zero = profile.near_zero_ns * figures.time_scale
        self.max_wnd = 0.0
        self._derive()
        self.cwnd = self.max_wnd  # line-rate start

    def _derive(self) -> None:
        """Everything that follows from base_rtt (section 5.2)."""
        profile, figures, mtu = self.profile, self.figures, self.mtu
        base, scale = self.base_rtt_ns, figures.time_scale
        bdp = self.bdp_bytes
        share = 0.75 if figures.trimming else 1.0
        target = profile.target_qdelay_ns
        self.target_ns = max(1, int(share * base) if target is None else target)
        scaling_a = bdp / REFERENCE_BDP_BYTES
        scaling_b = self.target_ns / (REFERENCE_RTT_NS * scale)
        self._alpha = profile.alpha_factor * scaling_a * scaling_b * mtu / self.target_ns
        self._fi = profile.fi_mtus * mtu * scaling_a
        self._fi_scale = profile.fi_scale_factor * scaling_a
        self._eta = profile.eta_mtus * mtu * scaling_a
        self._adjust_bytes = profile.adjust_mtus * mtu
        self._period = profile.adjust_period_ns or base
        if profile.qa_threshold_ns is not None:
            self._qa_threshold = float(profile.qa_threshold_ns)
        elif profile.qa_drop_bdps is not None:
            self._qa_threshold = max(0.0, profile.qa_drop_bdps - 1) * base
        else:
            self._qa_threshold = float("inf") if figures.trimming else 4.0 * self.target_ns
        self.max_wnd = max(profile.max_wnd_bdps * bdp, float(mtu))

    def _lower_base(self, rtt_ns: int) -> None:
        if rtt_ns < self.base_rtt_ns:
            self.base_rtt_ns = max(1, rtt_ns)
            self._derive()
            self.cwnd = min(self.cwnd, self.max_wnd)

    def seed_base_rtt(self, rtt_ns: int) -> None:
        self._lower_base(rtt_ns)

    # --- events (section 5.3) ------------------------------------------------------------------

    def on_sack(
        self, n: int, rtt_ns: int | None, marked: bool, penalty: int, restore: bool, now: int
    ) -> None:
        self.inflight -= n  # 1
        self.ignored += n
        self._received += n
        self.achieved += n
        if penalty or self._saved_cwnd is not None:
            self._penalise(penalty, restore, n)  # 2
        if rtt_ns is None:  # 3
            return
        self._sample(rtt_ns)
        if rtt_ns < self.base_rtt_ns:
            self._lower_base(rtt_ns)
        d = rtt_ns - self.base_rtt_ns
        target = self.target_ns
        self._average(d if marked or d <= target else self.profile.unmarked_feed * self.base_rtt_ns)
        if self._quick_adapt(False, marked, d, now):  # 4
            return
        if penalty:  # increases are suspended
            if marked and d >= target:
                self._leave_fast()
                self._decrease(now)
            return
        if not marked:  # 5
            if d >= target:
                self._leave_fast()
                self._inc += self._fi * n
            elif not self._fast_increase(n, d):
                self._inc += self._alpha * n * (target - d)
        elif d >= target:
            self._leave_fast()
            self._decrease(now)
        self._adjust(now)  # 6

    def on_loss(self, size: int, now: int) -> None:
        self.cwnd = max(self.cwnd - size, self.mtu)
        self.ignored += size
        self.inflight -= size

    def on_nack(self, size: int, trimmed: bool, rtt_ns: int | None, now: int) -> None:
        self.inflight -= size
        if rtt_ns is not None:
            self._lower_base(rtt_ns)
        if not trimmed:
            return
        self._average(float(self.base_rtt_ns))
        self.ignored += size
        self.trigger = True
        if not self._quick_adapt(True, True, 0, now):
            self.cwnd = max(self.cwnd - size, self.mtu)

    # --- pieces --------------------------------------------------------------------------------

    def _average(self, d: float) -> None:
        self.delay_mean_ns += self.profile.delay_weight * (d - self.delay_mean_ns)

    def _leave_fast(self) -> None:
        self.fast = False
        self._fi_count = 0

    def _fast_increase(self, n: int, d: int) -> bool:
        """Whether the fast mode is on after this sample."""
        if d >= self._near_zero:
            self._leave_fast()
            return False
        self._fi_count += n
        if self._fi_count > self.cwnd or self.fast:
            self.cwnd = min(self.cwnd + self._fi_scale * n, self.max_wnd)
            self.fast = True
        else:
            self.fast = False
        return self.fast

    def _decrease(self, now: int) -> None:
        mean, target = self.delay_mean_ns, self.target_ns
        if mean <= target or (
            self._last_md is not None and now - self._last_md <= self.base_rtt_ns
        ):
            return
        profile = self.profile
        factor = max(1 - profile.gamma * (mean - target) / mean, profile.max_md_jump)
        self.cwnd = max(self.cwnd * factor, self.mtu)
        self._last_md = now

    def _adjust(self, now: int) -> None:
        if self._adjust_at is None:
            self._adjust_at = now
        elapsed = now - self._adjust_at >= self._period
        if not elapsed and self._received <= self._adjust_bytes:
            return
        self.cwnd += self._inc / self.cwnd
        if elapsed:
            self.cwnd += self._eta
            self._adjust_at = now
        self.cwnd = min(self.cwnd, self.max_wnd)
        self._inc = 0.0
        self._received = 0

    def _quick_adapt(self, loss: bool, marked: bool, d: int, now: int) -> bool:
        """Whether the event is handled: nothing else may touch the window for it."""
        if not self.profile.quick_adapt:
            return False
        handled = False
        if self.ignored < self.to_ignore and marked:
            handled = True
        elif now >= self._qa_end:
            if (
                self._qa_end != 0
                and (self.trigger or loss or d > self._qa_threshold)
                and self.achieved < self.max_wnd / (1 << self.profile.qa_gate)
            ):
                self.cwnd = max(float(self.achieved), self.mtu)
                self.to_ignore = self.inflight
                self.ignored = 0
                self.trigger = False
                handled = True
            self.achieved = 0
            self._qa_end = now + self.base_rtt_ns + self.target_ns
        if handled:
            self._inc = 0.0
            self._received = 0
        return handled

    def _penalise(self, penalty: int, restore: bool, n: int) -> None:
        """Section 5.4."""
        if penalty:
            if self._saved_cwnd is None:
                self._saved_cwnd = self.cwnd
            cwnd = min(self.cwnd, float(self.inflight))
            self.cwnd = max(float(self.mtu), cwnd - (penalty * n >> PENALTY_SHIFT))
        elif restore and self._saved_cwnd is not None:
            self.cwnd = min(self._saved_cwnd, self.max_wnd)
            self._saved_cwnd = None
