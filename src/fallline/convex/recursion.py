"""The accelerated step, one gradient each, and gradient descent: the two loops of this folder."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NoReturn, Protocol

from scipy.linalg.blas import get_blas_funcs

from fallline.convex.rules import TINY
from fallline.convex.run import STALLED, Halt, Point, Run


class StepRule(Protocol):
    """Chooses the steps gamma_k of `accelerate` and judges them."""

    def propose(self, y: Point, Gamma: float) -> float:
        """Return the step to try first from y."""

    def accepts(self, y: Point, new: Point, gamma: float) -> bool:
        """Whether the step inequality (S) is certain for this trial; a refused step is halved."""

    def restarts(self, y: Point, new: Point, alpha: float) -> bool:
        """Whether to forget the momentum after this step."""

    def gap_bound(self, Gamma: float, s: float) -> float:
        """Certified bound on f(y) - f*, NaN where nothing is certified."""


def accelerate(run: Run, y: Point, rule: StepRule, Gamma: float) -> NoReturn:
    """Run the core step until something stops it.

    V_k = f(y_k) - f* + (Gamma_k / 2) ||u_k - x*||^2 falls by 1 / (1 + alpha_k) in each step with
    (S): f(y+) - f(y) + <g+, y - y+> + (gamma / 2) ||g+||^2 - gamma <g+, g> <= 0, for which
    gamma l(max(||g||, ||g+||)) <= 1 is enough. gamma may change freely from step to step.
    """
    axpy = get_blas_funcs("axpy", (y.x,))
    u = y.x.copy()
    run.begin(y, Gamma, rule.gap_bound(Gamma, y.s))
    while True:
        gamma = rule.propose(y, Gamma)
        while True:
            alpha = math.sqrt(gamma * Gamma)
            if not (gamma >= TINY and Gamma >= TINY):
                raise Halt(STALLED, f"Stalled: gamma = {gamma:.3g}, Gamma = {Gamma:.3g}.")
            # y+ = (y + alpha u - gamma g) / (1 + alpha), with the gradient at the old point
            share = 1.0 / (1.0 + alpha)
            x = y.x * share
            axpy(u, x, a=alpha * share)
            axpy(y.g, x, a=-gamma * share)
            new = run.evaluate(x)
            if rule.accepts(y, new, gamma):
                break
            run.n_rejected += 1
            gamma *= 0.5
        # u+ = u - (alpha / Gamma) g+, with the gradient at the new point and the old Gamma
        axpy(new.g, u, a=-alpha / Gamma)
        Gamma /= 1.0 + alpha
        if rule.restarts(y, new, alpha):
            u, Gamma = new.x.copy(), 1.0 / gamma
        y = new
        run.accept(y, gamma, Gamma, rule.gap_bound(Gamma, y.s))


def descend(
    run: Run,
    x: Point,
    step: Callable[[Point], float],
    *,
    gap_bound: Callable[[Point], float] = lambda x: math.nan,
    until: float = -math.inf,
) -> Point:
    """Run gradient descent with the given steps until the bound on the gap is at most `until`."""
    axpy = get_blas_funcs("axpy", (x.x,))
    bound = gap_bound(x)
    run.begin(x, math.nan, bound)
    while not bound <= until:
        gamma = step(x)
        if not gamma >= TINY:
            raise Halt(STALLED, f"Stalled: gamma = {gamma:.3g}.")
        x = run.evaluate(axpy(x.g, x.x.copy(), a=-gamma))
        if not x.finite:
            raise FloatingPointError(
                "gradient descent left the domain or overflowed: smoothness is wrong for this "
                "problem, mode='linesearch' of minimize_agd does without"
            )
        bound = gap_bound(x)
        run.stage1_nit += 1
        run.accept(x, gamma, math.nan, bound)
    return x
