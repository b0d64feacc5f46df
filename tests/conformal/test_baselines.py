import itertools
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
from tests.conformal.reference import (
    linear_program,
    mass,
    peeled,
    random_problem,
    subsets,
)

from fallline.conformal import (
    RouteHypergraph,
    baselines,
    forward_greedy,
    k_shortest,
    lp_relaxation,
    nested_subgraphs,
    ratio_greedy,
    reverse_greedy,
    smallest_subgraph,
    top_routes,
)


def problem(rng):
    routes, weights, cost = random_problem(rng, n=9, m=10)
    return routes, weights, cost, RouteHypergraph.from_routes(routes, weights, cost, range(9))


def order(found):
    return sorted(found.rank, key=found.rank.__getitem__)


def test_forward_greedy_sorts_by_traffic():
    rng = np.random.default_rng(0)
    for _ in range(50):
        routes, weights, _, H = problem(rng)
        traffic = {v: sum(w for r, w in zip(routes, weights) if v in r) for v in range(9)}
        assert order(forward_greedy(H)) == sorted(range(9), key=lambda v: (-traffic[v], v))


def test_reverse_greedy_recomputes_traffic_after_each_deletion():
    rng = np.random.default_rng(1)
    for _ in range(50):
        routes, weights, cost, H = problem(rng)
        used = {v for route in routes for v in route}
        expected = peeled(routes, weights, cost, used)[::-1]
        assert order(reverse_greedy(H)) == expected + [v for v in range(9) if v not in used]


def united(routes, universe):
    seen = dict.fromkeys(v for route in routes for v in sorted(route))
    return [*seen, *(v for v in universe if v not in seen)]


def test_top_routes_unites_by_weight_then_size():
    rng = np.random.default_rng(2)
    for _ in range(50):
        routes, weights, _, H = problem(rng)
        ranked = sorted(range(len(routes)), key=lambda e: (-weights[e], len(routes[e]), e))
        assert order(top_routes(H)) == united([routes[e] for e in ranked], range(9))


def test_ratio_greedy_counts_every_route_that_gets_covered():
    rng = np.random.default_rng(3)
    for _ in range(50):
        routes, weights, cost, H = problem(rng)
        K, added = set(), []
        while left := [e for e, r in enumerate(routes) if not {*r} <= K]:
            gains = {}
            for e in left:
                grown = K | {*routes[e]}
                new = mass(routes, weights, grown) - mass(routes, weights, K)
                gains[e] = Fraction(new, sum(cost[v] for v in grown - K))
            e = max(left, key=lambda e: (gains[e], -e))
            added.append(routes[e])
            K |= {*routes[e]}
        assert order(ratio_greedy(H)) == united(added, range(9))


def test_ratio_greedy_refuses_what_would_not_fit_in_memory(monkeypatch):
    monkeypatch.setattr(baselines, "MOST_ROUTES", 2)
    H = RouteHypergraph.from_routes([["a"], ["b"], ["c"]])
    with pytest.raises(ValueError, match=r"3 distinct routes.*at most 2"):
        ratio_greedy(H)


def test_k_shortest_takes_paths_in_the_order_of_their_length():
    G = nx.grid_2d_graph(3, 3)
    rng = np.random.default_rng(4)
    for edge in G.edges:
        G.edges[edge]["length"] = rng.uniform(0.5, 2)
    paths = list(nx.shortest_simple_paths(G, (0, 0), (2, 2), weight="length"))
    H = RouteHypergraph.from_paths(G, paths[:2])
    found = order(k_shortest(H, G, (0, 0), (2, 2), weight="length"))
    place = {edge: i for i, edge in enumerate(H.elements)}
    routes = [[place[tuple(sorted(e))] for e in itertools.pairwise(path)] for path in paths]
    assert [place[x] for x in found] == united(routes, range(12))
    only_one = order(k_shortest(H, G, (0, 0), (2, 2), weight="length", paths=1))
    assert [place[x] for x in only_one] == united(routes[:1], range(12))
    by_node = RouteHypergraph.from_paths(G, paths[:1], element="node")
    nodes = order(k_shortest(by_node, G, (0, 0), (2, 2), "length", element="node", paths=1))
    assert {*nodes[:5]} == {*paths[0]}


def test_the_trap():
    routes = [list(range(40)), *([40 + i] for i in range(8))]
    H = RouteHypergraph.from_routes(routes, [2] + [1] * 8)
    assert nested_subgraphs(H).at_mass(0.8) == {*range(40, 48)}
    assert len(nested_subgraphs(H).prefix_at_mass(0.8)) == 8
    assert len(reverse_greedy(H).prefix_at_mass(0.8)) == 46


def test_the_linear_program_is_the_one_written_row_by_row():
    rng = np.random.default_rng(5)
    for _ in range(30):
        routes, weights, cost, H = problem(rng)
        tau = rng.uniform(0.1, 1.0)
        value, x = lp_relaxation(H, tau)
        assert value == pytest.approx(linear_program(routes, weights, cost, tau), abs=1e-9)
        assert value == pytest.approx(H.cost @ x, abs=1e-9)
    with pytest.raises(ValueError, match="tau=0"):
        lp_relaxation(H, 0)


def test_the_integer_program_finds_the_cheapest_of_all_subsets():
    rng = np.random.default_rng(6)
    for _ in range(20):
        routes, weights, cost, H = problem(rng)
        for tau in (0.3, 0.6, 0.9):
            K = smallest_subgraph(H, tau)
            enough = [S for S in subsets(9) if mass(routes, weights, S) >= tau * sum(weights)]
            assert sum(cost[v] for v in K) == min(sum(cost[v] for v in S) for S in enough)
            assert mass(routes, weights, K) >= tau * sum(weights) - 1e-6


def test_optima_need_not_be_nested():
    H = RouteHypergraph.from_routes([list("ab"), list("cd"), list("efg")], weights=[3, 3, 4])
    assert not smallest_subgraph(H, 0.6) <= smallest_subgraph(H, 0.7)


def test_time_is_limited():
    H = RouteHypergraph.from_routes([["a"], ["b"]])
    with pytest.raises(FloatingPointError, match="no proved optimum"):
        smallest_subgraph(H, 0.5, seconds=0.0)
