"""Exact ERM against a general solver, and the compiled descent against one call per step."""

import json
import statistics
import time
from pathlib import Path

import numpy as np

from fallline.sco import HardInstance, qr_code, rs_golay_code

RESULTS = Path(__file__).parent / "results.json"
WINDOWS = 7


def interleaved(ours, peer, *, ours_repeats=1, peer_repeats=1):
    """Return the median seconds of a call of each, windows taken in turn."""
    ours(), peer()  # compile and fill caches
    seconds = {ours: [], peer: []}
    for _ in range(WINDOWS):
        for function, repeats in ((ours, ours_repeats), (peer, peer_repeats)):
            start = time.perf_counter()
            for _ in range(repeats):
                function()
            seconds[function].append((time.perf_counter() - start) / repeats)
    return statistics.median(seconds[ours]), statistics.median(seconds[peer])


def erm_against_clarabel():
    inst = HardInstance(qr_code(17))
    Z = inst.sample(inst.m, random_state=0)
    problem = inst.to_cvxpy(Z)  # building it is not counted

    def solve():
        problem.solve(solver="CLARABEL")

    return interleaved(lambda: inst.erm(Z), solve, ours_repeats=50)


def gradient_descent_against_single_calls():
    inst = HardInstance(rs_golay_code(40), oracle="certified")
    Z, eta, steps = inst.sample(240, random_state=0), 0.5, 1000
    shares = inst.shares(Z)

    def loop():
        x, gradient = np.zeros(inst.d), np.empty(inst.d)
        for _ in range(steps):
            inst._subgradient(x, shares, gradient)
            x -= eta * gradient

    return interleaved(lambda: inst.gd(Z, eta, steps), loop)


def certified_against_enumeration():
    certified = HardInstance(qr_code(31), oracle="certified")
    enumerated = HardInstance(qr_code(31), oracle="enumerate")
    x = certified.erm(certified.sample(8, random_state=0)).x
    return interleaved(
        lambda: certified.population_risk(x),
        lambda: enumerated.population_risk(x),
        ours_repeats=500,
        peer_repeats=20,
    )


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
    for name, peer, measure, bar in ROWS:
        ours, peers = measure()
        rows.append(
            {
                "name": name,
                "peer": peer,
                "seconds": ours,
                "peer_seconds": peers,
                "ratio": peers / ours,
                "bar": bar,
            }
        )
        print(f"{name}: {ours:.3g} s, {peer} {peers:.3g} s, {peers / ours:.3g} times as fast")
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.write_text(json.dumps({**kept, "sco": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
