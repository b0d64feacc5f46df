import math

import numpy as np
import pytest

from fallline.convex import (
    L0L1Smooth,
    PowerSmooth,
    agmsdr,
    gd_fixed,
    gd_l,
    lbfgs,
    minimize_agd,
    nag_exp,
    nag_frozen,
    normalized_gd,
    polyak_gd,
)
from fallline.tasks import exponential_valley, spectrum_cosh

EIGHT = spectrum_cosh(8.0)
LAW = L0L1Smooth(1.0, 8.0)
KNOWN = {"smoothness": LAW, "radius": 1.0, "gap0": EIGHT.gap}


def calls_until(gap, method, problem=EIGHT, **options):
    calls = 0

    def fun(x):
        nonlocal calls
        calls += 1
        value, gradient = problem.fun(x)
        if value <= gap:
            raise StopIteration
        return value, gradient

    with pytest.raises(StopIteration):
        method(fun, problem.x0, gtol=0.0, maxiter=10**6, **options)
    return calls


@pytest.mark.parametrize(
    ("method", "options", "counts"),
    [
        (gd_l, {"smoothness": LAW}, [17, 73, 614]),
        (nag_frozen, KNOWN, [116, 367, 1154]),
        (nag_exp, KNOWN, [964, 3363, 10636]),
        (lbfgs, {}, [8, 16, 43]),
        (minimize_agd, KNOWN | {"mode": "schedule"}, [39, 66, 126]),
        (minimize_agd, KNOWN | {"mode": "adaptive"}, [12, 27, 73]),
        (minimize_agd, {"smoothness": LAW, "radius": 1.0, "mode": "two_stage"}, [17, 55, 120]),
    ],
)
def test_the_sheets_counts_on_the_spectrum(method, options, counts):
    assert [calls_until(eps, method, **options) for eps in (1e-3, 1e-4, 1e-5)] == counts


def test_the_line_search_between_two_sequences_counts_its_trials():
    counts = [calls_until(eps, agmsdr, smoothness=LAW) for eps in (1e-3, 1e-4, 1e-5)]
    np.testing.assert_allclose(counts, [15, 114, 458], rtol=0.06)


def test_the_sheets_counts_on_the_valley():
    valley = exponential_valley()
    law = L0L1Smooth(2.0 * math.sqrt(math.e), 1.0)
    assert calls_until(1e-6, gd_l, valley, smoothness=law) == 16172
    options = {"smoothness": law, "radius": valley.radius, "gap0": valley.gap}
    assert calls_until(1e-6, nag_frozen, valley, **options) == 5634


def test_gd_fixed_pays_for_the_first_gradient():
    slow = calls_until(1e-2, gd_fixed, smoothness=LAW)
    assert slow > 20 * calls_until(1e-2, gd_l, smoothness=LAW)
    seen = []
    gd_fixed(EIGHT.fun, EIGHT.x0, smoothness=LAW, maxiter=2, callback=lambda r: seen.append(r.x))
    g = EIGHT.fun(EIGHT.x0)[1]
    np.testing.assert_allclose(seen[0], EIGHT.x0 - g / (1.0 + 16.0 * np.linalg.norm(g)), rtol=1e-12)


def test_normalized_steps_have_their_length():
    points = [EIGHT.x0]
    normalized_gd(EIGHT.fun, EIGHT.x0, radius=1.0, maxiter=5, callback=lambda r: points.append(r.x))
    lengths = np.linalg.norm(np.diff(points, axis=0), axis=1)
    np.testing.assert_allclose(lengths, 1.0 / np.sqrt(np.arange(1, 6)))


def test_polyak_steps_reach_the_minimum_that_they_know():
    for jac in (True, lambda x: EIGHT.fun(x)[1]):
        fun = EIGHT.fun if jac is True else (lambda x: EIGHT.fun(x)[0])
        result = polyak_gd(fun, EIGHT.x0, jac, f_star=0.0, gtol=1e-4)
        assert result.success
    assert calls_until(1e-3, polyak_gd, f_star=0.0) < 100


def test_all_give_scipys_result():
    for method, options in [
        (gd_l, {"smoothness": LAW}),
        (gd_fixed, {"smoothness": LAW}),
        (normalized_gd, {"radius": 1.0}),
        (polyak_gd, {"f_star": 0.0}),
        (nag_frozen, KNOWN),
        (nag_exp, KNOWN),
        (agmsdr, {"smoothness": LAW}),
        (lbfgs, {}),
    ]:
        result = method(EIGHT.fun, EIGHT.x0, maxiter=4, **options)
        assert (result.nit, result.success) == (4, False)
        assert result.fun == EIGHT.fun(result.x)[0]
        assert method(EIGHT.fun, np.zeros(400), **options).success


def test_trouble_is_named():
    with pytest.raises(ValueError, match="radius must be > 0"):
        nag_frozen(EIGHT.fun, EIGHT.x0, smoothness=LAW, radius=0.0)
    with pytest.raises(ValueError, match=r"psi\(inf\)"):
        nag_frozen(EIGHT.fun, EIGHT.x0, smoothness=PowerSmooth(1.0, 8.0, 3.0), radius=1.0)
    with pytest.raises(FloatingPointError, match="smoothness is wrong"):
        gd_l(EIGHT.fun, EIGHT.x0, smoothness=L0L1Smooth(1e-9, 1e-9))
    stalled = nag_exp(EIGHT.fun, EIGHT.x0, smoothness=L0L1Smooth(1.0, 1e4), radius=1.0)
    assert stalled.status == 3
