"""A total order of the elements, fixed by training routes: the family that calibration picks from.

The paper is "Compact Conformal Subgraphs", Gollapudi, Kollias, Munagala and Vijayaraghavan,
arXiv:2602.07530.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from functools import cached_property

import numpy as np

from fallline.conformal.hypergraph import Floats, Ints, RouteHypergraph, add_up

# Masses are sums of floats, and 1 - 0.8 is not 0.2.
SLACK = 1e-12


class ElementOrder:
    """Elements in the order in which a growing subgraph takes them.

    Parameters
    ----------
    hypergraph
        The routes that the order was made from.
    order
        Numbers of all elements, first one first (n,).
    ranks
        Rank of each element (n,), from 1; by default its place in `order`. Elements of one rank
        enter together.

    Raises
    ------
    ValueError
        If `order` is not a permutation of 0..n - 1.

    Examples
    --------
    >>> H = RouteHypergraph.from_routes([["a", "b"], ["c"]], universe="abcd")
    >>> order = ElementOrder(H, np.array([2, 0, 1, 3]))
    >>> order.rank
    {'a': 2, 'b': 3, 'c': 1, 'd': 4}
    >>> order.score(["a", "c"]), order.score(["z"])
    (2.0, inf)
    """

    def __init__(self, hypergraph: RouteHypergraph, order: Ints, ranks: Ints | None = None) -> None:
        if not np.array_equal(np.sort(order), np.arange(hypergraph.n)):
            raise ValueError(
                f"order must hold each of the numbers 0..{hypergraph.n - 1} of the elements once"
            )
        self.hypergraph = hypergraph
        self.order = order
        if ranks is None:
            ranks = np.empty(hypergraph.n, dtype=np.int64)
            ranks[order] = np.arange(1, hypergraph.n + 1)
        self.ranks = ranks

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.hypergraph.n} elements)"

    @cached_property
    def rank(self) -> dict[Hashable, int]:
        """Rank of each element, from 1."""
        return dict(zip(self.hypergraph.elements, self.ranks.tolist()))

    @cached_property
    def prefix_masses(self) -> Floats:
        """Mass w(K) of the prefix of each rank 0..n (n + 1,)."""
        H = self.hypergraph
        # An empty route is in every prefix.
        entered = np.zeros(H.m, dtype=np.int64)
        np.maximum.at(entered, H.rows, self.ranks[H.indices])
        return np.cumsum(add_up(entered, H.weights, H.n + 1))

    @cached_property
    def prefix_costs(self) -> Floats:
        """Cost c(K) of the prefix of each rank 0..n (n + 1,)."""
        return np.cumsum(add_up(self.ranks, self.hypergraph.cost, self.hypergraph.n + 1))

    def prefix(self, r: float) -> set[Hashable]:
        """Return the elements of rank at most r."""
        elements = self.hypergraph.elements
        return {elements[i] for i in self.order[self.ranks[self.order] <= r].tolist()}

    def prefix_at_mass(self, tau: float) -> set[Hashable]:
        """Return the smallest prefix that holds the share `tau` of all weight, 0 <= tau <= 1."""
        if not 0 <= tau <= 1:
            raise ValueError(f"tau={tau!r}; it must be in [0, 1]")
        enough = self.prefix_masses >= (tau - SLACK) * self.prefix_masses[-1]
        return self.prefix(int(np.argmax(enough)))

    def score(self, route: Iterable[Hashable]) -> float:
        """Return the least rank whose prefix holds the route: 0 if empty, inf if none does."""
        return float(self.scores([route])[0])

    def scores(self, routes: Iterable[Iterable[Hashable]]) -> Floats:
        """Return the score of each route."""
        rank = self.rank
        return np.array(
            [max([rank.get(x, math.inf) for x in route], default=0) for route in routes],
            dtype=np.float64,
        )
