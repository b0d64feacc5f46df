"""Peeling: delete the element of least traffic with the routes through it, again and again."""

from __future__ import annotations

import heapq

import numpy as np
from numba import njit

from fallline.conformal.hypergraph import Ints


def peel(e: Ints, v: Ints, w: Ints, c: Ints) -> Ints:
    """Return the step at which each element is deleted (n,).

    Least is the traffic divided by the cost, then the number of the element. Elements without an
    arc are deleted too, first of all.

    Parameters
    ----------
    e, v
        Arcs: route e[i] uses the element v[i]; sorted by route.
    w, c
        Integer weights of the routes (m,) and costs of the elements (n,).
    """
    traffic = np.zeros(len(c), dtype=np.int64)
    np.add.at(traffic, v, w[e])
    by_element = np.argsort(v, kind="stable")
    starts = np.searchsorted(v[by_element], np.arange(len(c) + 1))
    route_starts = np.searchsorted(e, np.arange(len(w) + 1))
    step: Ints = _peel(traffic, starts, e[by_element], route_starts, v, w, c)
    return step


@njit(cache=True)
def _peel(
    traffic: Ints, starts: Ints, routes: Ints, route_starts: Ints, v: Ints, w: Ints, c: Ints
) -> Ints:
    n = len(c)
    # Quotients of equal fractions are equal floats, so ties are exact.
    heap = [(traffic[x] / c[x], x) for x in range(n)]
    heapq.heapify(heap)
    step = np.full(n, -1)
    gone = np.zeros(len(w), dtype=np.bool_)
    count = 0
    while heap:
        least, x = heapq.heappop(heap)
        if step[x] >= 0 or least != traffic[x] / c[x]:
            continue  # an entry from before its traffic fell
        step[x] = count
        count += 1
        for i in range(starts[x], starts[x + 1]):
            e = routes[i]
            if gone[e]:
                continue
            gone[e] = True
            for j in range(route_starts[e], route_starts[e + 1]):
                y = v[j]
                if step[y] < 0:
                    traffic[y] -= w[e]
                    heapq.heappush(heap, (traffic[y] / c[y], y))
    return step
