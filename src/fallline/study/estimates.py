"""A figure with its interval."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Estimate:
    """A value with a confidence interval; `low` and `high` are NaN where seeds are too few.

    `n` counts the seeds behind it, `won` the share of seeds on which it favours the first arm.
    """

    value: float
    low: float
    high: float
    n: int = 0
    won: float = math.nan

    @classmethod
    def exact(cls, value: float) -> Estimate:
        """A plain figure: its interval is itself."""
        return cls(float(value), float(value), float(value))

    def __neg__(self) -> Estimate:
        return Estimate(-self.value, -self.high, -self.low, self.n, self.won)
