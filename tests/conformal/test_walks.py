from collections import Counter
from fractions import Fraction
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from scipy import stats

from fallline.conformal import sample_near_walks
from fallline.conformal.walks import _arcs, _count


def enumerate_walks(G, path, budget):
    """All walks by depth-first search, from the definition."""
    free = {*pairwise(path)}
    found = []

    def extend(walk, left):
        u = walk[-1]
        if u == path[-1]:
            found.append(tuple(walk))
            return
        for v in G[u]:
            if (v, u) in free and not G.is_directed():
                continue  # the path is one-way
            cost = (u, v) not in free
            if cost <= left:
                extend([*walk, v], left - cost)

    extend([path[0]], budget)
    return found


def test_draws_are_uniform_over_all_walks():
    G = nx.grid_2d_graph(3, 3)
    path = [(1, 0), (1, 1), (1, 2)]
    walks = enumerate_walks(G, path, 2)
    assert len({*walks}) == len(walks) > 4
    drawn = Counter(sample_near_walks(G, path, budget=2, size=20_000, rng=0))
    assert {*drawn} <= {*walks}
    assert stats.chisquare([drawn[walk] for walk in walks]).pvalue > 0.001


@pytest.mark.parametrize("directed", [False, True])
def test_uniform_on_random_graphs_too(directed):
    for seed in range(5):
        G = nx.gnp_random_graph(8, 0.35, seed=seed, directed=directed)
        nx.add_path(G, [0, 3, 5, 1])
        G.add_edge(5, 3)  # the way back, in a directed graph
        walks = enumerate_walks(G, [0, 3, 5, 1], 3)
        drawn = Counter(sample_near_walks(G, [0, 3, 5, 1], 3, 200 * len(walks), rng=seed))
        assert {*drawn} <= {*walks}
        if len(walks) > 1:
            assert stats.chisquare([drawn[walk] for walk in walks]).pvalue > 1e-4


def test_counts_are_the_integers_of_the_recursion():
    G = nx.grid_2d_graph(5, 5)
    number = {node: i for i, node in enumerate(G)}
    path = [number[0, i] for i in range(5)]
    arcs = _arcs(G, number, np.array(path))
    budget = 400  # 4^400 overflows a float
    levels = _count(arcs, np.array(path), budget)
    tails = np.repeat(np.arange(25), np.diff(arcs.starts))
    out = {u: [] for u in range(25)}
    for u, v, length in zip(tails.tolist(), arcs.head.tolist(), arcs.length.tolist()):
        out[u].append((v, length))
    N = []
    for k in range(budget + 1):
        N.append([0] * 25)
        if k == 0:
            N[0][path[-1]] = 1
        order = [*reversed(path), *(u for u in range(25) if u not in path)]
        for u in order:
            if (k, u) != (0, path[-1]):
                N[k][u] = sum(N[k - w][v] for v, w in out[u] if k - w >= 0)
    for k in (0, 1, 2, 10, 100, 400):
        scaled, exponent = levels[k]
        for u in range(25):
            exact = Fraction(N[k][u]) / Fraction(2) ** exponent
            assert scaled[u] == pytest.approx(float(exact), rel=1e-11, abs=1e-300)


def test_a_large_budget_does_not_overflow():
    G = nx.grid_2d_graph(4, 4)
    path = [(0, i) for i in range(4)]
    walks = sample_near_walks(G, path, budget=1500, size=5, rng=0)
    assert min(map(len, walks)) > 500
    for walk in walks:
        assert walk[0] == (0, 0)
        assert walk.index((0, 3)) == len(walk) - 1
        assert all(G.has_edge(u, v) for u, v in pairwise(walk))


def test_the_seed_decides_and_size_may_be_zero():
    G, path = nx.cycle_graph(6), [0, 1, 2]
    assert sample_near_walks(G, path, 4, 50, rng=1) == sample_near_walks(G, path, 4, 50, rng=1)
    assert sample_near_walks(G, path, 0, 3, rng=1) == [(0, 1, 2)] * 3
    assert sample_near_walks(G, path, 4, 0, rng=1) == []


def test_errors():
    G = nx.path_graph(4)
    with pytest.raises(ValueError, match="budget=-1"):
        sample_near_walks(G, [0, 1], -1, 1, 0)
    with pytest.raises(ValueError, match="size=-1"):
        sample_near_walks(G, [0, 1], 1, -1, 0)
    with pytest.raises(ValueError, match="at least two nodes"):
        sample_near_walks(G, [0], 1, 1, 0)
    with pytest.raises(ValueError, match="visits a node twice"):
        sample_near_walks(G, [0, 1, 0], 1, 1, 0)
    with pytest.raises(ValueError, match="from 1 to 3, which is not an edge"):
        sample_near_walks(G, [0, 1, 3], 1, 1, 0)
