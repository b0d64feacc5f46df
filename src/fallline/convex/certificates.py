"""Smoothness laws proved from the data of a problem."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fallline.convex.laws import L0L1Smooth


def poisson_smoothness(
    X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None, intercept: bool = True
) -> L0L1Smooth:
    """Return the law of Poisson regression with a log link.

    For f(w) = sum_i w_i (exp(eta_i) - y_i eta_i) / sum_i w_i with eta = X w, the Hessian is at
    most A^2 mean(exp(eta)), A the largest norm of a row, and the gradient's component of the
    intercept is mean(exp(eta)) - mean(y). Hence L0 = A^2 mean(y) and L1 = A^2.

    Parameters
    ----------
    X
        Design matrix (n, d).
    y
        Counts (n,), >= 0, not all zero.
    sample_weight
        Weights (n,) >= 0; the loss is their weighted mean. Rows of weight 0 count for nothing.
    intercept
        Whether the model has an intercept. Where no column of `X` is constantly 1, the intercept
        is taken to stand beside `X`. Without one, some combination `X v = 1` must exist, as with
        full dummy coding; then L1 = A^2 ||v||.

    Raises
    ------
    ValueError
        If shapes or values do not fit, or there is neither an intercept nor such a `v`.

    References
    ----------
    arXiv:2508.06884, the (L0, L1) case; the constants are derived above.

    Examples
    --------
    >>> poisson_smoothness([[1.0, 0.0], [1.0, 2.0]], [1, 3])
    L0L1Smooth(L0=10.0, L1=5.0)
    """
    where = "poisson_smoothness"
    rows = _design(where, X)
    counts = np.asarray(y, dtype=np.float64)
    if counts.shape != rows.shape[:1]:
        raise ValueError(
            f"{where}: y must have shape {rows.shape[:1]} to match X, got {counts.shape}"
        )
    if not (np.isfinite(counts).all() and (counts >= 0.0).all()):
        raise ValueError(f"{where}: y must be finite and >= 0, got {counts.min()!r} as its minimum")
    weight = np.ones(len(counts))
    if sample_weight is not None:
        weight = np.asarray(sample_weight, dtype=np.float64)
        if weight.shape != counts.shape or not (weight >= 0.0).all() or not weight.any():
            raise ValueError(
                f"{where}: sample_weight must have shape {counts.shape}, be >= 0 and not all zero, "
                f"got shape {weight.shape}, minimum {weight.min(initial=0.0)!r}"
            )
    mean = float(np.average(counts, weights=weight))
    if mean == 0.0:
        raise ValueError(f"{where}: y must not be all zero: the loss then has no minimizer")
    A2, v = _rows_and_constant(where, rows[weight > 0.0], intercept)
    return L0L1Smooth(A2 * mean, A2 * v)


def gamma_smoothness(X: ArrayLike, intercept: bool = True) -> L0L1Smooth:
    """Return the law of gamma regression with a log link.

    For f(w) = mean(eta_i + y_i exp(-eta_i)) with eta = X w and y > 0, the Hessian is at most
    A^2 mean(y exp(-eta)), and the gradient's component of the intercept is 1 - mean(y exp(-eta)).
    Hence L0 = L1 = A^2, whatever y and any weights are.

    Parameters
    ----------
    X
        Design matrix (n, d).
    intercept
        As in `poisson_smoothness`.

    Raises
    ------
    ValueError
        If `X` does not fit, or there is neither an intercept nor a combination `X v = 1`.

    References
    ----------
    arXiv:2508.06884, the (L0, L1) case; the constants are derived above.

    Examples
    --------
    >>> gamma_smoothness([[1.0, 0.0], [1.0, 2.0]])
    L0L1Smooth(L0=5.0, L1=5.0)
    """
    where = "gamma_smoothness"
    A2, v = _rows_and_constant(where, _design(where, X), intercept)
    return L0L1Smooth(A2, A2 * v)


def exp_affine_smoothness(a: ArrayLike, c: ArrayLike) -> L0L1Smooth:
    """Return the law of f(x) = exp(<a, x> + b) + <c, x>.

    The Hessian's norm is ||a|| ||grad f - c||: L0 = ||a|| ||c|| and L1 = ||a||.

    Parameters
    ----------
    a
        Direction of the exponential (d,), not zero.
    c
        Slope of the affine part (d,), not zero: without one the infimum is not attained.

    Raises
    ------
    ValueError
        If a vector is zero or not finite, or their shapes differ.

    Examples
    --------
    >>> exp_affine_smoothness([3.0, 4.0], [-0.6, -0.8])
    L0L1Smooth(L0=5.0, L1=5.0)
    """
    where = "exp_affine_smoothness"
    direction, slope = _vector(where, "a", a), _vector(where, "c", c)
    if direction.shape != slope.shape:
        raise ValueError(f"{where}: c must have a's shape {direction.shape}, got {slope.shape}")
    size = float(np.linalg.norm(direction))
    return L0L1Smooth(size * float(np.linalg.norm(slope)), size)


def cosh_smoothness(weights: ArrayLike, rates: ArrayLike) -> L0L1Smooth:
    """Return the law of f(x) = sum_i weights_i (cosh(rates_i (x_i - shift_i)) - 1).

    Since w r^2 cosh <= w r^2 + r |w r sinh|, L0 = max(weights rates^2) and L1 = max(rates). A
    non-negative quadratic of curvature at most L0 may be added in other coordinates.

    Parameters
    ----------
    weights
        Factors (d,), > 0.
    rates
        Rates (d,) or one for all, > 0.

    Raises
    ------
    ValueError
        If a number is not positive and finite.

    Examples
    --------
    >>> cosh_smoothness([1.0, 0.5], 2.0)
    L0L1Smooth(L0=4.0, L1=2.0)
    """
    where = "cosh_smoothness"
    w, r = np.broadcast_arrays(np.asarray(weights, float), np.asarray(rates, float))
    for name, values in (("weights", w), ("rates", r)):
        if not values.size or not ((values > 0.0) & np.isfinite(values)).all():
            raise ValueError(f"{where}: {name} must be > 0 and finite, got {values!r}")
    return L0L1Smooth(float(np.max(w * r * r)), float(r.max()))


def _design(where: str, X: ArrayLike) -> NDArray[np.float64]:
    rows = np.asarray(X, dtype=np.float64)
    if rows.ndim != 2 or not rows.size:
        raise ValueError(f"{where}: X must be a matrix (n, d) with n, d >= 1, got {rows.shape}")
    if not np.isfinite(rows).all():
        raise ValueError(f"{where}: X must be finite")
    return rows


def _rows_and_constant(
    where: str, rows: NDArray[np.float64], intercept: bool
) -> tuple[float, float]:
    """Return the largest squared norm of a row and the norm of a v with X v = 1."""
    A2 = float(np.einsum("ij,ij->i", rows, rows).max())
    if intercept:
        beside = not (rows == 1.0).all(axis=0).any()
        return A2 + beside, 1.0
    v: Any = np.linalg.lstsq(rows, np.ones(len(rows)), rcond=None)[0]
    if np.abs(rows @ v - 1.0).max() > 1e-9:
        raise ValueError(
            f"{where}: without an intercept no combination of the columns of X is constant, and "
            "the gradient bounds no curvature; add a column of ones or pass intercept=True"
        )
    return A2, float(np.linalg.norm(v))


def _vector(where: str, name: str, values: Any) -> NDArray[np.float64]:
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1 or not np.isfinite(vector).all() or not vector.any():
        raise ValueError(f"{where}: {name} must be a finite vector, not zero, got {vector!r}")
    return vector
