"""NSCC step by step against section 5 of the reference, and the registry."""

from __future__ import annotations

import pytest

from hosts.core.cc.base import PathFigures
from hosts.core.cc.fixed import FixedProfile, FixedWindow
from hosts.core.cc.nscc import Nscc, NsccProfile
from hosts.core.cc.registry import make_cc
from hosts.core.config import CcConfig, ConfigError

MTU = 4184
BASE = 12_000
# 100 Gb/s x 12 us = 150,000 B: scaling_a is 1.
REAL = PathFigures(MTU, 100_000_000_000, BASE, 1, trimming=True)
# The same, slowed by 1000.
LAB = PathFigures(MTU, 100_000_000, BASE * 1000, 1000, trimming=True)
T = 9_000  # 0.75 x base RTT


def nscc(figures: PathFigures = REAL, **params) -> Nscc:
    return Nscc(figures, NsccProfile(**params))


def sack(cc, n=4 * MTU, rtt=BASE, marked=False, penalty=0, restore=False, now=1):
    cc.on_sack(n, rtt, marked, penalty, restore, now)


def quiet(**params) -> Nscc:
    """No quick adapt, and never the time to adjust: single steps can be seen."""
    return nscc(quick_adapt=False, adjust_period_ns=1 << 60, adjust_mtus=1e9, **params)


def test_starts_at_line_rate():
    cc = nscc()
    assert cc.bdp_bytes == 150_000
    assert cc.cwnd == cc.max_wnd == 225_000
    assert cc.target_ns == T


def test_target_without_trimming_is_one_base_rtt():
    assert Nscc(PathFigures(MTU, 10**11, BASE, 1, False), NsccProfile()).target_ns == BASE


def test_slowed_network_has_the_same_window_dynamics():
    real, lab = nscc(), nscc(LAB)
    for cc, scale in ((real, 1), (lab, 1000)):
        cc.cwnd = 100_000.0
        for i in range(1, 200):
            cc.inflight += 4 * MTU
            cc.on_sack(4 * MTU, (BASE + 3_000) * scale, i % 7 == 0, 0, False, i * 1_000 * scale)
    assert lab.cwnd == pytest.approx(real.cwnd, rel=1e-6)
    assert real.cwnd > 100_000


def test_smaller_sample_lowers_base_rtt_and_max_wnd():
    cc = nscc()
    sack(cc, rtt=8_000)
    assert cc.base_rtt_ns == 8_000
    assert cc.max_wnd == 1.5 * 100_000
    assert cc.cwnd <= cc.max_wnd


def test_proportional_increase():
    cc = quiet()
    cc.cwnd = 50_000.0
    sack(cc, n=1000, rtt=BASE + 4_000)
    alpha = 4 * 1 * (T / 12_000) * MTU / T
    assert cc._inc == pytest.approx(alpha * 1000 * (T - 4_000))
    assert cc.cwnd == 50_000


def test_fair_increase_beyond_target():
    cc = quiet()
    sack(cc, n=1000, rtt=BASE + T)
    assert cc._inc == pytest.approx(5 * MTU * 1000)


def test_marked_below_target_changes_nothing():
    cc = quiet()
    cc.cwnd = 50_000.0
    sack(cc, rtt=BASE + 100, marked=True)
    assert (cc.cwnd, cc._inc) == (50_000.0, 0.0)


def test_multiplicative_decrease_needs_a_high_average_and_one_rtt_between():
    cc = quiet()
    cc.cwnd = 200_000.0
    sack(cc, rtt=BASE + 3 * T, marked=True)
    assert cc.cwnd == 200_000.0  # the average is still below T
    cc.delay_mean_ns = 2.0 * T
    sack(cc, rtt=BASE + 2 * T, marked=True, now=100_000)
    mean = cc.delay_mean_ns
    assert cc.cwnd == pytest.approx(200_000 * max(1 - 0.8 * (mean - T) / mean, 0.5))
    once = cc.cwnd
    sack(cc, rtt=BASE + 2 * T, marked=True, now=100_000 + BASE)
    assert cc.cwnd == once
    sack(cc, rtt=BASE + 2 * T, marked=True, now=100_001 + BASE)
    assert cc.cwnd < once


def test_decrease_is_at_most_one_half_and_never_below_one_packet():
    cc = quiet()
    cc.delay_mean_ns = 100.0 * T
    cc.cwnd = 200_000.0
    sack(cc, rtt=BASE + 100 * T, marked=True, now=100_000)
    assert cc.cwnd == 100_000.0
    cc.cwnd = 5_000.0
    sack(cc, rtt=BASE + 100 * T, marked=True, now=200_000)
    assert cc.cwnd == MTU


def test_average_gets_a_quarter_base_rtt_from_unmarked_samples_beyond_target():
    cc = quiet()
    sack(cc, rtt=BASE + 5 * T)
    assert cc.delay_mean_ns == pytest.approx(0.0125 * 0.25 * BASE)
    sack(cc, rtt=BASE + 5 * T, marked=True)
    assert cc.delay_mean_ns > 0.0125 * 4 * T


def test_fast_increase_engages_after_a_window_at_near_zero_delay():
    cc = quiet()
    cc.cwnd = 20_000.0
    sack(cc, n=15_000)
    assert not cc.fast
    sack(cc, n=15_000)
    assert cc.fast
    assert cc.cwnd == 20_000 + 0.25 * 15_000
    sack(cc, n=1_000, rtt=BASE + 1_000)
    assert not cc.fast


def test_window_adjusts_after_eight_packets_or_a_period():
    cc = nscc(quick_adapt=False)
    cc.cwnd = 100_000.0
    sack(cc, n=8 * MTU, rtt=BASE + 4_000)
    assert cc.cwnd == 100_000.0
    sack(cc, n=MTU, rtt=BASE + 4_000)
    grown = cc.cwnd
    assert grown > 100_000.0
    sack(cc, n=0, rtt=BASE + 4_000, now=1 + BASE)
    assert cc.cwnd == pytest.approx(grown + 0.15 * MTU)


def test_sack_without_rtt_only_counts():
    cc = nscc()
    cc.inflight = 10_000
    sack(cc, n=4_000, rtt=None)
    assert (cc.inflight, cc.achieved, cc.rtt_ns) == (6_000, 4_000, 0)


def test_inferred_loss():
    cc = nscc()
    cc.inflight = 20_000
    cc.on_loss(MTU, 1)
    assert (cc.cwnd, cc.inflight, cc.ignored) == (225_000 - MTU, 20_000 - MTU, MTU)


def test_trim_storm_quick_adapts_to_what_was_achieved():
    cc = nscc()
    sack(cc, n=0, rtt=BASE, now=1)  # opens the first period
    cc.inflight = 200_000
    for _ in range(3):
        cc.on_nack(MTU, True, BASE, 2)
    assert cc.cwnd == 225_000 - 3 * MTU
    sack(cc, n=9_000, rtt=BASE, now=3)
    inflight = cc.inflight
    cc.on_nack(MTU, True, BASE, 2 + BASE + T)
    assert cc.cwnd == 9_000
    assert cc.to_ignore == inflight - MTU
    # Until that much was acknowledged, marked feedback is ignored.
    cc.delay_mean_ns = 9.0 * T
    sack(cc, n=MTU, rtt=BASE + 2 * T, marked=True, now=10 * BASE)
    assert cc.cwnd == 9_000


def test_quick_adapt_needs_a_really_low_rate():
    cc = nscc()
    sack(cc, n=0, now=1)
    sack(cc, n=int(cc.max_wnd / 8) + 1, now=2)
    before = cc.cwnd
    cc.on_nack(MTU, True, BASE, 3 + BASE + T)
    assert cc.cwnd == before - MTU


def test_other_nacks_leave_the_window_alone():
    cc = nscc()
    cc.inflight = MTU
    cc.on_nack(MTU, False, 11_000, 5)
    assert (cc.inflight, cc.base_rtt_ns) == (0, 11_000)
    assert cc.cwnd == cc.max_wnd


def test_receiver_penalty_halves_the_window_in_about_one_rtt_and_restores():
    cc = nscc(quick_adapt=False)
    cc.inflight = 200_000
    for _ in range(20):
        cc.inflight += 10_000
        sack(cc, n=10_000, penalty=64, now=2)
    assert cc.cwnd == pytest.approx(100_000, rel=0.2)
    sack(cc, n=0, restore=True, now=3)
    assert cc.cwnd == 225_000


def test_a_penalty_suspends_all_increases():
    """Not even eta is added, however long it lasts (section 5.4)."""
    cc = nscc()
    cc.cwnd = cc.max_wnd / 2
    cc.inflight = 10**9
    before = cc.cwnd
    for i in range(20):
        cc.on_sack(0, cc.base_rtt_ns, False, 1, False, (i + 1) * cc.base_rtt_ns)
    assert cc.cwnd == before


def test_quick_adapt_threshold_from_the_drop_threshold():
    """(drop threshold in plane BDPs - 1) x base RTT."""
    cc = nscc(qa_drop_bdps=3.0)
    assert cc._qa_threshold == 2.0 * cc.base_rtt_ns


def test_fixed_window_never_moves():
    cc = FixedWindow(REAL, FixedProfile(window_bytes=50_000))
    sack(cc, marked=True)
    cc.on_loss(MTU, 1)
    cc.on_nack(MTU, True, 1, 1)
    assert cc.cwnd == 50_000


def test_registry():
    assert isinstance(make_cc(CcConfig("uet-1.0-nscc"), REAL), Nscc)
    custom = make_cc(CcConfig("fixed", params={"bdps": 2.0}), REAL)
    assert custom.cwnd == 300_000
    with pytest.raises(ConfigError, match=r"cc.name 'reno': unknown; known: nscc"):
        make_cc(CcConfig("reno"), REAL)
    with pytest.raises(ConfigError, match="'gama': nscc has no such parameter"):
        make_cc(CcConfig("nscc", params={"gama": 1}), REAL)
