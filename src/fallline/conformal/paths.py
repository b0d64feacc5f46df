"""Paths of a networkx graph as elements, and elements back as a subgraph.

Only the graph's own methods are used, so that networkx need not be imported here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import pairwise
from typing import Any, Literal

Element = Literal["edge", "node"]


def path_elements(
    G: Any,
    path: Sequence[Hashable],
    element: Element = "edge",
    *,
    key: Callable[[Hashable, Hashable], Hashable] | None = None,
) -> list[Hashable]:
    """Return the elements that a path of nodes uses, in its order.

    Parameters
    ----------
    G
        networkx graph of any of the four kinds.
    path
        Sequence of nodes.
    element
        `"edge"`: the sorted pair of nodes in an undirected graph, the ordered pair in a directed
        one, with the key of the edge added in a multigraph; `"node"`: the nodes.
    key
        Chooses the key of a multigraph's edge between two nodes; by default the first one.

    Raises
    ------
    ValueError
        If a node or a step is not in `G`.

    Examples
    --------
    >>> import networkx as nx
    >>> path_elements(nx.path_graph(3), [2, 1, 0])
    [(1, 2), (0, 1)]
    """
    _known(element)
    if element == "node":
        for node in path:
            if node not in G:
                raise ValueError(f"path has the node {node!r}, which is not in the graph")
        return list(path)
    key = key or default_key(G, None)
    elements: list[Hashable] = []
    for u, v in pairwise(path):
        if not G.has_edge(u, v):
            raise ValueError(f"path steps from {u!r} to {v!r}, which is not an edge of the graph")
        pair = (u, v) if G.is_directed() else sorted_pair(u, v)
        elements.append((*pair, key(u, v)) if G.is_multigraph() else pair)
    if len(path) == 1 and path[0] not in G:
        raise ValueError(f"path has the node {path[0]!r}, which is not in the graph")
    return elements


def default_key(G: Any, cost: str | None) -> Callable[[Hashable, Hashable], Hashable]:
    """Choose the cheapest of parallel edges, or the first one where there is no cost."""

    def key(u: Hashable, v: Hashable) -> Hashable:
        edges: dict[Hashable, Any] = G[u][v]
        if cost is None:
            first: Hashable = next(iter(edges))
            return first
        cheapest: Hashable = min(edges, key=lambda k: edges[k].get(cost, float("inf")))
        return cheapest

    return key


def weighted_elements(G: Any, element: Element, cost: str | None) -> dict[Hashable, float | None]:
    """List every edge or node of a graph in its order, with its cost attribute."""
    _known(element)
    if element == "node":
        return {node: data.get(cost) for node, data in G.nodes(data=True)}
    edges = G.edges(keys=True, data=True) if G.is_multigraph() else G.edges(data=True)
    found: dict[Hashable, float | None] = {}
    for u, v, *keys, data in edges:
        pair = (u, v) if G.is_directed() else sorted_pair(u, v)
        found[(*pair, *keys)] = data.get(cost)
    return found


def subgraph(G: Any, elements: Iterable[Hashable], element: Element = "edge") -> Any:
    """Return the part of a graph that is made of these edges or nodes, as networkx's view.

    Raises
    ------
    ValueError
        If an element is not in the graph.
    """
    _known(element)
    elements = list(elements)
    for x in elements:
        known = x in G if element == "node" else isinstance(x, tuple) and G.has_edge(*x)
        if not known:
            raise ValueError(f"{x!r} is not {'a node' if element == 'node' else 'an edge'} of G")
    return G.subgraph(elements) if element == "node" else G.edge_subgraph(elements)


def sorted_pair(u: Any, v: Any) -> tuple[Hashable, Hashable]:
    """Return the two nodes in order; by type and text where they cannot be compared."""
    try:
        return (u, v) if u <= v else (v, u)
    except TypeError:
        first, second = sorted((u, v), key=lambda x: (type(x).__name__, str(x)))
        return first, second


def _known(element: str) -> None:
    if element not in ("edge", "node"):
        raise ValueError(f"element={element!r}; choose 'edge' or 'node'")
