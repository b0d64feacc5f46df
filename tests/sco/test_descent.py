import math

import numpy as np
import pytest
from tests.sco.reference import GOLAY, in_ball, instance

from fallline.sco import CertificateError, HardInstance, bounds, rs_golay_code


def plain_gd(inst, Z, eta, T):
    """All iterates x_0 .. x_T, one subgradient at a time."""
    x, iterates = np.zeros(inst.d), [np.zeros(inst.d)]
    for _ in range(T):
        x = x - eta * inst.subgradient(x, Z)
        x /= max(1.0, np.linalg.norm(x))
        iterates.append(x)
    return np.array(iterates)


@pytest.mark.parametrize("oracle", ["auto", "certified", "enumerate"])
@pytest.mark.parametrize("plain", [False, True])
def test_gd_is_the_textbook_loop(oracle, plain):
    inst = instance(23, plain=plain, oracle=oracle)
    Z, eta, T = inst.sample(6, 0), 0.15, 2500
    xs = plain_gd(instance(23, plain=plain, oracle="enumerate"), Z, eta, T)
    assert np.linalg.norm(xs[-1][12:]) > inst.rho0
    answers = {"last": xs[T], "mean": xs[:T].mean(axis=0), "suffix": xs[T // 2 : T].mean(axis=0)}
    for average, expected in answers.items():
        run = inst.gd(Z, eta, T, average=average)
        np.testing.assert_allclose(run.x, expected, atol=1e-12)
        assert run.t[-1] == T
        assert run.excess[-1] == pytest.approx(inst.excess_risk(expected), abs=1e-12)
        assert run.F_S[-1] == pytest.approx(inst.empirical_risk(expected, Z), abs=1e-12)
        np.testing.assert_array_equal(run.F, inst.minimum + run.excess)
        at = len(run.t) // 2
        t = run.t[at]
        middle = {"last": xs[t], "mean": xs[:t].mean(0), "suffix": xs[t // 2 : t].mean(0)}
        assert run.excess[at] == pytest.approx(inst.excess_risk(middle[average]), abs=1e-12)


def test_gd_projects_on_the_ball_it_is_given():
    run = GOLAY.gd(range(6), 0.15, 2000, radius=0.3)
    assert np.linalg.norm(run.x) == pytest.approx(0.3)
    assert run.excess[-1] < GOLAY.gd(range(6), 0.15, 2000).excess[-1]


def test_gd_says_where_the_decoder_cannot_follow():
    inst = HardInstance.for_sample_size(18)
    Z = inst.sample(18, 0)
    eta = inst.theta * inst.N  # so that y falls from theta to -theta / 2 in one step
    with pytest.raises(CertificateError, match="coupling term"):
        inst.gd(Z, eta, 100_000)


def test_gd_ends_at_the_erm():
    inst = HardInstance.for_sample_size(18)
    Z, eta = inst.sample(18, 0), 0.19
    T = math.ceil(100 * 18**1.5 / eta)
    run, certificate = inst.gd(Z, eta, T), inst.erm(Z)
    assert run.excess[-1] == pytest.approx(inst.excess_risk(certificate.x), rel=0.05)
    assert np.abs(run.x[inst.N :] - certificate.x[inst.N :]).max() < 1e-4
    plateau = run.excess[(run.t * eta / 18**1.5 > 0.5) & (run.t * eta / 18**1.5 < 20)]
    assert 0.035 < plateau.min() < plateau.max() < 0.05


@pytest.mark.parametrize("seed", range(3))
def test_last_iterate_has_the_excess_of_the_lower_bound(seed):
    m, X, code = 60, 1.0, rs_golay_code(10)
    Z = np.random.default_rng(seed).integers(code.N, size=m)
    eta = 0.5 / math.sqrt(code.N) * m / (2 * np.bincount(Z).max())
    T = math.ceil(X * m**1.5 / eta)
    inst = HardInstance.for_gradient_descent(code, eta, T)
    run = inst.gd(Z, eta, T)
    Phi = inst.excess_parts(run.x).Phi
    unseen = 1 - len(set(Z.tolist())) / code.N
    expected = unseen * code.delta * math.sqrt(0.5 / (4 * 2**1.5)) * math.sqrt(eta * T / m**1.5)
    assert Phi == pytest.approx(expected, rel=0.1)
    assert expected == pytest.approx(bounds.gd_lower(eta, T, m, code.delta, unseen=unseen))
    # u_T is r w_s but for the first step, which starts where the coupling does not push.
    assert np.linalg.norm(run.x[inst.N :]) == pytest.approx(inst.r * (1 - 1 / T))
    assert run.F[-1] - run.F_S[-1] <= bounds.gd_stability_upper(eta, T, m, inst.L)


def test_averaged_iterate_has_half_of_its_excess():
    m, code = 60, rs_golay_code(10)
    Z = np.random.default_rng(0).integers(code.N, size=m)
    eta = 0.5 / math.sqrt(code.N) * m / (2 * np.bincount(Z).max())
    T = math.ceil(20 * m**1.5 / eta)
    inst = HardInstance.for_gradient_descent(code, eta, T, average="mean")
    run = inst.gd(Z, eta, T, average="mean")
    # The average of u is r (1 - (1 - exp(-kappa)) / kappa) w with kappa = 2 / delta.
    unseen = 1 - len(set(Z.tolist())) / code.N
    Phi = inst.excess_parts(run.x).Phi
    assert Phi == pytest.approx(unseen * inst.r * code.delta / 2, rel=0.05)


def test_sgd_is_the_textbook_loop():
    Z, eta = GOLAY.sample(6, 2), 1 / (GOLAY.L * math.sqrt(6))
    x, xs = np.zeros(36), []
    for z in [*Z, *Z]:
        xs.append(x)
        x = x - eta * GOLAY.subgradient(x, z)
        x /= max(1.0, np.linalg.norm(x))
    np.testing.assert_allclose(GOLAY.sgd(Z).x, np.mean(xs[:6], axis=0), atol=1e-15)
    twice = GOLAY.sgd(Z, eta, passes=2)
    np.testing.assert_allclose(twice.x, np.mean(xs, axis=0), atol=1e-15)
    assert twice.t[-1] == 12


@pytest.mark.parametrize("m", [2, 6, 18, 60, 240])
def test_sgd_learns(m):
    inst = HardInstance.for_sample_size(m)
    for seed in range(5):
        Z = inst.sample(m, seed)
        run, erm = inst.sgd(Z), inst.excess_risk(inst.erm(Z).x)
        assert run.excess[-1] <= bounds.sgd(m, inst.L)
        assert m < 240 or erm >= 10 * run.excess[-1]


@pytest.mark.parametrize("lam", [0.01, 0.3, 5.0])
def test_regularized_erm_is_the_minimizer(lam):
    rng = np.random.default_rng(0)
    for inst in (instance(7), GOLAY, instance(23, plain=True)):
        Z = inst.sample(inst.m, 3)
        run = inst.regularized_erm(Z, lam)
        assert run.t.tolist() == [0]
        value = run.F_S[0] + lam / 2 * (run.x @ run.x)
        assert run.F_S[0] == inst.empirical_risk(run.x, Z)
        for scale in (1e-3, 0.5):
            for h in in_ball(rng, inst.d, 100, radius=scale):
                x = run.x + h
                other = inst.empirical_risk(x, Z) + lam / 2 * (x @ x)
                assert other >= value + (inst.lam + lam) / 2 * (h @ h) - 1e-15


def test_regularized_erm_learns():
    for m, expected in ((6, 0.037), (18, 0.022), (60, 0.012), (240, 0.0062)):
        inst = HardInstance.for_sample_size(m, family="rs-golay")
        lam = inst.L / math.sqrt(m)
        excess = [inst.regularized_erm(inst.sample(m, seed), lam).excess[0] for seed in range(5)]
        assert np.mean(excess) == pytest.approx(expected, rel=0.05)


def test_regularized_erm_without_a_closed_form_descends():
    # With a tiny regularizer on the plain instance the ball binds, and other words may charge.
    inst, Z, lam = instance(7, plain=True, r=0.4), [0, 1], 0.03
    run = inst.regularized_erm(Z, lam, T=20_000)
    assert run.t[-1] == 20_000
    value = inst.empirical_risk(run.x, Z) + lam / 2 * (run.x @ run.x)
    problem = inst.to_cvxpy(Z)
    x = problem.variables()[0]
    import cvxpy

    objective = problem.objective.expr + lam / 2 * cvxpy.sum_squares(x)
    exact = cvxpy.Problem(cvxpy.Minimize(objective), problem.constraints).solve(cvxpy.CLARABEL)
    assert exact - 1e-7 <= value <= exact + 1e-3


@pytest.mark.parametrize("lam", [1e-2, 1e-4, 1e-6])
def test_regularized_erm_is_close_however_small_the_regularizer(lam):
    inst = instance(7, plain=True)
    Z = inst.sample(inst.m, 0)
    run = inst.regularized_erm(Z, lam)
    value = inst.empirical_risk(run.x, Z) + lam / 2 * (run.x @ run.x)
    import cvxpy

    problem = inst.to_cvxpy(Z)
    x = problem.variables()[0]
    objective = problem.objective.expr + lam / 2 * cvxpy.sum_squares(x)
    exact = cvxpy.Problem(cvxpy.Minimize(objective), problem.constraints).solve(cvxpy.CLARABEL)
    assert exact - 1e-7 <= value <= exact + (inst.L + lam) / math.sqrt(10_000)


def test_grids_are_logarithmic_and_end_at_the_horizon():
    assert GOLAY.gd([0], 0.1, 1).t.tolist() == [1]
    t = GOLAY.gd([0], 0.1, 1000).t
    assert t[0] == 1
    assert t[-1] == 1000
    assert 20 < len(t) < 40
    assert (np.diff(t) > 0).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: GOLAY.gd([0], 0.0, 5), "eta must be > 0"),
        (lambda: GOLAY.gd([0], math.nan, 5), "eta must be > 0"),
        (lambda: GOLAY.gd([0], 0.1, 0), "T must be >= 1"),
        (lambda: GOLAY.gd([0], 0.1, 5, radius=1.5), r"radius must lie in \(0, 1\]"),
        (lambda: GOLAY.gd([0], 0.1, 5, average="best"), 'average must be "last", "mean"'),
        (lambda: GOLAY.sgd([0], passes=0), "passes must be >= 1"),
        (lambda: GOLAY.sgd([0], -1.0), "eta must be > 0"),
        (lambda: GOLAY.regularized_erm([0], 0.0), "lam must be > 0"),
        (lambda: GOLAY.regularized_erm(range(7), 0.1), "at most m = 6 points"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: GOLAY.gd([0], 0.1, 10.5), "T must be an int, got 10.5"),
        (lambda: HardInstance(GOLAY.code, 6.7), "m must be an int, got 6.7"),
        (lambda: GOLAY.sample(3, None), "random_state must be a seed or a generator"),
    ],
)
def test_what_is_no_integer_or_seed_is_refused(call, message):
    with pytest.raises(TypeError, match=message):
        call()
