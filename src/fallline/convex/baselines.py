"""What minimizes convex functions today, under the interface of `minimize_agd`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import OptimizeResult, minimize

from fallline.convex.laws import L0L1Smooth, SmoothnessLaw
from fallline.convex.recursion import accelerate, descend
from fallline.convex.rules import Certificate
from fallline.convex.run import Halt, Point, Run

Jac = Literal[True] | Callable[..., Any]


def gd_l(
    fun: Callable[..., Any],
    x0: ArrayLike,
    jac: Jac = True,
    *,
    smoothness: SmoothnessLaw,
    **options: Any,
) -> OptimizeResult:
    """Gradient descent with the step int_0^1 dv / l(s + s v), s the gradient's norm.

    Parameters
    ----------
    fun, x0, jac
        As in `minimize_agd`.
    smoothness
        The law l.
    **options
        `gtol`, `maxiter`, `max_ngev`, `callback` of `minimize_agd`.

    Returns
    -------
    OptimizeResult
        As of `minimize_agd`, without a certificate.

    Raises
    ------
    FloatingPointError
        If an iterate leaves the domain: the law is wrong.

    References
    ----------
    A. Tyurin, "Toward a Unified Theory of Gradient Descent under Generalized Smoothness",
    arXiv:2412.11773.

    Examples
    --------
    >>> result = gd_l(lambda x: (np.cosh(x[0]), np.sinh(x)), [2.0], smoothness=L0L1Smooth(1, 1))
    >>> result.success
    True
    """
    return _gradient_descent(
        fun, x0, jac, lambda run, start: lambda x: float(smoothness.gd_step(x.s)), options
    )


def gd_fixed(
    fun: Callable[..., Any],
    x0: ArrayLike,
    jac: Jac = True,
    *,
    smoothness: SmoothnessLaw,
    **options: Any,
) -> OptimizeResult:
    """Gradient descent with the constant step 1 / l(2 ||grad f(x0)||): it pays for a steep start.

    Parameters and results are those of `gd_l`.

    Examples
    --------
    >>> result = gd_fixed(lambda x: (np.cosh(x[0]), np.sinh(x)), [2.0], smoothness=L0L1Smooth(1, 1))
    >>> result.success
    True
    """

    def steps(run: Run, start: Point) -> Callable[[Point], float]:
        gamma = 1.0 / float(smoothness(2.0 * start.s))
        return lambda x: gamma

    return _gradient_descent(fun, x0, jac, steps, options)


def normalized_gd(
    fun: Callable[..., Any], x0: ArrayLike, jac: Jac = True, *, radius: float, **options: Any
) -> OptimizeResult:
    """Gradient descent with normalized steps, of length R / sqrt(k + 1).

    Parameters
    ----------
    fun, x0, jac, **options
        As in `gd_l`.
    radius
        R, a bound on ||x0 - x*||, > 0.

    Examples
    --------
    >>> result = normalized_gd(lambda x: (np.cosh(x[0]), np.sinh(x)), [2.0], radius=2.0, maxiter=9)
    >>> bool(result.fun < np.cosh(2.0))
    True
    """
    _positive("radius", radius)
    return _gradient_descent(
        fun, x0, jac, lambda run, start: lambda x: radius / math.sqrt(run.nit + 1) / x.s, options
    )


def polyak_gd(
    fun: Callable[..., Any], x0: ArrayLike, jac: Jac = True, *, f_star: float, **options: Any
) -> OptimizeResult:
    """Gradient descent with Polyak's step (f(x) - f*) / ||g||^2; stops where f reaches `f_star`.

    Parameters
    ----------
    fun, x0, jac, **options
        As in `gd_l`.
    f_star
        The least value of the function.

    Examples
    --------
    >>> result = polyak_gd(lambda x: (np.cosh(x[0]), np.sinh(x)), [2.0], f_star=1.0, gtol=1e-6)
    >>> result.success
    True
    """
    return _gradient_descent(
        fun,
        x0,
        jac,
        lambda run, start: lambda x: (x.f - f_star) / x.s**2,
        {**options, "values": True},
    )


def nag_frozen(
    fun: Callable[..., Any],
    x0: ArrayLike,
    jac: Jac = True,
    *,
    smoothness: SmoothnessLaw,
    radius: float,
    gap0: float | None = None,
    **options: Any,
) -> OptimizeResult:
    """Accelerated descent with the constant step 1 / l(psi_inv(delta)) that the start allows.

    Parameters
    ----------
    fun, x0, jac, **options
        As in `gd_l`, and `gap_tol`.
    smoothness, radius, gap0
        As in `minimize_agd`.

    Raises
    ------
    ValueError
        If the law bounds no gradient at the start's gap.

    Examples
    --------
    >>> result = nag_frozen(
    ...     lambda x: (np.cosh(x[0]), np.sinh(x)), [2.0], smoothness=L0L1Smooth(1, 1), radius=2.0
    ... )
    >>> result.success
    True
    """

    def gamma(certificate: Certificate) -> float:
        return 1.0 / float(smoothness(smoothness.psi_inv(certificate.delta)))

    return _constant_agd(fun, x0, jac, gamma, radius, gap0, options)


def nag_exp(
    fun: Callable[..., Any],
    x0: ArrayLike,
    jac: Jac = True,
    *,
    smoothness: L0L1Smooth,
    radius: float,
    gap0: float | None = None,
    **options: Any,
) -> OptimizeResult:
    """Accelerated descent with the step 1 / (L0 (1 + L1 R exp(L1 R))) of earlier analyses.

    Parameters and results are those of `nag_frozen`; the law is an `L0L1Smooth`.

    Examples
    --------
    >>> result = nag_exp(
    ...     lambda x: (np.cosh(x[0]), np.sinh(x)), [2.0], smoothness=L0L1Smooth(1, 1), radius=2.0
    ... )
    >>> result.success
    True
    """

    def gamma(certificate: Certificate) -> float:
        grown = smoothness.L1 * radius
        try:
            return 1.0 / (smoothness.L0 * (1.0 + grown * math.exp(grown)))
        except OverflowError:
            return 0.0

    return _constant_agd(fun, x0, jac, gamma, radius, gap0, options)


def agmsdr(
    fun: Callable[..., Any],
    x0: ArrayLike,
    jac: Jac = True,
    *,
    smoothness: SmoothnessLaw,
    **options: Any,
) -> OptimizeResult:
    """Accelerated descent that searches the segment between its two sequences in each step.

    y = argmin over b in [0, 1] of f(v + b (x - v)), by bisection on the derivative's sign until the
    gradient is orthogonal to the segment up to a cosine of 1e-3, or 30 halvings;
    x+ = y - gd_step g; a solves a^2 = (A + a) c with c = 2 (f(y) - f(x+)) / ||g||^2; v -= a g.

    Parameters and results are those of `gd_l`; `fun` is called at every trial.

    References
    ----------
    Y. Nesterov, A. Gasnikov, S. Guminov, P. Dvurechensky, "Primal-dual accelerated gradient methods
    with small-dimensional relaxation oracle", arXiv:1809.05895.

    Examples
    --------
    >>> result = agmsdr(lambda x: (np.cosh(x[0]), np.sinh(x)), [2.0], smoothness=L0L1Smooth(1, 1))
    >>> result.success
    True
    """
    run = Run(fun, jac, **{**options, "values": True})
    x = run.start(x0)
    v, A = x.x.copy(), 0.0
    try:
        run.begin(x, math.nan, math.nan)
        while True:
            y = _best_between(run, v, x)
            if y.s <= run.gtol:
                run.accept(y, math.nan, math.nan, math.nan)
            gamma = float(smoothness.gd_step(y.s))
            x = run.evaluate(y.x - gamma * y.g)
            if not x.finite:
                raise FloatingPointError("left the domain or overflowed: smoothness is wrong")
            c = max(2.0 * (y.f - x.f) / y.s**2, 0.0)
            a = 0.5 * (c + math.sqrt(c * c + 4.0 * A * c))
            A += a
            v -= a * y.g
            run.accept(x, gamma, math.nan, math.nan)
    except Halt as halt:
        return run.finish(halt)


def _best_between(run: Run, v: Any, x: Point) -> Point:
    d = x.x - v
    length = float(np.linalg.norm(d))
    if length == 0.0 or float(np.dot(x.g, d)) <= 0.0:
        return x
    low, high = 0.0, 1.0
    y = run.evaluate(v.copy())
    if y.finite and float(np.dot(y.g, d)) >= 0.0:
        return y
    for _ in range(30):
        b = 0.5 * (low + high)
        y = run.evaluate(v + b * d)
        slope = float(np.dot(y.g, d)) if y.finite else -math.inf
        if abs(slope) <= 1e-3 * y.s * length:
            break
        low, high = (b, high) if slope < 0.0 else (low, b)
    return y if y.finite else x


def lbfgs(
    fun: Callable[..., Any],
    x0: ArrayLike,
    jac: Jac = True,
    *,
    gtol: float = 1e-8,
    maxiter: int = 10_000,
    max_ngev: int | None = None,
    callback: Callable[[OptimizeResult], object] | None = None,
) -> OptimizeResult:
    """L-BFGS-B of SciPy with 10 pairs: usually the fewest gradient calls, without a guarantee.

    Parameters
    ----------
    fun, x0, jac, maxiter, max_ngev
        As in `minimize_agd`.
    gtol
        Bound on the gradient's largest component, as SciPy has it; no test on the decrease.
    callback
        Called with SciPy's intermediate result.

    Returns
    -------
    OptimizeResult
        SciPy's own.

    Examples
    --------
    >>> lbfgs(lambda x: (np.cosh(x[0]), np.sinh(x)), [2.0]).success
    True
    """
    options = {"maxcor": 10, "ftol": 0.0, "gtol": gtol, "maxiter": maxiter}
    options["maxfun"] = 10**9 if max_ngev is None else max_ngev

    def report(intermediate_result: OptimizeResult) -> None:
        if callback is not None:
            callback(intermediate_result)

    result: OptimizeResult = minimize(
        fun, x0, jac=jac, method="L-BFGS-B", options=options, callback=report
    )
    return result


def _gradient_descent(
    fun: Callable[..., Any],
    x0: ArrayLike,
    jac: Jac,
    steps: Callable[[Run, Point], Callable[[Point], float]],
    options: dict[str, Any],
) -> OptimizeResult:
    run = Run(fun, jac, **options)
    start = run.start(x0)
    try:
        descend(run, start, steps(run, start))
    except Halt as halt:
        return run.finish(halt)
    raise AssertionError("descent without a bound ends by Halt")


class _Constant:
    """One step for ever, unchecked."""

    def __init__(self, gamma: float, certificate: Certificate) -> None:
        self.gamma = gamma
        self.certificate = certificate

    def propose(self, y: Point, Gamma: float) -> float:
        return self.gamma

    def accepts(self, y: Point, new: Point, gamma: float) -> bool:
        if not new.finite:
            raise FloatingPointError("left the domain or overflowed: radius or smoothness is wrong")
        return True

    def restarts(self, y: Point, new: Point, alpha: float) -> bool:
        return False

    def gap_bound(self, Gamma: float, s: float) -> float:
        return self.certificate.gap_bound(Gamma, s)


def _constant_agd(
    fun: Callable[..., Any],
    x0: ArrayLike,
    jac: Jac,
    gamma: Callable[[Certificate], float],
    radius: float,
    gap0: float | None,
    options: dict[str, Any],
) -> OptimizeResult:
    _positive("radius", radius)
    run = Run(fun, jac, **options)
    start = run.start(x0)
    try:
        if start.s == 0.0:
            run.begin(start, math.nan, 0.0)
        certificate = Certificate.from_gap(gap0 or start.s * radius, radius)
        _run_constant(run, start, gamma(certificate), certificate)
    except Halt as halt:
        return run.finish(halt)


def _run_constant(run: Run, start: Point, gamma: float, certificate: Certificate) -> NoReturn:
    accelerate(run, start, _Constant(gamma, certificate), certificate.Gamma_0)


def _positive(name: str, value: float) -> None:
    if not 0.0 < value < math.inf:
        raise ValueError(f"{name} must be > 0 and finite, got {value!r}")
