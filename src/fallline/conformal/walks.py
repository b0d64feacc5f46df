"""Walks that leave a given path a few times: candidates around a prediction."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from fallline.conformal.hypergraph import Floats, Ints


class _Arcs(NamedTuple):
    """Arcs sorted by tail: those of node u are `starts[u]` to `starts[u + 1]`."""

    starts: Ints
    head: Ints
    length: Ints  # 0 along the path, 1 elsewhere


def sample_near_walks(
    G: Any,
    path: Sequence[Hashable],
    budget: int,
    size: int,
    rng: int | np.random.Generator,
) -> list[tuple[Hashable, ...]]:
    """Draw walks uniformly among those that use at most `budget` edges outside a path.

    A walk goes from the path's first node to its last one, ends where it first gets there, and may
    visit other nodes again. The path's edges are free, and one-way in an undirected graph; all
    others count 1. Sampling of arXiv:2602.07530: the number of walks of length k from u is
    N(u, k) = sum over edges (u, v) of N(v, k - length).

    Parameters
    ----------
    G
        networkx Graph or DiGraph.
    path
        The predicted path, without repeated nodes.
    budget
        Largest number of edges outside the path, >= 0.
    size
        Number of walks.
    rng
        Seed or generator.

    Returns
    -------
    list of tuple
        Walks, each a tuple of nodes.

    Examples
    --------
    >>> import networkx as nx
    >>> walks = sample_near_walks(nx.cycle_graph(4), [0, 1, 2], budget=2, size=100, rng=0)
    >>> sorted(set(walks))
    [(0, 1, 2), (0, 3, 0, 1, 2), (0, 3, 2)]
    """
    if budget < 0 or int(budget) != budget:
        raise ValueError(f"budget={budget!r}; it must be an integer >= 0")
    if size < 0:
        raise ValueError(f"size={size!r}; it must be >= 0")
    nodes: list[Hashable] = list(G)
    number = {node: i for i, node in enumerate(nodes)}
    on_path = _checked(G, path, number)
    arcs = _arcs(G, number, on_path)
    levels = _count(arcs, on_path, int(budget))
    drawn = _draw(arcs, on_path, levels, size, np.random.default_rng(rng))
    return [tuple(nodes[i] for i in walk) for walk in drawn]


def _checked(G: Any, path: Sequence[Hashable], number: dict[Hashable, int]) -> Ints:
    if len(path) < 2:
        raise ValueError(f"path={list(path)!r}; it needs at least two nodes")
    if len(set(path)) < len(path):
        raise ValueError("path visits a node twice; give a simple path")
    for u, v in pairwise(path):
        if not G.has_edge(u, v):
            raise ValueError(f"path steps from {u!r} to {v!r}, which is not an edge of the graph")
    return np.array([number[node] for node in path])


def _arcs(G: Any, number: dict[Hashable, int], on_path: Ints) -> _Arcs:
    ends = np.array([(number[u], number[v]) for u, v in G.edges()], dtype=np.int64).reshape(-1, 2)
    if not G.is_directed():
        ends = np.concatenate([ends, ends[ends[:, 0] != ends[:, 1], ::-1]])
    n = len(number)
    ends = np.unique(ends, axis=0)
    code = ends[:, 0] * n + ends[:, 1]
    forward = np.isin(code, on_path[:-1] * n + on_path[1:])
    # Walks stop at the end of the path, and do not go back along it; in a directed graph the way
    # back is an edge like others.
    keep = ends[:, 0] != on_path[-1]
    if not G.is_directed():
        keep &= forward | ~np.isin(code, on_path[1:] * n + on_path[:-1])
    tails, heads, length = ends[keep, 0], ends[keep, 1], 1 - forward[keep].astype(np.int64)
    return _Arcs(np.searchsorted(tails, np.arange(n + 1)), heads, length)


def _count(arcs: _Arcs, on_path: Ints, budget: int) -> list[tuple[Floats, int]]:
    """Return N(., k) for k = 0..budget, each as an array and a binary exponent.

    The counts overflow floats (4^k on a grid), so each level has an exponent of its own.
    """
    from scipy import sparse

    n = len(arcs.starts) - 1
    step = sparse.csr_array((arcs.length.astype(np.float64), arcs.head, arcs.starts), shape=(n, n))
    levels: list[tuple[Floats, int]] = []
    for k in range(budget + 1):
        N = step @ levels[-1][0] if k else np.zeros(n)
        exponent = levels[-1][1] if k else 0
        if not k:
            N[on_path[-1]] = 1.0
        # Along the path a walk stays on its level: later nodes first.
        N[on_path] = np.cumsum(N[on_path][::-1])[::-1]
        shift = int(np.frexp(N.max())[1])
        levels.append((np.ldexp(N, -shift), exponent + shift))
    return levels


def _draw(
    arcs: _Arcs,
    on_path: Ints,
    levels: list[tuple[Floats, int]],
    size: int,
    rng: np.random.Generator,
) -> list[list[int]]:
    """Take one step of all walks at a time, each with probability N(v, k') over their sum."""
    s, t = on_path[0], on_path[-1]
    N = np.stack([level for level, _ in levels])
    exponents = np.array([exponent for _, exponent in levels])
    totals = np.ldexp(N[:, s], np.maximum(exponents - exponents.max(), -2000))
    k = rng.choice(len(levels), size=size, p=totals / totals.sum())
    u = np.full(size, s)
    alive = np.arange(size)
    degree = np.diff(arcs.starts)
    walkers, visited = [alive], [u.copy()]
    while len(alive):
        here, level = u[alive], k[alive]
        # All arcs out of the current nodes, one group per walk.
        group = np.repeat(np.arange(len(alive)), degree[here])
        first = np.cumsum(degree[here]) - degree[here]
        last = first + degree[here] - 1
        arc = np.arange(len(group)) - first[group] + arcs.starts[here][group]
        then = level[group] - arcs.length[arc]
        weight = np.where(then >= 0, N[then, arcs.head[arc]], 0.0)
        # Levels are scaled by their exponents, and each group sums to 1.
        weight = np.ldexp(weight, exponents[then] - exponents[level][group])
        summed = np.cumsum(weight / N[level, here][group])
        before = np.append(0.0, summed)[first]
        goal = before + rng.random(len(alive)) * (summed[last] - before)
        # The first arc beyond the goal has a positive weight.
        goal = np.minimum(goal, np.nextafter(summed[last], 0.0))
        chosen = arc[np.searchsorted(summed, goal, side="right")]
        u[alive], k[alive] = arcs.head[chosen], level - arcs.length[chosen]
        walkers.append(alive)
        visited.append(u[alive])
        alive = alive[u[alive] != t]
    walker = np.concatenate(walkers)
    nodes = np.concatenate(visited)[np.argsort(walker, kind="stable")].tolist()
    ends = np.cumsum(np.bincount(walker, minlength=size)).tolist()
    return [nodes[a:b] for a, b in pairwise([0, *ends])]
