"""The method against hand-computed values, slow references, and what it promises to its callers."""

import math
import warnings

import numpy as np
import pytest
from scipy.optimize import OptimizeResult, minimize

from fallline.convex import (
    AssumptionWarning,
    L0L1Smooth,
    LSmooth,
    PowerSmooth,
    ShiftedSquareSmooth,
    minimize_agd,
    scipy_agd,
)
from fallline.convex.rules import Certificate, scheduled_step
from fallline.tasks import exponential_valley, spectrum_cosh, square_root_barrier

UNIT = L0L1Smooth(1.0, 1.0)
VALLEY = L0L1Smooth(2.0 * math.sqrt(math.e), 1.0)


def cosh(x):
    return 2.0 * float(np.sum(np.sinh(0.5 * x) ** 2)), np.sinh(x)


def path(fun, x0, **options):
    """All accepted points, the start among them, and the result."""
    points = [np.atleast_1d(np.asarray(x0, float))]
    result = minimize_agd(fun, x0, callback=lambda r: points.append(r.x), **options)
    return np.array(points), result


def calls_until(problem, gap, **options):
    """Gradient calls until a point of that gap is seen."""
    calls = 0

    def fun(x):
        nonlocal calls
        calls += 1
        value, gradient = problem.fun(x)
        if value <= gap:
            raise StopIteration
        return value, gradient

    with pytest.raises(StopIteration):
        minimize_agd(fun, problem.x0, gtol=0.0, maxiter=10**6, **options)
    return calls


# Hand-computed values


def test_golden_quadratic():
    # Gamma_0 = 2 gap0 / R^2 = 1
    points, result = path(
        lambda x: (0.5 * float(x @ x), x), [1.0], smoothness=LSmooth(1.0), radius=1.0, gap0=0.5,
        mode="schedule", maxiter=3,
    )  # fmt: skip
    expected = [1.0, 0.5, 0.20710678118654752, 0.07272623015420226]
    np.testing.assert_allclose(points[:, 0], expected, rtol=1e-14)
    np.testing.assert_allclose(
        result.history["Gamma"][:3], [1.0, 0.5, 0.2928932188134525], rtol=1e-14
    )


def test_golden_cosh():
    points, result = path(
        cosh, [1.0], smoothness=UNIT, radius=1.0, gap0=math.cosh(1.0) - 1.0, mode="schedule",
        maxiter=3,
    )  # fmt: skip
    history = result.history
    assert history["Gamma"][0] == pytest.approx(1.0861612696304874, rel=1e-14)
    assert history["gamma"][1] == pytest.approx(0.3056823117124685, rel=1e-11)
    assert 1.0 / history["gamma"][1] - 1.0 == pytest.approx(2.2713701829781434, rel=1e-11)
    assert points[1, 0] == pytest.approx(0.7720876291561509, rel=1e-11)
    assert history["Gamma"][1] == pytest.approx(0.6890959200663013, rel=1e-11)
    assert points[3, 0] == pytest.approx(0.23714538417101239, rel=1e-10)


# Slow references


def textbook(fun, law, x, Gamma, steps, gamma_of):
    """The sheet's core step with plain lists: every iterate, u beside it."""
    y, u = list(x), list(x)
    g = fun(np.array(y))[1]
    path = [(list(y), list(u), Gamma)]
    for _ in range(steps):
        gamma = gamma_of(Gamma, g)
        alpha = math.sqrt(gamma * Gamma)
        y = [(a + alpha * b - gamma * c) / (1.0 + alpha) for a, b, c in zip(y, u, g)]
        g = fun(np.array(y))[1]
        u = [b - alpha / Gamma * c for b, c in zip(u, g)]
        Gamma = Gamma / (1.0 + alpha)
        path.append((list(y), list(u), Gamma))
    return path


def bisected_psi_inv(law, E):
    low, high = 0.0, 1.0
    while law.psi(high) < E:
        high *= 2.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if law.psi(middle) < E else (low, middle)
    return high


@pytest.mark.parametrize("law", [UNIT, PowerSmooth(1.0, 1.0, 1.5), LSmooth(200.0)], ids=str)
def test_the_schedule_is_the_textbook_recursion(law):
    x0, R = [2.0, -1.0, 0.5], 2.5
    gap0 = cosh(np.array(x0))[0]
    Gamma_0 = 2.0 * gap0 / R**2

    def gamma_of(Gamma, g):
        return 1.0 / law(bisected_psi_inv(law, 2.0 * gap0 * Gamma / Gamma_0))

    expected = textbook(cosh, law, x0, Gamma_0, 60, gamma_of)
    points, _ = path(
        cosh, x0, smoothness=law, radius=R, gap0=gap0, mode="schedule", maxiter=60, gtol=0.0
    )
    np.testing.assert_allclose(points, [y for y, _, _ in expected], rtol=1e-9, atol=1e-10)


def test_adaptive_without_rejection_is_the_textbook_recursion_from_l0():
    expected = textbook(
        cosh, UNIT, [2.0, -1.0], 1.0, 40, lambda Gamma, g: 1.0 / (1.0 + math.hypot(*g))
    )
    points, result = path(cosh, [2.0, -1.0], smoothness=UNIT, maxiter=40, gtol=0.0)
    assert result.n_rejected == 0
    np.testing.assert_allclose(points, [y for y, _, _ in expected], rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("mode", ["schedule", "two_stage", "adaptive"])
def test_under_a_constant_law_it_is_nesterovs_three_sequences(mode):
    rng = np.random.default_rng(0)
    h = np.logspace(0, -4, 20)
    L, R, x0 = 1.0, 5.0, rng.standard_normal(20)

    def fun(x):
        return 0.5 * float(h @ x**2), h * x

    gap0 = fun(x0)[0]
    Gamma = 2.0 * gap0 / R**2
    y, u, expected = x0, x0, [x0]
    for _ in range(200):
        alpha = math.sqrt(Gamma / L)
        x = y - fun(y)[1] / L
        y = (x + alpha * u) / (1.0 + alpha)
        u = u - alpha / Gamma * fun(y)[1]
        Gamma /= 1.0 + alpha
        expected.append(y)
    points, _ = path(
        fun, x0, smoothness=LSmooth(L), radius=R, gap0=gap0, mode=mode, maxiter=200, gtol=0.0
    )
    np.testing.assert_allclose(points, expected, atol=1e-12)


# Modes


def test_two_stage_warms_up_on_the_superquadratic_problem_without_a_warning():
    problem = square_root_barrier()
    points, result = path(
        problem.fun, problem.x0, smoothness=PowerSmooth(1.0, 8.0, 3.0), radius=problem.radius,
        mode="two_stage", maxiter=1100, gtol=0.0,
    )  # fmt: skip
    assert result.stage1_nit == 149
    assert result.n_rejected == 0
    assert (np.abs(points[:, 0]) < 1.0).all()
    gap = result.history["fun"]
    assert int(np.argmax(gap <= 1e-6)) + 1 == 150 + 936 - 1
    assert np.isnan(result.history["Gamma"][:150]).all()
    assert (result.history["gap_bound"] >= gap).all()


def test_adaptive_and_schedule_take_the_superquadratic_start_too():
    problem = square_root_barrier()
    law = PowerSmooth(1.0, 8.0, 3.0)
    assert problem.gap > law.psi_inf
    assert calls_until(problem, 1e-6, smoothness=law) <= 770
    calls = calls_until(problem, 1e-6, smoothness=law, mode="schedule", radius=problem.radius)
    assert calls <= 900


def test_schedule_goes_straight_on_unless_its_first_step_were_a_thousandth():
    for L1R, warm in [(8.0, False), (16.0, True)]:
        problem = spectrum_cosh(L1R)
        result = minimize_agd(
            problem.fun, problem.x0, smoothness=L0L1Smooth(1.0, L1R), radius=1.0, gap0=problem.gap,
            mode="schedule", maxiter=100,
        )  # fmt: skip
        assert (result.stage1_nit > 0) == warm


def test_two_stage_stops_its_first_stage_by_the_gap_where_f_star_is_known():
    problem = exponential_valley()
    options = {"smoothness": VALLEY, "radius": problem.radius, "mode": "two_stage", "maxiter": 300}
    known = minimize_agd(problem.fun, problem.x0, f_star=0.0, **options)
    unknown = minimize_agd(problem.fun, problem.x0, **options)
    assert known.stage1_nit < unknown.stage1_nit
    half = VALLEY.psi(VALLEY.norm_at(2.0 * VALLEY(0.0))) / 2.0
    assert known.history["fun"][known.stage1_nit] <= half
    assert known.history["fun"][known.stage1_nit - 1] > half
    assert unknown.history["gnorm"][unknown.stage1_nit] * problem.radius <= half


def test_auto_takes_adaptive_with_a_law_and_linesearch_without():
    x0 = [3.0, -2.0]
    for mode, law in [("adaptive", UNIT), ("linesearch", None)]:
        auto, named = (minimize_agd(cosh, x0, smoothness=law, mode=m) for m in ("auto", mode))
        assert auto.success
        np.testing.assert_array_equal(auto.x, named.x)


def test_infinite_trials_are_halved_by_adaptive_and_linesearch():
    def barrier(x):  # c x - log x, infinite outside its domain
        if (x <= 0.0).any():
            return math.inf, np.full_like(x, math.nan)
        return float(np.sum(x - 1.0 - np.log(x))), 1.0 - 1.0 / x

    result = minimize_agd(barrier, [0.01, 8.0], gtol=1e-6)
    assert result.success
    assert result.n_rejected > 0
    np.testing.assert_allclose(result.x, 1.0, atol=1e-5)
    # A law far too small sends the first trial out of the domain.
    result = minimize_agd(barrier, [0.01, 8.0], smoothness=LSmooth(1.0), gtol=1e-6, maxiter=50)
    assert result.n_rejected > 0
    with pytest.raises(FloatingPointError, match="radius or smoothness is wrong"):
        minimize_agd(barrier, [0.01, 8.0], smoothness=LSmooth(1e-4), radius=1e-3, mode="schedule")
    with pytest.raises(FloatingPointError, match="smoothness is wrong"):
        minimize_agd(
            barrier, [0.01, 8.0], smoothness=L0L1Smooth(1e-4, 1e-6), radius=10.0, mode="two_stage"
        )


def test_overflow_in_a_trial_is_no_warning():
    def steep(x):
        return float(np.sum(np.exp(x) - x - 1.0)), np.exp(x) - 1.0

    result = minimize_agd(steep, [-400.0], gtol=1e-6)
    assert result.success
    assert result.x[0] == pytest.approx(0.0, abs=1e-5)


def test_the_log_barrier_far_away_stands_still_by_schedule_but_not_by_adaptive():
    c = np.logspace(-2, 0, 50)

    def fun(x):
        if (x <= 0.0).any():
            return math.inf, np.full_like(x, math.nan)
        return float(np.sum(c * x - 1.0 - np.log(c * x))), c - 1.0 / x

    law, options = ShiftedSquareSmooth(1.0), {"maxiter": 300, "gtol": 0.0}
    start = np.full(50, 2.0)
    result = minimize_agd(fun, start, smoothness=law, **options)
    assert result.history["njev"][np.argmax(result.history["fun"] <= 0.1)] <= 250
    # psi_inv(E_0) is e^105: without gradient descent first, steps of e^-210.
    gap, radius = fun(start)[0], float(np.linalg.norm(1.0 / c - start))
    certificate = Certificate.from_gap(gap, radius)
    assert scheduled_step(law, certificate.delta) < 1e-80
    by_schedule = minimize_agd(
        fun, start, smoothness=law, radius=radius, gap0=gap, mode="schedule", **options
    )
    assert by_schedule.stage1_nit == 300
    assert by_schedule.fun > 10 * result.fun


def test_linesearch_survives_where_rounding_hides_the_decrease():
    # f is 1e9 plus a small quadratic: differences of f near the end are noise.
    h = np.array([1.0, 0.1])

    def fun(x):
        return 1e9 + 0.5 * float(h @ x**2), h * x

    result = minimize_agd(fun, [1.0, 1.0], gtol=1e-9)
    assert result.success
    assert result.njev < 400


def test_restart_converges_linearly():
    h = np.array([1.0, 0.01, 0.001])

    def fun(x):
        return 0.5 * float(h @ x**2), h * x

    plain = minimize_agd(fun, [1.0, 1.0, 1.0], mode="linesearch", gtol=1e-10, maxiter=5000)
    restarted = minimize_agd(fun, [1.0, 1.0, 1.0], restart=True, gtol=1e-10)
    assert restarted.success
    assert restarted.njev < plain.njev / 2
    assert restarted.gap_bound is None


# A wrong radius


@pytest.mark.parametrize(
    ("shrink", "step", "factor", "calls"), [(10.0, 2, 1.10, 233), (100.0, 1, 5.41, 239)]
)
def test_a_radius_too_small_is_found_out_and_survived(shrink, step, factor, calls):
    problem = exponential_valley()
    options = {
        "smoothness": VALLEY,
        "radius": problem.radius / shrink,
        "gap0": problem.gap,
        "mode": "schedule",
    }
    with pytest.warns(AssumptionWarning, match=f"{factor:.3g} > 1 cannot happen") as caught:
        assert calls_until(problem, 1e-6, **options) == calls <= 400
    assert len(caught) == 1
    assert caught[0].filename == __file__
    with pytest.warns(AssumptionWarning):
        result = minimize_agd(problem.fun, problem.x0, maxiter=50, **options)
    assert result.gap_bound is None
    assert np.argmax(np.isnan(result.history["gap_bound"])) == step + 1
    with pytest.raises(ValueError, match="radius, gap0 or smoothness is wrong"):
        minimize_agd(problem.fun, problem.x0, strict=True, **options)


def test_a_radius_too_large_is_only_slower():
    problem = exponential_valley()
    for grow, most in [(1.0, 307), (3.0, 519), (10.0, 1000)]:
        options = {"smoothness": VALLEY, "gap0": problem.gap, "mode": "schedule"}
        assert calls_until(problem, 1e-6, radius=grow * problem.radius, **options) <= most


def test_a_law_too_small_is_found_out():
    problem = spectrum_cosh(8.0)
    with pytest.warns(AssumptionWarning, match="smoothness is wrong"):
        minimize_agd(
            problem.fun, problem.x0, smoothness=L0L1Smooth(0.02, 0.5), radius=1.0, gap0=problem.gap,
            mode="schedule", maxiter=200,
        )  # fmt: skip


# What is returned


def test_counts_are_those_of_the_functions():
    calls = {"f": 0, "g": 0}

    def f(x):
        calls["f"] += 1
        return cosh(x)[0]

    def g(x):
        calls["g"] += 1
        return np.sinh(x)

    for options in (
        {"smoothness": UNIT},
        {"smoothness": UNIT, "radius": 4.0, "mode": "two_stage"},
        {"smoothness": UNIT, "radius": 4.0, "mode": "two_stage", "f_star": 0.0},
        {},
    ):
        calls["f"] = calls["g"] = 0
        result = minimize_agd(f, [3.0, -2.0], g, **options)
        assert result.success
        assert (result.nfev, result.njev) == (calls["f"], calls["g"])
        assert result.njev >= result.nit + result.n_rejected + 1
        assert result.fun == cosh(result.x)[0]
        assert result.history["njev"][-1] == result.njev
        assert len(result.history["fun"]) == result.nit + 1
    # A law needs the value only at the ends; a line search needs it at every trial.
    assert minimize_agd(f, [3.0, -2.0], g, smoothness=UNIT).nfev == 2
    result = minimize_agd(f, [3.0, -2.0], g)
    assert result.nfev == result.njev


def test_jac_true_and_jac_callable_take_the_same_path():
    for options in ({"smoothness": UNIT}, {}):
        one = minimize_agd(cosh, [3.0, -2.0], **options)
        other = minimize_agd(lambda x: cosh(x)[0], [3.0, -2.0], np.sinh, **options)
        np.testing.assert_array_equal(one.x, other.x)


def test_stopping():
    options = {"smoothness": UNIT, "radius": 4.0}
    result = minimize_agd(cosh, [3.0, -2.0], gap_tol=1e-3, **options)
    assert result.success
    assert result.status == 0
    assert result.fun <= result.gap_bound <= 1e-3
    result = minimize_agd(cosh, [3.0, -2.0], gtol=1e-3, **options)
    assert result.success
    assert np.linalg.norm(result.jac) <= 1e-3 < result.history["gnorm"][-2]
    result = minimize_agd(cosh, [3.0, -2.0], maxiter=3, **options)
    assert (result.status, result.nit, result.success) == (1, 3, False)
    for mode in ("two_stage", "adaptive", "linesearch"):
        result = minimize_agd(cosh, [3.0, -2.0], max_ngev=2, mode=mode, **options)
        assert (result.status, result.njev) == (2, 2)
    assert minimize_agd(cosh, [3.0], max_ngev=1, **options).nit == 0


def test_a_start_at_the_minimizer_is_success():
    for mode in ("two_stage", "schedule", "adaptive", "linesearch"):
        result = minimize_agd(
            cosh, [0.0, 0.0], smoothness=UNIT, radius=1.0, f_star=0.0, mode=mode, gtol=0.0
        )
        assert result.success
        assert result.gap_bound == 0.0
    assert minimize_agd(cosh, [0.0]).gap_bound is None


def test_it_stalls_rather_than_loops():
    gradients = iter([np.ones(1)])
    result = minimize_agd(
        lambda x: (0.0, next(gradients, np.full_like(x, math.nan))), [1.0], smoothness=LSmooth(2.0)
    )
    assert result.status == 3
    assert not result.success
    np.testing.assert_array_equal(result.x, [1.0])


def test_callback_may_stop_and_cannot_disturb():
    seen = []

    def callback(intermediate_result):
        assert isinstance(intermediate_result, OptimizeResult)
        seen.append(intermediate_result.fun)
        intermediate_result.x[:] = math.nan
        if len(seen) == 4:
            raise StopIteration

    result = minimize_agd(
        lambda x: cosh(x)[0], [3.0, -2.0], np.sinh, smoothness=UNIT, callback=callback
    )
    assert (result.status, result.nit, result.success) == (99, 4, False)
    assert np.isfinite(seen).all()
    assert np.isfinite(result.x).all()


def test_functions_that_reuse_or_overwrite_their_buffers_change_nothing():
    buffer = np.empty(2)

    def rude(x):
        value = cosh(x)[0]
        np.sinh(x, out=buffer)
        x[:] = math.nan
        return value, buffer

    for options in ({"smoothness": UNIT}, {}):
        np.testing.assert_array_equal(
            minimize_agd(rude, [3.0, -2.0], **options).x,
            minimize_agd(cosh, [3.0, -2.0], **options).x,
        )


def test_float32_is_kept_and_its_limit_is_said():
    x0 = np.array([3.0, -2.0], dtype=np.float32)

    def fun(x):
        assert x.dtype == np.float32
        return cosh(x)

    result = minimize_agd(fun, x0, smoothness=UNIT, gtol=1e-4)
    assert result.x.dtype == np.float32
    assert result.success
    with pytest.warns(AssumptionWarning, match="float32"):
        minimize_agd(fun, x0, smoothness=UNIT, gtol=1e-6, maxiter=50)
    assert minimize_agd(cosh, [3, -2], smoothness=UNIT).x.dtype == np.float64


def test_large_gradients_do_not_overflow_the_norm():
    result = minimize_agd(cosh, [350.0], smoothness=UNIT, maxiter=2000)
    assert result.success


# Arguments


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "newton"}, "mode must be 'auto' or one of two_stage"),
        ({"mode": "schedule"}, "needs smoothness; mode='linesearch' does without"),
        ({"mode": "two_stage", "smoothness": UNIT}, "needs radius; mode='adaptive' does without"),
        ({"radius": 0.0}, "radius must be > 0 and finite, got 0.0"),
        ({"radius": math.nan}, "radius must be > 0"),
        ({"gap0": -1.0}, "gap0 must be >= 0 and finite, got -1.0"),
        ({"f_star": 100.0}, "f_star must be <= fun"),
        ({"gap_tol": 1e-3}, "gap_tol needs a certified gap"),
        ({"gap_tol": 0.0, "radius": 1.0}, "gap_tol must be > 0"),
        ({"gtol": -1.0}, "gtol must be >= 0"),
        ({"maxiter": 0}, "maxiter must be >= 1"),
        ({"max_ngev": 0}, "max_ngev must be >= 1"),
        ({"restart": True, "smoothness": UNIT}, "restart=True needs mode='linesearch'"),
        ({"restart": True, "radius": 1.0, "gap_tol": 1e-3}, "restart=False"),
        ({"jac": "2-point"}, "jac must be True"),
    ],
)
def test_bad_arguments_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        minimize_agd(cosh, [1.0], **options)


@pytest.mark.parametrize(
    ("x0", "message"),
    [
        ([math.nan], "x0 must be finite"),
        ([[1.0]], "x0 must be a vector"),
        ([], "x0 must be a vector"),
        ([2000.0], "x0 must have a finite value and gradient"),
    ],
)
def test_bad_starts_are_named(x0, message):
    with pytest.raises(ValueError, match=message):
        minimize_agd(cosh, x0)


def test_other_bad_types():
    with pytest.raises(TypeError, match="CallableSmooth makes one"):
        minimize_agd(cosh, [1.0], smoothness=lambda s: 1.0 + s)
    with pytest.raises(TypeError, match="fun must be callable"):
        minimize_agd(3.0, [1.0])
    with pytest.raises(ValueError, match="gradient must have the shape"):
        minimize_agd(lambda x: (1.0, np.ones(3)), [1.0])
    with pytest.raises(ValueError, match="must return a scalar"):
        minimize_agd(lambda x: (np.ones(2), x), [1.0])


# SciPy


def test_scipys_minimize_gives_the_same_point():
    options = {"smoothness": UNIT, "radius": 4.0, "mode": "schedule", "maxiter": 50}
    expected = minimize_agd(cosh, [3.0, -2.0], **options)
    for jac, fun in [(True, cosh), (np.sinh, lambda x: cosh(x)[0])]:
        result = minimize(fun, [3.0, -2.0], jac=jac, method=scipy_agd, options=options)
        np.testing.assert_array_equal(result.x, expected.x)
        assert (result.nit, result.status) == (50, 1)
        assert result.fun == expected.fun
    direct = scipy_agd(cosh, [3.0, -2.0], jac=True, **options)
    np.testing.assert_array_equal(direct.x, expected.x)


def test_scipys_args_and_callbacks_pass_through():
    def fun(x, scale):
        return scale * cosh(x)[0], scale * np.sinh(x)

    expected = minimize_agd(lambda x: fun(x, 3.0), [3.0, -2.0], smoothness=UNIT)
    result = minimize(
        fun, [3.0, -2.0], args=(3.0,), jac=True, method=scipy_agd, options={"smoothness": UNIT}
    )
    np.testing.assert_array_equal(result.x, expected.x)
    seen = []

    def old_style(xk):
        seen.append(xk)

    def new_style(intermediate_result):
        seen.append(intermediate_result.x)
        raise StopIteration

    for callback, nit in [(old_style, 5), (new_style, 1)]:
        seen.clear()
        result = minimize(
            cosh, [3.0, -2.0], jac=True, method=scipy_agd, callback=callback,
            options={"smoothness": UNIT, "maxiter": 5},
        )  # fmt: skip
        assert result.nit == len(seen) == nit
        np.testing.assert_array_equal(seen[-1], result.x)


def test_scipys_tolerance_and_display(capsys):
    options = {"smoothness": UNIT, "disp": True}
    loose = minimize(cosh, [3.0], jac=True, method=scipy_agd, tol=1e-1, options=options)
    assert 1e-8 < np.linalg.norm(loose.jac) <= 1e-1
    assert f"{loose.njev} gradients" in capsys.readouterr().out
    options = {"smoothness": UNIT, "gtol": 1e-6}
    named = minimize(cosh, [3.0], jac=True, method=scipy_agd, tol=1e-1, options=options)
    assert np.linalg.norm(named.jac) <= 1e-6
    assert not capsys.readouterr().out


@pytest.mark.parametrize("radius", [1e-170, 1e200])
def test_a_radius_beyond_the_numbers_is_named(radius):
    with pytest.raises(ValueError, match=r"give Gamma_0 = .*scale the problem"):
        minimize_agd(cosh, [3.0], smoothness=UNIT, radius=radius)


def test_scipys_other_arguments_are_refused():
    with pytest.raises(ValueError, match="jac must be True or a callable"):
        minimize(lambda x: cosh(x)[0], [1.0], method=scipy_agd)
    with pytest.raises(ValueError, match="bounds and constraints"):
        minimize(cosh, [1.0], jac=True, method=scipy_agd, bounds=[(0, 1)])


def test_nothing_warns_on_a_right_problem():
    problem = exponential_valley()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for mode in ("two_stage", "schedule", "adaptive", "linesearch"):
            minimize_agd(
                problem.fun, problem.x0, smoothness=VALLEY, radius=problem.radius, mode=mode,
                maxiter=500,
            )  # fmt: skip
