"""Intervals cover what they promise, and say nothing where there is nothing to say."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from fallline.study.estimates import Estimate
from fallline.study.statistics import (
    log_log_slope,
    mean_interval,
    mean_or_nan,
    median_or_nan,
    paired_difference,
)


@pytest.mark.parametrize(("n", "trials"), [(3, 4000), (10, 4000), (20, 600), (40, 400)])
def test_intervals_cover_at_their_nominal_rate(n: int, trials: int):
    rng = np.random.default_rng(n)
    covered = 0
    for _ in range(trials):
        estimate = mean_interval(rng.normal(0.3, 2.0, n).tolist())
        covered += estimate.low <= 0.3 <= estimate.high
    assert covered / trials == pytest.approx(0.95, abs=0.02)


def test_skewed_differences_are_still_covered_by_the_bootstrap():
    rng = np.random.default_rng(7)
    covered = 0
    for _ in range(300):
        estimate = mean_interval(rng.exponential(1.0, 40).tolist())
        covered += estimate.low <= 1.0 <= estimate.high
    # The mean of 40 exponentials is skewed; 93 % is what is known to be reachable here.
    assert covered / 300 == pytest.approx(0.95, abs=0.03)


def test_t_interval_is_the_textbook_one():
    values = [1.0, 2.0, 4.0, 8.0]
    estimate = mean_interval(values)
    known = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert (estimate.low, estimate.high) == pytest.approx((known.low, known.high))
    assert estimate.value == pytest.approx(3.75)


def test_the_bootstrap_is_the_same_every_time():
    values = np.random.default_rng(0).normal(size=25).tolist()
    assert mean_interval(values) == mean_interval(values)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_fewer_than_three_seeds_have_no_interval(n: int):
    estimate = mean_interval([1.0, 2.0][:n])
    assert math.isnan(estimate.low)
    assert math.isnan(estimate.high)
    assert math.isnan(estimate.value) is (n == 0)


@pytest.mark.parametrize("n", [3, 20])
def test_constant_data_are_their_own_interval(n: int):
    assert mean_interval([0.1] * n) == Estimate(0.1, 0.1, 0.1, n)


def test_nearly_constant_data_have_a_finite_interval():
    estimate = mean_interval([0.0] * 29 + [1.0])
    assert math.isfinite(estimate.low)
    assert estimate.low < estimate.value < estimate.high


def test_a_gap_is_never_skipped():
    assert math.isnan(median_or_nan([1.0, math.nan, 2.0]))
    assert math.isnan(mean_or_nan([]))
    estimate = paired_difference({0: 1.0, 1: math.nan, 2: 1.0}, {0: 2.0, 1: 2.0, 2: 2.0}, "min")
    assert math.isnan(estimate.value)
    assert math.isnan(estimate.won)


def test_ties_count_half_and_seeds_are_paired():
    first = {0: 1.0, 1: 2.0, 2: 3.0, 9: -100.0}
    second = {2: 1.0, 1: 2.0, 0: 4.0}
    estimate = paired_difference(first, second, "min")
    assert estimate.n == 3
    assert estimate.won == 0.5
    assert estimate.value == pytest.approx(1 / 3)
    same = paired_difference(first, first, "max")
    assert (same.value, same.low, same.high, same.won) == (0.0, 0.0, 0.0, 0.5)


def test_relative_to_zero_is_unknown():
    estimate = paired_difference({0: 1.0}, {0: 0.0}, "min", relative=True)
    assert math.isnan(estimate.value)


def test_log_log_slope():
    assert log_log_slope({x: 3 * x**1.5 for x in (1.0, 2.0, 8.0)}) == pytest.approx(1.5)
    assert math.isnan(log_log_slope({1.0: 1.0, 2.0: math.nan}))
    with pytest.raises(ValueError, match="at least 2"):
        log_log_slope({1.0: 1.0})


def test_estimates_read_well():
    assert str(Estimate(1.0, 0.5, 1.5, 3)) == "1 [0.5, 1.5]"
    assert str(Estimate.exact(2.5)) == "2.5"
    assert str(Estimate.exact(math.nan)) == "unknown"
    assert -Estimate(1.0, 0.5, 2.0, 3, 0.75) == Estimate(-1.0, -2.0, -0.5, 3, 0.25)
