"""Gradient descent steps in one pass over the coordinates, as long as the decoder's proof holds."""

from __future__ import annotations

import math

from numba import njit

from fallline.sco.codes import Vector


# Reductions may be reordered: the margins they are compared with are far above rounding.
@njit(cache=True, fastmath={"reassoc", "contract", "nsz"})
def certified_steps(
    x: Vector,
    total: Vector,
    s: Vector,
    w: Vector,
    shares: Vector,
    eta: float,
    steps: int,
    sums: bool,
    radius: float,
    constants: tuple[float, ...],
) -> int:
    """Take up to `steps` steps in place and return how many were taken.

    It stops before a step at which sign(y) is not s, the word w is not shown to be the maximum of
    either term, or Phi charges a training point: `Certified` decides there. With `sums` it adds
    each point that it leaves to `total`.
    """
    alpha, theta, beta, gamma, p, lam, rho0, delta = constants
    N, n = len(s), len(w)
    y, u = x[:N], x[N:]
    fresh = 0.0  # share of the sample that w charges once rho > rho0
    for j in range(N):
        if s[j] < 0:
            fresh += shares[j]
    for t in range(steps):
        low = math.inf
        for j in range(N):
            low = min(low, s[j] * y[j])
        rho, square = 0.0, 0.0
        for i in range(n):
            rho += w[i] * u[i]
            square += u[i] * u[i]
        norm = math.sqrt(square)
        if low <= 0 or 2 * low < gamma * (rho + norm):
            return t
        if norm > rho0:
            across = math.sqrt(max(square - rho * rho, 0.0))
            if rho < 0 or rho * (1 - 2 * delta) + across > rho0 or (rho > rho0 and fresh > 0):
                return t
        if sums:
            for i in range(N + n):
                total[i] += x[i]
        square = 0.0
        for j in range(N):
            slope = beta * s[j] + lam * y[j]
            if y[j] < theta:
                slope -= alpha * shares[j]
            if y[j] > -theta:
                slope += alpha / N
            y[j] -= eta * slope
            square += y[j] * y[j]
        for i in range(n):
            u[i] -= eta * (lam * u[i] - p * w[i])
            square += u[i] * u[i]
        norm = math.sqrt(square)
        if norm > radius:
            for i in range(N + n):
                x[i] *= radius / norm
    return steps
