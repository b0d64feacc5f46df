"""Accelerated gradient descent under generalized smoothness, with a certificate of the gap."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import OptimizeResult

from fallline.convex.laws import SmoothnessLaw
from fallline.convex.recursion import accelerate, descend
from fallline.convex.rules import (
    Adaptive,
    AssumptionWarning,
    Certificate,
    LineSearch,
    Planned,
    needs_warm_start,
    scheduled_step,
)
from fallline.convex.run import Halt, Point, Run

Mode = Literal["auto", "two_stage", "schedule", "adaptive", "linesearch"]


def minimize_agd(
    fun: Callable[..., Any],
    x0: ArrayLike,
    jac: Literal[True] | Callable[..., Any] = True,
    *,
    smoothness: SmoothnessLaw | None = None,
    radius: float | None = None,
    f_star: float | None = None,
    gap0: float | None = None,
    mode: Mode = "auto",
    gtol: float = 1e-8,
    gap_tol: float | None = None,
    maxiter: int = 10_000,
    max_ngev: int | None = None,
    callback: Callable[[OptimizeResult], object] | None = None,
    strict: bool = False,
    restart: bool = False,
) -> OptimizeResult:
    """Minimize a convex function whose curvature may grow with its gradient.

    One gradient per iteration and three vectors of memory. Under ||hess f|| <= l(||grad f||) the
    gap falls to eps within O(sqrt(l(0)) R / sqrt(eps)) gradient calls for small eps, however
    large the first gradient was.

    Parameters
    ----------
    fun
        The function, differentiable and convex; returns (value, gradient) where `jac` is True.
    x0
        Start (d,); float32 is kept, anything else becomes float64.
    jac
        True, or a callable that returns the gradient. With a callable, `fun` is called only at the
        ends, in mode `linesearch`, for a callback, and for a first stage that knows `f_star`;
        `history["fun"]` is NaN elsewhere.
    smoothness
        The law l, such as `L0L1Smooth(1, 1)` or `poisson_smoothness(X, y)`.
    radius
        A bound R >= ||x0 - x*|| on the distance to a minimizer.
    f_star
        The least value, if it is known.
    gap0
        A bound on f(x0) - f*; by default from `f_star`, else ||grad f(x0)|| R.
    mode
        - `two_stage`: gradient descent until the curvature is at most 2 l(0), then constant
          steps. Needs `smoothness` and `radius`.
        - `schedule`: steps that grow with the certificate and are never refused. Needs
          `smoothness` and `radius`. Starts with gradient descent where the law gives no step at
          this gap, or one a thousand times below 1 / l(0).
        - `adaptive`: a step by the gradient's norm, halved if the next norm is too large. Needs
          `smoothness`.
        - `linesearch`: a step by function values. Needs nothing.
        - `auto`: `adaptive` where `smoothness` is given, else `linesearch`.
    gtol
        Stop where the gradient's Euclidean norm is at most this.
    gap_tol
        Stop where the certified gap is at most this; needs `radius`.
    maxiter, max_ngev
        Limits on accepted steps and on gradient calls, refused trials and the first stage included.
    callback
        Called with the state (an `OptimizeResult`) after each step; may raise `StopIteration`.
    strict
        Raise where `radius`, `gap0` or `smoothness` is found wrong, instead of warning and going
        on as `adaptive`.
    restart
        Only in mode `linesearch`: forget the momentum where it points uphill. Converges linearly on
        well-conditioned problems, but certifies no gap.

    Returns
    -------
    OptimizeResult
        SciPy's fields; `gap_bound`, the certified bound on f(x) - f* or None; `stage1_nit`;
        `n_rejected`; and `history`, a dict of arrays over the accepted points: `njev`, `fun`,
        `gnorm`, `gamma`, `Gamma`, `gap_bound`. `status` is 0 converged, 1 `maxiter`, 2 `max_ngev`,
        3 stalled, 99 stopped by `callback`.

    Raises
    ------
    ValueError
        If an argument is out of range, a mode lacks one, `x0` is not finite or has no finite
        value, or (with `strict`) an assumption is found wrong.
    TypeError
        If `fun` is not callable or `smoothness` is not a law.
    FloatingPointError
        If value or gradient is not finite on a path that a plan of steps had proved safe.

    Warns
    -----
    AssumptionWarning
        If a gradient shows `radius`, `gap0` or `smoothness` to be wrong. The test is one-sided: a
        wrong radius need not show.

    References
    ----------
    A. Tyurin, "Near-Optimal Convergence of Accelerated Gradient Methods under Generalized and
    (L0, L1)-Smoothness", arXiv:2508.06884; the steps of the first stage from arXiv:2412.11773.
    The recursion, its constants and the modes besides `two_stage` are derived from the paper's
    assumption, ||hess f(x)|| <= l(||grad f(x)||).

    Examples
    --------
    >>> import numpy as np
    >>> from fallline.convex import L0L1Smooth, minimize_agd
    >>> def fun(x):  # sum(cosh(x) - 1), without cancellation
    ...     return 2.0 * np.sum(np.sinh(x / 2.0) ** 2), np.sinh(x)
    >>> law = L0L1Smooth(1.0, 1.0)
    >>> result = minimize_agd(fun, [9.0, 4.0], smoothness=law, radius=10.0, gap_tol=1e-6)
    >>> result.success, bool(result.fun <= result.gap_bound <= 1e-6)
    (True, True)
    """
    chosen = _checked_mode(mode, smoothness, radius, gap_tol, restart)
    for name, value in (("gap0", gap0), ("radius", radius)):
        if value is not None and not (0.0 <= value < math.inf and (value or name == "gap0")):
            least = ">= 0" if name == "gap0" else "> 0"
            raise ValueError(f"{name} must be {least} and finite, got {value!r}")
    run = Run(
        fun,
        jac,
        values=chosen == "linesearch",
        gtol=gtol,
        gap_tol=gap_tol,
        maxiter=maxiter,
        max_ngev=max_ngev,
        callback=callback,
    )
    start = run.start(x0)
    if start.x.dtype == np.float32 and gtol < 1e-4:
        warnings.warn(
            f"x0 is float32, whose rounding may keep the gradient above gtol = {gtol:g}; give "
            "gtol >= 1e-4 or a float64 x0",
            AssumptionWarning,
            stacklevel=2,
        )
    if f_star is not None and not -math.inf < f_star <= start.f:
        raise ValueError(f"f_star must be <= fun(x0) = {start.f!r} and finite, got {f_star!r}")
    search = _Search(run, start, smoothness, radius, f_star, gap0, strict, restart)
    try:
        if start.s == 0.0:
            run.begin(start, math.nan, 0.0 if radius is not None else math.nan)
        getattr(search, chosen)()
    except Halt as halt:
        return run.finish(halt)
    raise AssertionError("a search ends by Halt")


@dataclass(frozen=True)
class _Search:
    """What the modes share: the run, its start, and what is known of the problem."""

    run: Run
    start: Point
    law: SmoothnessLaw | None
    radius: float | None
    f_star: float | None
    gap0: float | None
    strict: bool
    restart: bool

    def gap_at(self, x: Point) -> float:
        """Bound the gap at a point no further from x* than the start; NaN where unknown."""
        gap = math.nan
        if self.f_star is not None:
            gap = (self.run.value(x.x) if math.isnan(x.f) else x.f) - self.f_star
        # A difference that rounds to zero is no bound.
        if self.radius is not None and not gap > 0.0:
            gap = x.s * self.radius
        return gap

    @cached_property
    def certificate(self) -> Certificate | None:
        """What is certain at the start."""
        gap = self.gap0 or self.gap_at(self.start)
        return None if self.radius is None else Certificate.from_gap(gap, self.radius)

    def linesearch(self) -> NoReturn:
        gamma = 1.0 / float(self.law(0.0)) if self.law else _probe(self.run, self.start)
        Gamma = self.certificate.Gamma_0 if self.certificate else 1.0 / gamma
        certificate = None if self.restart else self.certificate
        accelerate(self.run, self.start, LineSearch(gamma, certificate, self.restart), Gamma)

    def adaptive(self) -> NoReturn:
        law = self._needed_law
        Gamma = self.certificate.Gamma_0 if self.certificate else float(law(0.0))
        accelerate(self.run, self.start, Adaptive(law, self.certificate), Gamma)

    def two_stage(self) -> NoReturn:
        law, certificate = self._needed_law, self._needed_certificate
        flat = float(law(0.0))
        M = law.norm_at(2.0 * flat)
        if math.isinf(M):
            self._planned(self.start, lambda Gamma: 1.0 / flat, certificate)
        delta, gamma, R = law.psi(M), 1.0 / float(law(M)), certificate.radius
        start = self._descended(law, delta / 2.0)
        Gamma_0 = 2.0 * (delta - self.gap_at(start)) / R**2
        self._planned(start, lambda Gamma: gamma, Certificate(delta, Gamma_0, R))

    def schedule(self) -> NoReturn:
        law, certificate, start = self._needed_law, self._needed_certificate, self.start
        if needs_warm_start(law, certificate.delta):
            M = law.norm_at(4.0 * float(law(0.0)))
            start = self._descended(law, law.psi(M) / 2.0)
            certificate = Certificate.from_gap(self.gap_at(start), certificate.radius)
        self._planned(
            start, lambda Gamma: scheduled_step(law, certificate.energy(Gamma)), certificate
        )

    def _descended(self, law: SmoothnessLaw, until: float) -> Point:
        return descend(
            self.run,
            self.start,
            lambda x: float(law.gd_step(x.s)),
            gap_bound=self.gap_at,
            until=until,
        )

    def _planned(
        self, start: Point, step: Callable[[float], float], certificate: Certificate
    ) -> NoReturn:
        rule = Planned(self._needed_law, step, certificate, self.strict)
        accelerate(self.run, start, rule, certificate.Gamma_0)

    @property
    def _needed_law(self) -> SmoothnessLaw:
        assert self.law is not None
        return self.law

    @property
    def _needed_certificate(self) -> Certificate:
        assert self.certificate is not None
        return self.certificate


def _probe(run: Run, start: Point) -> float:
    """Estimate 1 / curvature by one more gradient, a short way down the first one."""
    length = 1e-4 * (1.0 + float(np.linalg.norm(start.x)))
    while True:
        probe = run.evaluate(start.x - (length / start.s) * start.g)
        if probe.finite:
            turned = float(np.linalg.norm(probe.g - start.g))
            return length / turned if turned > 0.0 else 1.0
        length *= 0.5


def _checked_mode(
    mode: str,
    law: SmoothnessLaw | None,
    radius: float | None,
    gap_tol: float | None,
    restart: bool,
) -> str:
    modes = ("two_stage", "schedule", "adaptive", "linesearch")
    if law is not None and not isinstance(law, SmoothnessLaw):
        raise TypeError(
            f"smoothness must be a law such as L0L1Smooth(1, 1), got {law!r}; "
            "CallableSmooth makes one of a function"
        )
    if mode == "auto":
        mode = "linesearch" if law is None else "adaptive"
    if mode not in modes:
        raise ValueError(f"mode must be 'auto' or one of {', '.join(modes)}, got {mode!r}")
    if law is None and mode != "linesearch":
        raise ValueError(f"mode={mode!r} needs smoothness; mode='linesearch' does without")
    if radius is None and mode in ("two_stage", "schedule"):
        raise ValueError(f"mode={mode!r} needs radius; mode='adaptive' does without")
    if restart and mode != "linesearch":
        raise ValueError(f"restart=True needs mode='linesearch', got mode={mode!r}")
    if gap_tol is not None and (radius is None or restart):
        raise ValueError(
            "gap_tol needs a certified gap, hence radius and restart=False; gtol does without"
        )
    return mode


def scipy_agd(
    fun: Callable[..., Any],
    x0: ArrayLike,
    args: Sequence[Any] = (),
    jac: Any = None,
    hess: Any = None,
    hessp: Any = None,
    bounds: Any = None,
    constraints: Any = (),
    callback: Callable[..., object] | None = None,
    tol: float | None = None,
    disp: bool = False,
    **options: Any,
) -> OptimizeResult:
    """Run `minimize_agd` as a method of `scipy.optimize.minimize`.

    Parameters
    ----------
    fun, x0, args, jac, callback
        As SciPy passes them; a gradient is needed. A callback whose only parameter is named
        `intermediate_result` gets the state, any other the point.
    hess, hessp
        Not used.
    bounds, constraints
        Not supported.
    tol
        SciPy's own tolerance: the `gtol` of a call that names none.
    disp
        Print the closing message.
    **options
        The keyword arguments of `minimize_agd`.

    Raises
    ------
    ValueError
        If there is no gradient, or bounds or constraints are given; and as in `minimize_agd`.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.optimize import minimize
    >>> from fallline.convex import L0L1Smooth, scipy_agd
    >>> result = minimize(
    ...     lambda x: np.sum(np.cosh(x)), [3.0, 1.0], jac=np.sinh, method=scipy_agd,
    ...     options={"smoothness": L0L1Smooth(1.0, 1.0)},
    ... )
    >>> result.success
    True
    """
    if bounds is not None or (constraints is not None and len(np.atleast_1d(constraints))):
        raise ValueError("scipy_agd: bounds and constraints are not supported; method='SLSQP' is")
    if not callable(jac) and jac is not True:
        raise ValueError(
            f"scipy_agd: jac must be True or a callable, got {jac!r}; finite differences cost d "
            "function values per gradient and break the certificate"
        )
    args = tuple(args)
    gradient: Any = (lambda x: jac(x, *args)) if callable(jac) else True
    report = None if callback is None else _scipys_convention(callback)
    if tol is not None:
        options.setdefault("gtol", tol)
    result = minimize_agd(lambda x: fun(x, *args), x0, gradient, callback=report, **options)
    if disp:
        print(f"{result.message} f = {result.fun:.6g}, {result.njev} gradients")
    return result


def _scipys_convention(callback: Callable[..., object]) -> Callable[[OptimizeResult], object]:
    """Call with a state if the only parameter is `intermediate_result`, else with the point.

    SciPy hands a callback to a method that is a callable as it came.
    """
    try:
        takes_state = set(inspect.signature(callback).parameters) == {"intermediate_result"}
    except ValueError:  # a builtin such as list.append
        takes_state = False
    if takes_state:
        return lambda state: callback(intermediate_result=state)
    return lambda state: callback(state.x)
