"""How `minimize_agd` chooses its steps: a plan that cannot fail, a check, or a line search."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fallline._errors import FalllineWarning
from fallline.convex.laws import SmoothnessLaw
from fallline.convex.run import Point

TINY = 1e-300
# gamma = 1 / l(s) times l(s) may exceed 1 by rounding.
SLACK = 1.0 + 1e-12
UP = 1.3


class AssumptionWarning(FalllineWarning):
    """The run saw a gradient that is impossible under the given radius and smoothness law."""


@dataclass(frozen=True)
class Certificate:
    """What V_0 <= delta at Gamma_0 proves: f(y_k) - f* <= delta Gamma_k / Gamma_0.

    A step gamma <= 1 / l(||g||) never takes y - gamma g away from x*, and the Lyapunov function
    keeps u within sqrt(2 delta / Gamma_0) of it. So y stays within `reach`, which may exceed
    the radius, and convexity bounds the gap by ||g|| reach.
    """

    delta: float
    Gamma_0: float
    radius: float

    @classmethod
    def from_gap(cls, gap0: float, radius: float) -> Certificate:
        """Give gap and distance equal shares: delta = 2 gap0, Gamma_0 = 2 gap0 / R^2."""
        gap0, radius = float(gap0), float(radius)
        square = radius * radius
        Gamma_0 = 2.0 * gap0 / square if square else math.inf
        if not TINY <= Gamma_0 < math.inf:
            raise ValueError(
                f"radius = {radius:.3g} and gap0 = {gap0:.3g} give Gamma_0 = 2 gap0 / radius^2 = "
                f"{Gamma_0:.3g}, which must be in [{TINY}, inf); scale the problem"
            )
        return cls(2.0 * gap0, Gamma_0, radius)

    @property
    def reach(self) -> float:
        """Bound on ||y_k - x*|| for all k."""
        return max(self.radius, math.sqrt(2.0 * self.delta / self.Gamma_0))

    def energy(self, Gamma: float) -> float:
        """E_k, the bound on V_k."""
        return self.delta * (Gamma / self.Gamma_0)

    def gap_bound(self, Gamma: float, s: float) -> float:
        """Bound f(y_k) - f* by what is smaller."""
        return min(self.energy(Gamma), s * (self.radius if Gamma == self.Gamma_0 else self.reach))


def scheduled_step(law: SmoothnessLaw, E: float) -> float:
    """Return 1 / l(psi_inv(E)): while V <= E, no gradient exceeds psi_inv(E)."""
    if E <= 0.0:
        return 1.0 / float(law(0.0))
    s = law.psi_inv(E)
    return 1.0 / float(law(s)) if s < math.inf else 0.0


def needs_warm_start(law: SmoothnessLaw, E: float) -> bool:
    """Whether psi_inv(E) is undefined or so large that the schedule would stand still."""
    return law.psi_inf <= E or scheduled_step(law, E) * 1e3 * float(law(0.0)) < 1.0


def excess(law: SmoothnessLaw, gamma: float, s: float, s_new: float) -> float:
    """Return gamma l(max(s, s_new)): at most 1 where (S) is certain."""
    return gamma * float(law(max(s, s_new)))


def violation(factor: float) -> str:
    """Say what a step beyond the plan means."""
    return (
        f"gamma * l(||g||) = {factor:.3g} > 1 cannot happen if radius >= ||x0 - x*||, gap0 >= "
        "f(x0) - f* and ||hess f|| <= l(||grad f||): radius, gap0 or smoothness is wrong"
    )


@dataclass
class Adaptive:
    """gamma = 1 / l(||g_k||), halved until gamma l(max(||g_k||, ||g_{k+1}||)) <= 1."""

    law: SmoothnessLaw
    certificate: Certificate | None = None

    def propose(self, y: Point, Gamma: float) -> float:
        """Return the longest step that the old gradient allows."""
        return 1.0 / float(self.law(y.s))

    def accepts(self, y: Point, new: Point, gamma: float) -> bool:
        """Whether the new gradient allows it too."""
        return new.finite and excess(self.law, gamma, y.s, new.s) <= SLACK

    def restarts(self, y: Point, new: Point, alpha: float) -> bool:
        """Never: the momentum is what is certified."""
        return False

    def gap_bound(self, Gamma: float, s: float) -> float:
        """Bound the gap where the radius is known."""
        return self.certificate.gap_bound(Gamma, s) if self.certificate else math.nan


@dataclass
class Planned:
    """Steps that the certificate proves right, so that none is ever refused.

    A step that breaks the proof shows that an assumption is wrong: the certificate is withdrawn
    with a warning and the run goes on as `Adaptive`.
    """

    law: SmoothnessLaw
    step: Callable[[float], float]
    certificate: Certificate
    strict: bool = False
    fallback: Adaptive | None = None

    def propose(self, y: Point, Gamma: float) -> float:
        """Return the planned step."""
        return self.fallback.propose(y, Gamma) if self.fallback else self.step(Gamma)

    def accepts(self, y: Point, new: Point, gamma: float) -> bool:
        """Accept, unless the step proves an assumption wrong."""
        if self.fallback:
            return self.fallback.accepts(y, new, gamma)
        if not new.finite:
            raise FloatingPointError(
                "value or gradient is not finite at a point of the schedule: radius or "
                "smoothness is wrong for this problem; mode='adaptive' needs no radius, "
                "mode='linesearch' neither"
            )
        factor = excess(self.law, gamma, y.s, new.s)
        if factor <= SLACK:
            return True
        if self.strict:
            raise ValueError(violation(factor))
        warnings.warn(
            f"{violation(factor)}; no gap is certified from here on, falling back to "
            "mode='adaptive'",
            AssumptionWarning,
            stacklevel=6,  # the caller of minimize_agd
        )
        self.fallback = Adaptive(self.law)
        return False

    def restarts(self, y: Point, new: Point, alpha: float) -> bool:
        """Never: the momentum is what is certified."""
        return False

    def gap_bound(self, Gamma: float, s: float) -> float:
        """Bound the gap as long as nothing was found wrong."""
        return math.nan if self.fallback else self.certificate.gap_bound(Gamma, s)


@dataclass
class LineSearch:
    """Grow gamma by `UP` each step and halve it until (S) itself holds, by function values."""

    gamma: float
    certificate: Certificate | None = None
    restart: bool = False

    def propose(self, y: Point, Gamma: float) -> float:
        """Return a longer step than the last one."""
        return UP * self.gamma

    def accepts(self, y: Point, new: Point, gamma: float) -> bool:
        """Whether (S) holds, by function values."""
        if not new.finite:
            return False
        moved = y.x - new.x
        # bregman = f(y) - f(y+) - <g+, y - y+>
        if abs(new.f - y.f) <= 1e-9 * abs(y.f):
            # Rounding hides the sign of the difference; this form is exact on quadratics.
            bregman = 0.5 * float(np.dot(y.g - new.g, moved))
        else:
            bregman = y.f - new.f - float(np.dot(new.g, moved))
        if not 0.5 * gamma * new.s**2 - gamma * float(np.dot(new.g, y.g)) <= bregman:
            return False
        self.gamma = gamma
        return True

    def restarts(self, y: Point, new: Point, alpha: float) -> bool:
        """Whether the momentum points uphill, if asked to look."""
        return self.restart and alpha < 0.5 and float(np.dot(new.g, new.x - y.x)) > 0.0

    def gap_bound(self, Gamma: float, s: float) -> float:
        """Bound the gap by Gamma alone: (S) bounds no distance of y to the minimizer."""
        return self.certificate.energy(Gamma) if self.certificate else math.nan
