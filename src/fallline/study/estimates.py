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
        """Return a plain figure, whose interval is itself."""
        return cls(float(value), float(value), float(value))

    @property
    def has_interval(self) -> bool:
        """Whether there is more to say than the value."""
        return not math.isnan(self.low) and self.low < self.high

    def __neg__(self) -> Estimate:
        won = 1 - self.won
        return Estimate(-self.value, -self.high, -self.low, self.n, won)

    def __str__(self) -> str:
        if math.isnan(self.value):
            return "unknown"
        if self.has_interval:
            return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}]"
        return f"{self.value:.4g}"
