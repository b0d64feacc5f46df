"""One run of a first-order method: counted evaluations, the stop tests, the history."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import OptimizeResult

CONVERGED, MAXITER, MAX_NGEV, STALLED, CALLBACK = 0, 1, 2, 3, 99
HISTORY = ("njev", "fun", "gnorm", "gamma", "Gamma", "gap_bound")


class Halt(Exception):  # noqa: N818 -- the end of a run, which is no error
    """The run is over: a status and why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """Where the gradient was taken: x, f (NaN if not asked for), g and its norm s."""

    x: NDArray[Any]
    f: float
    g: NDArray[Any]
    s: float

    @property
    def finite(self) -> bool:
        """Whether value (if known) and gradient are finite; an infinite trial is a rejection."""
        return math.isfinite(self.s) and (math.isnan(self.f) or math.isfinite(self.f))


class Run:
    """Evaluates, counts, records and decides when to stop.

    With `jac=True` every evaluation gives a value too. With a gradient of its own, `fun` is called
    only at the ends, unless `values` says that the method needs them all.
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        jac: Literal[True] | Callable[..., Any],
        *,
        values: bool = False,
        gtol: float = 1e-8,
        gap_tol: float | None = None,
        maxiter: int = 10_000,
        max_ngev: int | None = None,
        callback: Callable[[OptimizeResult], object] | None = None,
    ) -> None:
        if not callable(fun):
            raise TypeError(f"fun must be callable, got {fun!r}")
        if jac is not True and not callable(jac):
            raise ValueError(
                f"jac must be True (fun returns value and gradient) or a callable, got {jac!r}"
            )
        if not gtol >= 0.0:
            raise ValueError(f"gtol must be >= 0, got {gtol!r}")
        if gap_tol is not None and not gap_tol > 0.0:
            raise ValueError(f"gap_tol must be > 0, got {gap_tol!r}")
        if not maxiter >= 1:
            raise ValueError(f"maxiter must be >= 1, got {maxiter!r}")
        if max_ngev is not None and not max_ngev >= 1:
            raise ValueError(f"max_ngev must be >= 1, got {max_ngev!r}")
        self.fun = fun
        self.jac = jac
        self.values = values or callback is not None
        self.gtol = gtol
        self.gap_tol = gap_tol
        self.maxiter = maxiter
        self.max_ngev = max_ngev
        self.callback = callback
        self.nfev = self.njev = self.nit = self.stage1_nit = self.n_rejected = 0
        self.history: list[tuple[float, ...]] = []
        self.point: Point

    def start(self, x0: ArrayLike) -> Point:
        """Evaluate at x0, as float64 unless it is float32.

        Raises
        ------
        ValueError
            If `x0` has more than one dimension, or it, its value or its gradient is not finite.
        """
        x = np.atleast_1d(np.asarray(x0))
        x = x.astype(np.float32 if x.dtype == np.float32 else np.float64)
        if x.ndim != 1 or not x.size:
            raise ValueError(f"x0 must be a vector (d,) with d >= 1, got shape {np.shape(x0)}")
        if not np.isfinite(x).all():
            raise ValueError("x0 must be finite")
        point = self.evaluate(x, value=True)
        if not point.finite:
            raise ValueError(
                f"x0 must have a finite value and gradient, got fun(x0) = {point.f!r} and a "
                f"gradient of norm {point.s!r}; start inside the domain"
            )
        self.point = point
        return point

    def evaluate(self, x: NDArray[Any], *, value: bool = False) -> Point:
        """Call the user's functions at x, which is this run's own from here on."""
        if self.max_ngev is not None and self.njev >= self.max_ngev:
            raise Halt(MAX_NGEV, f"Maximum number of gradient calls ({self.max_ngev}) reached.")
        self.njev += 1
        f = math.nan
        # A trial point may overflow, which is handled; a warning would only tell of the handling.
        with np.errstate(over="ignore", invalid="ignore"):
            if self.jac is True:
                self.nfev += 1
                f, g = self.fun(x.copy())
                f = _scalar(f)
            else:
                g = self.jac(x.copy())
                if value or self.values:
                    f = self.value(x)
            # Copied, since a caller may write every gradient into one buffer.
            gradient = np.array(g, dtype=x.dtype)
            s = float(np.linalg.norm(gradient.astype(np.float64, copy=False)))
        if gradient.shape != x.shape:
            raise ValueError(
                f"the gradient must have the shape of x0, {x.shape}, got {gradient.shape}"
            )
        return Point(x, f, gradient, s)

    def value(self, x: NDArray[Any]) -> float:
        """Call `fun` for its value alone."""
        self.nfev += 1
        with np.errstate(over="ignore", invalid="ignore"):
            return _scalar(self.fun(x.copy()))

    def begin(self, point: Point, Gamma: float, bound: float) -> None:
        """Record the point where a phase starts; the run may be over before its first step."""
        if not self.history:
            self._record(point, math.nan, Gamma, bound)
        self._stop(point, bound)

    def accept(self, point: Point, gamma: float, Gamma: float, bound: float) -> None:
        """Take a step: record it, call back, and stop where a test says so."""
        self.nit += 1
        self.point = point
        self._record(point, gamma, Gamma, bound)
        if self.callback is not None:
            try:
                self.callback(self.result(point.f))
            except StopIteration:
                raise Halt(CALLBACK, "`callback` raised `StopIteration`.") from None
        self._stop(point, bound)
        if self.nit >= self.maxiter:
            raise Halt(MAXITER, f"Maximum number of iterations ({self.maxiter}) reached.")

    def _record(self, point: Point, gamma: float, Gamma: float, bound: float) -> None:
        self.history.append((self.njev, point.f, point.s, gamma, Gamma, bound))

    def _stop(self, point: Point, bound: float) -> None:
        if self.gap_tol is not None and bound <= self.gap_tol:
            raise Halt(CONVERGED, f"Certified gap is at most gap_tol = {self.gap_tol:g}.")
        if point.s <= self.gtol:
            raise Halt(CONVERGED, f"Gradient norm is at most gtol = {self.gtol:g}.")

    def result(self, f: float) -> OptimizeResult:
        """Return the state of the run as SciPy's result."""
        bound = self.history[-1][-1] if self.history else math.nan
        return OptimizeResult(
            x=self.point.x.copy(),
            fun=f,
            jac=self.point.g.copy(),
            nit=self.nit,
            nfev=self.nfev,
            njev=self.njev,
            gap_bound=None if math.isnan(bound) else bound,
            stage1_nit=self.stage1_nit,
            n_rejected=self.n_rejected,
        )

    def finish(self, halt: Halt) -> OptimizeResult:
        """Return the result of a run that is over."""
        f = self.point.f
        result = self.result(self.value(self.point.x) if math.isnan(f) else f)
        result.status, result.message = halt.status, halt.message
        result.success = halt.status == CONVERGED
        columns = np.array(self.history, dtype=np.float64).reshape(-1, len(HISTORY)).T
        result.history = dict(zip(HISTORY, columns))
        result.history["njev"] = result.history["njev"].astype(np.int64)
        return result


def _scalar(value: Any) -> float:
    array = np.asarray(value)
    if array.size != 1:
        raise ValueError(f"fun must return a scalar value, got shape {array.shape}")
    return float(array.reshape(()))
