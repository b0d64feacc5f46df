"""Gradient descent, SGD and regularized ERM on a hard instance, with exact risks along the way."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fallline.sco.certificate import few_enough
from fallline.sco.codes import Vector

if TYPE_CHECKING:
    from fallline.sco.instance import HardInstance

Average: TypeAlias = Literal["last", "mean", "suffix"]
POINTS_PER_DECADE = 10


@dataclass(frozen=True)
class Trajectory:
    """The answer x, (d,), and the risks of the answers after t steps, on a logarithmic grid."""

    x: Vector
    t: NDArray[np.int64]
    F_S: Vector
    F: Vector
    excess: Vector


def gd(
    inst: HardInstance, Z: ArrayLike, eta: float, T: int, radius: float, average: Average
) -> Trajectory:
    """Do what `HardInstance.gd` says."""
    check_run(eta, T, radius)
    if average not in ("last", "mean", "suffix"):
        raise ValueError(f'average must be "last", "mean" or "suffix", got {average!r}')
    shares = inst.shares(Z)
    run = Run(inst, radius, sums=average != "last")
    advance = partial(full_batch, run, shares, eta)
    return follow(run, Z, advance, T, average)


def sgd(inst: HardInstance, Z: ArrayLike, eta: float | None, passes: int) -> Trajectory:
    """Do what `HardInstance.sgd` says."""
    shares = np.zeros_like(inst.shares(Z))
    Z = np.asarray(Z, dtype=np.intp).ravel()
    if passes < 1:
        raise ValueError(f"passes must be >= 1, got {passes!r}")
    eta = 1 / (inst.L * math.sqrt(Z.size)) if eta is None else eta
    check_run(eta, Z.size, 1.0)
    run = Run(inst, radius=1.0)

    def one_by_one(stop: int) -> None:
        while run.t < stop:
            z = Z[run.t % Z.size]
            shares[z] = 1.0
            run.step(shares, eta)
            shares[z] = 0.0

    return follow(run, Z, one_by_one, passes * Z.size, "mean")


def regularized_erm(inst: HardInstance, Z: ArrayLike, lam: float, T: int) -> Trajectory:
    """Do what `HardInstance.regularized_erm` says."""
    shares = few_enough(inst, Z)
    if not (lam > 0 and math.isfinite(lam)):
        raise ValueError(f"lam must be > 0, got {lam!r}")
    check_run(1.0, T, 1.0)
    x = shrunk(inst, shares, lam / inst.scale)
    if x is not None:
        return trajectory(inst, x, [(0, inst.empirical_risk(x, Z), inst.excess_risk(x))])
    modulus, L = inst.lam * inst.scale + lam, inst.L + lam
    run = Run(inst, radius=1.0, lam=lam)

    def strongly_convex(stop: int) -> None:
        # Steps 2 / (modulus (t + 2)), weights in proportion to t + 1: error 2 L^2 / (modulus T).
        while run.t < stop:
            run.step(shares, 2 / (modulus * (run.t + 2)), weight=run.t + 1.0)

    def convex(stop: int) -> None:
        # Equal steps and weights: error L / sqrt(T).
        while run.t < stop:
            run.step(shares, 1 / (L * math.sqrt(T)))

    advance = strongly_convex if modulus * math.sqrt(T) > 2 * L else convex
    return follow(run, Z, advance, T, "mean")


def shrunk(inst: HardInstance, shares: Vector, lam: float) -> Vector | None:
    """Minimizer of F_S + (lam / 2)|x|^2 if its form can be shown to be right, else None.

    `lam` is that of the loss before scaling. In y_j it balances the slope of A against beta and
    the two quadratic terms, up to the cap theta; u is the coupling's push over both.
    """
    s = np.where(shares > 0, 1.0, -1.0)
    slope = np.abs(inst.alpha / inst.N - inst.alpha * shares)
    total = inst.lam + lam
    y = s * np.minimum(inst.theta, (slope - inst.beta) / total)
    norm = inst.p / total
    shown = (
        2 * np.abs(y).min() > 2 * inst.gamma * norm
        and norm * (1 - 2 * inst.delta) <= inst.rho0
        and y @ y + norm**2 <= 1
    )
    if not shown:
        return None
    bits = (s > 0).astype(np.uint8)
    w = (1.0 - 2.0 * inst.code.encode(bits)) / math.sqrt(inst.n)
    return np.concatenate([y, norm * w])


class Run:
    """Projected subgradient steps from 0: x is x_t, `total` the weighted sum of x_0 .. x_{t-1}."""

    def __init__(
        self, inst: HardInstance, radius: float, *, lam: float = 0.0, sums: bool = True
    ) -> None:
        self.inst, self.radius, self.lam, self.sums = inst, radius, lam, sums
        self.x, self.total, self.gradient = np.zeros((3, inst.d))
        self.t, self.weight = 0, 0.0

    def step(self, shares: Vector, eta: float, weight: float = 1.0) -> None:
        """Take one step on the sample with these shares."""
        x, gradient = self.x, self.gradient
        if self.sums:
            self.total += weight * x
        self.inst._subgradient(x, shares, gradient)
        if self.lam:
            gradient += self.lam * x
        gradient *= eta
        x -= gradient
        norm = math.sqrt(x @ x)
        if norm > self.radius:
            x *= self.radius / norm
        self.t += 1
        self.weight += weight


def full_batch(run: Run, shares: Vector, eta: float, stop: int) -> None:
    """Step to t = stop: in the compiled loop where the decoder's proof holds, else one by one."""
    from fallline.sco.kernel import certified_steps

    inst, decoder = run.inst, run.inst._maxima.decoder
    constants = (
        *(inst.alpha, inst.theta, inst.beta, inst.gamma, inst.p, inst.lam, inst.rho0),
        inst.delta,
    )
    while run.t < stop:
        # A step here makes the decoder follow the signs, or finds what it cannot prove.
        run.step(shares, eta)
        if decoder is not None and run.t < stop:
            done = certified_steps(
                run.x,
                run.total,
                decoder.s,
                decoder.w,
                shares,
                eta * inst.scale,
                stop - run.t,
                run.sums,
                run.radius,
                constants,
            )
            run.t += done
            run.weight += done


def follow(
    run: Run, Z: ArrayLike, advance: Callable[[int], None], T: int, average: Average
) -> Trajectory:
    """Advance to each t on the grid and evaluate what the run answers there."""
    grid = log_grid(T)
    halves = {t // 2 for t in grid} if average == "suffix" else set()
    kept: dict[int, Vector] = {}  # `total` at the halves
    rows = []
    answer = run.x
    for t in sorted({*grid, *halves}):
        advance(t)
        if t in halves:
            kept[t] = run.total.copy()
        if t not in grid:
            continue
        if average == "mean":
            answer = run.total / run.weight
        elif average == "suffix":
            answer = (run.total - kept[t // 2]) / (t - t // 2)
        rows.append((t, run.inst.empirical_risk(answer, Z), run.inst.excess_risk(answer)))
    return trajectory(run.inst, answer.copy(), rows)


def trajectory(inst: HardInstance, x: Vector, rows: list[tuple[int, float, float]]) -> Trajectory:
    """Put the rows (t, F_S, excess) in columns."""
    t, F_S, excess = (np.array(column) for column in zip(*rows))
    return Trajectory(x, t, F_S, inst.minimum + excess, excess)


def log_grid(T: int) -> list[int]:
    """About ten numbers of steps per decade, from 1 to T."""
    count = math.ceil(POINTS_PER_DECADE * math.log10(T)) + 1
    return sorted({round(t) for t in np.geomspace(1, T, count)} | {T})


def check_run(eta: float, T: int, radius: float) -> None:
    """Refuse a step size, a horizon or a radius out of range."""
    if not (eta > 0 and math.isfinite(eta)):
        raise ValueError(f"eta must be > 0, got {eta!r}")
    if not isinstance(T, (int, np.integer)):
        raise TypeError(f"T must be an int, got {T!r}")
    if T < 1:
        raise ValueError(f"T must be >= 1, got {T!r}")
    if not 0 < radius <= 1:
        raise ValueError(f"radius must lie in (0, 1], got {radius!r}")
