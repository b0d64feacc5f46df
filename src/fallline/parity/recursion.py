"""Two numbers that predict a training curve: the mean and the spread of the weights."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import float64, njit
from numpy.typing import NDArray

from fallline.parity.checks import check_count, check_density, check_noise, check_rate

LONGEST = 4_000_000  # three curves of it are 100 MB


@dataclass(frozen=True, eq=False)
class MeanField:
    """Predicted curves, one value per step from 0 on; made by `mean_field`.

    `mu` is the mean weight of the inputs out of the support (1 - mu of those in it), `sigma` the
    standard deviation of both, `distance` the mean of |w - w*|, and `steps` the first step at which
    it is below the tolerance, or None.
    """

    mu: NDArray[np.float64]
    sigma: NDArray[np.float64]
    distance: NDArray[np.float64]
    steps: int | None


def mean_field(
    N: int,
    lr: float,
    p_e: float,
    mu0: float = 0.5,
    sigma0: float = 0.25,
    steps: int | None = None,
    tol: float = 0.01,
    *,
    noise: float = 0.0,
) -> MeanField:
    """Predict the training curve of a typical output.

    In expectation the update of a weight is affine, w <- m w + c, so that two Gaussian classes,
    mirrored at 1/2, stay so:

        A = (1 + 4 p_e (mu^2 + sigma^2 - mu))^(N-1),  B = (1 - 2 p_e mu)^(N-1),
        m = 1 - 2 lr p_e A,  mu <- m mu + lr p_e (A - (1 - 2 noise) B),  sigma <- |m| sigma.

    Parameters
    ----------
    N
        Number of inputs.
    lr
        Step size.
    p_e
        Density of the inputs, in (0, 1].
    mu0, sigma0
        Mean and standard deviation of the initial weights.
    steps
        Length of the curves; by default they end at the tolerance.
    tol
        Distance that counts as converged.
    noise
        Share of flipped labels, below 1/2.

    Raises
    ------
    ValueError
        If an argument is out of range.

    References
    ----------
    arXiv:2605.28612, propositions 17 to 19; the recursion in two numbers is derived here.

    Examples
    --------
    >>> mean_field(100_000, 10, 1e-5).steps
    21851
    """
    N = check_count(N, "N")
    lr, p_e, noise = check_rate(lr), check_density(p_e), check_noise(noise)
    if not (sigma0 >= 0 and math.isfinite(sigma0) and math.isfinite(mu0)):
        raise ValueError(f"mu0 must be finite and sigma0 >= 0, got {mu0!r} and {sigma0!r}")
    if not tol > 0:
        raise ValueError(f"tol must be > 0, got {tol!r}")
    fixed = steps is not None
    last = LONGEST if steps is None else check_count(steps, "steps", least=0)
    curves, reached = _iterate(N, lr, p_e, mu0, sigma0, last, tol, 1.0 - 2.0 * noise, fixed)
    return MeanField(curves[0], curves[1], curves[2], None if reached < 0 else reached)


@njit(cache=True)
def _iterate(
    N: int,
    lr: float,
    p_e: float,
    mu: float,
    sigma: float,
    last: int,
    tol: float,
    kept: float,
    fixed: bool,
) -> tuple[NDArray[np.float64], int]:
    curves = np.empty((3, min(last, 4096) + 1))
    reached, k = -1, 0
    while True:
        if k == curves.shape[1]:
            longer = np.empty((3, 2 * k))
            longer[:, :k] = curves
            curves = longer
        curves[0, k], curves[1, k], curves[2, k] = mu, sigma, _distance(mu, sigma)
        if reached < 0 and curves[2, k] < tol:
            reached = k
        if k == last or not math.isfinite(curves[2, k]) or (reached >= 0 and not fixed):
            return curves[:, : k + 1].copy(), reached
        A = (1.0 + 4.0 * p_e * (mu * mu + sigma * sigma - mu)) ** (N - 1.0)
        B = (1.0 - 2.0 * p_e * mu) ** (N - 1.0)
        m = 1.0 - 2.0 * lr * p_e * A
        before, spread = mu, sigma
        mu = m * mu + lr * p_e * (A - kept * B)
        sigma = abs(m) * sigma
        k += 1
        if not fixed and mu == before and sigma == spread:
            return curves[:, :k].copy(), reached  # settled away from the solution


@njit(float64(float64, float64), cache=True)
def _distance(mu: float, sigma: float) -> float:
    """E |w| of w ~ Normal(mu, sigma^2)."""
    if sigma == 0.0:
        return abs(mu)
    z = mu / sigma
    return sigma * math.sqrt(2.0 / math.pi) * math.exp(-0.5 * z * z) + mu * math.erf(
        z / math.sqrt(2.0)
    )


def label_noise_mean(noise: float, N: int | None = None, p_e: float | None = None) -> float:
    """Return where label noise holds the mean weight of the inputs out of the support.

    Those in the support settle at one minus it, so that a threshold at 1/2 still tells them apart.
    It is the root mu of (1 - 2 mu) A = (1 - 2 noise) B with A and B of `mean_field` at sigma = 0.

    Parameters
    ----------
    noise
        Share of flipped labels, in [0, 1/2).
    N
        Number of inputs; by default the limit of many, with one active bit on average.
    p_e
        Density of the inputs; by default 1/N.

    Raises
    ------
    ValueError
        If an argument is out of range, or `p_e` is given without `N`.

    Examples
    --------
    >>> [round(label_noise_mean(eta), 4) for eta in (0.1, 0.2, 0.3, 0.4)]
    [0.0573, 0.1347, 0.2432, 0.38]
    """
    from scipy.optimize import brentq

    kept = 1.0 - 2.0 * check_noise(noise)
    if N is None and p_e is not None:
        raise ValueError(f"p_e = {p_e!r} needs N as well: without N the limit of p_e = 1/N is used")
    if N is not None:
        N = check_count(N, "N")
        p_e = 1.0 / N if p_e is None else check_density(p_e)

    def excess(mu: float) -> float:
        # (1 - 2 mu) A / B, in logarithms since both powers may underflow.
        if N is None or p_e is None:
            exponent = 4.0 * mu * mu - 2.0 * mu
        else:
            exponent = (N - 1) * (
                math.log1p(-4.0 * p_e * mu * (1.0 - mu)) - math.log1p(-2.0 * p_e * mu)
            )
        return (1.0 - 2.0 * mu) * math.exp(exponent) - kept

    top = math.nextafter(0.5, 0.0)  # at 1/2 and p_e = 1 both logarithms are infinite
    return float(brentq(excess, 0.0, top, xtol=1e-13)) if noise > 0 else 0.0
