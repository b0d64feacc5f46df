"""All breakpoints of min c(K) - lambda w(K), by divide and conquer on contracted pieces."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from fractions import Fraction
from math import gcd
from typing import Literal

import numpy as np

from fallline.conformal.cuts import Piece, Solver
from fallline.conformal.hypergraph import Ints, sorted_distinct

Ties = Literal["scc", "group"]


def levels(whole: Piece, cut: Solver, ties: Ties) -> Iterator[tuple[Ints, Fraction]]:
    """Yield the levels from small to large: the numbers of their vertices, and the breakpoint.

    At lambda = sum(c) / sum(w) neither nothing nor all of a piece is better than the other. If a
    set K is strictly better than both, the hull has a vertex between them, and the piece falls
    apart into what lies in K and what remains when K is contracted; else the piece is a level.
    """
    stack = [whole]
    while stack:
        piece = stack.pop()
        C, W = int(piece.c.sum()), int(piece.w.sum())
        g = gcd(C, W)
        p, q = C // g, W // g  # lambda = p / q, and both c and w are multiplied by q
        if len(piece.c) == 1 or len(piece.w) == 1:
            yield piece.ids, Fraction(p, q)
            continue
        found = cut(piece, p, q)
        if found.value == p * W:
            parts = components(piece, found.flow()) if ties == "scc" else [piece.ids]
            yield from ((part, Fraction(p, q)) for part in parts)
        else:
            inside, K = found.routes, found.vertices
            stack.append(piece.part(~inside, ~K))
            stack.append(piece.part(inside, K))


def components(piece: Piece, flow: Ints) -> list[Ints]:
    """Split a level whose cuts tie into the finest chain of optimal sets.

    Those are the closed sets of the digraph with e -> v for v in e, and v -> e where flow runs
    from e to v. Its strongly connected components are emitted one by one, successors before
    predecessors, the cheapest of those available first, then the one with the smallest number.
    """
    from scipy import sparse
    from scipy.sparse import csgraph

    m, n = len(piece.w), len(piece.c)
    used = flow > 0
    tails = np.concatenate([piece.e, piece.v[used] + m])
    heads = np.concatenate([piece.v + m, piece.e[used]])
    graph = sparse.csr_array((np.ones(len(tails), dtype=np.int8), (tails, heads)), (m + n, m + n))
    count, label = csgraph.connected_components(graph, directed=True, connection="strong")
    if count == 1:
        return [piece.ids]
    of_route, of_vertex = label[:m], label[m:]
    cost = np.zeros(count, dtype=np.int64)
    np.add.at(cost, of_vertex, piece.c)
    smallest = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(smallest, of_vertex, piece.ids)

    # Only arcs e -> v lead out of a component.
    arcs = sorted_distinct(of_vertex[piece.v].astype(np.int64) * count + of_route[piece.e])
    before, after = arcs // count, arcs % count
    before, after = before[before != after], after[before != after]
    waits = np.bincount(after, minlength=count)
    ends = np.searchsorted(before, np.arange(count + 1))

    by_label = np.argsort(of_vertex, kind="stable")
    starts = np.searchsorted(of_vertex[by_label], np.arange(count + 1))
    ready = [(int(cost[i]), int(smallest[i]), int(i)) for i in np.flatnonzero(waits == 0)]
    heapq.heapify(ready)
    parts = []
    while ready:
        i = heapq.heappop(ready)[-1]
        parts.append(piece.ids[by_label[starts[i] : starts[i + 1]]])
        for j in after[ends[i] : ends[i + 1]]:
            waits[j] -= 1
            if not waits[j]:
                heapq.heappush(ready, (int(cost[j]), int(smallest[j]), int(j)))
    return parts
