"""Exact ERM against a general solver, and the compiled descent against one call per step."""

import numpy as np

from _timing import interleaved, publish, row
from fallline.sco import HardInstance, qr_code, rs_golay_code


def erm_against_clarabel():
    inst = HardInstance(qr_code(17))
    Z = inst.sample(inst.m, random_state=0)
    problem = inst.to_cvxpy(Z)  # building it is not counted

    def solve():
        problem.solve(solver="CLARABEL")

    return lambda: inst.erm(Z), solve


def gradient_descent_against_single_calls():
    inst = HardInstance(rs_golay_code(40), oracle="certified")
    Z, eta, steps = inst.sample(240, random_state=0), 0.5, 1000
    shares = inst.shares(Z)

    def loop():
        x, gradient = np.zeros(inst.d), np.empty(inst.d)
        for _ in range(steps):
            inst._subgradient(x, shares, gradient)
            x -= eta * gradient

    return lambda: inst.gd(Z, eta, steps), loop


def certified_against_enumeration():
    certified = HardInstance(qr_code(31), oracle="certified")
    enumerated = HardInstance(qr_code(31), oracle="enumerate")
    x = certified.erm(certified.sample(8, random_state=0)).x
    return lambda: certified.population_risk(x), lambda: enumerated.population_risk(x)


ROWS = [
    ("certified ERM, N = 9", "CVXPY with Clarabel", erm_against_clarabel, 50.0),
    (
        "1000 steps of gradient descent, d = 2400",
        "NumPy, one subgradient per call",
        gradient_descent_against_single_calls,
        None,
    ),
    ("certified population risk, N = 16", "enumeration", certified_against_enumeration, None),
]


def main():
    rows = []
    for name, peer, make, bar in ROWS:
        ours, theirs = make()
        seconds = interleaved({"ours": ours, "theirs": theirs}, windows=7, seconds_per_window=0.02)
        rows.append(row(name, peer, seconds["ours"], seconds["theirs"], bar))
    publish("sco", rows)


if __name__ == "__main__":
    main()
