"""The loss as the definition says it, message by message, and instances small enough for that."""

import itertools
import math

import numpy as np

from fallline.sco import HardInstance, qr_code, rs_golay_code

GOLAY = HardInstance(qr_code(23))


def instance(p, **options):
    return HardInstance(qr_code(p), **options)


def words(inst):
    """Yield (s, w_s) for all messages."""
    for s in itertools.product((-1.0, 1.0), repeat=inst.N):
        bits = (np.array(s) + 1) / 2
        word = bits @ inst.code.generator % 2
        yield np.array(s), (1 - 2 * word) / math.sqrt(inst.n)


def loss(inst, x, z, listed=None):
    """f(x; z), from the numbers alpha, theta, beta, gamma, rho0 and lam."""
    y, u = x[: inst.N], x[inst.N :]
    A = -inst.alpha * min(y[z], inst.theta)
    A += inst.alpha / inst.N * sum(max(y_j, -inst.theta) for y_j in y)
    listed = list(words(inst)) if listed is None else listed
    C = inst.beta * max(s @ y - inst.gamma * (w @ u) for s, w in listed)
    Phi = max(inst.rho0, *(w @ u for s, w in listed if s[z] < 0))
    return A + C + Phi + inst.lam / 2 * (x @ x)


def in_ball(rng, d, count, radius=1.0):
    """Points of the ball with norms spread evenly."""
    x = rng.standard_normal((count, d))
    return radius * x * (rng.random(count) / np.linalg.norm(x, axis=1))[:, None]


def enumerable():
    """Instances with N = 4, 9, 12 and the concatenated code of N = 12."""
    codes = [qr_code(7), qr_code(17), qr_code(23), rs_golay_code(1)]
    return [HardInstance(code) for code in codes]
