"""Smooth convex problems without a global Lipschitz constant, with their solutions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
ValueAndGradient = Callable[[Vector], tuple[float, Vector]]


@dataclass(frozen=True, eq=False)
class ConvexProblem:
    """A function with its start and its solution.

    `fun` returns f(x) - f* and the gradient: the gap itself, without cancellation where the
    problem allows. `data` holds the matrix and the response of a regression.
    """

    fun: ValueAndGradient
    x0: Vector
    x_star: Vector
    data: tuple[Vector, Vector] | None = None

    @property
    def radius(self) -> float:
        """||x0 - x*||."""
        return float(np.linalg.norm(self.x0 - self.x_star))

    @property
    def gap(self) -> float:
        """f(x0) - f*."""
        return self.fun(self.x0)[0]


def spectrum_cosh(L1R: float, *, d: int = 400) -> ConvexProblem:
    """Return sum_i lam_i (cosh(L1 x_i) - 1) / L1^2, exactly (1, L1)-smooth, at distance 1.

    Parameters
    ----------
    L1R
        L1 times the distance from the start to the minimizer, which is 1.
    d
        Dimension; lam_1 is 1 and the others fall from 1 to 1e-9.

    Examples
    --------
    >>> problem = spectrum_cosh(8.0)
    >>> round(problem.radius, 12), problem.x_star.any()
    (1.0, np.False_)
    """
    lam = np.concatenate([[1.0], np.logspace(0.0, -9.0, d - 1)])
    x0 = np.full(d, math.sqrt(0.5 / (d - 1)))
    x0[0] = math.sqrt(0.5)

    def fun(x: Vector) -> tuple[float, Vector]:
        value = 2.0 / L1R**2 * float(lam @ np.sinh(0.5 * L1R * x) ** 2)
        return value, lam * np.sinh(L1R * x) / L1R

    return ConvexProblem(fun, x0, np.zeros(d))


def exponential_valley() -> ConvexProblem:
    """Return e^x + e^(1 - x) + 0.0005 y^2 from (-6, -6); (2 sqrt(e), 1)-smooth, least at (0.5, 0).

    Examples
    --------
    >>> round(exponential_valley().gap, 3)
    1093.356
    """

    def fun(x: Vector) -> tuple[float, Vector]:
        # e^x + e^(1 - x) = 2 sqrt(e) cosh(x - 1/2)
        t = x[0] - 0.5
        value = 4.0 * math.sqrt(math.e) * np.sinh(0.5 * t) ** 2 + 5e-4 * x[1] ** 2
        return float(value), np.array([2.0 * math.sqrt(math.e) * np.sinh(t), 1e-3 * x[1]])

    return ConvexProblem(fun, np.array([-6.0, -6.0]), np.array([0.5, 0.0]))


def square_root_barrier(*, d: int = 30) -> ConvexProblem:
    """Return 2 - sqrt(1 - x_1) - sqrt(1 + x_1) + a quadratic, from 1e-10 inside its domain.

    The law is 1 + 8 s^3, so the start's gap lies outside psi's range.

    Parameters
    ----------
    d
        Dimension; the quadratic's curvatures fall to 1e-5.

    Examples
    --------
    >>> problem = square_root_barrier()
    >>> round(problem.gap, 3), f"{problem.fun(problem.x0)[1][0]:.0e}"
    (0.842, '5e+04')
    """
    h = np.logspace(0.0, -5.0, d)[1:]
    x0 = np.full(d, 0.5)
    x0[0] = 1.0 - 1e-10

    def fun(x: Vector) -> tuple[float, Vector]:
        if abs(x[0]) >= 1.0:
            return math.inf, np.full(d, math.inf)
        a, b = math.sqrt(1.0 - x[0]), math.sqrt(1.0 + x[0])
        # 1 - a = x / (1 + a), 1 - b = -x / (1 + b) and b - a = 2 x / (a + b).
        value = 2.0 * x[0] ** 2 / ((a + b) * (1.0 + a) * (1.0 + b))
        gradient = np.empty(d)
        gradient[0] = 0.5 / a - 0.5 / b
        gradient[1:] = h * x[1:]
        return float(value + 0.5 * (h @ x[1:] ** 2)), gradient

    return ConvexProblem(fun, x0, np.zeros(d))


def poisson_counts(seed: int) -> ConvexProblem:
    """Return a Poisson regression on 1000 generated rows of condition number 30, from 0.

    Parameters
    ----------
    seed
        Draws the design (1000, 30), its first column the intercept, the weights and the counts.

    Examples
    --------
    >>> X, y = poisson_counts(0).data
    >>> X.shape, float(y.mean())
    ((1000, 30), 0.943)
    """
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((1000, 29)) * np.logspace(0.0, -math.log10(30.0), 29)
    Q = np.linalg.qr(rng.standard_normal((29, 29)))[0]
    X = np.column_stack([np.ones(1000), Z @ Q])
    w = rng.standard_normal(30)
    w /= np.linalg.norm(w)
    y = rng.poisson(np.exp(np.clip(X @ w, -20.0, 8.0))).astype(np.float64)
    return poisson_regression(X, y)


def diabetes_counts() -> ConvexProblem:
    """Return the Poisson regression of scikit-learn's diabetes progression / 10, from 0.

    Examples
    --------
    >>> diabetes_counts().data[0].shape
    (442, 11)
    """
    from sklearn.datasets import load_diabetes

    features, response = load_diabetes(return_X_y=True)
    features = (features - features.mean(axis=0)) / features.std(axis=0)
    return poisson_regression(np.column_stack([np.ones(len(features)), features]), response / 10.0)


def poisson_regression(X: Vector, y: Vector) -> ConvexProblem:
    """Return mean(exp(X w) - y X w) from 0, minimized by Newton's method to 1e-13.

    Parameters
    ----------
    X
        Design (n, d) of full rank.
    y
        Responses (n,), >= 0.

    Examples
    --------
    >>> problem = poisson_regression(np.ones((2, 1)), np.array([1.0, 3.0]))
    >>> round(float(problem.x_star[0]), 12) == round(math.log(2.0), 12)
    True
    """
    X, n = np.ascontiguousarray(X), len(y)
    Xy = X.T @ y / n

    def value(w: Vector) -> tuple[float, Vector]:
        eta = X @ w
        mu = np.exp(eta)
        return float(mu.mean() - w @ Xy), X.T @ mu / n - Xy

    w = np.zeros(X.shape[1])
    for _ in range(100):
        f, g = value(w)
        step = np.linalg.solve((X.T * np.exp(X @ w)) @ X / n, g)
        scale = 1.0
        while value(w - scale * step)[0] > f and scale > 1e-3:
            scale *= 0.5
        w = w - scale * step
        if np.linalg.norm(step) <= 1e-13 * (1.0 + np.linalg.norm(w)):
            break
    f_star = value(w)[0]

    def fun(v: Vector) -> tuple[float, Vector]:
        f, g = value(v)
        return f - f_star, g

    return ConvexProblem(fun, np.zeros(X.shape[1]), w, (X, y))
