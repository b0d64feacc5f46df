"""Smoothness laws: how fast the curvature of a convex function may grow with its gradient."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.optimize import brentq

Array: TypeAlias = NDArray[np.float64]

# psi is computed to about 1e-13 relative (below 1e-14 away from the switches between a series and
# a closed form), so that a root found for this much more energy is never an under-estimate.
OUTWARD = 1.0 + 1e-12

# Beyond exp(345) squares of s overflow.
_LOG_END = 345.0
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)


class SmoothnessLaw(ABC):
    """A law l with ||hess f(x)|| <= l(||grad f(x)||) wherever f is twice differentiable.

    l is positive and non-decreasing on [0, inf). All methods take a float and return a float, or
    work elementwise on a NumPy array.
    """

    def __call__(self, s: Any) -> Any:
        """Bound the curvature where the gradient's norm is `s`."""
        if isinstance(s, float):  # twice a step
            return float(self._level(s))
        return like(s, self._level(np.asarray(s, float)))

    def psi(self, s: Any) -> Any:
        """Return int_0^s t / l(t) dt: the gap is at least `psi(||grad f(x)||)`."""
        return like(s, self._psi(np.asarray(s, float)))

    def gd_step(self, s: Any) -> Any:
        """Return int_0^1 dv / l(s + s v): gradient descent's step at a gradient of norm `s`."""
        return like(s, self._gd_step(np.asarray(s, float)))

    def norm_at(self, level: float) -> float:
        """Return the largest `s` with `l(s) <= level`, infinite where there is no largest."""
        if not level >= self(0.0):
            raise ValueError(f"norm_at: level must be >= l(0) = {self(0.0)!r}, got {level!r}")
        return self._norm_at(float(level))

    @property
    def psi_inf(self) -> float:
        """The supremum of `psi`; finite where l grows faster than a square."""
        return math.inf

    def psi_inv(self, E: Any) -> Any:
        """Bound the gradient's norm where the gap is at most `E`; rounded outward, never too small.

        Infinite where the exact value overflows.

        Raises
        ------
        ValueError
            If `E` is negative, NaN, or not below `psi_inf`.
        """
        if np.ndim(E):
            return np.array([self.psi_inv(float(e)) for e in np.ravel(E)]).reshape(np.shape(E))
        E = float(E)
        if not 0.0 <= E < self.psi_inf:
            if math.isinf(E):
                return math.inf
            raise ValueError(
                f"psi_inv: E must be >= 0 and < psi(inf) = {self.psi_inf!r}, got {E!r}; "
                "a gap of psi(inf) or more bounds no gradient under this law"
            )
        return 0.0 if E == 0.0 else self._psi_inv(E)

    @abstractmethod
    def _level(self, s: Any) -> Any: ...

    @abstractmethod
    def _psi(self, s: Array) -> Any: ...

    @abstractmethod
    def _psi_inv(self, E: float) -> float:
        """Solve psi(s) = E > 0 from above."""

    @abstractmethod
    def _gd_step(self, s: Array) -> Any: ...

    @abstractmethod
    def _norm_at(self, level: float) -> float: ...


@dataclass(frozen=True)
class LSmooth(SmoothnessLaw):
    """l(s) = L: the classical case of a Lipschitz gradient.

    Parameters
    ----------
    L
        The Lipschitz constant, > 0.

    Examples
    --------
    >>> LSmooth(4.0).gd_step(10.0)
    0.25
    """

    L: float

    def __post_init__(self) -> None:
        check_positive(self, "L")

    def _level(self, s: Any) -> Any:
        return np.full(np.shape(s), self.L)

    def _psi(self, s: Array) -> Any:
        return s * s / (2.0 * self.L)

    def _gd_step(self, s: Array) -> Any:
        return np.full(np.shape(s), 1.0 / self.L)

    def _norm_at(self, level: float) -> float:
        return math.inf

    def _psi_inv(self, E: float) -> float:
        return math.sqrt(2.0 * self.L) * math.sqrt(E) * OUTWARD


@dataclass(frozen=True)
class L0L1Smooth(SmoothnessLaw):
    """l(s) = L0 + L1 s: exponentials, cosh, Poisson and gamma regression.

    Parameters
    ----------
    L0
        Curvature where the gradient vanishes, > 0.
    L1
        Growth with the gradient, >= 0.

    Examples
    --------
    >>> law = L0L1Smooth(1.0, 1.0)
    >>> law.psi(1.0), law.gd_step(1.0)  # 1 - ln 2, ln 1.5
    (0.3068528194400547, 0.4054651081081644)
    """

    L0: float
    L1: float

    def __post_init__(self) -> None:
        check_positive(self, "L0")
        check_nonnegative(self, "L1")

    def _level(self, s: Any) -> Any:
        return self.L0 + self.L1 * s if self.L1 else np.full(np.shape(s), self.L0)

    def _psi(self, s: Array) -> Any:
        if not self.L1:
            return s * s / (2.0 * self.L0)
        tau = s * (self.L1 / self.L0)
        return self.L0 / self.L1 * (minus_log1p(tau) / self.L1)

    def _gd_step(self, s: Array) -> Any:
        # The integral is log1p(r / (1 + r)) / (L1 s), which is 0 / 0 at s = 0.
        r = s * (self.L1 / self.L0)
        small = r < 1e-6
        q = np.where(small, 1.0, r)
        step = np.where(small, 1.0 / (1.0 + 1.5 * r), np.log1p(q / (1.0 + q)) / q)
        return step / self.L0

    def _norm_at(self, level: float) -> float:
        return (level - self.L0) / self.L1 if self.L1 else math.inf

    def _psi_inv(self, E: float) -> float:
        flat = math.sqrt(2.0 * self.L0) * math.sqrt(E)
        a = flat * (self.L1 / self.L0)
        if a < 1e-4:
            # The series of tau in a = sqrt(2 e), over a; its next term is -a^3 / 270.
            return flat * (1.0 + a / 3.0 + a * a / 36.0) * OUTWARD
        e = 0.5 * a * a
        if math.isinf(e):
            return math.inf
        # tau - log1p(tau) is convex: Newton comes down monotonically from an upper bound.
        tau = e + math.sqrt(e) * math.sqrt(e + 2.0)
        for _ in range(8):
            step = (_minus_log1p(tau) - e) * ((1.0 + tau) / tau)
            tau -= step
            if not step > 1e-14 * tau:
                break
        return tau * OUTWARD * (self.L0 / self.L1)


@dataclass(frozen=True)
class PowerSmooth(SmoothnessLaw):
    """l(s) = L0 + L1 s^rho; `rho` above 2 has a finite `psi_inf`.

    Parameters
    ----------
    L0
        Curvature where the gradient vanishes, > 0.
    L1
        Growth with the gradient's power, >= 0.
    rho
        The power, > 0.

    Examples
    --------
    >>> law = PowerSmooth(1.0, 2.0, 3.0)
    >>> round(law.psi(2.0), 12), round(law.psi_inf, 12)
    (0.515520565067, 0.761747999762)
    """

    L0: float
    L1: float
    rho: float

    def __post_init__(self) -> None:
        check_positive(self, "L0")
        check_nonnegative(self, "L1")
        check_positive(self, "rho")

    def _level(self, s: Any) -> Any:
        if not self.L1:
            return np.full(np.shape(s), self.L0)
        with np.errstate(over="ignore"):
            return self.L0 + self.L1 * np.power(s, self.rho)

    def _psi(self, s: Array) -> Any:
        with np.errstate(over="ignore", invalid="ignore"):
            z = self.L1 / self.L0 * np.power(s, self.rho)
            if self.rho == 2.0 and self.L1:
                value = np.log1p(z) / (2.0 * self.L1)
            else:
                a = 2.0 / self.rho
                value = s * (s / (2.0 * self.L0) * special.hyp2f1(1.0, a, 1.0 + a, -z))
        return np.where(np.isfinite(value), value, self.psi_inf)

    @property
    def psi_inf(self) -> float:
        """The supremum of `psi`, infinite up to `rho = 2`."""
        if self.rho <= 2.0 or not self.L1:
            return math.inf
        a = 2.0 / self.rho
        unit = math.pi / self.rho / math.sin(a * math.pi)
        return float(unit * self.L0 ** (a - 1.0) * self.L1**-a)

    def _gd_step(self, s: Array) -> Any:
        if self.rho != 2.0 or not self.L1:
            return quadrature_step(self, s)
        # atan(2 q s) - atan(q s) by the addition theorem, which has no cancellation.
        q = math.sqrt(self.L1 / self.L0)
        x = s * q
        safe = np.where(x > 0.0, x, 1.0)
        step = np.where(x > 0.0, np.arctan(safe / (1.0 + 2.0 * safe * safe)) / safe, 1.0)
        return step / self.L0

    def _norm_at(self, level: float) -> float:
        return float(((level - self.L0) / self.L1) ** (1.0 / self.rho)) if self.L1 else math.inf

    def _psi_inv(self, E: float) -> float:
        if not self.L1:
            return math.sqrt(2.0 * self.L0) * math.sqrt(E) * OUTWARD
        if self.rho == 2.0:
            try:
                # expm1 loses as many ulps as its argument is large.
                grown = math.expm1(2.0 * self.L1 * E * OUTWARD)
            except OverflowError:
                return math.inf
            return math.sqrt(self.L0 / self.L1) * math.sqrt(grown) * OUTWARD
        # The hypergeometric function loses digits where 2 / rho is nearly, but not quite, whole.
        a = 2.0 / self.rho
        near = abs(a - round(a))
        return root_above(self.psi, E, self.L0, OUTWARD + (2e-15 / near if near else 0.0))


@dataclass(frozen=True)
class ShiftedSquareSmooth(SmoothnessLaw):
    """l(s) = (c + s)^2: logarithmic barriers.

    Parameters
    ----------
    c
        Square root of the curvature where the gradient vanishes, > 0.

    Examples
    --------
    >>> ShiftedSquareSmooth(1.0).gd_step(1.0)
    0.16666666666666666
    """

    c: float

    def __post_init__(self) -> None:
        check_positive(self, "c")

    def _level(self, s: Any) -> Any:
        return (self.c + s) ** 2

    def _psi(self, s: Array) -> Any:
        x = s / self.c
        # log1p(x) - x / (1 + x) cancels for small x.
        n = np.arange(2, 12)
        low = np.minimum(x, 1e-2)
        series = low * low * np.polyval(((-1.0) ** n * (n - 1) / n)[::-1], low)
        return np.where(x < 1e-2, series, np.log1p(x) - x / (1.0 + x))

    def _gd_step(self, s: Array) -> Any:
        return 1.0 / ((self.c + s) * (self.c + 2.0 * s))

    def _norm_at(self, level: float) -> float:
        return math.sqrt(level) - self.c

    def _psi_inv(self, E: float) -> float:
        return root_above(self.psi, E, self.c * self.c)


def root_above(
    psi: Callable[[float], float], E: float, L0: float, outward: float = OUTWARD
) -> float:
    """Solve psi(s) = E outward, for an increasing psi with psi(s) <= s^2 / (2 L0)."""
    target = E * outward
    # Brent works on log s, since psi_inv may be exponential in E.
    low = 0.5 * (math.log(2.0 * L0) + math.log(target)) - 1e-9
    high = low + 1.0
    while psi(math.exp(min(high, _LOG_END))) < target:
        # psi may also saturate below the target in floating point, where psi(inf) is finite.
        if high >= _LOG_END:
            return math.inf
        high += high - low
    t = brentq(lambda t: psi(math.exp(t)) - target, low, min(high, _LOG_END), xtol=1e-14)
    return math.exp(float(t) + 1e-12)


def quadrature_step(law: Callable[[Array], Any], s: Array) -> Any:
    """Integrate dv / l(s + s v) over [0, 1] by Gauss and Legendre with 64 nodes."""
    at = np.multiply.outer(s, 1.5 + 0.5 * _NODES)
    return (1.0 / law(at)) @ (0.5 * _WEIGHTS)


def minus_log1p(tau: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return tau - log1p(tau) for arrays, by its series where the difference cancels."""
    n = np.arange(2, 12)
    low = np.minimum(tau, 1e-2)
    series = low * low * np.polyval(((-1.0) ** n / n)[::-1], low)
    return np.where(tau < 1e-2, series, tau - np.log1p(tau))


def _minus_log1p(tau: float) -> float:
    if tau >= 1e-2:
        return tau - math.log1p(tau)
    total = 0.0
    for n in range(11, 1, -1):
        total = (1.0 if n % 2 == 0 else -1.0) / n + tau * total
    return tau * tau * total


def like(s: Any, value: Any) -> Any:
    """Return a float for a scalar argument and the array for an array."""
    return value if np.ndim(s) else float(value)


def check_positive(law: SmoothnessLaw, name: str) -> None:
    """Make the field a float; raise unless 0 < value < inf."""
    value = _as_float(law, name)
    if not 0.0 < value < math.inf:
        raise ValueError(f"{type(law).__name__}: {name} must be > 0 and finite, got {value!r}")


def check_nonnegative(law: SmoothnessLaw, name: str) -> None:
    """Make the field a float; raise unless 0 <= value < inf."""
    value = _as_float(law, name)
    if not 0.0 <= value < math.inf:
        raise ValueError(f"{type(law).__name__}: {name} must be >= 0 and finite, got {value!r}")


def _as_float(law: SmoothnessLaw, name: str) -> float:
    # A NumPy scalar of single precision would round psi_inv inward.
    value = float(getattr(law, name))
    object.__setattr__(law, name, value)
    return value
