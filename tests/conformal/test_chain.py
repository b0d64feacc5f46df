import itertools
import json
import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conformal.reference import (
    hull,
    least,
    linear_program,
    mass,
    peeled,
    random_problem,
)

from fallline.conformal import ElementOrder, RouteHypergraph, nested_subgraphs

BACKENDS = ["ortools", "scipy"]


def build(routes, weights=None, cost=None, **options):
    universe = range(len(cost)) if cost else None
    H = RouteHypergraph.from_routes(routes, weights, cost, universe)
    return nested_subgraphs(H, **options)


# Numbers worked out by hand


@pytest.mark.parametrize("backend", BACKENDS)
def test_three_disjoint_paths(backend):
    P1, P2, P3 = ["a", "b"], ["c", "d"], ["e", "f", "g"]
    chain = build([P1, P2, P3], [3, 3, 4], backend=backend)
    assert chain.levels == {"a": 0, "b": 0, "c": 1, "d": 1, "e": 2, "f": 2, "g": 2}
    assert chain.breakpoints == [Fraction(2, 3), Fraction(2, 3), Fraction(3, 4)]
    grouped = build([P1, P2, P3], [3, 3, 4], backend=backend, ties="group")
    assert grouped.levels == {**dict.fromkeys("abcd", 0), **dict.fromkeys("efg", 1)}
    assert grouped.breakpoints == [Fraction(2, 3), Fraction(3, 4)]
    assert chain.at_mass(0.6) == {"a", "b", "c", "d"}
    assert chain.at_mass(0.7) == {*"abcdefg"}  # the optimum is P1 and P3, which P2 is not in


def test_singletons():
    chain = build([[0], [1], [2]], [3, 2, 1])
    assert chain.breakpoints == [Fraction(1, 3), Fraction(1, 2), Fraction(1)]
    assert chain.lp_value(0.7) == pytest.approx(1.6, abs=1e-12)
    assert chain.lp_round(0.7, 1) == {0, 1}
    assert chain.at_mass(0.7, 1) == {0}


def test_overlapping_routes():
    chain = build([["a", "b"], ["b", "c"], ["d"]], [4, 4, 1])
    assert chain.at_level(0) == {"a", "b", "c"}
    assert chain.at_level(1) == {"a", "b", "c", "d"}
    assert chain.at_level(-1) == set()
    assert chain.breakpoints == [Fraction(3, 8), Fraction(1)]
    assert chain.lp_value(4 / 9) == pytest.approx(1.5, abs=1e-12)
    assert chain.lp_value(0.7) == pytest.approx(2.3625, abs=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_costs(backend):
    routes, weights = [[0, 1, 2], [2, 3], [3, 4], [5], [4, 5]], [5, 3, 2, 1, 2]
    cost = [3, 1, 1, 2, 1, 4]
    grouped = build(routes, weights, cost, ties="group", backend=backend)
    assert list(zip(grouped.costs, grouped.masses)) == [(8, 10), (12, 13)]
    chain = build(routes, weights, cost, backend=backend)
    assert list(zip(chain.costs, chain.masses)) == [(4, 5), (8, 10), (12, 13)]
    assert chain.breakpoints == [Fraction(4, 5), Fraction(4, 5), Fraction(4, 3)]
    assert chain.lp_value(0.5) == pytest.approx(5.2, abs=1e-12)
    assert chain.lp_value(0.9) == pytest.approx(10.266667, abs=1e-6)


def test_elements_that_no_route_uses_are_in_no_level_and_come_last_in_order():
    H = RouteHypergraph.from_routes([["c"], ["a"]], [2, 1], universe="zabyc")
    chain = nested_subgraphs(H)
    assert chain.levels == {"z": -1, "a": 1, "b": -1, "y": -1, "c": 0}
    assert chain.rank == {"c": 1, "a": 2, "z": 3, "b": 4, "y": 5}
    assert chain.at_level(1) == {"a", "c"}
    assert chain.at_mass(1.0) == {"a", "c"}


# Against all subsets, and a linear program row by row


def test_group_mode_is_the_hull_of_all_subsets():
    rng = np.random.default_rng(0)
    for trial in range(300):
        routes, weights, cost = random_problem(rng)
        expected = hull(routes, weights, cost)
        for backend in BACKENDS if trial < 100 else BACKENDS[:1]:
            grouped = build(routes, weights, cost, ties="group", backend=backend)
            assert list(zip(grouped.costs, grouped.masses)) == expected
            assert all(a < b for a, b in itertools.pairwise(grouped.breakpoints))


def test_every_prefix_is_optimal_at_its_breakpoint_and_both_backends_agree():
    rng = np.random.default_rng(1)
    for trial in range(300):
        routes, weights, cost = random_problem(rng)
        chain = build(routes, weights, cost)
        if trial < 100:
            assert chain.levels == build(routes, weights, cost, backend="scipy").levels
        assert all(a <= b for a, b in itertools.pairwise(chain.breakpoints))
        for j, lam in enumerate(chain.breakpoints):
            K = chain.at_level(j)
            value = sum(cost[v] for v in K) - lam * mass(routes, weights, K)
            assert value == least(routes, weights, cost, lam)
            assert chain.costs[j] == sum(cost[v] for v in K)
            assert chain.masses[j] == mass(routes, weights, K)


def test_ties_are_split_as_finely_as_possible():
    # With ties at one breakpoint, no optimal set lies strictly between two neighbours.
    rng = np.random.default_rng(2)
    for _ in range(100):
        routes, weights, cost = random_problem(rng)
        chain = build(routes, weights, cost)
        for j, lam in enumerate(chain.breakpoints):
            below, new = chain.at_level(j - 1), sorted(chain.at_level(j) - chain.at_level(j - 1))
            best = least(routes, weights, cost, lam)
            for size in range(1, len(new)):
                for part in itertools.combinations(new, size):
                    K = below | {*part}
                    assert sum(cost[v] for v in K) - lam * mass(routes, weights, K) > best


def test_values_and_bounds_of_the_relaxation():
    rng = np.random.default_rng(3)
    for _ in range(200):
        routes, weights, cost = random_problem(rng)
        chain, W = build(routes, weights, cost), sum(weights)
        tau = rng.uniform(0.1, 1.0)
        value = linear_program(routes, weights, cost, tau)
        assert chain.lp_value(tau) == pytest.approx(value, abs=1e-9)
        for kappa in (0.5, 1.0, 2.0):
            if (1 + kappa) * (1 - tau) >= 1:
                continue
            rounded, chosen = chain.lp_round(tau, kappa), chain.at_mass(tau, kappa)
            assert chosen <= rounded
            for K in (rounded, chosen):
                assert W - mass(routes, weights, K) <= (1 + kappa) * (1 - tau) * W + 1e-9
                assert sum(cost[v] for v in K) <= (1 + 1 / kappa) * value + 1e-9


def test_the_two_rules_differ_sometimes():
    rng = np.random.default_rng(4)
    differ = 0
    for _ in range(300):
        routes, weights, cost = random_problem(rng, n=8, m=12)
        chain, tau = build(routes, weights, cost), rng.uniform(0.3, 0.95)
        if 2 * (1 - tau) < 1:
            differ += chain.at_mass(tau, 1.0) != chain.lp_round(tau, 1.0)
    assert differ > 0


def test_both_rules_are_nested_in_tau():
    rng = np.random.default_rng(5)
    for _ in range(50):
        chain = build(*random_problem(rng))
        for kappa in (0.0, 0.5, 1.0):
            grid = [tau for tau in np.linspace(0.05, 1.0, 39) if (1 + kappa) * (1 - tau) < 1]
            for rule in (chain.at_mass, chain.lp_round)[: 1 + (kappa > 0)]:
                sets = [rule(tau, kappa) for tau in grid]
                assert all(a <= b for a, b in itertools.pairwise(sets))


# Invariances


@st.composite
def problems(draw):
    n = draw(st.integers(1, 7))
    route = st.lists(st.integers(0, n - 1), min_size=1, max_size=n)
    routes = draw(st.lists(route, min_size=1, max_size=8))
    weights = draw(st.lists(st.integers(1, 6), min_size=len(routes), max_size=len(routes)))
    cost = draw(st.lists(st.integers(1, 5), min_size=n, max_size=n))
    return routes, weights, cost


@settings(max_examples=80, deadline=None)
@given(problems(), st.randoms(use_true_random=False))
def test_relabelling_permutes_the_levels_of_group_mode(problem, random):
    routes, weights, cost = problem
    name = list(range(len(cost)))
    random.shuffle(name)
    renamed = [[name[v] for v in route] for route in routes]
    new_cost = [cost[name.index(v)] for v in range(len(cost))]
    levels = build(routes, weights, cost, ties="group").levels
    assert build(renamed, weights, new_cost, ties="group").levels == {
        name[v]: level for v, level in levels.items()
    }


@settings(max_examples=80, deadline=None)
@given(problems(), st.integers(2, 9))
def test_scaling_weights_or_costs_and_merging_leave_the_chain(problem, factor):
    routes, weights, cost = problem
    chain = build(routes, weights, cost)
    heavier = build(routes, [factor * w for w in weights], cost)
    dearer = build(routes, weights, [factor * c for c in cost])
    tenths = build(routes, [w / 10 for w in weights], [c / 100 for c in cost])
    split = build(routes + routes, [3 * w for w in weights] + weights, cost)
    for other in (heavier, dearer, tenths, split):
        assert other.levels == chain.levels
        assert other.rank == chain.rank
    assert heavier.breakpoints == [b / factor for b in chain.breakpoints]
    assert dearer.breakpoints == [b * factor for b in chain.breakpoints]


def test_probabilities_and_the_same_numbers_times_1000():
    rng = np.random.default_rng(6)
    for _ in range(50):
        routes, _, cost = random_problem(rng)
        p = rng.dirichlet(np.ones(len(routes)))
        chain, scaled = build(routes, p, cost), build(routes, 1000 * p, cost)
        assert chain.levels == scaled.levels
        assert chain.rank == scaled.rank
        expected = [float(b) for b in chain.breakpoints]
        assert [1000 * float(b) for b in scaled.breakpoints] == pytest.approx(expected)


def test_nothing_depends_on_hashing():
    program = (
        "import json, numpy as np\n"
        "from fallline.conformal import *\n"
        "rng = np.random.default_rng(0)\n"
        "names = [f'road {i}' for i in range(30)]\n"
        "routes = [{names[i] for i in rng.choice(30, 4)} for _ in range(40)]\n"
        "H = RouteHypergraph.from_routes(routes, universe=names)\n"
        "print(json.dumps([f(H).rank for f in (nested_subgraphs, forward_greedy, reverse_greedy,"
        " top_routes, ratio_greedy)]))"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("0", "1")
    ]
    assert len(set(outputs)) == 1
    assert len(json.loads(outputs[0])) == 5


# Inside a level


def test_peeling_inside_a_level_follows_the_definition():
    rng = np.random.default_rng(7)
    for _ in range(100):
        routes, weights, cost = random_problem(rng, n=9, m=10)
        chain = build(routes, weights, cost)
        order = sorted(range(9), key=chain.rank.__getitem__)
        expected = []
        for j in range(len(chain.breakpoints)):
            below, level = chain.at_level(j - 1), chain.at_level(j)
            inside = [i for i, r in enumerate(routes) if {*r} <= level and not {*r} <= below]
            deleted = peeled(
                [routes[i] for i in inside], [weights[i] for i in inside], cost, level - below
            )
            expected += deleted[::-1]
        expected += [v for v in range(9) if chain.levels[v] < 0]
        assert order == expected


def test_the_order_option_and_no_refinement():
    H = RouteHypergraph.from_routes([["b", "a"], ["d", "c"]], [2, 1], universe="abcde")
    assert nested_subgraphs(H, refine="order").rank == dict(zip("abcde", range(1, 6)))
    coarse = nested_subgraphs(H, refine=None)
    assert coarse.rank == {"a": 2, "b": 2, "c": 4, "d": 4, "e": 5}
    assert coarse.prefix(3) == {"a", "b"}
    assert coarse.prefix_masses.tolist() == [0, 0, 2, 2, 3, 3]
    assert coarse.prefix_costs.tolist() == [0, 0, 2, 2, 4, 5]


def test_prefixes_are_nested_and_scores_say_which_prefix_holds_a_route():
    rng = np.random.default_rng(8)
    routes, weights, cost = random_problem(rng, n=9, m=10)
    chain = build(routes, weights, cost)
    for route in [*routes, [0, 8], []]:
        r = chain.score(route)
        assert {*route} <= chain.prefix(r)
        assert r == 0 or not {*route} <= chain.prefix(r - 1)
    assert chain.score([]) == 0
    assert chain.score(["unseen", 0]) == np.inf
    for r in range(10):
        K = chain.prefix(r)
        assert len(K) == r
        assert chain.prefix_masses[r] == mass(routes, weights, K)
        assert chain.prefix_costs[r] == sum(cost[v] for v in K)


def test_an_empty_route_is_in_every_subgraph():
    chain = build([[], ["a"], ["b"]], [2, 1, 1])
    assert chain.masses.tolist() == [3, 4]
    assert chain.at_mass(0.5) == set()
    assert chain.lp_value(0.5) == 0
    assert chain.lp_value(0.75) == pytest.approx(1)
    assert chain.prefix_at_mass(0.6) == {"a"}


# Integers and backends


def test_heavy_weights_are_exact_and_scipy_refuses_them():
    routes, weights = [["a"], ["b"]], [2**40, 2**40 + 1]
    chain = build(routes, weights)
    assert chain.rank == {"b": 1, "a": 2}
    assert chain.breakpoints == [Fraction(1, 2**40 + 1), Fraction(1, 2**40)]
    with pytest.raises(OverflowError, match=r"2\^31.*install OR-Tools"):
        build(routes, weights, backend="scipy")
    with pytest.raises(OverflowError, match=r"2\^62.*fractional weights"):
        build([[0], [1]], [2**50, 2**50 + 1], [2**20, 2**20 + 1])


def test_fractional_weights_fit_scipy_or_are_refused():
    rng = np.random.default_rng(9)
    routes, _, _ = random_problem(rng)
    p = rng.dirichlet(np.ones(len(routes)))
    assert build(routes, p, backend="scipy").levels == build(routes, p).levels
    length = rng.uniform(1, 2, size=8)
    with pytest.raises(OverflowError, match="cost_resolution"):
        build(routes, p, length.tolist(), backend="scipy")
    coarse = build(routes, p, length.tolist(), backend="scipy", cost_resolution=1000)
    assert coarse.levels.keys() == {*range(8)}


def test_fractional_costs_are_close_to_exact():
    rng = np.random.default_rng(10)
    for _ in range(50):
        routes, weights, _ = random_problem(rng)
        cost = rng.uniform(1, 2, size=8)
        chain = build(routes, weights, cost.tolist(), ties="group")
        assert list(chain.costs) == sorted(chain.costs)
        tau = rng.uniform(0.2, 0.9)
        value = linear_program(routes, weights, cost, tau)
        assert chain.lp_value(tau) == pytest.approx(value, rel=1e-5)


def test_without_ortools_scipy_takes_over(monkeypatch):
    monkeypatch.setitem(sys.modules, "ortools.graph.python.max_flow", None)
    assert build([["a"], ["b"]], [1, 2]).rank == {"b": 1, "a": 2}
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'fallline\[graphs\]'"):
        build([["a"], ["b"]], [1, 2], backend="ortools")


def test_a_wide_problem_stays_exact():
    # Many levels and deep recursion: singletons of all weights, in a shuffled order.
    rng = np.random.default_rng(11)
    weights = rng.permutation(1500) + 1
    chain = build([[i] for i in range(1500)], weights)
    assert chain.rank == {i: 1501 - w for i, w in enumerate(weights.tolist())}
    assert chain.breakpoints == [Fraction(1, w) for w in range(1500, 0, -1)]
    tied = build([[i] for i in range(1500)])
    assert tied.rank == {i: i + 1 for i in range(1500)}


def test_the_flows_are_few_and_shrink(monkeypatch):
    """What makes it fast: at most 2 k - 1 cuts, and about four times the arcs in all."""
    from fallline.conformal import nested

    real, sizes = nested.solver, []

    def counting(backend):
        cut, limit = real(backend)
        return lambda piece, p, q: sizes.append(len(piece.e)) or cut(piece, p, q), limit

    monkeypatch.setattr(nested, "solver", counting)
    rng = np.random.default_rng(12)
    routes = []
    for _ in range(400):  # walks to the right and up across a grid of 20 x 20 cells
        steps = np.cumsum(rng.permutation([0, 1] * 10))
        routes.append([(int(i), int(s)) for i, s in enumerate(steps)])
    H = RouteHypergraph.from_routes(routes)
    grouped = nested_subgraphs(H, ties="group")
    assert len(sizes) <= 2 * len(grouped.breakpoints) - 1
    assert sum(sizes) <= 6 * len(H.indices)


def test_an_order_is_a_permutation():
    H = RouteHypergraph.from_routes([["a"], ["b"]])
    with pytest.raises(ValueError, match=r"each of the numbers 0\.\.1"):
        ElementOrder(H, np.array([0, 0]))


# Errors


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ties": "all"}, "ties='all'"),
        ({"refine": "random"}, "refine='random'"),
        ({"backend": "networkx"}, "backend='networkx'"),
        ({"cost_resolution": 0}, "cost_resolution=0"),
    ],
)
def test_options_are_checked(options, said):
    with pytest.raises(ValueError, match=said):
        build([["a"]], **options)


@pytest.mark.parametrize(
    ("tau", "kappa", "said"),
    [
        (0.0, 0.0, "tau=0.0"),
        (1.1, 0.0, "tau=1.1"),
        (0.5, -1.0, "kappa=-1.0"),
        (0.5, 1.0, "the empty set would satisfy this slack"),
    ],
)
def test_tau_and_kappa_are_checked(tau, kappa, said):
    chain = build([["a"], ["b"]])
    with pytest.raises(ValueError, match=said):
        chain.at_mass(tau, kappa)
    with pytest.raises(ValueError, match="kappa > 0"):
        chain.lp_round(0.9, 0.0)
    with pytest.raises(ValueError, match="tau=-1"):
        chain.prefix_at_mass(-1)
