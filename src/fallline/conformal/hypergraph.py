"""Routes as hyperedges over the elements that they use."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fallline.conformal.paths import default_key, path_elements, weighted_elements

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class RouteHypergraph:
    """Distinct routes with their weights over a ground set of elements with costs.

    Build one with `from_routes` or `from_paths`. Elements are numbered in the order of the
    universe, else of first appearance; every tie is broken by that number.

    Parameters
    ----------
    elements
        The ground set V: n hashable elements.
    cost
        Cost of each element (n,), > 0.
    weights
        Weight of each distinct route (m,), > 0.
    indptr, indices
        Route e uses the elements `indices[indptr[e]:indptr[e + 1]]`, sorted.
    """

    elements: Sequence[Hashable]
    cost: Floats
    weights: Floats
    indptr: Ints
    indices: Ints

    @classmethod
    def from_routes(
        cls,
        routes: Iterable[Iterable[Hashable]],
        weights: ArrayLike | None = None,
        cost: Mapping[Any, float] | ArrayLike | None = None,
        universe: Iterable[Hashable] | None = None,
    ) -> RouteHypergraph:
        """Build from routes, each an iterable of hashable elements in any order.

        Equal routes are merged and their weights added; routes of weight 0 are left out.

        Parameters
        ----------
        routes
            The routes.
        weights
            One weight >= 0 per route: counts, scores or probabilities; 1 by default.
        cost
            Cost > 0 of each element: a mapping, or an array in the order of `universe`; 1 by
            default.
        universe
            The whole ground set, in the order that breaks ties. By default the elements that the
            routes use.

        Raises
        ------
        ValueError
            If no route has an element and a positive weight, a weight is negative or not finite,
            a cost is not positive, or a route leaves the universe.
        TypeError
            If a route is a string.

        Examples
        --------
        >>> H = RouteHypergraph.from_routes([["a", "b"], ["b", "a"], ["c"]])
        >>> H
        RouteHypergraph(2 routes over 3 elements)
        >>> H.weights
        array([2., 1.])
        """
        index: dict[Hashable, int] = {}
        if universe is not None:
            for element in universe:
                index.setdefault(element, len(index))
        flat, ends = _number(routes, index, grow=universe is None)
        route_weights = _weights(weights, len(ends))
        rows = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
        n = max(1, len(index))
        # Sorted by route and element, each element once.
        keys = sorted_distinct(rows * n + flat)
        rows, columns = keys // n, keys % n
        indptr = np.zeros(len(ends) + 1, dtype=np.int64)
        np.cumsum(np.bincount(rows, minlength=len(ends)), out=indptr[1:])
        merged, indptr, indices = _merge(route_weights, indptr, columns)
        if not len(indices):
            raise ValueError(
                f"routes: none of the {len(ends)} routes has an element and a positive weight; "
                "give at least one"
            )
        elements = tuple(index)
        return cls(elements, _costs(cost, elements), merged, indptr, indices)

    @classmethod
    def from_paths(
        cls,
        G: Any,
        node_paths: Iterable[Sequence[Hashable]],
        element: Literal["edge", "node"] = "edge",
        weights: ArrayLike | None = None,
        cost: str | None = None,
    ) -> RouteHypergraph:
        """Build from paths of a networkx graph, each a sequence of nodes.

        The universe is every edge (or node) of `G`, in the graph's order. An edge of an undirected
        graph is its sorted pair of nodes, of a directed graph the ordered pair; a multigraph adds
        the key of its cheapest edge.

        Parameters
        ----------
        G
            Graph, DiGraph, MultiGraph or MultiDiGraph.
        node_paths
            The routes, each a sequence of nodes.
        element
            Whether an element is an `"edge"` or a `"node"`.
        weights
            As in `from_routes`.
        cost
            Name of the attribute that holds an element's cost, such as `"length"`; 1 by default.

        Raises
        ------
        ValueError
            If a step of a path is not an edge of `G`, or as in `from_routes`.

        Examples
        --------
        >>> import networkx as nx
        >>> G = nx.cycle_graph(4)
        >>> H = RouteHypergraph.from_paths(G, [[0, 1, 2], [0, 3, 2]], weights=[3, 1])
        >>> H.elements
        ((0, 1), (0, 3), (1, 2), (2, 3))
        """
        universe = weighted_elements(G, element, cost)
        if cost is not None:
            for name, value in universe.items():
                if value is None:
                    raise ValueError(f"cost={cost!r}: {element} {name!r} has no such attribute")
        key = default_key(G, cost)
        routes = [path_elements(G, path, element, key=key) for path in node_paths]
        costs = None if cost is None else universe
        return cls.from_routes(routes, weights, costs, universe)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return f"RouteHypergraph({self.m} routes over {self.n} elements)"

    @property
    def n(self) -> int:
        """Number of elements."""
        return len(self.elements)

    @property
    def m(self) -> int:
        """Number of distinct routes."""
        return len(self.weights)

    @cached_property
    def total(self) -> float:
        """W: the sum of all weights."""
        return math.fsum(self.weights)

    @cached_property
    def index(self) -> dict[Hashable, int]:
        """The number of each element."""
        return {element: i for i, element in enumerate(self.elements)}

    @cached_property
    def rows(self) -> Ints:
        """The route of each entry of `indices`."""
        return np.repeat(np.arange(self.m), np.diff(self.indptr))

    @cached_property
    def traffic(self) -> Floats:
        """Weight of the routes through each element (n,)."""
        return add_up(self.indices, self.weights[self.rows], self.n)

    def mass(self, subset: Iterable[Hashable]) -> float:
        """Return w(K), the weight of the routes that lie inside a set of elements.

        Examples
        --------
        >>> RouteHypergraph.from_routes([["a", "b"], ["b"]], [2, 1]).mass({"b"})
        1.0
        """
        inside = np.zeros(self.n, dtype=bool)
        inside[[self.index[x] for x in subset if x in self.index]] = True
        outside = add_up(self.rows, ~inside[self.indices], self.m)
        return math.fsum(self.weights[outside == 0])


def add_up(groups: Ints, values: NDArray[Any], size: int) -> Floats:
    """Return the sum of the values of each group 0..size - 1."""
    sums: Any = np.bincount(groups, values, size)
    return sums  # type: ignore[no-any-return]


def sorted_distinct(values: Ints) -> Ints:
    """Do what `np.unique` does, which hashes integers first and is slower for it."""
    values = np.sort(values)
    new = np.ones(len(values), dtype=bool)
    new[1:] = values[1:] != values[:-1]
    return values[new]


def _number(
    routes: Iterable[Iterable[Hashable]], index: dict[Hashable, int], *, grow: bool
) -> tuple[Ints, Ints]:
    """Return the numbers of all routes' elements in one list, and where each route ends."""
    flat: list[int] = []
    ends: list[int] = []
    for i, route in enumerate(routes):
        if isinstance(route, (str, bytes)):
            raise TypeError(
                f"routes[{i}] is the string {route!r}; a route is an iterable of elements, "
                f"such as [{route!r}]"
            )
        try:
            if grow:
                flat.extend([index.setdefault(x, len(index)) for x in route])
            else:
                flat.extend([index[x] for x in route])
        except KeyError as error:
            raise ValueError(
                f"routes[{i}] has the element {error.args[0]!r}, which is not in the universe; "
                "add it there, or leave the route out"
            ) from None
        ends.append(len(flat))
    return np.array(flat, dtype=np.int64), np.array(ends, dtype=np.int64)


def _weights(weights: ArrayLike | None, m: int) -> Floats:
    if weights is None:
        return np.ones(m)
    values = np.asarray(weights, dtype=np.float64)
    if values.shape != (m,):
        raise ValueError(f"weights has shape {values.shape}; expected one per route: ({m},)")
    bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    if len(bad):
        raise ValueError(f"weights[{bad[0]}] is {values[bad[0]]}; it must be finite and >= 0")
    return values


def _costs(cost: Mapping[Any, float] | ArrayLike | None, elements: Sequence[Hashable]) -> Floats:
    if cost is None:
        return np.ones(len(elements))
    if isinstance(cost, Mapping):
        absent = next((x for x in elements if x not in cost), None)
        if absent is not None:
            raise ValueError(f"cost: there is none for the element {absent!r}")
        cost = [cost[x] for x in elements]
    values = np.asarray(cost, dtype=np.float64)
    if values.shape != (len(elements),):
        raise ValueError(f"cost has shape {values.shape}; expected ({len(elements)},)")
    bad = np.flatnonzero(~(np.isfinite(values) & (values > 0)))
    if len(bad):
        raise ValueError(
            f"cost of the element {elements[bad[0]]!r} is {values[bad[0]]}; "
            "it must be finite and > 0"
        )
    return values


def _merge(weights: Floats, indptr: Ints, indices: Ints) -> tuple[Floats, Ints, Ints]:
    """Add up the weights of equal routes, kept in the order of first appearance."""
    first: dict[bytes, int] = {}
    keep: list[int] = []
    group = np.full(len(weights), -1)
    for e in np.flatnonzero(weights):
        key = indices[indptr[e] : indptr[e + 1]].tobytes()
        group[e] = first.setdefault(key, len(first))
        if len(first) > len(keep):
            keep.append(int(e))
    used = group >= 0
    merged = add_up(group[used], weights[used], len(keep))
    sizes = np.diff(indptr)
    chosen = np.zeros(len(weights), dtype=bool)
    chosen[keep] = True
    ends = np.concatenate([[0], np.cumsum(sizes[chosen])]).astype(np.int64)
    return merged, ends, indices[np.repeat(chosen, sizes)]
