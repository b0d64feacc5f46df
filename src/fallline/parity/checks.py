"""Refusals that the folder shares, each naming the argument, its value and the valid range."""

from __future__ import annotations

import math
from numbers import Integral, Real


def check_density(p_e: object, name: str = "p_e") -> float:
    """Return p_e in (0, 1] as a float."""
    if not 0 < _number(p_e) <= 1:
        raise ValueError(f"{name} must lie in (0, 1], got {p_e!r}")
    return _number(p_e)


def check_rate(lr: object, name: str = "lr") -> float:
    """Return a step size > 0 as a float."""
    if not 0 < _number(lr) < math.inf:
        raise ValueError(f"{name} must be > 0 and finite, got {lr!r}")
    return _number(lr)


def check_noise(noise: object) -> float:
    """Return a share of flipped labels in [0, 1/2) as a float."""
    if not 0 <= _number(noise) < 0.5:
        raise ValueError(f"noise must lie in [0, 0.5): at 0.5 labels say nothing; got {noise!r}")
    return _number(noise)


def check_count(value: object, name: str, least: int = 1) -> int:
    """Return an integer >= `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} must be an integer >= {least}, got {value!r}")
    return int(value)


def _number(value: object) -> float:
    """Return a real number as a float, and NaN, which no range holds, for anything else."""
    return float(value) if isinstance(value, Real) else math.nan
