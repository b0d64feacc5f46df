"""What is used today, each as an order of the elements, so that calibration applies unchanged.

All ties go to the element with the smaller number.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from fallline._errors import import_extra
from fallline.conformal.hypergraph import Ints, RouteHypergraph
from fallline.conformal.integers import EXACT_SUM, integer_costs, integer_weights
from fallline.conformal.order import SLACK, ElementOrder
from fallline.conformal.paths import Element, default_key, path_elements

MOST_ROUTES = 5000


def forward_greedy(hypergraph: RouteHypergraph) -> ElementOrder:
    """Order the elements by the weight of the training routes through them, most first.

    Examples
    --------
    >>> H = RouteHypergraph.from_routes([["a", "b"], ["b", "c"]], weights=[1, 2])
    >>> forward_greedy(H).rank
    {'a': 3, 'b': 1, 'c': 2}
    """
    H = hypergraph
    return ElementOrder(H, np.lexsort((np.arange(H.n), -H.traffic)))


def reverse_greedy(hypergraph: RouteHypergraph) -> ElementOrder:
    """Delete the element of least traffic per cost, with the routes through it, again and again.

    Charikar's peeling on hypergraphs; the order is that of deletion, reversed.

    Examples
    --------
    >>> H = RouteHypergraph.from_routes([["a", "b"], ["b", "c"]], weights=[1, 2])
    >>> reverse_greedy(H).rank
    {'a': 3, 'b': 2, 'c': 1}
    """
    from fallline.conformal.peeling import peel

    H = hypergraph
    c, _ = integer_costs(H.cost, 10**6)
    w, _ = integer_weights(H.weights, 1, EXACT_SUM)
    step = np.where(H.traffic > 0, -peel(H.rows, H.indices, w, c), 1)
    return ElementOrder(H, np.lexsort((np.arange(H.n), step)))


def top_routes(hypergraph: RouteHypergraph) -> ElementOrder:
    """Unite the distinct routes by decreasing weight, then by fewer elements.

    With model probabilities as weights: the most probable paths.

    Examples
    --------
    >>> H = RouteHypergraph.from_routes([["a", "b"], ["b", "c"]], weights=[1, 2])
    >>> top_routes(H).rank
    {'a': 3, 'b': 1, 'c': 2}
    """
    H = hypergraph
    order = np.lexsort((np.arange(H.m), np.diff(H.indptr), -H.weights))
    return _united(H, (H.indices[H.indptr[e] : H.indptr[e + 1]] for e in order))


def ratio_greedy(hypergraph: RouteHypergraph) -> ElementOrder:
    """Add the route with the largest newly covered mass per new cost, again and again.

    Newly covered is every route that then lies in the union. It holds the overlaps of all pairs of
    routes: for up to 5000 distinct routes.

    Raises
    ------
    ValueError
        If there are more.

    Examples
    --------
    >>> H = RouteHypergraph.from_routes([["a", "b"], ["b", "c"]], weights=[1, 2])
    >>> ratio_greedy(H).rank
    {'a': 3, 'b': 1, 'c': 2}
    """
    if hypergraph.m > MOST_ROUTES:
        raise ValueError(
            f"hypergraph has {hypergraph.m} distinct routes; ratio_greedy compares all pairs and "
            f"takes at most {MOST_ROUTES}"
        )
    return _united(hypergraph, _by_ratio(hypergraph))


def _by_ratio(H: RouteHypergraph) -> Iterator[Ints]:
    from scipy import sparse

    ones = np.ones(len(H.indices), dtype=np.int32)
    uses = sparse.csr_array((ones, H.indices, H.indptr), shape=(H.m, H.n))
    through = uses.tocsc()
    overlap = (uses @ uses.T).toarray()  # of what each pair of routes still lacks
    left = np.diff(H.indptr)
    lacks = np.ones(H.n, dtype=bool)
    while left.any():
        # Adding route e completes every route whose missing elements all lie in e.
        completes = (overlap == left) & (left > 0)
        cost = uses @ (H.cost * lacks)
        ratio = np.divide(completes @ H.weights, cost, out=np.zeros(H.m), where=left > 0)
        e = int(np.argmax(ratio >= ratio.max() * (1 - SLACK)))
        route = H.indices[H.indptr[e] : H.indptr[e + 1]]
        new = route[lacks[route]]
        yield new
        lacks[new] = False
        for x in new:
            through_x = through.indices[through.indptr[x] : through.indptr[x + 1]]
            overlap[np.ix_(through_x, through_x)] -= 1
            left[through_x] -= 1


def k_shortest(
    hypergraph: RouteHypergraph,
    G: Any,
    source: Hashable,
    target: Hashable,
    weight: str | None = None,
    element: Element = "edge",
    paths: int = 1000,
) -> ElementOrder:
    """Unite the shortest simple paths of a networkx graph, shortest first (extra `graphs`).

    Parameters
    ----------
    hypergraph
        Gives the universe; elements on none of the paths come last.
    G
        networkx Graph or DiGraph.
    source, target
        Nodes.
    weight
        Name of the attribute that holds an edge's length, given or mean; 1 by default.
    element
        Whether the universe is of edges or nodes.
    paths
        How many paths at most: a graph may have more than can be listed.

    Examples
    --------
    >>> import networkx as nx
    >>> G = nx.cycle_graph(5)
    >>> H = RouteHypergraph.from_paths(G, [[0, 4, 3]])
    >>> k_shortest(H, G, 0, 2).rank
    {(0, 1): 1, (0, 4): 3, (1, 2): 2, (2, 3): 4, (3, 4): 5}
    """
    H = hypergraph
    found = import_extra("networkx", extra="graphs").shortest_simple_paths(
        G, source, target, weight=weight
    )
    key = default_key(G, weight)

    def routes() -> Iterator[Ints]:
        for path in islice(found, paths):
            names = path_elements(G, path, element, key=key)
            yield np.array(sorted(H.index[x] for x in names if x in H.index), dtype=np.int64)

    return _united(H, routes())


def _united(H: RouteHypergraph, routes: Iterator[Ints]) -> ElementOrder:
    """Order elements by the first route that holds them, then by number; the others last."""
    place = np.full(H.n, np.iinfo(np.int64).max)
    left = H.n
    for i, route in enumerate(routes):
        new = route[place[route] > i]
        place[new] = i
        left -= len(new)
        if not left:
            break
    return ElementOrder(H, np.lexsort((np.arange(H.n), place)))
