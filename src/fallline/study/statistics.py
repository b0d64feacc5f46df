"""Intervals over seeds: the little statistics that the claims need, and the rules at its edges."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from fallline.study.estimates import Estimate

if TYPE_CHECKING:
    from fallline.study.spec import Direction

LEVEL = 0.95
FEWEST_SEEDS = 3
BOOTSTRAP_SEEDS = 20


def median_or_nan(values: Iterable[float]) -> float:
    """Median; NaN where nothing was given or any value is NaN, so that a gap is never skipped."""
    return _or_nan(statistics.median, values)


def mean_or_nan(values: Iterable[float]) -> float:
    """Mean under the same rule as `median_or_nan`."""
    return _or_nan(statistics.fmean, values)


def _or_nan(figure: object, values: Iterable[float]) -> float:
    values = list(values)
    if not values or any(math.isnan(v) for v in values):
        return math.nan
    return float(figure(values))  # type: ignore[operator]


def mean_interval(values: Sequence[float]) -> Estimate:
    """Mean over seeds with its 95 % interval.

    Student's t below 20 seeds, bootstrap from 20; no interval below 3. A NaN among the values
    makes the whole estimate NaN.
    """
    n = len(values)
    mean = mean_or_nan(values)
    if math.isnan(mean) or n < FEWEST_SEEDS:
        return Estimate(mean, math.nan, math.nan, n)
    if min(values) == max(values):
        # Exactly the value: a mean rounds, and a bound of zero must stay zero.
        return Estimate(values[0], values[0], values[0], n)
    low, high = _bootstrap(values) if n >= BOOTSTRAP_SEEDS else _student(values, mean)
    return Estimate(mean, low, high, n)


def _student(values: Sequence[float], mean: float) -> tuple[float, float]:
    half = _t_quantile(len(values)) * statistics.stdev(values) / math.sqrt(len(values))
    return mean - half, mean + half


def _bootstrap(values: Sequence[float]) -> tuple[float, float]:
    import numpy as np
    from scipy import stats

    n = len(values)
    # Resampling n points underestimates the spread by sqrt((n - 1) / n) and knows no t tails: at
    # n = 20 a plain bootstrap covers 93 %. Hesterberg (2015, "What Teachers Should Know About the
    # Bootstrap", section 4.3) asks for wider quantiles instead: Phi(-t sqrt(n / (n - 1))).
    tail = statistics.NormalDist().cdf(-_t_quantile(n) * math.sqrt(n / (n - 1)))
    data = (np.asarray(values, dtype=float),)
    for method in ("BCa", "percentile"):
        # BCa has no answer where nearly all values are tied.
        with np.errstate(all="ignore"):
            interval = stats.bootstrap(
                data,
                np.mean,
                confidence_level=1 - 2 * tail,
                method=method,
                rng=np.random.default_rng(0),
            ).confidence_interval
        if math.isfinite(interval.low) and math.isfinite(interval.high):
            break
    return float(interval.low), float(interval.high)


def _t_quantile(n: int) -> float:
    from scipy import special

    return float(special.stdtrit(n - 1, 0.5 + LEVEL / 2))


def paired_difference(
    first: Mapping[int, float],
    second: Mapping[int, float],
    better: Direction,
    *,
    relative: bool = False,
) -> Estimate:
    """Mean difference over the seeds both have, positive where `first` is better.

    `relative` divides each difference by the size of the second arm's value.
    """
    differences = []
    for seed in sorted(first.keys() & second.keys()):
        a, b = first[seed], second[seed]
        gain = a - b if better == "max" else b - a
        if relative:
            gain = gain / abs(b) if b else math.nan
        differences.append(gain)
    estimate = mean_interval(differences)
    if math.isnan(estimate.value):
        return estimate
    won = sum(1.0 if d > 0 else 0.5 if d == 0 else 0.0 for d in differences) / len(differences)
    return Estimate(estimate.value, estimate.low, estimate.high, estimate.n, won)


def log_log_slope(points: Mapping[float, float]) -> float:
    """Least-squares slope of log(value) against log(axis value); NaN where a value is NaN."""
    if any(math.isnan(value) for value in points.values()):
        return math.nan
    for x, y in points.items():
        if x <= 0 or y <= 0:
            raise ValueError(
                f"a log-log slope needs positive numbers, got {y!r} at {x!r}; "
                "leave such points out with where(...)"
            )
    if len(points) < 2:
        raise ValueError(f"a slope needs at least 2 axis values, got {list(points)}")
    x_log, y_log = [math.log(x) for x in points], [math.log(y) for y in points.values()]
    return statistics.linear_regression(x_log, y_log).slope
