"""Weights and costs as integers, so that every comparison of cuts is exact."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from fallline.conformal.hypergraph import Floats, Ints

EXACT_SUM = 2**53  # beyond it float64 skips integers
DECIMAL_SUM = 2**40  # leaves 22 bits for the weights below 2^62
DECIMALS = 9
FEWEST_UNITS = 100  # per route on average: less would blur the weights by more than half a per cent


def integer_costs(cost: Floats, resolution: int) -> tuple[Ints, Fraction]:
    """Return integers and the scale that made them: exact where possible, else rounded.

    Integers and short decimals are exact; other costs get `resolution` levels over the largest.
    """
    exact = _exact(cost, DECIMAL_SUM)
    if exact is not None:
        return exact
    scale = Fraction(resolution) / Fraction(float(cost.max()))
    return np.maximum(1, np.rint(cost * float(scale))).astype(np.int64), scale


def integer_weights(weights: Floats, total_cost: int, limit: int) -> tuple[Ints, Fraction]:
    """Return integers and their scale, such that their sum times `total_cost` is below `limit`.

    Integers are exact whatever the limit; short decimals are where they fit; other weights are
    rounded to parts of M = min(2^53, limit / total_cost) of their sum.

    Raises
    ------
    OverflowError
        If the limit leaves too few units to tell such weights apart.
    """
    exact = _exact(weights, limit // total_cost)
    if exact is not None:
        return exact
    M = min(EXACT_SUM, limit // total_cost)
    if FEWEST_UNITS * len(weights) > M:
        raise OverflowError(
            f"{len(weights)} fractional weights and a total cost of {total_cost} units do not fit "
            f"in capacities below {limit}; install OR-Tools (pip install 'fallline[graphs]') for "
            "64-bit ones, give integer weights, or lower cost_resolution"
        )
    # Rounding adds less than one unit per route.
    scale = Fraction(M - len(weights)) / Fraction(math.fsum(weights))
    return np.maximum(1, np.rint(weights * float(scale))).astype(np.int64), scale


def _exact(values: Floats, decimal_sum: int) -> tuple[Ints, Fraction] | None:
    """Return integers without common divisor, if a power of ten makes all values integers.

    Decimals such as 0.1 have no exact float, but their ties (0.1 + 0.2 against 0.3) are meant.
    """
    for digits in range(DECIMALS + 1):
        power = 10**digits
        scaled = values * power
        if scaled.sum() > (decimal_sum if digits else EXACT_SUM):
            return None
        whole = np.rint(scaled)
        near = scaled == whole if not digits else np.abs(scaled - whole) <= 1e-15 * scaled
        if near.all() and whole.min() >= 1:
            integers = whole.astype(np.int64)
            g = int(np.gcd.reduce(integers))
            return integers // g, Fraction(power, g)
    return None
