"""The theory's curves, to draw beside measured ones."""

from __future__ import annotations

import math

__all__ = ["approximate_erm", "gd_lower", "gd_stability_upper", "sgd"]


def gd_lower(
    eta: float,
    T: float,
    m: int,
    delta: float,
    *,
    unseen: float = 0.5,
    a: float = 0.5,
    alpha: float = 1.0,
) -> float:
    """Lower bound on the excess risk of the last iterate of gradient descent.

    `unseen delta sqrt(alpha a / (4 * 2^1.5)) sqrt(X)` with X = eta T / m^1.5: the excess of the
    Feldman term on `HardInstance.for_gradient_descent` with N = 2 m, T large. It holds while
    r >= a / (2 sqrt(N)), which is X >= 3 / N or so, and a^2 + r^2 < 1.

    Parameters
    ----------
    eta, T, m, delta
        Step size, number of steps, sample size, relative distance of the code.
    unseen
        Share of the universe that is not in the sample: at least 1/2 for every sample, (1 - 1/N)^m
        in expectation, 1 - k/N for a sample of k distinct points.
    a, alpha
        The instance's: norm of the y block at the empirical minimizer, weight of its first term.

    Examples
    --------
    >>> round(gd_lower(1.0, 1.0, 1, 1.0), 4)
    0.1051
    """
    return unseen * delta * math.sqrt(alpha * a / (4 * 2**1.5)) * math.sqrt(eta * T / m**1.5)


def gd_stability_upper(eta: float, T: float, m: int, L: float) -> float:
    """Upper bound `2 L^2 eta sqrt(T) + 4 L^2 eta T / m` on |E[F - F_S]| of gradient descent.

    Two runs on samples that differ in one point stay within `2 L eta sqrt(T) + 4 L eta T / m`.

    Examples
    --------
    >>> gd_stability_upper(0.5, 4, 8, 1.0)
    3.0
    """
    return 2 * L**2 * eta * math.sqrt(T) + 4 * L**2 * eta * T / m


def sgd(m: int, L: float) -> float:
    """Upper bound `L / sqrt(m)` on the expected excess of one-pass averaged SGD on the unit ball.

    Examples
    --------
    >>> sgd(100, 1.5)
    0.15
    """
    return L / math.sqrt(m)


def approximate_erm(excess: float, epsilon: float, lam: float, L: float) -> float:
    """Lower bound on the excess risk of every x whose training loss is within epsilon of the ERM's.

    `excess - L sqrt(2 epsilon / lam)`, where `excess` is that of the ERM and `lam` the modulus of
    strong convexity: such an x lies within `sqrt(2 epsilon / lam)` of the ERM.

    Examples
    --------
    >>> round(approximate_erm(0.25, 0.0002, 0.04, 1.5), 12)
    0.1
    """
    return excess - L * math.sqrt(2 * epsilon / lam)
