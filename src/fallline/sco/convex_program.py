"""The empirical risk minimization as a program for CVXPY, all messages listed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from fallline._errors import import_extra
from fallline.sco.codes import span_signs
from fallline.sco.maxima import check_enumerable

if TYPE_CHECKING:
    import cvxpy

    from fallline.sco.instance import HardInstance


def to_cvxpy(inst: HardInstance, Z: ArrayLike, limit: int) -> cvxpy.Problem:
    """Do what `HardInstance.to_cvxpy` says."""
    check_enumerable(inst.N, limit)
    shares = inst.shares(Z)
    cp = import_extra("cvxpy", extra="cvxpy")
    messages = -span_signs(np.eye(inst.N, dtype=np.uint8))
    words = span_signs(inst.code.generator) / math.sqrt(inst.n)
    x = cp.Variable(inst.d, name="x")
    y, u = x[: inst.N], x[inst.N :]
    A = -inst.alpha * (shares @ cp.minimum(y, inst.theta))
    A += inst.alpha / inst.N * cp.sum(cp.maximum(y, -inst.theta))
    C = inst.beta * cp.max(messages @ y - inst.gamma * (words @ u))
    Phi = sum(
        shares[z] * cp.maximum(inst.rho0, cp.max(words[messages[:, z] < 0] @ u))
        for z in np.flatnonzero(shares)
    )
    F_S = A + C + Phi + inst.lam / 2 * cp.sum_squares(x)
    problem: cvxpy.Problem = cp.Problem(cp.Minimize(inst.scale * F_S), [cp.norm(x) <= 1])
    return problem
