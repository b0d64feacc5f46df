import warnings

import networkx as nx
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError, SkipTestWarning
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import check_estimator

from fallline import FalllineWarning
from fallline.conformal import (
    ConformalSubgraph,
    ElementOrder,
    NestedSubgraphs,
    RouteHypergraph,
    forward_greedy,
    nested_subgraphs,
)

METHODS = ["parametric", "forward_greedy", "reverse_greedy", "top_routes", "ratio_greedy"]


def histories(rng, count):
    """Routes over 40 roads: popular roads more often."""
    p = np.arange(1.0, 41) ** -1.0
    return [rng.choice(40, size=3, replace=False, p=p / p.sum()).tolist() for _ in range(count)]


@pytest.mark.parametrize("method", METHODS)
def test_new_routes_are_covered_as_promised(method):
    covered = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        model = ConformalSubgraph(0.8, method=method, universe=range(40), random_state=seed)
        covered.append(model.fit(histories(rng, 80)).score(histories(rng, 300)))
    # k = 33 of 40: at least 33 / 41 = 0.805 in expectation.
    assert np.mean(covered) >= 0.79


def test_fit_with_a_split_equals_fit_and_calibrate():
    routes = histories(np.random.default_rng(0), 100)
    both = ConformalSubgraph(0.7, universe=range(40), random_state=3).fit(routes)
    held_out = np.sort(np.random.RandomState(3).permutation(100)[:50])
    train = [routes[i] for i in range(100) if i not in held_out]
    steps = ConformalSubgraph(0.7, calibration_fraction=0, universe=range(40)).fit(train)
    steps.calibrate([routes[i] for i in held_out])
    assert both.predict() == steps.predict()
    assert both.threshold_ == steps.threshold_
    assert both.size_ == len(both.predict())
    assert both.n_calibration_ == 50
    assert isinstance(both.order_, NestedSubgraphs)
    again = ConformalSubgraph(0.7, universe=range(40), random_state=3).fit(routes)
    assert again.predict() == both.predict()


def test_the_threshold_is_the_rank_of_the_finite_sample_quantile():
    train = [[i] for i in range(10) for _ in range(10 - i)]
    model = ConformalSubgraph(0.75, calibration_fraction=0).fit(train)
    model.calibrate([[i] for i in range(7)])  # ranks 1..7; the 6th smallest
    assert model.threshold_ == 6
    assert model.predict() == {*range(6)}
    literal = ConformalSubgraph(0.7, calibration_fraction=0, finite_sample=False).fit(train)
    assert literal.calibrate([[i] for i in range(7)]).threshold_ == 5


def test_too_few_calibration_routes_give_the_whole_universe_and_a_warning():
    routes = histories(np.random.default_rng(1), 100)
    with pytest.warns(FalllineWarning, match="needs at least 99.*whole universe"):
        model = ConformalSubgraph(0.99, universe=range(45)).fit(routes)
    assert model.n_calibration_ == 50
    assert model.predict() == {*range(45)}


def test_an_unseen_element_is_never_covered():
    model = ConformalSubgraph(0.5, calibration_fraction=0).fit([["a"], ["b"]])
    with pytest.warns(UserWarning, match="1 of 5 calibration routes have an element") as caught:
        model.calibrate([["a"], ["a"], ["a"], ["a"], ["a", "new"]])
    assert len(caught) == 1
    assert model.predict() == {"a"}
    assert model.score([["a"], ["new"], ["a", "new"], []]) == 0.5
    with (
        pytest.warns(FalllineWarning, match="3 of 4"),
        pytest.warns(FalllineWarning, match="whole universe"),
    ):
        model.calibrate([["new"], ["new"], ["new"], ["a"]])
    assert model.predict() == {"a", "b"}


def test_weights_order_the_elements():
    routes = [["a"], ["b"]] * 20
    weights = [1, 3] * 20
    model = ConformalSubgraph(0.6).fit(routes, sample_weight=weights)
    assert model.order_.rank["b"] == 1
    assert model.order_.hypergraph.total > 20


def test_costs_order_the_elements():
    routes = [["long"], ["short"]] * 20
    model = ConformalSubgraph(0.6, cost={"long": 5.0, "short": 1.0}).fit(routes)
    assert model.order_.rank == {"short": 1, "long": 2}


def test_a_function_as_method():
    def coarse(H: RouteHypergraph) -> ElementOrder:
        return nested_subgraphs(H, refine=None)

    routes = histories(np.random.default_rng(2), 100)
    model = ConformalSubgraph(0.6, method=coarse, universe=range(40)).fit(routes)
    assert model.predict() in [model.order_.at_level(j) for j in range(40)]
    assert ConformalSubgraph(method=forward_greedy).fit(routes * 2).size_ > 0


def test_the_subgraph_of_a_graph():
    G = nx.cycle_graph(6)
    routes = [[(0, 1), (1, 2)]] * 30 + [[(0, 5)]] * 3
    model = ConformalSubgraph(0.8).fit(routes)
    sub = model.subgraph(G)
    assert sorted(sub.edges) == [(0, 1), (1, 2)]
    nodes = ConformalSubgraph(0.8).fit([[0, 1], [1]] * 20)
    assert sorted(nodes.subgraph(G, element="node").nodes) == [0, 1]
    with pytest.raises(ValueError, match=r"\(1, 2\) is not an edge of G"):
        model.subgraph(nx.path_graph(2))
    with pytest.raises(ValueError, match=r"[01] is not an edge"):
        nodes.subgraph(nx.path_graph(1))
    multi = nx.MultiGraph([(0, 1, "a"), (0, 1, "b")])
    chosen = ConformalSubgraph(0.8).fit([[(0, 1, "b")]] * 20).subgraph(multi)
    assert list(chosen.edges(keys=True)) == [(0, 1, "b")]


def test_not_fitted_and_not_calibrated():
    model = ConformalSubgraph(calibration_fraction=0)
    for use in (model.predict, lambda: model.calibrate([["a"]]), lambda: model.score([["a"]])):
        with pytest.raises(NotFittedError):
            use()
    model.fit([["a"]])
    with pytest.raises(NotFittedError, match="call calibrate"):
        model.predict()
    model.calibrate([["a"]] * 20)
    model.fit([["b"]])  # a new order has no threshold yet
    with pytest.raises(NotFittedError, match="call calibrate"):
        model.predict()


@pytest.mark.parametrize(
    ("options", "routes", "said"),
    [
        ({"coverage": 1.0}, [["a"]] * 4, "coverage=1.0"),
        ({"coverage": 0.0}, [["a"]] * 4, "coverage=0.0"),
        ({"calibration_fraction": 1.0}, [["a"]] * 4, "calibration_fraction=1.0"),
        ({"method": "best"}, [["a"]] * 4, "method='best'; choose one of parametric"),
        ({}, [], "0 routes cannot be split"),
        ({}, [["a"]], "1 routes cannot be split.*at least 2"),
    ],
)
def test_parameters_are_checked(options, routes, said):
    with pytest.raises(ValueError, match=said):
        ConformalSubgraph(**options).fit(routes)


def test_inputs_are_checked():
    with pytest.raises(ValueError, match=r"sample_weight has shape \(1,\)"):
        ConformalSubgraph().fit([["a"], ["b"]], sample_weight=[1])
    model = ConformalSubgraph(0.5, calibration_fraction=0).fit([["a"]])
    with pytest.raises(ValueError, match="at least 1 calibration route"):
        model.calibrate([])
    model.calibrate([["a"]] * 3)
    with pytest.raises(ValueError, match="at least 1 route"):
        model.score([])


def test_it_is_a_scikit_learn_estimator():
    model = ConformalSubgraph(0.7, universe=range(40))
    with warnings.catch_warnings():
        # Routes are no rows of a matrix: scikit-learn tests what holds for any estimator.
        warnings.simplefilter("ignore", SkipTestWarning)
        check_estimator(model)
    assert clone(model).get_params() == model.get_params()
    assert "coverage=0.7" in repr(model)
    routes = histories(np.random.default_rng(3), 200)
    assert cross_val_score(model, routes, cv=4).mean() > 0.6
