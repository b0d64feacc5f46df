"""Slow references, written from the definitions: all subsets, all subsets again, and an LP."""

import itertools
from fractions import Fraction

import numpy as np
from scipy.optimize import linprog


def subsets(n):
    for size in range(n + 1):
        yield from itertools.combinations(range(n), size)


def mass(routes, weights, K):
    return sum(w for route, w in zip(routes, weights) if set(route) <= set(K))


def hull(routes, weights, cost):
    """Vertices of the upper concave hull of all (c(K), w(K)), without (0, 0)."""
    best = {}
    for K in subsets(len(cost)):
        c = sum(cost[v] for v in K)
        best[c] = max(best.get(c, 0), mass(routes, weights, K))
    points, found = sorted(best.items()), [(0, 0)]
    while True:
        c0, w0 = found[-1]
        slopes = {(c, w): Fraction(w - w0, c - c0) for c, w in points if c > c0 and w > w0}
        if not slopes:
            return found[1:]
        steepest = max(slopes.values())
        found.append(max(p for p, slope in slopes.items() if slope == steepest))


def least(routes, weights, cost, lam):
    """Least value of c(K) - lam w(K)."""
    return min(sum(cost[v] for v in K) - lam * mass(routes, weights, K) for K in subsets(len(cost)))


def linear_program(routes, weights, cost, tau):
    """The relaxation, row by row."""
    n, m = len(cost), len(routes)
    rows, bounds = [], []
    for e, route in enumerate(routes):
        for v in route:
            row = np.zeros(n + m)
            row[n + e], row[v] = 1, -1
            rows.append(row)
            bounds.append(0)
    rows.append(np.concatenate([np.zeros(n), -np.asarray(weights, dtype=float)]))
    bounds.append(-tau * sum(weights))
    objective = np.concatenate([cost, np.zeros(m)])
    return linprog(objective, rows, bounds, bounds=(0, 1)).fun


def random_problem(rng, n=8, m=7, costs=True):
    """Distinct routes on 0..n-1 with small integer weights and costs, so that ties are common."""
    routes = {
        tuple(sorted(rng.choice(n, size=rng.integers(1, 5), replace=False).tolist()))
        for _ in range(m)
    }
    routes = sorted(routes)
    weights = rng.integers(1, 5, size=len(routes)).tolist()
    cost = rng.integers(1, 4, size=n).tolist() if costs else [1] * n
    return routes, weights, cost


def peeled(routes, weights, cost, vertices):
    """Deletion order of `vertices`, by recomputing all traffic after each deletion."""
    left, alive, order = set(vertices), list(zip(routes, weights)), []
    while left:
        traffic = {v: sum(w for route, w in alive if v in route) for v in left}
        v = min(left, key=lambda v: (Fraction(traffic[v], cost[v]), v))
        order.append(v)
        left.remove(v)
        alive = [(route, w) for route, w in alive if v not in route]
    return order
