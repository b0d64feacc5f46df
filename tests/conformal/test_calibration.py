import itertools
import math

import numpy as np
import pytest

from fallline import FalllineWarning
from fallline.conformal import (
    RouteHypergraph,
    conformal_quantile,
    control_risk,
    forward_greedy,
    nested_subgraphs,
)


def test_coverage_over_all_orderings_is_exact():
    """Each of 8! orderings of 8 distinct scores: the last one is new, the others calibrate."""
    phi, n = 0.75, 7
    orderings = np.array(list(itertools.permutations(range(8))))
    calibration, new = np.sort(orderings[:, :-1], axis=1), orderings[:, -1]
    k = math.ceil(phi * (n + 1))
    assert conformal_quantile(orderings[0, :-1], phi) == calibration[0, k - 1]
    assert np.mean(new <= calibration[:, k - 1]) == 6 / 8
    # The rule of the paper's text falls short by up to 1 / (n + 1).
    literal = math.ceil(phi * n)
    expected = calibration[0, literal - 1]
    assert conformal_quantile(orderings[0, :-1], phi, finite_sample=False) == expected
    assert np.mean(new <= calibration[:, literal - 1]) == 6 / 8
    assert math.ceil(0.7 * n) / (n + 1) < 0.7


@pytest.mark.parametrize("n", [1, 9, 10, 19, 99, 999])
def test_products_that_are_integers_are_not_rounded_up(n):
    # 0.9 * (n + 1) is an integer, which floats can miss on either side.
    for phi in (0.1, 0.2, 0.3, 0.7, 0.9):
        exact = math.ceil(round(phi * 10) * (n + 1) / 10)
        expected = exact if exact <= n else math.inf
        assert conformal_quantile(np.arange(1, n + 1), phi) == expected


def test_scores_are_checked():
    with pytest.raises(ValueError, match="at least one score"):
        conformal_quantile([], 0.5)
    with pytest.raises(ValueError, match="NaN"):
        conformal_quantile([1, math.nan], 0.5)
    for coverage in (0.0, 1.1):
        with pytest.raises(ValueError, match="coverage="):
            conformal_quantile([1.0], coverage)
    assert conformal_quantile([1, math.inf, 2], 0.5) == 2


def chain():
    H = RouteHypergraph.from_routes([["a"], ["b"], ["c"], ["d"]], weights=[4, 3, 2, 1])
    return nested_subgraphs(H)


def test_conformal_risk_control_takes_the_smallest_sum_of_losses_that_fits():
    # n = 99 and alpha = 0.1: (sum + 1) / 100 <= 0.1 asks for a sum of at most 9.
    routes = [["a"]] * 60 + [["a", "b"]] * 21 + [["a", "b", "c"]] * 18
    # Sums of missed shares for r = 0..4: all; 10.5 + 12; 6; 0; 0.
    assert control_risk(chain(), routes, alpha=0.1) == 2
    # Exactly 9 after r = 1 (27 thirds), though thirds have no exact float.
    thirds = [["a"]] * 72 + [["a", "a2", "b"]] * 27
    H = RouteHypergraph.from_routes([["a", "a2"], ["b"]], [2, 1])
    order = forward_greedy(H)
    assert order.rank == {"a": 1, "a2": 2, "b": 3}
    assert control_risk(order, thirds, alpha=0.1) == 2
    assert control_risk(order, [*thirds[:-1], ["b"]], alpha=0.1) == 3


def test_a_function_as_loss_gives_the_same_rank_as_the_built_in_one():
    rng = np.random.default_rng(0)
    family = chain()

    def share(route, K):
        return len({*route} - K) / len({*route})

    for _ in range(50):
        routes = [rng.choice(list("abcd"), size=rng.integers(1, 4)).tolist() for _ in range(40)]
        for method in ("crc", "rcps"):
            for alpha in (0.3, 0.5, 0.8):
                built_in = control_risk(family, routes, alpha=alpha, method=method)
                assert control_risk(family, routes, share, alpha=alpha, method=method) == built_in
                losses = [sum(share(x, family.prefix(r)) for x in routes) / 40 for r in range(5)]
                bound = (
                    (40 * np.array(losses) + 1) / 41
                    if method == "crc"
                    else np.array(losses) + math.sqrt(math.log(10) / 80)
                )
                assert built_in == np.argmax(bound <= alpha + 1e-12)


def test_risk_is_controlled_on_average():
    rng = np.random.default_rng(1)
    names = np.arange(30)
    p = np.arange(1.0, 31) ** -1.0
    p /= p.sum()
    H = RouteHypergraph.from_routes([[i] for i in names.tolist()], weights=p)
    family, risks = nested_subgraphs(H), []
    for _ in range(200):
        draws = rng.choice(names, size=(60, 3), p=p).tolist()
        r = control_risk(family, draws[:49], alpha=0.2)
        K = family.prefix(r)
        risks += [len({*x} - K) / len({*x}) for x in draws[49:]]
    assert 0.15 < np.mean(risks) <= 0.2


def test_a_risk_that_cannot_be_kept_returns_everything_with_a_warning():
    with pytest.warns(FalllineWarning, match="whole universe"):
        assert control_risk(chain(), [["a"]] * 5, alpha=0.1) == 4
    with pytest.warns(FalllineWarning, match="whole universe"):
        assert control_risk(chain(), [["unseen"]] * 50, alpha=0.1) == 4
    with pytest.warns(FalllineWarning, match="whole universe"):
        assert control_risk(chain(), [["a"]] * 5, lambda route, K: 1.0, alpha=0.1) == 4


def test_an_empty_route_misses_nothing():
    assert control_risk(chain(), [[]] * 50, alpha=0.1) == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"alpha": 0.0}, "alpha=0.0"),
        ({"delta": 1.0}, "delta=1.0"),
        ({"method": "rps"}, "method='rps'"),
        ({"loss": "length"}, "loss='length'"),
        ({"routes": []}, "routes is empty"),
    ],
)
def test_risk_options_are_checked(options, said):
    arguments = {"chain": chain(), "routes": [["a"]] * 50} | options
    with pytest.raises(ValueError, match=said):
        control_risk(**arguments)
