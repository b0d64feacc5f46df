"""A smoothness law given as any non-decreasing Python function."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fallline.convex.laws import Array, SmoothnessLaw, quadrature_step

# 24 decades in steps of 1.4 %: an elasticity of l of 10 costs 0.1 % of the outward rounding.
_GRID = np.concatenate([[0.0], np.geomspace(1e-12, 1e12, 4096)])
_COARSE, _COARSE_WEIGHTS = np.polynomial.legendre.leggauss(3)
_FINE, _FINE_WEIGHTS = np.polynomial.legendre.leggauss(5)


@dataclass(frozen=True)
class CallableSmooth(SmoothnessLaw):
    """l(s) = fn(s) for any positive, non-decreasing `fn` of a float.

    psi is tabulated on a logarithmic grid from 1e-12 to 1e12. As a function of s^2 it is concave,
    its slope being 1 / (2 l), so that a chord of the table lies below it and `psi_inv`, which
    follows the chord, lies above the exact value. Beyond the grid `psi_inv` is infinite.

    Parameters
    ----------
    fn
        The law; an `OverflowError` counts as infinite.
    psi_inf
        The integral of t / fn(t) over all t, where it is known to be finite.

    Raises
    ------
    ValueError
        If `fn` is found negative, NaN or decreasing on the grid, or `psi_inf` is not > 0.

    Examples
    --------
    >>> law = CallableSmooth(lambda s: 1.0 + s)
    >>> round(law.psi(1.0), 9), 1.0 < law.psi_inv(law.psi(1.0)) < 1.0001
    (0.306852819, True)
    """

    fn: Callable[[float], float]
    psi_inf: float = math.inf

    def __post_init__(self) -> None:
        if not callable(self.fn):
            raise TypeError(f"CallableSmooth: fn must be callable, got {self.fn!r}")
        if not self.psi_inf > 0.0:
            raise ValueError(f"CallableSmooth: psi_inf must be > 0, got {self.psi_inf!r}")
        levels = self._levels
        if not 0.0 < levels[0] < math.inf or np.isnan(levels).any():
            raise ValueError(
                "CallableSmooth: fn must be positive, finite at 0 and never NaN, got fn(0.0) = "
                f"{levels[0]!r}"
            )
        with np.errstate(invalid="ignore"):
            falls = np.flatnonzero(levels[1:] < levels[:-1] * (1.0 - 1e-12))
        if falls.size:
            a, b = _GRID[falls[0]], _GRID[falls[0] + 1]
            raise ValueError(
                f"CallableSmooth: fn must be non-decreasing, but fn({a:.6g}) = "
                f"{levels[falls[0]]!r} > fn({b:.6g}) = {levels[falls[0] + 1]!r}; "
                "take its running maximum"
            )

    def _level(self, s: Any) -> Any:
        return self._one(s) if isinstance(s, float) else self._at(s)

    def _psi(self, s: Array) -> Any:
        cell = np.clip(np.searchsorted(_GRID, s, side="right") - 1, 0, len(_GRID) - 2)
        value = self._table[cell] + self._between(_GRID[cell], np.minimum(s, _GRID[-1]))
        return np.minimum(value, self.psi_inf)

    def _gd_step(self, s: Array) -> Any:
        return quadrature_step(self, s)

    def _norm_at(self, level: float) -> float:
        last = int(np.searchsorted(self._levels, level, side="right")) - 1
        if last == len(_GRID) - 1:
            return float(_GRID[-1])
        low, high = float(_GRID[last]), float(_GRID[last + 1])
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self(middle) <= level else (low, middle)
        return low

    def _psi_inv(self, E: float) -> float:
        E = E * (1.0 + 1e-12)
        if self._table[-1] < E:
            return math.inf
        return math.sqrt(np.interp(E, self._table, _GRID**2)) * (1.0 + 1e-12)

    def _at(self, s: Array) -> Array:
        return np.array([self._one(t) for t in s.ravel().tolist()]).reshape(s.shape)

    def _one(self, s: float) -> float:
        try:
            return float(self.fn(s))
        except OverflowError:
            return math.inf

    @cached_property
    def _levels(self) -> Array:
        return self._at(_GRID)

    @cached_property
    def _table(self) -> Array:
        """The values of psi on the grid, from below."""
        a, b = _GRID[:-1], _GRID[1:]
        fine = self._between(a, b)
        coarse = self._between(a, b, _COARSE, _COARSE_WEIGHTS)
        # Where fn has a kink the rules differ; monotony bounds each cell whatever fn does in it.
        least = (b * b - a * a) / (2.0 * self._levels[1:])
        cells = np.maximum(fine - np.abs(fine - coarse), least)
        return np.concatenate([[0.0], np.cumsum(cells)])

    def _between(
        self,
        a: Array,
        b: Array,
        nodes: Array = _FINE,
        weights: Array = _FINE_WEIGHTS,
    ) -> Array:
        """Integrate t / l(t) dt from a to b elementwise by Gauss and Legendre."""
        half = 0.5 * np.subtract(b, a)
        t = np.add.outer(nodes, np.zeros(np.shape(half))) * half + 0.5 * np.add(a, b)
        integral = np.tensordot(weights, t / self._at(t), axes=1) * half
        return np.asarray(integral, dtype=np.float64)
