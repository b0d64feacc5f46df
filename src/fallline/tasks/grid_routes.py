"""Routes across a street grid that traffic varies, with a bypass that some drivers take."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Edge = tuple[int, int]


@dataclass(frozen=True, eq=False)
class GridRoutes:
    """A grid of nodes 0..size^2 - 1 (row by row) and the nodes of a bypass around it.

    Routes run from node 0 to node size^2 - 1: with probability `share` the shortest path under
    independent edge weights, uniform on [0.1, 2]; else the bypass.
    """

    size: int = 6
    bypass: int = 20
    share: float = 0.85

    @property
    def edges(self) -> list[Edge]:
        """All edges, each a sorted pair of nodes: those of the grid, then those of the bypass."""
        return [*map(_pair, self._grid), *self.detour]

    @property
    def detour(self) -> list[Edge]:
        """The edges of the bypass, in the order from source to target."""
        first, last = self.size**2, self.size**2 - 1
        nodes = [0, *range(first, first + self.bypass - 1), last]
        return [(min(u, v), max(u, v)) for u, v in pairwise(nodes)]

    @property
    def positions(self) -> NDArray[np.float64]:
        """Coordinates of the nodes for a drawing: the bypass goes around a corner of the grid."""
        row, column = np.divmod(np.arange(self.size**2), self.size)
        along = np.linspace(0, 2, self.bypass + 1)[1:-1]
        end = self.size - 1
        x = np.where(along < 1, -1.0, -1 + (along - 1) * (end + 1))
        y = np.where(along < 1, along * (end + 1), end + 1.0)
        return np.concatenate([np.stack([column, row], 1), np.stack([x, y], 1)])

    def draw(self, count: int, rng: np.random.Generator) -> list[list[Edge]]:
        """Draw routes, each as its edges.

        Examples
        --------
        >>> routes = GridRoutes().draw(1000, np.random.default_rng(0))
        >>> sum(route == GridRoutes().detour for route in routes)
        152
        """
        from scipy import sparse
        from scipy.sparse import csgraph

        direct = rng.random(count) < self.share
        copies, nodes, edges = int(direct.sum()), self.size**2, self._grid
        weights = rng.uniform(0.1, 2.0, (copies, len(edges)))
        # One copy of the grid per route, side by side, and one search from all their sources.
        first = nodes * np.arange(copies)[:, None]
        tails, heads = (first + edges[:, 0]).ravel(), (first + edges[:, 1]).ravel()
        graph = sparse.csr_array(
            (weights.ravel(), (tails, heads)), shape=(nodes * copies, nodes * copies)
        )
        before = np.zeros((0,), dtype=np.int64)
        if copies:
            _, before, _ = csgraph.dijkstra(
                graph,
                directed=False,
                indices=first[:, 0],
                return_predecessors=True,
                min_only=True,
            )
        found = iter(range(copies))
        return [self._back(before, next(found) * nodes) if d else self.detour for d in direct]

    def _back(self, before: NDArray[np.int64], first: int) -> list[Edge]:
        path, node = [], first + self.size**2 - 1
        while node != first:
            last, node = node - first, int(before[node])
            path.append((min(last, node - first), max(last, node - first)))
        return path[::-1]

    @property
    def _grid(self) -> NDArray[np.int64]:
        index = np.arange(self.size**2).reshape(self.size, self.size)
        across = np.stack([index[:, :-1].ravel(), index[:, 1:].ravel()], 1)
        return np.concatenate([across, np.stack([index[:-1].ravel(), index[1:].ravel()], 1)])


def _pair(edge: NDArray[np.int64]) -> Edge:
    return int(edge[0]), int(edge[1])
