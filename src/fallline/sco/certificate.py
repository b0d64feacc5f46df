"""The empirical minimizer in closed form, and the proof that comes with it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from fallline.sco.codes import Vector
from fallline.sco.maxima import Certified

if TYPE_CHECKING:
    from fallline.sco.instance import HardInstance

RESIDUAL = 1e-12  # rounding leaves 1e-17


@dataclass(frozen=True)
class ERMCertificate:
    """The minimizer of F_S and why it is the only one.

    x
        The minimizer, (d,).
    value
        F_S(x).
    strong_convexity
        Modulus of strong convexity of F_S: every other point is worse by half of it times the
        squared distance.
    kkt_residual
        Distance of 0 to the subdifferential of F_S at x.
    coupling_margin
        By how much every other message stays below the maximum in C.
    feldman_margin
        By how much every other word stays below rho0 in Phi.
    unique
        Whether all of this proves x the unique minimizer: residual zero up to rounding, margins
        and strong convexity positive, x inside the ball and the code's distance proved.
    """

    x: Vector
    value: float
    strong_convexity: float
    kkt_residual: float
    coupling_margin: float
    feldman_margin: float
    unique: bool


def erm(inst: HardInstance, Z: ArrayLike) -> ERMCertificate:
    """Do what `HardInstance.erm` says."""
    shares = few_enough(inst, Z)
    if inst.lam == 0:
        raise ValueError(
            "erm needs a strongly convex instance, got plain=True, which has no unique minimizer; "
            "use plain=False or regularized_erm"
        )
    if not inst.lam * inst.theta < inst.beta:
        # The slopes -gap + beta + lam theta and gap - beta - lam theta must keep their signs.
        raise ValueError(
            f"the closed form needs r > a / sqrt(2 N) = {inst.a / math.sqrt(2 * inst.N):.4g}, "
            f"got r={inst.r!r}"
        )
    oracle = Certified(inst.code, inst.gamma, inst.rho0)
    s = np.where(shares > 0, 1.0, -1.0)
    y = inst.theta * s
    w = oracle(y, np.zeros(inst.n)).w
    u = inst.r * w
    x = np.concatenate([y, u])

    # <w_s, u> itself may exceed rho0, but charges no point of Z.
    coupling_margin = inst.beta * (2 * inst.theta - 2 * inst.gamma * inst.r)
    feldman_margin = inst.rho0 - inst.r * (1 - 2 * inst.delta)
    low, high = y_slopes(inst, y, s, shares)
    distance_y = np.maximum(np.maximum(low, -high), 0.0)
    residual = math.hypot(
        float(np.linalg.norm(distance_y)), float(np.linalg.norm(inst.lam * u - inst.p * w))
    )
    unique = (
        residual <= RESIDUAL * inst.p
        and min(coupling_margin, feldman_margin, inst.lam) > 0
        and float(x @ x) < 1
        and inst.code.certified
    )
    return ERMCertificate(
        x,
        inst.empirical_risk(x, Z),
        inst.lam * inst.scale,
        residual * inst.scale,
        coupling_margin * inst.scale,
        feldman_margin * inst.scale,
        unique,
    )


def y_slopes(inst: HardInstance, y: Vector, s: Vector, shares: Vector) -> tuple[Vector, Vector]:
    """Lower and upper end of the subdifferential of F_S in each y_j, where s is the maximizer."""
    smooth = inst.beta * s + inst.lam * y
    low = smooth - inst.alpha * shares * (y <= inst.theta) + inst.alpha / inst.N * (y > -inst.theta)
    high = (
        smooth - inst.alpha * shares * (y < inst.theta) + inst.alpha / inst.N * (y >= -inst.theta)
    )
    return low, high


def few_enough(inst: HardInstance, Z: ArrayLike) -> Vector:
    """Shares of a sample that is small enough for the closed forms."""
    shares = inst.shares(Z)
    count = np.asarray(Z).size
    if count > inst.m:
        raise ValueError(
            f"the closed form needs at most m = {inst.m} points in Z, got {count}; "
            "make the instance for a larger m"
        )
    return shares
