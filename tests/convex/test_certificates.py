import numpy as np
import pytest

from fallline.convex import (
    L0L1Smooth,
    cosh_smoothness,
    exp_affine_smoothness,
    gamma_smoothness,
    poisson_smoothness,
)


def spectral_norm(rows, weights):
    return np.linalg.norm((rows.T * weights) @ rows / len(rows), 2)


@pytest.mark.parametrize("seed", range(5))
def test_poisson_curvature_lies_below_its_law(seed):
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(80), rng.standard_normal((80, 5)) * rng.uniform(0.1, 2.0)])
    y = rng.poisson(2.0, 80).astype(float)
    law = poisson_smoothness(X, y)
    for _ in range(500):
        w = rng.standard_normal(6) * rng.uniform(0.0, 3.0)
        mu = np.exp(X @ w)
        gradient = X.T @ (mu - y) / 80
        assert spectral_norm(X, mu) <= law(np.linalg.norm(gradient)) * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_gamma_curvature_lies_below_its_law(seed):
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(80), rng.standard_normal((80, 5)) * rng.uniform(0.1, 2.0)])
    y = rng.gamma(2.0, 3.0, 80)
    law = gamma_smoothness(X)
    for _ in range(500):
        w = rng.standard_normal(6) * rng.uniform(0.0, 3.0)
        r = y * np.exp(-X @ w)
        gradient = X.T @ (1.0 - r) / 80
        assert spectral_norm(X, r) <= law(np.linalg.norm(gradient)) * (1 + 1e-12)


def test_an_intercept_beside_the_matrix_counts():
    X = np.array([[3.0, 0.0], [0.0, 2.0]])
    assert poisson_smoothness(X, [1, 3]) == L0L1Smooth(20.0, 10.0)
    assert poisson_smoothness(np.column_stack([np.ones(2), X]), [1, 3]) == L0L1Smooth(20.0, 10.0)
    assert gamma_smoothness(X) == L0L1Smooth(10.0, 10.0)


def test_dummy_coding_needs_no_intercept():
    dummies = np.eye(3)[[0, 1, 2, 2, 1]]  # X (1, 1, 1) = 1
    y = np.array([1.0, 2.0, 0.0, 5.0, 2.0])
    law = poisson_smoothness(dummies, y, intercept=False)
    assert pytest.approx(2.0) == law.L0
    assert pytest.approx(np.sqrt(3.0)) == law.L1
    rng = np.random.default_rng(0)
    for _ in range(200):
        w = rng.standard_normal(3) * 2.0
        mu = np.exp(dummies @ w)
        gradient = dummies.T @ (mu - y) / 5
        assert spectral_norm(dummies, mu) <= law(np.linalg.norm(gradient)) * (1 + 1e-12)
    with pytest.raises(ValueError, match="without an intercept"):
        poisson_smoothness([[1.0], [2.0]], [1, 1], intercept=False)
    with pytest.raises(ValueError, match="without an intercept"):
        gamma_smoothness([[1.0], [2.0]], intercept=False)


def test_weights_are_those_of_a_weighted_mean():
    X, y = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 9.0]]), np.array([1.0, 4.0, 100.0])
    repeated = poisson_smoothness(X[[0, 0, 1]], y[[0, 0, 1]])
    assert poisson_smoothness(X, y, sample_weight=[2.0, 1.0, 0.0]) == repeated


def test_the_helpers_for_cosh_and_exponentials():
    assert cosh_smoothness([2.0, 0.5], [1.0, 3.0]) == L0L1Smooth(4.5, 3.0)
    law = exp_affine_smoothness([1.0, 2.0], [-1.0, -2.0])
    rng = np.random.default_rng(0)
    a, c = np.array([1.0, 2.0]), np.array([-1.0, -2.0])
    for x in rng.standard_normal((200, 2)) * 2.0:
        e = np.exp(a @ x)
        assert e * (a @ a) <= law(np.linalg.norm(e * a + c)) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: poisson_smoothness([1.0, 2.0], [1, 2]), "X must be a matrix"),
        (lambda: poisson_smoothness([[np.nan]], [1]), "X must be finite"),
        (lambda: poisson_smoothness([[1.0]], [1, 2]), "y must have shape"),
        (lambda: poisson_smoothness([[1.0]], [-1]), "y must be finite and >= 0"),
        (lambda: poisson_smoothness([[1.0]], [0]), "all zero"),
        (lambda: poisson_smoothness([[1.0]], [1], sample_weight=[-1.0]), "sample_weight"),
        (lambda: poisson_smoothness([[1.0]], [1], sample_weight=[0.0]), "sample_weight"),
        (lambda: cosh_smoothness([0.0], 1.0), "weights must be > 0"),
        (lambda: cosh_smoothness([1.0], [-1.0]), "rates must be > 0"),
        (lambda: exp_affine_smoothness([0.0], [1.0]), "a must be a finite vector"),
        (lambda: exp_affine_smoothness([1.0], [1.0, 2.0]), "c must have a's shape"),
    ],
)
def test_bad_data_is_named(build, message):
    with pytest.raises(ValueError, match=message):
        build()
