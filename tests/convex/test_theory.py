"""What the proofs promise, checked on runs: Lyapunov decrease, certificates, rates, symmetries."""

import math

import numpy as np
import pytest
from scipy.integrate import quad

from fallline.convex import (
    L0L1Smooth,
    LSmooth,
    gd_l,
    minimize_agd,
)
from fallline.tasks import ConvexProblem, exponential_valley, spectrum_cosh

MODES = ("two_stage", "schedule", "adaptive", "linesearch")
PROBLEMS = {
    "spectrum": (spectrum_cosh(8.0), L0L1Smooth(1.0, 8.0)),
    "valley": (exponential_valley(), L0L1Smooth(2.0 * math.sqrt(math.e), 1.0)),
}


def run(problem, law, mode, **options):
    """Accepted points, the start among them, and the result."""
    points = [problem.x0]
    options = {"radius": problem.radius, "gap0": problem.gap, "gtol": 0.0} | options
    result = minimize_agd(
        problem.fun, problem.x0, smoothness=law, mode=mode,
        callback=lambda r: points.append(r.x), **options,
    )  # fmt: skip
    return np.array(points), result


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_lyapunov_function_falls_by_one_plus_alpha(name, mode):
    problem, law = PROBLEMS[name]
    points, result = run(problem, law, mode, maxiter=400)
    gap, gamma, Gamma = (result.history[k] for k in ("fun", "gamma", "Gamma"))
    first = result.stage1_nit
    u, V, checked = points[first], [], 0
    # Stage 2 starts with a Gamma that the history shows from its first step on.
    Gamma_k = None
    for k in range(first + 1, len(points)):
        if Gamma_k is None:
            Gamma_k = gamma_before(gamma[k], Gamma[k])
            V = gap[first] + 0.5 * Gamma_k * np.sum((u - problem.x_star) ** 2)
        alpha = math.sqrt(gamma[k] * Gamma_k)
        u = u - alpha / Gamma_k * problem.fun(points[k])[1]
        Gamma_k = Gamma[k]
        V_next = gap[k] + 0.5 * Gamma_k * np.sum((u - problem.x_star) ** 2)
        if gap[k] > 1e-12:
            assert (1.0 + alpha) * V_next <= V * (1.0 + 1e-9)
            checked += 1
        V = V_next
    assert checked > 100


def gamma_before(gamma, Gamma_after):
    """Solve Gamma / (1 + sqrt(gamma Gamma)) = Gamma_after."""
    a = Gamma_after * math.sqrt(gamma)
    root = 0.5 * (a + math.sqrt(a * a + 4.0 * Gamma_after))
    return root * root


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_certificate_lies_above_the_gap(name, mode):
    problem, law = PROBLEMS[name]
    _, result = run(problem, law, mode, maxiter=800)
    assert (result.history["fun"] <= result.history["gap_bound"] * (1 + 1e-12)).all()
    delta = 2.0 * problem.gap
    Gamma = result.history["Gamma"]
    if mode in ("schedule", "adaptive"):
        assert (result.history["fun"] <= delta * Gamma / Gamma[0] * (1 + 1e-12)).all()
    assert result.gap_bound < 3e-3


def test_gamma_telescopes():
    # 1 / sqrt(Gamma+) - 1 / sqrt(Gamma) = sqrt(gamma) / (1 + sqrt(1 + alpha))
    problem, law = PROBLEMS["spectrum"]
    _, result = run(problem, law, "schedule", maxiter=300)
    gamma, Gamma = result.history["gamma"][1:], result.history["Gamma"]
    alpha = np.sqrt(gamma * Gamma[:-1])
    steps = np.sqrt(gamma) / (1.0 + np.sqrt(1.0 + alpha))
    np.testing.assert_allclose(np.diff(Gamma**-0.5), steps, rtol=1e-9)


def test_stage_two_takes_no_more_calls_than_its_bound():
    problem, law = PROBLEMS["spectrum"]
    for eps in (1e-4, 1e-6):
        _, result = run(problem, law, "two_stage", maxiter=1500, gap0=None)
        first = result.stage1_nit
        stage_two = int(np.argmax(result.history["fun"] <= eps)) - first + 1
        Gamma_0 = gamma_before(
            result.history["gamma"][first + 1], result.history["Gamma"][first + 1]
        )
        alpha_0 = math.sqrt(0.5 * Gamma_0)
        bound = 1.0 + (1.0 + math.sqrt(1.0 + alpha_0)) * math.sqrt(2.0) / math.sqrt(eps)
        assert stage_two <= bound


def test_the_bregman_bound_on_random_pairs():
    # f = sum (cosh(2 x) - 1) / 4 is (1, 2)-smooth.
    rng, law = np.random.default_rng(0), L0L1Smooth(1.0, 2.0)
    for _ in range(2000):
        d = rng.integers(1, 6)
        x, h = rng.standard_normal((2, d)) * rng.uniform(0.05, 2.0)
        gx, gy = np.sinh(2.0 * x) / 2.0, np.sinh(2.0 * (x + h)) / 2.0
        turned = gx - gy
        # f(x + h) - f(x) - <g(x), h>, without cancellation
        bend = np.sinh(2 * x) * (np.sinh(2 * h) - 2 * h) / 2
        bregman = 0.5 * np.sum(np.cosh(2 * x) * np.sinh(h) ** 2 + bend)

        def density(v, gy=gy, turned=turned):
            return (1.0 - v) / law(np.linalg.norm(gy + v * turned))

        nearest = float(np.clip(-(gy @ turned) / (turned @ turned), 1e-9, 1 - 1e-9))
        integral = sum(
            quad(density, a, b, epsabs=0.0)[0] for a, b in [(0.0, nearest), (nearest, 1.0)]
        )
        least = turned @ turned * integral
        assert least <= bregman * (1 + 1e-7)
        steepest = max(np.linalg.norm(gx), np.linalg.norm(gy))
        assert turned @ turned / (2.0 * law(steepest)) <= least * (1 + 1e-7)


def test_gradient_descent_descends_and_is_fejer_monotone():
    problem, law = PROBLEMS["spectrum"]
    points = [problem.x0]
    result = gd_l(
        problem.fun, problem.x0, smoothness=law, maxiter=200,
        callback=lambda r: points.append(r.x),
    )  # fmt: skip
    f, s, gamma = (result.history[k] for k in ("fun", "gnorm", "gamma"))
    assert (np.diff(f) <= -0.5 * gamma[1:] * s[:-1] ** 2 * (1 - 1e-9)).all()
    distance = np.linalg.norm(np.array(points) - problem.x_star, axis=1)
    assert (np.diff(distance) <= 0.0).all()


@pytest.mark.parametrize("mode", MODES)
def test_rotating_the_problem_rotates_the_iterates(mode):
    problem, law = spectrum_cosh(4.0, d=12), L0L1Smooth(1.0, 4.0)
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((12, 12)))[0]

    def fun(x):
        f, g = problem.fun(Q @ x)
        return f, Q.T @ g

    rotated = ConvexProblem(fun, Q.T @ problem.x0, np.zeros(12))
    points, _ = run(problem, law, mode, maxiter=60)
    turned, _ = run(rotated, law, mode, maxiter=60)
    np.testing.assert_allclose(turned, points @ Q, atol=1e-9)


@pytest.mark.parametrize("mode", MODES)
def test_scaling_the_problem_changes_no_step(mode):
    base, law = spectrum_cosh(4.0, d=12), L0L1Smooth(1.0, 4.0)
    c, t = 7.0, 3.0
    taller = ConvexProblem(lambda x: tuple(c * v for v in base.fun(x)), base.x0, np.zeros(12))
    # f(t x): gradients grow by t, curvature by t^2
    narrower = ConvexProblem(
        lambda x: (base.fun(t * x)[0], t * base.fun(t * x)[1]), base.x0 / t, np.zeros(12)
    )
    points, _ = run(base, law, mode, maxiter=80)
    scaled, _ = run(taller, L0L1Smooth(c, 4.0), mode, maxiter=80)
    np.testing.assert_allclose(scaled, points, atol=1e-9)
    scaled, _ = run(narrower, L0L1Smooth(t * t, 4.0 * t), mode, maxiter=80)
    np.testing.assert_allclose(t * scaled, points, atol=1e-9)


def calls(problem, eps, method, **options):
    seen = minimize_until(problem, min(eps), method, **options)
    return [int(np.argmax(seen <= e)) + 1 for e in eps]


def minimize_until(problem, eps, method, **options):
    gaps = []

    def fun(x):
        value, gradient = problem.fun(x)
        gaps.append(value)
        if value <= eps:
            raise StopIteration
        return value, gradient

    with pytest.raises(StopIteration):
        method(fun, problem.x0, gtol=0.0, maxiter=10**6, **options)
    return np.array(gaps)


def test_rates_in_eps():
    problem, law = PROBLEMS["spectrum"]
    eps = [1e-6, 1e-7, 1e-8]
    counts = calls(problem, eps, minimize_agd, smoothness=law, radius=1.0, gap0=problem.gap)
    slope = np.polyfit(np.log(eps), np.log(counts), 1)[0]
    assert -0.55 <= slope <= -0.45
    eps = [1e-4, 1e-5, 1e-6]
    counts = calls(problem, eps, gd_l, smoothness=law)
    slope = np.polyfit(np.log(eps), np.log(counts), 1)[0]
    assert -1.05 <= slope <= -0.9


def test_the_calls_of_adaptive_for_a_small_gap_do_not_know_how_steep_the_start_was():
    counts = []
    for L1R in (1.0, 4.0, 8.0, 16.0):
        problem, law = spectrum_cosh(L1R), L0L1Smooth(1.0, L1R)
        counts += calls(problem, [1e-7], minimize_agd, smoothness=law, radius=1.0, gap0=problem.gap)
    assert counts == [683, 684, 687, 688]


def test_a_wrong_start_of_gamma_costs_next_to_nothing():
    problem, law = PROBLEMS["spectrum"]
    counts = [
        calls(problem, [1e-7], minimize_agd, smoothness=law, radius=r, gap0=problem.gap)[0]
        for r in (0.1, 1.0, 10.0)
    ]
    assert max(counts) / min(counts) < 1.03


def test_a_thousand_random_certificates():
    rng = np.random.default_rng(0)
    worst_gap = worst_step = 0.0
    for k in range(1000):
        d, L1 = rng.integers(1, 8), rng.uniform(0.05, 6.0)
        lam = 10.0 ** rng.uniform(-3.0, 0.0, d)
        lam[0] = 1.0
        x0 = rng.standard_normal(d)
        x0 /= np.linalg.norm(x0)
        law = L0L1Smooth(1.0, L1)

        def fun(x, lam=lam, L1=L1):
            value = 2.0 / L1**2 * float(lam @ np.sinh(0.5 * L1 * x) ** 2)
            return value, lam * np.sinh(L1 * x) / L1

        result = minimize_agd(
            fun, x0, smoothness=law, radius=1.0, mode=MODES[k % 3], gap0=fun(x0)[0], maxiter=60,
            gtol=0.0,
        )  # fmt: skip
        history = result.history
        positive = history["gap_bound"] > 0.0
        worst_gap = max(worst_gap, np.max((history["fun"] / history["gap_bound"])[positive]))
        first = result.stage1_nit
        s = history["gnorm"]
        excess = history["gamma"][first + 1 :] * law(np.maximum(s[first + 1 :], s[first:-1]))
        worst_step = max(worst_step, excess.max(initial=0.0))
    assert worst_gap <= 1.0
    assert worst_step <= 1.0 + 1e-12


def test_the_gradient_norm_times_the_radius_alone_certifies_nothing():
    # Momentum carries y beyond x* to the flat side of a kink, further away than the start was:
    # there f - f* exceeds ||g|| R. The certificate knows how far momentum can carry.
    right, left, w, start = 29.31475495748793, 0.021974387497658916, 0.010456651443851415, 4.94
    w_left = 0.10606360865936369

    def fun(x):
        slope, width = (right, w) if x[0] > 0.0 else (left, w_left)
        z = abs(float(x[0])) / width
        log_cosh = (
            0.5 * math.log1p(math.sinh(z) ** 2)
            if z < 1.0
            else (z + math.log1p(math.exp(-2.0 * z)) - math.log(2.0))
        )
        return slope * width * log_cosh, np.array([math.copysign(slope * math.tanh(z), x[0])])

    law = LSmooth(max(right / w, left / w_left))
    for mode in ("schedule", "adaptive", "two_stage"):
        result = minimize_agd(
            fun, [start], smoothness=law, radius=start, f_star=0.0, mode=mode, maxiter=320, gtol=0.0
        )
        gap, s = result.history["fun"], result.history["gnorm"]
        assert np.max(gap / (s * start)) > 1.2
        assert (gap <= result.history["gap_bound"] * (1 + 1e-12)).all()
