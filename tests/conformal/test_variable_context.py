import warnings

import networkx as nx
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError, SkipTestWarning
from sklearn.utils.estimator_checks import check_estimator

from fallline import FalllineWarning
from fallline.conformal import (
    ContextualConformalSubgraph,
    RouteHypergraph,
    path_elements,
    sample_near_walks,
)


def line_candidates(predicted, radius):
    """All sets of one center and up to two neighbours on a line."""
    (x,) = predicted
    return [[x + d] for d in range(-int(radius), int(radius) + 1)]


def gap(predicted, taken):
    return abs(predicted[0] - taken[0])


def pairs(rng, count):
    centers = rng.integers(100, size=count)
    steps = rng.binomial(8, 0.5, size=count) - 4
    return [[int(x)] for x in centers], [[int(x + d)] for x, d in zip(centers, steps)]


def test_both_stages_by_hand():
    model = ContextualConformalSubgraph(line_candidates, gap, coverage=0.5, delta=0.2)
    # Distances 0, 1, 1, 2: ceil(0.8 * 5) = 4th smallest.
    model.fit([[0]] * 4, [[0], [1], [-1], [2]])
    assert model.radius_ == 2
    # Five candidates of equal weight enter in the order of their number, -2 first: the first
    # prefix with x + d holds the mass (d + 3) / 5. The last one lies beyond the radius.
    model.calibrate([[10]] * 4, [[8], [9], [10], [99]])
    assert model.threshold_ == pytest.approx(3 / 5)  # ceil(0.5 * 5) = 3rd smallest of .2 .4 .6 1
    assert model.predict([50]) == {48, 49, 50}
    assert model.score([[50], [50]], [[48], [52]]) == 0.5
    assert model.n_calibration_ == 4


def test_coverage_is_kept_with_both_stages():
    covered = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        model = ContextualConformalSubgraph(line_candidates, gap, coverage=0.8, delta=0.05)
        model.fit(*pairs(rng, 60)).calibrate(*pairs(rng, 40))
        covered.append(model.score(*pairs(rng, 50)))
    assert np.mean(covered) >= 0.75 - 0.01


def test_the_default_distance_counts_the_missing_elements():
    model = ContextualConformalSubgraph(lambda a, d: [a], delta=0.4)
    model.fit([["a", "b"]] * 2, [["a", "c", "d"], ["b", "b"]])
    assert model.radius_ == 2


def test_model_probabilities_need_no_first_stage():
    H = RouteHypergraph.from_routes([["a", "b"], ["a", "c"]], [0.75, 0.25])
    model = ContextualConformalSubgraph({"q": H}.get, distance=None, coverage=0.5)
    model.calibrate(["q"] * 3, [["a", "b"], ["a"], ["c"]])
    # The route [a] alone waits for the prefix that completes a candidate.
    assert model.threshold_ == 0.75
    assert model.predict("q") == {"a", "b"}
    assert model.fit().radius_ == np.inf


def test_a_share_selects_a_prefix_that_holds_the_route():
    """Also for routes that are no candidates: the guarantee needs it."""
    rng = np.random.default_rng(0)
    for _ in range(100):
        routes = [rng.choice(8, size=3, replace=False).tolist() for _ in range(5)]
        H = RouteHypergraph.from_routes(routes, rng.dirichlet(np.ones(5)), universe=range(8))
        model = ContextualConformalSubgraph(lambda q, H=H: H, distance=None, coverage=0.5)
        taken = rng.choice(routes[0] + routes[1], size=2, replace=False).tolist()
        model.calibrate(["q"], [taken])
        assert {*taken} <= model.predict("q")


def test_routes_outside_all_candidates_are_reported():
    model = ContextualConformalSubgraph(lambda q: [["a"]], distance=None, coverage=0.5)
    with pytest.warns(FalllineWarning, match="1 of 3 calibration routes lie outside"):
        model.calibrate(["q"] * 3, [["a"], ["b"], ["a"]])
    unused = RouteHypergraph.from_routes([["a"]], universe="ab")
    model = ContextualConformalSubgraph(lambda q: unused, distance=None, coverage=0.5)
    with pytest.warns(FalllineWarning, match="1 of 3"):
        model.calibrate(["q"] * 3, [["a"], ["b"], ["a"]])


def test_too_few_pairs():
    model = ContextualConformalSubgraph(line_candidates, gap, coverage=0.9, delta=0.1)
    with pytest.raises(ValueError, match=r"5 pairs are too few for delta=0\.1, which needs 9"):
        model.fit([[0]] * 5, [[0]] * 5)
    model.fit([[0]] * 9, [[1]] * 9)
    with pytest.warns(FalllineWarning, match="too few for coverage=0.9: the union"):
        model.calibrate([[0]] * 3, [[0]] * 3)
    assert model.threshold_ == 1
    assert model.predict([7]) == {6, 7, 8}


def test_walks_near_a_predicted_path():
    G = nx.grid_2d_graph(4, 4)
    predicted = [(0, i) for i in range(4)] + [(i, 3) for i in range(1, 4)]

    def candidates(path, radius):
        walks = sample_near_walks(G, path, int(radius), 300, rng=0)
        return [path_elements(G, walk) for walk in walks]

    def distance(path, taken):
        return len({*taken} - {*path_elements(G, path)})

    truth = np.random.default_rng(1)
    taken = [path_elements(G, w) for w in sample_near_walks(G, predicted, 2, 80, truth)]
    model = ContextualConformalSubgraph(candidates, distance, coverage=0.8, delta=0.05)
    model.fit([predicted] * 40, taken[:40]).calibrate([predicted] * 20, taken[40:60])
    assert model.radius_ == 2
    assert model.score([predicted] * 20, taken[60:]) >= 0.6
    assert len(model.predict(predicted)) < G.number_of_edges()


def test_errors():
    model = ContextualConformalSubgraph(line_candidates, gap)
    with pytest.raises(NotFittedError, match="call fit"):
        model.calibrate([[0]], [[0]])
    with pytest.raises(NotFittedError, match="calibrate first"):
        model.predict([0])
    with pytest.raises(ValueError, match="1 predicted and 2 taken"):
        model.fit([[0]], [[0], [1]])
    with pytest.raises(ValueError, match="0 predicted and 0 taken"):
        model.fit()
    for options, said in [
        ({"coverage": 0.0}, "coverage=0.0"),
        ({"delta": 1.0}, "delta=1.0"),
        ({"distance": "hops"}, "distance='hops'"),
    ]:
        with pytest.raises(ValueError, match=said):
            ContextualConformalSubgraph(line_candidates, **options).fit([[0]], [[0]])


def test_it_is_a_scikit_learn_estimator():
    model = ContextualConformalSubgraph(line_candidates, gap, coverage=0.7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkipTestWarning)
        check_estimator(model)
    assert clone(model).get_params() == model.get_params()
