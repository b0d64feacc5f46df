"""The whole nested chain against networkx, one linear program, and a limit of 10 seconds.

Routes are shortest paths under random weights between 40 pairs of junctions of a square grid.
"""

import networkx as nx
import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from _timing import interleaved, publish, row
from fallline.conformal import RouteHypergraph, lp_relaxation, nested_subgraphs
from fallline.conformal.cuts import Cut, Piece
from fallline.conformal.parametric import levels

PAIRS = 40


def grid_routes(side, count, seed=0):
    rng = np.random.default_rng(seed)
    index = np.arange(side * side).reshape(side, side)
    across = np.stack([index[:, :-1].ravel(), index[:, 1:].ravel()], 1)
    edges = np.concatenate([across, np.stack([index[:-1].ravel(), index[1:].ravel()], 1)])
    ends, routes = rng.integers(side * side, size=(PAIRS, 2)).tolist(), []
    for i in range(count):
        source, here = ends[i % PAIRS]
        weights = rng.uniform(0.1, 2.0, len(edges))
        graph = sparse.csr_array((weights, edges.T), shape=(side * side,) * 2)
        _, before = csgraph.dijkstra(
            graph, directed=False, indices=source, return_predecessors=True
        )
        route = []
        while here != source:
            there = int(before[here])
            route.append((min(here, there), max(here, there)))
            here = there
        routes.append(route)
    return RouteHypergraph.from_routes(routes, universe=map(tuple, edges.tolist()))


def chain_by_networkx(H):
    """Run the same recursion, every cut by networkx."""

    def cut(piece, p, q):
        m, n = len(piece.w), len(piece.c)
        G = nx.DiGraph()
        G.add_edges_from(("s", i, {"capacity": p * w}) for i, w in enumerate(piece.w.tolist()))
        G.add_edges_from(zip(piece.e.tolist(), (piece.v + m).tolist()))  # no limit
        G.add_edges_from((m + j, "t", {"capacity": q * c}) for j, c in enumerate(piece.c.tolist()))
        value, (side, _) = nx.minimum_cut(G, "s", "t")
        reached = np.zeros(m + n, dtype=bool)
        reached[[x for x in side if x != "s"]] = True
        return Cut(value, reached[:m], reached[m:], lambda: None)

    whole = Piece(
        H.weights.astype(np.int64),
        np.ones(H.n, dtype=np.int64),
        H.rows,
        H.indices,
        np.arange(H.n),
    )
    used = whole.part(np.ones(H.m, dtype=bool), H.traffic > 0)
    return [ids.tolist() for ids, _ in levels(used, cut, "group")]


def chain(H, **options):
    return nested_subgraphs(H, **options)


def main():
    rows = []
    small = grid_routes(20, 1000)
    ours = nested_subgraphs(small, ties="group").level_of
    theirs = chain_by_networkx(small)
    assert all((ours[ids] == level).all() for level, ids in enumerate(theirs))
    seconds = interleaved(
        {
            "group": lambda: chain(small, ties="group", refine=None),
            "networkx": lambda: chain_by_networkx(small),
        },
        windows=5,
    )
    rows.append(
        row(
            "whole chain, 760 roads, 1000 routes",
            "the same recursion by networkx",
            seconds["group"],
            seconds["networkx"],
            10.0,
        )
    )
    seconds = interleaved(
        {"chain": lambda: chain(small), "lp": lambda: lp_relaxation(small, 0.8)}, windows=5
    )
    rows.append(
        row(
            "whole chain, ties split and peeled, 760 roads",
            "one linear program by HiGHS, for one share of mass",
            seconds["chain"],
            seconds["lp"],
            1.0,
        )
    )
    for side, count, bar in ((50, 4000, None), (80, 8000, 1.0)):
        H = grid_routes(side, count)
        seconds = interleaved(
            {"ortools": lambda H=H: chain(H), "scipy": lambda H=H: chain(H, backend="scipy")},
            windows=5,
        )
        size = f"whole chain, {H.n} roads, {count} routes"
        rows.append(row(size, "backend='scipy'", seconds["ortools"], seconds["scipy"]))
        if bar is not None:
            rows.append(row(size, "a limit of 10 s", seconds["ortools"], 10.0, bar))
    publish("conformal", rows)


if __name__ == "__main__":
    main()
